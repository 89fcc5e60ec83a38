// fork(2) without exec, as Python's multiprocessing does it: calls and destructors in a child do not disturb the
// parent, and do not wait for threads that the child does not have.

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/checkpoint/checkpoint_writer.h"
#include "tensorcask/serialize/checkpoint/manager.h"
#include "tensorcask/serialize/checkpoint/write/background_save.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/support/status_matchers.h"
#include "tensorcask/tests/support/temp_folder.h"

// In a child, ThreadSanitizer treats the parent's threads, which cannot be joined there, as leaked.
extern "C" const char* __tsan_default_options();
extern "C" const char* __tsan_default_options() { return "report_thread_leaks=0"; }

namespace tensorcask {
namespace {

using ::tensorcask::testing::StatusIs;
using ::tensorcask::testing::TempFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

constexpr unsigned kChildSeconds = 20;

// Runs `check` in a child, which ends with _exit. True if it returned true, in time.
bool InChild(const std::function<bool()>& check) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(kChildSeconds);
    _exit(check() ? 0 : 1);
  }
  int status = 0;
  return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// Holds up threads until it is opened.
class Gate {
 public:
  void Open() {
    const std::lock_guard<std::mutex> lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void Pass() {
    std::unique_lock<std::mutex> lock(mutex_);
    passing_ = true;
    changed_.notify_all();
    changed_.wait(lock, [&] { return open_; });
  }
  void AwaitPass() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return passing_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
  bool passing_ = false;
};

Tensor Numbers() { return *Tensor::Zeros(DType::kFloat32, TensorShape({1000, 100})); }

void ExpectWhole(const std::string& prefix) {
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, CheckpointReader::Open(prefix));
  ASSERT_OK(reader.VerifyAll([](const CheckpointDamage& damage) { ADD_FAILURE() << damage.status; }).status());
}

TEST(Fork, AChildDoesNotRemoveTheFilesOfAWriter) {
  for (const int num_threads : {1, 2}) {
    for (const bool background : {false, true}) {
      const TempFolder folder;
      CheckpointWriterOptions options;
      options.num_shards = 2;
      options.num_threads = num_threads;
      options.background = background;
      ASSERT_OK_AND_ASSIGN(CheckpointWriter made, CheckpointWriter::Create(folder.Path("m"), options));
      std::optional<CheckpointWriter> writer(std::move(made));
      ASSERT_OK(writer->Add("before", Numbers()));
      EXPECT_TRUE(InChild([&] {
        writer = std::nullopt;
        return true;
      }));
      EXPECT_TRUE(InChild([&] {
        const absl::Status added = writer->Add("in the child", Numbers());
        const absl::Status finished = writer->Finish();
        writer = std::nullopt;
        return absl::IsFailedPrecondition(added) && absl::IsFailedPrecondition(finished);
      }));
      ASSERT_OK(writer->Add("after", Numbers()));
      ASSERT_OK(writer->Finish());
      ExpectWhole(folder.Path("m"));
    }
  }
}

TEST(Fork, AChildDoesNotWaitForASaveInTheBackground) {
  Gate gate;
  std::optional<BackgroundSave> save([&] {
    gate.Pass();
    return absl::DataLossError("as it went");
  });
  gate.AwaitPass();
  EXPECT_TRUE(InChild([&] {
    const bool done = save->IsDone();
    const absl::Status result = save->Wait();
    save = std::nullopt;
    return done && absl::IsFailedPrecondition(result);
  }));
  gate.Open();
  EXPECT_EQ(save->Wait(), absl::DataLossError("as it went"));
  EXPECT_TRUE(InChild([&] {  // it was done at the fork
    const absl::Status result = save->Wait();
    save = std::nullopt;
    return absl::IsDataLoss(result);
  }));
}

TEST(Fork, AChildDoesNotDisturbASaveOfTheManager) {
  const TempFolder folder;
  ASSERT_OK_AND_ASSIGN(CheckpointManager opened, CheckpointManager::Open(folder.Path("run")));
  std::optional<CheckpointManager> manager(std::move(opened));
  const auto add = [](CheckpointWriter& writer) { return writer.Add("w", Numbers()); };
  ASSERT_OK(manager->Save(1, add));
  ASSERT_OK_AND_ASSIGN(BackgroundSave saving, manager->SaveInBackground(2, add));
  std::optional<BackgroundSave> save(std::move(saving));
  EXPECT_TRUE(InChild([&] {
    const absl::Status saved = manager->Save(3, add);
    const absl::Status begun = manager->SaveInBackground(3, add).status();
    const bool no_steps = manager->steps().empty();
    manager = std::nullopt;
    save = std::nullopt;
    return absl::IsFailedPrecondition(saved) && absl::IsFailedPrecondition(begun) && no_steps;
  }));
  ASSERT_OK(save->Wait());
  EXPECT_THAT(manager->steps(), ElementsAre(1, 2));
  ExpectWhole(manager->PrefixOf(2));
  // The child did not give the lock back.
  EXPECT_THAT(CheckpointManager::Open(folder.Path("run")), StatusIs(Code::kFailedPrecondition, HasSubstr("locked")));
}

TEST(Fork, TheParentGivesTheLockBackWhileAChildLives) {
  const TempFolder folder;
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  pid_t child = -1;
  {
    ASSERT_OK_AND_ASSIGN(const CheckpointManager manager, CheckpointManager::Open(folder.Path("run")));
    child = fork();
    if (child == 0) {
      alarm(kChildSeconds);
      close(pipe_ends[1]);
      char byte = 0;
      _exit(read(pipe_ends[0], &byte, 1) == 0 ? 0 : 1);  // until the parent closes its end
    }
    ASSERT_GT(child, 0);
    EXPECT_THAT(CheckpointManager::Open(folder.Path("run")), StatusIs(Code::kFailedPrecondition, HasSubstr("locked")));
  }
  EXPECT_OK(CheckpointManager::Open(folder.Path("run")).status());
  close(pipe_ends[0]);
  close(pipe_ends[1]);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

// The lock of a killed parent lasts as long as a child has a handle of it.
TEST(Fork, AChildThatDestroysItsCopyClosesItsHandleOfTheLock) {
  const TempFolder folder;
  const std::string path = folder.Write("lock", "");
  FileSystem* const files = FileSystem::Posix();
  const IoResult lock = files->Lock(path);
  ASSERT_GE(lock, 0);
  EXPECT_TRUE(InChild([&] { return files->Close(lock) == 0 && files->Lock(path) == -EWOULDBLOCK; }));
  EXPECT_EQ(files->Close(lock), 0);
  const IoResult again = files->Lock(path);
  EXPECT_GE(again, 0);
  files->Close(again);
}

}  // namespace
}  // namespace tensorcask
