// The output of a subcommand: streams, progress, exit codes, and text from files made safe for a terminal.

#ifndef TENSORCASK_TOOLS_CONSOLE_H_
#define TENSORCASK_TOOLS_CONSOLE_H_

#include <cstdint>
#include <ostream>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace tensorcask::tools {

// Results go to `out`, one record per line; messages and progress go to `err`.
struct Console {
  std::ostream& out;
  std::ostream& err;
  bool progress = false;  // `err` is a terminal: show the progress of long commands
};

// Shows the progress of a long command in one line on a terminal. The destructor erases the line.
//
//   ProgressLine progress(console);
//   ... progress.Show(absl::StrCat(count, " of ", total)); ...
class ProgressLine {
 public:
  explicit ProgressLine(Console& console) : console_(console) {}
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void Show(absl::string_view text);  // does nothing unless console.progress

 private:
  Console& console_;
  std::string shown_;
};

// The exit codes of the process. kFound: the command failed, or found damage.
enum ExitCode : int { kDone = 0, kFound = 1, kMisused = 2 };

// The error for a command line that is wrong in a way that only the files could show. main exits with kMisused.
absl::Status Misuse(absl::string_view message);
bool IsMisuse(const absl::Status& status);

// `text` unchanged if it is printable ASCII without spaces and quotes, else quoted and escaped. For names from files.
std::string Printable(absl::string_view text);

// A message as the tool prints it: control characters and bytes outside ASCII become escapes. Some messages of the
// library name the C++ function or option that would help; the tool leaves that out.
std::string EscapeControls(absl::string_view message);

// 1536 -> "1.5 KiB".
std::string HumanBytes(uint64_t bytes);

// After this call SIGINT and SIGTERM no longer end the process at once. A long command calls Interrupted() between
// tensors; if that is true, it cleans up and returns InterruptedExitCode(), which is 128 plus the number of the signal.
// A second signal ends the process.
void CatchInterrupts();
bool Interrupted();
ExitCode InterruptedExitCode();

}  // namespace tensorcask::tools

#endif  // TENSORCASK_TOOLS_CONSOLE_H_
