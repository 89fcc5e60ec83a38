// What the writer adds to TensorFlow's plain entries: metadata, extension-only tensors, pieces; compared with files
// that the test makes with protobuf's generated classes.

#include <cstdint>
#include <initializer_list>
#include <map>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/proto/checkpoint.pb.h"
#include "tensorcask/proto/tensor.pb.h"
#include "tensorcask/serialize/checkpoint/checkpoint_writer.h"
#include "tensorcask/serialize/checkpoint/format/slice_key.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/serialize/wire/tensor_codec.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/metadata.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/serialize/checkpoint/checkpoint_testing.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::BytesOf;
using ::tensorcask::testing::EntryOf;
using ::tensorcask::testing::IndexOf;
using ::tensorcask::testing::StatusIs;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Code = absl::StatusCode;

constexpr char kIndex[] = "/m.index";
constexpr char kData[] = "/m.data-00000-of-00001";

// With alignment 1 the index has blocks as large as those of IndexOf.
absl::StatusOr<CheckpointWriter> WriterTo(MemoryFileSystem* files, int num_shards = 1) {
  CheckpointWriterOptions options;
  options.file_system = files;
  options.alignment = 1;
  options.num_shards = num_shards;
  return CheckpointWriter::Create("/m", options);
}

// An index of these values, with the header of a checkpoint that TensorFlow refuses or takes.
std::string Index(bool requires_reader_v2, const std::map<std::string, BundleEntryProto>& entries, int num_shards = 1) {
  BundleHeaderProto header;
  header.set_num_shards(num_shards);
  header.mutable_version()->set_producer(1);
  if (requires_reader_v2) {
    header.mutable_version()->set_min_consumer(2);
    header.mutable_extension()->set_reader_version(2);
  }
  std::map<std::string, std::string> content = {{"", header.SerializeAsString()}};
  for (const auto& [name, entry] : entries) content[name] = entry.SerializeAsString();
  return IndexOf(content);
}

TensorMetadata SomeMetadata() {
  TensorMetadata metadata;
  metadata.name = "other name";
  metadata.device = {DeviceType::kCuda, 1};
  metadata.requires_grad = true;
  metadata.attributes["unit"] = "m/s";
  metadata.attributes["a"] = std::string("\0\xff", 2);
  return metadata;
}

// The extension of SomeMetadata, without a dtype.
TensorExtension ExtensionOfSomeMetadata() {
  TensorExtension extension;
  extension.set_name("other name");
  extension.set_device("cuda:1");
  extension.set_requires_grad(true);
  extension.add_attributes()->set_key("a");
  extension.mutable_attributes(0)->set_value(std::string("\0\xff", 2));
  extension.add_attributes()->set_key("unit");
  extension.mutable_attributes(1)->set_value("m/s");
  return extension;
}

TEST(WriterForms, MetadataTravelsInTheExtension) {
  const Tensor tensor = Tensor::FromValues<float>({1, 2, 3});
  MemoryFileSystem files;
  ASSERT_OK_AND_ASSIGN(CheckpointWriter writer, WriterTo(&files));
  CheckpointAddOptions add;
  add.metadata = SomeMetadata();
  ASSERT_OK(writer.Add("w", tensor, add));
  add.metadata = TensorMetadata();  // may be changed, and says nothing
  ASSERT_OK(writer.Add("x", tensor, add));
  ASSERT_OK(writer.Finish());

  const std::string elements(tensor.bytes());
  BundleEntryProto with = EntryOf(1, {3}, elements);
  *with.mutable_extension() = ExtensionOfSomeMetadata();
  EXPECT_EQ(BytesOf(files, kIndex),
            Index(/*requires_reader_v2=*/false, {{"w", with}, {"x", EntryOf(1, {3}, elements, 12)}}));
}

struct LayoutCase {
  const char* name;
  TensorView view;
  bool extension_only;
};

// Each exactly as the message of the same tensor has it.
TEST(WriterForms, ExtensionOnlyAsInMessages) {
  const TensorView whole = Tensor::FromValues<int16_t>({{1, 2, 3, 4}, {5, 6, 7, 8}, {9, 10, 11, 12}});
  ASSERT_OK_AND_ASSIGN(const Tensor own, Tensor::Zeros(DType::kFloat8E8m0fnu, TensorShape({2, 3})));
  const LayoutCase kCases[] = {
      {"row-major", whole, false},
      {"transposed", *whole.Transpose(0, 1), true},
      {"flipped", *whole.Flip({0}), true},
      {"gaps", *whole.Slice(1, 0, 4, 2), false},
      {"gaps, transposed", *whole.Slice(1, 0, 4, 2)->Transpose(0, 1), true},
      {"repeated", *whole.Narrow(0, 1, 1)->Expand({5, 4}), false},
      {"empty", *whole.Narrow(0, 1, 0)->Transpose(0, 1), false},
      {"own dtype", own, true},
      {"own dtype, transposed", *TensorView(own).Transpose(0, 1), true},
  };
  for (const LayoutCase& row : kCases) {
    SCOPED_TRACE(row.name);
    CheckpointAddOptions add;
    add.layout = StoredLayout::kPreserve;
    add.metadata.name = "n";
    MemoryFileSystem files;
    ASSERT_OK_AND_ASSIGN(CheckpointWriter writer, WriterTo(&files));
    ASSERT_OK(writer.Add("w", row.view, add));
    ASSERT_OK(writer.Finish());

    EncodeOptions encode;
    encode.layout = StoredLayout::kPreserve;
    TensorProto message;
    ASSERT_OK(EncodeTensor(row.view, add.metadata, encode, &message));
    EXPECT_EQ(BytesOf(files, kData), message.tensor_content());
    const auto dims = row.view.dims();
    BundleEntryProto entry = EntryOf(message.dtype(), {dims.begin(), dims.end()}, message.tensor_content());
    *entry.mutable_extension() = message.extension();
    EXPECT_EQ(entry.dtype() == 0, row.extension_only);
    EXPECT_EQ(BytesOf(files, kIndex), Index(row.extension_only, {{"w", entry}}));
  }
}

TEST(WriterForms, StringsKeepNoLayout) {
  ASSERT_OK_AND_ASSIGN(const TensorView columns,
                       TensorView(Tensor::FromValues<std::string>({{"a", "bc"}, {"", "d"}})).Transpose(0, 1));
  MemoryFileSystem preserved;
  MemoryFileSystem dense;
  for (MemoryFileSystem* const files : {&preserved, &dense}) {
    CheckpointAddOptions add;
    if (files == &preserved) add.layout = StoredLayout::kPreserve;
    ASSERT_OK_AND_ASSIGN(CheckpointWriter writer, WriterTo(files));
    ASSERT_OK(writer.Add("w", columns, add));
    ASSERT_OK(writer.Finish());
  }
  EXPECT_EQ(BytesOf(preserved, kIndex), BytesOf(dense, kIndex));
  EXPECT_EQ(BytesOf(preserved, kData), BytesOf(dense, kData));
}

// ---- Pieces ---------------------------------------------------------------------------------------------------------

TensorSlice Slice(absl::string_view text) { return *TensorSlice::Parse(text); }

TEST(WriterForms, PiecesAsTensorFlowStoresThem) {
  const Tensor upper = Tensor::FromValues<int32_t>({{1, 2, 3}});
  const Tensor lower = Tensor::FromValues<int32_t>({{4, 5, 6}, {7, 8, 9}});
  ASSERT_OK_AND_ASSIGN(const TensorView column, TensorView(lower).Narrow(1, 2, 1));
  MemoryFileSystem files;
  ASSERT_OK_AND_ASSIGN(CheckpointWriter writer, WriterTo(&files, 2));
  CheckpointAddOptions add;
  add.shard = 1;
  add.metadata = SomeMetadata();
  add.metadata.requires_grad = false;
  const TensorShape shape({3, 3});
  ASSERT_OK(writer.AddSlice("w", shape, Slice("1,2:2,1"), column, add));
  add.metadata = TensorMetadata();
  add.layout = StoredLayout::kPreserve;  // pieces do not keep it
  ASSERT_OK_AND_ASSIGN(const TensorView left, TensorView(lower).Narrow(1, 0, 2));
  ASSERT_OK(writer.AddSlice("w", shape, Slice("1,2:0,2"), *left.Contiguous(MemoryFormat::kContiguous), add));
  add.shard = 0;
  ASSERT_OK(writer.AddSlice("w", shape, Slice("0,1:-"), upper, add));
  ASSERT_OK(writer.Add("v", upper, add));
  ASSERT_OK(writer.Finish());

  const auto bytes_of = [](std::initializer_list<int32_t> values) {
    return std::string(reinterpret_cast<const char*>(values.begin()), values.size() * sizeof(int32_t));
  };
  const std::string shard0 = bytes_of({1, 2, 3, 1, 2, 3});
  const std::string shard1 = bytes_of({6, 9, 4, 5, 7, 8});
  EXPECT_EQ(BytesOf(files, "/m.data-00000-of-00002"), shard0);
  EXPECT_EQ(BytesOf(files, "/m.data-00001-of-00002"), shard1);

  BundleEntryProto whole;
  whole.set_dtype(DT_INT32);
  whole.mutable_shape()->add_dim()->set_size(3);
  whole.mutable_shape()->add_dim()->set_size(3);
  for (const auto& [rows, columns] : std::vector<std::pair<std::pair<int, int>, std::pair<int, int>>>{
           {{1, 2}, {2, 1}}, {{1, 2}, {0, 2}}, {{0, 1}, {-1, -1}}}) {
    TensorSliceProto* const slice = whole.add_slices();
    for (const auto& [start, length] : {rows, columns}) {
      TensorSliceProto::Extent* const extent = slice->add_extent();
      if (start < 0) continue;
      extent->set_start(start);
      extent->set_length(length);
    }
  }
  *whole.mutable_extension() = ExtensionOfSomeMetadata();
  whole.mutable_extension()->set_requires_grad(false);
  std::map<std::string, BundleEntryProto> entries = {
      {"w", whole},
      {checkpoint::EncodeSliceKey("w", Slice("1,2:2,1")), EntryOf(3, {2, 1}, shard1.substr(0, 8))},
      {checkpoint::EncodeSliceKey("w", Slice("1,2:0,2")), EntryOf(3, {2, 2}, shard1.substr(8), 8)},
      {checkpoint::EncodeSliceKey("w", Slice("0,1:-")), EntryOf(3, {1, 3}, shard0.substr(0, 12))},
      {"v", EntryOf(3, {1, 3}, shard0.substr(12), 12)}};
  entries[checkpoint::EncodeSliceKey("w", Slice("1,2:2,1"))].set_shard_id(1);
  entries[checkpoint::EncodeSliceKey("w", Slice("1,2:0,2"))].set_shard_id(1);
  EXPECT_EQ(BytesOf(files, kIndex), Index(/*requires_reader_v2=*/false, entries, 2));
}

TEST(WriterForms, PiecesOfOwnDTypesAreExtensionOnly) {
  MemoryFileSystem files;
  ASSERT_OK_AND_ASSIGN(CheckpointWriter writer, WriterTo(&files));
  const Tensor piece = *Tensor::Zeros(DType::kFloat8E8m0fnu, TensorShape({2}));
  ASSERT_OK(writer.AddSlice("w", TensorShape({3}), Slice("1,2"), piece));
  ASSERT_OK(writer.Finish());

  const int number = DTypeNumber(DType::kFloat8E8m0fnu);
  BundleEntryProto whole;
  whole.mutable_shape()->add_dim()->set_size(3);
  whole.add_slices()->add_extent()->set_start(1);
  whole.mutable_slices(0)->mutable_extent(0)->set_length(2);
  whole.mutable_extension()->set_dtype(number);
  BundleEntryProto part = EntryOf(0, {2}, std::string(2, '\0'));
  part.mutable_extension()->set_dtype(number);
  EXPECT_EQ(BytesOf(files, kIndex),
            Index(/*requires_reader_v2=*/true, {{"w", whole}, {checkpoint::EncodeSliceKey("w", Slice("1,2")), part}}));
}

TEST(WriterForms, APieceThatIsTheWholeIsATensor) {
  const Tensor tensor = Tensor::FromValues<float>({{1, 2}, {3, 4}});
  const Tensor scalar = Tensor::Scalar<float>(5);
  MemoryFileSystem plain;
  ASSERT_OK_AND_ASSIGN(CheckpointWriter expected, WriterTo(&plain));
  CheckpointAddOptions add;
  add.metadata = SomeMetadata();
  ASSERT_OK(expected.Add("a", tensor, add));
  ASSERT_OK(expected.Add("b", tensor));
  ASSERT_OK(expected.Add("c", scalar));
  ASSERT_OK(expected.Finish());

  MemoryFileSystem files;
  ASSERT_OK_AND_ASSIGN(CheckpointWriter writer, WriterTo(&files));
  ASSERT_OK(writer.AddSlice("a", tensor.shape(), Slice("-:-"), tensor, add));
  ASSERT_OK(writer.AddSlice("b", tensor.shape(), Slice("0,2:-"), tensor));
  ASSERT_OK(writer.AddSlice("c", TensorShape(), Slice(""), scalar));
  ASSERT_OK(writer.Finish());
  EXPECT_EQ(BytesOf(files, kIndex), BytesOf(plain, kIndex));
  EXPECT_EQ(BytesOf(files, kData), BytesOf(plain, kData));
}

// ---- What is refused ------------------------------------------------------------------------------------------------

struct Piece {
  std::string name;
  std::vector<int64_t> full_shape;
  std::string slice;  // "" and rank above 0: Add
  Tensor tensor;
  TensorMetadata metadata = {};
};
struct PieceCase {
  const char* name;
  Piece piece;  // after "whole", float32 [2], and "cut", float32 [4,2], of which 1,2:- is there
  Code code;
  const char* says;
};
void PrintTo(const PieceCase& test_case, std::ostream* os) { *os << test_case.name; }
class PieceRejects : public ::testing::TestWithParam<PieceCase> {};

TEST_P(PieceRejects, ForGood) {
  MemoryFileSystem files;
  {
    ASSERT_OK_AND_ASSIGN(CheckpointWriter writer, WriterTo(&files));
    const Tensor two = *Tensor::Zeros(DType::kFloat32, TensorShape({2, 2}));
    ASSERT_OK(writer.Add("whole", Tensor::FromValues<float>({1, 2})));
    ASSERT_OK(writer.AddSlice("cut", TensorShape({4, 2}), Slice("1,2:-"), two));
    const Piece& piece = GetParam().piece;
    ASSERT_OK_AND_ASSIGN(const TensorShape full, TensorShape::Create(piece.full_shape));
    CheckpointAddOptions add;
    add.metadata = piece.metadata;
    const absl::Status refused = piece.slice.empty()
                                     ? writer.Add(piece.name, piece.tensor, add)
                                     : writer.AddSlice(piece.name, full, Slice(piece.slice), piece.tensor, add);
    EXPECT_THAT(refused, StatusIs(GetParam().code, HasSubstr(GetParam().says)));
    EXPECT_EQ(writer.AddSlice("good", TensorShape({4, 2}), Slice("1,2:-"), two), refused);
    EXPECT_EQ(writer.Finish(), refused);
  }
  EXPECT_THAT(files.Paths(), IsEmpty());
  EXPECT_EQ(files.open_handles(), 0u);
}

Tensor Floats(std::initializer_list<int64_t> dims) { return *Tensor::Zeros(DType::kFloat32, TensorShape(dims)); }
TensorMetadata Grad() {
  TensorMetadata metadata;
  metadata.requires_grad = true;
  return metadata;
}
TensorMetadata ChannelsLast() {
  TensorMetadata metadata;
  metadata.memory_format = MemoryFormat::kChannelsLast2d;
  return metadata;
}

INSTANTIATE_TEST_SUITE_P(
    Pieces, PieceRejects,
    ::testing::Values(
        PieceCase{
            "PieceOfAWhole", {"whole", {2}, "0,1", Floats({1})}, Code::kAlreadyExists, "\"whole\" was added before"},
        PieceCase{
            "WholeOfPieces", {"cut", {4, 2}, "", Floats({4, 2})}, Code::kAlreadyExists, "\"cut\" was added before"},
        PieceCase{"WholePieceOfPieces",
                  {"cut", {4, 2}, "0,4:-", Floats({4, 2})},
                  Code::kAlreadyExists,
                  "\"cut\" was added before"},
        PieceCase{"OtherShape", {"cut", {5, 2}, "4,1:-", Floats({1, 2})}, Code::kInvalidArgument, "[5,2]"},
        PieceCase{"OtherDType",
                  {"cut", {4, 2}, "0,1:-", Tensor::FromValues<double>({{1, 2}})},
                  Code::kInvalidArgument,
                  "float64"},
        PieceCase{"PieceOfOtherShape", {"cut", {4, 2}, "0,1:-", Floats({2, 2})}, Code::kInvalidArgument, "[2,2]"},
        PieceCase{"OtherRank", {"cut", {4, 2}, "0,1", Floats({1, 2})}, Code::kInvalidArgument, "rank"},
        PieceCase{"Twice", {"cut", {4, 2}, "1,2:-", Floats({2, 2})}, Code::kInvalidArgument, "tensor \"cut\": "},
        PieceCase{"Overlap", {"cut", {4, 2}, "2,2:1,1", Floats({2, 1})}, Code::kInvalidArgument, "2,2:1,1"},
        PieceCase{"Outside", {"cut", {4, 2}, "3,2:-", Floats({2, 2})}, Code::kOutOfRange, "reaches past 4"},
        PieceCase{"FirstPieceOutside", {"new", {4}, "3,2", Floats({2})}, Code::kOutOfRange, "reaches past 4"},
        PieceCase{"EmptyName", {"", {4}, "0,2", Floats({2})}, Code::kInvalidArgument, "name is empty"},
        PieceCase{"GradientOfIntegers",
                  {"new", {}, "", Tensor::Scalar<int32_t>(1), Grad()},
                  Code::kInvalidArgument,
                  "requires_grad is for floating"},
        PieceCase{"GradientOfAPieceOfIntegers",
                  {"new", {4}, "0,1", Tensor::FromValues<int32_t>({1}), Grad()},
                  Code::kInvalidArgument,
                  "requires_grad"},
        PieceCase{"ChannelsOfAMatrix",
                  {"new", {}, "", Floats({2, 2}), ChannelsLast()},
                  Code::kInvalidArgument,
                  "is for rank 4"}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tensorcask
