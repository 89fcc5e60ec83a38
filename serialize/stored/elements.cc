#include "tensorcask/serialize/stored/elements.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/io/damage_mark.h"
#include "tensorcask/serialize/io/piece_buffer.h"
#include "tensorcask/serialize/stored/element_runs.h"
#include "tensorcask/serialize/stored/internal/element_check.h"
#include "tensorcask/serialize/stored/packed_elements.h"
#include "tensorcask/tensor/base/bool_bytes.h"
#include "tensorcask/tensor/base/checksum.h"
#include "tensorcask/tensor/base/endian.h"
#include "tensorcask/tensor/base/parallel_for.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/strided/device_elements.h"
#include "tensorcask/tensor/strided/layout.h"
#include "tensorcask/tensor/strided/row_major.h"

namespace tensorcask::stored {
namespace {

// So much is read at a time, and then checked while it is still in the second-level cache. A multiple of each element.
constexpr size_t kBlockBytes = size_t{512} << 10;
// From here one tensor is read by several threads, in parts of this size.
constexpr size_t kParallelBytes = size_t{8} << 20;
constexpr size_t kMaxRanges = 4096;  // for one call

// So many bytes are read and then checked at a time: more where several pieces are read at once. A multiple of
// kBlockBytes.
size_t BlockBytes(const ByteSource& source) {
  const ReadShape shape = source.read_shape();
  if (shape.in_flight <= 1) return kBlockBytes;
  const uint64_t bytes = shape.piece_bytes * static_cast<uint64_t>(shape.in_flight);
  return std::max<size_t>(kBlockBytes, static_cast<size_t>(bytes) / kBlockBytes * kBlockBytes);
}

// Swaps the bytes of elements that a big-endian machine stored.
void ToHostOrder(const StoredTensor& tensor, absl::Span<char> elements) {
  if (!tensor.big_endian) return;
  const size_t item_bytes = ElementSize(tensor.dtype) / (IsComplex(tensor.dtype) ? 2 : 1);
  if (item_bytes > 1) SwapBytes(elements.data(), elements.size() / item_bytes, item_bytes);
}

// Reads `out` from byte `offset` of the source, and passes it through `check`.
absl::Status ReadChecked(const ByteSource& source, uint64_t offset, absl::Span<char> out, ElementCheck* check) {
  if (check->idle()) return source.ReadAt(offset, out);
  const size_t block_bytes = BlockBytes(source);
  for (size_t done = 0; done < out.size();) {
    const absl::Span<char> block = out.subspan(done, block_bytes);
    CASK_RETURN_IF_ERROR(source.ReadAt(offset + done, block));
    check->Check(block);
    done += block.size();
  }
  return absl::OkStatus();
}

// As ReadChecked, of all stored bytes, in parts on several threads.
absl::Status ReadPartsChecked(const ByteSource& source, const StoredTensor& tensor, const ElementOptions& options,
                              absl::Span<char> out, ElementCheck* check) {
  const size_t num_parts = (out.size() + kParallelBytes - 1) / kParallelBytes;
  std::vector<absl::Status> statuses(num_parts);
  std::vector<ElementCheck> checks(num_parts, *check);
  CASK_RETURN_IF_ERROR(ParallelFor(options.num_threads, num_parts, [&](size_t i) {
    const size_t start = i * kParallelBytes;
    statuses[i] = ReadChecked(source, tensor.offset + start, out.subspan(start, kParallelBytes), &checks[i]);
  }));
  for (size_t i = 0; i < num_parts; ++i) {
    CASK_RETURN_IF_ERROR(statuses[i]);
    check->Join(checks[i], std::min(kParallelBytes, out.size() - i * kParallelBytes));
  }
  return absl::OkStatus();
}

// All elements in the order of the source. Requires: they are not packed; out.size() is tensor.stored_bytes.
absl::Status ReadBytes(const ByteSource& source, const StoredTensor& tensor, const ElementOptions& options,
                       absl::Span<char> out) {
  ElementCheck check(tensor, MustVerify(tensor, options), options);
  absl::StatusOr<RefPtr<TensorBuffer>> mapped = absl::UnimplementedError("");
  if (options.strategy == ReadStrategy::kMap && !out.empty()) mapped = source.Map(tensor.offset, out.size());
  if (mapped.ok()) {
    check.Copy((*mapped)->bytes(), out.data());
  } else if (!absl::IsUnimplemented(mapped.status())) {
    return mapped.status();
  } else if (options.strategy == ReadStrategy::kParallel && !check.idle() && out.size() >= kParallelBytes) {
    CASK_RETURN_IF_ERROR(ReadPartsChecked(source, tensor, options, out, &check));
  } else {
    // Where several pieces are read at once, those after a block are read while it is checked.
    const FileRange range = {tensor.offset, out.size(), out.data()};
    std::shared_ptr<Announcement> announced;
    if (!check.idle() && out.size() > BlockBytes(source)) announced = source.Announce(absl::MakeConstSpan(&range, 1));
    CASK_RETURN_IF_ERROR(ReadChecked(source, tensor.offset, out, &check));
  }
  ToHostOrder(tensor, out);
  return check.Finish();
}

// All elements of a packed tensor, a byte each.
absl::Status ReadPacked(const ByteSource& source, const StoredTensor& tensor, const ElementOptions& options,
                        absl::Span<char> out) {
  const auto bits = static_cast<size_t>(tensor.packed_bits);
  constexpr size_t kElements = kBlockBytes / 8;  // 8 elements fill whole bytes, so no block ends inside an element
  PieceBuffer packed(tensor.stored_bytes, kElements / 8 * bits);
  ElementCheck check(tensor, MustVerify(tensor, options), options);
  uint64_t offset = tensor.offset;
  for (size_t done = 0; done < out.size(); done += kElements) {
    const absl::Span<char> elements = out.subspan(done, kElements);
    const absl::Span<char> block(packed.data(), (elements.size() * bits + 7) / 8);
    CASK_RETURN_IF_ERROR(ReadChecked(source, offset, block, &check));
    UnpackElements(tensor.packed_bits, absl::string_view(block.data(), block.size()), 0, elements);
    offset += block.size();
  }
  return check.Finish();
}

// The stored bytes that hold all packed elements of a part, from the first to the last. 8 elements fill whole bytes, so
// the range begins with a group of 8.
struct PackedRange {
  PackedRange(const Layout& part, int bits) {
    int64_t last = part.offset();
    for (int axis = 0; axis < part.rank(); ++axis) last += (part.dim(axis) - 1) * part.stride(axis);
    first_element = part.offset() / 8 * 8;
    begin = static_cast<uint64_t>(first_element / 8 * bits);
    size = (static_cast<uint64_t>(last + 1) * static_cast<uint64_t>(bits) + 7) / 8 - begin;
  }

  int64_t first_element;
  uint64_t begin;
  uint64_t size;
};

// The same for `part`, whose axes SortAxes sorted.
absl::Status ReadPackedPart(const ByteSource& source, const StoredTensor& tensor, const Layout& part,
                            absl::Span<char> out) {
  const PackedRange range(part, tensor.packed_bits);
  CASK_ASSIGN_OR_RETURN(const RefPtr<TensorBuffer> packed, TensorBuffer::Allocate(static_cast<size_t>(range.size)));
  const auto bytes = absl::MakeSpan(static_cast<char*>(packed->mutable_data()), static_cast<size_t>(range.size));
  CASK_RETURN_IF_ERROR(source.ReadAt(tensor.offset + range.begin, bytes));
  ElementRuns runs(part);
  while (!out.empty()) {
    const ElementRuns::Run run = runs.Next(static_cast<int64_t>(out.size()));
    UnpackElements(tensor.packed_bits, absl::string_view(bytes.data(), bytes.size()),
                   static_cast<uint64_t>(run.first - range.first_element), out.first(static_cast<size_t>(run.count)));
    out.remove_prefix(static_cast<size_t>(run.count));
  }
  return absl::OkStatus();
}

// The elements that `part` selects, to those of *out with equal index, piece by piece in the order of the source. With
// `verify`, `part` selects all of them. Requires: there are some; they are not packed.
absl::Status ReadPart(const ByteSource& source, const StoredTensor& tensor, Layout part, bool verify,
                      const ElementOptions& options, TensorView* out) {
  const auto element_bytes = static_cast<int64_t>(ElementSize(tensor.dtype));
  Layout to = out->layout();
  CASK_RETURN_IF_ERROR(SortAxes(&part, &to));
  CASK_ASSIGN_OR_RETURN(TensorView target, TensorView::Create(out->buffer(), out->dtype(), to));
  ElementCheck check(tensor, verify, options);
  const bool needs_work = !check.idle() || tensor.big_endian || !target.IsContiguous();
  ElementRuns runs(part);
  std::vector<ReadRange> ranges;
  CASK_RETURN_IF_ERROR(FillRowMajorPieces(
      &target, needs_work ? BlockBytes(source) : std::numeric_limits<size_t>::max(),
      [&](absl::Span<char> block) -> absl::Status {
        for (absl::Span<char> rest = block; !rest.empty();) {
          const ElementRuns::Run run = runs.Next(static_cast<int64_t>(rest.size()) / element_bytes);
          const absl::Span<char> bytes = rest.first(static_cast<size_t>(run.count * element_bytes));
          ranges.push_back({tensor.offset + static_cast<uint64_t>(run.first * element_bytes), bytes});
          rest.remove_prefix(bytes.size());
          if (ranges.size() < kMaxRanges && !rest.empty()) continue;
          CASK_RETURN_IF_ERROR(ranges.size() == 1 ? source.ReadAt(ranges[0].offset, ranges[0].out)
                                                  : source.ReadRanges(ranges));
          ranges.clear();
        }
        check.Check(block);
        ToHostOrder(tensor, block);
        return absl::OkStatus();
      }));
  return check.Finish();
}

// Passes the stored bytes from byte `done` on through `check`. Keeps nothing.
absl::Status CheckRest(const ByteSource& source, const StoredTensor& tensor, uint64_t done, ElementCheck* check) {
  PieceBuffer block(tensor.stored_bytes - done, BlockBytes(source));
  while (done < tensor.stored_bytes) {
    const auto bytes = static_cast<size_t>(std::min<uint64_t>(block.size(), tensor.stored_bytes - done));
    const absl::Span<char> part(block.data(), bytes);
    CASK_RETURN_IF_ERROR(source.ReadAt(tensor.offset + done, part));
    check->Check(part);
    done += bytes;
  }
  return absl::OkStatus();
}

class StoredElements final : public ElementStream {
 public:
  StoredElements(const ByteSource& source, StoredTensor tensor, const ElementOptions& options,
                 std::function<absl::Status(const absl::Status&)> about)
      : source_(source),
        tensor_(std::move(tensor)),
        options_(options),
        about_(std::move(about)),
        check_(tensor_, options_.verify, options_) {}

  absl::Status Read(absl::Span<char> out) override {
    const size_t element_bytes = ElementSize(tensor_.dtype);
    const uint64_t left = tensor_.stored_bytes - done_;
    if (out.size() % element_bytes != 0 || out.size() > left) {
      return about_(
          absl::InvalidArgumentError(absl::StrCat(out.size(), " bytes were asked for; wanted whole elements of ",
                                                  element_bytes, " bytes, at most ", left, " bytes")));
    }
    const absl::Status read = ReadChecked(source_, tensor_.offset + done_, out, &check_);
    if (!read.ok()) return about_(read);
    done_ += out.size();
    ToHostOrder(tensor_, out);
    return absl::OkStatus();
  }

  absl::Status Finish() override {
    absl::Status status = check_.idle() ? absl::OkStatus() : CheckRest(source_, tensor_, done_, &check_);
    if (status.ok()) status = check_.Finish();
    return status.ok() ? status : about_(status);
  }

 private:
  const ByteSource& source_;
  const StoredTensor tensor_;
  const ElementOptions options_;
  const std::function<absl::Status(const absl::Status&)> about_;
  ElementCheck check_;
  uint64_t done_ = 0;  // bytes
};

Layout LayoutOf(const StoredTensor& tensor) { return tensor.layout.value_or(Layout::RowMajor(tensor.shape)); }

// Requires: the view is contiguous and has elements.
absl::StatusOr<absl::Span<char>> MutableBytes(TensorView* view) {
  CASK_RETURN_IF_ERROR(view->EnsureMutable());
  const TensorView::ByteRange range = view->bounds();
  return absl::MakeSpan(static_cast<char*>(view->buffer()->mutable_data()) + range.begin, range.end - range.begin);
}

absl::StatusOr<Tensor> Allocate(DType dtype, const TensorShape& shape, const ElementOptions& options) {
  CASK_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Create(dtype, shape, options.allocator));
  CASK_RETURN_IF_ERROR(tensor.EnsureMutable());
  return tensor;
}

}  // namespace

absl::Status CheckTarget(DType dtype, const TensorShape& shape, const TensorView& out) {
  if (out.dtype() != dtype || out.shape() != shape) {
    return absl::InvalidArgumentError(absl::StrCat("is ", DTypeName(dtype), " ", shape.ToString(),
                                                   "; the tensor to fill is ", DTypeName(out.dtype()), " ",
                                                   out.shape().ToString()));
  }
  return out.CheckWritable();
}

absl::StatusOr<Tensor> ReadElements(const ByteSource& source, const StoredTensor& tensor,
                                    const ElementOptions& options) {
  CASK_ASSIGN_OR_RETURN(Tensor result, Allocate(tensor.dtype, tensor.shape, options));
  TensorView view = result;
  CASK_RETURN_IF_ERROR(ReadElementsInto(source, tensor, options, &view));
  return result;
}

absl::StatusOr<TensorView> ReadElementsAsStored(const ByteSource& source, const StoredTensor& tensor,
                                                const ElementOptions& options) {
  if (!tensor.layout.has_value()) {
    CASK_ASSIGN_OR_RETURN(Tensor result, ReadElements(source, tensor, options));
    return TensorView(std::move(result));
  }
  CASK_ASSIGN_OR_RETURN(Tensor result, Allocate(tensor.dtype, tensor.shape, options));
  CASK_RETURN_IF_ERROR(ReadBytes(source, tensor, options, result.mutable_bytes()));
  return TensorView::Create(result.buffer(), tensor.dtype, *tensor.layout);
}

absl::Status ReadElementsInto(const ByteSource& source, const StoredTensor& tensor, const ElementOptions& options,
                              TensorView* out) {
  if (out->num_elements() == 0) return ReadBytes(source, tensor, options, {});
  const Layout layout = LayoutOf(tensor);
  if (out->IsContiguous() && layout.IsContiguous() && !internal::IsOnDevice(*out)) {
    CASK_ASSIGN_OR_RETURN(const absl::Span<char> bytes, MutableBytes(out));
    return tensor.packed_bits > 0 ? ReadPacked(source, tensor, options, bytes)
                                  : ReadBytes(source, tensor, options, bytes);
  }
  if (tensor.packed_bits == 0) return ReadPart(source, tensor, layout, MustVerify(tensor, options), options, out);
  CASK_ASSIGN_OR_RETURN(const Tensor unpacked, ReadElements(source, tensor, options));
  return internal::CopyFromHost(unpacked, out);
}

bool AreReadInPlace(const StoredTensor& tensor) { return tensor.packed_bits == 0 && LayoutOf(tensor).IsContiguous(); }

bool MustVerify(const StoredTensor& tensor, const ElementOptions& options) {
  return options.verify && tensor.checksum.exists() &&
         (options.verified == nullptr || !options.verified->Contains(tensor.storage_id));
}

absl::Status CompareChecksum(const StoredTensor& tensor, uint32_t computed) {
  const uint32_t found = ChecksumAsStored(tensor.checksum.kind, computed);
  if (found == tensor.checksum.value) return absl::OkStatus();
  return MarkWrongChecksum(
      absl::DataLossError(absl::StrCat("its checksum is ", absl::Hex(found, absl::kZeroPad8), ", stored is ",
                                       absl::Hex(tensor.checksum.value, absl::kZeroPad8),
                                       ": the file is damaged, or a program changed the elements in place")));
}

absl::StatusOr<Tensor> ReadSliceOfElements(const ByteSource& source, const StoredTensor& tensor,
                                           const TensorSlice& slice, const ElementOptions& options) {
  CASK_ASSIGN_OR_RETURN(const TensorShape shape, slice.Apply(tensor.shape));
  CASK_ASSIGN_OR_RETURN(Tensor result, Allocate(tensor.dtype, shape, options));
  TensorView view = result;
  CASK_RETURN_IF_ERROR(ReadSliceOfElementsInto(source, tensor, slice, options, &view));
  return result;
}

absl::Status ReadSliceOfElementsInto(const ByteSource& source, const StoredTensor& tensor, const TensorSlice& slice,
                                     const ElementOptions& options, TensorView* out) {
  if (out->num_elements() == 0) return absl::OkStatus();
  CASK_ASSIGN_OR_RETURN(Layout part, LayoutOf(tensor).Slice(slice));
  if (tensor.packed_bits == 0) return ReadPart(source, tensor, std::move(part), /*verify=*/false, options, out);
  if (!out->IsContiguous() || internal::IsOnDevice(*out)) {
    CASK_ASSIGN_OR_RETURN(const Tensor unpacked, ReadSliceOfElements(source, tensor, slice, options));
    return internal::CopyFromHost(unpacked, out);
  }
  Layout to = out->layout();
  CASK_RETURN_IF_ERROR(SortAxes(&part, &to));
  CASK_ASSIGN_OR_RETURN(const absl::Span<char> bytes, MutableBytes(out));
  return ReadPackedPart(source, tensor, part, bytes);
}

uint64_t SliceMemory(const StoredTensor& tensor, const TensorSlice& slice, const TensorShape& part) {
  const uint64_t bytes = static_cast<uint64_t>(part.num_elements()) * ElementSize(tensor.dtype);
  if (tensor.packed_bits == 0 || bytes == 0) return bytes;
  const absl::StatusOr<Layout> layout = LayoutOf(tensor).Slice(slice);
  return layout.ok() ? bytes + PackedRange(*layout, tensor.packed_bits).size : bytes;
}

bool CanMap(const StoredTensor& tensor) {
  return tensor.packed_bits == 0 && tensor.stored_bytes > 0 && LayoutOf(tensor).IsContiguous() &&
         (!tensor.big_endian || ElementSize(tensor.dtype) == 1) && tensor.offset % ElementAlignment(tensor.dtype) == 0;
}

absl::StatusOr<Tensor> MapElements(const ByteSource& source, const StoredTensor& tensor,
                                   const ElementOptions& options) {
  CASK_ASSIGN_OR_RETURN(RefPtr<TensorBuffer> mapped,
                        source.Map(tensor.offset, static_cast<size_t>(tensor.stored_bytes)));
  const absl::string_view bytes = mapped->bytes();
  const bool is_aligned = reinterpret_cast<uintptr_t>(bytes.data()) % ElementAlignment(tensor.dtype) == 0;
  if (!is_aligned || (tensor.dtype == DType::kBool && !AreBools(bytes))) {
    return absl::UnimplementedError("elements that cannot be mapped");
  }
  if (MustVerify(tensor, options)) {
    CASK_RETURN_IF_ERROR(CompareChecksum(tensor, ExtendChecksum(tensor.checksum.kind, 0, bytes)));
    if (options.verified != nullptr) options.verified->Add(tensor.storage_id);
  }
  return Tensor::FromBuffer(tensor.dtype, tensor.shape, std::move(mapped));
}

absl::StatusOr<std::unique_ptr<ElementStream>> OpenElements(const ByteSource& source, StoredTensor tensor,
                                                            const ElementOptions& options,
                                                            std::function<absl::Status(const absl::Status&)> about) {
  if (tensor.packed_bits > 0 || !LayoutOf(tensor).IsContiguous()) {
    return about(absl::UnimplementedError("only whole bytes in row-major order are read as a stream"));
  }
  return std::unique_ptr<ElementStream>(
      std::make_unique<StoredElements>(source, std::move(tensor), options, std::move(about)));
}

absl::Status VerifyElements(const ByteSource& source, const StoredTensor& tensor, const ElementOptions& options) {
  ElementCheck check(tensor, /*verify=*/true, options);
  CASK_RETURN_IF_ERROR(CheckRest(source, tensor, 0, &check));
  return check.Finish();
}

absl::Status VerifyOnce(const ByteSource& source, const StoredTensor& tensor, const ElementOptions& options) {
  return MustVerify(tensor, options) ? VerifyElements(source, tensor, options) : absl::OkStatus();
}

}  // namespace tensorcask::stored
