#include "tensorcask/tests/serialize/checkpoint/forge.h"

#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/base/endian.h"
#include "tensorcask/tensor/base/varint.h"

namespace tensorcask::testing {
namespace {

using checkpoint::AppendHandle;
using checkpoint::BlockHandle;

void AppendFixed32(uint32_t value, std::string* out) {
  char bytes[sizeof(value)];
  StoreLittleEndian(value, bytes);
  out->append(bytes, sizeof(bytes));
}

}  // namespace

std::string ForgeBlock(const std::vector<ForgedEntry>& entries, const std::vector<uint32_t>& restarts,
                       std::optional<uint32_t> count) {
  std::string block;
  for (const ForgedEntry& entry : entries) {
    AppendVarint(entry.shared, &block);
    AppendVarint(entry.unshared.value_or(entry.suffix.size()), &block);
    AppendVarint(entry.value_bytes.value_or(entry.value.size()), &block);
    block += entry.suffix;
    block += entry.value;
  }
  for (const uint32_t restart : restarts) AppendFixed32(restart, &block);
  AppendFixed32(count.value_or(static_cast<uint32_t>(restarts.size())), &block);
  return block;
}

BlockHandle TableForge::Block(const std::string& content, int type, std::optional<uint32_t> crc) {
  BlockHandle handle;
  handle.offset = bytes_.size();
  handle.size_bytes = content.size();
  const std::string stored = content + static_cast<char>(type);
  bytes_ += stored;
  AppendFixed32(crc.value_or(MaskCrc32c(Crc32c(stored))), &bytes_);
  return handle;
}

std::string TableForge::Finish(const std::vector<std::pair<std::string, BlockHandle>>& index, const Ends& ends) {
  const BlockHandle metaindex = ends.metaindex.has_value() ? *ends.metaindex : Block(ForgeBlock({}));
  BlockHandle index_handle;
  if (ends.index.has_value()) {
    index_handle = *ends.index;
  } else {
    std::vector<ForgedEntry> entries;
    std::vector<uint32_t> restarts;
    uint32_t position = 0;
    for (const auto& [key, handle] : index) {
      ForgedEntry entry;
      entry.suffix = key;
      AppendHandle(handle, &entry.value);
      restarts.push_back(position);
      position += static_cast<uint32_t>(ForgeBlock({entry}, {}).size() - sizeof(uint32_t));
      entries.push_back(entry);
    }
    if (restarts.empty()) restarts.push_back(0);
    index_handle = Block(ForgeBlock(entries, restarts));
  }
  return bytes_ + ForgeFooter(metaindex, index_handle);
}

std::string ForgeFooter(const BlockHandle& metaindex, const BlockHandle& index) {
  std::string footer;
  AppendHandle(metaindex, &footer);
  AppendHandle(index, &footer);
  footer.resize(checkpoint::kFooterBytes);
  StoreLittleEndian(checkpoint::kTableMagic, &footer[checkpoint::kFooterBytes - sizeof(uint64_t)]);
  return footer;
}

}  // namespace tensorcask::testing
