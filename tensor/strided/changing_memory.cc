#include "tensorcask/tensor/strided/changing_memory.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/types/span.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/device_memory.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/strided/device_elements.h"
#include "tensorcask/tensor/strided/layout.h"
#include "tensorcask/tensor/strided/row_major.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tensor/variant.h"

namespace tensorcask::internal {
namespace {

constexpr int kMaxDepth = 64;  // for variants in variants; encoders refuse deeper ones

bool MayChange(const TensorBuffer& buffer) {
  const TensorBuffer::Kind kind = buffer.kind();
  const bool is_foreign = kind == TensorBuffer::Kind::kExternal || kind == TensorBuffer::Kind::kMapped;
  // A private copy that replaced foreign memory has the name of its allocator.
  return (is_foreign && buffer.allocator_name().empty()) || buffer.file_range().has_value();
}

bool HoldsChangingTensor(const TensorView& variants, int depth);

bool MayChangeAt(const TensorView& view, int depth) {
  if (view.num_elements() == 0 || !view.buffer() || !view.buffer()->CheckReadable().ok()) return false;
  if (view.dtype() == DType::kVariant) return depth > 0 && HoldsChangingTensor(view, depth - 1);
  return IsFixedSize(view.dtype()) && MayChange(*view.buffer());
}

// Requires: row-major.
absl::Span<const Variant> VariantsOf(const TensorView& view) {
  return absl::MakeConstSpan(view.data<Variant>(), static_cast<size_t>(view.num_elements()));
}

// A view that is not row-major counts as changing: its elements are no array that could be walked here.
bool HoldsChangingTensor(const TensorView& variants, int depth) {
  if (!variants.IsContiguous()) return true;
  const auto changes = [&](const Tensor& tensor) { return MayChangeAt(tensor, depth); };
  for (const Variant& variant : VariantsOf(variants)) {
    if (std::any_of(variant.tensors.begin(), variant.tensors.end(), changes)) return true;
  }
  return false;
}

absl::StatusOr<TensorView> PrivateCopy(const TensorView& view, int depth) {
  if (!MayChangeAt(view, depth)) return view;
  if (view.dtype() == DType::kVariant) {
    CASK_ASSIGN_OR_RETURN(const TensorView row_major, view.Contiguous());
    CASK_ASSIGN_OR_RETURN(Tensor copy, Tensor::Create(DType::kVariant, view.shape()));
    Variant* out = copy.mutable_data<Variant>();
    for (const Variant& variant : VariantsOf(row_major)) {
      *out = variant;
      for (Tensor& tensor : out->tensors) {
        CASK_ASSIGN_OR_RETURN(const TensorView in_private, PrivateCopy(tensor, depth - 1));
        CASK_ASSIGN_OR_RETURN(tensor, in_private.ToTensor());
      }
      ++out;
    }
    return TensorView(copy);
  }
  const size_t bytes = static_cast<size_t>(view.num_elements()) * view.element_size();
  CASK_ASSIGN_OR_RETURN(const RefPtr<TensorBuffer> memory, TensorBuffer::Allocate(bytes));
  CASK_RETURN_IF_ERROR(CopyRowMajor(view, absl::MakeSpan(static_cast<char*>(memory->mutable_data()), bytes)));
  return TensorView::Create(memory, view.dtype(), Layout::RowMajor(view.shape()));
}

absl::Status ForEachPieceOfDevice(const TensorView& view, size_t max_bytes,
                                  absl::FunctionRef<absl::Status(absl::string_view bytes)> fn) {
  if (!view.IsContiguous()) {
    CASK_ASSIGN_OR_RETURN(const TensorView copy, InHostMemory(view));
    return ForEachRowMajorPiece(copy, max_bytes, fn);
  }
  const TensorView::ByteRange range = view.bounds();
  const char* const from = static_cast<const char*>(view.buffer()->device_data()) + range.begin;
  return view.buffer()->device_memory()->Read(from, range.end - range.begin, [&](absl::string_view piece) {
    for (; !piece.empty(); piece.remove_prefix(std::min(max_bytes, piece.size()))) {
      CASK_RETURN_IF_ERROR(fn(piece.substr(0, max_bytes)));
    }
    return absl::OkStatus();
  });
}

}  // namespace

bool MayChange(const TensorView& view) { return MayChangeAt(view, kMaxDepth); }

absl::StatusOr<TensorView> InPrivateMemory(const TensorView& view) {
  return IsOnDevice(view) ? InHostMemory(view) : PrivateCopy(view, kMaxDepth);
}

absl::Status ForEachStablePiece(const TensorView& view, size_t max_bytes,
                                absl::FunctionRef<absl::Status(absl::string_view bytes)> fn) {
  if (IsOnDevice(view)) return ForEachPieceOfDevice(view, max_bytes, fn);
  // What is not contiguous is gathered, which is a copy.
  if (!view.IsContiguous() || !MayChange(view)) return ForEachRowMajorPiece(view, max_bytes, fn);
  const size_t bytes = static_cast<size_t>(view.num_elements()) * view.element_size();
  CASK_ASSIGN_OR_RETURN(const RefPtr<TensorBuffer> block, TensorBuffer::Allocate(std::min(bytes, max_bytes)));
  void* const copy = block->mutable_data();
  return ForEachRowMajorPiece(view, max_bytes, [&](absl::string_view piece) {
    std::memcpy(copy, piece.data(), piece.size());
    return fn(absl::string_view(static_cast<const char*>(copy), piece.size()));
  });
}

}  // namespace tensorcask::internal
