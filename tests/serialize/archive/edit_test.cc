// What editing leaves when it fails, when it is told to stop, and when the machine crashes: the old file or the new
// one.

#include "tensorcask/serialize/archive/edit.h"

#include <cerrno>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/archive/archive_entry.h"
#include "tensorcask/serialize/archive/archive_reader.h"
#include "tensorcask/serialize/archive/formats/all_formats.h"
#include "tensorcask/serialize/archive/formats/torch_format.h"
#include "tensorcask/serialize/archive/save_load.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/checkpoint/checkpoint_writer.h"
#include "tensorcask/serialize/checkpoint/edit_index.h"
#include "tensorcask/serialize/gguf/edit_file.h"
#include "tensorcask/serialize/gguf/gguf_reader.h"
#include "tensorcask/serialize/gguf/gguf_writer.h"
#include "tensorcask/serialize/io/byte_sink.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/io/forwarding_file_system.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/serialize/io/publication.h"
#include "tensorcask/serialize/npy/npz_edit.h"
#include "tensorcask/serialize/npy/npz_reader.h"
#include "tensorcask/serialize/npy/npz_writer.h"
#include "tensorcask/serialize/onnx/edit_model.h"
#include "tensorcask/serialize/onnx/onnx_reader.h"
#include "tensorcask/serialize/safetensors/edit_files.h"
#include "tensorcask/serialize/safetensors/safetensors_reader.h"
#include "tensorcask/serialize/safetensors/safetensors_writer.h"
#include "tensorcask/serialize/values/file_edits.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/compare.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/serialize/onnx/onnx_testing.h"
#include "tensorcask/tests/support/crash_file_system.h"
#include "tensorcask/tests/support/crash_model.h"
#include "tensorcask/tests/support/faulty_file_system.h"
#include "tensorcask/tests/support/status_matchers.h"
#include "tensorcask/tests/support/temp_folder.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::CrashFileSystem;
using ::tensorcask::testing::CrashMode;
using ::tensorcask::testing::CrashModel;
using ::tensorcask::testing::CrashSampling;
using ::tensorcask::testing::CrashState;
using ::tensorcask::testing::FaultyFileSystem;
using ::tensorcask::testing::StatusIs;
using ::tensorcask::testing::TempFolder;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using Code = absl::StatusCode;
using Tensors = std::map<std::string, Tensor>;

Tensors Sample() {
  Tensor large = *Tensor::Create(DType::kFloat32, TensorShape({40, 50}));  // two pages
  for (int64_t i = 0; i < large.num_elements(); ++i) large.mutable_data<float>()[i] = static_cast<float>(i);
  return {{"dense/bias", Tensor::FromValues<float>({1, 2, 3})},
          {"dense/kernel", large},
          {"step", Tensor::FromValues<int64_t>({7})}};
}

FileEdits Renames() {
  FileEdits edits;
  edits.renames = {{"dense/kernel", "encoder/kernel with a longer name than a header has room for"},
                   {"dense/bias", "encoder/bias"}};
  return edits;
}

// Removes a tensor that lies between two others, or that has a file of its own.
FileEdits Removals() {
  FileEdits edits;
  edits.removed = {"dense/bias"};
  edits.renames = {{"step", "steps"}};
  return edits;
}

Tensors Expected(const FileEdits& edits) {
  Tensors expected;
  for (auto& [name, tensor] : Sample()) {
    if (edits.removed.count(name) != 0) continue;
    const auto renamed = edits.renames.find(name);
    expected[renamed == edits.renames.end() ? name : renamed->second] = tensor;
  }
  return expected;
}

bool Same(const Tensors& a, const Tensors& b) {
  if (a.size() != b.size()) return false;
  for (const auto& [name, tensor] : a) {
    const auto found = b.find(name);
    if (found == b.end() || !Equal(tensor, found->second)) return false;
  }
  return true;
}

struct Format {
  const char* name;
  std::function<absl::Status(FileSystem*)> save;
  std::function<absl::StatusOr<Tensors>(FileSystem*)> load;
  std::function<absl::StatusOr<FileEditResult>(const FileEdits&, const FileEditOptions&)> edit;
};

absl::Status SaveSafetensors(FileSystem* files, uint64_t max_shard_bytes) {
  SafetensorsWriterOptions options;
  options.file_system = files;
  options.max_shard_bytes = max_shard_bytes;
  CASK_ASSIGN_OR_RETURN(SafetensorsWriter writer, SafetensorsWriter::Create("m.safetensors", options));
  for (const auto& [name, tensor] : Sample()) CASK_RETURN_IF_ERROR(writer.Add(name, tensor));
  return writer.Finish();
}

absl::StatusOr<Tensors> LoadSafetensors(FileSystem* files) {
  SafetensorsReaderOptions options;
  options.read.file_system = files;
  CASK_ASSIGN_OR_RETURN(const SafetensorsReader reader, SafetensorsReader::Open("m.safetensors", options));
  Tensors tensors;
  for (const SafetensorsEntry& entry : reader.entries()) {
    if (!entry.checksum.has_value()) return absl::DataLossError("a tensor has no checksum");
    CASK_ASSIGN_OR_RETURN(tensors[entry.name], reader.Read(entry.name));
  }
  return tensors;
}

absl::Status SaveNpz(FileSystem* files) {
  NpzWriterOptions options;
  options.file_system = files;
  CASK_ASSIGN_OR_RETURN(NpzWriter writer, NpzWriter::Create("m.npz", options));
  for (const auto& [name, tensor] : Sample()) CASK_RETURN_IF_ERROR(writer.Add(name, tensor));
  return writer.Finish();
}

absl::StatusOr<Tensors> LoadNpz(FileSystem* files) {
  NpyReaderOptions options;
  options.read.file_system = files;
  CASK_ASSIGN_OR_RETURN(const NpzReader reader, NpzReader::Open("m.npz", options));
  Tensors tensors;
  for (const NpyEntry& entry : reader.entries()) {
    CASK_ASSIGN_OR_RETURN(tensors[entry.name], reader.Read(entry.name));
  }
  return tensors;
}

absl::Status SaveCheckpoint(FileSystem* files) {
  CheckpointWriterOptions options;
  options.file_system = files;
  CASK_ASSIGN_OR_RETURN(CheckpointWriter writer, CheckpointWriter::Create("m", options));
  for (const auto& [name, tensor] : Sample()) CASK_RETURN_IF_ERROR(writer.Add(name, tensor));
  return writer.Finish();
}

absl::StatusOr<Tensors> LoadCheckpoint(FileSystem* files) {
  CheckpointReaderOptions options;
  options.read.file_system = files;
  CASK_ASSIGN_OR_RETURN(const CheckpointReader reader, CheckpointReader::Open("m", options));
  CASK_ASSIGN_OR_RETURN(const std::vector<CheckpointEntry> entries, reader.entries());
  Tensors tensors;
  for (const CheckpointEntry& entry : entries) {
    CASK_ASSIGN_OR_RETURN(tensors[entry.name], reader.Read(entry.name));
  }
  return tensors;
}

absl::Status SaveGguf(FileSystem* files) {
  GgufWriterOptions options;
  options.file_system = files;
  CASK_ASSIGN_OR_RETURN(GgufWriter writer, GgufWriter::Create("m.gguf", options));
  for (const auto& [name, tensor] : Sample()) CASK_RETURN_IF_ERROR(writer.Add(name, tensor));
  return writer.Finish();
}

absl::StatusOr<Tensors> LoadGguf(FileSystem* files) {
  GgufReaderOptions options;
  options.read.file_system = files;
  CASK_ASSIGN_OR_RETURN(const GgufReader reader, GgufReader::Open("m.gguf", options));
  Tensors tensors;
  for (const GgufEntry& entry : reader.entries()) {
    CASK_ASSIGN_OR_RETURN(tensors[entry.name], reader.Read(entry.name));
  }
  return tensors;
}

absl::Status SaveTorch(FileSystem* files) {
  ArchiveWriterOptions options;
  options.file_system = files;
  std::vector<TensorToSave> tensors;
  for (const auto& [name, tensor] : Sample()) tensors.push_back({name, tensor, {}});
  return SaveTensors("m.pt", TorchArchiveFormat(), tensors, options).status();
}

absl::StatusOr<Tensors> LoadTorch(FileSystem* files) {
  ArchiveReaderOptions options;
  options.read.file_system = files;
  CASK_ASSIGN_OR_RETURN(const std::unique_ptr<ArchiveReader> reader, TorchArchiveFormat().Open("m.pt", options));
  Tensors tensors;
  for (const ArchiveEntry& entry : reader->entries()) {
    CASK_ASSIGN_OR_RETURN(tensors[entry.name], reader->Read(entry.name));
  }
  return tensors;
}

std::string SampleModel() {
  std::string graph;
  for (const auto& [name, tensor] : Sample()) {
    const TensorShape shape = tensor.shape();
    std::vector<int64_t> dims;
    for (const int64_t dim : shape.dims()) dims.push_back(dim);
    const int type = tensor.dtype() == DType::kFloat32 ? 1 : 7;
    graph += testing::Initializer(testing::RawTensor(type, dims, std::string(tensor.bytes()), name));
  }
  return testing::Model(graph);
}

absl::Status SaveOnnx(FileSystem* files) {
  Publication publish({files});
  CASK_ASSIGN_OR_RETURN(FileSink* const sink, publish.Add("m.onnx"));
  CASK_RETURN_IF_ERROR(sink->Append(SampleModel()));
  return publish.Commit();
}

absl::StatusOr<Tensors> LoadOnnx(FileSystem* files) {
  OnnxReaderOptions options;
  options.read.file_system = files;
  CASK_ASSIGN_OR_RETURN(const OnnxReader reader, OnnxReader::Open("m.onnx", options));
  Tensors tensors;
  for (const OnnxEntry& entry : reader.entries()) {
    CASK_ASSIGN_OR_RETURN(tensors[entry.name], reader.Read(entry.name));
  }
  return tensors;
}

absl::StatusOr<FileEditResult> EditSafetensors(const FileEdits& edits, const FileEditOptions& options) {
  return safetensors::EditSafetensors("m.safetensors", edits, options);
}

const Format kFormats[] = {
    {"Safetensors", [](FileSystem* files) { return SaveSafetensors(files, 0); }, LoadSafetensors, EditSafetensors},
    {"ShardedSafetensors", [](FileSystem* files) { return SaveSafetensors(files, 16); }, LoadSafetensors,
     EditSafetensors},
    {"Npz", SaveNpz, LoadNpz,
     [](const FileEdits& edits, const FileEditOptions& options) { return npy::EditNpz("m.npz", edits, options); }},
    {"Gguf", SaveGguf, LoadGguf,
     [](const FileEdits& edits, const FileEditOptions& options) { return gguf::EditGguf("m.gguf", edits, options); }},
    {"Onnx", SaveOnnx, LoadOnnx,
     [](const FileEdits& edits, const FileEditOptions& options) { return onnx::EditModel("m.onnx", edits, options); }},
    {"Torch", SaveTorch, LoadTorch,
     [](const FileEdits& edits, const FileEditOptions& options) {
       return TorchArchiveFormat().Edit("m.pt", edits, options);
     }},
    {"Checkpoint", SaveCheckpoint, LoadCheckpoint,
     [](const FileEdits& edits, const FileEditOptions& options) {
       return checkpoint::EditCheckpoint("m", edits, options);
     }},
};

class EditFiles : public ::testing::TestWithParam<Format> {};

TEST_P(EditFiles, NamesChangeAndValuesStay) {
  MemoryFileSystem files;
  ASSERT_OK(GetParam().save(&files));
  const std::vector<std::string> paths = files.Paths();
  FileEditOptions options;
  options.file_system = &files;
  options.dry_run = true;
  ASSERT_OK(GetParam().edit(Renames(), options));
  ASSERT_OK_AND_ASSIGN(const Tensors before, GetParam().load(&files));
  EXPECT_TRUE(Same(before, Sample()));
  EXPECT_EQ(files.Paths(), paths);
  options.dry_run = false;
  ASSERT_OK_AND_ASSIGN(const FileEditResult result, GetParam().edit(Renames(), options));
  ASSERT_OK_AND_ASSIGN(const Tensors after, GetParam().load(&files));
  EXPECT_TRUE(Same(after, Expected(Renames())));
  EXPECT_EQ(files.Paths().size(), paths.size());  // no temporary file, no old shard
  for (const std::string& path : result.files) EXPECT_NE(files.Find(path), nullptr) << path;
}

TEST_P(EditFiles, RemovedTensorsAreGoneAndTheOthersStay) {
  MemoryFileSystem files;
  ASSERT_OK(GetParam().save(&files));
  const std::vector<std::string> paths = files.Paths();
  FileEditOptions options;
  options.file_system = &files;
  options.dry_run = true;
  ASSERT_OK_AND_ASSIGN(const FileEditResult planned, GetParam().edit(Removals(), options));
  EXPECT_EQ(files.Paths(), paths);
  options.dry_run = false;
  ASSERT_OK_AND_ASSIGN(const FileEditResult result, GetParam().edit(Removals(), options));
  EXPECT_EQ(result.copied_bytes, planned.copied_bytes);
  EXPECT_EQ(result.removed_files, planned.removed_files);
  EXPECT_EQ(result.copied_bytes > 0, std::string(GetParam().name) != "Checkpoint");  // whose index alone is new
  ASSERT_OK_AND_ASSIGN(const Tensors after, GetParam().load(&files));
  EXPECT_TRUE(Same(after, Expected(Removals())));
  EXPECT_LE(files.Paths().size(), paths.size());
  for (const std::string& path : result.files) EXPECT_NE(files.Find(path), nullptr) << path;
}

TEST_P(EditFiles, AreMadeDurableUnlessTheCallerWantsSpeed) {
  for (const bool sync : {true, false}) {
    SCOPED_TRACE(sync);
    MemoryFileSystem memory;
    ASSERT_OK(GetParam().save(&memory));
    FaultyFileSystem files(&memory);
    FileEditOptions options;
    options.file_system = &files;
    options.sync = sync;
    ASSERT_OK_AND_ASSIGN(const FileEditResult result, GetParam().edit(Renames(), options));
    EXPECT_FALSE(result.files.empty());
    EXPECT_EQ(files.operations(testing::FileOperation::kSync) > 0, sync) << files.LogText();
  }
}

TEST_P(EditFiles, ProgressThatReturnsFalseChangesNothing) {
  MemoryFileSystem files;
  ASSERT_OK(GetParam().save(&files));
  const std::vector<std::string> paths = files.Paths();
  FileEditOptions options;
  options.file_system = &files;
  int asked = 0;
  options.progress = [&](uint64_t) { return ++asked < 0; };
  const absl::Status edited = GetParam().edit(Renames(), options).status();
  if (asked == 0) {  // an index alone was written
    EXPECT_OK(edited);
    return;
  }
  EXPECT_THAT(edited, StatusIs(Code::kCancelled));
  EXPECT_EQ(files.Paths(), paths);
  ASSERT_OK_AND_ASSIGN(const Tensors left, GetParam().load(&files));
  EXPECT_TRUE(Same(left, Sample()));
}

// Another program saves a file of its own under each name, once the edit has begun to write.
class SavedMeanwhile final : public ForwardingFileSystem {
 public:
  explicit SavedMeanwhile(MemoryFileSystem* files) : ForwardingFileSystem(files), files_(files) {}

  static constexpr char kContent[] = "of another program";

 private:
  IoResult CreateFile(const std::string& path, const std::string* final_path) override {
    if (final_path != nullptr) {
      for (const std::string& old : old_) files_->Put(old, kContent);
    }
    return ForwardingFileSystem::CreateFile(path, final_path);
  }

  MemoryFileSystem* const files_;
  const std::vector<std::string> old_ = files_->Paths();
};

TEST_P(EditFiles, WhatAnotherProgramSavedMeanwhileStays) {
  for (const bool removes : {false, true}) {
    MemoryFileSystem files;
    ASSERT_OK(GetParam().save(&files));
    const std::vector<std::string> paths = files.Paths();
    SavedMeanwhile saved(&files);
    FileEditOptions options;
    options.file_system = &saved;
    const absl::Status edited = GetParam().edit(removes ? Removals() : Renames(), options).status();
    EXPECT_THAT(edited, StatusIs(Code::kAborted, AnyOf(HasSubstr("was replaced"), HasSubstr("changed while"))));
    EXPECT_EQ(files.Paths(), paths);
    for (const std::string& path : paths) EXPECT_EQ(*files.Find(path), SavedMeanwhile::kContent) << path;
  }
}

TEST_P(EditFiles, EveryFailingOperationLeavesTheOldFileOrTheNewOne) {
  for (const FileEdits& edits : {Renames(), Removals()}) {
    for (const bool after_effect : {false, true}) {
      for (int64_t n = 1;; ++n) {
        ASSERT_LT(n, 1000);
        MemoryFileSystem memory;
        ASSERT_OK(GetParam().save(&memory));
        FaultyFileSystem files(&memory);
        files.FailAfterEffect(after_effect);
        files.FailAt(n, EIO);
        FileEditOptions options;
        options.file_system = &files;
        const absl::Status edited = GetParam().edit(edits, options).status();
        EXPECT_EQ(files.open_handles(), 0u);
        for (const std::string& path : memory.Paths()) {
          EXPECT_FALSE(absl::StrContains(path, ".tmp-")) << path << "\n" << files.LogText();
        }
        const absl::StatusOr<Tensors> left = GetParam().load(&memory);
        ASSERT_TRUE(left.ok()) << left.status() << "\n" << files.LogText();
        const bool is_new = Same(*left, Expected(edits));
        EXPECT_TRUE(is_new || (!edited.ok() && Same(*left, Sample()))) << files.LogText();
        if (files.faults() == 0) break;
      }
    }
  }
}

void ExpectOldOrNewAfterEachCrash(const Format& format, const FileEdits& edits, CrashMode mode) {
  CrashFileSystem files;
  ASSERT_OK(format.save(&files));
  files.Settle();
  const size_t start = files.log_size();
  FileEditOptions options;
  options.file_system = &files;
  ASSERT_OK(format.edit(edits, options));
  const CrashModel model(files.log(), mode);
  int64_t states = 0;
  int64_t news = 0;
  for (size_t prefix = start; prefix <= model.num_ops(); ++prefix) {
    CrashSampling sampling;
    sampling.seed = prefix;
    model.ForEachState(prefix, sampling, [&](const CrashState& state) {
      MemoryFileSystem after;
      state.Restore(&after);
      const absl::StatusOr<Tensors> left = format.load(&after);
      const bool is_new = left.ok() && Same(*left, Expected(edits));
      EXPECT_TRUE(is_new || (left.ok() && Same(*left, Sample()))) << state.what << ": " << left.status();
      ++states;
      news += is_new ? 1 : 0;
      return !::testing::Test::HasFailure();
    });
  }
  EXPECT_GT(news, 0);
  EXPECT_LT(news, states);
}

TEST_P(EditFiles, ACrashLeavesTheOldFileOrTheNewOne) {
  for (const FileEdits& edits : {Renames(), Removals()}) {
    for (const CrashMode mode : {CrashMode::kProcess, CrashMode::kOrdered, CrashMode::kWeak}) {
      ExpectOldOrNewAfterEachCrash(GetParam(), edits, mode);
    }
  }
}

// Cuts each file, and changes bytes near its start and its end. The edit refuses the file and changes nothing, or what
// could be read before can be read afterwards.
TEST_P(EditFiles, DamagedFilesAreRefusedOrKeepWhatTheyHold) {
  MemoryFileSystem whole;
  ASSERT_OK(GetParam().save(&whole));
  int refused = 0;
  const auto try_edit = [&](const std::string& damaged_path, const std::string& content) {
    MemoryFileSystem files;
    for (const std::string& path : whole.Paths()) files.Put(path, *whole.Find(path));
    files.Put(damaged_path, content);
    const std::vector<std::string> paths = files.Paths();
    const absl::StatusOr<Tensors> before = GetParam().load(&files);
    FileEdits edits;
    edits.renames = {{"step", "steps"}};
    if (before.ok() && before->count("step") == 0) return;  // the name is damaged
    FileEditOptions options;
    options.file_system = &files;
    const absl::Status edited = GetParam().edit(edits, options).status();
    const absl::StatusOr<Tensors> after = GetParam().load(&files);
    ASSERT_EQ(before.ok(), after.ok()) << before.status() << after.status() << edited;
    EXPECT_EQ(files.open_handles(), 0u);
    if (!edited.ok()) {
      ++refused;
      EXPECT_EQ(files.Paths(), paths);
      EXPECT_TRUE(*files.Find(damaged_path) == content);
    } else if (before.ok()) {
      Tensors expected = *before;
      expected["steps"] = expected["step"];
      expected.erase("step");
      EXPECT_TRUE(Same(*after, expected));
    }
  };
  constexpr size_t kNear = 400;
  for (const std::string& path : whole.Paths()) {
    const std::string content = *whole.Find(path);
    for (size_t at = 0; at < content.size() && !HasFatalFailure(); ++at) {
      if (at >= kNear && at + kNear < content.size()) continue;
      SCOPED_TRACE(absl::StrCat(path, " at ", at));
      try_edit(path, content.substr(0, at));
      std::string changed = content;
      changed[at] = static_cast<char>(changed[at] ^ 0x21);
      try_edit(path, changed);
    }
  }
  EXPECT_GT(refused, 100);
}

INSTANTIATE_TEST_SUITE_P(All, EditFiles, ::testing::ValuesIn(kFormats),
                         [](const auto& info) { return std::string(info.param.name); });

// ---- The door -------------------------------------------------------------------------------------------------------

class EditArchiveTest : public ::testing::Test {
 protected:
  // A safetensors file with all of Sample().
  std::string Save() {
    const std::string path = folder_.Path("m.safetensors");
    absl::StatusOr<SafetensorsWriter> writer = SafetensorsWriter::Create(path);
    EXPECT_OK(writer.status());
    for (const auto& [name, tensor] : Sample()) EXPECT_OK(writer->Add(name, tensor));
    EXPECT_OK(writer->Finish());
    return path;
  }

  const TempFolder folder_;
  const AllFormats formats_;
};

TEST_F(EditArchiveTest, RenamesAndSetsMetadata) {
  const std::string path = Save();
  ArchiveEdits edits;
  edits.rename = [](absl::string_view name) { return absl::StrCat("model/", name); };
  edits.set_metadata = {{"license", "MIT"}};
  ASSERT_OK_AND_ASSIGN(const ArchiveEditReport report, EditArchive(path, edits, formats_.list()));
  EXPECT_EQ(report.format, "safetensors");
  EXPECT_THAT(report.renamed, ElementsAre(Pair("dense/bias", "model/dense/bias"),
                                          Pair("dense/kernel", "model/dense/kernel"), Pair("step", "model/step")));
  ASSERT_OK_AND_ASSIGN(const SafetensorsReader reader, SafetensorsReader::Open(path));
  EXPECT_EQ(reader.metadata().at("license"), "MIT");
  EXPECT_TRUE(Equal(*reader.Read("model/step"), Sample().at("step")));
}

TEST_F(EditArchiveTest, NothingToChangeWritesNothing) {
  const std::string path = Save();
  ArchiveEdits edits;
  edits.rename = [](absl::string_view name) { return std::string(name); };
  edits.set_metadata = {{"format", "pt"}};
  ASSERT_OK_AND_ASSIGN(const ArchiveEditReport report, EditArchive(path, edits, formats_.list()));
  EXPECT_THAT(report.result.files, IsEmpty());
}

TEST_F(EditArchiveTest, TwoTensorsOfOneNameAreRefused) {
  ArchiveEdits edits;
  edits.rename = [](absl::string_view) { return std::string("x"); };
  EXPECT_THAT(EditArchive(Save(), edits, formats_.list()),
              StatusIs(Code::kAlreadyExists, HasSubstr("both \"dense/bias\" and \"dense/kernel\" would be called")));
}

TEST_F(EditArchiveTest, ProgressThatReturnsFalseChangesNothing) {
  const std::string path = Save();
  ArchiveEdits edits;
  edits.rename = [](absl::string_view name) { return absl::StrCat("x", name); };
  FileEditOptions options;
  uint64_t copied = 0;
  options.progress = [&](uint64_t bytes) {
    copied = bytes;
    return false;
  };
  EXPECT_THAT(EditArchive(path, edits, formats_.list(), options), StatusIs(Code::kCancelled, HasSubstr("stop")));
  EXPECT_GT(copied, 0u);
  std::vector<std::string> names;
  ASSERT_EQ(FileSystem::Posix()->List(folder_.path(), &names), 0);
  EXPECT_THAT(names, ElementsAre("m.safetensors"));
  ASSERT_OK_AND_ASSIGN(const SafetensorsReader reader, SafetensorsReader::Open(path));
  EXPECT_TRUE(Equal(*reader.Read("step"), Sample().at("step")));
}

}  // namespace
}  // namespace tensorcask
