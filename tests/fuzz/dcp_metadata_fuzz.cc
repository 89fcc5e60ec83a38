// The .metadata of a distributed checkpoint: refused, or each tensor that has no error has boxes that tile its shape,
// which counting each element confirms where that is small, and each has an item.
//
// Is to reach what input can reach of these files:
//   serialize/torch/internal/dcp_metadata*
//   serialize/torch/internal/dcp_values*
//   serialize/stored/boxes*

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/serialize/io/listing_budget.h"
#include "tensorcask/serialize/stored/boxes.h"
#include "tensorcask/serialize/torch/internal/dcp_metadata.h"
#include "tensorcask/serialize/torch/internal/dcp_values.h"
#include "tensorcask/serialize/values/value.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tests/fuzz/fuzz_input.h"

namespace tensorcask::torch {
namespace {

// How many boxes contain an element. `element`: its row-major number.
int CountBoxes(const TensorShape& shape, const std::vector<stored::Box>& boxes, int64_t element) {
  std::vector<int64_t> at(static_cast<size_t>(shape.rank()));
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    at[static_cast<size_t>(axis)] = element % shape.dim(axis);
    element /= shape.dim(axis);
  }
  int count = 0;
  for (const stored::Box& box : boxes) {
    bool inside = true;
    for (size_t axis = 0; axis < at.size(); ++axis) {
      inside = inside && at[axis] >= box.offsets[axis] && at[axis] - box.offsets[axis] < box.sizes[axis];
    }
    count += inside;
  }
  return count;
}

void Check(absl::string_view bytes) {
  constexpr int64_t kMostCounted = 1000;
  DecodeLimits limits;
  limits.max_memory_beyond_input = 1 << 20;
  ListingBudget budget(limits);
  const absl::StatusOr<DcpMetadata> metadata = ReadDcpMetadata(bytes, limits, &budget);
  if (!metadata.ok()) return;
  NestedValues nested;
  for (size_t i = 0; i < metadata->tensors.size(); ++i) {
    const DcpTensor& tensor = metadata->tensors[i];
    const auto path = metadata->paths.find(tensor.name);
    nested.AddTensor(tensor.name, path == metadata->paths.end() ? nullptr : &path->second, i);
    if (!tensor.status.ok()) continue;
    FUZZ_CHECK(tensor.items.size() == tensor.boxes.size(), "a box without an item");
    const int64_t most = std::min(tensor.shape.num_elements(), kMostCounted);
    for (int64_t element = 0; element < most; ++element) {
      FUZZ_CHECK(CountBoxes(tensor.shape, tensor.boxes, element) == 1, "an element in no box, or in several");
    }
  }
  const ValueTree values = nested.Build();
  FUZZ_CHECK(values.root().kind() == ValueKind::kMap, "the root is not a map");
}

}  // namespace
}  // namespace tensorcask::torch

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tensorcask::torch::Check({reinterpret_cast<const char*>(data), size});
  return 0;
}
