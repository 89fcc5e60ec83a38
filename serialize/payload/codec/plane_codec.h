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
  // only the repetitions inside a piece, which has up to 2 KiB. Errors: as above.
  absl::StatusOr<bool> SearchPays(absl::string_view plane);

  size_t MemoryBytes() const;  // of its contexts

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

  // Decodes a coded plane of `kind`. Errors: as DecodeFrame or HuffmanDecoder.
  // Requires: the kind is kZstd or kHuffman.
  absl::Status Decode(PlaneKind kind, absl::string_view coded, absl::Span<char> out);

  // Decodes `frame`, which must be one whole frame whose content has the size of `out`, without a dictionary.
  // Errors: InvalidArgument, saying what is wrong with the frame; ResourceExhausted without memory. On error `out` is
  // unspecified.
  absl::Status DecodeFrame(absl::string_view frame, absl::Span<char> out);

 private:
  struct Contexts;
  std::unique_ptr<Contexts> contexts_;
};

}  // namespace tensorcask::payload

#endif  // TENSORCASK_SERIALIZE_PAYLOAD_CODEC_PLANE_CODEC_H_
