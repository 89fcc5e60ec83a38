#include "tensorcask/tools/subcommand.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/archive/convert_archives.h"
#include "tensorcask/serialize/archive/formats/all_formats.h"
#include "tensorcask/serialize/archive/formats/records_format.h"
#include "tensorcask/serialize/archive/similar_names.h"
#include "tensorcask/serialize/io/damage_mark.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/serialize/payload/payload_header.h"
#include "tensorcask/tensor/base/glob.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/dtype.h"

namespace tensorcask::tools {
namespace {

constexpr char kLeavesOut[] = "; --allow-loss leaves the tensor out";

void NoteLost(absl::string_view command, const absl::Status& status, Console& console) {
  console.err << "tensorcask " << command << ": lost: " << EscapeControls(status.message()) << '\n';
}

std::string Hint(const std::string& glob, const std::vector<ArchiveEntry>& entries) {
  std::vector<absl::string_view> names;
  names.reserve(entries.size());
  for (const ArchiveEntry& entry : entries) names.push_back(entry.name);
  return archive::HintForPattern(glob, names);
}

}  // namespace

bool MatchesSome(const std::vector<ArchiveEntry>& entries, const std::string& glob) {
  return std::any_of(entries.begin(), entries.end(),
                     [&](const ArchiveEntry& entry) { return MatchesGlob(glob, entry.name); });
}

std::string ExactName(const ArchiveReader& input, const std::string& name) {
  const std::string unescaped = Unescaped(name);
  return unescaped == name || input.Find(name).ok() || !input.Find(unescaped).ok() ? name : unescaped;
}

absl::Status CheckMatched(const std::vector<std::string>& globs, const std::vector<const ArchiveReader*>& inputs) {
  constexpr size_t kMaxNames = 100000;  // that are compared for a similar one
  std::vector<std::string> unmatched = globs;
  std::vector<std::string> names;
  for (const ArchiveReader* const input : inputs) {
    if (unmatched.empty()) break;
    CASK_RETURN_IF_ERROR(input->ForEachEntry([&](const ArchiveEntry& entry) {
      const auto matches = [&](const std::string& glob) { return MatchesGlob(glob, entry.name); };
      unmatched.erase(std::remove_if(unmatched.begin(), unmatched.end(), matches), unmatched.end());
      if (!unmatched.empty() && names.size() < kMaxNames) names.push_back(entry.name);
      return absl::OkStatus();
    }));
  }
  if (unmatched.empty()) return absl::OkStatus();
  const std::vector<absl::string_view> views(names.begin(), names.end());
  return Misuse(
      absl::StrCat(unmatched.front(), " matches no tensor", archive::HintForPattern(unmatched.front(), views)));
}

void NoteUnmatched(absl::string_view command, absl::string_view what, Console& console, const std::string& hint) {
  console.err << "tensorcask " << command << ": " << EscapeControls(what) << " matches no tensor" << hint << '\n';
}

void NoteOverlooked(absl::string_view command, const ArchiveReader& input, Console& console) {
  for (const std::string& note : input.notes()) {
    console.err << "tensorcask " << command << ": note: " << Printable(input.path()) << ": " << EscapeControls(note)
                << '\n';
  }
}

void NoteLeftOut(absl::string_view command, const ArchiveReader& input, Console& console) {
  std::vector<std::string> notes;
  for (const std::string& sentence : NotHeldBesideTensors(input, RecordsArchiveFormat())) {
    notes.push_back(absl::StrCat("left out: ", sentence));
  }
  PrintNotes(command, notes, console);
}

void PrintNotes(absl::string_view command, const std::vector<std::string>& notes, Console& console) {
  for (const std::string& note : notes) {
    console.err << "tensorcask " << command << ": " << EscapeControls(note) << '\n';
  }
}

void PrintRemoved(const std::vector<std::string>& paths, Console& console, bool is_dry_run) {
  for (const std::string& path : paths) {
    console.out << (is_dry_run ? "would remove: " : "removed: ") << Printable(path) << '\n';
  }
}

void NoteAllUnmatched(absl::string_view command, absl::string_view option, const std::vector<std::string>& globs,
                      const std::vector<ArchiveEntry>& entries, Console& console) {
  for (const std::string& glob : globs) {
    if (!MatchesSome(entries, glob)) NoteUnmatched(command, absl::StrCat(option, glob), console, Hint(glob, entries));
  }
}

absl::StatusOr<std::vector<const ArchiveEntry*>> SelectReadable(absl::string_view command, const ArchiveReader& input,
                                                                const std::vector<std::string>& include,
                                                                const std::vector<std::string>& exclude,
                                                                bool allow_loss, Console& console) {
  std::vector<const ArchiveEntry*> readable;
  for (const ArchiveEntry* const entry : SelectEntries(input.entries(), include, exclude)) {
    const absl::Status status = input.CheckReadable(*entry);
    if (status.ok()) {
      readable.push_back(entry);
    } else if (allow_loss) {
      NoteLost(command, status, console);
    } else {
      return AppendToMessage(status, kLeavesOut);
    }
  }
  return readable;
}

absl::StatusOr<std::optional<DecodedTensor>> ReadUnlessLost(absl::string_view command, const ArchiveReader& input,
                                                            const ArchiveEntry& entry, bool allow_loss,
                                                            Console& console) {
  absl::StatusOr<DecodedTensor> tensor = ReadForCopy(input, entry, allow_loss);
  if (tensor.ok()) return *std::move(tensor);
  if (!allow_loss) return AppendToMessage(tensor.status(), IsDamagedPart(tensor.status()) ? kLeavesOut : "");
  if (!IsDamagedPart(tensor.status())) return tensor.status();
  NoteLost(command, tensor.status(), console);
  return std::nullopt;
}

std::string NoSuchDType(const std::string& word) {
  constexpr int64_t kMaxNumber = 127;
  static constexpr std::pair<absl::string_view, absl::string_view> kOtherNames[] = {
      {"fp16", "float16"}, {"fp32", "float32"}, {"fp64", "float64"}, {"single", "float32"}};
  std::string hint = absl::StrCat("no dtype is called ", Quoted(word));
  const std::string lower = absl::AsciiStrToLower(word);
  for (const auto& [name, meant] : kOtherNames) {
    if (lower == name) return absl::StrCat(hint, "; did you mean ", Quoted(meant), "?");
  }
  for (const std::string& cased : {lower, absl::AsciiStrToUpper(word)}) {  // safetensors has F16, and no f16
    if (const absl::StatusOr<DType> dtype = ParseDType(cased); dtype.ok()) {
      return absl::StrCat(hint, "; did you mean ", Quoted(DTypeName(*dtype)), "?");
    }
  }
  std::vector<absl::string_view> names;
  for (int64_t number = 0; number <= kMaxNumber; ++number) {
    if (const std::optional<DType> dtype = DTypeFromNumber(number)) names.push_back(DTypeName(*dtype));
  }
  return absl::StrCat(hint, archive::DidYouMean(lower, names));
}

namespace {

// "500MB" limits the records on standard input, and "max_entries=500" a field of `limits`. Sets what it limits; the
// message if `text` is neither.
std::string ParseLimit(const std::string& text, uint64_t* record_bytes, DecodeLimits* limits) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos) return ParseSize(text, record_bytes);
  uint64_t value = 0;
  std::string wrong = ParseSize(text.substr(equals + 1), &value);
  if (!wrong.empty()) return wrong;
  return std::string(SetLimit(text.substr(0, equals), static_cast<int64_t>(value), limits).message());
}

// --limit of commands that open files.
void AddLimitsOption(CLI::App& app, InputOptions* options) {
  const auto check = [](const std::string& text) {
    uint64_t record_bytes = 0;
    DecodeLimits limits;
    return ParseLimit(text, &record_bytes, &limits);
  };
  const auto set = [options](const std::vector<std::string>& texts) {
    for (const std::string& text : texts) ParseLimit(text, &options->limit, &options->limits);
  };
  app.add_option_function<std::vector<std::string>>(
         "--limit", set,
         "Refuse more than SIZE bytes of records on standard input (500MB, 2GiB), before the record that is too much "
         "is read; or change a limit that a message names (max_entries=50000000); may be repeated")
      ->check(check, "")
      ->type_name("[NAME=]SIZE")
      ->allow_extra_args(false);
}

// Declares an option of single formats, which sets its field of *options.
CLI::Option* AddFormatOption(CLI::App& app, const FormatOption& option, FormatOptions* options) {
  const std::string name = absl::StrCat("--", option.name);
  const std::string what(option.what);
  if (const auto* const flag = std::get_if<FormatOption::Field<bool>>(&option.field)) {
    bool* const value = (*flag)(options);
    return app.add_flag(*value ? absl::StrCat("!", name) : name, *value, what);
  }
  if (const auto* const dtype = std::get_if<FormatOption::Field<DType>>(&option.field)) {
    const auto is_number = [](const std::string& word) -> std::string {
      const absl::StatusOr<DType> parsed = ParseDType(word);
      if (!parsed.ok()) return NoSuchDType(word);
      return IsFixedSize(*parsed) && *parsed != DType::kBool ? "" : absl::StrCat(word, " is not a dtype of numbers");
    };
    return app
        .add_option_function<std::string>(
            name, [value = (*dtype)(options)](const std::string& word) { *value = *ParseDType(word); }, what)
        ->check(is_number, "")
        ->type_name("DTYPE");
  }
  if (const auto* const size = std::get_if<FormatOption::Field<uint64_t>>(&option.field)) {
    return AddSizeOption(app, name, (*size)(options), what);
  }
  if (const auto* const path = std::get_if<FormatOption::Field<std::string>>(&option.field)) {
    return app.add_option(name, *(*path)(options), what)->type_name("PATH");
  }
  std::optional<std::string>* const value =
      std::get<FormatOption::Field<std::optional<std::string>>>(option.field)(options);
  auto text = std::make_shared<std::string>();  // "true" if there is no name
  return app.add_flag(name, *text, what)->each([text, value](const std::string& word) {
    *value = word == "true" ? "" : word;
  });
}

}  // namespace

void AddInputOptions(CLI::App& app, InputOptions* options) {
  app.add_option("--format", options->format, "The format of PATH, if its content does not show it")
      ->check(CLI::IsMember(FormatNames()))
      ->type_name("FORMAT");
  AddLenientOption(app, &options->lenient);
  for (const FormatOption& option : FormatOptionList()) {
    if (option.use == FormatOption::Use::kReading) AddFormatOption(app, option, &options->of_formats);
  }
  AddBaseOption(app, &options->base);
  AddLimitsOption(app, options);
  if (app.get_name() == "verify") return;
  app.add_flag("--ignore-checksums", options->ignore_checksums,
               "Read elements that do not match their checksum, too: another program may have changed them in place");
}

void AddLenientOption(CLI::App& app, bool* lenient) {
  app.add_flag(
      "--lenient", *lenient,
      "Accept a safetensors, npy or npz file that breaks a rule in a known, harmless way, and say what it breaks");
}

void AddBaseOption(CLI::App& app, std::string* base) {
  app.add_option("--base", *base,
                 "The base checkpoint of tensors that are stored as deltas, if it is not in the same folder")
      ->type_name("PATH");
}

void AddLimitOption(CLI::App& app, uint64_t* bytes) {
  AddSizeOption(app, "--limit", bytes,
                "Refuse more than SIZE bytes of records on standard input (500MB, 2GiB), before the record that is too "
                "much is read");
}

std::string ParseSize(const std::string& text, uint64_t* bytes) {
  static constexpr absl::string_view kPrefixes = "kmgtpe";
  const std::string wrong = absl::StrCat("wanted a size of 1 byte or more, as in 500MB or 2GiB; found ", Quoted(text));
  const size_t end = text.find_first_not_of("0123456789.");
  const std::string unit =
      end == std::string::npos ? "" : absl::AsciiStrToLower(absl::StripAsciiWhitespace(text.substr(end)));
  double number = 0;
  if (!absl::SimpleAtod(text.substr(0, end), &number)) return wrong;
  double scale = 1;
  if (!unit.empty() && unit != "b") {
    const size_t power = kPrefixes.find(unit[0]);
    const absl::string_view rest = absl::string_view(unit).substr(1);
    if (power == absl::string_view::npos || (!rest.empty() && rest != "b" && rest != "ib")) return wrong;
    scale = std::pow(rest == "ib" ? 1024.0 : 1000.0, static_cast<double>(power + 1));
  }
  const double size = number * scale;
  if (scale == 1 && absl::StrContains(text, '.')) return wrong;
  if (!(size >= 1 && size < 9.2e18)) return wrong;
  *bytes = static_cast<uint64_t>(size);
  return "";
}

void AddOutputOptions(CLI::App& app, std::string* to, OutputOptions* options) {
  app.add_option("--to", *to, "The format of DST, if its name does not show it")
      ->check(CLI::IsMember(TargetFormatNames()))
      ->type_name("FORMAT");
  app.add_option_function<std::string>(
         "--level", [options](const std::string& name) { options->level = *ParsePayloadLevel(name); },
         "Compression: stored (plain elements, the default), default or high; TensorFlow reads only stored")
      ->check(CLI::IsMember({"stored", "default", "high"}))
      ->type_name("LEVEL");
  AddNumberOption(app, "--alignment", "N", 1, uint64_t{1} << 30, &options->alignment,
                  "Each tensor starts at a multiple of N bytes (default 64); 1 is the layout of TensorFlow");
  for (const FormatOption& option : FormatOptionList()) {
    if (option.use != FormatOption::Use::kWriting) continue;
    AddFormatOption(app, option, &options->of_formats)->each([options, &option](const std::string& /*word*/) {
      options->given.push_back(&option);
    });
  }
  app.add_flag("--overwrite", options->overwrite, "Replace DST");
}

void AddIncludeOption(CLI::App& app, std::vector<std::string>* globs) {
  app.add_option("--include", *globs, "Only tensors with names that match; may be repeated")
      ->type_name("GLOB")
      ->allow_extra_args(false);
}

CLI::Option* AddSizeOption(CLI::App& app, const std::string& name, uint64_t* bytes, const std::string& what) {
  const auto check = [](const std::string& text) {
    uint64_t ignored = 0;
    return ParseSize(text, &ignored);
  };
  return app
      .add_option_function<std::string>(
          name, [bytes](const std::string& text) { ParseSize(text, bytes); }, what)
      ->check(check, "")
      ->type_name("SIZE");
}

std::string CheckNumber(const std::string& text, uint64_t least, uint64_t most) {
  uint64_t number = 0;
  const bool is_number = !text.empty() && std::all_of(text.begin(), text.end(), absl::ascii_isdigit) &&
                         absl::SimpleAtoi(text, &number) && number >= least && number <= most;
  return is_number ? "" : absl::StrCat(Printable(text), " is not a whole number from ", least, " to ", most);
}

void AddNumberOption(CLI::App& app, const std::string& name, const std::string& type, uint64_t least, uint64_t most,
                     uint64_t* value, const std::string& what) {
  app.add_option_function<std::string>(
         name, [value](const std::string& text) { static_cast<void>(absl::SimpleAtoi(text, value)); }, what)
      ->check([least, most](const std::string& text) { return CheckNumber(text, least, most); })
      ->type_name(type);
}

void AddExcludeOption(CLI::App& app, std::vector<std::string>* globs) {
  app.add_option("--exclude", *globs, "No tensors with names that match; may be repeated")
      ->type_name("GLOB")
      ->allow_extra_args(false);
}

}  // namespace tensorcask::tools
