#include "tensorcask/serialize/safetensors/internal/stored_elements.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/io/internal/damage_mark.h"
#include "tensorcask/serialize/io/internal/piece_buffer.h"
#include "tensorcask/serialize/safetensors/dtypes.h"
#include "tensorcask/serialize/safetensors/internal/header.h"
#include "tensorcask/serialize/safetensors/internal/slice_runs.h"
#include "tensorcask/serialize/safetensors/internal/sub_byte.h"
#include "tensorcask/tensor/base/bool_bytes.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/base/parallel_for.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/strided/copy.h"
#include "tensorcask/tensor/strided/row_major.h"

namespace tensorcask::safetensors {
namespace {

// What is read, and then checked while it is still in the second-level cache.
constexpr size_t kChunkBytes = size_t{512} << 10;
// From here one tensor is read by several threads, in parts of this size.
constexpr size_t kParallelBytes = size_t{8} << 20;
// Ranges of a slice that are read together.
constexpr size_t kMaxRanges = 4096;

bool IsPacked(DType dtype) { return SafetensorsDTypeBits(dtype) < 8; }

absl::Status CompareChecksum(const SafetensorsEntry& entry, uint32_t found) {
  if (found == *entry.checksum) return absl::OkStatus();
  return MarkWrongChecksum(
      absl::DataLossError(absl::StrCat("its checksum is ", HexOf(found), ", stored is ", HexOf(*entry.checksum),
                                       ": the file is damaged, or a program changed the elements in place")));
}

// Checks that bools are 0 or 1; lenient makes them so.
absl::Status CheckBools(absl::Span<char> bytes, bool lenient) {
  if (AreBools({bytes.data(), bytes.size()})) return absl::OkStatus();
  if (!lenient) return absl::DataLossError("a bool is neither 0 nor 1 (lenient accepts this)");
  for (char& c : bytes) c = c != 0 ? 1 : 0;
  return absl::OkStatus();
}

// What the bytes of an entry must prove while they pass by, in order.
class Checker {
 public:
  Checker(const SafetensorsEntry& entry, bool verify, bool lenient)
      : entry_(entry), verify_(verify && entry.checksum.has_value()), lenient_(lenient) {}

  bool idle() const { return !verify_ && entry_.dtype != DType::kBool; }
  absl::Status Check(absl::Span<char> bytes) {
    if (verify_) crc_ = ExtendCrc32c(crc_, absl::string_view(bytes.data(), bytes.size()));
    return entry_.dtype == DType::kBool ? CheckBools(bytes, lenient_) : absl::OkStatus();
  }
  absl::Status Finish() const { return verify_ ? CompareChecksum(entry_, crc_) : absl::OkStatus(); }
  uint32_t crc() const { return crc_; }
  bool verifies() const { return verify_; }

 private:
  const SafetensorsEntry& entry_;
  const bool verify_;
  const bool lenient_;
  uint32_t crc_ = 0;
};

// Reads `out` from byte `offset` of the file, checking on the way.
absl::Status ReadChecked(const ByteSource& file, uint64_t offset, absl::Span<char> out, Checker* checker) {
  if (checker->idle()) return file.ReadAt(offset, out);
  for (size_t done = 0; done < out.size();) {
    const absl::Span<char> chunk = out.subspan(done, kChunkBytes);
    CASK_RETURN_IF_ERROR(file.ReadAt(offset + done, chunk));
    CASK_RETURN_IF_ERROR(checker->Check(chunk));
    done += chunk.size();
  }
  return absl::OkStatus();
}

// All stored bytes, which are the elements. Requires: out.size() is entry.stored_bytes; elements of whole bytes.
absl::Status ReadBytes(const ByteSource& file, const SafetensorsEntry& entry, const ElementOptions& options,
                       absl::Span<char> out) {
  Checker whole(entry, options.verify, options.lenient);
  if (options.num_threads <= 1 || out.size() < kParallelBytes || whole.idle()) {
    CASK_RETURN_IF_ERROR(ReadChecked(file, entry.offset, out, &whole));
    return whole.Finish();
  }
  const size_t parts = (out.size() + kParallelBytes - 1) / kParallelBytes;
  std::vector<absl::Status> results(parts);
  std::vector<uint32_t> checksums(parts);
  CASK_RETURN_IF_ERROR(ParallelFor(options.num_threads, parts, [&](size_t part) {
    const size_t start = part * kParallelBytes;
    Checker checker(entry, options.verify, options.lenient);
    results[part] = ReadChecked(file, entry.offset + start, out.subspan(start, kParallelBytes), &checker);
    checksums[part] = checker.crc();
  }));
  uint32_t crc = 0;
  for (size_t part = 0; part < parts; ++part) {
    CASK_RETURN_IF_ERROR(results[part]);
    crc = CombineCrc32c(crc, checksums[part], std::min(kParallelBytes, out.size() - part * kParallelBytes));
  }
  return whole.verifies() ? CompareChecksum(entry, crc) : absl::OkStatus();
}

// All elements of a packed tensor, a byte each.
absl::Status ReadPacked(const ByteSource& file, const SafetensorsEntry& entry, const ElementOptions& options,
                        absl::Span<char> out) {
  const int bits = SafetensorsDTypeBits(entry.dtype);
  // 8 elements fill whole bytes, so no chunk ends inside an element.
  constexpr size_t kElements = size_t{64} << 10;
  std::vector<char> packed(std::min<uint64_t>(entry.stored_bytes, kElements / 8 * static_cast<size_t>(bits)));
  Checker checker(entry, options.verify, options.lenient);
  uint64_t offset = entry.offset;
  for (size_t done = 0; done < out.size(); done += kElements) {
    const absl::Span<char> elements = out.subspan(done, kElements);
    const absl::Span<char> chunk = absl::MakeSpan(packed).subspan(0, elements.size() * static_cast<size_t>(bits) / 8);
    CASK_RETURN_IF_ERROR(ReadChecked(file, offset, chunk, &checker));
    UnpackElements(bits, absl::string_view(chunk.data(), chunk.size()), 0, elements);
    offset += chunk.size();
  }
  return checker.Finish();
}

absl::Status ReadRuns(const ByteSource& file, const SafetensorsEntry& entry, SliceRuns* runs, absl::Span<char> out) {
  const auto element_bytes = static_cast<uint64_t>(ElementSize(entry.dtype));
  const auto run_bytes = static_cast<size_t>(runs->length()) * element_bytes;
  std::vector<ReadRange> ranges;
  ranges.reserve(static_cast<size_t>(std::min<int64_t>(runs->count(), kMaxRanges)));
  for (int64_t done = 0; done < runs->count();) {
    ranges.clear();
    for (; done < runs->count() && ranges.size() < kMaxRanges; ++done) {
      const auto at = static_cast<uint64_t>(runs->Next());
      ranges.push_back(
          {entry.offset + at * element_bytes, out.subspan(static_cast<size_t>(done) * run_bytes, run_bytes)});
    }
    CASK_RETURN_IF_ERROR(ranges.size() == 1 ? file.ReadAt(ranges[0].offset, ranges[0].out) : file.ReadRanges(ranges));
  }
  return absl::OkStatus();
}

// The stored bytes that hold all packed elements from the first to the last of the runs. 8 elements fill whole bytes,
// so the range begins with a group of 8.
struct PackedRange {
  PackedRange(const SliceRuns& runs, int bits)
      : first_element(runs.first() / 8 * 8),
        begin(static_cast<uint64_t>(first_element / 8 * bits)),
        end((static_cast<uint64_t>(runs.last() + runs.length()) * static_cast<uint64_t>(bits) + 7) / 8) {}
  uint64_t size() const { return end - begin; }

  const int64_t first_element;
  const uint64_t begin;
  const uint64_t end;
};

absl::Status ReadPackedRuns(const ByteSource& file, const SafetensorsEntry& entry, SliceRuns* runs,
                            absl::Span<char> out) {
  const int bits = SafetensorsDTypeBits(entry.dtype);
  const PackedRange range(*runs, bits);
  CASK_ASSIGN_OR_RETURN(const RefPtr<TensorBuffer> packed, TensorBuffer::Allocate(static_cast<size_t>(range.size())));
  const auto bytes = absl::MakeSpan(static_cast<char*>(packed->mutable_data()), static_cast<size_t>(range.size()));
  CASK_RETURN_IF_ERROR(file.ReadAt(entry.offset + range.begin, bytes));
  const auto length = static_cast<size_t>(runs->length());
  for (int64_t done = 0; done < runs->count(); ++done) {
    UnpackElements(bits, absl::string_view(bytes.data(), bytes.size()),
                   static_cast<uint64_t>(runs->Next() - range.first_element),
                   out.subspan(static_cast<size_t>(done) * length, length));
  }
  return absl::OkStatus();
}

// The elements of `slice`, whose shape is `part`. Requires: out.size() is their number of bytes, and not 0.
absl::Status ReadSliceBytes(const ByteSource& file, const SafetensorsEntry& entry, const TensorSlice& slice,
                            const TensorShape& part, bool lenient, absl::Span<char> out) {
  SliceRuns runs(entry.shape, slice, part);
  if (IsPacked(entry.dtype)) return ReadPackedRuns(file, entry, &runs, out);
  CASK_RETURN_IF_ERROR(ReadRuns(file, entry, &runs, out));
  return entry.dtype == DType::kBool ? CheckBools(out, lenient) : absl::OkStatus();
}

// Requires: the view is contiguous and has elements.
absl::StatusOr<absl::Span<char>> MutableBytes(TensorView* view) {
  CASK_RETURN_IF_ERROR(view->EnsureMutable());
  const TensorView::ByteRange range = view->bounds();
  return absl::MakeSpan(static_cast<char*>(view->buffer()->mutable_data()) + range.begin, range.end - range.begin);
}

}  // namespace

absl::StatusOr<Tensor> ReadElements(const ByteSource& file, const SafetensorsEntry& entry,
                                    const ElementOptions& options) {
  CASK_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Create(entry.dtype, entry.shape, options.allocator));
  CASK_RETURN_IF_ERROR(tensor.EnsureMutable());
  const absl::Span<char> out = tensor.mutable_bytes();
  CASK_RETURN_IF_ERROR(IsPacked(entry.dtype) ? ReadPacked(file, entry, options, out)
                                             : ReadBytes(file, entry, options, out));
  return tensor;
}

absl::Status ReadElementsInto(const ByteSource& file, const SafetensorsEntry& entry, const ElementOptions& options,
                              TensorView* out) {
  if (out->num_elements() == 0) return absl::OkStatus();
  if (out->IsContiguous()) {
    CASK_ASSIGN_OR_RETURN(const absl::Span<char> bytes, MutableBytes(out));
    return IsPacked(entry.dtype) ? ReadPacked(file, entry, options, bytes) : ReadBytes(file, entry, options, bytes);
  }
  if (IsPacked(entry.dtype)) {
    CASK_ASSIGN_OR_RETURN(const Tensor tensor, ReadElements(file, entry, options));
    return Copy(tensor, out);
  }
  Checker checker(entry, options.verify, options.lenient);
  uint64_t offset = entry.offset;
  CASK_RETURN_IF_ERROR(FillRowMajorPieces(out, kChunkBytes, [&](absl::Span<char> block) {
    const uint64_t at = offset;
    offset += block.size();
    return ReadChecked(file, at, block, &checker);
  }));
  return checker.Finish();
}

absl::StatusOr<Tensor> ReadSliceOfElements(const ByteSource& file, const SafetensorsEntry& entry,
                                           const TensorSlice& slice, const ElementOptions& options) {
  CASK_ASSIGN_OR_RETURN(const TensorShape part, slice.Apply(entry.shape));
  CASK_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Create(entry.dtype, part, options.allocator));
  CASK_RETURN_IF_ERROR(tensor.EnsureMutable());
  if (part.num_elements() == 0) return tensor;
  CASK_RETURN_IF_ERROR(ReadSliceBytes(file, entry, slice, part, options.lenient, tensor.mutable_bytes()));
  return tensor;
}

absl::Status ReadSliceOfElementsInto(const ByteSource& file, const SafetensorsEntry& entry, const TensorSlice& slice,
                                     const ElementOptions& options, TensorView* out) {
  if (out->num_elements() == 0) return absl::OkStatus();
  if (!out->IsContiguous()) {
    CASK_ASSIGN_OR_RETURN(const Tensor part, ReadSliceOfElements(file, entry, slice, options));
    return Copy(part, out);
  }
  CASK_ASSIGN_OR_RETURN(const absl::Span<char> bytes, MutableBytes(out));
  return ReadSliceBytes(file, entry, slice, out->shape(), options.lenient, bytes);
}

uint64_t SliceBytes(const SafetensorsEntry& entry, const TensorSlice& slice, const TensorShape& part) {
  const uint64_t bytes = static_cast<uint64_t>(part.num_elements()) * ElementSize(entry.dtype);
  if (!IsPacked(entry.dtype) || bytes == 0) return bytes;
  return bytes + PackedRange(SliceRuns(entry.shape, slice, part), SafetensorsDTypeBits(entry.dtype)).size();
}

bool CanMap(const SafetensorsEntry& entry) {
  return entry.stored_bytes > 0 && !IsPacked(entry.dtype) && entry.offset % ElementAlignment(entry.dtype) == 0;
}

absl::StatusOr<Tensor> MapElements(const ByteSource& file, const SafetensorsEntry& entry,
                                   const ElementOptions& options) {
  absl::StatusOr<RefPtr<TensorBuffer>> mapped = file.Map(entry.offset, static_cast<size_t>(entry.stored_bytes));
  if (absl::IsUnimplemented(mapped.status())) return ReadElements(file, entry, options);
  CASK_RETURN_IF_ERROR(mapped.status());
  const absl::string_view bytes(static_cast<const char*>((*mapped)->data()), static_cast<size_t>(entry.stored_bytes));
  if (reinterpret_cast<uintptr_t>(bytes.data()) % ElementAlignment(entry.dtype) != 0) {
    return ReadElements(file, entry, options);
  }
  if (entry.dtype == DType::kBool && !AreBools(bytes)) {
    return ReadElements(file, entry, options);  // an error, or a copy with 0 and 1 (lenient)
  }
  if (options.verify && entry.checksum.has_value()) CASK_RETURN_IF_ERROR(CompareChecksum(entry, Crc32c(bytes)));
  return Tensor::FromBuffer(entry.dtype, entry.shape, *std::move(mapped));
}

absl::Status VerifyElements(const ByteSource& file, const SafetensorsEntry& entry, bool lenient) {
  Checker checker(entry, /*verify=*/true, lenient);
  PieceBuffer chunk(entry.stored_bytes, kChunkBytes);
  for (uint64_t done = 0; done < entry.stored_bytes;) {
    const auto part = absl::MakeSpan(chunk).subspan(
        0, static_cast<size_t>(std::min<uint64_t>(chunk.size(), entry.stored_bytes - done)));
    CASK_RETURN_IF_ERROR(file.ReadAt(entry.offset + done, part));
    CASK_RETURN_IF_ERROR(checker.Check(part));
    done += part.size();
  }
  return checker.Finish();
}

}  // namespace tensorcask::safetensors
