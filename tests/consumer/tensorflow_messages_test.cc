// A project that has TensorFlow's own messages, and Tensorcask's in the same program: tensors go into the former and
// come out of them with one include more, and the bytes are the same.

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "google/protobuf/descriptor.h"
#include "gtest/gtest.h"
#include "tensorcask/proto/tensor.pb.h"
#include "tensorcask/serialize/wire/tensor_codec.h"
#include "tensorcask/serialize/wire/tensor_message.h"
#include "tensorcask/tensor/strided/metadata.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/fixture/matchers.h"
#include "tensorflow/core/framework/tensor.pb.h"

namespace {

using tensorcask::Tensor;
using tensorcask::testing::TensorEq;

const Tensor kSamples[] = {
    Tensor::FromValues<float>({{1, 2, 3}, {4, 5, 6}}),
    Tensor::FromValues<int64_t>({1, -2}),
    Tensor::FromValues<std::string>({"cat", "", "dog"}),
    Tensor::FromValues<bool>({true, false}),
    Tensor::Scalar<double>(-0.0),
};

TEST(TensorFlowMessages, StandBesideTensorcasks) {
  const google::protobuf::DescriptorPool* pool = google::protobuf::DescriptorPool::generated_pool();
  EXPECT_EQ(pool->FindMessageTypeByName("tensorflow.TensorProto"), tensorflow::TensorProto::descriptor());
  EXPECT_EQ(pool->FindMessageTypeByName("tensorcask.TensorProto"), tensorcask::TensorProto::descriptor());
  EXPECT_EQ(tensorflow::TensorProto::descriptor()->file()->name(), "tensorflow/core/framework/tensor.proto");
  EXPECT_EQ(tensorcask::TensorProto::descriptor()->file()->name(), "tensorcask/proto/tensor.proto");
}

TEST(TensorFlowMessages, RoundTrip) {
  for (const Tensor& tensor : kSamples) {
    for (const auto representation : {tensorcask::Representation::kContent, tensorcask::Representation::kValues}) {
      tensorcask::EncodeOptions options;
      options.representation = representation;
      tensorflow::TensorProto theirs;
      ASSERT_TRUE(tensorcask::EncodeTensor(tensor, options, &theirs).ok()) << tensor;
      EXPECT_EQ(static_cast<int>(theirs.dtype()), static_cast<int>(tensor.dtype()));
      EXPECT_EQ(theirs.tensor_shape().dim_size(), tensor.rank());
      EXPECT_THAT(tensorcask::DecodeTensor(theirs), TensorEq(tensor));
    }
  }
}

TEST(TensorFlowMessages, HaveTheBytesOfTensorcasks) {
  for (const Tensor& tensor : kSamples) {
    tensorflow::TensorProto theirs;
    tensorcask::TensorProto ours;
    ASSERT_TRUE(tensorcask::EncodeTensor(tensor, {}, &theirs).ok()) << tensor;
    ASSERT_TRUE(tensorcask::EncodeTensor(tensor, {}, &ours).ok()) << tensor;
    EXPECT_EQ(theirs.SerializeAsString(), ours.SerializeAsString());
    tensorflow::TensorProto parsed;
    ASSERT_TRUE(parsed.ParseFromString(ours.SerializeAsString()));
    EXPECT_THAT(tensorcask::DecodeTensor(parsed), TensorEq(tensor));
    ASSERT_TRUE(ours.ParseFromString(theirs.SerializeAsString()));
    EXPECT_THAT(tensorcask::DecodeTensor(ours), TensorEq(tensor));
  }
}

// What TensorFlow's messages have no field for stands among the unknown ones, through copying and parsing.
TEST(TensorFlowMessages, KeepMetadataAndStrides) {
  tensorcask::TensorMetadata metadata;
  metadata.name = "dense/kernel";
  metadata.attributes = {{"unit", "mm"}};
  tensorcask::EncodeOptions options;
  options.layout = tensorcask::StoredLayout::kPreserve;
  options.checksum = true;
  const tensorcask::TensorView columns = *tensorcask::TensorView(kSamples[0]).Transpose(0, 1);
  tensorflow::TensorProto theirs;
  ASSERT_TRUE(tensorcask::EncodeTensor(columns, metadata, options, &theirs).ok());
  EXPECT_EQ(theirs.dtype(), tensorflow::DT_INVALID);  // so that TensorFlow refuses an order that it would not see
  tensorflow::TensorProto parsed;
  ASSERT_TRUE(parsed.ParseFromString(theirs.SerializeAsString()));
  const tensorflow::TensorProto copied = parsed;
  const absl::StatusOr<tensorcask::DecodedTensor> decoded = tensorcask::DecodeTensorWithMetadata(copied);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->metadata, metadata);
  EXPECT_EQ(decoded->view.layout(), columns.layout());
  EXPECT_THAT(decoded->view, TensorEq(columns));
}

TEST(TensorFlowMessages, AreRefusedLikeTensorcasks) {
  tensorflow::TensorProto theirs;
  theirs.set_dtype(tensorflow::DT_FLOAT);
  theirs.mutable_tensor_shape()->add_dim()->set_size(-3);
  const absl::StatusOr<Tensor> decoded = tensorcask::DecodeTensor(theirs);
  EXPECT_EQ(decoded.status().code(), absl::StatusCode::kInvalidArgument) << decoded.status();
}

}  // namespace
