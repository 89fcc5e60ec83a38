// The external_data of a tensor of ONNX, as lines of key, '=' and value: refused, or a place beneath the folder of the
// model and numbers that were written in digits alone.
//
// Is to reach what input can reach of these files:
//   serialize/onnx/internal/external_data*

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/onnx/internal/external_data.h"
#include "tensorcask/tests/fuzz/fuzz_input.h"

namespace tensorcask::onnx {
namespace {

// `text` without the zeros in front that a number may have.
std::string Digits(absl::string_view text) {
  while (text.size() > 1 && text.front() == '0') text.remove_prefix(1);
  return std::string(text);
}

void CheckLocation(absl::string_view location) {
  const std::string text(location);
  FUZZ_CHECK(!text.empty() && text.front() != '/' && text.front() != '#', text);
  FUZZ_CHECK(text.find('\0') == std::string::npos && !absl::StrContains(text, '\\'), text);
  FUZZ_CHECK(!absl::StrContains(text, "://"), text);
  for (const absl::string_view step : absl::StrSplit(location, '/')) {
    FUZZ_CHECK(!step.empty() && step != "." && step != "..", text);
  }
}

void Check(absl::string_view text) {
  std::vector<ExternalEntry> entries;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::pair<std::string, std::string> entry = absl::StrSplit(line, absl::MaxSplits('=', 1));
    entries.push_back(entry);
  }
  const absl::StatusOr<ExternalData> data = ParseExternalData(entries);
  if (!data.ok()) {
    FUZZ_CHECK(absl::IsInvalidArgument(data.status()), data.status().ToString());
    return;
  }
  CheckLocation(data->location);
  for (const auto& [key, value] : entries) {
    if (key == "offset") FUZZ_CHECK(Digits(value) == absl::StrCat(data->offset), value);
    if (key == "length") FUZZ_CHECK(data->length.has_value() && Digits(value) == absl::StrCat(*data->length), value);
    if (key == "checksum") FUZZ_CHECK(absl::AsciiStrToLower(value) == data->sha1, value);
    FUZZ_CHECK(std::count(entries.begin(), entries.end(), ExternalEntry(key, value)) == 1, key);
  }
  FUZZ_CHECK(data->sha1.empty() || data->sha1.size() == 40, data->sha1);
}

}  // namespace
}  // namespace tensorcask::onnx

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tensorcask::onnx::Check({reinterpret_cast<const char*>(data), size});
  return 0;
}
