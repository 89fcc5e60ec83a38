#include "tensorcask/serialize/wire/message/object_encoder.h"

#include <cstddef>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/protowire/field_sinks.h"
#include "tensorcask/serialize/protowire/message_rules.h"
#include "tensorcask/serialize/wire/codec_options.h"
#include "tensorcask/serialize/wire/message/send_shape.h"
#include "tensorcask/serialize/wire/message/tensor_encoder.h"
#include "tensorcask/serialize/wire/message/tensor_rules.h"
#include "tensorcask/tensor/base/check.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/base/utf8.h"
#include "tensorcask/tensor/base/varint.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/partial_shape.h"
#include "tensorcask/tensor/strided/metadata.h"
#include "tensorcask/tensor/strided/row_major.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask::internal {
namespace {

absl::Status CheckUtf8(absl::string_view name, const std::string& text) {
  if (IsUtf8(text)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, " is not UTF-8; its field holds only UTF-8"));
}

template <typename Sink>
void SendPart(const ResourceHandle::DtypeAndShape& part, Sink* sink) {
  const auto send_shape = [&part](auto* to) { SendShape(part.shape.dims(), !part.shape.has_rank(), to); };
  MeasuringSink shape;
  send_shape(&shape);
  sink->Number(DtypeAndShapeField::kDType, static_cast<uint64_t>(DTypeNumber(part.dtype)));
  sink->Length(DtypeAndShapeField::kShape, shape.bytes);
  send_shape(sink);
}

template <typename Sink>
void Send(const ResourceHandle& handle, Sink* sink) {
  sink->Bytes(ResourceField::kDevice, handle.device);
  sink->Bytes(ResourceField::kContainer, handle.container);
  sink->Bytes(ResourceField::kName, handle.name);
  sink->Number(ResourceField::kHashCode, handle.hash_code);
  sink->Bytes(ResourceField::kMaybeTypeName, handle.maybe_type_name);
  for (const ResourceHandle::DtypeAndShape& part : handle.dtypes_and_shapes) {
    MeasuringSink measure;
    SendPart(part, &measure);
    sink->Length(ResourceField::kDtypesAndShapes, measure.bytes);
    SendPart(part, sink);
  }
}

// Calls fn(plan) with the message of a tensor in a variant. The elements are values in typed fields, as TensorFlow
// writes them there.
template <typename Fn>
auto WithPlan(const Tensor& tensor, int max_depth, Fn&& fn) {
  const TensorMetadata none;
  EncodeOptions options;
  options.representation = Representation::kValues;
  // The message is planned several times, which must not fail later than the first time: copies from a device may.
  const bool is_on_device = tensor.buffer() && tensor.buffer()->kind() == TensorBuffer::Kind::kDevice;
  const absl::Status readable = is_on_device ? tensor.buffer()->CheckReadable() : absl::OkStatus();
  return fn(readable.ok() ? PlanPlainMessage(tensor, none, options, max_depth) : readable);
}

}  // namespace

absl::Status TooDeepToWrite() {
  return absl::InvalidArgumentError(
      absl::StrCat("it is nested deeper than the ", kMaxWrittenDepth, " levels that readers accept"));
}

uint32_t ObjectFieldNumber(DType dtype) {
  return static_cast<uint32_t>(dtype == DType::kString     ? ValueField::kString
                               : dtype == DType::kResource ? ValueField::kResource
                                                           : ValueField::kVariant);
}

// ---- Resources ------------------------------------------------------------------------------------------------------

absl::StatusOr<uint64_t> MeasureObject(const ResourceHandle& handle, int max_depth) {
  if (max_depth < 0) return TooDeepToWrite();
  CASK_RETURN_IF_ERROR(CheckUtf8("device", handle.device));
  CASK_RETURN_IF_ERROR(CheckUtf8("container", handle.container));
  CASK_RETURN_IF_ERROR(CheckUtf8("name", handle.name));
  CASK_RETURN_IF_ERROR(CheckUtf8("maybe_type_name", handle.maybe_type_name));
  for (size_t i = 0; i < handle.dtypes_and_shapes.size(); ++i) {
    const ResourceHandle::DtypeAndShape& part = handle.dtypes_and_shapes[i];
    // Three levels: the part, its shape, and the dims of the shape.
    if (max_depth < (part.shape.rank() > 0 ? 3 : 2)) return TooDeepToWrite();
    if (DTypeNumber(part.dtype) < kFirstOwnDTypeNumber) continue;
    return absl::InvalidArgumentError(absl::StrCat("dtypes_and_shapes[", i, "] has dtype ", DTypeName(part.dtype),
                                                   ", which TensorFlow does not have"));
  }
  return ObjectSize(handle);
}

uint64_t ObjectSize(const ResourceHandle& handle) {
  MeasuringSink sink;
  Send(handle, &sink);
  return sink.bytes;
}

char* WriteObject(const ResourceHandle& handle, char* out) {
  WritingSink sink{out};
  Send(handle, &sink);
  return sink.out;
}

// ---- Variants -------------------------------------------------------------------------------------------------------

absl::StatusOr<uint64_t> MeasureObject(const Variant& variant, int max_depth) {
  if (max_depth < 0) return TooDeepToWrite();
  CASK_RETURN_IF_ERROR(CheckUtf8("type_name", variant.type_name));
  MeasuringSink sink;
  sink.Bytes(VariantField::kTypeName, variant.type_name);
  sink.Bytes(VariantField::kMetadata, variant.metadata);
  for (size_t i = 0; i < variant.tensors.size(); ++i) {
    const absl::Status status =
        WithPlan(variant.tensors[i], max_depth - 1, [&sink](const absl::StatusOr<MessagePlan>& plan) {
          if (plan.ok()) sink.bytes += BytesFieldBytes(VariantField::kTensors, plan->total_bytes);
          return plan.status();
        });
    if (!status.ok()) return Annotate(status, absl::StrCat("tensors[", i, "]"));
  }
  return sink.bytes;
}

uint64_t ObjectSize(const Variant& variant) {
  const absl::StatusOr<uint64_t> bytes = MeasureObject(variant, kAnyDepth);
  CASK_CHECK(bytes.ok(), "the variant changed while it was written");
  return *bytes;
}

char* WriteObject(const Variant& variant, char* out) {
  WritingSink sink{out};
  sink.Bytes(VariantField::kTypeName, variant.type_name);
  sink.Bytes(VariantField::kMetadata, variant.metadata);
  for (const Tensor& tensor : variant.tensors) {
    WithPlan(tensor, kAnyDepth, [&sink](const absl::StatusOr<MessagePlan>& plan) {
      CASK_CHECK(plan.ok(), "the variant changed while it was written");
      sink.Length(VariantField::kTensors, plan->total_bytes);
      WriteMessage(*plan, {sink.out, static_cast<size_t>(plan->total_bytes)});
      sink.out += plan->total_bytes;
    });
  }
  return sink.out;
}

// ---- Tensors --------------------------------------------------------------------------------------------------------

uint32_t TensorCrc32c(const TensorView& tensor) {
  if (!IsObject(tensor.dtype())) return Crc32c(tensor.bytes());
  return VisitObjects(tensor, [](auto objects) {
    uint32_t crc = 0;
    std::string bytes;
    for (const auto& object : objects) {
      char length[10];
      const char* end = WriteVarint(ObjectSize(object), length);
      crc = ExtendCrc32c(crc, absl::string_view(length, static_cast<size_t>(end - length)));
    }
    for (const auto& object : objects) {
      bytes.resize(ObjectSize(object));
      WriteObject(object, bytes.data());
      crc = ExtendCrc32c(crc, bytes);
    }
    return crc;
  });
}

absl::StatusOr<uint32_t> ViewCrc32c(const TensorView& view) {
  if (IsObject(view.dtype())) {
    CASK_ASSIGN_OR_RETURN(const TensorView dense, view.Contiguous());
    return TensorCrc32c(dense);
  }
  constexpr size_t kPieceBytes = size_t{256} << 10;
  uint32_t crc = 0;
  CASK_RETURN_IF_ERROR(ForEachRowMajorPiece(view, kPieceBytes, [&crc](absl::string_view bytes) {
    crc = ExtendCrc32c(crc, bytes);
    return absl::OkStatus();
  }));
  return crc;
}

absl::Status SetContent(const TensorView& tensor, uint64_t bytes, std::string* content) {
  if (!IsObject(tensor.dtype()) && tensor.IsContiguous()) {
    content->assign(tensor.bytes().data(), bytes);
    return absl::OkStatus();
  }
  content->resize(bytes);
  if (!IsObject(tensor.dtype())) return CopyRowMajor(tensor, absl::MakeSpan(&(*content)[0], bytes));
  VisitObjects(tensor, [content](auto objects) { WriteObjectList(objects, content->data()); });
  return absl::OkStatus();
}

}  // namespace tensorcask::internal
