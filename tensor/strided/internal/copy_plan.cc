#include "tensorcask/tensor/strided/internal/copy_plan.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

namespace tensorcask::internal {
namespace {

constexpr int64_t kPackedBytes = 8 << 10;  // the size of a tile that is assembled and is one range of memory
constexpr int64_t kRowBytes = 256;         // the size of a tile with two different axes
// The same if the tile is written directly. (Measured on a Zen 4 for squares of 128 to 1,400 elements of all sizes: by
// rows of 256 bytes and tiles of 4 KiB it takes up to 1.3 times as long as by rows of 4 KiB and tiles of 16 KiB.)
constexpr int64_t kDirectRowBytes = 4 << 10;
constexpr int64_t kGatheredBytes = 4 << 10;  // a row of a tile whose rows share the cache lines of the source
constexpr int64_t kThreadBytes = 256 << 10;  // the least work for a thread, and the unit of its work
constexpr int64_t kLeastStreamedBytes = int64_t{2} << 20;  // for the destination of a gather or a transpose
constexpr int64_t kShortestStreamed = 512;   // bytes of a row; shorter rows share too many lines with others
constexpr int64_t kLaneBytes = 16;           // the size of a register that every processor has
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
int64_t LinesOfTile(const CopyChoices& choices, int64_t l2_bytes, int64_t from_step, int64_t element_bytes,
                    bool adjacent) {
  if (adjacent) return choices.adjacent_lines;
  if (!choices.transpose_in_l2) return choices.transpose_lines;
  // A line of each row of the source must stay in the second-level cache, where rows whose distance is a multiple of a
  // power of two share sets, and its page in the first-level TLB.
  constexpr int64_t kWays = 16;
  constexpr int64_t kPages = 64;
  const int64_t rows = choices.transpose_lines * kCacheLine / element_bytes;
  const int64_t distance = std::min(from_step & -from_step, l2_bytes / kWays);  // 0: all rows are one
  return rows <= kPages && rows * distance <= l2_bytes ? choices.transpose_lines : 1;
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

}  // namespace

const CopyChoices& CopyChoices::Of(CpuFamily family) {
  static constexpr CopyChoices kUsual;
  static constexpr CopyChoices kIceLakeServer = [] {
    CopyChoices choices;
    choices.transpose_lines = 2;
    choices.adjacent_lines = 2;
    return choices;
  }();
  static constexpr CopyChoices kZen5 = [] {
    CopyChoices choices;
    choices.transpose_lines = 8;
    choices.adjacent_lines = 2;
    choices.transpose_in_l2 = false;
    choices.transpose_by_avx2 = true;
    choices.stream_row_bytes = 512;
    choices.memcpy_row_bytes = 8 << 10;
    return choices;
  }();
  if (family == CpuFamily::kIceLakeServer) return kIceLakeServer;
  return family == CpuFamily::kZen5 ? kZen5 : kUsual;
}

CopyPlan::CopyPlan(Axes* axes, int64_t element_bytes, const char* from_base, int64_t from, char* to_base, int64_t to,
                   const CopyStridedOptions& options)
    : from_base_(from_base),
      to_base_(to_base),
      element_bytes_(element_bytes),
      loops_(*axes),
      num_threads_(options.num_threads),
      tuning_(options.tuning != nullptr ? *options.tuning : GetCpuTuning()),
      choices_(options.choices != nullptr ? *options.choices : CopyChoices::Of(tuning_.family)) {
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
void CopyPlan::ChooseAxes() {
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
bool CopyPlan::HasTranspose(const Axis& outer) const {
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
int64_t CopyPlan::LeastStreamedBytes() const {
  const auto is_repeated = [](const Axis& axis) { return axis.from == 0; };
  const bool repeats = is_repeated(outer_) && std::all_of(loops_.begin(), loops_.end(), is_repeated);
  if (kind_ == Kind::kBlocks && outer_.size == 1) return tuning_.stream_bytes / 2;
  if (kind_ == Kind::kBlocks) return repeats ? tuning_.stream_bytes : tuning_.stream_bytes / 4;
  return repeats && is_repeated(inner_) ? tuning_.stream_bytes : kLeastStreamedBytes;
}

// kBlocks: shorter rows use ordinary stores. After a long gap the hardware prefetcher starts again. (Zen 5, 16 MiB,
// time with non-temporal stores over time with ordinary ones: rows of 32 to 384 bytes, assembled, 1.1 to 1.4; of 512 to
// 1,024 0.84 to 0.94 with gaps of 64 bytes, 1.1 to 1.3 with gaps as long as the rows; of 2,048 0.8.)
int64_t CopyPlan::LeastStreamedRowBytes(int64_t row_bytes) const {
  return std::abs(outer_.from) >= 2 * row_bytes ? 4 * choices_.stream_row_bytes : choices_.stream_row_bytes;
}

void CopyPlan::ChooseStore(const CopyStridedOptions& options) {
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
    if (choices_.transpose_by_avx2) {
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

void CopyPlan::ChooseTiles() {
  tile_inner_ = inner_.size;
  tile_outer_ = outer_.size;
  const int64_t row_bytes = inner_.size * element_bytes_;
  int64_t inner_bytes = row_bytes;  // the size of a tile
  int64_t tile_bytes = 4 << 10;
  if (store_ == Store::kLines) {
    const int64_t from_row_bytes = outer_.size * element_bytes_;
    const bool adjacent = inner_.from == from_row_bytes && from_row_bytes <= kShortRowBytes;
    const int64_t lines = LinesOfTile(choices_, tuning_.l2_bytes, inner_.from, element_bytes_, adjacent);
    inner_bytes = lines * kCacheLine;
    in_strips_ = choices_.transpose_lines == 1 && !adjacent;
    if (in_strips_) {
      tile_bytes = RowsOfStrip(tuning_) * kCacheLine;
    } else {
      tile_bytes = num_threads_ > 1 ? kThreadBytes : INT64_MAX;
    }
    // What is fetched ahead: the next tile, or two lines further on in each row of this one.
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

}  // namespace tensorcask::internal
