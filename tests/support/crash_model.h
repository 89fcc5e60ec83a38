// What a disk may hold after a crash, under the weakest reasonable promises (those of ALICE, OSDI 2014, and BOB):
//
//  - Of what was written to a file and not synced, any subset of its 4 KiB pages is there, each whole or cut at a
//    multiple of 512 bytes; where bytes are missing the file is shorter, or has zeros, or garbage.
//  - A sync of a file makes earlier writes to it durable, but not its name. After one that failed they never are.
//  - Names (creating, renaming, linking, removing, folders) are durable once their folder is synced. Before that, of
//    the operations on names of one folder, the first few are there (kOrdered, as with a journal), or any (kWeak).
//  - Renaming is atomic. Files and folders are independent of one another.
//
//   const CrashModel model(files.log(), CrashMode::kWeak);
//   for (size_t prefix = 0; prefix <= model.num_ops(); ++prefix) {
//     model.ForEachState(prefix, {}, [&](const CrashState& state) {
//       MemoryFileSystem after;
//       state.Restore(&after);
//       ...                                  // open what is there
//       return true;
//     });
//   }

#ifndef TENSORCASK_TESTS_SUPPORT_CRASH_MODEL_H_
#define TENSORCASK_TESTS_SUPPORT_CRASH_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/tests/support/crash_file_system.h"

namespace tensorcask::testing {

enum class CrashMode {
  kProcess,  // the writer was killed: all that it did is there
  kOrdered,
  kWeak,
};

// One state of the disk.
struct CrashState {
  std::string what;                          // how it came about: "all but Write /m.index.tmp-1 0+512, zeros"
  std::vector<std::string> folders;          // parents first, without the root
  std::map<std::string, std::string> files;  // bytes by path

  void Restore(MemoryFileSystem* to) const;
  uint64_t Fingerprint() const;  // a hash of folders and files
};

struct CrashSampling {
  // All that happened; only what was durable; all but one operation; one operation only, alone and with all names;
  // names without data; the last write cut after 0, 1, 511, 512, 4095 and 4096 bytes; each with the three ways in which
  // bytes can be missing.
  bool systematic = true;
  // And so many states drawn with `seed`.
  int random_states = 16;
  uint64_t seed = 1;
  // And all subsets, if no more operations than this are not durable.
  size_t max_exhaustive = 0;
};

class CrashModel {
 public:
  CrashModel(std::vector<CrashOp> log, CrashMode mode) : log_(std::move(log)), mode_(mode) {}

  size_t num_ops() const { return log_.size(); }
  const CrashOp& op(size_t n) const { return log_[n]; }

  // Calls visit(state) for states that a crash after the first `prefix` operations may leave, until it answers false.
  // Gives the number of calls. A state may come several times.
  int64_t ForEachState(size_t prefix, const CrashSampling& sampling,
                       absl::FunctionRef<bool(const CrashState&)> visit) const;

 private:
  const std::vector<CrashOp> log_;
  const CrashMode mode_;
};

}  // namespace tensorcask::testing

#endif  // TENSORCASK_TESTS_SUPPORT_CRASH_MODEL_H_
