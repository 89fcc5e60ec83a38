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
#include "tensorcask/serialize/payload/byte_entropy.h"
#include "tensorcask/serialize/payload/chunk_codec.h"
#include "tensorcask/serialize/payload/chunk_format.h"
#include "tensorcask/serialize/payload/plane_codec.h"
#include "tensorcask/serialize/payload/planes.h"
#include "tensorcask/serialize/payload/scratch.h"
#include "tensorcask/tensor/base/check.h"
#include "tensorcask/tensor/base/endian.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask::payload {
namespace {

// A chunk is judged by pieces of it, spread evenly. A small one is looked at as a whole.
constexpr size_t kSamplePieces = 32;
constexpr size_t kPieceBytes = 512;
constexpr size_t kSampleBytes = kSamplePieces * kPieceBytes;

// From so many bits a byte on, a plane is noise: no coder of single bytes would save 1/64 and pay for its tables.
// Repetitions in it are for kHigh.
constexpr double kNoiseBits = 7.8;

size_t TakeSample(const char* numbers, size_t bytes, int number_bytes, char* sample) {
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

// What is done to the numbers of a chunk before they are split into planes.
struct Form {
  bool differences = false;
  bool zeros_apart = false;
  bool rotated = false;
};

// What a sample says of a chunk.
struct Outlook {
  Form form;
  double bits = 0;         // of the coded sample
  uint32_t noise = 0;      // bit i: byte i of the numbers looks like noise
  bool all_noise = false;  // nothing would be smaller
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

  ChunkOutlook LookAt(absl::string_view bytes) {
    if (level_ != PayloadLevel::kDefault || type_.kind == NumberKind::kBool) return ChunkOutlook::kOpen;
    const size_t sampled = TakeSample(bytes.data(), bytes.size(), type_.bytes, sample_.data());
    const Outlook outlook = LookAt(sample_.data(), sampled, /*differences=*/false);
    if (outlook.all_noise) return ChunkOutlook::kNoise;
    const auto sample_bits = static_cast<double>(sampled * type_.bytes * 8);
    return outlook.bits <= 0.95 * sample_bits ? ChunkOutlook::kSmaller : ChunkOutlook::kOpen;
  }

 private:
  // 0: not smaller. The result is in out_.
  absl::StatusOr<size_t> EncodeBools(const char* bools, size_t count) {
    const size_t plane_bytes = (count + 7) / 8;
    const size_t head_bytes = kChunkHeadBytes + kPlaneEntryBytes;
    CASK_RETURN_IF_ERROR(out_.Reserve(head_bytes + plane_bytes));
    if (!PackBools(bools, count, out_.bytes() + head_bytes)) return 0;
    return CodePlanes(kChunkBits, count, {&plane_bytes, 1}, /*noise=*/0, Effort());
  }

  absl::StatusOr<size_t> EncodeNumbers(const char* numbers, const char* base, size_t count) {
    const size_t bytes = count * type_.bytes;
    const size_t sampled = TakeSample(numbers, bytes, type_.bytes, sample_.data());
    Outlook outlook = LookAt(sample_.data(), sampled, /*differences=*/false);
    if (base != nullptr) {
      TakeSample(base, bytes, type_.bytes, base_sample_.data());
      TakeDifferences(sample_.data(), base_sample_.data(), sampled, type_.bytes, Order(), sample_differences_.data());
      const Outlook other = LookAt(sample_differences_.data(), sampled, /*differences=*/true);
      if (other.bits < outlook.bits) outlook = other;
    }
    if (outlook.form.differences) {
      CASK_RETURN_IF_ERROR(differences_.Reserve(bytes));
      TakeDifferences(numbers, base, count, type_.bytes, Order(), differences_.data());
      numbers = differences_.data();
    }
    if (level_ == PayloadLevel::kHigh) return EncodeSmallest(numbers, count, outlook.form.differences);
    if (outlook.all_noise) return 0;
    return EncodeAs(outlook.form, numbers, count, outlook.noise, Effort());
  }

  PlaneEffort Effort() const {
    if (level_ == PayloadLevel::kHigh) return PlaneEffort::kHigh;
    return type_.kind == NumberKind::kFloat ? PlaneEffort::kLiterals : PlaneEffort::kDefault;
  }
  NumberOrder Order() const { return type_.kind == NumberKind::kFloat ? NumberOrder::kFloat : NumberOrder::kInteger; }

  Outlook LookAt(const char* numbers, size_t count, bool differences) {
    Outlook outlook;
    outlook.form.differences = differences;
    outlook.form.zeros_apart = CountZeros(numbers, count, type_.bytes) * 5 >= count * 2;
    if (outlook.form.zeros_apart) {
      const size_t mask_bytes = (count + 7) / 8;
      const auto mask = reinterpret_cast<uint8_t*>(sample_planes_.data());
      count = TakeZerosApart(numbers, count, type_.bytes, mask, sample_dense_.data());
      numbers = sample_dense_.data();
      outlook.bits = ByteEntropy({sample_planes_.data(), mask_bytes}) * static_cast<double>(mask_bytes);
    }
    outlook.form.rotated = CanRotate(differences) && !LowestPlaneIsConstant(numbers, count, type_.bytes);
    SplitPlanes(numbers, count, type_.bytes, outlook.form.rotated, reinterpret_cast<uint8_t*>(sample_planes_.data()));
    for (int i = 0; i < type_.bytes; ++i) {
      const double entropy = ByteEntropy({sample_planes_.data() + i * count, count});
      outlook.bits += entropy * static_cast<double>(count);
      if (entropy >= kNoiseBits) outlook.noise |= uint32_t{1} << i;
    }
    outlook.all_noise = outlook.noise == (uint32_t{1} << type_.bytes) - 1 && !outlook.form.zeros_apart;
    return outlook;
  }

  // Differences have their sign in the lowest bit already.
  bool CanRotate(bool differences) const { return type_.kind == NumberKind::kFloat && type_.bytes > 1 && !differences; }

  // Tries all forms, and spends most on the smallest.
  absl::StatusOr<size_t> EncodeSmallest(const char* numbers, size_t count, bool differences) {
    const bool has_zeros = CountZeros(numbers, count, type_.bytes) != 0;
    size_t best_size = 0;
    Form best;
    for (const bool zeros_apart : {false, true}) {
      for (const bool rotated : {false, true}) {
        if ((zeros_apart && !has_zeros) || (rotated && !CanRotate(differences))) continue;
        const Form form{differences, zeros_apart, rotated};
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
    const int num_masks = form.zeros_apart ? 1 : 0;
    const int num_planes = num_masks + type_.bytes;
    const size_t head_bytes = kChunkHeadBytes + num_planes * kPlaneEntryBytes;
    const size_t mask_bytes = form.zeros_apart ? (count + 7) / 8 : 0;
    CASK_RETURN_IF_ERROR(out_.Reserve(head_bytes + mask_bytes + count * type_.bytes));
    if (form.zeros_apart) {
      CASK_RETURN_IF_ERROR(dense_.Reserve(count * type_.bytes));
      const size_t values = TakeZerosApart(numbers, count, type_.bytes, out_.bytes() + head_bytes, dense_.data());
      if (values == 0) return EncodeAs({form.differences, false, false}, numbers, count, 0, effort);  // all constant
      numbers = dense_.data();
      count = values;
      sizes[0] = mask_bytes;
      noise <<= 1;
    }
    for (int i = num_masks; i < num_planes; ++i) sizes[i] = count;
    SplitPlanes(numbers, count, type_.bytes, form.rotated, out_.bytes() + head_bytes + mask_bytes);
    const int flags = (form.rotated ? kChunkRotated : 0) | (form.zeros_apart ? kChunkZerosApart : 0) |
                      (form.differences ? kChunkDifferences : 0);
    return CodePlanes(static_cast<uint8_t>(flags), count, absl::MakeConstSpan(sizes).first(num_planes), noise, effort);
  }

  // Writes the head into out_, where the planes stand behind it as they are, and makes those smaller that are not
  // `noise` (bit i: plane i). A raw plane behind raw planes stays where it is. Returns the size of all.
  absl::StatusOr<size_t> CodePlanes(uint8_t flags, size_t values, absl::Span<const size_t> sizes, uint32_t noise,
                                    PlaneEffort effort) {
    char* const head = out_.data();
    StoreLittleEndian<uint32_t>(flags, head);
    StoreLittleEndian(static_cast<uint32_t>(values), head + 4);
    size_t at = kChunkHeadBytes + sizes.size() * kPlaneEntryBytes;
    size_t end = at;
    for (size_t i = 0; i < sizes.size(); ++i) {
      const absl::string_view plane(head + at, sizes[i]);
      CodedPlane coded{PlaneKind::kRaw, plane.size()};
      if ((noise >> i & 1) == 0) {
        CASK_ASSIGN_OR_RETURN(coded, CodePlane(plane, effort, head + end));
      }
      if (coded.kind == PlaneKind::kRaw && end != at) std::memmove(head + end, plane.data(), plane.size());
      StoreLittleEndian(static_cast<uint32_t>(coded.size) | static_cast<uint32_t>(coded.kind) << 24,
                        head + kChunkHeadBytes + i * kPlaneEntryBytes);
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
      // Whoever finds no repetitions with little effort finds none with more. (Prefix codes have not looked for any.)
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

ChunkOutlook ChunkEncoder::LookAt(absl::string_view bytes) { return impl_->LookAt(bytes); }

}  // namespace tensorcask::payload
