// A value of any type, as TensorFlow stores it: the name of the type, its bytes and its tensors. Lists of tensors,
// optional values and data set states are kept this way.
//
//   Variant variant;
//   variant.type_name = "tensorflow::Tensor";
//   variant.tensors = {Tensor::FromValues<float>({1, 2})};
//   Tensor tensor = Tensor::Scalar(variant);   // dtype variant, shape []
//
// A variant stays as it is stored and is never turned into the C++ value it stands for. So there is no registry of
// types, one of an unknown type comes back byte for byte, and what `metadata` means is for whoever knows the type. The
// default one is TensorFlow's empty variant.
//
// Copies share the memory of the tensors, as copies of a Tensor do; cloning a tensor of variants copies the variants,
// and not what is inside. Variants may hold tensors of variants. Those from messages and files are nested at most
// DecodeLimits::max_depth / 2 deep, 32 by default. Nesting by hand has no limit but that destroying takes about 100
// bytes of stack a level; encoding refuses more than the default limit, and comparing takes no stack.
//
// Source: VariantTensorData of tensorflow/core/framework/variant_tensor_data.h.

#ifndef TENSORCASK_TENSOR_VARIANT_H_
#define TENSORCASK_TENSOR_VARIANT_H_

#include <string>
#include <vector>

#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask {

struct Variant {
  std::string type_name;
  std::string metadata;  // any bytes
  std::vector<Tensor> tensors;

  // The same names, bytes, dtypes, shapes and elements, down to the innermost. Elements are compared bit by bit: a NaN
  // equals itself, 0 is not -0. A tensor without data equals only itself.
  friend bool operator==(const Variant& a, const Variant& b);
  friend bool operator!=(const Variant& a, const Variant& b) { return !(a == b); }
};

static_assert(sizeof(Variant) == kVariantBytes, "ObjectBytes says what an element takes");

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_VARIANT_H_
