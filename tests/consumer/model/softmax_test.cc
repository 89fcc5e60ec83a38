// How a project tests its own functions with Tensorcask's matchers and with tensors in files.

#include "model/softmax.h"

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tests/fixture/load_fixture.h"
#include "tensorcask/tests/fixture/matchers.h"
#include "tensorcask/tests/fixture/text_tensor.h"

namespace {

using model::Softmax;
using tensorcask::Tensor;
using tensorcask::testing::HasDType;
using tensorcask::testing::HasShape;
using tensorcask::testing::LoadFixture;
using tensorcask::testing::MatchesFixture;
using tensorcask::testing::ParseTextTensor;
using tensorcask::testing::TensorEq;
using tensorcask::testing::TensorNear;
using testing::AllOf;
using testing::ElementsAre;
using testing::Ge;

// Values beside the code: as text, or as literals.
TEST(Softmax, OfEqualLogitsIsUniform) {
  EXPECT_THAT(Softmax(Tensor::FromValues<float>({{7, 7, 7, 7}})), TensorEq("float32 [1,4] 0.25 0.25 0.25 0.25"));
  EXPECT_THAT(Softmax(*ParseTextTensor("float32 [2,2]: [[0 0] [1000 1000]]")),
              TensorNear(Tensor::FromValues<float>({{0.5, 0.5}, {0.5, 0.5}}), /*rtol=*/1e-6, /*atol=*/0));
}

// Values in files: what goes in, and what came out when it was last looked at. After a wanted change:
//   UPDATE_FIXTURES=1 bazel run //model:softmax_test
TEST(Softmax, OfRealLogitsIsWhatItWas) {
  const absl::StatusOr<Tensor> logits = LoadFixture("model/testdata/logits.textproto");
  ASSERT_TRUE(logits.ok()) << logits.status();
  EXPECT_THAT(Softmax(*logits), AllOf(HasDType(logits->dtype()), HasShape(ElementsAre(2, Ge(1)))));
  EXPECT_TRUE(MatchesFixture(Softmax(*logits), "model/testdata/softmax.txt", /*rtol=*/1e-5, /*atol=*/1e-7));
}

TEST(Softmax, IsOfMatricesOfFloats) {
  EXPECT_EQ(Softmax(Tensor::Scalar(1.0F)).status().code(), absl::StatusCode::kInvalidArgument);
}

// What a failing test shows.
TEST(Softmax, WouldShowWhereItIsWrong) {
  const absl::StatusOr<Tensor> probabilities = Softmax(Tensor::FromValues<float>({{0, 0}}));
  testing::StringMatchResultListener why;
  EXPECT_FALSE(testing::ExplainMatchResult(TensorNear("float32 [1,2] 0.5 0.75", 0.125, 0), probabilities, &why));
  EXPECT_EQ(why.str(),
            "which is too far in 1 of 2 elements; the first is [0,1]: 0.5, expected 0.75 (0.25 apart, 0.09375 "
            "allowed); the largest difference is 0.25, at [0,1]");
}

}  // namespace
