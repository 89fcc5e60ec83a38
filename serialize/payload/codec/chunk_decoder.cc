#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/payload/codec/chunk_codec.h"
#include "tensorcask/serialize/payload/codec/chunk_format.h"
#include "tensorcask/serialize/payload/codec/plane_codec.h"
#include "tensorcask/serialize/payload/codec/planes.h"
#include "tensorcask/serialize/payload/codec/scratch.h"
#include "tensorcask/tensor/base/bool_bytes.h"
#include "tensorcask/tensor/base/check.h"
#include "tensorcask/tensor/base/endian.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"

namespace tensorcask::payload {
namespace {

template <typename... Parts>
absl::Status Bad(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat("coded chunk: ", parts...));
}

// The header of a coded chunk, after all of its fields are checked.
struct Header {
  uint8_t flags = 0;
  size_t values = 0;
  int num_planes = 0;
  struct Plane {
    const PlaneCodec* codec = nullptr;
    size_t decoded_bytes = 0;
    absl::string_view coded;
  };
  std::array<Plane, kMaxPlanes> planes;

  bool Has(uint8_t flag) const { return (flags & flag) != 0; }
};

absl::Status CheckFlags(uint8_t flags, NumberType type) {
  constexpr uint8_t kKnown = kChunkRotated | kChunkZeroBitmap | kChunkBits | kChunkDifferences;
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

absl::StatusOr<Header> ParseHeader(absl::string_view coded, NumberType type, size_t count) {
  if (coded.size() < kChunkHeaderBytes) return Bad("has ", coded.size(), " bytes, too few for a header");
  Header header;
  header.flags = static_cast<uint8_t>(coded[0]);
  CASK_RETURN_IF_ERROR(CheckFlags(header.flags, type));
  if (coded[1] != 0 || coded[2] != 0 || coded[3] != 0) {
    return absl::UnimplementedError("coded chunk: reserved bytes are not 0");
  }
  header.values = LoadLittleEndian<uint32_t>(coded.data() + 4);
  const bool sparse = header.Has(kChunkZeroBitmap);
  if (sparse ? header.values > count : header.values != count) {
    return Bad("has ", header.values, " values; the chunk has ", count);
  }
  const size_t bitmap_bytes = (count + 7) / 8;
  header.num_planes = (sparse ? 1 : 0) + type.bytes;
  size_t at = kChunkHeaderBytes + header.num_planes * kPlaneEntryBytes;
  if (coded.size() < at) {
    return Bad("has ", coded.size(), " bytes; its header and ", header.num_planes, " planes need ", at);
  }
  for (int i = 0; i < header.num_planes; ++i) {
    const auto entry = LoadLittleEndian<uint32_t>(coded.data() + kChunkHeaderBytes + i * kPlaneEntryBytes);
    const size_t size = entry & 0xffffff;
    Header::Plane& plane = header.planes[i];
    plane.codec = FindPlaneCodec(static_cast<PlaneKind>(entry >> 24));
    if (plane.codec == nullptr) {
      return absl::UnimplementedError(absl::StrCat("coded chunk: plane ", i, " is of kind ", entry >> 24,
                                                   "; this version knows 0 to ", NumPlaneCodecs() - 1));
    }
    plane.decoded_bytes = (sparse && i == 0) || header.Has(kChunkBits) ? bitmap_bytes : header.values;
    CASK_RETURN_IF_ERROR(Annotate(CheckPlaneSize(*plane.codec, i, size, plane.decoded_bytes), "coded chunk"));
    if (size > coded.size() - at) return Bad("plane ", i, " has ", size, " bytes; ", coded.size() - at, " are left");
    plane.coded = coded.substr(at, size);
    at += size;
  }
  if (at != coded.size()) return Bad("has ", coded.size() - at, " bytes behind its planes");
  return header;
}

// Bits past the end are 0.
absl::Status CheckPadding(const uint8_t* bits, size_t count) {
  if (count % 8 == 0 || bits[count / 8] >> (count % 8) == 0) return absl::OkStatus();
  return Bad("bits are set past the end of ", count);
}

}  // namespace

class ChunkDecoder::Impl {
 public:
  explicit Impl(NumberType numbers) : type_(numbers) {}

  absl::Status Decode(absl::string_view coded, const char* base, absl::Span<char> out, bool non_temporal) {
    CASK_CHECK(!out.empty() && out.size() <= kMaxChunkBytes && out.size() % type_.bytes == 0,
               "Decode: this is no chunk of such numbers");
    if (coded.size() == out.size()) {
      std::memcpy(out.data(), coded.data(), out.size());
    } else if (coded.size() > out.size()) {
      return Bad("has ", coded.size(), " bytes and decodes to ", out.size(), "; it must be smaller");
    } else {
      const size_t count = out.size() / type_.bytes;
      CASK_ASSIGN_OR_RETURN(const Header header, ParseHeader(coded, type_, count));
      if (header.Has(kChunkBits)) return DecodeBits(header, count, out.data());
      if (header.Has(kChunkZeroBitmap)) {
        CASK_RETURN_IF_ERROR(DecodeSparse(header, count, out.data()));
      } else {
        CASK_RETURN_IF_ERROR(planes_.Reserve(ScratchBytes(header)));
        const bool are_final = !header.Has(kChunkDifferences) || base == nullptr;
        CASK_RETURN_IF_ERROR(Join(header, /*first_plane=*/0, planes_.bytes(), out.data(), non_temporal && are_final));
      }
      if (header.Has(kChunkDifferences) && base != nullptr) {
        const NumberOrder order = type_.kind == NumberKind::kFloat ? NumberOrder::kFloat : NumberOrder::kInteger;
        AddDifferences(out.data(), base, count, type_.bytes, order, out.data());
      }
    }
    if (type_.kind == NumberKind::kBool) return Annotate(CheckBools({out.data(), out.size()}), "the chunk");
    return absl::OkStatus();
  }

 private:
  // Holds the decoded planes.
  static size_t ScratchBytes(const Header& header) {
    size_t bytes = 0;
    for (int i = 0; i < header.num_planes; ++i) {
      if (header.planes[i].codec->decode != nullptr) bytes += header.planes[i].decoded_bytes;
    }
    return bytes;
  }

  absl::Status DecodePlane(const Header& header, int index, uint8_t* out) {
    const Header::Plane& plane = header.planes[index];
    absl::Status status = decoder_.Decode(plane.codec->kind, plane.coded,
                                          absl::MakeSpan(reinterpret_cast<char*>(out), plane.decoded_bytes));
    if (status.ok()) return status;
    return Annotate(status, absl::StrCat("coded chunk: plane ", index));
  }

  // A plane of one bit for each number: in place if it is raw, else decoded to `scratch`.
  absl::StatusOr<const uint8_t*> Bits(const Header& header, size_t count, uint8_t* scratch) {
    const Header::Plane& plane = header.planes[0];
    const uint8_t* bits = scratch;
    if (plane.codec->decode != nullptr) {
      CASK_RETURN_IF_ERROR(DecodePlane(header, 0, scratch));
    } else if (plane.codec->kind == PlaneKind::kConstant) {
      std::memset(scratch, plane.coded[0], plane.decoded_bytes);
    } else {
      bits = reinterpret_cast<const uint8_t*>(plane.coded.data());
    }
    CASK_RETURN_IF_ERROR(CheckPadding(bits, count));
    return bits;
  }

  absl::Status DecodeBits(const Header& header, size_t count, char* out) {
    CASK_RETURN_IF_ERROR(planes_.Reserve(header.planes[0].decoded_bytes));
    CASK_ASSIGN_OR_RETURN(const uint8_t* const bits, Bits(header, count, planes_.bytes()));
    UnpackBools(bits, count, out);
    return absl::OkStatus();
  }

  // The planes from `first_plane` on are those of the numbers. `scratch` has room for those that are compressed.
  absl::Status Join(const Header& header, int first_plane, uint8_t* scratch, char* out, bool non_temporal) {
    std::array<PlaneSource, kMaxPlanes> sources;
    for (int i = first_plane; i < header.num_planes; ++i) {
      const Header::Plane& plane = header.planes[i];
      PlaneSource& source = sources[i - first_plane];
      if (plane.codec->decode != nullptr) {
        CASK_RETURN_IF_ERROR(DecodePlane(header, i, scratch));
        source.bytes = scratch;
        scratch += plane.decoded_bytes;
      } else if (plane.codec->kind == PlaneKind::kConstant) {
        source.constant = static_cast<uint8_t>(plane.coded[0]);
      } else {
        source.bytes = reinterpret_cast<const uint8_t*>(plane.coded.data());
      }
    }
    if (header.values != 0) {
      JoinPlanes(sources.data(), header.values, type_.bytes, header.Has(kChunkRotated), out, non_temporal);
    }
    return absl::OkStatus();
  }

  // Compares the bitmap with `values` before it decodes anything else. Decodes planes into `out`, since the numbers are
  // joined in dense_ first.
  absl::Status DecodeSparse(const Header& header, size_t count, char* out) {
    const size_t bitmap_bytes = header.planes[0].decoded_bytes;
    CASK_RETURN_IF_ERROR(planes_.Reserve(bitmap_bytes));
    CASK_ASSIGN_OR_RETURN(const uint8_t* const bitmap, Bits(header, count, planes_.bytes()));
    const size_t ones = CountBits(bitmap, bitmap_bytes);
    if (ones != header.values) return Bad("has ", header.values, " values; its zero bitmap has ", ones, " bits");
    CASK_RETURN_IF_ERROR(dense_.Reserve(header.values * type_.bytes));
    CASK_RETURN_IF_ERROR(Join(header, /*first_plane=*/1, reinterpret_cast<uint8_t*>(out), dense_.data(),
                              /*non_temporal=*/false));
    ExpandZeros(bitmap, dense_.data(), count, type_.bytes, out);
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

absl::Status ChunkDecoder::Decode(absl::string_view coded, const char* base, absl::Span<char> out, bool non_temporal) {
  return impl_->Decode(coded, base, out, non_temporal);
}

}  // namespace tensorcask::payload
