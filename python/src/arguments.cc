#include "tensorcask/python/src/arguments.h"

#include <algorithm>
#include <map>
#include <optional>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "tensorcask/python/src/base/errors.h"
#include "tensorcask/python/src/base/interrupts.h"
#include "tensorcask/python/src/base/text.h"
#include "tensorcask/python/src/byte_sources.h"
#include "tensorcask/python/src/fsspec_files.h"
#include "tensorcask/python/src/remote.h"
#include "tensorcask/python/src/store_files.h"
#include "tensorcask/serialize/archive/archive.h"
#include "tensorcask/serialize/archive/archive_entry.h"
#include "tensorcask/serialize/archive/formats/all_formats.h"
#include "tensorcask/serialize/archive/formats/served_format.h"
#include "tensorcask/serialize/archive/rename_rules.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/dtype.h"

namespace nb = nanobind;

namespace tensorcask::python {
namespace {

// What was opened, and what it needs to stay alive.
template <typename Reader>
struct Opened {
  std::shared_ptr<FileSystem> files;
  Reader reader;
};

absl::StatusOr<std::shared_ptr<const BaseLookup>> OpenBaseCheckpoint(const std::string& path,
                                                                     std::shared_ptr<FileSystem> files) {
  if (path.empty()) return std::shared_ptr<const BaseLookup>();
  if (files == nullptr) {
    CASK_ASSIGN_OR_RETURN(files, FilesFor(path));
  }
  CheckpointReaderOptions options;
  options.read.file_system = files.get();
  CASK_ASSIGN_OR_RETURN(CheckpointReader reader, CheckpointReader::Open(path, options));
  const std::shared_ptr<const Opened<CheckpointReader>> opened(
      new Opened<CheckpointReader>{std::move(files), std::move(reader)});
  return std::shared_ptr<const BaseLookup>(opened, &opened->reader);
}

// As a parameter of type bool of the binder.
bool FromBool(nb::handle value, const char* what) {
  if (PyBool_Check(value.ptr())) return value.is(Py_True);
  PyErr_Format(PyExc_TypeError, "%s must be a bool, not %R", what, value.type().ptr());
  throw nb::python_error();
}

// Sets the field of an option whose type is not bool. Returns false, and sets nothing, for the value False.
bool SetField(const FormatOption& option, nb::handle value, FormatOptions* options) {
  const std::string word(option.keyword);
  if (const auto* const size = std::get_if<FormatOption::Field<uint64_t>>(&option.field)) {
    const auto number = nb::cast<int64_t>(value);
    if (number < 1) Raise(absl::InvalidArgumentError(absl::StrCat(word, " is ", number, "; wanted 1 or more")));
    *(*size)(options) = static_cast<uint64_t>(number);
  } else if (const auto* const path = std::get_if<FormatOption::Field<std::string>>(&option.field)) {
    *(*path)(options) = FromPath(value);
  } else if (const auto* const dtype = std::get_if<FormatOption::Field<DType>>(&option.field)) {
    *(*dtype)(options) = Take(ParseDType(FromText(value, word.c_str())));
  } else {
    const bool is_bool = PyBool_Check(value.ptr());
    if (is_bool && !value.is(Py_True)) return false;
    *std::get<FormatOption::Field<std::optional<std::string>>>(option.field)(options) =
        is_bool ? "" : FromText(value, word.c_str());
  }
  return true;
}

void SetLimits(nb::handle given, DecodeLimits* limits) {
  if (given.is_none()) return;
  for (const nb::handle item : ItemsOf(given, "limits", "ints")) {
    const nb::object value = item[1];
    int64_t number = 0;
    if (!PyLong_Check(value.ptr()) || PyBool_Check(value.ptr()) || !nb::try_cast(value, number)) {
      PyErr_Format(PyExc_TypeError, "a value of limits must be an int of 64 bits, not %R", value.ptr());
      throw nb::python_error();
    }
    Check(SetLimit(FromText(item[0], "a key of limits"), number, limits));
  }
}

}  // namespace

AllFormats FormatsWith(const FormatOptions& options, const std::optional<RemoteCredentials>& credentials) {
  std::vector<std::unique_ptr<const ArchiveFormat>> servers = RemoteFormats(credentials);
  servers.push_back(std::make_unique<ServedArchiveFormat>());
  return AllFormats(options, std::move(servers));
}

ArchiveFormats Formats() {
  static const AllFormats* const all = new AllFormats(FormatsWith({}));
  return all->list();
}

GivenFormatOptions FromFormatOptions(const nb::kwargs& keywords, FormatOption::Use use) {
  GivenFormatOptions result;
  for (const auto& [key, value] : keywords) {
    const std::string word = FromText(key, "a keyword");
    const absl::Span<const FormatOption> all = FormatOptionList();
    const auto option = std::find_if(all.begin(), all.end(),
                                     [&](const FormatOption& one) { return one.use == use && one.keyword == word; });
    if (option == all.end()) {
      result.others[key] = value;
    } else if (const auto* const flag = std::get_if<FormatOption::Field<bool>>(&option->field)) {
      *(*flag)(&result.options) = FromBool(value, word.c_str());
    } else if (!value.is_none() && SetField(*option, value, &result.options)) {
      result.given.push_back(&*option);
    }
  }
  return result;
}

void CheckGiven(const GivenFormatOptions& options, const ArchiveFormat& format) {
  for (const FormatOption* const option : options.given) {
    const std::string wrong = NotForFormat(*option, option->keyword, format);
    if (!wrong.empty()) Raise(absl::InvalidArgumentError(wrong));
  }
}

OpenArguments FromOpenArguments(nb::handle path, const nb::kwargs& reading, bool takes_file_system) {
  OpenArguments arguments;
  arguments.source = FromBytesOrFile(path);
  if (arguments.source == nullptr) arguments.path = FromPath(path);
  GivenFormatOptions of_formats = FromFormatOptions(reading, FormatOption::Use::kReading);
  arguments.of_formats = std::move(of_formats.options);
  ArchiveReaderOptions& options = arguments.options;
  const std::map<std::string, bool*> flags = {{"lenient", &options.lenient}, {"verify", &options.verify_checksums}};
  for (const auto& [key, value] : of_formats.others) {
    const std::string word = FromText(key, "a keyword");
    if (const auto flag = flags.find(word); flag != flags.end()) {
      *flag->second = FromBool(value, word.c_str());
    } else if (word == "base") {
      arguments.base = FromPathOrNone(value);
    } else if (word == "format") {
      if (!value.is_none()) options.format = FromText(value, "format");
    } else if (word == "limits") {
      SetLimits(value, &options.limits);
    } else if (word == "filesystem" && takes_file_system) {
      arguments.files = FromFileSystem(value, /*writes=*/false);
    } else if (word == "credentials" && takes_file_system) {
      arguments.credentials = FromCredentials(value);
    } else {
      PyErr_Format(PyExc_TypeError, "there is no argument '%s'", word.c_str());
      throw nb::python_error();
    }
  }
  if (arguments.files != nullptr && arguments.source != nullptr) {
    PyErr_SetString(PyExc_TypeError, "with filesystem, path must be a path");
    throw nb::python_error();
  }
  if (arguments.files == nullptr && IsRemote(arguments.path)) Grpc();
  arguments.held = arguments.files != nullptr ? arguments.files : Take(FilesFor(arguments.path));
  options.read.file_system = arguments.held.get();
  return arguments;
}

std::shared_ptr<const ArchiveReader> Open(const OpenArguments& arguments) {
  std::unique_ptr<ArchiveReader> reader = Take(WithoutGil([&]() -> absl::StatusOr<std::unique_ptr<ArchiveReader>> {
    ArchiveReaderOptions options = arguments.options;
    absl::StatusOr<std::shared_ptr<const BaseLookup>> base = OpenBaseCheckpoint(arguments.base, arguments.files);
    if (!base.ok()) return base.status();
    options.base = *std::move(base);
    const AllFormats formats = FormatsWith(arguments.of_formats, arguments.credentials);
    if (arguments.source != nullptr) return OpenArchive(arguments.source, formats.list(), options);
    return OpenArchive(arguments.path, formats.list(), options);
  }));
  using OpenedArchive = Opened<std::unique_ptr<ArchiveReader>>;
  const std::shared_ptr<const OpenedArchive> opened(new OpenedArchive{arguments.held, std::move(reader)});
  return std::shared_ptr<const ArchiveReader>(opened, opened->reader.get());
}

const ArchiveFormat& TargetFormat(const std::string& path, nb::handle format, ArchiveFormats formats) {
  if (!format.is_none()) return *Take(FindFormat(FromText(format, "format"), formats));
  absl::StatusOr<const ArchiveFormat*> found = FormatForName(path, formats);
  if (found.ok()) return **found;
  Raise(absl::Status(found.status().code(),
                     absl::StrCat(path, ": ", found.status().message(), "; name the format with format=")));
}

std::shared_ptr<const BaseLookup> OpenBase(const std::string& path, std::shared_ptr<FileSystem> files) {
  return Take(WithoutGil([&] { return OpenBaseCheckpoint(path, std::move(files)); }));
}

PayloadLevel FromLevel(nb::handle level) { return Take(ParsePayloadLevel(FromText(level, "level"))); }

FileMetadata FromMetadata(nb::handle metadata) {
  FileMetadata result;
  if (metadata.is_none()) return result;
  for (const nb::handle item : nb::iter(metadata.attr("items")())) {
    result[FromText(item[0], "a key of the metadata")] = FromText(item[1], "a value of the metadata");
  }
  return result;
}

nb::dict ToDict(const FileMetadata& metadata) {
  nb::dict result;
  for (const auto& [key, value] : metadata) result[ToText(key)] = ToText(value);
  return result;
}

std::function<absl::StatusOr<std::string>(absl::string_view)> FromRename(const ArchiveReader& archive,
                                                                         nb::handle rename) {
  if (rename.is_none()) return nullptr;
  if (nb::isinstance<nb::str>(rename) || nb::isinstance<nb::list>(rename) || nb::isinstance<nb::tuple>(rename)) {
    const std::vector<std::string> rules = FromNames(rename, "a rule of rename").value_or(std::vector<std::string>());
    return Take(CompileRenames(rules, {&archive}));
  }
  auto names = std::make_shared<std::map<std::string, std::string>>();
  const bool is_mapping = nb::hasattr(rename, "items");
  for (const ArchiveEntry& entry : archive.entries()) {
    const nb::object old_name = ToText(entry.name);
    const nb::object new_name = is_mapping ? rename.attr("get")(old_name, old_name) : rename(old_name);
    (*names)[entry.name] = FromText(new_name, "the new name of a tensor");
  }
  return [names](absl::string_view name) { return names->at(std::string(name)); };
}

nb::iterator ItemsOf(nb::handle mapping, const char* what, const char* of) {
  if (!nb::hasattr(mapping, "items")) {
    PyErr_Format(PyExc_TypeError, "%s must be a mapping of names to %s, not %R", what, of, mapping.type().ptr());
    throw nb::python_error();
  }
  return nb::iter(mapping.attr("items")());
}

Deadline FromTimeout(nb::handle timeout) {
  if (timeout.is_none()) return Deadline::Never();
  const auto seconds = nb::cast<double>(timeout);
  if (!(seconds >= 0)) Raise(absl::InvalidArgumentError("timeout must not be negative"));
  return Deadline(absl::Seconds(seconds));
}

int FromThreads(nb::handle threads, int most) {
  if (threads.is_none()) return std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, most);
  const auto number = nb::cast<int64_t>(threads);
  constexpr int64_t kLimit = 1024;
  if (number < 1 || number > kLimit) {
    Raise(absl::InvalidArgumentError(absl::StrCat("threads is ", number, "; wanted 1 to ", kLimit)));
  }
  return static_cast<int>(number);
}

}  // namespace tensorcask::python
