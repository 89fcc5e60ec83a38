// An open file descriptor that is closed on leaving the scope.

#ifndef TENSORCASK_SERIALIZE_IO_INTERNAL_SCOPED_DESCRIPTOR_H_
#define TENSORCASK_SERIALIZE_IO_INTERNAL_SCOPED_DESCRIPTOR_H_

#include <unistd.h>

#include <utility>

namespace tensorcask::internal {

class ScopedDescriptor {
 public:
  explicit ScopedDescriptor(int descriptor) : descriptor_(descriptor) {}  // negative: none
  ~ScopedDescriptor() { reset(-1); }
  ScopedDescriptor(const ScopedDescriptor&) = delete;
  ScopedDescriptor& operator=(const ScopedDescriptor&) = delete;

  int get() const { return descriptor_; }
  int release() { return std::exchange(descriptor_, -1); }
  void reset(int descriptor) {
    if (descriptor_ >= 0) close(descriptor_);
    descriptor_ = descriptor;
  }

 private:
  int descriptor_;
};

}  // namespace tensorcask::internal

#endif  // TENSORCASK_SERIALIZE_IO_INTERNAL_SCOPED_DESCRIPTOR_H_
