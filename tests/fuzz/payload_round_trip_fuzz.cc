// Any tensor, encoded in any way, comes back; the bytes do not depend on threads, and are hardly more than stored.
//
// Is to reach what input can reach of these files:
//   serialize/payload/*.cc
//   serialize/payload/*/*.cc

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/io/byte_sink.h"
#include "tensorcask/serialize/payload/payload_encoder.h"
#include "tensorcask/serialize/payload/payload_header.h"
#include "tensorcask/serialize/payload/payload_reader.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/fuzz/fuzz_input.h"

namespace tensorcask {
namespace {

using testing::FuzzInput;

constexpr DType kDTypes[] = {DType::kFloat32,    DType::kFloat64, DType::kFloat16,      DType::kBfloat16,
                             DType::kInt8,       DType::kInt16,   DType::kInt32,        DType::kInt64,
                             DType::kBool,       DType::kUint8,   DType::kUint64,       DType::kComplex64,
                             DType::kComplex128, DType::kString,  DType::kFloat8E4m3fn, DType::kInt4};

// As many elements as there are bytes for, each byte used `repeats` times, one run after the other.
Tensor Elements(DType dtype, int64_t repeats, absl::string_view bytes) {
  const size_t size = ElementSize(dtype);
  const auto once = static_cast<int64_t>(bytes.size() / size);
  Tensor tensor = *Tensor::Create(dtype, TensorShape({once * repeats}));
  const absl::Span<char> out = tensor.mutable_bytes();
  const size_t run = static_cast<size_t>(once) * size;
  for (int64_t i = 0; i < repeats && run > 0; ++i) std::memcpy(&out[static_cast<size_t>(i) * run], bytes.data(), run);
  if (dtype == DType::kBool) {
    for (char& byte : out) byte &= 1;
  }
  return tensor;
}

Tensor Strings(int64_t repeats, FuzzInput* input) {
  Tensor tensor = *Tensor::Create(DType::kString, TensorShape({input->Int(0, 255)}));
  for (std::string& text : tensor.mutable_flat<std::string>()) {
    const absl::string_view piece = input->Bytes(static_cast<size_t>(input->Int(0, 40)));
    for (int64_t i = 0; i < repeats; ++i) text.append(piece.data(), piece.size());
  }
  return tensor;
}

bool Same(const Tensor& a, const Tensor& b) {
  if (a.dtype() != DType::kString) return a.bytes() == b.bytes();
  const auto x = a.flat<std::string>();
  const auto y = b.flat<std::string>();
  return std::equal(x.begin(), x.end(), y.begin(), y.end());
}

std::string Encoded(const Tensor& tensor, const PayloadWriteOptions& options) {
  std::string bytes;
  StringSink sink(&bytes);
  const absl::StatusOr<std::optional<PayloadSummary>> written = EncodePayload(tensor, options, &sink);
  FUZZ_CHECK(written.ok() && written->has_value(), written.status().ToString());
  FUZZ_CHECK((*written)->stored_bytes == bytes.size(), "the summary says another size");
  return bytes;
}

void Check(FuzzInput input) {
  const DType dtype = kDTypes[input.Int(0, std::size(kDTypes) - 1)];
  PayloadWriteOptions options;
  options.always = true;
  options.payload.level = static_cast<PayloadLevel>(input.Int(0, 2));
  options.payload.chunk_bytes = size_t{1} << input.Int(kMinLog2ChunkBytes, kMinLog2ChunkBytes + 2);
  const int64_t repeats = input.Int(1, 64);
  const bool with_base = input.Int(0, 1) == 1;
  const uint64_t change = input.Bits(2);
  const Tensor tensor = dtype == DType::kString ? Strings(repeats, &input) : Elements(dtype, repeats, input.Rest());
  Tensor base = *tensor.Clone();
  if (dtype != DType::kString && dtype != DType::kBool && tensor.num_elements() > 0) {
    base.mutable_bytes()[change % base.bytes().size()] ^= static_cast<char>(change >> 8);
  }
  const TensorView base_view(base);
  if (with_base) options.payload.base = MakeBaseLookup(base_view);

  const std::string bytes = Encoded(tensor, options);
  options.num_threads = 3;
  FUZZ_CHECK(Encoded(tensor, options) == bytes, "the bytes depend on threads");
  if (options.payload.level != PayloadLevel::kStored) {
    PayloadWriteOptions stored = options;
    stored.payload.level = PayloadLevel::kStored;
    FUZZ_CHECK(bytes.size() <= Encoded(tensor, stored).size(), "larger than stored");
  }

  PayloadReadOptions read_options;
  read_options.num_threads = 2;
  absl::StatusOr<PayloadReader> payload = PayloadReader::Open(bytes, read_options);
  FUZZ_CHECK(payload.ok(), payload.status().ToString());
  if (payload->header().is_delta) {
    const absl::Status found = payload->SetBase(base_view);
    FUZZ_CHECK(found.ok(), found.ToString());
  }
  Tensor back = *Tensor::Create(dtype, tensor.shape());
  TensorView view(back);
  const absl::Status read = payload->ReadInto(&view);
  FUZZ_CHECK(read.ok() && Same(tensor, back), read.ToString());
}

}  // namespace
}  // namespace tensorcask

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tensorcask::Check(tensorcask::testing::FuzzInput(data, size));
  return 0;
}
