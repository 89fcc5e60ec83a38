#include "tensorcask/serialize/rpc/internal/grpc_status.h"

#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/rpc/remote_archive.h"

namespace tensorcask::rpc {
namespace {

constexpr size_t kMaxMessageBytes = 2048;
constexpr char kNewVersion[] = "tensorcask/new_version";  // a payload

}  // namespace

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return grpc::Status(static_cast<grpc::StatusCode>(status.raw_code()),
                      std::string(status.message().substr(0, kMaxMessageBytes)));
}

absl::Status FromGrpc(const grpc::Status& status, absl::string_view server) {
  if (status.ok()) return absl::OkStatus();
  absl::Status made(static_cast<absl::StatusCode>(status.error_code()),
                    absl::StrCat(server, ": ", status.error_message()));
  if (absl::IsAborted(made)) made.SetPayload(kNewVersion, absl::Cord("server"));
  return made;
}

}  // namespace tensorcask::rpc

namespace tensorcask {

bool IsNewVersionOfServer(const absl::Status& status) { return status.GetPayload(rpc::kNewVersion).has_value(); }

}  // namespace tensorcask
