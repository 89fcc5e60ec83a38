// Tensors that are worth encoding, and messages in the encoded form.

#ifndef TENSORCASK_TESTS_SERIALIZE_WIRE_ENCODED_TEST_UTIL_H_
#define TENSORCASK_TESTS_SERIALIZE_WIRE_ENCODED_TEST_UTIL_H_

#include <cstdint>
#include <random>
#include <string>

#include "tensorcask/proto/tensor.pb.h"
#include "tensorcask/serialize/wire/codec_options.h"
#include "tensorcask/serialize/wire/tensor_codec.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/serialize/wire/wire_test_util.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask::testing {

// A random tensor whose bytes are small, and which so takes a fraction of its size when it is encoded.
inline Tensor CompressibleTensor(DType dtype, const TensorShape& shape, uint64_t seed = 1) {
  std::mt19937_64 random(seed);
  Tensor tensor = *Tensor::Create(dtype, shape);
  if (dtype == DType::kString) {
    for (std::string& text : tensor.mutable_flat<std::string>()) text.assign(random() % 40, 'a');
    return tensor;
  }
  for (char& byte : tensor.mutable_bytes()) byte = static_cast<char>(random() % (dtype == DType::kBool ? 2 : 3));
  return tensor;
}

inline EncodeOptions Encoded(bool checksum = false) {
  EncodeOptions options;
  options.checksum = checksum;
  options.payload.level = PayloadLevel::kDefault;
  return options;
}

inline TensorProto EncodedProto(const TensorView& view, const EncodeOptions& options = Encoded()) {
  TensorProto proto;
  EXPECT_OK(EncodeTensor(view, options, &proto));
  EXPECT_FALSE(proto.extension().payload().empty());
  return proto;
}

}  // namespace tensorcask::testing

#endif  // TENSORCASK_TESTS_SERIALIZE_WIRE_ENCODED_TEST_UTIL_H_
