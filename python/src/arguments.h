// Arguments that several functions of the module share.

#ifndef TENSORCASK_PYTHON_SRC_ARGUMENTS_H_
#define TENSORCASK_PYTHON_SRC_ARGUMENTS_H_

#include <nanobind/nanobind.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/python/src/remote_module.h"
#include "tensorcask/serialize/archive/archive_format.h"
#include "tensorcask/serialize/archive/archive_reader.h"
#include "tensorcask/serialize/archive/formats/all_formats.h"
#include "tensorcask/serialize/exchange/deadline.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/payload/base_lookup.h"
#include "tensorcask/serialize/payload/payload_options.h"

namespace tensorcask::python {

// The type of an argument that FromOpenArguments takes, in signatures.
#define TENSORCASK_READABLE "str | os.PathLike[str] | bytes | bytearray | memoryview | typing.BinaryIO"

// All formats of the library, with options of single ones.
// `credentials` are for grpc:// and grpcs://.
AllFormats FormatsWith(const FormatOptions& options, const std::optional<RemoteCredentials>& credentials = {});
ArchiveFormats Formats();  // without options; never destroyed

// The arguments that functions which read have in common, in signatures; FromOpenArguments takes them as `reading`.
#define TENSORCASK_READ_BASE "base: str | os.PathLike[str] | None = None, "
#define TENSORCASK_READ_FORMAT "format: str | None = None, "
#define TENSORCASK_READ_VERIFY "verify: bool = True, "
#define TENSORCASK_READ_RULES                                                                  \
  "lenient: bool = False, constants: bool = False, links: bool = True, stored: bool = False, " \
  "opaque_objects: bool = False, limits: collections.abc.Mapping[str, int] | None = None"
// The same for those that write; FromFormatOptions takes them.
#define TENSORCASK_WRITE_OF_FORMATS                              \
  "checksums: bool = True, max_shard_bytes: int | None = None, " \
  "replace_in: str | os.PathLike[str] | None = None, external: bool | str = False"
#define TENSORCASK_READ_FILE_SYSTEM "filesystem: object = None, "
#define TENSORCASK_READ_CREDENTIALS "credentials: tensorcask.Credentials | None = None, "
#define TENSORCASK_READ_ARGUMENTS \
  TENSORCASK_READ_FORMAT TENSORCASK_READ_BASE TENSORCASK_READ_VERIFY TENSORCASK_READ_RULES

// What `keywords` have of the options of single formats (FormatOptionList), of one use.
struct GivenFormatOptions {
  FormatOptions options;
  // Those that were given, but for bools, which other formats ignore.
  std::vector<const FormatOption*> given;
  nanobind::kwargs others;  // the keywords that are no such options
};
// Throws TypeError for a value of another type, ValueError for a size below 1.
GivenFormatOptions FromFormatOptions(const nanobind::kwargs& keywords, FormatOption::Use use);

// Throws ValueError for an option that `format` lacks.
void CheckGiven(const GivenFormatOptions& options, const ArchiveFormat& format);

struct OpenArguments {
  std::string path;
  std::shared_ptr<const ByteSource> source;      // instead of the path; null: the path
  std::string base;                              // the path of a checkpoint; "": none
  std::shared_ptr<FileSystem> files;             // of the argument `filesystem`; null: none
  std::shared_ptr<FileSystem> held;              // what `options` read by: `files`, or those of the path
  std::optional<RemoteCredentials> credentials;  // for grpc:// and grpcs://
  ArchiveReaderOptions options;                  // all but the base
  FormatOptions of_formats;                      // those for reading
};
// `path` is a path, bytes or a file object (byte_sources.h). Throws TypeError for an unknown keyword, which
// `filesystem` and `credentials` are unless `takes_file_system`, and for a value of another type; MissingFrameworkError
// for grpc://... without gRPC.
OpenArguments FromOpenArguments(nanobind::handle path, const nanobind::kwargs& reading, bool takes_file_system = false);

// Opens without the GIL. The reader keeps the file system. Throws the exceptions of the module.
std::shared_ptr<const ArchiveReader> Open(const OpenArguments& arguments);

// The format called `format`, or that of the extension of `path` for None, of `formats`.
const ArchiveFormat& TargetFormat(const std::string& path, nanobind::handle format, ArchiveFormats formats);

// The checkpoint at this path as the base of deltas, which keeps its file system; null for "". `files` null: those of
// the path (store_files.h).
std::shared_ptr<const BaseLookup> OpenBase(const std::string& path, std::shared_ptr<FileSystem> files = nullptr);

PayloadLevel FromLevel(nanobind::handle level);
FileMetadata FromMetadata(nanobind::handle metadata);  // of None or a mapping of str
nanobind::dict ToDict(const FileMetadata& metadata);

// The function of ConvertOptions::rename of a rule, a list of rules, a function of the old name, or a mapping; null of
// None. A function and a mapping are asked for all names now: an exception of the caller's function ends the call.
std::function<absl::StatusOr<std::string>(absl::string_view)> FromRename(const ArchiveReader& archive,
                                                                         nanobind::handle rename);

// For the constructor of T. Throws TypeError, which names the wrong word and the near ones, if there are `others` than
// the keywords that it has, and then if `given` is None: the argument `name`, which each call needs. A binding that has
// it without a default knows no more than that the arguments do not fit.
template <typename T>
void CheckKeywords(const nanobind::kwargs& others, nanobind::handle given = nullptr, const char* name = "") {
  const bool is_missing = given.is_valid() && given.is_none();
  if (others.size() == 0 && !is_missing) return;
  nanobind::module_::import_("tensorcask._keywords")
      .attr("refuse")(nanobind::type<T>(), others, is_missing ? name : "");
}

// (name, array), or (name, `of`), of each item of a mapping. Throws TypeError for another object, which `what` names.
nanobind::iterator ItemsOf(nanobind::handle mapping, const char* what, const char* of = "arrays");

// `timeout` of an argument: seconds from now; None: never. Throws ValueError for a negative one.
Deadline FromTimeout(nanobind::handle timeout);

// `threads` of an argument: None is as many as the machine has cores, at most `most`.
int FromThreads(nanobind::handle threads, int most = 4);

}  // namespace tensorcask::python

#endif  // TENSORCASK_PYTHON_SRC_ARGUMENTS_H_
