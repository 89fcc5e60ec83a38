#include "tensorcask/tensor/strided/internal/copy_strided.h"

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tensorcask/tensor/base/check.h"
#include "tensorcask/tensor/base/copy_bytes.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/dtype_visit.h"
#include "tensorcask/tensor/resource_handle.h"
#include "tensorcask/tensor/strided/internal/axes.h"
#include "tensorcask/tensor/strided/internal/copy_few.h"
#include "tensorcask/tensor/strided/internal/copy_kernels.h"
#include "tensorcask/tensor/strided/internal/copy_plan.h"
#include "tensorcask/tensor/strided/layout.h"
#include "tensorcask/tensor/variant.h"

namespace tensorcask::internal {
namespace {

template <typename T>
void CopyObjects(const Axes& axes, const T* from_base, int64_t from, T* to_base, int64_t to) {
  ForEachRun(axes, from, to, [&](int64_t from, int64_t to, int64_t count, int64_t from_step, int64_t to_step) {
    for (int64_t i = 0; i < count; ++i) to_base[to + i * to_step] = from_base[from + i * from_step];
  });
}

}  // namespace

void CopyStrided(DType dtype, const void* from_base, const Layout& from, void* to_base, const Layout& to,
                 const CopyStridedOptions& options) {
  CASK_CHECK(from.dims() == to.dims(), "CopyStrided: the dims differ");
  if (to.num_elements() == 0) return;
  if (IsObject(dtype)) {
    return VisitObjectDType(dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      CopyObjects(MergedAxes(from, to), static_cast<const T*>(from_base), from.offset(), static_cast<T*>(to_base),
                  to.offset());
    });
  }
  const auto element_bytes = static_cast<int64_t>(ElementSize(dtype));
  const auto* const from_bytes = static_cast<const char*>(from_base);
  auto* const to_bytes = static_cast<char*>(to_base);
  // Dense on both sides: no plan is needed.
  const bool is_chosen = options.stream_bytes.has_value() || options.features != nullptr || options.tuning != nullptr ||
                         options.choices != nullptr;
  if (!is_chosen && options.num_threads <= 1 && to.IsContiguous() && from.IsContiguous()) {
    char* const to_first = to_bytes + to.offset() * element_bytes;
    const char* const from_first = from_bytes + from.offset() * element_bytes;
    const auto bytes = static_cast<size_t>(to.num_elements() * element_bytes);
    options.fresh ? static_cast<void>(std::memcpy(to_first, from_first, bytes))
                  : CopyBytes(to_first, from_first, bytes);
    return;
  }
  if (to.num_elements() <= kFewStridedElements && to.rank() <= kFewAxes && options.features == nullptr) {
    return CopyFewElements(static_cast<size_t>(element_bytes), from_bytes + from.offset() * element_bytes, from,
                           to_bytes + to.offset() * element_bytes, to.strides());
  }
  Axes axes = LongAxes(from, to);
  CopyPlan(&axes, element_bytes, from_bytes, from.offset(), to_bytes, to.offset(), options).Run();
}

void CopyToRowMajor(DType dtype, const void* from_base, const Layout& from, void* to) {
  const size_t element_bytes = ElementSize(dtype);
  const int rank = from.rank();
  if (element_bytes == 0 || from.num_elements() > kFewStridedElements || rank > kFewAxes) {
    return CopyStrided(dtype, from_base, from, to, Layout::RowMajor(from.shape()));
  }
  const char* const first = static_cast<const char*>(from_base) + from.offset() * static_cast<int64_t>(element_bytes);
  const int64_t* const dims = from.dims().data();
  const int64_t* const steps = from.strides().data();
  int64_t to_steps[kFewAxes];
  int64_t dense = 1;
  bool is_dense = true;
  for (int axis = rank - 1; axis >= 0; --axis) {
    to_steps[axis] = dense;
    is_dense = is_dense && (steps[axis] == dense || dims[axis] == 1);
    dense *= dims[axis];
  }
  if (is_dense) return CopyShort(first, static_cast<char*>(to), dense * static_cast<int64_t>(element_bytes));
  CopyFewElements(element_bytes, first, from, static_cast<char*>(to), {to_steps, static_cast<size_t>(rank)});
}

void CopyAlong(Axes* axes, size_t element_bytes, const char* from_base, int64_t from, char* to_base, int64_t to,
               const CopyStridedOptions& options) {
  CopyPlan(axes, static_cast<int64_t>(element_bytes), from_base, from, to_base, to, options).Run();
}

}  // namespace tensorcask::internal
