// A save that runs in the background.
//
//   CASK_ASSIGN_OR_RETURN(BackgroundSave save, writer.FinishInBackground());
//   ... train on ...
//   CASK_RETURN_IF_ERROR(save.Wait());   // now there is a checkpoint, or the reason why not
//
// A handle that can be moved. Its destructor waits for the save, so that no thread outlives the data that it writes.
// Methods are safe from several threads.
//
// After fork(2) the save runs in the parent only. A child's copy waits for nothing: destroying it has no effect, and if
// the save was running at the fork, IsDone is true and Wait returns FailedPrecondition.

#ifndef TENSORCASK_SERIALIZE_CHECKPOINT_WRITE_BACKGROUND_SAVE_H_
#define TENSORCASK_SERIALIZE_CHECKPOINT_WRITE_BACKGROUND_SAVE_H_

#include <functional>
#include <memory>

#include "absl/status/status.h"

namespace tensorcask {

class BackgroundSave {
 public:
  // Runs `save` on a new thread. (If the system gives no thread, runs it before returning.) An exception that `save`
  // throws becomes its result, ResourceExhausted (tensor/base/catch_exceptions.h).
  explicit BackgroundSave(std::function<absl::Status()> save);
  BackgroundSave(BackgroundSave&&) noexcept;
  BackgroundSave& operator=(BackgroundSave&&) noexcept;  // waits for the one it replaces
  ~BackgroundSave();

  bool IsDone() const;
  // Waits for the save and returns its status, the same on each call.
  absl::Status Wait();

 private:
  struct State;
  struct Delete {
    void operator()(State* state) const;
  };
  std::unique_ptr<State, Delete> state_;
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_WRITE_BACKGROUND_SAVE_H_
