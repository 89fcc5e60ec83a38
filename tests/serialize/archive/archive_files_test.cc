// What the formats make of paths, and find in folders: models in several files, V1 checkpoints; and dtypes that a
// format holds opaquely.

#include <algorithm>
#include <cstdint>
#include <fstream>
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
#include "tensorcask/serialize/archive/archive.h"
#include "tensorcask/serialize/archive/convert_archives.h"
#include "tensorcask/serialize/archive/edit.h"
#include "tensorcask/serialize/archive/formats/all_formats.h"
#include "tensorcask/serialize/archive/formats/checkpoint_format.h"
#include "tensorcask/serialize/archive/formats/npy_format.h"
#include "tensorcask/serialize/archive/formats/safetensors_format.h"
#include "tensorcask/serialize/archive/formats/torch_format.h"
#include "tensorcask/serialize/archive/save_load.h"
#include "tensorcask/serialize/checkpoint/state_file.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/support/in_child.h"
#include "tensorcask/tests/support/status_matchers.h"
#include "tensorcask/tests/support/temp_folder.h"
#include "tensorcask/tests/support/test_data.h"

namespace tensorcask {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using testing::StatusIs;
using testing::TempFolder;
using Code = absl::StatusCode;

// ---- Models in several files ----------------------------------------------------------------------------------------

// Three tensors of 40 bytes: a, b, c.
absl::Status SaveModel(const std::string& path, uint64_t max_shard_bytes = 0, bool overwrite = false,
                       uint64_t* file_bytes = nullptr) {
  SafetensorsFormatOptions shards;
  shards.max_shard_bytes = max_shard_bytes;
  ArchiveWriterOptions options;
  options.overwrite = overwrite;
  absl::StatusOr<std::unique_ptr<ArchiveWriter>> writer =
      CreateArchive(path, SafetensorsArchiveFormat(shards), options);
  if (!writer.ok()) return writer.status();
  for (const char* const name : {"a", "b", "c"}) {
    ArchiveEntry entry;
    entry.name = name;
    entry.dtype = DType::kUint8;
    entry.shape = TensorShape({40});
    EXPECT_OK((*writer)->Declare(entry));
  }
  for (const char* const name : {"a", "b", "c"}) {
    ArchiveEntry entry;
    entry.name = name;
    DecodedTensor tensor;
    tensor.view = *Tensor::Zeros(DType::kUint8, TensorShape({40}));
    EXPECT_OK((*writer)->Add(entry, tensor));
  }
  const absl::Status status = (*writer)->Finish();
  if (file_bytes != nullptr) *file_bytes = (*writer)->file_bytes();
  return status;
}

std::vector<std::string> NamesIn(const TempFolder& folder) {
  std::vector<std::string> names;
  EXPECT_EQ(FileSystem::Posix()->List(folder.path(), &names), 0);
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> Found(const TempFolder& folder) {
  const AllFormats formats;
  return *FindArchives(folder.path(), formats.list());
}

uint64_t BytesIn(const TempFolder& folder) {
  uint64_t bytes = 0;
  for (const std::string& name : NamesIn(folder)) {
    FileInfo info;
    EXPECT_EQ(FileSystem::Posix()->Describe(folder.Path(name), &info), 0);
    bytes += info.size_bytes;
  }
  return bytes;
}

TEST(SafetensorsIndex, AsAPathMakesAModelInSeveralFiles) {
  const AllFormats formats;
  const TempFolder folder;
  const std::string path = folder.Path("x.safetensors.index.json");
  uint64_t bytes = 0;
  ASSERT_OK(SaveModel(path, 100, /*overwrite=*/false, &bytes));
  EXPECT_THAT(NamesIn(folder),
              ElementsAre("x-00001-of-00002.safetensors", "x-00002-of-00002.safetensors", "x.safetensors.index.json"));
  EXPECT_EQ(bytes, BytesIn(folder));
  for (const std::string& name : {path, folder.Path("x.safetensors"), folder.path()}) {
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ArchiveReader> reader, OpenArchive(name, formats.list()));
    EXPECT_EQ(reader->entries().size(), 3u);
    EXPECT_EQ(reader->num_shards(), 2);
  }
  EXPECT_THAT(SaveModel(path, 100), StatusIs(Code::kAlreadyExists));
}

TEST(SafetensorsIndex, OfAModelThatFitsOneFileIsWrittenToo) {
  const AllFormats formats;
  const TempFolder folder;
  const std::string path = folder.Path("x.safetensors.index.json");
  ASSERT_OK(SaveModel(path));
  EXPECT_THAT(NamesIn(folder), ElementsAre("x-00001-of-00001.safetensors", "x.safetensors.index.json"));
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ArchiveReader> reader, OpenArchive(path, formats.list()));
  EXPECT_EQ(reader->entries().size(), 3u);
  ASSERT_OK(SaveModel(folder.Path("x.safetensors"), 1000, /*overwrite=*/true));  // not the index: one file
  EXPECT_THAT(NamesIn(folder), ElementsAre("x.safetensors"));
}

TEST(SafetensorsIndex, FilesOfAModelAreNotArchivesOfTheirOwn) {
  const AllFormats formats;
  const TempFolder folder;
  const std::string path = folder.Path("x.safetensors.index.json");
  ASSERT_OK(SaveModel(path, 50));
  for (const char* const suffix : {"1", "2"}) {
    ArchiveEdits edits;
    edits.rename = [&](absl::string_view name) {
      return name[0] == 'b' ? absl::StrCat("b", suffix) : std::string(name);
    };
    ASSERT_OK(EditArchive(path, edits, formats.list()).status());
    EXPECT_THAT(Found(folder), ElementsAre(path));
  }
  EXPECT_THAT(NamesIn(folder), ElementsAre("x-00001-of-00003.safetensors", "x-00002-of-00003-r2.safetensors",
                                           "x-00003-of-00003.safetensors", "x.safetensors.index.json"));
  // A file with another name is part of the model if the index lists it.
  folder.Write("part.safetensors", "");
  EXPECT_THAT(Found(folder), ElementsAre(folder.Path("part.safetensors"), path));
  folder.Write("y.safetensors.index.json", R"({"weight_map": {"w": "part.safetensors"}})");
  EXPECT_THAT(Found(folder), ElementsAre(path, folder.Path("y.safetensors.index.json")));
  // An index that cannot be read: the names decide.
  const std::string index = testing::ReadFileOrFail(path);
  folder.Write("x.safetensors.index.json", "{");
  EXPECT_THAT(Found(folder), ElementsAre(path, folder.Path("y.safetensors.index.json")));
  // Overwriting removes the files that the old index lists, those of edits as well.
  folder.Write("x.safetensors.index.json", index);
  ASSERT_OK(SaveModel(path, 1000, /*overwrite=*/true));
  EXPECT_THAT(NamesIn(folder), ElementsAre("part.safetensors", "x-00001-of-00001.safetensors",
                                           "x.safetensors.index.json", "y.safetensors.index.json"));
}

// As Transformers saves a model in several files of torch.save.
TEST(TorchIndex, HasTheTensorsOfItsFilesAndWhatItSaysItself) {
  const TempFolder folder;
  const TorchArchiveFormat format;
  for (const char* const name : {"a", "b"}) {
    const std::vector<TensorToSave> tensors = {{name, Tensor::FromValues<float>({1, 2}), {}}};
    ASSERT_OK(SaveTensors(folder.Path(absl::StrCat("m-", name, ".bin")), format, tensors, {}).status());
  }
  const std::string index = folder.Path("pytorch_model.bin.index.json");
  std::ofstream(index) << R"({"metadata":{"total_size":16,"license":"MIT"},)"
                       << R"("weight_map":{"a":"m-a.bin","b":"m-b.bin","gone":"m-b.bin"}})";
  std::vector<std::string> damaged;
  const auto verify = [&](const ArchiveReader& reader) {
    damaged.clear();
    const absl::StatusOr<TensorCounts> counts =
        reader.VerifyAll([&](const ArchiveDamage& damage) { damaged.emplace_back(damage.status.message()); });
    EXPECT_OK(counts.status());
    return *counts;
  };
  {
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ArchiveReader> reader, format.Open(index, {}));
    EXPECT_EQ(reader->file_metadata().at("license"), "MIT");
    EXPECT_OK(reader->Read("b"));
    EXPECT_THAT(reader->Read("gone"), StatusIs(Code::kDataLoss, HasSubstr("gone")));
    EXPECT_EQ(verify(*reader).whole, 2);
  }
  ASSERT_EQ(FileSystem::Posix()->Remove(folder.Path("m-b.bin")), 0);
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ArchiveReader> reader, format.Open(index, {}));
  EXPECT_OK(reader->Read("a"));
  EXPECT_THAT(reader->Read("b"), StatusIs(Code::kDataLoss, HasSubstr("m-b.bin: is missing")));
  const TensorCounts counts = verify(*reader);
  EXPECT_EQ(counts.whole, 1);
  EXPECT_EQ(counts.damaged_elsewhere, 1);
  EXPECT_THAT(damaged, ::testing::Contains(HasSubstr("m-b.bin: is missing")));
}

// An array of objects beside numbers is listed, and not read.
TEST(NpzObjects, HideNoOtherArrays) {
  MemoryFileSystem files;
  ArchiveWriterOptions write;
  write.file_system = &files;
  const std::vector<TensorToSave> tensors = {{"a", Tensor::FromValues<float>({1, 2}), {}},
                                             {"o", Tensor::FromValues<double>({3}), {}}};
  ASSERT_OK(SaveTensors("m.npz", NpzArchiveFormat(), tensors, write).status());
  std::string bytes = *files.Find("m.npz");
  bytes.replace(bytes.find("'<f8'"), 5, "'|O' ");
  files.Put("m.npz", bytes);
  ArchiveReaderOptions options;
  options.read.file_system = &files;
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ArchiveReader> reader, NpzArchiveFormat().Open("m.npz", options));
  ASSERT_EQ(reader->entries().size(), 2u);
  EXPECT_EQ(reader->entries()[1].shape, TensorShape({1}));
  EXPECT_OK(reader->Read("a"));
  EXPECT_THAT(reader->Read("o"), StatusIs(Code::kUnimplemented, HasSubstr("Python objects")));
}

TEST(SafetensorsShards, HaveTheSizeOfThoseOfTransformers) {
  EXPECT_EQ(SafetensorsArchiveFormat::kShardBytes, 5'000'000'000U);  // max_shard_size="5GB"
}

TEST(FindArchives, FindsWhatTwoFormatsRecognizeOnce) {
  const TempFolder folder;
  folder.Write("a.safetensors", "");
  const AllFormats formats;
  std::vector<const ArchiveFormat*> twice(formats.list().begin(), formats.list().end());
  twice.insert(twice.end(), formats.list().begin(), formats.list().end());
  EXPECT_THAT(*FindArchives(folder.path(), twice), ElementsAre(folder.Path("a.safetensors")));
}

// ---- V1 checkpoints -------------------------------------------------------------------------------------------------

// TensorFlow writes absolute paths for a checkpoint outside of its working folder. The folder may be a copy of another
// machine's.
TEST(FindArchives, FindsTheLatestCheckpointOfAFolderThatWasMoved) {
  const TempFolder folder;
  const AllFormats formats;
  const CheckpointArchiveFormat checkpoints;
  for (const char* const name : {"old/step-2", "run/step-1", "run/step-2"}) {
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ArchiveWriter> writer, CreateArchive(folder.Path(name), checkpoints));
    ASSERT_OK(writer->Finish());
  }
  const std::string run = folder.Path("run");
  for (const std::string& latest : {std::string("step-2"), std::string("/gone/run/step-2"), folder.Path("old/step-2"),
                                    std::string("gone/step-2")}) {
    folder.Write("run/checkpoint", absl::StrCat("model_checkpoint_path: \"", latest, "\"\n"));
    EXPECT_THAT(checkpoints.FindIn(run, {"checkpoint", "step-1.index", "step-2.index"}, FileSystem::Posix()),
                ElementsAre(run + "/step-2"))
        << latest;
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ArchiveReader> reader, OpenArchive(run, formats.list()));
    EXPECT_EQ(reader->path(), run + "/step-2");
  }
  // Elsewhere, as the file says.
  folder.Write("run/checkpoint", absl::StrCat("model_checkpoint_path: \"", folder.Path("old/step-3"), "\"\n"));
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ArchiveWriter> writer,
                       CreateArchive(folder.Path("old/step-3"), checkpoints));
  ASSERT_OK(writer->Finish());
  EXPECT_THAT(checkpoints.FindIn(run, {"checkpoint", "step-1.index", "step-2.index"}, FileSystem::Posix()),
              ElementsAre(folder.Path("old/step-3")));
}

TEST(FindArchives, FindsCheckpointsOfV1) {
  const TempFolder folder;
  const std::string table = absl::StrCat(std::string(40, '\0'), "\x57\xfb\x80\x8b\x24\x75\x47\xdb");
  for (const char* const name : {"model.ckpt-100", "model", "step-1.5", "a.ckpt"}) folder.Write(name, table);
  // Neither a part of a V2 checkpoint, a temporary file, a table of LevelDB nor a text is one.
  for (const char* const name :
       {"v2.index", "v2.data-00000-of-00001", "v2.meta", "v2.index.tmp-0123456789abcdef", "000005.ldb"}) {
    folder.Write(name, table);
  }
  folder.Write("README", "a text that is longer than a magic number");
  EXPECT_THAT(Found(folder), ElementsAre(folder.Path("a.ckpt"), folder.Path("model"), folder.Path("model.ckpt-100"),
                                         folder.Path("step-1.5"), folder.Path("v2")));
  folder.Write("checkpoint", "model_checkpoint_path: \"model.ckpt-100\"\n");
  EXPECT_THAT(Found(folder), ElementsAre(folder.Path("model.ckpt-100")));
}

// What another file system has at the same paths decides nothing.
TEST(FindArchives, LooksAtTheFileSystemThatItIsGiven) {
  const AllFormats formats;
  MemoryFileSystem files;
  ArchiveWriterOptions write;
  write.file_system = &files;
  for (const char* const path : {"run/step-1", "run/step-2"}) {
    ASSERT_OK(SaveTensors(path, CheckpointArchiveFormat(), {{"w", Tensor::Scalar<float>(1), {}}}, write).status());
  }
  CheckpointState state;
  state.latest = "step-1";
  state.all = {"step-1", "step-2"};
  ASSERT_OK(WriteCheckpointState("run/checkpoint", state, /*sync=*/false, &files));
  ASSERT_OK_AND_ASSIGN(const std::vector<std::string> latest, FindArchives("run", formats.list(), &files));
  EXPECT_THAT(latest, ElementsAre("run/step-1"));
  ASSERT_EQ(files.MakeFolder("st"), 0);
  SafetensorsFormatOptions shards;
  shards.max_shard_bytes = 4;
  const std::vector<TensorToSave> two = {{"v", Tensor::Scalar<float>(1), {}}, {"w", Tensor::Scalar<float>(2), {}}};
  ASSERT_OK(SaveTensors("st/m.safetensors", SafetensorsArchiveFormat(shards), two, write).status());
  ASSERT_OK_AND_ASSIGN(const std::vector<std::string> model, FindArchives("st", formats.list(), &files));
  EXPECT_THAT(model, ElementsAre("st/m.safetensors.index.json"));
  ArchiveReaderOptions read;
  read.read.file_system = &files;
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ArchiveReader> opened, OpenArchive("run", formats.list(), read));
  EXPECT_EQ(opened->path(), "run/step-1");
}

// ---- Children of fork(2) --------------------------------------------------------------------------------------------

// Whatever a child does with its copy of a writer, the file is the parent's.
TEST(CreateArchive, AChildDoesNotTouchTheFileOfItsParent) {
  const AllFormats formats;
  DecodedTensor decoded;
  decoded.view = Tensor::FromValues<float>({1, 2, 3, 4});
  ArchiveEntry entry;
  entry.name = "w";
  entry.dtype = DType::kFloat32;
  entry.shape = TensorShape({4});
  for (const char* const name : {"m", "m.safetensors", "m.npy", "m.npz", "m.pt", "m.gguf", "m.pb", "m.tfrecord"}) {
    SCOPED_TRACE(name);
    const TempFolder folder;
    const std::string path = folder.Path(name);
    ASSERT_OK_AND_ASSIGN(const ArchiveFormat* const format, FormatForName(path, formats.list()));
    ASSERT_OK_AND_ASSIGN(std::unique_ptr<ArchiveWriter> writer, CreateArchive(path, *format));
    ASSERT_OK(writer->Declare(entry));
    ASSERT_OK(writer->Add(entry, decoded));
    EXPECT_TRUE(testing::InChild([&] {
      writer.reset();
      return true;
    }));
    EXPECT_TRUE(testing::InChild([&] { return absl::IsFailedPrecondition(writer->Finish()); }));
    ASSERT_OK(writer->Finish());
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ArchiveReader> reader, OpenArchive(path, formats.list()));
    ASSERT_THAT(reader->entries(), SizeIs(1));
    EXPECT_EQ(reader->Read(reader->entries()[0].name)->bytes(), decoded.view.ToTensor()->bytes());
  }
}

// ---- Dtypes ---------------------------------------------------------------------------------------------------------

// One tensor "w" of this dtype, of bytes 1, 2, 3, ...
std::unique_ptr<ArchiveReader> OneTensor(const std::string& path, DType dtype, const AllFormats& formats) {
  Tensor tensor = *Tensor::Create(dtype, TensorShape({2, 4}));
  char next = 1;
  for (char& byte : tensor.mutable_bytes()) byte = static_cast<char>(next++ & 3);
  ArchiveEntry entry;
  entry.name = "w";
  entry.dtype = dtype;
  entry.shape = tensor.shape();
  const std::unique_ptr<ArchiveWriter> writer = *CreateArchive(path, **FormatForName(path, formats.list()));
  EXPECT_OK(writer->Declare(entry));
  DecodedTensor decoded;
  decoded.view = tensor;
  EXPECT_OK(writer->Add(entry, decoded));
  EXPECT_OK(writer->Finish());
  return *OpenArchive(path, formats.list());
}

// Dtypes that TensorFlow lacks are extension-only in a checkpoint, also if their elements are row-major.
TEST(Convert, ARowMajorTensorOfAnyDTypeHasNoStrides) {
  const AllFormats formats;
  const SafetensorsArchiveFormat safetensors;
  const TempFolder folder;
  for (const DType dtype : {DType::kFloat8E8m0fnu, DType::kFloat4E2m1, DType::kFloat6E2m3, DType::kFloat6E3m2}) {
    SCOPED_TRACE(DTypeName(dtype));
    const std::unique_ptr<ArchiveReader> reader = OneTensor(folder.Path(std::string(DTypeName(dtype))), dtype, formats);
    EXPECT_THAT(reader->entries()[0].strides, IsEmpty());
    const ArchiveReader* const sources[] = {reader.get()};
    ASSERT_OK_AND_ASSIGN(const ConversionPlan plan, PlanConversion(sources, safetensors));
    const std::string copy = folder.Path(absl::StrCat(DTypeName(dtype), ".safetensors"));
    const std::unique_ptr<ArchiveWriter> writer = *CreateArchive(copy, safetensors);
    ConvertOptions in_blocks;
    in_blocks.block_bytes = 2;
    ASSERT_OK(RunConversion(plan, in_blocks, writer.get()).status());
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ArchiveReader> back, OpenArchive(copy, formats.list()));
    EXPECT_EQ(back->Read("w")->bytes(), reader->Read("w")->bytes());
  }
}

TEST(Convert, DTypesThatNumPyLacksLoseTheirNameIfAllowed) {
  const AllFormats formats;
  const NpzArchiveFormat npz;
  const TempFolder folder;
  const std::unique_ptr<ArchiveReader> reader = OneTensor(folder.Path("m.safetensors"), DType::kFloat8E4m3fn, formats);
  const ArchiveReader* const sources[] = {reader.get()};
  EXPECT_THAT(PlanConversion(sources, npz).status(),
              StatusIs(Code::kInvalidArgument, HasSubstr("but not the name of this dtype")));
  ConvertOptions options;
  options.allow_loss = true;
  ASSERT_OK_AND_ASSIGN(const ConversionPlan plan, PlanConversion(sources, npz, options));
  EXPECT_TRUE(plan.store_opaquely);
  ASSERT_EQ(plan.losses.size(), 1u);
  EXPECT_EQ(plan.losses[0].kind, ConvertLoss::Kind::kDTypeName);
  ArchiveWriterOptions write;
  const std::string path = folder.Path("m.npz");
  EXPECT_THAT(RunConversion(plan, options, CreateArchive(path, npz, write)->get()), StatusIs(Code::kUnimplemented));
  write.store_opaquely = plan.store_opaquely;
  ASSERT_OK(RunConversion(plan, options, CreateArchive(path, npz, write)->get()).status());

  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ArchiveReader> opaque, OpenArchive(path, formats.list()));
  EXPECT_THAT(opaque->Read("w"), StatusIs(Code::kUnimplemented, HasSubstr("opaque elements of 1 byte")));
  const ArchiveReader* const unreadable[] = {opaque.get()};
  EXPECT_THAT(PlanConversion(unreadable, SafetensorsArchiveFormat()).status(),
              StatusIs(Code::kInvalidArgument, HasSubstr("opaque elements of 1 byte")));
  // Its checksum is right, but nothing says what its elements are.
  ASSERT_OK_AND_ASSIGN(const TensorCounts counts, opaque->VerifyAll([](const ArchiveDamage&) { ADD_FAILURE(); }));
  EXPECT_EQ(counts.whole, 0);
  EXPECT_EQ(counts.not_checked, 1);
  EXPECT_THAT(counts.notes, ElementsAre(HasSubstr("\"w\": has opaque elements")));

  FormatOptions options_of_npy;
  options_of_npy.npy.dtype_of_opaque_elements = DType::kFloat8E4m3fn;
  const AllFormats with_dtype(options_of_npy);
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ArchiveReader> back, OpenArchive(path, with_dtype.list()));
  EXPECT_EQ(back->entries()[0].dtype, DType::kFloat8E4m3fn);
  EXPECT_EQ(back->Read("w")->bytes(), reader->Read("w")->bytes());
  ASSERT_OK_AND_ASSIGN(const TensorCounts whole, back->VerifyAll([](const ArchiveDamage&) { ADD_FAILURE(); }));
  EXPECT_EQ(whole.whole, 1);
}

// ---- Verify ---------------------------------------------------------------------------------------------------------

// The array of an npy file has no name, and one of an npz file can have the name "".
TEST(VerifyAll, ADamagedArrayWithoutANameIsNotWhole) {
  const AllFormats formats;
  const TempFolder folder;
  constexpr char kOddBool = 2;
  for (const char* const name : {"bools.npy", "bools.npz"}) {
    SCOPED_TRACE(name);
    const std::string path = folder.Path(name);
    Tensor bools = *Tensor::Zeros(DType::kBool, TensorShape({3}));
    ASSERT_OK(bools.EnsureMutable());
    bools.mutable_bytes()[1] = kOddBool;
    DecodedTensor tensor;
    tensor.view = bools;
    const std::unique_ptr<ArchiveWriter> writer = *CreateArchive(path, **FormatForName(path, formats.list()));
    ASSERT_OK(writer->Add(ArchiveEntry(), tensor));
    ASSERT_OK(writer->Finish());
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ArchiveReader> reader, OpenArchive(path, formats.list()));
    std::vector<std::string> damaged;
    ASSERT_OK_AND_ASSIGN(const TensorCounts counts,
                         reader->VerifyAll([&](const ArchiveDamage& damage) { damaged.push_back(damage.tensor); }));
    EXPECT_EQ(counts.whole, 0);
    EXPECT_EQ(counts.damaged, 1);
    EXPECT_THAT(damaged, ElementsAre(reader->entries()[0].name));
  }
}

}  // namespace
}  // namespace tensorcask
