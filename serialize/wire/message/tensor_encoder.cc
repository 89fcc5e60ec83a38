#include "tensorcask/serialize/wire/message/tensor_encoder.h"

#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/payload/payload_header.h"
#include "tensorcask/serialize/protowire/field_sinks.h"
#include "tensorcask/serialize/protowire/message_rules.h"
#include "tensorcask/serialize/wire/message/element_plan.h"
#include "tensorcask/serialize/wire/message/payload_field.h"
#include "tensorcask/serialize/wire/message/send_shape.h"
#include "tensorcask/serialize/wire/message/tensor_rules.h"
#include "tensorcask/tensor/base/check.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/copy_bytes.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/base/varint.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/strided/changing_memory.h"
#include "tensorcask/tensor/strided/device_elements.h"
#include "tensorcask/tensor/strided/row_major.h"

namespace tensorcask::internal {
namespace {

constexpr uint32_t kDTypeNumber = 1;
constexpr uint32_t kShapeNumber = 2;
// Levels of messages in a TensorProto: its shape, and the dims of the shape.
constexpr int kShapeDepth = 2;

void MeasureValues(const TensorView& tensor, MessagePlan* plan) {
  VisitScalars(tensor, [plan](auto traits, auto scalars) {
    using Traits = decltype(traits);
    plan->data_number = static_cast<uint32_t>(Traits::kField);
    if constexpr (Traits::kForm == ValueForm::kVarint) {
      for (const auto scalar : scalars) plan->data_bytes += VarintSize(VarintFromValue(Traits::ToValue(scalar)));
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

template <typename T>
absl::Status MeasureObjects(absl::Span<const T> objects, int max_depth, MessagePlan* plan) {
  const bool in_content = plan->representation == Representation::kContent;
  if (!in_content) plan->data_number = ObjectFieldNumber(kDTypeOf<T>);
  for (size_t i = 0; i < objects.size(); ++i) {
    const absl::StatusOr<uint64_t> bytes = MeasureObject(objects[i], max_depth - 1);
    const auto refused = [i](const absl::Status& status) {
      return Annotate(status, absl::StrCat(DTypeName(kDTypeOf<T>), " ", i));
    };
    if (!bytes.ok()) return refused(bytes.status());
    if (in_content && *bytes > std::numeric_limits<uint32_t>::max()) {
      return refused(absl::InvalidArgumentError(
          absl::StrCat("it has ", *bytes, " bytes; tensor_content holds elements of less than 4 GiB")));
    }
    plan->data_bytes += in_content ? VarintSize(*bytes) + *bytes : BytesFieldBytes(plan->data_number, *bytes);
  }
  return absl::OkStatus();
}

// Writes tensor_content. If the same pass can compute the checksum, sets *crc to it and returns true.
bool WriteContent(const TensorView& tensor, bool checksum, char* out, uint32_t* crc) {
  if (IsObject(tensor.dtype())) {
    VisitObjects(tensor, [out](auto objects) { WriteObjectList(objects, out); });
    return false;
  }
  if (!tensor.IsContiguous()) {
    const size_t bytes = static_cast<size_t>(tensor.num_elements()) * tensor.element_size();
    const absl::Status status = CopyRowMajor(tensor, {out, bytes});
    CASK_CHECK(status.ok(), "PlanMessage has checked that the buffer has data");
    if (checksum) *crc = ExtendCrc32c(0, {out, bytes});
    return checksum;
  }
  const absl::string_view elements = tensor.bytes();
  if (checksum && MayChange(tensor)) {  // the sum of the copy; the elements may be others by now
    CopyBytes(out, elements.data(), elements.size());
    *crc = ExtendCrc32c(0, {out, elements.size()});
    return true;
  }
  if (!checksum) {
    CopyBytes(out, elements.data(), elements.size());
    return false;
  }
  *crc = CopyAndExtendCrc32c(0, elements.data(), out, elements.size());
  return true;
}

absl::Status PlanData(const TensorView& view, const EncodeOptions& options, int max_depth, MessagePlan* plan) {
  const DType dtype = view.dtype();
  plan->data = view;
  plan->dtype = dtype;
  plan->shape = view.shape();
  plan->representation = options.representation;
  if (IsObject(dtype)) {
    CASK_ASSIGN_OR_RETURN(plan->data, view.Contiguous());
    CASK_ASSIGN_OR_RETURN(plan->data, InPrivateMemory(plan->data));
    return VisitObjects(plan->data,
                        [max_depth, plan](auto objects) { return MeasureObjects(objects, max_depth, plan); });
  }
  CASK_RETURN_IF_ERROR(PlanElements(view, options.layout, &plan->data, &plan->extension));
  if (plan->extension.dtype_number != 0) plan->representation = Representation::kContent;
  if (plan->representation == Representation::kContent) {
    plan->data_bytes = static_cast<uint64_t>(view.num_elements()) * view.element_size();
  } else {
    // Read twice: varints are measured first.
    CASK_ASSIGN_OR_RETURN(plan->data, InPrivateMemory(view));
    CASK_ASSIGN_OR_RETURN(plan->data, plan->data.Contiguous());
    MeasureValues(plan->data, plan);
  }
  return absl::OkStatus();
}

// Replaces the data by a payload if the dtype and the options allow it and the payload is small enough.
absl::Status PlanPayload(absl::string_view name, const EncodeOptions& options, MessagePlan* plan) {
  const bool keeps_order = !plan->extension.strides.empty();
  if (!PayloadHeader::Supports(plan->dtype) || keeps_order || plan->data_bytes == 0) return absl::OkStatus();
  if (options.checksum) {  // reads the elements apart from the payload
    CASK_ASSIGN_OR_RETURN(plan->data, InPrivateMemory(plan->data));
  }
  CASK_ASSIGN_OR_RETURN(std::optional<TensorView> payload,
                        EncodePayloadField(plan->data, name, options, plan->data_bytes));
  if (!payload.has_value()) return absl::OkStatus();
  if (options.checksum) {
    CASK_ASSIGN_OR_RETURN(plan->crc32c, ViewCrc32c(plan->data));
  }
  plan->data = *std::move(payload);
  plan->data_bytes = static_cast<uint64_t>(plan->data.num_elements());
  plan->data_number = kContentNumber;
  plan->representation = Representation::kContent;
  plan->extension.dtype_number = DTypeNumber(plan->dtype);
  plan->extension.payload_bytes = plan->data_bytes;
  return absl::OkStatus();
}

// Sets the sizes of the parts. Requires: data and extension are set.
void MeasureParts(MessagePlan* plan) {
  MeasuringSink shape;
  SendShape(plan->shape.dims(), /*unknown_rank=*/false, &shape);
  plan->shape_bytes = shape.bytes;
  plan->extension_bytes = ExtensionBytes(plan->extension);
  if (plan->dtype_number() != 0) plan->total_bytes = 1 + VarintSize(static_cast<uint64_t>(plan->dtype_number()));
  plan->total_bytes += BytesFieldBytes(kShapeNumber, plan->shape_bytes) + plan->tail_bytes();
  if (plan->is_encoded()) {
    plan->total_bytes += BytesFieldBytes(kExtensionNumber, plan->extension_bytes);
  } else if (plan->data_bytes > 0) {
    plan->total_bytes +=
        plan->has_object_fields() ? plan->data_bytes : BytesFieldBytes(plan->data_number, plan->data_bytes);
  }
}

char* WriteExtensionField(const MessagePlan& plan, uint32_t crc, char* out) {
  out = WriteTag(kExtensionNumber, WireType::kBytes, out);
  out = WriteVarint(plan.extension_bytes, out);
  return WriteExtension(plan.extension, crc, out);
}

// `plan_payload` is PlanPayload or null. Passed as a pointer, so that programs which only write plain messages, or only
// read, do not link the encoder of payloads.
absl::StatusOr<MessagePlan> PlanWith(absl::Status (*plan_payload)(absl::string_view, const EncodeOptions&,
                                                                  MessagePlan*),
                                     const TensorView& view, const TensorMetadata& metadata,
                                     const EncodeOptions& options, int max_depth) {
  if (max_depth < (view.rank() > 0 ? kShapeDepth : kShapeDepth - 1)) return TooDeepToWrite();
  CASK_ANNOTATE_IF_ERROR(options.payload.Validate(), "payload");
  CASK_RETURN_IF_ERROR(CheckMetadata(view, metadata));
  if (view.buffer() && view.buffer()->kind() != TensorBuffer::Kind::kDevice) {
    CASK_RETURN_IF_ERROR(view.buffer()->CheckReadable());
  } else if (IsOnDevice(view)) {
    CASK_ASSIGN_OR_RETURN(const TensorView on_host, InHostMemory(view));
    return PlanWith(plan_payload, on_host, metadata, options, max_depth);
  }
  MessagePlan plan;
  CASK_RETURN_IF_ERROR(PlanData(view, options, max_depth, &plan));
  if (plan_payload != nullptr && options.payload.level != PayloadLevel::kStored) {
    CASK_RETURN_IF_ERROR(plan_payload(metadata.name, options, &plan));
  }
  plan.extension.metadata = &metadata;
  plan.extension.checksum = options.checksum;
  MeasureParts(&plan);
  return plan;
}

}  // namespace

uint64_t MessagePlan::tail_bytes() const {
  return extension_bytes == 0 || is_encoded() ? 0 : BytesFieldBytes(kExtensionNumber, extension_bytes);
}

absl::StatusOr<MessagePlan> PlanMessage(const TensorView& view, const TensorMetadata& metadata,
                                        const EncodeOptions& options, int max_depth) {
  return PlanWith(PlanPayload, view, metadata, options, max_depth);
}

absl::StatusOr<MessagePlan> PlanPlainMessage(const TensorView& view, const TensorMetadata& metadata,
                                             const EncodeOptions& options, int max_depth) {
  return PlanWith(nullptr, view, metadata, options, max_depth);
}

absl::StatusOr<MessagePlan> PlanFrame(DType dtype, const TensorShape& shape, const TensorMetadata& metadata) {
  CASK_RETURN_IF_ERROR(CheckMetadata(dtype, shape, metadata));
  const std::optional<int64_t> bytes = CheckedMul(shape.num_elements(), static_cast<int64_t>(ElementSize(dtype)));
  if (!bytes.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat(DTypeName(dtype), " ", shape.ToString(), " has more than 2^63 bytes"));
  }
  MessagePlan plan;
  plan.dtype = dtype;
  plan.shape = shape;
  plan.data_bytes = static_cast<uint64_t>(*bytes);
  plan.extension.metadata = &metadata;
  if (DTypeNumber(dtype) >= kFirstOwnDTypeNumber) plan.extension.dtype_number = DTypeNumber(dtype);
  MeasureParts(&plan);
  return plan;
}

char* WriteHeader(const MessagePlan& plan, char* out) {
  if (plan.dtype_number() != 0) {
    out = WriteTag(kDTypeNumber, WireType::kVarint, out);
    out = WriteVarint(static_cast<uint64_t>(plan.dtype_number()), out);
  }
  out = WriteTag(kShapeNumber, WireType::kBytes, out);
  out = WriteVarint(plan.shape_bytes, out);
  WritingSink shape{out};
  SendShape(plan.shape.dims(), /*unknown_rank=*/false, &shape);
  out = shape.out;
  if (plan.is_encoded()) return WriteExtensionField(plan, plan.crc32c, out);
  if (plan.data_bytes == 0 || plan.has_object_fields()) return out;
  out = WriteTag(plan.data_number, WireType::kBytes, out);
  return WriteVarint(plan.data_bytes, out);
}

char* WriteData(const MessagePlan& plan, char* out, uint32_t* crc) {
  if (plan.is_encoded()) {
    CopyBytes(out, plan.data.bytes().data(), plan.data_bytes);
    return out + plan.data_bytes;
  }
  bool has_crc = false;
  if (plan.data_bytes > 0) {
    if (plan.has_object_fields()) {
      VisitObjects(plan.data, [out](auto objects) { WriteObjectFields(objects, out); });
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
  return plan.tail_bytes() == 0 ? out : WriteExtensionField(plan, crc, out);
}

void WriteMessage(const MessagePlan& plan, absl::Span<char> out) {
  CASK_CHECK(out.size() == plan.total_bytes, "EncodeTensorTo: the span is not EncodedSize long");
  uint32_t crc = 0;
  char* next = WriteHeader(plan, out.data());
  next = WriteData(plan, next, &crc);
  next = WriteTail(plan, crc, next);
  CASK_CHECK(next == out.data() + out.size(), "EncodeTensorTo: the tensor changed while it was written");
}

}  // namespace tensorcask::internal
