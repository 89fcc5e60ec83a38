#include "tensorcask/tensor/compat/options.h"

#include <ostream>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/device.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/layout.h"
#include "tensorcask/tensor/strided/memory_format.h"
#include "tensorcask/tensor/strided/metadata.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask {

TensorMetadata TensorOptions::ToMetadata() const {
  TensorMetadata metadata;
  metadata.device = device();
  metadata.memory_format = memory_format();
  metadata.requires_grad = requires_grad();
  return metadata;
}

std::string TensorOptions::ToString() const {
  const auto or_default = [](bool is_set) { return is_set ? "" : " (default)"; };
  return absl::StrCat("dtype ", DTypeName(dtype()), or_default(has_dtype()), ", device ", device().ToString(),
                      or_default(has_device()), ", memory_format ", MemoryFormatName(memory_format()),
                      or_default(has_memory_format()), ", requires_grad ", requires_grad() ? "true" : "false",
                      or_default(has_requires_grad()));
}

std::ostream& operator<<(std::ostream& out, TensorOptions options) { return out << options.ToString(); }

absl::StatusOr<TensorView> Empty(const TensorShape& shape, TensorOptions options, const RefPtr<Allocator>& allocator) {
  CASK_RETURN_IF_ERROR(options.ToMetadata().Validate(options.dtype()));
  if (options.device() != Device()) {
    return absl::UnimplementedError(
        absl::StrCat("Empty on device ", options.device().ToString(), ": only the cpu is supported"));
  }
  const DimVector dims = shape.dims();
  CASK_ASSIGN_OR_RETURN(const DimVector strides, CanonicalStrides(dims, options.memory_format()));
  CASK_ASSIGN_OR_RETURN(Layout layout, Layout::Create(dims, strides));
  CASK_ASSIGN_OR_RETURN(const Tensor memory, Tensor::Create(options.dtype(), shape, allocator));
  return TensorView::Create(memory.buffer(), options.dtype(), std::move(layout));
}

}  // namespace tensorcask
