// absl::Status <-> grpc::Status. The codes are the same numbers.

#ifndef TENSORCASK_SERIALIZE_RPC_INTERNAL_GRPC_STATUS_H_
#define TENSORCASK_SERIALIZE_RPC_INTERNAL_GRPC_STATUS_H_

#include <grpcpp/support/status.h>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace tensorcask::rpc {

// The message is cut after 2 KiB: it travels in a header.
grpc::Status ToGrpc(const absl::Status& status);
// With "SERVER: " before the message. IsNewVersionOfServer (remote_archive.h) is true for ABORTED.
absl::Status FromGrpc(const grpc::Status& status, absl::string_view server);

}  // namespace tensorcask::rpc

#endif  // TENSORCASK_SERIALIZE_RPC_INTERNAL_GRPC_STATUS_H_
