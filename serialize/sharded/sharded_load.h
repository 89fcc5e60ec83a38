// Loads what each process of a job needs of a checkpoint, whatever wrote it and into how many pieces.
//
//   std::vector<WantedPiece> wanted;   // what this rank wants
//   wanted.push_back({"dense/kernel", *TensorSlice::Parse("0,512:-"), half});
//   CASK_RETURN_IF_ERROR(ShardedLoad(comm, "/models/step-100", wanted));   // on every rank
//
// Rank 0 reads the index and sends it to all. Each rank then reads only the bytes of data files that hold what it
// wants, straight into the memory of the views, which may have any strides. So the checkpoint may have other pieces
// than the ranks want. Every file has to be reachable by every rank that needs bytes of it.
//
// Ranks of one host that want the same slice (of data-parallel jobs, for example) can share the reading: with
// ReadSharing::kHost one of them reads it, and the others copy it from memory that the processes share
// (memfd_create(2), opened through /proc). A rank that reads takes 256 MiB for that, or as much as its largest slice.
// Ranks share a host if they have the same process ids and user; a container of its own is a host of its own. Where the
// system does not let them share memory, each reads alone. So do ranks that want strings, and slices that differ.

#ifndef TENSORCASK_SERIALIZE_SHARDED_SHARDED_LOAD_H_
#define TENSORCASK_SERIALIZE_SHARDED_SHARDED_LOAD_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/sharded/communicator.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask {

struct WantedPiece {
  std::string name;
  TensorSlice slice;  // a part of the whole tensor
  TensorView into;    // has the stored dtype and the shape of the slice
};

enum class ReadSharing {
  kNone,  // each rank reads all that it wants
  kHost,  // one rank of a host reads what several want
};

struct ShardedLoadOptions {
  ShardedLoadOptions() {}  // by hand: GCC 12 takes a defaulted one for uninitialized where it is a default argument
  CheckpointReaderOptions reader;
  ReadSharing share = ReadSharing::kNone;  // the same on all ranks
};

// Every rank of `comm` calls it with what it wants. `prefix` is what CheckpointReader::Open takes, the same on all
// ranks. All ranks get the same status; an error of one rank begins with "rank 2: ". The elements of all views are then
// unspecified.
// Errors: those of CheckpointReader::Open and ReadSliceInto; InvalidArgument if ranks pass different paths;
// ResourceExhausted without memory to share; those of the communicator.
absl::Status ShardedLoad(Communicator* comm, const std::string& prefix, absl::Span<const WantedPiece> wanted,
                         const ShardedLoadOptions& options = {});

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_SHARDED_SHARDED_LOAD_H_
