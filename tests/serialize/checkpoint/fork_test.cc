// fork(2) without exec, as Python's multiprocessing does it: calls and destructors in a child do not disturb the
// parent, and do not wait for threads that the child does not have.

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/checkpoint/checkpoint_writer.h"
#include "tensorcask/serialize/checkpoint/format/checkpoint_entry.h"
#include "tensorcask/serialize/checkpoint/manager.h"
#include "tensorcask/serialize/checkpoint/read/data_files.h"
#include "tensorcask/serialize/checkpoint/write/background_save.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/io/forwarding_file_system.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/support/in_child.h"
#include "tensorcask/tests/support/status_matchers.h"
#include "tensorcask/tests/support/temp_folder.h"
#include "tensorcask/tests/support/uploading_file_system.h"

// ThreadSanitizer reports the parent's threads as leaked in a child of fork, which cannot join them, and ends a child
// that starts threads.
extern "C" const char* __tsan_default_options();
extern "C" const char* __tsan_default_options() { return "report_thread_leaks=0:die_after_fork=0"; }

namespace tensorcask {
namespace {

using ::tensorcask::testing::InChild;
using ::tensorcask::testing::kChildSeconds;
using ::tensorcask::testing::StatusIs;
using ::tensorcask::testing::TempFolder;
using ::tensorcask::testing::UploadingFileSystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

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

absl::Status SaveNumbers(FileSystem* files, const std::string& prefix) {
  CheckpointWriterOptions options;
  options.file_system = files;
  CASK_ASSIGN_OR_RETURN(CheckpointWriter writer, CheckpointWriter::Create(prefix, options));
  CASK_RETURN_IF_ERROR(writer.Add("w", Numbers()));
  return writer.Finish();
}

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

// A store in which questions about names wait for a gate, from a moment on, while files are opened and read.
class SlowToDescribe final : public ForwardingFileSystem {
 public:
  using ForwardingFileSystem::ForwardingFileSystem;
  IoResult Describe(const std::string& path, FileInfo* info) override {
    if (is_slow) describing.Pass();
    return ForwardingFileSystem::Describe(path, info);
  }
  IoResult ReadAt(IoResult handle, uint64_t offset, absl::Span<char> out) override {
    if (is_slow) reading.Pass();
    return ForwardingFileSystem::ReadAt(handle, offset, out);
  }
  IoResult ReadManyAt(IoResult handle, absl::Span<const ReadRange> ranges) override {
    if (is_slow) reading.Pass();
    return ForwardingFileSystem::ReadManyAt(handle, ranges);
  }
  std::atomic<bool> is_slow{false};
  Gate describing;
  Gate reading;
};

// A thread of the reader looks whether the index was replaced, and the one that reads waits for it.
TEST(Fork, AChildDoesNotWaitForTheThreadsOfAReader) {
  MemoryFileSystem memory;
  UploadingFileSystem store(&memory);
  SlowToDescribe files(&store);
  ASSERT_OK(SaveNumbers(&files, "m"));
  CheckpointReaderOptions options;
  options.read.file_system = &files;
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, CheckpointReader::Open("m", options));
  files.is_slow = true;
  files.reading.Open();
  std::thread reading([&] { EXPECT_OK(reader.Read("w").status()); });
  files.describing.AwaitPass();
  files.reading.AwaitPass();
  files.is_slow = false;
  EXPECT_TRUE(InChild([&] { return reader.Read("w").ok(); }));
  files.describing.Open();
  reading.join();
}

TEST(Fork, AChildThatClosesAFileLeavesItsOwnThreadsAlone) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer ends a child whose threads have ids of the parent's";
#endif
  MemoryFileSystem memory;
  UploadingFileSystem store(&memory);
  SlowToDescribe files(&store);
  ASSERT_OK(SaveNumbers(&files, "m"));
  ReadOptions options;
  options.file_system = &files;
  ASSERT_OK_AND_ASSIGN(const std::shared_ptr<const ByteSource> index, OpenFileSource("m.index", options));
  std::optional<checkpoint::DataFiles> data(std::in_place, "m", /*num_shards=*/1, index, options);
  files.is_slow = true;
  ASSERT_OK(data->FileOf(CheckpointEntry()).status());
  files.describing.AwaitPass();
  EXPECT_TRUE(InChild([&] {
    // They may have the ids that threads of the parent had.
    Gate gate;
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) threads.emplace_back([&] { gate.Pass(); });
    data = std::nullopt;
    gate.Open();
    for (std::thread& thread : threads) thread.join();  // throws for a thread that was detached
    return true;
  }));
  files.describing.Open();
}

}  // namespace
}  // namespace tensorcask
