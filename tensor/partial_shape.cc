#include "tensorcask/tensor/partial_shape.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <ostream>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/tensor/base/check.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/shape.h"

namespace tensorcask {
namespace {

constexpr int64_t kUnknown = PartialTensorShape::kUnknownDim;
constexpr size_t kAllDims = TensorShape::kMaxRank;
constexpr size_t kDimsInErrors = 16;  // dims that are refused may be many and long

// "[?,3]"; "[?,3,...]" when there are more than `shown` dims.
std::string DimsToString(absl::Span<const int64_t> dims, size_t shown) {
  std::string text = "[";
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    if (axis > 0) text += ',';
    if (axis == shown) {
      text += "...";
      break;
    }
    if (dims[axis] == kUnknown) {
      text += '?';
    } else {
      absl::StrAppend(&text, dims[axis]);
    }
  }
  return text += ']';
}

// Checks every invariant of the class.
absl::Status CheckDims(absl::Span<const int64_t> dims) {
  if (dims.size() > kAllDims) {
    return absl::InvalidArgumentError(
        absl::StrCat("the shape has ", dims.size(), " dims; at most ", TensorShape::kMaxRank, " are allowed"));
  }
  int64_t product = 1;  // product over the known nonzero dims
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    const auto refused = [&](absl::string_view why) {
      return absl::InvalidArgumentError(
          absl::StrCat("dim ", axis, " is ", dims[axis], " in shape ", DimsToString(dims, kDimsInErrors), why));
    };
    if (dims[axis] < kUnknown) return refused("; a dim is not negative, except -1 for an unknown dim");
    if (dims[axis] == kUnknown || dims[axis] == 0) continue;
    const std::optional<int64_t> next = CheckedMul(product, dims[axis]);
    if (!next) return refused(": the product of the nonzero dims exceeds 2^63-1");
    product = *next;
  }
  return absl::OkStatus();
}

}  // namespace

PartialTensorShape::PartialTensorShape(std::initializer_list<int64_t> dims) : dims_(DimVector(dims)) {
  const absl::Status status = CheckDims(*dims_);
  CASK_CHECK(status.ok(), status.ToString().c_str());
}

void PartialTensorShape::NoSuchAxis(int axis) const {
  const std::string message =
      absl::StrCat("dim: axis ", axis, " is outside shape ", DimsToString(dims(), kDimsInErrors), " of rank ", rank());
  internal::CheckFailed(__FILE__, __LINE__, "-rank() <= axis && axis < rank()", message.c_str());
}

absl::StatusOr<PartialTensorShape> PartialTensorShape::Create(absl::Span<const int64_t> dims) {
  CASK_RETURN_IF_ERROR(CheckDims(dims));
  PartialTensorShape shape;
  shape.dims_.emplace(dims.begin(), dims.end());
  return shape;
}

bool PartialTensorShape::IsFullyDefined() const {
  return dims_ && std::find(dims_->begin(), dims_->end(), kUnknown) == dims_->end();
}

int64_t PartialTensorShape::num_elements() const {
  if (!IsFullyDefined()) return -1;
  int64_t product = 1;  // never overflows: that of the nonzero dims fits
  for (const int64_t dim : *dims_) product *= dim;
  return product;
}

bool PartialTensorShape::IsCompatibleWith(const PartialTensorShape& other) const {
  if (!dims_ || !other.dims_) return true;
  return std::equal(dims_->begin(), dims_->end(), other.dims_->begin(), other.dims_->end(),
                    [](int64_t a, int64_t b) { return a == b || a == kUnknown || b == kUnknown; });
}

absl::StatusOr<PartialTensorShape> PartialTensorShape::MergeWith(const PartialTensorShape& other) const {
  if (!dims_) return other;
  if (!other.dims_) return *this;
  const auto refused = [&](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat("merging shape ", DimsToString(dims(), kDimsInErrors), " with ",
                                                   DimsToString(other.dims(), kDimsInErrors), ": ", why));
  };
  if (rank() != other.rank()) return refused(absl::StrCat("ranks ", rank(), " and ", other.rank(), " differ"));
  DimVector merged = *dims_;
  for (size_t axis = 0; axis < merged.size(); ++axis) {
    const int64_t theirs = (*other.dims_)[axis];
    if (merged[axis] == kUnknown) {
      merged[axis] = theirs;
    } else if (theirs != kUnknown && theirs != merged[axis]) {
      return refused(absl::StrCat("dim ", axis, " is ", merged[axis], " in one and ", theirs, " in the other"));
    }
  }
  return Create(merged);
}

absl::StatusOr<PartialTensorShape> PartialTensorShape::Concatenate(const PartialTensorShape& other) const {
  if (!dims_ || !other.dims_) return PartialTensorShape();
  DimVector joined = *dims_;
  joined.insert(joined.end(), other.dims_->begin(), other.dims_->end());
  return Create(joined);
}

absl::StatusOr<PartialTensorShape> PartialTensorShape::Concatenate(int64_t dim) const {
  CASK_ASSIGN_OR_RETURN(const PartialTensorShape vector, Create({dim}));
  return Concatenate(vector);
}

absl::Status PartialTensorShape::CheckAxis(const char* operation, int axis, int end) const {
  if (dims_ && axis >= 0 && axis < end) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(operation, ": axis ", axis, " is outside shape ",
                                                 dims_ ? DimsToString(*dims_, kDimsInErrors) : "<unknown>"));
}

absl::Status PartialTensorShape::AddDim(int64_t dim) {
  CASK_ASSIGN_OR_RETURN(*this, Concatenate(dim));
  return absl::OkStatus();
}

absl::Status PartialTensorShape::InsertDim(int axis, int64_t dim) {
  CASK_RETURN_IF_ERROR(CheckAxis("InsertDim", axis, rank() + 1));
  DimVector changed = *dims_;
  changed.insert(changed.begin() + axis, dim);
  CASK_ASSIGN_OR_RETURN(*this, Create(changed));
  return absl::OkStatus();
}

absl::Status PartialTensorShape::SetDim(int axis, int64_t dim) {
  CASK_RETURN_IF_ERROR(CheckAxis("SetDim", axis, rank()));
  DimVector changed = *dims_;
  changed[static_cast<size_t>(axis)] = dim;
  CASK_ASSIGN_OR_RETURN(*this, Create(changed));
  return absl::OkStatus();
}

absl::Status PartialTensorShape::RemoveDim(int axis) {
  CASK_RETURN_IF_ERROR(CheckAxis("RemoveDim", axis, rank()));
  DimVector changed = *dims_;
  changed.erase(changed.begin() + axis);
  CASK_ASSIGN_OR_RETURN(*this, Create(changed));
  return absl::OkStatus();
}

absl::Status PartialTensorShape::AppendShape(const PartialTensorShape& suffix) {
  CASK_ASSIGN_OR_RETURN(*this, Concatenate(suffix));
  return absl::OkStatus();
}

PartialTensorShape PartialTensorShape::MostSpecificCompatible(const PartialTensorShape& other) const {
  if (!dims_ || !other.dims_ || rank() != other.rank()) return PartialTensorShape();
  PartialTensorShape common = *this;
  for (size_t axis = 0; axis < common.dims_->size(); ++axis) {
    if ((*other.dims_)[axis] != (*dims_)[axis]) (*common.dims_)[axis] = kUnknown;
  }
  return common;
}

absl::StatusOr<TensorShape> PartialTensorShape::ToTensorShape() const {
  if (!dims_) return absl::InvalidArgumentError("the rank of shape <unknown> is unknown");
  const auto unknown = std::find(dims_->begin(), dims_->end(), kUnknown);
  if (unknown != dims_->end()) {
    return absl::InvalidArgumentError(absl::StrCat("dim ", unknown - dims_->begin(), " of shape ",
                                                   DimsToString(dims(), kDimsInErrors), " is unknown"));
  }
  return TensorShape::Create(*dims_);
}

std::string PartialTensorShape::ToString() const { return dims_ ? DimsToString(*dims_, kAllDims) : "<unknown>"; }

std::ostream& operator<<(std::ostream& out, const PartialTensorShape& shape) { return out << shape.ToString(); }

}  // namespace tensorcask
