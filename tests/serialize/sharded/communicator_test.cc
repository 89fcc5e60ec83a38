#include "tensorcask/serialize/sharded/communicator.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/sharded/internal/exchange.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tests/serialize/sharded/sharded_testing.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::sharded::Agree;
using ::tensorcask::sharded::Agreement;
using ::tensorcask::testing::OnRanks;
using ::tensorcask::testing::Same;
using ::tensorcask::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Code = absl::StatusCode;

TEST(ThreadCommunicatorTest, GathersBroadcastsAndWaits) {
  const auto run = [](Communicator* comm) -> absl::Status {
    for (int round = 0; round < 200; ++round) {
      const int root = round % comm->size();
      CASK_ASSIGN_OR_RETURN(const std::vector<std::string> all,
                            comm->Gather(std::string(static_cast<size_t>(comm->rank()), 'a'), root));
      if (comm->rank() == root) {
        EXPECT_THAT(all, ElementsAre("", "a", "aa"));
      } else {
        EXPECT_THAT(all, IsEmpty());
      }
      CASK_ASSIGN_OR_RETURN(const std::string answer, comm->Broadcast(absl::StrCat(comm->rank(), ":", round), root));
      EXPECT_EQ(answer, absl::StrCat(root, ":", round));
      CASK_RETURN_IF_ERROR(comm->Barrier());
    }
    return absl::OkStatus();
  };
  EXPECT_OK(Same(OnRanks(3, run)));
}

TEST(ThreadCommunicatorTest, TellsThatARankIsGone) {
  const auto run = [](Communicator* comm) {
    return comm->rank() == 1 ? absl::CancelledError("left early") : comm->Barrier();
  };
  const std::vector<absl::Status> statuses = OnRanks(3, run);
  EXPECT_THAT(statuses[0], StatusIs(Code::kUnavailable, HasSubstr("rank 1 of 3 is gone")));
  EXPECT_THAT(statuses[2], StatusIs(Code::kUnavailable, HasSubstr("rank 1 of 3 is gone")));
}

absl::Status AgreeOn(Communicator* comm, const absl::Status& mine, const absl::Status& at_root) {
  CASK_ASSIGN_OR_RETURN(const Agreement agreed,
                        Agree(comm, mine, absl::StrCat(comm->rank()), [&](std::vector<std::string> all) {
                          EXPECT_THAT(all, ElementsAre("0", "1", "2"));
                          return at_root.ok() ? absl::StatusOr<std::string>("answer") : at_root;
                        }));
  EXPECT_EQ(agreed.answer, agreed.status.ok() ? "answer" : "");
  return agreed.status;
}

TEST(AgreeTest, TellsAllWhatRankZeroAnswers) {
  const auto run = [](Communicator* comm) { return AgreeOn(comm, absl::OkStatus(), absl::OkStatus()); };
  EXPECT_OK(Same(OnRanks(3, run)));
}

TEST(AgreeTest, TellsAllTheErrorOfTheLowestRank) {
  const auto run = [](Communicator* comm) {
    const absl::Status mine =
        comm->rank() == 0 ? absl::OkStatus() : absl::DataLossError(absl::StrCat("broken ", comm->rank()));
    return AgreeOn(comm, mine, absl::OkStatus());
  };
  EXPECT_THAT(Same(OnRanks(3, run)), StatusIs(Code::kDataLoss, "rank 1: broken 1"));
}

TEST(AgreeTest, TellsAllTheErrorOfTheRoot) {
  const auto run = [](Communicator* comm) { return AgreeOn(comm, absl::OkStatus(), absl::AbortedError("changed")); };
  EXPECT_THAT(Same(OnRanks(3, run)), StatusIs(Code::kAborted, "changed"));
}

}  // namespace
}  // namespace tensorcask
