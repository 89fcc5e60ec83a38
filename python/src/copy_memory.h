// Memory for the copies of arrays that saves in the background write.
//
// It is kept from one save to the next: new memory costs a page fault for each page, which takes several times as long
// as the copy. All objects that keep memory share it, and the last of them frees it.

#ifndef TENSORCASK_PYTHON_SRC_COPY_MEMORY_H_
#define TENSORCASK_PYTHON_SRC_COPY_MEMORY_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/owner_process.h"
#include "tensorcask/tensor/base/ref_counted.h"

namespace tensorcask::python {

class CopyMemory {
 public:
  // Without `keep` each copy is freed after its save.
  explicit CopyMemory(bool keep);
  // In a child of fork(2) frees nothing: a thread that the child does not have may be using the memory.
  ~CopyMemory();
  CopyMemory(const CopyMemory&) = delete;
  CopyMemory& operator=(const CopyMemory&) = delete;

  // Memory for copies of these sizes in bytes. If the copies before had other sizes, what is kept of them is freed
  // first: memory is kept by its size, so it would only grow.
  RefPtr<Allocator> For(std::vector<size_t> sizes) const;

 private:
  struct Kept;
  static std::shared_ptr<Kept> Shared();

  const OwnerProcess owner_;
  std::shared_ptr<Kept> kept_;  // null without `keep`
};

}  // namespace tensorcask::python

#endif  // TENSORCASK_PYTHON_SRC_COPY_MEMORY_H_
