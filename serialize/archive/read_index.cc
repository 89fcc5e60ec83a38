#include "tensorcask/serialize/archive/read_index.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/layout.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask {
namespace {

// What to read of a tensor, and what to select of the elements that were read.
struct Selection {
  std::vector<TensorSlice::Extent> extents;
  std::vector<AxisIndex> index;
  std::vector<int64_t> dims;  // those of the result
  bool is_all = true;
  bool is_empty = false;
};

absl::Status SelectAxis(int64_t dim, const AxisIndex& at, Selection* out) {
  CASK_ASSIGN_OR_RETURN(const TensorShape shape, TensorShape::Create({dim}));
  const Layout axis = Layout::RowMajor(shape);
  if (!at.is_slice()) {
    CASK_ASSIGN_OR_RETURN(const Layout element, axis.Select(0, *at.start()));
    out->extents.push_back({element.offset(), 1});
    out->index.push_back(0);
    out->is_all = false;
    return absl::OkStatus();
  }
  CASK_ASSIGN_OR_RETURN(const Layout part, axis.Slice(0, at.start(), at.end(), at.step()));
  const int64_t count = part.dim(0);
  out->dims.push_back(count);
  out->is_all = out->is_all && count == dim && at.step() == 1;
  if (count == 0) {
    out->is_empty = true;
    return absl::OkStatus();
  }
  const int64_t first = part.offset();
  const int64_t last = first + (count - 1) * part.stride(0);
  out->extents.push_back({std::min(first, last), std::max(first, last) - std::min(first, last) + 1});
  out->index.push_back(AxisIndex::Slice(std::nullopt, std::nullopt, at.step()));
  return absl::OkStatus();
}

absl::StatusOr<TensorView> Read(const ArchiveReader& archive, const ArchiveEntry& entry,
                                absl::Span<const AxisIndex> index) {
  const auto rank = static_cast<size_t>(entry.shape.rank());
  if (index.size() > rank) {
    return absl::InvalidArgumentError(
        absl::StrCat(index.size(), " indices for the ", rank, " axes of the shape ", entry.shape.ToString()));
  }
  Selection selection;
  for (size_t axis = 0; axis < rank; ++axis) {
    const AxisIndex at = axis < index.size() ? index[axis] : AxisIndex::All();
    CASK_RETURN_IF_ERROR(SelectAxis(entry.shape.dim(static_cast<int>(axis)), at, &selection));
  }
  if (selection.is_empty) {
    CASK_ASSIGN_OR_RETURN(const TensorShape shape, TensorShape::Create(selection.dims));
    CASK_ASSIGN_OR_RETURN(const Tensor nothing, Tensor::Create(entry.dtype, shape));
    return TensorView(nothing);
  }
  if (selection.is_all) {
    CASK_ASSIGN_OR_RETURN(const Tensor whole, archive.Read(entry.name));
    return TensorView(whole);
  }
  CASK_ASSIGN_OR_RETURN(const TensorSlice slice, TensorSlice::Create(selection.extents));
  CASK_ASSIGN_OR_RETURN(const Tensor part, archive.ReadSlice(entry.name, slice));
  return IndexView(part, selection.index);
}

}  // namespace

absl::StatusOr<TensorView> ReadIndex(const ArchiveReader& archive, const ArchiveEntry& entry,
                                     absl::Span<const AxisIndex> index) {
  absl::StatusOr<TensorView> read = Read(archive, entry, index);
  if (read.ok() || (!absl::IsInvalidArgument(read.status()) && !absl::IsOutOfRange(read.status()))) return read;
  return Annotate(read.status(), absl::StrCat(archive.path(), ": tensor ", Quoted(entry.name)));
}

}  // namespace tensorcask
