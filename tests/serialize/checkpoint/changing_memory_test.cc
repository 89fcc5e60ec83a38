// Saves of memory that another process writes to meanwhile: the saved checkpoint verifies.

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/checkpoint/checkpoint_writer.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/io/forwarding_file_system.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/serialize/payload/payload_header.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tensor/variant.h"
#include "tensorcask/tests/support/memory_that_changes.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::ChangingMemory;

constexpr int64_t kNumElements = 400'000;  // several chunks

CheckpointWriterOptions To(FileSystem* files, PayloadLevel level, int num_threads = 1) {
  CheckpointWriterOptions options;
  options.file_system = files;
  options.sync = false;
  options.num_threads = num_threads;
  options.payload.level = level;
  options.payload.chunk_bytes = 256 << 10;
  return options;
}

void ExpectVerifies(FileSystem* files, const std::string& prefix) {
  CheckpointReaderOptions options;
  options.read.file_system = files;
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, CheckpointReader::Open(prefix, options));
  ASSERT_OK(reader.VerifyAll([](const CheckpointDamage& damage) { ADD_FAILURE() << damage.status; }).status());
}

// Changes the memory before and after everything that is written.
class ChangingFileSystem final : public ForwardingFileSystem {
 public:
  ChangingFileSystem(FileSystem* behind, ChangingMemory* memory) : ForwardingFileSystem(behind), memory_(memory) {}
  IoResult Append(IoResult handle, absl::string_view bytes) override {
    memory_->Change();
    const IoResult result = ForwardingFileSystem::Append(handle, bytes);
    memory_->Change();
    return result;
  }

 private:
  ChangingMemory* const memory_;
};

TEST(ChangingMemory, VerifiesIfItChangesBetweenWrites) {
  for (const PayloadLevel level : {PayloadLevel::kStored, PayloadLevel::kDefault, PayloadLevel::kHigh}) {
    for (const DType dtype : {DType::kFloat32, DType::kInt64, DType::kUint8}) {
      SCOPED_TRACE(absl::StrCat("level ", static_cast<int>(level), ", ", DTypeName(dtype)));
      ChangingMemory memory(dtype, kNumElements);
      MemoryFileSystem stored;
      ChangingFileSystem files(&stored, &memory);
      ASSERT_OK_AND_ASSIGN(CheckpointWriter writer, CheckpointWriter::Create("/m", To(&files, level)));
      ASSERT_OK(writer.Add("first", memory.tensor()));
      ASSERT_OK(writer.Add("second", memory.tensor()));
      ASSERT_OK(writer.Finish());
      ExpectVerifies(&stored, "/m");
    }
  }
}

// A tensor with the elements that changing memory had earlier is stored with its own elements.
TEST(ChangingMemory, DoesNotChangeOtherTensors) {
  ChangingMemory memory(DType::kInt64, kNumElements);
  const Tensor same = *memory.tensor().Clone();
  MemoryFileSystem stored;
  ChangingFileSystem files(&stored, &memory);
  ASSERT_OK_AND_ASSIGN(CheckpointWriter writer, CheckpointWriter::Create("/m", To(&files, PayloadLevel::kDefault)));
  ASSERT_OK(writer.Add("changing", memory.tensor()));
  memory.Change();
  ASSERT_OK(writer.Add("private", same));
  ASSERT_OK(writer.Finish());
  ExpectVerifies(&stored, "/m");
  CheckpointReaderOptions options;
  options.read.file_system = &stored;
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, CheckpointReader::Open("/m", options));
  ASSERT_OK_AND_ASSIGN(const Tensor read, reader.Read("private"));
  EXPECT_EQ(std::memcmp(read.data<int64_t>(), same.data<int64_t>(), kNumElements * sizeof(int64_t)), 0);
}

TEST(ChangingMemory, VerifiesHundredsOfTimesWhileAThreadChangesIt) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the race is the point of this test";
#endif
  ChangingMemory memory(DType::kFloat32, kNumElements / 4);
  const ChangingMemory::Thread thread(&memory);
  for (int i = 0; i < 300; ++i) {
    const PayloadLevel level = i % 3 == 0 ? PayloadLevel::kDefault : PayloadLevel::kStored;
    const int num_threads = i % 5 == 0 ? 2 : 1;
    SCOPED_TRACE(absl::StrCat("save ", i));
    MemoryFileSystem files;
    ASSERT_OK_AND_ASSIGN(CheckpointWriter writer, CheckpointWriter::Create("/m", To(&files, level, num_threads)));
    ASSERT_OK(writer.Add("w", memory.tensor()));
    ASSERT_OK(writer.AddSlice("s", TensorShape({kNumElements / 2}), *TensorSlice::Create({{0, kNumElements / 4}}),
                              memory.tensor()));
    ASSERT_OK(writer.AddSlice("s", TensorShape({kNumElements / 2}),
                              *TensorSlice::Create({{kNumElements / 4, kNumElements / 4}}), memory.tensor()));
    ASSERT_OK(writer.Finish());
    ExpectVerifies(&files, "/m");
    if (HasFailure()) return;
  }
}

// Numbers in variants are stored as varints, which are measured before they are written.
TEST(ChangingMemory, VerifiesInVariants) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the race is the point of this test";
#endif
  ChangingMemory memory(DType::kInt64, 5000);
  Tensor inner = *Tensor::Create(DType::kVariant, TensorShape({}));
  inner.mutable_data<Variant>()->tensors = {memory.tensor()};
  Tensor variants = *Tensor::Create(DType::kVariant, TensorShape({2}));
  variants.mutable_data<Variant>()[0].tensors = {memory.tensor()};
  variants.mutable_data<Variant>()[1].tensors = {inner};
  const ChangingMemory::Thread thread(&memory);
  for (int i = 0; i < 200; ++i) {
    MemoryFileSystem files;
    ASSERT_OK_AND_ASSIGN(CheckpointWriter writer, CheckpointWriter::Create("/m", To(&files, PayloadLevel::kStored)));
    ASSERT_OK(writer.Add("v", variants));
    ASSERT_OK(writer.Finish());
    ExpectVerifies(&files, "/m");
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace tensorcask
