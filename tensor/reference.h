// Keeps the memory of a tensor alive, without its shape and dtype.
//
//   TensorReference reference(tensor);   // one more reference to the root buffer
//   queue.push_back(reference);          // until the bytes have been sent
//
// It refers to the root buffer, so size_bytes() is the whole allocation even if the tensor is a slice. A copy is one
// more reference, and the destructor drops it (TensorFlow's class of this name needs an explicit Unref).

#ifndef TENSORCASK_TENSOR_REFERENCE_H_
#define TENSORCASK_TENSOR_REFERENCE_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstddef>

#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask {

class TensorReference {
 public:
  TensorReference() = default;  // refers to no buffer
  explicit TensorReference(const Tensor& tensor)
      : root_(tensor.buffer() ? RefPtr<TensorBuffer>::Share(tensor.buffer()->root()) : nullptr) {}

  explicit operator bool() const { return static_cast<bool>(root_); }  // false for a tensor without elements
  size_t size_bytes() const { return root_ ? root_->size_bytes() : 0; }
  const RefPtr<TensorBuffer>& root() const { return root_; }
  bool SharesBufferWith(const TensorReference& other) const { return root_ && root_ == other.root_; }

 private:
  RefPtr<TensorBuffer> root_;
};

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_REFERENCE_H_
