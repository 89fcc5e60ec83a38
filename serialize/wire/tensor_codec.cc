#include "tensorcask/serialize/wire/tensor_codec.h"

#include <cstring>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/wire/content_bytes.h"
#include "tensorcask/serialize/wire/proto_fields.h"
#include "tensorcask/serialize/wire/shape_codec.h"
#include "tensorcask/serialize/wire/tensor_decoder.h"
#include "tensorcask/serialize/wire/tensor_encoder.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/strided/maybe_owned.h"
#include "tensorcask/tensor/strided/row_major.h"

namespace tensorcask {
namespace {

constexpr uint64_t kMaxMessageBytes = std::numeric_limits<int32_t>::max();  // protobuf's

// The repeated field of each kind of value.
template <internal::ValueField kField>
auto* MutableValues(TensorProto* proto) {
  using internal::ValueField;
  if constexpr (kField == ValueField::kFloat) return proto->mutable_float_val();
  if constexpr (kField == ValueField::kDouble) return proto->mutable_double_val();
  if constexpr (kField == ValueField::kInt) return proto->mutable_int_val();
  if constexpr (kField == ValueField::kScomplex) return proto->mutable_scomplex_val();
  if constexpr (kField == ValueField::kInt64) return proto->mutable_int64_val();
  if constexpr (kField == ValueField::kBool) return proto->mutable_bool_val();
  if constexpr (kField == ValueField::kDcomplex) return proto->mutable_dcomplex_val();
  if constexpr (kField == ValueField::kHalf) return proto->mutable_half_val();
  if constexpr (kField == ValueField::kUint32) return proto->mutable_uint32_val();
  if constexpr (kField == ValueField::kUint64) return proto->mutable_uint64_val();
}

void SetValues(const TensorView& tensor, TensorProto* out) {
  internal::VisitScalars(tensor, [out](auto traits, auto scalars) {
    using Traits = decltype(traits);
    if (scalars.empty()) return;
    if constexpr (Traits::kForm == internal::ValueForm::kByte) {
      out->set_float8_val(scalars.data(), scalars.size());
    } else {
      auto* values = MutableValues<Traits::kField>(out);
      // Fewer than 2^31: each takes at least a byte of the message, which was measured.
      values->Reserve(static_cast<int>(scalars.size()));
      auto* added = values->AddNAlreadyReserved(static_cast<int>(scalars.size()));
      if constexpr (Traits::kForm == internal::ValueForm::kFixed) {
        std::memcpy(added, scalars.data(), scalars.size() * sizeof(scalars[0]));
      } else {
        for (const auto scalar : scalars) *added++ = Traits::ToValue(scalar);
      }
    }
  });
}

absl::Status SetContent(const TensorView& tensor, uint64_t bytes, std::string* content) {
  if (tensor.dtype() == DType::kString) {
    content->resize(bytes);
    internal::WriteStringList({tensor.data<std::string>(), static_cast<size_t>(tensor.num_elements())}, &(*content)[0]);
  } else if (tensor.IsContiguous()) {
    content->assign(tensor.bytes().data(), bytes);
  } else {
    content->resize(bytes);
    return CopyRowMajor(tensor, absl::MakeSpan(&(*content)[0], bytes));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status EncodeTensor(const TensorView& view, const EncodeOptions& options, TensorProto* out) {
  out->Clear();
  CASK_ASSIGN_OR_RETURN(const MaybeOwned<TensorView> ready, internal::ReadyToEncode(view, options));
  const TensorView& tensor = *ready;
  CASK_ASSIGN_OR_RETURN(const internal::MessageLayout layout, internal::LayOutMessage(tensor, options));
  if (layout.total_bytes > kMaxMessageBytes) {
    return absl::InvalidArgumentError(absl::StrCat(DTypeName(tensor.dtype()), " ", tensor.shape().ToString(), " takes ",
                                                   layout.total_bytes, " bytes; a protobuf message holds ",
                                                   kMaxMessageBytes, ": use EncodeTensorTo, or a checkpoint"));
  }
  out->set_dtype(static_cast<DataType>(DTypeNumber(tensor.dtype())));
  EncodeShape(tensor.shape(), out->mutable_tensor_shape());
  if (options.representation == Representation::kContent) {
    if (layout.data_bytes > 0) {
      CASK_RETURN_IF_ERROR(SetContent(tensor, layout.data_bytes, out->mutable_tensor_content()));
    }
  } else if (tensor.dtype() == DType::kString) {
    const absl::Span<const std::string> strings(tensor.data<std::string>(), static_cast<size_t>(tensor.num_elements()));
    for (const std::string& text : strings) out->add_string_val(text);
  } else {
    SetValues(tensor, out);
  }
  if (options.checksum) {
    const uint32_t crc = options.representation == Representation::kContent ? ExtendCrc32c(0, out->tensor_content())
                                                                            : internal::TensorCrc32c(tensor);
    out->mutable_extension()->set_crc32c(internal::StoredCrc32c(crc));
  }
  return absl::OkStatus();
}

absl::StatusOr<Tensor> DecodeTensor(const TensorProto& proto, const DecodeOptions& options) {
  internal::ProtoTensorFields<TensorProto> fields(&proto);
  CASK_RETURN_IF_ERROR(fields.Read(options.limits.max_depth));
  return internal::TensorDecoder(fields, options).Decode();
}

}  // namespace tensorcask
