#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/checkpoint/checkpoint_writer.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tensor/variant.h"
#include "tensorcask/tests/serialize/checkpoint/bundle_forge.h"
#include "tensorcask/tests/serialize/checkpoint/checkpoint_testing.h"
#include "tensorcask/tests/support/faulty_file_system.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::BundleForge;
using ::tensorcask::testing::BytesOfValues;
using ::tensorcask::testing::FaultyFileSystem;
using ::tensorcask::testing::FileOperation;
using ::tensorcask::testing::SameTensor;
using ::tensorcask::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

// "t000" to "t199", each int32 [2]; stored from the last to the first.
BundleForge Many() {
  BundleForge bundle;
  for (int i = 199; i >= 0; --i) {
    bundle.Add(absl::StrCat("t", absl::Dec(i, absl::kZeroPad3)), 3, {2}, BytesOfValues<int32_t>({i, -i}));
  }
  return bundle;
}

absl::StatusOr<CheckpointReader> OpenIn(FileSystem* files, CheckpointReaderOptions options = {}) {
  options.read.file_system = files;
  return CheckpointReader::Open("/m", options);
}

TEST(ReadAll, GivesAllByName) {
  MemoryFileSystem files;
  Many().Put(&files);
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenIn(&files));
  for (const int threads : {0, 1, 3, 16}) {
    SCOPED_TRACE(threads);
    ASSERT_OK_AND_ASSIGN(const std::vector<CheckpointNamedTensor> all, reader.ReadAll(threads));
    ASSERT_EQ(all.size(), 200u);
    for (int i = 0; i < 200; ++i) {
      EXPECT_EQ(all[static_cast<size_t>(i)].name, absl::StrCat("t", absl::Dec(i, absl::kZeroPad3)));
      EXPECT_TRUE(SameTensor(all[static_cast<size_t>(i)].tensor, Tensor::FromValues<int32_t>({i, -i})));
    }
  }
}

TEST(ReadAll, TakesWhatIsWanted) {
  MemoryFileSystem files;
  BundleForge bundle = Many();
  bundle.data[4] ^= 1;  // a byte of t199
  bundle.Put(&files);
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenIn(&files));
  ASSERT_OK_AND_ASSIGN(const std::vector<CheckpointNamedTensor> some,
                       reader.ReadAll(2, [](const CheckpointEntry& entry) { return entry.name < "t003"; }));
  ASSERT_EQ(some.size(), 3u);
  EXPECT_EQ(some[2].name, "t002");
  ASSERT_OK_AND_ASSIGN(const std::vector<CheckpointNamedTensor> none,
                       reader.ReadAll(2, [](const CheckpointEntry&) { return false; }));
  EXPECT_TRUE(none.empty());
}

TEST(ReadAll, ReadsInTheOrderOfTheFile) {
  MemoryFileSystem memory;
  BundleForge bundle = Many();
  bundle.Put(&memory);
  memory.Put("/m.data-00000-of-00001", bundle.data.substr(0, 1000));  // cut inside of number 125
  FaultyFileSystem files(&memory);
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenIn(&files));
  const uint64_t before = files.bytes_read();
  EXPECT_OK(reader.entries());
  const uint64_t index_bytes = files.bytes_read() - before;
  EXPECT_THAT(reader.ReadAll(), StatusIs(Code::kDataLoss, HasSubstr("8 at 1000 are wanted")));
  // The index again, whether or not it was kept, and the tensors before the cut.
  EXPECT_GE(files.bytes_read() - before, index_bytes + 1000);
}

// Whatever the threads, the error is that of the damaged tensor that stands first in the file.
TEST(ReadAll, GivesTheFirstErrorOrAll) {
  BundleForge bundle = Many();
  bundle.data[400] ^= 1;   // number 50: t149
  bundle.data[1200] ^= 1;  // number 150: t049
  MemoryFileSystem files;
  bundle.Put(&files);
  for (const int threads : {1, 4}) {
    for (int i = 0; i < 20; ++i) {
      ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenIn(&files));
      EXPECT_THAT(reader.ReadAll(threads),
                  StatusIs(Code::kDataLoss, AllOf(HasSubstr("tensor \"t149\""), HasSubstr("its checksum is"))));
    }
  }
}

TEST(ReadAll, MeasuresFirst) {
  BundleForge bundle;
  for (const char* name : {"a", "b", "c"}) bundle.Add(name, 3, {10000}, std::string(40000, '\0'));
  MemoryFileSystem memory;
  bundle.Put(&memory);
  FaultyFileSystem files(&memory);
  CheckpointReaderOptions options;
  options.limits.max_file_decoded_bytes = 119999;
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenIn(&files, options));
  EXPECT_THAT(reader.ReadAll(),
              StatusIs(Code::kResourceExhausted, HasSubstr("3 tensors together: decodes to 120000 bytes")));
  EXPECT_EQ(files.operations(FileOperation::kOpenToRead), 1);  // the index
}

// In a file a zero of int64 takes a byte, in memory eight.
TEST(ReadAll, CountsWhatIsInVariants) {
  MemoryFileSystem files;
  CheckpointWriterOptions write;
  write.file_system = &files;
  ASSERT_OK_AND_ASSIGN(CheckpointWriter writer, CheckpointWriter::Create("/m", write));
  for (int i = 0; i < 4; ++i) {
    Tensor variant = *Tensor::Create(DType::kVariant, TensorShape());
    variant.mutable_flat<Variant>()[0].tensors = {*Tensor::Zeros(DType::kInt64, TensorShape({100000}))};
    ASSERT_OK(writer.Add(absl::StrCat("v", i), variant));
  }
  ASSERT_OK(writer.Finish());
  CheckpointReaderOptions read;
  read.read.file_system = &files;
  read.limits.max_file_decoded_bytes = 4'000'000;
  ASSERT_OK_AND_ASSIGN(const CheckpointReader enough, CheckpointReader::Open("/m", read));
  EXPECT_OK(enough.ReadAll());
  read.limits.max_file_decoded_bytes = 2'000'000;
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, CheckpointReader::Open("/m", read));
  for (const int threads : {1, 4}) {
    EXPECT_THAT(reader.ReadAll(threads),
                StatusIs(Code::kResourceExhausted, HasSubstr("max_file_decoded_bytes is 2000000")));
  }
  EXPECT_OK(reader.Read("v3"));
  // A call that reads one of them has the same limit.
  read.limits.max_file_decoded_bytes = 500'000;
  ASSERT_OK_AND_ASSIGN(const CheckpointReader small, CheckpointReader::Open("/m", read));
  const auto is_past = StatusIs(Code::kResourceExhausted,
                                AllOf(HasSubstr("tensor \"v3\""), HasSubstr("max_file_decoded_bytes is 500000")));
  EXPECT_THAT(small.Read("v3"), is_past);
  EXPECT_THAT(small.ReadWithMetadata("v3"), is_past);
  EXPECT_THAT(small.Map("v3"), is_past);
  Tensor out = *Tensor::Create(DType::kVariant, TensorShape());
  EXPECT_THAT(small.ReadInto("v3", &out), is_past);
}

// A limit that variants pass is found before the rest is read: here a damaged tensor that lies before them in the file.
TEST(ReadAll, VariantsPastTheLimitAreFoundFirst) {
  MemoryFileSystem files;
  CheckpointWriterOptions write;
  write.file_system = &files;
  ASSERT_OK_AND_ASSIGN(CheckpointWriter writer, CheckpointWriter::Create("/m", write));
  ASSERT_OK(writer.Add("a", *Tensor::Zeros(DType::kInt64, TensorShape({1000}))));
  Tensor variant = *Tensor::Create(DType::kVariant, TensorShape());
  variant.mutable_flat<Variant>()[0].tensors = {*Tensor::Zeros(DType::kInt64, TensorShape({100000}))};
  ASSERT_OK(writer.Add("v", variant));
  ASSERT_OK(writer.Finish());
  const std::string path = "/m.data-00000-of-00001";
  std::string data = testing::BytesOf(files, path);
  data[0] ^= 1;
  files.Put(path, data);
  CheckpointReaderOptions read;
  read.read.file_system = &files;
  read.limits.max_file_decoded_bytes = 500'000;
  ASSERT_OK_AND_ASSIGN(const CheckpointReader small, CheckpointReader::Open("/m", read));
  for (const int threads : {1, 4}) {
    EXPECT_THAT(small.ReadAll(threads),
                StatusIs(Code::kResourceExhausted,
                         AllOf(HasSubstr("tensor \"v\""), HasSubstr("max_file_decoded_bytes is 500000"))));
  }
  read.limits = DecodeLimits();
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, CheckpointReader::Open("/m", read));
  EXPECT_THAT(reader.ReadAll(), StatusIs(Code::kDataLoss, HasSubstr("tensor \"a\"")));
}

// Neither what is in the variants nor the rest is past the limit; both are.
TEST(ReadAll, VariantsCountWithTheRest) {
  MemoryFileSystem files;
  CheckpointWriterOptions write;
  write.file_system = &files;
  ASSERT_OK_AND_ASSIGN(CheckpointWriter writer, CheckpointWriter::Create("/m", write));
  ASSERT_OK(writer.Add("a", *Tensor::Zeros(DType::kFloat32, TensorShape({150000}))));
  Tensor variant = *Tensor::Create(DType::kVariant, TensorShape());
  variant.mutable_flat<Variant>()[0].tensors = {*Tensor::Zeros(DType::kInt64, TensorShape({80000}))};
  ASSERT_OK(writer.Add("v", variant));
  ASSERT_OK(writer.Finish());
  CheckpointReaderOptions read;
  read.read.file_system = &files;
  read.limits.max_file_decoded_bytes = 1'000'000;
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, CheckpointReader::Open("/m", read));
  EXPECT_OK(reader.Read("a"));
  EXPECT_OK(reader.Read("v"));
  EXPECT_THAT(reader.ReadAll(),
              StatusIs(Code::kResourceExhausted,
                       AllOf(HasSubstr("tensor \"v\""), HasSubstr("max_file_decoded_bytes is 1000000"))));
}

}  // namespace
}  // namespace tensorcask
