// What a call in a pickle makes: the functions of PyTorch, NumPy and Python that globals.h lists, as data.

#ifndef TENSORCASK_SERIALIZE_TORCH_INTERNAL_REBUILD_H_
#define TENSORCASK_SERIALIZE_TORCH_INTERNAL_REBUILD_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tensorcask/serialize/torch/internal/pickle.h"
#include "tensorcask/serialize/torch/internal/pickle_builder.h"

namespace tensorcask::torch {

// What the global `callable` gives for these arguments, a tuple. Errors: DataLoss if it is not a global, if it is one
// that is never called, or for arguments that it does not take.
absl::StatusOr<Ref> Call(Ref callable, Ref arguments, PickleBuilder* builder);

// The error of each use of builtins.getattr but its call with the class of an enum and the name of a member.
absl::Status MisusesGetAttr();

// Sets the state of `target`. Errors: DataLoss if that has no state, or another one.
absl::Status SetState(Ref target, Ref state, PickleBuilder* builder);

}  // namespace tensorcask::torch

#endif  // TENSORCASK_SERIALIZE_TORCH_INTERNAL_REBUILD_H_
