// What the tests of this folder share: random tensors, bitwise comparison, and decoding by both front ends at once.

#ifndef TENSORCASK_TESTS_SERIALIZE_WIRE_WIRE_TEST_UTIL_H_
#define TENSORCASK_TESTS_SERIALIZE_WIRE_WIRE_TEST_UTIL_H_

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/proto/tensor.pb.h"
#include "tensorcask/serialize/wire/codec_options.h"
#include "tensorcask/tensor/strided/metadata.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask::testing {

// TensorFlow's dtypes with elements of a fixed size, and strings.
std::vector<DType> PlainDTypes();
// Those that only this library has.
std::vector<DType> OwnDTypes();

// A tensor of random bits that `dtype` can hold: NaN payloads, both zeros, empty and binary strings.
Tensor RandomTensor(DType dtype, const TensorShape& shape, std::mt19937_64* random);
// Rank 0 to 6, few elements, dims of 0 among them.
TensorShape RandomShape(std::mt19937_64* random);

// Empty if the two are the same: dtype, shape and every bit of the elements. Else what differs.
std::string Difference(const Tensor& a, const Tensor& b);

// `text` in protobuf's text format.
TensorProto FromText(const std::string& text);

// Decodes `message` with DecodeSerializedTensor, and expects that DecodeTensor of the parsed message gives the same
// tensor or the same code, and that both refuse what protobuf does not parse; DecodeTensorInto and the forms that give
// metadata agree as well.
absl::StatusOr<Tensor> DecodeBothWays(const std::string& message, const DecodeOptions& options = {});

// The message that EncodeTensorTo writes.
std::string EncodeToString(const TensorView& view, const TensorMetadata& metadata, const EncodeOptions& options = {});

DecodeOptions Lenient();

// Pieces of messages, for those that no message object can hold.
std::string Varint(uint64_t value);
std::string Tag(uint32_t number, uint32_t type);
std::string VarintField(uint32_t number, uint64_t value);
std::string BytesField(uint32_t number, const std::string& bytes);
std::string Fixed32Field(uint32_t number, uint32_t value);
std::string Fixed64Field(uint32_t number, uint64_t value);
// Field 2 with `dims`.
std::string ShapeField(const std::vector<int64_t>& dims);

}  // namespace tensorcask::testing

#endif  // TENSORCASK_TESTS_SERIALIZE_WIRE_WIRE_TEST_UTIL_H_
