#include "tensorcask/serialize/object_store/internal/http_headers.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace tensorcask::internal {
namespace {

constexpr uint64_t kMaxCount = uint64_t{1} << 62;  // two of them can be added
constexpr size_t kMaxTagBytes = 1024;
constexpr size_t kMaxValueBytes = 4096;  // of a header that is kept

bool IsVisible(char c) { return absl::ascii_isgraph(c) || static_cast<unsigned char>(c) >= 0x80; }

}  // namespace

std::optional<uint64_t> ParseByteCount(absl::string_view text) {
  if (text.empty() || text.size() > 19 || !std::all_of(text.begin(), text.end(), absl::ascii_isdigit)) return {};
  uint64_t number = 0;
  if (!absl::SimpleAtoi(text, &number) || number > kMaxCount) return {};
  return number;
}

std::optional<ContentRange> ParseContentRange(absl::string_view text) {
  if (!absl::ConsumePrefix(&text, "bytes ")) return {};
  const size_t slash = text.find('/');
  if (slash == absl::string_view::npos) return {};
  const std::optional<uint64_t> total = ParseByteCount(text.substr(slash + 1));
  if (!total.has_value()) return {};
  ContentRange range;
  range.total = *total;
  const absl::string_view bytes = text.substr(0, slash);
  if (bytes == "*") {
    range.is_satisfied = false;
    return range;
  }
  const size_t dash = bytes.find('-');
  if (dash == absl::string_view::npos) return {};
  const std::optional<uint64_t> first = ParseByteCount(bytes.substr(0, dash));
  const std::optional<uint64_t> last = ParseByteCount(bytes.substr(dash + 1));
  if (!first.has_value() || !last.has_value() || *last < *first || *last >= *total) return {};
  range.first = *first;
  range.last = *last;
  return range;
}

std::string ParseETag(absl::string_view text) {
  absl::string_view tag = text;
  const bool is_weak = absl::ConsumePrefix(&tag, "W/");
  const bool opens = absl::ConsumePrefix(&tag, "\"");
  const bool is_quoted = absl::ConsumeSuffix(&tag, "\"") && opens;
  if (opens != is_quoted) return "";
  if (text.size() > kMaxTagBytes || (is_weak && !is_quoted) || (!is_quoted && tag.empty())) return "";
  if (!std::all_of(tag.begin(), tag.end(), [](char c) { return c != '"' && IsVisible(c); })) return "";
  return is_quoted ? std::string(text) : absl::StrCat("\"", tag, "\"");
}

bool IsStrongETag(absl::string_view tag) { return !tag.empty() && !absl::StartsWith(tag, "W/"); }

std::optional<absl::Time> ParseHttpDate(absl::string_view text) {
  absl::Time time;
  std::string error;
  if (!absl::ParseTime("%a, %d %b %Y %H:%M:%S GMT", text, &time, &error)) return {};
  return time;
}

std::optional<absl::Duration> ParseRetryAfter(absl::string_view text, absl::Time now) {
  if (const std::optional<uint64_t> seconds = ParseByteCount(text)) {
    return absl::Seconds(static_cast<int64_t>(std::min<uint64_t>(*seconds, 1 << 30)));
  }
  const std::optional<absl::Time> date = ParseHttpDate(text);
  if (!date.has_value()) return {};
  return std::max(*date - now, absl::ZeroDuration());
}

void AnswerHeaders::Forget() {
  const size_t total_bytes = total_bytes_;
  *this = AnswerHeaders();
  total_bytes_ = total_bytes;
}

bool AnswerHeaders::AddLine(absl::string_view line) {
  if (line.size() > kMaxHeaderBytes - total_bytes_) return false;
  total_bytes_ += line.size();
  line = absl::StripTrailingAsciiWhitespace(line);
  if (absl::StartsWith(line, "HTTP/")) {
    Forget();
    return true;
  }
  const size_t colon = line.find(':');
  if (colon == absl::string_view::npos) return true;
  const std::string name = absl::AsciiStrToLower(line.substr(0, colon));
  const absl::string_view value = absl::StripAsciiWhitespace(line.substr(colon + 1));
  if (value.size() > kMaxValueBytes) return true;

  if (name == "content-range") {
    const std::optional<ContentRange> range = ParseContentRange(value);
    const bool is_second = std::exchange(has_content_range, true);
    // Two of them are as bad as none that can be read.
    content_range = is_second ? std::nullopt : range;
    return true;
  }
  if (name == "content-length") {
    const std::optional<uint64_t> length = ParseByteCount(value);
    if (!length.has_value() || (content_length.has_value() && *content_length != *length)) return false;
    content_length = length;
    return true;
  }
  if (name == "transfer-encoding") {
    is_chunked = absl::EndsWithIgnoreCase(value, "chunked");
    return true;
  }
  if (name == "etag") {
    etag = ParseETag(value);
    return true;
  }
  const std::pair<absl::string_view, std::string*> kept[] = {{"last-modified", &last_modified},
                                                             {"content-encoding", &content_encoding},
                                                             {"retry-after", &retry_after},
                                                             {"x-amz-bucket-region", &bucket_region},
                                                             {"x-amz-meta-tensorcask-save", &save_id},
                                                             {"x-amz-request-id", &request_id}};
  for (const auto& [wanted, out] : kept) {
    if (name == wanted) *out = std::string(value);
  }
  return true;
}

}  // namespace tensorcask::internal
