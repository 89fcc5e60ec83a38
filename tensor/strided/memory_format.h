// Memory formats: the order of a dense tensor's axes in memory, with PyTorch's names.
//
//   dims [2,3,4,5] (N, C, H, W)         strides
//   kContiguous                         [60,20,5,1]   row-major: the last axis is the innermost
//   kChannelsLast2d                     [60,1,15,3]   N H W C: axis 1 is the innermost; rank 4
//   kChannelsLast3d                     for rank 5: N D H W C
//   kPreserve                           the order of the source of a copy
//
// The strides alone do not determine the format, because strides of axes of size 1 mean nothing ([4,1,1,1] has the same
// strides in two formats). Files and messages therefore store the format beside the strides.

#ifndef TENSORCASK_TENSOR_STRIDED_MEMORY_FORMAT_H_
#define TENSORCASK_TENSOR_STRIDED_MEMORY_FORMAT_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/tensor/shape.h"

namespace tensorcask {

enum class MemoryFormat : uint8_t { kContiguous = 0, kChannelsLast2d = 1, kChannelsLast3d = 2, kPreserve = 3 };

// "contiguous", "channels_last_2d", "channels_last_3d", "preserve".
absl::string_view MemoryFormatName(MemoryFormat format);

// The axes of a channels-last `format`, innermost first: {1,3,2,0} or {1,4,3,2,0}. Empty for the other formats.
absl::Span<const int> ChannelsLastOrder(MemoryFormat format);

// The strides of a dense tensor of these dims: each is the product of the sizes of the axes inside it. As in PyTorch,
// an axis of size 0 counts as 1 in kContiguous and as 0 in the channels-last formats. Requires: `dims` are those of a
// TensorShape.
// Errors: InvalidArgument if a channels-last format has another rank, and for kPreserve, which needs a source.
absl::StatusOr<DimVector> CanonicalStrides(absl::Span<const int64_t> dims, MemoryFormat format);

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_STRIDED_MEMORY_FORMAT_H_
