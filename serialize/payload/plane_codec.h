// One plane of a chunk: bytes as they are, one constant byte, or a zstd frame (FORMAT.md section 3).
//
//   PlaneEncoder encoder;                                     // one a thread
//   CASK_ASSIGN_OR_RETURN(CodedPlane coded, encoder.Encode(plane, PlaneEffort::kLiterals, out));
//   PlaneDecoder decoder;
//   CASK_RETURN_IF_ERROR(decoder.DecodeFrame(frame, plane));  // plane.size(): what it must hold
//
// Both keep zstd's contexts from plane to plane, and leave them, as far as 4 MiB a kind go, to those that are made
// after them. What comes out depends on what goes in alone, not on planes before.

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

enum class PlaneKind : uint8_t { kRaw = 0, kConstant = 1, kZstd = 2, kHuffmanTables = 3 };  // the last is reserved

// How zstd is asked to look at a plane.
enum class PlaneEffort {
  kLiterals,  // Huffman, and long runs: the fast strategy with a tiny table
  kDefault,   // repetitions, too: level 3
  kHigh,      // repetitions, whatever they cost
};

struct CodedPlane {
  PlaneKind kind = PlaneKind::kRaw;
  size_t size = 0;  // bytes in `out`; of a raw plane that of the plane, and `out` is unspecified
};

class PlaneEncoder {
 public:
  PlaneEncoder();
  ~PlaneEncoder();
  PlaneEncoder(PlaneEncoder&&) noexcept;

  // What `out` of a plane of `size` bytes needs; a little more than the plane.
  static size_t RoomFor(size_t size);

  // Writes to `out` what all bytes of `plane` are, or a frame. It stays raw if that would not save 1/64 of it.
  // Errors: ResourceExhausted without memory.
  absl::StatusOr<CodedPlane> Encode(absl::string_view plane, PlaneEffort effort, char* out);

  size_t MemoryBytes() const;  // what zstd's contexts take

 private:
  struct Contexts;
  std::unique_ptr<Contexts> contexts_;
};

// The order-0 entropy in bits a byte of what `bytes` are a sample of; 0 of none. Integer arithmetic: the same result on
// every machine. Requires: fewer than 2^24 bytes.
double ByteEntropy(absl::string_view bytes);

// A window that a frame may ask for: the largest chunk.
constexpr uint64_t kMaxFrameWindowBytes = uint64_t{1} << 22;

class PlaneDecoder {
 public:
  PlaneDecoder();
  ~PlaneDecoder();
  PlaneDecoder(PlaneDecoder&&) noexcept;

  // Decodes `frame`, which must be one whole frame whose content has the size of `out`, without a dictionary.
  // Errors: InvalidArgument, saying what is wrong with the frame; ResourceExhausted without memory. On error `out` is
  // unspecified.
  absl::Status DecodeFrame(absl::string_view frame, absl::Span<char> out);

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

}  // namespace tensorcask::payload

#endif  // TENSORCASK_SERIALIZE_PAYLOAD_PLANE_CODEC_H_
