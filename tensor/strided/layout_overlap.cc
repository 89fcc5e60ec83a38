// Density and internal overlap of layouts. Both depend on sums of steps alone, not on the offset or on signs.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/strided/layout.h"

namespace tensorcask {
namespace {

struct Steps {
  int64_t stride;  // > 0
  int64_t most;    // the number of steps along the axis: size - 1, > 0
};
using StepsVector = absl::InlinedVector<Steps, 8>;

int64_t Reach(const StepsVector& axes) {
  int64_t reach = 0;  // does not overflow: it is at most the extent of the layout
  for (const Steps& axis : axes) reach += axis.stride * axis.most;
  return reach;
}

// Two indices meet if steps x, not all zero, |x[i]| <= most[i], have sum(stride[i] * x[i]) == 0. This class decides it
// for the axes that RemoveHarmless has left: it searches x from the largest stride down and skips a branch if the
// remaining distance exceeds what the smaller axes can reach, or is not a multiple of the common divisor of their
// strides.
class MeetingSearch {
 public:
  explicit MeetingSearch(const StepsVector& axes) : axes_(axes) {  // ascending strides
    reach_.push_back(0);
    divisor_.push_back(0);
    for (const Steps& axis : axes) {
      reach_.push_back(reach_.back() + axis.stride * axis.most);
      divisor_.push_back(std::gcd(divisor_.back(), axis.stride));
    }
  }

  // Empty if the search would take too long.
  std::optional<bool> Run() {
    for (size_t top = 1; top < axes_.size(); ++top) {  // the largest axis that moves; by symmetry, forward
      const int64_t last = std::min(axes_[top].most, reach_[top] / axes_[top].stride);
      for (int64_t steps = 1; steps <= last; ++steps) {
        if (CanMakeUp(top, steps * axes_[top].stride)) return true;
        if (budget_ <= 0) return std::nullopt;
      }
    }
    return false;
  }

 private:
  // True if the first `count` axes reach `distance`. |distance| <= the extent of the layout.
  bool CanMakeUp(size_t count, int64_t distance) {
    if (--budget_ <= 0) return false;
    if (distance == 0) return true;
    if (count == 0 || std::abs(distance) > reach_[count] || distance % divisor_[count] != 0) return false;
    const Steps& axis = axes_[count - 1];
    if (count == 1) return true;  // divisible and within reach
    // distance - steps * stride must lie within +-reach of the axes below.
    const __int128 below = reach_[count - 1];
    const auto first = static_cast<int64_t>(std::max<__int128>(CeilDiv(distance - below, axis.stride), -axis.most));
    const auto last = static_cast<int64_t>(std::min<__int128>(-CeilDiv(-(distance + below), axis.stride), axis.most));
    for (int64_t steps = first; steps <= last && budget_ > 0; ++steps) {
      if (CanMakeUp(count - 1, distance - steps * axis.stride)) return true;
    }
    return false;
  }

  static __int128 CeilDiv(__int128 a, int64_t positive) { return a / positive + (a % positive > 0 ? 1 : 0); }

  const StepsVector& axes_;
  absl::InlinedVector<int64_t, 9> reach_;    // [i]: of the first i axes together
  absl::InlinedVector<int64_t, 9> divisor_;  // [i]: greatest common divisor of the first i strides
  int64_t budget_ = 1 << 20;
};

// Merges axes that continue one another, and removes axes that cannot take part in an overlap: an axis whose stride
// exceeds the reach of all others, or whose steps are never a multiple of the common divisor of the others.
void RemoveHarmless(StepsVector* axes) {
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = 0; i + 1 < axes->size(); ++i) {
      Steps& inner = (*axes)[i];
      const Steps outer = (*axes)[i + 1];
      if (CheckedMul(inner.stride, inner.most + 1) != outer.stride) continue;
      inner.most = (inner.most + 1) * (outer.most + 1) - 1;
      axes->erase(axes->begin() + static_cast<std::ptrdiff_t>(i) + 1);
      changed = true;
    }
    for (size_t i = 0; i < axes->size(); ++i) {
      const Steps& axis = (*axes)[i];
      int64_t divisor = 0;  // the greatest common divisor of the other strides; 0 if there are none
      for (size_t j = 0; j < axes->size(); ++j) {
        if (j != i) divisor = std::gcd(divisor, (*axes)[j].stride);
      }
      const int64_t others_reach = Reach(*axes) - axis.stride * axis.most;
      if (axis.stride <= others_reach && axis.most >= divisor / std::gcd(divisor, axis.stride)) continue;
      axes->erase(axes->begin() + static_cast<std::ptrdiff_t>(i));
      changed = true;
      break;
    }
  }
}

// The positions of all elements, sorted. For small layouts on which the search gave up.
bool HasEqualPlaces(const StepsVector& axes, int64_t num_elements) {
  std::vector<int64_t> places = {0};
  places.reserve(static_cast<size_t>(num_elements));
  for (const Steps& axis : axes) {
    const size_t before = places.size();
    for (int64_t step = 1; step <= axis.most; ++step) {
      for (size_t i = 0; i < before; ++i) places.push_back(places[i] + step * axis.stride);
    }
  }
  std::sort(places.begin(), places.end());
  return std::adjacent_find(places.begin(), places.end()) != places.end();
}

// The axes of size above 1 with the absolute values of their strides, in ascending order. Requires: elements, and no
// such stride is 0.
StepsVector MovingAxes(const Layout& layout) {
  StepsVector axes;
  for (int axis = 0; axis < layout.rank(); ++axis) {
    if (layout.dim(axis) > 1) axes.push_back({std::abs(layout.stride(axis)), layout.dim(axis) - 1});
  }
  std::sort(axes.begin(), axes.end(), [](const Steps& a, const Steps& b) { return a.stride < b.stride; });
  return axes;
}

}  // namespace

bool Layout::IsNonOverlappingAndDense() const {
  if (IsContiguous()) return true;
  int64_t inner = 1;
  for (const Steps& axis : MovingAxes(*this)) {
    if (axis.stride != inner) return false;
    inner *= axis.most + 1;
  }
  return true;
}

bool Layout::HasInternalOverlap() const {
  if (num_elements_ <= 1 || IsContiguous()) return false;
  if (rank_ == 1) return data()[strides_at()] == 0;
  StepsVector axes = MovingAxes(*this);
  if (!axes.empty() && axes.front().stride == 0) return true;
  RemoveHarmless(&axes);
  if (axes.empty()) return false;
  int64_t divisor = 0;
  int64_t num_left = 1;
  for (const Steps& axis : axes) {
    divisor = std::gcd(divisor, axis.stride);
    num_left *= axis.most + 1;
  }
  if (num_left - 1 > Reach(axes) / divisor) return true;  // more elements than positions
  if (const std::optional<bool> found = MeetingSearch(axes).Run()) return *found;
  constexpr int64_t kMostEnumerated = 1 << 20;
  return num_left > kMostEnumerated || HasEqualPlaces(axes, num_left);
}

}  // namespace tensorcask
