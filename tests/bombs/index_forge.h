// Writes large indexes fast: raw or snappy blocks, keys in any order that the caller has sorted.
//
//   IndexForge index(/*snappy=*/true);
//   index.Add("w", entry_bytes);          // keys increasing
//   std::string file = index.Finish();

#ifndef TENSORCASK_TESTS_BOMBS_INDEX_FORGE_H_
#define TENSORCASK_TESTS_BOMBS_INDEX_FORGE_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "tensorcask/serialize/checkpoint/table/table_format.h"

namespace tensorcask::testing {

class IndexForge {
 public:
  // `restart_interval` is the number of entries from one whole key to the next.
  explicit IndexForge(bool snappy, size_t block_bytes = size_t{16} << 10, int restart_interval = 16)
      : snappy_(snappy), block_bytes_(block_bytes), restart_interval_(restart_interval) {}

  void Add(absl::string_view key, absl::string_view value);
  // The file: data blocks, an empty metaindex, the index of blocks, the footer.
  std::string Finish();

 private:
  struct Block {
    std::string content;
    std::string restarts;
    uint32_t num_restarts = 0;
    int since_restart = 0;
    std::string last_key;
  };
  void AddTo(Block* block, absl::string_view key, absl::string_view value, int restart_interval) const;
  checkpoint::BlockHandle Store(Block* block, bool snappy);
  void EndBlock();

  const bool snappy_;
  const size_t block_bytes_;
  const int restart_interval_;
  Block block_;
  Block index_;
  std::string file_;
};

}  // namespace tensorcask::testing

#endif  // TENSORCASK_TESTS_BOMBS_INDEX_FORGE_H_
