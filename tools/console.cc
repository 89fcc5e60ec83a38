#include "tensorcask/tools/console.h"

#include <atomic>
#include <csignal>
#include <cstdio>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tensorcask/tensor/base/quote.h"

namespace tensorcask::tools {
namespace {

std::atomic<int> interrupted{0};  // the signal
static_assert(std::atomic<int>::is_always_lock_free, "signal handlers may write nothing else");

void OnSignal(int signal) { interrupted = signal; }

bool IsPlain(char c) { return c > ' ' && c < 0x7f && c != '"' && c != '\\'; }

}  // namespace

void ProgressLine::Show(absl::string_view text) {
  if (!console_.progress || text == shown_) return;
  shown_ = std::string(text);
  console_.err << absl::StrCat("\r", shown_, "\x1b[K");
}

ProgressLine::~ProgressLine() {
  if (!shown_.empty()) console_.err << "\r\x1b[K";
}

std::string Printable(absl::string_view text) {
  bool plain = !text.empty();
  for (const char c : text) plain = plain && IsPlain(c);
  return plain ? std::string(text) : Quoted(text, /*max_bytes=*/4096);
}

std::string EscapeControls(absl::string_view message) {
  std::string escaped;
  for (const char c : message) {
    if (c >= ' ' && c < 0x7f) {
      escaped += c;
    } else {
      absl::StrAppendFormat(&escaped, "\\x%02x", static_cast<unsigned char>(c));
    }
  }
  return escaped;
}

std::string HumanBytes(uint64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return absl::StrCat(bytes, " B");
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  return absl::StrFormat("%.1f %s", value, kUnits[unit]);
}

bool Interrupted() { return interrupted != 0; }
ExitCode InterruptedExitCode() { return static_cast<ExitCode>(128 + interrupted); }

void CatchInterrupts() {
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  action.sa_flags = static_cast<int>(SA_RESETHAND);  // a second Ctrl-C ends the process at once
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

}  // namespace tensorcask::tools
