// What can still be had of a damaged checkpoint.
//
//   CASK_ASSIGN_OR_RETURN(SalvageReport report, SalvageCheckpoint("/models/step-100", "/models/rescued"));
//   for (const CheckpointDamage& lost : report.lost) std::cerr << lost.status.message() << '\n';
//
// A tensor counts as whole if its entry stands in a block of the index whose checksum is right and its bytes have the
// checksum that the entry says, or those of their chunks if it is encoded; it comes back exactly, with its metadata and
// strides. Everything else is lost, and is named: a tensor in a damaged block too, if the block still tells its name
// (quoted as what the damaged bytes say). Blocks are found wherever they stand, compressed ones too, so that footer and
// index of blocks are not needed. If the header is lost the number of data files is that of the files beside the index,
// which are then taken for little-endian ones. V1 checkpoints are not salvaged.

#ifndef TENSORCASK_SERIALIZE_CHECKPOINT_SALVAGE_H_
#define TENSORCASK_SERIALIZE_CHECKPOINT_SALVAGE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/checkpoint/reader.h"
#include "tensorcask/serialize/checkpoint/writer.h"
#include "tensorcask/serialize/wire/decoded_tensor.h"

namespace tensorcask {

struct SalvageReport {
  int64_t saved = 0;                   // tensors; a sliced one whose every piece is whole counts once
  std::vector<CheckpointDamage> lost;  // by name, then what is not about one tensor; empty: everything was saved
};

// Calls take(name, tensor) for each whole tensor, by place in the files; an error of `take` ends it. Checksums are
// verified whatever the options say. Memory: one tensor (a sliced one is read whole, within max_file_decoded_bytes),
// three times the index, and the report, in which names from damaged bytes take max_unbacked_bytes and some hundred
// bytes each around them.
// Errors: of `take`; NotFound if there is no index; Unimplemented for a checkpoint that wants a newer reader;
// ResourceExhausted for an index past max_message_bytes, or whose names are past a limit (as entries()); what keeps us
// from looking (permissions, say, or no more file descriptors or memory). That nothing is whole is no error.
absl::StatusOr<SalvageReport> SalvageTensors(
    const std::string& path, const CheckpointReaderOptions& options,
    absl::FunctionRef<absl::Status(absl::string_view, const DecodedTensor&)> take);

// The same into a new checkpoint, as whole as every save; if all is lost, nothing is written. Sliced tensors come out
// in one piece, encoded ones encoded at the level they had; deltas want their base (CheckpointReaderOptions::base), and
// are lost without. `keep_going`, if there is one, is asked before each tensor: false ends it, and nothing is written.
// Errors: besides, as CheckpointWriter; InvalidArgument if `to` is `from`; Cancelled.
absl::StatusOr<SalvageReport> SalvageCheckpoint(const std::string& from, const std::string& to,
                                                const CheckpointReaderOptions& read = {},
                                                const CheckpointWriterOptions& write = {},
                                                const std::function<bool()>& keep_going = nullptr);

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_SALVAGE_H_
