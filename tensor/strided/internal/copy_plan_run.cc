#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "absl/status/status.h"
#include "tensorcask/tensor/base/check.h"
#include "tensorcask/tensor/base/parallel_for.h"
#include "tensorcask/tensor/strided/internal/copy_plan.h"

namespace tensorcask::internal {
namespace {

// The largest piece of the destination that is assembled in the first-level cache and then written by non-temporal
// stores.
constexpr int64_t kScratchBytes = 36 << 10;
constexpr int64_t kPartsPerThread = 4;  // so that threads finish at about the same time

}  // namespace

void CopyPlan::Run() {
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
void CopyPlan::RunPart(int64_t begin, int64_t end) const {
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
void CopyPlan::CopyWholeTiles(int64_t from, int64_t to, int64_t tiles) const {
  const Axis& last = loops_.back();
  if (store_ == Store::kDirect) {
    return Produce(from_base_ + from, to_base_ + to, outer_.to, inner_.size, outer_.size, {tiles, last.from, last.to});
  }
  for (int64_t i = 0; i < tiles; ++i) CopyTile(from + i * last.from, to + i * last.to, 0, inner_.size, outer_.size);
}

void CopyPlan::CopyTile(int64_t from, int64_t to, int64_t inner_start, int64_t inner, int64_t outer) const {
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
void CopyPlan::CopyTileThroughScratch(int64_t from, int64_t to, int64_t inner_start, int64_t inner,
                                      int64_t outer) const {
  alignas(kCacheLine) char scratch[kScratchBytes];
  const int64_t bytes = inner * element_bytes_;
  const int64_t lead = shares_lines_ && inner_start > 0 ? kCacheLine : 0;  // bytes
  // An odd number of lines, so that rows map to different sets of the cache.
  const int64_t scratch_row =
      store_ == Store::kPacked ? bytes : ((lead + bytes + kCacheLine - 1) / kCacheLine | 1) * kCacheLine;
  CASK_CHECK(scratch_row * outer <= kScratchBytes, "the tile is too large");
  const int64_t start = from - lead / element_bytes_ * inner_.from;
  const int64_t rows = inner + lead / element_bytes_;  // rows of the source, if it is dense along outer_
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
void CopyPlan::ProduceRows(const char* from, char* to, int64_t to_outer, int64_t bytes, int64_t outer) const {
  const bool repeats = outer > 1 && outer_.from == 0;
  if (choices_.memcpy_row_bytes == 0 || bytes < choices_.memcpy_row_bytes || repeats ||
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

void CopyPlan::Produce(const char* from, char* to, int64_t to_outer, int64_t inner, int64_t outer,
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

}  // namespace tensorcask::internal
