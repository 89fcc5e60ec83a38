#include "tensorcask/serialize/checkpoint/write/background_save.h"

#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "tensorcask/tensor/base/catch_exceptions.h"
#include "tensorcask/tensor/base/owner_process.h"

namespace tensorcask {

struct BackgroundSave::State {
  const OwnerProcess owner;
  std::function<absl::Status()> save;
  std::mutex mutex;
  std::condition_variable finished;
  std::atomic<bool> done{false};  // set under the mutex; a child of fork(2) reads it without
  absl::Status status;            // does not change once `done` is set
  bool has_thread = false;
  pthread_t thread;

  ~State() {
    if (has_thread) pthread_join(thread, nullptr);
  }

  void Run() {
    absl::Status result = CatchExceptions([&] { return save(); });
    save = nullptr;  // frees its captures here, not with the handle
    const std::lock_guard<std::mutex> lock(mutex);
    status = std::move(result);
    done.store(true, std::memory_order_release);
    finished.notify_all();
  }
};

// A child of fork(2) has neither the thread nor what the thread writes to: it leaves the state as it is.
void BackgroundSave::Delete::operator()(State* state) const {
  if (state->owner.IsThisProcess()) delete state;
}

BackgroundSave::BackgroundSave(std::function<absl::Status()> save) : state_(new State()) {
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
  return state_->done.load(std::memory_order_acquire) || !state_->owner.IsThisProcess();
}

absl::Status BackgroundSave::Wait() {
  if (state_->done.load(std::memory_order_acquire)) return state_->status;
  if (!state_->owner.IsThisProcess()) {
    return absl::FailedPreconditionError("the save in the background runs in the process that started it, not in this");
  }
  std::unique_lock<std::mutex> lock(state_->mutex);
  state_->finished.wait(lock, [&] { return state_->done.load(std::memory_order_relaxed); });
  return state_->status;
}

}  // namespace tensorcask
