#include "tensorcask/tensor/strided/copy_strided.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "absl/container/inlined_vector.h"
#include "tensorcask/tensor/base/check.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/strided/layout.h"

namespace tensorcask::internal {
namespace {

struct Axis {
  int64_t size;
  int64_t from;  // steps, in elements
  int64_t to;
};
using Axes = absl::InlinedVector<Axis, 8>;

// The axes of more than one element, the destination's largest steps first, merged where both sides continue.
Axes MergedAxes(const Layout& from, const Layout& to) {
  Axes axes;
  for (int axis = 0; axis < to.rank(); ++axis) {
    if (to.dim(axis) != 1) axes.push_back({to.dim(axis), from.stride(axis), to.stride(axis)});
  }
  std::stable_sort(axes.begin(), axes.end(),
                   [](const Axis& a, const Axis& b) { return std::abs(a.to) > std::abs(b.to); });
  size_t kept = 0;
  for (size_t i = 1; i < axes.size(); ++i) {
    Axis& outer = axes[kept];
    const Axis& inner = axes[i];
    // The steps of an outer axis reach past the inner one, so these products fit wherever they are equal to a step.
    if (outer.to / inner.size == inner.to && outer.to % inner.size == 0 && outer.from / inner.size == inner.from &&
        outer.from % inner.size == 0) {
      outer = {outer.size * inner.size, inner.from, inner.to};
    } else {
      axes[++kept] = inner;
    }
  }
  if (!axes.empty()) axes.resize(kept + 1);
  return axes;
}

// Calls run(from, to, count, from_step, to_step) for each run along the innermost axis; positions in elements.
template <typename Run>
void ForEachRun(const Axes& axes, int64_t from, int64_t to, Run&& run) {
  if (axes.empty()) return run(from, to, int64_t{1}, int64_t{1}, int64_t{1});
  const Axis& inner = axes.back();
  absl::InlinedVector<int64_t, 8> index(axes.size() - 1);
  while (true) {
    run(from, to, inner.size, inner.from, inner.to);
    size_t axis = index.size();
    while (true) {
      if (axis == 0) return;
      const Axis& outer = axes[--axis];
      if (++index[axis] < outer.size) {
        from += outer.from;
        to += outer.to;
        break;
      }
      from -= outer.from * (outer.size - 1);
      to -= outer.to * (outer.size - 1);
      index[axis] = 0;
    }
  }
}

template <size_t kBytes>
void CopyBytes(const Axes& axes, const char* from_base, int64_t from, char* to_base, int64_t to) {
  constexpr auto kSize = static_cast<int64_t>(kBytes);
  ForEachRun(axes, from, to, [&](int64_t from, int64_t to, int64_t count, int64_t from_step, int64_t to_step) {
    if (from_step == 1 && to_step == 1) {
      std::memcpy(to_base + to * kSize, from_base + from * kSize, static_cast<size_t>(count) * kBytes);
      return;
    }
    for (int64_t i = 0; i < count; ++i) {
      std::memcpy(to_base + (to + i * to_step) * kSize, from_base + (from + i * from_step) * kSize, kBytes);
    }
  });
}

void CopyStrings(const Axes& axes, const std::string* from_base, int64_t from, std::string* to_base, int64_t to) {
  ForEachRun(axes, from, to, [&](int64_t from, int64_t to, int64_t count, int64_t from_step, int64_t to_step) {
    for (int64_t i = 0; i < count; ++i) to_base[to + i * to_step] = from_base[from + i * from_step];
  });
}

}  // namespace

void CopyStrided(DType dtype, const void* from_base, const Layout& from, void* to_base, const Layout& to) {
  CASK_CHECK(from.dims() == to.dims(), "CopyStrided: the dims differ");
  if (to.num_elements() == 0) return;
  const Axes axes = MergedAxes(from, to);
  if (dtype == DType::kString) {
    CopyStrings(axes, static_cast<const std::string*>(from_base), from.offset(), static_cast<std::string*>(to_base),
                to.offset());
    return;
  }
  const auto copy = [&](auto copy_bytes) {
    copy_bytes(axes, static_cast<const char*>(from_base), from.offset(), static_cast<char*>(to_base), to.offset());
  };
  switch (ElementSize(dtype)) {
    case 1:
      return copy(CopyBytes<1>);
    case 2:
      return copy(CopyBytes<2>);
    case 4:
      return copy(CopyBytes<4>);
    case 8:
      return copy(CopyBytes<8>);
    case 16:
      return copy(CopyBytes<16>);
    default:
      CASK_CHECK(false, "CopyStrided: elements of this size do not exist");
  }
}

}  // namespace tensorcask::internal
