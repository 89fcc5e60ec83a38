// The content of one block of an index, after a byte for its compression: the cursor, the lookup and a model agree.
//
// Is to reach what input can reach of these files:
//   serialize/checkpoint/table/block_reader*

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/checkpoint/table/block_reader.h"
#include "tensorcask/serialize/checkpoint/table/table_format.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/base/endian.h"
#include "tensorcask/tests/fuzz/fuzz_input.h"

namespace tensorcask::checkpoint {
namespace {

void CheckEntries(const BlockReader& block) {
  std::vector<std::pair<std::string, absl::string_view>> entries;
  BlockReader::Cursor cursor(block);
  while (cursor.Next()) {
    FUZZ_CHECK(entries.empty() || entries.back().first < cursor.key(), "keys do not increase");
    if (cursor.shared_bytes() == 0) FUZZ_CHECK(cursor.whole_key() == cursor.key(), "the whole key is another");
    entries.emplace_back(std::string(cursor.key()), cursor.value());
  }
  FUZZ_CHECK(block.empty() == entries.empty(), "empty");
  if (entries.empty()) return;
  FUZZ_CHECK(block.first_key() == entries.front().first && block.last_key() == entries.back().first, "ends");
  for (size_t i = 0; i < entries.size(); ++i) {
    const auto& [key, value] = entries[i];
    const std::optional<absl::string_view> found = block.Find(key);
    FUZZ_CHECK(found.has_value() && found->data() == value.data() && found->size() == value.size(), "not found");
    const std::string behind = key + '\0';  // the next key that there could be
    const bool is_there = i + 1 < entries.size() && entries[i + 1].first == behind;
    FUZZ_CHECK(block.Find(behind).has_value() == is_there, "found a key that is not there, or lost one");
  }
}

void Check(char type, absl::string_view content) {
  std::string stored(content);
  stored.push_back(type);
  const uint32_t crc = MaskCrc32c(Crc32c(stored));
  stored.resize(stored.size() + sizeof(crc));
  StoreLittleEndian(crc, &stored[stored.size() - sizeof(crc)]);
  DecodeLimits limits;
  limits.max_message_bytes = 1 << 20;
  const absl::StatusOr<std::unique_ptr<const BlockReader>> block =
      BlockReader::Read(*MakeMemorySource("block", stored), {0, content.size()}, limits);
  if (block.ok()) CheckEntries(**block);
}

}  // namespace
}  // namespace tensorcask::checkpoint

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tensorcask::testing::FuzzInput input(data, size);
  const char type = static_cast<char>(input.Bits(1));
  tensorcask::checkpoint::Check(type, input.Rest());
  return 0;
}
