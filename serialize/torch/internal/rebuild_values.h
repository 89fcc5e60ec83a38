// Plain values, as functions of Python describe them.

#ifndef TENSORCASK_SERIALIZE_TORCH_INTERNAL_REBUILD_VALUES_H_
#define TENSORCASK_SERIALIZE_TORCH_INTERNAL_REBUILD_VALUES_H_

#include <cstddef>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/torch/internal/call_arguments.h"
#include "tensorcask/serialize/torch/internal/pickle.h"
#include "tensorcask/serialize/torch/internal/pickle_builder.h"

namespace tensorcask::torch {

// Errors of all: DataLoss for arguments that the function does not take.
absl::StatusOr<Ref> MakeDict(const CallArguments& call, size_t first);  // of the arguments from this one on
absl::StatusOr<Ref> MakeBytes(const CallArguments& call);
absl::StatusOr<Ref> MakeDevice(const CallArguments& call);
absl::StatusOr<Ref> MakePath(const CallArguments& call, absl::string_view name);  // for the class
absl::StatusOr<Ref> MakeComplex(const CallArguments& call);

}  // namespace tensorcask::torch

#endif  // TENSORCASK_SERIALIZE_TORCH_INTERNAL_REBUILD_VALUES_H_
