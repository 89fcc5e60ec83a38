// Tensors that are added in blocks: the same files as whole tensors make, in little memory; or no checkpoint.

#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/checkpoint/checkpoint_writer.h"
#include "tensorcask/serialize/checkpoint/write/background_save.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/serialize/payload/payload_options.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/copy.h"
#include "tensorcask/tensor/strided/memory_format.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/serialize/checkpoint/checkpoint_testing.h"
#include "tensorcask/tests/support/discarding_file_system.h"
#include "tensorcask/tests/support/faulty_file_system.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::BytesOf;
using ::tensorcask::testing::CheckpointNamedTensor;
using ::tensorcask::testing::DiscardingFileSystem;
using ::tensorcask::testing::FaultyFileSystem;
using ::tensorcask::testing::StatusIs;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Code = absl::StatusCode;

Tensor Numbers(DType dtype, const TensorShape& shape) {
  Tensor tensor = *Tensor::Create(dtype, shape);
  const absl::Span<char> bytes = tensor.mutable_bytes();
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i % 251 % 127);
  return tensor;
}

// Adds `tensor` row-major, in blocks of at most `block` elements; one in three of them as a strided view.
absl::Status AddInBlocks(const std::string& name, const TensorView& tensor, int64_t block,
                         const CheckpointAddOptions& options, CheckpointWriter* writer) {
  CASK_RETURN_IF_ERROR(writer->BeginTensor(name, tensor.dtype(), tensor.shape(), options));
  CASK_ASSIGN_OR_RETURN(const TensorView dense, tensor.Contiguous());
  CASK_ASSIGN_OR_RETURN(const TensorView flat, dense.Reshape({tensor.num_elements()}));
  int64_t number = 0;
  for (int64_t start = 0; start < tensor.num_elements(); start += block, ++number) {
    const int64_t count = std::min(block, tensor.num_elements() - start);
    CASK_ASSIGN_OR_RETURN(TensorView part, flat.Slice(0, start, start + count));
    if (number % 3 == 2) {  // every second element of memory
      CASK_ASSIGN_OR_RETURN(const Tensor wide, Tensor::Create(tensor.dtype(), TensorShape({count, 2})));
      CASK_ASSIGN_OR_RETURN(TensorView strided, TensorView(wide).AsStrided({count}, {2}, 0));
      CASK_RETURN_IF_ERROR(Copy(part, &strided));
      part = strided;
    }
    CASK_RETURN_IF_ERROR(writer->AddBlock(part));
  }
  return absl::OkStatus();
}

std::vector<CheckpointNamedTensor> Samples() {
  std::vector<CheckpointNamedTensor> samples;
  for (const DType dtype : {DType::kFloat32, DType::kInt8, DType::kComplex128, DType::kBfloat16, DType::kFloat8E4m3fn,
                            DType::kFloat8E8m0fnu}) {
    samples.push_back({absl::StrCat("of/", DTypeName(dtype)), Numbers(dtype, TensorShape({7, 30})),
                       static_cast<int>(samples.size() % 2)});
  }
  samples.push_back({"large", Numbers(DType::kFloat32, TensorShape({3, 200000})), 1});
  samples.push_back({"none", Numbers(DType::kFloat32, TensorShape({0, 5})), 0});
  samples.push_back({"one", Numbers(DType::kInt64, TensorShape()), 1});
  return samples;
}

absl::Status SaveSamples(const CheckpointWriterOptions& options, int64_t block) {  // 0: whole
  CASK_ASSIGN_OR_RETURN(CheckpointWriter writer, CheckpointWriter::Create("/m", options));
  for (const CheckpointNamedTensor& sample : Samples()) {
    CheckpointAddOptions add;
    add.shard = sample.shard % options.num_shards;
    if (sample.name == "large") add.metadata.attributes["unit"] = "m";
    CASK_RETURN_IF_ERROR(block == 0 ? writer.Add(sample.name, sample.tensor, add)
                                    : AddInBlocks(sample.name, sample.tensor, block, add, &writer));
    CASK_RETURN_IF_ERROR(writer.Add(absl::StrCat(sample.name, "/after"), Numbers(DType::kInt8, TensorShape({3})), add));
  }
  if (!options.background) return writer.Finish();
  CASK_ASSIGN_OR_RETURN(BackgroundSave save, writer.FinishInBackground());
  return save.Wait();
}

TEST(WriterBlocks, MakeTheBytesOfWholeTensors) {
  for (const uint64_t alignment : {1, 64}) {
    for (const int num_shards : {1, 2}) {
      CheckpointWriterOptions options;
      options.alignment = alignment;
      options.num_shards = num_shards;
      MemoryFileSystem whole;
      options.file_system = &whole;
      ASSERT_OK(SaveSamples(options, 0));
      for (const int num_threads : {1, 2, 3}) {
        for (const bool background : {false, true}) {
          for (const int64_t block : {1, 37, 100000, 1000000}) {
            if (block == 1 && (num_threads > 1 || background)) continue;  // many small jobs
            SCOPED_TRACE(absl::StrCat("alignment ", alignment, ", ", num_shards, " shards, ", num_threads, " threads, ",
                                      background, ", ", block));
            MemoryFileSystem parts;
            options.file_system = &parts;
            options.num_threads = num_threads;
            options.background = background;
            ASSERT_OK(SaveSamples(options, block));
            ASSERT_EQ(parts.Paths(), whole.Paths());
            for (const std::string& path : whole.Paths()) EXPECT_EQ(BytesOf(parts, path), BytesOf(whole, path)) << path;
          }
        }
      }
    }
  }
}

// ---- Errors ---------------------------------------------------------------------------------------------------------

class WriterBlocksRejects : public ::testing::TestWithParam<int> {  // threads
 protected:
  WriterBlocksRejects() {
    CheckpointWriterOptions options;
    options.file_system = &files_;
    options.num_threads = GetParam();
    options.level_rules = {{"packed*", PayloadLevel::kDefault}};
    writer_.emplace(*CheckpointWriter::Create("/m", options));
  }
  ~WriterBlocksRejects() override {
    writer_.reset();
    EXPECT_THAT(files_.Paths(), IsEmpty());
  }
  // The call failed, and so does all that follows: there is no checkpoint.
  void Expect(const absl::Status& status, Code code, const std::string& says) {
    EXPECT_THAT(status, StatusIs(code, HasSubstr(says)));
    EXPECT_EQ(writer_->AddBlock(Numbers(DType::kFloat32, TensorShape({1}))), status);
    EXPECT_EQ(writer_->Finish(), status);
  }

  MemoryFileSystem files_;
  std::optional<CheckpointWriter> writer_;
};

const TensorShape kShape({2, 3});

TEST_P(WriterBlocksRejects, ABlockWithoutATensor) {
  Expect(writer_->AddBlock(Numbers(DType::kFloat32, kShape)), Code::kFailedPrecondition, "call BeginTensor");
}

TEST_P(WriterBlocksRejects, ABlockAfterTheLast) {
  ASSERT_OK(writer_->BeginTensor("w", DType::kFloat32, kShape));
  ASSERT_OK(writer_->AddBlock(Numbers(DType::kFloat32, kShape)));
  Expect(writer_->AddBlock(Numbers(DType::kFloat32, TensorShape({1}))), Code::kFailedPrecondition, "call BeginTensor");
}

TEST_P(WriterBlocksRejects, TooManyElements) {
  ASSERT_OK(writer_->BeginTensor("w", DType::kFloat32, kShape));
  ASSERT_OK(writer_->AddBlock(Numbers(DType::kFloat32, TensorShape({2}))));
  Expect(writer_->AddBlock(Numbers(DType::kFloat32, TensorShape({5}))), Code::kInvalidArgument,
         "/m: tensor \"w\": a block has 5 elements; 4 are missing");
}

TEST_P(WriterBlocksRejects, AnotherDType) {
  ASSERT_OK(writer_->BeginTensor("w", DType::kFloat32, kShape));
  Expect(writer_->AddBlock(Numbers(DType::kInt32, kShape)), Code::kInvalidArgument, "a block is int32; wanted float32");
}

TEST_P(WriterBlocksRejects, TooFewElementsAtTheEnd) {
  ASSERT_OK(writer_->BeginTensor("w", DType::kFloat32, kShape));
  ASSERT_OK(writer_->AddBlock(Numbers(DType::kFloat32, TensorShape({2}))));
  Expect(writer_->Finish(), Code::kFailedPrecondition, "/m: tensor \"w\": only 2 of 6 elements were added");
}

TEST_P(WriterBlocksRejects, TooFewElementsBeforeAnotherTensor) {
  ASSERT_OK(writer_->BeginTensor("w", DType::kFloat32, kShape));
  Expect(writer_->Add("v", Numbers(DType::kFloat32, kShape)), Code::kFailedPrecondition, "\"w\": only 0 of 6");
}

TEST_P(WriterBlocksRejects, TooFewElementsBeforeAnotherTensorInBlocks) {
  ASSERT_OK(writer_->BeginTensor("w", DType::kFloat32, kShape));
  Expect(writer_->BeginTensor("v", DType::kFloat32, kShape), Code::kFailedPrecondition, "\"w\": only 0 of 6");
}

TEST_P(WriterBlocksRejects, TooFewElementsBeforeAPiece) {
  ASSERT_OK(writer_->BeginTensor("w", DType::kFloat32, kShape));
  Expect(writer_->AddSlice("v", kShape, *TensorSlice::Create({{0, 1}, {0, 3}}),
                           Numbers(DType::kFloat32, TensorShape({1, 3}))),
         Code::kFailedPrecondition, "\"w\": only 0 of 6");
}

TEST_P(WriterBlocksRejects, ANameThatIsThere) {
  ASSERT_OK(writer_->Add("w", Numbers(DType::kFloat32, kShape)));
  Expect(writer_->BeginTensor("w", DType::kFloat32, kShape), Code::kAlreadyExists, "\"w\" was added before");
}

TEST_P(WriterBlocksRejects, Strings) {
  Expect(writer_->BeginTensor("w", DType::kString, kShape), Code::kUnimplemented, "string cannot be added in blocks");
}

TEST_P(WriterBlocksRejects, ALevel) {
  Expect(writer_->BeginTensor("packed/w", DType::kFloat32, kShape), Code::kInvalidArgument, "level default");
}

TEST_P(WriterBlocksRejects, AShardThatIsNotThere) {
  CheckpointAddOptions options;
  options.shard = 1;
  Expect(writer_->BeginTensor("w", DType::kFloat32, kShape, options), Code::kInvalidArgument, "for shard 1 of 1");
}

TEST_P(WriterBlocksRejects, MetadataOfAnotherRank) {
  CheckpointAddOptions options;
  options.metadata.memory_format = MemoryFormat::kChannelsLast2d;
  Expect(writer_->BeginTensor("w", DType::kFloat32, kShape, options), Code::kInvalidArgument, "memory_format");
}

TEST_P(WriterBlocksRejects, NoLastBlockByBeingDestroyed) {
  ASSERT_OK(writer_->BeginTensor("w", DType::kFloat32, kShape));
  ASSERT_OK(writer_->AddBlock(Numbers(DType::kFloat32, TensorShape({2}))));
}

INSTANTIATE_TEST_SUITE_P(Threads, WriterBlocksRejects, ::testing::Values(1, 2));

TEST(WriterBlocks, ALevelOfTheTensorOverridesTheRule) {
  MemoryFileSystem files;
  CheckpointWriterOptions options;
  options.file_system = &files;
  options.payload.level = PayloadLevel::kDefault;
  ASSERT_OK_AND_ASSIGN(CheckpointWriter writer, CheckpointWriter::Create("/m", options));
  CheckpointAddOptions add;
  add.level = PayloadLevel::kStored;
  ASSERT_OK(AddInBlocks("w", Numbers(DType::kFloat32, TensorShape({100, 100})), 999, add, &writer));
  ASSERT_OK(writer.Finish());
  CheckpointReaderOptions read;
  read.read.file_system = &files;
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, CheckpointReader::Open("/m", read));
  ASSERT_OK_AND_ASSIGN(const CheckpointEntry entry, reader.Find("w"));
  EXPECT_EQ(entry.form, EntryForm::kPlain);
}

// Each operation of the file system fails in turn: all of the checkpoint, or none of it.
TEST(WriterBlocks, FaultsLeaveAllOrNothing) {
  for (const int num_threads : {1, 2}) {
    for (int64_t n = 1;; ++n) {
      SCOPED_TRACE(absl::StrCat(num_threads, " threads, operation ", n));
      MemoryFileSystem memory;
      FaultyFileSystem files(&memory);
      files.FailAt(n, ENOSPC, FaultyFileSystem::kOnce);
      CheckpointWriterOptions options;
      options.file_system = &files;
      options.num_threads = num_threads;
      options.num_shards = 2;
      const absl::Status status = SaveSamples(options, 5000);
      CheckpointReaderOptions read;
      read.read.file_system = &memory;
      const absl::StatusOr<CheckpointReader> reader = CheckpointReader::Open("/m", read);
      EXPECT_TRUE(reader.ok() || !status.ok()) << reader.status();
      if (reader.ok()) {
        ASSERT_OK(reader->VerifyAll([](const CheckpointDamage& damage) { ADD_FAILURE() << damage.status; }).status());
        ASSERT_OK_AND_ASSIGN(const std::vector<CheckpointEntry> entries, reader->entries());
        EXPECT_EQ(entries.size(), 2 * Samples().size());
      }
      if (files.faults() == 0) {
        EXPECT_OK(status);
        break;
      }
      ASSERT_LT(n, 1000);
    }
  }
}

// ---- Memory ---------------------------------------------------------------------------------------------------------

int64_t PeakMemory() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;
}

TEST(WriterBlocks, TakeNoMemoryForTheTensor) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers take memory of their own";
#endif
  constexpr int64_t kBlocks = 512;
  const Tensor block = *Tensor::Zeros(DType::kFloat32, TensorShape({2 << 20}));  // 8 MiB
  for (const int num_threads : {1, 2}) {
    const int64_t before = PeakMemory();
    DiscardingFileSystem files;
    CheckpointWriterOptions options;
    options.file_system = &files;
    options.num_threads = num_threads;
    ASSERT_OK_AND_ASSIGN(CheckpointWriter writer, CheckpointWriter::Create("/m", options));
    ASSERT_OK(writer.BeginTensor("w", DType::kFloat32, TensorShape({kBlocks, 2 << 20})));
    for (int64_t i = 0; i < kBlocks; ++i) ASSERT_OK(writer.AddBlock(block));
    ASSERT_OK(writer.Finish());
    EXPECT_GT(files.bytes_written(), uint64_t{4} << 30);
    EXPECT_LT(PeakMemory() - before, 32 << 20);
  }
}

}  // namespace
}  // namespace tensorcask
