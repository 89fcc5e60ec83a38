// Helpers for tests of Tensor.

#ifndef TENSORCASK_TESTS_TENSOR_TENSOR_TESTING_H_
#define TENSORCASK_TESTS_TENSOR_TENSOR_TESTING_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask::testing {

// Read-only memory of `count` bytes 0, 1, 2 ...
inline RefPtr<TensorBuffer> ReadOnly(std::vector<uint8_t>* bytes, RefPtr<Allocator> allocator = nullptr) {
  for (size_t i = 0; i < bytes->size(); ++i) (*bytes)[i] = static_cast<uint8_t>(i);
  TensorBuffer::External memory;
  memory.data = bytes->data();
  memory.size_bytes = bytes->size();
  memory.writable = false;
  memory.allocator = std::move(allocator);
  return TensorBuffer::WrapExternal(std::move(memory));
}

}  // namespace tensorcask::testing

#endif  // TENSORCASK_TESTS_TENSOR_TENSOR_TESTING_H_
