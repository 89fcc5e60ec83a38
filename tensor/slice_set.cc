#include "tensorcask/tensor/slice_set.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask {
namespace {

std::string Named(const TensorSliceSet::Part& part) {
  return absl::StrCat(Quoted(part.slice.ToString()), " (", Quoted(part.tag), ")");
}

}  // namespace

TensorSliceSet::TensorSliceSet(DType dtype, const TensorShape& shape, size_t max_parts)
    : dtype_(dtype),
      shape_(shape),
      // Numbers of parts are stored in 32 bits.
      max_parts_(std::min<size_t>(max_parts, std::numeric_limits<uint32_t>::max())) {}

absl::Status TensorSliceSet::Register(const TensorSlice& slice, std::string tag) {
  CASK_ASSIGN_OR_RETURN(const TensorShape part_shape, slice.Apply(shape_));
  if (parts_.size() >= max_parts_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a tensor ", shape_.ToString(), " in more than ", max_parts_, " slices, which is the limit"));
  }
  Part part{slice, std::move(tag)};
  const Part* other = nullptr;
  steps_ += ForEachOverlap(slice, kMaxSteps - steps_, [&](uint32_t number) {
    other = &parts_[number];
    return false;
  });
  if (other != nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("slice ", Named(part), " overlaps ", Named(*other), " of the same tensor ", shape_.ToString()));
  }
  if (steps_ >= kMaxSteps) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a tensor ", shape_.ToString(), " in ", parts_.size() + 1,
                     " slices: finding overlaps between them takes too many comparisons; the limit is ", kMaxSteps));
  }
  parts_.push_back(std::move(part));
  num_elements_ += part_shape.num_elements();  // at most those of the shape: no overlap
  if (parts_.size() % kLeafParts == 0) Reorganise();
  return absl::OkStatus();
}

absl::Status TensorSliceSet::CheckTensor(DType dtype, const TensorShape& shape) const {
  if (dtype == dtype_ && shape == shape_) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("slices of one tensor disagree: it is ", DTypeName(dtype_), " ",
                                                 shape_.ToString(), " and ", DTypeName(dtype), " ", shape.ToString()));
}

absl::Status TensorSliceSet::CheckPart(const TensorSlice& slice, DType dtype, const TensorShape& part_shape) const {
  CASK_ASSIGN_OR_RETURN(const TensorShape wanted, slice.Apply(shape_));
  if (dtype == dtype_ && part_shape == wanted) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("slice ", Quoted(slice.ToString()), " of ", DTypeName(dtype_), " ",
                                                 shape_.ToString(), " is ", DTypeName(dtype), " ",
                                                 part_shape.ToString(), "; wanted is ", wanted.ToString()));
}

absl::StatusOr<std::vector<TensorSliceSet::Part>> TensorSliceSet::Query(const TensorSlice& slice) const {
  CASK_ASSIGN_OR_RETURN(const TensorShape query_shape, slice.Apply(shape_));
  std::vector<uint32_t> numbers;
  int64_t num_elements = 0;
  ForEachOverlap(slice, std::numeric_limits<int64_t>::max(), [&](uint32_t number) {
    numbers.push_back(number);
    num_elements += CommonElements(slice, parts_[number].slice);
    return true;
  });
  if (num_elements != query_shape.num_elements()) {
    return absl::NotFoundError(absl::StrCat("slice ", Quoted(slice.ToString()), " of a tensor ", shape_.ToString(),
                                            ": ", num_elements, " of its ", query_shape.num_elements(),
                                            " elements are in the ", numbers.size(), " parts that it touches"));
  }
  std::sort(numbers.begin(), numbers.end());
  std::vector<Part> found;
  found.reserve(numbers.size());
  for (const uint32_t number : numbers) found.push_back(parts_[number]);
  return found;
}

TensorSliceSet::Range TensorSliceSet::RangeOf(const TensorSlice& slice, int axis) const {
  const TensorSlice::Extent& extent = slice.extent(axis);
  if (extent.full()) return {0, std::max<int64_t>(shape_.dim(axis), 1)};
  return {extent.start, extent.start + extent.length};
}

bool TensorSliceSet::Overlap(const TensorSlice& a, const TensorSlice& b) const {
  for (int axis = 0; axis < shape_.rank(); ++axis) {
    const Range mine = RangeOf(a, axis);
    const Range theirs = RangeOf(b, axis);
    if (mine.begin >= theirs.end || theirs.begin >= mine.end) return false;
  }
  return true;
}

bool TensorSliceSet::OverlapsBox(const TensorSlice& slice, const Range* box) const {
  for (int axis = 0; axis < shape_.rank(); ++axis) {
    const Range range = RangeOf(slice, axis);
    if (range.begin >= box[axis].end || box[axis].begin >= range.end) return false;
  }
  return true;
}

int64_t TensorSliceSet::CommonElements(const TensorSlice& a, const TensorSlice& b) const {
  int64_t product = 1;
  for (int axis = 0; axis < shape_.rank(); ++axis) {
    if (shape_.dim(axis) == 0) return 0;
    const Range mine = RangeOf(a, axis);
    const Range theirs = RangeOf(b, axis);
    product *= std::min(mine.end, theirs.end) - std::max(mine.begin, theirs.begin);
  }
  return product;
}

int64_t TensorSliceSet::ForEachOverlap(const TensorSlice& slice, int64_t max_steps,
                                       absl::FunctionRef<bool(uint32_t)> visit) const {
  int64_t steps = 0;
  const size_t first_loose = parts_.size() - parts_.size() % kLeafParts;
  for (size_t number = first_loose; number < parts_.size(); ++number) {
    ++steps;
    if (Overlap(slice, parts_[number].slice) && !visit(static_cast<uint32_t>(number))) return steps;
  }
  const size_t rank = static_cast<size_t>(shape_.rank());
  std::vector<size_t> nodes;  // nodes of the current tree that are still to be visited
  for (const Tree& tree : trees_) {
    if (tree.parts.empty()) continue;
    const size_t first_leaf = tree.parts.size() / kLeafParts - 1;
    nodes.assign(1, 0);
    while (!nodes.empty()) {
      const size_t node = nodes.back();
      nodes.pop_back();
      if (++steps >= max_steps) return steps;
      if (!OverlapsBox(slice, tree.boxes.data() + rank * node)) continue;
      if (node < first_leaf) {
        nodes.push_back(2 * node + 2);
        nodes.push_back(2 * node + 1);
        continue;
      }
      for (const uint32_t number :
           absl::MakeConstSpan(tree.parts).subspan((node - first_leaf) * kLeafParts, kLeafParts)) {
        ++steps;
        if (Overlap(slice, parts_[number].slice) && !visit(number)) return steps;
      }
    }
  }
  return steps;
}

// Builds a new tree, at the first free level, from the loose parts and the trees below that level.
void TensorSliceSet::Reorganise() {
  Tree tree;
  tree.parts.resize(kLeafParts);
  std::iota(tree.parts.begin(), tree.parts.end(), static_cast<uint32_t>(parts_.size() - kLeafParts));
  size_t k = 0;
  for (; k < trees_.size() && !trees_[k].parts.empty(); ++k) {
    tree.parts.insert(tree.parts.end(), trees_[k].parts.begin(), trees_[k].parts.end());
    trees_[k] = Tree();
  }
  const size_t num_nodes = 2 * (tree.parts.size() / kLeafParts) - 1;
  tree.boxes.resize(num_nodes * static_cast<size_t>(shape_.rank()));
  Grow(&tree, 0, absl::MakeSpan(tree.parts));
  if (k == trees_.size()) trees_.emplace_back();
  trees_[k] = std::move(tree);
}

void TensorSliceSet::Grow(Tree* tree, size_t node, absl::Span<uint32_t> parts) const {
  const int rank = shape_.rank();
  Range* const box = tree->boxes.data() + static_cast<size_t>(rank) * node;
  for (int axis = 0; axis < rank; ++axis) {
    Range around = RangeOf(parts_[parts[0]].slice, axis);
    for (const uint32_t number : parts) {
      const Range range = RangeOf(parts_[number].slice, axis);
      around = {std::min(around.begin, range.begin), std::max(around.end, range.end)};
    }
    box[axis] = around;
  }
  if (parts.size() == kLeafParts) return;
  const size_t half = parts.size() / 2;
  if (rank > 0) {
    const int axis = CutAxis(parts, box);
    std::nth_element(parts.begin(), parts.begin() + half, parts.end(), [&](uint32_t a, uint32_t b) {
      return RangeOf(parts_[a].slice, axis).begin < RangeOf(parts_[b].slice, axis).begin;
    });
  }
  Grow(tree, 2 * node + 1, parts.subspan(0, half));
  Grow(tree, 2 * node + 2, parts.subspan(half));
}

// The axis along which the parts are shortest relative to their bounding box: a cut there divides the fewest parts.
int TensorSliceSet::CutAxis(absl::Span<const uint32_t> parts, const Range* box) const {
  int best = 0;
  double best_share = std::numeric_limits<double>::infinity();
  for (int axis = 0; axis < shape_.rank(); ++axis) {
    double sum = 0;
    for (const uint32_t number : parts) {
      const Range range = RangeOf(parts_[number].slice, axis);
      sum += static_cast<double>(range.end - range.begin);
    }
    const double share = sum / static_cast<double>(box[axis].end - box[axis].begin);
    if (share < best_share) {
      best = axis;
      best_share = share;
    }
  }
  return best;
}

}  // namespace tensorcask
