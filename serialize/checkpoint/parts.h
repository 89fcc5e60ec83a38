// A checkpoint that several processes write together: one data file each, and an index that one of them joins.
//
//   CASK_ASSIGN_OR_RETURN(auto joint, JointIndex::Begin(prefix, 4, options));          // process 0
//   CASK_ASSIGN_OR_RETURN(auto part, PartWriter::Create(prefix, 2, joint->num_data_files(), options));   // process 2
//   CASK_RETURN_IF_ERROR(part->Add("w", full_shape, slice, rows, {}));
//   CASK_ASSIGN_OR_RETURN(std::string records, part->Finish());   // durable, under a temporary name
//   CASK_RETURN_IF_ERROR(joint->WriteIndex({records, ...}, num_records));         // process 0
//   CASK_RETURN_IF_ERROR(part->Publish());                                        // each process
//   CASK_RETURN_IF_ERROR(joint->Publish());                                       // process 0, after all others
//
// The result is a checkpoint as CheckpointWriter makes it, with one data file for each process. Who runs the processes
// and brings the records to process 0 does not matter here (serialize/sharded). Destroyed before Publish, both remove
// their files.

#ifndef TENSORCASK_SERIALIZE_CHECKPOINT_PARTS_H_
#define TENSORCASK_SERIALIZE_CHECKPOINT_PARTS_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/checkpoint/checkpoint_writer.h"
#include "tensorcask/serialize/checkpoint/internal/old_checkpoint.h"
#include "tensorcask/serialize/checkpoint/write/shard_payloads.h"
#include "tensorcask/serialize/checkpoint/write/tensor_job.h"
#include "tensorcask/serialize/io/byte_sink.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/io/publication.h"
#include "tensorcask/serialize/io/replaced_files.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/metadata.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask::checkpoint {

// Errors: InvalidArgument if a checkpoint at `target` would replace the one at `source`, whatever spelling of the
// folder is used; AlreadyExists if `target` exists, unless overwriting; from errno.
absl::Status CheckOtherCheckpoint(const std::string& target, const std::string& source,
                                  const CheckpointWriterOptions& options);

// Errors: InvalidArgument, naming `prefix`, if a checkpoint cannot have so many data files.
absl::Status CheckNumDataFiles(const std::string& prefix, int num_data_files);

// The data file of one process. Of the options, num_shards, num_threads, background and index_block_bytes have no
// meaning: a process writes one file, in the calling thread.
class PartWriter {
 public:
  // Makes the temporary file. `part` counts from 0.
  // Errors: AlreadyExists if the data file exists, unless overwriting; from errno, naming the file.
  static absl::StatusOr<std::unique_ptr<PartWriter>> Create(const std::string& prefix, int part, int num_data_files,
                                                            const CheckpointWriterOptions& options);

  // Writes the elements of `slice`, which may be the whole tensor. The caller has compared the pieces of all processes,
  // and each is added once, by one process. Metadata of a piece that is not the whole is not stored.
  // Errors: those of CheckpointWriter::AddSlice.
  absl::Status Add(absl::string_view name, const TensorShape& full_shape, const TensorSlice& slice,
                   const TensorView& elements, const TensorMetadata& metadata);
  // Adds the record of a tensor in pieces: one process does that for each such tensor. Writes nothing to the data file.
  absl::Status AddSliced(absl::string_view name, DType dtype, const TensorShape& full_shape,
                         absl::Span<const TensorSlice> slices, const TensorMetadata& metadata);

  // The records of this part, for JointIndex::WriteIndex. With options.sync the data file is durable.
  // Errors: from errno, naming the file; AlreadyExists for two records of one key.
  absl::StatusOr<std::string> Finish();
  // Gives the data file its name. Errors: those of Publication::Commit.
  absl::Status Publish();
  // Removes the data file, also after Publish: only while no index names it. A file that another save has put in its
  // place stays, and so does one that may be another, with `overwrite` on a file system that does not tell them apart.
  void Remove();

  uint64_t bytes_written() const { return data_->position(); }  // before Publish

 private:
  PartWriter(std::string prefix, int part, int num_data_files, const CheckpointWriterOptions& options);
  bool IsDataFileOurs() const;

  const std::string prefix_;
  const std::string path_;
  const int part_;
  const CheckpointWriterOptions options_;
  Publication publish_;
  FileSink* data_ = nullptr;
  ShardPayloads payloads_;
  std::deque<IndexItem> items_;
  bool published_ = false;
  FileId id_;  // of the data file, since Publish
};

// The index, in process 0.
class JointIndex {
 public:
  // Makes the folder of `prefix` if it is missing, removes the temporary files of killed saves, chooses the names of
  // the data files, and makes the temporary index. Errors: those of CheckpointWriter::Create.
  static absl::StatusOr<std::unique_ptr<JointIndex>> Begin(const std::string& prefix, int num_parts,
                                                           const CheckpointWriterOptions& options);

  // num_parts, or one more where a checkpoint is overwritten: the last data file is then empty.
  int num_data_files() const { return num_data_files_; }

  // Merges the records of all parts as a stream and makes the index durable under its temporary name. `num_records` is
  // their number as the processes agreed on it.
  // Errors: Internal if the records are cut short, are not sorted, are there twice or have another number; Aborted if
  // another save has replaced the checkpoint since Begin; from errno, naming the file.
  absl::Status WriteIndex(absl::Span<const std::string> parts, uint64_t num_records);
  // Gives the index its name, and removes the data files that only the old index names.
  // Errors: FailedPrecondition if the data file of a process is not in the folder of the index; Aborted as WriteIndex;
  // those of Publication::Commit.
  absl::Status Publish();
  // After Publish: the paths of the data files of the old checkpoint that it removed.
  const std::vector<std::string>& removed_files() const { return publish_.removed(); }
  // Sentences on files that Publish replaces and that no index counts.
  const std::vector<std::string>& notes() const { return replaced_.notes; }
  void Abandon() { publish_.Abandon(); }  // no effect after Publish
  // After Publish or Abandon: whether the new index has its name, or may have it. The data files must then stay.
  bool may_exist() const { return publish_.switch_may_exist(); }

 private:
  JointIndex(std::string prefix, int num_parts, const CheckpointWriterOptions& options);
  absl::Status CheckPartIsThere(int part) const;

  const std::string prefix_;
  const int num_parts_;
  const CheckpointWriterOptions options_;
  std::optional<OldCheckpoint> old_;  // with options.overwrite
  ReplacedFiles replaced_;            // of `old_`, since WriteIndex
  int num_data_files_ = 0;
  Publication publish_;
  FileSink* index_ = nullptr;
};

}  // namespace tensorcask::checkpoint

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_PARTS_H_
