#include "tensorcask/tensor/strided/row_major_range.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tensor/strided/layout.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

Tensor RandomBytes(DType dtype, const TensorShape& shape, uint32_t seed) {
  Tensor tensor = *Tensor::Create(dtype, shape);
  std::mt19937 random(seed);
  for (char& byte : tensor.mutable_bytes()) byte = static_cast<char>(random());
  return tensor;
}

std::vector<TensorView> Views(const TensorView& whole) {
  return {whole,
          *whole.Permute({2, 0, 3, 1}),
          *whole.Flip({0, 3}),
          *whole.Slice(3, 1, 6, 2),
          *whole.Slice(2, std::nullopt, std::nullopt, -3),
          *whole.Select(2, 1),
          *whole.Select(0, 1)->Expand({7, 5, 4, 6}),
          *whole.Narrow(1, 2, 1),
          *whole.Select(0, 0)->Select(0, 0)->Select(0, 0)->Select(0, 3)};
}

TEST(RowMajorRange, AnyRangeIsThatPartOfTheContiguousBytes) {
  std::mt19937 random(7);
  for (const DType dtype : {DType::kUint8, DType::kInt16, DType::kFloat32, DType::kComplex128}) {
    for (const TensorView& view : Views(RandomBytes(dtype, TensorShape({3, 5, 4, 6}), 1))) {
      const std::string all(view.Contiguous()->bytes());
      const size_t bytes = view.element_size();
      for (int i = 0; i < 60; ++i) {
        const int64_t begin = random() % (view.num_elements() + 1);
        const int64_t count = random() % (view.num_elements() - begin + 1);
        SCOPED_TRACE(absl::StrCat(view.ToString(), " from ", begin, ", ", count));
        std::string out(count * bytes + 2, '\x55');
        CopyRowMajorRange(view, begin, absl::MakeSpan(&out[1], count * bytes));
        EXPECT_EQ(out, absl::StrCat("\x55", all.substr(begin * bytes, count * bytes), "\x55"));
      }
    }
  }
}

// Assigning range by range is assigning all.
TEST(RowMajorRange, RangesOfAWindowGoToAnyLayout) {
  std::mt19937 random(8);
  for (const TensorView& view : Views(RandomBytes(DType::kInt32, TensorShape({3, 5, 4, 6}), 2))) {
    if (view.layout().HasInternalOverlap()) continue;
    SCOPED_TRACE(view.ToString());
    const Tensor source = RandomBytes(DType::kInt32, view.shape(), 3);
    TensorView target = *view.Clone();
    target = *TensorView::Create(*TensorBuffer::Allocate(view.buffer()->size_bytes()), view.dtype(), view.layout());
    char* const to = static_cast<char*>(target.buffer()->mutable_data());
    const Layout dense = Layout::RowMajor(view.shape());
    for (int64_t begin = 0; begin < view.num_elements();) {
      const int64_t end = std::min<int64_t>(view.num_elements(), begin + 1 + random() % 50);
      const std::string window(source.bytes().substr(begin * 4, (end - begin) * 4));
      CopyRange(DType::kInt32, {dense, window.data(), begin}, {target.layout(), to}, begin, end);
      begin = end;
    }
    EXPECT_EQ(target.Contiguous()->bytes(), source.bytes());
  }
}

TEST(RowMajorRange, ElementNumberIsWhereAnElementLies) {
  Tensor numbers = *Tensor::Create(DType::kInt64, TensorShape({3, 5, 4, 6}));
  for (int64_t i = 0; i < numbers.num_elements(); ++i) numbers.mutable_data<int64_t>()[i] = i;
  for (const TensorView& view : Views(numbers)) {
    const TensorView dense = *view.Contiguous();
    for (int64_t i = 0; i < view.num_elements(); ++i) {
      ASSERT_EQ(ElementNumber(view.layout(), i), dense.data<int64_t>()[i]) << view << " " << i;
    }
  }
}

TEST(RowMajorRange, TakesManyAxesAndNoElements) {
  const std::vector<int64_t> dims(60, 1);
  const Tensor one = RandomBytes(DType::kInt32, *TensorShape::Create(dims), 4);
  std::string out(4, '\0');
  CopyRowMajorRange(one, 0, absl::MakeSpan(&out[0], 4));
  EXPECT_EQ(out, one.bytes());
  CopyRowMajorRange(*Tensor::Create(DType::kInt32, TensorShape({0, 3})), 0, {});
}

}  // namespace
}  // namespace tensorcask
