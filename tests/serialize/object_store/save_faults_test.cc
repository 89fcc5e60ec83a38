// What a server, a network and a signal can do to a save, at each of its requests.

#include <dirent.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/object_store/object_store.h"
#include "tensorcask/tests/serialize/object_store/fault_testing.h"
#include "tensorcask/tests/serialize/object_store/store_testing.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using namespace ::tensorcask::testing;  // NOLINT(google-build-using-namespace)
using ::testing::IsEmpty;
using Code = absl::StatusCode;

// Calls check(fault, request) for each request of a save, with a fresh server that lies there.
void SaveWithEach(
    const std::vector<Fault>& faults, const std::function<void(LyingServer*, const absl::Status&)>& check,
    const std::function<void(LyingServer*)>& prepare = [](LyingServer*) {}) {
  size_t count = 0;
  {
    LyingServer server;
    count = RequestsOf(SaveAll, &server);
  }
  ASSERT_GE(count, 9u);
  for (const Fault& fault : faults) {
    for (size_t request = 0; request < count; ++request) {
      SCOPED_TRACE(absl::StrCat(fault.name, " at request ", request));
      LyingServer server;
      prepare(&server);
      server.LieAt(request, fault.lie);
      absl::Status saved;
      {
        const std::unique_ptr<ObjectStore> store = StoreFor(server);
        saved = SaveAll(store->files());
      }
      check(&server, saved);
      if (::testing::Test::HasFailure()) return;
    }
  }
}

TEST(Faults, ASaveSurvivesEachThatPasses) {
  SaveWithEach(PassingFaults(), [](LyingServer* server, const absl::Status& saved) {
    EXPECT_OK(saved);
    ExpectNothingOrAll(server, saved);
    EXPECT_LE(server->num_uploads(), 1u);  // one whose id was lost
  });
}

TEST(Faults, ASaveSurvivesEachThatPassesOnAStoreThatForgetsUploads) {
  SaveWithEach(
      {{"closed after", Ends(Exchange::End::kClose, true)}, {"an error after", Answers(500, "InternalError", true)}},
      [](LyingServer* server, const absl::Status& saved) {
        EXPECT_OK(saved);
        ExpectNothingOrAll(server, saved);
      },
      [](LyingServer* server) {
        server->repeats_complete = false;
        server->lies_about_abort = true;
      });
}

TEST(Faults, ASaveUnderALieIsWholeOrInvisible) { SaveWithEach(LastingFaults(), ExpectNothingOrAll); }

TEST(Faults, ASaveThroughAServerThatFallsSilentIsWholeOrInvisible) {
  size_t count = 0;
  {
    LyingServer server;
    count = RequestsOf(SaveAll, &server);
  }
  for (const bool forgets : {false, true}) {
    for (const bool works : {false, true}) {
      for (size_t request = 0; request < count; ++request) {
        SCOPED_TRACE(absl::StrCat("request ", request, works ? ", which is done" : "", forgets ? ", forgetful" : ""));
        LyingServer server;
        server.repeats_complete = !forgets;
        server.lies_about_abort = forgets;
        // The first request is done or not, and all that follow are not.
        server.LieFrom(request, Ends(Exchange::End::kClose, false));
        ObjectStoreOptions options = OptionsFor(server);
        options.max_attempts = 2;
        server.LieAt(request, Ends(Exchange::End::kClose, works));
        absl::Status saved;
        {
          const std::unique_ptr<ObjectStore> store = StoreFor(options);
          saved = SaveAll(store->files());
          EXPECT_FALSE(saved.ok());
        }
        ExpectNothingOrAll(&server, saved);
      }
    }
  }
}

TEST(Faults, APartWhoseChecksumIsRefusedIsSentAgain) {
  LyingServer server;
  int refusals = 0;
  const std::unique_ptr<ObjectStore> store = StoreFor(server);
  server.LieAlways([&](Exchange* exchange) {
    if (exchange->request.Kind() != "part" || exchange->request.query.at("partNumber") != "2" || refusals == 2) {
      return exchange->Work();
    }
    ++refusals;
    exchange->Fail(400, "BadDigest");
  });
  EXPECT_OK(SaveAll(store->files()));
  EXPECT_EQ(refusals, 2);
  server.LieAlways([&](Exchange* exchange) {
    if (exchange->request.Kind() != "part") return exchange->Work();
    exchange->Fail(400, "BadDigest");
  });
  EXPECT_THAT(SaveCheckpoint(store->files(), "s3://bucket/other", SavedTensors()), StatusIs(Code::kDataLoss));
  EXPECT_EQ(server.num_uploads(), 0u);
}

size_t OpenDescriptors() {
  size_t count = 0;
  DIR* const folder = opendir("/proc/self/fd");
  while (folder != nullptr && readdir(folder) != nullptr) ++count;
  if (folder != nullptr) closedir(folder);
  return count;
}

uint64_t ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  uint64_t all = 0;
  uint64_t resident = 0;
  file >> all >> resident;
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

TEST(Faults, FailedSavesLeaveNoDescriptorsNoMemoryAndNoUploads) {
  LyingServer server;
  ObjectStoreOptions options = OptionsFor(server);
  options.max_attempts = 1;
  const std::unique_ptr<ObjectStore> store = StoreFor(options);
  const std::vector<Tensor> small = {PatternTensor(1000)};
  const std::vector<Tensor> large = {PatternTensor(6 << 20)};
  std::atomic<int> save{0};
  server.LieAlways([&](Exchange* exchange) {
    const std::string kind = exchange->request.Kind();
    const bool is_refused = kind == "put" || kind == "complete" || (kind == "part" && save % 40 == 0);
    return is_refused ? exchange->Fail(403, "AccessDenied") : exchange->Work();
  });
  size_t descriptors = 0;
  uint64_t resident = 0;
  for (save = 0; save < 1000; ++save) {
    if (save == 200) descriptors = OpenDescriptors(), resident = ResidentBytes();
    server.ForgetRequests();
    // An upload in parts now and then.
    const std::vector<Tensor>& tensors = save % 20 == 0 ? large : small;
    ASSERT_THAT(SaveCheckpoint(store->files(), kFaultyPrefix, tensors), StatusIs(Code::kPermissionDenied));
  }
  EXPECT_LE(OpenDescriptors(), descriptors + 2);
  EXPECT_LE(ResidentBytes(), resident + (uint64_t{8} << 20));
  EXPECT_EQ(server.num_uploads(), 0u);
  EXPECT_THAT(server.Paths(), IsEmpty());
}

TEST(Faults, AProcessKilledAtAnyRequestOfASaveLeavesItWholeOrInvisible) {
  size_t count = 0;
  {
    LyingServer server;
    count = RequestsOf(SaveAll, &server);
  }
  for (const bool works : {false, true}) {
    for (size_t request = 0; request < count; ++request) {
      SCOPED_TRACE(absl::StrCat("killed at request ", request, works ? ", which is done" : ""));
      LyingServer server;
      int ready[2] = {};
      ASSERT_EQ(pipe(ready), 0);
      const pid_t child = fork();
      if (child == 0) {
        char go = 0;
        if (read(ready[0], &go, 1) != 1) _exit(1);
        const std::unique_ptr<ObjectStore> store = StoreFor(server);
        _exit(SaveAll(store->files()).ok() ? 0 : 2);
      }
      ASSERT_GT(child, 0);
      server.LieAt(request, [&](Exchange* exchange) {
        if (works) exchange->Work();
        kill(child, SIGKILL);
        exchange->is_silent = true;
        exchange->end = Exchange::End::kClose;
      });
      ASSERT_EQ(write(ready[1], "x", 1), 1);
      int status = 0;
      ASSERT_EQ(waitpid(child, &status, 0), child);
      close(ready[0]);
      close(ready[1]);
      EXPECT_TRUE(WIFSIGNALED(status));
      ExpectNothingOrAll(&server, absl::UnknownError("killed"));
      // The next save is not hindered by what was left. It is refused if the first is there.
      const std::unique_ptr<ObjectStore> store = StoreFor(server);
      const bool was_published = server.Has(kFaultyIndex) || server.Has(kFaultyData);
      EXPECT_EQ(SaveCheckpoint(store->files(), kFaultyPrefix, SavedTensors(), /*overwrite=*/false).code(),
                was_published ? Code::kAlreadyExists : Code::kOk);
    }
  }
}

}  // namespace
}  // namespace tensorcask
