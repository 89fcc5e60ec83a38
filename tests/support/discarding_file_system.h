// A file system that takes any number of bytes and keeps none: names and sizes only.
//
//   DiscardingFileSystem files;
//   CheckpointWriterOptions options;
//   options.file_system = &files;      // then write 8 GiB in a process that may have 256 MiB
//   files.SizeOfFile("model.index")    // what would be there
//
// Behaves as MemoryFileSystem otherwise, except that every folder exists. Contents cannot be read back: ReadAt and Map
// answer -EOPNOTSUPP, and Lock always succeeds. Thread-safe.

#ifndef TENSORCASK_TESTS_SUPPORT_DISCARDING_FILE_SYSTEM_H_
#define TENSORCASK_TESTS_SUPPORT_DISCARDING_FILE_SYSTEM_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "tensorcask/serialize/io/file_system.h"

namespace tensorcask::testing {

class DiscardingFileSystem final : public FileSystem {
 public:
  std::optional<uint64_t> SizeOfFile(const std::string& path) const;  // empty if there is no such file
  std::vector<std::string> Paths() const;                             // the paths of all files, sorted
  uint64_t bytes_written() const;                                     // in total, removed files included
  size_t open_handles() const;

  IoResult OpenToRead(const std::string& path) override;
  IoResult CreateNew(const std::string& path) override;
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
  IoResult Remove(const std::string& path) override;
  IoResult MakeFolder(const std::string& path) override;
  IoResult SyncFolder(const std::string& path) override;
  IoResult Describe(const std::string& path, FileInfo* info) override;
  IoResult List(const std::string& path, std::vector<std::string>* names) override;

 private:
  using Size = std::shared_ptr<uint64_t>;  // shared by a name and the handles that are open on it
  struct Handle {
    Size size;
    uint64_t position = 0;  // where Append goes on
  };

  mutable std::mutex mutex_;
  std::map<std::string, Size> files_;
  std::map<IoResult, Handle> handles_;
  IoResult next_handle_ = 3;
  uint64_t bytes_written_ = 0;
};

}  // namespace tensorcask::testing

#endif  // TENSORCASK_TESTS_SUPPORT_DISCARDING_FILE_SYSTEM_H_
