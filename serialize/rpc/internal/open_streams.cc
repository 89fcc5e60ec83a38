#include "tensorcask/serialize/rpc/internal/open_streams.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/tensor/base/catch_exceptions.h"

namespace tensorcask::rpc {

OpenStreams::OpenStreams(int max_streams, absl::Duration slow_client)
    : max_streams_(std::max(max_streams, 0)), slow_client_(slow_client), watch_([this] { EndSlowStreams(); }) {}

OpenStreams::~OpenStreams() {
  {
    const std::lock_guard<std::recursive_mutex> lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  watch_.join();
}

absl::Status OpenStreams::CheckAccepting() const {
  return draining_ ? absl::UnavailableError("the server is draining") : absl::OkStatus();
}

absl::Status OpenStreams::Accept(OpenStream* stream) {
  const std::lock_guard<std::recursive_mutex> lock(mutex_);
  absl::Status status = CheckAccepting();
  if (status.ok() && streams_.size() >= static_cast<size_t>(max_streams_)) {
    status = PastLimit(absl::StrCat("the server has ", streams_.size(), " streams"), "max_streams", max_streams_);
  }
  if (!status.ok()) {
    ++counts_.refused;
    return status;
  }
  ++counts_.accepted;
  streams_.insert(stream);
  return absl::OkStatus();
}

void OpenStreams::Remove(OpenStream* stream) {
  const std::lock_guard<std::recursive_mutex> lock(mutex_);
  streams_.erase(stream);
  changed_.notify_all();
}

void OpenStreams::ForEach(const std::function<void(OpenStream*)>& act) {
  for (OpenStream* const stream : std::vector<OpenStream*>(streams_.begin(), streams_.end())) {
    if (streams_.count(stream) != 0) act(stream);
  }
}

void OpenStreams::OfferToAll(const TensorVersion& version) {
  const std::lock_guard<std::recursive_mutex> lock(mutex_);
  ForEach([&](OpenStream* stream) { stream->Offer(version); });
}

void OpenStreams::Drain(Deadline deadline) {
  std::unique_lock<std::recursive_mutex> lock(mutex_);
  draining_ = true;
  ForEach([](OpenStream* stream) { stream->EndForDrain(); });
  while (!streams_.empty()) {
    const absl::Duration left = deadline.remaining();
    if (left <= absl::ZeroDuration()) break;
    changed_.wait_for(lock, absl::ToChronoNanoseconds(std::min(left, absl::Hours(1))));
  }
}

void OpenStreams::EndSlowStreams() {
  const auto tick =
      absl::ToChronoNanoseconds(std::max(absl::Milliseconds(1), std::min(absl::Seconds(1), slow_client_ / 4)));
  std::unique_lock<std::recursive_mutex> lock(mutex_);
  while (!ends_) {
    changed_.wait_for(lock, tick);
    const auto now = std::chrono::steady_clock::now();
    const absl::Status ended = CatchExceptions([&] {
      ForEach([&](OpenStream* stream) {
        if (!stream->IsSlow(now, slow_client_)) return;
        ++counts_.slow;
        stream->End();
      });
      return absl::OkStatus();
    });
    ended.IgnoreError();  // the next look ends them
  }
}

OpenStreams::Counts OpenStreams::counts() const {
  const std::lock_guard<std::recursive_mutex> lock(mutex_);
  Counts counts = counts_;
  counts.open = static_cast<int>(streams_.size());
  return counts;
}

}  // namespace tensorcask::rpc
