#include "tensorcask/serialize/sharded/sharded_save.h"

#include <chrono>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/checkpoint/parts.h"
#include "tensorcask/serialize/sharded/internal/exchange.h"
#include "tensorcask/serialize/sharded/internal/save_plan.h"
#include "tensorcask/tensor/base/catch_exceptions.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/random_bytes.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/base/varint.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/strided/device_elements.h"

namespace tensorcask {

// The declarations themselves are kept and compared, not a hash of them: a rank has few.
struct SavePlanCache::Kept {
  uint64_t id = 0;  // of the exchange in which the plan was made, the same on all ranks
  int rank = -1;
  int size = 0;
  std::string declarations;  // of this rank
  sharded::SavePlan plan;
};

SavePlanCache::SavePlanCache() = default;
SavePlanCache::~SavePlanCache() = default;

namespace {

using checkpoint::JointIndex;
using checkpoint::PartWriter;
using sharded::Agree;
using sharded::Agreement;
using sharded::SavePlan;

CheckpointWriterOptions WriterOptions(const ShardedSaveOptions& options) {
  CheckpointWriterOptions writer;
  writer.file_system = options.file_system;
  writer.alignment = options.alignment;
  writer.sync = options.sync;
  writer.overwrite = options.overwrite;
  writer.payload = options.payload;
  writer.level_rules = options.level_rules;
  return writer;
}

absl::Status CheckLocalPiece(const LocalPiece& piece) {
  CASK_RETURN_IF_ERROR(CheckpointWriter::CheckName(piece.name));
  const absl::Status status = [&]() -> absl::Status {
    if (piece.elements.dtype() == DType::kResource) {
      return absl::UnimplementedError("resource, which checkpoints cannot hold");
    }
    CASK_ASSIGN_OR_RETURN(const TensorShape wanted, piece.slice.Apply(piece.full_shape));
    if (piece.elements.shape() != wanted) {
      return absl::InvalidArgumentError(absl::StrCat("slice ", Quoted(piece.slice.ToString()), " of ",
                                                     piece.full_shape.ToString(), " has shape ", wanted.ToString(),
                                                     "; the elements have ", piece.elements.shape().ToString()));
    }
    CASK_RETURN_IF_ERROR(piece.metadata.Validate(piece.elements.dtype()));
    if (!piece.elements.buffer() || internal::IsOnDevice(piece.elements)) return absl::OkStatus();
    return piece.elements.buffer()->CheckReadable();
  }();
  return status.ok() ? status : Annotate(status, absl::StrCat("tensor ", Quoted(piece.name)));
}

uint64_t NewPlanId() {
  uint64_t id = 0;
  if (!internal::FillWithRandomBytes(&id, sizeof(id))) {
    id = static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  }
  return id | 1;  // 0 is no plan
}

// Strings one after the other, each with its length before it.
std::string JoinStrings(const std::vector<std::string>& strings) {
  size_t bytes = 0;
  for (const std::string& each : strings) bytes += each.size() + kMaxVarintBytes;
  std::string out;
  out.reserve(bytes);
  for (const std::string& each : strings) {
    AppendVarint(each.size(), &out);
    out += each;
  }
  return out;
}

absl::StatusOr<std::vector<std::string>> SplitStrings(absl::string_view joined) {
  std::vector<std::string> strings;
  while (!joined.empty()) {
    uint64_t size = 0;
    if (!ParseVarint(&joined, &size) || size > joined.size()) {
      return absl::InternalError("rank 0 sent declarations that are cut short");
    }
    strings.emplace_back(joined.substr(0, size));
    joined.remove_prefix(size);
  }
  return strings;
}

}  // namespace

// One save, on one rank. Each step that may fail ends in an Agree, which all ranks reach.
class ShardedSaver {
 public:
  ShardedSaver(Communicator* comm, const std::string& prefix, absl::Span<const LocalPiece> pieces,
               const ShardedSaveOptions& options)
      : comm_(comm), prefix_(prefix), pieces_(pieces), options_(options), writer_options_(WriterOptions(options)) {}

  absl::StatusOr<SaveReport> Run() {
    CASK_RETURN_IF_ERROR(MakePlan());
    CASK_RETURN_IF_ERROR(Begin());
    CASK_RETURN_IF_ERROR(Write());
    CASK_RETURN_IF_ERROR(Publish());
    return report_;
  }

 private:
  const SavePlan& plan() const { return kept_ != nullptr ? kept_->plan : plan_; }

  absl::Status MakePlan();
  absl::Status ExchangeDeclarations(std::string declarations);
  absl::Status Begin();
  absl::Status Write();
  absl::StatusOr<std::string> WritePieces();
  absl::Status Publish();

  Communicator* const comm_;
  const std::string& prefix_;
  const absl::Span<const LocalPiece> pieces_;
  const ShardedSaveOptions& options_;
  const CheckpointWriterOptions writer_options_;
  std::vector<size_t> order_;
  SavePlan plan_;  // unless kept_ has it
  const SavePlanCache::Kept* kept_ = nullptr;
  std::unique_ptr<JointIndex> joint_;  // rank 0
  std::unique_ptr<PartWriter> part_;
  int num_data_files_ = 0;
  SaveReport report_;
};

absl::Status ShardedSaver::MakePlan() {
  std::string declarations;
  const absl::Status checked = CatchExceptions([&]() -> absl::Status {
    for (const LocalPiece& piece : pieces_) CASK_RETURN_IF_ERROR(CheckLocalPiece(piece));
    declarations = sharded::EncodeDeclarations(pieces_, &order_);
    return absl::OkStatus();
  });
  const SavePlanCache::Kept* const kept = options_.plan != nullptr ? options_.plan->kept_.get() : nullptr;
  const bool fits = kept != nullptr && checked.ok() && kept->rank == comm_->rank() && kept->size == comm_->size() &&
                    kept->declarations == declarations;
  std::string id;
  AppendVarint(fits ? kept->id : 0, &id);
  const auto all_keep_it = [&](const std::vector<std::string>& ids) -> absl::StatusOr<std::string> {
    bool same = fits;
    for (const std::string& other : ids) same = same && other == id;
    return std::string(same ? "1" : "");
  };
  CASK_ASSIGN_OR_RETURN(const Agreement agreed, Agree(comm_, checked, id, all_keep_it));
  CASK_RETURN_IF_ERROR(agreed.status.ok() ? agreed.status : Annotate(agreed.status, prefix_));
  if (!agreed.answer.empty()) {
    kept_ = kept;
    report_.kept_plan = true;
    return absl::OkStatus();
  }
  return ExchangeDeclarations(std::move(declarations));
}

absl::Status ShardedSaver::ExchangeDeclarations(std::string declarations) {
  const auto join = [](std::vector<std::string> all) -> absl::StatusOr<std::string> {
    std::string id;
    AppendVarint(NewPlanId(), &id);
    return id + JoinStrings(all);
  };
  CASK_ASSIGN_OR_RETURN(const Agreement agreed, Agree(comm_, absl::OkStatus(), declarations, join));
  CASK_RETURN_IF_ERROR(agreed.status.ok() ? agreed.status : Annotate(agreed.status, prefix_));
  uint64_t id = 0;
  absl::string_view rest = agreed.answer;
  const absl::Status planned = CatchExceptions([&]() -> absl::Status {
    if (!ParseVarint(&rest, &id)) return absl::InternalError("rank 0 sent no declarations");
    CASK_ASSIGN_OR_RETURN(const std::vector<std::string> all, SplitStrings(rest));
    if (all.size() != static_cast<size_t>(comm_->size())) {
      return absl::InternalError(absl::StrCat("rank 0 sent the declarations of ", all.size(), " ranks"));
    }
    CASK_ASSIGN_OR_RETURN(plan_, sharded::MakeSavePlan(all, comm_->rank()));
    return absl::OkStatus();
  });
  // If the declarations disagree, all ranks find that, with the same message. An error of this process alone, such as
  // no memory, must reach the others: they wait in Begin.
  if (absl::IsInvalidArgument(planned)) return Annotate(planned, prefix_);
  CASK_ASSIGN_OR_RETURN(const Agreement end, Agree(comm_, planned, "", [](const std::vector<std::string>&) {
                          return absl::StatusOr<std::string>(std::string());
                        }));
  CASK_RETURN_IF_ERROR(end.status.ok() ? end.status : Annotate(end.status, prefix_));
  if (options_.plan == nullptr) return absl::OkStatus();
  auto kept = std::make_unique<SavePlanCache::Kept>();
  kept->id = id;
  kept->rank = comm_->rank();
  kept->size = comm_->size();
  kept->declarations = std::move(declarations);
  kept->plan = std::move(plan_);
  kept_ = kept.get();
  options_.plan->kept_ = std::move(kept);
  return absl::OkStatus();
}

absl::Status ShardedSaver::Begin() {
  const auto begin = [&](const std::vector<std::string>&) -> absl::StatusOr<std::string> {
    CASK_ASSIGN_OR_RETURN(joint_, JointIndex::Begin(prefix_, comm_->size(), writer_options_));
    std::string answer;
    AppendVarint(static_cast<uint64_t>(joint_->num_data_files()), &answer);
    return answer;
  };
  CASK_ASSIGN_OR_RETURN(const Agreement agreed, Agree(comm_, absl::OkStatus(), "", begin));
  CASK_RETURN_IF_ERROR(agreed.status);
  absl::string_view rest = agreed.answer;
  uint64_t count = 0;
  if (!ParseVarint(&rest, &count)) return absl::InternalError(absl::StrCat(prefix_, ": rank 0 sent no number"));
  num_data_files_ = static_cast<int>(count);
  report_.num_data_files = num_data_files_;
  return absl::OkStatus();
}

absl::StatusOr<std::string> ShardedSaver::WritePieces() {
  CASK_ASSIGN_OR_RETURN(part_, PartWriter::Create(prefix_, comm_->rank(), num_data_files_, writer_options_));
  for (const SavePlan::Piece& each : plan().pieces) {
    const LocalPiece& piece = pieces_[order_[each.declared]];
    const TensorSlice slice = sharded::Canonical(piece.slice, piece.full_shape);
    CASK_RETURN_IF_ERROR(part_->Add(piece.name, piece.full_shape, slice, piece.elements, piece.metadata));
    if (!each.slices.empty()) {
      CASK_RETURN_IF_ERROR(
          part_->AddSliced(piece.name, piece.elements.dtype(), piece.full_shape, each.slices, piece.metadata));
    }
  }
  report_.num_pieces = static_cast<int64_t>(plan().pieces.size());
  report_.planned_bytes = plan().bytes;
  report_.bytes = part_->bytes_written();
  return part_->Finish();
}

absl::Status ShardedSaver::Write() {
  std::string records;
  const absl::Status written = CatchExceptions([&]() -> absl::Status {
    CASK_ASSIGN_OR_RETURN(records, WritePieces());
    return absl::OkStatus();
  });
  const auto merge = [&](const std::vector<std::string>& parts) -> absl::StatusOr<std::string> {
    CASK_RETURN_IF_ERROR(joint_->WriteIndex(parts, plan().num_records));
    return std::string();
  };
  CASK_ASSIGN_OR_RETURN(const Agreement agreed, Agree(comm_, written, records, merge));
  return agreed.status;  // after an error part_ and joint_ remove their files
}

absl::Status ShardedSaver::Publish() {
  const absl::Status renamed = CatchExceptions([&] { return part_->Publish(); });
  // The answer: whether the index may exist, and how its renaming ended.
  const auto rename_index = [&](const std::vector<std::string>&) -> absl::StatusOr<std::string> {
    const absl::Status status = CatchExceptions([&] { return joint_->Publish(); });
    if (!status.ok()) joint_->Abandon();
    return absl::StrCat(joint_->may_exist() ? "1" : "0", sharded::EncodeStatus(status));
  };
  // An error of the communicator here leaves the data file: nobody knows whether rank 0 has renamed the index.
  CASK_ASSIGN_OR_RETURN(const Agreement agreed, Agree(comm_, renamed, "", rename_index));
  if (!agreed.status.ok()) {
    part_->Remove();
    return agreed.status;
  }
  const absl::Status published = sharded::DecodeStatus(absl::string_view(agreed.answer).substr(1));
  if (!published.ok() && agreed.answer[0] == '0') part_->Remove();
  return published;
}

absl::StatusOr<SaveReport> ShardedSave(Communicator* comm, const std::string& prefix,
                                       absl::Span<const LocalPiece> pieces, const ShardedSaveOptions& options) {
  return ShardedSaver(comm, prefix, pieces, options).Run();
}

}  // namespace tensorcask
