// Files of torch.save, whole and damaged, in both containers.

#include "tensorcask/serialize/torch/torch_reader.h"

#include <algorithm>
#include <complex>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/serialize/io/element_stream.h"
#include "tensorcask/serialize/io/listing_budget.h"
#include "tensorcask/serialize/values/value_json.h"
#include "tensorcask/serialize/values/value_path.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/compare.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/serialize/torch/torch_testing.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask::torch::testing {
namespace {

using tensorcask::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Code = absl::StatusCode;
using Elements = tensorcask::Tensor;

absl::StatusOr<TorchReader> OpenBytes(const std::string& bytes, const TorchReaderOptions& options = {}) {
  return TorchReader::OpenSource(MakeMemorySource("m.pt", bytes), options);
}

std::string FloatBytes(int count) {
  std::string bytes;
  for (int i = 0; i < count; ++i) bytes += Bytes(static_cast<float>(i));
  return bytes;
}

const std::string kSix = FloatBytes(6);
const std::string kStorage = Storage("FloatStorage", "0", 6);

std::vector<std::string> Names(const TorchReader& reader) {
  std::vector<std::string> names;
  for (const TorchEntry& entry : reader.entries()) names.push_back(entry.name);
  return names;
}

std::vector<float> Floats(const absl::StatusOr<Elements>& tensor) {
  if (!tensor.ok()) {
    ADD_FAILURE() << tensor.status();
    return {};
  }
  return std::vector<float>(tensor->data<float>(), tensor->data<float>() + tensor->num_elements());
}

// ---- Names ----------------------------------------------------------------------------------------------------------

std::string ValueTensor(int offset) { return Tensor(kStorage, offset, {1}, {1}); }

TEST(TorchReaderTest, NamesJoinTheSteps) {
  const std::string value = Dict({{Text("model"), Dict({{Text("w"), ValueTensor(0)}})},
                                  {Text("groups"), List({Int(1), Dict({{Int(7), ValueTensor(1)}})})},
                                  {Text("set"), Tuple({ValueTensor(2)})}});
  const std::string file = TorchZip(value, {{"0", kSix}});
  const absl::StatusOr<TorchReader> reader = OpenBytes(file);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_THAT(Names(*reader), ElementsAre("groups.1.7", "model.w", "set.0"));
  EXPECT_THAT(Floats(reader->Read("groups.1.7")), ElementsAre(1));
  const ValueTree values = reader->Values();
  ValueJsonOptions options;
  options.tensor_name = [&](uint64_t number) { return reader->entries()[number].name; };
  EXPECT_EQ(*ValueToJson(values.root(), options),
            "{\"model\":{\"w\":{\"tensor\":\"model.w\"}},\"groups\":[1,{\"7\":{\"tensor\":\"groups.1.7\"}}],"
            "\"set\":[{\"tensor\":\"set.0\"}]}");
  EXPECT_EQ(FindValue(values.root(), "groups[0]")->int_value(), 1);
}

TEST(TorchReaderTest, NamesOfTwoTensorsAreExact) {
  const std::string value = Dict(
      {{Text("a"), Dict({{Text("b"), ValueTensor(0)}})}, {Text("a.b"), ValueTensor(1)}, {Text("c"), ValueTensor(2)}});
  const std::string file = TorchZip(value, {{"0", kSix}});
  const absl::StatusOr<TorchReader> reader = OpenBytes(file);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_THAT(Names(*reader), ElementsAre("[\"a\"][\"b\"]", "[\"a.b\"]", "c"));
  EXPECT_THAT(Floats(reader->Read("[\"a.b\"]")), ElementsAre(1));
}

TEST(TorchReaderTest, AnExactNameMayBeTakenToo) {
  const std::string value = Dict({{Text("a"), Dict({{Text("b"), ValueTensor(0)}})},
                                  {Text("a.b"), ValueTensor(1)},
                                  {Text("[\"a.b\"]"), ValueTensor(2)}});
  const std::string file = TorchZip(value, {{"0", kSix}});
  const absl::StatusOr<TorchReader> reader = OpenBytes(file);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_THAT(Names(*reader), ElementsAre("[\"[\\\"a.b\\\"]\"]", "[\"a\"][\"b\"]", "[\"a.b\"]"));
}

TEST(TorchReaderTest, OneTensorHasNoName) {
  const std::string file = TorchZip(Tensor(kStorage, 0, {2, 3}, {3, 1}), {{"0", kSix}});
  const absl::StatusOr<TorchReader> reader = OpenBytes(file);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_FALSE(reader->has_names());
  EXPECT_THAT(Floats(reader->Read("")), ElementsAre(0, 1, 2, 3, 4, 5));
}

// ---- Geometry -------------------------------------------------------------------------------------------------------

struct GeometryCase {
  const char* name;
  int offset;
  std::vector<int32_t> size;
  std::vector<int32_t> stride;
  std::vector<float> elements;
  const char* encoding;
};

class TorchGeometry : public ::testing::TestWithParam<std::tuple<GeometryCase, const char*>> {};

TEST_P(TorchGeometry, IsReadInEachWay) {
  const auto& [geometry, container] = GetParam();
  const std::string value = Dict({{Text("w"), Tensor(kStorage, geometry.offset, geometry.size, geometry.stride)}});
  const std::string kind = container;
  const std::string file = kind == "stream" ? TorchStream(value, {{"0", kSix}}, 4)
                                            : TorchZip(value, {{"0", kSix}}, {}, kind == "deflated" ? 6 : 0);
  const absl::StatusOr<TorchReader> reader = OpenBytes(file);
  ASSERT_TRUE(reader.ok()) << reader.status();
  const TorchEntry& entry = reader->entries()[0];
  if (kind != "deflated") {
    EXPECT_EQ(entry.encoding, geometry.encoding);
  }
  const absl::StatusOr<Elements> tensor = reader->Read("w");
  EXPECT_EQ(Floats(tensor), geometry.elements);
  const absl::StatusOr<TensorView> view = reader->ReadView("w");
  ASSERT_TRUE(view.ok()) << view.status();
  EXPECT_TRUE(Equal(*view, *tensor));
  const absl::StatusOr<Elements> mapped = reader->Map("w");
  ASSERT_TRUE(mapped.ok()) << mapped.status();
  EXPECT_TRUE(Equal(*mapped, *tensor));
  Elements into = *Elements::Create(tensor->dtype(), tensor->shape());
  TensorView target = into;
  ASSERT_TRUE(reader->ReadInto("w", &target).ok());
  EXPECT_TRUE(Equal(into, *tensor));
  for (int axis = 0; axis < tensor->shape().rank(); ++axis) {
    if (tensor->shape().dim(axis) < 2) continue;
    std::vector<TensorSlice::Extent> extents(geometry.size.size());
    extents[static_cast<size_t>(axis)] = {1, 1};
    const TensorSlice slice = *TensorSlice::Create(extents);
    const absl::StatusOr<Elements> part = reader->ReadSlice("w", slice);
    ASSERT_TRUE(part.ok()) << part.status();
    EXPECT_TRUE(Equal(*part, *TensorView(*tensor).Slice(slice))) << slice;
  }
  EXPECT_THAT(reader->ReadSlice("w", TensorSlice::Full(5)).status(), StatusIs(Code::kInvalidArgument, HasSubstr("")));
}

const GeometryCase kGeometries[] = {
    {"RowMajor", 0, {2, 3}, {3, 1}, {0, 1, 2, 3, 4, 5}, "plain"},
    {"Scalar", 4, {}, {}, {4}, "plain"},
    {"Empty", 6, {0, 2}, {2, 1}, {}, "plain"},
    {"Part", 2, {3}, {1}, {2, 3, 4}, "plain"},
    {"Transposed", 0, {3, 2}, {1, 3}, {0, 3, 1, 4, 2, 5}, "plain"},
    {"EverySecond", 1, {3}, {2}, {1, 3, 5}, "strided"},
    {"Column", 2, {2, 1}, {3, 1}, {2, 5}, "strided"},
    {"Expanded", 1, {2, 2}, {0, 1}, {1, 2, 1, 2}, "strided"},
    {"Overlapping", 0, {3, 2}, {1, 2}, {0, 2, 1, 3, 2, 4}, "strided"},
};
INSTANTIATE_TEST_SUITE_P(Views, TorchGeometry,
                         ::testing::Combine(::testing::ValuesIn(kGeometries),
                                            ::testing::Values("zip", "deflated", "stream")),
                         [](const auto& info) {
                           return absl::StrCat(std::get<0>(info.param).name, "_", std::get<1>(info.param));
                         });

// 2^40 elements of 4: refused before memory is asked for.
TEST(TorchReaderTest, RepeatedElementsAreBounded) {
  const std::string file =
      TorchZip(Dict({{Text("w"), Tensor(kStorage, 0, {1 << 20, 1 << 20}, {0, 0})}}), {{"0", kSix}});
  const absl::StatusOr<TorchReader> reader = OpenBytes(file);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_THAT(reader->Read("w").status(), StatusIs(Code::kResourceExhausted, HasSubstr("m.pt: tensor \"w\"")));
  const TensorSlice slice = *TensorSlice::Parse("3,2:7,2");
  EXPECT_THAT(Floats(reader->ReadSlice("w", slice)), ElementsAre(0, 0, 0, 0));
}

TEST(TorchReaderTest, ADeflatedRecordIsInflatedWithinTheLimit) {
  constexpr int kCount = 1 << 18;
  const std::string storage = Storage("FloatStorage", "0", kCount);
  const std::string file = TorchZip(Dict({{Text("all"), Tensor(storage, 0, {kCount}, {1})},
                                          {Text("first"), Tensor(storage, 0, {1}, {1})},
                                          {Text("repeated"), Tensor(storage, 0, {kCount}, {0})}}),
                                    {{"0", std::string(size_t{4} * kCount, '\0')}}, {}, /*deflate_level=*/6);
  TorchReaderOptions options;
  options.limits.max_memory_beyond_input = 1 << 19;
  options.limits.max_expansion = 1 << 20;
  options.listing = std::make_shared<ListingBudget>(DecodeLimits());
  const absl::StatusOr<TorchReader> reader = OpenBytes(file, options);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_TRUE(reader->Read("all").ok());
  const auto is_past_limit = StatusIs(Code::kResourceExhausted, HasSubstr("max_memory_beyond_input"));
  EXPECT_THAT(reader->Read("first").status(), is_past_limit);
  EXPECT_THAT(reader->Read("repeated").status(), is_past_limit);
  EXPECT_THAT(reader->ReadSlice("all", *TensorSlice::Parse("0,1")).status(), is_past_limit);
  options.limits.max_memory_beyond_input = 1 << 20;
  EXPECT_TRUE(OpenBytes(file, options)->Read("first").ok());
}

// ---- Kinds of tensors -----------------------------------------------------------------------------------------------

TEST(TorchReaderTest, ConjugateAndNegativeViewsAreComputed) {
  const std::string storage = Storage("ComplexFloatStorage", "0", 3);
  const std::string value = Dict(
      {{Text("conj"), Tensor(storage, 1, {2}, {1}, {Dict({{Text("conj"), Bool(true)}})})},
       {Text("both"), Tensor(storage, 0, {1}, {1}, {Dict({{Text("conj"), Bool(true)}, {Text("neg"), Bool(true)}})})}});
  const std::string file = TorchZip(value, {{"0", kSix}});
  const absl::StatusOr<TorchReader> reader = OpenBytes(file);
  ASSERT_TRUE(reader.ok()) << reader.status();
  const absl::StatusOr<Elements> conj = reader->Read("conj");
  ASSERT_TRUE(conj.ok()) << conj.status();
  EXPECT_EQ(conj->data<std::complex<float>>()[0], std::complex<float>(2, -3));
  EXPECT_EQ(conj->data<std::complex<float>>()[1], std::complex<float>(4, -5));
  EXPECT_EQ(reader->Map("both")->data<std::complex<float>>()[0], std::complex<float>(-0.0f, 1));
}

TEST(TorchReaderTest, BigEndianArchivesAreSwapped) {
  std::string bytes = kSix;
  for (size_t i = 0; i < bytes.size(); i += 4)
    std::reverse(bytes.begin() + static_cast<int>(i), bytes.begin() + static_cast<int>(i) + 4);
  const std::string file =
      TorchZip(Dict({{Text("w"), Tensor(kStorage, 1, {2}, {2})}}), {{"0", bytes}}, {{"byteorder", "big"}});
  const absl::StatusOr<TorchReader> reader = OpenBytes(file);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_THAT(Floats(reader->Read("w")), ElementsAre(1, 3));
}

TEST(TorchReaderTest, TiedTensorsNameOneAnother) {
  const std::string value = Dict({{Text("lm_head"), Tensor(kStorage, 0, {2, 3}, {3, 1})},
                                  {Text("embed"), Tensor(kStorage, 0, {2, 3}, {3, 1})},
                                  {Text("other"), Tensor(kStorage, 0, {3, 2}, {2, 1})}});
  const std::string file = TorchZip(value, {{"0", kSix}});
  const absl::StatusOr<TorchReader> reader = OpenBytes(file);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ(reader->FindEntry("embed")->alias_of, "");
  EXPECT_EQ(reader->FindEntry("lm_head")->alias_of, "embed");
  EXPECT_EQ(reader->FindEntry("other")->alias_of, "");
}

TEST(TorchReaderTest, ParametersHaveMetadata) {
  const std::string value =
      Dict({{Text("w"), Call(Global("torch._utils", "_rebuild_parameter"), {ValueTensor(0), Bool(true), Hooks()})}});
  const std::string file = TorchZip(value, {{"0", kSix}});
  const absl::StatusOr<TorchReader> reader = OpenBytes(file);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_TRUE(reader->entries()[0].has_metadata);
  EXPECT_TRUE(reader->Metadata("w")->requires_grad);
}

// Of shape [2,2].
std::string Quantized(const std::string& parameters) {
  return Call(Global("torch._utils", "_rebuild_qtensor"), {Storage("QInt8Storage", "0", 4), Int(0), Numbers({2, 2}),
                                                           Numbers({2, 1}), parameters, Bool(false), Hooks()});
}

TEST(TorchReaderTest, QuantizedTensorsAreTheirIntegers) {
  const std::string value = Dict(
      {{Text("a"), Quantized(Tuple({Global("torch", "per_tensor_affine"), Float(0.5), Int(3)}))},
       {Text("b"),
        Quantized(Tuple({Global("torch", "per_channel_affine"), Tensor(Storage("FloatStorage", "1", 2), 0, {2}, {1}),
                         Tensor(Storage("LongStorage", "2", 2), 0, {2}, {1}), Int(0)}))}});
  const std::string file =
      TorchZip(value, {{"0", "\1\2\3\xff"}, {"1", FloatBytes(2)}, {"2", Bytes(int64_t{-4}) + Bytes(int64_t{5})}});
  const absl::StatusOr<TorchReader> reader = OpenBytes(file);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ(reader->Read("a")->dtype(), DType::kQint8);
  const absl::StatusOr<TensorMetadata> a = reader->Metadata("a");
  ASSERT_TRUE(a.ok()) << a.status();
  EXPECT_EQ(a->attributes.at("torch.scale"), "0.5");
  EXPECT_EQ(a->attributes.at("torch.zero_point"), "3");
  const absl::StatusOr<TensorMetadata> b = reader->Metadata("b");
  ASSERT_TRUE(b.ok()) << b.status();
  EXPECT_EQ(b->attributes.at("torch.scale"), "[0.0,1.0]");
  EXPECT_EQ(b->attributes.at("torch.zero_point"), "[-4,5]");
  EXPECT_EQ(b->attributes.at("torch.axis"), "0");
}

TEST(TorchReaderTest, ParametersOfQuantizedTensorsAreOnesOfEachChannel) {
  const std::string scheme = Global("torch", "per_channel_affine");
  const std::string two = Tensor(Storage("FloatStorage", "1", 2), 0, {2}, {1});
  for (const Items& parameters :
       {Items{scheme, Tensor(Storage("FloatStorage", "1", 2), 0, {4000000}, {0}), two, Int(0)},
        Items{scheme, two, Tensor(Storage("FloatStorage", "1", 2), 0, {1}, {1}), Int(0)},
        Items{scheme, two, two, Int(2)}, Items{scheme, two, two, Int(-1)}, Items{scheme, two, two}}) {
    const absl::StatusOr<TorchReader> reader = OpenBytes(
        TorchZip(Dict({{Text("q"), Quantized(Tuple(parameters))}}), {{"0", "\1\2\3\4"}, {"1", FloatBytes(2)}}));
    ASSERT_TRUE(reader.ok()) << reader.status();
    EXPECT_TRUE(reader->Read("q").ok());
    EXPECT_THAT(reader->Metadata("q").status(), StatusIs(Code::kDataLoss, HasSubstr("channel")));
  }
}

// Tensors of XLA are arrays of NumPy in the pickle: their bytes are in no record.
TEST(TorchReaderTest, TensorsOfNumpyArraysAreInThePickle) {
  const auto tensor = [](const std::string& array, absl::string_view dtype) {
    return Call(Global("torch._utils", "_rebuild_device_tensor_from_numpy"),
                {array, Global("torch", dtype), Text("xla:1"), Bool(true)});
  };
  const std::string floats = NumpyArray({2, 3}, NumpyDType("f4", "<"), false, kSix);
  const std::string value = Dict({{Text("bf16"), tensor(floats, "bfloat16")},
                                  {Text("f32"), tensor(floats, "float32")},
                                  {Text("plain"), ValueTensor(1)}});
  // The order of bytes of the storages says nothing of an array.
  std::string big = kSix;
  for (size_t i = 0; i < big.size(); i += 4) std::reverse(&big[i], &big[i] + 4);
  for (const std::string& file : {TorchZip(value, {{"0", kSix}}), TorchStream(value, {{"0", kSix}}, 4),
                                  TorchZip(value, {{"0", big}}, {{"byteorder", "big"}})}) {
    const absl::StatusOr<TorchReader> reader = OpenBytes(file);
    ASSERT_TRUE(reader.ok()) << reader.status();
    EXPECT_THAT(reader->notes(), ElementsAre(HasSubstr("20 of ")));  // bytes of the storage of "plain"
    const TorchEntry* const entry = reader->FindEntry("f32");
    ASSERT_NE(entry, nullptr);
    EXPECT_EQ(entry->device, "xla:1");
    EXPECT_EQ(entry->offset, std::nullopt);
    EXPECT_EQ(entry->stored_bytes, 24u);
    EXPECT_TRUE(reader->Metadata("f32")->requires_grad);
    EXPECT_THAT(Floats(reader->Read("f32")), ElementsAre(0, 1, 2, 3, 4, 5));
    EXPECT_THAT(Floats(reader->Map("f32")), ElementsAre(0, 1, 2, 3, 4, 5));
    EXPECT_THAT(Floats(reader->ReadSlice("f32", *TensorSlice::Parse("1,1:1,2"))), ElementsAre(4, 5));
    EXPECT_EQ(*reader->OpenStream("f32"), nullptr);
    EXPECT_THAT(Floats(reader->Read("plain")), ElementsAre(1));
    const absl::StatusOr<Elements> halves = reader->Read("bf16");
    ASSERT_TRUE(halves.ok()) << halves.status();
    ASSERT_EQ(halves->dtype(), DType::kBfloat16);
    EXPECT_EQ(static_cast<float>(halves->data<bfloat16>()[5]), 5.0f);
    EXPECT_TRUE(reader->VerifyAll([](const TorchDamage& damage) { ADD_FAILURE() << damage.status; }).ok());
  }
}

struct ListedCase {
  const char* name;
  std::string value;
  const char* says;
};

class TorchListed : public ::testing::TestWithParam<ListedCase> {};

TEST_P(TorchListed, WithTheReason) {
  const std::string file = TorchZip(Dict({{Text("w"), GetParam().value}}), {{"0", kSix}});
  const absl::StatusOr<TorchReader> reader = OpenBytes(file);
  ASSERT_TRUE(reader.ok()) << reader.status();
  const TorchEntry* const entry = reader->FindEntry("w");
  ASSERT_NE(entry, nullptr);
  EXPECT_THAT(entry->read_status, StatusIs(Code::kUnimplemented, HasSubstr(GetParam().says)));
  EXPECT_THAT(entry->shape.dims(), ElementsAre(2, 3));
  EXPECT_THAT(reader->Read("w").status(), StatusIs(Code::kUnimplemented, HasSubstr("m.pt: tensor \"w\"")));
}

std::string Shell(const std::string& first) {
  return Call(Global("torch._utils", "_rebuild_wrapper_subclass"),
              {first, Global("torch", "float32"), Numbers({2, 3}), Numbers({3, 1}), Int(0),
               Call(Global("torch.serialization", "_get_layout"), {Text("torch.strided")}),
               Call(Global("torch", "device"), {Text("cpu")}), Bool(false)});
}

const ListedCase kListed[] = {
    {"Meta",
     Call(Global("torch._utils", "_rebuild_meta_tensor_no_storage"),
          {Global("torch", "float32"), Numbers({2, 3}), Numbers({3, 1}), Bool(false)}),
     "\"meta\""},
    {"Sparse",
     Call(Global("torch._utils", "_rebuild_sparse_tensor"),
          {Call(Global("torch.serialization", "_get_layout"), {Text("torch.sparse_coo")}),
           Tuple({ValueTensor(0), ValueTensor(1), Call(Global("torch", "Size"), {Numbers({2, 3})})})}),
     "indices and values are tensors below"},
    {"Complex32",
     Call(Global("torch._utils", "_rebuild_tensor_v3"),
          {Storage("UntypedStorage", "0", 24), Int(0), Numbers({2, 3}), Numbers({3, 1}), Bool(false), Hooks(),
           Global("torch", "complex32")}),
     "complex32"},
    {"Wrapper", Shell(Global("torch", "Tensor")), "keeps its elements in other tensors"},
};
INSTANTIATE_TEST_SUITE_P(Kinds, TorchListed, ::testing::ValuesIn(kListed),
                         [](const auto& info) { return std::string(info.param.name); });

// ---- Indices of sparse tensors --------------------------------------------------------------------------------------

struct Ints {
  std::vector<int32_t> dims;
  std::vector<int64_t> values;
  bool is_int32 = false;
  std::vector<int32_t> strides = {};  // in the storage; empty: row-major
};

std::vector<int32_t> RowMajor(const std::vector<int32_t>& dims) {
  std::vector<int32_t> strides(dims.size(), 1);
  for (size_t i = dims.size(); i > 1; --i) strides[i - 2] = strides[i - 1] * std::max(dims[i - 1], 1);
  return strides;
}

// A file with the sparse tensor "s". The values are zeros.
std::string SparseFile(const std::string& layout, const std::vector<Ints>& indices, const std::vector<int32_t>& values,
                       const std::vector<int32_t>& size, const Items& more = {}, int deflate_level = 0) {
  Storages storages;
  Items parts;
  for (const Ints& of : indices) {
    std::string bytes;
    for (const int64_t value : of.values) bytes += of.is_int32 ? Bytes(static_cast<int32_t>(value)) : Bytes(value);
    const std::string key = std::to_string(storages.size());
    parts.push_back(Tensor(Storage(of.is_int32 ? "IntStorage" : "LongStorage", key, static_cast<int>(of.values.size())),
                           0, of.dims, of.strides.empty() ? RowMajor(of.dims) : of.strides));
    storages.emplace_back(key, bytes);
  }
  int32_t count = 1;
  for (const int32_t dim : values) count *= dim;
  parts.push_back(Tensor(Storage("FloatStorage", "v", count), 0, values, RowMajor(values)));
  storages.emplace_back("v", std::string(static_cast<size_t>(count) * 4, '\0'));
  parts.push_back(Call(Global("torch", "Size"), {Numbers(size)}));
  parts.insert(parts.end(), more.begin(), more.end());
  return TorchZip(
      Dict({{Text("s"), Call(Global("torch._utils", "_rebuild_sparse_tensor"),
                             {Call(Global("torch.serialization", "_get_layout"), {Text(layout)}), Tuple(parts)})}}),
      storages, {}, deflate_level);
}

// The damage that VerifyAll finds.
std::vector<std::string> DamageOf(const std::string& file) {
  const absl::StatusOr<TorchReader> reader = OpenBytes(file);
  if (!reader.ok()) return {std::string(reader.status().message())};
  std::vector<std::string> found;
  EXPECT_TRUE(reader->VerifyAll([&](const TorchDamage& damage) { found.emplace_back(damage.status.message()); }).ok());
  return found;
}

struct SparseCase {
  const char* name;
  const char* layout;
  std::vector<Ints> indices;
  std::vector<int32_t> values;
  std::vector<int32_t> size;
  const char* says;  // "": nothing
  bool is_coalesced = false;
};

class SparseIndices : public ::testing::TestWithParam<SparseCase> {};

TEST_P(SparseIndices, AreChecked) {
  const SparseCase& row = GetParam();
  for (const bool is_int32 : {false, true}) {
    for (const int deflate_level : {0, 6}) {
      std::vector<Ints> indices = row.indices;
      for (Ints& of : indices) of.is_int32 = of.is_int32 || is_int32;
      Items more;
      if (row.is_coalesced) more.push_back(Bool(true));
      const std::vector<std::string> damage =
          DamageOf(SparseFile(row.layout, indices, row.values, row.size, more, deflate_level));
      if (*row.says == '\0') {
        EXPECT_THAT(damage, IsEmpty());
      } else {
        EXPECT_THAT(damage, ElementsAre(HasSubstr(row.says)));
      }
    }
  }
}

const SparseCase kSparse[] = {
    {"Coo", "torch.sparse_coo", {{{2, 3}, {0, 1, 0, 2, 0, 2}}}, {3}, {2, 3}, ""},
    {"CooWithDenseAxes", "torch.sparse_coo", {{{1, 2}, {4, 0}}}, {2, 7}, {5, 7}, ""},
    {"CooOfNothing", "torch.sparse_coo", {{{2, 0}, {}}}, {0}, {0, 3}, ""},
    {"CooWithoutSparseAxes", "torch.sparse_coo", {{{0, 2}, {}}}, {2, 3}, {3}, ""},
    {"CooTransposed", "torch.sparse_coo", {{{2, 3}, {0, 2, 1, 0, 0, 2}, false, {1, 2}}}, {3}, {2, 3}, ""},
    {"CooTransposedOutside",
     "torch.sparse_coo",
     {{{2, 3}, {0, 2, 1, 0, 2, 1}, false, {1, 2}}},
     {3},
     {2, 3},
     "index [0,2] is 2; wanted 0 to 1 for a sparse tensor [2,3]"},
    {"CooWithGaps", "torch.sparse_coo", {{{2, 2}, {0, 9, 1, 9, 0, 9, 2}, false, {4, 2}}}, {2}, {2, 3}, ""},
    {"CooRepeated", "torch.sparse_coo", {{{2, 4}, {1}, false, {0, 0}}}, {4}, {2, 3}, ""},
    {"CooTooLarge", "torch.sparse_coo", {{{2, 2}, {0, 99, 2, 0}}}, {2}, {2, 3}, "m.pt: tensor \"s.indices\""},
    {"CooTooLargePosition",
     "torch.sparse_coo",
     {{{2, 2}, {0, 99, 2, 0}}},
     {2},
     {2, 3},
     ": index [0,1] is 99; wanted 0 to 1 for a sparse tensor [2,3]"},
    {"CooNegative", "torch.sparse_coo", {{{2, 2}, {0, 1, 2, -1}}}, {2}, {2, 3}, "index [1,1] is -1; wanted 0 to 2"},
    {"CooOfAnAxisWithoutElements",
     "torch.sparse_coo",
     {{{2, 1}, {0, 0}}},
     {1},
     {0, 3},
     "index [0,0] is 0; wanted none"},
    {"CooOfTooFewAxes",
     "torch.sparse_coo",
     {{{1, 2}, {0, 1}}},
     {2},
     {2, 3},
     "has the shape [1,2]; wanted [sparse axes, number of values] for the values [2] of a sparse tensor [2,3]"},
    {"CooOfTooManyAxes", "torch.sparse_coo", {{{3, 2}, {0, 1, 0, 1, 0, 1}}}, {2}, {2, 3}, "has the shape [3,2]"},
    {"CooOfOneAxis", "torch.sparse_coo", {{{2}, {0, 1}}}, {2}, {2}, "has the shape [2]"},
    {"CooOfFewerValues", "torch.sparse_coo", {{{2, 2}, {0, 1, 0, 1}}}, {3}, {2, 3}, "has the shape [2,2]"},
    {"CooOfOtherDenseAxes", "torch.sparse_coo", {{{1, 2}, {0, 1}}}, {2, 6}, {5, 7}, "has the shape [1,2]"},
    {"CooOfScalarValues", "torch.sparse_coo", {{{2, 1}, {0, 1}}}, {}, {2, 3}, "has the shape [2,1]"},
    {"Coalesced", "torch.sparse_coo", {{{2, 3}, {0, 0, 1, 0, 2, 1}}}, {3}, {2, 3}, "", true},
    {"CoalescedTwice",
     "torch.sparse_coo",
     {{{2, 3}, {0, 1, 1, 2, 1, 1}}},
     {3},
     {2, 3},
     "column 2 is [1,1] after [1,1]; the columns of a coalesced tensor ascend",
     true},
    {"CoalescedFalling",
     "torch.sparse_coo",
     {{{2, 2}, {1, 0, 0, 2}}},
     {2},
     {2, 3},
     "column 1 is [0,2] after [1,0]",
     true},
    {"Csr", "torch.sparse_csr", {{{3}, {0, 2, 3}}, {{3}, {0, 2, 1}}}, {3}, {2, 3}, ""},
    {"CsrOfNothing", "torch.sparse_csr", {{{3}, {0, 0, 0}}, {{0}, {}}}, {0}, {2, 3}, ""},
    {"CsrWithoutRows", "torch.sparse_csr", {{{1}, {0}}, {{0}, {}}}, {0}, {0, 3}, ""},
    {"CsrWithDenseAxes", "torch.sparse_csr", {{{3}, {0, 1, 2}}, {{2}, {0, 2}}}, {2, 5}, {2, 3, 5}, ""},
    {"CsrInBatches", "torch.sparse_csr", {{{2, 3}, {0, 1, 2, 0, 2, 2}}, {{2, 2}, {0, 2, 0, 1}}}, {2, 2}, {2, 2, 3}, ""},
    {"CsrInNoBatches", "torch.sparse_csr", {{{0, 3}, {}}, {{0, 2}, {}}}, {0, 2}, {0, 2, 3}, ""},
    {"CsrWithGaps",
     "torch.sparse_csr",
     {{{3}, {0, 9, 1, 9, 2}, false, {2}}, {{2}, {0, 9, 9, 2}, false, {3}}},
     {2},
     {2, 3},
     ""},
    {"CsrInBatchesTransposed",
     "torch.sparse_csr",
     {{{2, 3}, {0, 0, 1, 2, 2, 2}, false, {1, 2}}, {{2, 2}, {0, 0, 2, 1}, false, {1, 2}}},
     {2, 2},
     {2, 2, 3},
     ""},
    {"CsrInBatchesTransposedOutside",
     "torch.sparse_csr",
     {{{2, 3}, {0, 0, 1, 2, 2, 2}, false, {1, 2}}, {{2, 2}, {0, 0, 2, 3}, false, {1, 2}}},
     {2, 2},
     {2, 2, 3},
     "tensor \"s.plain_indices\""},
    {"CsrStart",
     "torch.sparse_csr",
     {{{3}, {1, 1, 2}}, {{2}, {0, 2}}},
     {2},
     {2, 3},
     ": index [0] is 1; wanted 0 for a sparse tensor [2,3]"},
    {"CsrEnd", "torch.sparse_csr", {{{3}, {0, 1, 1}}, {{2}, {0, 2}}}, {2}, {2, 3}, ": index [2] is 1; wanted 2 for"},
    {"CsrPastTheEnd",
     "torch.sparse_csr",
     {{{3}, {0, 1, 3}}, {{2}, {0, 2}}},
     {2},
     {2, 3},
     "tensor \"s.compressed_indices\""},
    {"CsrFalls",
     "torch.sparse_csr",
     {{{4}, {0, 2, 1, 2}}, {{2}, {0, 2}}},
     {2},
     {3, 3},
     ": index [2] is 1; wanted 2 for a sparse tensor [3,3]"},
    {"CsrFar", "torch.sparse_csr", {{{3}, {0, 5, 2}}, {{2}, {0, 2}}}, {2}, {2, 3}, ": index [1] is 5; wanted 0 to 2"},
    {"CsrNegative", "torch.sparse_csr", {{{3}, {0, -1, 2}}, {{2}, {0, 2}}}, {2}, {2, 3}, "[1] is -1; wanted 0 to 2"},
    {"CsrColumn",
     "torch.sparse_csr",
     {{{3}, {0, 1, 2}}, {{2}, {0, 3}}},
     {2},
     {2, 3},
     ": index [1] is 3; wanted 0 to 2 for a sparse tensor [2,3]"},
    {"CsrNegativeColumn",
     "torch.sparse_csr",
     {{{3}, {0, 1, 2}}, {{2}, {-1, 2}}},
     {2},
     {2, 3},
     "[0] is -1; wanted 0 to 2"},
    {"CsrColumnTwice", "torch.sparse_csr", {{{3}, {0, 2, 2}}, {{2}, {1, 1}}}, {2}, {2, 3}, "[1] is 1; wanted 2 for"},
    {"CsrColumnsFall", "torch.sparse_csr", {{{3}, {0, 2, 2}}, {{2}, {2, 0}}}, {2}, {2, 3}, "[1] is 0; wanted none"},
    {"CsrInBatchesEnd",
     "torch.sparse_csr",
     {{{2, 3}, {0, 1, 2, 0, 2, 1}}, {{2, 2}, {0, 2, 0, 1}}},
     {2, 2},
     {2, 2, 3},
     ": index [1,2] is 1; wanted 2 for"},
    {"CsrInBatchesColumn",
     "torch.sparse_csr",
     {{{2, 3}, {0, 1, 2, 0, 2, 2}}, {{2, 2}, {0, 2, 0, 3}}},
     {2, 2},
     {2, 2, 3},
     ": index [1,1] is 3; wanted 1 to 2 for a sparse tensor [2,2,3]"},
    {"CsrWithoutRowsAndWithValues", "torch.sparse_csr", {{{1}, {1}}, {{1}, {0}}}, {1}, {0, 3}, "[0] is 1; wanted none"},
    {"CsrOfOtherRows",
     "torch.sparse_csr",
     {{{4}, {0, 1, 2, 2}}, {{2}, {0, 2}}},
     {2},
     {2, 3},
     "has the shape [4]; wanted one that fits plain indices [2] for the values [2] of a sparse tensor [2,3]"},
    {"CsrOfOtherValues", "torch.sparse_csr", {{{3}, {0, 1, 2}}, {{2}, {0, 2}}}, {3}, {2, 3}, "has the shape [3]"},
    {"CsrOfOtherBatches",
     "torch.sparse_csr",
     {{{2, 3}, {0, 1, 2, 0, 2, 2}}, {{2, 2}, {0, 2, 0, 1}}},
     {1, 2},
     {2, 2, 3},
     "has the shape [2,3]"},
    {"CsrWithoutIndices", "torch.sparse_csr", {{{0}, {}}, {{0}, {}}}, {0}, {2, 3}, "has the shape [0]"},
    {"CsrOfScalars", "torch.sparse_csr", {{{}, {0}}, {{}, {0}}}, {1}, {2, 3}, "has the shape []"},
    {"CsrOfOneAxis", "torch.sparse_csr", {{{3}, {0, 1, 2}}, {{2}, {0, 2}}}, {2}, {2}, "has the shape [3]"},
    {"Csc", "torch.sparse_csc", {{{4}, {0, 1, 1, 2}}, {{2}, {1, 0}}}, {2}, {2, 3}, ""},
    {"CscRow", "torch.sparse_csc", {{{4}, {0, 1, 1, 2}}, {{2}, {1, 2}}}, {2}, {2, 3}, "[1] is 2; wanted 0 to 1"},
    {"CscEnd", "torch.sparse_csc", {{{4}, {0, 1, 1, 1}}, {{2}, {1, 0}}}, {2}, {2, 3}, "[3] is 1; wanted 2"},
    {"Bsr", "torch.sparse_bsr", {{{3}, {0, 1, 2}}, {{2}, {0, 1}}}, {2, 2, 3}, {4, 6}, ""},
    {"BsrColumn",
     "torch.sparse_bsr",
     {{{3}, {0, 1, 2}}, {{2}, {0, 2}}},
     {2, 2, 3},
     {4, 6},
     "[1] is 2; wanted 0 to 1 for a sparse tensor [4,6]"},
    {"BsrOfOtherBlocks", "torch.sparse_bsr", {{{3}, {0, 1, 2}}, {{2}, {0, 1}}}, {2, 2, 4}, {4, 6}, "has the shape [3]"},
    {"BsrOfEmptyBlocks", "torch.sparse_bsr", {{{1}, {0}}, {{0}, {}}}, {0, 0, 3}, {0, 6}, "has the shape [1]"},
    {"BsrInBatches", "torch.sparse_bsr", {{{2, 3}, {0, 1, 1, 0, 0, 1}}, {{2, 1}, {1, 0}}}, {2, 1, 2, 3}, {2, 4, 6}, ""},
    {"Bsc", "torch.sparse_bsc", {{{4}, {0, 1, 1, 2}}, {{2}, {1, 0}}}, {2, 2, 2}, {4, 6}, ""},
    {"BscRow", "torch.sparse_bsc", {{{4}, {0, 1, 1, 2}}, {{2}, {1, 2}}}, {2, 2, 2}, {4, 6}, "[1] is 2; wanted 0 to 1"},
    {"BscStart", "torch.sparse_bsc", {{{4}, {1, 1, 1, 2}}, {{2}, {1, 0}}}, {2, 2, 2}, {4, 6}, "[0] is 1; wanted 0"},
};
INSTANTIATE_TEST_SUITE_P(Layouts, SparseIndices, ::testing::ValuesIn(kSparse),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(TorchReaderTest, IndicesOfTwoDTypesAreDamage) {
  EXPECT_THAT(DamageOf(SparseFile("torch.sparse_csr", {{{3}, {0, 1, 2}, true}, {{2}, {0, 2}, false}}, {2}, {2, 3})),
              ElementsAre(HasSubstr("\"s.plain_indices\"")));
}

// More indices than are read at once; the wrong one is in the second block.
TEST(TorchReaderTest, ManyIndicesAreCheckedInBlocks) {
  constexpr int32_t kCount = 70000;
  Ints coordinates = {{1, kCount}, {}};
  Ints rows = {{kCount + 1}, {}};
  Ints columns = {{kCount}, std::vector<int64_t>(kCount, 0)};
  for (int64_t i = 0; i <= kCount; ++i) rows.values.push_back(i);
  coordinates.values.assign(rows.values.begin(), rows.values.end() - 1);
  EXPECT_THAT(DamageOf(SparseFile("torch.sparse_coo", {coordinates}, {kCount}, {kCount}, {Bool(true)})), IsEmpty());
  EXPECT_THAT(DamageOf(SparseFile("torch.sparse_csr", {rows, columns}, {kCount}, {kCount, 1})), IsEmpty());
  coordinates.values[69999] = kCount;
  columns.values[69998] = 1;
  EXPECT_THAT(DamageOf(SparseFile("torch.sparse_coo", {coordinates}, {kCount}, {kCount}, {Bool(true)})),
              ElementsAre(HasSubstr("index [0,69999] is 70000; wanted 0 to 69999")));
  EXPECT_THAT(DamageOf(SparseFile("torch.sparse_csr", {rows, columns}, {kCount}, {kCount, 1})),
              ElementsAre(HasSubstr("index [69998] is 1; wanted 0 for")));
}

// A few bytes that stand for 2^40 indices.
TEST(TorchReaderTest, RepeatedIndicesHaveALimit) {
  EXPECT_THAT(DamageOf(SparseFile("torch.sparse_coo", {{{1 << 20, 1 << 20}, {0}, false, {0, 0}}}, {0}, {2, 3})),
              ElementsAre(HasSubstr("max_memory_beyond_input")));
}

TEST(TorchReaderTest, ADamagedIndexTensorHasOneReport) {
  std::string file = SparseFile("torch.sparse_coo", {{{1, 2}, {0, 99}}}, {2}, {3});
  const std::string bytes = Bytes(int64_t{0}) + Bytes(int64_t{99});
  file[file.find(bytes)] ^= 8;
  EXPECT_THAT(DamageOf(file), ElementsAre(HasSubstr("CRC-32")));
}

TEST(TorchReaderTest, AttributesOfDictsAreNotes) {
  const std::string noted = Hooks() + Dict({{Text("note"), Text("x")}, {Text("_metadata"), "}"}}) + "b";
  const absl::StatusOr<TorchReader> reader = OpenBytes(TorchZip(noted, {}));
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_THAT(reader->notes(), ElementsAre("the attribute \"note\" of dicts is not read"));
  EXPECT_THAT(reader->NotWritten(), ElementsAre("the attributes of 1 dict (\"note\")"));
}

TEST(TorchReaderTest, PartsOfOtherTensorsAreListedBelowThem) {
  const std::string tensor =
      Call(Global("torch._tensor", "_rebuild_from_type_v2"),
           {Global("torch._utils", "_rebuild_wrapper_subclass"), Global("torch.distributed.tensor", "DTensor"),
            Tuple({Global("torch.distributed.tensor", "DTensor"), Global("torch", "float32"), Numbers({4, 3}),
                   Numbers({3, 1}), Int(0), Call(Global("torch.serialization", "_get_layout"), {Text("torch.strided")}),
                   Call(Global("torch", "device"), {Text("cpu")}), Bool(false)}),
            Tuple({"N", Dict({{Text("_local_tensor"), Tensor(kStorage, 0, {2, 3}, {3, 1})}})})});
  const std::string file = TorchZip(Dict({{Text("w"), tensor}}), {{"0", kSix}});
  const absl::StatusOr<TorchReader> reader = OpenBytes(file);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_THAT(Names(*reader), ElementsAre("w", "w._local_tensor"));
  EXPECT_THAT(reader->entries()[0].shape.dims(), ElementsAre(4, 3));
  EXPECT_TRUE(absl::IsUnimplemented(reader->entries()[0].read_status));
  EXPECT_EQ(Floats(reader->Read("w._local_tensor")).size(), 6u);
}

// ---- Records --------------------------------------------------------------------------------------------------------

struct FileCase {
  const char* name;
  std::string bytes;
  const char* says;
};

class TorchFileRejects : public ::testing::TestWithParam<FileCase> {};

TEST_P(TorchFileRejects, NamingTheFile) {
  EXPECT_THAT(OpenBytes(GetParam().bytes).status(), StatusIs(Code::kDataLoss, HasSubstr(GetParam().says)));
  EXPECT_THAT(std::string(OpenBytes(GetParam().bytes).status().message()), HasSubstr("m.pt: "));
}

const std::string kValue = Dict({{Text("w"), Tensor(kStorage, 0, {2, 3}, {3, 1})}});

const FileCase kBadFiles[] = {
    {"NoRecord", TorchZip(kValue, {{"1", kSix}}), "no record \"data/0\""},
    {"ShortRecord", TorchZip(kValue, {{"0", FloatBytes(5)}}), "has 20 bytes; its storage of 6 elements needs 24"},
    {"KeyOutside", TorchZip(Dict({{Text("w"), Tensor(Storage("FloatStorage", "../data.pkl", 1), 0, {1}, {1})}}), {}),
     "no record \"data/../data.pkl\""},
    {"NewVersion", TorchZip(kValue, {{"0", kSix}}, {{"version", "999\n"}}), "\"999\"; 1 to 10 are read"},
    {"VersionOfText", TorchZip(kValue, {{"0", kSix}}, {{"version", "x"}}), "the record \"version\" is \"x\""},
    {"ByteOrder", TorchZip(kValue, {{"0", kSix}}, {{"byteorder", "little\n"}}), "wanted \"little\" or \"big\""},
    {"OnlyCase", TorchZip(kValue, {{"0", kSix}}, {{"DATA/0", ""}}), "differ only in case"},
    {"BytesBehindThePickle", TorchZip("N.N", {}), "2 bytes behind the end of the pickle"},
    {"QuantizerOfFive",
     TorchZip(Quantized(Tuple({Global("torch", "per_tensor_affine"), Float(0.5), Int(3), Int(0), Int(0)})),
              {{"0", "\1\2\3\4"}}),
     "it takes a scheme, scales, zero points and perhaps an axis"},
    {"Tar", std::string(257, 'x') + "ustar" + std::string(250, 0), "a tar archive"},
    {"Text", "version https://git-lfs.github.com", "neither a zip archive"},
    {"PlainPickle", Pickled("N"), "a pickle that torch.save did not write"},
    {"StreamWithoutAStorage", TorchStream(kValue, {}, 4), "whose bytes the stream does not have"},
    {"StreamOfAnotherStorage", TorchStream(kValue, {{"0", kSix}, {"9", kSix}}, 4), "which its object does not name"},
    {"StreamOfAStorageTwice", TorchStream(kValue, {{"0", kSix}, {"0", kSix}}, 4), "storage \"0\" twice"},
    {"StreamOfAnotherSize", TorchStream(kValue, {{"0", FloatBytes(5)}}, 4), "has 5 elements in the stream"},
};
INSTANTIATE_TEST_SUITE_P(Files, TorchFileRejects, ::testing::ValuesIn(kBadFiles),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(TorchReaderTest, AWrongChecksumIsFoundOnReading) {
  std::string file = TorchZip(kValue, {{"0", kSix}});
  file[file.find(kSix)] ^= 1;
  const absl::StatusOr<TorchReader> reader = OpenBytes(file);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_THAT(reader->Read("w").status(), StatusIs(Code::kDataLoss, HasSubstr("m.pt: tensor \"w\"")));
  EXPECT_THAT(reader->Map("w").status(), StatusIs(Code::kDataLoss, HasSubstr("")));
  std::vector<std::string> damaged;
  ASSERT_TRUE(reader->VerifyAll([&](const TorchDamage& damage) { damaged.push_back(damage.tensor); }).ok());
  EXPECT_THAT(damaged, ElementsAre("w"));
  TorchReaderOptions options;
  options.verify = false;
  EXPECT_TRUE(OpenBytes(file, options)->Read("w").ok());
}

// Counts the bytes that are read; they can also be mapped.
class CountingSource final : public ByteSource {
 public:
  explicit CountingSource(const std::string& bytes) : source_(MakeMemorySource("m.pt", bytes)) {}
  const std::string& name() const override { return source_->name(); }
  uint64_t size_bytes() const override { return source_->size_bytes(); }
  absl::Status ReadAt(uint64_t offset, absl::Span<char> out) const override {
    num_bytes_ += out.size();
    return source_->ReadAt(offset, out);
  }
  uint64_t TakeCount() const { return std::exchange(num_bytes_, 0); }

 private:
  std::shared_ptr<const ByteSource> source_;
  mutable uint64_t num_bytes_ = 0;
};

TEST(TorchReaderTest, AWholeRecordIsVerifiedWhileItIsRead) {
  const std::string value = Dict({{Text("all"), Tensor(kStorage, 0, {2, 3}, {3, 1})},
                                  {Text("row"), Tensor(kStorage, 3, {3}, {1})},
                                  {Text("turned"), Tensor(kStorage, 0, {3, 2}, {1, 3})}});
  const std::string file = TorchZip(value, {{"0", kSix}});
  const auto open = [](const std::string& bytes, std::shared_ptr<const CountingSource>* source) {
    *source = std::make_shared<const CountingSource>(bytes);
    absl::StatusOr<TorchReader> reader = TorchReader::OpenSource(*source);
    EXPECT_TRUE(reader.ok()) << reader.status();
    (*source)->TakeCount();
    return *std::move(reader);
  };
  std::shared_ptr<const CountingSource> source;
  for (const char* const name : {"all", "turned"}) {
    const TorchReader reader = open(file, &source);
    EXPECT_TRUE(reader.ReadView(name).ok());
    EXPECT_EQ(source->TakeCount(), 24u) << name;  // once, for the elements and the checksum
    EXPECT_TRUE(reader.Read("row").ok());
    EXPECT_EQ(source->TakeCount(), 12u);  // the record is known to be right
  }
  {
    const TorchReader reader = open(file, &source);
    EXPECT_TRUE(reader.Read("row").ok());
    EXPECT_EQ(source->TakeCount(), 36u);  // the record, then its part
    EXPECT_TRUE(reader.ReadSlice("all", *TensorSlice::Parse("0,1:0,3")).ok());
    EXPECT_EQ(source->TakeCount(), 12u);
  }
  std::string damaged = file;
  damaged[damaged.find(kSix)] ^= 1;  // in the first row
  {
    const TorchReader reader = open(damaged, &source);
    EXPECT_TRUE(reader.ReadSlice("all", *TensorSlice::Parse("1,1:0,3")).ok());  // without the rest, not verified
    EXPECT_EQ(source->TakeCount(), 12u);
    for (const char* const name : {"all", "row", "turned"}) {
      EXPECT_THAT(reader.Read(name).status(), StatusIs(Code::kDataLoss, HasSubstr(name)));
      EXPECT_THAT(reader.ReadView(name).status(), StatusIs(Code::kDataLoss, HasSubstr(name)));
      EXPECT_THAT(reader.Map(name).status(), StatusIs(Code::kDataLoss, HasSubstr(name)));
    }
    const absl::StatusOr<std::unique_ptr<ElementStream>> stream = reader.OpenStream("all");
    ASSERT_TRUE(stream.ok()) << stream.status();
    std::string elements(24, '\0');
    EXPECT_TRUE((*stream)->Read(absl::MakeSpan(&elements[0], elements.size())).ok());
    EXPECT_THAT((*stream)->Finish(), StatusIs(Code::kDataLoss, HasSubstr("tensor \"all\"")));
  }
}

TEST(TorchReaderTest, ChecksumsOfZeroAreNone) {
  std::string file = TorchZip(kValue, {{"0", kSix}});
  for (size_t at = 0; at + 46 < file.size(); ++at) {
    if (file.compare(at, 4, "PK\3\4") == 0) file.replace(at + 14, 4, 4, '\0');
    if (file.compare(at, 4, "PK\1\2") == 0) file.replace(at + 16, 4, 4, '\0');
  }
  const absl::StatusOr<TorchReader> reader = OpenBytes(file);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_FALSE(reader->entries()[0].has_checksum);
  EXPECT_TRUE(reader->Read("w").ok());
}

TEST(TorchReaderTest, AStorageWithoutItsDataIsNotRead) {
  std::string file = TorchZip(kValue, {{"0", std::string(24, '\0')}});
  for (size_t at = 0; at + 46 < file.size(); ++at) {
    const bool is_local = file.compare(at, 4, "PK\3\4") == 0 && file.compare(at + 30, 14, "archive/data/0") == 0;
    const bool is_entry = file.compare(at, 4, "PK\1\2") == 0 && file.compare(at + 46, 14, "archive/data/0") == 0;
    if (is_local) file.replace(at + 14, 4, 4, '\0');
    if (is_entry) file.replace(at + 16, 4, 4, '\0');
  }
  const absl::StatusOr<TorchReader> reader = OpenBytes(file);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_THAT(reader->Read("w").status(), StatusIs(Code::kDataLoss, HasSubstr("saved without its data (skip_data)")));
}

TEST(TorchReaderTest, NotesSayWhatNoTensorHas) {
  const std::string value = Dict({{Text("w"), Tensor(kStorage, 0, {2}, {1})}});
  const std::string file = TorchZip(value, {{"0", FloatBytes(8)}});
  const absl::StatusOr<TorchReader> reader = OpenBytes(file);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_THAT(reader->notes(), ElementsAre(HasSubstr("8 bytes that its storage does not need"),
                                           HasSubstr("16 of 24 bytes of storages belong to no tensor")));
  const std::string stream = TorchStream(kValue, {{"0", kSix}}, 4);
  EXPECT_THAT(OpenBytes(stream)->notes(), IsEmpty());
  const std::string two = stream + stream;
  EXPECT_THAT(OpenBytes(two)->notes(), ElementsAre(HasSubstr("another save may follow")));
}

// ---- Damage ---------------------------------------------------------------------------------------------------------

// Refused, or the same elements; never a crash.
void CheckDamaged(const std::string& bytes, bool has_checksums) {
  const absl::StatusOr<TorchReader> reader = OpenBytes(bytes);
  if (!reader.ok()) return;
  for (const TorchEntry& entry : reader->entries()) {
    const absl::StatusOr<Elements> tensor = reader->Read(entry.name);
    if (!tensor.ok() || !has_checksums) continue;
    EXPECT_EQ(entry.name, "w");
    EXPECT_THAT(Floats(tensor), ElementsAre(0, 1, 2, 3, 4, 5));
  }
  reader->VerifyAll([](const TorchDamage&) {}).IgnoreError();
}

TEST(TorchReaderTest, EachCutAndEachChangedByte) {
  const std::pair<std::string, bool> kFiles[] = {
      {TorchZip(kValue, {{"0", kSix}}), true},
      {TorchZip(kValue, {{"0", kSix}}, {}, 6), true},
      {TorchStream(kValue, {{"0", kSix}}, 4), false},
  };
  for (const auto& [file, has_checksums] : kFiles) {
    for (size_t size = 0; size < file.size(); ++size) {
      EXPECT_FALSE(OpenBytes(file.substr(0, size)).ok()) << size << " of " << file.size();
    }
    for (size_t at = 0; at < file.size(); ++at) {
      for (const int change : {0x01, 0x80, 0xff}) {
        std::string changed = file;
        changed[at] = static_cast<char>(changed[at] ^ change);
        SCOPED_TRACE(absl::StrCat("byte ", at, " of ", file.size(), " xor ", change));
        CheckDamaged(changed, has_checksums);
      }
    }
  }
}

}  // namespace
}  // namespace tensorcask::torch::testing
