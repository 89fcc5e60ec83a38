// A whole table: walking over it and looking up each key agree.
//
// Is to reach what input can reach of these files:
//   serialize/checkpoint/table/table_reader*
//   serialize/checkpoint/table/block_reader*

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/checkpoint/table/table_reader.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/tests/fuzz/fuzz_input.h"
#include "tensorcask/tests/fuzz/mend_table.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace tensorcask::checkpoint {
namespace {

void Check(absl::string_view bytes) {
  DecodeLimits limits;
  limits.max_message_bytes = 1 << 20;
  const absl::StatusOr<std::unique_ptr<TableReader>> table =
      TableReader::Open(MakeMemorySource("table", bytes), limits);
  if (!table.ok()) return;
  std::vector<std::pair<std::string, std::string>> entries;
  const absl::Status walked = (*table)->ForEach([&](absl::string_view key, absl::string_view value) {
    FUZZ_CHECK(entries.empty() || entries.back().first < key, "keys do not increase");
    entries.emplace_back(std::string(key), std::string(value));
    return absl::OkStatus();
  });
  // What was walked over can be looked up, also where a later block is damaged.
  for (const auto& [key, value] : entries) {
    const absl::StatusOr<std::optional<absl::string_view>> found = (*table)->Find(key);
    FUZZ_CHECK(found.ok() && found->has_value() && **found == value, found.status().ToString());
    if (!walked.ok()) continue;
    const absl::StatusOr<std::optional<absl::string_view>> behind = (*table)->Find(key + '\0');
    FUZZ_CHECK(behind.ok(), behind.status().ToString());
  }
}

}  // namespace
}  // namespace tensorcask::checkpoint

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tensorcask::checkpoint::Check({reinterpret_cast<const char*>(data), size});
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned int seed) {
  size = LLVMFuzzerMutate(data, size, max_size);
  if (seed % 8 != 0) {
    tensorcask::testing::MendTable(absl::MakeSpan(reinterpret_cast<char*>(data), size),
                                   [](absl::string_view, absl::Span<char>) {});
  }
  return size;
}
