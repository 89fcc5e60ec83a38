// Entries of our own form, other strides or dtypes than TensorFlow has, and metadata.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/tensor/strided/metadata.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/serialize/checkpoint/bundle_forge.h"
#include "tensorcask/tests/serialize/checkpoint/checkpoint_testing.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::BundleForge;
using ::tensorcask::testing::BytesOfValues;
using ::tensorcask::testing::SameTensor;
using ::tensorcask::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

absl::StatusOr<CheckpointReader> OpenIn(FileSystem* files, CheckpointReaderOptions options = {}) {
  options.read.file_system = files;
  return CheckpointReader::Open("/m", options);
}

// "t": int16 [[1, 4], [2, 5], [3, 6]], stored as its columns, of which the second stands first.
BundleEntryProto& AddTurned(BundleForge* bundle) {
  BundleEntryProto& entry = bundle->Add("t", 0, {3, 2}, BytesOfValues<int16_t>({4, 5, 6, 1, 2, 3}));
  entry.mutable_extension()->set_dtype(DTypeNumber(DType::kInt16));
  entry.mutable_extension()->add_strides(1);
  entry.mutable_extension()->add_strides(-3);
  entry.mutable_extension()->set_storage_offset(3);
  return entry;
}

TEST(ExtensionOnly, ComesBackWithItsStrides) {
  const Tensor wanted = Tensor::FromValues<int16_t>({{1, 4}, {2, 5}, {3, 6}});
  BundleForge bundle;
  BundleEntryProto& entry = AddTurned(&bundle);
  entry.mutable_extension()->set_name("columns");
  MemoryFileSystem files;
  bundle.Put(&files);
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenIn(&files));
  ASSERT_OK_AND_ASSIGN(const CheckpointEntry found, reader.Find("t"));
  EXPECT_EQ(found.form, EntryForm::kExtensionOnly);
  EXPECT_EQ(found.dtype, DType::kInt16);
  EXPECT_TRUE(found.has_metadata);
  ASSERT_OK_AND_ASSIGN(const DecodedTensor decoded, reader.ReadWithMetadata("t"));
  EXPECT_THAT(decoded.view.strides(), ElementsAre(1, -3));
  EXPECT_EQ(decoded.view.offset(), 3);
  EXPECT_EQ(decoded.metadata.name, "columns");
  EXPECT_TRUE(SameTensor(*decoded.view.ToTensor(), wanted));
  ASSERT_OK_AND_ASSIGN(const Tensor gathered, reader.Read("t"));
  EXPECT_TRUE(SameTensor(gathered, wanted));
  ASSERT_OK_AND_ASSIGN(const Tensor mapped, reader.Map("t"));
  EXPECT_TRUE(SameTensor(mapped, wanted));
  Tensor out = *Tensor::Create(DType::kInt16, TensorShape({3, 2}));
  EXPECT_OK(reader.ReadInto("t", &out));
  EXPECT_TRUE(SameTensor(out, wanted));
  ASSERT_OK_AND_ASSIGN(const Tensor part, reader.ReadSlice("t", *TensorSlice::Parse("1,2:1,1")));
  EXPECT_TRUE(SameTensor(part, Tensor::FromValues<int16_t>({{5}, {6}})));
  ASSERT_OK_AND_ASSIGN(const CheckpointCounts counts,
                       reader.VerifyAll([](const CheckpointDamage& damage) { ADD_FAILURE() << damage.status; }));
  EXPECT_EQ(counts.whole, 1);
}

TEST(ExtensionOnly, DtypesThatTensorFlowLacks) {
  BundleForge bundle;
  bundle.Add("e8", 0, {2, 2}, "\1\2\3\4").mutable_extension()->set_dtype(64);
  BundleEntryProto& sliced = bundle.AddSliced("s", 0, {2}, {"0,1", "1,1"});
  sliced.mutable_extension()->set_dtype(64);
  bundle.AddPiece("s", "0,1", 0, {1}, "\5").mutable_extension()->set_dtype(64);
  bundle.AddPiece("s", "1,1", 0, {1}, "\6").mutable_extension()->set_dtype(64);
  MemoryFileSystem files;
  bundle.Put(&files);
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenIn(&files));
  ASSERT_OK_AND_ASSIGN(const Tensor e8, reader.Read("e8"));
  EXPECT_EQ(e8.dtype(), *DTypeFromNumber(64));
  EXPECT_EQ(e8.bytes(), "\1\2\3\4");
  ASSERT_OK_AND_ASSIGN(const Tensor joined, reader.Read("s"));
  EXPECT_EQ(joined.bytes(), "\5\6");
}

TEST(Metadata, OfPlainEntries) {
  BundleForge bundle;
  BundleEntryProto& entry = bundle.Add("w", 1, {1, 1, 1, 1}, BytesOfValues<float>({1}));
  TensorExtension* const extension = entry.mutable_extension();
  extension->set_name("encoder.weight");
  extension->set_device("cuda:1");
  extension->set_memory_format(1);  // does not make it extension-only
  extension->set_requires_grad(true);
  auto* const attribute = extension->add_attributes();
  attribute->set_key("unit");
  attribute->set_value("m/s");
  bundle.Add("bare", 1, {1}, BytesOfValues<float>({2}));
  MemoryFileSystem files;
  bundle.Put(&files);
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenIn(&files));
  ASSERT_OK_AND_ASSIGN(const CheckpointEntry found, reader.Find("w"));
  EXPECT_EQ(found.form, EntryForm::kPlain);
  EXPECT_TRUE(found.has_metadata);
  TensorMetadata wanted;
  wanted.name = "encoder.weight";
  wanted.device = {DeviceType::kCuda, 1};
  wanted.memory_format = MemoryFormat::kChannelsLast2d;
  wanted.requires_grad = true;
  wanted.attributes["unit"] = "m/s";
  ASSERT_OK_AND_ASSIGN(const TensorMetadata metadata, reader.Metadata("w"));
  EXPECT_EQ(metadata, wanted);
  ASSERT_OK_AND_ASSIGN(const DecodedTensor decoded, reader.ReadWithMetadata("w"));
  EXPECT_EQ(decoded.metadata, wanted);
  EXPECT_TRUE(decoded.view.IsContiguous());
  ASSERT_OK_AND_ASSIGN(const TensorMetadata none, reader.Metadata("bare"));
  EXPECT_TRUE(none.IsDefault());
  EXPECT_THAT(reader.Metadata("absent"), StatusIs(Code::kNotFound, HasSubstr("absent")));
}

struct RejectCase {
  const char* name;
  std::function<void(TensorExtension*)> change;
  const char* says;
};

class ExtensionOnlyRejects : public ::testing::TestWithParam<RejectCase> {};

TEST_P(ExtensionOnlyRejects, AsDataLoss) {
  BundleForge bundle;
  GetParam().change(AddTurned(&bundle).mutable_extension());
  MemoryFileSystem files;
  bundle.Put(&files);
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenIn(&files));
  const auto refused =
      StatusIs(Code::kDataLoss, AllOf(HasSubstr("/m.index"), HasSubstr("tensor \"t\""), HasSubstr(GetParam().says)));
  EXPECT_THAT(reader.ReadWithMetadata("t"), refused);
  EXPECT_THAT(reader.Metadata("t"), refused);
  std::vector<std::string> found;
  ASSERT_OK_AND_ASSIGN(const CheckpointCounts counts, reader.VerifyAll([&](const CheckpointDamage& damage) {
    found.push_back(std::string(damage.status.message()));
  }));
  EXPECT_THAT(found, ElementsAre(HasSubstr(GetParam().says)));
  EXPECT_EQ(counts.whole, 0);
}

const RejectCase kRejects[] = {
    {"TooFewStrides", [](TensorExtension* e) { e->mutable_strides()->RemoveLast(); }, "strides has 1 numbers"},
    {"TooManyStrides", [](TensorExtension* e) { e->add_strides(1); }, "strides has 3 numbers"},
    {"StridesThatRepeat", [](TensorExtension* e) { e->set_strides(1, 0); }, "a position of its own"},
    {"StridesThatLeaveGaps", [](TensorExtension* e) { e->set_strides(1, -2); }, "a position of its own"},
    {"OffsetOutside", [](TensorExtension* e) { e->set_storage_offset(4); }, "a position of its own"},
    {"NegativeOffset", [](TensorExtension* e) { e->set_storage_offset(-3); }, "strides"},
    {"StridesThatWrap", [](TensorExtension* e) { e->set_strides(0, INT64_MAX); }, "strides"},
    {"OffsetWithoutStrides",
     [](TensorExtension* e) {
       e->set_dtype(64);
       e->clear_strides();
     },
     "is neither that of an extension-only entry"},
    {"NothingExtensionOnly",
     [](TensorExtension* e) {
       e->clear_strides();
       e->clear_storage_offset();
     },
     "is neither that of an extension-only entry"},
    {"NegativeDtype", [](TensorExtension* e) { e->set_dtype(-1); }, "is neither that of an extension-only entry"},
    {"StridesOfStrings", [](TensorExtension* e) { e->set_dtype(7); }, "no fixed size"},
    {"SizeOfAnother", [](TensorExtension* e) { e->set_dtype(1); }, "stores 12 bytes; float32 [3,2] needs 24"},
    {"DeviceThatIsNone", [](TensorExtension* e) { e->set_device("toaster:1"); }, "toaster"},
    {"MemoryFormatOfAnotherRank", [](TensorExtension* e) { e->set_memory_format(1); }, "memory_format"},
    {"RequiresGradOfIntegers", [](TensorExtension* e) { e->set_requires_grad(true); }, "requires_grad"},
    {"EmptyKey", [](TensorExtension* e) { e->add_attributes()->set_value("x"); }, "empty key"},
};
INSTANTIATE_TEST_SUITE_P(Extensions, ExtensionOnlyRejects, ::testing::ValuesIn(kRejects),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tensorcask
