// A file system that keeps a record of all that was done to it, so that crash_model.h can tell what a crash may leave.
//
//   CrashFileSystem files;
//   ... save something through &files ...
//   const CrashModel model(files.log(), CrashMode::kWeak);
//
// Behaves as MemoryFileSystem, with three differences: Rename stays within a folder (-EXDEV otherwise), since no file
// system promises that both halves of a rename across folders become durable together; paths are compared as they are
// written, so one file should go by one spelling; and a Sync can be made to fail as a disk does. Thread-safe: the log
// has the one order in which the operations were carried out.

#ifndef TENSORCASK_TESTS_SUPPORT_CRASH_FILE_SYSTEM_H_
#define TENSORCASK_TESTS_SUPPORT_CRASH_FILE_SYSTEM_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/io/forwarding_file_system.h"
#include "tensorcask/serialize/io/memory_file_system.h"

namespace tensorcask::testing {

// One operation that changed something, or made a change durable. What only looks (reading, listing) is not recorded,
// nor are permissions, which no crash test can see.
struct CrashOp {
  enum Kind {
    kCreate,      // the new, empty file `file` under the name `path`
    kMakeFolder,  // `path`
    kWrite,       // `bytes` to `file` at `offset`
    kSync,        // `file`
    kFailedSync,  // `file`: what was not durable may be lost, whatever later syncs answer
    kRename,      // `file`, from `from` to `path`
    kLink,        // `path` is one more name of `file`
    kRemove,      // the name `path`
    kSyncFolder,  // `path`
    kSettle,      // everything is durable
  };
  Kind kind = kSettle;
  int file = -1;  // files are numbered in the order in which they were made
  std::string path;
  std::string from;
  uint64_t offset = 0;
  std::string bytes;

  std::string ToString() const;  // "Rename /m.index.tmp-12 -> /m.index"
};

class CrashFileSystem final : public ForwardingFileSystem {
 public:
  CrashFileSystem() : ForwardingFileSystem(&now_) {}

  std::vector<CrashOp> log() const;
  size_t log_size() const;

  // Everything so far is durable from now on, as after a long time.
  void Settle();

  // The n-th Sync from now on (n >= 1) answers -EIO and drops what was not durable from the disk's point of view; who
  // reads the file before the crash still sees it ("Can applications recover from fsync failures?", ATC 2020). 0: none.
  void FailSync(int n);

  // What stands now: what a process sees that starts after the writer was killed, the machine still running.
  const MemoryFileSystem& now() const { return now_; }
  size_t open_handles() const { return now_.open_handles(); }

  // What changes nothing that a crash could take is passed on to `now_` as it is.
  IoResult OpenToRead(const std::string& path) override;
  IoResult Append(IoResult handle, absl::string_view bytes) override;
  IoResult WriteAt(IoResult handle, uint64_t offset, absl::string_view bytes) override;
  IoResult Sync(IoResult handle) override;
  IoResult Close(IoResult handle) override;
  IoResult Rename(const std::string& from, const std::string& to, OnExisting on_existing) override;
  IoResult Link(const std::string& from, const std::string& to) override;
  IoResult Lock(const std::string& path) override;
  IoResult LockShared(const std::string& path) override;
  IoResult RemoveUnlocked(const std::string& path) override;
  IoResult Remove(const std::string& path) override;
  IoResult MakeFolder(const std::string& path) override;
  IoResult SyncFolder(const std::string& path) override;

 protected:
  IoResult CreateFile(const std::string& path, const std::string* final_path) override;

 private:
  struct Handle {
    int file = -1;
    std::string path;         // by which it was opened or made
    uint64_t size_bytes = 0;  // of what was appended
  };

  void RecordWrite(const Handle& to, uint64_t offset, absl::string_view bytes);
  void Record(CrashOp::Kind kind, int file, const std::string& path, const std::string& from = "");

  MemoryFileSystem now_;
  mutable std::mutex mutex_;  // held over the operation and its record, so that both have the same order
  std::vector<CrashOp> log_;
  std::map<std::string, int> names_;  // of files
  std::map<IoResult, Handle> handles_;
  int num_files_ = 0;
  int fail_sync_ = 0;
};

}  // namespace tensorcask::testing

#endif  // TENSORCASK_TESTS_SUPPORT_CRASH_FILE_SYSTEM_H_
