#include "tensorcask/tools/console.h"

#include <atomic>
#include <csignal>
#include <cstdio>
#include <iterator>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tensorcask/tensor/base/quote.h"

namespace tensorcask::tools {
namespace {

std::atomic<int> interrupted{0};  // the signal
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler may write only lock-free atomics");

void OnSignal(int signal) { interrupted = signal; }

constexpr char kMisuseUrl[] = "tensorcask/misuse";

// Advice in messages of the library that only a C++ program can follow, from `begin` to `end`, and what the tool says.
struct Advice {
  absl::string_view begin;
  absl::string_view end;
  absl::string_view instead;
};
constexpr Advice kAdvice[] = {
    {"; DeviceMap::Add(", " would say what becomes of it", ""},
    {" (CheckpointReaderOptions::base)", "", ""},
    {", which DecodeOptions::base has to be", "", "; the tool reads deltas from checkpoints only"},
    {": use EncodeTensorTo, or a checkpoint", "", "; a .pb, a .tfrecord or a checkpoint holds more"},
};

std::string WithoutAdvice(absl::string_view message) {
  std::string text(message);
  for (const Advice& advice : kAdvice) {
    const absl::string_view whole = text;
    const size_t begin = whole.find(advice.begin);
    if (begin == absl::string_view::npos) continue;
    const size_t end = whole.find(advice.end, begin + advice.begin.size());
    if (end == absl::string_view::npos) continue;
    text.replace(begin, end + advice.end.size() - begin, advice.instead.data(), advice.instead.size());
  }
  return text;
}

bool IsPlain(char c) { return c > ' ' && c < 0x7f && c != '"' && c != '\\'; }

}  // namespace

absl::Status Misuse(absl::string_view message) {
  absl::Status status = absl::InvalidArgumentError(message);
  status.SetPayload(kMisuseUrl, absl::Cord());
  return status;
}

bool IsMisuse(const absl::Status& status) { return status.GetPayload(kMisuseUrl).has_value(); }

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
  for (const char c : WithoutAdvice(message)) {
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
  action.sa_flags = static_cast<int>(SA_RESETHAND);  // a second signal ends the process
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

}  // namespace tensorcask::tools
