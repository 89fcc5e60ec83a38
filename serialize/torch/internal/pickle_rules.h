// Rules of pickles that need no stack.

#ifndef TENSORCASK_SERIALIZE_TORCH_INTERNAL_PICKLE_RULES_H_
#define TENSORCASK_SERIALIZE_TORCH_INTERNAL_PICKLE_RULES_H_

#include <string>

#include "absl/strings/string_view.h"
#include "tensorcask/serialize/torch/internal/pickle.h"

namespace tensorcask::torch {

// What an instruction is that this reader refuses, for messages; "" if no pickle has it.
absl::string_view RefusedName(unsigned char instruction);

// An integer in two's complement, little-endian, as decimal digits. Takes time that grows with the square of the bytes.
// Requires: more than 8 bytes.
std::string DecimalDigits(absl::string_view bytes);

// Leaves one of the equal keys of each dict: Python keeps the place of the first and the value of the last.
void DropEqualKeys(Pickle* pickle);

}  // namespace tensorcask::torch

#endif  // TENSORCASK_SERIALIZE_TORCH_INTERNAL_PICKLE_RULES_H_
