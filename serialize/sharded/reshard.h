// Writes a checkpoint again in the pieces that the ranks of a job want, in bounded memory: in one process, or as a job.
//
//   ReshardOptions options;
//   options.rules = {{"dense/*", {"model", kReplicated}}};     // all other tensors stay whole
//   CASK_ASSIGN_OR_RETURN(ReshardReport report,
//                         ReshardCheckpoint("/models/step-100", "/models/for-4", Mesh({{"model", 4}}), options));
//
// The new checkpoint has one data file for each rank, with the pieces that this rank has. Each replicated slice is
// stored once. The largest ones are placed first, each in the data file with the fewest bytes. ShardedLoad reads any
// pieces from any checkpoint, so a job does not need this; it saves the ranks from reading parts of pieces, and from
// reading from many files. Elements, metadata and dtypes stay; the order of memory (StoredLayout::kPreserve) becomes
// row-major. Each tensor is verified when it is read, and one piece at a time is in memory.
//
// As a job, each rank writes its own data file. A rank that writes pieces of a tensor then has to read all of the
// tensor to verify it; with ReadSharing::kHost one rank of each host reads it for the others (sharded_load.h).

#ifndef TENSORCASK_SERIALIZE_SHARDED_RESHARD_H_
#define TENSORCASK_SERIALIZE_SHARDED_RESHARD_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/checkpoint/checkpoint_writer.h"
#include "tensorcask/serialize/sharded/communicator.h"
#include "tensorcask/serialize/sharded/mesh.h"
#include "tensorcask/serialize/sharded/sharded_load.h"

namespace tensorcask {

struct PartitionRule {
  std::string glob;  // a pattern for names (tensor/base/glob.h): * also matches '/'
  PartitionSpec spec;
};

struct ReshardOptions {
  ReshardOptions() {}  // by hand: GCC 12 takes a defaulted one for uninitialized where it is a default argument
  std::vector<PartitionRule> rules;  // the first one whose glob matches divides a tensor
  Division division = Division::kChunk;
  CheckpointReaderOptions reader;
  CheckpointWriterOptions writer;          // num_shards has no meaning
  ReadSharing share = ReadSharing::kNone;  // among the ranks of a job; strings are not shared
  // Called before each piece is copied; false stops. May be empty.
  std::function<bool()> go_on;
};

struct ReshardReport {
  int64_t num_tensors = 0;
  int64_t num_pieces = 0;                // in all data files
  std::vector<uint64_t> bytes_of_ranks;  // the size of the elements in the data file of each rank
  std::vector<std::string> unmatched;    // globs that match no tensor
  std::vector<std::string> removed;      // data files of the old checkpoint, with `overwrite`
  std::vector<std::string> notes;        // sentences on data files that were replaced and that no index counted
};

// Errors: those of CheckpointReader::Read and CheckpointWriter::AddSlice; those of PieceOf, naming the tensor;
// InvalidArgument if `target` is `source`, or if `mesh` has more ranks than a checkpoint may have data files; Cancelled
// if go_on returned false. On error there is no new checkpoint.
absl::StatusOr<ReshardReport> ReshardCheckpoint(const std::string& source, const std::string& target, const Mesh& mesh,
                                                const ReshardOptions& options = {});

// The same by all ranks of `comm`, each of which calls it with the same arguments. All get the same status and report;
// `removed` and `notes` are at rank 0. An error of one rank begins with "rank 2: ".
// Further errors: InvalidArgument if `mesh` has not as many ranks as `comm`, or if ranks pass different paths;
// FailedPrecondition as ShardedSave; those of the communicator.
absl::StatusOr<ReshardReport> ReshardCheckpoint(Communicator* comm, const std::string& source,
                                                const std::string& target, const Mesh& mesh,
                                                const ReshardOptions& options = {});

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_SHARDED_RESHARD_H_
