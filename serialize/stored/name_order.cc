#include "tensorcask/serialize/stored/name_order.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <tuple>

#include "tensorcask/tensor/base/check.h"
#include "tensorcask/tensor/base/endian.h"

namespace tensorcask::stored {
namespace {

constexpr size_t kKeyBytes = 8;

// Eight bytes of a name, as a number that sorts as they do; after the end they are 0.
struct Key {
  uint64_t bytes = 0;
  uint32_t size = 0;  // how many bytes the name has
  uint32_t number = 0;

  friend bool operator<(const Key& a, const Key& b) {
    return std::tie(a.bytes, a.size, a.number) < std::tie(b.bytes, b.size, b.number);
  }
};

// Names that are equal up to `depth`.
struct Run {
  size_t begin = 0;  // in the list of keys
  size_t end = 0;
  size_t depth = 0;
};

void SetKey(absl::string_view name, size_t depth, Key* key) {
  char bytes[kKeyBytes] = {};
  key->size = static_cast<uint32_t>(std::min(kKeyBytes, name.size() - depth));
  std::copy_n(name.data() + depth, key->size, bytes);
  key->bytes = __builtin_bswap64(LoadLittleEndian<uint64_t>(bytes));
}

size_t BytesInCommon(absl::Span<const absl::string_view> names) {
  size_t common = names[0].size();
  for (const absl::string_view name : names) {
    common = std::min(common, name.size());
    common =
        static_cast<size_t>(std::mismatch(name.begin(), name.begin() + common, names[0].begin()).first - name.begin());
  }
  return common;
}

}  // namespace

std::vector<uint32_t> NameOrder(absl::Span<const absl::string_view> names) {
  CASK_CHECK(names.size() < std::numeric_limits<uint32_t>::max(), "fewer than 2^32 names");
  if (names.empty()) return {};
  std::vector<Key> keys(names.size());
  for (uint32_t i = 0; i < keys.size(); ++i) keys[i].number = i;
  std::vector<Run> open = {{0, keys.size(), BytesInCommon(names)}};
  while (!open.empty()) {
    const Run run = open.back();
    open.pop_back();
    for (size_t i = run.begin; i < run.end; ++i) SetKey(names[keys[i].number], run.depth, &keys[i]);
    std::sort(keys.begin() + static_cast<std::ptrdiff_t>(run.begin),
              keys.begin() + static_cast<std::ptrdiff_t>(run.end));
    for (size_t begin = run.begin; begin < run.end;) {
      size_t end = begin + 1;
      while (end < run.end && keys[end].bytes == keys[begin].bytes && keys[end].size == keys[begin].size) ++end;
      if (end - begin > 1 && keys[begin].size == kKeyBytes) open.push_back({begin, end, run.depth + kKeyBytes});
      begin = end;
    }
  }
  std::vector<uint32_t> order;
  order.reserve(keys.size());
  for (const Key& key : keys) order.push_back(key.number);
  return order;
}

}  // namespace tensorcask::stored
