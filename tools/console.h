// Where a subcommand writes, and how text from files reaches a terminal.

#ifndef TENSORCASK_TOOLS_CONSOLE_H_
#define TENSORCASK_TOOLS_CONSOLE_H_

#include <cstdint>
#include <ostream>
#include <string>

#include "absl/strings/string_view.h"

namespace tensorcask::tools {

// Results go to `out`, one record a line; messages and progress to `err`.
struct Console {
  std::ostream& out;
  std::ostream& err;
  bool progress = false;  // err is a terminal: show how far a long command is
};

// One line on a terminal that says how far a long command is, and is wiped out at its end, however that comes.
//
//   ProgressLine progress(console);
//   ... progress.Show(absl::StrCat(count, " of ", total)); ...
class ProgressLine {
 public:
  explicit ProgressLine(Console& console) : console_(console) {}
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void Show(absl::string_view text);  // nothing, unless console.progress

 private:
  Console& console_;
  std::string shown_;
};

// What the process answers when nothing went wrong by itself: files damaged or different is kFound.
enum ExitCode : int { kDone = 0, kFound = 1, kMisused = 2 };

// `text` as it is if it is printable ASCII without spaces and quotes, else quoted and escaped: names come from files.
std::string Printable(absl::string_view text);

// The same for a whole message: control characters and bytes outside ASCII become escapes, the rest stays.
std::string EscapeControls(absl::string_view message);

// 1536 -> "1.5 KiB".
std::string HumanBytes(uint64_t bytes);

// Makes SIGINT and SIGTERM wait for the command: a long one asks Interrupted() between tensors, and when that is true
// cleans up and answers InterruptedExitCode(), 128 and the number of the signal. A second signal ends the process.
void CatchInterrupts();
bool Interrupted();
ExitCode InterruptedExitCode();

}  // namespace tensorcask::tools

#endif  // TENSORCASK_TOOLS_CONSOLE_H_
