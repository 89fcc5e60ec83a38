// HDF5 files of h5py and Keras, whole and damaged. tests/tools/hdf5_test.py compares all elements with those of h5py.

#include "tensorcask/serialize/hdf5/hdf5_reader.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/serialize/io/listing_budget.h"
#include "tensorcask/serialize/values/value.h"
#include "tensorcask/serialize/values/value_json.h"
#include "tensorcask/serialize/values/value_path.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/compare.h"
#include "tensorcask/tensor/strided/copy.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::StatusIs;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

std::string PathOf(absl::string_view name) { return absl::StrCat("tests/serialize/hdf5/golden/", name); }

std::string BytesOf(absl::string_view name) { return std::string((*ReadWholeFile(PathOf(name), 1 << 20))->bytes()); }

Hdf5Reader OpenGolden(absl::string_view name, const Hdf5ReaderOptions& options = {}) {
  absl::StatusOr<Hdf5Reader> reader = Hdf5Reader::Open(PathOf(name), options);
  EXPECT_TRUE(reader.ok()) << reader.status();
  return *std::move(reader);
}

absl::StatusOr<Hdf5Reader> OpenBytes(absl::string_view bytes, const Hdf5ReaderOptions& options = {}) {
  return Hdf5Reader::OpenSource(MakeMemorySource("x.h5", bytes), options);
}

std::string Number(uint64_t value) { return std::string(reinterpret_cast<const char*>(&value), sizeof(value)); }

// Puts `to` in the place of the only `from`.
void Replace(absl::string_view from, absl::string_view to, std::string* bytes) {
  const size_t at = bytes->find(std::string(from));
  ASSERT_NE(at, std::string::npos);
  ASSERT_EQ(bytes->find(std::string(from), at + 1), std::string::npos);
  bytes->replace(at, from.size(), std::string(to));
}

// ---- Elements -------------------------------------------------------------------------------------------------------

TEST(Hdf5ReaderTest, SlicesAreThoseOfTheWholeTensor) {
  const Hdf5Reader reader = OpenGolden("chunks.h5");
  for (const Hdf5Entry& entry : reader.entries()) {
    const absl::StatusOr<Tensor> whole = reader.Read(entry.name);
    ASSERT_TRUE(whole.ok()) << whole.status();
    const int64_t rows = entry.shape.dim(0);
    const int64_t columns = entry.shape.dim(1);
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t column = 0; column < columns; ++column) {
        std::vector<TensorSlice::Extent> extents = {{row, rows - row}, {column / 2, columns - column}};
        if (entry.shape.rank() == 3) extents.push_back({1, 3});
        const absl::StatusOr<TensorSlice> slice = TensorSlice::Create(extents);
        ASSERT_TRUE(slice.ok()) << slice.status();
        const absl::StatusOr<Tensor> part = reader.ReadSlice(entry.name, *slice);
        ASSERT_TRUE(part.ok()) << part.status();
        const TensorView view = *whole;
        EXPECT_TRUE(Equal(*part, *view.Slice(*slice))) << entry.name << " " << slice->ToString();
      }
    }
  }
}

TEST(Hdf5ReaderTest, ReadsIntoStridedMemory) {
  const Hdf5Reader reader = OpenGolden("chunks.h5");
  for (const char* const name : {"chunked", "shuffled", "holes", "unwritten"}) {
    const absl::StatusOr<Tensor> whole = reader.Read(name);
    ASSERT_TRUE(whole.ok()) << whole.status();
    Tensor memory = *Tensor::Zeros(whole->dtype(), TensorShape({whole->dim(1), whole->dim(0)}));
    const TensorView straight = memory;
    TensorView transposed = *straight.Transpose(0, 1);
    ASSERT_TRUE(reader.ReadInto(name, &transposed).ok());
    EXPECT_TRUE(Equal(transposed, *whole)) << name;
  }
  Tensor memory = *Tensor::Zeros(DType::kFloat32, TensorShape({7, 13}));
  TensorView wrong = memory;
  EXPECT_THAT(reader.ReadInto("chunked", &wrong), StatusIs(Code::kInvalidArgument, HasSubstr("chunked")));
}

TEST(Hdf5ReaderTest, ElementsThatWereNotWrittenAreTheFillValue) {
  const Hdf5Reader reader = OpenGolden("chunks.h5");
  EXPECT_TRUE(Equal(*reader.Read("unwritten"), Tensor::FromValues<float>({{2.5, 2.5}, {2.5, 2.5}, {2.5, 2.5}})));
  EXPECT_TRUE(Equal(*reader.Read("zeros"), Tensor::FromValues<int64_t>({{0, 0}, {0, 0}, {0, 0}})));
  const Tensor holes = *reader.Read("holes");
  const int32_t* const elements = holes.data<int32_t>();
  for (int64_t i = 0; i < holes.num_elements(); ++i) {
    const bool is_written = i == 3 * 9 + 2 || i == 4 * 9 + 2;
    EXPECT_EQ(elements[i], is_written ? 1 : -7) << i;
  }
}

TEST(Hdf5ReaderTest, ManyElementsThatWereNotWrittenNeedALimit) {
  Hdf5ReaderOptions options;
  options.limits.max_memory_beyond_input = 20;
  options.listing = std::make_shared<ListingBudget>(DecodeLimits{});  // the list has its own limit
  const Hdf5Reader reader = OpenGolden("chunks.h5", options);
  EXPECT_THAT(reader.Read("unwritten").status(),
              StatusIs(Code::kResourceExhausted, HasSubstr("max_memory_beyond_input")));
  EXPECT_TRUE(reader.Read("chunked").ok());
}

// "single" is one deflated chunk of 96 bytes.
TEST(Hdf5ReaderTest, ASliceDoesNotInflateAChunkPastTheLimit) {
  Hdf5ReaderOptions options;
  options.limits.max_memory_beyond_input = 8;
  options.listing = std::make_shared<ListingBudget>(DecodeLimits{});
  const Hdf5Reader reader = OpenGolden("latest.h5", options);
  EXPECT_TRUE(reader.Read("single").ok());
  EXPECT_THAT(reader.ReadSlice("single", *TensorSlice::Parse("1,1:1,1")).status(),
              StatusIs(Code::kResourceExhausted, HasSubstr("max_memory_beyond_input")));
  EXPECT_TRUE(OpenGolden("latest.h5").ReadSlice("single", *TensorSlice::Parse("1,1:1,1")).ok());
}

TEST(Hdf5ReaderTest, ElementsInOnePieceAreMapped) {
  Hdf5ReaderOptions options;
  options.read.strategy = ReadStrategy::kMap;
  const Hdf5Reader reader = OpenGolden("types.h5", options);
  for (const char* const name : {"types/f4", "types/big_f4", "compact", "empty"}) {
    const absl::StatusOr<Tensor> mapped = reader.Map(name);
    ASSERT_TRUE(mapped.ok()) << mapped.status();
    EXPECT_TRUE(Equal(*mapped, *reader.Read(name))) << name;
  }
}

TEST(Hdf5ReaderTest, TwoNamesOfOneDatasetHaveOneStorage) {
  const Hdf5Reader reader = OpenGolden("chunks.h5");
  EXPECT_EQ(reader.FindEntry("alias")->storage_id, reader.FindEntry("chunked")->storage_id);
  EXPECT_NE(reader.FindEntry("alias")->storage_id, reader.FindEntry("gzip")->storage_id);
  EXPECT_TRUE(Equal(*reader.Read("alias"), *reader.Read("chunked")));
}

TEST(Hdf5ReaderTest, BytesWithoutATypeNeedOne) {
  EXPECT_THAT(OpenGolden("whole.h5").Read("model_weights/last/model/last/bias").status(),
              StatusIs(Code::kUnimplemented, HasSubstr("opaque, 2 bytes each")));
  Hdf5ReaderOptions options;
  options.dtype_of_opaque_elements = DType::kBFloat16;
  EXPECT_EQ(OpenGolden("whole.h5", options).Read("model_weights/last/model/last/bias")->dtype(), DType::kBFloat16);
}

// ---- Attributes -----------------------------------------------------------------------------------------------------

TEST(Hdf5ReaderTest, AttributesAreValues) {
  const Hdf5Reader reader = OpenGolden("types.h5");
  const absl::StatusOr<std::string> json = ValueToJson(reader.values());
  ASSERT_TRUE(json.ok()) << json.status();
  EXPECT_EQ(*json,
            R"({"int":5,"floats":[1.5,-2.5],"text":"ünï","fixed":"fixed","list":["a","bb",""],)"
            R"("fixed_list":["x","yyy"],"flag":true,"complex":[1.0,2.0],"none":null,"table":[[0,1,2],[3,4,5]],"big":7,)"
            R"("no_items":[],"/types":{"what":"types"}})");
  ASSERT_EQ(reader.notes().size(), 1u);
  EXPECT_THAT(reader.notes()[0], HasSubstr("\"compound\""));
}

// ---- What is not read -----------------------------------------------------------------------------------------------

struct Refused {
  const char* file;
  const char* name;
  const char* says;
};

class RefusedDataset : public ::testing::TestWithParam<Refused> {};

TEST_P(RefusedDataset, IsListedAndSaysWhy) {
  const Hdf5Reader reader = OpenGolden(GetParam().file);
  EXPECT_NE(reader.FindEntry(GetParam().name), nullptr);
  EXPECT_THAT(reader.Read(GetParam().name).status(), StatusIs(Code::kUnimplemented, HasSubstr(GetParam().says)));
}

const Refused kRefused[] = {
    {"refused.h5", "external", "link to another file"},
    {"refused.h5", "soft", "soft link to \"/fine\""},
    {"refused.h5", "virtual", "virtual dataset"},
    {"refused.h5", "g/storage", "in other files"},
    {"refused.h5", "g/lzf", "filter lzf"},
    {"refused.h5", "g/fletcher32", "filter fletcher32"},
    {"refused.h5", "g/text", "texts"},
    {"refused.h5", "g/compound", "a compound"},
    {"refused.h5", "g/opaque", "opaque, 3 bytes each"},
    {"refused.h5", "g/null", "no elements and no shape"},
    {"latest.h5", "grows", "extensible array"},
    {"dense.h5", "links/link 7", "soft link to \"/fixed\""},
};

INSTANTIATE_TEST_SUITE_P(Forms, RefusedDataset, ::testing::ValuesIn(kRefused));

TEST(Hdf5ReaderTest, AGroupOfTwoNamesIsReadOnce) {
  const Hdf5Reader reader = OpenGolden("refused.h5");
  ASSERT_EQ(reader.notes().size(), 1u);
  EXPECT_THAT(reader.notes()[0], HasSubstr("\"g/loop\" is another name of the group \"/\""));
  EXPECT_TRUE(reader.Read("fine").ok());
}

// ---- Heaps and arrays -----------------------------------------------------------------------------------------------

TEST(Hdf5ReaderTest, ManyLinksAndAttributesAreInAHeap) {
  const Hdf5Reader latest = OpenGolden("latest.h5");
  for (int64_t i = 0; i < 12; ++i) {
    const absl::StatusOr<Tensor> tensor = latest.Read(absl::StrCat("many/", i));
    ASSERT_TRUE(tensor.ok()) << tensor.status();
    EXPECT_TRUE(Equal(*tensor, Tensor::Scalar<int64_t>(i))) << i;
  }
  const Hdf5Reader dense = OpenGolden("dense.h5");
  EXPECT_TRUE(dense.notes().empty()) << dense.notes()[0];
  EXPECT_TRUE(Equal(*dense.Read("links/fixed"), Tensor::FromValues<int16_t>({0, 1, 2})));
  for (int i = 0; i < 100; ++i) EXPECT_NE(dense.FindEntry(absl::StrCat("links/link ", i)), nullptr) << i;
  const absl::StatusOr<Value> attributes = FindValue(dense.values(), "/links");
  ASSERT_TRUE(attributes.ok());
  ASSERT_EQ(attributes->size(), 13u);
  for (int i = 0; i < 12; ++i) {
    const absl::StatusOr<Value> one = FindValue(*attributes, absl::StrCat("attribute ", i));
    ASSERT_TRUE(one.ok()) << i;
    ASSERT_EQ(one->size(), 3u);
    EXPECT_EQ(one->item(2).int_value(), i + 2);
  }
  const absl::StatusOr<Value> large = FindValue(*attributes, "large");
  ASSERT_TRUE(large.ok());
  ASSERT_EQ(large->size(), 1300u);
  EXPECT_EQ(large->item(1299).int_value(), 1299);
}

TEST(Hdf5ReaderTest, PagesThatWereNeverWrittenAreTheFillValue) {
  const Tensor pages = *OpenGolden("dense.h5").Read("pages");
  const uint8_t* const elements = pages.data<uint8_t>();
  for (int64_t i = 0; i < pages.num_elements(); ++i) {
    const int64_t start = i >= 2090 ? 2090 : i >= 1000 && i < 1010 ? 1000 : i - 9;
    EXPECT_EQ(elements[i], i - start) << i;
  }
}

TEST(Hdf5ReaderTest, AChangedBlockOfAHeapHasAnotherChecksum) {
  // The trees of the type 5 are those of names.
  const std::string names = {'\0', '\5'};
  for (const std::string& part : {std::string("FRHP"), std::string("FHDB"), std::string("FHIB"), "BTHD" + names,
                                  "BTLF" + names, "BTIN" + names, std::string("FAHD"), std::string("FADB")}) {
    std::string bytes = BytesOf("dense.h5");
    const size_t at = bytes.find(part);
    ASSERT_NE(at, std::string::npos) << part;
    bytes[at + 20] ^= 1;
    const absl::StatusOr<Hdf5Reader> reader = OpenBytes(bytes);
    ASSERT_TRUE(reader.ok()) << reader.status();
    std::string said = absl::StrCat(reader->notes().empty() ? "" : reader->notes()[0]);
    for (const Hdf5Entry& entry : reader->entries()) absl::StrAppend(&said, entry.read_status.message(), "\n");
    EXPECT_THAT(said, HasSubstr("checksum")) << part;
  }
}

// ---- Damage ---------------------------------------------------------------------------------------------------------

// Whatever a byte becomes, or where the file ends: an error, or tensors.
void ReadAll(absl::string_view bytes) {
  Hdf5ReaderOptions options;
  options.limits.max_memory_beyond_input = int64_t{1} << 20;
  const absl::StatusOr<Hdf5Reader> reader = OpenBytes(bytes, options);
  if (!reader.ok()) {
    EXPECT_THAT(reader.status().message(), HasSubstr("x.h5"));
    return;
  }
  for (const Hdf5Entry& entry : reader->entries()) {
    const absl::StatusOr<Tensor> tensor = reader->Read(entry.name);
    if (!tensor.ok()) continue;
    EXPECT_EQ(tensor->shape(), entry.shape);
  }
}

TEST(Hdf5ReaderTest, OtherFilesAreRefused) {
  EXPECT_THAT(OpenBytes("").status(), StatusIs(Code::kDataLoss, HasSubstr("no superblock")));
  EXPECT_THAT(OpenBytes(std::string(5000, '\0')).status(), StatusIs(Code::kDataLoss, HasSubstr("no superblock")));
  EXPECT_FALSE(Hdf5Reader::LooksLikeHdf5("\x89HDF"));
  EXPECT_TRUE(Hdf5Reader::LooksLikeHdf5(BytesOf("user_block.h5")));
  EXPECT_THAT(Hdf5Reader::Open("nothing.h5").status(), StatusIs(Code::kNotFound, HasSubstr("nothing.h5")));
}

TEST(Hdf5ReaderTest, AFileThatIsCutShortIsRefused) {
  const std::string bytes = BytesOf("types.h5");
  EXPECT_THAT(OpenBytes(absl::string_view(bytes).substr(0, bytes.size() - 1)).status(),
              StatusIs(Code::kDataLoss, HasSubstr("is cut short: it has")));
}

TEST(Hdf5ReaderTest, ChangedMetadataOfSuperblock3HasAnotherChecksum) {
  std::string bytes = BytesOf("latest.h5");
  bytes[11] ^= 1;
  EXPECT_THAT(OpenBytes(bytes).status(), StatusIs(Code::kDataLoss, HasSubstr("checksum")));
}

TEST(Hdf5ReaderTest, DatasetsThatShareBytesAreRefused) {
  std::string bytes = BytesOf("types.h5");
  const Hdf5Reader reader = OpenGolden("types.h5");
  const uint64_t from = *reader.FindEntry("types/i4")->offset;
  const uint64_t to = *reader.FindEntry("types/f4")->offset;
  Replace(Number(from), Number(to), &bytes);
  const absl::StatusOr<Hdf5Reader> changed = OpenBytes(bytes);
  ASSERT_TRUE(changed.ok()) << changed.status();
  for (const char* const name : {"types/i4", "types/f4"}) {
    EXPECT_THAT(changed->Read(name).status(), StatusIs(Code::kDataLoss, HasSubstr("types/f4"))) << name;
  }
  EXPECT_TRUE(changed->Read("types/f8").ok());
}

TEST(Hdf5ReaderTest, ATreeThatLeadsToItselfEnds) {
  std::string bytes = BytesOf("user_block.h5");
  const size_t tree = bytes.find("TREE");
  ASSERT_NE(tree, std::string::npos);
  constexpr size_t kLevel = 5;
  constexpr size_t kFirstChild = 8 + 16 + 8;
  bytes[tree + kLevel] = 1;
  bytes.replace(tree + kFirstChild, 8, Number(tree - 512));
  EXPECT_THAT(OpenBytes(bytes).status(), StatusIs(Code::kDataLoss, HasSubstr("B-tree")));
}

TEST(Hdf5ReaderTest, TwoLinksOfOneNameAreRefused) {
  std::string bytes = BytesOf("types.h5");
  using std::string_literals::operator""s;
  Replace("\0u4\0"s, "\0u2\0"s, &bytes);
  const absl::StatusOr<Hdf5Reader> changed = OpenBytes(bytes);
  ASSERT_TRUE(changed.ok()) << changed.status();
  EXPECT_THAT(changed->Read("types").status(), StatusIs(Code::kDataLoss, HasSubstr("two links with the name \"u2\"")));
  EXPECT_TRUE(changed->Read("compact").ok());
}

TEST(Hdf5ReaderTest, ANodeThatManyGroupsShareIsReadOnceOrRefused) {
  // The nodes of the links of two groups: that of the root, which has the file's datasets, in the place of the other.
  std::string bytes = BytesOf("whole.h5");
  std::vector<size_t> nodes;
  for (size_t at = bytes.find("SNOD"); at != std::string::npos; at = bytes.find("SNOD", at + 1)) nodes.push_back(at);
  ASSERT_GT(nodes.size(), 2u);
  for (const size_t node : nodes) {
    std::string changed = bytes;
    for (const size_t other : nodes) {
      const std::string address = Number(other);
      for (size_t at = changed.find(address); at != std::string::npos; at = changed.find(address, at + 8)) {
        changed.replace(at, 8, Number(node));
      }
    }
    ReadAll(changed);  // ends, with an error or with each group once
  }
}

TEST(Hdf5ReaderTest, AShapeThatItsBytesDoNotFillIsRefused) {
  std::string bytes = BytesOf("user_block.h5");
  const std::string four = Number(4);
  size_t changed = 0;
  for (size_t at = bytes.find(four); at != std::string::npos; at = bytes.find(four, at + 1)) {
    std::string other = bytes;
    other.replace(at, four.size(), Number(uint64_t{1} << 40));
    const absl::StatusOr<Hdf5Reader> reader = OpenBytes(other);
    if (!reader.ok()) continue;
    const Hdf5Entry* const entry = reader->FindEntry("x");
    if (entry == nullptr || entry->shape != TensorShape({int64_t{1} << 40})) continue;
    EXPECT_THAT(reader->Read("x").status(), StatusIs(Code::kDataLoss, HasSubstr("needs 8796093022208"))) << at;
    ++changed;
  }
  EXPECT_EQ(changed, 1u);
}

class DamagedFile : public ::testing::TestWithParam<const char*> {};

TEST_P(DamagedFile, EveryChangedByte) {
  std::string bytes = BytesOf(GetParam());
  for (size_t at = 0; at < bytes.size(); ++at) {
    const char change = at % 2 == 0 ? '\x01' : '\xff';
    bytes[at] ^= change;
    ReadAll(bytes);
    bytes[at] ^= change;
  }
}

TEST_P(DamagedFile, EveryCut) {
  std::string bytes = BytesOf(GetParam());
  const size_t end = bytes.find(Number(bytes.size()));  // the end of the file, which the superblock says
  ASSERT_NE(end, std::string::npos);
  for (size_t size = bytes.size(); size-- > 0;) {
    bytes.resize(size);
    if (size >= end + 8) bytes.replace(end, 8, Number(size));
    ReadAll(bytes);
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, DamagedFile,
                         ::testing::Values("chunks.h5", "dense.h5", "latest.h5", "refused.h5", "types.h5", "whole.h5"));

}  // namespace
}  // namespace tensorcask
