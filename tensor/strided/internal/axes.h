// The loops over two layouts at once: merges axes that continue one another on both sides, then visits runs along the
// innermost axis. Internal.

#ifndef TENSORCASK_TENSOR_STRIDED_INTERNAL_AXES_H_
#define TENSORCASK_TENSOR_STRIDED_INTERNAL_AXES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>

#include "absl/container/inlined_vector.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/layout.h"

namespace tensorcask::internal {

struct Axis {
  int64_t size;
  int64_t from;  // steps, in elements
  int64_t to;
};

// A list of axes in place: as many as a layout has, and two more for loops over tiles. No allocation, and a copy moves
// only the axes that are there.
class Axes {
 public:
  static constexpr size_t kMost = TensorShape::kMaxRank + 2;

  Axes() {}  // NOLINT(modernize-use-equals-default): axes_ stays as it is
  Axes(std::initializer_list<Axis> axes) {
    for (const Axis& axis : axes) push_back(axis);
  }
  Axes(const Axes& other) { *this = other; }
  Axes& operator=(const Axes& other) {
    if (this == &other) return *this;
    size_ = other.size_;
    std::copy(other.begin(), other.end(), axes_);
    return *this;
  }

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  Axis& operator[](size_t i) { return axes_[i]; }
  const Axis& operator[](size_t i) const { return axes_[i]; }
  Axis& back() { return axes_[size_ - 1]; }
  const Axis& back() const { return axes_[size_ - 1]; }
  Axis* begin() { return axes_; }
  Axis* end() { return axes_ + size_; }
  const Axis* begin() const { return axes_; }
  const Axis* end() const { return axes_ + size_; }

  void push_back(const Axis& axis) { axes_[size_++] = axis; }  // Requires: size() < kMost
  void pop_back() { --size_; }
  void erase(size_t i) { std::copy(axes_ + i + 1, axes_ + size_--, axes_ + i); }
  void truncate(size_t size) { size_ = size; }  // Requires: size <= size()

 private:
  size_t size_ = 0;
  Axis axes_[kMost];
};

// Sorts `axes` by the destination's steps, largest first, and merges those that continue one another on both sides.
inline void SortAndMerge(Axes* axes) {
  for (size_t i = 1; i < axes->size(); ++i) {  // insertion sort: the axes are few and nearly sorted
    const Axis axis = (*axes)[i];
    size_t place = i;
    for (; place > 0 && std::abs((*axes)[place - 1].to) < std::abs(axis.to); --place)
      (*axes)[place] = (*axes)[place - 1];
    (*axes)[place] = axis;
  }
  size_t kept = 0;
  for (size_t i = 1; i < axes->size(); ++i) {
    Axis& outer = (*axes)[kept];
    const Axis inner = (*axes)[i];
    // A product that overflows cannot be the step of an axis with elements.
    int64_t from = 0;
    int64_t to = 0;
    if (!__builtin_mul_overflow(inner.from, inner.size, &from) && from == outer.from &&
        !__builtin_mul_overflow(inner.to, inner.size, &to) && to == outer.to) {
      outer = {outer.size * inner.size, inner.from, inner.to};
    } else {
      (*axes)[++kept] = inner;
    }
  }
  if (!axes->empty()) axes->truncate(kept + 1);
}

// The axes of more than one element, in the order of the layouts.
inline Axes LongAxes(const Layout& from, const Layout& to) {
  Axes axes;
  for (int axis = 0; axis < to.rank(); ++axis) {
    if (to.dim(axis) != 1) axes.push_back({to.dim(axis), from.stride(axis), to.stride(axis)});
  }
  return axes;
}

// The axes of more than one element, the destination's largest steps first, merged where both sides continue.
inline Axes MergedAxes(const Layout& from, const Layout& to) {
  Axes axes = LongAxes(from, to);
  SortAndMerge(&axes);
  return axes;
}

// Puts the elements into another order: all steps of the destination become positive, and *from and *to the positions
// of the element that is first then. Sorts and merges. Requires: axes of more than one element.
inline void TurnForward(Axes* axes, int64_t* from, int64_t* to) {
  for (Axis& axis : *axes) {
    if (axis.to >= 0) continue;
    *from += axis.from * (axis.size - 1);  // from its end
    *to += axis.to * (axis.size - 1);
    axis = {axis.size, -axis.from, -axis.to};
  }
  SortAndMerge(axes);
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

}  // namespace tensorcask::internal

#endif  // TENSORCASK_TENSOR_STRIDED_INTERNAL_AXES_H_
