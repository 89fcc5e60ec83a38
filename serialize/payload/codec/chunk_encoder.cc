#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/payload/codec/byte_entropy.h"
#include "tensorcask/serialize/payload/codec/chunk_codec.h"
#include "tensorcask/serialize/payload/codec/chunk_format.h"
#include "tensorcask/serialize/payload/codec/plane_codec.h"
#include "tensorcask/serialize/payload/codec/planes.h"
#include "tensorcask/serialize/payload/codec/scratch.h"
#include "tensorcask/tensor/base/check.h"
#include "tensorcask/tensor/base/endian.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask::payload {
namespace {

// A chunk is estimated from evenly spread pieces. A small chunk is examined as a whole.
constexpr size_t kSamplePieces = 32;
constexpr size_t kPieceBytes = 512;
constexpr size_t kSampleBytes = kSamplePieces * kPieceBytes;

// A plane with at least this entropy, in bits a byte, is noise: a coder of single bytes would not save 1/64 and the
// size of its tables. Only kHigh searches it for repetitions.
constexpr double kNoiseBits = 7.8;

size_t CopySample(const char* numbers, size_t bytes, int number_bytes, char* sample) {
  if (bytes <= kSampleBytes) {
    std::memcpy(sample, numbers, bytes);
    return bytes / number_bytes;
  }
  const size_t stride = bytes / kSamplePieces / number_bytes * number_bytes;
  for (size_t i = 0; i < kSamplePieces; ++i) std::memcpy(sample + i * kPieceBytes, numbers + i * stride, kPieceBytes);
  return kSampleBytes / number_bytes;
}

bool LowestPlaneIsConstant(const char* numbers, size_t count, int number_bytes) {
  for (size_t i = 1; i < count; ++i) {
    if (numbers[i * number_bytes] != numbers[0]) return false;
  }
  return true;
}

// The transforms of the numbers of a chunk before they are split into planes.
struct Form {
  bool differences = false;
  bool zero_bitmap = false;
  bool rotated = false;
};

// The estimate of a chunk from a sample.
struct Estimate {
  Form form;
  double bits = 0;         // of the coded sample
  uint32_t noise = 0;      // bit i: byte i of the numbers looks like noise
  bool all_noise = false;  // no plane would become smaller
};

}  // namespace

class ChunkEncoder::Impl {
 public:
  Impl(NumberType numbers, PayloadLevel level) : type_(numbers), level_(level) {}

  absl::StatusOr<absl::string_view> Encode(absl::string_view bytes, const char* base) {
    CASK_CHECK(!bytes.empty() && bytes.size() <= kMaxChunkBytes && bytes.size() % type_.bytes == 0,
               "Encode: this is no chunk of such numbers");
    if (level_ == PayloadLevel::kStored) return absl::string_view();
    const size_t count = bytes.size() / type_.bytes;
    size_t size = 0;
    if (type_.kind == NumberKind::kBool) {
      CASK_ASSIGN_OR_RETURN(size, EncodeBools(bytes.data(), count));
    } else {
      CASK_ASSIGN_OR_RETURN(size, EncodeNumbers(bytes.data(), base, count));
    }
    if (size == 0 || size >= bytes.size() || bytes.size() - size < bytes.size() / 64) return absl::string_view();
    return absl::string_view(out_.data(), size);
  }

  Compressibility EstimateCompressibility(absl::string_view bytes) {
    if (level_ != PayloadLevel::kDefault || type_.kind == NumberKind::kBool) return Compressibility::kUnknown;
    const size_t sampled = CopySample(bytes.data(), bytes.size(), type_.bytes, sample_.data());
    const Estimate estimate = EstimateSample(sample_.data(), sampled, /*differences=*/false);
    if (estimate.all_noise) return Compressibility::kNoise;
    const auto sample_bits = static_cast<double>(sampled * type_.bytes * 8);
    return estimate.bits <= 0.95 * sample_bits ? Compressibility::kSmaller : Compressibility::kUnknown;
  }

 private:
  // 0: not smaller. The result is in out_.
  absl::StatusOr<size_t> EncodeBools(const char* bools, size_t count) {
    const size_t plane_bytes = (count + 7) / 8;
    const size_t header_bytes = kChunkHeaderBytes + kPlaneEntryBytes;
    CASK_RETURN_IF_ERROR(out_.Reserve(header_bytes + plane_bytes));
    if (!PackBools(bools, count, out_.bytes() + header_bytes)) return 0;
    return CodePlanes(kChunkBits, count, {&plane_bytes, 1}, /*noise=*/0, Effort());
  }

  absl::StatusOr<size_t> EncodeNumbers(const char* numbers, const char* base, size_t count) {
    const size_t bytes = count * type_.bytes;
    const size_t sampled = CopySample(numbers, bytes, type_.bytes, sample_.data());
    Estimate estimate = EstimateSample(sample_.data(), sampled, /*differences=*/false);
    if (base != nullptr) {
      CopySample(base, bytes, type_.bytes, base_sample_.data());
      ComputeDifferences(sample_.data(), base_sample_.data(), sampled, type_.bytes, Order(),
                         sample_differences_.data());
      const Estimate other = EstimateSample(sample_differences_.data(), sampled, /*differences=*/true);
      if (other.bits < estimate.bits) estimate = other;
    }
    if (estimate.form.differences) {
      CASK_RETURN_IF_ERROR(differences_.Reserve(bytes));
      ComputeDifferences(numbers, base, count, type_.bytes, Order(), differences_.data());
      numbers = differences_.data();
    }
    if (level_ == PayloadLevel::kHigh) return EncodeSmallest(numbers, count, estimate.form.differences);
    if (estimate.all_noise) return 0;
    return EncodeAs(estimate.form, numbers, count, estimate.noise, Effort());
  }

  PlaneEffort Effort() const {
    if (level_ == PayloadLevel::kHigh) return PlaneEffort::kHigh;
    return type_.kind == NumberKind::kFloat ? PlaneEffort::kLiterals : PlaneEffort::kDefault;
  }
  NumberOrder Order() const { return type_.kind == NumberKind::kFloat ? NumberOrder::kFloat : NumberOrder::kInteger; }

  Estimate EstimateSample(const char* numbers, size_t count, bool differences) {
    Estimate estimate;
    estimate.form.differences = differences;
    estimate.form.zero_bitmap = CountZeros(numbers, count, type_.bytes) * 5 >= count * 2;
    if (estimate.form.zero_bitmap) {
      const size_t bitmap_bytes = (count + 7) / 8;
      const auto bitmap = reinterpret_cast<uint8_t*>(sample_planes_.data());
      count = CompactNonzeros(numbers, count, type_.bytes, bitmap, sample_dense_.data());
      numbers = sample_dense_.data();
      estimate.bits = ByteEntropy({sample_planes_.data(), bitmap_bytes}) * static_cast<double>(bitmap_bytes);
    }
    estimate.form.rotated = CanRotate(differences) && !LowestPlaneIsConstant(numbers, count, type_.bytes);
    SplitPlanes(numbers, count, type_.bytes, estimate.form.rotated, reinterpret_cast<uint8_t*>(sample_planes_.data()));
    for (int i = 0; i < type_.bytes; ++i) {
      const double entropy = ByteEntropy({sample_planes_.data() + i * count, count});
      estimate.bits += entropy * static_cast<double>(count);
      if (entropy >= kNoiseBits) estimate.noise |= uint32_t{1} << i;
    }
    estimate.all_noise = estimate.noise == (uint32_t{1} << type_.bytes) - 1 && !estimate.form.zero_bitmap;
    return estimate;
  }

  // Differences have their sign in the lowest bit already.
  bool CanRotate(bool differences) const { return type_.kind == NumberKind::kFloat && type_.bytes > 1 && !differences; }

  // Tries all forms, and encodes the smallest one again with the most effort.
  absl::StatusOr<size_t> EncodeSmallest(const char* numbers, size_t count, bool differences) {
    const bool has_zeros = CountZeros(numbers, count, type_.bytes) != 0;
    size_t best_size = 0;
    Form best;
    for (const bool zero_bitmap : {false, true}) {
      for (const bool rotated : {false, true}) {
        if ((zero_bitmap && !has_zeros) || (rotated && !CanRotate(differences))) continue;
        const Form form{differences, zero_bitmap, rotated};
        CASK_ASSIGN_OR_RETURN(const size_t size, EncodeAs(form, numbers, count, /*noise=*/0, PlaneEffort::kDefault));
        if (best_size != 0 && size >= best_size) continue;
        best_size = size;
        best = form;
      }
    }
    return EncodeAs(best, numbers, count, /*noise=*/0, PlaneEffort::kHigh);
  }

  // Fills out_ with the coded chunk; returns its size. Planes of `noise` (bit i: byte i of the numbers) stay raw.
  absl::StatusOr<size_t> EncodeAs(const Form& form, const char* numbers, size_t count, uint32_t noise,
                                  PlaneEffort effort) {
    std::array<size_t, kMaxPlanes> sizes;
    const int num_bitmaps = form.zero_bitmap ? 1 : 0;
    const int num_planes = num_bitmaps + type_.bytes;
    const size_t header_bytes = kChunkHeaderBytes + num_planes * kPlaneEntryBytes;
    const size_t bitmap_bytes = form.zero_bitmap ? (count + 7) / 8 : 0;
    CASK_RETURN_IF_ERROR(out_.Reserve(header_bytes + bitmap_bytes + count * type_.bytes));
    if (form.zero_bitmap) {
      CASK_RETURN_IF_ERROR(dense_.Reserve(count * type_.bytes));
      const size_t values = CompactNonzeros(numbers, count, type_.bytes, out_.bytes() + header_bytes, dense_.data());
      if (values == 0) return EncodeAs({form.differences, false, false}, numbers, count, 0, effort);  // all constant
      numbers = dense_.data();
      count = values;
      sizes[0] = bitmap_bytes;
      noise <<= 1;
    }
    for (int i = num_bitmaps; i < num_planes; ++i) sizes[i] = count;
    SplitPlanes(numbers, count, type_.bytes, form.rotated, out_.bytes() + header_bytes + bitmap_bytes);
    const int flags = (form.rotated ? kChunkRotated : 0) | (form.zero_bitmap ? kChunkZeroBitmap : 0) |
                      (form.differences ? kChunkDifferences : 0);
    return CodePlanes(static_cast<uint8_t>(flags), count, absl::MakeConstSpan(sizes).first(num_planes), noise, effort);
  }

  // Writes the header to out_, which holds the raw planes after it, and compresses the planes that are not `noise` (bit
  // i: plane i). A raw plane after raw planes is not moved. Returns the size of the chunk.
  absl::StatusOr<size_t> CodePlanes(uint8_t flags, size_t values, absl::Span<const size_t> sizes, uint32_t noise,
                                    PlaneEffort effort) {
    char* const header = out_.data();
    StoreLittleEndian<uint32_t>(flags, header);
    StoreLittleEndian(static_cast<uint32_t>(values), header + 4);
    size_t at = kChunkHeaderBytes + sizes.size() * kPlaneEntryBytes;
    size_t end = at;
    for (size_t i = 0; i < sizes.size(); ++i) {
      const absl::string_view plane(header + at, sizes[i]);
      CodedPlane coded{PlaneKind::kRaw, plane.size()};
      if ((noise >> i & 1) == 0) {
        CASK_ASSIGN_OR_RETURN(coded, CodePlane(plane, effort, header + end));
      }
      if (coded.kind == PlaneKind::kRaw && end != at) std::memmove(header + end, plane.data(), plane.size());
      StoreLittleEndian(static_cast<uint32_t>(coded.size) | static_cast<uint32_t>(coded.kind) << 24,
                        header + kChunkHeaderBytes + i * kPlaneEntryBytes);
      at += plane.size();
      end += coded.size;
    }
    return end;
  }

  // Writes to `out`, which is at the plane or before it, unless the plane stays raw.
  absl::StatusOr<CodedPlane> CodePlane(absl::string_view plane, PlaneEffort effort, char* out) {
    if (level_ != PayloadLevel::kHigh) return encoder_.Encode(plane, effort, out);
    CASK_RETURN_IF_ERROR(coded_.Reserve(plane.size()));
    CASK_RETURN_IF_ERROR(other_.Reserve(plane.size()));
    CASK_ASSIGN_OR_RETURN(CodedPlane best, encoder_.Encode(plane, PlaneEffort::kLiterals, coded_.data()));
    for (const PlaneEffort next : {PlaneEffort::kDefault, PlaneEffort::kHigh}) {
      if (next > effort || best.kind == PlaneKind::kConstant) break;
      CASK_ASSIGN_OR_RETURN(const CodedPlane other, encoder_.Encode(plane, next, other_.data()));
      // If a frame of little effort found no repetitions, more effort finds none either. (Huffman coding does not
      // search for any.)
      if (other.size >= best.size && best.kind != PlaneKind::kHuffman) break;
      if (other.size >= best.size) continue;
      best = other;
      std::swap(coded_, other_);
    }
    if (best.kind != PlaneKind::kRaw) std::memcpy(out, coded_.data(), best.size);
    return best;
  }

  const NumberType type_;
  const PayloadLevel level_;
  PlaneEncoder encoder_;
  Scratch out_;            // the coded chunk
  Scratch coded_, other_;  // one coded plane, for kHigh
  Scratch dense_;
  Scratch differences_;
  std::array<char, kSampleBytes> sample_, base_sample_, sample_differences_, sample_dense_, sample_planes_;
};

NumberType NumbersOf(DType dtype) {
  CASK_CHECK(IsFixedSize(dtype), "NumbersOf: elements of no fixed size");
  const int bytes = static_cast<int>(ElementSize(dtype));
  if (dtype == DType::kBool) return {NumberKind::kBool, 1};
  if (IsComplex(dtype)) return {NumberKind::kFloat, bytes / 2};
  return {IsFloating(dtype) ? NumberKind::kFloat : NumberKind::kInteger, bytes};
}

ChunkEncoder::ChunkEncoder(NumberType numbers, PayloadLevel level) : impl_(std::make_unique<Impl>(numbers, level)) {}
ChunkEncoder::~ChunkEncoder() = default;
ChunkEncoder::ChunkEncoder(ChunkEncoder&&) noexcept = default;

absl::StatusOr<absl::string_view> ChunkEncoder::Encode(absl::string_view bytes, const char* base) {
  return impl_->Encode(bytes, base);
}

Compressibility ChunkEncoder::EstimateCompressibility(absl::string_view bytes) {
  return impl_->EstimateCompressibility(bytes);
}

}  // namespace tensorcask::payload
