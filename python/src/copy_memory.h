// Memory for the copies of arrays that saves in the background write.
//
// It is kept from one save to the next: new memory costs a page fault for each page, which takes several times as long
// as the copy. All objects that keep memory share it, and the last of them frees it.

#ifndef TENSORCASK_PYTHON_SRC_COPY_MEMORY_H_
#define TENSORCASK_PYTHON_SRC_COPY_MEMORY_H_

#include <memory>

#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/owner_process.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/memory/host_caching_allocator.h"

namespace tensorcask::python {

class CopyMemory {
 public:
  // Without `keep` each copy is freed after its save.
  explicit CopyMemory(bool keep);
  // In a child of fork(2) frees nothing: a thread that the child does not have may be using the memory.
  ~CopyMemory();
  CopyMemory(const CopyMemory&) = delete;
  CopyMemory& operator=(const CopyMemory&) = delete;

  const RefPtr<Allocator>& allocator() const { return *allocator_; }
  // Frees what is kept and not in use.
  void Trim() const;

 private:
  const OwnerProcess owner_;
  std::shared_ptr<const RefPtr<Allocator>> allocator_;
  HostCachingAllocator* cache_ = nullptr;  // *allocator_, if it keeps memory
};

}  // namespace tensorcask::python

#endif  // TENSORCASK_PYTHON_SRC_COPY_MEMORY_H_
