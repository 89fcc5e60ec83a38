// Rules of pickles that need no stack.

#ifndef TENSORCASK_SERIALIZE_TORCH_INTERNAL_PICKLE_RULES_H_
#define TENSORCASK_SERIALIZE_TORCH_INTERNAL_PICKLE_RULES_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/torch/internal/pickle.h"
#include "tensorcask/serialize/torch/internal/pickle_builder.h"

namespace tensorcask::torch {

// What an instruction is that this reader refuses, for messages; "" if no pickle has it.
absl::string_view RefusedName(unsigned char instruction);

// An integer in two's complement, little-endian, as decimal digits. Takes time that grows with the square of the bytes.
// Requires: more than 8 bytes.
std::string DecimalDigits(absl::string_view bytes);

// Leaves one of the equal keys of each dict, and of the equal items of each set: Python keeps the first, with the value
// of the last. Equal are texts, bytes, numbers of one value, devices, names, and tuples of equal items. All others, and
// NaN, are equal to themselves alone. Charges its memory to `builder`, which makes the pickle. Errors: DataLoss for a
// key or item that is a list, a dict or of NumPy, or a tuple that has one, and for a key that is a set;
// ResourceExhausted.
absl::Status DropEqualKeys(Pickle* pickle, PickleBuilder* builder);

// Sets num_dict_states and dict_attributes. Attributes of dicts are left out: they may be the versions of modules, or
// what a program noted. Errors: Unimplemented for one but "_metadata" that is a tensor or has one, which would be lost;
// DataLoss for one whose name is not text; ResourceExhausted.
absl::Status ListDictAttributes(Pickle* pickle, PickleBuilder* builder);

}  // namespace tensorcask::torch

#endif  // TENSORCASK_SERIALIZE_TORCH_INTERNAL_PICKLE_RULES_H_
