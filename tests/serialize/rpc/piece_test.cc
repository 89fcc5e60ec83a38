// Pieces of a transfer, and what a client refuses, without a network.

#include "tensorcask/serialize/rpc/internal/piece.h"
#include "tensorcask/serialize/rpc/internal/beside_tensors.h"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/proto/exchange_service.pb.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/serialize/rpc/internal/piece_receiver.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using rpc::ParsePieceHeader;
using rpc::PieceReceiver;
using rpc::PullTarget;
using ::testing::HasSubstr;
using testing::StatusIs;
using Code = absl::StatusCode;

constexpr uint64_t kVersionId = 0x1234567890abcdef;

struct PieceFields {
  uint32_t item = 0;
  uint64_t offset = 0;
  std::string data;
  uint64_t version_id = kVersionId;
  uint64_t message_bytes = 0;
  uint32_t crc_change = 0;
};

std::string Encode(const PieceFields& fields) {
  rpc::PieceHeader header;
  header.item = fields.item;
  header.offset = fields.offset;
  header.crc32c = Crc32c(fields.data) ^ fields.crc_change;
  header.version_id = fields.version_id;
  header.message_bytes = fields.message_bytes;
  header.data_bytes = fields.data.size();
  std::array<char, rpc::kMaxPieceHeaderBytes> bytes;
  const size_t size = EncodePieceHeader(header, absl::MakeSpan(bytes));
  return std::string(bytes.data(), size) + fields.data;
}

std::string Bytes(const Tensor& tensor) { return std::string(TensorView(tensor).bytes()); }

TEST(PieceTest, IsTheMessageOfTheProtocol) {
  const std::string bytes = Encode({3, 4096, "elements", 7, 8192});
  rpc::v1::Piece piece;
  ASSERT_TRUE(piece.ParseFromString(bytes));
  EXPECT_EQ(piece.item(), 3);
  EXPECT_EQ(piece.offset(), 4096);
  EXPECT_EQ(piece.crc32c(), Crc32c("elements"));
  EXPECT_EQ(piece.version_id(), 7);
  EXPECT_EQ(piece.message_bytes(), 8192);
  EXPECT_EQ(piece.data(), "elements");
  EXPECT_EQ(piece.SerializeAsString(), bytes);

  ASSERT_OK_AND_ASSIGN(const rpc::ParsedPiece parsed, ParsePieceHeader(bytes, bytes.size()));
  EXPECT_EQ(parsed.header.item, 3);
  EXPECT_EQ(parsed.header.offset, 4096);
  EXPECT_EQ(parsed.header.crc32c, Crc32c("elements"));
  EXPECT_EQ(parsed.header.version_id, 7);
  EXPECT_EQ(parsed.header.message_bytes, 8192);
  EXPECT_EQ(bytes.substr(parsed.header_bytes), "elements");
}

// FORMAT.md section 7.
TEST(PieceTest, IsTheExampleOfThePage) {
  const std::string data = Bytes(Tensor::FromValues<int32_t>({1, 2}));
  const char example[] =
      "\x1d\x2c\xec\x73\x7a"
      "\x21\x07\0\0\0\0\0\0\0"
      "\x7a\x08"
      "\x01\0\0\0\x02\0\0";  // and the NUL at the end
  EXPECT_EQ(Encode({0, 0, data, 7}), std::string(example, sizeof(example)));
}

TEST(FileMetadataTest, IsTheMessageOfTheProtocol) {
  const FileMetadata entries = {{"a", "1"}, {"b", ""}, {"c", std::string(300, 'x')}};
  rpc::v1::FileMetadata message;
  ASSERT_TRUE(message.ParseFromString(rpc::ToMessage(entries, {"a note"})));
  FileMetadata parsed;
  for (const rpc::v1::MetadataEntry& entry : message.entries()) parsed[entry.key()] = entry.value();
  EXPECT_EQ(parsed, entries);
  ASSERT_EQ(message.notes_size(), 1);
  EXPECT_EQ(message.notes(0), "a note");
}

TEST(PieceTest, SkipsUnknownNumbers) {
  const std::string bytes = std::string("\x30\x05\x3d\1\2\3\4\x41\1\2\3\4\5\6\7\10", 16) + Encode({0, 0, "x"});
  ASSERT_OK_AND_ASSIGN(const rpc::ParsedPiece parsed, ParsePieceHeader(bytes, bytes.size()));
  EXPECT_EQ(bytes.substr(parsed.header_bytes), "x");
}

TEST(PieceTest, RefusesWhatIsNoPiece) {
  struct Row {
    const char* name;
    std::string bytes;
    const char* says;
  };
  const Row rows[] = {
      {"Nothing", "", "no data"},
      {"NoData", std::string("\x08\x01"), "no data"},
      {"EmptyData", std::string("\x7a\0", 2), "no data"},
      {"DataTooLong",
       std::string("\x7a\x05"
                   "abc"),
       "5 bytes of data; 3 came"},
      {"DataNotLast",
       std::string("\x7a\x01"
                   "a\x08\x01"),
       "1 bytes of data; 3 came"},
      {"WrongType", std::string("\x0d\1\2\3\4\x7a\1a", 8), "field 1 of wire type 5"},
      {"FieldZero", std::string("\x01", 1), "field 0"},
      {"Group", std::string("\x33\x34\x7a\1a"), "damaged or too long"},
      {"UnknownBytes", std::string("\x32\1a\x7a\1a"), "damaged or too long"},
      {"CutTag", std::string("\xff"), "damaged or too long"},
      {"CutNumber", std::string("\x10\xff"), "damaged or too long"},
      {"CutFixed", std::string("\x1d\1\2"), "damaged or too long"},
      {"LargeItem", std::string("\x08\xff\xff\xff\xff\x7f\x7a\1a"), "of item"},
  };
  for (const Row& row : rows) {
    EXPECT_THAT(ParsePieceHeader(row.bytes, row.bytes.size()), StatusIs(Code::kDataLoss, HasSubstr(row.says)))
        << row.name;
  }
  std::string padded;
  for (int i = 0; i < 40; ++i) padded += "\x30\x05";
  padded += Encode({0, 0, "x"});
  EXPECT_THAT(ParsePieceHeader(padded, padded.size()), StatusIs(Code::kDataLoss, HasSubstr("too long")));
}

class PieceReceiverTest : public ::testing::Test {
 protected:
  PieceReceiverTest() {
    targets_.push_back({"a", std::nullopt, &view_, nullptr});
    targets_.push_back({"empty", std::nullopt, &empty_, nullptr});
    targets_.push_back({"text", std::nullopt, nullptr, &message_});
    limits_.max_message_bytes = 100;
  }

  PieceReceiver Make() { return PieceReceiver("grpc://h:1", kVersionId, limits_, targets_); }
  static absl::Status Give(PieceReceiver& receiver, const PieceFields& fields) {
    return receiver.Receive({Encode(fields)});
  }

  const std::string elements_ = Bytes(Tensor::FromValues<int32_t>({1, 2, 3, 4}));
  Tensor tensor_ = Tensor::FromValues<int32_t>({0, 0, 0, 0});
  TensorView view_ = tensor_;
  TensorView empty_ = *Tensor::Create(DType::kFloat32, TensorShape({0, 3}));
  std::string message_;
  DecodeLimits limits_;
  std::vector<PullTarget> targets_;
};

TEST_F(PieceReceiverTest, StoresPiecesInOrder) {
  PieceReceiver receiver = Make();
  ASSERT_OK(Give(receiver, {0, 0, elements_.substr(0, 4)}));
  EXPECT_THAT(receiver.CheckComplete(),
              StatusIs(Code::kDataLoss, HasSubstr("\"a\": the server ended after byte 4 of 16")));
  ASSERT_OK(Give(receiver, {0, 4, elements_.substr(4)}));
  EXPECT_EQ(receiver.position().target, 2);
  ASSERT_OK(Give(receiver, {2, 0, "ab", kVersionId, 5}));
  EXPECT_THAT(receiver.CheckComplete(), StatusIs(Code::kDataLoss, HasSubstr("after byte 2 of a message")));
  ASSERT_OK(Give(receiver, {2, 2, "cde", kVersionId, 5}));
  EXPECT_OK(receiver.CheckComplete());
  EXPECT_EQ(view_.bytes(), elements_);
  EXPECT_EQ(message_, "abcde");
  EXPECT_THAT(Give(receiver, {2, 5, "f", kVersionId, 5}), StatusIs(Code::kDataLoss, HasSubstr("1 bytes too many")));
}

TEST_F(PieceReceiverTest, CountsItemsFromWhereAnAttemptBegins) {
  PieceReceiver receiver = Make();
  ASSERT_OK(Give(receiver, {0, 0, elements_}));
  EXPECT_EQ(receiver.BeginAttempt().target, 2);
  ASSERT_OK(Give(receiver, {0, 0, "ab", kVersionId, 5}));
  EXPECT_EQ(receiver.BeginAttempt().offset, 2);
  ASSERT_OK(Give(receiver, {0, 2, "cde", kVersionId, 5}));
  EXPECT_OK(receiver.CheckComplete());
}

TEST_F(PieceReceiverTest, AcceptsAnyPartsOfAMessage) {
  const std::string bytes = Encode({0, 0, elements_});
  for (size_t first = 0; first <= bytes.size(); ++first) {
    for (size_t second = first; second <= bytes.size(); ++second) {
      PieceReceiver receiver = Make();
      const absl::string_view all = bytes;
      ASSERT_OK(receiver.Receive({all.substr(0, first), all.substr(first, second - first), all.substr(second)}));
      ASSERT_EQ(view_.bytes(), elements_);
    }
  }
}

TEST_F(PieceReceiverTest, FillsStridedMemory) {
  Tensor grid = *Tensor::Create(DType::kInt32, TensorShape({2, 4}));
  TensorView flipped = *TensorView(grid).Flip({1});
  TensorView column = *flipped.Transpose(0, 1)->Slice(0, 1, 3);  // [2,2]
  targets_ = {{"a", std::nullopt, &column, nullptr}};
  PieceReceiver receiver = Make();
  ASSERT_OK(Give(receiver, {0, 0, elements_.substr(0, 4)}));
  ASSERT_OK(Give(receiver, {0, 4, elements_.substr(4)}));
  EXPECT_OK(receiver.CheckComplete());
  EXPECT_EQ(column.Contiguous()->bytes(), elements_);
}

TEST_F(PieceReceiverTest, RefusesBoolsThatAreNeither) {
  Tensor bools = *Tensor::Create(DType::kBool, TensorShape({3}));
  TensorView view = bools;
  targets_ = {{"b", std::nullopt, &view, nullptr}};
  PieceReceiver receiver = Make();
  EXPECT_THAT(Give(receiver, {0, 0, std::string("\1\0\2", 3)}),
              StatusIs(Code::kDataLoss, HasSubstr("byte 2 is 2; a bool is 0 or 1")));
  ASSERT_OK(Give(receiver, {0, 0, std::string("\1\0\1", 3)}));
  EXPECT_EQ(view.bytes(), absl::string_view("\1\0\1", 3));
}

TEST_F(PieceReceiverTest, RefusesWhatWasNotAskedFor) {
  struct Row {
    const char* name;
    PieceFields piece;
    Code code;
    const char* says;
  };
  const Row rows[] = {
      {"WrongSum", {0, 0, elements_, kVersionId, 0, 1}, Code::kDataLoss, "\"a\": bytes 0 to 16 have the checksum"},
      {"OtherVersion",
       {0, 0, elements_, 5},
       Code::kDataLoss,
       "a piece is of version 0000000000000005; wanted 1234567890abcdef"},
      {"OtherItem", {1, 0, elements_}, Code::kDataLoss, "a piece of item 1 came; wanted item 0"},
      {"NotAsked", {9, 0, elements_}, Code::kDataLoss, "a piece of item 9 came"},
      {"Gap", {0, 4, elements_.substr(4)}, Code::kDataLoss, "a piece of offset 4 came; wanted offset 0"},
      {"Outside", {0, uint64_t{1} << 63, elements_}, Code::kDataLoss, "wanted offset 0"},
      {"TooMany",
       {0, 0, elements_ + "wxyz"},
       Code::kDataLoss,
       "a piece of 20 bytes from 0 leaves the 16 bytes of int32 [4]"},
      {"PartOfAnElement", {0, 0, elements_.substr(0, 3)}, Code::kDataLoss, "wanted a multiple of 4"},
      {"TooLarge", {0, 0, std::string(rpc::kMaxPieceBytes + 4, 'x')}, Code::kDataLoss, "at most 4194304 are valid"},
  };
  for (const Row& row : rows) {
    PieceReceiver receiver = Make();
    EXPECT_THAT(Give(receiver, row.piece), StatusIs(row.code, HasSubstr(row.says))) << row.name;
    EXPECT_THAT(Give(receiver, row.piece), StatusIs(row.code, HasSubstr("grpc://h:1: "))) << row.name;
  }
}

TEST_F(PieceReceiverTest, RefusesMessagesThatAreTooLargeOrDisagree) {
  targets_.erase(targets_.begin(), targets_.begin() + 2);
  PieceReceiver receiver = Make();
  EXPECT_THAT(
      Give(receiver, {0, 0, "ab", kVersionId, 101}),
      StatusIs(Code::kResourceExhausted, HasSubstr("a message of 101 bytes; the limit max_message_bytes is 100")));
  EXPECT_THAT(Give(receiver, {0, 0, "ab"}), StatusIs(Code::kDataLoss, HasSubstr("leaves the message of 0 bytes")));
  ASSERT_OK(Give(receiver, {0, 0, "ab", kVersionId, 5}));
  EXPECT_THAT(Give(receiver, {0, 2, "ab", kVersionId, 6}),
              StatusIs(Code::kDataLoss, HasSubstr("a piece before said 5")));
  EXPECT_THAT(Give(receiver, {0, 2, "abcd", kVersionId, 5}),
              StatusIs(Code::kDataLoss, HasSubstr("leaves the message")));
  EXPECT_LE(message_.size(), 5);
}

// Every prefix and every changed byte of a good piece is stored or refused.
TEST_F(PieceReceiverTest, SurvivesDamage) {
  const std::string good = Encode({0, 0, elements_, kVersionId, 0});
  for (size_t cut = 0; cut < good.size(); ++cut) {
    PieceReceiver receiver = Make();
    EXPECT_THAT(receiver.Receive({absl::string_view(good).substr(0, cut)}), StatusIs(Code::kDataLoss)) << cut;
  }
  for (size_t at = 0; at < good.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ (1 << bit));
      PieceReceiver receiver = Make();
      const absl::Status status = receiver.Receive({bad});
      EXPECT_THAT(status, StatusIs(Code::kDataLoss)) << "bit " << bit << " of byte " << at;
    }
  }
}

}  // namespace
}  // namespace tensorcask
