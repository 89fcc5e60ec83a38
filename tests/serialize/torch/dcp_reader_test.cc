// Distributed checkpoints, whole and damaged.

#include "tensorcask/serialize/torch/dcp_reader.h"

#include <sys/resource.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/serialize/io/element_stream.h"
#include "tensorcask/serialize/io/listing_budget.h"
#include "tensorcask/serialize/values/value_json.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/compare.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/serialize/torch/dcp_testing.h"
#include "tensorcask/tests/support/status_matchers.h"
#include "tensorcask/tests/support/temp_folder.h"
#include "zstd.h"

namespace tensorcask::torch::testing {
namespace {

using tensorcask::testing::StatusIs;
using tensorcask::testing::TempFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Code = absl::StatusCode;
using Elements = tensorcask::Tensor;

std::string Floats(const std::vector<int>& numbers) {
  std::string bytes;
  for (const int number : numbers) bytes += Bytes(static_cast<float>(number));
  return bytes;
}

std::vector<float> Numbers(const absl::StatusOr<Elements>& tensor) {
  if (!tensor.ok()) {
    ADD_FAILURE() << tensor.status();
    return {};
  }
  return std::vector<float>(tensor->data<float>(), tensor->data<float>() + tensor->num_elements());
}

// "rows" is float32 [3,2] in two files, "columns" float32 [2,3] in two boxes, both 0, 1, 2, ...
DcpBuilder TwoRanks() {
  DcpBuilder builder;
  builder.AddTensor("rows", "float32", {3, 2}, {{{2, 0}, {1, 2}, "__1_0.distcp"}, {{0, 0}, {2, 2}, "__0_0.distcp"}},
                    Floats({4, 5, 0, 1, 2, 3}));
  builder.AddTensor("columns", "float32", {2, 3}, {{{0, 0}, {2, 2}, "__0_0.distcp"}, {{0, 2}, {2, 1}, "__1_0.distcp"}},
                    Floats({0, 1, 3, 4, 2, 5}));
  builder.AddTensor("scalar", "float32", {}, {{{}, {}}}, Floats({7}));
  builder.AddTensor("empty", "float32", {0, 3}, {{{0, 0}, {0, 3}}}, "");
  builder.AddValue("optim.param_groups.0.lr", Float(0.5), {Text("optim"), Text("param_groups"), Int(0), Text("lr")});
  builder.AddValue("epoch", Int(3), {Text("epoch")}, "__1_0.distcp");
  return builder;
}

std::vector<std::string> Damage(const DcpReader& reader) {
  std::vector<std::string> found;
  EXPECT_OK(reader.VerifyAll([&](const TorchDamage& damage) { found.push_back(damage.tensor); }));
  return found;
}

std::string Json(const DcpReader& reader) {
  const absl::StatusOr<ValueTree> values = reader.Values();
  if (!values.ok()) return std::string(values.status().message());
  ValueJsonOptions options;
  options.tensor_name = [&](uint64_t number) { return reader.entries()[number].name; };
  return *ValueToJson(values->root(), options);
}

TEST(DcpReaderTest, TensorsOfAllRanksAreOnePiece) {
  const TempFolder folder;
  TwoRanks().WriteTo(folder);
  for (const std::string& path : {folder.path(), folder.path() + "/", folder.Path(".metadata")}) {
    ASSERT_OK_AND_ASSIGN(const DcpReader reader, DcpReader::Open(path));
    EXPECT_THAT(Numbers(reader.Read("rows")), ElementsAre(0, 1, 2, 3, 4, 5));
    EXPECT_THAT(Numbers(reader.Read("columns")), ElementsAre(0, 1, 2, 3, 4, 5));
    EXPECT_THAT(Numbers(reader.Read("scalar")), ElementsAre(7));
    EXPECT_THAT(Numbers(reader.Read("empty")), IsEmpty());
    EXPECT_THAT(Damage(reader), IsEmpty());
    EXPECT_THAT(reader.Read("other"), StatusIs(Code::kNotFound, HasSubstr("no tensor \"other\"")));
  }
}

TEST(DcpReaderTest, ATensorOfOneBoxIsMapped) {
  const TempFolder folder;
  DcpBuilder builder = TwoRanks();
  builder.AddTensor("bytes", "uint8", {2, 1}, {{{0, 0}, {2, 1}}}, "ab", "ByteStorage", 1);  // aligned anywhere
  builder.WriteTo(folder);
  ASSERT_OK_AND_ASSIGN(const DcpReader reader, DcpReader::Open(folder.path()));
  for (const DcpEntry& entry : reader.entries()) {
    ASSERT_OK_AND_ASSIGN(const Elements mapped, reader.Map(entry.name));
    ASSERT_OK_AND_ASSIGN(const Elements read, reader.Read(entry.name));
    EXPECT_EQ(mapped.bytes(), read.bytes()) << entry.name;
    const bool is_mapped = mapped.buffer() != nullptr && mapped.buffer()->root()->kind() == TensorBuffer::Kind::kMapped;
    if (entry.name == "bytes") {
      EXPECT_TRUE(is_mapped);
    }
    if (entry.boxes > 1) {
      EXPECT_FALSE(is_mapped) << entry.name;
    }
  }
  EXPECT_THAT(reader.Map("other"), StatusIs(Code::kNotFound, HasSubstr("no tensor \"other\"")));
}

TEST(DcpReaderTest, SlicesAreReadFromTheBoxesTheyMeet) {
  const TempFolder folder;
  TwoRanks().WriteTo(folder);
  ASSERT_OK_AND_ASSIGN(const DcpReader reader, DcpReader::Open(folder.path()));
  EXPECT_THAT(Numbers(reader.ReadSlice("rows", *TensorSlice::Parse("1,2:1,1"))), ElementsAre(3, 5));
  EXPECT_THAT(Numbers(reader.ReadSlice("columns", *TensorSlice::Parse("1,1:1,2"))), ElementsAre(4, 5));
  EXPECT_THAT(reader.ReadSlice("rows", *TensorSlice::Parse("1,3:-")), StatusIs(Code::kOutOfRange));
  // One file is gone: what the other has is read.
  std::filesystem::remove(folder.Path("__1_0.distcp"));
  EXPECT_THAT(Numbers(reader.ReadSlice("rows", *TensorSlice::Parse("0,2:-"))), ElementsAre(0, 1, 2, 3));
}

TEST(DcpReaderTest, ReadsIntoStridedMemory) {
  const TempFolder folder;
  TwoRanks().WriteTo(folder);
  ASSERT_OK_AND_ASSIGN(const DcpReader reader, DcpReader::Open(folder.path()));
  for (const char* const name : {"rows", "columns"}) {
    ASSERT_OK_AND_ASSIGN(const Elements whole, reader.Read(name));
    ASSERT_OK_AND_ASSIGN(Elements memory, Elements::Create(DType::kFloat32, TensorShape({whole.dim(1), whole.dim(0)})));
    ASSERT_OK(memory.EnsureMutable());
    ASSERT_OK_AND_ASSIGN(TensorView out, TensorView(memory).Transpose(0, 1));
    ASSERT_OK(reader.ReadInto(name, &out));
    EXPECT_TRUE(Equal(out, whole)) << name;
  }
}

TEST(DcpReaderTest, StreamsAreTheElementsInOrder) {
  const TempFolder folder;
  TwoRanks().WriteTo(folder);
  ASSERT_OK_AND_ASSIGN(const DcpReader reader, DcpReader::Open(folder.path()));
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ElementStream> stream, reader.OpenStream("rows"));
  ASSERT_NE(stream, nullptr);
  std::vector<float> elements(6);
  char* const bytes = reinterpret_cast<char*>(elements.data());
  ASSERT_OK(stream->Read(absl::MakeSpan(bytes, 12)));
  ASSERT_OK(stream->Read(absl::MakeSpan(bytes + 12, 12)));
  EXPECT_THAT(elements, ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(stream->Read(absl::MakeSpan(bytes, 4)), StatusIs(Code::kInvalidArgument, HasSubstr("fewer")));
  EXPECT_OK(stream->Finish());
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ElementStream> none, reader.OpenStream("columns"));
  EXPECT_EQ(none, nullptr);
}

TEST(DcpReaderTest, ValuesAreNestedAsTheyWereSaved) {
  const TempFolder folder;
  DcpBuilder builder = TwoRanks();
  builder.entry("rows").path = {Text("model"), Text("rows")};
  builder.AddValue("optim.param_groups.1.lr", Float(0.25), {Text("optim"), Text("param_groups"), Int(1), Text("lr")});
  builder.AddValue("holes.1", Bool(true), {Text("holes"), Int(1)});
  builder.WriteTo(folder);
  ASSERT_OK_AND_ASSIGN(const DcpReader reader, DcpReader::Open(folder.path()));
  EXPECT_EQ(Json(reader),
            "{\"columns\":{\"tensor\":\"columns\"},\"empty\":{\"tensor\":\"empty\"},\"model\":{\"rows\":{\"tensor\":"
            "\"rows\"}},\"scalar\":{\"tensor\":\"scalar\"},\"optim\":{\"param_groups\":[{\"lr\":0.5},{\"lr\":0.25}]},"
            "\"epoch\":3,\"holes\":{\"1\":true}}");
}

TEST(DcpReaderTest, PathsThatMeetHideNothing) {
  const TempFolder folder;
  DcpBuilder builder;
  builder.AddValue("a", Int(1), {Text("a")});
  builder.AddValue("a.b", Int(2), {Text("a"), Text("b")});
  builder.AddValue("c", Int(3), {Text("a")});
  builder.WriteTo(folder);
  ASSERT_OK_AND_ASSIGN(const DcpReader reader, DcpReader::Open(folder.path()));
  EXPECT_EQ(Json(reader), "{\"a\":1,\"a.b\":2,\"c\":3}");
}

TEST(DcpReaderTest, TensorsInAValueAreListed) {
  const TempFolder folder;
  DcpBuilder builder = TwoRanks();
  builder.AddValue("extra", Dict({{Text("t"), Tensor(Storage("FloatStorage", "0", 2), 0, {2}, {1})}}), {},
                   "__0_0.distcp", {{"0", Floats({8, 9})}});
  builder.WriteTo(folder);
  ASSERT_OK_AND_ASSIGN(const DcpReader reader, DcpReader::Open(folder.path()));
  EXPECT_THAT(Numbers(reader.Read("extra.t")), ElementsAre(8, 9));
  EXPECT_THAT(Json(reader), HasSubstr("\"extra\":{\"t\":{\"tensor\":\"extra.t\"}}"));
}

TEST(DcpReaderTest, TheCommonFileOfMegatronIsAValue) {
  const TempFolder folder;
  TwoRanks().WriteTo(folder);
  folder.Write("common.pt", TorchZip(Dict({{Text("iteration"), Int(12)}}), {}));
  ASSERT_OK_AND_ASSIGN(const DcpReader reader, DcpReader::Open(folder.path()));
  EXPECT_THAT(Json(reader), HasSubstr("\"common.pt\":{\"iteration\":12}"));
}

std::string Zstd(const std::string& bytes) {
  std::string frame(ZSTD_compressBound(bytes.size()), '\0');
  frame.resize(ZSTD_compress(frame.data(), frame.size(), bytes.data(), bytes.size(), 3));
  return frame;
}

// The items of `name` in a file of their own.
void Compress(DcpBuilder* builder, const std::string& name) {
  for (DcpBox& box : builder->boxes(name)) {
    const std::string item = builder->files[box.place.file].substr(static_cast<size_t>(box.place.offset),
                                                                   static_cast<size_t>(box.place.length));
    box.place = builder->AddItem("__2_0.distcp", Zstd(item));
    box.place.transforms = {"stream.zstd/1"};
  }
}

TEST(DcpReaderTest, CompressedItemsAreDecoded) {
  const TempFolder folder;
  DcpBuilder builder = TwoRanks();
  Compress(&builder, "rows");
  Compress(&builder, "columns");
  builder.WriteTo(folder);
  ASSERT_OK_AND_ASSIGN(const DcpReader reader, DcpReader::Open(folder.path()));
  EXPECT_THAT(Numbers(reader.Read("rows")), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(Numbers(reader.ReadSlice("columns", *TensorSlice::Parse("1,1:1,2"))), ElementsAre(4, 5));
  EXPECT_THAT(Damage(reader), IsEmpty());
}

TEST(DcpReaderTest, CompressedItemsHaveLimits) {
  const TempFolder folder;
  DcpBuilder builder;
  const std::string zeros(size_t{4} << 20, '\0');
  builder.AddTensor("w", "float32", {1 << 20}, {{{0}, {1 << 20}}}, zeros);
  Compress(&builder, "w");
  builder.WriteTo(folder);
  TorchReaderOptions options;
  options.limits.max_expansion = 100;
  ASSERT_OK_AND_ASSIGN(const DcpReader reader, DcpReader::Open(folder.path(), options));
  EXPECT_THAT(reader.Read("w"), StatusIs(Code::kResourceExhausted, HasSubstr("max_expansion")));
  options.limits.max_expansion = 100000;
  ASSERT_OK_AND_ASSIGN(const DcpReader generous, DcpReader::Open(folder.path(), options));
  EXPECT_OK(generous.Read("w").status());
}

// 40 values of 1 MiB, each of which is a few KiB in the file.
TEST(DcpReaderTest, AllCompressedValuesHaveOneLimit) {
  constexpr int kValues = 40;
  const TempFolder folder;
  DcpBuilder builder;
  const std::string value =
      Zstd(TorchZip(Dict({{Text("t"), Tensor(Storage("ByteStorage", "0", 1 << 20), 0, {1}, {1})}}),
                    {{"0", std::string(1 << 20, '\0')}}));
  for (int i = 0; i < kValues; ++i) {
    DcpBuilder::Entry& entry = builder.AddValue(absl::StrCat("v", i), Int(0));
    entry.place = builder.AddItem("__0_0.distcp", value);
    entry.place.transforms = {"stream.zstd/1"};
  }
  builder.WriteTo(folder);
  TorchReaderOptions options;
  options.limits.max_expansion = 1 << 20;
  options.limits.max_memory_beyond_input = 4 << 20;
  options.listing = std::make_shared<ListingBudget>(DecodeLimits());
  ASSERT_OK_AND_ASSIGN(const DcpReader reader, DcpReader::Open(folder.path(), options));
  const auto readable = std::count_if(reader.entries().begin(), reader.entries().end(),
                                      [](const DcpEntry& entry) { return entry.read_status.ok(); });
  EXPECT_EQ(readable, 4);
  EXPECT_THAT(reader.Read("v9").status(), StatusIs(Code::kResourceExhausted, HasSubstr("max_memory_beyond_input")));
  options.limits = DecodeLimits();
  options.limits.max_expansion = 1 << 20;
  ASSERT_OK_AND_ASSIGN(const DcpReader generous, DcpReader::Open(folder.path(), options));
  EXPECT_THAT(Damage(generous), IsEmpty());
}

TEST(DcpReaderTest, ASliceDoesNotDecodeABoxPastTheLimit) {
  const TempFolder folder;
  DcpBuilder builder;
  constexpr int kSide = 1 << 9;
  builder.AddTensor("columns", "float32", {kSide, 2 * kSide}, {{{0, 0}, {kSide, kSide}}, {{0, kSide}, {kSide, kSide}}},
                    std::string(size_t{8} * kSide * kSide, '\0'));
  builder.AddTensor("rows", "float32", {2 * kSide, kSide}, {{{0, 0}, {kSide, kSide}}, {{kSide, 0}, {kSide, kSide}}},
                    std::string(size_t{8} * kSide * kSide, '\0'));
  builder.AddTensor("plain", "float32", {1, 2}, {{{0, 0}, {1, 1}}, {{0, 1}, {1, 1}}}, Floats({0, 1}));
  Compress(&builder, "columns");
  Compress(&builder, "rows");
  builder.WriteTo(folder);
  TorchReaderOptions options;
  options.limits.max_expansion = 1 << 20;
  options.limits.max_memory_beyond_input = 1 << 18;
  options.listing = std::make_shared<ListingBudget>(DecodeLimits());
  ASSERT_OK_AND_ASSIGN(const DcpReader reader, DcpReader::Open(folder.path(), options));
  EXPECT_THAT(reader.ReadSlice("rows", *TensorSlice::Parse("0,1:0,1")).status(),
              StatusIs(Code::kResourceExhausted, HasSubstr("max_memory_beyond_input")));
  EXPECT_OK(reader.Read("rows").status());
  // Blocks of columns would decode each box for each block.
  for (const DcpEntry& entry : reader.entries()) EXPECT_EQ(entry.reads_in_blocks, entry.name != "columns");
}

TEST(DcpReaderTest, QuantizersAndParametersAreMetadata) {
  const TempFolder folder;
  DcpBuilder builder;
  const auto quantized = [](double scale) {
    return Call(Global("torch._utils", "_rebuild_qtensor"),
                {Storage("QInt8Storage", "0", 1), Int(0), torch::testing::Numbers({1}), torch::testing::Numbers({1}),
                 Tuple({Global("torch", "per_tensor_affine"), Float(scale), Int(3)}), Bool(false), Hooks()});
  };
  for (const char* const name : {"q", "other"}) {
    builder.AddTensor(name, "qint8", {2}, {{{0}, {1}}, {{1}, {1}}}, "12", "QInt8Storage", 1);
    for (size_t box = 0; box < 2; ++box) {
      const double scale = name[0] == 'o' && box == 1 ? 0.25 : 0.5;
      builder.boxes(name)[box].place = builder.AddItem("__1_0.distcp", TorchZip(quantized(scale), {{"0", "\1"}}));
    }
  }
  builder.AddTensor("w", "float32", {1}, {{{0}, {1}}}, Floats({1})).requires_grad = true;
  builder.AddTensor("frozen", "float32", {1}, {{{0}, {1}}}, Floats({1}));
  builder.AddValue(
      "optim",
      Dict({{Text("q"), quantized(2)},
            {Text("p"), Call(Global("torch._utils", "_rebuild_parameter"),
                             {Tensor(Storage("FloatStorage", "1", 1), 0, {1}, {1}), Bool(true), Hooks()})}}),
      {}, "__0_0.distcp", {{"0", "\1"}, {"1", Floats({1})}});
  builder.WriteTo(folder);
  ASSERT_OK_AND_ASSIGN(const DcpReader reader, DcpReader::Open(folder.path()));
  EXPECT_EQ(reader.Metadata("q")->attributes.at("torch.scale"), "0.5");
  EXPECT_EQ(reader.Metadata("optim.q")->attributes.at("torch.scale"), "2.0");
  EXPECT_THAT(reader.Metadata("other").status(), StatusIs(Code::kUnimplemented, HasSubstr("different scales")));
  EXPECT_TRUE(reader.Metadata("w")->requires_grad);
  EXPECT_TRUE(reader.Metadata("optim.p")->requires_grad);
  EXPECT_FALSE(reader.Metadata("frozen")->requires_grad);
  for (const DcpEntry& entry : reader.entries()) EXPECT_EQ(entry.has_metadata, entry.name != "frozen") << entry.name;
}

// More than may be open at a time.
TEST(DcpReaderTest, ManyFilesAreNotAllOpen) {
  constexpr int kFiles = 300;
  const TempFolder folder;
  DcpBuilder builder;
  std::vector<DcpBox> boxes;
  std::vector<int> numbers;
  for (int i = 0; i < kFiles; ++i) {
    boxes.push_back({{i}, {1}, absl::StrCat("__", i, "_0.distcp")});
    numbers.push_back(i);
    builder.AddValue(absl::StrCat("value.", i), Int(i), {}, absl::StrCat("__", i, "_1.distcp"));
  }
  builder.AddTensor("w", "float32", {kFiles}, boxes, Floats(numbers));
  builder.WriteTo(folder);
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit few = before;
  few.rlim_cur = 128;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  const absl::StatusOr<DcpReader> reader = DcpReader::Open(folder.path());
  EXPECT_OK(reader.status());
  if (reader.ok()) {
    EXPECT_EQ(Numbers(reader->Read("w")), std::vector<float>(numbers.begin(), numbers.end()));
    EXPECT_THAT(Damage(*reader), IsEmpty());
    EXPECT_EQ(reader->files().size(), 2 * kFiles + 1u);
  }
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST(DcpReaderTest, AFileThatIsReplacedIsNotRead) {
  const TempFolder folder;
  DcpBuilder builder = TwoRanks();
  for (int i = 0; i < 100; ++i) builder.AddValue(absl::StrCat("v", i), Int(i), {}, absl::StrCat("__2_", i, ".distcp"));
  builder.WriteTo(folder);
  ASSERT_OK_AND_ASSIGN(const DcpReader reader, DcpReader::Open(folder.path()));
  std::filesystem::rename(folder.Path("__0_0.distcp"), folder.Path("old"));
  folder.Write("__0_0.distcp", builder.files["__0_0.distcp"]);
  EXPECT_THAT(reader.Read("scalar").status(), StatusIs(Code::kDataLoss, HasSubstr("was replaced")));
}

// Links and other spellings of one file.
TEST(DcpReaderTest, AFileHasOneNameUnlessItIsALink) {
  const std::string file = TwoRanks().boxes("rows")[0].place.file;
  for (const std::string& name : {absl::StrCat("./", file), absl::StrCat("x/../", file), absl::StrCat(".//", file),
                                  std::string("link"), std::string("hard")}) {
    const TempFolder folder;
    DcpBuilder builder = TwoRanks();
    builder.boxes("rows")[0].place.file = name;
    builder.WriteTo(folder);
    std::filesystem::create_symlink(file, folder.Path("link"));
    std::filesystem::create_hard_link(folder.Path(file), folder.Path("hard"));
    ASSERT_OK_AND_ASSIGN(const DcpReader reader, DcpReader::Open(folder.path()));
    if (name == "link" || name == "hard") {  // a store may keep equal files once
      EXPECT_OK(reader.Read("rows").status());
    } else {
      EXPECT_THAT(reader.Read("rows"), StatusIs(Code::kDataLoss, HasSubstr("has steps to spare"))) << name;
    }
    EXPECT_THAT(Numbers(reader.Read("columns")), ElementsAre(0, 1, 2, 3, 4, 5));
  }
}

// ---- What is wrong with one tensor ----------------------------------------------------------------------------------

struct DamageCase {
  const char* name;
  std::function<void(DcpBuilder*)> damage;  // to "rows"
  Code code;
  const char* says;
};

class DcpDamage : public ::testing::TestWithParam<DamageCase> {};

TEST_P(DcpDamage, HidesThatTensorAlone) {
  const TempFolder folder;
  DcpBuilder builder = TwoRanks();
  GetParam().damage(&builder);
  builder.WriteTo(folder);
  ASSERT_OK_AND_ASSIGN(const DcpReader reader, DcpReader::Open(folder.path()));
  EXPECT_THAT(reader.Read("rows"), StatusIs(GetParam().code, HasSubstr(GetParam().says)));
  EXPECT_THAT(reader.Read("rows"), StatusIs(GetParam().code, HasSubstr("tensor \"rows\"")));
  EXPECT_THAT(Numbers(reader.Read("columns")), ElementsAre(0, 1, 2, 3, 4, 5));
  const auto rows = std::find_if(reader.entries().begin(), reader.entries().end(),
                                 [](const DcpEntry& entry) { return entry.name == "rows"; });
  if (absl::IsUnimplemented(rows->read_status)) {  // known without its items
    EXPECT_THAT(Damage(reader), IsEmpty());
  } else {
    EXPECT_THAT(Damage(reader), ElementsAre("rows"));
  }
}

const DamageCase kDamages[] = {
    {"Hole", [](DcpBuilder* b) { b->boxes("rows").erase(b->boxes("rows").begin()); }, Code::kDataLoss,
     "element [2,0] is in no box"},
    {"Overlap",
     [](DcpBuilder* b) {
       b->boxes("rows")[0].offsets = {1, 0};
     },
     Code::kDataLoss, "element [1,0] is in 2 boxes"},
    {"Outside",
     [](DcpBuilder* b) {
       b->boxes("rows")[0].offsets = {3, 0};
     },
     Code::kDataLoss, "leaves the shape [3,2]"},
    {"NegativeOffset",
     [](DcpBuilder* b) {
       b->boxes("rows")[0].offsets = {-1, 0};
     },
     Code::kDataLoss, "leaves the shape"},
    {"OtherRank", [](DcpBuilder* b) { b->boxes("rows")[0].offsets = {2}; }, Code::kDataLoss, "rank 2"},
    {"ManyAxes",
     [](DcpBuilder* b) {
       b->entry("rows").size = std::vector<int32_t>(9, 2);
       b->boxes("rows").resize(1);
       b->boxes("rows")[0].offsets = std::vector<int32_t>(9, 0);
       b->boxes("rows")[0].sizes = std::vector<int32_t>(9, 1);
     },
     Code::kResourceExhausted, "divide 9 axes"},
    {"NegativeSize",
     [](DcpBuilder* b) {
       b->entry("rows").size = {-3, 2};
     },
     Code::kDataLoss, "dim 0"},
    {"HugeShape",
     [](DcpBuilder* b) {
       b->entry("rows").size = {INT32_MAX, INT32_MAX, INT32_MAX};
     },
     Code::kDataLoss, ""},
    {"OtherDType", [](DcpBuilder* b) { b->entry("rows").dtype = "int32"; }, Code::kDataLoss, "the metadata says int32"},
    {"OtherShape",
     [](DcpBuilder* b) {
       b->entry("rows").size = {4, 2};
       b->boxes("rows")[0].sizes = {2, 2};
     },
     Code::kDataLoss, "has float32 [1,2]; the metadata says float32 [2,2]"},
    {"MoreElementsThanBytes",
     [](DcpBuilder* b) {
       b->entry("rows").size = {3000, 2};
       b->boxes("rows")[0].sizes = {2998, 2};
     },
     Code::kDataLoss, "has 23984 bytes; its file"},
    {"PathLeavesTheFolder", [](DcpBuilder* b) { b->boxes("rows")[0].place.file = "../x.distcp"; }, Code::kDataLoss,
     "leaves the folder"},
    {"AbsolutePath", [](DcpBuilder* b) { b->boxes("rows")[0].place.file = "/etc/passwd"; }, Code::kDataLoss,
     "is absolute"},
    {"EmptyPath", [](DcpBuilder* b) { b->boxes("rows")[0].place.file = ""; }, Code::kDataLoss, ""},
    {"MissingFile", [](DcpBuilder* b) { b->boxes("rows")[0].place.file = "__9_0.distcp"; }, Code::kDataLoss,
     "is missing"},
    {"PastTheFile", [](DcpBuilder* b) { b->boxes("rows")[0].place.length = 1 << 30; }, Code::kDataLoss,
     "bytes at 0 of"},
    {"OffsetPastTheFile", [](DcpBuilder* b) { b->boxes("rows")[0].place.offset = INT32_MAX; }, Code::kDataLoss,
     "bytes at 2147483647 of"},
    {"NegativePlace", [](DcpBuilder* b) { b->boxes("rows")[0].place.offset = -1; }, Code::kDataLoss,
     "is not a file, an offset and a length"},
    {"NoPlace", [](DcpBuilder* b) { b->boxes("rows")[0].place.is_listed = false; }, Code::kDataLoss,
     "does not say where the box at [2,0] is"},
    {"CutItem", [](DcpBuilder* b) { b->boxes("rows")[0].place.length -= 1; }, Code::kDataLoss, "the file at 0 of"},
    {"SharedBytes", [](DcpBuilder* b) { b->boxes("rows")[0].place = b->boxes("rows")[1].place; }, Code::kDataLoss,
     "two boxes or values"},
    {"ValueForATensor",
     [](DcpBuilder* b) { b->boxes("rows")[0].place = b->AddItem("__2_0.distcp", TorchZip(List({Int(1)}), {})); },
     Code::kDataLoss, "is not one tensor"},
    {"NotAnItem", [](DcpBuilder* b) { b->boxes("rows")[0].place = b->AddItem("__2_0.distcp", std::string(1000, 'x')); },
     Code::kDataLoss, "neither a zip archive nor a stream"},
    {"AProgram",
     [](DcpBuilder* b) {
       b->boxes("rows")[0].place =
           b->AddItem("__2_0.distcp", TorchZip(Call(Global("os", "system"), {Text("touch /tmp/pwned")}), {}));
     },
     Code::kUnimplemented, "would run a program"},
    {"UnknownTransform", [](DcpBuilder* b) { b->boxes("rows")[0].place.transforms = {"stream.aes/1"}; },
     Code::kUnimplemented, "the transform \"stream.aes/1\""},
    {"TwoTransforms",
     [](DcpBuilder* b) {
       b->boxes("rows")[0].place.transforms = {"stream.zstd/1", "stream.zstd/1"};
     },
     Code::kUnimplemented, "2 transforms"},
    {"NotCompressed", [](DcpBuilder* b) { b->boxes("rows")[0].place.transforms = {"stream.zstd/1"}; }, Code::kDataLoss,
     "zstd"},
    {"Sparse", [](DcpBuilder* b) { b->entry("rows").layout = "torch.sparse_coo"; }, Code::kUnimplemented,
     "torch.sparse_coo"},
    {"ComplexHalf", [](DcpBuilder* b) { b->entry("rows").dtype = "complex32"; }, Code::kUnimplemented,
     "torch.complex32"},
};
INSTANTIATE_TEST_SUITE_P(Dcp, DcpDamage, ::testing::ValuesIn(kDamages),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(DcpReaderTest, LinksOutOfTheFolderAreNotFollowed) {
  const TempFolder folder;
  const TempFolder outside;
  DcpBuilder builder = TwoRanks();
  builder.WriteTo(folder);
  std::filesystem::remove(folder.Path("__1_0.distcp"));
  outside.Write("secret", builder.files["__1_0.distcp"]);
  std::filesystem::create_symlink(outside.Path("secret"), folder.Path("__1_0.distcp"));
  ASSERT_OK_AND_ASSIGN(const DcpReader reader, DcpReader::Open(folder.path()));
  EXPECT_THAT(reader.Read("rows"), StatusIs(Code::kPermissionDenied, HasSubstr("is a link")));
}

TEST(DcpReaderTest, AValueThatIsNotReadIsListed) {
  const TempFolder folder;
  DcpBuilder builder = TwoRanks();
  builder.AddValue("sampler", Call(Global("my.module", "Sampler"), {}), {Text("sampler")});
  builder.WriteTo(folder);
  ASSERT_OK_AND_ASSIGN(const DcpReader reader, DcpReader::Open(folder.path()));
  EXPECT_THAT(reader.Read("sampler"), StatusIs(Code::kUnimplemented, HasSubstr("my.module.Sampler")));
  EXPECT_THAT(Numbers(reader.Read("rows")), ElementsAre(0, 1, 2, 3, 4, 5));
  TorchReaderOptions options;
  options.opaque_objects = true;
  ASSERT_OK_AND_ASSIGN(const DcpReader opaque, DcpReader::Open(folder.path(), options));
  EXPECT_THAT(Json(opaque), HasSubstr("my.module.Sampler"));
}

// ---- What is wrong with the folder ----------------------------------------------------------------------------------

TEST(DcpReaderTest, AFolderWithoutMetadataIsNotFinished) {
  const TempFolder folder;
  TwoRanks().WriteTo(folder);
  std::filesystem::remove(folder.Path(".metadata"));
  EXPECT_THAT(DcpReader::Open(folder.path()),
              StatusIs(Code::kDataLoss, HasSubstr("has 2 .distcp files and no .metadata, which is written last: the "
                                                  "checkpoint is not finished, or not all of it was copied")));
  EXPECT_THAT(DcpReader::Open(folder.Path("__0_0.distcp")),
              StatusIs(Code::kInvalidArgument, HasSubstr("open " + folder.path())));
  const TempFolder empty;
  EXPECT_THAT(DcpReader::Open(empty.path()), StatusIs(Code::kNotFound));
  EXPECT_THAT(DcpReader::Open(empty.Path("none")), StatusIs(Code::kNotFound));
}

TEST(DcpReaderTest, MetadataIsNotRun) {
  const TempFolder folder;
  const std::string path = folder.Path(".metadata");
  const auto open = [&](const std::string& value) {
    folder.Write(".metadata", Pickled(value));
    return DcpReader::Open(folder.path()).status();
  };
  EXPECT_THAT(open(Call(Global("posix", "system"), {Text("true")})),
              StatusIs(Code::kUnimplemented, HasSubstr(path + ": byte 2 of the pickle: names \"posix.system\", which "
                                                              "would run a program")));
  // Names of files of tensors are none of the metadata.
  EXPECT_THAT(open(Call(Global("collections", "deque"), {})),
              StatusIs(Code::kUnimplemented, HasSubstr("is not one of the names of the metadata")));
  EXPECT_THAT(open(Storage("FloatStorage", "0", 1)), StatusIs(Code::kUnimplemented, HasSubstr("torch.FloatStorage")));
  EXPECT_THAT(open(Text("x") + "Q"), StatusIs(Code::kDataLoss, HasSubstr("declares a storage")));
  EXPECT_THAT(open(Int(1)), StatusIs(Code::kDataLoss, HasSubstr("is not the metadata of a distributed checkpoint")));
  EXPECT_THAT(open(DcpBuilder::Object("Metadata", Dict({}))),
              StatusIs(Code::kDataLoss, HasSubstr("no dict \"state_dict_metadata\"")));
}

// The name on top of the stack, as protocol 4 has it.
std::string StackGlobal(absl::string_view module, absl::string_view name) {
  return absl::StrCat(Text(module), Text(name), "\x93");
}

const std::string kGetAttr = Global("builtins", "getattr");
const std::string kEnum = Global("torch.distributed.checkpoint.metadata", "_MEM_FORMAT_ENCODING");

// Python 3.11.2 writes getattr(CLASS, NAME), and the second time has function and class from the memo.
TEST(DcpReaderTest, MembersOfTheEnumMayBeNamed) {
  const std::string first = StackGlobal("builtins", "getattr") + "q\1" +
                            StackGlobal("torch.distributed.checkpoint.metadata", "_MEM_FORMAT_ENCODING") + "q\2" +
                            Text("TORCH_CONTIGUOUS_FORMAT") + "\x86q\3Rq\4";
  const std::string second = "h\1h\2" + Text("TORCH_CHANNELS_LAST") + "\x86R";
  const TempFolder folder;
  for (const auto& [of_rows, of_columns] :
       {std::pair(first, second), std::pair(first, std::string("h\4")),
        std::pair(Call(Global("__builtin__", "getattr"), {kEnum, Text("TORCH_PRESERVE_FORMAT")}), first)}) {
    DcpBuilder builder = TwoRanks();
    builder.entry("rows").memory_format = of_rows;
    builder.entry("columns").memory_format = of_columns;
    builder.WriteTo(folder);
    ASSERT_OK_AND_ASSIGN(const DcpReader reader, DcpReader::Open(folder.path()));
    EXPECT_THAT(Numbers(reader.Read("rows")), ElementsAre(0, 1, 2, 3, 4, 5));
    EXPECT_THAT(Numbers(reader.Read("columns")), ElementsAre(0, 1, 2, 3, 4, 5));
    EXPECT_THAT(Damage(reader), IsEmpty());
  }
}

TEST(DcpReaderTest, GetAttrReachesNothingElse) {
  const std::string member = Text("TORCH_CHANNELS_LAST");
  const std::string size = Global("torch", "Size");
  const std::string object = Global("torch.distributed.checkpoint.metadata", "StorageMeta");
  struct {
    const char* name;
    std::string value;
  } const rows[] = {
      {"AnotherClass", Call(kGetAttr, {object, member})},
      {"AFunction", Call(kGetAttr, {Global("torch.serialization", "_get_layout"), member})},
      {"AType", Call(kGetAttr, {size, member})},
      {"ADType", Call(kGetAttr, {Global("torch", "float32"), member})},
      {"AnObject", Call(kGetAttr, {object + ")\x81", member})},
      {"AMember", Call(kGetAttr, {Call(kEnum, {Int(0)}), member})},
      {"AMemberByName", Call(kGetAttr, {Call(kGetAttr, {kEnum, member}), member})},
      {"AText", Call(kGetAttr, {Text("os"), member})},
      {"Itself", Call(kGetAttr, {kGetAttr, member})},
      {"ItselfTwice", kGetAttr + "2" + member + "\x86R"},
      {"PrivateName", Call(kGetAttr, {kEnum, Text("__class__")})},
      {"OneUnderscore", Call(kGetAttr, {kEnum, Text("_missing_")})},
      {"DottedName", Call(kGetAttr, {kEnum, Text("a.__class__")})},
      {"NoName", Call(kGetAttr, {kEnum, Text("")})},
      {"Digits", Call(kGetAttr, {kEnum, Text("1a")})},
      {"OtherLetters", Call(kGetAttr, {kEnum, Text("gr\xc3\xb6\xc3\x9f"
                                                   "e")})},
      {"NulInTheName", Call(kGetAttr, {kEnum, Text(absl::string_view("a\0b", 3))})},
      {"BytesAsName", Call(kGetAttr, {kEnum, BytesValue("mro")})},
      {"NumberAsName", Call(kGetAttr, {kEnum, Int(0)})},
      {"NoArguments", Call(kGetAttr, {})},
      {"OneArgument", Call(kGetAttr, {kEnum})},
      {"ThreeArguments", Call(kGetAttr, {kEnum, member, "N"})},
      {"NewObject", kGetAttr + Tuple({kEnum, member}) + "\x81"},
      {"NewObjectWithKeywords", kGetAttr + Tuple({kEnum, member}) + "}\x92"},
      {"TheWholeValue", kGetAttr},
      {"FromStack", StackGlobal("__builtin__", "getattr")},
      {"InATuple", Tuple({kGetAttr})},
      {"InATupleOfOne", kGetAttr + "\x85"},
      {"InATupleOfThree", "NN" + kGetAttr + "\x87"},
      {"InAList", "]" + kGetAttr + "a"},
      {"InAListOfMany", List({Int(1), kGetAttr})},
      {"InASet", "\x8f(" + kGetAttr + "\x90"},
      {"InAFrozenSet", "(" + kGetAttr + "\x91"},
      {"AsValue", "}" + Text("a") + kGetAttr + "s"},
      {"AsKey", Dict({{kGetAttr, Int(1)}})},
      {"AsState", object + ")\x81" + kGetAttr + "b"},
      {"WithState", kGetAttr + "}b"},
      {"AsArguments", object + kGetAttr + "R"},
      {"AsArgumentsOfAnObject", object + kGetAttr + "\x81"},
      {"AfterGoodUse", Call(kGetAttr + "q\1", {kEnum, member}) + "0h\1"},
      {"MemoWithAnotherClass", Call(kGetAttr + "q\1", {kEnum, member}) + "0h\1" + Tuple({size, member}) + "R"},
  };
  const TempFolder folder;
  for (const auto& row : rows) {
    SCOPED_TRACE(row.name);
    for (const std::string& value : {Pickled(row.value), Pickled(List({Int(1), row.value}))}) {
      folder.Write(".metadata", value);
      EXPECT_THAT(
          DcpReader::Open(folder.path()).status(),
          StatusIs(Code::kUnimplemented, HasSubstr("names \"builtins.getattr\", which would reach any function")));
    }
  }
  // What is no value, or not called with a tuple, fails before.
  for (const std::string& value :
       {kGetAttr + "]R", kGetAttr + "NR", kGetAttr + "NNs", kGetAttr + "Na", "(" + kGetAttr}) {
    folder.Write(".metadata", Pickled(value));
    EXPECT_THAT(DcpReader::Open(folder.path()).status(), StatusIs(Code::kDataLoss));
  }
  // Beside the value, it is gone.
  folder.Write(".metadata", Pickled(kGetAttr + "0N"));
  EXPECT_THAT(DcpReader::Open(folder.path()).status(), StatusIs(Code::kDataLoss, HasSubstr("is not the metadata")));
}

// Every cut and every changed byte of .metadata: refused, or the tensors are whole or are listed with an error.
TEST(DcpReaderTest, EveryCutAndChangedByteOfTheMetadata) {
  const TempFolder folder;
  DcpBuilder builder;
  builder.AddTensor("w", "float32", {3, 1}, {{{0, 0}, {2, 1}}, {{2, 0}, {1, 1}}}, Floats({0, 1, 2}));
  builder.AddValue("n", Int(3), {Text("n")});
  builder.WriteTo(folder);
  const std::string metadata = builder.Metadata();
  for (size_t size = 0; size < metadata.size(); ++size) {
    folder.Write(".metadata", metadata.substr(0, size));
    EXPECT_FALSE(DcpReader::Open(folder.path()).ok()) << size;
  }
  int opened = 0;
  for (size_t i = 0; i < metadata.size(); ++i) {
    for (const int change : {0x01, 0x80}) {
      std::string changed = metadata;
      changed[i] = static_cast<char>(changed[i] ^ change);
      folder.Write(".metadata", changed);
      const absl::StatusOr<DcpReader> reader = DcpReader::Open(folder.path());
      if (!reader.ok()) continue;
      ++opened;
      for (const DcpEntry& entry : reader->entries()) {
        const absl::StatusOr<Elements> tensor = reader->Read(entry.name);
        if (!tensor.ok()) continue;
        EXPECT_EQ(tensor->bytes(), Floats({0, 1, 2})) << i;
      }
      EXPECT_OK(reader->Values().status());
    }
  }
  EXPECT_GT(opened, 0);
}

TEST(DcpReaderTest, EveryCutAndChangedByteOfTheItems) {
  const TempFolder folder;
  DcpBuilder builder;
  builder.AddTensor("w", "float32", {3, 1}, {{{0, 0}, {2, 1}}, {{2, 0}, {1, 1}}}, Floats({0, 1, 2}));
  builder.AddValue("n", Int(3), {Text("n")});
  builder.WriteTo(folder);
  const std::string file = builder.files["__0_0.distcp"];
  const auto check = [&](const std::string& bytes, size_t i) {
    folder.Write("__0_0.distcp", bytes);
    ASSERT_OK_AND_ASSIGN(const DcpReader reader, DcpReader::Open(folder.path()));
    const absl::StatusOr<Elements> tensor = reader.Read("w");
    if (tensor.ok()) {
      EXPECT_EQ(tensor->bytes(), Floats({0, 1, 2})) << i;
    }
    EXPECT_TRUE(tensor.ok() || !Damage(reader).empty() || absl::IsUnimplemented(tensor.status())) << tensor.status();
    EXPECT_OK(reader.Values().status());
  };
  for (size_t size = 0; size < file.size(); size += 7) check(file.substr(0, size), size);
  for (size_t i = 0; i < file.size(); ++i) {
    std::string changed = file;
    changed[i] = static_cast<char>(changed[i] ^ 0x04);
    check(changed, i);
  }
}

}  // namespace
}  // namespace tensorcask::torch::testing
