// The encoded form: tensors as payloads, through every encoder and decoder.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "google/protobuf/descriptor.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/io/byte_sink.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/wire/serialized_tensor.h"
#include "tensorcask/serialize/wire/tensor_codec.h"
#include "tensorcask/serialize/wire/tensor_message.h"
#include "tensorcask/serialize/wire/tensor_records.h"
#include "tensorcask/serialize/wire/zero_copy.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/resource_handle.h"
#include "tensorcask/tensor/variant.h"
#include "tensorcask/tests/serialize/wire/encoded_test_util.h"
#include "tensorcask/tests/serialize/wire/foreign_tensor.pb.h"
#include "tensorcask/tests/serialize/wire/message_pieces_testing.h"
#include "tensorcask/tests/serialize/wire/wire_test_util.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::InChunks;
using ::tensorcask::testing::Joined;
using testing::CompressibleTensor;
using testing::DecodeBothWays;
using testing::Difference;
using ::testing::ElementsAre;
using testing::Encoded;
using testing::EncodedProto;
using testing::EncodeToString;
using ::testing::HasSubstr;
using testing::OwnDTypes;
using testing::PlainDTypes;
using ::testing::StartsWith;
using testing::StatusIs;
using Code = absl::StatusCode;

std::vector<DType> AllDTypes() {
  std::vector<DType> dtypes = PlainDTypes();
  for (const DType dtype : OwnDTypes()) dtypes.push_back(dtype);
  return dtypes;
}

TensorMetadata SomeMetadata() {
  TensorMetadata metadata;
  metadata.name = "w";
  metadata.device = {DeviceType::kCuda, 1};
  metadata.attributes = {{"a", "1"}, {"b", ""}};
  return metadata;
}

// Views of [20,25,8] of all kinds of strides.
std::vector<TensorView> ViewsOf(const Tensor& tensor) {
  const TensorView whole(tensor);
  return {whole, *whole.Permute({2, 0, 1}), *whole.Flip({1}), *whole.Slice(2, 0, 8, 3)->Transpose(0, 2),
          *whole.Select(0, 3)->Expand({7, 25, 8})};
}

std::vector<std::string> SetFields(const google::protobuf::Message& message) {
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  std::vector<std::string> names;
  for (const auto* field : fields) names.emplace_back(field->name());
  return names;
}

// A view of the same dims as `like` whose memory goes through the axes the other way round.
TensorView ReversedAxes(const TensorView& like) {
  std::vector<int64_t> dims(like.dims().rbegin(), like.dims().rend());
  std::vector<int64_t> axes;
  for (int axis = like.rank() - 1; axis >= 0; --axis) axes.push_back(axis);
  return *TensorView(*Tensor::Zeros(like.dtype(), *TensorShape::Create(dims))).Permute(axes);
}

// ---- Round trips ----------------------------------------------------------------------------------------------------

class EncodedOfEveryDType : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(All, EncodedOfEveryDType, ::testing::ValuesIn(AllDTypes()),
                         [](const auto& info) { return std::string(DTypeName(info.param)); });

TEST_P(EncodedOfEveryDType, EncodersGiveTheSameBytes) {
  const Tensor tensor = CompressibleTensor(GetParam(), TensorShape({20, 25, 8}));
  for (const TensorView& view : ViewsOf(tensor)) {
    for (const bool checksum : {false, true}) {
      SCOPED_TRACE(absl::StrCat(view.ToString(), checksum ? " with checksum" : ""));
      const EncodeOptions options = Encoded(checksum);
      const TensorMetadata metadata = SomeMetadata();
      TensorProto proto;
      ASSERT_OK(EncodeTensor(view, metadata, options, &proto));
      const std::string message = proto.SerializeAsString();
      EXPECT_LT(message.size(), EncodeToString(view, metadata).size());
      EXPECT_EQ(EncodeToString(view, metadata, options), message);
      ASSERT_OK_AND_ASSIGN(const MessagePieces pieces, EncodeTensorToPieces(view, metadata, options));
      EXPECT_EQ(Joined(pieces), message);
      ASSERT_OK_AND_ASSIGN(const absl::Cord cord, EncodeTensorToCord(view, metadata, options));
      EXPECT_EQ(std::string(cord), message);
      testing::foreign::TensorProto foreign;
      ASSERT_OK(EncodeTensor(view, metadata, options, &foreign));
      EXPECT_EQ(foreign.SerializeAsString(), message);

      // What protobuf itself finds in the bytes: nothing that a reader could take for zeros.
      TensorProto parsed;
      ASSERT_TRUE(parsed.ParseFromString(message));
      EXPECT_EQ(parsed.dtype(), DT_INVALID);
      EXPECT_THAT(SetFields(parsed), ElementsAre("tensor_shape", "extension"));
      EXPECT_EQ(parsed.extension().dtype(), DTypeNumber(GetParam()));
      EXPECT_EQ(parsed.extension().strides_size(), 0);
      TensorProto plain;
      ASSERT_OK(EncodeTensor(view, {Representation::kContent, checksum}, &plain));
      EXPECT_EQ(parsed.extension().crc32c(), plain.extension().crc32c());
    }
  }
}

TEST_P(EncodedOfEveryDType, DecodersGiveTheSameTensor) {
  const Tensor tensor = CompressibleTensor(GetParam(), TensorShape({20, 25, 8}));
  for (const TensorView& view : ViewsOf(tensor)) {
    for (const bool checksum : {false, true}) {
      SCOPED_TRACE(absl::StrCat(view.ToString(), checksum ? " with checksum" : ""));
      const Tensor wanted = *view.ToTensor();
      const TensorMetadata metadata = SomeMetadata();
      const std::string message = EncodeToString(view, metadata, Encoded(checksum));
      ASSERT_OK_AND_ASSIGN(const Tensor read, DecodeBothWays(message));
      EXPECT_EQ(Difference(read, wanted), "");
      TensorView strided = ReversedAxes(view);
      ASSERT_OK(DecodeTensorInto(message, {}, &strided));
      EXPECT_EQ(Difference(*strided.ToTensor(), wanted), "");
      ASSERT_OK_AND_ASSIGN(const absl::Cord cord, EncodeTensorToCord(view, metadata, Encoded(checksum)));
      for (const absl::Cord& part : {cord, absl::Cord(message), InChunks(message, 7)}) {
        ASSERT_OK_AND_ASSIGN(const DecodedTensor decoded, DecodeTensorFromCord(part));
        EXPECT_EQ(Difference(*decoded.view.ToTensor(), wanted), "");
        EXPECT_EQ(decoded.metadata, metadata);
      }
      ASSERT_OK_AND_ASSIGN(const RefPtr<TensorBuffer> owner, TensorBuffer::Allocate(message.size()));
      std::copy(message.begin(), message.end(), static_cast<char*>(owner->mutable_data()));
      ASSERT_OK_AND_ASSIGN(const DecodedTensor in_place, DecodeTensorInPlace(owner->bytes(), owner));
      EXPECT_EQ(Difference(*in_place.view.ToTensor(), wanted), "");
      EXPECT_NE(in_place.view.buffer()->root(), owner.get());
      testing::foreign::TensorProto foreign;
      ASSERT_TRUE(foreign.ParseFromString(message));
      ASSERT_OK_AND_ASSIGN(const DecodedTensor of_foreign, DecodeTensorWithMetadata(foreign));
      EXPECT_EQ(Difference(*of_foreign.view.ToTensor(), wanted), "");
      EXPECT_EQ(of_foreign.metadata, metadata);
    }
  }
}

TEST_P(EncodedOfEveryDType, ThroughRecords) {
  const Tensor tensor = CompressibleTensor(GetParam(), TensorShape({4000}));
  std::string bytes;
  StringSink sink(&bytes);
  RecordWriter writer(&sink);
  ASSERT_OK(WriteTensorRecord(tensor, SomeMetadata(), Encoded(), &writer));
  ASSERT_OK(WriteTensorRecord(tensor, Encoded(true), &writer));
  RecordReader reader(MakeMemorySource("stream", bytes));
  ASSERT_OK_AND_ASSIGN(const std::optional<DecodedTensor> first, ReadTensorRecordWithMetadata(&reader));
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->metadata, SomeMetadata());
  EXPECT_EQ(Difference(*first->view.ToTensor(), tensor), "");
  ASSERT_OK_AND_ASSIGN(const std::optional<Tensor> second, ReadTensorRecord(&reader));
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(Difference(*second, tensor), "");
}

TEST(Encoded, RepresentationDoesNotMatter) {
  const Tensor tensor = CompressibleTensor(DType::kInt64, TensorShape({30, 40}));
  EncodeOptions values = Encoded();
  values.representation = Representation::kValues;
  EXPECT_EQ(EncodeToString(tensor, {}, values), EncodeToString(tensor, {}, Encoded()));
}

TEST(Encoded, LevelsAndThreadsAndChunks) {
  const Tensor tensor = CompressibleTensor(DType::kFloat32, TensorShape({300, 1000}));
  const std::string message = EncodeToString(tensor, {}, Encoded());
  EncodeOptions options = Encoded();
  options.num_threads = 3;
  EXPECT_EQ(EncodeToString(tensor, {}, options), message);
  options.payload.chunk_bytes = size_t{64} << 10;
  const std::string small_chunks = EncodeToString(tensor, {}, options);
  EXPECT_NE(small_chunks, message);
  options.payload.level = PayloadLevel::kHigh;
  const std::string high = EncodeToString(tensor, {}, options);
  EXPECT_LE(high.size(), small_chunks.size());
  DecodeOptions threads;
  threads.num_threads = 3;
  for (const std::string& text : {message, small_chunks, high}) {
    ASSERT_OK_AND_ASSIGN(const Tensor read, DecodeSerializedTensor(text, threads));
    EXPECT_EQ(Difference(read, tensor), "");
  }
  options.payload.chunk_bytes = 1000;
  EXPECT_THAT(EncodedSize(tensor, options), StatusIs(Code::kInvalidArgument, StartsWith("payload: ")));
}

TEST(Encoded, ThePayloadIsAPieceOfItsOwn) {
  const Tensor tensor = CompressibleTensor(DType::kFloat32, TensorShape({4000}));
  ASSERT_OK_AND_ASSIGN(const MessagePieces pieces, EncodeTensorToPieces(tensor, SomeMetadata(), Encoded(true)));
  ASSERT_EQ(pieces.pieces.size(), 2);
  EXPECT_EQ(std::string(pieces.pieces[1]), EncodedProto(tensor).extension().payload());
}

TEST(Encoded, IntoMemoryThatALazyCloneShares) {
  const Tensor tensor = CompressibleTensor(DType::kFloat64, TensorShape({50, 20}));
  const std::string message = EncodeToString(tensor, {}, Encoded());
  Tensor zeros = *Tensor::Zeros(DType::kFloat64, tensor.shape());
  const Tensor clone = *zeros.LazyClone();
  ASSERT_OK(DecodeTensorInto(message, {}, &zeros));
  EXPECT_EQ(Difference(zeros, tensor), "");
  EXPECT_EQ(Difference(clone, *Tensor::Zeros(DType::kFloat64, tensor.shape())), "");
}

TEST(Encoded, IntoAnotherShapeOrElementsThatOverlap) {
  const Tensor tensor = CompressibleTensor(DType::kInt16, TensorShape({50, 20}));
  const std::string message = EncodeToString(tensor, {}, Encoded());
  Tensor other = *Tensor::Zeros(DType::kInt16, TensorShape({20, 50}));
  EXPECT_THAT(DecodeTensorInto(message, {}, &other), StatusIs(Code::kInvalidArgument, HasSubstr("int16 [50,20]")));
  TensorView rows = *TensorView(*Tensor::Zeros(DType::kInt16, TensorShape({20}))).Expand({50, 20});
  EXPECT_THAT(DecodeTensorInto(message, {}, &rows), StatusIs(Code::kInvalidArgument));
}

// ---- Where there is no payload --------------------------------------------------------------------------------------

struct PlainCase {
  const char* name;
  TensorView view;
  EncodeOptions options;  // but for the level
};
class StaysPlain : public ::testing::TestWithParam<PlainCase> {};
TEST_P(StaysPlain, WithTheBytesOfKStored) {
  EncodeOptions options = GetParam().options;
  const std::string stored = EncodeToString(GetParam().view, SomeMetadata(), options);
  options.payload.level = PayloadLevel::kDefault;
  EXPECT_EQ(EncodeToString(GetParam().view, SomeMetadata(), options), stored);
  options.payload.level = PayloadLevel::kHigh;
  TensorProto proto;
  ASSERT_OK(EncodeTensor(GetParam().view, SomeMetadata(), options, &proto));
  EXPECT_EQ(proto.SerializeAsString(), stored);
}

Tensor Noise(DType dtype, const TensorShape& shape) {
  std::mt19937_64 random(7);
  Tensor tensor = *Tensor::Create(dtype, shape);
  for (char& byte : tensor.mutable_bytes()) byte = static_cast<char>(random());
  return tensor;
}
EncodeOptions Preserve() { return {Representation::kContent, true, StoredLayout::kPreserve}; }
Variant WithTensor(const Tensor& tensor) {
  Variant variant;
  variant.type_name = "t";
  variant.tensors = {tensor};
  return variant;
}
const Tensor kWorth = CompressibleTensor(DType::kFloat32, TensorShape({40, 100}));
const PlainCase kPlainCases[] = {
    {"Noise", Noise(DType::kUint8, TensorShape({5000})), {}},
    {"NoiseWithChecksum", Noise(DType::kInt32, TensorShape({500})), {Representation::kContent, true}},
    {"NoiseAsValues", Noise(DType::kUint64, TensorShape({500})), {Representation::kValues, true}},
    {"NoiseOfOwnDType", Noise(DType::kFloat8E8m0fnu, TensorShape({5000})), {}},
    {"Scalar", Tensor::Scalar<float>(1), {}},
    {"AFewZeros", *Tensor::Zeros(DType::kFloat64, TensorShape({4})), {}},
    {"NoElements", *Tensor::Zeros(DType::kFloat64, TensorShape({0, 4})), {}},
    {"NoStrings", *Tensor::Zeros(DType::kString, TensorShape({0})), {}},
    {"ShortStrings", Tensor::FromValues<std::string>({"a", "z", "q", "", "j"}), {}},
    {"OrderKept", *TensorView(kWorth).Transpose(0, 1), Preserve()},
    {"FlipKept", *TensorView(kWorth).Flip({0}), Preserve()},
    {"Resource", Tensor::Scalar(ResourceHandle{"d", "c", std::string(5000, 'n'), 1, "t", {}}), {}},
    {"Variant", Tensor::Scalar(WithTensor(kWorth)), {}},
    {"VariantAsValues", Tensor::Scalar(WithTensor(kWorth)), {Representation::kValues, true}},
};
INSTANTIATE_TEST_SUITE_P(Cases, StaysPlain, ::testing::ValuesIn(kPlainCases),
                         [](const auto& info) { return std::string(info.param.name); });

// Small numbers take a byte each as values, and so do the lengths of strings in content: a payload that is smaller than
// eight bytes each may be larger than that.
TEST(Encoded, IsComparedWithWhatThePlainFormTakes) {
  Tensor numbers = Noise(DType::kInt64, TensorShape({100}));
  for (int64_t& value : numbers.mutable_flat<int64_t>()) value &= 0x7f;
  EncodeOptions options = Encoded();
  EXPECT_LT(EncodeToString(numbers, {}, options).size(), EncodeToString(numbers, {}).size());
  options.representation = Representation::kValues;
  EXPECT_EQ(EncodeToString(numbers, {}, options), EncodeToString(numbers, {}, {Representation::kValues}));
  Tensor words = *Tensor::Zeros(DType::kString, TensorShape({40}));
  for (int i = 0; i < 40; ++i) words.mutable_flat<std::string>()[i] = std::string(1, static_cast<char>(i));
  EXPECT_EQ(EncodeToString(words, {}, Encoded()), EncodeToString(words, {}));
}

TEST(Encoded, RowMajorIsEncodedWhereTheOrderIsKept) {
  EncodeOptions options = Preserve();
  options.payload.level = PayloadLevel::kDefault;
  EXPECT_EQ(EncodeToString(kWorth, {}, options), EncodeToString(kWorth, {}, Encoded(true)));
  // Gaps are left out, and then it is row-major.
  const TensorView gaps = *TensorView(kWorth).Slice(1, 0, 100, 2);
  EXPECT_EQ(EncodeToString(gaps, {}, options), EncodeToString(gaps, {}, Encoded(true)));
  // The order of strings is not kept anyway.
  const Tensor strings = CompressibleTensor(DType::kString, TensorShape({30, 40}));
  const TensorView columns = *TensorView(strings).Transpose(0, 1);
  EXPECT_EQ(EncodeToString(columns, {}, options), EncodeToString(columns, {}, Encoded(true)));
}

// ---- Deltas ---------------------------------------------------------------------------------------------------------

// Weights, and the same some steps later: the low bits have changed.
struct Weights {
  Tensor before = Noise(DType::kFloat32, TensorShape({100, 200}));
  Tensor after = *before.Clone();

  Weights() {
    std::mt19937_64 random(3);
    for (float& value : after.mutable_flat<float>()) {
      uint32_t bits = 0;
      std::memcpy(&bits, &value, sizeof(bits));
      bits ^= static_cast<uint32_t>(random() % 4);
      std::memcpy(&value, &bits, sizeof(bits));
    }
  }
};

TEST(Delta, NeedsItsBase) {
  const Weights weights;
  const TensorView base(weights.before);
  EncodeOptions options = Encoded(true);
  options.payload.base = MakeBaseLookup(base);
  const std::string message = EncodeToString(weights.after, SomeMetadata(), options);
  EXPECT_LT(message.size(), EncodeToString(weights.after, SomeMetadata(), Encoded(true)).size() / 2);
  DecodeOptions with_base;
  with_base.base = MakeBaseLookup(base);
  ASSERT_OK_AND_ASSIGN(const Tensor read, DecodeBothWays(message, with_base));
  EXPECT_EQ(Difference(read, weights.after), "");
  ASSERT_OK_AND_ASSIGN(const DecodedTensor from_cord, DecodeTensorFromCord(InChunks(message, 1000), with_base));
  EXPECT_EQ(Difference(*from_cord.view.ToTensor(), weights.after), "");
  // A base of other strides is the same base.
  const TensorView columns = *TensorView(*(*TensorView(weights.before).Transpose(0, 1)).ToTensor()).Transpose(0, 1);
  with_base.base = MakeBaseLookup(columns);
  ASSERT_OK_AND_ASSIGN(const Tensor by_columns, DecodeBothWays(message, with_base));
  EXPECT_EQ(Difference(by_columns, weights.after), "");

  EXPECT_THAT(DecodeBothWays(message), StatusIs(Code::kFailedPrecondition, StartsWith("payload: ")));
  const TensorView others[] = {TensorView(weights.after), *base.Narrow(0, 1, 99), *base.Bitcast(DType::kInt32)};
  for (const TensorView& other : others) {
    DecodeOptions wrong;
    wrong.base = MakeBaseLookup(other);
    EXPECT_THAT(DecodeBothWays(message, wrong), StatusIs(Code::kFailedPrecondition, StartsWith("payload: ")));
  }
}

TEST(Delta, IntoTheMemoryOfItsBase) {
  const Weights weights;
  const TensorView base(weights.before);
  EncodeOptions options = Encoded(true);
  options.payload.base = MakeBaseLookup(base);
  const std::string message = EncodeToString(weights.after, {}, options);
  Tensor updated = *weights.before.Clone();
  const TensorView in_place(updated);
  DecodeOptions decode;
  decode.base = MakeBaseLookup(in_place);
  ASSERT_OK(DecodeTensorInto(message, decode, &updated));
  EXPECT_EQ(Difference(updated, weights.after), "");
  // Transposed memory, strided on both sides.
  const Tensor rows = *(*base.Transpose(0, 1)).ToTensor();
  TensorView strided = *TensorView(rows).Transpose(0, 1);
  const TensorView same = strided;
  decode.base = MakeBaseLookup(same);
  ASSERT_OK(DecodeTensorInto(message, decode, &strided));
  EXPECT_EQ(Difference(*strided.ToTensor(), weights.after), "");
}

TEST(Delta, ABaseIsForDeltasAlone) {
  const Weights weights;
  const TensorView base(weights.before);
  DecodeOptions decode;
  decode.base = MakeBaseLookup(base);
  const Tensor other = CompressibleTensor(DType::kInt16, TensorShape({5000}));
  ASSERT_OK_AND_ASSIGN(const Tensor read, DecodeBothWays(EncodeToString(other, {}, Encoded()), decode));
  EXPECT_EQ(Difference(read, other), "");
  EncodeOptions encode = Encoded();
  encode.payload.base = MakeBaseLookup(base);
  EXPECT_THAT(EncodedSize(other, encode), StatusIs(Code::kInvalidArgument, StartsWith("payload: ")));
  const Tensor strings = CompressibleTensor(DType::kString, TensorShape({1000}));
  EXPECT_EQ(EncodeToString(strings, {}, encode), EncodeToString(strings, {}, Encoded()));
}

}  // namespace
}  // namespace tensorcask
