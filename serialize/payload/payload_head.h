// The head of an encoded payload (FORMAT.md section 2): what it holds, apart from the bytes of its chunks.
//
//   CASK_ASSIGN_OR_RETURN(PayloadHead head, PayloadHead::Parse(bytes.substr(0, kPayloadHeadBytes)));
//   head.decoded_bytes();   // what the elements take, of strings with 8 bytes for each length

#ifndef TENSORCASK_SERIALIZE_PAYLOAD_PAYLOAD_HEAD_H_
#define TENSORCASK_SERIALIZE_PAYLOAD_PAYLOAD_HEAD_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/payload/content_hash.h"
#include "tensorcask/tensor/dtype.h"

namespace tensorcask {

// How hard a writer tries. Any reader reads any level.
enum class PayloadLevel : uint8_t {
  kStored = 0,  // as in memory, checked chunk by chunk
  // As fast as it can be; finds no repetitions in bytes that are all equally frequent (kHigh does).
  kDefault = 1,
  kHigh = 2,  // tries several ways and keeps the smallest
};

absl::string_view PayloadLevelName(PayloadLevel level);                  // "stored", "default", "high"
absl::StatusOr<PayloadLevel> ParsePayloadLevel(absl::string_view name);  // Errors: InvalidArgument

constexpr size_t kPayloadHeadBytes = 64;
constexpr int kMinLog2ChunkBytes = 16;  // 64 KiB
constexpr int kMaxLog2ChunkBytes = 22;  // 4 MiB

struct PayloadHead {
  DType dtype = DType::kInvalid;
  int log2_chunk_bytes = 20;
  uint8_t level = 0;  // as found: one that this version does not know does no harm
  bool is_delta = false;
  uint64_t num_elements = 0;
  uint64_t characters = 0;  // of strings
  ContentHash base;         // of a delta

  // Whether tensors of `dtype` have such a form: all of fixed size, and strings.
  static bool Supports(DType dtype);

  uint64_t chunk_bytes() const { return uint64_t{1} << log2_chunk_bytes; }
  uint64_t first_stream_bytes() const;  // elements; of strings, their lengths
  uint64_t decoded_bytes() const { return first_stream_bytes() + characters; }
  uint64_t first_stream_chunks() const;
  uint64_t num_chunks() const;

  // What chunk number `i` decodes to: bytes [begin, begin + size) of a stream, 0 or, of strings' characters, 1.
  // Requires: i < num_chunks().
  struct Chunk {
    int stream;
    uint64_t begin;
    size_t size;
  };
  Chunk chunk(uint64_t i) const;

  // Requires: Supports(dtype); decoded_bytes() is below 2^63.
  std::string Encode() const;
  // `bytes` are those of the head alone. What Parse has passed has all that section 5 asks of a head; sums of sizes do
  // not overflow. Errors: InvalidArgument, saying what is wrong; Unimplemented for what is newer; DataLoss for a wrong
  // checksum.
  static absl::StatusOr<PayloadHead> Parse(absl::string_view bytes);

  friend bool operator==(const PayloadHead& a, const PayloadHead& b) {
    return a.dtype == b.dtype && a.log2_chunk_bytes == b.log2_chunk_bytes && a.level == b.level &&
           a.is_delta == b.is_delta && a.num_elements == b.num_elements && a.characters == b.characters &&
           a.base == b.base;
  }
  friend bool operator!=(const PayloadHead& a, const PayloadHead& b) { return !(a == b); }
};

// What a writer says of a payload.
struct PayloadSummary {
  PayloadHead head;
  uint64_t decoded_bytes = 0;
  uint64_t stored_bytes = 0;  // all that was written
  uint64_t num_chunks = 0;
  uint64_t shared_chunks = 0;  // of these, those that are stored with an earlier one
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_PAYLOAD_PAYLOAD_HEAD_H_
