#include "tensorcask/tensor/strided/row_major.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::StatusIs;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

// The pieces joined; their largest size in *largest.
std::string Joined(const TensorView& view, size_t max_bytes, size_t* largest) {
  std::string joined;
  *largest = 0;
  EXPECT_OK(ForEachRowMajorPiece(view, max_bytes, [&](absl::string_view bytes) {
    EXPECT_FALSE(bytes.empty());
    *largest = std::max(*largest, bytes.size());
    joined.append(bytes.data(), bytes.size());
    return absl::OkStatus();
  }));
  return joined;
}

Tensor RandomBytes(DType dtype, const TensorShape& shape, uint32_t seed) {
  Tensor tensor = *Tensor::Create(dtype, shape);
  std::mt19937 random(seed);
  for (char& byte : tensor.mutable_bytes()) byte = static_cast<char>(random());
  return tensor;
}

TEST(RowMajor, PiecesOfAnySizeJoinToTheContiguousBytes) {
  std::mt19937 random(7);
  for (const DType dtype : {DType::kUint8, DType::kInt16, DType::kFloat32, DType::kFloat64, DType::kComplex128}) {
    const Tensor tensor = RandomBytes(dtype, TensorShape({3, 5, 4, 6}), 1);
    const TensorView whole(tensor);
    const TensorView views[] = {whole,
                                *whole.Permute({2, 0, 3, 1}),
                                *whole.Flip({0, 3}),
                                *whole.Slice(3, 1, 6, 2),
                                *whole.Select(2, 1),
                                *whole.Select(0, 1)->Expand({7, 5, 4, 6}),
                                *whole.Select(0, 0)->Select(0, 0)->Select(0, 0)->Select(0, 3),
                                *whole.Slice(1, 2, 2)};
    for (const TensorView& view : views) {
      const std::string wanted(view.Contiguous()->bytes());
      for (int i = 0; i < 40; ++i) {
        const size_t max_bytes = view.element_size() * (1 + random() % 400);
        SCOPED_TRACE(absl::StrCat(view.ToString(), ", pieces of ", max_bytes));
        size_t largest;
        EXPECT_EQ(Joined(view, max_bytes, &largest), wanted);
        EXPECT_LE(largest, max_bytes);
      }
      std::string out(wanted.size(), '\x55');
      ASSERT_OK(CopyRowMajor(view, absl::MakeSpan(&out[0], out.size())));
      EXPECT_EQ(out, wanted);
    }
  }
}

TEST(RowMajor, WhatIsContiguousIsNotCopied) {
  const Tensor tensor = RandomBytes(DType::kInt32, TensorShape({10, 10}), 2);
  ASSERT_OK_AND_ASSIGN(const TensorView rows, TensorView(tensor).Slice(0, 2, 7));
  const char* next = reinterpret_cast<const char*>(rows.data<int32_t>());
  ASSERT_OK(ForEachRowMajorPiece(rows, 64, [&](absl::string_view bytes) {
    EXPECT_EQ(bytes.data(), next);
    next += bytes.size();
    return absl::OkStatus();
  }));
  EXPECT_EQ(next, reinterpret_cast<const char*>(rows.data<int32_t>() + 50));
}

TEST(RowMajor, StopsAtTheFirstError) {
  const Tensor tensor = RandomBytes(DType::kInt32, TensorShape({10, 10}), 3);
  ASSERT_OK_AND_ASSIGN(const TensorView columns, TensorView(tensor).Transpose(0, 1));
  for (const TensorView& view : {TensorView(tensor), columns}) {
    int calls = 0;
    EXPECT_THAT(ForEachRowMajorPiece(view, 40,
                                     [&](absl::string_view) {
                                       return ++calls == 3 ? absl::InternalError("the third") : absl::OkStatus();
                                     }),
                StatusIs(Code::kInternal, HasSubstr("the third")));
    EXPECT_EQ(calls, 3);
  }
}

TEST(RowMajor, WithoutData) {
  ASSERT_OK_AND_ASSIGN(const Tensor sketch, Tensor::FromBuffer(DType::kInt32, TensorShape({2, 5}),
                                                               TensorBuffer::MakeWithoutData(40, "a sketch")));
  EXPECT_THAT(ForEachRowMajorPiece(sketch, 40, [](absl::string_view) { return absl::OkStatus(); }),
              StatusIs(Code::kFailedPrecondition, HasSubstr("a sketch")));
  std::string out(40, ' ');
  EXPECT_THAT(CopyRowMajor(sketch, absl::MakeSpan(&out[0], out.size())),
              StatusIs(Code::kFailedPrecondition, HasSubstr("a sketch")));
}

}  // namespace
}  // namespace tensorcask
