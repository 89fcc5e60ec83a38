#include "tensorcask/serialize/gguf/gguf_writer.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/gguf/edit_file.h"
#include "tensorcask/serialize/gguf/gguf_reader.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/serialize/values/file_edits.h"
#include "tensorcask/serialize/values/value.h"
#include "tensorcask/serialize/values/value_json.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/float_types.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/serialize/gguf/gguf_testing.h"
#include "tensorcask/tests/support/faulty_file_system.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using namespace ::tensorcask::testing;  // NOLINT(google-build-using-namespace): kGguf...
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Code = absl::StatusCode;

std::string Content(const MemoryFileSystem& files, const std::string& path) {
  const auto bytes = files.Find(path);
  return bytes != nullptr ? *bytes : "";
}

GgufWriterOptions In(FileSystem* files) {
  GgufWriterOptions options;
  options.file_system = files;
  return options;
}

// All of `reader`, as it is.
absl::Status CopyAll(const GgufReader& reader, GgufWriter* writer) {
  for (size_t i = 0; i < reader.values().size(); ++i) {
    const Value value = reader.values().entry(i);
    if (value.kind() == ValueKind::kFileArray) {
      const absl::StatusOr<ValueTree> array = reader.ReadArray(value.file_array());
      if (!array.ok()) return array.status();
      const absl::Status set = writer->SetValue(reader.values().key(i).text(), array->root());
      if (!set.ok()) return set;
      continue;
    }
    const absl::Status set = writer->SetValue(reader.values().key(i).text(), value);
    if (!set.ok()) return set;
  }
  std::vector<const GgufEntry*> in_order;
  for (const GgufEntry& entry : reader.entries()) in_order.push_back(&entry);
  std::sort(in_order.begin(), in_order.end(), [](auto* a, auto* b) {
    return std::tie(a->offset, a->stored_bytes) < std::tie(b->offset, b->stored_bytes);
  });
  for (const GgufEntry* const entry : in_order) {
    const absl::Status declared = entry->is_block ? writer->DeclareBlocks(entry->name, entry->type, entry->shape)
                                                  : writer->Declare(entry->name, entry->dtype, entry->shape);
    if (!declared.ok()) return declared;
  }
  for (const GgufEntry* const entry : in_order) {
    const absl::StatusOr<Tensor> tensor = reader.Read(entry->name);
    if (!tensor.ok()) return tensor.status();
    const absl::Status added = writer->Add(entry->name, *tensor);
    if (!added.ok()) return added;
  }
  return writer->Finish();
}

// The bytes that another builder of files has: each kind of value, plain tensors, blocks, long arrays.
TEST(GgufWriter, WritesWhatItReads) {
  GgufFile file = SmallGguf();
  std::string items;
  for (int i = 0; i < 1000; ++i) items += file.Text(absl::StrCat("token ", i));
  file.AddKey("k.many", kGgufArray, file.Array(kGgufText, 1000, items));
  file.AddKey("k.flags", kGgufArray, file.Array(kGgufBool, 3, absl::string_view("\0\1\1", 3)));
  std::string floats = file.Number(0.1f);
  // NaNs, quiet and signalling, of either sign and with any payload.
  for (const uint32_t bits : {0x7fc00000u, 0x7fa00001u, 0x7f800001u, 0xffbfffffu, 0xff812345u, 0xffffffffu}) {
    floats += file.Number(bits);
    file.AddKey(absl::StrCat("k.nan", bits), kGgufFloat32, file.Number(bits));
  }
  file.AddKey("k.nan", kGgufFloat64, file.Number<uint64_t>(0x7ff0000000000001));
  file.AddKey("k.floats", kGgufArray, file.Array(kGgufFloat32, 7, floats));
  for (const GgufValueType type : {kGgufUint8, kGgufBool, kGgufText, kGgufFloat32, kGgufInt64}) {
    file.AddKey(absl::StrCat("k.none", static_cast<int>(type)), kGgufArray, file.Array(type, 0, ""));
  }
  file.AddTensor("scalar", {}, 0, file.Number(2.5f));
  file.AddTensor("empty", {0, 3}, 26, "");
  file.AddTensor("last", {1}, 27, file.Number<int64_t>(-1));
  for (const uint32_t alignment : {32, 64, 1, 4096}) {
    SCOPED_TRACE(alignment);
    GgufFile aligned;
    aligned.alignment = alignment;
    aligned.keys = file.keys;
    aligned.num_keys = file.num_keys;
    if (alignment != 32) aligned.AddKey("general.alignment", kGgufUint32, aligned.Number(alignment));
    aligned.AddTensor("a", {3}, 24, "abc");
    aligned.AddTensor("q", {32, 2}, 8, CountingBytes(68));
    aligned.AddTensor("z", {3}, 24, "xyz");
    const std::string wanted = alignment == 32 ? file.Build() : aligned.Build();
    GgufReaderOptions options;
    options.blocks_as_bytes = true;
    ASSERT_OK_AND_ASSIGN(const GgufReader reader, OpenGguf(wanted, options));
    MemoryFileSystem files;
    ASSERT_OK_AND_ASSIGN(GgufWriter writer, GgufWriter::Create("m.gguf", In(&files)));
    ASSERT_OK(CopyAll(reader, &writer));
    EXPECT_EQ(Content(files, "m.gguf"), wanted);
    EXPECT_THAT(files.Paths(), ElementsAre("m.gguf"));
    EXPECT_EQ(files.open_handles(), 0u);
    EXPECT_THAT(writer.Finish(), StatusIs(Code::kFailedPrecondition, HasSubstr("is finished")));
  }
}

// Without a tree of values, from either byte order.
TEST(GgufWriter, CopiesArraysFromAFile) {
  std::string written[2];
  for (const bool big_endian : {false, true}) {
    GgufFile file;
    file.big_endian = big_endian;
    std::string bytes, shorts, floats, texts;
    for (int i = 0; i < 100; ++i) {
      bytes += file.Number(static_cast<uint8_t>(i));
      shorts += file.Number(static_cast<int16_t>(-i));
      floats += file.Number(static_cast<uint32_t>(0x7fa00000 + i));  // signalling NaNs
      texts += file.Text(absl::StrCat("text \xff ", i));
    }
    file.AddKey("bytes", kGgufArray, file.Array(kGgufUint8, 100, bytes));
    file.AddKey("shorts", kGgufArray, file.Array(kGgufInt16, 100, shorts));
    file.AddKey("floats", kGgufArray, file.Array(kGgufFloat32, 100, floats));
    file.AddKey("texts", kGgufArray, file.Array(kGgufText, 100, texts));
    file.AddKey("flags", kGgufArray, file.Array(kGgufBool, 100, std::string(100, '\1')));
    ASSERT_OK_AND_ASSIGN(const GgufReader reader, OpenGguf(file.Build()));
    MemoryFileSystem files;
    ASSERT_OK_AND_ASSIGN(GgufWriter writer, GgufWriter::Create("m", In(&files)));
    for (size_t i = 0; i < reader.values().size(); ++i) {
      const absl::string_view name = reader.values().key(i).text();
      const Value array = reader.values().entry(i);
      EXPECT_THAT(writer.SetValue(name, array), StatusIs(Code::kInvalidArgument, HasSubstr("still in a file")));
      ASSERT_OK_AND_ASSIGN(const std::string content, reader.ReadArrayBytes(array.file_array()));
      ASSERT_OK(writer.SetArray(name, array, content));
    }
    ASSERT_OK(writer.Finish());
    written[big_endian ? 1 : 0] = Content(files, "m");
    if (!big_endian) {
      EXPECT_EQ(absl::string_view(written[0]).substr(0, file.Build().size()), file.Build());
    }
  }
  EXPECT_EQ(written[0], written[1]);
}

TEST(GgufWriter, GivesTheBlocksOfAReaderAsBytes) {
  ASSERT_OK_AND_ASSIGN(const GgufReader reader, OpenGguf(SmallGguf().Build()));
  const GgufReader bytes = reader.BlocksAsBytes();
  EXPECT_EQ(bytes.FindEntry("blocks")->shape, TensorShape({2, 34}));
  EXPECT_EQ(bytes.FindEntry("plain")->dtype, DType::kFloat32);
  EXPECT_EQ(bytes.Read("blocks")->bytes().substr(2, 32), CountingBytes(32));
  EXPECT_EQ(reader.FindEntry("blocks")->dtype, DType::kFloat32);
  EXPECT_EQ(bytes.BlocksAsBytes().FindEntry("blocks")->shape, TensorShape({2, 34}));
}

// Kept until Finish, in any strides, and in slices: the same bytes.
TEST(GgufWriter, WritesTensorsFromMemoryAndInSlices) {
  const Tensor w = Tensor::FromValues<float>({{1, 2, 3}, {4, 5, 6}});
  ASSERT_OK_AND_ASSIGN(const TensorView turned, TensorView(w).Transpose(0, 1));
  const Tensor half = Tensor::FromValues<bfloat16>({bfloat16(1.0f), bfloat16(-2.0f)});
  MemoryFileSystem files;
  {
    ASSERT_OK_AND_ASSIGN(GgufWriter writer, GgufWriter::Create("a", In(&files)));
    ASSERT_OK(writer.SetText("general.architecture", "test"));
    Tensor changed = Tensor::FromValues<int8_t>({1, 2});
    ASSERT_OK(writer.Add("turned", turned));
    ASSERT_OK(writer.Add("changed", changed));
    changed.mutable_data<int8_t>()[0] = 9;  // the writer keeps what it was given
    ASSERT_OK(writer.Add("half", half));
    EXPECT_THAT(writer.Add("half", half), StatusIs(Code::kAlreadyExists, HasSubstr("a: tensor \"half\"")));
    EXPECT_THAT(writer.Declare("x", DType::kFloat32, TensorShape({1})), StatusIs(Code::kFailedPrecondition));
    ASSERT_OK(writer.Finish());
  }
  {
    ASSERT_OK_AND_ASSIGN(GgufWriter writer, GgufWriter::Create("b", In(&files)));
    ASSERT_OK(writer.Declare("turned", DType::kFloat32, TensorShape({3, 2})));
    ASSERT_OK(writer.Declare("changed", DType::kInt8, TensorShape({2})));
    ASSERT_OK(writer.Declare("half", DType::kBfloat16, TensorShape({2})));
    ASSERT_OK(writer.SetText("general.architecture", "old"));
    ASSERT_OK(writer.SetText("general.architecture", "test"));
    for (const char* slice : {"0,1:-", "1,1:0,1", "1,1:1,1", "2,1:-"}) {
      ASSERT_OK_AND_ASSIGN(const TensorView part, turned.Slice(*TensorSlice::Parse(slice)));
      ASSERT_OK(writer.AddSlice("turned", *TensorSlice::Parse(slice), part)) << slice;
    }
    EXPECT_THAT(writer.SetText("k", "v"), StatusIs(Code::kFailedPrecondition));
    ASSERT_OK(writer.Add("changed", Tensor::FromValues<int8_t>({1, 2})));
    ASSERT_OK(writer.Add("half", half));
    ASSERT_OK(writer.Finish());
  }
  EXPECT_EQ(Content(files, "a"), Content(files, "b"));
  GgufFile wanted;
  wanted.AddKey("general.architecture", kGgufText, wanted.Text("test"));
  std::string floats;
  for (const float number : {1.0f, 4.0f, 2.0f, 5.0f, 3.0f, 6.0f}) floats += wanted.Number(number);
  wanted.AddTensor("turned", {2, 3}, 0, floats);
  wanted.AddTensor("changed", {2}, 24, "\1\2");
  wanted.AddTensor("half", {2}, 30, absl::string_view("\x80\x3f\x00\xc0", 4));
  EXPECT_EQ(Content(files, "a"), wanted.Build());
}

TEST(GgufWriter, RefusesAndGoesOn) {
  MemoryFileSystem files;
  ASSERT_OK_AND_ASSIGN(GgufWriter writer, GgufWriter::Create("m", In(&files)));
  const std::string long_name(64, 'n');
  EXPECT_THAT(writer.Declare(long_name, DType::kFloat32, TensorShape({1})),
              StatusIs(Code::kInvalidArgument, HasSubstr("its name has 64 bytes; ggml has room for 63")));
  EXPECT_THAT(writer.Declare("\xff", DType::kFloat32, TensorShape({1})),
              StatusIs(Code::kInvalidArgument, HasSubstr("its name is not UTF-8")));
  EXPECT_THAT(writer.Declare("u", DType::kUint8, TensorShape({1})),
              StatusIs(Code::kInvalidArgument, HasSubstr("m: tensor \"u\": GGUF files cannot hold uint8")));
  EXPECT_THAT(writer.Declare("r", DType::kFloat32, TensorShape({1, 1, 1, 1, 1})),
              StatusIs(Code::kInvalidArgument, HasSubstr("at most 4 dimensions")));
  EXPECT_THAT(writer.DeclareBlocks("q", "q4_k", TensorShape({3, 145})),
              StatusIs(Code::kInvalidArgument, HasSubstr("multiple of 144")));
  EXPECT_THAT(writer.DeclareBlocks("q", "q9_z", TensorShape({3, 144})), StatusIs(Code::kInvalidArgument));
  EXPECT_THAT(writer.DeclareBlocks("q", "f32", TensorShape({3, 4})), StatusIs(Code::kInvalidArgument));
  ASSERT_OK(writer.Declare(std::string(63, 'n'), DType::kFloat32, TensorShape({2, 2})));
  ASSERT_OK(writer.Declare("w", DType::kFloat32, TensorShape({2})));
  const Tensor pair = Tensor::FromValues<float>({1, 2});
  EXPECT_THAT(writer.Add("w", pair), StatusIs(Code::kFailedPrecondition, HasSubstr("comes first")));
  EXPECT_THAT(writer.Add("x", pair), StatusIs(Code::kNotFound));
  const std::string first(63, 'n');
  EXPECT_THAT(writer.Add(first, pair), StatusIs(Code::kInvalidArgument));
  EXPECT_THAT(writer.AddSlice(first, *TensorSlice::Parse("1,1:-"), Tensor::FromValues<float>({{1, 2}})),
              StatusIs(Code::kInvalidArgument, HasSubstr("row-major order at byte 0")));
  EXPECT_THAT(writer.AddSlice(first, *TensorSlice::Parse("-:0,1"), Tensor::FromValues<float>({{1}, {2}})),
              StatusIs(Code::kInvalidArgument));
  EXPECT_THAT(writer.AddSlice(first, *TensorSlice::Parse("2,1:-"), pair), StatusIs(Code::kOutOfRange));
  ASSERT_OK(writer.AddSlice(first, *TensorSlice::Parse("0,1:-"), Tensor::FromValues<float>({{1, 2}})));
  EXPECT_THAT(writer.Finish(), StatusIs(Code::kFailedPrecondition, HasSubstr("was added in part only")));
  EXPECT_THAT(GgufWriter::Create("", In(&files)), StatusIs(Code::kInvalidArgument));
}

TEST(GgufWriter, RefusesValues) {
  MemoryFileSystem files;
  ASSERT_OK_AND_ASSIGN(GgufWriter writer, GgufWriter::Create("m", In(&files)));
  const auto refused = [&](const char* name, ValueTree tree, const char* says) {
    EXPECT_THAT(writer.SetValue(name, tree.root()), StatusIs(Code::kInvalidArgument, HasSubstr(says))) << name;
  };
  ValueTree none, bytes, map, mixed, nested, huge, text, odd;
  none.AddNone();
  refused("none", std::move(none), "no type for");
  bytes.AddText("x", ValueKind::kBytes);
  refused("bytes", std::move(bytes), "m: key \"bytes\"");
  map.AddMap({});
  refused("map", std::move(map), "is a map");
  const std::vector<ValueTree::Id> items = {mixed.AddInt(1), mixed.AddFloat(1)};
  mixed.AddItems(ValueKind::kList, items);
  refused("mixed", std::move(mixed), "several types");
  const std::vector<ValueTree::Id> list = {nested.AddItems(ValueKind::kList, {})};
  nested.AddItems(ValueKind::kList, list);
  refused("nested", std::move(nested), "list of lists");
  huge.AddText("99999999999999999999", ValueKind::kBigInt);
  refused("huge", std::move(huge), "no type for");
  text.AddText("32");
  refused("general.alignment", std::move(text), "must be a uint32");
  odd.AddUint(48, 32);
  refused("general.alignment", std::move(odd), "power of two");
  EXPECT_THAT(writer.SetText("", "x"), StatusIs(Code::kInvalidArgument));
  EXPECT_THAT(writer.SetText("\xff", "x"), StatusIs(Code::kInvalidArgument, HasSubstr("name of a key is not UTF-8")));
  EXPECT_THAT(writer.SetText("k", "\xff"), StatusIs(Code::kInvalidArgument, HasSubstr("the text is not UTF-8")));
  EXPECT_THAT(writer.SetParsed("k", "text:\xff"), StatusIs(Code::kInvalidArgument, HasSubstr("not UTF-8")));
  EXPECT_THAT(writer.SetText(std::string(65536, 'k'), "x"), StatusIs(Code::kInvalidArgument));
  EXPECT_THAT(writer.SetText("split.count", "x"), StatusIs(Code::kInvalidArgument, HasSubstr("several files")));
}

TEST(GgufWriter, ParsesTextsToValues) {
  MemoryFileSystem files;
  ASSERT_OK_AND_ASSIGN(GgufWriter writer, GgufWriter::Create("m", In(&files)));
  ValueTree old;
  const ValueTree::Id number = old.AddUint(7, 8);
  const ValueTree::Id flag = old.AddBool(false);
  const ValueTree::Id rate = old.AddFloat(0.5, 32);
  const ValueTree::Id list = old.AddItems(ValueKind::kList, {});
  ASSERT_OK(writer.SetParsed("a", "uint32:7"));
  ASSERT_OK(writer.SetParsed("b", "int8:-128"));
  ASSERT_OK(writer.SetParsed("c", "bool:true"));
  ASSERT_OK(writer.SetParsed("d", "float64:1e300"));
  ASSERT_OK(writer.SetParsed("e", "text:uint32:7"));
  ASSERT_OK(writer.SetParsed("f", "7"));
  ASSERT_OK(writer.SetParsed("g", "255", old.value(number)));
  ASSERT_OK(writer.SetParsed("h", "true", old.value(flag)));
  ASSERT_OK(writer.SetParsed("i", "0.25", old.value(rate)));
  ASSERT_OK(writer.SetParsed("j", "text:7", old.value(number)));
  ASSERT_OK(writer.SetParsed("k", "int64:1", old.value(list)));
  for (const char* bad :
       {"uint8:256", "uint8:-1", "int8:128", "int8:-129", "uint32:x", "bool:1", "float32:", "int64:"}) {
    EXPECT_THAT(writer.SetParsed("x", bad), StatusIs(Code::kInvalidArgument, HasSubstr("is not a value of the type")));
  }
  EXPECT_THAT(writer.SetParsed("x", "256", old.value(number)),
              StatusIs(Code::kInvalidArgument, HasSubstr("is a uint8, which \"256\" is not")));
  EXPECT_THAT(writer.SetParsed("x", "1", old.value(list)), StatusIs(Code::kInvalidArgument, HasSubstr("array")));
  ASSERT_OK(writer.Finish());
  ASSERT_OK_AND_ASSIGN(const GgufReader reader, OpenGguf(Content(files, "m")));
  EXPECT_EQ(*ValueToJson(reader.values()),
            R"({"a":7,"b":-128,"c":true,"d":1e+300,"e":"uint32:7","f":"7","g":255,"h":true,"i":0.25,"j":"7","k":1})");
  EXPECT_EQ(reader.values().entry(0).bits(), 32);
  EXPECT_EQ(reader.values().entry(6).bits(), 8);
}

absl::Status SavePair(FileSystem* files, float first, bool overwrite) {
  GgufWriterOptions options = In(files);
  options.overwrite = overwrite;
  absl::StatusOr<GgufWriter> writer = GgufWriter::Create("m", options);
  if (!writer.ok()) return writer.status();
  const absl::Status added = writer->Add("w", Tensor::FromValues<float>({first, 2}));
  return added.ok() ? writer->Finish() : added;
}

TEST(GgufWriter, EveryFailingOperationLeavesTheOldFileOrTheNewOne) {
  for (const bool overwrite : {false, true}) {
    for (int64_t n = 1;; ++n) {
      ASSERT_LT(n, 100);
      MemoryFileSystem memory;
      if (overwrite) {
        ASSERT_OK(SavePair(&memory, 1, false));
      }
      FaultyFileSystem files(&memory);
      files.FailAt(n, ENOSPC);
      const absl::Status saved = SavePair(&files, 5, overwrite);
      EXPECT_EQ(files.open_handles(), 0u);
      for (const std::string& path : memory.Paths()) EXPECT_FALSE(absl::StrContains(path, ".tmp-")) << files.LogText();
      if (memory.Find("m") == nullptr) {
        EXPECT_FALSE(overwrite || saved.ok()) << files.LogText();
      } else {
        ASSERT_OK_AND_ASSIGN(const GgufReader reader, OpenGguf(Content(memory, "m")));
        const float first = reader.Read("w")->data<float>()[0];
        EXPECT_TRUE(first == 5 || (overwrite && first == 1));
        if (saved.ok()) {
          EXPECT_EQ(first, 5);
        }
      }
      if (files.faults() == 0) break;
    }
  }
  MemoryFileSystem memory;
  ASSERT_OK(SavePair(&memory, 1, false));
  EXPECT_THAT(SavePair(&memory, 1, false), StatusIs(Code::kAlreadyExists));
  {
    ASSERT_OK_AND_ASSIGN(GgufWriter writer, GgufWriter::Create("n", In(&memory)));
    ASSERT_OK(writer.Declare("w", DType::kFloat32, TensorShape({1})));
    ASSERT_OK(writer.Start());
  }
  EXPECT_THAT(memory.Paths(), ElementsAre("m"));
}

// ---- Edits ---------------------------------------------------------------------------------------------------------

// The file after an edit, the names of keys and tensors changed, in the same byte order.
TEST(GgufEdit, ChangesKeysAndNames) {
  for (const bool big_endian : {false, true}) {
    SCOPED_TRACE(big_endian);
    MemoryFileSystem files;
    files.Put("m", SmallGguf(big_endian).Build());
    FileEdits edits;
    edits.renames = {{"plain", "new name"}};
    edits.set_metadata = {{"k.u16", "12"}, {"k.new", "uint32:5"}, {"k.note", "text"}};
    edits.unset_metadata = {"k.u8", "k.texts"};
    FileEditOptions options;
    options.file_system = &files;
    options.dry_run = true;
    const std::string before = Content(files, "m");
    ASSERT_OK(gguf::EditGguf("m", edits, options));
    EXPECT_EQ(Content(files, "m"), before);
    options.dry_run = false;
    ASSERT_OK_AND_ASSIGN(const FileEditResult result, gguf::EditGguf("m", edits, options));
    EXPECT_THAT(result.files, ElementsAre("m"));
    ASSERT_OK_AND_ASSIGN(const GgufReader old, OpenGguf(before));
    ASSERT_OK_AND_ASSIGN(const GgufReader reader, OpenGguf(Content(files, "m")));
    EXPECT_EQ(reader.big_endian(), big_endian);
    EXPECT_THAT(reader.notes(), IsEmpty());
    EXPECT_EQ(*ValueToJson(reader.values()),
              R"({"general.architecture":"test","k.i8":-1,"k.u16":12,"k.i16":-2,"k.u32":4294967295,)"
              R"("k.i32":-3,"k.f32":0.5,"k.bool":true,"k.u64":18446744073709551615,"k.i64":-9223372036854775808,)"
              R"("k.f64":0.25,"k.numbers":[7,-8],"k.new":5,"k.note":"text"})");
    EXPECT_EQ(reader.Read("new name")->bytes(), old.Read("plain")->bytes());
    EXPECT_EQ(reader.FindEntry("plain"), nullptr);
    if (!big_endian) {
      EXPECT_EQ(reader.BlocksAsBytes().Read("blocks")->bytes(), old.BlocksAsBytes().Read("blocks")->bytes());
    }
  }
}

TEST(GgufEdit, RemovesTensorsAndChangesTheAlignment) {
  GgufFile file;
  for (const char* name : {"a", "b", "c", "d"}) file.AddTensor(name, {3}, 24, std::string(3, name[0]));
  file.last_padding = false;
  MemoryFileSystem files;
  files.Put("m", file.Build());
  FileEdits edits;
  edits.removed = {"b"};
  edits.set_metadata = {{"general.alignment", "uint32:64"}};
  FileEditOptions options;
  options.file_system = &files;
  options.output = "n";
  ASSERT_OK_AND_ASSIGN(const FileEditResult result, gguf::EditGguf("m", edits, options));
  EXPECT_EQ(result.copied_bytes, 9u);
  EXPECT_EQ(Content(files, "m"), file.Build());
  GgufFile wanted;
  wanted.alignment = 64;
  wanted.AddKey("general.alignment", kGgufUint32, wanted.Number<uint32_t>(64));
  for (const char* name : {"a", "c", "d"}) wanted.AddTensor(name, {3}, 24, std::string(3, name[0]));
  EXPECT_EQ(Content(files, "n"), wanted.Build());
}

// Where the system can share the bytes of files, it shares those that begin at the same offset modulo 4096.
TEST(GgufEdit, KeepsTheDataOfALargeFileWhereItCanBeShared) {
  GgufFile file;
  file.AddKey("k", kGgufText, file.Text("v"));
  file.AddTensor("w", {1 << 20}, 24, std::string(1 << 20, 'w'));
  MemoryFileSystem files;
  files.Put("m", file.Build());
  FileEditOptions options;
  options.file_system = &files;
  const auto offset = [&] { return OpenGguf(Content(files, "m"))->FindEntry("w")->offset; };
  const uint64_t before = offset();
  for (const size_t length : {1, 30, 31, 64, 5000, 20, 0}) {
    FileEdits edits;
    edits.set_metadata = {{"k", std::string(length, 'x')}};
    ASSERT_OK(gguf::EditGguf("m", edits, options));
    EXPECT_EQ(offset() % 4096, before % 4096) << length;
    ASSERT_OK_AND_ASSIGN(const GgufReader reader, OpenGguf(Content(files, "m")));
    EXPECT_LE(reader.values().size(), 2u);
    EXPECT_LE(reader.FindEntry("w")->offset, before + 2 * 4096 + length);
    EXPECT_EQ(reader.Read("w")->bytes(), std::string(1 << 20, 'w'));
    EXPECT_THAT(reader.notes(), IsEmpty());
  }
}

// One part of two: the tensor `name` with `bytes` elements.
std::string PartOfTwo(uint16_t number, absl::string_view name, size_t bytes) {
  GgufFile file;
  file.AddKey("split.no", kGgufUint16, file.Number(number));
  file.AddKey("split.count", kGgufUint16, file.Number<uint16_t>(2));
  file.AddTensor(name, {bytes}, 24, std::string(bytes, 'w'));
  return file.Build();
}

TEST(GgufEdit, PadsAnyPartOfAModel) {
  MemoryFileSystem files;
  const std::string first = "m-00001-of-00002.gguf", second = "m-00002-of-00002.gguf";
  files.Put(first, PartOfTwo(0, "a", 1));
  files.Put(second, PartOfTwo(1, "w", 1 << 20));
  FileEdits edits;
  edits.renames = {{"w", std::string(63, 'n')}};
  FileEditOptions options;
  options.file_system = &files;
  ASSERT_OK(gguf::EditGguf(first, edits, options));
  EXPECT_THAT(Content(files, second), HasSubstr("tensorcask.padding"));
  GgufReaderOptions read;
  read.read.file_system = &files;
  ASSERT_OK_AND_ASSIGN(const GgufReader reader, GgufReader::Open(first, read));
  EXPECT_EQ(reader.Read(edits.renames["w"])->bytes(), std::string(1 << 20, 'w'));
}

TEST(GgufEdit, KeepsTheKeysThatJoinTheParts) {
  MemoryFileSystem files;
  const std::string first = "m-00001-of-00002.gguf", second = "m-00002-of-00002.gguf";
  files.Put(first, PartOfTwo(0, "a", 1));
  files.Put(second, PartOfTwo(1, "w", 1));
  FileEditOptions options;
  options.file_system = &files;
  for (const char* key : {"split.no", "split.count"}) {
    FileEdits set, unset;
    set.set_metadata = {{key, "uint16:0"}};
    unset.unset_metadata = {key};
    options.output = "";
    EXPECT_THAT(gguf::EditGguf(first, set, options), StatusIs(Code::kInvalidArgument, HasSubstr(key)));
    EXPECT_THAT(gguf::EditGguf(first, unset, options),
                StatusIs(Code::kInvalidArgument, HasSubstr("joins the 2 files of the model")));
    options.output = "n-00001-of-00002.gguf";
    EXPECT_THAT(gguf::EditGguf(second, unset, options), StatusIs(Code::kInvalidArgument));
  }
  EXPECT_EQ(Content(files, first), PartOfTwo(0, "a", 1));
  EXPECT_THAT(files.Paths(), ElementsAre(first, second));
}

// Another value than spaces is that of an ordinary key, and then there is no padding.
TEST(GgufEdit, KeepsAKeyThatOnlyHasTheNameOfThePadding) {
  GgufFile file;
  file.AddKey("tensorcask.padding", kGgufText, file.Text(" not spaces"));
  file.AddTensor("w", {1 << 20}, 24, std::string(1 << 20, 'w'));
  MemoryFileSystem files;
  files.Put("m", file.Build());
  FileEditOptions options;
  options.file_system = &files;
  FileEdits edits;
  edits.set_metadata = {{"k", std::string(100, 'x')}};
  ASSERT_OK(gguf::EditGguf("m", edits, options));
  ASSERT_OK_AND_ASSIGN(const GgufReader reader, OpenGguf(Content(files, "m")));
  EXPECT_EQ(*ValueToJson(reader.values()),
            absl::StrCat(R"({"tensorcask.padding":" not spaces","k":")", std::string(100, 'x'), "\"}"));
  ASSERT_OK_AND_ASSIGN(GgufWriter writer, GgufWriter::Create("n", In(&files)));
  ASSERT_OK(writer.SetText("tensorcask.padding", "x"));
  EXPECT_THAT(writer.SetText("tensorcask.padding", "  "), StatusIs(Code::kInvalidArgument, HasSubstr("only padding")));
}

TEST(GgufEdit, RefusesAndChangesNothing) {
  MemoryFileSystem files;
  const std::string before = SmallGguf().Build();
  files.Put("m", before);
  FileEditOptions options;
  options.file_system = &files;
  const auto refused = [&](const FileEdits& edits, Code code, const char* says) {
    EXPECT_THAT(gguf::EditGguf("m", edits, options), StatusIs(code, HasSubstr(says)));
    EXPECT_EQ(Content(files, "m"), before);
    EXPECT_THAT(files.Paths(), ElementsAre("m"));
  };
  FileEdits edits;
  edits.renames = {{"plain", std::string(64, 'x')}};
  refused(edits, Code::kInvalidArgument, "m: tensor \"plain\" as");
  edits.renames = {{"plain", "\xff"}};
  refused(edits, Code::kInvalidArgument, "its name is not UTF-8");
  edits = {};
  edits.set_metadata = {{"k", "\xff"}};
  refused(edits, Code::kInvalidArgument, "m: key \"k\": the text is not UTF-8");
  edits.set_metadata = {{"k.u8", "256"}};
  refused(edits, Code::kInvalidArgument, "m: key \"k.u8\": is a uint8");
  edits.set_metadata = {{"k.texts", "x"}};
  refused(edits, Code::kInvalidArgument, "is an array");
  edits.set_metadata = {{"split.no", "uint16:1"}};
  refused(edits, Code::kInvalidArgument, "several files");
  edits.set_metadata = {{"k", "v"}};
  options.progress = [](uint64_t) { return false; };
  refused(edits, Code::kCancelled, "");
  files.Put("m", before.substr(0, 100));
  EXPECT_THAT(gguf::EditGguf("m", edits, options), StatusIs(Code::kDataLoss));
}

}  // namespace
}  // namespace tensorcask
