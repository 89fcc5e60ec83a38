// Calls a template for the element type of a dtype that is known at run time: VisitDType for elements of fixed size,
// VisitObjectDType for objects.
//
//   absl::Status status = VisitDType(tensor.dtype(), [&](auto tag) {
//     using T = typename decltype(tag)::type;
//     return Sum(tensor.flat<T>(), &sum);
//   });

#ifndef TENSORCASK_TENSOR_DTYPE_VISIT_H_
#define TENSORCASK_TENSOR_DTYPE_VISIT_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/tensor/base/check.h"
#include "tensorcask/tensor/dtype.h"

namespace tensorcask {

template <typename T>
struct TypeTag {
  using type = T;
};

// Returns fn(TypeTag<T>()) for the element type T of `dtype`; Unimplemented if T has no fixed size (objects).
template <typename Fn>
absl::Status VisitDType(DType dtype, Fn&& fn) {
  switch (dtype) {  // no default: the compiler reports a missing dtype
#define CASK_CASE(id, number, T, name) \
  case DType::id:                      \
    return fn(TypeTag<T>());
    CASK_FIXED_SIZE_DTYPES(CASK_CASE)
#undef CASK_CASE
    case DType::kString:
    case DType::kResource:
    case DType::kVariant:
    case DType::kInvalid:
      break;
  }
  return absl::UnimplementedError(absl::StrCat("dtype ", DTypeName(dtype), " has no fixed-size element"));
}

// Returns fn(TypeTag<T>()) for the class T of the elements of `dtype`: std::string, ResourceHandle or Variant. The
// caller includes resource_handle.h and variant.h. Requires: IsObject(dtype).
template <typename Fn>
auto VisitObjectDType(DType dtype, Fn&& fn) {
  CASK_CHECK(IsObject(dtype), "VisitObjectDType: the elements are not objects");
  if (dtype == DType::kString) return fn(TypeTag<std::string>());
  if (dtype == DType::kResource) return fn(TypeTag<ResourceHandle>());
  return fn(TypeTag<Variant>());
}

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_DTYPE_VISIT_H_
