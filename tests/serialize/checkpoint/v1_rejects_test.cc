// V1 checkpoints that break a rule, pass a limit or are damaged.

#include "tensorcask/serialize/checkpoint/read/v1_reader.h"

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/checkpoint/format/slice_key.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/serialize/checkpoint/checkpoint_testing.h"
#include "tensorcask/tests/serialize/checkpoint/forge.h"
#include "tensorcask/tests/serialize/checkpoint/v1_testing.h"
#include "tensorcask/tests/serialize/wire/wire_test_util.h"
#include "tensorcask/tests/support/failing_allocator.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using checkpoint::EncodeSliceKey;
using ::tensorcask::testing::Content;
using ::tensorcask::testing::DamageOf;
using ::tensorcask::testing::Grid;
using ::tensorcask::testing::List;
using ::tensorcask::testing::Listed;
using ::tensorcask::testing::OpenFile;
using ::tensorcask::testing::Piece;
using ::tensorcask::testing::Slice;
using ::tensorcask::testing::SliceMessage;
using ::tensorcask::testing::V1Content;
using ::tensorcask::testing::Values;
using ::testing::AllOf;
using testing::BytesField;
using testing::Difference;
using testing::FromText;
using ::testing::HasSubstr;
using testing::IndexOf;
using ::testing::SizeIs;
using testing::StatusIs;
using testing::VarintField;
using Code = absl::StatusCode;

constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();

std::string Extent(uint64_t start, uint64_t length) {
  return BytesField(1, VarintField(1, start) + VarintField(2, length));
}

struct ListCase {
  const char* name;
  std::string list;  // the value under the empty key
  Code code;
  const char* says;
};
void PrintTo(const ListCase& test, std::ostream* out) { *out << test.name; }

class RefusedList : public ::testing::TestWithParam<ListCase> {};

TEST_P(RefusedList, WithCodeAndMessage) {
  const OpenFile file(Content{{"", GetParam().list}});
  EXPECT_THAT(file.reader, StatusIs(GetParam().code, AllOf(HasSubstr("m.ckpt: "), HasSubstr(GetParam().says))));
}

const ListCase kLists[] = {
    {"Empty", "", Code::kDataLoss, "has no meta"},
    {"Twice", List("") + List(""), Code::kDataLoss, "has several of meta"},
    {"ABundle", "\x08\x01\x1a\x02\x08\x01", Code::kDataLoss, "is not a SavedTensorSlices message: meta"},
    {"CutShort", List(Listed("x", 1, {}, {""})).substr(0, 9), Code::kDataLoss, "is not a SavedTensorSlices message"},
    {"NoName", List(Listed("", 1, {}, {""})), Code::kDataLoss, "without a name"},
    {"NameTwice", List(Listed("x", 1, {}, {""}) + Listed("x", 1, {}, {""})), Code::kDataLoss, "is listed twice"},
    {"NameNotUtf8", List(Listed("\xff", 1, {}, {""})), Code::kDataLoss, "is not UTF-8"},
    {"NoDType", List(Listed("x", 0, {}, {""})), Code::kDataLoss, "tensor \"x\": has dtype number 0"},
    {"NoSuchDType", List(Listed("x", 9999, {}, {""})), Code::kDataLoss, "dtype number 9999"},
    {"NegativeDType", List(Listed("x", -1, {}, {""})), Code::kDataLoss, "dtype number -1"},
    {"ReferenceDType", List(Listed("x", 101, {}, {""})), Code::kDataLoss, "dtype number 101"},
    {"Resource", List(Listed("x", 20, {}, {""})), Code::kDataLoss, "dtype number 20"},
    {"Variant", List(Listed("x", 21, {}, {""})), Code::kDataLoss, "dtype number 21"},
    {"DTypeOfOurs", List(Listed("x", 64, {}, {""})), Code::kDataLoss, "dtype number 64"},
    {"DTypePast32Bits", List(Listed("x", 4294967297, {}, {""})), Code::kDataLoss, "dtype number 4294967297"},
    {"NegativeDim", List(Listed("x", 1, {-3}, {BytesField(1, "")})), Code::kDataLoss, "-3"},
    {"HugeShape", List(Listed("x", 1, {1 << 30, 1 << 30, 1 << 30}, {""})), Code::kDataLoss, "tensor \"x\": "},
    {"NoSlice", List(Listed("x", 1, {}, {})), Code::kDataLoss, "has no slice"},
    {"RankOfSlice", List(Listed("x", 1, {2}, {""})), Code::kDataLoss, "rank"},
    {"SlicePastTheShape", List(Listed("x", 1, {2}, {Extent(1, 2)})), Code::kDataLoss, "axis 0"},
    {"SliceWraps", List(Listed("x", 1, {2}, {Extent(kMost, kMost)})), Code::kDataLoss, "slice: "},
    {"SliceOfNothing", List(Listed("x", 1, {2}, {Extent(0, 0)})), Code::kDataLoss, "slice: "},
    {"NegativeStart", List(Listed("x", 1, {2}, {Extent(uint64_t{0} - 1, 1)})), Code::kDataLoss, "slice: "},
    {"NegativeLength", List(Listed("x", 1, {2}, {Extent(0, uint64_t{0} - 2)})), Code::kDataLoss, "slice: "},
    {"StartOfFullAxis", List(Listed("x", 1, {2}, {BytesField(1, VarintField(1, 1))})), Code::kDataLoss, "slice: "},
    {"SlicesOverlap", List(Listed("x", 1, {3}, {Extent(0, 2), Extent(1, 2)})), Code::kDataLoss, "overlap"},
    {"SliceTwice", List(Listed("x", 1, {}, {"", ""})), Code::kDataLoss, "overlap"},
    {"SliceOfManyAxes",
     List(Listed("x", 1, {2},
                 {std::string(510, '\n').replace(1, 509,
                                                 [] {
                                                   std::string rest(1, '\0');
                                                   for (int i = 0; i < 254; ++i) rest += std::string("\n\0", 2);
                                                   return rest;
                                                 }())})),
     Code::kDataLoss, "255 extents"},
};
INSTANTIATE_TEST_SUITE_P(Lists, RefusedList, ::testing::ValuesIn(kLists),
                         [](const auto& info) { return std::string(info.param.name); });

struct PieceCase {
  const char* name;
  std::string piece;  // the value under the key of x, int16 [2]
  const char* says;
};
void PrintTo(const PieceCase& test, std::ostream* out) { *out << test.name; }

std::string PieceOfText(const std::string& text) {
  return Piece("x", SliceMessage(TensorSlice::Full(1)), FromText(text).SerializeAsString());
}

class RefusedPiece : public ::testing::TestWithParam<PieceCase> {};

TEST_P(RefusedPiece, WithCodeAndMessage) {
  const std::string& full = SliceMessage(TensorSlice::Full(1));
  const Content content = {
      {"", List(Listed("x", 5, {2}, {full}) + Listed("y", 5, {2}, {full}))},
      {EncodeSliceKey("x", TensorSlice::Full(1)), GetParam().piece},
      {EncodeSliceKey("y", TensorSlice::Full(1)), Piece("y", full, Values(Tensor::FromValues<int16_t>({7, 8})))}};
  const OpenFile file(content);
  ASSERT_OK(file.reader);
  const auto refused =
      StatusIs(Code::kDataLoss, AllOf(HasSubstr("m.ckpt: tensor \"x\", piece \"-\": "), HasSubstr(GetParam().says)));
  EXPECT_THAT(file->Read("x"), refused);
  EXPECT_THAT(file->ReadSlice("x", Slice("0,1"), false), refused);
  TensorView out = *Tensor::Create(DType::kInt16, TensorShape({2}));
  EXPECT_THAT(file->ReadInto("x", &out), refused);
  const std::vector<CheckpointDamage> damage = DamageOf(*file, 1);
  ASSERT_THAT(damage, SizeIs(1));
  EXPECT_EQ(damage[0].tensor, "x");
  EXPECT_EQ(damage[0].file, "m.ckpt");
  EXPECT_THAT(damage[0].status, refused);
  EXPECT_EQ(Difference(*file->Read("y"), Tensor::FromValues<int16_t>({7, 8})), "");
}

const PieceCase kPieces[] = {
    {"Empty", "", "has no data"},
    {"TwoOfThem", PieceOfText("int_val: [1, 2]") + PieceOfText("int_val: [1, 2]"), "has several of data"},
    {"NoMessage", "\xff\xff", "is not a SavedTensorSlices message"},
    {"OtherName", Piece("y", SliceMessage(TensorSlice::Full(1)), ""), "says that it is piece \"-\" of \"y\""},
    {"OtherSlice", Piece("x", SliceMessage(Slice("0,2")), ""), "says that it is piece \"0,2\" of \"x\""},
    {"NoSlice", BytesField(2, BytesField(1, "x") + BytesField(3, "")), "has no slice"},
    {"NoTensor", BytesField(2, BytesField(1, "x") + BytesField(2, BytesField(1, ""))), "has no data"},
    {"TwoNames", BytesField(2, BytesField(1, "x") + BytesField(1, "x")), "has several of name"},
    {"NoValues", PieceOfText(""), "has 0 values; int16 [2] needs 2"},
    {"TooFewValues", PieceOfText("int_val: [1]"), "has 1 values; int16 [2] needs 2"},
    {"TooManyValues", PieceOfText("int_val: [1, 2, 3]"), "has 3 values; int16 [2] needs 2"},
    {"OtherField", PieceOfText("float_val: [1, 2]"), "float_val has 2 values"},
    {"SeveralFields", PieceOfText("int_val: [1] half_val: [2]"), "half_val has 1 values"},
    {"OutOfRange", PieceOfText("int_val: [1, 70000]"), "int_val[1] is 70000"},
    {"TensorContent", PieceOfText("tensor_content: 'abcd'"), "has tensor_content"},
    {"OtherDType", PieceOfText("dtype: DT_INT8 int_val: [1, 2]"), "has dtype number 6, but the tensor is int16"},
    {"OtherShape", PieceOfText("tensor_shape { dim { size: 1 } } int_val: [1, 2]"),
     "has shape [1], but the piece is [2]"},
    {"NegativeShape", PieceOfText("tensor_shape { dim { size: -1 } } int_val: [1, 2]"), "-1"},
    {"UnknownRank", PieceOfText("tensor_shape { unknown_rank: true } int_val: [1, 2]"), "unknown_rank"},
};
INSTANTIATE_TEST_SUITE_P(Pieces, RefusedPiece, ::testing::ValuesIn(kPieces),
                         [](const auto& info) { return std::string(info.param.name); });

// What TensorFlow leaves out, and what it skips.
TEST(V1Reader, PieceThatSaysMore) {
  const std::string& full = SliceMessage(TensorSlice::Full(1));
  const OpenFile file(Content{{"", List(Listed("x", 5, {2}, {full}))},
                              {EncodeSliceKey("x", TensorSlice::Full(1)),
                               PieceOfText("dtype: DT_INT16 tensor_shape { dim { size: 2 } } int_val: [1, 2] "
                                           "extension { strides: 7 crc32c: 1 }")}});
  ASSERT_OK(file.reader);
  EXPECT_EQ(Difference(*file->Read("x"), Tensor::FromValues<int16_t>({1, 2})), "");
}

TEST(V1Reader, RefusesHugeTensorsOfFewValues) {
  const std::string full = SliceMessage(TensorSlice::Full(1));
  for (const auto& [dim, code] : {std::pair<int64_t, Code>{int64_t{1} << 33, Code::kResourceExhausted},
                                  {int64_t{1} << 30, Code::kDataLoss},
                                  {std::numeric_limits<int64_t>::max(), Code::kResourceExhausted}}) {
    const OpenFile file(
        Content{{"", List(Listed("x", 1, {dim}, {full}))},
                {EncodeSliceKey("x", TensorSlice::Full(1)), Piece("x", full, Values(Tensor::Scalar<float>(1)))}});
    ASSERT_OK(file.reader);
    EXPECT_THAT(file->Read("x"), StatusIs(code)) << dim;
    EXPECT_THAT(DamageOf(*file, 0), SizeIs(1));
  }
}

TEST(V1Reader, PiecesThatAreMissingOrTooMany) {
  V1Content both;
  both.Add("w", Grid(), {Slice("0,2:-"), Slice("2,2:-")});
  both.Add("x", Tensor::Scalar<float>(1));
  for (const char* text : {"0,2:-", "2,2:-"}) {
    Content content = both.Finish();
    content.erase(EncodeSliceKey("w", Slice(text)));
    const OpenFile file(content);
    ASSERT_OK(file.reader);
    const auto missing = StatusIs(Code::kDataLoss, HasSubstr(absl::StrCat("piece \"", text, "\": is listed, but not")));
    EXPECT_THAT(file->entries(), missing);
    EXPECT_THAT(file->Find("w"), missing);
    EXPECT_THAT(file->Read("w"), missing);
    const std::vector<CheckpointDamage> damage = DamageOf(*file, 1);
    ASSERT_THAT(damage, SizeIs(1));
    EXPECT_THAT(damage[0].status, missing);
    EXPECT_OK(file->Read("x"));
  }
  for (const std::string& key : {EncodeSliceKey("a", TensorSlice()), EncodeSliceKey("w", Slice("1,2:-")),
                                 EncodeSliceKey("z", TensorSlice()), std::string("z"), std::string(1, '\0')}) {
    Content content = both.Finish();
    content[key] = Piece("z", "", Values(Tensor::Scalar<float>(1)));
    const OpenFile file(content);
    ASSERT_OK(file.reader);
    EXPECT_THAT(file->entries(), StatusIs(Code::kDataLoss, HasSubstr("is not that of a piece")));
    EXPECT_THAT(DamageOf(*file, 0), SizeIs(1));
    EXPECT_OK(file->Read("w"));
  }
}

TEST(V1Reader, Limits) {
  V1Content content;
  content.Add("first", Grid(), {Slice("0,2:-"), Slice("2,2:-")});
  content.Add("second", Grid());
  const auto open = [&](auto set) {
    CheckpointReaderOptions options;
    set(&options.limits);
    return OpenFile(content.Finish(), options);
  };
  EXPECT_OK(open([](DecodeLimits* limits) { limits->max_entries = 5; }).reader);
  EXPECT_THAT(open([](DecodeLimits* limits) { limits->max_entries = 4; }).reader,
              StatusIs(Code::kResourceExhausted, HasSubstr("max_entries is 4")));
  EXPECT_THAT(open([](DecodeLimits* limits) { limits->max_name_bytes = 5; }).reader,
              StatusIs(Code::kResourceExhausted, HasSubstr("\"second\" has 6 bytes; the limit max_name_bytes is 5")));
  EXPECT_THAT(open([](DecodeLimits* limits) { limits->max_memory_beyond_input = 100; }).reader,
              StatusIs(Code::kResourceExhausted, HasSubstr("max_memory_beyond_input is 100")));
  EXPECT_THAT(open([](DecodeLimits* limits) { limits->max_depth = 2; }).reader,
              StatusIs(Code::kResourceExhausted, HasSubstr("max_depth")));
  const OpenFile file = open([](DecodeLimits* limits) { limits->max_file_decoded_bytes = 159; });
  ASSERT_OK(file.reader);
  EXPECT_THAT(file->Read("first"), StatusIs(Code::kResourceExhausted, HasSubstr("max_file_decoded_bytes is 159")));
  EXPECT_OK(file->ReadSlice("first", Slice("0,3:-"), false));
}

// A list of a few bytes a piece, which would take a hundred times as much in memory.
// Small numbers are stored in a byte each, and decoded to eight.
TEST(V1Reader, ReadAllMeasuresWhatIsDecoded) {
  V1Content content;
  for (const char* name : {"a", "b"}) content.Add(name, *Tensor::Zeros(DType::kInt64, TensorShape({1000})));
  MemoryFileSystem files;
  files.Put("/v1", IndexOf(content.Finish()));
  CheckpointReaderOptions options;
  options.read.file_system = &files;
  options.limits.max_file_decoded_bytes = 15999;
  ASSERT_OK_AND_ASSIGN(const CheckpointReader small, CheckpointReader::Open("/v1", options));
  EXPECT_THAT(small.ReadAll(),
              StatusIs(Code::kResourceExhausted, HasSubstr("2 tensors together: decodes to 16000 bytes")));
  options.limits.max_file_decoded_bytes = 16000;
  ASSERT_OK_AND_ASSIGN(const CheckpointReader large, CheckpointReader::Open("/v1", options));
  ASSERT_OK_AND_ASSIGN(const std::vector<CheckpointNamedTensor> all, large.ReadAll());
  EXPECT_THAT(all, SizeIs(2));
}

TEST(V1Reader, TheCharactersOfStringsCount) {
  V1Content content;
  const std::string text(1000, 't');
  const Tensor strings = Tensor::FromValues<std::string>({text, text, text, text});
  content.Add("cut", strings, {Slice("0,2"), Slice("2,2")});
  content.Add("whole", strings);
  CheckpointReaderOptions options;
  options.limits.max_file_decoded_bytes = 4000;
  const OpenFile file(content.Finish(), options);
  ASSERT_OK(file.reader);
  for (const char* name : {"cut", "whole"}) {
    SCOPED_TRACE(name);
    const auto is_past = StatusIs(Code::kResourceExhausted, AllOf(HasSubstr(absl::StrCat("tensor \"", name)),
                                                                  HasSubstr("max_file_decoded_bytes is 4000")));
    EXPECT_THAT(file->Read(name), is_past);
    EXPECT_THAT(file->ReadWithMetadata(name), is_past);
    EXPECT_THAT(file->Map(name), is_past);
    TensorView out = *Tensor::Create(DType::kString, strings.shape());
    EXPECT_THAT(file->ReadInto(name, &out), is_past);
  }
  EXPECT_OK(file->ReadSlice("cut", Slice("0,2"), false));
  options.limits.max_file_decoded_bytes = 4400;
  const OpenFile enough(content.Finish(), options);
  ASSERT_OK(enough.reader);
  EXPECT_OK(enough->Read("cut"));
  EXPECT_OK(enough->Read("whole"));
}

TEST(V1Reader, AllocationsThatFailNameTheTensor) {
  V1Content content;
  content.Add("w", Grid(), {Slice("2,2:-"), Slice("0,2:0,5"), Slice("0,2:5,5")});
  content.Add("whole", Grid());
  for (const char* name : {"w", "whole"}) {
    for (int64_t n = 1;; ++n) {
      SCOPED_TRACE(absl::StrCat(name, ", allocation ", n));
      CheckpointReaderOptions options;
      const auto allocator = MakeRef<testing::FailingAllocator>(n);
      options.allocator = allocator;
      const OpenFile file(content.Finish(), options);
      ASSERT_OK(file.reader);
      const absl::StatusOr<Tensor> read = file->Read(name);
      if (allocator->calls() < n) {
        EXPECT_OK(read);
        EXPECT_GT(n, 1);
        break;
      }
      EXPECT_THAT(read,
                  StatusIs(Code::kResourceExhausted,
                           AllOf(HasSubstr(absl::StrCat("m.ckpt: tensor \"", name, "\"")), HasSubstr("no memory"))));
    }
  }
}

TEST(V1Reader, ManyPieces) {
  constexpr uint64_t kPieces = 1 << 14;
  std::string listed = BytesField(1, "x") + testing::ShapeField({kPieces}) + VarintField(3, 4);
  for (uint64_t i = 0; i < kPieces; ++i) listed += BytesField(4, Extent(i, 1));
  const std::string list = List(BytesField(1, listed));
  CheckpointReaderOptions options;
  EXPECT_OK(OpenFile(Content{{"", list}}, options).reader);
  options.limits.max_memory_beyond_input = 1 << 20;
  EXPECT_THAT(OpenFile(Content{{"", list}}, options).reader,
              StatusIs(Code::kResourceExhausted, HasSubstr("max_memory_beyond_input is 1048576")));
}

// The key of each piece has the name of the tensor in it.
TEST(V1Reader, ManyPiecesOfALongName) {
  constexpr uint64_t kPieces = 4096;
  std::string listed = BytesField(1, std::string(60'000, 'x')) + testing::ShapeField({kPieces}) + VarintField(3, 4);
  for (uint64_t i = 0; i < kPieces; ++i) listed += BytesField(4, Extent(i, 1));
  EXPECT_THAT(OpenFile(Content{{"", List(BytesField(1, listed))}}).reader,
              StatusIs(Code::kResourceExhausted, HasSubstr("max_memory_beyond_input")));
}

// Every byte of each message in turn, with checksums that are right: read or refused, and what is read is as large as
// it should be.
TEST(V1Reader, HostileMessages) {
  V1Content content;
  content.Add("w", Grid(), {Slice("0,2:-"), Slice("2,2:-")});
  content.Add("s", Tensor::FromValues<std::string>({"one", "two"}));
  const Content good = content.Finish();
  int refused = 0;
  for (const auto& [key, value] : good) {
    for (size_t at = 0; at < value.size(); ++at) {
      for (const int change : {0x01, 0x02, 0x08, 0x7f, 0x80, 0xff}) {
        Content bad = good;
        bad[key][at] = static_cast<char>(value[at] ^ change);
        const OpenFile file(bad);
        const auto is_clean = ::testing::AnyOf(Code::kOk, Code::kDataLoss, Code::kResourceExhausted,
                                               Code::kUnimplemented, Code::kNotFound);
        EXPECT_THAT(file.reader.status().code(), is_clean);
        if (!file.reader.ok()) {
          ++refused;
          continue;
        }
        EXPECT_OK(file->VerifyAll(/*verify_bundle=*/nullptr, [&refused](const CheckpointDamage&) { ++refused; }));
        for (const std::string name : {"w", "s"}) {
          const absl::StatusOr<Tensor> tensor = file->Read(name);
          EXPECT_THAT(tensor.status().code(), is_clean);
          if (tensor.ok()) {
            EXPECT_LE(tensor->num_elements(), 40);
          }
        }
      }
    }
  }
  EXPECT_GT(refused, 500);
}

// Every byte of a file is under a checksum, or in the footer.
TEST(V1Reader, DamagedFiles) {
  V1Content content;
  content.Add("w", Grid());
  const std::string good = IndexOf(content.Finish());
  for (size_t at = 0; at < good.size(); ++at) {
    std::string bytes = good;
    bytes[at] = static_cast<char>(bytes[at] ^ 1);
    const OpenFile file(bytes);
    if (!file.reader.ok()) {
      EXPECT_THAT(file.reader, StatusIs(Code::kDataLoss)) << at;
    } else {
      EXPECT_THAT(DamageOf(*file, 0), SizeIs(1)) << at;
    }
  }
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_THAT(OpenFile(good.substr(0, size)).reader, StatusIs(Code::kDataLoss)) << size;
  }
}

}  // namespace
}  // namespace tensorcask
