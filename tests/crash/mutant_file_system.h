// Save code with a mistake in it, without touching the code: a file system between the code and its files that performs
// the operations of the faulty code.
//
//   MutantFileSystem files(&recorder, {Mutation::kDropSync, 2, "fsync of the second file is missing"});
//   Save(&files);      // as if the code never called Sync on it
//
// A crash test that does not notice these proves nothing.

#ifndef TENSORCASK_TESTS_CRASH_MUTANT_FILE_SYSTEM_H_
#define TENSORCASK_TESTS_CRASH_MUTANT_FILE_SYSTEM_H_

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/io/forwarding_file_system.h"
#include "tensorcask/tests/support/crash_file_system.h"

namespace tensorcask::testing {

struct Mutation {
  enum Kind {
    kNone,
    // Mistakes of the code.
    kDropSync,          // the n-th Sync of a file is not there
    kDropFolderSync,    // the n-th SyncFolder is not there
    kRenameBeforeSync,  // the n-th Sync of a file comes after its renaming
    kIndexFirst,        // data files get their names after the index
    kOldIndexUnseen,    // the old index is not looked at, so that new files take the names of its data
    kRemoveIndexFirst,  // the old index is removed before the new one gets its name
    kRemoveDataFirst,   // an index gets its name only after the next removal of a data file
    kRemoveFirst,       // an index gets its name only after the next removal of one
    // Faults of the files, which the code has to bear...
    kFailSync,    // the n-th Sync fails, and what was written is lost
    kFailClose,   // the n-th created file loses its second half, which only its Close tells
    kShortWrite,  // the n-th Append takes half of its bytes
    // ...and the same faults with a mistake of the code: its answer is not looked at.
    kIgnoreFailedSync,
    kRetryFailedSync,  // asks again, and takes the OK of the second answer
    kIgnoreFailedClose,
    kIgnoreShortWrite,
  };
  Kind kind = kNone;
  int n = 1;
  std::string name = {};
};

// Each operation may come from any thread; the n-th is then whichever comes n-th.
class MutantFileSystem final : public ForwardingFileSystem {
 public:
  // Requires: `behind` outlives this.
  MutantFileSystem(CrashFileSystem* behind, Mutation mutation);
  ~MutantFileSystem() override;

  bool done() const;  // the mistake, or the fault, has happened

  IoResult OpenToRead(const std::string& path) override;
  IoResult Append(IoResult handle, absl::string_view bytes) override;
  IoResult Sync(IoResult handle) override;
  IoResult Close(IoResult handle) override;
  IoResult Rename(const std::string& from, const std::string& to, OnExisting on_existing) override;
  IoResult Remove(const std::string& path) override;
  IoResult SyncFolder(const std::string& path) override;

 protected:
  IoResult CreateFile(const std::string& path, const std::string* final_path) override;

 private:
  struct Renaming {
    std::string from;
    std::string to;
    OnExisting on_existing;
  };

  void RenameWaiting();

  const Mutation mutation_;
  mutable std::mutex mutex_;
  bool done_ = false;
  int syncs_ = 0;
  int folder_syncs_ = 0;
  int renames_ = 0;
  int creates_ = 0;
  int appends_ = 0;
  std::map<IoResult, std::string> paths_;  // of files being written
  IoResult unsynced_ = -1;                 // synced and closed when its file has its name
  IoResult losing_ = -1;                   // the file that kFailClose is about
  std::vector<Renaming> waiting_;          // renames that come later
};

}  // namespace tensorcask::testing

#endif  // TENSORCASK_TESTS_CRASH_MUTANT_FILE_SYSTEM_H_
