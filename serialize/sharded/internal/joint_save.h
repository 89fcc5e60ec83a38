// How the ranks of a job write and publish one checkpoint, whatever they write into it.
//
//   JointSave save(comm, "/models/step-100", writer_options);
//   CASK_RETURN_IF_ERROR(save.Begin());
//   absl::Status status = save.OpenPart();                     // for this rank alone, as what follows
//   if (status.ok()) status = save.part()->Add("w", ...);
//   CASK_RETURN_IF_ERROR(save.Finish(status, num_records));
//   CASK_RETURN_IF_ERROR(save.Publish());
//
// Begin, Finish and Publish are called by all ranks, in this order, until one returns an error. They return the same
// status on all; an error of one rank begins with "rank 2: ". After an error, and if it is destroyed before Publish,
// the files are removed.

#ifndef TENSORCASK_SERIALIZE_SHARDED_INTERNAL_JOINT_SAVE_H_
#define TENSORCASK_SERIALIZE_SHARDED_INTERNAL_JOINT_SAVE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tensorcask/serialize/checkpoint/checkpoint_writer.h"
#include "tensorcask/serialize/checkpoint/parts.h"
#include "tensorcask/serialize/sharded/communicator.h"

namespace tensorcask::sharded {

class JointSave {
 public:
  JointSave(Communicator* comm, std::string prefix, CheckpointWriterOptions options);

  // Errors: those of CheckSamePath (exchange.h) and JointIndex::Begin.
  absl::Status Begin();
  int num_data_files() const { return num_data_files_; }  // how many the checkpoint has

  // Errors: those of PartWriter::Create.
  absl::Status OpenPart();
  checkpoint::PartWriter* part() { return part_.get(); }

  // `mine`: how it went on this rank so far; `num_records` of all ranks. Errors: those of PartWriter::Finish and
  // JointIndex::WriteIndex.
  absl::Status Finish(const absl::Status& mine, uint64_t num_records);
  // Errors: those of PartWriter::Publish and JointIndex::Publish.
  absl::Status Publish();

  // At rank 0, after Publish: the data files of the old checkpoint that were removed.
  const std::vector<std::string>& removed_files() const { return joint_->removed_files(); }
  const std::vector<std::string>& notes() const { return joint_->notes(); }  // at rank 0, after Finish

 private:
  Communicator* const comm_;
  const std::string prefix_;
  const CheckpointWriterOptions options_;
  std::unique_ptr<checkpoint::JointIndex> joint_;  // rank 0
  std::unique_ptr<checkpoint::PartWriter> part_;
  int num_data_files_ = 0;
};

}  // namespace tensorcask::sharded

#endif  // TENSORCASK_SERIALIZE_SHARDED_INTERNAL_JOINT_SAVE_H_
