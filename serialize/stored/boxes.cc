#include "tensorcask/serialize/stored/boxes.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tensorcask/tensor/base/check.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask::stored {
namespace {

using Point = absl::InlinedVector<int64_t, 4>;

std::string Numbers(absl::Span<const int64_t> numbers) { return absl::StrCat("[", absl::StrJoin(numbers, ","), "]"); }

// Also makes sure that no sum overflows.
absl::Status CheckInside(const TensorShape& shape, const Box& box) {
  const auto rank = static_cast<size_t>(shape.rank());
  if (box.offsets.size() != rank || box.sizes.size() != rank) {
    return absl::DataLossError(absl::StrCat("a box has ", box.offsets.size(), " offsets and ", box.sizes.size(),
                                            " sizes; the shape ", shape.ToString(), " has rank ", rank));
  }
  for (size_t axis = 0; axis < rank; ++axis) {
    const int64_t dim = shape.dim(static_cast<int>(axis));
    const int64_t offset = box.offsets[axis];
    const int64_t size = box.sizes[axis];
    if (offset >= 0 && size >= 0 && offset <= dim && size <= dim - offset) continue;
    return absl::DataLossError(absl::StrCat("the box at ", Numbers(box.offsets), " of sizes ", Numbers(box.sizes),
                                            " leaves the shape ", shape.ToString(), " on axis ", axis));
  }
  return absl::OkStatus();
}

// Axes on which a box is smaller than the shape. On the others all boxes are equal.
std::vector<size_t> DividedAxes(const TensorShape& shape, absl::Span<const Box> boxes) {
  std::vector<size_t> axes;
  for (size_t axis = 0; axis < static_cast<size_t>(shape.rank()); ++axis) {
    const int64_t dim = shape.dim(static_cast<int>(axis));
    const bool is_divided =
        std::any_of(boxes.begin(), boxes.end(), [&](const Box& box) { return box.sizes[axis] != dim; });
    if (is_divided) axes.push_back(axis);
  }
  return axes;
}

// Says of how many boxes an element is a part, by the corners of the boxes alone. A box adds 1 at its first element,
// and takes 1 off after the end of each axis, adds 1 where two axes end, and so on. The sum over all points that are
// no further along any axis is then the number of boxes at a point: 1 everywhere exactly if the corners of all boxes,
// with their signs, add up to those of the whole shape.
class Corners {
 public:
  Corners(const TensorShape& shape, std::vector<size_t> axes) : shape_(shape), axes_(std::move(axes)) {}

  void Add(absl::Span<const int64_t> offsets, absl::Span<const int64_t> sizes, int64_t sign) {
    const uint64_t count = uint64_t{1} << axes_.size();
    Point corner(axes_.size());
    for (uint64_t ends = 0; ends < count; ++ends) {
      int64_t of_corner = sign;
      for (size_t i = 0; i < axes_.size(); ++i) {
        const bool is_end = (ends >> i & 1) != 0;
        corner[i] = offsets[axes_[i]] + (is_end ? sizes[axes_[i]] : 0);
        if (is_end) of_corner = -of_corner;
      }
      const auto found = sums_.try_emplace(corner, 0).first;
      found->second += of_corner;
      if (found->second == 0) sums_.erase(found);
    }
  }

  size_t size() const { return sums_.size(); }

  // Requires: the corners of the shape were taken off.
  absl::Status CheckNone() const {
    if (sums_.empty()) return absl::OkStatus();
    // Nothing is different before the first point, so its sum is the difference there.
    const auto first =
        std::min_element(sums_.begin(), sums_.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<int64_t> element(static_cast<size_t>(shape_.rank()), 0);
    for (size_t i = 0; i < axes_.size(); ++i) element[axes_[i]] = first->first[i];
    if (first->second < 0) return absl::DataLossError(absl::StrCat("element ", Numbers(element), " is in no box"));
    return absl::DataLossError(absl::StrCat("element ", Numbers(element), " is in ", first->second + 1, " boxes"));
  }

 private:
  const TensorShape& shape_;
  const std::vector<size_t> axes_;
  absl::flat_hash_map<Point, int64_t> sums_;
};

}  // namespace

bool IsEmpty(const Box& box) {
  return std::any_of(box.sizes.begin(), box.sizes.end(), [](int64_t size) { return size == 0; });
}

bool TilingBudget::Take(uint64_t corners) {
  if (corners > corners_) return false;
  corners_ -= corners;
  return true;
}

absl::Status CheckTiling(const TensorShape& shape, absl::Span<const Box> boxes, TilingBudget* budget) {
  constexpr size_t kMostAxes = 8;
  constexpr size_t kMostKept = size_t{1} << 16;  // corners at one time: about 10 MiB
  for (const Box& box : boxes) CASK_RETURN_IF_ERROR(CheckInside(shape, box));
  if (shape.num_elements() == 0) return absl::OkStatus();
  std::vector<Box> with_elements;
  for (const Box& box : boxes) {
    if (!IsEmpty(box)) with_elements.push_back(box);
  }
  // In order, neighbours meet soon, and the corners that they share are gone.
  std::sort(with_elements.begin(), with_elements.end(),
            [](const Box& a, const Box& b) { return a.offsets < b.offsets; });
  const std::vector<size_t> axes = DividedAxes(shape, with_elements);
  const auto too_many = [&] {
    return absl::ResourceExhaustedError(absl::StrCat("is in ", with_elements.size(), " boxes that divide ", axes.size(),
                                                     " axes, which is more than can be checked"));
  };
  if (axes.size() > kMostAxes || !budget->Take(uint64_t{with_elements.size()} << axes.size())) return too_many();
  Corners corners(shape, axes);
  const std::vector<int64_t> origin(static_cast<size_t>(shape.rank()), 0);
  corners.Add(origin, shape.dims(), -1);
  for (const Box& box : with_elements) {
    corners.Add(box.offsets, box.sizes, 1);
    if (corners.size() > kMostKept) return too_many();
  }
  return corners.CheckNone();
}

absl::Status ReadSliceFromBoxes(absl::Span<const Box> boxes, const TensorSlice& slice, ReadBox read, TensorView* out) {
  const int rank = slice.rank();
  std::vector<TensorSlice::Extent> part(static_cast<size_t>(rank));
  std::vector<TensorSlice::Extent> target(static_cast<size_t>(rank));
  for (size_t number = 0; number < boxes.size(); ++number) {
    const Box& box = boxes[number];
    bool meets = true;
    for (int axis = 0; axis < rank && meets; ++axis) {
      const auto i = static_cast<size_t>(axis);
      const int64_t start = slice.IsFullAt(axis) ? 0 : slice.extent(axis).start;
      const int64_t begin = std::max(start, box.offsets[i]);
      const int64_t end = std::min(start + out->shape().dim(axis), box.offsets[i] + box.sizes[i]);
      meets = begin < end;
      if (!meets) break;
      const int64_t length = end - begin;
      part[i] = length == box.sizes[i] ? TensorSlice::Extent() : TensorSlice::Extent{begin - box.offsets[i], length};
      target[i] = {begin - start, length};
    }
    if (!meets) continue;
    CASK_ASSIGN_OR_RETURN(const TensorSlice of_box, TensorSlice::Create(part));
    CASK_ASSIGN_OR_RETURN(const TensorSlice of_out, TensorSlice::Create(target));
    CASK_ASSIGN_OR_RETURN(TensorView to, out->Slice(of_out));
    CASK_RETURN_IF_ERROR(read(number, of_box, &to));
  }
  return absl::OkStatus();
}

bool AreRows(const TensorShape& shape, absl::Span<const Box> boxes) {
  const std::vector<size_t> axes = DividedAxes(shape, boxes);
  return axes.empty() || (axes.size() == 1 && axes[0] == 0);
}

}  // namespace tensorcask::stored
