#include "tensorcask/tools/output/console.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <iterator>

#include "absl/strings/cord.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tensorcask/serialize/io/damage_mark.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/tensor/base/printable_text.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tools/output/text_width.h"

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
    {" (the option `base`)", "", " (--base PATH)"},
    {"; convert it without them", "", "; use tensorcask convert --exclude"},
    {"; convert it to a file with other names", "", "; use tensorcask convert --rename"},
    {"; a conversion changes the graph, too", "", "; `tensorcask convert` changes the graph, too"},
    {" (set format to pt)", "", " (--set format=pt)"},
    {"ConvertOptions::allow_loss", "", "--allow-loss"},
    {"PushArchiveOptions::allow_loss", "", "--allow-loss"},
    {"FileEditOptions::output", "", "--output FILE"},
    {"ConvertOptions::set_metadata", "", "--set KEY=VALUE"},
    {", which DecodeOptions::base has to be", "", "; the tool reads deltas from checkpoints only"},
    {": record at ", "dtype at byte 0 is bytes on the wire; expected a varint",
     ": the record looks like a tf.Example, which is not a tensor"},
    {"; the record looks like a tf.Example, which is not a tensor", "", ""},
    {" bytes; max_message_bytes is ", "", " bytes; the limit is "},
    {" bytes of other records; max_total_bytes is ", "", " bytes of other records; the limit for all is "},
    {"(lenient ", "", "(--lenient "},
    {"(TorchReaderOptions::opaque_objects ", "", "(--opaque-objects "},
    {", and the caller must (NpyReaderOptions::", ")", ": name it with --opaque-dtype"},
    {" (NpyReaderOptions::allow_", ")", " (--lenient accepts this)"},
    {" (NpyReaderOptions::", ")", ""},
    {"stdin: record at 0: the checksum of its length is ", "; the file looks like ",
     "stdin: only records can be read from standard input, and these bytes look like "},
};

bool IsPlain(char c) { return (c > ' ' && c < 0x7f && c != '"' && c != '\\') || static_cast<unsigned char>(c) >= 0x80; }

}  // namespace

absl::Status Misuse(absl::string_view message) {
  absl::Status status = absl::InvalidArgumentError(message);
  status.SetPayload(kMisuseUrl, absl::Cord());
  return status;
}

bool IsMisuse(const absl::Status& status) { return status.GetPayload(kMisuseUrl).has_value(); }

ProgressLine::ProgressLine(Console& console, uint64_t total_bytes)
    : console_(console),
      total_bytes_(total_bytes),
      width_(console.progress ? TerminalWidth(STDERR_FILENO) : 0),
      start_(absl::Now()),
      last_(absl::InfinitePast()) {}

void ProgressLine::ShowBytes(absl::string_view text, uint64_t bytes) {
  constexpr absl::Duration kInterval = absl::Milliseconds(100);
  if (!console_.progress) return;
  const absl::Time now = absl::Now();
  const bool is_done = total_bytes_ > 0 && bytes >= total_bytes_;
  if (now - last_ < kInterval && !is_done) return;
  last_ = now;
  std::string line = absl::StrCat(text, text.empty() ? "" : " ", HumanBytes(bytes));
  if (total_bytes_ > 0) absl::StrAppend(&line, " of ", HumanBytes(total_bytes_));
  const double seconds = absl::ToDoubleSeconds(now - start_);
  if (seconds >= 1 && bytes > 0) {
    const double rate = static_cast<double>(bytes) / seconds;
    absl::StrAppend(&line, ", ", HumanBytes(static_cast<uint64_t>(rate)), "/s");
    if (total_bytes_ > bytes) {
      absl::StrAppend(&line, ", ", static_cast<int64_t>(static_cast<double>(total_bytes_ - bytes) / rate) + 1,
                      " s left");
    }
  }
  Show(line);
}

void ProgressLine::Show(absl::string_view text) {
  if (width_ > 0) text = StartOfWidth(text, width_ - 1);
  if (!console_.progress || text == shown_) return;
  shown_ = std::string(text);
  console_.err << absl::StrCat("\r", shown_, "\x1b[K");
}

void ProgressLine::Erase() {
  if (!shown_.empty()) console_.err << "\r\x1b[K";
  shown_.clear();
}

ProgressLine::~ProgressLine() { Erase(); }

OutputBuffer::OutputBuffer() { setp(buffer_, buffer_ + sizeof(buffer_)); }

OutputBuffer::int_type OutputBuffer::overflow(int_type c) {
  if (sync() != 0) return traits_type::eof();
  if (!traits_type::eq_int_type(c, traits_type::eof())) {
    *pptr() = traits_type::to_char_type(c);
    pbump(1);
  }
  return traits_type::not_eof(c);
}

int OutputBuffer::sync() {
  const char* from = pbase();
  while (error_ == 0 && from < pptr()) {
    const ssize_t written = write(STDOUT_FILENO, from, static_cast<size_t>(pptr() - from));
    if (written > 0) {
      from += written;
    } else if (errno != EINTR) {
      error_ = errno;
    }
  }
  setp(buffer_, buffer_ + sizeof(buffer_));
  return error_ == 0 ? 0 : -1;
}

std::string Printable(absl::string_view text) {
  bool plain = !text.empty();
  for (size_t i = 0; plain && i < text.size();) {
    const size_t size = internal::PrintableBytes(text.substr(i));
    plain = size > 0 && IsPlain(text[i]);
    i += size;
  }
  return plain ? std::string(text) : Quoted(text, /*max_bytes=*/4096);
}

std::string InToolWords(absl::string_view message) {
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

std::string EscapeControls(absl::string_view message) {
  std::string escaped;
  const std::string text = InToolWords(message);
  for (size_t i = 0; i < text.size();) {
    const size_t size = internal::PrintableBytes(absl::string_view(text).substr(i));
    if (size > 0) {
      escaped.append(text, i, size);
      i += size;
    } else {
      absl::StrAppendFormat(&escaped, "\\x%02x", static_cast<unsigned char>(text[i++]));
    }
  }
  return escaped;
}

std::string DamageAdvice(const absl::Status& status, bool has_flag) {
  if (!IsDamagedPart(status)) return "";
  constexpr char kSalvage[] = "tensorcask salvage saves the undamaged tensors";
  if (!has_flag || !HasWrongChecksum(status)) return kSalvage;
  return absl::StrCat(kSalvage, ", --ignore-checksums reads the others as they are");
}

std::string LimitAdvice(const absl::Status& status) {
  if (status.code() != absl::StatusCode::kResourceExhausted) return "";
  constexpr absl::string_view kBefore = "limit ";
  const absl::string_view message = status.message();
  for (size_t at = message.find(kBefore); at != absl::string_view::npos; at = message.find(kBefore, at + 1)) {
    const absl::string_view rest = message.substr(at + kBefore.size());
    const absl::string_view name = rest.substr(0, rest.find_first_not_of("abcdefghijklmnopqrstuvwxyz_"));
    DecodeLimits limits;
    if (SetLimit(name, 1, &limits).ok()) return absl::StrCat("--limit ", name, "=N changes it");
  }
  return "";
}

void DamageNote::Add(const absl::Status& status) {
  if (HasWrongChecksum(status) || (damage_.ok() && IsDamagedPart(status))) damage_ = status;
}

void DamageNote::Print(absl::string_view command, Console& console) const {
  const std::string advice = DamageAdvice(damage_, /*has_flag=*/true);
  if (!advice.empty()) console.err << "tensorcask " << command << ": " << advice << '\n';
}

bool ReaderIsGone() {
  struct pollfd out = {STDOUT_FILENO, POLLOUT, 0};
  return poll(&out, 1, 0) == 1 && (out.revents & (POLLERR | POLLHUP)) != 0;
}

size_t TerminalWidth(int descriptor) {
  struct winsize size = {};
  if (isatty(descriptor) != 1 || ioctl(descriptor, TIOCGWINSZ, &size) != 0) return 0;
  return size.ws_col;
}

std::string Unescaped(absl::string_view text) {
  absl::string_view inner = text;
  const bool quoted = inner.size() >= 2 && inner.front() == '"' && inner.back() == '"';
  if (quoted) inner = inner.substr(1, inner.size() - 2);
  std::string unescaped;
  if ((!quoted && !absl::StrContains(inner, '\\')) || !absl::CUnescape(inner, &unescaped)) return std::string(text);
  return unescaped;
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

std::string TensorCount(uint64_t count) { return absl::StrCat(count, count == 1 ? " tensor" : " tensors"); }

bool Interrupted() { return interrupted != 0; }
ExitCode InterruptedExitCode() { return static_cast<ExitCode>(128 + interrupted); }

void CatchInterrupts() {
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  action.sa_flags = static_cast<int>(SA_RESETHAND);  // a second signal ends the process
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  struct sigaction hangup = {};
  sigaction(SIGHUP, nullptr, &hangup);
  if (hangup.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, nullptr);  // nohup ignores it
}

}  // namespace tensorcask::tools
