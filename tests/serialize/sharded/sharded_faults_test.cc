#include <atomic>
#include <cerrno>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/io/forwarding_file_system.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/serialize/sharded/internal/exchange.h"
#include "tensorcask/serialize/sharded/sharded_save.h"
#include "tensorcask/tensor/strided/compare.h"
#include "tensorcask/tests/serialize/sharded/sharded_testing.h"
#include "tensorcask/tests/support/faulty_file_system.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::FaultyFileSystem;
using ::tensorcask::testing::Numbered;
using ::tensorcask::testing::OnRanks;
using ::tensorcask::testing::Same;
using ::tensorcask::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Code = absl::StatusCode;

constexpr char kPrefix[] = "/job/step-1";

LocalPiece Piece(const std::string& name, const TensorShape& shape, const std::string& slice,
                 DType dtype = DType::kFloat32) {
  const TensorSlice parsed = *TensorSlice::Parse(slice);
  return {name, shape, parsed, TensorView(Numbered(dtype, *parsed.Apply(shape), 1)), {}};
}

// ---- Declarations that disagree -------------------------------------------------------------------------------------

// The status of a save of two ranks, which touches nothing.
absl::Status Refusal(const std::vector<LocalPiece>& first, const std::vector<LocalPiece>& second) {
  MemoryFileSystem memory;
  FaultyFileSystem files(&memory);
  ShardedSaveOptions options;
  options.file_system = &files;
  const absl::Status status = Same(OnRanks(2, [&](Communicator* comm) {
    return ShardedSave(comm, kPrefix, comm->rank() == 0 ? first : second, options).status();
  }));
  EXPECT_EQ(files.operations(), 0) << files.LogText();
  return status;
}

TEST(ShardedSaveRefuses, OtherDTypes) {
  EXPECT_THAT(Refusal({Piece("w", TensorShape({4}), "0,2")}, {Piece("w", TensorShape({4}), "2,2", DType::kInt32)}),
              StatusIs(Code::kInvalidArgument,
                       AllOf(HasSubstr("/job/step-1: tensor \"w\": rank 0 declares float32 [4], rank 1 declares"),
                             HasSubstr("int32 [4]"))));
}

TEST(ShardedSaveRefuses, OtherShapes) {
  EXPECT_THAT(Refusal({Piece("w", TensorShape({4}), "0,2")}, {Piece("w", TensorShape({5}), "2,3")}),
              StatusIs(Code::kInvalidArgument, HasSubstr("rank 0 declares float32 [4], rank 1 declares float32 [5]")));
}

TEST(ShardedSaveRefuses, Overlaps) {
  EXPECT_THAT(
      Refusal({Piece("w", TensorShape({4}), "0,3")}, {Piece("w", TensorShape({4}), "2,2")}),
      StatusIs(Code::kInvalidArgument, AllOf(HasSubstr("tensor \"w\""), HasSubstr("rank 0"), HasSubstr("rank 1"))));
  EXPECT_THAT(Refusal({Piece("w", TensorShape({4}), "-")}, {Piece("w", TensorShape({4}), "2,2")}),
              StatusIs(Code::kInvalidArgument, HasSubstr("tensor \"w\"")));
}

TEST(ShardedSaveRefuses, Holes) {
  EXPECT_THAT(Refusal({Piece("w", TensorShape({4, 2}), "0,1:-")}, {Piece("w", TensorShape({4, 2}), "2,2:-")}),
              StatusIs(Code::kInvalidArgument, HasSubstr("tensor \"w\": 6 of 8 elements of [4,2] are declared; ranks "
                                                         "with pieces of it: 0, 1")));
}

TEST(ShardedSaveRefuses, PiecesThatAreNone) {
  LocalPiece other = Piece("w", TensorShape({4}), "0,2");
  other.elements = TensorView(Numbered(DType::kFloat32, TensorShape({3}), 1));
  EXPECT_THAT(Refusal({}, {other}), StatusIs(Code::kInvalidArgument,
                                             HasSubstr("rank 1: tensor \"w\": slice \"0,2\" of [4] has shape [2]; the "
                                                       "elements have [3]")));
  LocalPiece outside = Piece("w", TensorShape({4}), "0,2");
  outside.full_shape = TensorShape({1});
  EXPECT_THAT(Refusal({outside}, {}), StatusIs(Code::kOutOfRange, HasSubstr("rank 0: tensor \"w\"")));
  EXPECT_THAT(Refusal({Piece("", TensorShape({4}), "-")}, {}), StatusIs(Code::kInvalidArgument, HasSubstr("rank 0: ")));
}

TEST(ShardedSaveRefuses, OtherPaths) {
  MemoryFileSystem memory;
  FaultyFileSystem files(&memory);
  ShardedSaveOptions options;
  options.file_system = &files;
  options.overwrite = true;
  EXPECT_THAT(
      Same(OnRanks(3,
                   [&](Communicator* comm) {
                     return ShardedSave(comm, comm->rank() == 2 ? "/job/step-2" : kPrefix, {}, options).status();
                   })),
      StatusIs(Code::kInvalidArgument,
               HasSubstr("rank 2 was given the path \"/job/step-2\", and rank 0 \"/job/step-1\"")));
  EXPECT_EQ(files.operations(), 0) << files.LogText();
}

// ---- Faults of the file system --------------------------------------------------------------------------------------

std::vector<LocalPiece> Rows(int rank, int version) {
  const TensorShape shape({4, 3});
  const TensorSlice slice = *TensorSlice::Create({{rank * 2, 2}, {}});
  const TensorView whole = Numbered(DType::kFloat32, shape, version);
  std::vector<LocalPiece> pieces = {{"w", shape, slice, *whole.Slice(slice), {}}};
  pieces.push_back({"step", TensorShape(), TensorSlice(), TensorView(Tensor::Scalar<int64_t>(version)), {}});
  return pieces;
}

absl::Status SaveVersion(int version, bool overwrite, FileSystem* files) {
  ShardedSaveOptions options;
  options.file_system = files;
  options.overwrite = overwrite;
  return Same(OnRanks(2, [&](Communicator* comm) {
    return ShardedSave(comm, kPrefix, Rows(comm->rank(), version), options).status();
  }));
}

// The version of the checkpoint, if all of it is of one version.
absl::StatusOr<int> VersionOf(FileSystem* files) {
  CheckpointReaderOptions options;
  options.read.file_system = files;
  absl::StatusOr<CheckpointReader> reader = CheckpointReader::Open(kPrefix, options);
  if (!reader.ok()) return reader.status();
  const absl::StatusOr<Tensor> step = reader->Read("step");
  if (!step.ok()) return step.status();
  const int version = static_cast<int>(*step->data<int64_t>());
  const absl::StatusOr<Tensor> w = reader->Read("w");
  if (!w.ok()) return w.status();
  if (!Equal(*w, Numbered(DType::kFloat32, TensorShape({4, 3}), version))) return absl::DataLossError("a mixture");
  return version;
}

// Fails the n-th operation of one kind of trouble, for each n, until a save has fewer operations.
void BreakEachOperation(bool overwrite, FaultyFileSystem::Duration duration, bool after_effect) {
  for (int64_t n = 1;; ++n) {
    SCOPED_TRACE(absl::StrCat("operation ", n));
    MemoryFileSystem memory;
    memory.MakeFolder("/job");
    if (overwrite) {
      ASSERT_OK(SaveVersion(1, /*overwrite=*/false, &memory));
    }
    FaultyFileSystem files(&memory);
    files.FailAfterEffect(after_effect);
    files.FailAt(n, EIO, duration);
    const absl::Status saved = SaveVersion(2, overwrite, &files);
    EXPECT_EQ(files.open_handles(), 0u);
    const absl::StatusOr<int> version = VersionOf(&memory);
    if (saved.ok()) {
      ASSERT_OK(version);
      EXPECT_EQ(*version, 2);
    } else if (version.ok()) {
      // The new one: only the last sync failed, with `overwrite`, or the answer of a rename was lost for ever.
      EXPECT_TRUE(*version == 2 || overwrite);
    } else {
      EXPECT_FALSE(overwrite) << saved << "\n" << files.LogText();
      EXPECT_THAT(version, StatusIs(Code::kNotFound)) << saved << "\n" << files.LogText();
    }
    // Whoever saves next is not in the way of what was left.
    ASSERT_OK(SaveVersion(3, /*overwrite=*/true, &memory));
    EXPECT_EQ(VersionOf(&memory).value_or(-1), 3);
    for (const std::string& path : memory.Paths()) EXPECT_EQ(path.find(".tmp-"), std::string::npos) << path;
    if (files.faults() == 0) {
      EXPECT_GT(n, 20);
      break;
    }
  }
}

TEST(ShardedSaveFaults, LeaveNothingOrAllOfIt) {
  for (const auto duration : {FaultyFileSystem::kOnce, FaultyFileSystem::kForEver}) {
    for (const bool after_effect : {false, true}) {
      SCOPED_TRACE(absl::StrCat(duration, " ", after_effect));
      BreakEachOperation(/*overwrite=*/false, duration, after_effect);
    }
  }
}

TEST(ShardedSaveFaults, LeaveTheOldCheckpointOrTheNewOne) {
  for (const auto duration : {FaultyFileSystem::kOnce, FaultyFileSystem::kForEver}) {
    for (const bool after_effect : {false, true}) {
      SCOPED_TRACE(absl::StrCat(duration, " ", after_effect));
      BreakEachOperation(/*overwrite=*/true, duration, after_effect);
    }
  }
}

TEST(ShardedSaveFaults, OfOneRankReachAll) {
  MemoryFileSystem memory;
  memory.MakeFolder("/job");
  FaultyFileSystem files(&memory);
  files.FailAt(1, ENOSPC, FaultyFileSystem::kForEver, testing::FileOperation::kAppend);
  const absl::Status saved = SaveVersion(1, /*overwrite=*/false, &files);
  EXPECT_THAT(saved, StatusIs(Code::kResourceExhausted, HasSubstr("rank ")));
  EXPECT_EQ(ErrorNumberOf(saved), ENOSPC);
  EXPECT_THAT(memory.Paths(), IsEmpty());
}

// ---- Folders --------------------------------------------------------------------------------------------------------

TEST(ShardedSaveFaults, OfRanksWithoutACommonFolderLeaveTheOldCheckpoint) {
  for (const bool overwrite : {false, true}) {
    SCOPED_TRACE(overwrite);
    MemoryFileSystem first;
    MemoryFileSystem second;
    first.MakeFolder("/job");
    second.MakeFolder("/job");
    if (overwrite) {
      ASSERT_OK(SaveVersion(1, /*overwrite=*/false, &first));
    }
    const std::vector<std::string> before = first.Paths();
    EXPECT_THAT(
        Same(OnRanks(2,
                     [&](Communicator* comm) {
                       ShardedSaveOptions options;
                       options.file_system = comm->rank() == 0 ? &first : &second;
                       options.overwrite = overwrite;
                       return ShardedSave(comm, kPrefix, Rows(comm->rank(), 2), options).status();
                     })),
        StatusIs(Code::kFailedPrecondition, HasSubstr(overwrite ? "/job/step-1.data-00001-of-00003: another process"
                                                                : "/job/step-1.data-00001-of-00002: another process")));
    EXPECT_EQ(first.Paths(), before);
    EXPECT_THAT(second.Paths(), IsEmpty());
  }
}

// Says that there is no data file until its folder was listed, as a network file system may.
class SlowToNotice final : public ForwardingFileSystem {
 public:
  using ForwardingFileSystem::ForwardingFileSystem;
  IoResult Describe(const std::string& path, FileInfo* info) override {
    if (!listed_ && absl::StrContains(path, ".data-") && !absl::StrContains(path, ".tmp-")) return -ENOENT;
    return ForwardingFileSystem::Describe(path, info);
  }
  IoResult List(const std::string& path, std::vector<std::string>* names) override {
    listed_ = true;
    return ForwardingFileSystem::List(path, names);
  }

 private:
  std::atomic<bool> listed_{false};
};

TEST(ShardedSaveFaults, AreNotThatAFileSystemNoticesNewNamesLate) {
  MemoryFileSystem memory;
  memory.MakeFolder("/job");
  SlowToNotice files(&memory);
  ASSERT_OK(SaveVersion(1, /*overwrite=*/false, &files));
  EXPECT_EQ(VersionOf(&memory).value_or(-1), 1);
}

// ---- Two jobs that save under one name ------------------------------------------------------------------------------

TEST(ShardedSaveFaults, OfAJobThatLosesLeaveTheFilesOfTheOther) {
  for (const bool overwrite : {false, true}) {
    SCOPED_TRACE(overwrite);
    MemoryFileSystem memory;
    memory.MakeFolder("/job");
    if (overwrite) {
      ASSERT_OK(SaveVersion(1, /*overwrite=*/false, &memory));
    }
    FaultyFileSystem files(&memory);
    std::atomic<int> renamed{0};
    std::atomic<bool> other_saved{false};
    files.SetHook([&](int64_t, testing::FileOperation operation, const std::string& path) {
      if (operation == testing::FileOperation::kRename && absl::StrContains(path, ".data-")) ++renamed;
      if (renamed < 2 || !absl::EndsWith(path, ".index") || other_saved.exchange(true)) return;
      // The data files have their names, and the index follows. Another job replaces all of them.
      EXPECT_OK(SaveVersion(3, /*overwrite=*/true, &memory));
    });
    const absl::Status saved = SaveVersion(2, overwrite, &files);
    EXPECT_TRUE(other_saved);
    EXPECT_THAT(saved, StatusIs(overwrite ? Code::kAborted : Code::kAlreadyExists, HasSubstr("step-1.index")));
    EXPECT_EQ(VersionOf(&memory).value_or(-1), 3) << VersionOf(&memory).status();
  }
}

// ---- What ranks send ------------------------------------------------------------------------------------------------

TEST(ShardedExchange, StatusesTravelWithTheirErrorNumber) {
  const absl::Status full = IoError(-ENOSPC, "/job/m", "write");
  EXPECT_EQ(sharded::DecodeStatus(sharded::EncodeStatus(full)), full);
  EXPECT_EQ(ErrorNumberOf(sharded::DecodeStatus(sharded::EncodeStatus(full))), ENOSPC);
  const absl::Status plain = absl::DataLossError("");
  EXPECT_EQ(sharded::DecodeStatus(sharded::EncodeStatus(plain)), plain);
  EXPECT_OK(sharded::DecodeStatus(sharded::EncodeStatus(absl::OkStatus())));
}

TEST(ShardedExchange, RefusesBytesThatAreNoStatus) {
  const std::string huge = "\xff\xff\xff\xff\x7f";
  for (const std::string& bytes :
       {std::string(), std::string("\x05"), std::string("\x11\x01"), huge, "\x05" + huge, std::string("\x05\x80")}) {
    EXPECT_THAT(sharded::DecodeStatus(bytes), StatusIs(Code::kInternal, HasSubstr("cannot be read")));
  }
}

// Answers something else than rank 0 sent.
class LyingCommunicator final : public Communicator {
 public:
  LyingCommunicator(Communicator* behind, std::string answer) : behind_(behind), answer_(std::move(answer)) {}
  int rank() const override { return behind_->rank(); }
  int size() const override { return behind_->size(); }
  absl::StatusOr<std::vector<std::string>> Gather(absl::string_view mine, int root) override {
    return behind_->Gather(mine, root);
  }
  absl::StatusOr<std::string> Broadcast(absl::string_view, int) override { return answer_; }
  absl::Status Barrier() override { return behind_->Barrier(); }

 private:
  Communicator* const behind_;
  const std::string answer_;
};

TEST(ShardedExchange, AFailureWithoutAnErrorIsAnError) {
  for (const std::string& answer : {std::string(), std::string("\x01"), std::string("\x01\0\0", 3)}) {
    EXPECT_THAT(Same(OnRanks(1,
                             [&](Communicator* comm) {
                               LyingCommunicator lying(comm, answer);
                               return sharded::AgreeOnStatus(&lying, absl::OkStatus());
                             })),
                StatusIs(Code::kInternal, HasSubstr("a rank sent ")));
  }
}

// ---- Ranks that die -------------------------------------------------------------------------------------------------

// Ends a rank at its n-th call: from then on its calls answer Unavailable, and so do those of the others.
class DyingCommunicator final : public Communicator {
 public:
  DyingCommunicator(Communicator* behind, int calls) : behind_(behind), calls_(calls) {}

  int rank() const override { return behind_->rank(); }
  int size() const override { return behind_->size(); }
  absl::StatusOr<std::vector<std::string>> Gather(absl::string_view mine, int root) override {
    if (calls_-- <= 0) return absl::UnavailableError("killed");
    return behind_->Gather(mine, root);
  }
  absl::StatusOr<std::string> Broadcast(absl::string_view from_root, int root) override {
    if (calls_-- <= 0) return absl::UnavailableError("killed");
    return behind_->Broadcast(from_root, root);
  }
  absl::Status Barrier() override { return behind_->Barrier(); }

 private:
  Communicator* const behind_;
  int calls_;
};

TEST(ShardedSaveFaults, OfTheCommunicatorLeaveTheOldCheckpointOrTheNewOne) {
  for (int dead = 0; dead < 2; ++dead) {
    bool was_old = false;
    for (int calls = 0; calls < 12; ++calls) {
      SCOPED_TRACE(absl::StrCat("rank ", dead, " after ", calls, " calls"));
      MemoryFileSystem memory;
      memory.MakeFolder("/job");
      ASSERT_OK(SaveVersion(1, /*overwrite=*/false, &memory));
      ShardedSaveOptions options;
      options.file_system = &memory;
      options.overwrite = true;
      const std::vector<absl::Status> statuses = OnRanks(2, [&](Communicator* comm) {
        DyingCommunicator dying(comm, comm->rank() == dead ? calls : 100);
        return ShardedSave(&dying, kPrefix, Rows(comm->rank(), 2), options).status();
      });
      const absl::StatusOr<int> version = VersionOf(&memory);
      ASSERT_OK(version);
      if (*version == 1) {
        was_old = true;
        EXPECT_FALSE(statuses[0].ok());
      } else {
        EXPECT_EQ(*version, 2);
        if (calls < 8) ADD_FAILURE() << "the new checkpoint appeared too early";
      }
      ASSERT_OK(SaveVersion(3, /*overwrite=*/true, &memory));
      EXPECT_EQ(VersionOf(&memory).value_or(-1), 3);
      EXPECT_EQ(memory.Paths().size(), memory.Paths()[0].find("of-00003") != std::string::npos ? 4u : 3u);
    }
    EXPECT_TRUE(was_old);
  }
}

}  // namespace
}  // namespace tensorcask
