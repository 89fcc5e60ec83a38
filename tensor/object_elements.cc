#include "tensorcask/tensor/object_elements.h"

#include <string>

#include "absl/status/statusor.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/dtype_visit.h"
#include "tensorcask/tensor/resource_handle.h"
#include "tensorcask/tensor/variant.h"

namespace tensorcask::internal {
namespace {

struct Faults {
  const char* other_objects;
  const char* inside_one;
};

Faults FaultsOf(DType dtype) {
  if (dtype == DType::kString) return {"it holds no std::string objects", "it starts inside a std::string object"};
  if (dtype == DType::kResource) return {"it holds no ResourceHandle objects", "it starts inside a ResourceHandle"};
  return {"it holds no Variant objects", "it starts inside a Variant"};
}

}  // namespace

absl::StatusOr<RefPtr<TensorBuffer>> AllocateObjects(DType dtype, size_t count, const RefPtr<Allocator>& allocator) {
  return VisitObjectDType(
      dtype, [&](auto tag) { return TensorBuffer::AllocateElements<typename decltype(tag)::type>(count, allocator); });
}

const char* FaultOfElements(DType dtype, const TensorBuffer& buffer) {
  if (!IsObject(dtype)) {
    return buffer.kind() == TensorBuffer::Kind::kElements ? "it holds objects, not plain bytes" : nullptr;
  }
  const bool holds =
      VisitObjectDType(dtype, [&](auto tag) { return buffer.HoldsElements<typename decltype(tag)::type>(); });
  if (!holds) return FaultsOf(dtype).other_objects;
  return buffer.offset_bytes() % ObjectBytes(dtype) == 0 ? nullptr : FaultsOf(dtype).inside_one;
}

}  // namespace tensorcask::internal
