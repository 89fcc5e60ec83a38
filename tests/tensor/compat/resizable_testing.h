// What the tests of ResizableTensor share.

#ifndef TENSORCASK_TESTS_TENSOR_COMPAT_RESIZABLE_TESTING_H_
#define TENSORCASK_TESTS_TENSOR_COMPAT_RESIZABLE_TESTING_H_

#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/compat/resizable.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {

// A tensor of these dims whose elements are 0, 1, 2, ...
template <typename T>
ResizableTensor Counting(const std::vector<int64_t>& dims, ResizableOptions options = {}) {
  ResizableTensor tensor(std::move(options));
  EXPECT_OK(tensor.Resize(dims));
  const auto data = tensor.MutableData<T>();
  EXPECT_OK(data);
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    if constexpr (std::is_same_v<T, std::string>) {
      (*data)[i] = "a string that is too long for the object itself, number " + std::to_string(i);
    } else {
      (*data)[i] = static_cast<T>(i);
    }
  }
  return tensor;
}

template <typename T>
std::vector<T> Values(const ResizableTensor& tensor) {
  const auto data = tensor.Data<T>();
  EXPECT_OK(data);
  if (!data.ok()) return {};
  return std::vector<T>(*data, *data + tensor.num_elements());
}

inline const void* Pointer(const ResizableTensor& tensor) {
  const auto view = tensor.View();
  return view.ok() && view->buffer() ? view->buffer()->data() : nullptr;
}

}  // namespace tensorcask

#endif  // TENSORCASK_TESTS_TENSOR_COMPAT_RESIZABLE_TESTING_H_
