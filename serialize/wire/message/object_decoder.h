// Elements that are objects from their bytes: strings as they are, resources and variants as messages (FORMAT.md
// section 2.5). Internal.
//
//   CASK_RETURN_IF_ERROR(CheckObject(TypeTag<Variant>(), bytes, decoding));   // all that can be wrong, and charges it
//   CASK_RETURN_IF_ERROR(DecodeObject(bytes, decoding, &variant));
//
// Checking goes down to the innermost tensor before anything is decoded, so that the quota of a message is known to
// suffice before memory for elements is taken. Both take stack with the depth of the message, which is bounded.

#ifndef TENSORCASK_SERIALIZE_WIRE_MESSAGE_OBJECT_DECODER_H_
#define TENSORCASK_SERIALIZE_WIRE_MESSAGE_OBJECT_DECODER_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/serialize/wire/codec_options.h"
#include "tensorcask/tensor/dtype_visit.h"
#include "tensorcask/tensor/resource_handle.h"
#include "tensorcask/tensor/variant.h"

namespace tensorcask::internal {

// What the decoding of one object goes by.
struct ObjectDecoding {
  const DecodeOptions& options;
  int max_depth;        // messages that may be in that of the object
  bool is_checked;      // the message has passed CheckMessage
  MessageQuota* quota;  // what CheckObject charges
};

// The charge for a tensor in a variant on top of its elements: the tensor and the buffer object.
inline constexpr int64_t kNestedTensorBytes = 256;

// Errors: InvalidArgument for bytes that are not a message, or whose fields disagree; ResourceExhausted past a limit.
// Any bytes are a valid string; the caller charges the characters of all strings together.
absl::Status CheckObject(TypeTag<ResourceHandle>, absl::string_view bytes, const ObjectDecoding& decoding);
absl::Status CheckObject(TypeTag<Variant>, absl::string_view bytes, const ObjectDecoding& decoding);
inline absl::Status CheckObject(TypeTag<std::string>, absl::string_view, const ObjectDecoding&) {
  return absl::OkStatus();
}

// Requires: CheckObject returned OK for these bytes.
// Errors: ResourceExhausted if memory cannot be allocated; DataLoss for a wrong checksum of a tensor in a variant.
absl::Status DecodeObject(absl::string_view bytes, const ObjectDecoding& decoding, ResourceHandle* out);
absl::Status DecodeObject(absl::string_view bytes, const ObjectDecoding& decoding, Variant* out);
inline absl::Status DecodeObject(absl::string_view bytes, const ObjectDecoding&, std::string* out) {
  out->assign(bytes.data(), bytes.size());
  return absl::OkStatus();
}

}  // namespace tensorcask::internal

#endif  // TENSORCASK_SERIALIZE_WIRE_MESSAGE_OBJECT_DECODER_H_
