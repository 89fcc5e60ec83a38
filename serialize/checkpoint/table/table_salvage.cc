#include "tensorcask/serialize/checkpoint/table/table_salvage.h"

#include <algorithm>
#include <cstddef>
#include <optional>

#include "tensorcask/serialize/checkpoint/table/block_reader.h"
#include "tensorcask/serialize/checkpoint/table/block_search.h"
#include "tensorcask/serialize/checkpoint/table/table_format.h"
#include "tensorcask/tensor/base/varint.h"

namespace tensorcask::checkpoint {
namespace {

uint64_t EndOf(const BlockHandle& handle) { return handle.offset + handle.size_bytes + kBlockTrailerBytes; }

// The block handles in an index block; empty if `block` is not an index block. Blocks follow each other, from the front
// of the file.
std::vector<BlockHandle> PlacesIn(const BlockReader& block) {
  std::vector<BlockHandle> places;
  uint64_t end = 0;
  for (BlockReader::Cursor cursor(block); cursor.Next();) {
    absl::string_view rest = cursor.value();
    BlockHandle handle;
    if (!ParseHandle(&rest, &handle) || !rest.empty() || handle.offset != end || handle.size_bytes > UINT32_MAX) {
      return {};
    }
    places.push_back(handle);
    end = EndOf(handle);
  }
  return places;
}

// Records where whole blocks were found, and computes the ranges that lack blocks.
class Coverage {
 public:
  void AddData(const BlockHandle& handle) {
    data_.push_back(handle);
    tail_.reset();  // a block before entries is not the tail
  }
  // Any other block: entries end before it.
  void AddTail(const BlockHandle& handle, const std::vector<BlockHandle>& places) {
    if (!tail_.has_value()) tail_ = handle.offset;
    if (!places.empty()) places_ = places;
  }

  // The parts of [0, size_bytes) where entries are missing.
  std::vector<LostRange> Gaps(uint64_t size_bytes) const {
    // If as many blocks were found as the index of blocks lists, none is missing, whatever bytes are between them.
    if (!places_.empty() && data_.size() >= places_.size()) return {};
    uint64_t end = tail_.value_or(size_bytes);
    if (!places_.empty()) end = std::min(end, EndOf(places_.back()));
    std::vector<LostRange> gaps;
    uint64_t begin = 0;
    for (const BlockHandle& handle : data_) {
      if (handle.offset > begin) gaps.push_back({begin, handle.offset - begin, {}});
      begin = EndOf(handle);
    }
    // Without a tail the file is cut off, perhaps between two blocks.
    if (end > begin || !tail_.has_value()) gaps.push_back({begin, end > begin ? end - begin : 0, {}});
    if (gaps.empty() && !places_.empty()) gaps.push_back({begin, 0, {}});
    return gaps;
  }

 private:
  std::vector<BlockHandle> data_;
  std::vector<BlockHandle> places_;  // as the last index of blocks has them
  std::optional<uint64_t> tail_;     // where the first block after the entries begins
};

// Finds entries in damaged bytes: parses entry after entry, and where that fails goes on at the next byte.
class EntryFinder {
 public:
  EntryFinder(uint64_t size_bytes, const DecodeLimits& limits, absl::FunctionRef<bool(absl::string_view)> is_value)
      : is_value_(is_value),
        look_budget_(16 * size_bytes + (uint64_t{1} << 20)),
        key_budget_(std::max<int64_t>(limits.max_memory_beyond_input, 0)),
        max_key_bytes_(static_cast<size_t>(std::max<int64_t>(limits.max_name_bytes, 0))) {}

  // Treats the front of `damaged` as the begin of a block.
  std::vector<UnverifiedEntry> Find(absl::string_view damaged) {
    std::vector<UnverifiedEntry> found;
    std::optional<std::string> last = "";  // the key before, if it is known
    while (!damaged.empty()) {
      Entry entry;
      if (!Take(damaged, &entry) || !IsEntry(damaged, entry, last)) {
        damaged.remove_prefix(1);
        last.reset();
        continue;
      }
      damaged.remove_prefix(entry.size_bytes);
      // A key that shares bytes with an unknown key cannot be reconstructed.
      if (entry.shared > 0 && (!last.has_value() || entry.shared > last->size())) {
        last.reset();
        continue;
      }
      std::string key = entry.shared > 0 ? last->substr(0, entry.shared) : std::string();
      key.append(entry.suffix.data(), entry.suffix.size());
      // A growing vector has each entry up to three times, and the key in a block of its own.
      const auto bytes = static_cast<int64_t>(key.size() + 4 * sizeof(UnverifiedEntry));
      if (bytes > key_budget_) break;
      key_budget_ -= bytes;
      found.push_back({key, entry.value});
      last = std::move(key);
    }
    return found;
  }

 private:
  struct Entry {
    size_t shared = 0;
    absl::string_view suffix;
    absl::string_view value;
    size_t size_bytes = 0;
  };

  bool Take(absl::string_view from, Entry* entry) const {
    const size_t before = from.size();
    uint32_t shared = 0;
    uint32_t unshared = 0;
    uint32_t value_bytes = 0;
    if (!ParseCanonicalVarint(&from, &shared) || !ParseCanonicalVarint(&from, &unshared) ||
        !ParseCanonicalVarint(&from, &value_bytes)) {
      return false;
    }
    if (unshared == 0 || shared > max_key_bytes_ || unshared > max_key_bytes_ || unshared > from.size() ||
        value_bytes > from.size() - unshared) {
      return false;
    }
    *entry = {shared, from.substr(0, unshared), from.substr(unshared, value_bytes), 0};
    entry->size_bytes = before - from.size() + unshared + value_bytes;
    return true;
  }

  bool LooksRight(absl::string_view value) {
    if (value.size() > look_budget_) return false;
    look_budget_ -= value.size();
    return is_value_(value);
  }

  // True if the value looks like one. After an entry, also true if the value of the next entry looks like one, because
  // then the lengths of this entry are right.
  bool IsEntry(absl::string_view from, const Entry& entry, const std::optional<std::string>& last) {
    if (LooksRight(entry.value)) return true;
    if (!last.has_value() || entry.shared > last->size()) return false;
    Entry next;
    return Take(from.substr(entry.size_bytes), &next) && LooksRight(next.value);
  }

  const absl::FunctionRef<bool(absl::string_view)> is_value_;
  uint64_t look_budget_;
  int64_t key_budget_;
  const size_t max_key_bytes_;
};

}  // namespace

void SalvageTable(absl::string_view bytes, const DecodeLimits& limits,
                  absl::FunctionRef<bool(absl::string_view value)> is_value,
                  absl::FunctionRef<void(absl::string_view key, absl::string_view value)> take,
                  absl::FunctionRef<void(const LostRange&)> lost) {
  Coverage coverage;
  std::optional<std::string> last_key;
  ForEachWholeBlock(bytes, limits, [&](const BlockHandle& handle, const BlockReader& block) {
    if (block.empty()) return coverage.AddTail(handle, {});
    const std::vector<BlockHandle> places = PlacesIn(block);
    if (!places.empty()) return coverage.AddTail(handle, places);
    if (last_key.has_value() && block.first_key() <= *last_key) return;
    last_key = std::string(block.last_key());
    coverage.AddData(handle);
    for (BlockReader::Cursor cursor(block); cursor.Next();) take(cursor.key(), cursor.value());
  });
  EntryFinder finder(bytes.size(), limits, is_value);
  for (LostRange& gap : coverage.Gaps(bytes.size())) {
    gap.entries = finder.Find(bytes.substr(gap.offset, gap.size_bytes));
    lost(gap);
  }
}

}  // namespace tensorcask::checkpoint
