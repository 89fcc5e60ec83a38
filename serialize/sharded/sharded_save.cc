#include "tensorcask/serialize/sharded/sharded_save.h"

#include <chrono>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/checkpoint/parts.h"
#include "tensorcask/serialize/sharded/internal/exchange.h"
#include "tensorcask/serialize/sharded/internal/joint_save.h"
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
  uint64_t id = 0;  // names the exchange in which the plan was made; the same on all ranks
  int rank = -1;
  int size = 0;
  std::string declarations;  // what this rank declared
  sharded::SavePlan plan;
};

SavePlanCache::SavePlanCache() = default;
SavePlanCache::~SavePlanCache() = default;

namespace {

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
      : comm_(comm), prefix_(prefix), pieces_(pieces), options_(options), save_(comm, prefix, WriterOptions(options)) {}

  absl::StatusOr<SaveReport> Run() {
    CASK_RETURN_IF_ERROR(MakePlan());
    CASK_RETURN_IF_ERROR(save_.Begin());
    const absl::Status written = CatchExceptions([&] { return WritePieces(); });
    CASK_RETURN_IF_ERROR(save_.Finish(written, plan().num_records));
    CASK_RETURN_IF_ERROR(save_.Publish());
    if (comm_->rank() == 0) {
      report_.removed = save_.removed_files();
      report_.notes = save_.notes();
    }
    return report_;
  }

 private:
  const SavePlan& plan() const { return kept_ != nullptr ? kept_->plan : plan_; }

  absl::Status MakePlan();
  absl::Status ExchangeDeclarations(std::string declarations);
  absl::Status WritePieces();

  Communicator* const comm_;
  const std::string& prefix_;
  const absl::Span<const LocalPiece> pieces_;
  const ShardedSaveOptions& options_;
  std::vector<size_t> order_;
  SavePlan plan_;  // unless kept_ has it
  const SavePlanCache::Kept* kept_ = nullptr;
  sharded::JointSave save_;
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
  const absl::Status agreed_on = sharded::AgreeOnStatus(comm_, planned);
  CASK_RETURN_IF_ERROR(agreed_on.ok() ? agreed_on : Annotate(agreed_on, prefix_));
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

absl::Status ShardedSaver::WritePieces() {
  CASK_RETURN_IF_ERROR(save_.OpenPart());
  PartWriter& part = *save_.part();
  for (const SavePlan::Piece& each : plan().pieces) {
    const LocalPiece& piece = pieces_[order_[each.declared]];
    const TensorSlice slice = sharded::Canonical(piece.slice, piece.full_shape);
    CASK_RETURN_IF_ERROR(part.Add(piece.name, piece.full_shape, slice, piece.elements, piece.metadata));
    if (!each.slices.empty()) {
      CASK_RETURN_IF_ERROR(
          part.AddSliced(piece.name, piece.elements.dtype(), piece.full_shape, each.slices, piece.metadata));
    }
  }
  report_.num_pieces = static_cast<int64_t>(plan().pieces.size());
  report_.planned_bytes = plan().bytes;
  report_.bytes = part.bytes_written();
  report_.num_data_files = save_.num_data_files();
  return absl::OkStatus();
}

absl::StatusOr<SaveReport> ShardedSave(Communicator* comm, const std::string& prefix,
                                       absl::Span<const LocalPiece> pieces, const ShardedSaveOptions& options) {
  return ShardedSaver(comm, prefix, pieces, options).Run();
}

}  // namespace tensorcask
