// Lines as the headers of an HTTP answer: what is kept of them is in bounds, and each value parses as it parses alone.
//
// Is to reach what input can reach of these files:
//   serialize/object_store/internal/http_headers*
//   serialize/object_store/internal/object_url*

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tensorcask/serialize/object_store/internal/http_headers.h"
#include "tensorcask/serialize/object_store/internal/object_url.h"
#include "tensorcask/tests/fuzz/fuzz_input.h"

namespace tensorcask::testing {
namespace {

void CheckRange(const internal::ContentRange& range) {
  FUZZ_CHECK(range.total <= uint64_t{1} << 62, "a total that overflows when two are added");
  if (range.is_satisfied) FUZZ_CHECK(range.first <= range.last && range.last < range.total, "a range outside its file");
}

}  // namespace
}  // namespace tensorcask::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ::tensorcask::internal;  // NOLINT(google-build-using-namespace)
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  AnswerHeaders headers;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!headers.AddLine(line)) break;
    FUZZ_CHECK(headers.etag.empty() || ParseETag(headers.etag) == headers.etag, headers.etag);
    if (const std::optional<ContentRange> range = ParseContentRange(line)) tensorcask::testing::CheckRange(*range);
    const std::optional<absl::Duration> pause = ParseRetryAfter(line, absl::UnixEpoch());
    FUZZ_CHECK(!pause.has_value() || *pause >= absl::ZeroDuration(), "a pause that ends before it begins");
    const absl::StatusOr<ObjectUrl> url = ParseObjectUrl(line);
    if (url.ok() && url->is_s3)
      FUZZ_CHECK(!absl::StrContains(url->key, "//") && url->key.size() <= kMaxKeyBytes, url->key);
    if (url.ok() && !url->is_s3) FUZZ_CHECK(!HostOf(url->http).empty() || absl::StrContains(line, ":"), url->http);
  }
  if (headers.content_range.has_value()) tensorcask::testing::CheckRange(*headers.content_range);
  return 0;
}
