// The tensors of a pickle by name, and its values.
//
//   CASK_ASSIGN_OR_RETURN(std::vector<NamedTensor> tensors, FindTensors(pickle, "", NameForm::kJoined, limits,
//   &budget));
//
// A tensor has a name for each way from the root to it; a pickle of a few bytes may have 2^34 ways. They are counted,
// and the bytes of their names, before the first name is made.

#ifndef TENSORCASK_SERIALIZE_TORCH_INTERNAL_TENSOR_WALK_H_
#define TENSORCASK_SERIALIZE_TORCH_INTERNAL_TENSOR_WALK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/serialize/io/listing_budget.h"
#include "tensorcask/serialize/torch/internal/pickle.h"
#include "tensorcask/serialize/values/value.h"

namespace tensorcask::torch {

// Containers in containers; a deeper pickle is refused.
inline constexpr uint32_t kMaxNesting = 1000;

struct NamedTensor {
  std::string name;
  Ref object = kNoRef;  // a tensor or a storage
};

enum class NameForm { kJoined, kExact };  // JoinedName and ExactName (serialize/values/value_path.h)

// All tensors, and the storages that stand for themselves, in the order of the pickle. `below`: the first step of all
// names; "": none. If the root is a tensor, its name is "".
// Errors: Unimplemented for a value that contains itself, unless an opaque object is among those that hold one another,
// or that is nested too deeply; ResourceExhausted past a limit or the budget, before names are made.
absl::StatusOr<std::vector<NamedTensor>> FindTensors(const Pickle& pickle, absl::string_view below, NameForm form,
                                                     const DecodeLimits& limits, ListingBudget* budget);

// The values of the pickle. A tensor is the number that `numbers` has for it. Where a value would contain itself by an
// opaque object, the inner one is an object with its name alone, or nothing. Requires: FindTensors returned no error.
ValueTree ToValues(const Pickle& pickle, const absl::flat_hash_map<Ref, uint64_t>& numbers);

}  // namespace tensorcask::torch

#endif  // TENSORCASK_SERIALIZE_TORCH_INTERNAL_TENSOR_WALK_H_
