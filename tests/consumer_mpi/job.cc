// mpirun -n 4 job save PREFIX    each process saves its rows of a kernel of 1024 x 64
// mpirun -n 2 job load PREFIX    other processes load theirs

#include <cstdio>
#include <memory>
#include <string>

#include "tensorcask/serialize/mpi/mpi_communicator.h"
#include "tensorcask/serialize/sharded/mesh.h"
#include "tensorcask/serialize/sharded/sharded_load.h"
#include "tensorcask/serialize/sharded/sharded_save.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/tensor.h"

namespace cask = tensorcask;

absl::Status Run(const std::string& what, const std::string& prefix) {
  CASK_ASSIGN_OR_RETURN(const std::unique_ptr<cask::Communicator> comm, cask::MakeMpiCommunicator(MPI_COMM_WORLD));
  CASK_ASSIGN_OR_RETURN(const cask::Mesh mesh, cask::Mesh::Create({{"model", comm->size()}}));
  const cask::TensorShape full({1024, 64});
  const cask::PartitionSpec spec = {"model", cask::kReplicated};  // rows are divided, columns are whole
  CASK_ASSIGN_OR_RETURN(const cask::HeldPiece held, cask::PieceOf(full, mesh, spec, comm->rank()));
  if (!held.slice.has_value()) return absl::UnimplementedError("this example wants no more processes than rows");
  CASK_ASSIGN_OR_RETURN(const cask::TensorShape shape, held.slice->Apply(full));
  CASK_ASSIGN_OR_RETURN(cask::Tensor rows, cask::Tensor::Create(cask::DType::kFloat32, shape));

  // Every process makes the same calls, each with its own pieces.
  const auto first = static_cast<float>(held.slice->extent(0).start);
  if (what == "save") {
    for (int64_t i = 0; i < shape.dim(0); ++i) {
      for (int64_t k = 0; k < 64; ++k) rows.mutable_matrix<float>()(i, k) = first + static_cast<float>(i);
    }
    cask::ShardedSaveOptions options;
    options.overwrite = true;  // else a checkpoint of that name is an error
    return cask::ShardedSave(comm.get(), prefix, {{"dense/kernel", full, *held.slice, rows, {}}}, options).status();
  }
  CASK_RETURN_IF_ERROR(cask::ShardedLoad(comm.get(), prefix, {{"dense/kernel", *held.slice, rows}}));
  std::printf("rank %d has %s, which begins with %g; wanted %g\n", comm->rank(), held.slice->ToString().c_str(),
              rows.data<float>()[0], first);
  return rows.data<float>()[0] == first ? absl::OkStatus() : absl::DataLossError("the first element differs");
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const absl::Status status = argc == 3 ? Run(argv[1], argv[2]) : absl::InvalidArgumentError("job save|load PREFIX");
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  MPI_Finalize();
  return status.ok() ? 0 : 1;
}
