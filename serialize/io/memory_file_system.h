// Files that live in memory: for tests, and for building a checkpoint that never touches a disk.
//
//   MemoryFileSystem files;
//   CheckpointWriterOptions options;
//   options.file_system = &files;
//
// Behaves as FileSystem::Posix() does on one flat set of folders: the root "/" and "." exist, others are made by
// MakeFolder; there are no links, and ".." is a name like others. Thread-safe.

#ifndef TENSORCASK_SERIALIZE_IO_MEMORY_FILE_SYSTEM_H_
#define TENSORCASK_SERIALIZE_IO_MEMORY_FILE_SYSTEM_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/file_system.h"

namespace tensorcask {

class MemoryFileSystem final : public FileSystem {
 public:
  MemoryFileSystem();
  ~MemoryFileSystem() override;

  // Direct access for tests. Find returns a copy of the bytes at `path`, null if there is no file. Put makes a new file
  // there; open handles of the old file keep the old bytes.
  std::shared_ptr<const std::string> Find(const std::string& path) const;
  void Put(const std::string& path, absl::string_view bytes);
  std::vector<std::string> Paths() const;  // the paths of all files, sorted
  size_t open_handles() const;             // handles and mappings not yet given back

  IoResult OpenToRead(const std::string& path) override;
  IoResult CreateNew(const std::string& path) override;
  IoResult CheckNew(const std::string& path) override;
  IoResult DescribeOpen(IoResult handle, FileInfo* info) override;
  IoResult ReadAt(IoResult handle, uint64_t offset, absl::Span<char> out) override;
  IoResult Append(IoResult handle, absl::string_view bytes) override;
  IoResult WriteAt(IoResult handle, uint64_t offset, absl::string_view bytes) override;
  IoResult Reserve(IoResult handle, uint64_t size_bytes) override;
  IoResult SizeOf(IoResult handle) override;
  IoResult Sync(IoResult handle) override;
  IoResult SetPublic(IoResult handle) override;
  IoResult Close(IoResult handle) override;
  IoResult Map(IoResult handle, uint64_t offset, size_t size_bytes, const char** data) override;
  IoResult Unmap(const char* data, size_t size_bytes) override;
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

 private:
  struct File;
  enum class LockKind { kNone, kShared, kExclusive };
  struct Handle {
    std::shared_ptr<File> file;
    bool writes = false;
    LockKind lock = LockKind::kNone;
    uint64_t position = 0;  // where Append continues
  };

  IoResult OpenLocked(std::shared_ptr<File> file, bool writes, LockKind lock = LockKind::kNone);
  IoResult CheckNewName(const std::string& path) const;
  IoResult CheckNewLocked(const std::string& name, bool has_slash) const;
  static FileInfo InfoOf(const File& file);

  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<File>> files_;  // by path, as Normalised
  std::set<std::string> folders_;
  std::map<IoResult, Handle> handles_;
  std::multimap<const char*, std::shared_ptr<char>> mappings_;  // the memory that each mapping keeps alive
  IoResult next_handle_ = 3;
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_IO_MEMORY_FILE_SYSTEM_H_
