// Tensorcask seen from another project, which owns a tensor/shape.h and a proto/tensor.proto, too.

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "proto/tensor.pb.h"
#include "tensor/shape.h"
#include "tensorcask/proto/tensor.pb.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/checkpoint/checkpoint_writer.h"
#include "tensorcask/serialize/wire/tensor_codec.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/tensor.h"

namespace {

TEST(Consumer, OwnsAHeaderOfTheSamePath) {
  const TensorShape ours;
  EXPECT_EQ(ours.Owner(), "consumer");
  const tensorcask::TensorShape theirs({2, 3});
  EXPECT_EQ(theirs.num_elements(), 6);
}

TEST(Consumer, OwnsAProtoOfTheSamePath) {
  consumer::TensorProto ours;
  ours.set_owner("consumer");
  tensorcask::TensorProto theirs;
  theirs.set_version_number(1);
  EXPECT_EQ(ours.GetDescriptor()->file()->name(), "proto/tensor.proto");
  EXPECT_EQ(theirs.GetDescriptor()->file()->name(), "tensorcask/proto/tensor.proto");
}

TEST(Consumer, SavesAndLoadsATensor) {
  const auto saved = tensorcask::Tensor::FromValues<float>({{1, 2, 3}, {4, 5, 6}});
  const std::string prefix = testing::TempDir() + "/model";
  {
    absl::StatusOr<tensorcask::CheckpointWriter> writer = tensorcask::CheckpointWriter::Create(prefix);
    ASSERT_TRUE(writer.ok()) << writer.status();
    ASSERT_TRUE(writer->Add("dense/kernel", saved).ok());
    ASSERT_TRUE(writer->Finish().ok());
  }
  absl::StatusOr<tensorcask::CheckpointReader> reader = tensorcask::CheckpointReader::Open(prefix);
  ASSERT_TRUE(reader.ok()) << reader.status();
  absl::StatusOr<tensorcask::Tensor> loaded = reader->Read("dense/kernel");
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->shape(), tensorcask::TensorShape({2, 3}));
  EXPECT_EQ(loaded->flat<float>()[5], 6.0F);
}

TEST(Consumer, EncodesAndDecodesATensor) {
  tensorcask::TensorProto message;
  ASSERT_TRUE(tensorcask::EncodeTensor(tensorcask::Tensor::FromValues<int64_t>({1, -2}), {}, &message).ok());
  absl::StatusOr<tensorcask::Tensor> decoded = tensorcask::DecodeTensor(message);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->flat<int64_t>()[1], -2);
}

}  // namespace
