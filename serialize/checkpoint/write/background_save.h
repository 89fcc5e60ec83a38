// A save that goes on by itself.
//
//   CASK_ASSIGN_OR_RETURN(BackgroundSave save, writer.FinishInBackground());
//   ... train on ...
//   CASK_RETURN_IF_ERROR(save.Wait());   // now there is a checkpoint, or the reason why not
//
// A handle: it moves. Destroyed, it waits, so that no thread outlives what it writes. Methods are safe from several
// threads.

#ifndef TENSORCASK_SERIALIZE_CHECKPOINT_WRITE_BACKGROUND_SAVE_H_
#define TENSORCASK_SERIALIZE_CHECKPOINT_WRITE_BACKGROUND_SAVE_H_

#include <functional>
#include <memory>

#include "absl/status/status.h"

namespace tensorcask {

class BackgroundSave {
 public:
  // Runs `save` on a new thread. (If the system gives none: at once, here.)
  explicit BackgroundSave(std::function<absl::Status()> save);
  BackgroundSave(BackgroundSave&&) noexcept;
  BackgroundSave& operator=(BackgroundSave&&) noexcept;  // waits for the one it replaces
  ~BackgroundSave();

  bool IsDone() const;
  // What the save came to, when it is done; the same each time it is asked.
  absl::Status Wait();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_WRITE_BACKGROUND_SAVE_H_
