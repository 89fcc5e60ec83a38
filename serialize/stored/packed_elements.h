// Elements below 8 bits: packed in a file, one byte each in memory.
//
//   UnpackElements(4, packed, /*first=*/0, out);   // out.size() elements

#ifndef TENSORCASK_SERIALIZE_STORED_PACKED_ELEMENTS_H_
#define TENSORCASK_SERIALIZE_STORED_PACKED_ELEMENTS_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace tensorcask::stored {

// Fills `out` with elements first, first + 1, ... of `packed`, whose element 0 begins with the lowest bit of byte 0.
// Requires: 0 < bits < 8; `packed` has them all.
void UnpackElements(int bits, absl::string_view packed, uint64_t first, absl::Span<char> out);

// The inverse, piece by piece: the low bits of each byte of the elements.
class ElementPacker {
 public:
  explicit ElementPacker(int bits) : bits_(bits) {}  // Requires: 0 < bits < 8
  // Appends the whole bytes that are complete with these elements.
  void Pack(absl::string_view elements, std::string* out);

 private:
  const int bits_;
  unsigned pending_ = 0;
  int num_pending_ = 0;  // bits
};

}  // namespace tensorcask::stored

#endif  // TENSORCASK_SERIALIZE_STORED_PACKED_ELEMENTS_H_
