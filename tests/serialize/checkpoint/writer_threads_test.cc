// A writer with several threads, or in the background: the same files and the same errors.

#include <sys/resource.h>

#include <cerrno>
#include <cstdint>
#include <map>
#include <mutex>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/checkpoint/checkpoint_writer.h"
#include "tensorcask/serialize/checkpoint/write/background_save.h"
#include "tensorcask/serialize/io/forwarding_file_system.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"
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
using ::tensorcask::testing::FileOperation;
using ::tensorcask::testing::SampleTensors;
using ::tensorcask::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Lt;
using ::testing::UnorderedElementsAre;
using Code = absl::StatusCode;

struct Mode {
  int num_shards;
  int num_threads;
  bool background;
};

std::string NameOf(const Mode& mode) {
  return absl::StrCat(mode.num_shards, " shards, ", mode.num_threads, " threads",
                      mode.background ? ", background" : "");
}

CheckpointWriterOptions To(FileSystem* files, const Mode& mode) {
  CheckpointWriterOptions options;
  options.file_system = files;
  options.num_shards = mode.num_shards;
  options.num_threads = mode.num_threads;
  options.background = mode.background;
  return options;
}

// Small ones, a large one, a view that is gathered, and pieces.
absl::Status AddAll(int num_shards, CheckpointWriter* writer) {
  for (const CheckpointNamedTensor& named : SampleTensors(num_shards)) {
    CheckpointAddOptions add;
    add.shard = named.shard;
    add.metadata.name = named.name;
    if (absl::Status status = writer->Add(named.name, named.tensor, add); !status.ok()) return status;
  }
  CheckpointAddOptions last;
  last.shard = num_shards - 1;
  Tensor large = *Tensor::Create(DType::kInt32, TensorShape({300, 400}));
  std::iota(large.mutable_data<int32_t>(), large.mutable_data<int32_t>() + large.num_elements(), 0);
  if (absl::Status status = writer->Add("large", large, last); !status.ok()) return status;
  const TensorView turned = *TensorView(large).Transpose(0, 1);
  if (absl::Status status = writer->Add("turned", turned, last); !status.ok()) return status;
  last.layout = StoredLayout::kPreserve;
  if (absl::Status status = writer->Add("extension-only", turned, last); !status.ok()) return status;
  for (int i = 0; i < 3; ++i) {
    const TensorSlice slice = *TensorSlice::Create({{int64_t{100} * i, 100}, {}});
    CheckpointAddOptions add;
    add.shard = i % num_shards;
    absl::Status status = writer->AddSlice("cut", large.shape(), slice, *TensorView(large).Slice(slice), add);
    if (!status.ok()) return status;
  }
  // What was added is what counts.
  large.mutable_data<int32_t>()[0] = -1;
  return absl::OkStatus();
}

absl::Status SaveAll(FileSystem* files, const Mode& mode, bool wait_for_handle = false) {
  absl::StatusOr<CheckpointWriter> writer = CheckpointWriter::Create("/m", To(files, mode));
  if (!writer.ok()) return writer.status();
  if (absl::Status status = AddAll(mode.num_shards, &*writer); !status.ok()) return status;
  if (!wait_for_handle) return writer->Finish();
  absl::StatusOr<BackgroundSave> save = writer->FinishInBackground();
  return save.ok() ? save->Wait() : save.status();
}

void ExpectSameFiles(const MemoryFileSystem& found, const MemoryFileSystem& wanted) {
  ASSERT_EQ(found.Paths(), wanted.Paths());
  for (const std::string& path : wanted.Paths()) EXPECT_TRUE(BytesOf(found, path) == BytesOf(wanted, path)) << path;
}

TEST(WriterThreads, MakeTheFilesOfOne) {
  for (const int num_shards : {1, 2, 5}) {
    MemoryFileSystem wanted;
    ASSERT_OK(SaveAll(&wanted, {num_shards, 1, false}));
    for (const int num_threads : {1, 2, 3, 8}) {
      for (const bool background : {false, true}) {
        const Mode mode = {num_shards, num_threads, background};
        SCOPED_TRACE(NameOf(mode));
        MemoryFileSystem files;
        ASSERT_OK(SaveAll(&files, mode));
        ExpectSameFiles(files, wanted);
        if (!background) continue;
        MemoryFileSystem by_handle;
        ASSERT_OK(SaveAll(&by_handle, mode, /*wait_for_handle=*/true));
        ExpectSameFiles(by_handle, wanted);
      }
    }
  }
}

// Notes for how many bytes each file asks for room.
class Reservations final : public ForwardingFileSystem {
 public:
  using ForwardingFileSystem::ForwardingFileSystem;
  IoResult Reserve(IoResult handle, uint64_t size_bytes) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    sizes_[handle].push_back(size_bytes);
    return 0;
  }
  std::vector<std::vector<uint64_t>> sizes() const {
    std::vector<std::vector<uint64_t>> all;
    for (const auto& [handle, sizes] : sizes_) all.push_back(sizes);
    return all;
  }

 private:
  std::mutex mutex_;
  std::map<IoResult, std::vector<uint64_t>> sizes_;
};

// Saves seven tensors to two files. In the background, all of them wait when the first one is written.
absl::Status SaveSeven(FileSystem* files, int64_t tensor_bytes) {
  CheckpointWriterOptions options = To(files, {2, 2, true});
  options.alignment = 64;
  CASK_ASSIGN_OR_RETURN(CheckpointWriter writer, CheckpointWriter::Create("/m", options));
  CASK_ASSIGN_OR_RETURN(const Tensor tensor, Tensor::Zeros(DType::kUint8, TensorShape({tensor_bytes})));
  for (int i = 0; i < 7; ++i) {
    CheckpointAddOptions add;
    add.shard = i % 2;
    CASK_RETURN_IF_ERROR(writer.Add(absl::StrCat("t", i), tensor, add));
  }
  return writer.Finish();
}

TEST(WriterThreads, AskForRoomForAllThatWaitsAndForNoMore) {
  MemoryFileSystem memory;
  Reservations files(&memory);
  ASSERT_OK(SaveSeven(&files, (1 << 20) + 4));
  constexpr uint64_t kStoredBytes = (1 << 20) + 64;
  EXPECT_THAT(files.sizes(), UnorderedElementsAre(ElementsAre(4 * kStoredBytes), ElementsAre(3 * kStoredBytes)));
}

TEST(WriterThreads, AskForNoRoomForSmallFiles) {
  MemoryFileSystem memory;
  Reservations files(&memory);
  ASSERT_OK(SaveSeven(&files, 200 << 10));
  EXPECT_THAT(files.sizes(), IsEmpty());
}

TEST(WriterThreads, AskForLimitedRoomAhead) {
  constexpr int64_t kTensorBytes = 64 << 20;
  DiscardingFileSystem discarding;
  Reservations files(&discarding);
  CheckpointWriterOptions options = To(&files, {1, 1, true});
  ASSERT_OK_AND_ASSIGN(CheckpointWriter writer, CheckpointWriter::Create("/m", options));
  const Tensor tensor = *Tensor::Zeros(DType::kUint8, TensorShape({kTensorBytes}));
  for (int i = 0; i < 6; ++i) ASSERT_OK(writer.Add(absl::StrCat("t", i), tensor));
  ASSERT_OK(writer.Finish());
  EXPECT_THAT(files.sizes(), ElementsAre(ElementsAre(4 * kTensorBytes, 6 * kTensorBytes)));
}

TEST(WriterThreads, AskForRoomForBlocksWithThePaddingBehindTheLast) {
  MemoryFileSystem memory;
  Reservations files(&memory);
  CheckpointWriterOptions options = To(&files, {1, 1, true});
  options.alignment = 64;
  ASSERT_OK_AND_ASSIGN(CheckpointWriter writer, CheckpointWriter::Create("/m", options));
  const Tensor first = *Tensor::Zeros(DType::kUint8, TensorShape({(1 << 20) - 32}));
  const Tensor second = *Tensor::Zeros(DType::kUint8, TensorShape({1 << 20}));
  for (int i = 0; i < 3; ++i) {
    ASSERT_OK(writer.BeginTensor(absl::StrCat("t", i), DType::kUint8, TensorShape({(2 << 20) - 32})));
    ASSERT_OK(writer.AddBlock(first));
    ASSERT_OK(writer.AddBlock(second));
  }
  ASSERT_OK(writer.Finish());
  EXPECT_THAT(files.sizes(), ElementsAre(ElementsAre(6 << 20)));
}

// An encoded tensor, and one whose layout is preserved, may take less than their elements.
TEST(WriterThreads, AskForRoomForWhatIsStoredAsItIs) {
  CheckpointAddOptions encoded;
  encoded.level = PayloadLevel::kDefault;
  const Tensor zeros = *Tensor::Zeros(DType::kUint8, TensorShape({4 << 20}));
  CheckpointAddOptions preserved;
  preserved.layout = StoredLayout::kPreserve;
  const Tensor element = *Tensor::Zeros(DType::kUint8, TensorShape({1}));
  const TensorView repeated = *TensorView(element).Expand({4 << 20});
  const std::pair<TensorView, CheckpointAddOptions> firsts[] = {{zeros, encoded}, {repeated, preserved}};
  for (const auto& [first, add] : firsts) {
    MemoryFileSystem memory;
    Reservations files(&memory);
    ASSERT_OK_AND_ASSIGN(CheckpointWriter writer, CheckpointWriter::Create("/m", To(&files, {1, 1, true})));
    ASSERT_OK(writer.Add("a", first, add));
    const Tensor stored = *Tensor::Zeros(DType::kUint8, TensorShape({1 << 20}));
    for (const char* const name : {"b", "c"}) ASSERT_OK(writer.Add(name, stored));
    ASSERT_OK(writer.Finish());
    ASSERT_EQ(files.sizes().size(), 1U);
    EXPECT_THAT(files.sizes()[0].front(), AllOf(Ge(2U << 20), Lt(3U << 20)));
  }
}

// What waits in a queue of several files says little about one of them.
TEST(WriterThreads, AskForRoomStepByStepWhereFilesShareAThread) {
  MemoryFileSystem memory;
  Reservations files(&memory);
  ASSERT_OK_AND_ASSIGN(CheckpointWriter writer, CheckpointWriter::Create("/m", To(&files, {2, 1, true})));
  const Tensor tensor = *Tensor::Zeros(DType::kUint8, TensorShape({4 << 20}));
  for (int i = 0; i < 4; ++i) {
    CheckpointAddOptions add;
    add.shard = i % 2;
    ASSERT_OK(writer.Add(absl::StrCat("t", i), tensor, add));
  }
  ASSERT_OK(writer.Finish());
  ASSERT_EQ(files.sizes().size(), 2U);
  for (const std::vector<uint64_t>& sizes : files.sizes()) EXPECT_LE(sizes.front(), 2 << 20);
}

// A thread starts with the first tensor for it: here, some never start.
TEST(WriterThreads, WithoutWorkTheyChangeNothing) {
  for (const int num_tensors : {0, 1, 3}) {
    const auto save = [&](FileSystem* files, int num_threads) {
      absl::StatusOr<CheckpointWriter> writer = CheckpointWriter::Create("/m", To(files, {5, num_threads, false}));
      if (!writer.ok()) return writer.status();
      CheckpointAddOptions add;
      add.shard = 3;
      for (int i = 0; i < num_tensors; ++i) {
        const absl::Status added = writer->Add(absl::StrCat("t", i), Tensor::Scalar<int32_t>(i), add);
        if (!added.ok()) return added;
      }
      return writer->Finish();
    };
    MemoryFileSystem wanted;
    ASSERT_OK(save(&wanted, 1));
    for (const int num_threads : {2, 3, 5}) {
      SCOPED_TRACE(absl::StrCat(num_tensors, " tensors, ", num_threads, " threads"));
      MemoryFileSystem files;
      ASSERT_OK(save(&files, num_threads));
      ExpectSameFiles(files, wanted);
    }
  }
}

TEST(WriterThreads, ManyTensors) {
  MemoryFileSystem files;
  ASSERT_OK_AND_ASSIGN(CheckpointWriter writer, CheckpointWriter::Create("/m", To(&files, {4, 4, false})));
  Tensor counter = *Tensor::Zeros(DType::kInt64, TensorShape({1000}));
  for (int i = 0; i < 2000; ++i) {
    counter.mutable_data<int64_t>()[0] = i;  // a write to what a thread may be writing out
    CheckpointAddOptions add;
    add.shard = i % 4;
    ASSERT_OK(writer.Add(absl::StrCat("w", i), counter, add));
  }
  ASSERT_OK(writer.Finish());
  for (int shard = 0; shard < 4; ++shard) {
    const std::string bytes = BytesOf(files, absl::StrCat("/m.data-0000", shard, "-of-00004"));
    ASSERT_EQ(bytes.size(), 500u * 8000);
    for (int i = 0; i < 500; ++i) {
      const auto* const first = reinterpret_cast<const int64_t*>(bytes.data() + size_t{8000} * i);
      ASSERT_EQ(*first, 4 * i + shard);
    }
  }
}

TEST(WriterThreads, RefusesBadNumbers) {
  MemoryFileSystem files;
  for (const int num_threads : {0, -1, 1025}) {
    EXPECT_THAT(CheckpointWriter::Create("/m", To(&files, {1, num_threads, false})),
                StatusIs(Code::kInvalidArgument, HasSubstr("num_threads is ")));
  }
  EXPECT_THAT(files.Paths(), IsEmpty());
}

// ---- What goes wrong ------------------------------------------------------------------------------------------------

TEST(WriterThreads, BadArgumentsAreToldAtOnce) {
  for (const Mode mode : {Mode{2, 2, false}, Mode{2, 1, true}, Mode{2, 2, true}}) {
    SCOPED_TRACE(NameOf(mode));
    MemoryFileSystem files;
    ASSERT_OK_AND_ASSIGN(CheckpointWriter writer, CheckpointWriter::Create("/m", To(&files, mode)));
    ASSERT_OK(writer.Add("w", Tensor::Scalar<float>(1)));
    const absl::Status refused = writer.Add("w", Tensor::Scalar<float>(1));
    EXPECT_THAT(refused, StatusIs(Code::kAlreadyExists, HasSubstr("\"w\" was added before")));
    EXPECT_THAT(files.Paths(), IsEmpty());  // the threads have ended, and nothing is left
    EXPECT_EQ(files.open_handles(), 0u);
    EXPECT_EQ(writer.Finish(), refused);
    EXPECT_EQ(writer.FinishInBackground().status(), refused);
  }
}

TEST(WriterThreads, AnErrorOfAThreadComesWithALaterCall) {
  MemoryFileSystem memory;
  FaultyFileSystem files(&memory);
  ASSERT_OK_AND_ASSIGN(CheckpointWriter writer, CheckpointWriter::Create("/m", To(&files, {2, 2, false})));
  files.FailAt(1, ENOSPC, FaultyFileSystem::kForEver, FileOperation::kAppend);
  const Tensor large = *Tensor::Zeros(DType::kInt8, TensorShape({1 << 20}));
  absl::Status status;
  int added = 0;
  for (; status.ok() && added < 100000; ++added) {
    CheckpointAddOptions add;
    add.shard = 1;
    status = writer.Add(absl::StrCat("w", added), large, add);
  }
  EXPECT_THAT(status, StatusIs(Code::kResourceExhausted,
                               AllOf(HasSubstr("/m: tensor \"w0\": "), HasSubstr("/m.data-00001-of-00002.tmp-"))));
  EXPECT_EQ(writer.Finish(), status);
  EXPECT_THAT(memory.Paths(), IsEmpty());
  EXPECT_EQ(files.open_handles(), 0u);
}

// Each operation of a save fails in turn. Nothing but a whole checkpoint is left, and no file is open.
TEST(WriterThreads, Faults) {
  int broken = 0;
  for (const Mode mode : {Mode{2, 2, false}, Mode{2, 1, true}, Mode{3, 2, true}}) {
    MemoryFileSystem wanted;
    ASSERT_OK(SaveAll(&wanted, mode));
    for (int64_t n = 1;; ++n) {
      SCOPED_TRACE(absl::StrCat(NameOf(mode), ", at ", n));
      MemoryFileSystem memory;
      FaultyFileSystem files(&memory);
      files.FailAt(n, n % 2 == 0 ? EIO : ENOSPC);
      const absl::Status saved = SaveAll(&files, mode, mode.background);
      EXPECT_EQ(files.open_handles(), 0u) << files.LogText();
      if (saved.ok()) {  // nothing failed, or only reserving room, which is a hint
        ExpectSameFiles(memory, wanted);
      } else {
        EXPECT_TRUE(absl::StrContains(saved.message(), "/m.")) << saved;
        EXPECT_THAT(memory.Paths(), IsEmpty()) << files.LogText();
      }
      if (HasFailure()) return;
      if (files.faults() == 0) {
        ASSERT_GT(n, 15);
        break;
      }
      ++broken;
    }
  }
  EXPECT_GT(broken, 60);
}

TEST(WriterThreads, LeaveNothingWithoutFinish) {
  for (const Mode mode : {Mode{2, 2, false}, Mode{2, 2, true}, Mode{1, 1, true}}) {
    SCOPED_TRACE(NameOf(mode));
    MemoryFileSystem files;
    {
      ASSERT_OK_AND_ASSIGN(CheckpointWriter writer, CheckpointWriter::Create("/m", To(&files, mode)));
      ASSERT_OK(AddAll(mode.num_shards, &writer));
    }
    EXPECT_THAT(files.Paths(), IsEmpty());
    EXPECT_EQ(files.open_handles(), 0u);
  }
}

// ---- Memory ---------------------------------------------------------------------------------------------------------

int64_t PeakMemory() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;
}

// 8 GiB in 32 tensors that are 64 KiB in memory, on two threads: each waits in a queue and is gathered piece by piece.
TEST(WriterThreads, NeedLittleMemoryForMuch) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers take memory of their own";
#endif
  DiscardingFileSystem files;
  const Tensor row = *Tensor::Zeros(DType::kFloat32, TensorShape({1 << 14, 1}));
  ASSERT_OK_AND_ASSIGN(const TensorView repeated, TensorView(row).Expand({1 << 14, 1 << 12}));
  const int64_t before = PeakMemory();
  ASSERT_OK_AND_ASSIGN(CheckpointWriter writer, CheckpointWriter::Create("/m", To(&files, {2, 2, false})));
  for (int i = 0; i < 32; ++i) {
    CheckpointAddOptions add;
    add.shard = i % 2;
    ASSERT_OK(writer.Add(absl::StrCat("w", i), repeated, add));
  }
  ASSERT_OK(writer.Finish());
  EXPECT_GT(files.bytes_written(), uint64_t{8} << 30);
  EXPECT_LT(PeakMemory() - before, 64 << 20);
}

// The caller goes on writing to one buffer; what waits is bounded all the same: 64 MiB and two tensors a thread.
TEST(WriterThreads, WaitForTheirTurn) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers take memory of their own";
#endif
  DiscardingFileSystem files;
  Tensor tensor = *Tensor::Zeros(DType::kInt8, TensorShape({8 << 20}));
  const int64_t before = PeakMemory();
  ASSERT_OK_AND_ASSIGN(CheckpointWriter writer, CheckpointWriter::Create("/m", To(&files, {1, 2, false})));
  for (int i = 0; i < 64; ++i) {
    tensor.mutable_data<int8_t>()[i] = 1;
    ASSERT_OK(writer.Add(absl::StrCat("w", i), tensor));
  }
  ASSERT_OK(writer.Finish());
  EXPECT_GT(files.bytes_written(), uint64_t{512} << 20);
  EXPECT_LT(PeakMemory() - before, (64 + 3 * 8 + 8) << 20);
}

}  // namespace
}  // namespace tensorcask
