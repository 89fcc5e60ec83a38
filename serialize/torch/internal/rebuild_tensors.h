// Tensors and storages, as the functions of PyTorch describe them.

#ifndef TENSORCASK_SERIALIZE_TORCH_INTERNAL_REBUILD_TENSORS_H_
#define TENSORCASK_SERIALIZE_TORCH_INTERNAL_REBUILD_TENSORS_H_

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "tensorcask/serialize/torch/internal/call_arguments.h"
#include "tensorcask/serialize/torch/internal/globals.h"
#include "tensorcask/serialize/torch/internal/pickle.h"
#include "tensorcask/serialize/torch/internal/pickle_builder.h"

namespace tensorcask::torch {

// Errors of all: DataLoss for arguments that the function does not take, or a geometry that leaves the storage.
absl::StatusOr<Ref> MakeTensor(const CallArguments& call, GlobalUse use);  // kTensor, kTensorV3, kQuantized
absl::StatusOr<Ref> MakeParameter(const CallArguments& call);
absl::StatusOr<Ref> MakeSparse(const CallArguments& call);
// A tensor without bytes: of the device "meta", or the shell of a class that keeps its tensors elsewhere.
absl::StatusOr<Ref> MakeShell(const CallArguments& call, GlobalUse use);  // kMeta, kWrapper

// What the pickle has declared so far, by key.
struct KnownStorages {
  absl::flat_hash_map<Ref, uint32_t> storages;
  absl::flat_hash_map<Ref, StorageView> parts;
};

// The storage that a persistent id names: ("storage", class, key, device, number of elements[, part]).
// Errors: DataLoss for another kind of id, or another declaration of a key.
absl::StatusOr<Ref> FindStorage(Ref id, KnownStorages* known, PickleBuilder* builder);

}  // namespace tensorcask::torch

#endif  // TENSORCASK_SERIALIZE_TORCH_INTERNAL_REBUILD_TENSORS_H_
