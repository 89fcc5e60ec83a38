// Saves in the background.

#include "tensorcask/serialize/checkpoint/write/background_save.h"

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/checkpoint/checkpoint_writer.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/serialize/checkpoint/checkpoint_testing.h"
#include "tensorcask/tests/support/failing_allocator.h"
#include "tensorcask/tests/support/faulty_file_system.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::BytesOf;
using ::tensorcask::testing::CheckpointNamedTensor;
using ::tensorcask::testing::FailingAllocator;
using ::tensorcask::testing::FaultyFileSystem;
using ::tensorcask::testing::FileOperation;
using ::tensorcask::testing::SampleTensors;
using ::tensorcask::testing::Save;
using ::tensorcask::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Code = absl::StatusCode;

CheckpointWriterOptions To(FileSystem* files) {
  CheckpointWriterOptions options;
  options.file_system = files;
  options.background = true;
  return options;
}

// Blocks the threads that pass it until it is opened.
class Gate {
 public:
  void Open() {
    const std::lock_guard<std::mutex> lock(mutex_);
    open_ = true;
    opened_.notify_all();
  }
  void Pass() {
    std::unique_lock<std::mutex> lock(mutex_);
    opened_.wait(lock, [&] { return open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable opened_;
  bool open_ = false;
};

TEST(BackgroundSave, TellsWhatTheSaveCameTo) {
  Gate gate;
  BackgroundSave save([&] {
    gate.Pass();
    return absl::DataLossError("as it went");
  });
  EXPECT_FALSE(save.IsDone());
  BackgroundSave moved = std::move(save);
  EXPECT_FALSE(moved.IsDone());
  gate.Open();
  EXPECT_EQ(moved.Wait(), absl::DataLossError("as it went"));
  EXPECT_TRUE(moved.IsDone());
  EXPECT_EQ(moved.Wait(), absl::DataLossError("as it went"));
}

TEST(BackgroundSave, WaitsWhenDestroyedOrReplaced) {
  std::atomic<int> ended{0};
  const auto work = [&] {
    ++ended;
    return absl::OkStatus();
  };
  {
    BackgroundSave first(work);
    first = BackgroundSave(work);
    EXPECT_GE(ended.load(), 1);
  }
  EXPECT_EQ(ended.load(), 2);
}

TEST(BackgroundSave, LetsGoOfWhatItWroteWhenDone) {
  const auto held = std::make_shared<int>(1);
  BackgroundSave save([held] { return absl::OkStatus(); });
  ASSERT_OK(save.Wait());
  EXPECT_EQ(held.use_count(), 1);
}

// ---- Checkpoints ----------------------------------------------------------------------------------------------------

TEST(Background, SavesWhatWasAdded) {
  std::vector<CheckpointNamedTensor> tensors = SampleTensors(1);
  tensors.push_back({"large", *Tensor::Zeros(DType::kFloat32, TensorShape({1000, 100}))});
  tensors.push_back({"words", *Tensor::Create(DType::kString, TensorShape({100}))});
  std::vector<float> outside(500, 7);
  TensorBuffer::External memory;
  memory.data = outside.data();
  memory.size_bytes = outside.size() * sizeof(float);
  ASSERT_OK_AND_ASSIGN(const Tensor external,
                       Tensor::FromBuffer(DType::kFloat32, TensorShape({500}), TensorBuffer::WrapExternal(memory)));
  tensors.push_back({"external", external});
  MemoryFileSystem wanted;
  CheckpointWriterOptions in_front = To(&wanted);
  in_front.background = false;
  ASSERT_OK(Save("/m", tensors, in_front));

  MemoryFileSystem behind;
  FaultyFileSystem files(&behind);
  Gate gate;
  ASSERT_OK_AND_ASSIGN(CheckpointWriter writer, CheckpointWriter::Create("/m", To(&files)));
  files.SetHook([&](int64_t, FileOperation operation, const std::string&) {
    if (operation == FileOperation::kAppend) gate.Pass();
  });
  for (const CheckpointNamedTensor& named : tensors) ASSERT_OK(writer.Add(named.name, named.tensor));
  EXPECT_EQ(files.bytes_written(), 0u);
  const auto change_all = [&](float value) {
    for (CheckpointNamedTensor& named : tensors) {
      if (named.name == "large") named.tensor.mutable_flat<float>()[17] = value;
      if (named.name == "words") named.tensor.mutable_flat<std::string>()[17] = "changed";
      if (named.name == "step") named.tensor.mutable_flat<int64_t>()[0] = 99;
    }
    outside[3] = value;
  };
  change_all(1);
  ASSERT_OK_AND_ASSIGN(BackgroundSave save, writer.FinishInBackground());
  change_all(2);
  EXPECT_FALSE(save.IsDone());
  tensors.clear();
  gate.Open();
  ASSERT_OK(save.Wait());
  ASSERT_EQ(behind.Paths(), wanted.Paths());
  for (const std::string& path : wanted.Paths()) EXPECT_TRUE(BytesOf(behind, path) == BytesOf(wanted, path)) << path;
}

TEST(Background, OutlivesItsWriter) {
  MemoryFileSystem files;
  absl::StatusOr<BackgroundSave> save = absl::UnknownError("none yet");
  {
    ASSERT_OK_AND_ASSIGN(CheckpointWriter writer, CheckpointWriter::Create("/m", To(&files)));
    ASSERT_OK(writer.Add("w", Tensor::Scalar<float>(1)));
    save = writer.FinishInBackground();
    ASSERT_OK(save);
  }
  EXPECT_OK(save->Wait());
  EXPECT_THAT(files.Paths(), ElementsAre("/m.data-00000-of-00001", "/m.index"));
}

TEST(Background, IsAskedForAndOnce) {
  MemoryFileSystem files;
  CheckpointWriterOptions in_front = To(&files);
  in_front.background = false;
  ASSERT_OK_AND_ASSIGN(CheckpointWriter writer, CheckpointWriter::Create("/a", in_front));
  ASSERT_OK(writer.Add("w", Tensor::Scalar<float>(1)));
  EXPECT_THAT(writer.FinishInBackground(), StatusIs(Code::kFailedPrecondition, HasSubstr("background")));
  EXPECT_OK(writer.Finish());  // no harm done

  ASSERT_OK_AND_ASSIGN(CheckpointWriter behind, CheckpointWriter::Create("/b", To(&files)));
  ASSERT_OK_AND_ASSIGN(BackgroundSave save, behind.FinishInBackground());
  EXPECT_THAT(behind.FinishInBackground(), StatusIs(Code::kFailedPrecondition, HasSubstr("is finished")));
  EXPECT_THAT(behind.Finish(), StatusIs(Code::kFailedPrecondition, HasSubstr("is finished")));
  EXPECT_THAT(behind.Add("w", Tensor::Scalar<float>(1)), StatusIs(Code::kFailedPrecondition));
  EXPECT_OK(save.Wait());
}

TEST(Background, ACheckpointThatIsThereIsToldAtOnce) {
  MemoryFileSystem files;
  ASSERT_OK(Save("/m", SampleTensors(1), To(&files)));
  EXPECT_THAT(CheckpointWriter::Create("/m", To(&files)), StatusIs(Code::kAlreadyExists, HasSubstr("/m.")));
}

TEST(Background, ErrorsArriveWithTheHandle) {
  MemoryFileSystem memory;
  FaultyFileSystem files(&memory);
  ASSERT_OK_AND_ASSIGN(CheckpointWriter writer, CheckpointWriter::Create("/m", To(&files)));
  files.FailAt(1, ENOSPC, FaultyFileSystem::kForEver, FileOperation::kAppend);
  ASSERT_OK(writer.Add("w", *Tensor::Zeros(DType::kInt8, TensorShape({1 << 20}))));
  ASSERT_OK_AND_ASSIGN(BackgroundSave save, writer.FinishInBackground());
  EXPECT_THAT(save.Wait(), StatusIs(Code::kResourceExhausted, AllOf(HasSubstr("tensor \"w\""), HasSubstr("/m.data-"))));
  EXPECT_THAT(memory.Paths(), IsEmpty());
  EXPECT_EQ(files.open_handles(), 0u);
}

// Add copies memory that cannot be shared, and reports when there is no memory for the copy.
TEST(Background, AddAnswersForMemory) {
  std::vector<float> outside(500, 7);
  const auto allocator = MakeRef<FailingAllocator>(/*fail_at=*/1);
  TensorBuffer::External memory;
  memory.data = outside.data();
  memory.size_bytes = outside.size() * sizeof(float);
  memory.allocator = allocator;
  ASSERT_OK_AND_ASSIGN(const Tensor external,
                       Tensor::FromBuffer(DType::kFloat32, TensorShape({500}), TensorBuffer::WrapExternal(memory)));
  MemoryFileSystem files;
  ASSERT_OK_AND_ASSIGN(CheckpointWriter writer, CheckpointWriter::Create("/m", To(&files)));
  const absl::Status refused = writer.Add("w", external);
  EXPECT_THAT(refused, StatusIs(Code::kResourceExhausted, HasSubstr("/m: tensor \"w\": no memory for 2000 bytes")));
  EXPECT_EQ(writer.FinishInBackground().status(), refused);
  EXPECT_THAT(files.Paths(), IsEmpty());
}

}  // namespace
}  // namespace tensorcask
