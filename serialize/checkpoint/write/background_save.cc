#include "tensorcask/serialize/checkpoint/write/background_save.h"

#include <pthread.h>

#include <condition_variable>
#include <mutex>
#include <utility>

namespace tensorcask {

struct BackgroundSave::State {
  std::function<absl::Status()> save;
  mutable std::mutex mutex;
  std::condition_variable finished;
  bool done = false;
  absl::Status status;
  bool has_thread = false;
  pthread_t thread;

  ~State() {
    if (has_thread) pthread_join(thread, nullptr);
  }

  void Run() {
    absl::Status result = save();
    save = nullptr;  // what it held goes here, not with the handle
    const std::lock_guard<std::mutex> lock(mutex);
    status = std::move(result);
    done = true;
    finished.notify_all();
  }
};

BackgroundSave::BackgroundSave(std::function<absl::Status()> save) : state_(std::make_unique<State>()) {
  state_->save = std::move(save);
  const auto run = [](void* state) -> void* {
    static_cast<State*>(state)->Run();
    return nullptr;
  };
  // pthread_create rather than std::thread, whose constructor throws where the system gives no thread.
  state_->has_thread = pthread_create(&state_->thread, nullptr, run, state_.get()) == 0;
  if (!state_->has_thread) state_->Run();
}

BackgroundSave::BackgroundSave(BackgroundSave&&) noexcept = default;
BackgroundSave& BackgroundSave::operator=(BackgroundSave&&) noexcept = default;
BackgroundSave::~BackgroundSave() = default;

bool BackgroundSave::IsDone() const {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->done;
}

absl::Status BackgroundSave::Wait() {
  std::unique_lock<std::mutex> lock(state_->mutex);
  state_->finished.wait(lock, [&] { return state_->done; });
  return state_->status;
}

}  // namespace tensorcask
