// Tensors on memory that exists: buffers, and memory of the caller.

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/support/status_matchers.h"
#include "tensorcask/tests/tensor/tensor_testing.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::ReadOnly;
using ::tensorcask::testing::StatusIs;
using ::testing::HasSubstr;
using Code = absl::StatusCode;
using Strings = std::vector<std::string>;

TEST(Tensor, FromBuffer) {
  RefPtr<TensorBuffer> buffer = *TensorBuffer::Allocate(64);
  std::memset(buffer->mutable_data(), 1, 64);
  ASSERT_OK_AND_ASSIGN(const Tensor tensor, Tensor::FromBuffer(DType::kInt16, TensorShape({3, 5}), buffer));
  EXPECT_EQ(tensor.bytes().size(), 30u) << "a buffer may be larger than the elements";
  EXPECT_EQ(tensor.TotalBytes(), 30u);
  EXPECT_EQ(tensor.AllocatedBytes(), 64u);
  EXPECT_EQ(tensor.flat<int16_t>()[14], 0x0101);
  EXPECT_FALSE(tensor.RefCountIsOne());
  buffer = nullptr;
  EXPECT_TRUE(tensor.RefCountIsOne());

  ASSERT_OK_AND_ASSIGN(const RefPtr<TensorBuffer> strings, TensorBuffer::AllocateElements<std::string>(4));
  ASSERT_OK_AND_ASSIGN(Tensor texts, Tensor::FromBuffer(DType::kString, TensorShape({4}), strings));
  texts.mutable_flat<std::string>()[3] = "last";
  EXPECT_EQ(static_cast<const std::string*>(strings->data())[3], "last");

  EXPECT_EQ(Tensor::FromBuffer(DType::kInt16, TensorShape({0}), strings)->buffer(), nullptr);
  EXPECT_EQ(Tensor::FromBuffer(DType::kString, TensorShape({0}), nullptr)->buffer(), nullptr);
}

TEST(Tensor, RefusesBuffersThatDoNotFit) {
  const RefPtr<TensorBuffer> bytes = *TensorBuffer::Allocate(64);
  const RefPtr<TensorBuffer> odd = TensorBuffer::MakeSubBuffer(bytes, 1, 63);
  const RefPtr<TensorBuffer> by_four = TensorBuffer::MakeSubBuffer(bytes, 4, 60);
  const RefPtr<TensorBuffer> strings = *TensorBuffer::AllocateElements<std::string>(4);
  const RefPtr<TensorBuffer> inside_string = TensorBuffer::MakeSubBuffer(strings, 8, 64);
  const RefPtr<TensorBuffer> numbers = *TensorBuffer::AllocateElements<int64_t>(64);
  struct Case {
    const char* name;
    DType dtype;
    TensorShape shape;
    RefPtr<TensorBuffer> buffer;
    Code code;
    const char* says;
  };
  const Case kCases[] = {
      {"Null", DType::kInt8, TensorShape({1}), nullptr, Code::kInvalidArgument, "int8 [1]: it is null"},
      {"TooSmall", DType::kInt32, TensorShape({17}), bytes, Code::kInvalidArgument, "64 bytes, but 68 are needed"},
      {"Overflow", DType::kInt32, TensorShape({(int64_t{1} << 62) + 3}), bytes, Code::kInvalidArgument, "exceeds"},
      {"Odd", DType::kInt16, TensorShape({1}), odd, Code::kInvalidArgument, "not a multiple of 2"},
      {"HalfAligned", DType::kFloat64, TensorShape({1}), by_four, Code::kInvalidArgument, "not a multiple of 8"},
      {"HalfAlignedComplex", DType::kComplex128, TensorShape({1}), by_four, Code::kInvalidArgument, "multiple of 8"},
      {"BytesAsStrings", DType::kString, TensorShape({1}), bytes, Code::kInvalidArgument, "no std::string objects"},
      {"NumbersAsStrings", DType::kString, TensorShape({1}), numbers, Code::kInvalidArgument, "no std::string objects"},
      {"StringsAsBytes", DType::kInt8, TensorShape({1}), strings, Code::kInvalidArgument, "objects, not plain bytes"},
      {"InsideString", DType::kString, TensorShape({1}), inside_string, Code::kInvalidArgument, "inside a std::string"},
      {"Variant", DType::kVariant, TensorShape({1}), numbers, Code::kInvalidArgument, "no Variant objects"},
      {"Invalid", DType::kInvalid, TensorShape({1}), bytes, Code::kInvalidArgument, "invalid"},
  };
  for (const Case& row : kCases) {
    SCOPED_TRACE(row.name);
    EXPECT_THAT(Tensor::FromBuffer(row.dtype, row.shape, row.buffer), StatusIs(row.code, HasSubstr(row.says)));
  }
  EXPECT_OK(Tensor::FromBuffer(DType::kInt8, TensorShape({63}), odd));
  EXPECT_OK(Tensor::FromBuffer(DType::kComplex64, TensorShape({7}), by_four)) << "aligned as its parts are";
}

TEST(Tensor, FromExternal) {
  alignas(64) static float values[4] = {1, 2, 3, 4};  // sanitizers do not align what is on the stack
  int released = 0;
  const auto release = [&released] { ++released; };
  {
    ASSERT_OK_AND_ASSIGN(Tensor tensor,
                         Tensor::FromExternal(DType::kFloat32, TensorShape({2, 2}), values, 16, release));
    EXPECT_EQ(tensor.data<float>(), values);
    EXPECT_FALSE(tensor.RefCountIsOne()) << "not ours";
    EXPECT_TRUE(tensor.IsAligned());
    tensor.mutable_matrix<float>()(1, 1) = 9;
    EXPECT_EQ(values[3], 9) << "written in place";
    const Tensor row = *tensor.SubSlice(1);
    EXPECT_FALSE(row.IsAligned());
    tensor = Tensor();
    EXPECT_EQ(released, 0);
  }
  EXPECT_EQ(released, 1);
  EXPECT_OK(Tensor::FromExternal(DType::kFloat32, TensorShape({4}), values, 16, nullptr));
}

TEST(Tensor, FromExternalReleasesAtOnceWhenItRefuses) {
  alignas(8) char memory[16] = {};
  struct Case {
    const char* name;
    DType dtype;
    std::vector<int64_t> dims;
    void* data;
    size_t size_bytes;
    Code code;
  };
  const Case kCases[] = {
      {"TooSmall", DType::kFloat32, {4}, memory, 15, Code::kInvalidArgument},
      {"Misaligned", DType::kFloat32, {1}, memory + 1, 15, Code::kInvalidArgument},
      {"Null", DType::kFloat32, {1}, nullptr, 16, Code::kInvalidArgument},
      {"Strings", DType::kString, {0}, memory, 16, Code::kOk},
      {"StringsFromBytes", DType::kString, {1}, memory, SIZE_MAX, Code::kInvalidArgument},
      {"ResourceFromBytes", DType::kResource, {1}, memory, SIZE_MAX, Code::kInvalidArgument},
      {"Overflow", DType::kFloat64, {INT64_MAX}, memory, SIZE_MAX, Code::kInvalidArgument},
      {"NoElements", DType::kFloat32, {0}, nullptr, 0, Code::kOk},
      {"NullWithSizeButNoElements", DType::kFloat32, {3, 0}, nullptr, 16, Code::kOk},
  };
  for (const Case& row : kCases) {
    SCOPED_TRACE(row.name);
    int released = 0;
    const absl::StatusOr<Tensor> tensor = Tensor::FromExternal(row.dtype, *TensorShape::Create(row.dims), row.data,
                                                               row.size_bytes, [&released] { ++released; });
    EXPECT_THAT(tensor, StatusIs(row.code));
    EXPECT_EQ(released, 1) << "no tensor uses the memory";
  }
}

TEST(Tensor, ReadOnlyMemoryIsCopiedOnTheFirstWrite) {
  std::vector<uint8_t> memory(64);
  ASSERT_OK_AND_ASSIGN(Tensor tensor, Tensor::FromBuffer(DType::kUint8, TensorShape({8, 8}), ReadOnly(&memory)));
  const Tensor alias = tensor;
  Tensor row = *tensor.SubSlice(2);
  EXPECT_EQ(row.data<uint8_t>(), memory.data() + 16);
  row.mutable_flat<uint8_t>()[0] = 255;
  EXPECT_EQ(memory[16], 16) << "the original is not written";
  EXPECT_EQ(alias.matrix<uint8_t>()(2, 0), 255) << "every tensor on this root sees the copy";
  EXPECT_EQ(tensor.data<uint8_t>() + 16, row.data<uint8_t>());
  EXPECT_EQ(alias.matrix<uint8_t>()(7, 7), 63);
}

}  // namespace
}  // namespace tensorcask
