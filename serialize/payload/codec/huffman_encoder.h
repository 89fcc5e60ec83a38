// Encodes a plane as Huffman codes whose tables change along the plane (FORMAT.md section 3.1).
//
//   HuffmanEncoder encoder;                                             // one a thread; keeps its buffers
//   CASK_ASSIGN_OR_RETURN(const HuffmanPlan* plan, planner.Plan(plane));
//   CASK_ASSIGN_OR_RETURN(size_t size, encoder.Encode(plane, *plan, out));  // at most plan->bytes

#ifndef TENSORCASK_SERIALIZE_PAYLOAD_CODEC_HUFFMAN_ENCODER_H_
#define TENSORCASK_SERIALIZE_PAYLOAD_CODEC_HUFFMAN_ENCODER_H_

#include <cstddef>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/payload/codec/huffman_plan.h"
#include "tensorcask/serialize/payload/codec/scratch.h"

namespace tensorcask::payload {

class HuffmanEncoder {
 public:
  // Writes at most plan.bytes bytes to `out`, which may overlap `plane`; returns how many. Requires: `plan` is of this
  // plane.
  // Errors: ResourceExhausted without memory.
  absl::StatusOr<size_t> Encode(absl::string_view plane, const HuffmanPlan& plan, char* out);

  size_t MemoryBytes() const { return memory_.size_bytes(); }

 private:
  Scratch memory_;
};

}  // namespace tensorcask::payload

#endif  // TENSORCASK_SERIALIZE_PAYLOAD_CODEC_HUFFMAN_ENCODER_H_
