// The header of an encoded payload (FORMAT.md section 2).
//
//   CASK_ASSIGN_OR_RETURN(PayloadHeader header, PayloadHeader::Parse(bytes.substr(0, kPayloadHeaderBytes)));
//   header.decoded_bytes();   // the size of the elements; for strings with 8 bytes for each length

#ifndef TENSORCASK_SERIALIZE_PAYLOAD_PAYLOAD_HEADER_H_
#define TENSORCASK_SERIALIZE_PAYLOAD_PAYLOAD_HEADER_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/payload/codec/payload_level.h"
#include "tensorcask/serialize/payload/content_hash.h"
#include "tensorcask/tensor/dtype.h"

namespace tensorcask {

constexpr size_t kPayloadHeaderBytes = 64;

struct PayloadHeader {
  DType dtype = DType::kInvalid;
  int log2_chunk_bytes = 20;
  uint8_t level = 0;  // as found; readers ignore it
  bool is_delta = false;
  uint64_t num_elements = 0;
  uint64_t characters = 0;  // the number in all strings together; 0 for other dtypes
  ContentHash base;         // for a delta: the hash of its base

  // True if tensors of `dtype` can be payloads: dtypes of fixed size, and strings.
  static bool Supports(DType dtype);

  uint64_t chunk_bytes() const { return uint64_t{1} << log2_chunk_bytes; }
  uint64_t first_stream_bytes() const;  // the elements; for strings, their lengths
  uint64_t decoded_bytes() const { return first_stream_bytes() + characters; }
  uint64_t first_stream_chunks() const;
  uint64_t num_chunks() const;

  // Chunk `i` decodes to bytes [begin, begin + size) of a stream: 0, or 1 for the characters of strings.
  // Requires: i < num_chunks().
  struct Chunk {
    int stream;
    uint64_t begin;
    size_t size;
  };
  Chunk chunk(uint64_t i) const;

  // Requires: Supports(dtype); decoded_bytes() is below 2^63.
  std::string Encode() const;
  // `bytes` is the header alone. The result meets the rules of section 5 for headers; sums of its sizes do not
  // overflow.
  // Errors: InvalidArgument, saying what is wrong; Unimplemented for a newer version; DataLoss for a wrong checksum.
  static absl::StatusOr<PayloadHeader> Parse(absl::string_view bytes);

  friend bool operator==(const PayloadHeader& a, const PayloadHeader& b) {
    return a.dtype == b.dtype && a.log2_chunk_bytes == b.log2_chunk_bytes && a.level == b.level &&
           a.is_delta == b.is_delta && a.num_elements == b.num_elements && a.characters == b.characters &&
           a.base == b.base;
  }
  friend bool operator!=(const PayloadHeader& a, const PayloadHeader& b) { return !(a == b); }
};

// What a writer reports about a payload.
struct PayloadSummary {
  PayloadHeader header;
  uint64_t decoded_bytes = 0;
  uint64_t stored_bytes = 0;  // the size of the whole payload
  uint64_t num_chunks = 0;
  uint64_t shared_chunks = 0;  // how many of these are stored as the bytes of an earlier chunk
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_PAYLOAD_PAYLOAD_HEADER_H_
