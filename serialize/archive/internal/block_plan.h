// Cuts a tensor into slices that follow one another in row-major order.
//
//   BlockPlan plan(TensorShape({1000, 4096}), /*element_size=*/4, /*block_bytes=*/8 << 20);   // 512 rows each
//   while (std::optional<TensorSlice> slice = plan.Next()) ...

#ifndef TENSORCASK_SERIALIZE_ARCHIVE_INTERNAL_BLOCK_PLAN_H_
#define TENSORCASK_SERIALIZE_ARCHIVE_INTERNAL_BLOCK_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"

namespace tensorcask::archive {

class BlockPlan {
 public:
  // Requires: element_size > 0. A block has at least one element. A tensor without elements is one block.
  BlockPlan(const TensorShape& shape, size_t element_size, uint64_t block_bytes);

  std::optional<TensorSlice> Next();  // nullopt after the last

 private:
  TensorShape shape_;
  int axis_ = 0;                 // that is cut; outer axes advance by one, inner axes are full. -1: one block
  int64_t rows_ = 0;             // how many steps of axis_ a block has
  std::vector<int64_t> starts_;  // those of the next block, on the axes up to axis_
  bool done_ = false;
};

}  // namespace tensorcask::archive

#endif  // TENSORCASK_SERIALIZE_ARCHIVE_INTERNAL_BLOCK_PLAN_H_
