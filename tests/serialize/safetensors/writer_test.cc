// Writing: bytes, round trips, streaming, several files, and what goes wrong.

#include "tensorcask/serialize/safetensors/safetensors_writer.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/io/forwarding_file_system.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/serialize/safetensors/safetensors_dtypes.h"
#include "tensorcask/serialize/safetensors/safetensors_reader.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/compare.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/serialize/safetensors/safetensors_testing.h"
#include "tensorcask/tests/serialize/safetensors/writer_testing.h"
#include "tensorcask/tests/support/faulty_file_system.h"
#include "tensorcask/tests/support/status_matchers.h"
#include "tensorcask/tests/support/test_data.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::AsReference;
using ::tensorcask::testing::FaultyFileSystem;
using ::tensorcask::testing::MakeFile;
using ::tensorcask::testing::OpenBytes;
using ::tensorcask::testing::RandomTensor;
using ::tensorcask::testing::ReadFileOrFail;
using ::tensorcask::testing::Save;
using ::tensorcask::testing::SavedBytes;
using ::tensorcask::testing::StatusIs;
using ::tensorcask::testing::Tensors;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using Code = absl::StatusCode;

const char kGolden[] = "tests/serialize/safetensors/golden/";

Tensors ReadAllOf(const SafetensorsReader& reader) {
  Tensors tensors;
  auto all = reader.ReadAll();
  EXPECT_OK(all);
  if (all.ok()) tensors.assign(all->begin(), all->end());
  return tensors;
}

std::vector<DType> AllDTypes() {
  std::vector<DType> dtypes;
#define CASK_ADD(id, number, T, name) \
  if (SafetensorsDTypeBits(DType::id) > 0) dtypes.push_back(DType::id);
  CASK_FIXED_SIZE_DTYPES(CASK_ADD)
#undef CASK_ADD
  return dtypes;
}

// ---- Bytes ---------------------------------------------------------------------------------------------------------

TEST(SafetensorsWriter, GivesTheReferenceWritersBytes) {
  const std::string golden = ReadFileOrFail(std::string(kGolden) + "reference_0.8.0.safetensors");
  ASSERT_OK_AND_ASSIGN(const SafetensorsReader reader, OpenBytes(golden));
  EXPECT_EQ(reader.entries().size(), 22u);
  EXPECT_EQ(reader.entries().back().name, "t.bool");
  SafetensorsWriterOptions options = AsReference();
  options.metadata = reader.metadata();
  const Tensors tensors = ReadAllOf(reader);
  EXPECT_EQ(SavedBytes(tensors, options), golden);
}

TEST(SafetensorsWriter, GivesTheBytesOfTheSpecificationsExamples) {
  const Tensor six = RandomTensor(DType::kFloat32, TensorShape({1, 2, 3}), 1);
  EXPECT_EQ(SavedBytes({{"attn.0", six}}, AsReference()),
            MakeFile(R"({"attn.0":{"dtype":"F32","shape":[1,2,3],"data_offsets":[0,24]}})", six.bytes()));
  EXPECT_EQ(SavedBytes({{"attn0", *six.Reshape(TensorShape({1, 1, 2, 3}))}}, AsReference()),
            MakeFile(R"({"attn0":{"dtype":"F32","shape":[1,1,2,3],"data_offsets":[0,24]}}       )", six.bytes()));
  EXPECT_EQ(SavedBytes({}, AsReference()), MakeFile("{}      "));
}

TEST(SafetensorsWriter, ChecksumsAreStoredAsFormatMdSaysIt) {
  const std::string golden = ReadFileOrFail(std::string(kGolden) + "checksums.safetensors");
  const std::string bytes = SavedBytes({{"a", Tensor::FromValues<int16_t>({1, 2})}});
  EXPECT_EQ(absl::BytesToHexString(bytes), absl::BytesToHexString(golden)) << absl::CEscape(bytes);
}

TEST(SafetensorsWriter, OrderOfCallsDoesNotChangeTheBytes) {
  const Tensor a = RandomTensor(DType::kFloat32, TensorShape({3}), 1);
  const Tensor b = RandomTensor(DType::kInt8, TensorShape({5}), 2);
  const Tensor c = RandomTensor(DType::kInt64, TensorShape({2}), 3);
  EXPECT_EQ(SavedBytes({{"a", a}, {"b", b}, {"c", c}}), SavedBytes({{"c", c}, {"b", b}, {"a", a}}));
  SafetensorsWriterOptions options;
  options.order = SafetensorsOrder::kAsAdded;
  ASSERT_OK_AND_ASSIGN(const SafetensorsReader reader, OpenBytes(SavedBytes({{"b", b}, {"c", c}, {"a", a}}, options)));
  EXPECT_EQ(reader.entries()[0].name, "b");
  EXPECT_EQ(reader.entries()[2].name, "a");
}

TEST(SafetensorsWriter, DataBeginsAtTheAlignment) {
  for (const uint64_t alignment : {1, 2, 8, 64, 256, 4096, 1 << 20}) {
    for (const bool checksums : {false, true}) {
      SafetensorsWriterOptions options;
      options.alignment = alignment;
      options.checksums = checksums;
      const std::string bytes = SavedBytes({{"a", Tensor::FromValues<float>({1, 2})}}, options);
      ASSERT_OK_AND_ASSIGN(const SafetensorsReader reader, OpenBytes(bytes));
      EXPECT_EQ(reader.entries()[0].offset % alignment, 0u);
      EXPECT_LE(bytes.size(), 160 + alignment);
    }
  }
}

TEST(SafetensorsWriter, RoundTripsEveryDTypeRankAndName) {
  Tensors tensors;
  uint64_t seed = 0;
  for (const DType dtype : AllDTypes()) {
    std::vector<int64_t> dims;
    for (int rank = 0; rank <= 6; ++rank) {
      if (rank > 0) dims.push_back(rank == 1 ? 8 : 1 + static_cast<int64_t>((seed * 7) % 3));
      if (rank == 0 && SafetensorsDTypeBits(dtype) < 8) continue;
      tensors.emplace_back(absl::StrCat(DTypeName(dtype), "/", rank),
                           RandomTensor(dtype, *TensorShape::Create(dims), ++seed));
    }
    tensors.emplace_back(absl::StrCat(DTypeName(dtype), "/none"), RandomTensor(dtype, TensorShape({2, 0, 3}), ++seed));
  }
  for (const char* name : {"", "\xc3\xa9/\xf0\x9f\x98\x80", "a\"b\\c", "\x01\x1f\x7f\n", "..", "a/b"}) {
    tensors.emplace_back(name, RandomTensor(DType::kUint8, TensorShape({3}), ++seed));
  }
  tensors.emplace_back(std::string("nul\0byte", 8), RandomTensor(DType::kUint8, TensorShape({3}), ++seed));
  EXPECT_EQ(AllDTypes().size(), 22u);
  ASSERT_OK_AND_ASSIGN(const SafetensorsReader reader, OpenBytes(SavedBytes(tensors)));
  EXPECT_EQ(reader.entries().size(), tensors.size());
  EXPECT_THAT(reader.notes(), IsEmpty());
  for (const auto& [name, tensor] : tensors) {
    SCOPED_TRACE(name);
    ASSERT_OK_AND_ASSIGN(const Tensor read, reader.Read(name));
    EXPECT_EQ(read.shape(), tensor.shape());
    EXPECT_TRUE(Equal(read, tensor));
    EXPECT_TRUE(reader.FindEntry(name)->checksum.has_value());
  }
}

TEST(SafetensorsWriter, RealFilesComeBackByteForByte) {
  const std::string folder = ::tensorcask::testing::TestDataFolder("safetensors");
  if (folder.empty()) GTEST_SKIP() << "no test data";
  // Files that the reference writer wrote, with at most one entry of metadata, whose order it keeps.
  for (const char* name : {"mlverse_hello", "runai_empty", "burn_multi_layer", "candle_jfk_codes"}) {
    SCOPED_TRACE(name);
    const std::string bytes = ReadFileOrFail(absl::StrCat(folder, "/", name, ".safetensors"));
    ASSERT_OK_AND_ASSIGN(const SafetensorsReader reader, OpenBytes(bytes));
    SafetensorsWriterOptions options = AsReference();
    options.metadata = reader.metadata();
    const std::string saved = SavedBytes(ReadAllOf(reader), options);
    EXPECT_TRUE(saved == bytes) << absl::CEscape(saved.substr(0, 300)) << "\n" << absl::CEscape(bytes.substr(0, 300));
  }
}

TEST(SafetensorsWriter, ViewsAreStoredInRowMajorOrder) {
  const Tensor tensor = RandomTensor(DType::kFloat4E2m1, TensorShape({6, 500, 4}), 1);
  const TensorView turned = *TensorView(tensor).Transpose(0, 2);
  MemoryFileSystem files;
  SafetensorsWriterOptions options;
  options.file_system = &files;
  ASSERT_OK_AND_ASSIGN(SafetensorsWriter writer, SafetensorsWriter::Create("m", options));
  ASSERT_OK(writer.Add("t", turned));
  ASSERT_OK(writer.Finish());
  ASSERT_OK_AND_ASSIGN(const SafetensorsReader reader, OpenBytes(*files.Find("m")));
  EXPECT_TRUE(Equal(*reader.Read("t"), turned));
}

// ---- Checksums -----------------------------------------------------------------------------------------------------

TEST(SafetensorsChecksums, MetadataWithoutFormatGetsOne) {
  // Hugging Face transformers refuses other metadata without "format".
  const Tensors tensors = {{"a", Tensor::FromValues<float>({1})}};
  EXPECT_THAT(OpenBytes(SavedBytes(tensors))->metadata(), ElementsAre(Pair("format", "pt")));
  SafetensorsWriterOptions options;
  options.metadata["format"] = "flax";
  EXPECT_THAT(OpenBytes(SavedBytes(tensors, options))->metadata(), ElementsAre(Pair("format", "flax")));
  options = {};
  options.default_format.clear();
  EXPECT_THAT(OpenBytes(SavedBytes(tensors, options))->metadata(), IsEmpty());
  EXPECT_THAT(OpenBytes(SavedBytes(tensors, AsReference()))->metadata(), IsEmpty());
}

TEST(SafetensorsChecksums, ProgramsThatKeepTheMetadataMakeThemStale) {
  SafetensorsWriterOptions options;
  options.metadata["k"] = "v";
  const std::string bytes = SavedBytes({{"a", Tensor::FromValues<float>({1, 2})}}, options);
  // As the reference writer writes a file with the same metadata and other elements.
  std::string header(bytes, 8, bytes.find("}}", 8) + 2 - 8);
  header.resize((header.size() + 7) / 8 * 8, ' ');
  ASSERT_OK_AND_ASSIGN(const SafetensorsReader reader, OpenBytes(MakeFile(header, "01234567")));
  EXPECT_THAT(reader.notes(), ElementsAre(HasSubstr("are of another version of this file")));
  EXPECT_FALSE(reader.entries()[0].checksum.has_value());
  EXPECT_EQ(reader.Read("a")->bytes(), "01234567");
}

// The reference writer saves our file again with one more entry of metadata: any length, any order of keys. Some of the
// headers have the length of ours and begin as ours does.
TEST(SafetensorsChecksums, CarriedAlongByAnotherWriterTheyAreStaleAndNeverDamage) {
  const std::string bytes =
      SavedBytes({{"a", Tensor::FromValues<float>({1, 2})}, {"b", Tensor::FromValues<float>({3})}}, {});
  ASSERT_OK(OpenBytes(bytes));
  const size_t digits_at = bytes.find(R"("tensorcask.crc32c":")");
  const std::string checksums = bytes.substr(digits_at, bytes.find(',', digits_at) - digits_at);
  const size_t tensors_at = bytes.find(R"("a":{)");
  const std::string tensors = bytes.substr(tensors_at, bytes.find("}}", tensors_at) + 2 - tensors_at);
  int same_length = 0;
  for (size_t length = 0; length < 300; ++length) {
    std::vector<std::string> entries = {checksums, R"("format":"pt")",
                                        absl::StrCat(R"("note":")", std::string(length, 'x'), "\"")};
    std::sort(entries.begin(), entries.end());
    do {
      std::string header = absl::StrCat(R"({"__metadata__":{)", absl::StrJoin(entries, ","), "},", tensors);
      header.resize((header.size() + 7) / 8 * 8, ' ');
      const std::string file = MakeFile(header, bytes.substr(bytes.size() - 12));
      same_length += file.size() == bytes.size() && entries[0] == checksums ? 1 : 0;
      ASSERT_OK_AND_ASSIGN(const SafetensorsReader reader, OpenBytes(file));
      EXPECT_THAT(reader.notes(), ElementsAre(HasSubstr("are of another version of this file")));
      EXPECT_FALSE(reader.entries()[0].checksum.has_value());
      EXPECT_EQ(reader.metadata().at("note").size(), length);
    } while (std::next_permutation(entries.begin(), entries.end()));
  }
  EXPECT_GE(same_length, 8);
}

// Each prefix, and each byte changed in each bit or to a telling value: refused, or read without a crash; data with
// checksums never comes back changed.
void TryEveryChange(const std::string& bytes, bool has_checksums) {
  ASSERT_OK_AND_ASSIGN(const SafetensorsReader whole, OpenBytes(bytes));
  const Tensors wanted = ReadAllOf(whole);
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_THAT(OpenBytes(absl::string_view(bytes).substr(0, size)), StatusIs(Code::kDataLoss)) << size;
  }
  const size_t data_start = whole.entries().front().offset;
  for (size_t at = 0; at < bytes.size(); ++at) {
    for (const int change : {1, 2, 4, 8, 16, 32, 64, 128, -1, -2, -3}) {
      std::string changed = bytes;
      const char c = changed[at];
      changed[at] = change > 0 ? static_cast<char>(c ^ change) : change == -1 ? ' ' : change == -2 ? '"' : '9';
      if (changed[at] == c) continue;
      for (const bool lenient : {false, true}) {
        SafetensorsReaderOptions options;
        options.lenient = lenient;
        const absl::StatusOr<SafetensorsReader> reader = OpenBytes(changed, options);
        if (!reader.ok()) continue;
        for (const SafetensorsEntry& entry : reader->entries()) {
          const absl::StatusOr<Tensor> tensor = reader->Read(entry.name);
          EXPECT_OK(reader->VerifyAll([](const SafetensorsDamage&) {}));
          if (!tensor.ok()) continue;
          EXPECT_EQ(tensor->shape(), entry.shape);
          if (!has_checksums || at < data_start) continue;
          for (const auto& [name, original] : wanted) {
            if (name != entry.name) continue;
            EXPECT_TRUE(Equal(*tensor, original)) << at << " " << change;
          }
        }
        if (has_checksums && at >= data_start) {
          int damaged = 0;
          EXPECT_OK(reader->VerifyAll([&](const SafetensorsDamage& damage) {
            ++damaged;
            EXPECT_EQ(damage.file, "m.safetensors");
          }));
          EXPECT_EQ(damaged, 1) << at << " " << change;
        }
      }
    }
  }
}

TEST(SafetensorsChecksums, EveryCutAndEveryChangedByteIsFoundOrHarmless) {
  const Tensors tensors = {{"w", RandomTensor(DType::kBfloat16, TensorShape({2, 3}), 1)},
                           {"b", RandomTensor(DType::kBool, TensorShape({5}), 2)},
                           {"f\xc3\xa9", RandomTensor(DType::kFloat6E3m2, TensorShape({4}), 3)}};
  SafetensorsWriterOptions options;
  options.alignment = 8;
  TryEveryChange(SavedBytes(tensors, options), /*has_checksums=*/true);
  TryEveryChange(SavedBytes(tensors, AsReference()), /*has_checksums=*/false);
  options = AsReference();
  options.metadata = {{"format", "pt"}, {"x", "\n\""}};
  TryEveryChange(SavedBytes({{"", Tensor::Scalar<double>(1.5)}, {"e", Tensor()}}, options), /*has_checksums=*/false);
}

TEST(SafetensorsChecksums, AChangedHeaderIsFound) {
  const std::string bytes = SavedBytes({{"w", Tensor::FromValues<float>({1, 2})}});
  std::string renamed = bytes;
  renamed[renamed.find("\"w\"") + 1] = 'v';
  EXPECT_THAT(OpenBytes(renamed), StatusIs(Code::kDataLoss, HasSubstr("the checksum of the header is")));
  std::string swapped = bytes;
  swapped.replace(swapped.find("F32"), 3, "I32");
  EXPECT_THAT(OpenBytes(swapped), StatusIs(Code::kDataLoss, HasSubstr("the checksum of the header is")));
}

// ---- Streaming -----------------------------------------------------------------------------------------------------

TEST(SafetensorsStreaming, GivesTheSameBytesInAnyOrder) {
  Tensors tensors = {{"a", RandomTensor(DType::kFloat32, TensorShape({7, 11, 3}), 1)},
                     {"b", RandomTensor(DType::kFloat4E2m1, TensorShape({10}), 2)},
                     {"c", RandomTensor(DType::kUint16, TensorShape({400, 1000}), 3)},
                     {"d", Tensor()},
                     {"e", Tensor::Scalar<int64_t>(5)}};
  const std::string wanted = SavedBytes(tensors);
  const char* const kParts[][4] = {{"-:-:-", "", "", ""},
                                   {"0,3:-:-", "3,4:-:-", "", ""},
                                   {"3,4:-:-", "0,3:-:-", "", ""},
                                   {"-:-:2,1", "-:0,5:0,2", "-:5,6:0,2", ""},
                                   {"6,1:-:-", "0,1:-:-", "1,1:-:-", "2,4:-:-"}};
  for (const auto& parts : kParts) {
    for (int turn = 0; turn < 5; ++turn) {
      MemoryFileSystem memory;
      FaultyFileSystem files(&memory);
      files.LimitTransfers(4093);
      SafetensorsWriterOptions options;
      options.file_system = &files;
      ASSERT_OK_AND_ASSIGN(SafetensorsWriter writer, SafetensorsWriter::Create("m", options));
      for (const auto& [name, tensor] : tensors) ASSERT_OK(writer.Declare(name, tensor.dtype(), tensor.shape()));
      for (size_t i = 0; i < tensors.size(); ++i) {
        const auto& [name, tensor] = tensors[(i + static_cast<size_t>(turn)) % tensors.size()];
        if (name != "a") {
          ASSERT_OK(writer.Add(name, tensor));
          continue;
        }
        for (const char* text : parts) {
          if (*text == '\0') continue;
          const TensorSlice slice = *TensorSlice::Parse(text);
          ASSERT_OK(writer.AddSlice(name, slice, *TensorView(tensor).Slice(slice)));
        }
      }
      ASSERT_OK(writer.Finish());
      EXPECT_TRUE(*memory.Find("m") == wanted) << parts[0] << " " << turn;
    }
  }
}

TEST(SafetensorsStreaming, MistakesAreNamedAndChangeNothing) {
  MemoryFileSystem files;
  SafetensorsWriterOptions options;
  options.file_system = &files;
  ASSERT_OK_AND_ASSIGN(SafetensorsWriter writer, SafetensorsWriter::Create("m", options));
  const Tensor row = Tensor::FromValues<float>({{1, 2}});
  ASSERT_OK(writer.Declare("a", DType::kFloat32, TensorShape({2, 2})));
  ASSERT_OK(writer.Declare("p", DType::kFloat4E2m1, TensorShape({4})));
  EXPECT_THAT(writer.Declare("a", DType::kFloat32, TensorShape({1})), StatusIs(Code::kAlreadyExists));
  EXPECT_THAT(writer.Declare("\xff", DType::kFloat32, TensorShape({1})),
              StatusIs(Code::kInvalidArgument, HasSubstr("is not UTF-8")));
  EXPECT_THAT(writer.Declare("__metadata__", DType::kFloat32, TensorShape({1})),
              StatusIs(Code::kInvalidArgument, HasSubstr("is reserved")));
  EXPECT_THAT(writer.Declare(std::string(65537, 'x'), DType::kFloat32, TensorShape({1})),
              StatusIs(Code::kInvalidArgument, HasSubstr("longer than")));
  EXPECT_THAT(writer.Declare("s", DType::kString, TensorShape({1})),
              StatusIs(Code::kInvalidArgument, HasSubstr("safetensors files cannot hold string")));
  EXPECT_THAT(writer.Declare("z", DType::kComplex128, TensorShape({1})),
              StatusIs(Code::kInvalidArgument, HasSubstr("cannot hold complex128")));
  EXPECT_THAT(writer.Declare("o", DType::kFloat4E2m1, TensorShape({3})),
              StatusIs(Code::kInvalidArgument, HasSubstr("12 bits, which do not fill whole bytes")));
  EXPECT_THAT(writer.Declare("h", DType::kFloat32, TensorShape({int64_t{1} << 60})),
              StatusIs(Code::kInvalidArgument, HasSubstr("overflows")));
  EXPECT_THAT(writer.Add("b", row), StatusIs(Code::kNotFound, HasSubstr("tensor \"b\": was not declared")));
  EXPECT_THAT(writer.Add("a", row),
              StatusIs(Code::kInvalidArgument, HasSubstr("is float32 [1,2], but was declared as float32 [2,2]")));
  EXPECT_THAT(writer.AddSlice("a", *TensorSlice::Parse("2,1:-"), row), StatusIs(Code::kOutOfRange));
  EXPECT_THAT(writer.AddSlice("p", *TensorSlice::Parse("0,2"), row), StatusIs(Code::kUnimplemented));
  ASSERT_OK(writer.AddSlice("a", *TensorSlice::Parse("1,1:-"), row));
  EXPECT_THAT(writer.AddSlice("a", *TensorSlice::Parse("1,1:-"), row),
              StatusIs(Code::kInvalidArgument, HasSubstr("overlap")));
  EXPECT_THAT(writer.AddSlice("a", *TensorSlice::Parse("0,1:-"), Tensor::FromValues<int32_t>({{1, 2}})),
              StatusIs(Code::kInvalidArgument));
  EXPECT_THAT(writer.Add("a", Tensor::FromValues<float>({{1, 2}, {3, 4}})), StatusIs(Code::kAlreadyExists));
  EXPECT_THAT(writer.Declare("late", DType::kFloat32, TensorShape({1})), StatusIs(Code::kFailedPrecondition));
  EXPECT_THAT(writer.AddAlias("late", "a"), StatusIs(Code::kFailedPrecondition));
  ASSERT_OK(writer.AddSlice("a", *TensorSlice::Parse("0,1:-"), row));
  ASSERT_OK(writer.Add("p", RandomTensor(DType::kFloat4E2m1, TensorShape({4}), 1)));
  ASSERT_OK(writer.Finish());
  EXPECT_THAT(writer.Finish(), StatusIs(Code::kFailedPrecondition, HasSubstr("is finished")));
  ASSERT_OK_AND_ASSIGN(const SafetensorsReader reader, OpenBytes(*files.Find("m")));
  EXPECT_TRUE(Equal(*reader.Read("a"), Tensor::FromValues<float>({{1, 2}, {1, 2}})));
}

TEST(SafetensorsStreaming, WhatWasDeclaredMustBeAdded) {
  for (const bool in_part : {false, true}) {
    MemoryFileSystem files;
    SafetensorsWriterOptions options;
    options.file_system = &files;
    ASSERT_OK_AND_ASSIGN(SafetensorsWriter writer, SafetensorsWriter::Create("m", options));
    ASSERT_OK(writer.Declare("a", DType::kFloat32, TensorShape({2, 2})));
    if (in_part) {
      ASSERT_OK(writer.AddSlice("a", *TensorSlice::Parse("1,1:-"), Tensor::FromValues<float>({{1, 2}})));
    }
    EXPECT_THAT(writer.Finish(),
                StatusIs(Code::kFailedPrecondition,
                         HasSubstr(in_part ? "was added in part only" : "was declared and not added")));
    EXPECT_THAT(files.Paths(), IsEmpty());
    EXPECT_THAT(writer.Finish(), StatusIs(Code::kFailedPrecondition));
  }
}

TEST(SafetensorsWriter, CopiesTheCallersMemoryOnlyForAChecksum) {
  class FromMemory final : public ForwardingFileSystem {
   public:
    FromMemory(FileSystem* behind, const std::vector<float>& memory)
        : ForwardingFileSystem(behind), begin_(reinterpret_cast<const char*>(memory.data())) {}
    IoResult Append(IoResult handle, absl::string_view bytes) override {
      if (bytes.data() == begin_) ++appends_from_memory;
      return ForwardingFileSystem::Append(handle, bytes);
    }
    int appends_from_memory = 0;

   private:
    const char* begin_;
  };
  std::vector<float> memory(100'000);
  for (size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<float>(i);
  ASSERT_OK_AND_ASSIGN(const Tensor external,
                       Tensor::FromExternal(DType::kFloat32, TensorShape({100, 1000}), memory.data(),
                                            memory.size() * sizeof(float), nullptr));
  ASSERT_OK_AND_ASSIGN(const TensorView transposed, TensorView(external).Transpose(0, 1));
  ASSERT_OK_AND_ASSIGN(const Tensor dense, transposed.ToTensor());
  ASSERT_OK_AND_ASSIGN(const Tensor own, external.Clone());
  for (const bool checksums : {false, true}) {
    MemoryFileSystem files;
    FromMemory noted(&files, memory);
    SafetensorsWriterOptions options = AsReference();
    options.checksums = checksums;
    options.file_system = &noted;
    ASSERT_OK_AND_ASSIGN(SafetensorsWriter writer, SafetensorsWriter::Create("m", options));
    EXPECT_OK(writer.Declare("a", external.dtype(), external.shape()));
    EXPECT_OK(writer.Declare("b", transposed.dtype(), transposed.shape()));
    EXPECT_OK(writer.Add("a", external));
    EXPECT_OK(writer.Add("b", transposed));
    EXPECT_OK(writer.Finish());
    EXPECT_EQ(noted.appends_from_memory, checksums ? 0 : 1);
    options.file_system = nullptr;
    EXPECT_EQ(*files.Find("m"), SavedBytes({{"a", own}, {"b", dense}}, options));
  }
}

TEST(SafetensorsStreaming, NeedsNoRandomAccessInOrderAndWithoutChecksums) {
  class AppendOnly final : public ForwardingFileSystem {
   public:
    using ForwardingFileSystem::ForwardingFileSystem;
    IoResult WriteAt(IoResult, uint64_t, absl::string_view) override { return -EOPNOTSUPP; }
  };
  MemoryFileSystem memory;
  AppendOnly files(&memory);
  SafetensorsWriterOptions options = AsReference();
  options.file_system = &files;
  EXPECT_OK(Save("m", {{"a", Tensor::FromValues<float>({1})}, {"b", Tensor::FromValues<float>({2})}}, options));
  options.checksums = true;
  EXPECT_THAT(Save("n", {{"a", Tensor::FromValues<float>({1})}}, options),
              StatusIs(Code::kUnimplemented, HasSubstr("can only be appended to")));
  EXPECT_THAT(memory.Paths(), ElementsAre("m"));
}

// ---- Names, options, aliases ---------------------------------------------------------------------------------------

TEST(SafetensorsWriter, BadOptionsAreRefused) {
  MemoryFileSystem files;
  const auto create = [&](const std::string& path, const SafetensorsWriterOptions& changed) {
    SafetensorsWriterOptions options = changed;
    options.file_system = &files;
    return SafetensorsWriter::Create(path, options).status();
  };
  SafetensorsWriterOptions options;
  EXPECT_THAT(create("", options), StatusIs(Code::kInvalidArgument));
  for (const uint64_t alignment : {0, 3, 1 << 21}) {
    options.alignment = alignment;
    EXPECT_THAT(create("m", options), StatusIs(Code::kInvalidArgument, HasSubstr("power of two")));
  }
  options = {};
  options.max_shard_bytes = 1;
  EXPECT_THAT(create("m", options), StatusIs(Code::kInvalidArgument, HasSubstr("ends in .safetensors")));
  options = {};
  for (const std::string key : {"tensorcask.crc32c", "tensorcask.aliases"}) {
    options.metadata = {{key, "x"}};
    EXPECT_THAT(create("m", options), StatusIs(Code::kInvalidArgument, HasSubstr("reserved")));
  }
  options.metadata = {{"k", "\xff"}};
  EXPECT_THAT(create("m", options), StatusIs(Code::kInvalidArgument, HasSubstr("is not UTF-8")));
  files.Put("m", "old");
  EXPECT_THAT(create("m", {}), StatusIs(Code::kAlreadyExists, HasSubstr("m: exists")));
  files.Put("n.safetensors.index.json", "old");
  EXPECT_THAT(create("n.safetensors", {}), StatusIs(Code::kAlreadyExists));
}

TEST(SafetensorsWriter, InMemoryMistakesAreNamed) {
  MemoryFileSystem files;
  SafetensorsWriterOptions options;
  options.file_system = &files;
  options.metadata["note"] = "x";
  ASSERT_OK_AND_ASSIGN(SafetensorsWriter writer, SafetensorsWriter::Create("m", options));
  ASSERT_OK(writer.AddAlias("tied", "a"));
  ASSERT_OK(writer.Add("a", Tensor::FromValues<float>({1})));
  EXPECT_THAT(writer.Add("a", Tensor()), StatusIs(Code::kAlreadyExists));
  EXPECT_THAT(writer.Add("tied", Tensor()), StatusIs(Code::kAlreadyExists, HasSubstr("is an alias")));
  EXPECT_THAT(writer.AddAlias("a", "a"), StatusIs(Code::kAlreadyExists));
  EXPECT_THAT(writer.AddAlias("note", "a"), StatusIs(Code::kAlreadyExists));
  EXPECT_THAT(writer.AddAlias("format", "a"), StatusIs(Code::kInvalidArgument));
  EXPECT_THAT(writer.Declare("b", DType::kFloat32, TensorShape()), StatusIs(Code::kFailedPrecondition));
  EXPECT_THAT(writer.AddSlice("a", TensorSlice::Full(1), Tensor()), StatusIs(Code::kNotFound));
  ASSERT_OK(writer.Finish());
  ASSERT_OK_AND_ASSIGN(const SafetensorsReader reader, OpenBytes(*files.Find("m")));
  ASSERT_EQ(reader.entries().size(), 2u);
  EXPECT_EQ(reader.entries()[1].alias_of, "a");
  EXPECT_TRUE(Equal(*reader.Read("tied"), Tensor::FromValues<float>({1})));

  ASSERT_OK_AND_ASSIGN(SafetensorsWriter dangling, SafetensorsWriter::Create("n", options));
  ASSERT_OK(dangling.AddAlias("tied", "missing"));
  EXPECT_THAT(dangling.Finish(), StatusIs(Code::kNotFound, HasSubstr("alias of \"missing\"")));
}

// Whatever format and metadata say: the aliases that come back are those that were added.
TEST(SafetensorsWriter, AliasesAndMetadataStayApart) {
  using Metadata = std::map<std::string, std::string>;
  for (const bool checksums : {true, false}) {
    for (const uint64_t shard_bytes : {0, 4}) {
      for (const Metadata& metadata : std::vector<Metadata>{
               {}, {{"target", "a"}}, {{"format", "np"}, {"target", "b"}}, {{"format", "pt"}, {"target", "b"}}}) {
        for (const std::vector<std::string>& aliases :
             std::vector<std::vector<std::string>>{{}, {"tied"}, {"tied", "quo\"ted\n"}}) {
          MemoryFileSystem files;
          SafetensorsWriterOptions options;
          options.file_system = &files;
          options.checksums = checksums;
          options.max_shard_bytes = shard_bytes;
          options.metadata = metadata;
          ASSERT_OK_AND_ASSIGN(SafetensorsWriter writer, SafetensorsWriter::Create("m.safetensors", options));
          ASSERT_OK(writer.Add("a", Tensor::FromValues<float>({1})));
          ASSERT_OK(writer.Add("b", Tensor::FromValues<float>({2})));
          for (const std::string& alias : aliases) ASSERT_OK(writer.AddAlias(alias, "b"));
          ASSERT_OK(writer.Finish());
          SafetensorsReaderOptions read;
          read.read.file_system = &files;
          ASSERT_OK_AND_ASSIGN(const SafetensorsReader reader, SafetensorsReader::Open("m.safetensors", read));
          EXPECT_EQ(reader.entries().size(), 2 + aliases.size());
          for (const std::string& alias : aliases) {
            const SafetensorsEntry* const entry = reader.FindEntry(alias);
            ASSERT_NE(entry, nullptr);
            EXPECT_EQ(entry->alias_of, "b");
          }
          Metadata found = reader.metadata();
          if (checksums && metadata.count("format") == 0) found.erase("format");
          EXPECT_EQ(found, metadata);
          EXPECT_TRUE(reader.notes().empty());
        }
      }
    }
  }
}

TEST(SafetensorsWriter, KeepsTheElementsThatWereAdded) {
  MemoryFileSystem files;
  SafetensorsWriterOptions options;
  options.file_system = &files;
  ASSERT_OK_AND_ASSIGN(SafetensorsWriter writer, SafetensorsWriter::Create("m", options));
  Tensor tensor = Tensor::FromValues<float>({1, 2});
  ASSERT_OK(writer.Add("a", tensor));
  tensor.mutable_flat<float>()[0] = 7;
  ASSERT_OK(writer.Finish());
  ASSERT_OK_AND_ASSIGN(const SafetensorsReader reader, OpenBytes(*files.Find("m")));
  EXPECT_TRUE(Equal(*reader.Read("a"), Tensor::FromValues<float>({1, 2})));
}

}  // namespace
}  // namespace tensorcask
