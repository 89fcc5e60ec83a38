// One chunk of a payload: numbers to bytes and back (FORMAT.md section 3).
//
//   ChunkEncoder encoder(NumbersOf(DType::kFloat32), PayloadLevel::kDefault);        // one a thread
//   CASK_ASSIGN_OR_RETURN(absl::string_view coded, encoder.Encode(bytes, /*base=*/nullptr));
//   if (coded.empty()) ...                                                           // raw is no larger
//
//   ChunkDecoder decoder(NumbersOf(DType::kFloat32));
//   CASK_RETURN_IF_ERROR(decoder.Decode(coded, /*base=*/nullptr, out));              // out.size(): the decoded size
//
// Both keep their buffers and zstd contexts from chunk to chunk: once these have grown, nothing is allocated. The
// result depends on the arguments alone, not on earlier chunks.

#ifndef TENSORCASK_SERIALIZE_PAYLOAD_CODEC_CHUNK_CODEC_H_
#define TENSORCASK_SERIALIZE_PAYLOAD_CODEC_CHUNK_CODEC_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/payload/codec/payload_level.h"
#include "tensorcask/tensor/dtype.h"

namespace tensorcask::payload {

enum class NumberKind {
  kFloat,    // mantissas are noise, exponents are not: Huffman codes, no search for repetitions
  kInteger,  // repetitions count; if all bytes are equally frequent, only kHigh searches for them
  kBool,
};

// The numbers of a stream.
struct NumberType {
  NumberKind kind = NumberKind::kInteger;
  int bytes = 1;  // 1, 2, 4 or 8
};

NumberType NumbersOf(DType dtype);  // Requires: fixed size. complex64: float of 4 bytes
constexpr NumberType kStringLengths{NumberKind::kInteger, 8};
constexpr NumberType kCharacters{NumberKind::kInteger, 1};

// How much smaller a chunk becomes, estimated on a sample.
enum class Compressibility {
  kNoise,    // it will stay raw
  kUnknown,  // the sample does not decide
  kSmaller,  // by about a twentieth or more
};

class ChunkEncoder {
 public:
  ChunkEncoder(NumberType numbers, PayloadLevel level);
  ~ChunkEncoder();
  ChunkEncoder(ChunkEncoder&&) noexcept;

  // The coded chunk, valid until the next call; empty if it would not be smaller than `bytes` by 1/64, if the level is
  // kStored, or for bools other than 0 and 1. `base`, if not null, has as many numbers, those of the base: the chunk
  // then holds differences if a sample of them is smaller. Requires: bytes.size() is a multiple of numbers.bytes, not 0
  // and at most 4 MiB.
  // Errors: ResourceExhausted without memory.
  absl::StatusOr<absl::string_view> Encode(absl::string_view bytes, const char* base);

  // Estimates the result of Encode(bytes, nullptr), at a small part of its cost. Noise is recognized by a sample; kHigh
  // also finds out whether the noise repeats itself.
  Compressibility EstimateCompressibility(absl::string_view bytes);

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
  // `base`, if not null, has as many numbers, those of the base; without it, differences are decoded as such.
  // `non_temporal`: as in JoinPlanes.
  // Errors: InvalidArgument, saying what is wrong; Unimplemented for reserved values; ResourceExhausted without memory.
  // On error `out` is unspecified. Requires: as above; the caller has verified the checksum or does not need it.
  absl::Status Decode(absl::string_view coded, const char* base, absl::Span<char> out, bool non_temporal = false);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tensorcask::payload

#endif  // TENSORCASK_SERIALIZE_PAYLOAD_CODEC_CHUNK_CODEC_H_
