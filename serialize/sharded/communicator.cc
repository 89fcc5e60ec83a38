#include "tensorcask/serialize/sharded/communicator.h"

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tensorcask/tensor/base/check.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask {
namespace {

// Where the ranks of one process meet.
struct Meeting {
  explicit Meeting(int num_ranks) : given(static_cast<size_t>(num_ranks)), rounds(given.size(), 0) {}

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::string> given;  // by rank: what it brought to the round under way
  std::vector<uint64_t> rounds;    // by rank: how many calls it has begun
  uint64_t ended_rounds = 0;
  size_t arrived = 0;
  size_t left = 0;  // for the round that ended last: how many ranks have their results
  std::vector<std::string> results;
  int gone = -1;  // a rank that was destroyed
};

class ThreadCommunicator final : public Communicator {
 public:
  ThreadCommunicator(std::shared_ptr<Meeting> meeting, int rank) : meeting_(std::move(meeting)), rank_(rank) {}
  ~ThreadCommunicator() override {
    const std::lock_guard<std::mutex> lock(meeting_->mutex);
    if (meeting_->gone < 0) meeting_->gone = rank_;
    meeting_->changed.notify_all();
  }

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(meeting_->given.size()); }

  absl::StatusOr<std::vector<std::string>> Gather(absl::string_view mine, int root) override {
    std::vector<std::string> all;
    CASK_RETURN_IF_ERROR(Meet(mine, [&](std::vector<std::string>& results) {
      if (rank_ == root) all = results;
    }));
    return all;
  }
  absl::StatusOr<std::string> Broadcast(absl::string_view from_root, int root) override {
    std::string answer;
    CASK_RETURN_IF_ERROR(Meet(rank_ == root ? from_root : absl::string_view(),
                              [&](std::vector<std::string>& results) { answer = results[static_cast<size_t>(root)]; }));
    return answer;
  }
  absl::Status Barrier() override {
    return Meet("", [](std::vector<std::string>&) {});
  }

 private:
  template <typename Take>
  absl::Status Meet(absl::string_view mine, Take&& take) {
    Meeting& meeting = *meeting_;
    std::unique_lock<std::mutex> lock(meeting.mutex);
    const uint64_t round = meeting.rounds[static_cast<size_t>(rank_)]++;
    // The results of the round before wait until all ranks have them.
    meeting.changed.wait(lock, [&] { return meeting.left == 0 || meeting.gone >= 0; });
    meeting.given[static_cast<size_t>(rank_)].assign(mine.data(), mine.size());
    if (++meeting.arrived == meeting.given.size()) {
      meeting.arrived = 0;
      std::swap(meeting.results, meeting.given);
      meeting.given.resize(meeting.results.size());
      meeting.left = meeting.results.size();
      ++meeting.ended_rounds;
      meeting.changed.notify_all();
    }
    meeting.changed.wait(lock, [&] { return meeting.ended_rounds > round || meeting.gone >= 0; });
    if (meeting.ended_rounds <= round) {
      return absl::UnavailableError(absl::StrCat("rank ", meeting.gone, " of ", size(), " is gone"));
    }
    take(meeting.results);
    if (--meeting.left == 0) meeting.changed.notify_all();
    return absl::OkStatus();
  }

  const std::shared_ptr<Meeting> meeting_;
  const int rank_;
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> MakeThreadCommunicators(int size) {
  CASK_CHECK(size >= 1, "MakeThreadCommunicators: wanted one rank or more");
  const auto meeting = std::make_shared<Meeting>(size);
  std::vector<std::unique_ptr<Communicator>> ranks;
  for (int rank = 0; rank < size; ++rank) ranks.push_back(std::make_unique<ThreadCommunicator>(meeting, rank));
  return ranks;
}

}  // namespace tensorcask
