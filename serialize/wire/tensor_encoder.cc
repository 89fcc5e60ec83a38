#include "tensorcask/serialize/wire/tensor_encoder.h"

#include <cstring>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/wire/content_bytes.h"
#include "tensorcask/serialize/wire/copy_bytes.h"
#include "tensorcask/tensor/base/check.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/base/endian.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/strided/row_major.h"

namespace tensorcask::internal {
namespace {

constexpr uint32_t kDTypeNumber = 1;
constexpr uint32_t kShapeNumber = 2;
constexpr uint32_t kContentNumber = 4;
constexpr uint32_t kStringNumber = 8;
constexpr uint32_t kExtensionNumber = 4096;
constexpr uint32_t kDimNumber = 2;       // in TensorShapeProto
constexpr uint32_t kDimSizeNumber = 1;   // in Dim
constexpr uint32_t kChecksumNumber = 8;  // in TensorExtension
constexpr uint64_t kExtensionBytes = 5;  // of a TensorExtension with nothing but the checksum: tag and 32 bits

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

void MeasureValues(const TensorView& tensor, MessageLayout* layout) {
  VisitScalars(tensor, [layout](auto traits, auto scalars) {
    using Traits = decltype(traits);
    layout->data_number = static_cast<uint32_t>(Traits::kField);
    if constexpr (Traits::kForm == ValueForm::kVarint) {
      for (const auto scalar : scalars) layout->data_bytes += VarintBytes(VarintFromValue(Traits::ToValue(scalar)));
    } else {
      layout->data_bytes = scalars.size() * sizeof(scalars[0]);
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

absl::Status MeasureStrings(const TensorView& tensor, Representation representation, MessageLayout* layout) {
  if (representation == Representation::kValues) {
    layout->data_number = kStringNumber;
    for (const std::string& text : Strings(tensor)) layout->data_bytes += BytesFieldBytes(kStringNumber, text.size());
    return absl::OkStatus();
  }
  for (const std::string& text : Strings(tensor)) {
    if (text.size() > std::numeric_limits<uint32_t>::max()) {
      return absl::InvalidArgumentError(
          absl::StrCat("a string has ", text.size(), " bytes; tensor_content holds strings of less than 4 GiB"));
    }
  }
  layout->data_bytes = StringListBytes(Strings(tensor));
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
    CASK_CHECK(status.ok(), "ReadyToEncode has seen that the data are there");
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

}  // namespace

absl::StatusOr<MaybeOwned<TensorView>> ReadyToEncode(const TensorView& view, const EncodeOptions& options) {
  if (view.buffer()) CASK_RETURN_IF_ERROR(view.buffer()->CheckReadable());
  const bool only_bytes = options.representation == Representation::kContent && IsFixedSize(view.dtype());
  if (only_bytes) return MaybeOwned<TensorView>::Borrow(view);
  return view.ExpectContiguous();
}

absl::StatusOr<MessageLayout> LayOutMessage(const TensorView& tensor, const EncodeOptions& options) {
  const DType dtype = tensor.dtype();
  if (dtype != DType::kString && (!IsFixedSize(dtype) || DTypeNumber(dtype) >= kFirstOwnDTypeNumber)) {
    return absl::UnimplementedError(absl::StrCat("a tensor of dtype ", DTypeName(dtype),
                                                 " has no plain form: TensorFlow lacks the dtype, or this build does"));
  }
  MessageLayout layout;
  layout.shape_bytes = ShapeBytes(tensor.shape());
  if (dtype == DType::kString) {
    CASK_RETURN_IF_ERROR(MeasureStrings(tensor, options.representation, &layout));
  } else if (options.representation == Representation::kContent) {
    layout.data_bytes = static_cast<uint64_t>(tensor.num_elements()) * tensor.element_size();
  } else {
    MeasureValues(tensor, &layout);
  }
  layout.total_bytes = 1 + VarintBytes(static_cast<uint64_t>(DTypeNumber(dtype)));
  layout.total_bytes += BytesFieldBytes(kShapeNumber, layout.shape_bytes);
  if (layout.data_bytes > 0) {
    layout.total_bytes += layout.data_number == kStringNumber ? layout.data_bytes
                                                              : BytesFieldBytes(layout.data_number, layout.data_bytes);
  }
  if (options.checksum) layout.total_bytes += BytesFieldBytes(kExtensionNumber, kExtensionBytes);
  return layout;
}

void WriteMessage(const TensorView& tensor, const EncodeOptions& options, const MessageLayout& layout,
                  absl::Span<char> out) {
  CASK_CHECK(out.size() == layout.total_bytes, "EncodeTensorTo: the span is not EncodedTensorBytes long");
  char* next = out.data();
  next = WriteTag(kDTypeNumber, WireType::kVarint, next);
  next = WriteVarint(static_cast<uint64_t>(DTypeNumber(tensor.dtype())), next);
  next = WriteTag(kShapeNumber, WireType::kBytes, next);
  next = WriteVarint(layout.shape_bytes, next);
  next = WriteShape(tensor.shape(), next);
  uint32_t crc = 0;
  bool has_crc = false;
  if (layout.data_number == kStringNumber) {
    next = WriteStringValues(tensor, next);
  } else if (layout.data_bytes > 0) {
    next = WriteTag(layout.data_number, WireType::kBytes, next);
    next = WriteVarint(layout.data_bytes, next);
    if (layout.data_number == kContentNumber) {
      has_crc = WriteContent(tensor, options.checksum, next, &crc);
    } else {
      WriteValues(tensor, next);
    }
    next += layout.data_bytes;
  }
  if (options.checksum) {
    if (!has_crc) crc = TensorCrc32c(tensor);
    next = WriteTag(kExtensionNumber, WireType::kBytes, next);
    next = WriteVarint(kExtensionBytes, next);
    next = WriteTag(kChecksumNumber, WireType::kFixed32, next);
    StoreLittleEndian(StoredCrc32c(crc), next);
    next += sizeof(uint32_t);
  }
  CASK_CHECK(next == out.data() + out.size(), "EncodeTensorTo: the tensor changed while it was written");
}

}  // namespace tensorcask::internal
