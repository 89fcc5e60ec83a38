// V1 checkpoints made by hand.

#ifndef TENSORCASK_TESTS_SERIALIZE_CHECKPOINT_V1_TESTING_H_
#define TENSORCASK_TESTS_SERIALIZE_CHECKPOINT_V1_TESTING_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "tensorcask/proto/tensor.pb.h"
#include "tensorcask/proto/tensor_slice.pb.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/checkpoint/format/slice_key.h"
#include "tensorcask/serialize/checkpoint/read/v1_reader.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/wire/slice_codec.h"
#include "tensorcask/serialize/wire/tensor_codec.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/serialize/checkpoint/checkpoint_testing.h"
#include "tensorcask/tests/serialize/checkpoint/forge.h"
#include "tensorcask/tests/serialize/wire/wire_test_util.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask::testing {

using Content = std::map<std::string, std::string>;  // the content of a table
using Opened = absl::StatusOr<std::unique_ptr<checkpoint::ReaderImpl>>;
inline std::string SliceMessage(const TensorSlice& slice) {
  TensorSliceProto proto;
  EncodeSlice(slice, &proto);
  return proto.SerializeAsString();
}

// A TensorProto of typed values alone.
inline std::string Values(const TensorView& view) {
  TensorProto proto;
  EncodeOptions options;
  options.representation = Representation::kValues;
  EXPECT_OK(EncodeTensor(view, options, &proto));
  proto.clear_dtype();
  proto.clear_tensor_shape();
  return proto.SerializeAsString();
}

// Field `tensor` of the list. `slices` are TensorSliceProto messages.
inline std::string Listed(const std::string& name, int64_t dtype, const std::vector<int64_t>& dims,
                          const std::vector<std::string>& slices) {
  std::string message = BytesField(1, name) + testing::ShapeField(dims) + VarintField(3, static_cast<uint64_t>(dtype));
  for (const std::string& slice : slices) message += BytesField(4, slice);
  return BytesField(1, message);
}

// The value under the empty key, of fields that Listed gives.
inline std::string List(const std::string& listed) { return BytesField(1, listed + BytesField(2, VarintField(1, 1))); }

// The value under another key.
inline std::string Piece(const std::string& name, const std::string& slice, const std::string& values) {
  return BytesField(2, BytesField(1, name) + BytesField(2, slice) + BytesField(3, values));
}

inline std::vector<int64_t> Dims(const TensorShape& shape) {
  const auto dims = shape.dims();
  return {dims.begin(), dims.end()};
}

// Tensors, each cut into slices.
class V1Content {
 public:
  void Add(const std::string& name, const Tensor& tensor, const std::vector<TensorSlice>& slices) {
    std::vector<std::string> messages;
    for (const TensorSlice& slice : slices) {
      TensorView part = tensor;
      for (int axis = 0; axis < slice.rank(); ++axis) {
        const TensorSlice::Extent& extent = slice.extent(axis);
        if (!extent.full()) part = *part.Narrow(axis, extent.start, extent.length);
      }
      messages.push_back(SliceMessage(slice));
      content_[checkpoint::EncodeSliceKey(name, slice)] = Piece(name, messages.back(), Values(part));
    }
    listed_ += Listed(name, static_cast<int64_t>(tensor.dtype()), Dims(tensor.shape()), messages);
  }
  void Add(const std::string& name, const Tensor& tensor) { Add(name, tensor, {TensorSlice::Full(tensor.rank())}); }

  Content Finish() const {
    Content all = content_;
    all[""] = List(listed_);
    return all;
  }

 private:
  Content content_;
  std::string listed_;
};

// A file in memory, and what reads it.
struct OpenFile {
  explicit OpenFile(std::string file_bytes, const CheckpointReaderOptions& options = {})
      : bytes(std::move(file_bytes)),
        reader(checkpoint::OpenV1Checkpoint(MakeMemorySource("m.ckpt", bytes), options)) {}
  explicit OpenFile(const Content& content, const CheckpointReaderOptions& options = {})
      : OpenFile(IndexOf(content), options) {}
  checkpoint::ReaderImpl& operator*() const { return **reader; }
  checkpoint::ReaderImpl* operator->() const { return reader->get(); }

  std::string bytes;
  Opened reader;
};

inline std::vector<CheckpointDamage> DamageOf(const checkpoint::ReaderImpl& reader, int64_t whole) {
  std::vector<CheckpointDamage> all;
  const auto counts =
      reader.VerifyAll(/*verify_bundle=*/nullptr, [&](const CheckpointDamage& damage) { all.push_back(damage); });
  EXPECT_OK(counts);
  if (counts.ok()) {
    EXPECT_EQ(counts->whole, whole);
  }
  return all;
}

inline TensorSlice Slice(const std::string& text) { return *TensorSlice::Parse(text); }

// [4,10] of int32: 0 to 39.
inline Tensor Grid() {
  Tensor tensor = *Tensor::Create(DType::kInt32, TensorShape({4, 10}));
  for (int32_t i = 0; i < 40; ++i) tensor.mutable_flat<int32_t>()[i] = i;
  return tensor;
}

}  // namespace tensorcask::testing

#endif  // TENSORCASK_TESTS_SERIALIZE_CHECKPOINT_V1_TESTING_H_
