// A TensorProto message: both front ends agree on it, and what they take comes back.
//
// Is to reach what input can reach of these files:
//   serialize/protowire/[!w]*
//   serialize/protowire/wire_reader*
//   serialize/wire/message/tensor_decoder*
//   serialize/wire/message/wire_fields*
//   serialize/wire/message/object_decoder*
//   serialize/wire/message/metadata_decoder*
//   serialize/wire/variant*

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/proto/tensor.pb.h"
#include "tensorcask/serialize/wire/codec_options.h"
#include "tensorcask/serialize/wire/serialized_tensor.h"
#include "tensorcask/serialize/wire/tensor_codec.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/dtype_visit.h"
#include "tensorcask/tensor/resource_handle.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tensor/variant.h"
#include "tensorcask/tests/fuzz/fuzz_input.h"

namespace tensorcask::testing {
namespace {

bool Same(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) return false;
  if (a.dtype() == DType::kInt4 || a.dtype() == DType::kUint4 || a.dtype() == DType::kInt2 ||
      a.dtype() == DType::kUint2) {
    // The bits above the value may be any when they are read, and are written as zeros (FORMAT.md section 2.1).
    return a.SummarizeValue(a.num_elements()) == b.SummarizeValue(b.num_elements());
  }
  if (!IsObject(a.dtype())) return a.bytes() == b.bytes();
  return VisitObjectDType(a.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    return std::equal(a.data<T>(), a.data<T>() + a.num_elements(), b.data<T>());
  });
}

void CheckComesBack(const Tensor& tensor, const EncodeOptions& options) {
  const absl::StatusOr<uint64_t> size = EncodedSize(tensor, options);
  FUZZ_CHECK(size.ok(), size.status().ToString());
  std::string message(static_cast<size_t>(*size), '\0');
  const absl::Status status = EncodeTensorTo(tensor, options, absl::MakeSpan(&message[0], message.size()));
  FUZZ_CHECK(status.ok(), status.ToString());
  const absl::StatusOr<Tensor> again = DecodeSerializedTensor(message);
  FUZZ_CHECK(again.ok(), again.status().ToString());
  FUZZ_CHECK(Same(*again, tensor), tensor.ToString() + " became " + again->ToString());
}

void Check(absl::string_view message, bool lenient) {
  DecodeOptions options;
  options.lenient = lenient;
  options.limits.max_memory_beyond_input = 1 << 20;
  options.limits.max_message_bytes = 4 << 20;
  options.limits.max_depth = 20;
  const absl::StatusOr<Tensor> tensor = DecodeSerializedTensor(message, options);
  TensorProto proto;
  if (proto.ParseFromArray(message.data(), static_cast<int>(message.size()))) {
    const absl::StatusOr<Tensor> other = DecodeTensor(proto, options);
    FUZZ_CHECK(tensor.status().code() == other.status().code(),
               tensor.status().ToString() + " of bytes, of the object " + other.status().ToString());
    if (tensor.ok()) FUZZ_CHECK(Same(*tensor, *other), tensor->ToString() + " and " + other->ToString());
  } else {
    FUZZ_CHECK(!tensor.ok(), "taken, though protobuf refuses it");
  }
  if (!tensor.ok()) return;
  CheckComesBack(*tensor, {Representation::kContent, true});
  CheckComesBack(*tensor, {Representation::kValues, false});
  EncodeOptions encoded;
  encoded.payload.level = PayloadLevel::kDefault;
  CheckComesBack(*tensor, encoded);
}

}  // namespace
}  // namespace tensorcask::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view message(reinterpret_cast<const char*>(data), size);
  tensorcask::testing::Check(message, /*lenient=*/false);
  tensorcask::testing::Check(message, /*lenient=*/true);
  return 0;
}
