// Fill, of copy.h.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/dtype_visit.h"
#include "tensorcask/tensor/strided/copy.h"
#include "tensorcask/tensor/strided/layout.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/support/status_matchers.h"
#include "tensorcask/tests/tensor/strided/layout_model.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::Model;
using ::tensorcask::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

// The bytes of a T whose sizeof(T) bytes are 1, 2, 3 ... (a bool is 1).
template <typename T>
T Patterned() {
  T value;
  char bytes[sizeof(T)];
  for (size_t i = 0; i < sizeof(T); ++i) bytes[i] = static_cast<char>(i + 1);
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

TEST(Fill, AssignsEachElementOfAnyDType) {
  const Layout layouts[] = {
      Layout::RowMajor(TensorShape({200})),
      Layout::RowMajor(TensorShape({})),
      *Layout::Create({7, 70}, {80, 1}, 3),          // rows with gaps
      *Layout::Create({70, 7}, {1, 80}, 0),          // columns
      *Layout::Create({100}, {-3}, 299),             // backwards, with gaps
      *Layout::Create({3, 0, 2}, {1, 5, 9}, 0),      // no elements
      *Layout::Create({2, 3, 4}, {-12, 4, -1}, 15),  // flipped
  };
  int num_dtypes = 0;
  for (int number = 0; number < 256; ++number) {
    const std::optional<DType> dtype = DTypeFromNumber(number);
    if (!dtype || !IsFixedSize(*dtype)) continue;
    ++num_dtypes;
    for (const Layout& layout : layouts) {
      EXPECT_OK(VisitDType(*dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        const Tensor memory = *Tensor::Zeros(*dtype, TensorShape({700}));
        TensorView view = *TensorView::Create(memory.buffer(), *dtype, layout);
        std::vector<char> wanted(700 * sizeof(T));
        for (const int64_t place : Model::Of(layout).places) {
          const T value = Patterned<T>();
          std::memcpy(&wanted[static_cast<size_t>(place) * sizeof(T)], &value, sizeof(T));
        }
        const absl::Status status = Fill(Patterned<T>(), &view);
        EXPECT_TRUE(std::equal(wanted.begin(), wanted.end(), memory.buffer()->bytes().begin()))
            << DTypeName(*dtype) << " " << layout;
        return status;
      }));
    }
  }
#define CASK_ONE(id, number, T, name) +1
  EXPECT_EQ(num_dtypes, 0 CASK_FIXED_SIZE_DTYPES(CASK_ONE));
#undef CASK_ONE
}

TEST(Fill, KeepsBits) {
  TensorView view = *Tensor::Zeros(DType::kFloat32, TensorShape({100}));
  uint32_t bits = 0x7fa12345;  // a signalling NaN with a payload
  float nan;
  std::memcpy(&nan, &bits, sizeof(nan));
  ASSERT_OK(Fill(nan, &view));
  for (int i = 0; i < 100; ++i) {
    std::memcpy(&bits, view.data<float>() + i, sizeof(bits));
    EXPECT_EQ(bits, 0x7fa12345u) << i;
  }
  ASSERT_OK(Fill(-0.0f, &view));
  std::memcpy(&bits, view.data<float>() + 99, sizeof(bits));
  EXPECT_EQ(bits, 0x80000000u);
}

TEST(Fill, AssignsStrings) {
  const Tensor tensor = *Tensor::FromValues<std::string>({"a", "b", "c", "d"}).Reshape(TensorShape({2, 2}));
  TensorView column = *TensorView(tensor).Select(1, 1);
  const std::string text("\0 and a text that takes memory of its own", 41);
  ASSERT_OK(Fill(text, &column));
  EXPECT_THAT(std::vector<std::string>(tensor.data<std::string>(), tensor.data<std::string>() + 4),
              ElementsAre("a", text, "c", text));
}

TEST(Fill, TakesAnElementOfTheDestination) {
  const Tensor numbers = Tensor::FromValues<double>({{1, 2}, {3, 4}});
  TensorView view = numbers;
  ASSERT_OK(Fill(view.data<double>()[3], &view));
  EXPECT_THAT(std::vector<double>(numbers.data<double>(), numbers.data<double>() + 4), ElementsAre(4, 4, 4, 4));
  const Tensor strings = Tensor::FromValues<std::string>({"a text that takes memory of its own", "b"});
  TensorView texts = strings;
  ASSERT_OK(Fill(texts.data<std::string>()[0], &texts));
  EXPECT_EQ(strings.data<std::string>()[1], "a text that takes memory of its own");
}

TEST(Fill, IsTheSameOnSeveralThreads) {
  const Tensor memory = *Tensor::Zeros(DType::kInt16, TensorShape({1000, 1003}));
  TensorView part = *TensorView(memory).Slice(1, 1, 1001);
  ASSERT_OK(Fill(int16_t{0x1234}, &part, {/*num_threads=*/4}));
  const int16_t* const elements = memory.data<int16_t>();
  int64_t wrong = 0;
  for (int64_t i = 0; i < memory.num_elements(); ++i) {
    const bool inside = i % 1003 >= 1 && i % 1003 < 1001;
    wrong += elements[i] != (inside ? 0x1234 : 0);
  }
  EXPECT_EQ(wrong, 0);
}

TEST(Fill, RefusesAnotherType) {
  TensorView view = *Tensor::Zeros(DType::kFloat32, TensorShape({2, 3}));
  EXPECT_THAT(Fill(1.5, &view),
              StatusIs(Code::kInvalidArgument, AllOf(HasSubstr("float32 [2,3]"), HasSubstr("float64"))));
  EXPECT_THAT(Fill(std::string("x"), &view),
              StatusIs(Code::kInvalidArgument, AllOf(HasSubstr("float32 [2,3]"), HasSubstr("string"))));
  TensorView texts = *Tensor::Zeros(DType::kString, TensorShape({2}));
  EXPECT_THAT(Fill(1, &texts), StatusIs(Code::kInvalidArgument, AllOf(HasSubstr("string [2]"), HasSubstr("int32"))));
  EXPECT_EQ(view.data<float>()[0], 0);
}

}  // namespace
}  // namespace tensorcask
