// Tensors in pieces, and parts of tensors.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/checkpoint/format/slice_key.h"
#include "tensorcask/serialize/checkpoint/format/string_codec.h"
#include "tensorcask/serialize/io/byte_sink.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/serialize/checkpoint/bundle_forge.h"
#include "tensorcask/tests/serialize/checkpoint/checkpoint_testing.h"
#include "tensorcask/tests/support/faulty_file_system.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::BundleForge;
using ::tensorcask::testing::BytesOfValues;
using ::tensorcask::testing::FaultyFileSystem;
using ::tensorcask::testing::SameTensor;
using ::tensorcask::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

constexpr int kFloat = 1;
constexpr int kInt32 = 3;
constexpr int kString = 7;
constexpr int kVariant = 21;

absl::StatusOr<CheckpointReader> OpenWith(FileSystem* files, CheckpointReaderOptions options = {}) {
  options.read.file_system = files;
  return CheckpointReader::Open("/m", options);
}

TensorSlice Slice(const std::string& text) { return *TensorSlice::Parse(text); }

// int32 [rows, columns]: element (i, j) is 100 i + j.
Tensor Table(int64_t rows, int64_t columns) {
  Tensor table = *Tensor::Create(DType::kInt32, TensorShape({rows, columns}));
  for (int64_t i = 0; i < rows * columns; ++i) {
    table.mutable_data<int32_t>()[i] = static_cast<int32_t>(100 * (i / columns) + i % columns);
  }
  return table;
}

std::string BytesOfPart(const Tensor& tensor, const std::string& slice) {
  const Tensor part = *TensorView(tensor).Slice(Slice(slice))->ToTensor();
  return std::string(part.bytes());
}

// "t", [4,6], in a grid of two by two and one more.
void AddTable(BundleForge* bundle, const Tensor& table) {
  bundle->AddSliced("t", kInt32, {4, 6}, {"0,2:0,3", "0,2:3,3", "2,1:-", "3,1:0,6"});
  bundle->AddPiece("t", "0,2:0,3", kInt32, {2, 3}, BytesOfPart(table, "0,2:0,3"));
  bundle->AddPiece("t", "0,2:3,3", kInt32, {2, 3}, BytesOfPart(table, "0,2:3,3"));
  bundle->AddPiece("t", "2,1:-", kInt32, {1, 6}, BytesOfPart(table, "2,1:-"));
  bundle->AddPiece("t", "3,1:0,6", kInt32, {1, 6}, BytesOfPart(table, "3,1:-"));
}

TEST(Slices, MakeUpTheTensorAndAnyPartOfIt) {
  const Tensor table = Table(4, 6);
  BundleForge bundle;
  AddTable(&bundle, table);
  MemoryFileSystem files;
  bundle.Put(&files);
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenWith(&files));
  ASSERT_OK_AND_ASSIGN(const Tensor whole, reader.Read("t"));
  EXPECT_TRUE(SameTensor(whole, table));
  ASSERT_OK_AND_ASSIGN(const Tensor mapped, reader.Map("t"));
  EXPECT_TRUE(SameTensor(mapped, table));
  for (const std::string slice : {"-:-", "0,4:0,6", "1,2:2,2", "3,1:5,1", "-:0,1", "2,2:-", "0,1:-"}) {
    SCOPED_TRACE(slice);
    ASSERT_OK_AND_ASSIGN(const TensorView wanted, TensorView(table).Slice(Slice(slice)));
    ASSERT_OK_AND_ASSIGN(const Tensor part, reader.ReadSlice("t", Slice(slice)));
    EXPECT_TRUE(SameTensor(part, *wanted.ToTensor()));
    // Into every other column of something larger, from right to left.
    ASSERT_OK_AND_ASSIGN(Tensor large, Tensor::Zeros(DType::kInt32, TensorShape({wanted.dim(0), 2 * wanted.dim(1)})));
    ASSERT_OK_AND_ASSIGN(TensorView target, TensorView(large).Slice(1, std::nullopt, std::nullopt, -2));
    ASSERT_OK(reader.ReadSliceInto("t", Slice(slice), &target, /*verify_whole=*/true));
    EXPECT_TRUE(SameTensor(*target.ToTensor(), *wanted.ToTensor()));
  }
  EXPECT_THAT(reader.ReadSlice("t", Slice("0,5:-")), StatusIs(Code::kOutOfRange, HasSubstr("axis 0")));
  EXPECT_THAT(reader.ReadSlice("t", Slice("-")), StatusIs(Code::kInvalidArgument, HasSubstr("tensor \"t\"")));
}

TEST(Slices, AreListedAsOneTensor) {
  const Tensor table = Table(4, 6);
  BundleForge bundle;
  AddTable(&bundle, table);
  bundle.Add("u", kInt32, {1}, "1234");
  MemoryFileSystem files;
  bundle.Put(&files);
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenWith(&files));
  ASSERT_OK_AND_ASSIGN(const std::vector<CheckpointEntry> entries, reader.entries());
  ASSERT_EQ(entries.size(), 2u);
  ASSERT_OK_AND_ASSIGN(const CheckpointEntry found, reader.Find("t"));
  for (const CheckpointEntry& entry : {entries[0], found}) {
    EXPECT_EQ(entry.name, "t");
    EXPECT_EQ(entry.form, EntryForm::kSliced);
    EXPECT_EQ(entry.stored_bytes, 96u);
    EXPECT_EQ(entry.masked_crc32c, 0u);
    EXPECT_THAT(entry.slices, ElementsAre(Slice("0,2:0,3"), Slice("0,2:3,3"), Slice("2,1:-"), Slice("3,1:0,6")));
  }
  EXPECT_THAT(reader.Find(checkpoint::EncodeSliceKey("t", Slice("2,1:-"))), StatusIs(Code::kNotFound, HasSubstr("no")));
  ASSERT_OK_AND_ASSIGN(const CheckpointCounts counts,
                       reader.VerifyAll([](const CheckpointDamage& damage) { ADD_FAILURE() << damage.status; }));
  EXPECT_EQ(counts.whole, 2);
  EXPECT_EQ(counts.not_checked, 0);
}

std::string StoredStrings(const std::vector<std::string>& values, uint32_t* crc) {
  std::string stored;
  StringSink sink(&stored);
  EXPECT_OK(checkpoint::AppendStrings(values, &sink, crc));
  return stored;
}

TEST(Slices, OfStrings) {
  BundleForge bundle;
  bundle.AddSliced("s", kString, {2, 2}, {"0,1:-", "1,1:-"});
  uint32_t crc = 0;
  bundle.AddPiece("s", "0,1:-", kString, {1, 2}, StoredStrings({"a", ""}, &crc)).set_crc32c(MaskCrc32c(crc));
  bundle.AddPiece("s", "1,1:-", kString, {1, 2}, StoredStrings({"ccc", std::string(99, 'd')}, &crc))
      .set_crc32c(MaskCrc32c(crc));
  MemoryFileSystem files;
  bundle.Put(&files);
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenWith(&files));
  ASSERT_OK_AND_ASSIGN(const Tensor whole, reader.Read("s"));
  EXPECT_TRUE(SameTensor(whole, Tensor::FromValues<std::string>({{"a", ""}, {"ccc", std::string(99, 'd')}})));
  ASSERT_OK_AND_ASSIGN(const Tensor column, reader.ReadSlice("s", Slice("-:1,1")));
  EXPECT_TRUE(SameTensor(column, Tensor::FromValues<std::string>({{""}, {std::string(99, 'd')}})));
}

TEST(Slices, HundredThousand) {
  constexpr int kPieces = 100000;
  BundleForge bundle;
  std::vector<std::string> slices;
  for (int i = 0; i < kPieces; ++i) {
    slices.push_back(absl::StrCat(i, ",1"));
    bundle.AddPiece("t", slices.back(), kInt32, {1}, BytesOfValues<int32_t>({i}));
  }
  bundle.AddSliced("t", kInt32, {kPieces}, slices);
  MemoryFileSystem files;
  bundle.Put(&files);
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenWith(&files));
  ASSERT_OK_AND_ASSIGN(const Tensor whole, reader.Read("t"));
  for (int i = 0; i < kPieces; ++i) ASSERT_EQ(whole.data<int32_t>()[i], i);
  ASSERT_OK_AND_ASSIGN(const std::vector<CheckpointEntry> entries, reader.entries());
  EXPECT_EQ(entries.size(), 1u);
}

TEST(Slices, OfTheHighestRank) {
  BundleForge bundle;
  std::string rest;
  for (int i = 1; i < TensorShape::kMaxRank; ++i) rest += ":-";
  std::vector<int64_t> dims(TensorShape::kMaxRank, 1);
  bundle.AddPiece("t", "0,1" + rest, kInt32, dims, BytesOfValues<int32_t>({1}));
  bundle.AddPiece("t", "1,1" + rest, kInt32, dims, BytesOfValues<int32_t>({2}));
  dims[0] = 2;
  bundle.AddSliced("t", kInt32, dims, {"0,1" + rest, "1,1" + rest});
  MemoryFileSystem files;
  bundle.Put(&files);
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenWith(&files));
  ASSERT_OK_AND_ASSIGN(const Tensor whole, reader.Read("t"));
  EXPECT_EQ(whole.bytes(), BytesOfValues<int32_t>({1, 2}));
}

// ---- What is wrong with them ----------------------------------------------------------------------------------------

struct DamageCase {
  const char* name;
  std::function<void(BundleForge*)> damage;
  const char* says;
  bool listed = false;  // entries() does not mind
  // What VerifyAll says instead of `says`: the tensor is incomplete, and the pieces that it lists are whole.
  const char* says_of_piece = nullptr;
};

class SlicesReject : public ::testing::TestWithParam<DamageCase> {};

TEST_P(SlicesReject, AsDataLoss) {
  const Tensor table = Table(4, 6);
  BundleForge bundle;
  AddTable(&bundle, table);
  GetParam().damage(&bundle);
  MemoryFileSystem files;
  bundle.Put(&files);
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenWith(&files));
  EXPECT_THAT(reader.Read("t"),
              StatusIs(Code::kDataLoss, AllOf(HasSubstr("tensor \"t\""), HasSubstr(GetParam().says))));
  EXPECT_EQ(reader.entries().status().code(), GetParam().listed ? Code::kOk : Code::kDataLoss);
  std::string found;
  ASSERT_OK_AND_ASSIGN(const CheckpointCounts counts, reader.VerifyAll([&](const CheckpointDamage& damage) {
    absl::StrAppend(&found, damage.status.message(), "\n");
  }));
  const bool is_incomplete = GetParam().says_of_piece != nullptr;
  EXPECT_EQ(counts.whole, is_incomplete ? 1 : 0) << found;
  EXPECT_THAT(found, HasSubstr(is_incomplete ? GetParam().says_of_piece : GetParam().says));
}

std::string Key(const std::string& slice) { return checkpoint::EncodeSliceKey("t", Slice(slice)); }

std::vector<DamageCase> Damages() {
  using B = BundleForge;
  return {
      {"SL04_OutsideTheTensor", [](B* b) { b->entries["t"].mutable_slices(2)->mutable_extent(0)->set_start(4); },
       "reaches past 4"},
      {"SL05_Wraps",
       [](B* b) {
         b->entries["t"].mutable_slices(0)->mutable_extent(0)->set_start(INT64_MAX);
         b->entries["t"].mutable_slices(0)->mutable_extent(0)->set_length(2);
       },
       "axis 0"},
      {"SL06_NegativeStart", [](B* b) { b->entries["t"].mutable_slices(0)->mutable_extent(0)->set_start(-1); },
       "axis 0"},
      {"SL06_NegativeLength", [](B* b) { b->entries["t"].mutable_slices(0)->mutable_extent(0)->set_length(-2); },
       "axis 0"},
      {"SL07_OtherRank", [](B* b) { b->entries["t"].mutable_slices(0)->add_extent(); }, "rank"},
      {"SL08_Length0", [](B* b) { b->entries["t"].mutable_slices(0)->mutable_extent(0)->set_length(0); }, "axis 0"},
      {"SL09_Overlap",
       [](B* b) {
         b->entries["t"].mutable_slices(1)->mutable_extent(1)->set_start(2);
         b->AddPiece("t", "0,2:2,3", kInt32, {2, 3}, std::string(24, '\0'));
       },
       "overlaps", /*listed=*/true},
      {"SL09_ListedTwice", [](B* b) { *b->entries["t"].add_slices() = b->entries["t"].slices(0); }, "overlaps",
       /*listed=*/true},
      {"SL09_Gap", [](B* b) { b->entries["t"].mutable_slices()->RemoveLast(); }, "18 of its 24 elements",
       /*listed=*/true, /*says_of_piece=*/"no tensor lists this piece"},
      {"SL09_PieceMissing", [](B* b) { b->entries.erase(Key("2,1:-")); },
       "slice \"2,1:-\" of tensor \"t\": is missing"},
      {"SL10_OtherDtype", [](B* b) { b->entries[Key("2,1:-")].set_dtype(static_cast<DataType>(kFloat)); },
       "is float32 [1,6]; wanted int32 [1,6]"},
      {"SL10_LargerShape",
       [](B* b) {
         b->entries[Key("2,1:-")].mutable_shape()->mutable_dim(0)->set_size(3);
         b->entries[Key("2,1:-")].set_size(72);
       },
       "is int32 [3,6]; wanted int32 [1,6]"},
      {"SL11_InSlicesItself", [](B* b) { *b->entries[Key("2,1:-")].add_slices() = b->entries["t"].slices(2); },
       "reaches past 1"},
      {"SL11_InSlicesOfItsOwn",
       [](B* b) {
         b->entries[Key("2,1:-")].add_slices()->add_extent();
         b->entries[Key("2,1:-")].mutable_slices(0)->add_extent();
       },
       "is in slices itself"},
      {"PieceChanged", [](B* b) { b->data[50] ^= 1; }, "slice \"2,1:-\" of tensor \"t\" at offset 48, 24 bytes",
       /*listed=*/true},
      {"PieceCutShort", [](B* b) { b->data.resize(95); }, "24 at 72 are wanted", /*listed=*/true},
      {"PiecesShareBytes", [](B* b) { b->entries[Key("2,1:-")].set_offset(24); }, "at offset 24, 24 bytes"},
  };
}

INSTANTIATE_TEST_SUITE_P(Damages, SlicesReject, ::testing::ValuesIn(Damages()),
                         [](const auto& info) { return std::string(info.param.name); });

// One range of the data file under many names would fill a tensor that no file backs.
TEST(Slices, OnTheSameBytes) {
  MemoryFileSystem files;
  BundleForge bundle;
  bundle.AddSliced("t", kInt32, {4, 2}, {"0,2:-", "2,2:-"});
  const BundleEntryProto former = bundle.AddPiece("t", "0,2:-", kInt32, {2, 2}, BytesOfValues<int32_t>({1, 2, 3, 4}));
  bundle.entries[checkpoint::EncodeSliceKey("t", Slice("2,2:-"))] = former;
  bundle.Put(&files);
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenWith(&files));
  EXPECT_THAT(reader.Read("t"),
              StatusIs(Code::kDataLoss,
                       HasSubstr("slice \"2,2:-\" of tensor \"t\" at offset 0, 16 bytes, overlaps slice \"0,2:-\"")));
  EXPECT_THAT(reader.entries(), StatusIs(Code::kDataLoss, HasSubstr("overlaps")));
  EXPECT_OK(reader.ReadSlice("t", Slice("0,1:-")));
}

// The pieces that are there are no orphans, though the search for others ended before them.
TEST(Slices, VerifyAllEndsTheSearchForMissingPieces) {
  BundleForge bundle;
  std::vector<std::string> slices;
  for (int i = 0; i < 300; ++i) slices.push_back(absl::StrCat(i, ",1"));
  bundle.AddSliced("t", kInt32, {300}, slices);
  bundle.AddPiece("t", "299,1", kInt32, {1}, "1234");
  bundle.AddPiece("u", "0,1", kInt32, {1}, "1234");
  MemoryFileSystem files;
  bundle.Put(&files);
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenWith(&files));
  std::vector<std::string> messages;
  ASSERT_OK(reader.VerifyAll([&](const CheckpointDamage& damage) { messages.emplace_back(damage.status.message()); }));
  // A hundred pieces, that there are more, and the orphan "u".
  ASSERT_EQ(messages.size(), 102u);
  EXPECT_THAT(messages[0], HasSubstr("slice \"0,1\" of tensor \"t\": is missing"));
  EXPECT_THAT(messages[100], HasSubstr("tensor \"t\": 100 of its pieces are missing"));
  EXPECT_THAT(messages[101], HasSubstr("slice \"0,1\" of tensor \"u\": no tensor lists this piece"));
}

TEST(Slices, OrphansAndBrokenKeys) {
  const Tensor table = Table(4, 6);
  BundleForge bundle;
  AddTable(&bundle, table);
  bundle.AddPiece("gone", "0,1", kInt32, {1}, "1234");
  MemoryFileSystem files;
  bundle.Put(&files);
  const auto damages = [](const CheckpointReader& reader) {
    std::string found;
    EXPECT_OK(reader.VerifyAll([&](const CheckpointDamage& damage) {
      absl::StrAppend(&found, damage.tensor, "|", damage.status.message(), "\n");
    }));
    return found;
  };
  {
    ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenWith(&files));
    EXPECT_OK(reader.entries());
    EXPECT_EQ(damages(reader), "gone|/m.index: slice \"0,1\" of tensor \"gone\": no tensor lists this piece\n");
  }
  bundle.Add(std::string("\0x", 2), kInt32, {1}, "1234");
  bundle.Put(&files);
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenWith(&files));
  EXPECT_THAT(reader.entries(), StatusIs(Code::kDataLoss, HasSubstr("the key of a slice has")));
  EXPECT_THAT(damages(reader), HasSubstr("the key of a slice has"));
}

// ---- Parts of what is stored in one piece ---------------------------------------------------------------------------

TEST(ReadSlice, ReadsTheBytesOfThePartOnly) {
  constexpr int64_t kRows = 1000;
  constexpr int64_t kColumns = 5000;  // 20 KB a row: gaps are not worth reading over
  const Tensor table = Table(kRows, kColumns);
  BundleForge bundle;
  bundle.Add("t", kInt32, {kRows, kColumns}, std::string(table.bytes()));
  MemoryFileSystem memory;
  bundle.Put(&memory);
  struct Case {
    const char* slice;
    uint64_t bytes;
  };
  for (const Case& c : {Case{"10,20:-", 20 * kColumns * 4}, Case{"-:7,1", kRows * 4},
                        Case{"5,3:10,100", uint64_t{3} * 400}, Case{"0,1000:100,900", kRows * 3600}}) {
    SCOPED_TRACE(c.slice);
    FaultyFileSystem files(&memory);
    ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenWith(&files));
    EXPECT_OK(reader.Find("t"));
    const uint64_t before = files.bytes_read();
    ASSERT_OK_AND_ASSIGN(const Tensor part, reader.ReadSlice("t", Slice(c.slice)));
    EXPECT_EQ(files.bytes_read() - before, c.bytes);
    EXPECT_TRUE(SameTensor(part, *TensorView(table).Slice(Slice(c.slice))->ToTensor()));
  }
}

TEST(ReadSlice, OfATensorWithoutElements) {
  MemoryFileSystem files;
  BundleForge bundle;
  bundle.Add("floats", kFloat, {0, 5}, "");
  bundle.Add("variants", kVariant, {0, 5}, "");
  std::string no_strings;
  StringSink sink(&no_strings);
  uint32_t crc = 0;
  ASSERT_OK(checkpoint::AppendStrings({}, &sink, &crc));
  bundle.Add("strings", kString, {0, 5}, no_strings).set_crc32c(MaskCrc32c(crc));
  bundle.Put(&files);
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenWith(&files));
  for (const char* name : {"floats", "strings", "variants"}) {
    SCOPED_TRACE(name);
    ASSERT_OK_AND_ASSIGN(const Tensor part, reader.ReadSlice(name, Slice("-:1,2")));
    EXPECT_EQ(part.shape(), TensorShape({0, 2}));
  }
}

TEST(ReadSlice, VerifiesTheWholeIfAsked) {
  const Tensor table = Table(4, 6);
  BundleForge bundle;
  bundle.Add("t", kInt32, {4, 6}, std::string(table.bytes()));
  bundle.data[95] ^= 1;
  MemoryFileSystem files;
  bundle.Put(&files);
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenWith(&files));
  EXPECT_OK(reader.ReadSlice("t", Slice("0,1:-")));
  EXPECT_THAT(reader.ReadSlice("t", Slice("0,1:-"), /*verify_whole=*/true),
              StatusIs(Code::kDataLoss, HasSubstr("its checksum is")));
  EXPECT_THAT(reader.ReadSlice("t", Slice("0,4:0,6")), StatusIs(Code::kDataLoss, HasSubstr("its checksum is")));
}

// The limit is one of what is decoded, not of what is stored.
TEST(ReadSlice, KeepsTheLimitOfItsPart) {
  const Tensor table = Table(100, 100);
  BundleForge bundle;
  bundle.Add("t", kInt32, {100, 100}, std::string(table.bytes()));
  MemoryFileSystem files;
  bundle.Put(&files);
  CheckpointReaderOptions options;
  options.limits.max_file_decoded_bytes = 4000;
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenWith(&files, options));
  EXPECT_OK(reader.ReadSlice("t", Slice("1,10:-")));
  EXPECT_THAT(reader.ReadSlice("t", Slice("1,11:-")),
              StatusIs(Code::kResourceExhausted, HasSubstr("decodes to 4400 bytes")));
  EXPECT_THAT(reader.Read("t"), StatusIs(Code::kResourceExhausted, HasSubstr("decodes to 40000 bytes")));
}

TEST(ReadInto, StridedViews) {
  const Tensor table = Table(300, 700);  // more than a block
  BundleForge bundle;
  bundle.Add("t", kInt32, {300, 700}, std::string(table.bytes()));
  MemoryFileSystem files;
  bundle.Put(&files);
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenWith(&files));
  ASSERT_OK_AND_ASSIGN(Tensor turned, Tensor::Create(DType::kInt32, TensorShape({700, 300})));
  ASSERT_OK_AND_ASSIGN(TensorView target, TensorView(turned).Transpose(0, 1));
  ASSERT_OK(reader.ReadInto("t", &target));
  EXPECT_TRUE(SameTensor(*target.ToTensor(), table));
  ASSERT_OK_AND_ASSIGN(TensorView one, TensorView(turned).Narrow(0, 0, 1));
  ASSERT_OK_AND_ASSIGN(TensorView repeated, TensorView(*one.Clone()).Expand({700, 300}));
  ASSERT_OK_AND_ASSIGN(repeated, repeated.Transpose(0, 1));
  EXPECT_EQ(reader.ReadInto("t", &repeated).code(), Code::kInvalidArgument);
  EXPECT_THAT(reader.ReadInto("t", &turned), StatusIs(Code::kInvalidArgument, HasSubstr("the tensor to fill is")));
}

}  // namespace
}  // namespace tensorcask
