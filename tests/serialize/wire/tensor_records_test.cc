#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/io/byte_sink.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/byte_stream.h"
#include "tensorcask/serialize/wire/codec_options.h"
#include "tensorcask/serialize/wire/decoded_tensor.h"
#include "tensorcask/serialize/wire/records.h"
#include "tensorcask/serialize/wire/tensor_records.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/metadata.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/serialize/wire/records_testing.h"
#include "tensorcask/tests/support/failing_allocator.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::FailingAllocator;
using ::tensorcask::testing::StatusIs;
using ::tensorcask::testing::Trickle;
using ::tensorcask::testing::Written;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

TEST(TensorRecords, ComeBack) {
  const Tensor matrix = Tensor::FromValues<float>({{1, 2, 3}, {4, 5, 6}});
  const Tensor words = Tensor::FromValues<std::string>({"a", ""});
  std::string bytes;
  StringSink sink(&bytes);
  RecordWriter writer(&sink);
  EXPECT_OK(WriteTensorRecord(*TensorView(matrix).Transpose(0, 1), {}, &writer));
  EXPECT_OK(WriteTensorRecord(words, {Representation::kValues, true}, &writer));
  RecordReader reader(MakeMemorySource("stream", bytes));
  ASSERT_OK_AND_ASSIGN(const std::optional<Tensor> first, ReadTensorRecord(&reader));
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->ToString(), "float32 [3,2]: [[1 4] [2 5] [3 6]]");
  ASSERT_OK_AND_ASSIGN(const std::optional<Tensor> second, ReadTensorRecord(&reader));
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(second->ToString(), words.ToString());
  ASSERT_OK_AND_ASSIGN(const std::optional<Tensor> end, ReadTensorRecord(&reader));
  EXPECT_FALSE(end.has_value());
}

TEST(TensorRecords, ComeBackWithMetadata) {
  const Tensor matrix = Tensor::FromValues<float>({{1, 2, 3}, {4, 5, 6}});
  TensorMetadata metadata;
  metadata.name = "w";
  metadata.attributes["unit"] = "m";
  EncodeOptions preserve;
  preserve.layout = StoredLayout::kPreserve;
  std::string bytes;
  StringSink sink(&bytes);
  RecordWriter writer(&sink);
  EXPECT_OK(WriteTensorRecord(*TensorView(matrix).Transpose(0, 1), metadata, preserve, &writer));
  RecordReader reader(std::make_unique<Trickle>(bytes, 1));
  ASSERT_OK_AND_ASSIGN(const std::optional<DecodedTensor> tensor, ReadTensorRecordWithMetadata(&reader));
  ASSERT_TRUE(tensor.has_value());
  EXPECT_EQ(tensor->metadata, metadata);
  EXPECT_THAT(tensor->view.strides(), ElementsAre(1, 3));
  ASSERT_OK_AND_ASSIGN(const std::optional<DecodedTensor> end, ReadTensorRecordWithMetadata(&reader));
  EXPECT_FALSE(end.has_value());
}

TEST(TensorRecords, ALargeTensorIsInMemoryOnce) {
  constexpr int64_t kElements = 1 << 17;  // 1 MiB
  const auto write = [](int64_t first, const std::string& name, RecordWriter* writer) {
    Tensor tensor = *Tensor::Create(DType::kInt64, TensorShape({kElements}));
    for (int64_t& x : tensor.mutable_flat<int64_t>()) x = first++;
    TensorMetadata metadata;
    metadata.name = name;
    EXPECT_OK(WriteTensorRecord(tensor, metadata, {}, writer));
  };
  for (size_t length = 0; length < 9; ++length) {  // so that the elements are at any alignment
    SCOPED_TRACE(length);
    std::string bytes;
    StringSink sink(&bytes);
    RecordWriter writer(&sink);
    write(0, std::string(length, 'n'), &writer);
    write(7, std::string(length, 'm'), &writer);
    EXPECT_OK(WriteTensorRecord(Tensor::Scalar<int32_t>(7), {}, &writer));
    const auto allocator = MakeRef<FailingAllocator>();
    RecordReaderOptions options;
    options.allocator = allocator;
    DecodeOptions decode;
    decode.allocator = allocator;
    RecordReader reader(std::make_unique<Trickle>(bytes, 4095), options);

    ASSERT_OK_AND_ASSIGN(std::optional<DecodedTensor> first, ReadTensorRecordWithMetadata(&reader, decode));
    EXPECT_LE(allocator->live_bytes(), (1 << 20) + 8192);
    int64_t* const elements = first->view.mutable_data<int64_t>();
    EXPECT_LE(allocator->live_bytes(), (1 << 20) + 8192) << "it may be written where it is";
    elements[0] = -1;
    ASSERT_OK_AND_ASSIGN(std::optional<DecodedTensor> second, ReadTensorRecordWithMetadata(&reader, decode));
    EXPECT_LE(allocator->live_bytes(), (2 << 20) + 8192);
    ASSERT_OK_AND_ASSIGN(const std::optional<DecodedTensor> third, ReadTensorRecordWithMetadata(&reader, decode));
    EXPECT_EQ(first->metadata.name, std::string(length, 'n'));
    EXPECT_EQ(second->metadata.name, std::string(length, 'm'));
    EXPECT_EQ(elements[0], -1);
    for (int64_t i = 1; i < kElements; ++i) ASSERT_EQ(elements[i], i);
    for (int64_t i = 0; i < kElements; ++i) ASSERT_EQ(second->view.data<int64_t>()[i], 7 + i);
    EXPECT_EQ(third->view.data<int32_t>()[0], 7);
    ASSERT_OK_AND_ASSIGN(const std::optional<DecodedTensor> end, ReadTensorRecordWithMetadata(&reader, decode));
    EXPECT_FALSE(end.has_value());
    first.reset();
    second.reset();
    EXPECT_LE(allocator->live_bytes(), 300 << 10);
  }
}

// A little content in a long record does not keep all of it.
TEST(TensorRecords, WhatIsNotOfTheTensorIsNotKept) {
  const std::string message = std::string("\x08\x06\x12\x00\x22\x01\x07", 7) +     // int8, a scalar
                              "\xfa\x7f\x80\x80\x40" + std::string(1 << 20, 'x');  // an unknown field
  const auto allocator = MakeRef<FailingAllocator>();
  RecordReaderOptions options;
  options.allocator = allocator;
  DecodeOptions decode;
  decode.allocator = allocator;
  std::optional<DecodedTensor> tensor;
  {
    const std::string bytes = Written({message});
    RecordReader reader(MakeMemorySource("stream", bytes), options);
    ASSERT_OK_AND_ASSIGN(tensor, ReadTensorRecordWithMetadata(&reader, decode));
  }
  EXPECT_LE(allocator->live_bytes(), 4096);
}

TEST(TensorRecords, NameTheRecordThatIsNoTensor) {
  std::string bytes = Written({"\xff"});
  StringSink sink(&bytes);
  RecordWriter writer(&sink);
  EXPECT_OK(WriteTensorRecord(Tensor::Scalar<int32_t>(7), {}, &writer));
  RecordReader reader(MakeMemorySource("stream", bytes));
  EXPECT_THAT(ReadTensorRecord(&reader), StatusIs(Code::kDataLoss, HasSubstr("stream: record at 0: ")));
  ASSERT_OK_AND_ASSIGN(const std::optional<Tensor> next, ReadTensorRecord(&reader));  // that record was whole
  ASSERT_TRUE(next.has_value());
  EXPECT_EQ(next->scalar<int32_t>(), 7);
}

TEST(TensorRecords, NothingIsWrittenOfATensorThatCannotBe) {
  std::string bytes;
  StringSink sink(&bytes);
  RecordWriter writer(&sink);
  const auto nowhere = TensorBuffer::MakeWithoutData(4, "the data are elsewhere");
  ASSERT_OK_AND_ASSIGN(const TensorView view,
                       TensorView::Create(nowhere, DType::kFloat32, Layout::RowMajor(TensorShape({1}))));
  EXPECT_THAT(WriteTensorRecord(view, {}, &writer), StatusIs(Code::kFailedPrecondition, HasSubstr("elsewhere")));
  EXPECT_EQ(bytes, "");
}

}  // namespace
}  // namespace tensorcask
