// Saves the intact tensors of a damaged checkpoint.
//
//   CASK_ASSIGN_OR_RETURN(SalvageReport report, SalvageCheckpoint("/models/step-100", "/models/rescued"));
//   for (const CheckpointDamage& lost : report.lost) std::cerr << lost.status.message() << '\n';
//
// A tensor is whole if its entry is in a block of the index with the right checksum and its bytes have the checksum in
// the entry, or, if it is encoded, those of its chunks. A whole tensor is saved exactly, with its metadata and strides.
// A tensor whose entry is in a damaged block, or in one that was cut off, is saved if the entry can be parsed and its
// checksum confirms the bytes; the report lists such tensors as unverified. All other tensors are lost; the report
// names them as far as the damaged bytes show their names.
//
// Salvage finds blocks, compressed or not, wherever they are in the file; it needs neither footer nor index of blocks.
// If the header is lost, salvage takes the number of data files from their names, and reads their content as
// little-endian. V1 checkpoints are not salvaged (Unimplemented).

#ifndef TENSORCASK_SERIALIZE_CHECKPOINT_SALVAGE_H_
#define TENSORCASK_SERIALIZE_CHECKPOINT_SALVAGE_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/checkpoint/checkpoint_writer.h"
#include "tensorcask/serialize/wire/decoded_tensor.h"

namespace tensorcask {

struct SalvageReport {
  int64_t saved = 0;  // tensors; a sliced tensor counts once, if all its pieces are whole
  // Names of saved tensors whose entry is in a damaged part of the index. The checksum of the entry confirmed the bytes
  // of the tensor; no checksum confirms its name, shape, dtype and metadata.
  std::vector<std::string> unverified;
  std::vector<CheckpointDamage> lost;  // sorted by name, then damage of no single tensor; empty: all saved
  std::vector<std::string> removed;    // data files of the replaced checkpoint, by SalvageCheckpoint
  std::vector<std::string> notes;      // sentences on data files that it replaced and that no index counted
};

// Calls take(name, tensor) for each tensor that is saved, in the order of the files; an error of `take` ends the
// salvage. Always verifies checksums, even with Verify::kNever. Memory: one tensor (a sliced tensor is read whole,
// within max_file_decoded_bytes), four times the index, and the report. Names from damaged bytes may take
// max_memory_beyond_input in the report, and some hundred bytes each.
// Errors: those of `take`; NotFound if there is no index; Unimplemented for a V1 checkpoint and for one that requires a
// newer reader; ResourceExhausted for an index past max_message_bytes, or whose names are past a limit (as entries());
// errors that prevent reading (permissions, for example, or no file descriptors or memory). A checkpoint without any
// whole tensor is not an error.
absl::StatusOr<SalvageReport> SalvageTensors(
    const std::string& path, const CheckpointReaderOptions& options,
    absl::FunctionRef<absl::Status(absl::string_view, const DecodedTensor&)> take);

// Saves the tensors in a new checkpoint, whole like every save; writes nothing if all is lost. Sliced tensors come out
// in one piece, encoded tensors encoded at their level. A delta requires its base (CheckpointReaderOptions::base) and
// is lost without it. `keep_going`, unless null, is called before each tensor: if it returns false, nothing is written.
// Errors: those of SalvageTensors and of CheckpointWriter; InvalidArgument if `to` is `from`; Cancelled.
absl::StatusOr<SalvageReport> SalvageCheckpoint(const std::string& from, const std::string& to,
                                                const CheckpointReaderOptions& read = {},
                                                const CheckpointWriterOptions& write = {},
                                                const std::function<bool()>& keep_going = nullptr);

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_SALVAGE_H_
