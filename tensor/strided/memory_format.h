// The orders in which a dense tensor's axes lie in memory, by PyTorch's names.
//
//   dims [2,3,4,5] (N, C, H, W)         strides
//   kContiguous                         [60,20,5,1]   row-major: the last axis is the innermost
//   kChannelsLast2d                     [60,1,15,3]   N H W C: axis 1 is the innermost; rank 4
//   kChannelsLast3d                     for rank 5: N D H W C
//   kPreserve                           whatever order the source of a copy has
//
// A format cannot be read off the strides alone: those of an axis of size 1 say nothing ([4,1,1,1] has the same strides
// in two formats). What must survive a file is therefore stored beside them.

#ifndef TENSORCASK_TENSOR_STRIDED_MEMORY_FORMAT_H_
#define TENSORCASK_TENSOR_STRIDED_MEMORY_FORMAT_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/tensor/shape.h"

namespace tensorcask {

enum class MemoryFormat : uint8_t { kContiguous = 0, kChannelsLast2d = 1, kChannelsLast3d = 2, kPreserve = 3 };

// "contiguous", "channels_last_2d", "channels_last_3d", "preserve".
absl::string_view MemoryFormatName(MemoryFormat format);

// The axes of `format`, innermost first, as channels-last formats want them: {1,3,2,0} or {1,4,3,2,0}. Empty for the
// others.
absl::Span<const int> ChannelsLastOrder(MemoryFormat format);

// The strides of a dense tensor of these dims: each is the number of elements inside it. PyTorch counts an axis of size
// 0 as 1 in kContiguous and as 0 in the channels-last formats, and so do we. Requires: `dims` are those of a
// TensorShape. Errors: InvalidArgument for channels-last formats of another rank than theirs, and for kPreserve, which
// needs a source.
absl::StatusOr<DimVector> CanonicalStrides(absl::Span<const int64_t> dims, MemoryFormat format);

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_STRIDED_MEMORY_FORMAT_H_
