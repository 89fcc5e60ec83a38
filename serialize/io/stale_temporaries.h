// Finds and removes temporary files of publication.h whose writers were killed.
//
//   CASK_ASSIGN_OR_RETURN(RemovedTemporaries removed,
//                         RemoveStaleTemporaries("/models", [](absl::string_view) { return true; }));
//   // removed.files files of removed.bytes bytes were removed; removed.left files stay: their writers live, or
//   // removing them failed
//
// A writer holds a shared lock of each of its temporary files (FileSystem::LockShared) until the file has its final
// name. The system releases the lock when the process ends, so a temporary file without a lock has no writer. On
// network file systems, whose locks cannot be trusted, all temporary files stay. If the process of a writer forks
// without exec, its files count as in use until the last of these children ends.

#ifndef TENSORCASK_SERIALIZE_IO_STALE_TEMPORARIES_H_
#define TENSORCASK_SERIALIZE_IO_STALE_TEMPORARIES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/file_system.h"

namespace tensorcask {

// The final name of the temporary file `name` (of the file or of its path); of a long name only the beginning. Empty if
// `name` does not end in ".tmp-" and 16 hex digits.
std::optional<absl::string_view> FinalNameOfTemporary(absl::string_view name);

// True if the final name that FinalNameOfTemporary gives may be cut: a longer one leaves no room for the suffix.
bool MayBeCut(absl::string_view final_name);

struct TemporaryFile {
  std::string name;    // in its folder
  std::string folder;  // as the caller named it
  FileInfo info;
  // kStale: its writer is gone. kInUse: a process holds a lock of it. kUnknown: the file system cannot tell, or this
  // process may not open the file. kOther: not a regular file (a link, a folder, a pipe), so not a file of a writer.
  enum class State { kStale, kInUse, kUnknown, kOther };
  State state = State::kUnknown;

  std::string path() const;
};

// The files of `folder` whose names are those of temporary files, sorted by name. Removes nothing.
// Errors: from errno if the folder cannot be listed.
absl::StatusOr<std::vector<TemporaryFile>> ListTemporaries(const std::string& folder,
                                                           FileSystem* file_system = FileSystem::Posix());

// Removes a file that ListTemporaries found, if no process uses it. Errors: FailedPrecondition if a process uses it, or
// if that cannot be told; from errno, naming the file.
absl::Status RemoveTemporary(const TemporaryFile& file, FileSystem* file_system = FileSystem::Posix());

struct RemovedTemporaries {
  int64_t files = 0;
  uint64_t bytes = 0;
  int64_t left = 0;  // in use, or of an unknown state, or not to be removed
};

// Removes the temporary files in `folder` that no process uses and whose final name `wanted` accepts.
// Errors: from errno if the folder cannot be listed.
absl::StatusOr<RemovedTemporaries> RemoveStaleTemporaries(const std::string& folder,
                                                          absl::FunctionRef<bool(absl::string_view)> wanted,
                                                          FileSystem* file_system = FileSystem::Posix());

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_IO_STALE_TEMPORARIES_H_
