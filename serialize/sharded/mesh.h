// How the ranks of a job divide a tensor among them.
//
//   const Mesh mesh({{"data", 2}, {"model", 4}});           // 8 ranks; rank 5 has data 1, model 1
//   const PartitionSpec spec = {"model", kReplicated};      // axis 0 is divided over "model", axis 1 is whole
//   CASK_ASSIGN_OR_RETURN(const HeldPiece held, PieceOf(TensorShape({1024, 64}), mesh, spec, /*rank=*/5));
//   // held.slice is "256,256:-", and held.is_replica is true: rank 1 holds the same
//
// The last axis of a mesh changes fastest from rank to rank, as in DeviceMesh of PyTorch and jax.sharding.Mesh.
//
// Division: over n ranks, an axis of d elements is divided as the program divides it.
//   kChunk      PyTorch (torch.chunk, DTensor): pieces of ceil(d / n); the last ones are shorter or empty.
//   kExact      JAX: n must divide d.

#ifndef TENSORCASK_SERIALIZE_SHARDED_MESH_H_
#define TENSORCASK_SERIALIZE_SHARDED_MESH_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"

namespace tensorcask {

// Ranks in a grid with named axes. Always holds: there is an axis; sizes are 1 or more, and their product is an int;
// names differ, and consist of letters, digits and '_'.
class Mesh {
 public:
  struct Axis {
    std::string name;
    int size = 1;
  };

  Mesh(std::initializer_list<Axis> axes);  // for literals in code; CHECKs
  // Errors: InvalidArgument, naming the axis, if a promise above would not hold.
  static absl::StatusOr<Mesh> Create(absl::Span<const Axis> axes);
  // "data=2,model=4". Errors: InvalidArgument, quoting the text.
  static absl::StatusOr<Mesh> Parse(absl::string_view text);
  std::string ToString() const;

  int num_ranks() const { return num_ranks_; }
  const std::vector<Axis>& axes() const { return axes_; }
  std::optional<int> Find(absl::string_view name) const;  // the number of the axis
  int Coordinate(int rank, int axis) const;  // Requires: 0 <= rank < num_ranks(), 0 <= axis < axes().size()

 private:
  explicit Mesh(std::vector<Axis> axes);

  std::vector<Axis> axes_;
  int num_ranks_ = 1;
};

inline constexpr char kReplicated[] = "";

// For each axis of a tensor the axis of the mesh that divides it; kReplicated: it is whole on every rank. "data+model"
// divides by "data", and each of these pieces by "model". Axes of the tensor beyond the last element are whole, and
// kReplicated may stand for axes that the tensor lacks: one spec fits kernels and biases.
using PartitionSpec = std::vector<std::string>;

// "model,-" or "data+model,-,-": '-' stands for kReplicated. "" is that of a scalar, or of a whole tensor.
// Errors: InvalidArgument for an empty element.
absl::StatusOr<PartitionSpec> ParsePartitionSpec(absl::string_view text);

enum class Division { kChunk, kExact };

struct HeldPiece {
  // Empty: the rank holds no element. On an axis of size 0, the first rank holds all of it, and the others nothing. An
  // axis that is whole is full ('-').
  std::optional<TensorSlice> slice;
  bool is_replica = false;  // a lower rank holds the same
};

// The piece of a tensor of shape `shape` that `rank` holds.
// Errors: InvalidArgument for a spec with an axis that the mesh lacks or that it names twice, or that divides an axis
// that the tensor lacks, and, with kExact, if the ranks do not divide an axis; OutOfRange for a rank that the mesh
// lacks.
absl::StatusOr<HeldPiece> PieceOf(const TensorShape& shape, const Mesh& mesh, const PartitionSpec& spec, int rank,
                                  Division division = Division::kChunk);

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_SHARDED_MESH_H_
