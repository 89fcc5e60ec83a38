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

namespace tensorcask {

namespace internal {
// As getpid(), without a system call where the system can tell a child of fork(2): getpid() costs as much as the rest
// of CheckpointWriter::Add.
pid_t CurrentProcess();
}  // namespace internal

class OwnerProcess {
 public:
  OwnerProcess() : id_(internal::CurrentProcess()) {}
  bool IsThisProcess() const { return id_ == internal::CurrentProcess(); }

 private:
  pid_t id_;
};

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_BASE_OWNER_PROCESS_H_
