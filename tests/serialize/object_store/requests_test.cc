// How many requests each action takes, exactly: docs/guide/object_store.md promises them.

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/archive/archive.h"
#include "tensorcask/serialize/archive/formats/checkpoint_format.h"
#include "tensorcask/serialize/archive/formats/npy_format.h"
#include "tensorcask/serialize/archive/save_load.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/checkpoint/checkpoint_writer.h"
#include "tensorcask/serialize/io/forwarding_file_system.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/serialize/npy/npz_reader.h"
#include "tensorcask/serialize/npy/npz_writer.h"
#include "tensorcask/serialize/object_store/object_store.h"
#include "tensorcask/serialize/safetensors/safetensors_reader.h"
#include "tensorcask/serialize/safetensors/safetensors_writer.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/serialize/object_store/store_testing.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using namespace ::tensorcask::testing;  // NOLINT(google-build-using-namespace)
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

constexpr uint64_t kMebibyte = uint64_t{1} << 20;

// A store as programs make it, but for its keys, and what its observer saw.
class Requests : public ::testing::Test {
 protected:
  Requests() {
    ObjectStoreOptions options;
    options.region = "eu-test-1";
    options.endpoint = server_.url();
    options.credentials = OptionsFor(server_).credentials;
    options.observer = [this](const RequestRecord& record) {
      const std::lock_guard<std::mutex> lock(mutex_);
      seen_.push_back(record);
    };
    store_ = StoreFor(options);
  }

  absl::StatusOr<CheckpointReader> Open(const std::string& path) {
    CheckpointReaderOptions options;
    options.read.file_system = store_->files();
    return CheckpointReader::Open(path, options);
  }
  size_t count() const { return seen_.size(); }
  uint64_t bytes() const {
    uint64_t sum = 0;
    for (const RequestRecord& record : seen_) sum += record.bytes;
    return sum;
  }
  std::vector<std::string> Purposes() const {
    std::vector<std::string> purposes;
    for (const RequestRecord& record : seen_) purposes.push_back(record.purpose);
    return purposes;
  }
  size_t CountOf(const std::string& purpose) const {
    return static_cast<size_t>(
        std::count_if(seen_.begin(), seen_.end(), [&](const RequestRecord& one) { return one.purpose == purpose; }));
  }
  void Forget() { seen_.clear(); }

  LyingServer server_;
  std::mutex mutex_;
  std::vector<RequestRecord> seen_;
  std::unique_ptr<ObjectStore> store_;
};

// Keeps indexes, and counts the bytes of data files only.
class KeepsIndexes final : public ForwardingFileSystem {
 public:
  using ForwardingFileSystem::ForwardingFileSystem;

  uint64_t data_bytes() const { return data_bytes_; }
  IoResult CreateFile(const std::string& path, const std::string* final_path) override {
    const IoResult handle = ForwardingFileSystem::CreateFile(path, final_path);
    if (absl::StrContains(path, ".data-")) data_files_.insert(handle);
    return handle;
  }
  IoResult Append(IoResult handle, absl::string_view bytes) override {
    if (data_files_.count(handle) == 0) return ForwardingFileSystem::Append(handle, bytes);
    data_bytes_ += bytes.size();
    return static_cast<IoResult>(bytes.size());
  }

 private:
  std::set<IoResult> data_files_;
  uint64_t data_bytes_ = 0;
};

// Zeros that take no memory: pages that nobody writes to are one page.
Tensor ManyZeros(const TensorShape& shape) {
  const auto bytes = static_cast<size_t>(shape.num_elements()) * sizeof(float);
  void* const data = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  EXPECT_NE(data, MAP_FAILED);
  TensorBuffer::External memory;
  memory.data = data;
  memory.size_bytes = bytes;
  memory.writable = false;
  memory.release = [data, bytes] { munmap(data, bytes); };
  return *Tensor::FromBuffer(DType::kFloat32, shape, TensorBuffer::WrapExternal(std::move(memory)));
}

// The bytes of a data file whose element at offset o is o / 4, as far as float32 can say it.
std::string CountingFloats(uint64_t offset, uint64_t count) {
  std::string bytes(count, '\0');
  for (uint64_t i = 0; i < count; ++i) {
    const auto value = static_cast<float>((offset + i) / 4);
    char of_value[sizeof(value)];
    std::memcpy(of_value, &value, sizeof(value));
    bytes[i] = of_value[(offset + i) % 4];
  }
  return bytes;
}

TEST_F(Requests, OfTenThousandTensorsAndASliceOfALargeOne) {
  constexpr int kSmall = 9999;
  const TensorShape large_shape({1 << 16, 1 << 14});  // 4 GiB
  MemoryFileSystem memory;
  KeepsIndexes files(&memory);
  CheckpointWriterOptions options;
  options.file_system = &files;
  ASSERT_OK_AND_ASSIGN(CheckpointWriter writer, CheckpointWriter::Create("/m", options));
  const Tensor small = *Tensor::Zeros(DType::kFloat32, TensorShape({64}));
  for (int i = 0; i < kSmall; ++i) {
    ASSERT_OK(writer.Add(absl::StrCat("model/layer_", i / 10, "/block/weight_", i % 10), small));
    if (i != kSmall / 2) continue;
    ASSERT_OK(writer.Add("model/embedding", ManyZeros(large_shape)));
  }
  ASSERT_OK(writer.Finish());
  const std::string index = *memory.Find("/m.index");
  ASSERT_GT(files.data_bytes(), uint64_t{4} << 30);
  server_.Put("bucket/run/m.index", index);
  server_.PutMade("bucket/run/m.data-00000-of-00001", files.data_bytes(), CountingFloats);

  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, Open("s3://bucket/run/m"));
  ASSERT_OK_AND_ASSIGN(const std::vector<CheckpointEntry> entries, reader.entries());
  EXPECT_EQ(entries.size(), size_t{kSmall} + 1);
  EXPECT_THAT(Purposes(), ElementsAre("open"));
  EXPECT_EQ(bytes(), index.size());
  EXPECT_LT(index.size(), kMebibyte) << "then it would take one more";

  ASSERT_OK_AND_ASSIGN(const CheckpointEntry entry, reader.Find("model/embedding"));
  ASSERT_OK_AND_ASSIGN(const TensorSlice rows, TensorSlice::Parse("40000,64:-"));  // 4 MiB
  ASSERT_OK_AND_ASSIGN(const Tensor part, reader.ReadSlice("model/embedding", rows));
  EXPECT_THAT(Purposes(), UnorderedElementsAre("open", "open", "head", "read"));
  EXPECT_LE(bytes(), 4 * kMebibyte + kMebibyte);
  ASSERT_EQ(part.shape(), TensorShape({64, 1 << 14}));
  const std::string wanted = CountingFloats(entry.offset + (uint64_t{40000} << 16), 4 * kMebibyte);
  EXPECT_EQ(std::memcmp(part.data<float>(), wanted.data(), wanted.size()), 0);

  // Of a column, which lies in each of 65536 rows, only some rows are asked for here.
  Forget();
  ASSERT_OK_AND_ASSIGN(const TensorSlice corner, TensorSlice::Parse("60000,16:100,4"));
  ASSERT_OK(reader.ReadSlice("model/embedding", corner).status());
  EXPECT_THAT(Purposes(), ElementsAre("read"));
  EXPECT_LE(bytes(), 16 * (uint64_t{1} << 16)) << "what lies between is read over";
}

TEST_F(Requests, OfAllTensors) {
  std::vector<Tensor> tensors;
  for (uint32_t i = 0; i < 128; ++i) tensors.push_back(PatternTensor(i % 2 == 0 ? 4 << 20 : 1 << 10, i));
  MemoryFileSystem memory;
  ASSERT_OK(SaveCheckpoint(&memory, "/m", tensors));
  server_.Put("bucket/m.index", *memory.Find("/m.index"));
  server_.Put("bucket/m.data-00000-of-00001", *memory.Find("/m.data-00000-of-00001"));

  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, Open("s3://bucket/m"));
  ASSERT_OK_AND_ASSIGN(const auto read, reader.ReadAll());
  ASSERT_EQ(read.size(), tensors.size());
  for (const auto& [name, tensor] : read) {
    const Tensor& wanted = tensors[std::stoul(name)];
    ASSERT_EQ(tensor.num_elements(), wanted.num_elements()) << name;
    EXPECT_EQ(std::memcmp(tensor.data<uint8_t>(), wanted.data<uint8_t>(), wanted.TotalBytes()), 0) << name;
  }
  // The index; the data file, and whether the index was replaced meanwhile; its 256 MiB and 64 KiB, of which the last
  // 64 KiB came when it was opened, in as many long pieces as there are connections.
  EXPECT_EQ(CountOf("open"), 2u);
  EXPECT_EQ(CountOf("head"), 1u);
  EXPECT_EQ(CountOf("read"), 16u);
  EXPECT_EQ(count(), 19u);

  Forget();
  ASSERT_OK_AND_ASSIGN(const CheckpointReader again, Open("s3://bucket/m"));
  ASSERT_OK_AND_ASSIGN(const CheckpointCounts counts,
                       again.VerifyAll([](const CheckpointDamage& damage) { ADD_FAILURE() << damage.status; }));
  EXPECT_EQ(counts.whole, 128);
  // Also the size of the data file, and the index once more at the end.
  EXPECT_LE(count(), 37u) << ::testing::PrintToString(Purposes());
}

// Requests that wait for one another, a minute at most.
class AllAtOnce {
 public:
  explicit AllAtOnce(int count) : missing_(count) {}

  void Arrive() {
    std::unique_lock<std::mutex> lock(mutex_);
    --missing_;
    changed_.notify_all();
    changed_.wait_for(lock, std::chrono::minutes(1), [&] { return missing_ <= 0; });
    all_came_ &= missing_ <= 0;
  }
  bool all_came() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return all_came_ && missing_ <= 0;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int missing_;
  bool all_came_ = true;
};

// Each of four processes wrote its rows of eight tensors to a data file of its own.
TEST_F(Requests, OfTensorsInPieces) {
  constexpr int kFiles = 4;
  constexpr int64_t kRows = 256;
  constexpr int64_t kColumns = 1024;
  MemoryFileSystem memory;
  CheckpointWriterOptions options;
  options.file_system = &memory;
  options.num_shards = kFiles;
  ASSERT_OK_AND_ASSIGN(CheckpointWriter writer, CheckpointWriter::Create("/m", options));
  std::vector<Tensor> tensors;
  for (uint32_t i = 0; i < 8; ++i) {
    tensors.push_back(*PatternTensor(kFiles * kRows * kColumns, i).Reshape({kFiles * kRows, kColumns}));
    for (int file = 0; file < kFiles; ++file) {
      ASSERT_OK_AND_ASSIGN(const TensorSlice rows, TensorSlice::Parse(absl::StrCat(file * kRows, ",", kRows, ":-")));
      ASSERT_OK_AND_ASSIGN(const TensorView part, TensorView(tensors.back()).Slice(rows));
      CheckpointAddOptions add;
      add.shard = file;
      ASSERT_OK(writer.AddSlice(absl::StrCat("t", i), tensors.back().shape(), rows, part, add));
    }
  }
  ASSERT_OK(writer.Finish());
  for (const std::string& path : memory.Paths()) server_.Put("bucket" + path, *memory.Find(path));

  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, Open("s3://bucket/m"));
  AllAtOnce opened(kFiles);
  server_.LieAlways([&](Exchange* exchange) {
    if (absl::StrContains(exchange->request.path, ".data-") && exchange->request.Kind() == "open") opened.Arrive();
    exchange->Work();
  });
  ASSERT_OK_AND_ASSIGN(const auto read, reader.ReadAll());
  EXPECT_TRUE(opened.all_came()) << "the data files are opened at the same time";
  server_.TellTheTruth();
  ASSERT_EQ(read.size(), tensors.size());
  for (size_t i = 0; i < read.size(); ++i) {
    EXPECT_EQ(std::memcmp(read[i].tensor.data<uint8_t>(), tensors[i].data<uint8_t>(), tensors[i].TotalBytes()), 0) << i;
  }
  // Of each data file 2 MiB, of which the last 64 KiB came when it was opened.
  EXPECT_EQ(CountOf("read"), 4u);
  EXPECT_EQ(CountOf("open"), 1u + kFiles);

  // A tensor alone: a piece of each file. The rows of two files: those, and no others.
  Forget();
  ASSERT_OK_AND_ASSIGN(const Tensor alone, reader.Read("t3"));
  EXPECT_EQ(std::memcmp(alone.data<uint8_t>(), tensors[3].data<uint8_t>(), alone.TotalBytes()), 0);
  EXPECT_EQ(CountOf("read"), 4u);
  EXPECT_EQ(bytes(), tensors[3].TotalBytes());
  Forget();
  ASSERT_OK_AND_ASSIGN(const TensorSlice middle, TensorSlice::Parse("128,256:-"));
  ASSERT_OK_AND_ASSIGN(const Tensor part, reader.ReadSlice("t3", middle));
  EXPECT_EQ(std::memcmp(part.data<uint8_t>(), tensors[3].data<uint8_t>() + 128 * kColumns, part.TotalBytes()), 0);
  EXPECT_EQ(CountOf("read"), 2u);
  EXPECT_EQ(bytes(), part.TotalBytes());
}

TEST_F(Requests, OpeningAndTheFirstReadsAreOneRoundTrip) {
  std::vector<Tensor> tensors;
  for (uint32_t i = 0; i < 5; ++i) tensors.push_back(PatternTensor(4 << 20, i));
  MemoryFileSystem memory;
  ASSERT_OK(SaveCheckpoint(&memory, "/m", tensors));
  const std::string data = *memory.Find("/m.data-00000-of-00001");
  const std::string data_path = "bucket/m.data-00000-of-00001";
  server_.Put("bucket/m.index", *memory.Find("/m.index"));
  server_.Put(data_path, data);
  const auto is_of_data = [&](Exchange* exchange, const char* kind) {
    return exchange->request.path == data_path && exchange->request.Kind() == kind;
  };

  AllAtOnce together(4);  // the request that opens the data file, and the reads of its 20 MiB
  server_.LieAlways([&](Exchange* exchange) {
    if (is_of_data(exchange, "open") || is_of_data(exchange, "read")) together.Arrive();
    exchange->Work();
  });
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, Open("s3://bucket/m"));
  ASSERT_OK_AND_ASSIGN(const auto read, reader.ReadAll());
  EXPECT_TRUE(together.all_came());
  EXPECT_THAT(Purposes(), UnorderedElementsAre("open", "open", "head", "read", "read", "read"));
  for (size_t i = 0; i < read.size(); ++i) {
    EXPECT_EQ(std::memcmp(read[i].tensor.data<uint8_t>(), tensors[i].data<uint8_t>(), 4 << 20), 0) << i;
  }

  // Few connections: the reads leave their places to what they wait for.
  server_.TellTheTruth();
  for (const int connections : {2, 3}) {
    ObjectStoreOptions options = OptionsFor(server_);
    options.connections = connections;
    const std::unique_ptr<ObjectStore> store = StoreFor(options);
    CheckpointReaderOptions read_options;
    read_options.read.file_system = store->files();
    ASSERT_OK_AND_ASSIGN(const CheckpointReader again, CheckpointReader::Open("s3://bucket/m", read_options));
    ASSERT_OK(again.ReadAll().status());
  }

  // What is wrong with the file is said as when it is opened first.
  server_.Put(data_path, data.substr(0, 18 << 20));
  EXPECT_THAT((*Open("s3://bucket/m")).ReadAll().status(),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("has 18874368 bytes; 4194304 at 16777216 are wanted")));
  server_.LieAlways([&](Exchange* exchange) {
    exchange->request.path == data_path ? exchange->Fail(404, "NoSuchKey") : exchange->Work();
  });
  EXPECT_THAT((*Open("s3://bucket/m")).ReadAll().status(),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("though the index names it")));
  // It is replaced after it was opened and before it is read.
  server_.Put(data_path, data);
  const std::string other = PatternBytes(data.size(), 9);
  server_.LieAlways([&](Exchange* exchange) {
    if (is_of_data(exchange, "read")) server_.Put(data_path, other);
    exchange->Work();
  });
  const absl::Status replaced = (*Open("s3://bucket/m")).ReadAll().status();
  EXPECT_TRUE(absl::IsAborted(replaced) || absl::IsDataLoss(replaced)) << replaced;
  server_.TellTheTruth();
}

// A file of each of six processes: all of them are fetched at the same time, not one after the other.
TEST_F(Requests, OfAllTensorsOfSeveralFiles) {
  constexpr int kFiles = 6;
  MemoryFileSystem memory;
  CheckpointWriterOptions options;
  options.file_system = &memory;
  options.num_shards = kFiles;
  ASSERT_OK_AND_ASSIGN(CheckpointWriter writer, CheckpointWriter::Create("/m", options));
  std::vector<Tensor> tensors;
  for (uint32_t i = 0; i < kFiles; ++i) {
    tensors.push_back(PatternTensor(1 << 20, i));
    CheckpointAddOptions add;
    add.shard = static_cast<int>(i);
    ASSERT_OK(writer.Add(absl::StrCat("t", i), tensors.back(), add));
  }
  ASSERT_OK(writer.Finish());
  for (const std::string& path : memory.Paths()) server_.Put("bucket" + path, *memory.Find(path));

  for (const bool by_archive : {false, true}) {
    SCOPED_TRACE(by_archive);
    AllAtOnce opened(kFiles);
    AllAtOnce read(kFiles);
    ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, Open("s3://bucket/m"));
    const CheckpointArchiveFormat format;
    ArchiveReaderOptions read_options;
    read_options.read.file_system = store_->files();
    ASSERT_OK_AND_ASSIGN(const auto archive, OpenArchive("s3://bucket/m", {&format}, read_options));
    server_.LieAlways([&](Exchange* exchange) {
      const bool is_data = absl::StrContains(exchange->request.path, ".data-");
      if (is_data && exchange->request.Kind() == "open") opened.Arrive();
      if (is_data && exchange->request.Kind() == "read") read.Arrive();
      exchange->Work();
    });
    std::vector<Tensor> loaded;
    if (by_archive) {
      std::vector<const ArchiveEntry*> entries;
      for (const ArchiveEntry& entry : archive->entries()) entries.push_back(&entry);
      ASSERT_OK_AND_ASSIGN(loaded, LoadTensors(*archive, entries, {}));
    } else {
      ASSERT_OK_AND_ASSIGN(const auto named, reader.ReadAll());
      for (const auto& [name, tensor] : named) loaded.push_back(tensor);
    }
    EXPECT_TRUE(opened.all_came());
    EXPECT_TRUE(read.all_came());
    ASSERT_EQ(loaded.size(), tensors.size());
    for (size_t i = 0; i < loaded.size(); ++i) {
      EXPECT_EQ(std::memcmp(loaded[i].data<uint8_t>(), tensors[i].data<uint8_t>(), 1 << 20), 0) << i;
    }
    server_.TellTheTruth();
  }
}

TEST_F(Requests, OfATensorInPiecesOfOneFile) {
  constexpr int64_t kRows = 64;
  constexpr int64_t kColumns = 8192;
  MemoryFileSystem memory;
  CheckpointWriterOptions options;
  options.file_system = &memory;
  ASSERT_OK_AND_ASSIGN(CheckpointWriter writer, CheckpointWriter::Create("/m", options));
  const Tensor tensor = *PatternTensor(16 * kRows * kColumns).Reshape({16 * kRows, kColumns});
  for (int piece = 0; piece < 16; ++piece) {
    ASSERT_OK_AND_ASSIGN(const TensorSlice rows, TensorSlice::Parse(absl::StrCat(piece * kRows, ",", kRows, ":-")));
    ASSERT_OK_AND_ASSIGN(const TensorView part, TensorView(tensor).Slice(rows));
    ASSERT_OK(writer.AddSlice("t", tensor.shape(), rows, part));
  }
  ASSERT_OK(writer.Add("behind", PatternTensor(1 << 20)));  // the pieces do not lie in the end that opening brings
  ASSERT_OK(writer.Finish());
  for (const std::string& path : memory.Paths()) server_.Put("bucket" + path, *memory.Find(path));
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, Open("s3://bucket/m"));
  Forget();
  ASSERT_OK_AND_ASSIGN(const Tensor read, reader.Read("t"));
  EXPECT_EQ(std::memcmp(read.data<uint8_t>(), tensor.data<uint8_t>(), tensor.TotalBytes()), 0);
  EXPECT_THAT(Purposes(), UnorderedElementsAre("open", "head", "read")) << "16 pieces of 512 KiB are 8 MiB";
}

TEST_F(Requests, OfDeflatedArrays) {
  MemoryFileSystem memory;
  NpzWriterOptions options;
  options.file_system = &memory;
  options.deflate_level = 1;
  ASSERT_OK_AND_ASSIGN(NpzWriter writer, NpzWriter::Create("/m.npz", options));
  std::vector<Tensor> tensors;
  for (uint32_t i = 0; i < 6; ++i) {
    Tensor tensor = PatternTensor(i < 3 ? 3 << 20 : 1000, i);
    for (int64_t k = 0; k < tensor.num_elements(); ++k) tensor.mutable_data<uint8_t>()[k] &= 0x0f;
    ASSERT_OK(writer.Add(absl::StrCat("t", i), tensor));
    tensors.push_back(std::move(tensor));
  }
  ASSERT_OK(writer.Finish());
  const std::string file = *memory.Find("/m.npz");
  ASSERT_GT(file.size(), 4 * kMebibyte);
  ASSERT_LT(file.size(), 6 * kMebibyte);
  server_.Put("bucket/m.npz", file);

  NpyReaderOptions read_options;
  read_options.read.file_system = store_->files();
  ASSERT_OK_AND_ASSIGN(const NpzReader reader, NpzReader::Open("s3://bucket/m.npz", read_options));
  Forget();
  ASSERT_OK_AND_ASSIGN(const Tensor alone, reader.Read("t0"));
  EXPECT_EQ(std::memcmp(alone.data<uint8_t>(), tensors[0].data<uint8_t>(), alone.TotalBytes()), 0);
  EXPECT_THAT(Purposes(), ElementsAre("read")) << "a member of more than a MiB is inflated in steps, and read at once";
  Forget();
  ASSERT_OK_AND_ASSIGN(const auto read, reader.ReadAll());
  ASSERT_EQ(read.size(), tensors.size());
  for (size_t i = 0; i < read.size(); ++i) {
    EXPECT_EQ(std::memcmp(read[i].tensor.data<uint8_t>(), tensors[i].data<uint8_t>(), tensors[i].TotalBytes()), 0) << i;
  }
  EXPECT_THAT(Purposes(), ElementsAre("read"));
  EXPECT_LE(bytes(), file.size());

  // By the archive, as the tool and Python read.
  Forget();
  ArchiveReaderOptions archive_options;
  archive_options.read.file_system = store_->files();
  const NpzArchiveFormat npz;
  ASSERT_OK_AND_ASSIGN(const auto archive, OpenArchive("s3://bucket/m.npz", {&npz}, archive_options));
  const size_t to_open = count();
  std::vector<const ArchiveEntry*> entries;
  for (const ArchiveEntry& entry : archive->entries()) entries.push_back(&entry);
  ASSERT_OK(LoadTensors(*archive, entries, {}).status());
  EXPECT_EQ(count(), to_open + 1);
}

// Whether a file is there is asked with HEAD, whose answer has no text.
TEST_F(Requests, WhatIsMissingIsExplainedByTheStore) {
  server_.LieAlways([](Exchange* exchange) { exchange->Fail(404, "NoSuchBucket"); });
  ArchiveReaderOptions options;
  options.read.file_system = store_->files();
  const NpzArchiveFormat npz;
  for (const char* path : {"s3://nowhere/m.npz", "s3://nowhere/run/m.npz", "s3://nowhere/run/m"}) {
    SCOPED_TRACE(path);
    const absl::Status status = OpenArchive(path, {&npz}, options).status();
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kNotFound, HasSubstr(path)));
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kNotFound, HasSubstr("\"NoSuchBucket\": \"as a test asked\"")));
  }
}

TEST_F(Requests, OfStoredArrays) {
  MemoryFileSystem memory;
  NpzWriterOptions options;
  options.file_system = &memory;
  ASSERT_OK_AND_ASSIGN(NpzWriter writer, NpzWriter::Create("/m.npz", options));
  for (uint32_t i = 0; i < 8; ++i) ASSERT_OK(writer.Add(absl::StrCat("t", i), PatternTensor(2 << 20, i)));
  ASSERT_OK(writer.Finish());
  const std::string file = *memory.Find("/m.npz");
  server_.Put("bucket/m.npz", file);
  for (const bool verify : {true, false}) {
    SCOPED_TRACE(verify);
    ArchiveReaderOptions archive_options;
    archive_options.read.file_system = store_->files();
    archive_options.verify_checksums = verify;
    const NpzArchiveFormat npz;
    ASSERT_OK_AND_ASSIGN(const auto archive, OpenArchive("s3://bucket/m.npz", {&npz}, archive_options));
    std::vector<const ArchiveEntry*> entries;
    for (const ArchiveEntry& entry : archive->entries()) entries.push_back(&entry);
    Forget();
    ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> tensors, LoadTensors(*archive, entries, {}));
    ASSERT_EQ(tensors.size(), 8u);
    EXPECT_THAT(Purposes(), ElementsAre("read", "read")) << "16 MiB";
    EXPECT_LE(bytes(), file.size());
    for (uint32_t i = 0; i < 8; ++i) {
      const Tensor wanted = PatternTensor(2 << 20, i);
      EXPECT_EQ(std::memcmp(tensors[i].data<uint8_t>(), wanted.data<uint8_t>(), wanted.TotalBytes()), 0) << i;
    }
  }
}

TEST_F(Requests, OfASafetensorsFile) {
  MemoryFileSystem memory;
  SafetensorsWriterOptions options;
  options.file_system = &memory;
  ASSERT_OK_AND_ASSIGN(SafetensorsWriter writer, SafetensorsWriter::Create("/m.safetensors", options));
  std::map<std::string, Tensor> tensors;
  for (uint32_t i = 0; i < 40; ++i) tensors[absl::StrCat("t", i)] = PatternTensor(i % 2 == 0 ? 1 << 20 : 1 << 10, i);
  for (const auto& [name, tensor] : tensors) ASSERT_OK(writer.Add(name, tensor));
  ASSERT_OK(writer.Finish());
  server_.Put("bucket/m.safetensors", *memory.Find("/m.safetensors"));

  SafetensorsReaderOptions read_options;
  read_options.read.file_system = store_->files();
  ASSERT_OK_AND_ASSIGN(const auto reader, SafetensorsReader::Open("s3://bucket/m.safetensors", read_options));
  Forget();
  ASSERT_OK_AND_ASSIGN(const auto read, reader.ReadAll());
  ASSERT_EQ(read.size(), tensors.size());
  for (const auto& [name, tensor] : read) {
    EXPECT_EQ(std::memcmp(tensor.data<uint8_t>(), tensors[name].data<uint8_t>(), tensors[name].TotalBytes()), 0)
        << name;
  }
  EXPECT_THAT(Purposes(), ElementsAre("read", "read", "read")) << "20 MiB in pieces of 8 MiB";
}

TEST_F(Requests, OfASave) {
  // Beside the parts: three questions whether the names are free and one for a folder, creating and completing the
  // upload, and the index. A data file of one part is one request. Where the folder has no objects, its name might be
  // that of one, which is one more question.
  for (const int64_t mebibytes : {1, 20, 100}) {
    SCOPED_TRACE(mebibytes);
    Forget();
    const std::string path = absl::StrCat("s3://bucket/run/step-", mebibytes);
    ASSERT_OK(SaveCheckpoint(store_->files(), path, {PatternTensor(mebibytes << 20)}));
    const std::string data = server_.Get(absl::StrCat("bucket/run/step-", mebibytes, ".data-00000-of-00001"));
    EXPECT_EQ(data.size(), static_cast<uint64_t>(mebibytes) << 20);
    const uint64_t part_bytes = 16 * kMebibyte;  // no size is announced
    const uint64_t parts = (data.size() + part_bytes - 1) / part_bytes;
    EXPECT_EQ(CountOf("part"), parts == 1 ? 0 : parts);
    const size_t of_new_folder = mebibytes == 1 ? 1 : 0;
    EXPECT_EQ(count(), (parts == 1 ? 6 : parts + 7) + of_new_folder) << ::testing::PrintToString(Purposes());
  }
}

}  // namespace
}  // namespace tensorcask
