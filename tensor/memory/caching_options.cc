#include "tensorcask/tensor/memory/caching_options.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask {
namespace {

constexpr size_t kMinBlockBytes = 512;
constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kMinSplitLimitMb = 20;  // the limit is greater: a segment of the large pool has 20 MiB

bool IsPowerOfTwo(uint64_t value) { return value != 0 && (value & (value - 1)) == 0; }

// The greatest i with 2^i <= value. Requires: value > 0.
size_t Log2(uint64_t value) { return 63 - static_cast<size_t>(__builtin_clzll(value)); }

size_t IntervalOf(uint64_t mebibytes) {
  return std::min(Log2(std::max<uint64_t>(mebibytes, 1)), CachingOptions::kRoundupIntervals - 1);
}

absl::Status Wrong(absl::string_view key, absl::string_view value, absl::string_view wanted) {
  return absl::InvalidArgumentError(absl::StrCat("allocator option ", key, ": found ", Quoted(value), "; ", wanted));
}

// Words and the characters , : [ ] of a configuration, without spaces.
class Tokens {
 public:
  explicit Tokens(absl::string_view text) {
    std::string word;
    for (const char c : text) {
      if (c == ' ') continue;
      if (c != ',' && c != ':' && c != '[' && c != ']') {
        word += c;
        continue;
      }
      if (!word.empty()) tokens_.push_back(word);
      word.clear();
      tokens_.emplace_back(1, c);
    }
    if (!word.empty()) tokens_.push_back(word);
  }

  bool done() const { return next_ == tokens_.size(); }
  absl::string_view peek() const { return done() ? absl::string_view() : tokens_[next_]; }
  absl::string_view Next() { return done() ? absl::string_view() : absl::string_view(tokens_[next_++]); }
  absl::Status Expect(absl::string_view token, absl::string_view key) {
    const absl::string_view found = Next();
    return found == token ? absl::OkStatus() : Wrong(key, found, absl::StrCat("'", token, "' is needed here"));
  }

 private:
  std::vector<std::string> tokens_;
  size_t next_ = 0;
};

absl::StatusOr<size_t> ParseDivisions(absl::string_view text) {
  uint64_t divisions = 0;
  if (!absl::SimpleAtoi(text, &divisions) || !IsPowerOfTwo(divisions))
    return Wrong("roundup_power2_divisions", text, "a power of two is needed");
  return static_cast<size_t>(divisions);
}

// Parses MIB:DIVISIONS,...] into the entries.
absl::Status ParseDivisionList(Tokens& tokens, CachingOptions& options) {
  constexpr absl::string_view kKey = "roundup_power2_divisions";
  auto& entries = options.roundup_power2_divisions;
  bool first = true;
  size_t last = 0;
  while (true) {
    const absl::string_view start = tokens.Next();
    CASK_RETURN_IF_ERROR(tokens.Expect(":", kKey));
    CASK_ASSIGN_OR_RETURN(const size_t divisions, ParseDivisions(tokens.Next()));
    if (start == ">") {
      std::fill(entries.begin() + static_cast<int64_t>(last) + (first ? 0 : 1), entries.end(), divisions);
      return tokens.Expect("]", kKey);
    }
    uint64_t mebibytes = 0;
    if (!absl::SimpleAtoi(start, &mebibytes) || !IsPowerOfTwo(mebibytes))
      return Wrong(kKey, start, "a size in MiB that is a power of two, or '>', is needed");
    const size_t index = IntervalOf(mebibytes);
    if (!first && index <= last) return Wrong(kKey, start, "sizes must increase");
    if (first) std::fill(entries.begin(), entries.begin() + static_cast<int64_t>(index), divisions);
    entries[index] = divisions;
    last = index;
    first = false;
    if (tokens.peek() == "]") break;
    CASK_RETURN_IF_ERROR(tokens.Expect(",", kKey));
  }
  return tokens.Expect("]", kKey);
}

absl::Status ParseValue(absl::string_view key, Tokens& tokens, CachingOptions& options) {
  if (key == "roundup_power2_divisions" && tokens.peek() == "[") {
    tokens.Next();
    return ParseDivisionList(tokens, options);
  }
  const absl::string_view value = tokens.Next();
  if (key == "max_split_size_mb") {
    uint64_t mebibytes = 0;
    if (!absl::SimpleAtoi(value, &mebibytes) || mebibytes <= kMinSplitLimitMb)
      return Wrong(key, value, "a number of MiB greater than 20 is needed");
    options.max_split_size = static_cast<size_t>(std::min<uint64_t>(mebibytes, SIZE_MAX / kMiB) * kMiB);
    return absl::OkStatus();
  }
  if (key == "garbage_collection_threshold") {
    double threshold = 0;
    if (!absl::SimpleAtod(value, &threshold) || !(threshold > 0 && threshold < 1))
      return Wrong(key, value, "a number greater than 0 and less than 1 is needed");
    options.garbage_collection_threshold = threshold;
    return absl::OkStatus();
  }
  if (key == "roundup_power2_divisions") {
    CASK_ASSIGN_OR_RETURN(const size_t divisions, ParseDivisions(value));
    options.roundup_power2_divisions.fill(divisions);
    return absl::OkStatus();
  }
  if (key == "backend") {
    return value == "native" ? absl::OkStatus() : Wrong(key, value, "only 'native' exists");
  }
  if (key == "expandable_segments") {
    if (value != "True" && value != "False") return Wrong(key, value, "'True' or 'False' is needed");
    options.expandable_segments = value == "True";
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unknown allocator option ", Quoted(key),
                   "; known are max_split_size_mb, garbage_collection_threshold, roundup_power2_divisions, backend and "
                   "expandable_segments"));
}

// Up to the next of the `divisions` equal steps between a power of two and the next one.
size_t RoundToDivision(size_t bytes, size_t divisions) {
  if (divisions <= 1 || IsPowerOfTwo(bytes)) return bytes;
  const size_t power = size_t{1} << Log2(bytes);
  const size_t step = power >> Log2(divisions);
  if (step == 0) return power << 1;
  return (bytes + step - 1) / step * step;
}

}  // namespace

absl::StatusOr<CachingOptions> CachingOptions::Parse(absl::string_view text) {
  CachingOptions options;
  Tokens tokens(text);
  while (!tokens.done()) {
    const std::string key(tokens.Next());
    CASK_RETURN_IF_ERROR(tokens.Expect(":", key));
    CASK_RETURN_IF_ERROR(ParseValue(key, tokens, options));
    if (tokens.done()) break;
    CASK_RETURN_IF_ERROR(tokens.Expect(",", key));
    if (tokens.done()) return Wrong(key, "", "another option is needed after ','");
  }
  return options;
}

size_t CachingOptions::RoundSize(size_t bytes) const {
  if (bytes < kMinBlockBytes) return kMinBlockBytes;
  const size_t divisions = roundup_power2_divisions[IntervalOf(bytes / kMiB)];
  if (divisions > 1 && bytes > kMinBlockBytes * divisions) return RoundToDivision(bytes, divisions);
  return (bytes + kMinBlockBytes - 1) / kMinBlockBytes * kMinBlockBytes;
}

}  // namespace tensorcask
