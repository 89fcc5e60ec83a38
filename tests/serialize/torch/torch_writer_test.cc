// Files that TorchWriter wrote, read by TorchReader. That PyTorch reads them, too, is shown by
// tests/peers/torch_peer.py.

#include "tensorcask/serialize/torch/torch_writer.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/serialize/torch/internal/pickle_writer.h"
#include "tensorcask/serialize/torch/torch_reader.h"
#include "tensorcask/serialize/values/value.h"
#include "tensorcask/serialize/values/value_json.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/strided/compare.h"
#include "tensorcask/tensor/strided/layout.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask::torch {
namespace {

using tensorcask::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

constexpr char kPath[] = "m.pt";

// The bytes 0, 1, 2, ..., as elements: bools are 0 and 1.
Tensor Counted(DType dtype, const TensorShape& shape) {
  Tensor tensor = *Tensor::Create(dtype, shape);
  if (!IsFixedSize(dtype)) return tensor;
  const absl::Span<char> bytes = tensor.mutable_bytes();
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(dtype == DType::kBool ? i & 1 : i);
  return tensor;
}

struct Written {
  MemoryFileSystem files;
  TorchWriter writer;
  explicit Written(TorchWriterOptions options = {}) : writer(Make(&files, std::move(options))) {}
  static TorchWriter Make(MemoryFileSystem* files, TorchWriterOptions options) {
    options.file_system = files;
    return *TorchWriter::Create(kPath, options);
  }
  std::string Bytes() const {
    const auto bytes = files.Find(kPath);
    return bytes == nullptr ? "" : *bytes;
  }
};

absl::StatusOr<TorchReader> OpenFile(const std::string& bytes, const TorchReaderOptions& options = {}) {
  return TorchReader::OpenSource(MakeMemorySource(kPath, bytes), options);
}

std::string Json(const TorchReader& reader) {
  const ValueTree values = reader.Values();
  ValueJsonOptions options;
  options.tensor_name = [&](uint64_t i) { return reader.entries()[i].name; };
  return *ValueToJson(values.root(), options);
}

bool IsSame(const absl::StatusOr<Tensor>& a, const TensorView& b) {
  EXPECT_TRUE(a.ok()) << a.status();
  return a.ok() && Equal(TensorView(*a), b);
}

TensorMetadata QuantizedBy(const std::string& scheme, const std::string& scale, const std::string& zero_point,
                           const std::string& axis = "") {
  TensorMetadata metadata;
  metadata.attributes = {{"torch.qscheme", scheme}, {"torch.scale", scale}, {"torch.zero_point", zero_point}};
  if (!axis.empty()) metadata.attributes["torch.axis"] = axis;
  return metadata;
}

TEST(TorchWriterTest, EveryDTypeThatPyTorchHasComesBack) {
  Written file;
  std::vector<std::pair<std::string, Tensor>> tensors;
  for (int number = 0; number < 256; ++number) {
    const std::optional<DType> dtype = DTypeFromNumber(number);
    if (!dtype.has_value()) continue;
    const absl::Status held = TorchWriter::CheckTensor("w", *dtype);
    if (!held.ok()) {
      EXPECT_THAT(held, StatusIs(Code::kUnimplemented, HasSubstr(std::string(DTypeName(*dtype)))));
      continue;
    }
    for (const TensorShape& shape : {TensorShape({2, 3}), TensorShape({}), TensorShape({0, 5})}) {
      tensors.emplace_back(absl::StrCat(DTypeName(*dtype), shape.ToString()), Counted(*dtype, shape));
      const TensorMetadata metadata =
          IsQuantized(*dtype) ? QuantizedBy("torch.per_tensor_affine", "0.5", "3") : TensorMetadata();
      ASSERT_TRUE(file.writer.Add(tensors.back().first, tensors.back().second, metadata).ok());
    }
  }
  EXPECT_EQ(tensors.size(), 3u * 23);
  ASSERT_TRUE(file.writer.Finish().ok());
  const std::string bytes = file.Bytes();
  const absl::StatusOr<TorchReader> reader = OpenFile(bytes);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ(reader->entries().size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    EXPECT_TRUE(IsSame(reader->Read(name), tensor)) << name;
    const TorchEntry& entry = *reader->FindEntry(name);
    EXPECT_TRUE(entry.has_checksum || entry.stored_bytes == 0) << name;
    EXPECT_EQ(entry.offset.value_or(0) % 64, 0u) << name;
  }
  EXPECT_TRUE(reader->notes().empty());
}

TEST(TorchWriterTest, QuantizedTensorsKeepTheirScales) {
  const std::pair<std::string, TensorMetadata> tensors[] = {
      {"one", QuantizedBy("torch.per_tensor_affine", "0.1", "-7")},
      {"channels", QuantizedBy("torch.per_channel_affine", "[0.1,2.5,1e-30]", "[0,-3,9223372036854775807]", "1")},
      {"floats", QuantizedBy("torch.per_channel_affine", "[0.5,0.25]", "[1.5,-2.0]", "0")},
  };
  Written file;
  for (const auto& [name, metadata] : tensors) {
    ASSERT_TRUE(TorchWriter::HoldsMetadata(metadata));
    const absl::Status added = file.writer.Add(name, Counted(DType::kQuint8, TensorShape({2, 3})), metadata);
    ASSERT_TRUE(added.ok()) << added;
  }
  ASSERT_TRUE(file.writer.Add("plain", Counted(DType::kInt8, TensorShape({2}))).ok());
  ASSERT_TRUE(file.writer.AddAlias("tied", "channels").ok());
  const Layout turned = *Layout::Create({3, 2}, {1, 3});
  EXPECT_THAT(file.writer.AddView("turned", "channels", turned),
              StatusIs(Code::kInvalidArgument, HasSubstr("3 channels of \"channels\" on axis 1")));
  ASSERT_TRUE(file.writer.AddView("turned", "one", turned).ok());
  // In pieces, which are the same bytes.
  ASSERT_TRUE(file.writer
                  .Begin("pieces", DType::kQint32, TensorShape({0, 3}),
                         QuantizedBy("torch.per_channel_affine", "[]", "[]", "0"))
                  .ok());
  ASSERT_TRUE(file.writer.Finish().ok());
  const std::string bytes = file.Bytes();
  const absl::StatusOr<TorchReader> reader = OpenFile(bytes);
  ASSERT_TRUE(reader.ok()) << reader.status();
  for (const auto& [name, metadata] : tensors) {
    EXPECT_TRUE(IsSame(reader->Read(name), Counted(DType::kQuint8, TensorShape({2, 3})))) << name;
    const absl::StatusOr<TensorMetadata> found = reader->Metadata(name);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(found->attributes, metadata.attributes) << name;
  }
  EXPECT_EQ(reader->FindEntry("tied")->alias_of, "channels");
  EXPECT_EQ(reader->Metadata("turned")->attributes, tensors[0].second.attributes);
  EXPECT_TRUE(reader->VerifyAll([](const TorchDamage& damage) { ADD_FAILURE() << damage.status; }).ok());
}

struct QuantizerCase {
  const char* name;
  TensorMetadata metadata;
  const char* says;
};

class TorchQuantizerRejects : public ::testing::TestWithParam<QuantizerCase> {};

TEST_P(TorchQuantizerRejects, NamingTheTensor) {
  Written file;
  const absl::Status refused = file.writer.Add("q", Counted(DType::kQint8, TensorShape({2, 3})), GetParam().metadata);
  EXPECT_THAT(refused, StatusIs(Code::kInvalidArgument, HasSubstr(GetParam().says)));
  EXPECT_THAT(refused.message(), HasSubstr("m.pt: tensor \"q\""));
  EXPECT_TRUE(file.writer.Add("w", Counted(DType::kInt8, TensorShape({2}))).ok());  // nothing has changed
  EXPECT_TRUE(file.writer.Finish().ok());
}

const QuantizerCase kBadQuantizers[] = {
    {"None", {}, "has no attribute \"torch.qscheme\""},
    {"Scheme", QuantizedBy("os.system", "1", "0"), "a scheme of PyTorch"},
    {"Text", QuantizedBy("torch.per_tensor_affine", "one", "0"), "\"torch.scale\" of \"one\""},
    {"Infinite", QuantizedBy("torch.per_tensor_affine", "inf", "0"), "finite numbers"},
    {"Float", QuantizedBy("torch.per_tensor_affine", "1.0", "0.5"), "wanted integers"},
    {"OpenList", QuantizedBy("torch.per_channel_affine", "[1.0,2.0", "[0,0]", "0"), "wanted a list"},
    {"NoAxis", QuantizedBy("torch.per_channel_affine", "[1.0,2.0]", "[0,0]"), "has no attribute \"torch.axis\""},
    {"Axis", QuantizedBy("torch.per_channel_affine", "[1.0,2.0]", "[0,0]", "2"), "an axis of the shape [2,3]"},
    {"Channels", QuantizedBy("torch.per_channel_affine", "[1.0,2.0]", "[0,0]", "1"), "wanted 3 of each"},
    {"ZeroPoints", QuantizedBy("torch.per_channel_affine", "[1.0,2.0]", "[0]", "0"), "2 scales and 1 zero points"},
    {"TwoForOne", QuantizedBy("torch.per_tensor_affine", "[1.0,2.0]", "[0,0]"), "wanted 1 of each"},
};
INSTANTIATE_TEST_SUITE_P(Attributes, TorchQuantizerRejects, ::testing::ValuesIn(kBadQuantizers),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(TorchWriterTest, ViewsShareTheirStorage) {
  Written file;
  const Tensor base = Counted(DType::kFloat32, TensorShape({4, 6}));
  const TensorView turned = *TensorView(base).Transpose(0, 1);
  const TensorView columns = *TensorView(base).Slice(1, 1, 5, 2);
  ASSERT_TRUE(file.writer.Add("base", base, /*requires_grad=*/true).ok());
  ASSERT_TRUE(file.writer.AddAlias("tied", "base").ok());
  ASSERT_TRUE(file.writer.AddView("turned", "base", turned.layout()).ok());
  ASSERT_TRUE(file.writer.AddView("columns", "base", columns.layout()).ok());
  ASSERT_TRUE(file.writer.AddView("repeated", "base", *Layout::Create({3, 2}, {0, 1}, 22)).ok());
  EXPECT_THAT(file.writer.AddView("past", "base", *Layout::Create({2}, {1}, 23)),
              StatusIs(Code::kInvalidArgument, HasSubstr("is not in the 24 elements of \"base\"")));
  EXPECT_THAT(file.writer.AddView("back", "base", *Layout::Create({2}, {-1}, 1)),
              StatusIs(Code::kInvalidArgument, HasSubstr("")));
  EXPECT_THAT(file.writer.AddAlias("other", "nothing"), StatusIs(Code::kNotFound, HasSubstr("no tensor \"nothing\"")));
  EXPECT_THAT(file.writer.AddAlias("tied", "base"),
              StatusIs(Code::kAlreadyExists, HasSubstr("two tensors are called \"tied\"")));
  ASSERT_TRUE(file.writer.Finish().ok());
  const std::string bytes = file.Bytes();
  const absl::StatusOr<TorchReader> reader = OpenFile(bytes);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_TRUE(IsSame(reader->Read("turned"), turned));
  EXPECT_TRUE(IsSame(reader->Read("columns"), columns));
  EXPECT_TRUE(IsSame(reader->Read("repeated"), *TensorView(base).AsStrided({3, 2}, {0, 1}, 22)));
  EXPECT_EQ(reader->FindEntry("tied")->alias_of, "base");
  EXPECT_TRUE(reader->Metadata("tied")->requires_grad);
  for (const TorchEntry& entry : reader->entries()) EXPECT_LE(*entry.offset - *reader->FindEntry("base")->offset, 92u);
}

TEST(TorchWriterTest, StridesOfADenseTensorStay) {
  Written file;
  const Tensor tensor = Counted(DType::kInt16, TensorShape({2, 4, 5, 3}));
  const TensorView channels_last = *TensorView(tensor).Permute({0, 3, 1, 2});
  const TensorView gaps = *TensorView(tensor).Slice(3, 0, 2);
  const TensorView flipped = *TensorView(tensor).Flip({1});
  ASSERT_TRUE(file.writer.Add("channels last", channels_last).ok());
  ASSERT_TRUE(file.writer.Add("gaps", gaps).ok());
  ASSERT_TRUE(file.writer.Add("flipped", flipped).ok());
  ASSERT_TRUE(file.writer.Finish().ok());
  const std::string bytes = file.Bytes();
  const absl::StatusOr<TorchReader> reader = OpenFile(bytes);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_THAT(reader->FindEntry("channels last")->strides, ElementsAre(60, 1, 15, 3));
  EXPECT_TRUE(reader->FindEntry("gaps")->strides.empty());
  EXPECT_EQ(reader->FindEntry("gaps")->stored_bytes, 160u);
  EXPECT_TRUE(IsSame(reader->Read("channels last"), channels_last));
  EXPECT_TRUE(IsSame(reader->Read("gaps"), gaps));
  EXPECT_TRUE(IsSame(reader->Read("flipped"), flipped));
}

TEST(TorchWriterTest, PiecesGiveTheBytesOfTheWhole) {
  for (const int64_t rows : {3, 40'000}) {  // gathered, and past the bytes that are
    const Tensor tensor = Counted(DType::kFloat64, TensorShape({rows, 5}));
    Written whole;
    ASSERT_TRUE(whole.writer.Add("w", tensor).ok());
    ASSERT_TRUE(whole.writer.Add("empty", Counted(DType::kInt8, TensorShape({0}))).ok());
    ASSERT_TRUE(whole.writer.Finish().ok());
    Written pieces;
    ASSERT_TRUE(pieces.writer.Begin("w", DType::kFloat64, TensorShape({rows, 5})).ok());
    ASSERT_TRUE(pieces.writer.Append(*TensorView(tensor).Slice(0, 0, 1)).ok());
    EXPECT_THAT(pieces.writer.Add("x", tensor), StatusIs(Code::kFailedPrecondition, HasSubstr("elements are missing")));
    EXPECT_THAT(pieces.writer.Finish(), StatusIs(Code::kFailedPrecondition, HasSubstr("elements are missing")));
    EXPECT_THAT(pieces.writer.Append(tensor),
                StatusIs(Code::kInvalidArgument, HasSubstr("elements, which are missing")));
    EXPECT_THAT(pieces.writer.Append(Counted(DType::kInt64, TensorShape({1}))),
                StatusIs(Code::kInvalidArgument, HasSubstr("")));
    ASSERT_TRUE(pieces.writer.Append(*TensorView(tensor).Slice(0, 1, rows)).ok());
    EXPECT_THAT(pieces.writer.Append(tensor),
                StatusIs(Code::kFailedPrecondition, HasSubstr("no tensor wants elements")));
    ASSERT_TRUE(pieces.writer.Begin("empty", DType::kInt8, TensorShape({0})).ok());
    ASSERT_TRUE(pieces.writer.Finish().ok());
    EXPECT_EQ(pieces.Bytes(), whole.Bytes());
    const std::string bytes = whole.Bytes();
    const absl::StatusOr<TorchReader> reader = OpenFile(bytes);
    ASSERT_TRUE(reader.ok()) << reader.status();
    EXPECT_TRUE(IsSame(reader->Read("w"), tensor));
  }
}

TEST(TorchWriterTest, ValuesAndMetadataComeBack) {
  ValueTree tree;
  const auto text = [&](absl::string_view word) { return tree.AddText(word); };
  const auto shared = tree.AddItems(ValueKind::kList, {tree.AddFloat(0.1), tree.AddComplex({1, -2})});
  const auto tuple = tree.AddItems(ValueKind::kTuple, {shared, shared, tree.AddTensor(0)});
  const auto numbers =
      tree.AddItems(ValueKind::kList,
                    {tree.AddInt(0), tree.AddInt(255), tree.AddInt(256), tree.AddInt(65535), tree.AddInt(65536),
                     tree.AddInt(-1), tree.AddInt(INT64_MIN), tree.AddInt(int64_t{1} << 31), tree.AddUint(UINT64_MAX),
                     tree.AddText("-340282366920938463463374607431768211456", ValueKind::kBigInt),
                     tree.AddText("340282366920938463463374607431768211455", ValueKind::kBigInt), tree.AddBool(true),
                     tree.AddNone(), tree.AddFloat(std::numeric_limits<double>::infinity())});
  const auto others = tree.AddItems(
      ValueKind::kList,
      {tree.AddText(absl::string_view("\0\x7f\x80\xff", 4), ValueKind::kBytes), tree.AddText("", ValueKind::kBytes),
       tree.AddText("bfloat16", ValueKind::kDType), tree.AddText("cuda:1", ValueKind::kDevice),
       tree.AddItems(ValueKind::kSize, {tree.AddInt(2), tree.AddInt(3)}), tree.AddItems(ValueKind::kSet, {text("a")}),
       tree.AddItems(ValueKind::kSet, {}), tree.AddItems(ValueKind::kTuple, {}), tree.AddMap({}), text("größe\n")});
  const auto key = tree.AddItems(ValueKind::kTuple, {tree.AddInt(1), text("k")});
  const auto inner = tree.AddMap({{tree.AddInt(7), tree.AddTensor(1)}, {key, tree.AddBool(false)}});
  tree.AddMap({{text("tuple"), tuple}, {text("numbers"), numbers}, {text("others"), others}, {text("inner"), inner}});

  TorchWriterOptions options;
  options.metadata = {{"format", "pt"}, {"größe", "3\n"}};
  Written file(options);
  const Tensor w = Counted(DType::kFloat8E5m2, TensorShape({3}));
  for (const char* name : {"w", "x", "flat.y"}) ASSERT_TRUE(file.writer.Add(name, w).ok());
  ASSERT_TRUE(file.writer.SetValues(tree, {"w", "x"}).ok());
  ASSERT_TRUE(file.writer.Finish().ok());
  const std::string bytes = file.Bytes();
  const absl::StatusOr<TorchReader> reader = OpenFile(bytes);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ(Json(*reader),
            R"({"tuple":[[0.1,[1.0,-2.0]],[0.1,[1.0,-2.0]],{"tensor":"tuple.2"}],)"
            R"("numbers":[0,255,256,65535,65536,-1,-9223372036854775808,2147483648,18446744073709551615,)"
            R"(-340282366920938463463374607431768211456,340282366920938463463374607431768211455,true,null,"inf"],)"
            R"("others":[{"bytes":"007f80ff"},{"bytes":""},"bfloat16","cuda:1",[2,3],["a"],[],[],{},"größe\u000a"],)"
            R"("inner":{"map":[[7,{"tensor":"inner.7"}],[[1,"k"],false]]},"flat.y":{"tensor":"flat.y"}})");
  EXPECT_TRUE(IsSame(reader->Read("inner.7"), w));
  EXPECT_THAT(reader->metadata(), ElementsAre(::testing::Pair("format", "pt"), ::testing::Pair("größe", "3\n")));
  // What two places share is one object, which Python sees as such.
  EXPECT_EQ(reader->Values().root().entry(0).item(0).id(), reader->Values().root().entry(0).item(1).id());
}

TEST(TorchWriterTest, AFileMayBeOneTensorOrNothing) {
  Written one;
  const Tensor w = Counted(DType::kFloat32, TensorShape({3}));
  ValueTree tree;
  tree.AddTensor(0);
  ASSERT_TRUE(one.writer.Add("w", w).ok());
  ASSERT_TRUE(one.writer.SetValues(tree, {"w"}).ok());
  ASSERT_TRUE(one.writer.Finish().ok());
  const std::string bytes = one.Bytes();
  const absl::StatusOr<TorchReader> reader = OpenFile(bytes);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_FALSE(reader->has_names());
  EXPECT_TRUE(IsSame(reader->Read(""), w));
  Written none;
  ASSERT_TRUE(none.writer.Finish().ok());
  const std::string empty = none.Bytes();
  EXPECT_EQ(Json(*OpenFile(empty)), "{}");
  EXPECT_THAT(none.writer.Finish(), StatusIs(Code::kFailedPrecondition, HasSubstr("is finished")));
}

TEST(TorchWriterTest, WhatAPickleCannotHaveIsRefused) {
  const auto refused = [](auto add, std::vector<std::string> names = {}) {
    Written file;
    ValueTree tree;
    add(&tree);
    return file.writer.SetValues(std::move(tree), std::move(names));
  };
  EXPECT_THAT(refused([](ValueTree* tree) {
                const auto none = tree->AddNone();
                tree->AddObject("argparse.Namespace", none, none);
              }),
              StatusIs(Code::kInvalidArgument, HasSubstr("no object of the class \"argparse.Namespace\"")));
  EXPECT_THAT(refused([](ValueTree* tree) { tree->AddText("\xff"); }),
              StatusIs(Code::kInvalidArgument, HasSubstr("not UTF-8")));
  EXPECT_THAT(refused([](ValueTree* tree) { tree->AddText("f4", ValueKind::kDType); }),
              StatusIs(Code::kInvalidArgument, HasSubstr("no dtype \"f4\"")));
  EXPECT_THAT(refused([](ValueTree* tree) { tree->AddText(std::string(700, '9'), ValueKind::kBigInt); }),
              StatusIs(Code::kInvalidArgument, HasSubstr("more than 255 bytes")));
  EXPECT_THAT(refused([](ValueTree* tree) { tree->AddFileArray({}); }),
              StatusIs(Code::kInvalidArgument, HasSubstr("array")));
  EXPECT_THAT(refused([](ValueTree* tree) {
                const auto list = tree->AddItems(ValueKind::kList, {});
                tree->AddMap({{list, list}});
              }),
              StatusIs(Code::kInvalidArgument, HasSubstr("as a key")));
  EXPECT_THAT(refused([](ValueTree* tree) { tree->AddTensor(1); }, {"w"}),
              StatusIs(Code::kInvalidArgument, HasSubstr("has no name")));
  EXPECT_THAT(refused([](ValueTree*) {}), StatusIs(Code::kInvalidArgument, HasSubstr("no values")));
}

TEST(TorchWriterTest, TensorsNeedAPlaceInTheValues) {
  const auto finished = [](auto add, std::vector<std::string> names) {
    Written file;
    EXPECT_TRUE(file.writer.Add("w", Counted(DType::kInt8, TensorShape({1}))).ok());
    ValueTree tree;
    add(&tree);
    EXPECT_TRUE(file.writer.SetValues(std::move(tree), std::move(names)).ok());
    const absl::Status status = file.writer.Finish();
    EXPECT_EQ(file.Bytes(), "");
    return status;
  };
  EXPECT_THAT(finished([](ValueTree* tree) { tree->AddItems(ValueKind::kList, {}); }, {}),
              StatusIs(Code::kInvalidArgument, HasSubstr("the root of the values is not a map")));
  EXPECT_THAT(finished([](ValueTree* tree) { tree->AddTensor(0); }, {"v"}),
              StatusIs(Code::kNotFound, HasSubstr("\"v\"")));
  EXPECT_THAT(finished(
                  [](ValueTree* tree) {
                    const auto key = tree->AddText("w");
                    tree->AddMap({{key, key}});
                  },
                  {}),
              StatusIs(Code::kAlreadyExists, HasSubstr("tensor \"w\": a key of the values has this name")));
}

TEST(TorchWriterTest, BadTensorsAreRefused) {
  Written file;
  EXPECT_THAT(file.writer.Add("\xff", Counted(DType::kInt8, TensorShape({1}))),
              StatusIs(Code::kInvalidArgument, HasSubstr("the name is not UTF-8")));
  EXPECT_THAT(file.writer.Add("q", Counted(DType::kQint8, TensorShape({1}))),
              StatusIs(Code::kInvalidArgument, HasSubstr("quantized elements need the scheme and the scale")));
  EXPECT_THAT(file.writer.Add("q", Counted(DType::kQint16, TensorShape({1}))),
              StatusIs(Code::kUnimplemented, HasSubstr("not a dtype of PyTorch")));
  EXPECT_THAT(file.writer.Add("s", *Tensor::Create(DType::kString, TensorShape({1}))),
              StatusIs(Code::kUnimplemented, HasSubstr("not a dtype of PyTorch")));
  EXPECT_THAT(file.writer.Add("i", Counted(DType::kInt8, TensorShape({1})), /*requires_grad=*/true),
              StatusIs(Code::kInvalidArgument, HasSubstr("requires_grad")));
  TorchWriterOptions options;
  options.file_system = &file.files;
  options.alignment = 48;
  EXPECT_THAT(TorchWriter::Create("n.pt", options).status(),
              StatusIs(Code::kInvalidArgument, HasSubstr("a power of two")));
  options.alignment = 64;
  options.metadata = {{"k", "\xff"}};
  EXPECT_THAT(TorchWriter::Create("n.pt", options).status(),
              StatusIs(Code::kInvalidArgument, HasSubstr("\"k\" is not UTF-8")));
  ASSERT_TRUE(file.writer.Finish().ok());
  options.metadata.clear();
  EXPECT_THAT(TorchWriter::Create(kPath, options).status(), StatusIs(Code::kAlreadyExists, HasSubstr(kPath)));
}

TEST(TorchWriterTest, EveryCutIsRefused) {
  TorchWriterOptions options;
  options.metadata = {{"k", "v"}};
  Written file(options);
  ASSERT_TRUE(file.writer.Add("w", Counted(DType::kFloat32, TensorShape({5}))).ok());
  ASSERT_TRUE(file.writer.Add("x", Counted(DType::kUint16, TensorShape({5}))).ok());
  ASSERT_TRUE(file.writer.Finish().ok());
  const std::string bytes = file.Bytes();
  for (size_t size = 0; size < bytes.size(); ++size) {
    const std::string cut = bytes.substr(0, size);
    EXPECT_FALSE(OpenFile(cut).ok()) << size;
  }
}

// A changed byte of the elements is found, and one elsewhere is refused, or changes nothing that is read.
TEST(TorchWriterTest, EveryChangedByteIsFoundOrHarmless) {
  Written file;
  const Tensor w = Counted(DType::kFloat32, TensorShape({5}));
  ASSERT_TRUE(file.writer.Add("w", w).ok());
  ASSERT_TRUE(file.writer.Finish().ok());
  const std::string bytes = file.Bytes();
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string changed = bytes;
    changed[i] = static_cast<char>(changed[i] ^ 0x04);
    const absl::StatusOr<TorchReader> reader = OpenFile(changed);
    if (!reader.ok()) continue;
    const absl::StatusOr<Tensor> read = reader->Read("w");
    EXPECT_TRUE(!read.ok() || Equal(TensorView(*read), TensorView(w))) << i;
  }
}

// FORMAT.md section 6, for {"w": tensor([1.0, 2.0])}.
TEST(TorchWriterTest, ThePickleHasTheseInstructions) {
  ValueTree tree;
  const auto key = tree.AddText("w");
  tree.AddMap({{key, tree.AddTensor(0)}});
  SavedTensor tensor;
  tensor.dtype = DType::kFloat32;
  tensor.layout = Layout::RowMajor(TensorShape({2}));
  tensor.storage_bytes = 8;
  const absl::StatusOr<std::string> pickle = WritePickle(tree, {tensor});
  ASSERT_TRUE(pickle.ok()) << pickle.status();
  EXPECT_EQ(absl::CEscape(*pickle),
            "\\200\\002}(X\\001\\000\\000\\000w"
            "ctorch._utils\\n_rebuild_tensor_v2\\nq\\000((X\\007\\000\\000\\000storageq\\001"
            "ctorch\\nFloatStorage\\nq\\002X\\001\\000\\000\\0000X\\003\\000\\000\\000cpuq\\003K\\002tQ"
            "K\\000(K\\002t(K\\001t\\211ccollections\\nOrderedDict\\nq\\004)RtRu.");
}

TEST(TorchWriterTest, ManyPlacesOfOneValueTakeLinearTime) {
  ValueTree tree;
  auto last = tree.AddItems(ValueKind::kList, {tree.AddInt(1)});
  for (int i = 0; i < 60; ++i) last = tree.AddItems(ValueKind::kList, {last, last});
  const absl::StatusOr<std::string> pickle = WritePickle(tree, {});
  ASSERT_TRUE(pickle.ok()) << pickle.status();
  EXPECT_LT(pickle->size(), 1000u);
  ValueTree deep;
  auto inner = deep.AddNone();
  for (int i = 0; i < 1'000'000; ++i) inner = deep.AddItems(ValueKind::kTuple, {inner});
  EXPECT_EQ(WritePickle(deep, {})->size(), 2'000'004u);
}

}  // namespace
}  // namespace tensorcask::torch
