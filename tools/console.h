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

// What the process answers when nothing went wrong by itself: files damaged or different is kFound.
enum ExitCode : int { kDone = 0, kFound = 1, kMisused = 2, kInterrupted = 130 };

// `text` as it is if it is printable ASCII without spaces and quotes, else quoted and escaped: names come from files.
std::string Printable(absl::string_view text);

// The same for a whole message: control characters and bytes outside ASCII become escapes, the rest stays.
std::string EscapeControls(absl::string_view message);

// 1536 -> "1.5 KiB".
std::string HumanBytes(uint64_t bytes);

// True once SIGINT or SIGTERM has arrived. Long commands look at it between tensors, clean up and answer kInterrupted.
bool Interrupted();
void CatchInterrupts();

}  // namespace tensorcask::tools

#endif  // TENSORCASK_TOOLS_CONSOLE_H_
