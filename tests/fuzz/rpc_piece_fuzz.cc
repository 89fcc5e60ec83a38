// Pieces of a transfer between hosts: whatever a server sends, a client stores it or refuses it, and protobuf's classes
// agree about each header that is taken. However a message is cut into parts, the same comes out.
//
// Is to reach what input can reach of these files:
//   serialize/rpc/internal/piece*

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/proto/exchange_service.pb.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/serialize/rpc/internal/piece.h"
#include "tensorcask/serialize/rpc/internal/piece_receiver.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/fuzz/fuzz_input.h"

namespace tensorcask::testing {
namespace {

constexpr uint64_t kVersionId = 7;

// What is pulled: elements of two kinds of memory, bools, nothing, and a message.
struct Targets {
  Targets() {
    Tensor grid = *Tensor::Zeros(DType::kInt16, TensorShape({6, 4}));
    views.emplace_back(*Tensor::Zeros(DType::kInt32, TensorShape({5})));
    views.push_back(*TensorView(grid).Transpose(0, 1)->Slice(0, 1, 3));
    views.emplace_back(*Tensor::Zeros(DType::kBool, TensorShape({9})));
    views.emplace_back(*Tensor::Zeros(DType::kFloat32, TensorShape({0, 3})));
    for (TensorView& view : views) targets.push_back({"t", std::nullopt, &view, nullptr});
    targets.push_back({"m", std::nullopt, nullptr, &message});
  }

  std::vector<TensorView> views;
  std::string message;
  std::vector<rpc::PullTarget> targets;
};

DecodeLimits Limits() {
  DecodeLimits limits;
  limits.max_message_bytes = 1000;
  return limits;
}

void CheckHeader(absl::string_view bytes) {
  const absl::StatusOr<rpc::ParsedPiece> piece = rpc::ParsePieceHeader(bytes, bytes.size());
  if (!piece.ok()) {
    FUZZ_CHECK(absl::IsDataLoss(piece.status()), piece.status().ToString());
    return;
  }
  rpc::v1::Piece same;
  FUZZ_CHECK(same.ParseFromString(std::string(bytes)), "protobuf refuses it");
  const rpc::PieceHeader& header = piece->header;
  FUZZ_CHECK(same.item() == header.item && same.offset() == header.offset && same.crc32c() == header.crc32c, "header");
  FUZZ_CHECK(same.version_id() == header.version_id && same.message_bytes() == header.message_bytes, "header");
  FUZZ_CHECK(same.data() == bytes.substr(piece->header_bytes), "data");
}

// A good piece from where the receiver is, with at most one thing changed; or any bytes.
std::string AnyPiece(const rpc::PieceReceiver& receiver, const Targets& all, FuzzInput* input) {
  const int kind = static_cast<int>(input->Int(0, 9));
  if (kind == 0) return std::string(input->Bytes(static_cast<size_t>(input->Int(0, 80))));
  rpc::v1::Piece piece;
  piece.set_item(static_cast<uint32_t>(receiver.position().target));
  piece.set_offset(receiver.position().offset);
  piece.set_version_id(kVersionId);
  const bool is_message = receiver.position().target + 1 == all.targets.size();
  if (is_message) piece.set_message_bytes(20);
  piece.set_data(std::string(input->Bytes(static_cast<size_t>(input->Int(0, 24)))));
  piece.set_crc32c(Crc32c(piece.data()));
  if (kind == 1) piece.set_item(static_cast<uint32_t>(input->Bits(4)));
  if (kind == 2) piece.set_offset(input->Bits(8));
  if (kind == 3) piece.set_version_id(input->Bits(8));
  if (kind == 4) piece.set_message_bytes(input->Bits(8));
  if (kind == 5) piece.set_crc32c(static_cast<uint32_t>(input->Bits(4)));
  return piece.SerializeAsString();
}

void Run(FuzzInput input) {
  Targets whole;
  Targets cut;
  rpc::PieceReceiver of_whole("w", kVersionId, Limits(), whole.targets);
  rpc::PieceReceiver of_cut("w", kVersionId, Limits(), cut.targets);
  while (!input.empty()) {
    const std::string piece = AnyPiece(of_whole, whole, &input);
    CheckHeader(piece);
    const absl::string_view all = piece;
    const auto first = std::min<size_t>(piece.size(), static_cast<size_t>(input.Int(0, 80)));
    const absl::Status status = of_whole.Receive({all});
    const absl::Status same = of_cut.Receive({all.substr(0, first), all.substr(first)});
    FUZZ_CHECK(status == same, status.ToString() + " / " + same.ToString());
    FUZZ_CHECK(of_whole.position().target == of_cut.position().target, "another target");
    FUZZ_CHECK(of_whole.position().offset == of_cut.position().offset, "another offset");
    FUZZ_CHECK(whole.message == cut.message && whole.message.size() <= 1000, "another message");
    if (!status.ok()) break;
    for (size_t i = 0; i < whole.views.size(); ++i) {
      FUZZ_CHECK(whole.views[i].Contiguous()->bytes() == cut.views[i].Contiguous()->bytes(), "other elements");
    }
  }
}

}  // namespace
}  // namespace tensorcask::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tensorcask::testing::Run(tensorcask::testing::FuzzInput(data, size));
  return 0;
}
