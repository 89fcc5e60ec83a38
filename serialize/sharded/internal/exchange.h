// One step of a protocol of ranks: each says how it went, rank 0 decides, and all learn the same.
//
//   CASK_ASSIGN_OR_RETURN(const Agreement step, Agree(comm, my_status, "my bytes", [&](std::vector<std::string> all) {
//     return Decide(all);   // at rank 0, if all went well
//   }));
//   CASK_RETURN_IF_ERROR(step.status);   // equal on all ranks

#ifndef TENSORCASK_SERIALIZE_SHARDED_INTERNAL_EXCHANGE_H_
#define TENSORCASK_SERIALIZE_SHARDED_INTERNAL_EXCHANGE_H_

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/sharded/communicator.h"

namespace tensorcask::sharded {

struct Agreement {
  // The error of the lowest rank that had one, "rank 2: ...", or that of at_root. The same on all ranks. Of the
  // payloads of a status, only the error number travels (ErrorNumberOf).
  absl::Status status;
  std::string answer;  // what at_root returned; "" after an error
};

// Errors: those of the communicator. It is then unknown what the other ranks do.
absl::StatusOr<Agreement> Agree(Communicator* comm, const absl::Status& mine, absl::string_view bytes,
                                absl::FunctionRef<absl::StatusOr<std::string>(std::vector<std::string>)> at_root);

// The same for a step that has no bytes: returns the status that all ranks get, or an error of the communicator.
absl::Status AgreeOnStatus(Communicator* comm, const absl::Status& mine);

// OK if all ranks were given the same path; `paths` by rank. Errors: InvalidArgument, naming a rank and both paths.
absl::Status CheckSamePath(absl::Span<const std::string> paths);

// A status in bytes: the code and the error number, which are varints, and the message.
std::string EncodeStatus(const absl::Status& status);
// Errors: Internal for bytes that EncodeStatus does not give.
absl::Status DecodeStatus(absl::string_view bytes);

}  // namespace tensorcask::sharded

#endif  // TENSORCASK_SERIALIZE_SHARDED_INTERNAL_EXCHANGE_H_
