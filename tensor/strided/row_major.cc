#include "tensorcask/tensor/strided/row_major.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/tensor/base/check.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/strided/copy_strided.h"
#include "tensorcask/tensor/strided/layout.h"

namespace tensorcask {
namespace {

absl::Status HandOver(absl::string_view bytes, size_t max_bytes,
                      absl::FunctionRef<absl::Status(absl::string_view)> fn) {
  for (; !bytes.empty(); bytes.remove_prefix(std::min(max_bytes, bytes.size()))) {
    CASK_RETURN_IF_ERROR(fn(bytes.substr(0, max_bytes)));
  }
  return absl::OkStatus();
}

// Parts of a view that fit into a block: whole inner axes, and some steps of the axis outside them.
class Pieces {
 public:
  Pieces(const TensorView& view, size_t max_bytes, TensorBuffer* block) : view_(view), block_(block) {
    const auto max_elements = static_cast<int64_t>(max_bytes / view.element_size());
    CASK_CHECK(max_elements > 0, "ForEachRowMajorPiece: a piece holds at least one element");
    int64_t inner = 1;
    axis_ = view.rank() - 1;
    while (axis_ > 0 && view.dim(axis_) <= max_elements / inner) inner *= view.dim(axis_--);
    step_ = std::max(max_elements / inner, int64_t{1});
  }

  absl::Status Run(absl::FunctionRef<absl::Status(absl::string_view)> fn) { return RunOver(0, view_.layout(), fn); }

 private:
  absl::Status RunOver(int axis, const Layout& layout, absl::FunctionRef<absl::Status(absl::string_view)> fn) {
    const int64_t step = axis == axis_ ? step_ : 1;
    for (int64_t start = 0; start < layout.dim(axis); start += step) {
      CASK_ASSIGN_OR_RETURN(const Layout part, layout.Narrow(axis, start, std::min(step, layout.dim(axis) - start)));
      CASK_RETURN_IF_ERROR(axis == axis_ ? HandOverPart(part, fn) : RunOver(axis + 1, part, fn));
    }
    return absl::OkStatus();
  }
  absl::Status HandOverPart(const Layout& part, absl::FunctionRef<absl::Status(absl::string_view)> fn) {
    void* const out = block_->mutable_data();
    internal::CopyStrided(view_.dtype(), view_.buffer()->data(), part, out, Layout::RowMajor(part.shape()));
    return fn({static_cast<const char*>(out), static_cast<size_t>(part.num_elements()) * view_.element_size()});
  }

  const TensorView& view_;
  TensorBuffer* const block_;
  int axis_;      // split into steps; those before it singly
  int64_t step_;  // of axis_, that fit
};

}  // namespace

absl::Status ForEachRowMajorPiece(const TensorView& view, size_t max_bytes,
                                  absl::FunctionRef<absl::Status(absl::string_view bytes)> fn) {
  CASK_CHECK(IsFixedSize(view.dtype()), "ForEachRowMajorPiece: the dtype has no fixed size");
  if (view.num_elements() == 0) return absl::OkStatus();
  CASK_RETURN_IF_ERROR(view.buffer()->CheckReadable());
  if (view.IsContiguous()) return HandOver(view.bytes(), max_bytes, fn);
  CASK_ASSIGN_OR_RETURN(
      const RefPtr<TensorBuffer> block,
      TensorBuffer::Allocate(std::min(max_bytes, static_cast<size_t>(view.num_elements()) * view.element_size())));
  return Pieces(view, max_bytes, block.get()).Run(fn);
}

absl::Status CopyRowMajor(const TensorView& view, absl::Span<char> out) {
  CASK_CHECK(IsFixedSize(view.dtype()), "CopyRowMajor: the dtype has no fixed size");
  CASK_CHECK(out.size() == static_cast<size_t>(view.num_elements()) * view.element_size(),
             "CopyRowMajor: the span is not as long as the elements");
  if (view.num_elements() == 0) return absl::OkStatus();
  CASK_RETURN_IF_ERROR(view.buffer()->CheckReadable());
  internal::CopyStridedOptions options;
  options.fresh = false;
  internal::CopyStrided(view.dtype(), view.buffer()->data(), view.layout(), out.data(), Layout::RowMajor(view.shape()),
                        options);
  return absl::OkStatus();
}

}  // namespace tensorcask
