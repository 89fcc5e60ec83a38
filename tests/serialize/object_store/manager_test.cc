// The steps of runs in an object store, where there are no locks: several managers of one folder.

#include "tensorcask/serialize/checkpoint/manager.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/checkpoint/state_file.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tests/serialize/object_store/store_testing.h"
#include "tensorcask/tests/support/lying_server.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using namespace ::tensorcask::testing;  // NOLINT(google-build-using-namespace)
using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Not;
using Code = absl::StatusCode;

constexpr char kRun[] = "s3://bucket/run";
constexpr char kState[] = "s3://bucket/run/checkpoint";

CheckpointManagerOptions ManagerOn(FileSystem* files, int keep_last = 5) {
  CheckpointManagerOptions options;
  options.keep_last = keep_last;
  options.writer.file_system = files;
  return options;
}

absl::Status SaveNumber(CheckpointManager* manager, int64_t step, int64_t number) {
  return manager->Save(step,
                       [&](CheckpointWriter& writer) { return writer.Add("number", Tensor::Scalar<int64_t>(number)); });
}

absl::StatusOr<int64_t> NumberOf(FileSystem* files, const std::string& prefix) {
  CheckpointReaderOptions options;
  options.read.file_system = files;
  CASK_ASSIGN_OR_RETURN(const CheckpointReader reader, CheckpointReader::Open(prefix, options));
  CASK_ASSIGN_OR_RETURN(const Tensor number, reader.Read("number"));
  return number.scalar<int64_t>();
}

TEST(ManagerOnStore, SavesAndKeepsTheLastSteps) {
  LyingServer server;
  const std::unique_ptr<ObjectStore> store = StoreFor(server);
  ASSERT_OK_AND_ASSIGN(CheckpointManager manager, CheckpointManager::Open(kRun, ManagerOn(store->files(), 2)));
  EXPECT_THAT(manager.notes(), ElementsAre(HasSubstr("s3://bucket/run: this file system has no locks")));
  for (const int64_t step : {1, 2, 3}) ASSERT_OK(SaveNumber(&manager, step, step));
  EXPECT_THAT(server.Paths(),
              ElementsAre("bucket/run/checkpoint", "bucket/run/ckpt-2.data-00000-of-00001", "bucket/run/ckpt-2.index",
                          "bucket/run/ckpt-3.data-00000-of-00001", "bucket/run/ckpt-3.index"));
  ASSERT_OK_AND_ASSIGN(const LatestCheckpoint latest, manager.Latest());
  EXPECT_EQ(latest.prefix, "s3://bucket/run/ckpt-3");
  ASSERT_OK_AND_ASSIGN(const int64_t number, NumberOf(store->files(), latest.prefix));
  EXPECT_EQ(number, 3);
  ASSERT_OK_AND_ASSIGN(const CheckpointState state, ReadCheckpointState(kState, store->files()));
  EXPECT_EQ(state.latest, "ckpt-3");
  EXPECT_THAT(state.all, ElementsAre("ckpt-2", "ckpt-3"));
}

TEST(ManagerOnStore, AMissingBucketIsNoEmptyFolder) {
  LyingServer server;
  const std::unique_ptr<ObjectStore> store = StoreFor(server);
  ASSERT_OK(CheckpointManager::Open("s3://bucket/new/run", ManagerOn(store->files())).status());
  server.LieAlways([](Exchange* exchange) { exchange->Fail(404, "NoSuchBucket"); });
  for (const char* folder : {"s3://nowhere/new/run", "s3://nowhere"}) {
    const absl::Status status = CheckpointManager::Open(folder, ManagerOn(store->files())).status();
    EXPECT_THAT(status, StatusIs(Code::kNotFound, HasSubstr(absl::StrCat(folder, ": cannot list"))));
    EXPECT_THAT(status, StatusIs(Code::kNotFound, HasSubstr("NoSuchBucket")));
  }
}

TEST(ManagerOnStore, AStepIsRemovedIndexFirst) {
  LyingServer server;
  const std::unique_ptr<ObjectStore> store = StoreFor(server);
  ASSERT_OK_AND_ASSIGN(CheckpointManager manager, CheckpointManager::Open(kRun, ManagerOn(store->files(), 1)));
  ASSERT_OK(SaveNumber(&manager, 1, 1));
  server.ForgetRequests();
  ASSERT_OK(SaveNumber(&manager, 2, 2));
  std::vector<std::string> changes;
  for (const ServerRequest& request : server.requests()) {
    if (request.method == "PUT" || request.method == "DELETE") {
      changes.push_back(absl::StrCat(request.method, " ", request.path));
    }
  }
  EXPECT_THAT(changes, ElementsAre("PUT bucket/run/ckpt-2.data-00000-of-00001", "PUT bucket/run/ckpt-2.index",
                                   "PUT bucket/run/checkpoint", "DELETE bucket/run/ckpt-1.index",
                                   "DELETE bucket/run/ckpt-1.data-00000-of-00001"));
}

TEST(ManagerOnStore, TwoManagersKeepEachOthersSteps) {
  LyingServer server;
  const std::unique_ptr<ObjectStore> store = StoreFor(server);
  const std::unique_ptr<ObjectStore> other_store = StoreFor(server);
  ASSERT_OK_AND_ASSIGN(CheckpointManager first, CheckpointManager::Open(kRun, ManagerOn(store->files(), 1)));
  ASSERT_OK(SaveNumber(&first, 1, 1));
  ASSERT_OK_AND_ASSIGN(CheckpointManager second, CheckpointManager::Open(kRun, ManagerOn(other_store->files(), 1)));
  ASSERT_OK(SaveNumber(&second, 5, 5));  // it found step 1, which it no longer keeps
  ASSERT_OK(SaveNumber(&first, 2, 2));   // step 5 is not its own: it counts for nothing and stays
  EXPECT_THAT(SaveNumber(&first, 5, 50), StatusIs(Code::kAlreadyExists, HasSubstr("ckpt-5")));
  ASSERT_OK(SaveNumber(&first, 3, 3));
  EXPECT_THAT(first.steps(), ElementsAre(3));
  EXPECT_THAT(second.steps(), ElementsAre(5));
  for (const int64_t step : {3, 5}) {
    ASSERT_OK_AND_ASSIGN(const int64_t number, NumberOf(store->files(), first.PrefixOf(step)));
    EXPECT_EQ(number, step);
  }
  ASSERT_OK_AND_ASSIGN(CheckpointState state, ReadCheckpointState(kState, store->files()));
  EXPECT_EQ(state.latest, "ckpt-3");
  EXPECT_THAT(state.all, ElementsAre("ckpt-5", "ckpt-3"));  // the one saved last is the last
  EXPECT_EQ(state.saved_at.size(), 2u);
  ASSERT_OK(SaveNumber(&second, 6, 6));
  ASSERT_OK_AND_ASSIGN(state, ReadCheckpointState(kState, store->files()));
  EXPECT_THAT(state.all, ElementsAre("ckpt-3", "ckpt-6"));
  EXPECT_THAT(server.Paths(), Not(Contains(HasSubstr("ckpt-5"))));
}

TEST(ManagerOnStore, TheBaseOfAnotherManagersDeltaStays) {
  LyingServer server;
  const std::unique_ptr<ObjectStore> store = StoreFor(server);
  const auto save = [](CheckpointManager* manager, int64_t step) {
    return manager->Save(step, [](CheckpointWriter& writer) { return writer.Add("w", PatternTensor(100'000)); });
  };
  {
    ASSERT_OK_AND_ASSIGN(CheckpointManager before, CheckpointManager::Open(kRun, ManagerOn(store->files())));
    ASSERT_OK(save(&before, 1));
  }
  ASSERT_OK_AND_ASSIGN(CheckpointManager first, CheckpointManager::Open(kRun, ManagerOn(store->files(), 1)));
  CheckpointManagerOptions with_base = ManagerOn(store->files());
  CheckpointReaderOptions read;
  read.read.file_system = store->files();
  ASSERT_OK_AND_ASSIGN(CheckpointReader base, CheckpointReader::Open("s3://bucket/run/ckpt-1", read));
  with_base.writer.payload.base = std::make_shared<const CheckpointReader>(std::move(base));
  with_base.writer.payload.level = PayloadLevel::kDefault;
  ASSERT_OK_AND_ASSIGN(CheckpointManager second, CheckpointManager::Open(kRun, with_base));
  ASSERT_OK(save(&second, 7));
  for (const int64_t step : {2, 3}) ASSERT_OK(save(&first, step));
  EXPECT_THAT(server.Paths(), IsSupersetOf({"bucket/run/ckpt-1.index", "bucket/run/ckpt-7.index"}));
  EXPECT_THAT(server.Paths(), Not(Contains("bucket/run/ckpt-2.index")));
}

TEST(ManagerOnStore, ADamagedStepIsNotReplaced) {
  LyingServer server;
  const std::unique_ptr<ObjectStore> store = StoreFor(server);
  server.Put("bucket/run/ckpt-4.index", "of another program");
  ASSERT_OK_AND_ASSIGN(CheckpointManager manager, CheckpointManager::Open(kRun, ManagerOn(store->files())));
  EXPECT_THAT(SaveNumber(&manager, 4, 4),
              StatusIs(Code::kFailedPrecondition, HasSubstr("remove s3://bucket/run/ckpt-4.index first")));
  EXPECT_EQ(server.Get("bucket/run/ckpt-4.index"), "of another program");
  ASSERT_OK(SaveNumber(&manager, 5, 5));
}

// ---- The state file -------------------------------------------------------------------------------------------------

CheckpointState WithStep(CheckpointState state, const std::string& name) {
  state.latest = name;
  state.all.push_back(name);
  state.saved_at.push_back(1);
  return state;
}

TEST(StateOnStore, ALostRaceIsRunAgainWithWhatIsThereNow) {
  for (const bool exists : {false, true}) {
    SCOPED_TRACE(exists);
    LyingServer server;
    const std::unique_ptr<ObjectStore> store = StoreFor(server);
    const std::unique_ptr<ObjectStore> other = StoreFor(server);
    if (exists) {
      ASSERT_OK(WriteCheckpointState(kState, WithStep({}, "old"), true, store->files()));
    }
    int calls = 0;
    ASSERT_OK(UpdateCheckpointState(
        kState,
        [&](const CheckpointState& found) {
          if (++calls <= 2) {
            EXPECT_OK(UpdateCheckpointState(
                kState, [&](const CheckpointState& state) { return WithStep(state, absl::StrCat("other-", calls)); },
                true, other->files()));
          }
          return WithStep(found, "ours");
        },
        true, store->files()));
    EXPECT_EQ(calls, 3);
    ASSERT_OK_AND_ASSIGN(const CheckpointState state, ReadCheckpointState(kState, store->files()));
    std::vector<std::string> wanted = {"other-1", "other-2", "ours"};
    if (exists) wanted.insert(wanted.begin(), "old");
    EXPECT_EQ(state.all, wanted);
  }
}

TEST(StateOnStore, EightLostRacesAreAnError) {
  LyingServer server;
  const std::unique_ptr<ObjectStore> store = StoreFor(server);
  const std::unique_ptr<ObjectStore> other = StoreFor(server);
  int calls = 0;
  const absl::Status status = UpdateCheckpointState(
      kState,
      [&](const CheckpointState& found) {
        ++calls;
        EXPECT_OK(WriteCheckpointState(kState, WithStep({}, absl::StrCat(calls)), true, other->files()));
        return WithStep(found, "ours");
      },
      true, store->files());
  EXPECT_THAT(status, StatusIs(Code::kAborted, HasSubstr("other writers replaced the file 8 times")));
  EXPECT_EQ(calls, 8);
  ASSERT_OK_AND_ASSIGN(const CheckpointState state, ReadCheckpointState(kState, store->files()));
  EXPECT_EQ(state.latest, "8");
}

TEST(StateOnStore, WhoReplacedItIsFoundOutAfterALostAnswer) {
  for (const bool was_done : {false, true}) {
    SCOPED_TRACE(was_done);
    LyingServer server;
    const std::unique_ptr<ObjectStore> store = StoreFor(server);
    ASSERT_OK(WriteCheckpointState(kState, WithStep({}, "old"), true, store->files()));
    server.ForgetRequests();
    int puts = 0;
    server.LieAlways([&](Exchange* exchange) {
      const bool is_first = exchange->request.Kind() == "put" && ++puts == 1;
      if (!is_first || was_done) exchange->Work();
      if (is_first) exchange->is_silent = true, exchange->end = Exchange::End::kReset;
    });
    int calls = 0;
    ASSERT_OK(UpdateCheckpointState(
        kState, [&](const CheckpointState& state) { return ++calls, WithStep(state, "new"); }, true, store->files()));
    EXPECT_EQ(calls, 1);

    server.TellTheTruth();
    ASSERT_OK_AND_ASSIGN(const CheckpointState state, ReadCheckpointState(kState, store->files()));
    EXPECT_THAT(state.all, ElementsAre("old", "new"));
  }
}

// ---- Races ----------------------------------------------------------------------------------------------------------

TEST(ManagerOnStore, OfEightSaversOfAStepOneWinsWithItsBytes) {
  constexpr int kSavers = 8;
  constexpr int kRounds = 200;
  constexpr int kKept = 3;  // of each saver
  LyingServer server;
  std::vector<std::unique_ptr<ObjectStore>> stores;
  std::vector<CheckpointManager> managers;
  for (int i = 0; i < kSavers; ++i) {
    stores.push_back(StoreFor(server));
    ASSERT_OK_AND_ASSIGN(CheckpointManager manager,
                         CheckpointManager::Open(kRun, ManagerOn(stores.back()->files(), kKept)));
    managers.push_back(std::move(manager));
  }
  for (int round = 0; round < kRounds; ++round) {
    SCOPED_TRACE(round);
    std::atomic<int> winner{-1};
    std::atomic<int> wins{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < kSavers; ++i) {
      threads.emplace_back([&, i] {
        const absl::Status saved = SaveNumber(&managers[static_cast<size_t>(i)], round, i);
        if (saved.ok()) {
          winner = i;
          ++wins;
        } else {
          EXPECT_THAT(saved, StatusIs(Code::kAlreadyExists, HasSubstr(absl::StrCat("ckpt-", round))));
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(wins, 1);
    ASSERT_OK_AND_ASSIGN(const int64_t number, NumberOf(stores[0]->files(), managers[0].PrefixOf(round)));
    ASSERT_EQ(number, winner);
  }
  EXPECT_EQ(server.num_uploads(), 0u);
  ASSERT_OK_AND_ASSIGN(const CheckpointState state, ReadCheckpointState(kState, stores[0]->files()));
  EXPECT_EQ(state.latest, absl::StrCat("ckpt-", kRounds - 1));
  EXPECT_LE(state.all.size(), static_cast<size_t>(kSavers * kKept));
  for (const std::string& name : state.all) EXPECT_TRUE(server.Has(absl::StrCat("bucket/run/", name, ".index")));
}

TEST(ManagerOnStore, ManagersThatSaveAtTheSameTimeLoseNoStep) {
  constexpr int kManagers = 4;
  constexpr int kSteps = 10;
  LyingServer server;
  std::vector<std::thread> threads;
  for (int i = 0; i < kManagers; ++i) {
    threads.emplace_back([&, i] {
      const std::unique_ptr<ObjectStore> store = StoreFor(server);
      absl::StatusOr<CheckpointManager> manager = CheckpointManager::Open(kRun, ManagerOn(store->files(), 100));
      ASSERT_OK(manager.status());
      for (int step = 0; step < kSteps; ++step) {
        // All names of the state file at once may be too busy: the step is saved, and the next save writes it.
        const absl::Status saved = SaveNumber(&*manager, step * kManagers + i, i);
        if (!saved.ok()) {
          EXPECT_THAT(saved, StatusIs(Code::kAborted, HasSubstr("the step is saved")));
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::unique_ptr<ObjectStore> store = StoreFor(server);
  ASSERT_OK_AND_ASSIGN(CheckpointManager after, CheckpointManager::Open(kRun, ManagerOn(store->files(), 100)));
  EXPECT_EQ(after.steps().size(), static_cast<size_t>(kManagers * kSteps));
  for (int step = 0; step < kManagers * kSteps; ++step) {
    ASSERT_OK_AND_ASSIGN(const int64_t number, NumberOf(store->files(), after.PrefixOf(step)));
    EXPECT_EQ(number, step % kManagers);
  }
  // One save more, of the manager that knows all steps.
  ASSERT_OK(SaveNumber(&after, 1000, 1000));
  ASSERT_OK_AND_ASSIGN(const CheckpointState state, ReadCheckpointState(kState, store->files()));
  EXPECT_EQ(state.all.size(), static_cast<size_t>(kManagers * kSteps + 1));
}

}  // namespace
}  // namespace tensorcask
