#include "tensorcask/tensor/variant.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/resource_handle.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask {
namespace {

// Two variants that are to be compared later.
using Pairs = std::vector<std::pair<const Variant*, const Variant*>>;

template <typename T>
bool EqualElements(const Tensor& a, const Tensor& b) {
  return std::equal(a.data<T>(), a.data<T>() + a.num_elements(), b.data<T>());
}

// Adds variants inside the tensors to *later instead of recursing, so deep nesting uses no stack.
bool EqualButForVariants(const Tensor& a, const Tensor& b, Pairs* later) {
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) return false;
  if (a.num_elements() == 0 || a.buffer() == b.buffer()) return true;
  if (!a.buffer()->CheckReadable().ok() || !b.buffer()->CheckReadable().ok()) return false;
  if (a.buffer()->data() == b.buffer()->data()) return true;  // sub-buffers at one address
  if (a.dtype() == DType::kString) return EqualElements<std::string>(a, b);
  if (a.dtype() == DType::kResource) return EqualElements<ResourceHandle>(a, b);
  if (a.dtype() != DType::kVariant) return a.bytes() == b.bytes();
  for (int64_t i = 0; i < a.num_elements(); ++i) later->emplace_back(&a.data<Variant>()[i], &b.data<Variant>()[i]);
  return true;
}

}  // namespace

bool operator==(const Variant& a, const Variant& b) {
  Pairs pairs = {{&a, &b}};
  while (!pairs.empty()) {
    const auto [left, right] = pairs.back();
    pairs.pop_back();
    if (left->type_name != right->type_name || left->metadata != right->metadata ||
        left->tensors.size() != right->tensors.size()) {
      return false;
    }
    for (size_t i = 0; i < left->tensors.size(); ++i) {
      if (!EqualButForVariants(left->tensors[i], right->tensors[i], &pairs)) return false;
    }
  }
  return true;
}

}  // namespace tensorcask
