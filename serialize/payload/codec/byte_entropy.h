// The entropy of bytes, in integer arithmetic: the same result on every machine.
//
//   double bits = ByteEntropy(sample);            // a byte, for an ideal code of single bytes
//   uint64_t all = CountedBits(counts, 256);      // for all counted bytes, in 1/65536 bit

#ifndef TENSORCASK_SERIALIZE_PAYLOAD_CODEC_BYTE_ENTROPY_H_
#define TENSORCASK_SERIALIZE_PAYLOAD_CODEC_BYTE_ENTROPY_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace tensorcask::payload {

// log2(x) in 1/65536, a little too low between powers of two. Requires: 0 < x < 2^24.
uint64_t Log2(uint32_t x);

// The bits that symbols with these counts need: the sum over count * log2(total / count), in 1/65536 bit. Requires: the
// sum of the counts is less than 2^24.
uint64_t CountedBits(const uint32_t* counts, int num_counts);

// The order-0 entropy, in bits a byte, of the data that `bytes` are a sample of; 0 for no bytes. Requires: fewer than
// 2^24 bytes.
double ByteEntropy(absl::string_view bytes);

}  // namespace tensorcask::payload

#endif  // TENSORCASK_SERIALIZE_PAYLOAD_CODEC_BYTE_ENTROPY_H_
