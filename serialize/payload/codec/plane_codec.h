// One plane of a chunk: bytes as they are, one constant byte, a zstd frame, or Huffman codes (FORMAT.md section 3).
//
//   PlaneEncoder encoder;                                     // one a thread
//   CASK_ASSIGN_OR_RETURN(CodedPlane coded, encoder.Encode(plane, PlaneEffort::kLiterals, out));
//   PlaneDecoder decoder;
//   CASK_RETURN_IF_ERROR(decoder.Decode(coded.kind, bytes, plane));  // plane.size(): the decoded size
//
// Both keep contexts from plane to plane, and leave up to 4 MiB of each kind to later encoders and decoders. The result
// depends on the arguments alone, not on earlier planes.

#ifndef TENSORCASK_SERIALIZE_PAYLOAD_CODEC_PLANE_CODEC_H_
#define TENSORCASK_SERIALIZE_PAYLOAD_CODEC_PLANE_CODEC_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace tensorcask::payload {

enum class PlaneKind : uint8_t { kRaw = 0, kConstant = 1, kZstd = 2, kHuffman = 3 };

// How hard the encoder searches.
enum class PlaneEffort {
  kLiterals,  // byte frequencies only: Huffman codes, or a frame if the plane is small or repeats itself
  kDefault,   // repetitions too: zstd level 3
  kHigh,      // nearly all repetitions, in noise too: at 50 to 600 MB/s
};

struct CodedPlane {
  PlaneKind kind = PlaneKind::kRaw;
  size_t size = 0;  // bytes in `out`; of a raw plane those of the plane
};

class PlaneEncoder {
 public:
  PlaneEncoder();
  ~PlaneEncoder();
  PlaneEncoder(PlaneEncoder&&) noexcept;

  // Writes the coded plane, which is smaller than `plane`, to `out`, which may overlap `plane`. If that would save less
  // than 1/64, the plane stays raw and `out` unchanged.
  // Errors: ResourceExhausted without memory.
  absl::StatusOr<CodedPlane> Encode(absl::string_view plane, PlaneEffort effort, char* out);

  // Estimates from pieces of the plane whether a frame of kHigh is smaller by a 64th than one of kLiterals. It sees
  // only the repetitions inside a piece, which has up to 2 KiB. Errors: ResourceExhausted.
  absl::StatusOr<bool> SearchPays(absl::string_view plane);

  size_t MemoryBytes() const;  // what its contexts take

 private:
  struct Contexts;
  std::unique_ptr<Contexts> contexts_;
};

// A window that a frame may ask for: the largest chunk.
constexpr uint64_t kMaxFrameWindowBytes = uint64_t{1} << 22;

class PlaneDecoder {
 public:
  PlaneDecoder();
  ~PlaneDecoder();
  PlaneDecoder(PlaneDecoder&&) noexcept;

  // Decodes a coded plane of `kind`. Errors: those of the function of the kind below. Requires: its row has one
  // (PlaneCodec::decode).
  absl::Status Decode(PlaneKind kind, absl::string_view coded, absl::Span<char> out);

  // Decodes `frame`, which must be one whole frame whose content has the size of `out`, without a dictionary.
  // Errors: InvalidArgument, saying what is wrong with the frame; ResourceExhausted without memory. On error `out` is
  // unspecified.
  absl::Status DecodeFrame(absl::string_view frame, absl::Span<char> out);
  // Errors: those of HuffmanDecoder::Decode.
  absl::Status DecodeHuffman(absl::string_view coded, absl::Span<char> out);

 private:
  struct Contexts;
  std::unique_ptr<Contexts> contexts_;
};

// What all of the room knows of a kind: a row of the table in plane_codec.cc.
struct PlaneCodec {
  PlaneKind kind;
  const char* name;  // "raw": for errors
  // The bytes of a plane that decodes to `decoded_bytes`; null: any number.
  size_t (*coded_bytes)(size_t decoded_bytes);
  // Null: a raw plane is read where it is, and the byte of a constant one is repeated.
  absl::Status (PlaneDecoder::*decode)(absl::string_view coded, absl::Span<char> out);
  // A plane of this kind is decoded so fast that the encoder replaces it only if another one is smaller by this part of
  // its bytes (128: a 128th). 0: if it is smaller.
  size_t kept_unless_smaller_by;
};

// The row of a kind; null for a number that this version does not know.
const PlaneCodec* FindPlaneCodec(PlaneKind kind);
// Kinds are numbered from 0.
size_t NumPlaneCodecs();

// Errors: InvalidArgument if plane `index` of a chunk cannot have `size` bytes and decode to `decoded_bytes`: only a
// raw plane may be empty.
absl::Status CheckPlaneSize(const PlaneCodec& codec, int index, size_t size, size_t decoded_bytes);

}  // namespace tensorcask::payload

#endif  // TENSORCASK_SERIALIZE_PAYLOAD_CODEC_PLANE_CODEC_H_
