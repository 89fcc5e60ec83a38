#include "tensorcask/tensor/strided/internal/copy_strided.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "absl/status/status.h"
#include "tensorcask/tensor/base/check.h"
#include "tensorcask/tensor/base/copy_bytes.h"
#include "tensorcask/tensor/base/cpu.h"
#include "tensorcask/tensor/base/parallel_for.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/dtype_visit.h"
#include "tensorcask/tensor/resource_handle.h"
#include "tensorcask/tensor/strided/internal/axes.h"
#include "tensorcask/tensor/strided/internal/copy_few.h"
#include "tensorcask/tensor/strided/internal/copy_kernels.h"
#include "tensorcask/tensor/strided/layout.h"
#include "tensorcask/tensor/variant.h"

namespace tensorcask::internal {
namespace {

// The largest piece of the destination that is assembled in the first-level cache and then written by non-temporal
// stores.
constexpr int64_t kScratchBytes = 36 << 10;
constexpr int64_t kPackedBytes = 8 << 10;  // such a piece if it is one range of memory
constexpr int64_t kRowBytes = 256;         // of a tile with two different axes
// The same if the tile is written directly. (Measured on a Zen 4 for squares of 128 to 1,400 elements of all sizes: by
// rows of 256 bytes and tiles of 4 KiB it takes up to 1.3 times as long as by rows of 4 KiB and tiles of 16 KiB.)
constexpr int64_t kDirectRowBytes = 4 << 10;
constexpr int64_t kGatheredBytes = 4 << 10;  // of a row of a tile whose rows share the cache lines of the source
constexpr int64_t kThreadBytes = 256 << 10;  // the least work for a thread, and the unit of its work
constexpr int64_t kLeastStreamedBytes = int64_t{2} << 20;  // of the destination of a gather or a transpose
constexpr int64_t kShortestStreamed = 512;   // bytes of a row; shorter rows share too many lines with others
constexpr int64_t kPartsPerThread = 4;       // so that threads finish at about the same time
constexpr int64_t kLaneBytes = 16;           // of a register that every processor has
constexpr int64_t kShortRowBytes = 4 << 10;  // kLines: adjacent rows of the source that are not longer are read as one

// kLines: the cache lines that a tile has of each row of the destination, for rows of the source `from_step` bytes
// apart. With several, memory is written in longer pieces. Measured, for 64 MiB:
//
//   ms, by lines                                        Zen 5                       Sapphire Rapids
//   transpose of 4096 x 4096 float32                    1: 6.4, 8: 4.0              1: 7.1, 2: 5.7
//   transpose of 2896 x 2896 float64                    1: 5.9, 8: 2.6              1: 6.5, 2: 4.2
//   transpose of 8192 x 8192 uint8                      1: 6.5, 8: 4.8              1: 7.8, 2: 9.3 (LinesOfTile is 1)
//   permutation 210 of 256 x 256 x 256 float32          1: 6.6, 8: 4.4              1: 9.6, 2: 12 (LinesOfTile is 1)
//   permutation 120 of the same                         1: 5.5, 8: 3.7              1: 9.8, 2: 15 (LinesOfTile is 1)
//   NHWC to NCHW of 16 x 128 x 128 x 64 (adjacent)      2: 3.3, 4: 3.4, 8: 3.8      2: 6.0, 4: 6.5, 8: 6.4
//
// The last one on a Zen 4 by 4, 8 and 16 lines, x memcpy: 0.86, 0.71, 0.71.
int64_t LinesOfTile(const CpuTuning& tuning, int64_t from_step, int64_t element_bytes, bool adjacent) {
  if (adjacent) return tuning.transpose_adjacent_lines;
  if (!tuning.transpose_in_l2) return tuning.transpose_lines;
  // A line of each row of the source must stay in the second-level cache, where rows whose distance is a multiple of a
  // power of two share sets, and its page in the first-level TLB.
  constexpr int64_t kWays = 16;
  constexpr int64_t kPages = 64;
  const int64_t rows = tuning.transpose_lines * kCacheLine / element_bytes;
  const int64_t distance = std::min(from_step & -from_step, tuning.l2_bytes / kWays);  // 0: all rows are one
  return rows <= kPages && rows * distance <= tuning.l2_bytes ? tuning.transpose_lines : 1;
}

// kLines, by one line: the rows of the destination that a tile has. The pages of a strip of them are still in the
// second-level TLB when the next tile writes them. A power of two: three quarters of the pages, rounded down. (Zen 4,
// 64 MiB of all element sizes: 0.6 to 1.4 x memcpy, against 1.4 to 3.6 for tiles through scratch memory. Bytes by
// 1,024, 2,048 and 8,192: 1.16, 1.19, 1.22 with small pages, and 1.25, 1.16, 1.10 with huge ones.)
int64_t RowsOfStrip(const CpuTuning& tuning) {
  int64_t rows = kCacheLine;
  while (rows * 2 <= tuning.tlb_pages / 4 * 3) rows *= 2;
  return rows;
}

// The plan of a copy. A kernel copies two axes, in tiles; loops walk the other axes and the tiles.
//
// `inner_` is the axis of the destination's smallest step. `outer_` is the axis of the source's smallest step, if that
// is another axis: then a tile of the two uses each cache line of both sides as a whole. Otherwise it is the next axis
// of the destination. The tiles along outer_ are the innermost loop, so that neighbouring lines of the destination are
// written in short succession. The other axes are outside, those with the destination's largest steps first. (Measured
// for 64 MiB of float32 against the five other orders: for the transposition of 4096 x 4096, all permutations of 256 x
// 256 x 256 and both ways between NCHW and NHWC this one was the fastest or within 10 % of it.)
class StridedCopy {
 public:
  // Positions and steps in elements. *axes becomes the list of loops, and outlives the plan.
  StridedCopy(Axes* axes, int64_t element_bytes, const char* from_base, int64_t from, char* to_base, int64_t to,
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
  const CopyKernels* kernels_;
  Kind kind_ = Kind::kBlocks;
  Store store_ = Store::kDirect;
  bool shares_lines_ = false;  // kRows: rows do not start and end with cache lines
  bool blocked_ = false;       // outer_ is the source's axis
  bool in_strips_ = false;     // kLines: a tile is one cache line wide and RowsOfStrip rows high
  int64_t ahead_ = 0;          // kLines: the distance of what is prefetched from what is read, in bytes
};

StridedCopy::StridedCopy(Axes* axes, int64_t element_bytes, const char* from_base, int64_t from, char* to_base,
                         int64_t to, const CopyStridedOptions& options)
    : from_base_(from_base),
      to_base_(to_base),
      element_bytes_(element_bytes),
      loops_(*axes),
      num_threads_(options.num_threads),
      tuning_(options.tuning != nullptr ? *options.tuning : GetCpuTuning()) {
  TurnForward(axes, &from, &to);
  from_ = from * element_bytes;
  to_ = to * element_bytes;
  for (Axis& axis : *axes) {
    axis.from *= element_bytes;
    axis.to *= element_bytes;
  }
  ChooseAxes();
  kernels_ = &KernelsFor(static_cast<size_t>(element_bytes_),
                         options.features != nullptr ? *options.features : GetCpuFeatures());
  ChooseStore(options);
  ChooseTiles();
}

// Takes inner_ and outer_ out of loops_.
void StridedCopy::ChooseAxes() {
  const auto is_dense = [&](int64_t step) { return step == element_bytes_; };
  if (loops_.empty()) {
    inner_ = {1, element_bytes_, element_bytes_};
    return;
  }
  inner_ = loops_.back();
  loops_.pop_back();
  if (is_dense(inner_.from) && is_dense(inner_.to) && !loops_.empty()) {
    // A short run, such as a complex number or a pixel, is an element.
    const int64_t bytes = inner_.size <= 16 ? inner_.size * element_bytes_ : 0;
    if (bytes == 2 || bytes == 4 || bytes == 8 || bytes == 16) {
      element_bytes_ = bytes;
      inner_ = loops_.back();
      loops_.pop_back();
    }
  }
  if (loops_.empty()) {
    kind_ = !is_dense(inner_.to) ? Kind::kElements : is_dense(inner_.from) ? Kind::kBlocks : Kind::kGather;
    return;
  }
  size_t chosen = loops_.size() - 1;
  const int64_t step = std::abs(inner_.from);
  const bool has_kernel = is_dense(inner_.to) && (is_dense(step) || HasFastGather());
  if (!has_kernel) {
    int64_t least = step;
    for (size_t i = loops_.size(); i-- > 0;) {
      const int64_t other = std::abs(loops_[i].from);
      if (other == 0 || other >= least) continue;
      least = other;
      chosen = i;
      blocked_ = true;
    }
    blocked_ = blocked_ && (step >= kCacheLine || is_dense(least));
    if (!blocked_) chosen = loops_.size() - 1;
  }
  constexpr int64_t kTinyTile = 16;  // elements
  if (!blocked_ || !HasTranspose(loops_[chosen]) || inner_.size * loops_[chosen].size < kTinyTile) {
    // Short loops inside. If all data stays in the first-level cache, a long inner loop matters more than the order.
    int64_t bytes = inner_.size * element_bytes_;
    size_t longest = chosen;
    for (size_t i = 0; i < loops_.size(); ++i) {
      bytes *= loops_[i].size;
      if (loops_[i].size > loops_[longest].size) longest = i;
    }
    if (longest != chosen && bytes <= tuning_.l1_bytes / 2) {
      chosen = longest;
      blocked_ = false;
    }
  }
  outer_ = loops_[chosen];
  loops_.erase(chosen);
  if (!is_dense(inner_.to)) {
    kind_ = Kind::kElements;
  } else if (is_dense(inner_.from)) {
    kind_ = Kind::kBlocks;
  } else if (blocked_ && is_dense(std::abs(outer_.from)) && HasTranspose(outer_)) {
    kind_ = Kind::kTranspose;
    if (outer_.from < 0) {  // from its end
      from_ += outer_.from * (outer_.size - 1);
      to_ += outer_.to * (outer_.size - 1);
      outer_ = {outer_.size, -outer_.from, -outer_.to};
    }
  } else {
    // Short rows are better walked across, and blocks of both axes use each cache line of the source once.
    constexpr int64_t kShortRow = 8;  // elements
    const bool in_blocks = blocked_ && outer_.size * element_bytes_ >= kLaneBytes;
    kind_ = in_blocks || inner_.size <= kShortRow ? Kind::kElements : Kind::kGather;
  }
}

// True if there is a kernel that transposes in registers the elements of inner_ and `outer`.
bool StridedCopy::HasTranspose(const Axis& outer) const {
  const int64_t least = element_bytes_ <= 2 ? 4 : element_bytes_ == 4 ? 8 : kLaneBytes;
  const bool takes_turns = inner_.size == 3 && element_bytes_ <= 2 && outer.from > 0 &&
                           outer.to == 3 * element_bytes_ && outer.size * element_bytes_ >= kLaneBytes;
  return takes_turns || std::min(inner_.size, outer.size) * element_bytes_ >= least;
}

// The least size of a destination for non-temporal stores. Gathers and transposes are slow enough to hide the time of
// the stores, so they begin early. Rows of bytes, repeated rows and fills run at the speed of the caches, so they begin
// where the caches end. (Zen 5, time with non-temporal stores over time with ordinary ones, for 2, 4, 8, 16, 24 and 32
// MiB: half of each row of a matrix, rows of 16 KiB, 1.6, 1.4, 1.2, 0.8, 0.8 and 0.8; a fill 3.0, 2.4, 2.4, 2.2, 1.7
// and 0.96; a transpose of float32 1.1, 0.85, 0.66, 0.55, 0.59 and 0.64.)
int64_t StridedCopy::LeastStreamedBytes() const {
  const auto is_repeated = [](const Axis& axis) { return axis.from == 0; };
  const bool repeats = is_repeated(outer_) && std::all_of(loops_.begin(), loops_.end(), is_repeated);
  if (kind_ == Kind::kBlocks && outer_.size == 1) return tuning_.stream_bytes / 2;
  if (kind_ == Kind::kBlocks) return repeats ? tuning_.stream_bytes : tuning_.stream_bytes / 4;
  return repeats && is_repeated(inner_) ? tuning_.stream_bytes : kLeastStreamedBytes;
}

// kBlocks: shorter rows use ordinary stores. After a long gap the hardware prefetcher starts again. (Zen 5, 16 MiB,
// time with non-temporal stores over time with ordinary ones: rows of 32 to 384 bytes, assembled, 1.1 to 1.4; of 512 to
// 1,024 0.84 to 0.94 with gaps of 64 bytes, 1.1 to 1.3 with gaps as long as the rows; of 2,048 0.8.)
int64_t StridedCopy::LeastStreamedRowBytes(int64_t row_bytes) const {
  return std::abs(outer_.from) >= 2 * row_bytes ? 4 * tuning_.stream_row_bytes : tuning_.stream_row_bytes;
}

void StridedCopy::ChooseStore(const CopyStridedOptions& options) {
  const int64_t row_bytes = inner_.size * element_bytes_;
  int64_t bytes = row_bytes * outer_.size;
  for (const Axis& axis : loops_) bytes *= axis.size;
  if (bytes < kThreadBytes) num_threads_ = 1;
  if (kernels_->stream == nullptr || inner_.to != element_bytes_) return;
  if (bytes < options.stream_bytes.value_or(LeastStreamedBytes())) return;
  // Limited by the loop, not by memory.
  if (kind_ == Kind::kElements && std::min(inner_.size, outer_.size) * element_bytes_ < kLaneBytes) return;
  bool shares_lines = Misalignment(to_) != 0 || outer_.to % kCacheLine != 0;
  for (const Axis& axis : loops_) shares_lines = shares_lines || axis.to % kCacheLine != 0;
  if (kind_ == Kind::kTranspose && !shares_lines && std::min(row_bytes, outer_.size * element_bytes_) >= kCacheLine) {
    store_ = Store::kLines;
    // (Zen 5, with AVX-512 and with AVX2: the transpose of 8192 x 8192 uint8 4.9 and 4.4 ms, of 4096 x 4096 float32 4.3
    // and 4.1, others equal.)
    if (tuning_.transpose_by_avx2) {
      CpuFeatures features = options.features != nullptr ? *options.features : GetCpuFeatures();
      features.avx512 = false;
      kernels_ = &KernelsFor(static_cast<size_t>(element_bytes_), features);
    }
    return;
  }
  if (kind_ == Kind::kBlocks && row_bytes < LeastStreamedRowBytes(row_bytes)) return;
  const bool packed = outer_.to == row_bytes && outer_.size > 1 && row_bytes <= (blocked_ ? kRowBytes : kPackedBytes);
  if (options.fresh && (packed || !blocked_)) return;
  const bool has_stream = kind_ == Kind::kBlocks || (kind_ == Kind::kGather && HasFastGather());
  if (has_stream && row_bytes >= kShortestStreamed) {
    store_ = Store::kThrough;
  } else if (packed) {
    store_ = Store::kPacked;
  } else if (row_bytes >= kShortestStreamed) {
    store_ = Store::kRows;
    shares_lines_ = shares_lines;
  }
}

void StridedCopy::ChooseTiles() {
  tile_inner_ = inner_.size;
  tile_outer_ = outer_.size;
  const int64_t row_bytes = inner_.size * element_bytes_;
  int64_t inner_bytes = row_bytes;  // of a tile
  int64_t tile_bytes = 4 << 10;
  if (store_ == Store::kLines) {
    const int64_t from_row_bytes = outer_.size * element_bytes_;
    const bool adjacent = inner_.from == from_row_bytes && from_row_bytes <= kShortRowBytes;
    const int64_t lines = LinesOfTile(tuning_, inner_.from, element_bytes_, adjacent);
    inner_bytes = lines * kCacheLine;
    in_strips_ = tuning_.transpose_lines == 1 && !adjacent;
    if (in_strips_) {
      tile_bytes = RowsOfStrip(tuning_) * kCacheLine;
    } else {
      tile_bytes = num_threads_ > 1 ? kThreadBytes : INT64_MAX;
    }
    // Of the next tile, or two lines further on in each row of this one.
    ahead_ = adjacent ? std::min(inner_bytes, row_bytes) / element_bytes_ * inner_.from : 2 * kCacheLine;
  } else if (store_ == Store::kPacked) {
    tile_bytes = kPackedBytes;
  } else if (kind_ == Kind::kTranspose ||
             (blocked_ && std::min(inner_.size, outer_.size) * element_bytes_ >= kLaneBytes)) {
    if (store_ == Store::kDirect) {
      inner_bytes = kDirectRowBytes;
      tile_bytes = tuning_.l1_bytes / 2;
    } else {
      inner_bytes = element_bytes_ > 1 ? kRowBytes : shares_lines_ ? 2 * kRowBytes - kCacheLine : kCacheLine;
    }
  } else if (store_ != Store::kRows && kind_ == Kind::kGather && outer_.from != 0 &&
             std::abs(outer_.from) < std::min(std::abs(inner_.from), kCacheLine)) {
    // The rows share the cache lines of the source. The ends of a streamed row are written twice, so it is longer.
    inner_bytes = store_ == Store::kThrough ? 16 * kGatheredBytes : kGatheredBytes;
    tile_bytes = kThreadBytes;
  } else if (store_ == Store::kRows) {
    inner_bytes = 16 << 10;
    tile_bytes = 1;
  } else if (kind_ == Kind::kElements || blocked_) {
    inner_bytes = tile_bytes;
  } else {
    inner_bytes = tile_bytes = num_threads_ > 1 ? kThreadBytes : INT64_MAX;
  }
  if (row_bytes > inner_bytes) tile_inner_ = inner_bytes / element_bytes_;
  const int64_t tile_row_bytes = tile_inner_ * element_bytes_;
  if (outer_.size > 1 && tile_bytes != INT64_MAX && tile_row_bytes * outer_.size > tile_bytes) {
    tile_outer_ = std::max<int64_t>(tile_bytes / tile_row_bytes, 1);
    if (blocked_ && kind_ != Kind::kGather) {
      const int64_t line = kCacheLine / element_bytes_;
      tile_outer_ = store_ == Store::kRows ? line : std::max(tile_outer_ / line * line, line);
    }
    tile_outer_ = std::min(tile_outer_, outer_.size);
  }
  const auto loop_over = [&](const Axis& axis, int64_t tile, int* number) {
    if (tile >= axis.size) return;
    *number = static_cast<int>(loops_.size());
    loops_.push_back({(axis.size - 1) / tile + 1, axis.from * tile, axis.to * tile});
  };
  if (in_strips_) loop_over(outer_, tile_outer_, &outer_loop_);
  loop_over(inner_, tile_inner_, &inner_loop_);
  if (!in_strips_) loop_over(outer_, tile_outer_, &outer_loop_);
  for (const Axis& loop : loops_) num_tiles_ *= loop.size;
  // If all data stays in the first-level cache, the longest loop is innermost: one call of a kernel copies its tiles.
  const bool are_whole = inner_loop_ < 0 && outer_loop_ < 0;
  if (are_whole && num_tiles_ > 1 && row_bytes * outer_.size * num_tiles_ <= tuning_.l1_bytes / 2) {
    const auto is_shorter = [](const Axis& a, const Axis& b) { return a.size < b.size; };
    std::swap(*std::max_element(loops_.begin(), loops_.end(), is_shorter), loops_.back());
  }
}

void StridedCopy::Run() {
  // The usual case of small copies.
  if (num_tiles_ == 1) {
    CopyTile(from_, to_, 0, inner_.size, outer_.size);
    if (store_ != Store::kDirect) kernels_->finish_stream();
    return;
  }
  if (num_threads_ <= 1) return RunPart(0, num_tiles_);
  const int64_t num_parts = std::min(num_tiles_, kPartsPerThread * num_threads_);
  const absl::Status status = ParallelFor(num_threads_, static_cast<size_t>(num_parts), [&](size_t i) {
    const auto part = static_cast<int64_t>(i);
    const auto start = [&](int64_t n) { return n * (num_tiles_ / num_parts) + std::min(n, num_tiles_ % num_parts); };
    RunPart(start(part), start(part + 1));
  });
  CASK_CHECK(status.ok(), "RunPart allocates nothing and throws nothing");
}

// Tiles `begin` to `end` - 1, in the order of loops_.
void StridedCopy::RunPart(int64_t begin, int64_t end) const {
  std::array<int64_t, Axes::kMost> index;  // on the stack: a thread that runs this must not throw
  int64_t from = from_;
  int64_t to = to_;
  int64_t rest = begin;
  for (size_t i = loops_.size(); i-- > 0;) {
    index[i] = rest % loops_[i].size;
    rest /= loops_[i].size;
    from += index[i] * loops_[i].from;
    to += index[i] * loops_[i].to;
  }
  const Axis& last = loops_.back();
  const bool are_whole = inner_loop_ < 0 && outer_loop_ < 0;
  for (int64_t tile = begin;;) {
    if (are_whole) {  // all tiles are equal: a plain loop along the last axis
      const int64_t run = std::min(last.size - index[loops_.size() - 1], end - tile);
      CopyWholeTiles(from, to, run);
      tile += run - 1;
      index[loops_.size() - 1] += run - 1;
      from += (run - 1) * last.from;
      to += (run - 1) * last.to;
    } else {
      const int64_t inner_start = inner_loop_ < 0 ? 0 : index[static_cast<size_t>(inner_loop_)] * tile_inner_;
      const int64_t outer_start = outer_loop_ < 0 ? 0 : index[static_cast<size_t>(outer_loop_)] * tile_outer_;
      CopyTile(from, to, inner_start, std::min(tile_inner_, inner_.size - inner_start),
               std::min(tile_outer_, outer_.size - outer_start));
    }
    if (++tile == end) break;
    for (size_t i = loops_.size() - 1;; --i) {
      if (++index[i] < loops_[i].size) {
        from += loops_[i].from;
        to += loops_[i].to;
        break;
      }
      index[i] = 0;
      from -= loops_[i].from * (loops_[i].size - 1);
      to -= loops_[i].to * (loops_[i].size - 1);
    }
  }
  if (store_ != Store::kDirect) kernels_->finish_stream();
}

// `tiles` of them along the last loop, each with all of inner_ and outer_.
void StridedCopy::CopyWholeTiles(int64_t from, int64_t to, int64_t tiles) const {
  const Axis& last = loops_.back();
  if (store_ == Store::kDirect) {
    return Produce(from_base_ + from, to_base_ + to, outer_.to, inner_.size, outer_.size, {tiles, last.from, last.to});
  }
  for (int64_t i = 0; i < tiles; ++i) CopyTile(from + i * last.from, to + i * last.to, 0, inner_.size, outer_.size);
}

void StridedCopy::CopyTile(int64_t from, int64_t to, int64_t inner_start, int64_t inner, int64_t outer) const {
  switch (store_) {
    case Store::kDirect:
      break;
    case Store::kThrough:
      if (kind_ == Kind::kBlocks) {
        return kernels_->stream_rows(from_base_ + from, outer_.from, to_base_ + to, outer_.to, inner * element_bytes_,
                                     outer, tuning_.prefetch_ahead_bytes);
      }
      for (int64_t o = 0; o < outer; ++o) {
        kernels_->stream_gather(from_base_ + from + o * outer_.from, inner_.from, to_base_ + to + o * outer_.to, inner);
      }
      return;
    case Store::kLines: {
      const int64_t line = kCacheLine / element_bytes_;
      const int64_t whole = inner / line * line;
      kernels_->transpose_lines(from_base_ + from, inner_.from, to_base_ + to, outer_.to, whole, outer, ahead_);
      inner -= whole;
      from += whole * inner_.from;
      to += whole * element_bytes_;
      if (inner == 0) return;
      break;
    }
    case Store::kPacked:
    case Store::kRows:
      return CopyTileThroughScratch(from, to, inner_start, inner, outer);
  }
  Produce(from_base_ + from, to_base_ + to, outer_.to, inner, outer);
}

// If rows share cache lines, the address of a line decides which tile writes it. A tile writes whole lines only: from
// the line in which its part of a row begins up to, not including, the line in which it ends. So it needs up to one
// line of elements before its own. The first tile of a row begins, and the last one ends, with the row.
void StridedCopy::CopyTileThroughScratch(int64_t from, int64_t to, int64_t inner_start, int64_t inner,
                                         int64_t outer) const {
  alignas(kCacheLine) char scratch[kScratchBytes];
  const int64_t bytes = inner * element_bytes_;
  const int64_t lead = shares_lines_ && inner_start > 0 ? kCacheLine : 0;  // bytes
  // An odd number of lines, so that rows map to different sets of the cache.
  const int64_t scratch_row =
      store_ == Store::kPacked ? bytes : ((lead + bytes + kCacheLine - 1) / kCacheLine | 1) * kCacheLine;
  CASK_CHECK(scratch_row * outer <= kScratchBytes, "the tile is too large");
  const int64_t start = from - lead / element_bytes_ * inner_.from;
  const int64_t rows = inner + lead / element_bytes_;  // of the source, if it is dense along outer_
  Produce(from_base_ + start, scratch, scratch_row, rows, outer);

  if (kind_ == Kind::kTranspose) {
    // Prefetches the source's lines of the next tile along outer_ while this one is written: the processor's own
    // prefetcher does not follow 64 rows and more. (Measured for 2-byte elements: 1.8 to 1.0 x memcpy.) Behind the last
    // tile the addresses are invalid, and the processor ignores the prefetch. Not in a function of its own, because GCC
    // would drop its call as without effect.
    const int64_t row_bytes = outer * element_bytes_;
    const uintptr_t next = reinterpret_cast<uintptr_t>(from_base_) + static_cast<uintptr_t>(start + row_bytes);
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t last = kCacheLine - 1; last < row_bytes + kCacheLine - 1; last += kCacheLine) {
        __builtin_prefetch(reinterpret_cast<const void*>(next + static_cast<uintptr_t>(i * inner_.from + last)));
      }
    }
  }

  if (store_ == Store::kPacked) return kernels_->stream(scratch, to_base_ + to, bytes * outer);
  const bool is_last = inner_start + inner == inner_.size;
  for (int64_t o = 0; o < outer; ++o) {
    const int64_t row = to + o * outer_.to;
    const int64_t begin = lead > 0 ? -Misalignment(row) : 0;
    const int64_t end = shares_lines_ && !is_last ? bytes - Misalignment(row + bytes) : bytes;
    kernels_->stream(scratch + o * scratch_row + lead + begin, to_base_ + row + begin, end - begin);
  }
}

// memcpy uses `rep movsb`, which does not read the lines that it writes (Zen 5: 0.65 to 0.9 of the time). The kernel is
// faster in the first-level cache, for one repeated row, which is there (rows of 8 KiB: half the time), and if the
// destination begins 1 to 63 bytes after the source, modulo 4 KiB (0.75 of the time).
void StridedCopy::ProduceRows(const char* from, char* to, int64_t to_outer, int64_t bytes, int64_t outer) const {
  const bool repeats = outer > 1 && outer_.from == 0;
  if (tuning_.memcpy_row_bytes == 0 || bytes < tuning_.memcpy_row_bytes || repeats ||
      2 * bytes * outer <= tuning_.l1_bytes) {
    return kernels_->rows(from, outer_.from, to, to_outer, bytes, outer);
  }
  constexpr uintptr_t kPage = 4096;
  for (; outer > 0; --outer, from += outer_.from, to += to_outer) {
    const uintptr_t distance = (reinterpret_cast<uintptr_t>(to) - reinterpret_cast<uintptr_t>(from)) % kPage;
    if (distance - 1 < kCacheLine - 1) {
      kernels_->rows(from, 0, to, 0, bytes, 1);
    } else {
      std::memcpy(to, from, static_cast<size_t>(bytes));
    }
  }
}

void StridedCopy::Produce(const char* from, char* to, int64_t to_outer, int64_t inner, int64_t outer,
                          const Planes& tiles) const {
  switch (kind_) {
    case Kind::kBlocks:
      for (int64_t i = 0; i < tiles.count; ++i, from += tiles.from, to += tiles.to) {
        ProduceRows(from, to, to_outer, inner * element_bytes_, outer);
      }
      return;
    case Kind::kGather:
      for (int64_t i = 0; i < tiles.count; ++i, from += tiles.from, to += tiles.to) {
        for (int64_t o = 0; o < outer; ++o) {
          kernels_->gather(from + o * outer_.from, inner_.from, to + o * to_outer, inner);
        }
      }
      return;
    case Kind::kTranspose:
      return kernels_->transpose(from, inner_.from, to, to_outer, inner, outer, tiles);
    case Kind::kElements:
      return kernels_->elements(from, inner_.from, outer_.from, to, inner_.to, to_outer, inner, outer, tiles);
  }
}

template <typename T>
void CopyObjects(const Axes& axes, const T* from_base, int64_t from, T* to_base, int64_t to) {
  ForEachRun(axes, from, to, [&](int64_t from, int64_t to, int64_t count, int64_t from_step, int64_t to_step) {
    for (int64_t i = 0; i < count; ++i) to_base[to + i * to_step] = from_base[from + i * from_step];
  });
}

}  // namespace

void CopyStrided(DType dtype, const void* from_base, const Layout& from, void* to_base, const Layout& to,
                 const CopyStridedOptions& options) {
  CASK_CHECK(from.dims() == to.dims(), "CopyStrided: the dims differ");
  if (to.num_elements() == 0) return;
  if (IsObject(dtype)) {
    return VisitObjectDType(dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      CopyObjects(MergedAxes(from, to), static_cast<const T*>(from_base), from.offset(), static_cast<T*>(to_base),
                  to.offset());
    });
  }
  const auto element_bytes = static_cast<int64_t>(ElementSize(dtype));
  const auto* const from_bytes = static_cast<const char*>(from_base);
  auto* const to_bytes = static_cast<char*>(to_base);
  // Dense on both sides: no plan is needed.
  const bool is_chosen = options.stream_bytes.has_value() || options.features != nullptr || options.tuning != nullptr;
  if (!is_chosen && options.num_threads <= 1 && to.IsContiguous() && from.IsContiguous()) {
    char* const to_first = to_bytes + to.offset() * element_bytes;
    const char* const from_first = from_bytes + from.offset() * element_bytes;
    const auto bytes = static_cast<size_t>(to.num_elements() * element_bytes);
    options.fresh ? static_cast<void>(std::memcpy(to_first, from_first, bytes))
                  : CopyBytes(to_first, from_first, bytes);
    return;
  }
  if (to.num_elements() <= kFewStridedElements && to.rank() <= kFewAxes && options.features == nullptr) {
    return CopyFewElements(static_cast<size_t>(element_bytes), from_bytes + from.offset() * element_bytes, from,
                           to_bytes + to.offset() * element_bytes, to.strides());
  }
  Axes axes = LongAxes(from, to);
  StridedCopy(&axes, element_bytes, from_bytes, from.offset(), to_bytes, to.offset(), options).Run();
}

void CopyToRowMajor(DType dtype, const void* from_base, const Layout& from, void* to) {
  const size_t element_bytes = ElementSize(dtype);
  const int rank = from.rank();
  if (element_bytes == 0 || from.num_elements() > kFewStridedElements || rank > kFewAxes) {
    return CopyStrided(dtype, from_base, from, to, Layout::RowMajor(from.shape()));
  }
  const char* const first = static_cast<const char*>(from_base) + from.offset() * static_cast<int64_t>(element_bytes);
  const int64_t* const dims = from.dims().data();
  const int64_t* const steps = from.strides().data();
  int64_t to_steps[kFewAxes];
  int64_t dense = 1;
  bool is_dense = true;
  for (int axis = rank - 1; axis >= 0; --axis) {
    to_steps[axis] = dense;
    is_dense = is_dense && (steps[axis] == dense || dims[axis] == 1);
    dense *= dims[axis];
  }
  if (is_dense) return CopyShort(first, static_cast<char*>(to), dense * static_cast<int64_t>(element_bytes));
  CopyFewElements(element_bytes, first, from, static_cast<char*>(to), {to_steps, static_cast<size_t>(rank)});
}

void CopyAlong(Axes* axes, size_t element_bytes, const char* from_base, int64_t from, char* to_base, int64_t to,
               const CopyStridedOptions& options) {
  StridedCopy(axes, static_cast<int64_t>(element_bytes), from_base, from, to_base, to, options).Run();
}

}  // namespace tensorcask::internal
