#include "tensorcask/tensor/strided/memory_format.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/tensor/shape.h"

namespace tensorcask {

absl::string_view MemoryFormatName(MemoryFormat format) {
  switch (format) {
    case MemoryFormat::kContiguous:
      return "contiguous";
    case MemoryFormat::kChannelsLast2d:
      return "channels_last_2d";
    case MemoryFormat::kChannelsLast3d:
      return "channels_last_3d";
    case MemoryFormat::kPreserve:
      return "preserve";
  }
  return "unknown";
}

absl::Span<const int> ChannelsLastOrder(MemoryFormat format) {
  static constexpr int k2d[] = {1, 3, 2, 0};
  static constexpr int k3d[] = {1, 4, 3, 2, 0};
  if (format == MemoryFormat::kChannelsLast2d) return k2d;
  if (format == MemoryFormat::kChannelsLast3d) return k3d;
  return {};
}

absl::StatusOr<DimVector> CanonicalStrides(absl::Span<const int64_t> dims, MemoryFormat format) {
  DimVector strides(dims.size());
  int64_t inner = 1;  // does not overflow: it is a product of dims of one shape
  if (format == MemoryFormat::kContiguous) {
    for (size_t axis = dims.size(); axis-- > 0;) {
      strides[axis] = inner;
      inner *= std::max(dims[axis], int64_t{1});
    }
    return strides;
  }
  if (format == MemoryFormat::kPreserve) {
    return absl::InvalidArgumentError("memory format preserve has no strides of its own");
  }
  const absl::Span<const int> order = ChannelsLastOrder(format);
  if (order.size() != dims.size()) {
    return absl::InvalidArgumentError(absl::StrCat("memory format ", MemoryFormatName(format), " is for rank ",
                                                   order.size(), "; the rank is ", dims.size()));
  }
  for (const int axis : order) {
    strides[static_cast<size_t>(axis)] = inner;
    inner *= dims[static_cast<size_t>(axis)];
  }
  return strides;
}

}  // namespace tensorcask
