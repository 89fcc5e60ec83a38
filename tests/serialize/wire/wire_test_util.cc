#include "tensorcask/tests/serialize/wire/wire_test_util.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/wire/decoded_tensor.h"
#include "tensorcask/serialize/wire/serialized_tensor.h"
#include "tensorcask/serialize/wire/tensor_codec.h"
#include "tensorcask/tensor/dtype_visit.h"
#include "tensorcask/tensor/resource_handle.h"
#include "tensorcask/tensor/variant.h"
#include "tensorcask/tests/serialize/wire/quiet_protobuf.h"

namespace tensorcask::testing {

std::vector<DType> PlainDTypes() {
  std::vector<DType> dtypes;
  for (int number = 1; number < kFirstOwnDTypeNumber; ++number) {
    const std::optional<DType> dtype = DTypeFromNumber(number);
    if (dtype && *dtype != DType::kResource && *dtype != DType::kVariant) dtypes.push_back(*dtype);
  }
  return dtypes;
}

std::vector<DType> OwnDTypes() {
  std::vector<DType> dtypes;
  for (int number = kFirstOwnDTypeNumber; DTypeFromNumber(number); ++number) dtypes.push_back(*DTypeFromNumber(number));
  return dtypes;
}

Tensor RandomTensor(DType dtype, const TensorShape& shape, std::mt19937_64* random) {
  Tensor tensor = *Tensor::Create(dtype, shape);
  if (dtype == DType::kString) {
    for (std::string& text : tensor.mutable_flat<std::string>()) {
      text.assign((*random)() % 4 == 0 ? 0 : (*random)() % 200, '\0');
      for (char& c : text) c = static_cast<char>((*random)());
    }
    return tensor;
  }
  for (char& byte : tensor.mutable_bytes()) {
    byte = static_cast<char>((*random)() >> ((*random)() % 64));  // small values more often than chance
    if (dtype == DType::kBool) byte &= 1;
    if (dtype == DType::kUint2 || dtype == DType::kInt2) byte &= 3;
    if (dtype == DType::kUint4 || dtype == DType::kInt4) byte &= 15;
  }
  return tensor;
}

TensorShape RandomShape(std::mt19937_64* random) {
  TensorShape shape;
  const uint64_t rank = (*random)() % 7;
  for (uint64_t axis = 0; axis < rank; ++axis) {
    const auto size = static_cast<int64_t>((*random)() % 12 == 0 ? 0 : 1 + (*random)() % 4);
    EXPECT_TRUE(shape.AddDim(size).ok());
  }
  return shape;
}

std::string Difference(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype()) return absl::StrCat("dtypes ", DTypeName(a.dtype()), " and ", DTypeName(b.dtype()));
  if (a.shape() != b.shape()) return absl::StrCat("shapes ", a.shape().ToString(), " and ", b.shape().ToString());
  if (IsObject(a.dtype())) {
    return VisitObjectDType(a.dtype(), [&](auto tag) -> std::string {
      using T = typename decltype(tag)::type;
      for (int64_t i = 0; i < a.num_elements(); ++i) {
        if (a.flat<T>()[i] != b.flat<T>()[i]) return absl::StrCat("element ", i);
      }
      return "";
    });
  }
  return a.bytes() == b.bytes() ? "" : absl::StrCat("elements ", a.ToString(), " and ", b.ToString());
}

TensorProto FromText(const std::string& text) {
  TensorProto proto;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &proto)) << text;
  return proto;
}

namespace {

// Metadata is read alike on both ways, and beside the same elements as without it.
void ExpectSameWithMetadata(const std::string& message, const TensorProto& proto, const DecodeOptions& options,
                            const absl::StatusOr<Tensor>& without) {
  const absl::StatusOr<DecodedTensor> from_bytes = DecodeSerializedTensorWithMetadata(message, options);
  const absl::StatusOr<DecodedTensor> from_proto = DecodeTensorWithMetadata(proto, options);
  EXPECT_EQ(from_bytes.status().code(), from_proto.status().code())
      << "bytes: " << from_bytes.status() << "\nmessage: " << from_proto.status();
  if (!from_bytes.ok() || !from_proto.ok()) return;
  EXPECT_TRUE(without.ok()) << without.status();
  EXPECT_EQ(from_bytes->metadata, from_proto->metadata);
  EXPECT_EQ(from_bytes->view.layout(), from_proto->view.layout());
  EXPECT_TRUE(from_bytes->metadata.Validate(from_bytes->view.dtype()).ok());
  for (const DecodedTensor* decoded : {&*from_bytes, &*from_proto}) {
    const absl::StatusOr<Tensor> dense = decoded->view.ToTensor();
    EXPECT_TRUE(dense.ok()) << dense.status();
    if (dense.ok() && without.ok()) {
      EXPECT_EQ(Difference(*dense, *without), "");
    }
  }
}

}  // namespace

absl::StatusOr<Tensor> DecodeBothWays(const std::string& message, const DecodeOptions& options) {
  absl::StatusOr<Tensor> from_bytes = DecodeSerializedTensor(message, options);
  TensorProto proto;
  bool parsed = false;
  {
    const QuietProtobuf quiet;
    parsed = proto.ParseFromString(message);
  }
  if (!parsed) {
    EXPECT_FALSE(from_bytes.ok()) << "protobuf does not parse this";
    return from_bytes;
  }
  const absl::StatusOr<Tensor> from_proto = DecodeTensor(proto, options);
  EXPECT_EQ(from_bytes.status().code(), from_proto.status().code())
      << "bytes: " << from_bytes.status() << "\nmessage: " << from_proto.status();
  ExpectSameWithMetadata(message, proto, options, from_bytes);
  if (from_bytes.ok() && from_proto.ok()) {
    EXPECT_EQ(Difference(*from_bytes, *from_proto), "");
    Tensor into = *Tensor::Zeros(from_bytes->dtype(), from_bytes->shape());
    const absl::Status status = DecodeTensorInto(message, options, &into);
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(Difference(*from_bytes, into), "");
  }
  return from_bytes;
}

std::string EncodeToString(const TensorView& view, const TensorMetadata& metadata, const EncodeOptions& options) {
  const absl::StatusOr<uint64_t> size = EncodedSize(view, metadata, options);
  EXPECT_TRUE(size.ok()) << size.status();
  if (!size.ok()) return "";
  std::string message(*size, '\x55');
  const absl::Status status = EncodeTensorTo(view, metadata, options, absl::MakeSpan(&message[0], message.size()));
  EXPECT_TRUE(status.ok()) << status;
  return message;
}

DecodeOptions Lenient() {
  DecodeOptions options;
  options.lenient = true;
  return options;
}

std::string Varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes.push_back(static_cast<char>(value | 0x80));
  bytes.push_back(static_cast<char>(value));
  return bytes;
}

std::string Tag(uint32_t number, uint32_t type) { return Varint(uint64_t{number} << 3 | type); }

std::string VarintField(uint32_t number, uint64_t value) { return Tag(number, 0) + Varint(value); }

std::string BytesField(uint32_t number, const std::string& bytes) {
  return Tag(number, 2) + Varint(bytes.size()) + bytes;
}

std::string Fixed32Field(uint32_t number, uint32_t value) {
  return Tag(number, 5) + std::string(reinterpret_cast<const char*>(&value), sizeof(value));
}

std::string Fixed64Field(uint32_t number, uint64_t value) {
  return Tag(number, 1) + std::string(reinterpret_cast<const char*>(&value), sizeof(value));
}

std::string ShapeField(const std::vector<int64_t>& dims) {
  std::string shape;
  for (const int64_t dim : dims) shape += BytesField(2, dim == 0 ? "" : VarintField(1, static_cast<uint64_t>(dim)));
  return BytesField(2, shape);
}

}  // namespace tensorcask::testing
