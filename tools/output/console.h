// The output of a subcommand: streams, progress, exit codes, and text from files made safe for a terminal.

#ifndef TENSORCASK_TOOLS_OUTPUT_CONSOLE_H_
#define TENSORCASK_TOOLS_OUTPUT_CONSOLE_H_

#include <cstddef>
#include <cstdint>
#include <ostream>
#include <streambuf>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace tensorcask::tools {

// Results go to `out`, one record per line; messages and progress go to `err`.
struct Console {
  std::ostream& out;
  std::ostream& err;
  bool progress = false;  // `err` is a terminal: show the progress of long commands
};

// Shows the progress of a long command in one line on a terminal. The destructor erases the line. A line that is wider
// than the terminal is cut: one that wraps could not be erased.
//
//   ProgressLine progress(console);
//   ... progress.Show(absl::StrCat(count, " of ", total)); ...
//
// The result is printed after its destructor: on a terminal both share a line.
class ProgressLine {
 public:
  // `total_bytes` of work, for the time left; 0: unknown.
  explicit ProgressLine(Console& console, uint64_t total_bytes = 0);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void Show(absl::string_view text);  // does nothing unless console.progress
  void Erase();                       // before something else is printed
  void SetTotal(uint64_t total_bytes) { total_bytes_ = total_bytes; }
  // "converting 3/27 1.2 GiB of 4.0 GiB, 1.1 GiB/s, 3 s left": `text`, which begins with a verb, and how far the work
  // is. Shown ten times a second.
  void ShowBytes(absl::string_view text, uint64_t bytes);

 private:
  Console& console_;
  uint64_t total_bytes_;
  const size_t width_;  // of the terminal, 0 if it is unknown
  const absl::Time start_;
  absl::Time last_;  // when ShowBytes showed something
  std::string shown_;
};

// The buffer of stdout. Keeps why writing failed, which std::cout forgets.
class OutputBuffer final : public std::streambuf {
 public:
  OutputBuffer();
  int error() const { return error_; }  // errno of the first failure; 0: none

 protected:
  int_type overflow(int_type c) override;
  int sync() override;

 private:
  char buffer_[1 << 14];
  int error_ = 0;
};

// The exit codes of the process. kFound: the command failed, or found damage. kReaderGone: what a shell reports for a
// program that SIGPIPE ended, 128 + SIGPIPE.
enum ExitCode : int { kDone = 0, kFound = 1, kMisused = 2, kReaderGone = 141 };

// The error for a command line that is wrong in a way that only the files could show. main exits with kMisused.
absl::Status Misuse(absl::string_view message);
bool IsMisuse(const absl::Status& status);

// `text` unchanged if it is UTF-8 without spaces, quotes and characters that control a terminal or the direction of
// text; else quoted and escaped. For names from files.
std::string Printable(absl::string_view text);

// A message of the library in the words of the tool: where the library names a C++ function or field that would help,
// the option of the tool, or nothing.
std::string InToolWords(absl::string_view message);

// A message as the tool prints it: InToolWords; bytes that are not UTF-8, and characters that control a terminal or the
// direction of text, become escapes.
std::string EscapeControls(absl::string_view message);

// What a user can do about an error of damaged tensors, to be put behind a message or on a line of its own; "" for all
// other errors. `has_flag`: the command has --ignore-checksums.
std::string DamageAdvice(const absl::Status& status, bool has_flag);

// The same for an error of input past a limit that --limit changes, "" for all other errors.
std::string LimitAdvice(const absl::Status& status);

// DamageAdvice of a command that goes on behind damaged tensors, and so says it once.
class DamageNote {
 public:
  void Add(const absl::Status& status);
  // One line on console.err if there was damage. Requires: the command has --ignore-checksums.
  void Print(absl::string_view command, Console& console) const;

 private:
  absl::Status damage_;  // one with a wrong checksum, if there is one
};

// True if stdout is a pipe or a socket whose reader has closed its end (`| head`): the reader wants no more, and the
// command ends without a message.
bool ReaderIsGone();

// The columns of the terminal behind a descriptor; 0 if it is not a terminal.
size_t TerminalWidth(int descriptor);

// What a user means by a name that Printable escaped: `"a\x1b"` and `a\x1b` are an "a" and an escape character. The
// text itself if it has no escapes.
std::string Unescaped(absl::string_view text);

// 1536 -> "1.5 KiB".
std::string HumanBytes(uint64_t bytes);
std::string TensorCount(uint64_t count);  // "1 tensor", "2 tensors"

// After this call SIGINT, SIGTERM and SIGHUP no longer end the process at once. A long command calls Interrupted()
// between tensors; if that is true, it cleans up and returns InterruptedExitCode(), which is 128 plus the number of the
// signal. A second signal ends the process.
void CatchInterrupts();
bool Interrupted();
ExitCode InterruptedExitCode();

}  // namespace tensorcask::tools

#endif  // TENSORCASK_TOOLS_OUTPUT_CONSOLE_H_
