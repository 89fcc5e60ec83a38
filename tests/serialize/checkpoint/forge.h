// Makes index files that no writer would: wrong in one place, with correct checksums around it, so that a reader gets
// as far as that place.
//
//   TableForge forge;
//   const BlockHandle block = forge.Block(ForgeBlock({{0, "a", "1"}, {5, "b", "2"}}));   // shares 5 bytes of "a"
//   std::string file = forge.Finish({{"b", block}});

#ifndef TENSORCASK_TESTS_SERIALIZE_CHECKPOINT_FORGE_H_
#define TENSORCASK_TESTS_SERIALIZE_CHECKPOINT_FORGE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tensorcask/serialize/checkpoint/table/table_format.h"

namespace tensorcask::testing {

struct ForgedEntry {
  uint64_t shared = 0;
  std::string suffix;
  std::string value;
  std::optional<uint64_t> unshared = std::nullopt;     // what it says of suffix.size() instead
  std::optional<uint64_t> value_bytes = std::nullopt;  // and of value.size()
};

// The content of a block. `restarts` are the offsets in its restart array; `count` is what it says of their number.
std::string ForgeBlock(const std::vector<ForgedEntry>& entries, const std::vector<uint32_t>& restarts = {0},
                       std::optional<uint32_t> count = std::nullopt);

class TableForge {
 public:
  // Appends a block with its trailer; `crc` replaces the checksum.
  checkpoint::BlockHandle Block(const std::string& content, int type = 0, std::optional<uint32_t> crc = std::nullopt);

  struct Ends {
    std::optional<checkpoint::BlockHandle> metaindex = std::nullopt;  // instead of an empty block
    std::optional<checkpoint::BlockHandle> index = std::nullopt;      // instead of the block made of `index`
  };
  // Appends metaindex, index of blocks (last key, place) and footer.
  std::string Finish(const std::vector<std::pair<std::string, checkpoint::BlockHandle>>& index, const Ends& ends);
  std::string Finish(const std::vector<std::pair<std::string, checkpoint::BlockHandle>>& index) {
    return Finish(index, Ends());
  }

  uint64_t position() const { return bytes_.size(); }

 private:
  std::string bytes_;
};

// A footer, 48 bytes.
std::string ForgeFooter(const checkpoint::BlockHandle& metaindex, const checkpoint::BlockHandle& index);

}  // namespace tensorcask::testing

#endif  // TENSORCASK_TESTS_SERIALIZE_CHECKPOINT_FORGE_H_
