// A file system for a dry run: what is read is there, and what is written is only checked.
//
//   DryFileSystem files(FileSystem::Posix());
//   options.file_system = &files;    // Create and Declare of a writer now give the errors that they would give
//
// New files take any bytes and keep none, new folders are only noted, and Remove removes nothing that is there.
// CreateNew and MakeFolder answer what FileSystem::CheckNew does. For one thread; not for Commit.

#ifndef TENSORCASK_SERIALIZE_ARCHIVE_INTERNAL_DRY_FILE_SYSTEM_H_
#define TENSORCASK_SERIALIZE_ARCHIVE_INTERNAL_DRY_FILE_SYSTEM_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/io/forwarding_file_system.h"

namespace tensorcask {

class DryFileSystem final : public ForwardingFileSystem {
 public:
  using ForwardingFileSystem::ForwardingFileSystem;

  IoResult CheckNew(const std::string& path) override;
  IoResult Append(IoResult handle, absl::string_view bytes) override;
  IoResult WriteAt(IoResult handle, uint64_t offset, absl::string_view bytes) override;
  IoResult CopyRange(IoResult from, uint64_t offset, IoResult to, uint64_t bytes) override;
  IoResult Reserve(IoResult handle, uint64_t size_bytes) override;
  IoResult StartSync(IoResult handle, uint64_t offset, uint64_t bytes) override;
  IoResult SizeOf(IoResult handle) override;
  IoResult DescribeOpen(IoResult handle, FileInfo* info) override;
  IoResult Sync(IoResult handle) override;
  IoResult SetPublic(IoResult handle) override;
  IoResult SetPermissions(IoResult handle, const FilePermissions& permissions) override;
  IoResult Close(IoResult handle) override;
  IoResult Rename(const std::string& from, const std::string& to, OnExisting on_existing) override;
  IoResult Link(const std::string& from, const std::string& to) override;
  IoResult Lock(const std::string& path) override;
  IoResult LockShared(const std::string& path) override;
  IoResult RemoveUnlocked(const std::string& path) override;
  IoResult Remove(const std::string& path) override;
  IoResult MakeFolder(const std::string& path) override;
  IoResult SyncFolder(const std::string& path) override;
  IoResult Describe(const std::string& path, FileInfo* info) override;
  IoResult List(const std::string& path, std::vector<std::string>* names) override;

 protected:
  IoResult CreateFile(const std::string& path, const std::string* final_path) override;

 private:
  std::set<std::string> files_;           // made, by path
  std::set<std::string> folders_;         // made, by path
  std::map<IoResult, uint64_t> handles_;  // the files that were made, with their sizes
  IoResult next_handle_ = IoResult{1} << 40;
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_ARCHIVE_INTERNAL_DRY_FILE_SYSTEM_H_
