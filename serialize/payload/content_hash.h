// The hash of a tensor's elements, whatever their memory layout: the 128-bit XXH3 of their bytes in row-major order;
// for strings, of their lengths (8 bytes each) and then their characters (FORMAT.md section 4). It distinguishes
// tensors, but does not protect against an attacker who constructs two tensors with the same hash.
//
//   CASK_ASSIGN_OR_RETURN(const ContentHash hash, HashElements(weights));
//   hash.ToString()   // 32 digits, the same for all strides

#ifndef TENSORCASK_SERIALIZE_PAYLOAD_CONTENT_HASH_H_
#define TENSORCASK_SERIALIZE_PAYLOAD_CONTENT_HASH_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <array>
#include <string>

#include "absl/status/statusor.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask {

struct ContentHash {
  std::array<unsigned char, 16> bytes = {};  // XXH3's canonical form: most significant byte first

  std::string ToString() const;  // 32 lower-case hex digits
  friend bool operator==(const ContentHash& a, const ContentHash& b) { return a.bytes == b.bytes; }
  friend bool operator!=(const ContentHash& a, const ContentHash& b) { return !(a == b); }
};

// Errors: Unimplemented for resources and variants; FailedPrecondition for a buffer without data; ResourceExhausted.
absl::StatusOr<ContentHash> HashElements(const TensorView& view);

// The same with a secret of this process: an attacker cannot construct two tensors with the same hash. Other processes
// compute other hashes.
absl::StatusOr<ContentHash> HashElementsInProcess(const TensorView& view);

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_PAYLOAD_CONTENT_HASH_H_
