// One chunk of a payload: numbers to bytes and back (FORMAT.md section 3).
//
//   ChunkEncoder encoder(NumbersOf(DType::kFloat32), PayloadLevel::kDefault);        // one a thread
//   CASK_ASSIGN_OR_RETURN(absl::string_view coded, encoder.Encode(bytes, /*base=*/nullptr));
//   if (coded.empty()) ...                                                           // raw is no larger
//
//   ChunkDecoder decoder(NumbersOf(DType::kFloat32));
//   CASK_RETURN_IF_ERROR(decoder.Decode(coded, /*base=*/nullptr, out));              // out.size(): the decoded size
//
// Both keep their memory and zstd's contexts from chunk to chunk: once these have grown nothing is allocated. What
// comes out depends on what goes in alone, not on the chunks before.

#ifndef TENSORCASK_SERIALIZE_PAYLOAD_CHUNK_CODEC_H_
#define TENSORCASK_SERIALIZE_PAYLOAD_CHUNK_CODEC_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/payload/payload_head.h"
#include "tensorcask/tensor/dtype.h"

namespace tensorcask::payload {

enum class NumberKind {
  kFloat,    // most of their bits are noise, the exponent is not: Huffman, no search for repetitions
  kInteger,  // repetitions count; where all bytes are equally frequent, for kHigh alone
  kBool,
};

// What a stream is made of.
struct NumberType {
  NumberKind kind = NumberKind::kInteger;
  int bytes = 1;  // 1, 2, 4 or 8
};

NumberType NumbersOf(DType dtype);  // Requires: fixed size. complex64: float of 4 bytes
constexpr NumberType kStringLengths{NumberKind::kInteger, 8};
constexpr NumberType kCharacters{NumberKind::kInteger, 1};

// What a sample tells of a chunk.
enum class ChunkOutlook {
  kNoise,    // it will stay raw
  kOpen,     // nobody knows
  kSmaller,  // by a twentieth at least, as it seems
};

class ChunkEncoder {
 public:
  ChunkEncoder(NumberType numbers, PayloadLevel level);
  ~ChunkEncoder();
  ChunkEncoder(ChunkEncoder&&) noexcept;

  // The coded chunk, valid until the next call; empty if that is not smaller than `bytes` by 1/64, if the level is
  // kStored, or for bools other than 0 and 1. `base`, if not null, has the numbers of the base at the same places: the
  // chunk is differences if that is smaller (judged on a sample). Requires: bytes.size() is a multiple of
  // numbers.bytes, not 0, at most 4 MiB. Errors: ResourceExhausted without memory.
  absl::StatusOr<absl::string_view> Encode(absl::string_view bytes, const char* base);

  // What would come of Encode(bytes, nullptr), at a small part of its cost.
  ChunkOutlook LookAt(absl::string_view bytes);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

class ChunkDecoder {
 public:
  explicit ChunkDecoder(NumberType numbers);
  ~ChunkDecoder();
  ChunkDecoder(ChunkDecoder&&) noexcept;

  // Fills `out`, whose size is the decoded size. `coded` is a coded chunk or, if it has the same size, a raw one.
  // `base`, if not null, has the base's numbers at the same places; without it differences come out as they are.
  // Errors: InvalidArgument, saying what is wrong; Unimplemented for what is reserved; ResourceExhausted without
  // memory. On error `out` is unspecified. Requires: as above; the checksum is right (or nobody cares).
  // `past_cache`: as in JoinPlanes.
  absl::Status Decode(absl::string_view coded, const char* base, absl::Span<char> out, bool past_cache = false);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tensorcask::payload

#endif  // TENSORCASK_SERIALIZE_PAYLOAD_CHUNK_CODEC_H_
