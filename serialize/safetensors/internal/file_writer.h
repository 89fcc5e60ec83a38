// Writes the bytes of planned files (file_plan.h) in any order of tensors, under temporary names until Publish.

#ifndef TENSORCASK_SERIALIZE_SAFETENSORS_INTERNAL_FILE_WRITER_H_
#define TENSORCASK_SERIALIZE_SAFETENSORS_INTERNAL_FILE_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/byte_sink.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/io/publication.h"
#include "tensorcask/serialize/io/replaced_files.h"
#include "tensorcask/serialize/safetensors/internal/file_plan.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/slice_set.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask::safetensors {

struct WriteOptions {
  FileSystem* file_system = FileSystem::Posix();
  bool checksums = true;
  bool sync = true;
  bool overwrite = false;
  bool always_index = false;  // also for one file; the caller means the index, not NAME.safetensors
};

// After an error of any method but RegisterPart the writer is of no further use.
class FileWriter {
 public:
  // Requires: `plans` come from PlanFiles, with `tensors`.
  FileWriter(std::string path, const WriteOptions& options, std::vector<FilePlan> plans,
             std::vector<PlannedTensor> tensors);

  // Chooses the names of the files, makes the temporary ones and writes their headers.
  absl::Status Start();

  // What Publish replaces and removes (shard_files.h).
  absl::StatusOr<ReplacedFiles> Replaced() const;
  const std::vector<std::string>& removed() const { return publish_.removed(); }  // by Publish

  const PlannedTensor& tensor(size_t number) const { return tensors_[number]; }
  bool is_whole(size_t number) const { return states_[number].is_whole; }  // by Add
  bool has_part(size_t number) const { return is_whole(number) || states_[number].parts != nullptr; }
  std::vector<size_t> order() const;  // the order of the data in the files, by number

  // All elements. Requires: `view` has the dtype and shape of the tensor; has_part is false.
  absl::Status Add(size_t number, const TensorView& view);
  // Checks a part and notes it. Errors, and nothing has changed: those of TensorSliceSet::Register and CheckPart.
  absl::Status RegisterPart(size_t number, const TensorSlice& slice, const TensorView& view);
  // Its elements. Requires: RegisterPart has returned OK; elements of whole bytes.
  absl::Status AddPart(size_t number, const TensorSlice& slice, const TensorView& view);

  // The paths of the files that Publish makes, the index last.
  std::vector<std::string> paths() const;

  // Writes checksums and the index, and gives the files their names.
  absl::Status Publish();

 private:
  struct TensorState {
    uint32_t checksum = 0;  // that of the first `checked_bytes` stored bytes
    uint64_t checked_bytes = 0;
    bool is_whole = false;
    std::unique_ptr<TensorSliceSet> parts;  // null: no part yet
  };

  bool is_sharded() const { return plans_.size() > 1 || options_.always_index; }
  std::string IndexPath() const;
  absl::Status ForEachPiece(const TensorView& view,
                            absl::FunctionRef<absl::Status(absl::string_view bytes)> write) const;
  absl::Status Write(size_t number, uint64_t offset_in_tensor, absl::string_view bytes);
  absl::Status CheckComplete() const;
  absl::Status WriteChecksums(size_t file);
  absl::Status ChecksumFromFile(size_t number);

  const std::string path_;
  const WriteOptions options_;
  std::vector<FilePlan> plans_;
  std::vector<PlannedTensor> tensors_;
  std::vector<TensorState> states_;
  std::vector<std::string> file_paths_;  // for plans_
  Publication publish_;
  std::vector<FileSink*> sinks_;  // one for each file
  std::string packed_;
};

}  // namespace tensorcask::safetensors

#endif  // TENSORCASK_SERIALIZE_SAFETENSORS_INTERNAL_FILE_WRITER_H_
