// The parts of serialize/archive: blocks, reading ahead, recognition, conversion.

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/archive/archive.h"
#include "tensorcask/serialize/archive/compare_archives.h"
#include "tensorcask/serialize/archive/convert_archives.h"
#include "tensorcask/serialize/archive/dtype_rule.h"
#include "tensorcask/serialize/archive/formats/all_formats.h"
#include "tensorcask/serialize/archive/formats/records_format.h"
#include "tensorcask/serialize/archive/formats/tensorproto_format.h"
#include "tensorcask/serialize/archive/internal/block_plan.h"
#include "tensorcask/serialize/archive/internal/read_ahead.h"
#include "tensorcask/serialize/archive/save_load.h"
#include "tensorcask/serialize/archive/similar_names.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string TempPath(const std::string& name) {
  return absl::StrCat(::testing::TempDir(), "/archive_test_", getpid(), "_", name);
}

Tensor Floats(int64_t rows, int64_t columns) {
  Tensor tensor = *Tensor::Create(DType::kFloat32, TensorShape({rows, columns}));
  float* const data = tensor.mutable_data<float>();
  for (int64_t i = 0; i < rows * columns; ++i) data[i] = static_cast<float>(i) * 0.5F - 3;
  return tensor;
}

// ---- Blocks ---------------------------------------------------------------------------------------------------------

std::vector<std::string> Blocks(const TensorShape& shape, size_t element_size, uint64_t block_bytes) {
  archive::BlockPlan plan(shape, element_size, block_bytes);
  std::vector<std::string> blocks;
  while (const std::optional<TensorSlice> slice = plan.Next()) blocks.push_back(slice->ToString());
  return blocks;
}

TEST(BlockPlan, CutsRows) {
  EXPECT_THAT(Blocks(TensorShape({5, 4}), 4, 32), ElementsAre("0,2:-", "2,2:-", "4,1:-"));
  EXPECT_THAT(Blocks(TensorShape({5, 4}), 4, 80), ElementsAre("-:-"));
  EXPECT_THAT(Blocks(TensorShape({2, 5}), 4, 12), ElementsAre("0,1:0,3", "0,1:3,2", "1,1:0,3", "1,1:3,2"));
  EXPECT_THAT(Blocks(TensorShape({2, 2, 1}), 8, 1), ElementsAre("0,1:0,1:-", "0,1:1,1:-", "1,1:0,1:-", "1,1:1,1:-"));
  EXPECT_THAT(Blocks(TensorShape({0, 1000000}), 4, 1), ElementsAre("-:-"));
  EXPECT_THAT(Blocks(TensorShape(), 4, 1), ElementsAre(""));
}

TEST(BlockPlan, CoversEachElementOnceInOrder) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    std::vector<int64_t> dims(1 + random() % 4);
    for (int64_t& dim : dims) dim = 1 + random() % 5;
    const TensorShape shape = *TensorShape::Create(dims);
    const uint64_t block_bytes = 1 + random() % 64;
    Tensor numbers = *Tensor::Create(DType::kInt32, shape);
    for (int32_t i = 0; i < shape.num_elements(); ++i) numbers.mutable_data<int32_t>()[i] = i;
    archive::BlockPlan plan(shape, 4, block_bytes);
    int32_t next = 0;
    while (const std::optional<TensorSlice> slice = plan.Next()) {
      const Tensor block = *TensorView(numbers).Slice(*slice)->ToTensor();
      EXPECT_LE(block.num_elements(), std::max<int64_t>(1, static_cast<int64_t>(block_bytes / 4)));
      for (int64_t i = 0; i < block.num_elements(); ++i) EXPECT_EQ(block.data<int32_t>()[i], next++);
    }
    EXPECT_EQ(next, shape.num_elements());
  }
}

// ---- Reading ahead --------------------------------------------------------------------------------------------------

TEST(ReadAhead, KeepsTheOrderAndStopsAtTheFirstError) {
  for (const int num_threads : {1, 2, 5}) {
    SCOPED_TRACE(num_threads);
    const auto produce = [](size_t job, archive::ReadAhead::Emit emit) -> absl::Status {
      for (uint64_t i = 0; i < job % 4; ++i) {
        archive::ReadPiece piece;
        piece.slice = TensorSlice::Full(1);
        piece.bytes = 10 * job + i;
        CASK_RETURN_IF_ERROR(emit(std::move(piece)));
      }
      return job == 90 ? absl::DataLossError("90") : absl::OkStatus();
    };
    std::vector<uint64_t> seen;
    archive::ReadAhead ahead(100, /*max_bytes=*/50, produce);
    const absl::Status status = ahead.Run(num_threads, [&](size_t job, archive::ReadPiece piece) {
      EXPECT_EQ(piece.bytes / 10, job);
      seen.push_back(piece.bytes);
      return absl::OkStatus();
    });
    EXPECT_EQ(status.message(), "90");
    std::vector<uint64_t> wanted;
    for (uint64_t job = 0; job <= 90; ++job) {
      for (uint64_t i = 0; i < job % 4; ++i) wanted.push_back(10 * job + i);
    }
    EXPECT_EQ(seen, wanted);

    archive::ReadAhead other(100, /*max_bytes=*/50, produce);
    EXPECT_EQ(other
                  .Run(num_threads,
                       [&](size_t job, const archive::ReadPiece&) {
                         return job == 7 ? absl::CancelledError("7") : absl::OkStatus();
                       })
                  .message(),
              "7");
  }
}

// The consumer leaves jobs of several pieces to another thread, if there is one.
TEST(ReadAhead, ReadsJobsOfSeveralPiecesOnAnotherThread) {
  constexpr size_t kJobs = 7;
  for (const int num_threads : {1, 2, 3}) {
    SCOPED_TRACE(num_threads);
    std::vector<std::thread::id> readers(kJobs);
    const auto produce = [&](size_t job, archive::ReadAhead::Emit emit) -> absl::Status {
      readers[job] = std::this_thread::get_id();
      for (int i = 0; i < 5; ++i) {
        archive::ReadPiece piece;
        piece.slice = TensorSlice::Full(1);
        piece.bytes = 30;
        CASK_RETURN_IF_ERROR(emit(std::move(piece)));
      }
      return absl::OkStatus();
    };
    archive::ReadAhead ahead(kJobs, /*max_bytes=*/50, produce, [](size_t) { return true; });
    std::thread::id consumer;
    size_t pieces = 0;
    ASSERT_OK(ahead.Run(num_threads, [&](size_t job, const archive::ReadPiece& piece) {
      consumer = std::this_thread::get_id();
      EXPECT_EQ(job, pieces / 5);
      EXPECT_EQ(piece.bytes, 30);
      ++pieces;
      return absl::OkStatus();
    }));
    EXPECT_EQ(pieces, 5 * kJobs);
    const auto by_consumer = static_cast<size_t>(std::count(readers.begin(), readers.end(), consumer));
    if (num_threads == 1) {
      EXPECT_EQ(by_consumer, kJobs);
    } else {
      EXPECT_LT(by_consumer, kJobs);  // not 0: another thread may start late
    }
  }
}

// Millions of tensors may have no elements: what describes them takes memory, too.
TEST(ReadAhead, EmptyTensorsAreNotReadFarAhead) {
  constexpr size_t kJobs = 1000;
  std::atomic<size_t> num_read{0};
  const auto produce = [&](size_t, archive::ReadAhead::Emit emit) {
    ++num_read;
    return emit(archive::ReadPiece());
  };
  archive::ReadAhead ahead(kJobs, /*max_bytes=*/64 << 10, produce);
  ASSERT_OK(ahead.Run(/*num_threads=*/3, [&](size_t job, const archive::ReadPiece&) {
    if (job == 0) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    EXPECT_LE(num_read, job + 20);
    return absl::OkStatus();
  }));
  EXPECT_EQ(num_read, kJobs);
}

// ---- Names ----------------------------------------------------------------------------------------------------------

TEST(DidYouMean, FindsTheNearestName) {
  const std::vector<absl::string_view> names = {"dense/kernel", "dense/bias", "conv/kernel"};
  EXPECT_EQ(archive::DidYouMean("dense/kernl", names), "; did you mean \"dense/kernel\"?");
  EXPECT_EQ(archive::DidYouMean("dnese/bias", names), "; did you mean \"dense/bias\"?");
  EXPECT_EQ(archive::DidYouMean("bias", names), "; did you mean \"dense/bias\"?");
  EXPECT_EQ(archive::DidYouMean("something", names), "");
  EXPECT_EQ(archive::DidYouMean("dens", names), "; 2 names contain it: \"dense/kernel\", \"dense/bias\"");
  EXPECT_EQ(archive::DidYouMean("conv", names), "; did you mean \"conv/kernel\"?");
  EXPECT_EQ(archive::DidYouMean("en", names), "");  // too short to mean something
  const std::vector<absl::string_view> many = {"a/conv2d/0", "a/conv2d/1", "a/conv2d/2", "a/conv2d/3"};
  EXPECT_EQ(archive::DidYouMean("conv2d", many),
            "; 4 names contain it: \"a/conv2d/0\", \"a/conv2d/1\", \"a/conv2d/2\", ...");
  EXPECT_EQ(archive::DidYouMean("", names), "");
}

TEST(HintForPattern, NamesAPatternThatMatches) {
  const std::vector<absl::string_view> names = {"a/conv2d/0", "a/conv2d/1", "a/conv2d/2", "a/conv2d/3", "dense/bias"};
  const std::string four = "; \"*conv2d*\" matches 4: \"a/conv2d/0\", \"a/conv2d/1\", \"a/conv2d/2\", ...";
  EXPECT_EQ(archive::HintForPattern("conv2d", names), four);
  EXPECT_EQ(archive::HintForPattern("conv2d*", names), four);
  EXPECT_EQ(archive::HintForPattern("b?[a-z]conv2d", names), four);
  EXPECT_EQ(archive::HintForPattern("bias", names), "; did you mean \"dense/bias\"?");
  EXPECT_EQ(archive::HintForPattern("bias*", names), "; did you mean \"dense/bias\"?");
  EXPECT_EQ(archive::HintForPattern("dense/bais", names), "; did you mean \"dense/bias\"?");
  EXPECT_EQ(archive::HintForPattern("x*", names), "");
  EXPECT_EQ(archive::HintForPattern("", names), "");
}

TEST(FormatForName, GoesByTheExtension) {
  const AllFormats formats;
  const auto name = [&](absl::string_view path) {
    const absl::StatusOr<const ArchiveFormat*> format = FormatForName(path, formats.list());
    return format.ok() ? std::string((*format)->name()) : std::string(format.status().message());
  };
  EXPECT_EQ(name("x.pb"), "tensorproto");
  EXPECT_EQ(name("a.b/x.TFRecord"), "records");
  EXPECT_EQ(name("x.pt"), "torch");
  for (const char* path : {"x", "a.bin/x", "x.ckpt", "x.ckpt-7", "x.index", ".x", "x-1.5", "x."}) {
    EXPECT_EQ(name(path), "checkpoint") << path;
  }
  EXPECT_THAT(name("x.zarr"), HasSubstr("no known format"));
}

// ---- Conversion -----------------------------------------------------------------------------------------------------

absl::StatusOr<ConvertReport> ConvertAll(const ArchiveReader& from, const ArchiveFormat& format, const std::string& to,
                                         const ConvertOptions& options) {
  const ArchiveReader* const sources[] = {&from};
  CASK_ASSIGN_OR_RETURN(const ConversionPlan plan, PlanConversion(sources, format, options));
  CASK_ASSIGN_OR_RETURN(const std::unique_ptr<ArchiveWriter> writer, CreateArchive(to, format));
  return RunConversion(plan, options, writer.get());
}

TEST(Convert, CopiesThereAndBack) {
  const AllFormats formats;
  const CheckpointArchiveFormat checkpoint;
  const RecordsArchiveFormat records;
  const std::string first = TempPath("first");
  {
    const std::unique_ptr<ArchiveWriter> writer = *CreateArchive(first, checkpoint);
    for (int i = 0; i < 20; ++i) {
      ArchiveEntry entry;
      entry.name = absl::StrCat("w", i);
      DecodedTensor tensor;
      tensor.view = Floats(i, 100);
      ASSERT_OK(writer->Add(entry, tensor));
    }
    ASSERT_OK(writer->Finish());
    EXPECT_GT(writer->file_bytes(), 190U * 400U);
  }
  const std::unique_ptr<ArchiveReader> one = *OpenArchive(first, formats.list());
  EXPECT_EQ(one->format(), "checkpoint");
  for (const int num_threads : {1, 3}) {
    const std::string second = TempPath(absl::StrCat("second", num_threads, ".tfrecord"));
    ConvertOptions options;
    options.num_threads = num_threads;
    options.block_bytes = 1000;
    ASSERT_OK(ConvertAll(*one, records, second, options).status());
    const std::unique_ptr<ArchiveReader> two = *OpenArchive(second, formats.list());
    EXPECT_EQ(two->format(), "records");
    for (const uint64_t block_bytes : {1000, 1 << 20}) {
      CompareOptions compare;
      compare.block_bytes = block_bytes;
      const absl::StatusOr<CompareReport> report = Compare(*one, *two, compare);
      ASSERT_OK(report.status());
      EXPECT_EQ(report->equal, 20);
      EXPECT_TRUE(report->differences.empty());
    }
  }
}

TEST(Convert, BlocksOfADamagedTensorAreAnError) {
  const AllFormats formats;
  const CheckpointArchiveFormat checkpoint;
  const std::string path = TempPath("damaged");
  const std::unique_ptr<ArchiveWriter> writer = *CreateArchive(path, checkpoint);
  ArchiveEntry entry;
  entry.name = "w";
  DecodedTensor tensor;
  tensor.view = Floats(100, 100);
  ASSERT_OK(writer->Add(entry, tensor));
  ASSERT_OK(writer->Finish());
  FILE* const file = fopen((path + ".data-00000-of-00001").c_str(), "r+b");
  ASSERT_NE(file, nullptr);
  fseek(file, 39000, SEEK_SET);
  fputc(0x7f, file);
  fclose(file);
  const std::unique_ptr<ArchiveReader> reader = *OpenArchive(path, formats.list());
  const std::unique_ptr<TensorBlocks> blocks = *reader->ReadBlocks(reader->entries()[0], 4000);
  absl::Status status;
  int count = 0;
  while (status.ok()) {
    const absl::StatusOr<std::optional<TensorBlock>> block = blocks->Next();
    status = block.status();
    if (block.ok() && !block->has_value()) break;
    ++count;
  }
  EXPECT_EQ(count, 11);
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("checksum"));
}

// The reader verifies a tensor once. Blocks that are read later have a checksum of their own to meet.
TEST(Convert, BlocksOfATensorThatIsDamagedAfterItWasVerifiedAreAnError) {
  const AllFormats formats;
  const std::vector<std::pair<std::string, std::string>> targets = {{"late", ".data-00000-of-00001"},
                                                                    {"late.safetensors", ""}};
  for (const auto& [name, suffix] : targets) {
    SCOPED_TRACE(name);
    const std::string path = TempPath(name);
    const std::unique_ptr<ArchiveWriter> writer = *CreateArchive(path, **FormatForName(path, formats.list()));
    ArchiveEntry entry;
    entry.name = "w";
    entry.dtype = DType::kFloat32;
    entry.shape = TensorShape({100, 100});
    entry.stored_bytes = 40000;
    ASSERT_OK(writer->Declare(entry));
    DecodedTensor tensor;
    tensor.view = Floats(100, 100);
    ASSERT_OK(writer->Add(entry, tensor));
    ASSERT_OK(writer->Finish());
    const std::unique_ptr<ArchiveReader> reader = *OpenArchive(path, formats.list());
    ASSERT_OK(reader->Read("w").status());
    FILE* const file = fopen((path + suffix).c_str(), "r+b");
    ASSERT_NE(file, nullptr);
    fseek(file, 39000, SEEK_SET);
    fputc(0x7f, file);
    fclose(file);
    const std::unique_ptr<TensorBlocks> blocks = *reader->ReadBlocks(reader->entries()[0], 4000);
    absl::Status status;
    while (status.ok()) {
      const absl::StatusOr<std::optional<TensorBlock>> block = blocks->Next();
      status = block.status();
      if (block.ok() && !block->has_value()) break;
    }
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("checksum"));
  }
}

TEST(DTypeRule, TakesTheKindsThatItNames) {
  using Kinds = std::vector<DType>;
  const Kinds all = {DType::kBool,       DType::kInt64,     DType::kUint4, DType::kFloat32,
                     DType::kFloat4E2m1, DType::kComplex64, DType::kQint8, DType::kString};
  const Kinds numbers = {DType::kFloat32, DType::kFloat4E2m1, DType::kComplex64};
  for (const auto& [pattern, dtype, wanted] : std::vector<std::tuple<std::string, DType, Kinds>>{
           {"*", DType::kBfloat16, numbers},
           {"*", DType::kComplex128, numbers},
           {"*", DType::kInt8, all},
           {"*", DType::kBool, all},
           {"x*", DType::kInt8, {}},
           {"int:*", DType::kFloat32, {DType::kInt64, DType::kUint4}},
           {"float:*", DType::kInt8, {DType::kFloat32, DType::kFloat4E2m1}},
           {"complex:*", DType::kFloat32, {DType::kComplex64}},
           {"quantized:*", DType::kFloat32, {DType::kQint8}},
           {"bool:*", DType::kFloat32, {DType::kBool}},
           {"any:*", DType::kFloat32, all},
           {"any:int:*", DType::kFloat32, {}},
           {"w:*", DType::kInt8, {}}}) {
    SCOPED_TRACE(pattern);
    const DTypeRule rule = MakeDTypeRule(pattern, dtype);
    Kinds taken;
    for (const DType found : all) {
      if (rule.Takes("w", found)) taken.push_back(found);
    }
    EXPECT_EQ(taken, wanted);
  }
  const DTypeRule by_fields = {"*", DType::kFloat32};
  EXPECT_FALSE(by_fields.Takes("w", DType::kInt64));
}

TEST(DTypeRule, IntegersOfASmallerRangeMayChange) {
  for (const auto& [from, to, may_change] :
       std::vector<std::tuple<DType, DType, bool>>{{DType::kInt64, DType::kInt8, true},
                                                   {DType::kInt8, DType::kInt64, false},
                                                   {DType::kUint8, DType::kInt8, true},
                                                   {DType::kUint8, DType::kInt16, false},
                                                   {DType::kInt8, DType::kUint64, true},
                                                   {DType::kUint4, DType::kUint2, true},
                                                   {DType::kInt4, DType::kInt4, false},
                                                   {DType::kQint32, DType::kQint8, true},
                                                   {DType::kFloat64, DType::kFloat16, false},
                                                   {DType::kBool, DType::kBool, false},
                                                   {DType::kBool, DType::kInt8, true},
                                                   {DType::kFloat32, DType::kInt64, true}}) {
    EXPECT_EQ(MayChangeValues(from, to), may_change) << DTypeName(from) << " " << DTypeName(to);
  }
}

TEST(Convert, IntegersStayAndOtherMetadataIsRefused) {
  const AllFormats formats;
  const ArchiveFormat& safetensors = **FindFormat("safetensors", formats.list());
  std::vector<std::unique_ptr<ArchiveReader>> readers;
  for (const std::string name : {"a", "b"}) {
    ArchiveWriterOptions write;
    write.file_metadata = {{"step", name}, {"same", "x"}};
    std::vector<TensorToSave> tensors(2);
    tensors[0] = {absl::StrCat(name, "/step"), Tensor::FromValues<int64_t>({46900}), {}};
    tensors[1] = {absl::StrCat(name, "/w"), Tensor::FromValues<float>({1}), {}};
    const std::string path = TempPath(name + ".safetensors");
    ASSERT_OK(SaveTensors(path, safetensors, tensors, write).status());
    readers.push_back(*OpenArchive(path, formats.list()));
  }
  const ArchiveReader* const sources[] = {readers[0].get(), readers[1].get()};
  ConvertOptions options;
  options.dtypes = {{"*", DType::kBfloat16}};
  const absl::Status refused = PlanConversion(sources, safetensors, options).status();
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("the metadata \"step\" is \"b\"; that of "));
  options.set_metadata = {{"step", "c"}};
  const absl::StatusOr<ConversionPlan> plan = PlanConversion(sources, safetensors, options);
  ASSERT_OK(plan.status());
  EXPECT_TRUE(plan->losses.empty());
  EXPECT_EQ(plan->file_metadata.at("step"), "c");
  EXPECT_EQ(plan->file_metadata.at("same"), "x");
  for (const ConversionItem& item : plan->items) {
    EXPECT_EQ(item.dtype, item.from->dtype == DType::kInt64 ? DType::kInt64 : DType::kBfloat16);
  }
  options.dtypes = {MakeDTypeRule("int:*", DType::kFloat32)};
  options.set_metadata.clear();
  options.allow_loss = true;
  const absl::StatusOr<ConversionPlan> lossy = PlanConversion(sources, safetensors, options);
  ASSERT_OK(lossy.status());
  EXPECT_EQ(lossy->losses.size(), 3U);  // two tensors across kinds, one entry of the metadata
  EXPECT_EQ(lossy->file_metadata.at("step"), "a");
}

TEST(Convert, LossIsAnErrorUnlessAllowed) {
  // A format that holds nothing but row-major float32.
  class Poor final : public ArchiveFormat {
   public:
    absl::string_view name() const override { return "poor"; }
    std::vector<absl::string_view> extensions() const override { return {".poor"}; }
    ArchiveTraits traits() const override { return {}; }
    bool HoldsDType(DType dtype) const override { return dtype == DType::kFloat32; }
    bool Recognizes(const ArchiveProbe&) const override { return false; }
    absl::StatusOr<std::unique_ptr<ArchiveReader>> Open(const std::string&,
                                                        const ArchiveReaderOptions&) const override {
      return absl::UnimplementedError("");
    }
  };
  const AllFormats formats;
  const RecordsArchiveFormat records;
  const std::string path = TempPath("rich.tfrecord");
  const std::unique_ptr<ArchiveWriter> writer = *CreateArchive(path, records);
  const auto add = [&](const std::string& name, const TensorView& view, const TensorMetadata& metadata) {
    ArchiveEntry entry;
    entry.name = name;
    DecodedTensor tensor;
    tensor.view = view;
    tensor.metadata = metadata;
    ASSERT_OK(writer->Add(entry, tensor));
  };
  TensorMetadata tagged;
  tagged.attributes["unit"] = "m";
  add("columns", *TensorView(Floats(2, 3)).Transpose(0, 1), {});
  add("plain", Floats(2, 3), {});
  add("strings", *Tensor::Create(DType::kString, TensorShape({1})), {});
  add("tagged", Floats(1, 1), tagged);
  ASSERT_OK(writer->Finish());
  const std::unique_ptr<ArchiveReader> reader = *OpenArchive(path, formats.list());
  const ArchiveReader* const sources[] = {reader.get()};
  const Poor poor;
  for (const auto& [name, says] : std::vector<std::pair<std::string, std::string>>{
           {"columns", "has the strides [1,3]"}, {"strings", "is string"}, {"tagged", "has metadata"}}) {
    ConvertOptions options;
    options.include = {name};
    const absl::Status status = PlanConversion(sources, poor, options).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(says));
  }
  ConvertOptions options;
  options.allow_loss = true;
  const absl::StatusOr<ConversionPlan> plan = PlanConversion(sources, poor, options);
  ASSERT_OK(plan.status());
  EXPECT_EQ(plan->items.size(), 3U);
  EXPECT_EQ(plan->losses.size(), 3U);
}

}  // namespace
}  // namespace tensorcask
