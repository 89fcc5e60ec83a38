// Loading and saving many tensors in one call.

#include "tensorcask/serialize/archive/save_load.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/archive/archive.h"
#include "tensorcask/serialize/archive/convert_archives.h"
#include "tensorcask/serialize/archive/formats/all_formats.h"
#include "tensorcask/serialize/archive/read_index.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/io/forwarding_file_system.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/serialize/payload/payload_options.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/compat/axis_index.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/compare.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/support/faulty_file_system.h"
#include "tensorcask/tests/support/simulated_device.h"
#include "tensorcask/tests/support/status_matchers.h"
#include "tensorcask/tests/support/temp_folder.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::FaultyFileSystem;
using ::tensorcask::testing::FileOperation;
using ::tensorcask::testing::IsOk;
using ::tensorcask::testing::OnHost;
using ::tensorcask::testing::SimulatedDevice;
using ::tensorcask::testing::StatusIs;
using ::tensorcask::testing::TempFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

Tensor Floats(int64_t rows, int64_t columns) {
  Tensor tensor = *Tensor::Create(DType::kFloat32, TensorShape({rows, columns}));
  float* const data = tensor.mutable_data<float>();
  for (int64_t i = 0; i < rows * columns; ++i) data[i] = static_cast<float>(i) * 0.5F - 3;
  return tensor;
}

std::vector<TensorToSave> SomeTensors() {
  std::vector<TensorToSave> tensors;
  tensors.push_back({"z", *TensorView(Floats(300, 70)).Transpose(0, 1), {}});
  tensors.push_back({"a", Tensor::FromValues<int64_t>({1, -2, 3}), {}});
  tensors.push_back({"empty", *Tensor::Create(DType::kFloat64, TensorShape({0, 4})), {}});
  tensors.push_back({"m", Tensor::Scalar<double>(2.5), {}});
  return tensors;
}

class SaveLoad : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) const { return absl::StrCat(folder_.path(), "/", name); }
  const ArchiveFormat& Format(const std::string& name) const { return **FindFormat(name, formats_.list()); }
  std::unique_ptr<ArchiveReader> Open(const std::string& path) const {
    absl::StatusOr<std::unique_ptr<ArchiveReader>> reader = OpenArchive(path, formats_.list());
    EXPECT_THAT(reader.status(), IsOk());
    return *std::move(reader);
  }

  static ArchiveWriterOptions Overwriting() {
    ArchiveWriterOptions options;
    options.overwrite = true;
    return options;
  }

  const AllFormats formats_;
  const TempFolder folder_;
};

TEST_F(SaveLoad, EveryFormatReturnsTheTensors) {
  for (const char* const format : {"checkpoint", "records", "safetensors", "npz"}) {
    for (const uint64_t block_bytes : {uint64_t{1000}, uint64_t{8} << 20}) {
      SCOPED_TRACE(absl::StrCat(format, " ", block_bytes));
      const std::string path = Path(absl::StrCat(format, block_bytes));
      const std::vector<TensorToSave> tensors = SomeTensors();
      SaveOptions options;
      options.block_bytes = block_bytes;
      uint64_t last = 0;
      options.progress = [&](uint64_t bytes) { return last = bytes, true; };
      const absl::StatusOr<uint64_t> saved = SaveTensors(path, Format(format), tensors, {}, options);
      ASSERT_THAT(saved.status(), IsOk());
      EXPECT_GT(*saved, 84000U);
      EXPECT_EQ(last, 84000U + 24 + 8);

      const std::unique_ptr<ArchiveReader> reader = Open(path);
      std::vector<const ArchiveEntry*> entries;
      for (const TensorToSave& tensor : tensors) entries.push_back(*reader->Find(tensor.name));
      for (const bool map : {false, true}) {
        for (const int num_threads : {1, 3}) {
          LoadOptions load;
          load.map = map;
          load.num_threads = num_threads;
          const absl::StatusOr<std::vector<Tensor>> loaded = LoadTensors(*reader, entries, load);
          ASSERT_THAT(loaded.status(), IsOk());
          for (size_t i = 0; i < tensors.size(); ++i) {
            EXPECT_TRUE(Equal(TensorView((*loaded)[i]), tensors[i].elements)) << tensors[i].name;
          }
        }
      }
    }
  }
}

TEST_F(SaveLoad, EveryFormatFillsMemoryOfTheCallerOnTheHostAndOnADevice) {
  const SimulatedDevice device(0);
  for (const char* const format : {"checkpoint", "records", "safetensors", "npz"}) {
    SCOPED_TRACE(format);
    const std::vector<TensorToSave> tensors = SomeTensors();
    ASSERT_THAT(SaveTensors(Path(format), Format(format), tensors, {}).status(), IsOk());
    const std::unique_ptr<ArchiveReader> reader = Open(Path(format));
    for (const bool on_device : {false, true}) {
      for (const bool transposed : {false, true}) {
        std::vector<TensorToLoad> outs;
        for (const TensorToSave& tensor : tensors) {
          TensorView elements = tensor.elements;
          if (transposed && elements.rank() == 2) elements = *elements.Transpose(0, 1);
          const RefPtr<Allocator> allocator = on_device ? RefPtr<Allocator>(device.cache) : CpuAllocator::Default();
          TensorView out = *Tensor::Create(elements.dtype(), elements.shape(), allocator);
          if (transposed && out.rank() == 2) out = *out.Transpose(0, 1);
          outs.push_back({tensor.name, out});
        }
        LoadOptions options;
        options.num_threads = 3;
        uint64_t last = 0;
        options.progress = [&](uint64_t bytes) { return last = bytes, true; };
        ASSERT_THAT(LoadTensorsInto(*reader, outs, options), IsOk());
        EXPECT_EQ(last, 84000U + 24 + 8);
        for (size_t i = 0; i < tensors.size(); ++i) {
          EXPECT_TRUE(Equal(TensorView(OnHost(outs[i].out)), tensors[i].elements)) << tensors[i].name;
        }
        outs[1].out = outs[3].out;
        EXPECT_THAT(LoadTensorsInto(*reader, outs, {}), StatusIs(Code::kInvalidArgument, HasSubstr("\"a\"")));
      }
    }
  }
}

// A system that is read best in large pieces, several at a time. Notes where the bytes of files of elements go.
class FarFiles final : public ForwardingFileSystem {
 public:
  using ForwardingFileSystem::ForwardingFileSystem;

  IoResult ReadAt(IoResult handle, uint64_t offset, absl::Span<char> out) override {
    Note(out);
    return behind()->ReadAt(handle, offset, out);
  }
  IoResult ReadManyAt(IoResult handle, absl::Span<const ReadRange> ranges) override {
    for (const ReadRange& range : ranges) Note(range.out);
    return behind()->ReadManyAt(handle, ranges);
  }
  IoResult ReadPieceAt(IoResult handle, absl::Span<const ReadRange> ranges) override {
    return ReadManyAt(handle, ranges);
  }
  ReadShape read_shape() const override { return {kPieceBytes, 4, 4096, true, 4 * kPieceBytes}; }
  ReadShape ShapeOf(IoResult) const override { return read_shape(); }

  // Of the reads since the last call that are large, the bytes that went to none of `tensors`, and those that did.
  std::pair<uint64_t, uint64_t> BesideAndInto(const std::vector<Tensor>& tensors) {
    std::pair<uint64_t, uint64_t> bytes;
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const absl::Span<char> out : outs_) {
      const bool is_inside = std::any_of(tensors.begin(), tensors.end(), [&](const Tensor& tensor) {
        const absl::string_view memory = tensor.buffer()->bytes();
        return out.data() >= memory.data() && out.data() + out.size() <= memory.data() + memory.size();
      });
      (is_inside ? bytes.second : bytes.first) += out.size();
    }
    outs_.clear();
    return bytes;
  }

 private:
  static constexpr uint64_t kPieceBytes = 64 << 10;

  void Note(absl::Span<char> out) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (out.size() > 4096) outs_.push_back(out);
  }

  std::mutex mutex_;
  std::vector<absl::Span<char>> outs_;
};

TEST_F(SaveLoad, APlanReadsStraightIntoTheTensors) {
  MemoryFileSystem memory;
  FarFiles files(&memory);
  std::vector<TensorToSave> saved;
  for (int i = 0; i < 20; ++i) saved.push_back({absl::StrCat("t", i), Floats(100 + i, 500), {}});
  uint64_t total = 0;
  for (const TensorToSave& tensor : saved) total += static_cast<uint64_t>(tensor.elements.num_elements()) * 4;
  for (const std::string name : {"checkpoint", "safetensors"}) {
    SCOPED_TRACE(name);
    ArchiveWriterOptions write;
    write.file_system = &memory;
    const std::string path = absl::StrCat("/m.", name);
    ASSERT_THAT(SaveTensors(path, Format(name), saved, write).status(), IsOk());
    ArchiveReaderOptions read;
    read.read.file_system = &files;
    absl::StatusOr<std::unique_ptr<ArchiveReader>> reader = OpenArchive(path, formats_.list(), read);
    ASSERT_THAT(reader.status(), IsOk());
    std::vector<const ArchiveEntry*> entries;
    for (const ArchiveEntry& entry : (*reader)->entries()) entries.push_back(&entry);
    files.BesideAndInto({});
    const absl::StatusOr<std::vector<Tensor>> loaded = LoadTensors(**reader, entries);
    ASSERT_THAT(loaded.status(), IsOk());
    const auto [beside, into] = files.BesideAndInto(*loaded);
    EXPECT_EQ(beside, 0u);
    EXPECT_GT(into, total - total / 100) << "but what small reads bring";

    std::vector<TensorToLoad> places;
    std::vector<Tensor> memories;
    for (const ArchiveEntry* entry : entries) {
      memories.push_back(*Tensor::Create(entry->dtype, entry->shape));
      places.push_back({entry->name, memories.back()});
    }
    ASSERT_THAT(LoadTensorsInto(**reader, places), IsOk());
    const auto [beside_given, into_given] = files.BesideAndInto(memories);
    EXPECT_EQ(beside_given, 0u);
    EXPECT_GT(into_given, total - total / 100);
    // Other strides than those of the file: the bytes go through the plan.
    const Tensor turned = *Tensor::Create(DType::kFloat32, TensorShape({500, 100}));
    ASSERT_THAT(LoadTensorsInto(**reader, {{"t0", *TensorView(turned).Transpose(0, 1)}}), IsOk());
    EXPECT_THAT(files.BesideAndInto({turned}).second, 0u);

    for (size_t i = 0; i < entries.size(); ++i) {
      const auto wanted = std::find_if(saved.begin(), saved.end(),
                                       [&](const TensorToSave& one) { return one.name == entries[i]->name; });
      EXPECT_TRUE(Equal((*loaded)[i], wanted->elements)) << entries[i]->name;
      EXPECT_TRUE(Equal(memories[i], wanted->elements)) << entries[i]->name;
      if (entries[i]->name == "t0") {
        EXPECT_TRUE(Equal(*TensorView(turned).Transpose(0, 1), wanted->elements));
      }
    }
  }
}

// Tensors are verified by the threads that fetch them. The error is that of the first one in the file.
TEST_F(SaveLoad, APlanReturnsTheErrorOfTheFirstDamagedTensor) {
  MemoryFileSystem memory;
  FarFiles files(&memory);
  std::vector<TensorToSave> saved;
  for (int i = 10; i < 30; ++i) saved.push_back({absl::StrCat("t", i), Floats(100, 500), {}});
  ArchiveWriterOptions write;
  write.file_system = &memory;
  ASSERT_THAT(SaveTensors("/m", Format("checkpoint"), saved, write).status(), IsOk());
  const std::string path = "/m.data-00000-of-00001";
  std::string bytes = *memory.Find(path);
  for (const size_t damaged : {size_t{13}, size_t{7}, size_t{19}}) bytes[damaged * 200000 + 100] ^= 1;
  memory.Put(path, bytes);
  for (int round = 0; round < 20; ++round) {
    ArchiveReaderOptions read;
    read.read.file_system = &files;
    absl::StatusOr<std::unique_ptr<ArchiveReader>> reader = OpenArchive("/m", formats_.list(), read);
    ASSERT_THAT(reader.status(), IsOk());
    std::vector<const ArchiveEntry*> entries;
    for (const ArchiveEntry& entry : (*reader)->entries()) entries.push_back(&entry);
    LoadOptions load;
    load.num_threads = round % 2 == 0 ? 1 : 3;
    EXPECT_THAT(LoadTensors(**reader, entries, load).status(), StatusIs(Code::kDataLoss, HasSubstr("\"t17\"")));
  }
}

TEST_F(SaveLoad, EveryFormatTakesTensorsOfADevice) {
  const SimulatedDevice device(0);
  for (const char* const format : {"checkpoint", "records", "safetensors", "npz"}) {
    SCOPED_TRACE(format);
    std::vector<TensorToSave> tensors = SomeTensors();
    ASSERT_THAT(SaveTensors(Path(absl::StrCat("host_", format)), Format(format), tensors, Overwriting()).status(),
                IsOk());
    for (TensorToSave& tensor : tensors) {
      const bool is_transposed = !tensor.elements.IsContiguous();
      if (is_transposed) tensor.elements = *tensor.elements.Transpose(0, 1);
      tensor.elements = device.Upload(tensor.elements);
      if (is_transposed) tensor.elements = *tensor.elements.Transpose(0, 1);
    }
    for (const uint64_t block_bytes : {uint64_t{1000}, uint64_t{8} << 20}) {
      SaveOptions options;
      options.block_bytes = block_bytes;
      ASSERT_THAT(
          SaveTensors(Path(absl::StrCat("device_", format)), Format(format), tensors, Overwriting(), options).status(),
          IsOk());
      const std::unique_ptr<ArchiveReader> expected = Open(Path(absl::StrCat("host_", format)));
      const std::unique_ptr<ArchiveReader> reader = Open(Path(absl::StrCat("device_", format)));
      for (const TensorToSave& tensor : tensors) {
        EXPECT_TRUE(Equal(TensorView(*reader->Read(tensor.name)), TensorView(*expected->Read(tensor.name))));
      }
    }
  }
}

TEST_F(SaveLoad, TheFileHasTheOrderOfTheList) {
  ASSERT_THAT(SaveTensors(Path("order"), Format("checkpoint"), SomeTensors(), {}).status(), IsOk());
  const std::unique_ptr<ArchiveReader> reader = Open(Path("order"));
  std::vector<std::string> names;
  for (const ArchiveEntry* const entry : SelectEntries(reader->entries(), {}, {})) {
    names.push_back(entry->name);
    EXPECT_TRUE(entry->strides.empty()) << entry->name;  // stored row-major, so that TensorFlow reads it
  }
  EXPECT_THAT(names, ElementsAre("z", "a", "empty", "m"));
}

TEST_F(SaveLoad, EveryFormatIsMadeDurableUnlessTheCallerWantsSpeed) {
  int written = 0;
  for (const ArchiveFormat* const format : formats_.list()) {
    if (!format->traits().is_written) continue;
    ++written;
    for (const bool sync : {true, false}) {
      SCOPED_TRACE(absl::StrCat(format->name(), " ", sync));
      MemoryFileSystem memory;
      FaultyFileSystem files(&memory);
      ArchiveWriterOptions options;
      options.file_system = &files;
      options.sync = sync;
      const std::vector<TensorToSave> tensors = {{"w", Tensor::FromValues<float>({1, 2}), {}}};
      // Alone, ONNX writes one tensor: a .pb file.
      const std::string path = format->traits().needs_base ? "/w.pb" : "/w";
      ASSERT_THAT(SaveTensors(path, *format, tensors, options).status(), IsOk());
      EXPECT_EQ(files.operations(FileOperation::kSync) > 0, sync) << files.LogText();
    }
  }
  EXPECT_GE(written, 9);
}

TEST_F(SaveLoad, OptionsThatTheFormatHasNoPlaceForAreRefused) {
  const std::vector<TensorToSave> tensors = SomeTensors();
  ArchiveWriterOptions level;
  level.level = PayloadLevel::kDefault;
  EXPECT_THAT(SaveTensors(Path("x"), Format("safetensors"), tensors, level).status(),
              StatusIs(Code::kInvalidArgument, HasSubstr("a level compresses tensors, which a safetensors file")));
  ArchiveWriterOptions metadata;
  metadata.file_metadata["license"] = "MIT";
  EXPECT_THAT(SaveTensors(Path("x"), Format("checkpoint"), tensors, metadata).status(),
              StatusIs(Code::kInvalidArgument, HasSubstr("file metadata is text, which a checkpoint file")));
  EXPECT_THAT(SaveTensors(Path("x"), Format("safetensors"), tensors, metadata).status(), IsOk());
  EXPECT_THAT(Open(Path("x"))->file_metadata(), ::testing::Contains(::testing::Pair("license", "MIT")));
}

TEST_F(SaveLoad, TensorsThatTheFormatHasNoPlaceForAreRefused) {
  std::vector<TensorToSave> tensors = {{"s", Tensor::FromValues<std::string>({"a"}), {}}};
  EXPECT_THAT(SaveTensors(Path("x"), Format("safetensors"), tensors, {}).status(),
              StatusIs(Code::kInvalidArgument, HasSubstr("tensor \"s\" is string, which a safetensors file")));
  tensors = SomeTensors();
  EXPECT_THAT(SaveTensors(Path("x"), Format("npy"), tensors, {}).status(),
              StatusIs(Code::kInvalidArgument, HasSubstr("exactly one tensor, not 4")));
  tensors[1].name = "z";
  EXPECT_THAT(SaveTensors(Path("x"), Format("checkpoint"), tensors, {}).status(),
              StatusIs(Code::kAlreadyExists, HasSubstr("two tensors have the name \"z\"")));
  tensors[1].name = "";
  EXPECT_THAT(SaveTensors(Path("x"), Format("records"), tensors, {}).status(),
              StatusIs(Code::kInvalidArgument, HasSubstr("name is empty")));
  tensors[1].name = "a";
  tensors[1].metadata.attributes["unit"] = "m";
  EXPECT_THAT(SaveTensors(Path("x"), Format("safetensors"), tensors, {}).status(),
              StatusIs(Code::kInvalidArgument, HasSubstr("tensor \"a\" has metadata")));
  EXPECT_THAT(SaveTensors(Path("x"), Format("checkpoint"), tensors, {}).status(), IsOk());
}

TEST_F(SaveLoad, CancellingLeavesNoFile) {
  SaveOptions save;
  save.progress = [](uint64_t bytes) { return bytes < 80000; };
  EXPECT_THAT(SaveTensors(Path("c"), Format("checkpoint"), SomeTensors(), {}, save).status(),
              StatusIs(Code::kCancelled, HasSubstr("cancelled")));
  EXPECT_THAT(OpenArchive(Path("c"), formats_.list()).status(), StatusIs(Code::kNotFound, HasSubstr("/c")));
  ASSERT_THAT(SaveTensors(Path("c"), Format("checkpoint"), SomeTensors(), {}).status(), IsOk());
  const std::unique_ptr<ArchiveReader> reader = Open(Path("c"));
  LoadOptions load;
  load.progress = [](uint64_t bytes) { return bytes < 10; };
  EXPECT_THAT(LoadTensors(*reader, SelectEntries(reader->entries(), {}, {}), load).status(),
              StatusIs(Code::kCancelled, HasSubstr("loading was cancelled")));
}

TEST_F(SaveLoad, TheErrorOfTheFirstTensorThatFailsIsReturned) {
  ASSERT_THAT(SaveTensors(Path("e"), Format("checkpoint"), SomeTensors(), {}).status(), IsOk());
  const std::unique_ptr<ArchiveReader> reader = Open(Path("e"));
  ArchiveEntry missing;
  missing.name = "missing";
  const std::vector<const ArchiveEntry*> entries = {*reader->Find("a"), &missing, *reader->Find("m")};
  EXPECT_THAT(LoadTensors(*reader, entries).status(), StatusIs(Code::kNotFound, HasSubstr("missing")));
}

TEST_F(SaveLoad, AnIndexReadsWhatItSelectsOfTheWholeTensor) {
  const Tensor stored = Floats(6, 5);
  ASSERT_THAT(SaveTensors(Path("i"), Format("checkpoint"), {TensorToSave{"w", stored, {}}}, {}).status(), IsOk());
  const std::unique_ptr<ArchiveReader> reader = Open(Path("i"));
  const ArchiveEntry& entry = **reader->Find("w");
  const auto none = std::nullopt;
  const std::vector<std::vector<AxisIndex>> indices = {
      {},
      {AxisIndex::All()},
      {AxisIndex::Slice(1, 4)},
      {AxisIndex::Slice(-3, none)},
      {AxisIndex::Slice(none, none, 2)},
      {AxisIndex::Slice(none, none, -1)},
      {AxisIndex::Slice(5, 1, -2), AxisIndex::Slice(1, none, 3)},
      {AxisIndex::Slice(4, 2)},
      {AxisIndex::Slice(2, 2), 1},
      {-1},
      {2, 3},
      {AxisIndex::All(), -5},
      {AxisIndex::Slice(-100, 100), AxisIndex::Slice(100, 200)},
  };
  for (const std::vector<AxisIndex>& index : indices) {
    const absl::StatusOr<TensorView> read = ReadIndex(*reader, entry, index);
    ASSERT_THAT(read.status(), IsOk());
    EXPECT_TRUE(Equal(*read, *IndexView(stored, index))) << read->ToString();
  }
  EXPECT_THAT(ReadIndex(*reader, entry, {6}).status(), StatusIs(Code::kOutOfRange, HasSubstr("tensor \"w\"")));
  EXPECT_THAT(ReadIndex(*reader, entry, {0, 0, 0}).status(),
              StatusIs(Code::kInvalidArgument, HasSubstr("3 indices for the 2 axes of the shape [6,5]")));
  EXPECT_THAT(ReadIndex(*reader, entry, {AxisIndex::Slice(0, 1, 0)}).status(),
              StatusIs(Code::kInvalidArgument, HasSubstr("step")));
  ArchiveEntry unknown = entry;
  unknown.name = "v";
  for (const std::vector<AxisIndex>& index : indices) {
    const absl::StatusOr<TensorView> read = ReadIndex(*reader, unknown, index);
    if (!read.ok()) {
      EXPECT_THAT(read.status(), StatusIs(Code::kNotFound, HasSubstr("\"v\"")));
    } else {
      EXPECT_EQ(read->num_elements(), 0) << "only what has no elements needs no reading";
    }
  }
}

}  // namespace
}  // namespace tensorcask
