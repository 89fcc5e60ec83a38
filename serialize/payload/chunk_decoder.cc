#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/payload/chunk_codec.h"
#include "tensorcask/serialize/payload/chunk_format.h"
#include "tensorcask/serialize/payload/plane_codec.h"
#include "tensorcask/serialize/payload/planes.h"
#include "tensorcask/serialize/payload/scratch.h"
#include "tensorcask/tensor/base/check.h"
#include "tensorcask/tensor/base/endian.h"
#include "tensorcask/tensor/base/process_error.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask::payload {
namespace {

template <typename... Parts>
absl::Status Bad(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat("coded chunk: ", parts...));
}

// What the head of a coded chunk says, once all of it is found to agree.
struct Head {
  uint8_t flags = 0;
  size_t values = 0;
  int num_planes = 0;
  struct Plane {
    PlaneKind kind = PlaneKind::kRaw;
    size_t decoded_bytes = 0;
    absl::string_view coded;
  };
  std::array<Plane, kMaxPlanes> planes;

  bool Has(uint8_t flag) const { return (flags & flag) != 0; }
};

absl::Status CheckFlags(uint8_t flags, NumberType type) {
  constexpr uint8_t kKnown = kChunkRotated | kChunkZerosApart | kChunkBits | kChunkDifferences;
  if ((flags & ~kKnown) != 0) {
    return absl::UnimplementedError(
        absl::StrCat("coded chunk: its flags are ", int{flags}, "; this version knows those of ", int{kKnown}));
  }
  const bool is_bool = type.kind == NumberKind::kBool;
  if ((flags & kChunkBits) != 0 && (!is_bool || flags != kChunkBits)) {
    return Bad("its flags are ", int{flags}, "; bits stand alone, and for bools");
  }
  if ((flags & kChunkRotated) != 0 && type.kind != NumberKind::kFloat) return Bad("it is rotated; only floats are");
  if ((flags & kChunkDifferences) != 0 && is_bool) return Bad("it has differences; bools have none");
  return absl::OkStatus();
}

absl::Status CheckPlaneSize(int index, PlaneKind kind, size_t size, size_t decoded_bytes) {
  switch (kind) {
    case PlaneKind::kRaw:
      if (size == decoded_bytes) return absl::OkStatus();
      return Bad("raw plane ", index, " has ", size, " bytes; it needs ", decoded_bytes);
    case PlaneKind::kConstant:
      if (decoded_bytes == 0) return Bad("plane ", index, " is constant, and of no bytes; such a one is raw");
      if (size == 1) return absl::OkStatus();
      return Bad("constant plane ", index, " has ", size, " bytes; it needs 1");
    case PlaneKind::kZstd:
    case PlaneKind::kHuffman:
      if (decoded_bytes == 0) return Bad("plane ", index, " is compressed, and of no bytes; such a one is raw");
      return absl::OkStatus();
  }
  return absl::UnimplementedError(absl::StrCat("coded chunk: plane ", index, " is of kind ", static_cast<int>(kind),
                                               "; this version knows 0 to 3"));
}

absl::StatusOr<Head> ParseHead(absl::string_view coded, NumberType type, size_t count) {
  if (coded.size() < kChunkHeadBytes) return Bad("has ", coded.size(), " bytes, too few for a head");
  Head head;
  head.flags = static_cast<uint8_t>(coded[0]);
  CASK_RETURN_IF_ERROR(CheckFlags(head.flags, type));
  if (coded[1] != 0 || coded[2] != 0 || coded[3] != 0) {
    return absl::UnimplementedError("coded chunk: reserved bytes are not 0");
  }
  head.values = LoadLittleEndian<uint32_t>(coded.data() + 4);
  const bool apart = head.Has(kChunkZerosApart);
  if (apart ? head.values > count : head.values != count) {
    return Bad("has ", head.values, " values; the chunk has ", count);
  }
  const size_t mask_bytes = (count + 7) / 8;
  head.num_planes = (apart ? 1 : 0) + type.bytes;
  size_t at = kChunkHeadBytes + head.num_planes * kPlaneEntryBytes;
  if (coded.size() < at) {
    return Bad("has ", coded.size(), " bytes; its head and ", head.num_planes, " planes need ", at);
  }
  for (int i = 0; i < head.num_planes; ++i) {
    const auto entry = LoadLittleEndian<uint32_t>(coded.data() + kChunkHeadBytes + i * kPlaneEntryBytes);
    const size_t size = entry & 0xffffff;
    Head::Plane& plane = head.planes[i];
    plane.kind = static_cast<PlaneKind>(entry >> 24);
    plane.decoded_bytes = (apart && i == 0) || head.Has(kChunkBits) ? mask_bytes : head.values;
    CASK_RETURN_IF_ERROR(CheckPlaneSize(i, plane.kind, size, plane.decoded_bytes));
    if (size > coded.size() - at) return Bad("plane ", i, " has ", size, " bytes; ", coded.size() - at, " are left");
    plane.coded = coded.substr(at, size);
    at += size;
  }
  if (at != coded.size()) return Bad("has ", coded.size() - at, " bytes behind its planes");
  return head;
}

// Bits past the end are 0.
absl::Status CheckPadding(const uint8_t* bits, size_t count) {
  if (count % 8 == 0 || bits[count / 8] >> (count % 8) == 0) return absl::OkStatus();
  return Bad("bits are set past the end of ", count);
}

absl::Status CheckBools(absl::string_view bools) {
  uint8_t seen = 0;
  for (const char byte : bools) seen |= static_cast<uint8_t>(byte);
  if (seen <= 1) return absl::OkStatus();
  const auto bad = std::find_if(bools.begin(), bools.end(), [](char c) { return c != 0 && c != 1; });
  return absl::InvalidArgumentError(absl::StrCat("number ", bad - bools.begin(), " of the chunk is ",
                                                 static_cast<int>(static_cast<uint8_t>(*bad)), "; a bool is 0 or 1"));
}

}  // namespace

class ChunkDecoder::Impl {
 public:
  explicit Impl(NumberType numbers) : type_(numbers) {}

  absl::Status Decode(absl::string_view coded, const char* base, absl::Span<char> out, bool past_cache) {
    CASK_CHECK(!out.empty() && out.size() <= kMaxChunkBytes && out.size() % type_.bytes == 0,
               "Decode: this is no chunk of such numbers");
    if (coded.size() == out.size()) {
      std::memcpy(out.data(), coded.data(), out.size());
    } else if (coded.size() > out.size()) {
      return Bad("has ", coded.size(), " bytes and decodes to ", out.size(), "; it must be smaller");
    } else {
      const size_t count = out.size() / type_.bytes;
      CASK_ASSIGN_OR_RETURN(const Head head, ParseHead(coded, type_, count));
      if (head.Has(kChunkBits)) return DecodeBits(head, count, out.data());
      if (head.Has(kChunkZerosApart)) {
        CASK_RETURN_IF_ERROR(DecodeSparse(head, count, out.data()));
      } else {
        CASK_RETURN_IF_ERROR(planes_.Reserve(ScratchBytes(head)));
        const bool are_final = !head.Has(kChunkDifferences) || base == nullptr;
        CASK_RETURN_IF_ERROR(Join(head, /*first_plane=*/0, planes_.bytes(), out.data(), past_cache && are_final));
      }
      if (head.Has(kChunkDifferences) && base != nullptr) {
        const NumberOrder order = type_.kind == NumberKind::kFloat ? NumberOrder::kFloat : NumberOrder::kInteger;
        AddDifferences(out.data(), base, count, type_.bytes, order, out.data());
      }
    }
    if (type_.kind == NumberKind::kBool) return CheckBools({out.data(), out.size()});
    return absl::OkStatus();
  }

 private:
  static bool IsCompressed(const Head::Plane& plane) {
    return plane.kind == PlaneKind::kZstd || plane.kind == PlaneKind::kHuffman;
  }

  // What the compressed planes decode to.
  static size_t ScratchBytes(const Head& head) {
    size_t bytes = 0;
    for (int i = 0; i < head.num_planes; ++i) {
      if (IsCompressed(head.planes[i])) bytes += head.planes[i].decoded_bytes;
    }
    return bytes;
  }

  absl::Status DecodePlane(const Head& head, int index, uint8_t* out) {
    const Head::Plane& plane = head.planes[index];
    absl::Status status =
        decoder_.Decode(plane.kind, plane.coded, absl::MakeSpan(reinterpret_cast<char*>(out), plane.decoded_bytes));
    if (status.ok()) return status;
    return internal::Prefixed(absl::StrCat("coded chunk: plane ", index), status);
  }

  // Bits, one a number of the chunk: where they lie raw, or decoded to `scratch`.
  absl::StatusOr<const uint8_t*> Bits(const Head& head, size_t count, uint8_t* scratch) {
    const Head::Plane& plane = head.planes[0];
    const uint8_t* bits = scratch;
    switch (plane.kind) {
      case PlaneKind::kConstant:
        std::memset(scratch, plane.coded[0], plane.decoded_bytes);
        break;
      case PlaneKind::kZstd:
      case PlaneKind::kHuffman:
        CASK_RETURN_IF_ERROR(DecodePlane(head, 0, scratch));
        break;
      case PlaneKind::kRaw:
        bits = reinterpret_cast<const uint8_t*>(plane.coded.data());
    }
    CASK_RETURN_IF_ERROR(CheckPadding(bits, count));
    return bits;
  }

  absl::Status DecodeBits(const Head& head, size_t count, char* out) {
    CASK_RETURN_IF_ERROR(planes_.Reserve(head.planes[0].decoded_bytes));
    CASK_ASSIGN_OR_RETURN(const uint8_t* const bits, Bits(head, count, planes_.bytes()));
    UnpackBools(bits, count, out);
    return absl::OkStatus();
  }

  // The planes from `first_plane` on are those of the numbers. `scratch` has room for those that are compressed.
  absl::Status Join(const Head& head, int first_plane, uint8_t* scratch, char* out, bool past_cache) {
    std::array<PlaneSource, kMaxPlanes> sources;
    for (int i = first_plane; i < head.num_planes; ++i) {
      const Head::Plane& plane = head.planes[i];
      PlaneSource& source = sources[i - first_plane];
      switch (plane.kind) {
        case PlaneKind::kConstant:
          source.constant = static_cast<uint8_t>(plane.coded[0]);
          break;
        case PlaneKind::kZstd:
        case PlaneKind::kHuffman:
          CASK_RETURN_IF_ERROR(DecodePlane(head, i, scratch));
          source.bytes = scratch;
          scratch += plane.decoded_bytes;
          break;
        case PlaneKind::kRaw:
          source.bytes = reinterpret_cast<const uint8_t*>(plane.coded.data());
      }
    }
    if (head.values != 0) {
      JoinPlanes(sources.data(), head.values, type_.bytes, head.Has(kChunkRotated), out, past_cache);
    }
    return absl::OkStatus();
  }

  // The mask is compared with `values` before anything else is decoded. `out` has room for planes until the numbers
  // come: they are joined in dense_.
  absl::Status DecodeSparse(const Head& head, size_t count, char* out) {
    const size_t mask_bytes = head.planes[0].decoded_bytes;
    CASK_RETURN_IF_ERROR(planes_.Reserve(mask_bytes));
    CASK_ASSIGN_OR_RETURN(const uint8_t* const mask, Bits(head, count, planes_.bytes()));
    const size_t ones = CountBits(mask, mask_bytes);
    if (ones != head.values) return Bad("has ", head.values, " values; its mask has ", ones, " bits");
    CASK_RETURN_IF_ERROR(dense_.Reserve(head.values * type_.bytes));
    CASK_RETURN_IF_ERROR(Join(head, /*first_plane=*/1, reinterpret_cast<uint8_t*>(out), dense_.data(),
                              /*past_cache=*/false));
    PutZerosBack(mask, dense_.data(), count, type_.bytes, out);
    return absl::OkStatus();
  }

  const NumberType type_;
  PlaneDecoder decoder_;
  Scratch planes_;
  Scratch dense_;
};

ChunkDecoder::ChunkDecoder(NumberType numbers) : impl_(std::make_unique<Impl>(numbers)) {}
ChunkDecoder::~ChunkDecoder() = default;
ChunkDecoder::ChunkDecoder(ChunkDecoder&&) noexcept = default;

absl::Status ChunkDecoder::Decode(absl::string_view coded, const char* base, absl::Span<char> out, bool past_cache) {
  return impl_->Decode(coded, base, out, past_cache);
}

}  // namespace tensorcask::payload
