// Decodes the planes that HuffmanEncoder writes (FORMAT.md section 3.1).
//
//   HuffmanDecoder decoder;                                  // one a thread; keeps its buffers
//   CASK_RETURN_IF_ERROR(decoder.Decode(coded, plane));      // plane.size(): the decoded size

#ifndef TENSORCASK_SERIALIZE_PAYLOAD_CODEC_HUFFMAN_DECODER_H_
#define TENSORCASK_SERIALIZE_PAYLOAD_CODEC_HUFFMAN_DECODER_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/payload/codec/scratch.h"

namespace tensorcask::payload {

class HuffmanDecoder {
 public:
  // Errors: InvalidArgument, saying what is wrong; ResourceExhausted without memory. On error `out` is unspecified.
  // Requires: `out` does not overlap `coded`.
  absl::Status Decode(absl::string_view coded, absl::Span<char> out);

  size_t MemoryBytes() const { return memory_.size_bytes(); }

 private:
  Scratch memory_;
};

}  // namespace tensorcask::payload

#endif  // TENSORCASK_SERIALIZE_PAYLOAD_CODEC_HUFFMAN_DECODER_H_
