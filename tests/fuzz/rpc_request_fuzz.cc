// Requests to a server of tensors, over gRPC: any bytes to List and Pull, any pieces to Push. Each call ends, with one
// of the statuses of FORMAT.md; what a pull brings are pieces that keep the rules; nothing stays open.
//
// Is to reach what input can reach of these files:
//   serialize/rpc/tensor_server*
//   serialize/rpc/internal/item_bytes*
//   serialize/rpc/internal/piece_[rs]*

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tensorcask/proto/exchange_service.pb.h"
#include "tensorcask/proto/tensor.pb.h"
#include "tensorcask/serialize/rpc/internal/piece.h"
#include "tensorcask/serialize/rpc/live_tensors.h"
#include "tensorcask/serialize/rpc/tensor_server.h"
#include "tensorcask/serialize/rpc/tensor_source.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/fuzz/fuzz_input.h"

namespace tensorcask::testing {
namespace {

constexpr uint64_t kVersionId = 7;
constexpr int64_t kPushBytes = 1 << 20;

// Tensors that stay. A push is looked at and dropped.
class Tensors final : public TensorSource {
 public:
  explicit Tensors(bool in_memory) {
    const Tensor grid = *Tensor::Zeros(DType::kInt16, TensorShape({6, 4}));
    const Tensor words = Tensor::FromValues<std::string>({"one", ""});
    const Tensor none = *Tensor::Zeros(DType::kFloat32, TensorShape({0, 3}));
    const Tensor numbers = Tensor::FromValues<int32_t>({1, 2, 3, 4, 5});
    TensorMetadata metadata;
    metadata.name = "grid";
    metadata.attributes["unit"] = "m";
    FUZZ_CHECK(
        live_
            .Publish(1, {{"a", numbers}, {"g", *TensorView(grid).Transpose(0, 1), metadata}, {"n", none}, {"w", words}},
                     {{"epoch", "3"}})
            .ok(),
        "publish");
    snapshot_ = *live_.Current();
    snapshot_.version.id = kVersionId;
    snapshot_.in_memory = in_memory;
  }
  absl::StatusOr<TensorSnapshot> Current() override { return snapshot_; }
  absl::StatusOr<TensorSnapshot> WaitForNewer(const TensorVersion& /*version*/, Deadline /*deadline*/) override {
    return absl::DeadlineExceededError("there is one version");
  }
  absl::StatusOr<TensorVersion> Replace(TensorSet set) override {
    LiveTensors pushed;
    const absl::StatusOr<TensorVersion> version = pushed.Replace(std::move(set));
    if (!version.ok()) return version;
    return snapshot_.version;
  }

 private:
  LiveTensors live_;
  TensorSnapshot snapshot_;
};

class Service {
 public:
  explicit Service(bool in_memory) : source_(in_memory) {
    TensorServerOptions options;
    options.accept_pushes = true;
    options.push_limits.max_file_decoded_bytes = kPushBytes;
    options.push_limits.max_message_bytes = kPushBytes;
    auto server = TensorServer::Start(&source_, options);
    FUZZ_CHECK(server.ok(), server.status().ToString());
    server_ = *std::move(server);
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    stub_ = std::make_unique<Stub>(
        grpc::CreateCustomChannel(server_->address(), grpc::InsecureChannelCredentials(), arguments));
  }

  // Sends the messages to the method; the answers go to *answers.
  grpc::Status Call(const std::string& method, const std::vector<std::string>& messages,
                    std::vector<std::string>* answers) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    grpc::CompletionQueue queue;
    const auto stream = stub_->PrepareCall(&context, "/tensorcask.rpc.v1.TensorExchange/" + method, &queue);
    const auto step = [&queue] {
      void* tag = nullptr;
      bool ok = false;
      return queue.Next(&tag, &ok) && ok;
    };
    stream->StartCall(nullptr);
    bool open = step();
    for (const std::string& message : messages) {
      if (!open) break;
      const grpc::Slice slice(message);
      stream->Write(grpc::ByteBuffer(&slice, 1), nullptr);
      open = step();
    }
    if (open) {
      stream->WritesDone(nullptr);
      step();
    }
    grpc::ByteBuffer answer;
    while (true) {
      stream->Read(&answer, nullptr);
      if (!step()) break;
      std::vector<grpc::Slice> slices;
      FUZZ_CHECK(answer.Dump(&slices).ok(), "an answer without bytes");
      std::string& text = answers->emplace_back();
      for (const grpc::Slice& slice : slices) {
        text.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
      }
    }
    grpc::Status status;
    stream->Finish(&status, nullptr);
    step();
    return status;
  }

  void CheckNothingIsOpen() const {
    for (int i = 0; i < 10000 && server_->stats().num_streams != 0; ++i) absl::SleepFor(absl::Milliseconds(1));
    FUZZ_CHECK(server_->stats().num_streams == 0, "a stream stays open");
  }

 private:
  using Stub = grpc::TemplatedGenericStub<grpc::ByteBuffer, grpc::ByteBuffer>;

  Tensors source_;
  std::unique_ptr<TensorServer> server_;
  std::unique_ptr<Stub> stub_;
};

// They live as long as the process: the fuzzer calls exit().
Service& ServiceOf(bool in_memory) {
  static auto* const live = new Service(/*in_memory=*/true);
  static auto* const read = new Service(/*in_memory=*/false);
  return in_memory ? *live : *read;
}

void CheckStatus(const grpc::Status& status) {
  switch (status.error_code()) {
    case grpc::StatusCode::OK:
    case grpc::StatusCode::INVALID_ARGUMENT:
    case grpc::StatusCode::NOT_FOUND:
    case grpc::StatusCode::ALREADY_EXISTS:
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
    case grpc::StatusCode::ABORTED:
    case grpc::StatusCode::OUT_OF_RANGE:
    case grpc::StatusCode::DATA_LOSS:
      return;
    default:
      break;
  }
  FUZZ_CHECK(false, absl::StrCat("status ", static_cast<int>(status.error_code()), ": ", status.error_message()));
}

void CheckPieces(const std::vector<std::string>& pieces) {
  uint32_t item = 0;
  for (const std::string& bytes : pieces) {
    const absl::StatusOr<rpc::ParsedPiece> piece = rpc::ParsePieceHeader(bytes, bytes.size());
    FUZZ_CHECK(piece.ok(), piece.status().ToString());
    FUZZ_CHECK(piece->header.version_id == kVersionId, "another version");
    FUZZ_CHECK(piece->header.item >= item, "items out of order");
    FUZZ_CHECK(piece->header.crc32c == Crc32c(absl::string_view(bytes).substr(piece->header_bytes)), "a wrong sum");
    item = piece->header.item;
  }
}

// A pull that is right but for what the input changes.
std::string AnyPull(FuzzInput* input) {
  rpc::v1::PullRequest request;
  if (input->Int(0, 3) == 0) {
    request.mutable_version()->set_step(1);
    request.mutable_version()->set_id(input->Int(0, 7) == 0 ? input->Bits(8) : kVersionId);
  }
  for (int64_t items = input->Int(0, 4); items > 0; --items) {
    rpc::v1::PullItem* const item = request.add_items();
    item->set_name(std::string(1, "agnwx"[input->Int(0, 4)]));
    const int64_t form = input->Int(0, 5);
    item->set_as_message(form < 2);
    item->set_metadata_alone(form == 1 || form == 2);
    item->set_file_metadata(form == 3);
    if (input->Int(0, 2) == 0) item->set_offset(static_cast<uint64_t>(input->AnyInt()));
    for (int64_t axes = input->Int(0, 5) - 3; axes > 0; --axes) {
      auto* const extent = item->mutable_slice()->add_extent();
      extent->set_start(input->AnyInt());
      if (input->Int(0, 3) != 0) extent->set_length(input->AnyInt());
    }
  }
  return request.SerializeAsString();
}

// The metadata of a tensor with as many axes, or something else.
std::string AnyMetadata(const rpc::v1::PushedTensor& tensor, FuzzInput* input) {
  if (input->Int(0, 3) == 0) return std::string(input->Bytes(static_cast<size_t>(input->Int(0, 30))));
  TensorProto proto;
  proto.set_dtype(tensor.dtype());
  for (int axes = std::max(tensor.shape().dim_size(), 1); axes > 0; --axes) {
    proto.mutable_tensor_shape()->add_dim()->set_size(0);
  }
  return proto.SerializeAsString();
}

// The pieces of a push that is right but for what the input changes.
std::vector<std::string> AnyPush(FuzzInput* input) {
  rpc::v1::PushHeader header;
  header.set_step(input->AnyInt());
  for (int64_t tensors = input->Int(0, 3); tensors > 0; --tensors) {
    rpc::v1::PushedTensor* const tensor = header.add_tensors();
    tensor->set_name(std::string(1, static_cast<char>('a' + input->Int(0, 5))));
    tensor->set_dtype(static_cast<DataType>(input->Int(0, 26)));
    for (int64_t axes = input->Int(0, 2); axes > 0; --axes) {
      tensor->mutable_shape()->add_dim()->set_size(input->Int(0, 7) == 0 ? input->AnyInt() : input->Int(0, 3));
    }
    tensor->set_as_message(tensor->dtype() == DataType::DT_STRING);
    if (input->Int(0, 3) == 0) {
      for (int axes = tensor->shape().dim_size(); axes > 0; --axes) {
        tensor->add_strides(input->Int(0, 3) == 0 ? input->AnyInt() : input->Int(0, 10) - 4);
      }
    }
    if (input->Int(0, 3) == 0) tensor->set_metadata(AnyMetadata(*tensor, input));
  }
  if (input->Int(0, 3) == 0)
    header.set_file_metadata(std::string(input->Bytes(static_cast<size_t>(input->Int(0, 30)))));
  std::vector<std::string> pieces;
  std::string data = header.SerializeAsString();
  uint64_t message_bytes = data.size();
  for (uint32_t item = 0; pieces.size() < 8; ++item) {
    rpc::v1::Piece piece;
    piece.set_item(input->Int(0, 31) == 0 ? static_cast<uint32_t>(input->Bits(4)) : item);
    if (input->Int(0, 31) == 0) piece.set_offset(input->Bits(8));
    piece.set_version_id(kVersionId);
    piece.set_message_bytes(message_bytes);
    piece.set_data(data);
    piece.set_crc32c(input->Int(0, 31) == 0 ? 1 : Crc32c(data));
    pieces.push_back(input->Int(0, 31) == 0 ? std::string(input->Bytes(9)) : piece.SerializeAsString());
    if (input->empty()) break;
    data = std::string(input->Bytes(static_cast<size_t>(input->Int(0, 48))));
    message_bytes = input->Int(0, 1) == 0 ? 0 : data.size();
  }
  return pieces;
}

void Run(FuzzInput input) {
  const int64_t kind = input.Int(0, 9);
  Service& service = ServiceOf(/*in_memory=*/kind % 2 == 0);
  std::vector<std::string> answers;
  if (kind < 2) {
    const std::string request(input.Rest());
    const grpc::Status status = service.Call("List", {request}, &answers);
    // What gRPC says of bytes that it cannot parse.
    if (status.error_code() != grpc::StatusCode::UNIMPLEMENTED) CheckStatus(status);
    rpc::v1::ListResponse page;
    FUZZ_CHECK(!status.ok() || (answers.size() == 1 && page.ParseFromString(answers[0])), "no list");
  } else if (kind < 8) {
    const std::string request = kind < 4 ? std::string(input.Rest()) : AnyPull(&input);
    CheckStatus(service.Call("Pull", {request}, &answers));
    CheckPieces(answers);
  } else {
    const grpc::Status status = service.Call("Push", AnyPush(&input), &answers);
    CheckStatus(status);
    FUZZ_CHECK(!status.ok() || answers.size() == 1, "no answer");
  }
  service.CheckNothingIsOpen();
}

}  // namespace
}  // namespace tensorcask::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tensorcask::testing::Run(tensorcask::testing::FuzzInput(data, size));
  return 0;
}
