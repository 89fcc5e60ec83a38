#include "tensorcask/serialize/sharded/internal/exchange.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/tensor/base/catch_exceptions.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/base/varint.h"

namespace tensorcask::sharded {
namespace {

constexpr int kRoot = 0;
// The first byte of what a rank sends and of what rank 0 answers.
constexpr char kGood = 0;
constexpr char kFailed = 1;

std::string EncodeOutcome(const absl::Status& status, absl::string_view bytes) {
  if (!status.ok()) return std::string(1, kFailed) + EncodeStatus(status);
  return absl::StrCat(absl::string_view(&kGood, 1), bytes);
}

// Takes the first byte off. The error if it is one of a failure.
absl::Status DecodeOutcome(std::string* outcome) {
  if (outcome->empty()) return absl::InternalError("a rank sent no bytes");
  const char first = (*outcome)[0];
  outcome->erase(0, 1);
  if (first == kGood) return absl::OkStatus();
  const absl::Status status = DecodeStatus(*outcome);
  return status.ok() ? absl::InternalError("a rank sent a failure that has no error") : status;
}

}  // namespace

std::string EncodeStatus(const absl::Status& status) {
  std::string out;
  AppendVarint(static_cast<uint64_t>(status.code()), &out);
  AppendVarint(static_cast<uint64_t>(ErrorNumberOf(status)), &out);
  out.append(status.message().data(), status.message().size());
  return out;
}

absl::Status DecodeStatus(absl::string_view bytes) {
  uint64_t code = 0;
  uint64_t error = 0;
  if (!ParseVarint(&bytes, &code) || code > static_cast<uint64_t>(absl::StatusCode::kUnauthenticated) ||
      !ParseVarint(&bytes, &error) || error > static_cast<uint64_t>(std::numeric_limits<int>::max())) {
    return absl::InternalError("a rank sent a status that cannot be read");
  }
  const absl::Status status(static_cast<absl::StatusCode>(code), bytes);
  return status.ok() || error == 0 ? status : WithErrorNumber(status, static_cast<int>(error));
}

absl::Status CheckSamePath(absl::Span<const std::string> paths) {
  for (size_t rank = 1; rank < paths.size(); ++rank) {
    if (paths[rank] == paths[0]) continue;
    return absl::InvalidArgumentError(absl::StrCat("rank ", rank, " was given the path ", Quoted(paths[rank]),
                                                   ", and rank 0 ", Quoted(paths[0]),
                                                   "; wanted the same path on all ranks"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Agreement> Agree(Communicator* comm, const absl::Status& mine, absl::string_view bytes,
                                absl::FunctionRef<absl::StatusOr<std::string>(std::vector<std::string>)> at_root) {
  CASK_ASSIGN_OR_RETURN(std::vector<std::string> all, comm->Gather(EncodeOutcome(mine, bytes), kRoot));
  std::string decision;
  if (comm->rank() == kRoot) {
    absl::Status status;
    if (all.size() != static_cast<size_t>(comm->size())) {
      status = absl::InternalError(absl::StrCat("the communicator of ", comm->size(), " ranks gathered ", all.size()));
    }
    for (size_t rank = 0; rank < all.size(); ++rank) {
      const absl::Status theirs = DecodeOutcome(&all[rank]);
      if (status.ok() && !theirs.ok()) status = Annotate(theirs, absl::StrCat("rank ", rank));
    }
    if (status.ok()) {
      status = CatchExceptions([&]() -> absl::Status {  // the other ranks wait for an answer
        CASK_ASSIGN_OR_RETURN(decision, at_root(std::move(all)));
        return absl::OkStatus();
      });
    }
    decision = EncodeOutcome(status, decision);
  }
  Agreement agreement;
  CASK_ASSIGN_OR_RETURN(agreement.answer, comm->Broadcast(decision, kRoot));
  agreement.status = DecodeOutcome(&agreement.answer);
  if (!agreement.status.ok()) agreement.answer.clear();
  return agreement;
}

absl::Status AgreeOnStatus(Communicator* comm, const absl::Status& mine) {
  CASK_ASSIGN_OR_RETURN(const Agreement end, Agree(comm, mine, "", [](const std::vector<std::string>&) {
                          return absl::StatusOr<std::string>(std::string());
                        }));
  return end.status;
}

}  // namespace tensorcask::sharded
