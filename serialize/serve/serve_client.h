// A client of a server of tensors: asks for the list and for tensors, and trusts no answer.
//
//   ServeClient client("unix:/run/x.sock", [&](ServeRequest request) { return ... });   // the transport
//   std::vector<ServedTensor> list;
//   CASK_RETURN_IF_ERROR(client.List(
//       [&](ServedTensor tensor) {
//         list.push_back(std::move(tensor));
//         return absl::OkStatus();
//       },
//       [](const std::string& note) { return absl::OkStatus(); }));
//   CASK_ASSIGN_OR_RETURN(DecodedTensor w, client.Pull(list[0]));
//
// serialize/archive/formats/served_format.h is a client over a Unix socket: it opens "unix:SOCKET" as other formats
// open files.

#ifndef TENSORCASK_SERIALIZE_SERVE_SERVE_CLIENT_H_
#define TENSORCASK_SERIALIZE_SERVE_SERVE_CLIENT_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tensorcask/serialize/serve/served_tensor.h"
#include "tensorcask/serialize/wire/decoded_tensor.h"
#include "tensorcask/tensor/slice.h"

namespace tensorcask {

// Safe from several threads if the transport is.
class ServeClient {
 public:
  // Sends a request and returns the tensors of the reply, or the status with which the server refused it.
  using Transport = std::function<absl::StatusOr<std::vector<DecodedTensor>>(ServeRequest)>;

  // `server` names the server in the client's own errors.
  ServeClient(std::string server, Transport transport) : server_(std::move(server)), transport_(std::move(transport)) {}

  // Calls fn(tensor) for each tensor of the server, sorted by name (as unsigned bytes); each name comes once. Then
  // calls on_note(note) for each sentence on what the server does not offer of its files. After an error, discard what
  // they received. Errors: those of the transport, the server, fn and on_note; Unimplemented, with both versions, if
  // the server speaks another version of the protocol; DataLoss for a list that breaks the rules of FORMAT.md.
  absl::Status List(absl::FunctionRef<absl::Status(ServedTensor)> fn,
                    absl::FunctionRef<absl::Status(const std::string&)> on_note) const;

  // The tensor, with its metadata; or a part of it, row-major and without metadata.
  // Errors: those of the transport and the server; DataLoss if the answer has another dtype or shape than `tensor`;
  // OutOfRange and InvalidArgument, before anything is sent, for a slice that does not fit the shape.
  absl::StatusOr<DecodedTensor> Pull(const ServedTensor& tensor) const;
  absl::StatusOr<DecodedTensor> Pull(const ServedTensor& tensor, const TensorSlice& slice) const;

 private:
  absl::StatusOr<DecodedTensor> Ask(const ServedTensor& tensor, const TensorShape& shape,
                                    std::vector<std::string> texts) const;

  std::string server_;
  Transport transport_;
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_SERVE_SERVE_CLIENT_H_
