#include "tensorcask/tests/bombs/index_forge.h"

#include <algorithm>
#include <utility>

#include "snappy.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/base/endian.h"
#include "tensorcask/tensor/base/varint.h"

namespace tensorcask::testing {
namespace {

void AppendFixed32(uint32_t value, std::string* out) {
  char bytes[sizeof(value)];
  StoreLittleEndian(value, bytes);
  out->append(bytes, sizeof(bytes));
}

}  // namespace

void IndexForge::AddTo(Block* block, absl::string_view key, absl::string_view value, int restart_interval) const {
  size_t shared = 0;
  if (block->num_restarts == 0 || ++block->since_restart >= restart_interval) {
    AppendFixed32(static_cast<uint32_t>(block->content.size()), &block->restarts);
    ++block->num_restarts;
    block->since_restart = 0;
  } else {
    const size_t limit = std::min(key.size(), block->last_key.size());
    while (shared < limit && key[shared] == block->last_key[shared]) ++shared;
  }
  AppendVarint(shared, &block->content);
  AppendVarint(key.size() - shared, &block->content);
  AppendVarint(value.size(), &block->content);
  block->content.append(key.data() + shared, key.size() - shared);
  block->content.append(value.data(), value.size());
  block->last_key.assign(key.data(), key.size());
}

checkpoint::BlockHandle IndexForge::Store(Block* block, bool snappy) {
  if (block->num_restarts == 0) {
    AppendFixed32(0, &block->restarts);
    block->num_restarts = 1;
  }
  std::string content = std::move(block->content);
  content += block->restarts;
  AppendFixed32(block->num_restarts, &content);
  *block = Block();
  if (snappy) {
    std::string compressed;
    snappy::Compress(content.data(), content.size(), &compressed);
    content = std::move(compressed);
  }
  const checkpoint::BlockHandle handle{file_.size(), content.size()};
  content.push_back(snappy ? checkpoint::kSnappyBlock : checkpoint::kRawBlock);
  AppendFixed32(MaskCrc32c(Crc32c(content)), &content);
  file_ += content;
  return handle;
}

void IndexForge::EndBlock() {
  if (block_.content.empty()) return;
  const std::string last_key = block_.last_key;
  std::string value;
  checkpoint::AppendHandle(Store(&block_, snappy_), &value);
  AddTo(&index_, last_key, value, /*restart_interval=*/1);
}

void IndexForge::Add(absl::string_view key, absl::string_view value) {
  AddTo(&block_, key, value, restart_interval_);
  if (block_.content.size() >= block_bytes_) EndBlock();
}

std::string IndexForge::Finish() {
  EndBlock();
  Block none;
  const checkpoint::BlockHandle metaindex = Store(&none, /*snappy=*/false);
  const checkpoint::BlockHandle index = Store(&index_, /*snappy=*/false);
  std::string footer;
  checkpoint::AppendHandle(metaindex, &footer);
  checkpoint::AppendHandle(index, &footer);
  footer.resize(checkpoint::kFooterBytes);
  StoreLittleEndian(checkpoint::kTableMagic, &footer[checkpoint::kFooterBytes - sizeof(uint64_t)]);
  return std::move(file_) + footer;
}

}  // namespace tensorcask::testing
