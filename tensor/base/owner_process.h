// Remembers which process made an object. After fork(2) a child has a copy of the object, which must not act for the
// parent: it removes no files, waits for no threads (the child has none of them) and sends no goodbye.
//
//   ~Save() {
//     if (!owner_.IsThisProcess()) return;   // the copy of a child
//     RemoveTemporaryFiles();
//   }
//
// Copies and moves keep the process.

#ifndef TENSORCASK_TENSOR_BASE_OWNER_PROCESS_H_
#define TENSORCASK_TENSOR_BASE_OWNER_PROCESS_H_

#include <sys/types.h>
#include <unistd.h>

namespace tensorcask {

class OwnerProcess {
 public:
  OwnerProcess() : id_(getpid()) {}
  bool IsThisProcess() const { return id_ == getpid(); }

 private:
  pid_t id_;
};

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_BASE_OWNER_PROCESS_H_
