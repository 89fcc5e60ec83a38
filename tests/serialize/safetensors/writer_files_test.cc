// Models in several files, and saves that fail.

#include "tensorcask/serialize/safetensors/safetensors_writer.h"

#include <cerrno>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/serialize/safetensors/safetensors_reader.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/compare.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/serialize/safetensors/safetensors_testing.h"
#include "tensorcask/tests/serialize/safetensors/writer_testing.h"
#include "tensorcask/tests/support/faulty_file_system.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::AsReference;
using ::tensorcask::testing::FaultyFileSystem;
using ::tensorcask::testing::FileOperation;
using ::tensorcask::testing::RandomTensor;
using ::tensorcask::testing::Save;
using ::tensorcask::testing::StatusIs;
using ::tensorcask::testing::Tensors;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using Code = absl::StatusCode;

// ---- Several files -------------------------------------------------------------------------------------------------

Tensors FourTensors(uint64_t seed) {
  Tensors tensors;
  for (const char* name : {"d", "b", "a", "c"}) {
    tensors.emplace_back(name, RandomTensor(DType::kUint8, TensorShape({10}), ++seed));
  }
  return tensors;
}

TEST(SafetensorsShards, AreFilledInTheOrderOfNames) {
  MemoryFileSystem files;
  SafetensorsWriterOptions options = AsReference();
  options.file_system = &files;
  options.max_shard_bytes = 25;
  options.metadata["format"] = "pt";
  ASSERT_EQ(files.MakeFolder("d"), 0);
  ASSERT_OK(Save("d/m.safetensors", FourTensors(1), options));
  EXPECT_THAT(files.Paths(), ElementsAre("d/m-00001-of-00002.safetensors", "d/m-00002-of-00002.safetensors",
                                         "d/m.safetensors.index.json"));
  EXPECT_EQ(*files.Find("d/m.safetensors.index.json"),
            "{\n  \"metadata\": {\n    \"total_size\": 40\n  },\n  \"weight_map\": {\n"
            "    \"a\": \"m-00001-of-00002.safetensors\",\n    \"b\": \"m-00001-of-00002.safetensors\",\n"
            "    \"c\": \"m-00002-of-00002.safetensors\",\n    \"d\": \"m-00002-of-00002.safetensors\"\n  }\n}\n");
  SafetensorsReaderOptions read;
  read.read.file_system = &files;
  ASSERT_OK_AND_ASSIGN(const SafetensorsReader reader, SafetensorsReader::Open("d/m.safetensors", read));
  EXPECT_THAT(reader.notes(), IsEmpty());
  EXPECT_THAT(reader.metadata(), ElementsAre(Pair("format", "pt")));
  for (const auto& [name, tensor] : FourTensors(1)) EXPECT_TRUE(Equal(*reader.Read(name), tensor));
}

TEST(SafetensorsShards, OneShardIsOneFileAndALargeTensorHasItsOwn) {
  MemoryFileSystem files;
  SafetensorsWriterOptions options;
  options.file_system = &files;
  options.max_shard_bytes = 40;
  ASSERT_OK(Save("m.safetensors", FourTensors(1), options));
  EXPECT_THAT(files.Paths(), ElementsAre("m.safetensors"));
  options.max_shard_bytes = 5;
  ASSERT_OK(Save("n.safetensors", FourTensors(1), options));
  EXPECT_EQ(files.Paths().size(), 6u);
}

TEST(SafetensorsShards, OverwritingLeavesTheNewModelAlone) {
  MemoryFileSystem files;
  SafetensorsWriterOptions options;
  options.file_system = &files;
  options.overwrite = true;
  files.Put("m-00001-of-00009.txt", "mine");
  files.Put("mm-00001-of-00009.safetensors", "mine");
  files.Put("m-00001-of-00009-r.safetensors", "mine");
  files.Put("m-00001-of-00002.safetensors", "mine, which no index lists");
  files.Put("m-00007-of-00009-r3.safetensors", "mine, too");
  const auto expect_model = [&](uint64_t seed, const std::vector<std::string>& names) {
    SafetensorsReaderOptions read;
    read.read.file_system = &files;
    ASSERT_OK_AND_ASSIGN(const SafetensorsReader reader, SafetensorsReader::Open("m.safetensors", read));
    for (const auto& [name, tensor] : FourTensors(seed)) EXPECT_TRUE(Equal(*reader.Read(name), tensor));
    std::vector<std::string> mine = {"m-00001-of-00009.txt", "mm-00001-of-00009.safetensors",
                                     "m-00001-of-00009-r.safetensors", "m-00001-of-00002.safetensors",
                                     "m-00007-of-00009-r3.safetensors"};
    mine.insert(mine.end(), names.begin(), names.end());
    EXPECT_THAT(files.Paths(), ::testing::UnorderedElementsAreArray(mine));
  };
  ASSERT_OK(Save("m.safetensors", FourTensors(1), options));
  expect_model(1, {"m.safetensors"});
  options.max_shard_bytes = 15;
  ASSERT_OK(Save("m.safetensors", FourTensors(2), options));
  expect_model(2, {"m-00001-of-00004.safetensors", "m-00002-of-00004.safetensors", "m-00003-of-00004.safetensors",
                   "m-00004-of-00004.safetensors", "m.safetensors.index.json"});
  options.max_shard_bytes = 25;
  ASSERT_OK(Save("m.safetensors", FourTensors(3), options));
  expect_model(3, {"m-00001-of-00002-r1.safetensors", "m-00002-of-00002-r1.safetensors", "m.safetensors.index.json"});
  ASSERT_OK(Save("m.safetensors", FourTensors(5), options));
  expect_model(5, {"m-00001-of-00002-r2.safetensors", "m-00002-of-00002-r2.safetensors", "m.safetensors.index.json"});
  options.max_shard_bytes = 0;
  ASSERT_OK(Save("m.safetensors", FourTensors(4), options));
  expect_model(4, {"m.safetensors"});
}

// ---- What goes wrong -----------------------------------------------------------------------------------------------

// Breaks each operation of a save in turn: the old model or the new one, or none if there was none; nothing temporary
// is left.
TEST(SafetensorsWriter, EveryFailingOperationLeavesTheOldModelOrTheNewOne) {
  for (const uint64_t max_shard_bytes : {0, 25}) {
    for (const int old_shard_bytes : {-1, 0, 15, 25}) {
      const bool overwrite = old_shard_bytes >= 0;
      for (int64_t n = 1;; ++n) {
        ASSERT_LT(n, 300);
        MemoryFileSystem memory;
        SafetensorsWriterOptions options;
        options.file_system = &memory;
        options.max_shard_bytes = max_shard_bytes;
        options.overwrite = overwrite;
        if (overwrite) {
          options.max_shard_bytes = static_cast<uint64_t>(old_shard_bytes);
          ASSERT_OK(Save("m.safetensors", FourTensors(1), options));
          options.max_shard_bytes = max_shard_bytes;
        }
        FaultyFileSystem files(&memory);
        files.FailAt(n, ENOSPC);
        options.file_system = &files;
        const absl::Status saved = Save("m.safetensors", FourTensors(2), options);
        EXPECT_EQ(files.open_handles(), 0u);
        for (const std::string& path : memory.Paths())
          EXPECT_FALSE(absl::StrContains(path, ".tmp-")) << files.LogText();
        SafetensorsReaderOptions read;
        read.read.file_system = &memory;
        const absl::StatusOr<SafetensorsReader> reader = SafetensorsReader::Open("m.safetensors", read);
        if (saved.ok()) {
          ASSERT_OK(reader);
          EXPECT_TRUE(Equal(*reader->Read("a"), FourTensors(2)[2].second));
        } else if (reader.ok()) {
          const bool is_new = Equal(*reader->Read("a"), FourTensors(2)[2].second);
          for (const auto& [name, tensor] : FourTensors(is_new ? 2 : 1)) {
            EXPECT_TRUE(Equal(*reader->Read(name), tensor)) << name << "\n" << files.LogText();
          }
        } else {
          EXPECT_FALSE(overwrite) << reader.status() << files.LogText();
          EXPECT_THAT(reader, StatusIs(Code::kNotFound)) << files.LogText();
        }
        if (files.faults() == 0) break;
      }
    }
  }
}

TEST(SafetensorsWriter, StartTellsWhatFinishRemoves) {
  MemoryFileSystem files;
  SafetensorsWriterOptions options;
  options.file_system = &files;
  options.overwrite = true;
  options.max_shard_bytes = 25;
  ASSERT_OK(Save("m.safetensors", FourTensors(1), options));
  for (const bool always_index : {false, true}) {
    options.always_index = always_index;
    files.Put("m.safetensors", "beside");
    ASSERT_OK_AND_ASSIGN(SafetensorsWriter writer, SafetensorsWriter::Create("m.safetensors", options));
    for (const auto& [name, tensor] : FourTensors(2)) {
      ASSERT_OK(writer.Declare(name, tensor.dtype(), tensor.shape()));
    }
    ASSERT_OK_AND_ASSIGN(const ReplacedFiles replaced, writer.Start());
    EXPECT_EQ(replaced.path, "m.safetensors.index.json");
    EXPECT_EQ(replaced.removed.size(), always_index ? 2u : 3u);
    EXPECT_EQ(replaced.beside.size(), always_index ? 1u : 0u);
    EXPECT_EQ(replaced.notes.size(), replaced.beside.size());
    for (const auto& [name, tensor] : FourTensors(2)) ASSERT_OK(writer.Add(name, tensor));
    ASSERT_OK(writer.Finish());
    EXPECT_EQ(writer.removed_files(), replaced.removed);
    EXPECT_EQ(files.Find("m.safetensors") != nullptr, always_index);
  }
}

// A model that is replaced while it is opened: each call of the reader may be the one before which that happens.
TEST(SafetensorsReader, FindsTheOldModelOrTheNewOneWhileItIsReplaced) {
  for (const uint64_t old_bytes : {0, 15}) {
    for (const uint64_t new_bytes : {0, 15, 25}) {
      for (int64_t n = 1;; ++n) {
        ASSERT_LT(n, 200);
        MemoryFileSystem memory;
        SafetensorsWriterOptions options;
        options.file_system = &memory;
        options.overwrite = true;
        options.max_shard_bytes = old_bytes;
        ASSERT_OK(Save("m.safetensors", FourTensors(1), options));
        options.max_shard_bytes = new_bytes;
        FaultyFileSystem files(&memory);
        bool replaced = false;
        files.SetHook([&](int64_t operation, FileOperation, const std::string&) {
          if (operation != n) return;
          replaced = true;
          // Twice, so that the files of the second model may have the names of the first one.
          EXPECT_OK(Save("m.safetensors", FourTensors(2), options));
          options.max_shard_bytes = old_bytes;
          EXPECT_OK(Save("m.safetensors", FourTensors(3), options));
        });
        SafetensorsReaderOptions read;
        read.read.file_system = &files;
        ASSERT_OK_AND_ASSIGN(const SafetensorsReader reader, SafetensorsReader::Open("m.safetensors", read));
        const bool is_new = Equal(*reader.Read("a"), FourTensors(3)[2].second);
        for (const auto& [name, tensor] : FourTensors(is_new ? 3 : 1)) EXPECT_TRUE(Equal(*reader.Read(name), tensor));
        if (!replaced) break;
      }
    }
  }
}

TEST(SafetensorsWriter, WithoutFinishThereIsNoFile) {
  MemoryFileSystem files;
  SafetensorsWriterOptions options;
  options.file_system = &files;
  {
    ASSERT_OK_AND_ASSIGN(SafetensorsWriter writer, SafetensorsWriter::Create("m", options));
    ASSERT_OK(writer.Declare("a", DType::kFloat32, TensorShape({1})));
    ASSERT_OK(writer.Add("a", Tensor::FromValues<float>({1})));
    EXPECT_EQ(files.Paths().size(), 1u);
  }
  EXPECT_THAT(files.Paths(), IsEmpty());
  EXPECT_EQ(files.open_handles(), 0u);
}

TEST(SafetensorsWriter, AnIndexThatCannotBeRemovedIsAnError) {
  MemoryFileSystem memory;
  FaultyFileSystem files(&memory);
  SafetensorsWriterOptions options;
  options.file_system = &files;
  options.overwrite = true;
  options.max_shard_bytes = 15;
  ASSERT_OK(Save("m.safetensors", FourTensors(1), options));
  options.max_shard_bytes = 0;
  files.FailAt(files.operations(FileOperation::kRemove) + 1, EACCES, FaultyFileSystem::kForEver,
               FileOperation::kRemove);
  EXPECT_THAT(Save("m.safetensors", FourTensors(2), options),
              StatusIs(Code::kPermissionDenied, HasSubstr("m.safetensors.index.json: cannot remove")));
}

TEST(SafetensorsWriter, AFinishedModelTakesNoSlices) {
  MemoryFileSystem files;
  SafetensorsWriterOptions options;
  options.file_system = &files;
  ASSERT_OK_AND_ASSIGN(SafetensorsWriter writer, SafetensorsWriter::Create("m", options));
  ASSERT_OK(writer.Declare("a", DType::kFloat32, TensorShape({2})));
  ASSERT_OK(writer.AddSlice("a", *TensorSlice::Parse("0,1"), Tensor::FromValues<float>({1})));
  ASSERT_OK(writer.AddSlice("a", *TensorSlice::Parse("1,1"), Tensor::FromValues<float>({2})));
  ASSERT_OK(writer.Finish());
  EXPECT_THAT(writer.AddSlice("a", *TensorSlice::Parse("0,1"), Tensor::FromValues<float>({1})),
              StatusIs(Code::kFailedPrecondition, HasSubstr("is finished")));
}

TEST(SafetensorsWriter, AFailedAddEndsTheWriting) {
  MemoryFileSystem memory;
  FaultyFileSystem files(&memory);
  SafetensorsWriterOptions options;
  options.file_system = &files;
  ASSERT_OK_AND_ASSIGN(SafetensorsWriter writer, SafetensorsWriter::Create("m", options));
  ASSERT_OK(writer.Declare("a", DType::kFloat32, TensorShape({100000})));
  files.FailAt(1, ENOSPC, FaultyFileSystem::kForEver, FileOperation::kAppend);
  const absl::Status added = writer.Add("a", *Tensor::Zeros(DType::kFloat32, TensorShape({100000})));
  EXPECT_THAT(added, StatusIs(Code::kResourceExhausted, HasSubstr("m.tmp-")));
  EXPECT_EQ(writer.AddSlice("a", *TensorSlice::Parse("0,1"), Tensor::FromValues<float>({1})), added);
  EXPECT_EQ(writer.Finish(), added);
}

}  // namespace
}  // namespace tensorcask
