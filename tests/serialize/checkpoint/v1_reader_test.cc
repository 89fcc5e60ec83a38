// V1 checkpoints: one that TensorFlow wrote, and files made here by hand, right and wrong ones.

#include "tensorcask/serialize/checkpoint/read/v1_reader.h"

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "snappy.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/checkpoint/format/slice_key.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/serialize/checkpoint/checkpoint_testing.h"
#include "tensorcask/tests/serialize/checkpoint/forge.h"
#include "tensorcask/tests/serialize/checkpoint/v1_testing.h"
#include "tensorcask/tests/serialize/wire/wire_test_util.h"
#include "tensorcask/tests/support/status_matchers.h"
#include "tensorcask/tests/support/test_data.h"

namespace tensorcask {
namespace {

using checkpoint::EncodeSliceKey;
using ::tensorcask::testing::Content;
using ::tensorcask::testing::DamageOf;
using ::tensorcask::testing::Grid;
using ::tensorcask::testing::Listed;
using ::tensorcask::testing::OpenFile;
using ::tensorcask::testing::Piece;
using ::tensorcask::testing::Slice;
using ::tensorcask::testing::V1Content;
using ::tensorcask::testing::Values;
using testing::BytesField;
using testing::Difference;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::IndexOf;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using testing::StatusIs;
using testing::VarintField;
using Code = absl::StatusCode;

// ---- A writer -------------------------------------------------------------------------------------------------------

// ---- What there is --------------------------------------------------------------------------------------------------

TEST(V1Reader, FileOfTensorFlow) {
  const std::string path = testing::TestDataFolder("tensorflow/serving-v1-checkpoint/export-00000-of-00001");
  if (path.empty()) GTEST_SKIP() << "no test data";
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, CheckpointReader::Open(path));
  EXPECT_EQ(reader.num_shards(), 1);
  EXPECT_EQ(reader.prefix(), path);
  ASSERT_OK_AND_ASSIGN(const std::vector<CheckpointEntry> entries, reader.entries());
  ASSERT_THAT(entries, SizeIs(2));
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(entries[i].name, i == 0 ? "a" : "b");
    EXPECT_EQ(entries[i].dtype, DType::kFloat32);
    EXPECT_EQ(entries[i].shape, TensorShape());
    EXPECT_EQ(entries[i].form, EntryForm::kPlain);
    EXPECT_EQ(entries[i].stored_bytes, 15);
    ASSERT_OK_AND_ASSIGN(const Tensor tensor, reader.Read(entries[i].name));
    EXPECT_EQ(Difference(tensor, Tensor::Scalar<float>(i == 0 ? 0.5F : 2.0F)), "");
  }
  const auto counts = reader.VerifyAll([](const CheckpointDamage& damage) { ADD_FAILURE() << damage.status; });
  ASSERT_OK(counts);
  EXPECT_EQ(counts->whole, 2);
}

// The writer of this test gives the file of TensorFlow.
TEST(V1Reader, FileOfTensorFlowByteForByte) {
  const std::string path = testing::TestDataFolder("tensorflow/serving-v1-checkpoint/export-00000-of-00001");
  if (path.empty()) GTEST_SKIP() << "no test data";
  V1Content content;
  content.Add("a", Tensor::Scalar<float>(0.5F));
  content.Add("b", Tensor::Scalar<float>(2.0F));
  Content parts = content.Finish();
  // TensorFlow writes a shape without axes as an empty message, as ShapeField does.
  EXPECT_EQ(IndexOf(parts), testing::ReadFileOrFail(path));
}

class EveryDType : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Plain, EveryDType, ::testing::ValuesIn(testing::PlainDTypes()),
                         [](const auto& info) { return std::string(DTypeName(info.param)); });

TEST_P(EveryDType, IsRead) {
  std::mt19937_64 random(static_cast<uint64_t>(GetParam()));
  V1Content content;
  std::vector<Tensor> tensors;
  for (int i = 0; i < 20; ++i) {
    tensors.push_back(testing::RandomTensor(GetParam(), testing::RandomShape(&random), &random));
    content.Add(absl::StrCat("t", i), tensors.back());
  }
  const OpenFile file(content.Finish());
  ASSERT_OK(file.reader);
  EXPECT_THAT(DamageOf(*file, 20), IsEmpty());
  for (int i = 0; i < 20; ++i) {
    const std::string name = absl::StrCat("t", i);
    ASSERT_OK_AND_ASSIGN(const Tensor tensor, file->Read(name));
    EXPECT_EQ(Difference(tensor, tensors[static_cast<size_t>(i)]), "") << name;
    EXPECT_EQ(Difference(*file->Map(name), tensor), "");
    ASSERT_OK_AND_ASSIGN(const CheckpointEntry entry, file->Find(name));
    EXPECT_EQ(entry.dtype, GetParam());
    EXPECT_EQ(entry.form, EntryForm::kPlain);
    ASSERT_OK_AND_ASSIGN(const DecodedTensor decoded, file->ReadWithMetadata(name));
    EXPECT_EQ(decoded.metadata, TensorMetadata());
    EXPECT_EQ(Difference(*decoded.view.ToTensor(), tensor), "");
  }
}

// Cuts each axis in a few places, and reads a few slices across the cuts.
TEST_P(EveryDType, IsPutTogether) {
  std::mt19937_64 random(100 + static_cast<uint64_t>(GetParam()));
  for (int round = 0; round < 10; ++round) {
    const TensorShape shape({1 + static_cast<int64_t>(random() % 9), 1 + static_cast<int64_t>(random() % 5), 3});
    const Tensor tensor = testing::RandomTensor(GetParam(), shape, &random);
    std::vector<TensorSlice> slices;
    const int64_t width = 1 + static_cast<int64_t>(random() % 4);
    for (int64_t row = 0; row < shape.dim(0); row += width) {
      const int64_t rows = std::min(width, shape.dim(0) - row);
      const int64_t cut = 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(shape.dim(1)));
      slices.push_back(*TensorSlice::Create({{row, rows}, {0, cut}, {}}));
      if (cut < shape.dim(1)) slices.push_back(*TensorSlice::Create({{row, rows}, {cut, shape.dim(1) - cut}, {}}));
    }
    SCOPED_TRACE(absl::StrCat(shape.ToString(), " in ", slices.size()));
    V1Content content;
    content.Add("w", tensor, slices);
    const OpenFile file(content.Finish());
    ASSERT_OK(file.reader);
    EXPECT_THAT(DamageOf(*file, 1), IsEmpty());
    ASSERT_OK_AND_ASSIGN(const Tensor whole, file->Read("w"));
    EXPECT_EQ(Difference(whole, tensor), "");

    const int64_t start = static_cast<int64_t>(random() % static_cast<uint64_t>(shape.dim(0)));
    const TensorSlice wanted = *TensorSlice::Create({{start, shape.dim(0) - start}, {}, {1, 2}});
    ASSERT_OK_AND_ASSIGN(const Tensor part, file->ReadSlice("w", wanted, false));
    const TensorView expected = *TensorView(tensor).Narrow(0, start, shape.dim(0) - start)->Narrow(2, 1, 2);
    EXPECT_EQ(Difference(part, *expected.ToTensor()), "");

    Tensor memory = testing::RandomTensor(GetParam(), TensorShape({2, shape.dim(1), shape.dim(0) - start}), &random);
    TensorView out = *TensorView(memory).Transpose(0, 2);
    ASSERT_OK(file->ReadSliceInto("w", wanted, &out, true));
    EXPECT_EQ(Difference(*out.ToTensor(), part), "");
  }
}

TEST(V1Reader, ListsPieces) {
  V1Content content;
  content.Add("w", Grid(), {Slice("2,2:-"), Slice("0,2:0,5"), Slice("0,2:5,5")});
  content.Add("spelled out", Grid(), {Slice("0,4:0,10")});
  content.Add("no rows", *Tensor::Create(DType::kFloat32, TensorShape({0, 3})));
  const OpenFile file(content.Finish());
  ASSERT_OK(file.reader);
  ASSERT_OK_AND_ASSIGN(const std::vector<CheckpointEntry> entries, file->entries());
  ASSERT_THAT(entries, SizeIs(3));
  EXPECT_EQ(entries[0].name, "no rows");
  EXPECT_EQ(entries[0].form, EntryForm::kPlain);
  EXPECT_EQ(entries[1].form, EntryForm::kPlain);
  EXPECT_EQ(entries[2].form, EntryForm::kSliced);
  EXPECT_THAT(entries[2].slices, ElementsAre(Slice("2,2:-"), Slice("0,2:0,5"), Slice("0,2:5,5")));
  uint64_t stored = 0;
  for (const auto& [key, value] : content.Finish()) stored += key.empty() ? 0 : value.size();
  EXPECT_EQ(entries[0].stored_bytes + entries[1].stored_bytes + entries[2].stored_bytes, stored);
  for (const CheckpointEntry& entry : entries) {
    ASSERT_OK_AND_ASSIGN(const CheckpointEntry found, file->Find(entry.name));
    EXPECT_EQ(found.stored_bytes, entry.stored_bytes);
    EXPECT_EQ(found.slices, entry.slices);
  }
  EXPECT_EQ(file->Read("no rows")->shape(), TensorShape({0, 3}));
  EXPECT_EQ(Difference(*file->Read("spelled out"), Grid()), "");
}

TEST(V1Reader, MisusedByItsCaller) {
  V1Content content;
  content.Add("w", Grid());
  const OpenFile file(content.Finish());
  ASSERT_OK(file.reader);
  EXPECT_THAT(file->Read("v"), StatusIs(Code::kNotFound, HasSubstr("m.ckpt: no tensor \"v\"")));
  EXPECT_THAT(file->Find(""), StatusIs(Code::kNotFound));
  EXPECT_THAT(file->Metadata("v"), StatusIs(Code::kNotFound));
  EXPECT_OK(file->Metadata("w"));
  EXPECT_THAT(file->ReadSlice("w", Slice("3,2:-"), false), StatusIs(Code::kOutOfRange, HasSubstr("axis 0")));
  EXPECT_THAT(file->ReadSlice("w", Slice("-"), false), StatusIs(Code::kInvalidArgument, HasSubstr("rank")));
  TensorView wrong = *Tensor::Create(DType::kInt32, TensorShape({10, 4}));
  EXPECT_THAT(file->ReadInto("w", &wrong), StatusIs(Code::kInvalidArgument, HasSubstr("int32 [4,10]")));
}

// Names whose codes and bytes could be sorted differently, in many blocks; blocks compressed.
TEST(V1Reader, ManyBlocks) {
  V1Content content;
  std::map<std::string, Tensor> tensors;
  std::mt19937_64 random(5);
  for (const std::string& name : std::vector<std::string>{"a", std::string("a\0", 2), std::string("a\0b", 3), "a\x01",
                                                          "ab", "b/c", "\xc3\xbf", "\xf4\x8f\xbf\xbf"}) {
    tensors[name] = testing::RandomTensor(DType::kFloat32, TensorShape({60000}), &random);
    content.Add(name, tensors[name], {Slice("0,30000"), Slice("30000,30000")});
  }
  testing::TableForge forge;
  std::vector<std::pair<std::string, checkpoint::BlockHandle>> index;
  for (const auto& [key, value] : content.Finish()) {
    std::string compressed;
    const std::string block = testing::ForgeBlock({{0, key, value}});
    snappy::Compress(block.data(), block.size(), &compressed);
    index.emplace_back(key, forge.Block(compressed, /*type=*/1));
  }
  const OpenFile plain(content.Finish());
  const OpenFile compressed(forge.Finish(index));
  for (const OpenFile* file : {&plain, &compressed}) {
    ASSERT_OK(file->reader);
    EXPECT_THAT(DamageOf(**file, 8), IsEmpty());
    ASSERT_OK_AND_ASSIGN(const std::vector<CheckpointEntry> entries, (*file)->entries());
    auto expected = tensors.begin();
    for (const CheckpointEntry& entry : entries) {
      EXPECT_EQ(entry.name, expected->first);
      EXPECT_EQ(Difference(*(*file)->Read(entry.name), expected->second), "");
      ++expected;
    }
  }
}

TEST(V1Reader, OneFileOfASet) {
  V1Content content;
  content.Add("w", Grid(), {Slice("0,2:-")});
  const OpenFile file(content.Finish());
  ASSERT_OK(file.reader);
  ASSERT_OK_AND_ASSIGN(const std::vector<CheckpointEntry> entries, file->entries());
  EXPECT_EQ(entries[0].form, EntryForm::kSliced);
  EXPECT_EQ(Difference(*file->ReadSlice("w", Slice("1,1:-"), false), *TensorView(Grid()).Narrow(0, 1, 1)->ToTensor()),
            "");
  EXPECT_THAT(file->Read("w"), StatusIs(Code::kDataLoss, HasSubstr("of a set of files, another may have them")));
  EXPECT_THAT(DamageOf(*file, 0), SizeIs(1));
}

TEST(V1Reader, VersionsAndFieldsOfLaterWriters) {
  const std::string listed = Listed("x", 1, {}, {""});
  const Content piece = {
      {EncodeSliceKey("x", TensorSlice()), Piece("x", "", Values(Tensor::Scalar<float>(3))) + BytesField(7, "later")}};
  const auto open = [&](const std::string& versions) {
    Content content = piece;
    content[""] = BytesField(1, listed + versions + BytesField(9, "later"));
    return OpenFile(content);
  };
  for (const std::string& versions : {std::string(), BytesField(2, VarintField(1, 1) + VarintField(2, 1)),
                                      BytesField(2, VarintField(1, 7) + VarintField(3, 2))}) {
    const OpenFile file = open(versions);
    ASSERT_OK(file.reader);
    EXPECT_EQ(Difference(*file->Read("x"), Tensor::Scalar<float>(3)), "");
  }
  EXPECT_THAT(
      open(BytesField(2, VarintField(2, 2))).reader,
      StatusIs(Code::kUnimplemented, HasSubstr("m.ckpt: requires reader version 2; this reader has version 1")));
  EXPECT_THAT(open(BytesField(2, VarintField(1, static_cast<uint64_t>(-1)))).reader,
              StatusIs(Code::kDataLoss, HasSubstr("m.ckpt: has producer -1; wanted 0 or more")));
  EXPECT_THAT(open(BytesField(2, BytesField(3, "\x05\x01"))).reader,
              StatusIs(Code::kUnimplemented, HasSubstr("excludes readers of version 1")));
}

// ---- What is refused ------------------------------------------------------------------------------------------------

}  // namespace
}  // namespace tensorcask
