#include "tensorcask/serialize/onnx/onnx_writer.h"

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/serialize/onnx/dtypes.h"
#include "tensorcask/serialize/onnx/onnx_reader.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/serialize/onnx/onnx_testing.h"
#include "tensorcask/tests/support/faulty_file_system.h"
#include "tensorcask/tests/support/status_matchers.h"
#include "tensorcask/tests/support/temp_folder.h"

namespace tensorcask {
namespace {

using namespace ::tensorcask::testing;  // NOLINT(google-build-using-namespace)
using Code = absl::StatusCode;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string Floats(std::initializer_list<float> values) {
  std::string bytes;
  for (const float value : values) bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  return bytes;
}

// Writes `tensor` as a TensorProto. Returns its bytes.
std::string TensorFile(const std::string& name, const TensorView& tensor) {
  MemoryFileSystem files;
  OnnxWriterOptions options;
  options.file_system = &files;
  absl::StatusOr<OnnxWriter> writer = OnnxWriter::CreateTensor("t.pb", options);
  EXPECT_OK(writer.status());
  EXPECT_OK(writer->Declare(name, tensor.dtype(), tensor.shape()));
  EXPECT_OK(writer->Add(name, tensor));
  EXPECT_OK(writer->Finish());
  EXPECT_THAT(writer->files(), ElementsAre("t.pb"));
  EXPECT_EQ(files.open_handles(), 0u);
  const auto bytes = files.Find("t.pb");
  return bytes != nullptr ? *bytes : "";
}

TEST(OnnxWriter, WritesTensorsInFilesOfTheirOwn) {
  const Tensor w = Tensor::FromValues<float>({{1, 2, 3}, {4, 5, 6}});
  EXPECT_EQ(TensorFile("w", w), RawTensor(1, {2, 3}, Floats({1, 2, 3, 4, 5, 6}), "w"));
  ASSERT_OK_AND_ASSIGN(const TensorView turned, TensorView(w).Transpose(0, 1));
  EXPECT_EQ(TensorFile("w", turned), RawTensor(1, {3, 2}, Floats({1, 4, 2, 5, 3, 6}), "w"));
  EXPECT_EQ(TensorFile("s", Tensor::Scalar<int64_t>(-1)), RawTensor(7, {}, std::string(8, '\xff'), "s"));
  ASSERT_OK_AND_ASSIGN(const Tensor empty, Tensor::Zeros(DType::kInt32, TensorShape({0, 3})));
  EXPECT_EQ(TensorFile("e", empty), Head(6, {0, 3}, "e"));
}

// All data types that have numbers, of lengths that do and do not fill the last byte: what is written is read.
TEST(OnnxWriter, WritesAllDataTypes) {
  for (int64_t data_type = 1; OnnxDType(data_type) != DType::kInvalid; ++data_type) {
    const int bits = OnnxTypeBits(data_type);
    if (bits == 0) continue;
    for (const int64_t count : {0, 1, 2, 3, 4, 5, 7, 8, 9}) {
      SCOPED_TRACE(absl::StrCat(OnnxTypeName(data_type), " ", count));
      ASSERT_OK_AND_ASSIGN(Tensor tensor, Tensor::Zeros(OnnxDType(data_type), TensorShape({count})));
      int next = 0;
      for (char& byte : tensor.mutable_bytes()) {
        next += 37;
        byte = static_cast<char>(data_type == 9 ? next & 1 : bits < 8 ? next & ((1 << bits) - 1) : next);
      }
      const std::string bytes = TensorFile("t", tensor);
      ASSERT_OK_AND_ASSIGN(const OnnxReader reader, OnnxReader::OpenSource(MakeMemorySource("t.pb", bytes)));
      EXPECT_EQ(reader.kind(), OnnxReader::Kind::kTensor);
      EXPECT_THAT(reader.notes(), ElementsAre());
      ASSERT_OK_AND_ASSIGN(const Tensor read, reader.Read("t"));
      EXPECT_EQ(read.dtype(), tensor.dtype());
      EXPECT_EQ(read.bytes(), tensor.bytes());
    }
  }
}

// A model with tensors at several depths, and fields that no reader knows.
struct Base {
  static std::string Bytes(const std::string& w, const std::string& deep) {
    const std::string then = Initializer(deep) + Sub(10, "then") + Num(99, 5);
    return Model(NodeWithGraph("if", "then_branch", then) + Initializer(Head(2, {2}, "other") + Sub(5, "\x03\x04")) +
                     Initializer(w) + Sub(2, "graph") + Sub(11, Sub(1, "x")),
                 Sub(14, Sub(1, "author") + Sub(2, "me")) + Sub(98, "unknown"));
  }
};

std::string Doc(const std::string& tensor) { return tensor + Sub(12, "doc") + Sub(16, Sub(1, "k") + Sub(2, "v")); }

TEST(OnnxWriter, ReplacesInitializersAndNothingElse) {
  const TempFolder folder;
  const std::string base = folder.Write(
      "base.onnx", Base::Bytes(Doc(Head(1, {2}, "w") + Sub(4, Floats({1, 2}))), RawTensor(2, {3}, "abc", "deep")));
  OnnxWriterOptions options;
  ASSERT_OK_AND_ASSIGN(OnnxWriter writer, OnnxWriter::CreateModel(folder.Path("new.onnx"), base, options));
  ASSERT_OK(writer.Declare("deep", DType::kUint8, TensorShape({3})));
  ASSERT_OK(writer.Declare("w", DType::kFloat32, TensorShape({2})));
  ASSERT_OK(writer.AddMetadata("author", "me"));
  EXPECT_THAT(writer.AddMetadata("author", "you"), StatusIs(Code::kInvalidArgument, HasSubstr("\"me\", which stays")));
  EXPECT_THAT(writer.AddMetadata("onnx.doc_string", "you"), StatusIs(Code::kInvalidArgument, HasSubstr("lacks it")));
  EXPECT_THAT(writer.AddMetadata("latin", "\xff"), StatusIs(Code::kInvalidArgument, HasSubstr("is not UTF-8")));
  ASSERT_OK(writer.Add("w", Tensor::FromValues<float>({8, 9})));
  ASSERT_OK(writer.AddSlice("deep", *TensorSlice::Parse("0,1"), Tensor::FromValues<uint8_t>({'x'})));
  EXPECT_THAT(writer.AddSlice("deep", *TensorSlice::Parse("2,1"), Tensor::FromValues<uint8_t>({'x'})),
              StatusIs(Code::kInvalidArgument, HasSubstr("at byte 1")));
  ASSERT_OK(writer.AddSlice("deep", *TensorSlice::Parse("1,2"), Tensor::FromValues<uint8_t>({'y', 'z'})));
  EXPECT_THAT(writer.Add("w", Tensor::FromValues<float>({8, 9})), StatusIs(Code::kAlreadyExists));
  EXPECT_THAT(writer.Add("none", Tensor::FromValues<float>({8, 9})), StatusIs(Code::kNotFound));
  ASSERT_OK(writer.Finish());
  EXPECT_EQ(ReadFile(folder.Path("new.onnx")),
            Base::Bytes(Doc(RawTensor(1, {2}, Floats({8, 9}), "w")), RawTensor(2, {3}, "xyz", "deep")));
}

// Lengths of messages need more bytes than before, and metadata come after the model.
TEST(OnnxWriter, LengthensTheMessagesAround) {
  const TempFolder folder;
  std::vector<uint64_t> ones(40'000, 1);
  const std::string base = folder.Write(
      "base.onnx", Base::Bytes(Head(7, {40'000}, "w") + Packed(7, ones), RawTensor(2, {3}, "abc", "deep")));
  ASSERT_OK_AND_ASSIGN(OnnxWriter writer, OnnxWriter::CreateModel(folder.Path("new.onnx"), base));
  ASSERT_OK(writer.AddMetadata("license", "MIT"));
  ASSERT_OK(writer.Declare("w", DType::kInt64, TensorShape({40'000})));
  ASSERT_OK_AND_ASSIGN(const Tensor zeros, Tensor::Zeros(DType::kInt64, TensorShape({40'000})));
  ASSERT_OK(writer.Add("w", zeros));
  ASSERT_OK(writer.Finish());
  EXPECT_EQ(ReadFile(folder.Path("new.onnx")),
            Base::Bytes(RawTensor(7, {40'000}, std::string(320'000, '\0'), "w"), RawTensor(2, {3}, "abc", "deep")) +
                Sub(14, Sub(1, "license") + Sub(2, "MIT")));
}

TEST(OnnxWriter, MovesElementsToASideFileAndBack) {
  const TempFolder folder;
  const std::string large(5000, 'l');
  const std::string inside =
      Base::Bytes(RawTensor(2, {5000}, large, "w"), RawTensor(3, {1500}, large.substr(0, 1500), "deep"));
  const std::string base = folder.Write("base.onnx", inside);
  std::filesystem::create_directory(folder.Path("split"));
  const std::string split = folder.Path("split/m.onnx");
  const auto copy = [](const std::string& from, const std::string& to, const OnnxWriterOptions& options,
                       bool declare = true) -> absl::Status {
    absl::StatusOr<OnnxReader> reader = OnnxReader::Open(from);
    absl::StatusOr<OnnxWriter> writer = OnnxWriter::CreateModel(to, from, options);
    if (!writer.ok()) return writer.status();
    for (const OnnxEntry& entry : reader->entries()) {
      const absl::Status declared = declare ? writer->Declare(entry.name, entry.dtype, entry.shape) : absl::OkStatus();
      if (!declared.ok()) return declared;
    }
    for (const OnnxEntry& entry : reader->entries()) {
      const absl::Status added = declare ? writer->Add(entry.name, *reader->Read(entry.name)) : absl::OkStatus();
      if (!added.ok()) return added;
    }
    return writer->Finish();
  };
  OnnxWriterOptions options;
  options.use_side_file = true;
  ASSERT_OK(copy(base, split, options));
  const auto beside = [](int offset, int length) {
    return Entry("location", "m.onnx.data") + Entry("offset", absl::StrCat(offset)) +
           Entry("length", absl::StrCat(length));
  };
  std::string wanted = Base::Bytes(ExternalTensor(2, {5000}, beside(4096, 5000), "w"),
                                   ExternalTensor(3, {1500}, beside(0, 1500), "deep"));
  // The small tensor "other" stays in the model, as raw_data.
  const std::string typed = Head(2, {2}, "other") + Sub(5, "\x03\x04");
  const std::string raw = RawTensor(2, {2}, "\x03\x04", "other");
  EXPECT_EQ(typed.size(), raw.size());
  wanted.replace(wanted.find(typed), typed.size(), raw);
  EXPECT_EQ(ReadFile(split), wanted);
  const std::string data = ReadFile(folder.Path("split/m.onnx.data"));
  EXPECT_EQ(data, large.substr(0, 1500) + std::string(4096 - 1500, '\0') + large);
  // Back, and with nothing declared, so that the elements of the base are copied.
  for (const bool declare : {true, false}) {
    const std::string joined = folder.Path(absl::StrCat("joined", declare, ".onnx"));
    ASSERT_OK(copy(split, joined, {}, declare));
    ASSERT_OK_AND_ASSIGN(const OnnxReader reader, OnnxReader::Open(joined));
    EXPECT_THAT(reader.side_files(), ElementsAre());
    EXPECT_EQ(reader.Read("w")->bytes(), large);
    EXPECT_EQ(reader.Read("deep")->bytes(), large.substr(0, 1500));
    EXPECT_EQ(ReadFile(joined).size(), inside.size());
  }
  // Overwritten, the new side file has another name: the old one stays as it is.
  options.overwrite = true;
  ASSERT_OK(copy(base, split, options));
  EXPECT_EQ(ReadFile(folder.Path("split/m.onnx.data")), data);
  ASSERT_OK_AND_ASSIGN(const OnnxReader again, OnnxReader::Open(split));
  EXPECT_THAT(again.side_files(), ElementsAre(folder.Path("split/m.onnx-r1.data")));
  EXPECT_EQ(again.Read("w")->bytes(), large);
  // In place.
  ASSERT_OK(copy(split, split, options));
  EXPECT_EQ(OnnxReader::Open(split)->Read("w")->bytes(), large);
  options.side_file = "../m.data";
  EXPECT_THAT(copy(base, split, options), StatusIs(Code::kInvalidArgument, HasSubstr("side file")));
  options.side_file = "m.onnx.data";
  EXPECT_THAT(copy(base, split, options), StatusIs(Code::kAlreadyExists, HasSubstr("m.onnx.data")));
}

// The elements of a node's attribute in a side file, `location`.
std::string NodeBeside(const std::string& type, const std::string& location) {
  return Sub(1, Sub(2, "c") + Sub(4, type) +
                    Sub(5, Sub(1, "value") + Sub(5, ExternalTensor(2, {4}, Entry("location", location), ""))));
}

// What is not among the tensors of the base is not moved, and no file takes its place.
TEST(OnnxWriter, ElementsOfAttributesInSideFilesStayWhereTheyAre) {
  const TempFolder folder;
  std::filesystem::create_directory(folder.Path("other"));
  folder.Write("n.onnx.data", "0123");
  const std::string base = folder.Write(
      "m.onnx", Model(Initializer(RawTensor(2, {2}, "ab", "w")) + NodeBeside("Constant", "./n.onnx.data")));
  const auto write = [&](const std::string& path, const OnnxWriterOptions& options) -> absl::Status {
    absl::StatusOr<OnnxWriter> writer = OnnxWriter::CreateModel(folder.Path(path), base, options);
    if (!writer.ok()) return writer.status();
    EXPECT_OK(writer->Declare("w", DType::kUint8, TensorShape({2})));
    EXPECT_OK(writer->Start().status());
    EXPECT_OK(writer->Add("w", Tensor::FromValues<uint8_t>({'x', 'y'})));
    return writer->Finish();
  };
  OnnxReaderOptions read;
  read.constants = true;
  OnnxWriterOptions options;
  ASSERT_OK_AND_ASSIGN(OnnxWriter elsewhere, OnnxWriter::CreateModel(folder.Path("other/n.onnx"), base, options));
  EXPECT_THAT(elsewhere.Start(), StatusIs(Code::kFailedPrecondition, HasSubstr("the side file \"./n.onnx.data\"")));
  // Beside the base nothing moves, and the new side file gets another name.
  options.use_side_file = true;
  options.least_side_bytes = 1;
  options.overwrite = true;
  std::filesystem::rename(folder.Path("n.onnx.data"), folder.Path("away"));
  ASSERT_OK(write("n.onnx", options));
  EXPECT_FALSE(std::filesystem::exists(folder.Path("n.onnx.data")));
  EXPECT_EQ(ReadFile(folder.Path("n.onnx-r1.data")), "xy");
  std::filesystem::rename(folder.Path("away"), folder.Path("n.onnx.data"));
  EXPECT_EQ(OnnxReader::Open(folder.Path("n.onnx"), read)->Read("c")->bytes(), "0123");
  options.overwrite = false;
  ASSERT_OK_AND_ASSIGN(OnnxWriter taken, OnnxWriter::CreateModel(folder.Path("n2.onnx"), base, [&] {
                         OnnxWriterOptions named = options;
                         named.side_file = "n.onnx.data";
                         return named;
                       }()));
  ASSERT_OK(taken.Declare("w", DType::kUint8, TensorShape({2})));
  EXPECT_THAT(taken.Start(), StatusIs(Code::kAlreadyExists, HasSubstr("n.onnx.data")));
  // Constants that are asked for are moved.
  options = {};
  options.constants = true;
  ASSERT_OK(write("other/n.onnx", options));
  EXPECT_EQ(OnnxReader::Open(folder.Path("other/n.onnx"), read)->Read("c")->bytes(), "0123");
}

TEST(OnnxWriter, ASideFileHasANameThatReadersAccept) {
  const TempFolder folder;
  const std::string base = folder.Write("m.onnx", Model(Initializer(RawTensor(2, {2}, "ab", "w"))));
  std::filesystem::create_directory(folder.Path("there"));
  std::filesystem::create_directory_symlink("there", folder.Path("link"));
  OnnxWriterOptions options;
  options.use_side_file = true;
  options.least_side_bytes = 1;
  for (const char* const name : {"#q", "a:b", "a\\b", "file:x", "/x", "../x", "./n.onnx"}) {
    options.side_file = name;
    EXPECT_THAT(OnnxWriter::CreateModel(folder.Path("n.onnx"), base, options), StatusIs(Code::kInvalidArgument))
        << name;
  }
  options.side_file = "link/q";
  ASSERT_OK_AND_ASSIGN(OnnxWriter behind_link, OnnxWriter::CreateModel(folder.Path("n.onnx"), base, options));
  ASSERT_OK(behind_link.Declare("w", DType::kUint8, TensorShape({2})));
  EXPECT_THAT(behind_link.Start(), StatusIs(Code::kPermissionDenied, HasSubstr("link/q")));
  options.side_file = "";
  for (const char* const name : {"#n.onnx", "a:b.onnx", "a\\b.onnx"}) {
    EXPECT_THAT(OnnxWriter::CreateModel(folder.Path(name), base, options),
                StatusIs(Code::kInvalidArgument, HasSubstr("the name of the side file")));
  }
}

// The package onnx reads side files of the graph alone.
TEST(OnnxWriter, TensorsOfTrainingStepsAndFunctionsStayInTheModel) {
  const TempFolder folder;
  const auto tensor = [](const char* name) { return Initializer(RawTensor(2, {4}, "0123", name)); };
  const std::string function =
      Sub(25, Sub(1, "f") + NodeWithGraph("n", "b", tensor("in_function")).replace(0, 1, "\x3a"));
  const std::string base =
      folder.Write("m.onnx", Model(tensor("w") + NodeWithGraph("if", "then", tensor("inner")),
                                   Sub(20, Sub(1, tensor("start")) + Sub(2, tensor("rate"))) + function));
  OnnxWriterOptions options;
  options.use_side_file = true;
  options.least_side_bytes = 1;
  ASSERT_OK_AND_ASSIGN(OnnxWriter writer, OnnxWriter::CreateModel(folder.Path("n.onnx"), base, options));
  const std::vector<std::string> names = {"w", "inner", "start", "rate", "in_function"};
  for (const std::string& name : names) ASSERT_OK(writer.Declare(name, DType::kUint8, TensorShape({4})));
  for (const std::string& name : names) ASSERT_OK(writer.Add(name, Tensor::FromValues<uint8_t>({1, 2, 3, 4})));
  ASSERT_OK(writer.Finish());
  ASSERT_OK_AND_ASSIGN(const OnnxReader reader, OnnxReader::Open(folder.Path("n.onnx")));
  for (const std::string& name : names) {
    EXPECT_EQ(reader.FindEntry(name)->side_file.empty(), name != "w" && name != "inner") << name;
  }
}

TEST(OnnxWriter, NeverReplacesASideFileOfItsBase) {
  const TempFolder folder;
  folder.Write("side.bin", "0123");
  const std::string base =
      folder.Write("m.onnx", Model(Initializer(ExternalTensor(2, {4}, Entry("location", "side.bin"), "w"))));
  OnnxWriterOptions options;
  options.overwrite = true;
  ASSERT_OK_AND_ASSIGN(OnnxWriter model, OnnxWriter::CreateModel(folder.Path("side.bin"), base, options));
  EXPECT_THAT(model.Start(), StatusIs(Code::kFailedPrecondition, HasSubstr("side.bin: this call reads it")));
  options.use_side_file = true;
  options.least_side_bytes = 1;
  options.side_file = "side.bin";
  ASSERT_OK_AND_ASSIGN(OnnxWriter beside, OnnxWriter::CreateModel(folder.Path("n.onnx"), base, options));
  EXPECT_THAT(beside.Start(), StatusIs(Code::kFailedPrecondition, HasSubstr("side.bin: this call reads it")));
  EXPECT_EQ(ReadFile(folder.Path("side.bin")), "0123");
}

TEST(OnnxWriter, NamesAllTensorsThatDoNotFit) {
  const TempFolder folder;
  const std::string base =
      folder.Write("base.onnx", Base::Bytes(RawTensor(2, {2}, "ab", "w"), RawTensor(2, {3}, "abc", "deep")));
  ASSERT_OK_AND_ASSIGN(OnnxWriter writer, OnnxWriter::CreateModel(folder.Path("new.onnx"), base));
  ASSERT_OK(writer.Declare("none", DType::kUint8, TensorShape({3})));
  ASSERT_OK(writer.Declare("deep", DType::kUint8, TensorShape({4})));
  ASSERT_OK(writer.Declare("w", DType::kInt8, TensorShape({2})));
  ASSERT_OK(writer.Declare("other", DType::kUint8, TensorShape({2})));
  EXPECT_THAT(writer.Declare("other", DType::kUint8, TensorShape({2})), StatusIs(Code::kAlreadyExists));
  EXPECT_THAT(writer.Start(),
              StatusIs(Code::kInvalidArgument,
                       AllOf(HasSubstr("3 tensors do not fit"), HasSubstr("\"none\" is not an initializer"),
                             HasSubstr("\"deep\" is uint8 [4], there it is uint8 [3]"),
                             HasSubstr("\"w\" is int8 [2], there it is uint8 [2]"), Not(HasSubstr("other")))));
  EXPECT_FALSE(std::filesystem::exists(folder.Path("new.onnx")));
  EXPECT_THAT(OnnxWriter::CreateModel(base, base), StatusIs(Code::kAlreadyExists));
  const std::string tensor = folder.Write("t.pb", RawTensor(2, {2}, "ab"));
  EXPECT_THAT(OnnxWriter::CreateModel(folder.Path("new.onnx"), tensor),
              StatusIs(Code::kInvalidArgument, HasSubstr("not an ONNX model")));
  ASSERT_OK_AND_ASSIGN(OnnxWriter two, OnnxWriter::CreateTensor(folder.Path("new.pb")));
  ASSERT_OK(two.Declare("a", DType::kUint8, TensorShape({3})));
  ASSERT_OK(two.Declare("b", DType::kUint8, TensorShape({3})));
  EXPECT_THAT(two.Declare("\xff", DType::kUint8, TensorShape({3})),
              StatusIs(Code::kInvalidArgument, HasSubstr("its name is not UTF-8")));
  EXPECT_THAT(two.Finish(), StatusIs(Code::kInvalidArgument, HasSubstr("exactly one tensor, 2")));
}

TEST(OnnxWriter, KeepsStrings) {
  const TempFolder folder;
  const std::string strings = Head(8, {2}, "s") + Sub(6, "a") + Sub(6, "bc");
  const std::string model = Base::Bytes(strings, RawTensor(2, {3}, "abc", "deep"));
  const std::string base = folder.Write("base.onnx", model);
  for (const bool same : {true, false}) {
    ASSERT_OK_AND_ASSIGN(OnnxWriter writer, OnnxWriter::CreateModel(folder.Path("new.onnx"), base));
    ASSERT_OK(writer.Declare("s", DType::kString, TensorShape({2})));
    const absl::Status added = writer.Add("s", Tensor::FromValues<std::string>({"a", same ? "bc" : "bd"}));
    if (same) {
      ASSERT_OK(added);
      ASSERT_OK(writer.Finish());
      EXPECT_EQ(ReadFile(folder.Path("new.onnx")), model);
      std::filesystem::remove(folder.Path("new.onnx"));
    } else {
      EXPECT_THAT(added, StatusIs(Code::kUnimplemented, HasSubstr("strings of a model")));
    }
  }
}

TEST(OnnxWriter, EveryFailingOperationLeavesNoFileOrAWholeOne) {
  for (int64_t n = 1;; ++n) {
    ASSERT_LT(n, 100);
    MemoryFileSystem memory;
    FaultyFileSystem files(&memory);
    files.FailAt(n, ENOSPC);
    OnnxWriterOptions options;
    options.file_system = &files;
    const absl::Status saved = [&]() -> absl::Status {
      absl::StatusOr<OnnxWriter> writer = OnnxWriter::CreateTensor("t.pb", options);
      if (!writer.ok()) return writer.status();
      const absl::Status declared = writer->Declare("t", DType::kUint8, TensorShape({3}));
      if (!declared.ok()) return declared;
      const absl::Status added = writer->Add("t", Tensor::FromValues<uint8_t>({1, 2, 3}));
      return added.ok() ? writer->Finish() : added;
    }();
    EXPECT_EQ(files.open_handles(), 0u);
    for (const std::string& path : memory.Paths()) EXPECT_FALSE(absl::StrContains(path, ".tmp-")) << files.LogText();
    const auto bytes = memory.Find("t.pb");
    EXPECT_TRUE(bytes != nullptr || !saved.ok());
    if (bytes != nullptr) {
      EXPECT_EQ(*bytes, RawTensor(2, {3}, "\1\2\3"));
    }
    if (files.faults() == 0) break;
  }
}

}  // namespace
}  // namespace tensorcask
