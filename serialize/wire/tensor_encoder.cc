#include "tensorcask/serialize/wire/tensor_encoder.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/wire/content_bytes.h"
#include "tensorcask/serialize/wire/copy_bytes.h"
#include "tensorcask/serialize/wire/wire_rules.h"
#include "tensorcask/tensor/base/check.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/strided/layout.h"
#include "tensorcask/tensor/strided/memory_format.h"
#include "tensorcask/tensor/strided/row_major.h"

namespace tensorcask::internal {
namespace {

constexpr uint32_t kDTypeNumber = 1;
constexpr uint32_t kShapeNumber = 2;
constexpr uint32_t kDimNumber = 2;      // in TensorShapeProto
constexpr uint32_t kDimSizeNumber = 1;  // in Dim

absl::Span<const std::string> Strings(const TensorView& tensor) {
  return {tensor.data<std::string>(), static_cast<size_t>(tensor.num_elements())};
}

// Bytes of a Dim without its tag and length: a size of 0 is absent.
uint64_t DimBytes(int64_t size) { return size == 0 ? 0 : 1 + VarintBytes(static_cast<uint64_t>(size)); }

uint64_t ShapeBytes(const TensorShape& shape) {
  uint64_t bytes = 0;
  for (int axis = 0; axis < shape.rank(); ++axis) bytes += BytesFieldBytes(kDimNumber, DimBytes(shape.dim(axis)));
  return bytes;
}

char* WriteShape(const TensorShape& shape, char* out) {
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const int64_t size = shape.dim(axis);
    out = WriteTag(kDimNumber, WireType::kBytes, out);
    out = WriteVarint(DimBytes(size), out);
    if (size == 0) continue;
    out = WriteTag(kDimSizeNumber, WireType::kVarint, out);
    out = WriteVarint(static_cast<uint64_t>(size), out);
  }
  return out;
}

void MeasureValues(const TensorView& tensor, MessagePlan* plan) {
  VisitScalars(tensor, [plan](auto traits, auto scalars) {
    using Traits = decltype(traits);
    plan->data_number = static_cast<uint32_t>(Traits::kField);
    if constexpr (Traits::kForm == ValueForm::kVarint) {
      for (const auto scalar : scalars) plan->data_bytes += VarintBytes(VarintFromValue(Traits::ToValue(scalar)));
    } else {
      plan->data_bytes = scalars.size() * sizeof(scalars[0]);
    }
  });
}

char* WriteValues(const TensorView& tensor, char* out) {
  VisitScalars(tensor, [&out](auto traits, auto scalars) {
    using Traits = decltype(traits);
    if constexpr (Traits::kForm == ValueForm::kVarint) {
      for (const auto scalar : scalars) out = WriteVarint(VarintFromValue(Traits::ToValue(scalar)), out);
    } else {
      const size_t bytes = scalars.size() * sizeof(scalars[0]);
      CopyBytes(out, scalars.data(), bytes);
      out += bytes;
    }
  });
  return out;
}

absl::Status MeasureStrings(const TensorView& tensor, MessagePlan* plan) {
  if (plan->representation == Representation::kValues) {
    plan->data_number = kStringNumber;
    for (const std::string& text : Strings(tensor)) plan->data_bytes += BytesFieldBytes(kStringNumber, text.size());
    return absl::OkStatus();
  }
  for (const std::string& text : Strings(tensor)) {
    if (text.size() > std::numeric_limits<uint32_t>::max()) {
      return absl::InvalidArgumentError(
          absl::StrCat("a string has ", text.size(), " bytes; tensor_content holds strings of less than 4 GiB"));
    }
  }
  plan->data_bytes = StringListBytes(Strings(tensor));
  return absl::OkStatus();
}

// The bytes of tensor_content; sets *crc to their checksum if that comes for nothing, in one pass, and returns whether.
bool WriteContent(const TensorView& tensor, bool checksum, char* out, uint32_t* crc) {
  if (tensor.dtype() == DType::kString) {
    WriteStringList(Strings(tensor), out);
    return false;
  }
  if (!tensor.IsContiguous()) {
    const size_t bytes = static_cast<size_t>(tensor.num_elements()) * tensor.element_size();
    const absl::Status status = CopyRowMajor(tensor, {out, bytes});
    CASK_CHECK(status.ok(), "PlanMessage has seen that the data are there");
    if (checksum) *crc = ExtendCrc32c(0, {out, bytes});
    return checksum;
  }
  const absl::string_view elements = tensor.bytes();
  if (!checksum) {
    CopyBytes(out, elements.data(), elements.size());
    return false;
  }
  *crc = CopyAndExtendCrc32c(0, elements.data(), out, elements.size());
  return true;
}

char* WriteStringValues(const TensorView& tensor, char* out) {
  for (const std::string& text : Strings(tensor)) {
    out = WriteTag(kStringNumber, WireType::kBytes, out);
    out = WriteVarint(text.size(), out);
    std::memcpy(out, text.data(), text.size());
    out += text.size();
  }
  return out;
}

absl::Status CheckMetadata(const TensorView& view, const TensorMetadata& metadata) {
  CASK_RETURN_IF_ERROR(metadata.Validate(view.dtype()));
  const size_t wanted_rank = ChannelsLastOrder(metadata.memory_format).size();
  if (wanted_rank == 0 || wanted_rank == static_cast<size_t>(view.rank())) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("metadata: memory_format is ",
                                                 MemoryFormatName(metadata.memory_format), ", which is for rank ",
                                                 wanted_rank, "; the tensor is ", view.shape().ToString()));
}

// The axes of a dense layout, outermost first.
DimVector OuterToInner(const Layout& layout) {
  DimVector axes;
  for (int axis = 0; axis < layout.rank(); ++axis) axes.push_back(axis);
  std::stable_sort(axes.begin(), axes.end(), [&layout](int64_t a, int64_t b) {
    return layout.stride(static_cast<int>(a)) > layout.stride(static_cast<int>(b));
  });
  return axes;
}

// Sets what is written of a view that keeps its order: data, strides and offset. Requires: elements of a fixed size,
// and not row-major, so that there are some.
absl::Status PlanStrides(const TensorView& view, MessagePlan* plan) {
  const Layout& layout = view.layout();
  if (layout.IsNonOverlappingAndDense()) {  // the memory between its ends, as it is
    const int64_t begin = layout.bounds().begin;
    CASK_ASSIGN_OR_RETURN(plan->data, view.AsStrided({layout.num_elements()}, {1}, begin));
    plan->extension.strides.assign(layout.strides().begin(), layout.strides().end());
    plan->extension.storage_offset = layout.offset() - begin;
    return absl::OkStatus();
  }
  CASK_ASSIGN_OR_RETURN(const Layout dense, layout.Dense(MemoryFormat::kPreserve));
  if (dense.IsContiguous()) return absl::OkStatus();
  CASK_ASSIGN_OR_RETURN(plan->data, view.Permute(OuterToInner(dense)));
  plan->extension.strides.assign(dense.strides().begin(), dense.strides().end());
  return absl::OkStatus();
}

absl::Status PlanData(const TensorView& view, const EncodeOptions& options, MessagePlan* plan) {
  const DType dtype = view.dtype();
  plan->data = view;
  plan->shape = view.shape();
  plan->representation = options.representation;
  if (dtype == DType::kString) {
    CASK_ASSIGN_OR_RETURN(plan->data, view.Contiguous());
    return MeasureStrings(plan->data, plan);
  }
  if (!IsFixedSize(dtype)) {
    return absl::UnimplementedError(absl::StrCat("tensors of dtype ", DTypeName(dtype), " are not supported"));
  }
  if (options.layout == StoredLayout::kPreserve && !view.IsContiguous()) {
    CASK_RETURN_IF_ERROR(PlanStrides(view, plan));
  }
  if (!plan->extension.strides.empty() || DTypeNumber(dtype) >= kFirstOwnDTypeNumber) {
    plan->extension.dtype_number = DTypeNumber(dtype);
    plan->representation = Representation::kContent;
  }
  if (plan->representation == Representation::kContent) {
    plan->data_bytes = static_cast<uint64_t>(view.num_elements()) * view.element_size();
  } else {
    CASK_ASSIGN_OR_RETURN(plan->data, view.Contiguous());
    MeasureValues(plan->data, plan);
  }
  return absl::OkStatus();
}

}  // namespace

uint64_t MessagePlan::tail_bytes() const {
  return extension_bytes == 0 ? 0 : BytesFieldBytes(kExtensionNumber, extension_bytes);
}

absl::StatusOr<MessagePlan> PlanMessage(const TensorView& view, const TensorMetadata& metadata,
                                        const EncodeOptions& options) {
  if (view.buffer()) CASK_RETURN_IF_ERROR(view.buffer()->CheckReadable());
  CASK_RETURN_IF_ERROR(CheckMetadata(view, metadata));
  MessagePlan plan;
  CASK_RETURN_IF_ERROR(PlanData(view, options, &plan));
  plan.extension.metadata = &metadata;
  plan.extension.checksum = options.checksum;
  plan.shape_bytes = ShapeBytes(plan.shape);
  plan.extension_bytes = ExtensionBytes(plan.extension);
  if (plan.dtype_number() != 0) plan.total_bytes = 1 + VarintBytes(static_cast<uint64_t>(plan.dtype_number()));
  plan.total_bytes += BytesFieldBytes(kShapeNumber, plan.shape_bytes) + plan.tail_bytes();
  if (plan.data_bytes > 0) {
    plan.total_bytes +=
        plan.data_number == kStringNumber ? plan.data_bytes : BytesFieldBytes(plan.data_number, plan.data_bytes);
  }
  return plan;
}

char* WriteHead(const MessagePlan& plan, char* out) {
  if (plan.dtype_number() != 0) {
    out = WriteTag(kDTypeNumber, WireType::kVarint, out);
    out = WriteVarint(static_cast<uint64_t>(plan.dtype_number()), out);
  }
  out = WriteTag(kShapeNumber, WireType::kBytes, out);
  out = WriteVarint(plan.shape_bytes, out);
  out = WriteShape(plan.shape, out);
  if (plan.data_bytes == 0 || plan.data_number == kStringNumber) return out;
  out = WriteTag(plan.data_number, WireType::kBytes, out);
  return WriteVarint(plan.data_bytes, out);
}

char* WriteData(const MessagePlan& plan, char* out, uint32_t* crc) {
  bool has_crc = false;
  if (plan.data_bytes > 0) {
    if (plan.data_number == kStringNumber) {
      WriteStringValues(plan.data, out);
    } else if (plan.data_number == kContentNumber) {
      has_crc = WriteContent(plan.data, plan.extension.checksum, out, crc);
    } else {
      WriteValues(plan.data, out);
    }
  }
  if (plan.extension.checksum && !has_crc) *crc = TensorCrc32c(plan.data);
  return out + plan.data_bytes;
}

char* WriteTail(const MessagePlan& plan, uint32_t crc, char* out) {
  if (plan.extension_bytes == 0) return out;
  out = WriteTag(kExtensionNumber, WireType::kBytes, out);
  out = WriteVarint(plan.extension_bytes, out);
  return WriteExtension(plan.extension, crc, out);
}

void WriteMessage(const MessagePlan& plan, absl::Span<char> out) {
  CASK_CHECK(out.size() == plan.total_bytes, "EncodeTensorTo: the span is not EncodedTensorBytes long");
  uint32_t crc = 0;
  char* next = WriteHead(plan, out.data());
  next = WriteData(plan, next, &crc);
  next = WriteTail(plan, crc, next);
  CASK_CHECK(next == out.data() + out.size(), "EncodeTensorTo: the tensor changed while it was written");
}

}  // namespace tensorcask::internal
