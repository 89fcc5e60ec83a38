#include "tensorcask/tensor/shape.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <ostream>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "tensorcask/tensor/base/check.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask {
namespace {

constexpr size_t kAllDims = TensorShape::kMaxRank;

// "[2,3]"; "[2,3,...]" when there are more than `shown` dims.
std::string DimsToString(absl::Span<const int64_t> dims, size_t shown) {
  std::string text = "[";
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    if (axis > 0) text += ',';
    if (axis == shown) {
      text += "...";
      break;
    }
    absl::StrAppend(&text, dims[axis]);
  }
  return text += ']';
}

// Dims that are refused may be many and long: an error shows some of them.
std::string RefusedDims(absl::Span<const int64_t> dims) { return DimsToString(dims, 16); }

absl::Status RankTooLarge(size_t rank) {
  return absl::InvalidArgumentError(
      absl::StrCat("the shape has ", rank, " dims; at most ", TensorShape::kMaxRank, " are allowed"));
}

// Checks every invariant of the class, and returns the number of elements.
absl::StatusOr<int64_t> CheckedNumElements(absl::Span<const int64_t> dims) {
  if (dims.size() > kAllDims) return RankTooLarge(dims.size());
  int64_t product = 1;  // product over the nonzero dims
  bool empty = false;
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    if (dims[axis] < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("dim ", axis, " is ", dims[axis], " in shape ", RefusedDims(dims), "; dims are not negative"));
    }
    if (dims[axis] == 0) {
      empty = true;
      continue;
    }
    const std::optional<int64_t> next = CheckedMul(product, dims[axis]);
    if (!next) {
      return absl::InvalidArgumentError(absl::StrCat("dim ", axis, " is ", dims[axis], " in shape ", RefusedDims(dims),
                                                     ": the product of the nonzero dims exceeds 2^63-1"));
    }
    product = *next;
  }
  return empty ? 0 : product;
}

absl::Status AxisOutside(const char* operation, int axis, const TensorShape& shape) {
  return absl::InvalidArgumentError(absl::StrCat(operation, ": axis ", axis, " is outside shape ", shape.ToString()));
}

}  // namespace

TensorShape::TensorShape(std::initializer_list<int64_t> dims) {
  const absl::Status status = Assign(absl::MakeConstSpan(dims.begin(), dims.size()));
  CASK_CHECK(status.ok(), status.ToString().c_str());
}

absl::StatusOr<TensorShape> TensorShape::Create(absl::Span<const int64_t> dims) {
  TensorShape shape;
  CASK_RETURN_IF_ERROR(shape.Assign(dims));
  return shape;
}

absl::Status TensorShape::Assign(absl::Span<const int64_t> dims) {
  CASK_ASSIGN_OR_RETURN(const int64_t num_elements, CheckedNumElements(dims));
  rep_.Assign(dims, num_elements);
  return absl::OkStatus();
}

void TensorShape::NoSuchAxis(int axis) const {
  const std::string message =
      absl::StrCat("dim: axis ", axis, " is outside shape ", RefusedDims(dims()), " of rank ", rank());
  internal::CheckFailed(__FILE__, __LINE__, "-rank() <= axis && axis < rank()", message.c_str());
}

DimVector TensorShape::dims() const {
  DimVector dims(static_cast<size_t>(rank()));
  for (int axis = 0; axis < rank(); ++axis) dims[static_cast<size_t>(axis)] = rep_.dim(axis);
  return dims;
}

bool TensorShape::StartsWith(const TensorShape& prefix) const {
  if (rank() < prefix.rank()) return false;
  for (int axis = 0; axis < prefix.rank(); ++axis) {
    if (rep_.dim(axis) != prefix.rep_.dim(axis)) return false;
  }
  return true;
}

bool TensorShape::EndsWith(const TensorShape& suffix) const {
  const int skipped = rank() - suffix.rank();
  if (skipped < 0) return false;
  for (int axis = 0; axis < suffix.rank(); ++axis) {
    if (rep_.dim(skipped + axis) != suffix.rep_.dim(axis)) return false;
  }
  return true;
}

absl::Status TensorShape::AddDim(int64_t size) {
  // The usual case first: the shape has no zeros yet, so num_elements() is the product of the nonzero dims.
  if (size >= 0 && num_elements() > 0) {
    const std::optional<int64_t> product = CheckedMul(num_elements(), size);
    if (product && rep_.TryAppend16(size, *product)) return absl::OkStatus();
  }
  return InsertDim(rank(), size);
}

absl::Status TensorShape::InsertDim(int axis, int64_t size) {
  if (axis < 0 || axis > rank()) return AxisOutside("InsertDim", axis, *this);
  DimVector changed = dims();
  changed.insert(changed.begin() + axis, size);
  return Assign(changed);
}

absl::Status TensorShape::SetDim(int axis, int64_t size) {
  if (axis < 0 || axis >= rank()) return AxisOutside("SetDim", axis, *this);
  DimVector changed = dims();
  changed[static_cast<size_t>(axis)] = size;
  return Assign(changed);
}

absl::Status TensorShape::RemoveDim(int axis) {
  if (axis < 0 || axis >= rank()) return AxisOutside("RemoveDim", axis, *this);
  return RemoveDimRange(axis, axis + 1);
}

absl::Status TensorShape::RemoveDimRange(int begin, int end) {
  if (begin < 0 || begin > end || end > rank()) {
    return absl::InvalidArgumentError(
        absl::StrCat("RemoveDimRange: axes [", begin, ", ", end, ") are outside shape ", ToString()));
  }
  DimVector changed = dims();
  changed.erase(changed.begin() + begin, changed.begin() + end);
  return Assign(changed);
}

absl::Status TensorShape::AppendShape(const TensorShape& suffix) {
  DimVector changed = dims();
  const DimVector appended = suffix.dims();
  changed.insert(changed.end(), appended.begin(), appended.end());
  return Assign(changed);
}

std::string TensorShape::ToString() const { return DimsToString(dims(), kAllDims); }

bool operator==(const TensorShape& a, const TensorShape& b) { return a.rank() == b.rank() && a.StartsWith(b); }

std::ostream& operator<<(std::ostream& out, const TensorShape& shape) { return out << shape.ToString(); }

}  // namespace tensorcask
