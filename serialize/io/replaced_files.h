// Which files of an older archive a write replaces and removes.
//
//   const std::vector<std::vector<std::string>> sources = {{"/models/base.npz"}};   // what the call reads
//   CASK_ASSIGN_OR_RETURN(const ReplacedFiles replaced, ReplacedFileAt("/models/m.npz", FileSystem::Posix()));
//   CASK_RETURN_IF_ERROR(CheckSourcesStay(replaced, sources, FileSystem::Posix()));
//
// The rule, for all formats and callers: a write replaces the file at its path. Beyond that it removes only files that
// the old archive's index lists, and that no other archive of the folder needs; without an index it removes nothing.
// A file that the call reads stays, unless the call replaces the archive that it reads from.

#ifndef TENSORCASK_SERIALIZE_IO_REPLACED_FILES_H_
#define TENSORCASK_SERIALIZE_IO_REPLACED_FILES_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/io/file_system.h"

namespace tensorcask {

struct ReplacedFiles {
  std::string path;                  // the file that the new one replaces in one step; "": there is none
  std::vector<std::string> removed;  // files that are removed afterwards
  std::vector<std::string> beside;   // files that stay, although they are an archive of the same name in another form
  std::vector<std::string> notes;    // sentences on files that stay
};

// Whether there is a regular file at `path`.
// Errors: from errno, if the file system cannot say.
absl::StatusOr<bool> HasFileAt(const std::string& path, FileSystem* file_system);

// {path} if there is a regular file at `path`.
// Errors: those of HasFileAt.
absl::StatusOr<ReplacedFiles> ReplacedFileAt(const std::string& path, FileSystem* file_system);

// Whether both describe the same file with the same content, as far as the file system tells: its identity, size and
// time of change are equal.
bool IsUnchanged(const FileInfo& before, const FileInfo& now);

// Each element of `sources` has the paths of the files of one archive that the call reads, first the file that lists
// the others. Files are compared by FileId, so other paths to a file, through links and "..", count.
// Errors: FailedPrecondition, naming the file, if `replaced` names a file of a source, and the source is not the
// replaced archive itself.
absl::Status CheckSourcesStay(const ReplacedFiles& replaced, absl::Span<const std::vector<std::string>> sources,
                              FileSystem* file_system);

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_IO_REPLACED_FILES_H_
