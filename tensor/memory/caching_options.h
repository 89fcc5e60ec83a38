// The options of a CachingAllocator, and PyTorch's text form of them (PYTORCH_CUDA_ALLOC_CONF).
//
//   CachingOptions::Parse("max_split_size_mb:128,garbage_collection_threshold:0.8")
//   CachingOptions::Parse("roundup_power2_divisions:[256:1,512:2,1024:4,>:8]")

#ifndef TENSORCASK_TENSOR_MEMORY_CACHING_OPTIONS_H_
#define TENSORCASK_TENSOR_MEMORY_CACHING_OPTIONS_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tensorcask {

struct CachingOptions {
  static constexpr size_t kNoSplitLimit = SIZE_MAX;
  static constexpr size_t kRoundupIntervals = 16;

  // Free blocks of this size and more are never split, and serve only requests that are at most 20 MiB smaller.
  size_t max_split_size = kNoSplitLimit;

  // Above this share of the limit (CachingAllocator::SetMemoryFraction), cached blocks that were not used for long are
  // released before the device is asked for more. 0: never.
  double garbage_collection_threshold = 0;

  // Number of steps in each power of two, to which sizes are rounded up; 0 and 1: sizes become multiples of 512.
  // Entry i is for sizes from 2^i MiB to below 2^(i+1) MiB; entry 0 also for all smaller ones, the last one also for
  // all larger ones. With 4 divisions, 5000 bytes become 5120: the steps between 4096 and 8192 are 1024. Sizes of at
  // most 512 times the divisions become multiples of 512, as in PyTorch: 1200 bytes become 1536.
  std::array<size_t, kRoundupIntervals> roundup_power2_divisions = {};

  // Each stream and pool has one segment that grows: memory is mapped to its addresses where it is needed, so that no
  // segment is too small for the next request (CachingAllocator). Devices without virtual memory use ordinary
  // segments.
  bool expandable_segments = false;

  // "KEY:VALUE,...", spaces ignored; the empty text gives the defaults. Keys: max_split_size_mb (more than 20),
  // garbage_collection_threshold (between 0 and 1, both excluded), roundup_power2_divisions (a power of two for all
  // sizes, or a list [MIB:DIVISIONS,...,>:DIVISIONS]: an entry is for the interval that begins at MIB, the first one
  // also for all smaller sizes, '>' for all larger sizes), backend (only "native"), expandable_segments ("True" or
  // "False").
  // Errors: InvalidArgument, naming the key and the value.
  static absl::StatusOr<CachingOptions> Parse(absl::string_view text);

  // The size of the block for a request: at least 512, and a multiple of 512 or a step of the divisions.
  // Requires: bytes <= PTRDIFF_MAX.
  size_t RoundSize(size_t bytes) const;
};

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_MEMORY_CACHING_OPTIONS_H_
