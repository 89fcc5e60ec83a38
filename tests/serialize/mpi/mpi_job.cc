// One rank of the jobs of mpi_test.py:
//
//   mpirun -n 4 mpi_job save PREFIX VERSION PIDS     PIDS: a folder in which each rank leaves a file RANK with its pid
//   mpirun -n 3 mpi_job load PREFIX VERSION
//   mpirun -n 4 mpi_job share PREFIX VERSION         each rank wants all; prints how often the elements were read
//   mpi_job version PREFIX                           without MPI: the version that the checkpoint holds, or "none"
//
// PREFIX may be s3://BUCKET/KEY, with the store of the environment.

#include <mpi.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/io/file_system_router.h"
#include "tensorcask/serialize/io/forwarding_file_system.h"
#include "tensorcask/serialize/mpi/mpi_communicator.h"
#include "tensorcask/serialize/object_store/object_store.h"
#include "tensorcask/serialize/sharded/mesh.h"
#include "tensorcask/serialize/sharded/sharded_load.h"
#include "tensorcask/serialize/sharded/sharded_save.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/strided/compare.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask {
namespace {

constexpr int kTensors = 12;

std::string NameOf(int i) { return absl::StrCat("layer/", i); }

// Files on disk, and in the object store of the environment.
FileSystem* Files() {
  static const std::unique_ptr<ObjectStore> store = *ObjectStore::Create({});
  static FileSystemRouter files(FileSystem::Posix());
  static const bool added = (files.Add("s3", store->files()), true);
  return added ? &files : nullptr;
}

// Counts what is read of data files.
class CountingFileSystem final : public ForwardingFileSystem {
 public:
  using ForwardingFileSystem::ForwardingFileSystem;
  IoResult OpenToRead(const std::string& path) override {
    const IoResult handle = ForwardingFileSystem::OpenToRead(path);
    counts_[handle] = absl::StrContains(path, ".data-");
    return handle;
  }
  IoResult ReadAt(IoResult handle, uint64_t offset, absl::Span<char> out) override {
    const IoResult count = ForwardingFileSystem::ReadAt(handle, offset, out);
    if (counts_[handle] && count > 0) bytes_ += static_cast<uint64_t>(count);
    return count;
  }
  IoResult ReadManyAt(IoResult handle, absl::Span<const ReadRange> ranges) override {
    return FileSystem::ReadManyAt(handle, ranges);
  }
  uint64_t bytes() const { return bytes_; }

 private:
  std::map<IoResult, bool> counts_;
  uint64_t bytes_ = 0;
};

// All elements of a version have its number.
Tensor Whole(int i, int64_t version) {
  Tensor tensor = *Tensor::Create(DType::kInt64, TensorShape({64 + i, 300}));
  int64_t* const data = tensor.mutable_data<int64_t>();
  for (int64_t k = 0; k < tensor.num_elements(); ++k) data[k] = version * 1000 + k % 7 + i;
  return tensor;
}

absl::Status Save(Communicator* comm, const std::string& prefix, int64_t version) {
  const Mesh mesh = *Mesh::Create({{"rank", comm->size()}});
  std::vector<LocalPiece> pieces;
  for (int i = 0; i < kTensors; ++i) {
    const TensorView whole = Whole(i, version);
    const PartitionSpec spec = i % 3 == 0 ? PartitionSpec() : PartitionSpec{"rank"};  // each third one is a replica
    CASK_ASSIGN_OR_RETURN(const HeldPiece held, PieceOf(whole.shape(), mesh, spec, comm->rank()));
    if (!held.slice.has_value()) continue;
    CASK_ASSIGN_OR_RETURN(const TensorView part, whole.Slice(*held.slice));
    pieces.push_back({NameOf(i), whole.shape(), *held.slice, part, {}});
  }
  ShardedSaveOptions options;
  options.file_system = Files();
  options.overwrite = true;
  return ShardedSave(comm, prefix, pieces, options).status();
}

absl::Status Load(Communicator* comm, const std::string& prefix, int64_t version, const PartitionSpec& spec,
                  const ShardedLoadOptions& options) {
  const Mesh mesh = *Mesh::Create({{"rank", comm->size()}});
  std::vector<WantedPiece> wanted;
  std::vector<TensorView> expected;
  for (int i = 0; i < kTensors; ++i) {
    const TensorView whole = Whole(i, version);
    CASK_ASSIGN_OR_RETURN(const HeldPiece held, PieceOf(whole.shape(), mesh, spec, comm->rank()));
    if (!held.slice.has_value()) continue;
    CASK_ASSIGN_OR_RETURN(const TensorView part, whole.Slice(*held.slice));
    CASK_ASSIGN_OR_RETURN(const Tensor memory, Tensor::Create(DType::kInt64, part.shape()));
    wanted.push_back({NameOf(i), *held.slice, TensorView(memory)});
    expected.push_back(part);
  }
  CASK_RETURN_IF_ERROR(ShardedLoad(comm, prefix, wanted, options));
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (!Equal(wanted[i].into, expected[i])) return absl::DataLossError(absl::StrCat(wanted[i].name, ": differs"));
  }
  return absl::OkStatus();
}

absl::Status LoadShared(Communicator* comm, const std::string& prefix, int64_t version) {
  CountingFileSystem counting(Files());
  ShardedLoadOptions options;
  options.reader.read.file_system = &counting;
  options.share = ReadSharing::kHost;
  CASK_RETURN_IF_ERROR(Load(comm, prefix, version, {}, options));
  CASK_ASSIGN_OR_RETURN(const std::vector<std::string> all, comm->Gather(absl::StrCat(counting.bytes()), 0));
  uint64_t read = 0;
  for (const std::string& bytes : all) {
    uint64_t of_rank = 0;
    if (absl::SimpleAtoi(bytes, &of_rank)) read += of_rank;
  }
  uint64_t stored = 0;
  for (int i = 0; i < kTensors; ++i) stored += Whole(i, version).TotalBytes();
  if (comm->rank() == 0) std::printf("%.3f\n", static_cast<double>(read) / static_cast<double>(stored));
  return absl::OkStatus();
}

absl::Status PrintVersion(const std::string& prefix) {
  CheckpointReaderOptions options;
  options.read.file_system = Files();
  const absl::StatusOr<CheckpointReader> reader = CheckpointReader::Open(prefix, options);
  if (absl::IsNotFound(reader.status())) {
    std::puts("none");
    return absl::OkStatus();
  }
  CASK_RETURN_IF_ERROR(reader.status());
  int64_t version = 0;
  for (int i = 0; i < kTensors; ++i) {
    CASK_ASSIGN_OR_RETURN(const Tensor tensor, reader->Read(NameOf(i)));
    if (i == 0) version = tensor.data<int64_t>()[0] / 1000;
    if (!Equal(tensor, Whole(i, version))) return absl::DataLossError(absl::StrCat(NameOf(i), ": a mixture"));
  }
  std::printf("%lld\n", static_cast<long long>(version));
  return absl::OkStatus();
}

absl::Status RunRank(const std::vector<std::string>& arguments) {
  CASK_ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> comm, MakeMpiCommunicator(MPI_COMM_WORLD));
  const int64_t version = std::atoll(arguments[2].c_str());
  ShardedLoadOptions options;
  options.reader.read.file_system = Files();
  if (arguments[0] == "load") return Load(comm.get(), arguments[1], version, {"", "rank"}, options);
  if (arguments[0] == "share") return LoadShared(comm.get(), arguments[1], version);
  std::ofstream(absl::StrCat(arguments[3], "/", comm->rank())) << getpid() << std::flush;
  CASK_RETURN_IF_ERROR(comm->Barrier());
  return Save(comm.get(), arguments[1], version);
}

int Main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  absl::Status status;
  if (arguments.size() == 2 && arguments[0] == "version") {
    status = PrintVersion(arguments[1]);
  } else if (arguments.size() >= 3) {
    MPI_Init(&argc, &argv);
    status = RunRank(arguments);
    MPI_Finalize();
  } else {
    return 2;
  }
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}

}  // namespace
}  // namespace tensorcask

int main(int argc, char** argv) { return tensorcask::Main(argc, argv); }
