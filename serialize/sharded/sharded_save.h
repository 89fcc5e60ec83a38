// Saves what the processes of a job hold as one checkpoint.
//
//   std::vector<LocalPiece> pieces;   // what this rank holds
//   pieces.push_back({"dense/kernel", TensorShape({1024, 64}), *TensorSlice::Parse("256,256:-"), rows});
//   CASK_ASSIGN_OR_RETURN(SaveReport report, ShardedSave(comm, "/models/step-100", pieces));   // on every rank
//
// The result is a checkpoint in the form of TensorFlow, which CheckpointReader and TensorFlow read, and which any
// number of ranks load (sharded_load.h). Rank r writes one data file, PREFIX.data-RRRRR-of-NNNNN. A slice that several
// ranks declare is a replica: one of them writes it. Every rank computes the same plan from what all declare: the
// largest replicas first, each to the rank that has the fewest bytes.
//
// Whole or not at all: (1) each rank makes its data file durable under a temporary name; (2) after an error of any rank
// all remove their files; (3) rank 0 merges the records of all ranks as streams, and makes the index durable; (4) each
// rank renames its data file; (5) rank 0 finds all data files beside the index, and renames the index. Until then the
// old checkpoint, if there is one, is whole. A rank that is killed between (4) and (5) leaves data files without an
// index, which the next save with `overwrite` replaces.
//
// All ranks get the same status. Errors of one rank begin with "rank 2: ". Errors, beside those of CheckpointWriter:
// InvalidArgument, naming the tensor and the ranks, before a byte is written, if ranks declare one tensor with
// different dtypes or shapes, if two slices of it overlap without being equal, or if elements of it are in no slice,
// and if ranks pass different paths; FailedPrecondition if rank 0 does not find the data file of another rank, because
// the ranks do not share the folder; those of the communicator: it is then unknown what the other ranks do, and files
// of this rank may stay.

#ifndef TENSORCASK_SERIALIZE_SHARDED_SHARDED_SAVE_H_
#define TENSORCASK_SERIALIZE_SHARDED_SHARDED_SAVE_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/checkpoint/checkpoint_writer.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/payload/payload_options.h"
#include "tensorcask/serialize/sharded/communicator.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/metadata.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask {

// What a rank holds of a tensor. A rank may hold several pieces of one tensor, and none of another. A piece without
// elements is not declared, unless the whole tensor has none: then at least one rank declares the full slice.
struct LocalPiece {
  std::string name;
  TensorShape full_shape;
  TensorSlice slice;        // a part of full_shape; mesh.h computes it
  TensorView elements;      // have the shape of the slice, any strides, and are on any device
  TensorMetadata metadata;  // the one of the piece that begins the tensor is stored
};

// Keeps the plan of a save for the next one. If all ranks declare the same again, they exchange 9 bytes instead of
// their declarations. One object for each rank, used for one series of saves.
class SavePlanCache {
 public:
  SavePlanCache();
  ~SavePlanCache();
  SavePlanCache(const SavePlanCache&) = delete;
  SavePlanCache& operator=(const SavePlanCache&) = delete;

 private:
  friend class ShardedSaver;
  struct Kept;
  std::unique_ptr<Kept> kept_;
};

// The same on all ranks, but for `plan` and the pointers. Fields as in CheckpointWriterOptions.
struct ShardedSaveOptions {
  ShardedSaveOptions() {}  // by hand: GCC 12 takes a defaulted one for uninitialized where it is a default argument
  FileSystem* file_system = FileSystem::Posix();
  uint64_t alignment = 64;
  bool sync = true;
  bool overwrite = false;
  PayloadOptions payload;
  std::vector<LevelRule> level_rules;
  SavePlanCache* plan = nullptr;  // null: nothing is kept
};

struct SaveReport {
  int64_t num_pieces = 0;      // how many this rank wrote
  uint64_t bytes = 0;          // the size of the data file of this rank
  uint64_t planned_bytes = 0;  // the size of the elements that it wrote, before encoding
  int num_data_files = 0;      // in the whole checkpoint
  bool kept_plan = false;      // the plan was that of the save before
  // At rank 0:
  std::vector<std::string> removed;  // data files of the old checkpoint, with `overwrite`
  std::vector<std::string> notes;    // sentences on data files that were replaced and that no index counted
};

// Saves the pieces of all ranks. Every rank of `comm` calls it with its own pieces. The elements do not change until it
// returns.
absl::StatusOr<SaveReport> ShardedSave(Communicator* comm, const std::string& prefix,
                                       absl::Span<const LocalPiece> pieces, const ShardedSaveOptions& options = {});

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_SHARDED_SHARDED_SAVE_H_
