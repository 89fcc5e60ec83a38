#include <algorithm>
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
#include "tensorcask/serialize/payload/codec/repetitions.h"
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
// size of its tables. Only kHigh searches such a plane, if numbers of the chunk repeat. kHigh codes a plane already
// where an ideal coder of single bytes would save 1/64.
constexpr double kNoiseBits = 7.8;
constexpr double kHighNoiseBits = 8 * (1 - 1.0 / 64);

// kHigh uses another form than kDefault if that makes the sample smaller by a 100th.
constexpr double kFormGain = 0.01;

// A zero bitmap does not pay for fewer zeros than one in so many.
constexpr size_t kFewZeros = 128;

// kHigh searches all planes of a chunk of which at least this share repeats. Runs of numbers with fewer bits than
// kLeastRunBits may be equal by chance.
constexpr double kRepeatedShare = 1.0 / 32;
constexpr double kLeastRunBits = 40;

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
  double bits = 0;         // the size of the coded sample
  uint32_t noise = 0;      // bit i: byte i of the numbers looks like noise
  bool all_noise = false;  // no plane would become smaller
};

}  // namespace

class ChunkEncoder::Impl {
 public:
  Impl(NumberType numbers, PayloadLevel level) : type_(numbers), level_(level) {
    if (level == PayloadLevel::kHigh) finder_ = std::make_unique<RepetitionFinder>();
  }

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
    if (level_ == PayloadLevel::kStored || type_.kind == NumberKind::kBool) return Compressibility::kUnknown;
    const size_t count = bytes.size() / type_.bytes;
    const size_t sampled = CopySample(bytes.data(), bytes.size(), type_.bytes, sample_.data());
    const Estimate estimate = EstimateSample(sample_.data(), sampled, /*differences=*/false);
    if (estimate.all_noise) {
      const bool repeats = level_ == PayloadLevel::kHigh && Repeats(bytes.data(), count, estimate);
      return repeats ? Compressibility::kUnknown : Compressibility::kNoise;
    }
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
    search_all_ = false;
    return CodePlanes(kChunkBits, count, {&plane_bytes, 1}, /*noise=*/0, level_ == PayloadLevel::kHigh);
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
    search_all_ = level_ == PayloadLevel::kHigh && Repeats(numbers, count, estimate);
    if (estimate.all_noise && !search_all_) return 0;
    if (level_ == PayloadLevel::kHigh) CASK_RETURN_IF_ERROR(Improve(numbers, count, sampled, &estimate));
    return EncodeAs(estimate.form, numbers, count, estimate.noise, level_ == PayloadLevel::kHigh);
  }

  // The effort of level kDefault.
  PlaneEffort Effort() const {
    return type_.kind == NumberKind::kFloat ? PlaneEffort::kLiterals : PlaneEffort::kDefault;
  }
  NumberOrder Order() const { return type_.kind == NumberKind::kFloat ? NumberOrder::kFloat : NumberOrder::kInteger; }

  Estimate EstimateSample(const char* numbers, size_t count, bool differences) {
    Form form;
    form.differences = differences;
    form.zero_bitmap = CountZeros(numbers, count, type_.bytes) * 5 >= count * 2;
    return EstimateForm(numbers, count, form, /*rotate_if_useful=*/true);
  }

  // `rotate_if_useful`: chooses form.rotated.
  Estimate EstimateForm(const char* numbers, size_t count, Form form, bool rotate_if_useful) {
    Estimate estimate;
    if (form.zero_bitmap) {
      const size_t bitmap_bytes = (count + 7) / 8;
      const auto bitmap = reinterpret_cast<uint8_t*>(sample_planes_.data());
      count = CompactNonzeros(numbers, count, type_.bytes, bitmap, sample_dense_.data());
      numbers = sample_dense_.data();
      estimate.bits = ByteEntropy({sample_planes_.data(), bitmap_bytes}) * static_cast<double>(bitmap_bytes);
    }
    if (rotate_if_useful) {
      form.rotated = CanRotate(form.differences) && !LowestPlaneIsConstant(numbers, count, type_.bytes);
    }
    estimate.form = form;
    SplitPlanes(numbers, count, type_.bytes, form.rotated, reinterpret_cast<uint8_t*>(sample_planes_.data()));
    for (int i = 0; i < type_.bytes; ++i) {
      const double entropy = ByteEntropy({sample_planes_.data() + i * count, count});
      estimate.bits += entropy * static_cast<double>(count);
      const double noise_bits = level_ == PayloadLevel::kHigh ? kHighNoiseBits : kNoiseBits;
      if (entropy >= noise_bits) estimate.noise |= uint32_t{1} << i;
    }
    estimate.all_noise = estimate.noise == (uint32_t{1} << type_.bytes) - 1 && !form.zero_bitmap;
    return estimate;
  }

  // Differences have their sign in the lowest bit already.
  bool CanRotate(bool differences) const { return type_.kind == NumberKind::kFloat && type_.bytes > 1 && !differences; }

  // True if runs of numbers repeat in the chunk so often that a search is worthwhile even in noise.
  bool Repeats(const char* numbers, size_t count, const Estimate& estimate) {
    const double number_bits = estimate.bits / static_cast<double>(std::min(count, kSampleBytes / type_.bytes));
    for (const int run_bytes : {16, 32}) {
      if (number_bits * run_bytes / type_.bytes < kLeastRunBits) continue;
      // Floats may repeat with another sign, and nearly.
      const uint64_t mask = CanRotate(estimate.form.differences) ? TopBitsWithoutSign(type_.bytes) : kAllBits;
      return finder_->Share(numbers, count, {type_.bytes, run_bytes, mask}) >= kRepeatedShare;
    }
    return false;
  }

  // For kHigh: changes *best to a form that makes the chunk smaller. sample_ or sample_differences_ holds `sampled`
  // numbers. Where only the frequencies of bytes count, their entropy in the sample decides. Where repetitions count
  // too, the whole chunk is coded in each form, without a search.
  absl::Status Improve(const char* numbers, size_t count, size_t sampled, Estimate* best) {
    const Form first = best->form;
    const bool differences = first.differences;
    const char* const sample = differences ? sample_differences_.data() : sample_.data();
    const bool has_zeros = CountZeros(sample, sampled, type_.bytes) * kFewZeros >= sampled;
    const bool code = search_all_ || type_.kind != NumberKind::kFloat;
    double least = best->bits * (1 - kFormGain);
    if (code && (has_zeros || CanRotate(differences))) {
      CASK_ASSIGN_OR_RETURN(const size_t size, EncodeAs(first, numbers, count, best->noise, /*search=*/false));
      least = static_cast<double>(size);
    }
    for (const bool zero_bitmap : {false, true}) {
      for (const bool rotated : {false, true}) {
        if ((zero_bitmap && !has_zeros) || (rotated && !CanRotate(differences))) continue;
        if (zero_bitmap == first.zero_bitmap && rotated == first.rotated) continue;
        const Estimate other =
            EstimateForm(sample, sampled, {differences, zero_bitmap, rotated}, /*rotate_if_useful=*/false);
        double size = other.bits;
        if (code) {
          CASK_ASSIGN_OR_RETURN(const size_t coded,
                                EncodeAs(other.form, numbers, count, other.noise, /*search=*/false));
          size = static_cast<double>(coded);
        }
        if (size >= least) continue;
        least = size;
        *best = other;
      }
    }
    // If numbers repeat with the other sign, the sign must not be in the lowest byte, which is noise.
    if (!best->form.rotated || !search_all_) return absl::OkStatus();
    const double any_sign = finder_->Share(numbers, count, {type_.bytes, 16, TopBitsWithoutSign(type_.bytes)});
    const double same_sign = finder_->Share(numbers, count, {type_.bytes, 16, TopBits(type_.bytes)});
    if (same_sign * 2 < any_sign) {
      *best = EstimateForm(sample, sampled, {differences, best->form.zero_bitmap, false}, /*rotate_if_useful=*/false);
    }
    return absl::OkStatus();
  }

  // Fills out_ with the coded chunk; returns its size. `noise`: bit i: byte i of the numbers is noise. `search`: planes
  // are coded as kHigh codes them, else as kDefault does.
  absl::StatusOr<size_t> EncodeAs(const Form& form, const char* numbers, size_t count, uint32_t noise, bool search) {
    std::array<size_t, kMaxPlanes> sizes;
    const int num_bitmaps = form.zero_bitmap ? 1 : 0;
    const int num_planes = num_bitmaps + type_.bytes;
    const size_t header_bytes = kChunkHeaderBytes + num_planes * kPlaneEntryBytes;
    const size_t bitmap_bytes = form.zero_bitmap ? (count + 7) / 8 : 0;
    CASK_RETURN_IF_ERROR(out_.Reserve(header_bytes + bitmap_bytes + count * type_.bytes));
    if (form.zero_bitmap) {
      CASK_RETURN_IF_ERROR(dense_.Reserve(count * type_.bytes));
      const size_t values = CompactNonzeros(numbers, count, type_.bytes, out_.bytes() + header_bytes, dense_.data());
      if (values == 0) return EncodeAs({form.differences, false, false}, numbers, count, 0, search);  // all constant
      numbers = dense_.data();
      count = values;
      sizes[0] = bitmap_bytes;
      noise <<= 1;
    }
    for (int i = num_bitmaps; i < num_planes; ++i) sizes[i] = count;
    SplitPlanes(numbers, count, type_.bytes, form.rotated, out_.bytes() + header_bytes + bitmap_bytes);
    const int flags = (form.rotated ? kChunkRotated : 0) | (form.zero_bitmap ? kChunkZeroBitmap : 0) |
                      (form.differences ? kChunkDifferences : 0);
    return CodePlanes(static_cast<uint8_t>(flags), count, absl::MakeConstSpan(sizes).first(num_planes), noise, search);
  }

  // Writes the header to out_, which holds the raw planes after it, and compresses the planes. Those of `noise` (bit i:
  // plane i) stay raw unless numbers repeat. A raw plane after raw planes is not moved. Returns the size of the chunk.
  absl::StatusOr<size_t> CodePlanes(uint8_t flags, size_t values, absl::Span<const size_t> sizes, uint32_t noise,
                                    bool search) {
    char* const header = out_.data();
    StoreLittleEndian<uint32_t>(flags, header);
    StoreLittleEndian(static_cast<uint32_t>(values), header + 4);
    size_t at = kChunkHeaderBytes + sizes.size() * kPlaneEntryBytes;
    size_t end = at;
    for (size_t i = 0; i < sizes.size(); ++i) {
      const absl::string_view plane(header + at, sizes[i]);
      const bool is_noise = (noise >> i & 1) != 0;
      CodedPlane coded{PlaneKind::kRaw, plane.size()};
      if (search) {
        CASK_ASSIGN_OR_RETURN(coded, CodeSmallest(plane, is_noise, header + end));
      } else if (!is_noise) {
        CASK_ASSIGN_OR_RETURN(coded, encoder_.Encode(plane, Effort(), header + end));
      }
      if (coded.kind == PlaneKind::kRaw && end != at) std::memmove(header + end, plane.data(), plane.size());
      StoreLittleEndian(static_cast<uint32_t>(coded.size) | static_cast<uint32_t>(coded.kind) << 24,
                        header + kChunkHeaderBytes + i * kPlaneEntryBytes);
      at += plane.size();
      end += coded.size;
    }
    return end;
  }

  // For kHigh: codes the plane as kDefault does, and in other ways that promise to be smaller. Writes to `out`, which
  // is at the plane or before it, unless the plane stays raw.
  absl::StatusOr<CodedPlane> CodeSmallest(absl::string_view plane, bool is_noise, char* out) {
    CodedPlane best{PlaneKind::kRaw, plane.size()};
    if (is_noise && !search_all_) return best;
    CASK_RETURN_IF_ERROR(coded_.Reserve(plane.size()));
    CASK_RETURN_IF_ERROR(other_.Reserve(plane.size()));
    const auto try_effort = [&](PlaneEffort effort) -> absl::Status {
      CASK_ASSIGN_OR_RETURN(const CodedPlane other, encoder_.Encode(plane, effort, other_.data()));
      const size_t part = FindPlaneCodec(best.kind)->kept_unless_smaller_by;
      const size_t gain = part != 0 ? best.size / part : 0;
      if (other.size >= best.size - gain) return absl::OkStatus();
      best = other;
      std::swap(coded_, other_);
      return absl::OkStatus();
    };
    if (!is_noise) {
      CASK_RETURN_IF_ERROR(try_effort(Effort()));
      if (best.kind != PlaneKind::kConstant && Effort() != PlaneEffort::kLiterals) {
        CASK_RETURN_IF_ERROR(try_effort(PlaneEffort::kLiterals));
      }
    }
    bool search = best.kind != PlaneKind::kConstant;
    if (search && !search_all_) {
      CASK_ASSIGN_OR_RETURN(search, encoder_.SearchPays(plane));
    }
    if (search) CASK_RETURN_IF_ERROR(try_effort(PlaneEffort::kHigh));
    if (best.kind != PlaneKind::kRaw) std::memcpy(out, coded_.data(), best.size);
    return best;
  }

  const NumberType type_;
  const PayloadLevel level_;
  PlaneEncoder encoder_;
  std::unique_ptr<RepetitionFinder> finder_;  // for kHigh
  bool search_all_ = false;                   // for kHigh: numbers of the chunk repeat, so all its planes are searched
  Scratch out_;                               // the coded chunk
  Scratch coded_, other_;                     // one coded plane, for kHigh
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
