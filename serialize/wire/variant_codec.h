// Variant <-> VariantTensorDataProto, for a single variant. For tensors of variants see tensor_codec.h.
//
//   VariantTensorDataProto proto;
//   CASK_RETURN_IF_ERROR(EncodeVariant(variant, &proto));
//   CASK_ASSIGN_OR_RETURN(Variant same, DecodeVariant(proto));
//
// The tensors inside are written as values in typed fields, as TensorFlow writes them there, and read in all forms.
// This library does not interpret the type of a variant: a message of any type is written back unchanged (FORMAT.md
// section 2.5).

#ifndef TENSORCASK_SERIALIZE_WIRE_VARIANT_CODEC_H_
#define TENSORCASK_SERIALIZE_WIRE_VARIANT_CODEC_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/proto/tensor.pb.h"
#include "tensorcask/serialize/wire/codec_options.h"
#include "tensorcask/tensor/variant.h"

namespace tensorcask {

// Fills *out, which is cleared first and empty on error.
// Errors: InvalidArgument, naming the field, for a type name that is not UTF-8, for variants nested deeper than readers
// accept by default, and for a message of more than 2 GiB; FailedPrecondition for a tensor without data.
absl::Status EncodeVariant(const Variant& variant, VariantTensorDataProto* out);

// Errors: InvalidArgument, naming the field, for a message whose fields disagree; ResourceExhausted past a limit
// (limits apply to all tensors inside together); DataLoss if the checksum of a tensor does not match. All except
// DataLoss are found before memory for elements is allocated.
absl::StatusOr<Variant> DecodeVariant(const VariantTensorDataProto& proto, const DecodeOptions& options = {});

// The same as serialized bytes, which may be more than 2 GiB. Requires of EncodeVariantTo: out.size() is what
// EncodedVariantBytes returns.
absl::StatusOr<uint64_t> EncodedVariantBytes(const Variant& variant);
absl::Status EncodeVariantTo(const Variant& variant, absl::Span<char> out);
absl::StatusOr<Variant> DecodeVariantBytes(absl::string_view message, const DecodeOptions& options = {});

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_WIRE_VARIANT_CODEC_H_
