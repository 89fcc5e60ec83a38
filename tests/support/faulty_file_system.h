// A file system that breaks on command, in front of any other.
//
//   MemoryFileSystem memory;
//   for (int64_t n = 1;; ++n) {
//     FaultyFileSystem files(&memory);
//     files.FailAt(n, ENOSPC, FaultyFileSystem::kOnce);
//     absl::Status saved = Save(&files);
//     if (files.faults() == 0) break;   // fewer than n operations: all have been broken in turn
//     ...                               // look at `saved`, memory.Paths(), files.open_handles()
//   }
//
// Every operation is counted from 1, by kind as well, and kept in a log. An operation that is made to fail does not
// reach the file system behind, with two exceptions where the resource is gone whatever the answer: Close and Unmap.
// Thread-safe.

#ifndef TENSORCASK_TESTS_SUPPORT_FAULTY_FILE_SYSTEM_H_
#define TENSORCASK_TESTS_SUPPORT_FAULTY_FILE_SYSTEM_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/file_system.h"

namespace tensorcask::testing {

enum class FileOperation {
  kOpenToRead,
  kCreateNew,
  kReadAt,
  kAppend,
  kWriteAt,
  kReserve,
  kSizeOf,
  kSync,
  kSetPublic,
  kClose,
  kMap,
  kUnmap,
  kRename,
  kLink,
  kLock,
  kLockShared,
  kRemoveUnlocked,
  kRemove,
  kMakeFolder,
  kSyncFolder,
  kDescribe,
  kList
};
inline constexpr int kNumFileOperations = 22;

// "Append", "SyncFolder" ...
absl::string_view FileOperationName(FileOperation operation);

class FaultyFileSystem final : public FileSystem {
 public:
  enum Duration { kOnce, kForEver };

  struct Record {
    FileOperation operation;
    // For handles, the path that they were opened or created by; for Rename and Link, "FROM -> TO"; for Unmap, that of
    // Map.
    std::string path;
    IoResult result = 0;    // as answered
    bool injected = false;  // the answer is a fault of ours
  };

  // Requires: `behind` outlives this.
  explicit FaultyFileSystem(FileSystem* behind) : behind_(behind) {}

  // ---- What goes wrong. Each may be set at any time; several hold together. -----------------------------------------

  // The n-th operation from the beginning (n >= 1) answers -error; with kForEver, all after it as well. If `only` is
  // given, operations of that kind alone are numbered and fail. Replaces what was set before; n = 0 ends it.
  void FailAt(int64_t n, int error, Duration duration = kOnce, std::optional<FileOperation> only = std::nullopt);

  // The failing operation is carried out and answers an error all the same, as a server does whose answer was lost.
  void FailAfterEffect(bool yes);

  // ReadAt, Append and WriteAt move at most `bytes` (> 0).
  void LimitTransfers(size_t bytes);

  // Each operation that a signal may interrupt answers -EINTR `times` times before it is carried out. (Not Close, Unmap
  // and Rename. These do not count as faults().)
  void InterruptEach(int times);

  // Called before each operation, without a lock: a test can let another writer interfere here.
  using Hook = std::function<void(int64_t n, FileOperation operation, const std::string& path)>;
  void SetHook(Hook hook);

  // ---- What happened ------------------------------------------------------------------------------------------------

  int64_t operations() const;                         // begun since the beginning
  int64_t operations(FileOperation operation) const;  // how many there were of that kind
  int64_t faults() const;                             // made by FailAt
  size_t open_handles() const;                        // handles and mappings not yet given back
  uint64_t bytes_read() const;                        // moved by ReadAt, and by Append and WriteAt
  uint64_t bytes_written() const;
  std::vector<Record> log() const;
  // The log as text, one "Operation PATH [= -ERRNO]" a line: for failure messages and for comparing sequences.
  std::string LogText() const;
  // The log of a long run may be large: false keeps none from now on.
  void KeepLog(bool yes);

  // ---- FileSystem ---------------------------------------------------------------------------------------------------

  IoResult OpenToRead(const std::string& path) override;
  IoResult CreateNew(const std::string& path) override;
  IoResult CreateToPublish(const std::string& path, const std::string& final_path) override;  // counted as CreateNew
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
  // These two are not counted and never fail by themselves.
  IoResult CheckNew(const std::string& path) override { return behind_->CheckNew(path); }
  IoResult DescribeOpen(IoResult handle, FileInfo* info) override { return behind_->DescribeOpen(handle, info); }
  IoResult List(const std::string& path, std::vector<std::string>* names) override;
  // ReadManyAt and CopyRange are those of FileSystem: each of their reads is counted and may fail.
  ReadShape read_shape() const override { return behind_->read_shape(); }
  ReadShape ShapeOf(IoResult handle) const override { return behind_->ShapeOf(handle); }
  std::string LastDetail() const override { return behind_->LastDetail(); }

 private:
  IoResult Perform(FileOperation operation, const std::string& path, const std::function<IoResult()>& carry_out);
  std::string PathOf(IoResult handle) const;
  size_t max_transfer_bytes() const;

  FileSystem* const behind_;

  mutable std::mutex mutex_;
  Hook hook_;
  int64_t fail_at_ = 0;
  int error_ = 0;
  Duration duration_ = kOnce;
  std::optional<FileOperation> only_;
  bool after_effect_ = false;
  bool keep_log_ = true;
  size_t max_transfer_bytes_ = SIZE_MAX;
  int interrupts_ = 0;
  int interrupts_given_ = 0;  // since the last operation that was carried out
  int64_t operations_ = 0;
  std::array<int64_t, kNumFileOperations> by_kind_{};
  int64_t faults_ = 0;
  uint64_t bytes_read_ = 0;
  uint64_t bytes_written_ = 0;
  std::vector<Record> log_;
  std::map<IoResult, std::string> handles_;      // open, with the path
  std::map<const char*, std::string> mappings_;  // in use, with the path
};

}  // namespace tensorcask::testing

#endif  // TENSORCASK_TESTS_SUPPORT_FAULTY_FILE_SYSTEM_H_
