// An open file descriptor that its owner closes.
//
//   ScopedDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
//   if (!file.is_open()) ...

#ifndef TENSORCASK_TENSOR_BASE_SCOPED_DESCRIPTOR_H_
#define TENSORCASK_TENSOR_BASE_SCOPED_DESCRIPTOR_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <unistd.h>

#include <utility>

namespace tensorcask {

class ScopedDescriptor {
 public:
  ScopedDescriptor() = default;
  explicit ScopedDescriptor(int descriptor) : descriptor_(descriptor) {}  // negative: none
  ScopedDescriptor(ScopedDescriptor&& other) noexcept : descriptor_(other.Release()) {}
  ScopedDescriptor& operator=(ScopedDescriptor&& other) noexcept {
    if (this != &other) {
      Close();
      descriptor_ = other.Release();
    }
    return *this;
  }
  ~ScopedDescriptor() { Close(); }

  bool is_open() const { return descriptor_ >= 0; }
  int get() const { return descriptor_; }
  int Release() { return std::exchange(descriptor_, -1); }
  // Calls close(2) once, whatever it returns: Linux frees the number even on error, and another thread may have it by
  // then.
  void Close() {
    if (descriptor_ >= 0) close(Release());
  }

 private:
  int descriptor_ = -1;
};

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_BASE_SCOPED_DESCRIPTOR_H_
