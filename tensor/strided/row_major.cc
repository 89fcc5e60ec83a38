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
#include "tensorcask/tensor/device_memory.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/strided/device_elements.h"
#include "tensorcask/tensor/strided/internal/copy_strided.h"
#include "tensorcask/tensor/strided/layout.h"

namespace tensorcask {
namespace {

// `Bytes` is absl::string_view or absl::Span<char>.
template <typename Bytes>
absl::Status HandOver(Bytes bytes, size_t max_bytes, absl::FunctionRef<absl::Status(Bytes)> fn) {
  for (; !bytes.empty(); bytes.remove_prefix(std::min(max_bytes, bytes.size()))) {
    CASK_RETURN_IF_ERROR(fn(Bytes(bytes.data(), std::min(max_bytes, bytes.size()))));
  }
  return absl::OkStatus();
}

// Parts of a view that fit into a block: all of the inner axes, and some steps of the next axis.
class Pieces {
 public:
  using Visitor = absl::FunctionRef<absl::Status(const Layout& part)>;

  Pieces(const TensorView& view, size_t max_bytes) : view_(view) {
    const auto max_elements = static_cast<int64_t>(max_bytes / view.element_size());
    CASK_CHECK(max_elements > 0, "ForEachRowMajorPiece: a piece holds at least one element");
    int64_t inner = 1;
    axis_ = view.rank() - 1;
    while (axis_ > 0 && view.dim(axis_) <= max_elements / inner) inner *= view.dim(axis_--);
    step_ = std::max(max_elements / inner, int64_t{1});
  }

  absl::Status Run(Visitor visit) const { return RunOver(0, view_.layout(), visit); }

 private:
  absl::Status RunOver(int axis, const Layout& layout, Visitor visit) const {
    const int64_t step = axis == axis_ ? step_ : 1;
    for (int64_t start = 0; start < layout.dim(axis); start += step) {
      CASK_ASSIGN_OR_RETURN(const Layout part, layout.Narrow(axis, start, std::min(step, layout.dim(axis) - start)));
      CASK_RETURN_IF_ERROR(axis == axis_ ? visit(part) : RunOver(axis + 1, part, visit));
    }
    return absl::OkStatus();
  }

  const TensorView& view_;
  int axis_;      // the axis that is split into steps; the axes before it are walked one index at a time
  int64_t step_;  // how many indices of axis_ fit
};

// A block of at most max_bytes, or of all elements if they take less.
absl::StatusOr<RefPtr<TensorBuffer>> NewBlock(const TensorView& view, size_t max_bytes) {
  return TensorBuffer::Allocate(std::min(max_bytes, static_cast<size_t>(view.num_elements()) * view.element_size()));
}

// FillRowMajorPieces for a view on a device.
absl::Status FillOnDevice(TensorView* view, size_t max_bytes,
                          absl::FunctionRef<absl::Status(absl::Span<char> block)> fill) {
  CASK_RETURN_IF_ERROR(view->CheckWritable());
  if (!view->IsContiguous()) {
    return internal::FillThroughHost(view,
                                     [&](TensorView* on_host) { return FillRowMajorPieces(on_host, max_bytes, fill); });
  }
  const TensorView::ByteRange range = view->bounds();
  CASK_ASSIGN_OR_RETURN(void* const data, view->buffer()->MutableDeviceData());
  return view->buffer()->device_memory()->Write(
      static_cast<char*>(data) + range.begin, range.end - range.begin,
      [&](absl::Span<char> piece) { return HandOver(piece, max_bytes - max_bytes % view->element_size(), fill); });
}

}  // namespace

absl::Status ForEachRowMajorPiece(const TensorView& view, size_t max_bytes,
                                  absl::FunctionRef<absl::Status(absl::string_view bytes)> fn) {
  CASK_CHECK(IsFixedSize(view.dtype()), "ForEachRowMajorPiece: the dtype has no fixed size");
  if (view.num_elements() == 0) return absl::OkStatus();
  CASK_RETURN_IF_ERROR(view.buffer()->CheckReadable());
  if (view.IsContiguous()) return HandOver(view.bytes(), max_bytes, fn);
  CASK_ASSIGN_OR_RETURN(const RefPtr<TensorBuffer> block, NewBlock(view, max_bytes));
  void* const out = block->mutable_data();
  return Pieces(view, max_bytes).Run([&](const Layout& part) {
    internal::CopyStrided(view.dtype(), view.buffer()->data(), part, out, Layout::RowMajor(part.shape()));
    return fn({static_cast<const char*>(out), static_cast<size_t>(part.num_elements()) * view.element_size()});
  });
}

absl::Status FillRowMajorPieces(TensorView* view, size_t max_bytes,
                                absl::FunctionRef<absl::Status(absl::Span<char> block)> fill) {
  CASK_CHECK(IsFixedSize(view->dtype()), "FillRowMajorPieces: the dtype has no fixed size");
  if (view->num_elements() == 0) return absl::OkStatus();
  if (internal::IsOnDevice(*view)) return FillOnDevice(view, max_bytes, fill);
  CASK_RETURN_IF_ERROR(view->EnsureMutable());
  char* const to = static_cast<char*>(view->buffer()->mutable_data());
  if (view->IsContiguous()) {
    const TensorView::ByteRange range = view->bounds();
    return HandOver(absl::MakeSpan(to + range.begin, range.end - range.begin),
                    max_bytes - max_bytes % view->element_size(), fill);
  }
  CASK_ASSIGN_OR_RETURN(const RefPtr<TensorBuffer> block, NewBlock(*view, max_bytes));
  char* const from = static_cast<char*>(block->mutable_data());
  internal::CopyStridedOptions options;
  options.fresh = false;
  return Pieces(*view, max_bytes).Run([&](const Layout& part) -> absl::Status {
    CASK_RETURN_IF_ERROR(fill(absl::MakeSpan(from, static_cast<size_t>(part.num_elements()) * view->element_size())));
    internal::CopyStrided(view->dtype(), from, Layout::RowMajor(part.shape()), to, part, options);
    return absl::OkStatus();
  });
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
