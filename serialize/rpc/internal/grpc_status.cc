#include "tensorcask/serialize/rpc/internal/grpc_status.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace tensorcask::rpc {
namespace {

constexpr size_t kMaxMessageBytes = 2048;

}  // namespace

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return grpc::Status(static_cast<grpc::StatusCode>(status.raw_code()),
                      std::string(status.message().substr(0, kMaxMessageBytes)));
}

absl::Status FromGrpc(const grpc::Status& status, absl::string_view server) {
  if (status.ok()) return absl::OkStatus();
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                      absl::StrCat(server, ": ", status.error_message()));
}

}  // namespace tensorcask::rpc
