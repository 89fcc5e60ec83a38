// Lists of a server that may say anything: what is accepted keeps the rules, and is sent again alike. Requests to a
// service, likewise.
//
// Is to reach what input can reach of these files:
//   serialize/serve/*

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/serve/internal/serve_messages.h"
#include "tensorcask/serialize/serve/serve_service.h"
#include "tensorcask/serialize/serve/served_tensor.h"
#include "tensorcask/serialize/wire/decoded_tensor.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/fuzz/fuzz_input.h"

namespace tensorcask::testing {
namespace {

TensorShape AnyShape(FuzzInput* input, int64_t count) {
  switch (input->Int(0, 15)) {
    case 0:
      return TensorShape();
    case 1:
      return TensorShape({count, input->Int(0, 6)});
    case 2:
      return TensorShape({input->Int(0, 9)});
    default:
      return TensorShape({count});
  }
}

TensorView AnyStrings(FuzzInput* input, int64_t count) {
  Tensor tensor = *Tensor::Create(DType::kString, AnyShape(input, count));
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    tensor.mutable_data<std::string>()[i] = std::string(input->Bytes(static_cast<size_t>(input->Int(0, 3))));
  }
  return tensor;
}

TensorView AnyNumbers(FuzzInput* input, const TensorShape& shape) {
  Tensor tensor = *Tensor::Create(DType::kInt64, shape);
  for (int64_t i = 0; i < tensor.num_elements(); ++i) tensor.mutable_data<int64_t>()[i] = input->AnyInt();
  if (input->Int(0, 31) == 0 && shape.rank() == 1 && shape.dim(0) == 1) {
    return *TensorView(tensor).Expand({int64_t{1} << input->Int(0, 50)});
  }
  return tensor;
}

std::vector<DecodedTensor> AnyReply(FuzzInput* input) {
  const int64_t count = input->Int(0, 6);
  std::vector<DecodedTensor> reply(6);
  const int64_t version = input->Int(0, 31) == 0 ? input->AnyInt() : serve::kVersion;
  reply[0].view = Tensor::Scalar<int64_t>(version);
  reply[1].view = AnyStrings(input, count);
  reply[2].view = AnyStrings(input, count);
  reply[3].view = AnyNumbers(input, TensorShape({count, input->Int(0, 31) == 0 ? 4 : 5}));
  reply[4].view = AnyNumbers(input, AnyShape(input, input->Int(0, 20)));
  reply[5].view = AnyStrings(input, input->Int(0, 3));
  if (input->Int(0, 31) == 0) reply.resize(static_cast<size_t>(input->Int(0, 7)));
  return reply;
}

absl::StatusOr<std::vector<ServedTensor>> Decode(absl::Span<const DecodedTensor> reply) {
  std::vector<ServedTensor> list;
  CASK_RETURN_IF_ERROR(serve::DecodeList(
      reply,
      [&](ServedTensor tensor) {
        list.push_back(std::move(tensor));
        return absl::OkStatus();
      },
      [](const std::string&) { return absl::OkStatus(); }));
  return list;
}

class Nothing final : public ServedTensors {
 public:
  absl::StatusOr<DecodedTensor> Read(size_t index, const TensorSlice* slice) const override {
    if (slice != nullptr) return absl::OutOfRangeError("a slice");
    DecodedTensor tensor;
    tensor.view = Tensor::Scalar<int64_t>(static_cast<int64_t>(index));
    return tensor;
  }
  uint64_t ReadBytes(size_t /*index*/) const override { return 1; }
};

void CheckService(const std::vector<ServedTensor>& list, FuzzInput* input) {
  const Nothing source;
  const absl::StatusOr<ServeService> service = ServeService::Create(list, &source);
  FUZZ_CHECK(service.ok(), service.status().ToString());
  for (size_t i = 0; i < list.size(); ++i) {
    const absl::StatusOr<ServeRequest> pull = serve::EncodePull({list[i].name});
    const auto reply = service->Answer(pull->topic, pull->tensors);
    FUZZ_CHECK(reply.ok() && *reply->at(0).view.data<int64_t>() == static_cast<int64_t>(i), "another tensor");
  }
  const DecodedTensor any = {AnyStrings(input, input->Int(0, 3)), {}};
  service->AnswerBytes("pull", {any});
  service->Answer("pull", {any}).status().IgnoreError();
}

void Run(FuzzInput input) {
  const absl::StatusOr<std::vector<ServedTensor>> list = Decode(AnyReply(&input));
  if (!list.ok()) return;
  const absl::StatusOr<std::vector<DecodedTensor>> again = serve::EncodeList(*list, {"a note"});
  FUZZ_CHECK(again.ok(), again.status().ToString());
  const absl::StatusOr<std::vector<ServedTensor>> same = Decode(*again);
  FUZZ_CHECK(same.ok() && same->size() == list->size(), same.status().ToString());
  for (size_t i = 0; i < list->size(); ++i) {
    const ServedTensor& a = (*list)[i];
    const ServedTensor& b = (*same)[i];
    FUZZ_CHECK(i == 0 || (*list)[i - 1].name < a.name, "names out of order");
    FUZZ_CHECK(a.name == b.name && a.dtype == b.dtype && a.shape == b.shape, "another tensor");
    FUZZ_CHECK(a.strides.empty() || a.strides.size() == static_cast<size_t>(a.shape.rank()), "other strides");
    FUZZ_CHECK(a.strides == b.strides && a.encoding == b.encoding && a.has_metadata == b.has_metadata,
               "described anew");
    FUZZ_CHECK(a.stored_bytes == b.stored_bytes && a.decoded_bytes == b.decoded_bytes, "other bytes");
  }
  CheckService(*list, &input);
}

}  // namespace
}  // namespace tensorcask::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tensorcask::testing::Run(tensorcask::testing::FuzzInput(data, size));
  return 0;
}
