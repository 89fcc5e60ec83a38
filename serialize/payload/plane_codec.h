// One plane of a chunk: bytes as they are, one constant byte, a zstd frame, or prefix codes (FORMAT.md section 3).
//
//   PlaneEncoder encoder;                                     // one a thread
//   CASK_ASSIGN_OR_RETURN(CodedPlane coded, encoder.Encode(plane, PlaneEffort::kLiterals, out));
//   PlaneDecoder decoder;
//   CASK_RETURN_IF_ERROR(decoder.Decode(coded.kind, bytes, plane));  // plane.size(): what it must hold
//
// Both keep contexts from plane to plane, and leave them, as far as 4 MiB a kind go, to those that are made after them.
// What comes out depends on what goes in alone, not on planes before.

#ifndef TENSORCASK_SERIALIZE_PAYLOAD_PLANE_CODEC_H_
#define TENSORCASK_SERIALIZE_PAYLOAD_PLANE_CODEC_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace tensorcask::payload {

enum class PlaneKind : uint8_t { kRaw = 0, kConstant = 1, kZstd = 2, kHuffman = 3 };

// How a plane is looked at.
enum class PlaneEffort {
  kLiterals,  // how frequent bytes are where: prefix codes, or a frame if the plane is small or repeats itself
  kDefault,   // repetitions, too: zstd's level 3
  kHigh,      // repetitions, whatever they cost
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

  // Writes to `out` what all bytes of `plane` are, or what it is coded as: less than the plane has. It stays raw if
  // that would not save 1/64 of it; `out` is then as it was. It may overlap the plane. Errors: ResourceExhausted
  // without memory.
  absl::StatusOr<CodedPlane> Encode(absl::string_view plane, PlaneEffort effort, char* out);

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

  // Decodes what a plane of `kind` was coded as. Errors: those of DecodeFrame, or of HuffmanDecoder.
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

#endif  // TENSORCASK_SERIALIZE_PAYLOAD_PLANE_CODEC_H_
