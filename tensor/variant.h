// A value of any type, as TensorFlow stores it: the name of the type, its bytes and its tensors. Lists of tensors,
// optional values and data set states are kept this way.
//
//   Variant variant;
//   variant.type_name = "tensorflow::Tensor";
//   variant.tensors = {Tensor::FromValues<float>({1, 2})};
//   Tensor tensor = Tensor::Scalar(variant);   // dtype variant, shape []
//
// A variant keeps its stored form and is never converted to the C++ value that it represents. So there is no registry
// of types, a variant of an unknown type is written back byte for byte, and only code that knows the type interprets
// `metadata`. The default variant is TensorFlow's empty variant.
//
// Copies share the memory of the tensors, as copies of a Tensor do. Cloning a tensor of variants copies the variants,
// but not the tensors inside. Variants may hold tensors of variants. In messages and files the nesting depth is at most
// DecodeLimits::max_depth / 2, 32 by default. Variants made in memory have no limit, but destroying them uses about 100
// bytes of stack per level; encoding refuses more than the default limit, and comparing uses no stack.
//
// Source: VariantTensorData of tensorflow/core/framework/variant_tensor_data.h.

#ifndef TENSORCASK_TENSOR_VARIANT_H_
#define TENSORCASK_TENSOR_VARIANT_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <string>
#include <vector>

#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask {

struct Variant {
  std::string type_name;
  std::string metadata;  // any bytes
  std::vector<Tensor> tensors;

  // True if names, bytes, dtypes, shapes and elements are equal at every level. Elements are compared bit by bit: a NaN
  // equals itself, 0 is not -0. A tensor without data equals only itself.
  friend bool operator==(const Variant& a, const Variant& b);
  friend bool operator!=(const Variant& a, const Variant& b) { return !(a == b); }
};

static_assert(sizeof(Variant) == kVariantBytes, "ObjectBytes says what an element takes");

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_VARIANT_H_
