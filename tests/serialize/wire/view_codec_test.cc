// Strided views through the codecs: the bytes are those of the dense tensor of the same elements.

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/wire/serialized_tensor.h"
#include "tensorcask/serialize/wire/tensor_codec.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tests/serialize/wire/wire_test_util.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using testing::Difference;
using ::testing::HasSubstr;
using testing::PlainDTypes;
using testing::RandomTensor;
using testing::StatusIs;
using Code = absl::StatusCode;

std::string EncodeToString(const TensorView& view, const EncodeOptions& options) {
  const absl::StatusOr<uint64_t> size = EncodedSize(view, options);
  EXPECT_OK(size);
  std::string message(*size, '\x55');
  EXPECT_OK(EncodeTensorTo(view, options, absl::MakeSpan(&message[0], message.size())));
  return message;
}

// Views of a tensor of shape [3,4,5].
std::vector<TensorView> ViewsOf(const Tensor& tensor) {
  const TensorView whole(tensor);
  return {whole,
          *whole.Permute({2, 0, 1}),
          *whole.Flip({1}),
          *whole.Slice(2, 0, 5, 3),
          *whole.Select(1, 2),
          *whole.Narrow(0, 1, 0),
          *whole.Select(0, 1)->Expand({2, 4, 5}),
          *whole.Select(0, 2)->Select(0, 3)->Select(0, 4)};
}

class ViewOfEveryDType : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(All, ViewOfEveryDType, ::testing::ValuesIn(PlainDTypes()),
                         [](const auto& info) { return std::string(DTypeName(info.param)); });

TEST_P(ViewOfEveryDType, ViewsEncodeLikeTheDenseTensor) {
  std::mt19937_64 random(static_cast<uint64_t>(GetParam()));
  const Tensor tensor = RandomTensor(GetParam(), TensorShape({3, 4, 5}), &random);
  for (const TensorView& view : ViewsOf(tensor)) {
    ASSERT_OK_AND_ASSIGN(const Tensor dense, view.ToTensor());
    for (const Representation representation : {Representation::kContent, Representation::kValues}) {
      for (const bool checksum : {false, true}) {
        SCOPED_TRACE(absl::StrCat(view.ToString(), representation == Representation::kContent ? " content" : " values",
                                  checksum ? ", with checksum" : ""));
        const EncodeOptions options{representation, checksum};
        const std::string message = EncodeToString(view, options);
        EXPECT_EQ(message, EncodeToString(dense, options));
        TensorProto proto;
        ASSERT_OK(EncodeTensor(view, options, &proto));
        EXPECT_EQ(proto.SerializeAsString(), message);
        ASSERT_OK_AND_ASSIGN(const Tensor back, DecodeSerializedTensor(message));
        EXPECT_EQ(Difference(back, dense), "");
      }
    }
  }
}

TEST_P(ViewOfEveryDType, DecodesIntoViews) {
  std::mt19937_64 random(static_cast<uint64_t>(GetParam()));
  for (size_t i = 0; i < 6; ++i) {  // the last two have repeated elements, or none but one
    const Tensor target = RandomTensor(GetParam(), TensorShape({3, 4, 5}), &random);
    ASSERT_OK_AND_ASSIGN(const Tensor before, target.Clone());
    TensorView view = ViewsOf(target)[i];
    SCOPED_TRACE(view.ToString());
    const Tensor source = RandomTensor(GetParam(), view.shape(), &random);
    ASSERT_OK(DecodeTensorInto(EncodeToString(source, {}), {}, &view));
    ASSERT_OK_AND_ASSIGN(const Tensor read, view.ToTensor());
    EXPECT_EQ(Difference(read, source), "");
    EXPECT_TRUE(view.SharesBufferWith(target) || view.num_elements() == 0) << "in place";
    if (view.num_elements() < target.num_elements()) {
      // All that the view does not see is as it was.
      ASSERT_OK_AND_ASSIGN(TensorView expected, TensorView(before).Clone());
      TensorView part = ViewsOf(*expected.ToTensor())[i];
      ASSERT_OK(DecodeTensorInto(EncodeToString(source, {}), {}, &part));
      EXPECT_EQ(Difference(target, *expected.ToTensor()), "");
    }
  }
}

TEST(ViewCodec, RefusesToDecodeIntoRepeatedElements) {
  const Tensor tensor = Tensor::FromValues<float>({1, 2, 3});
  ASSERT_OK_AND_ASSIGN(TensorView rows, TensorView(tensor).Expand({4, 3}));
  EXPECT_THAT(DecodeTensorInto(EncodeToString(rows, {}), {}, &rows),
              StatusIs(Code::kInvalidArgument, HasSubstr("several indices for one element")));
}

TEST(ViewCodec, RefusesAnotherShape) {
  const Tensor tensor = Tensor::FromValues<float>({{1, 2, 3}, {4, 5, 6}});
  ASSERT_OK_AND_ASSIGN(TensorView columns, TensorView(tensor).Transpose(0, 1));
  EXPECT_THAT(DecodeTensorInto(EncodeToString(tensor, {}), {}, &columns),
              StatusIs(Code::kInvalidArgument, HasSubstr("float32 [2,3]; the tensor to fill is float32 [3,2]")));
}

// A view of a few bytes that claims a terabyte takes no memory before it is refused.
TEST(ViewCodec, RefusesWhatNoMessageHolds) {
  const Tensor one = Tensor::FromValues<uint8_t>({7});
  ASSERT_OK_AND_ASSIGN(const TensorView huge, TensorView(one).Expand({int64_t{1} << 40}));
  TensorProto proto;
  EXPECT_THAT(EncodeTensor(huge, {}, &proto), StatusIs(Code::kInvalidArgument, HasSubstr("a protobuf message holds")));
  ASSERT_OK_AND_ASSIGN(const uint64_t size, EncodedSize(huge, {}));
  EXPECT_GT(size, uint64_t{1} << 40);
}

TEST(ViewCodec, WithoutData) {
  ASSERT_OK_AND_ASSIGN(const Tensor sketch, Tensor::FromBuffer(DType::kInt32, TensorShape({2, 5}),
                                                               TensorBuffer::MakeWithoutData(40, "a sketch")));
  TensorProto proto;
  EXPECT_THAT(EncodeTensor(sketch, {}, &proto), StatusIs(Code::kFailedPrecondition, HasSubstr("a sketch")));
  EXPECT_THAT(EncodedSize(sketch, {}), StatusIs(Code::kFailedPrecondition, HasSubstr("a sketch")));
}

}  // namespace
}  // namespace tensorcask
