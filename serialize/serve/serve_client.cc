#include "tensorcask/serialize/serve/serve_client.h"

#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/serve/internal/serve_messages.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"

namespace tensorcask {

absl::Status ServeClient::List(absl::FunctionRef<absl::Status(ServedTensor)> fn,
                               absl::FunctionRef<absl::Status(const std::string&)> on_note) const {
  ServeRequest request;
  request.topic = serve::kListTopic;
  request.tensors.push_back(serve::EncodeVersion());
  CASK_ASSIGN_OR_RETURN(const std::vector<DecodedTensor> reply, transport_(std::move(request)));
  return AsDataLoss(serve::DecodeList(reply, fn, on_note), absl::StrCat(server_, ": the server's list"));
}

absl::StatusOr<DecodedTensor> ServeClient::Pull(const ServedTensor& tensor) const {
  return Ask(tensor, tensor.shape, {tensor.name});
}

absl::StatusOr<DecodedTensor> ServeClient::Pull(const ServedTensor& tensor, const TensorSlice& slice) const {
  CASK_ASSIGN_OR_ANNOTATE(TensorShape shape, slice.Apply(tensor.shape),
                          absl::StrCat(server_, ": tensor ", Quoted(tensor.name)));
  return Ask(tensor, shape, {tensor.name, slice.ToString()});
}

absl::StatusOr<DecodedTensor> ServeClient::Ask(const ServedTensor& tensor, const TensorShape& shape,
                                               std::vector<std::string> texts) const {
  CASK_ASSIGN_OR_RETURN(ServeRequest request, serve::EncodePull(std::move(texts)));
  CASK_ASSIGN_OR_RETURN(std::vector<DecodedTensor> reply, transport_(std::move(request)));
  if (reply.size() != 1) {
    return absl::DataLossError(absl::StrCat(server_, ": tensor ", Quoted(tensor.name), ": the answer has ",
                                            reply.size(), " tensors; wanted 1"));
  }
  const TensorView& found = reply[0].view;
  if (found.dtype() == tensor.dtype && found.shape() == shape) return std::move(reply[0]);
  return absl::DataLossError(absl::StrCat(server_, ": tensor ", Quoted(tensor.name), " is ", DTypeName(found.dtype()),
                                          " ", found.shape().ToString(), "; the server's list says ",
                                          DTypeName(tensor.dtype), " ", shape.ToString()));
}

}  // namespace tensorcask
