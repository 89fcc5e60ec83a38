// The tag with which absl::StatusOr constructs its value in place: Abseil's own where Abseil has an `optional` of its
// own, as Debian 12's has; else that of the standard library.
//
//   absl::StatusOr<Layout> layout(internal::kInPlace, dims, strides);

#ifndef TENSORCASK_TENSOR_BASE_IN_PLACE_H_
#define TENSORCASK_TENSOR_BASE_IN_PLACE_H_

#include <utility>

#include "absl/base/config.h"
#include "absl/status/statusor.h"
#include "tensorcask/tensor/base/cxx17.h"

namespace tensorcask::internal {

#if defined(ABSL_OPTION_USE_STD_OPTIONAL) && ABSL_OPTION_USE_STD_OPTIONAL == 0
inline constexpr absl::in_place_t kInPlace{};
#else
inline constexpr std::in_place_t kInPlace{};
#endif

}  // namespace tensorcask::internal

#endif  // TENSORCASK_TENSOR_BASE_IN_PLACE_H_
