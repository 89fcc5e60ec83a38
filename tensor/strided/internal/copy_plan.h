// How a large copy between two layouts goes through memory: the plan, and its execution. Internal to copy_strided.cc.
//
//   Axes axes = LongAxes(from, to);
//   CopyPlan(&axes, element_bytes, from_base, from.offset(), to_base, to.offset(), options).Run();
//
// copy_plan.cc makes plans, copy_plan_run.cc executes them.

#ifndef TENSORCASK_TENSOR_STRIDED_INTERNAL_COPY_PLAN_H_
#define TENSORCASK_TENSOR_STRIDED_INTERNAL_COPY_PLAN_H_

#include <cstdint>

#include "tensorcask/tensor/base/cpu.h"
#include "tensorcask/tensor/strided/internal/axes.h"
#include "tensorcask/tensor/strided/internal/copy_kernels.h"
#include "tensorcask/tensor/strided/internal/copy_strided.h"

namespace tensorcask::internal {

// The plan of a copy. A kernel copies two axes, in tiles; loops walk the other axes and the tiles.
//
// `inner_` is the axis of the destination's smallest step. `outer_` is the axis of the source's smallest step, if that
// is another axis: then a tile of the two uses each cache line of both sides as a whole. Otherwise it is the next axis
// of the destination. The tiles along outer_ are the innermost loop, so that neighbouring lines of the destination are
// written in short succession. The other axes are outside, those with the destination's largest steps first. (Measured
// for 64 MiB of float32 against the five other orders: for the transposition of 4096 x 4096, all permutations of 256 x
// 256 x 256 and both ways between NCHW and NHWC this one was the fastest or within 10 % of it.)
class CopyPlan {
 public:
  // Positions and steps in elements. *axes becomes the list of loops, and outlives the plan.
  CopyPlan(Axes* axes, int64_t element_bytes, const char* from_base, int64_t from, char* to_base, int64_t to,
           const CopyStridedOptions& options);

  void Run();

 private:
  enum class Kind : uint8_t {
    kBlocks,     // inner_ is dense on both sides
    kGather,     // inner_ is dense in the destination
    kTranspose,  // inner_ is dense in the destination, outer_ in the source
    kElements,   // other cases: one element at a time
  };
  enum class Store : uint8_t {
    kDirect,   // the kernel writes to the destination
    kThrough,  // non-temporal stores, by a kernel that reads the source
    kLines,    // the same for a transpose: each row of a tile is one cache line or several
    kPacked,   // non-temporal stores: a tile is one range of the destination
    kRows,     // non-temporal stores: each row of a tile is one range
  };

  void ChooseAxes();
  bool HasTranspose(const Axis& outer) const;
  // True if rows are gathered in registers, faster than a transpose: reversed ones, one element repeated, every second
  // element up to 8 bytes, every third up to 4.
  bool HasFastGather() const {
    return inner_.from == -element_bytes_ || inner_.from == 0 ||
           (inner_.from == 2 * element_bytes_ && element_bytes_ <= 8) ||
           (inner_.from == 3 * element_bytes_ && element_bytes_ <= 4);
  }
  int64_t LeastStreamedBytes() const;
  int64_t LeastStreamedRowBytes(int64_t row_bytes) const;
  void ChooseStore(const CopyStridedOptions& options);
  void ChooseTiles();
  void RunPart(int64_t begin, int64_t end) const;
  void CopyWholeTiles(int64_t from, int64_t to, int64_t tiles) const;
  void CopyTile(int64_t from, int64_t to, int64_t inner_start, int64_t inner, int64_t outer) const;
  void CopyTileThroughScratch(int64_t from, int64_t to, int64_t inner_start, int64_t inner, int64_t outer) const;
  // Tiles, the first elements of the first one at these addresses, their rows to_outer bytes apart.
  void Produce(const char* from, char* to, int64_t to_outer, int64_t inner, int64_t outer,
               const Planes& tiles = Planes()) const;
  void ProduceRows(const char* from, char* to, int64_t to_outer, int64_t bytes, int64_t outer) const;

  int64_t Misalignment(int64_t to) const {
    return static_cast<int64_t>((reinterpret_cast<uintptr_t>(to_base_) + static_cast<uintptr_t>(to)) % kCacheLine);
  }

  const char* const from_base_;
  char* const to_base_;
  int64_t element_bytes_;
  int64_t from_ = 0;  // the first element, in bytes from the base; steps are in bytes, too
  int64_t to_ = 0;
  Axis inner_ = {1, 0, 0};
  Axis outer_ = {1, 0, 0};
  Axes& loops_;          // around the tiles: other axes, tiles along inner_, tiles along outer_; none of size 1
  int inner_loop_ = -1;  // among loops_; -1 if a tile has all of the axis
  int outer_loop_ = -1;
  int64_t tile_inner_ = 1;
  int64_t tile_outer_ = 1;
  int64_t num_tiles_ = 1;
  int num_threads_;
  const CpuTuning& tuning_;
  const CopyChoices& choices_;
  const CopyKernels* kernels_;
  Kind kind_ = Kind::kBlocks;
  Store store_ = Store::kDirect;
  bool shares_lines_ = false;  // kRows: rows do not start and end with cache lines
  bool blocked_ = false;       // outer_ is the source's axis
  bool in_strips_ = false;     // kLines: a tile is one cache line wide and RowsOfStrip rows high
  int64_t ahead_ = 0;          // kLines: the distance of what is prefetched from what is read, in bytes
};

}  // namespace tensorcask::internal

#endif  // TENSORCASK_TENSOR_STRIDED_INTERNAL_COPY_PLAN_H_
