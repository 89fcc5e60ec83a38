// How few bits bytes need, as integer arithmetic says: the same result on every machine.
//
//   double bits = ByteEntropy(sample);            // a byte, if each is coded by how frequent it is
//   uint64_t all = CountedBits(counts, 256);      // of all bytes so counted, in 1/65536 bit

#ifndef TENSORCASK_SERIALIZE_PAYLOAD_BYTE_ENTROPY_H_
#define TENSORCASK_SERIALIZE_PAYLOAD_BYTE_ENTROPY_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace tensorcask::payload {

// log2(x) in 1/65536, a little too low between powers of two. Requires: 0 < x < 2^24.
uint64_t Log2(uint32_t x);

// What symbols take that were counted so: the sum over count * log2(total / count), in 1/65536 bit. Requires: the
// counts sum up to less than 2^24.
uint64_t CountedBits(const uint32_t* counts, int num_counts);

// The order-0 entropy in bits a byte of what `bytes` are a sample of; 0 of none. Requires: fewer than 2^24 bytes.
double ByteEntropy(absl::string_view bytes);

}  // namespace tensorcask::payload

#endif  // TENSORCASK_SERIALIZE_PAYLOAD_BYTE_ENTROPY_H_
