#include "tensorcask/serialize/sharded/internal/joint_save.h"

#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/sharded/internal/exchange.h"
#include "tensorcask/tensor/base/catch_exceptions.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/varint.h"

namespace tensorcask::sharded {

using checkpoint::JointIndex;
using checkpoint::PartWriter;

JointSave::JointSave(Communicator* comm, std::string prefix, CheckpointWriterOptions options)
    : comm_(comm), prefix_(std::move(prefix)), options_(std::move(options)) {}

absl::Status JointSave::Begin() {
  const auto begin = [&](const std::vector<std::string>& prefixes) -> absl::StatusOr<std::string> {
    CASK_RETURN_IF_ERROR(CheckSamePath(prefixes));
    CASK_ASSIGN_OR_RETURN(joint_, JointIndex::Begin(prefix_, comm_->size(), options_));
    std::string answer;
    AppendVarint(static_cast<uint64_t>(joint_->num_data_files()), &answer);
    return answer;
  };
  CASK_ASSIGN_OR_RETURN(const Agreement agreed, Agree(comm_, absl::OkStatus(), prefix_, begin));
  CASK_RETURN_IF_ERROR(agreed.status);
  absl::string_view rest = agreed.answer;
  uint64_t count = 0;
  if (!ParseVarint(&rest, &count)) return absl::InternalError(absl::StrCat(prefix_, ": rank 0 sent no number"));
  num_data_files_ = static_cast<int>(count);
  return absl::OkStatus();
}

absl::Status JointSave::OpenPart() {
  return CatchExceptions([&]() -> absl::Status {
    CASK_ASSIGN_OR_RETURN(part_, PartWriter::Create(prefix_, comm_->rank(), num_data_files_, options_));
    return absl::OkStatus();
  });
}

absl::Status JointSave::Finish(const absl::Status& mine, uint64_t num_records) {
  std::string records;
  absl::Status status = mine;
  if (status.ok()) {
    status = CatchExceptions([&]() -> absl::Status {
      CASK_ASSIGN_OR_RETURN(records, part_->Finish());
      return absl::OkStatus();
    });
  }
  const auto merge = [&](const std::vector<std::string>& parts) -> absl::StatusOr<std::string> {
    CASK_RETURN_IF_ERROR(joint_->WriteIndex(parts, num_records));
    return std::string();
  };
  CASK_ASSIGN_OR_RETURN(const Agreement agreed, Agree(comm_, status, records, merge));
  return agreed.status;  // after an error part_ and joint_ remove their files
}

absl::Status JointSave::Publish() {
  const absl::Status renamed = CatchExceptions([&] { return part_->Publish(); });
  // The answer: whether the index may exist, and how its renaming ended.
  const auto rename_index = [&](const std::vector<std::string>&) -> absl::StatusOr<std::string> {
    const absl::Status status = CatchExceptions([&] { return joint_->Publish(); });
    if (!status.ok()) joint_->Abandon();
    return absl::StrCat(joint_->may_exist() ? "1" : "0", EncodeStatus(status));
  };
  // An error of the communicator here leaves the data file: this rank does not know whether rank 0 has renamed the
  // index.
  CASK_ASSIGN_OR_RETURN(const Agreement agreed, Agree(comm_, renamed, "", rename_index));
  if (!agreed.status.ok()) {
    part_->Remove();
    return agreed.status;
  }
  if (agreed.answer.empty()) return absl::InternalError(absl::StrCat(prefix_, ": rank 0 sent no status"));
  const absl::Status published = DecodeStatus(absl::string_view(agreed.answer).substr(1));
  if (!published.ok() && agreed.answer[0] == '0') part_->Remove();
  return published;
}

}  // namespace tensorcask::sharded
