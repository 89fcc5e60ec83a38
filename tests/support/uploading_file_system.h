// A file system that is like an object store, in front of any other: new files are uploads that cannot be seen under
// their temporary names, and that only Rename to the name that CreateToPublish was told can publish.
//
//   MemoryFileSystem memory;
//   UploadingFileSystem files(&memory);
//
// There are no links, no locks, no permissions and no mappings, and read_shape() is that of an object store. Requests
// of reading are counted: opening is one, which brings the last 64 KiB (1 MiB of a file *.index); each ReadAt of other
// bytes is one, and so is each range of ReadManyAt. Thread-safe.

#ifndef TENSORCASK_TESTS_SUPPORT_UPLOADING_FILE_SYSTEM_H_
#define TENSORCASK_TESTS_SUPPORT_UPLOADING_FILE_SYSTEM_H_

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/io/forwarding_file_system.h"

namespace tensorcask::testing {

class UploadingFileSystem final : public ForwardingFileSystem {
 public:
  using ForwardingFileSystem::ForwardingFileSystem;

  size_t unpublished() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return uploads_.size();
  }
  int64_t requests() const { return requests_; }  // reads since the last Reset
  uint64_t bytes_read() const { return bytes_read_; }
  uint64_t most_in_flight() const { return most_in_flight_; }  // bytes of one ReadManyAt
  void Reset() { requests_ = 0, bytes_read_ = 0, most_in_flight_ = 0; }

  IoResult OpenToRead(const std::string& path) override {
    const IoResult handle = ForwardingFileSystem::OpenToRead(path);
    if (handle < 0) return handle;
    ++requests_;
    const auto size = static_cast<uint64_t>(behind()->SizeOf(handle));
    const uint64_t tail = absl::EndsWith(path, ".index") ? uint64_t{1} << 20 : uint64_t{64} << 10;
    const std::lock_guard<std::mutex> lock(mutex_);
    tails_[handle] = size - std::min(size, tail);
    return handle;
  }
  IoResult ReadAt(IoResult handle, uint64_t offset, absl::Span<char> out) override {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      const auto tail = tails_.find(handle);
      if (tail != tails_.end() && offset >= tail->second) return behind()->ReadAt(handle, offset, out);
    }
    ++requests_;
    const IoResult got = ForwardingFileSystem::ReadAt(handle, offset, out);
    if (got > 0) bytes_read_ += static_cast<uint64_t>(got);
    return got;
  }
  IoResult ReadManyAt(IoResult handle, absl::Span<const ReadRange> ranges) override {
    uint64_t bytes = 0;
    for (const ReadRange& range : ranges) bytes += range.out.size();
    most_in_flight_ = std::max<uint64_t>(most_in_flight_, bytes);
    return FileSystem::ReadManyAt(handle, ranges);
  }
  IoResult CreateFile(const std::string& path, const std::string* final_path) override {
    if (final_path == nullptr) return -EOPNOTSUPP;
    const std::lock_guard<std::mutex> lock(mutex_);
    if (uploads_.count(path) != 0) return -EEXIST;
    const std::string hidden = absl::StrCat("/.upload-", ++num_uploads_);
    const IoResult handle = behind()->CreateNew(hidden);
    if (handle >= 0) uploads_[path] = {hidden, *final_path};
    return handle;
  }
  IoResult Rename(const std::string& from, const std::string& to, OnExisting on_existing) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto upload = uploads_.find(from);
    if (upload == uploads_.end()) return -EXDEV;
    if (upload->second.final_path != to) return -EXDEV;
    const IoResult renamed = behind()->Rename(upload->second.hidden, to, on_existing);
    if (renamed >= 0) uploads_.erase(upload);
    return renamed;
  }
  IoResult Remove(const std::string& path) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto upload = uploads_.find(path);
    if (upload == uploads_.end()) return behind()->Remove(path);
    behind()->Remove(upload->second.hidden);
    uploads_.erase(upload);
    return 0;
  }
  IoResult Map(IoResult, uint64_t, size_t, const char**) override { return -ENODEV; }
  IoResult Link(const std::string&, const std::string&) override { return -EOPNOTSUPP; }
  IoResult Lock(const std::string&) override { return -EOPNOTSUPP; }
  IoResult LockShared(const std::string&) override { return -EOPNOTSUPP; }
  IoResult RemoveUnlocked(const std::string&) override { return -EOPNOTSUPP; }
  IoResult SetPublic(IoResult) override { return -EOPNOTSUPP; }
  ReadShape read_shape() const override { return {uint64_t{8} << 20, 16, uint64_t{1} << 20}; }
  ReadShape ShapeOf(IoResult) const override { return read_shape(); }

 private:
  struct Upload {
    std::string hidden;  // where it is behind
    std::string final_path;
  };

  mutable std::mutex mutex_;
  std::map<std::string, Upload> uploads_;  // by temporary path
  std::map<IoResult, uint64_t> tails_;     // where the bytes begin that opening brought
  int64_t num_uploads_ = 0;
  std::atomic<int64_t> requests_{0};
  std::atomic<uint64_t> bytes_read_{0};
  std::atomic<uint64_t> most_in_flight_{0};
};

}  // namespace tensorcask::testing

#endif  // TENSORCASK_TESTS_SUPPORT_UPLOADING_FILE_SYSTEM_H_
