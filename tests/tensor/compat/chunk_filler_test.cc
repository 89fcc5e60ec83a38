#include "tensorcask/tensor/compat/chunk_filler.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/compat/resizable.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/support/failing_allocator.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::FailingAllocator;
using ::tensorcask::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Code = absl::StatusCode;
using Range = ChunkFiller::Range;
using Ints = std::vector<int32_t>;

ResizableTensor OfShape(absl::Span<const int64_t> dims) {
  ResizableTensor tensor;
  EXPECT_OK(tensor.Resize(dims));
  return tensor;
}

absl::Status WriteInts(ChunkFiller& filler, int64_t begin, const Ints& values) {
  return filler.Write<int32_t>(begin, values);
}

TEST(ChunkFiller, ChunksInAnyOrder) {
  ResizableTensor tensor = OfShape({2, 4});
  ASSERT_OK_AND_ASSIGN(ChunkFiller filler, ChunkFiller::Create(&tensor, DType::kInt32));
  EXPECT_THAT(filler.Missing(10), ElementsAre(Range{0, 8}));
  ASSERT_OK(WriteInts(filler, 5, {50, 60}));
  EXPECT_THAT(filler.Missing(10), ElementsAre(Range{0, 5}, Range{7, 8}));
  EXPECT_THAT(filler.Missing(1), ElementsAre(Range{0, 5}));
  ASSERT_OK(WriteInts(filler, 0, {0, 10}));
  ASSERT_OK(WriteInts(filler, 7, {70}));
  EXPECT_EQ(filler.num_missing(), 3);
  EXPECT_THAT(filler.Finish(), StatusIs(Code::kFailedPrecondition, HasSubstr("3 of 8 elements are missing: [2, 5)")));
  ASSERT_OK(WriteInts(filler, 2, {20, 30, 40}));
  EXPECT_TRUE(filler.IsComplete());
  EXPECT_THAT(filler.Missing(10), IsEmpty());
  ASSERT_OK_AND_ASSIGN(const Tensor done, filler.Finish());
  EXPECT_EQ(done.shape(), TensorShape({2, 4}));
  EXPECT_THAT(Ints(done.data<int32_t>(), done.data<int32_t>() + 8), ElementsAre(0, 10, 20, 30, 40, 50, 60, 70));
  EXPECT_EQ(*tensor.Data<int32_t>(), done.data<int32_t>()) << "the memory of the tensor it was made for";
}

struct RejectCase {
  const char* name;
  int64_t begin;
  size_t count;
  Code code;
  const char* says;
};

// Into ten elements of which [2, 4) and [6, 8) have arrived.
const RejectCase kRejected[] = {
    {"Twice", 2, 2, Code::kAlreadyExists, "elements [2, 4): of those [2, 4) have arrived"},
    {"Inside", 3, 1, Code::kAlreadyExists, "of those [2, 4) have arrived"},
    {"Around", 1, 4, Code::kAlreadyExists, "elements [1, 5): of those [2, 4) have arrived"},
    {"BeginsInside", 3, 2, Code::kAlreadyExists, "of those [2, 4)"},
    {"EndsInside", 0, 3, Code::kAlreadyExists, "of those [2, 4)"},
    {"EndsInsideTheSecond", 4, 3, Code::kAlreadyExists, "elements [4, 7): of those [6, 8)"},
    {"All", 0, 10, Code::kAlreadyExists, "elements [0, 10): of those [2, 4)"},
    {"Behind", 10, 1, Code::kOutOfRange, "1 elements from number 10 for a tensor of 10"},
    {"PastTheEnd", 9, 2, Code::kOutOfRange, "2 elements from number 9"},
    {"Negative", -1, 1, Code::kOutOfRange, "from number -1"},
    {"NegativeNone", -1, 0, Code::kOutOfRange, "from number -1"},
    {"Min", INT64_MIN, 1, Code::kOutOfRange, "from number -9223372036854775808"},
    {"Max", INT64_MAX, 2, Code::kOutOfRange, "from number 9223372036854775807"},
};

class ChunkFillerRejects : public ::testing::TestWithParam<RejectCase> {};

TEST_P(ChunkFillerRejects, WithCodeAndMessageAndNothingChanges) {
  ResizableTensor tensor = OfShape({10});
  ASSERT_OK_AND_ASSIGN(ChunkFiller filler, ChunkFiller::Create(&tensor, DType::kInt32));
  std::fill_n(*tensor.MutableData<int32_t>(), 10, -1);
  ASSERT_OK(WriteInts(filler, 2, {2, 3}));
  ASSERT_OK(WriteInts(filler, 6, {6, 7}));
  EXPECT_THAT(WriteInts(filler, GetParam().begin, Ints(GetParam().count, 99)),
              StatusIs(GetParam().code, HasSubstr(GetParam().says)));
  EXPECT_THAT(Ints(*tensor.Data<int32_t>(), *tensor.Data<int32_t>() + 10),
              ElementsAre(-1, -1, 2, 3, -1, -1, 6, 7, -1, -1));
  EXPECT_THAT(filler.Missing(10), ElementsAre(Range{0, 2}, Range{4, 6}, Range{8, 10}));
  EXPECT_EQ(filler.num_missing(), 6);
}
INSTANTIATE_TEST_SUITE_P(All, ChunkFillerRejects, ::testing::ValuesIn(kRejected),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(ChunkFiller, NoElementsAreNoChunk) {
  ResizableTensor tensor = OfShape({4});
  ASSERT_OK_AND_ASSIGN(ChunkFiller filler, ChunkFiller::Create(&tensor, DType::kInt32, /*max_ranges=*/1));
  ASSERT_OK(WriteInts(filler, 0, {1, 2}));
  for (const int64_t begin : {0, 1, 2, 4}) EXPECT_OK(WriteInts(filler, begin, {}));
  EXPECT_THAT(filler.Missing(10), ElementsAre(Range{2, 4}));
}

TEST(ChunkFiller, BytesAreChecked) {
  ResizableTensor tensor = OfShape({4});
  ASSERT_OK_AND_ASSIGN(ChunkFiller filler, ChunkFiller::Create(&tensor, DType::kInt32));
  EXPECT_THAT(filler.WriteBytes(0, "abcde"), StatusIs(Code::kInvalidArgument, HasSubstr("5 bytes: int32 takes 4")));
  EXPECT_THAT(filler.Write<float>(0, {1.0f}),
              StatusIs(Code::kInvalidArgument, HasSubstr("float32 for a tensor of int32")));
  EXPECT_THAT(filler.Write<std::string>(0, {"x"}),
              StatusIs(Code::kInvalidArgument, HasSubstr("string for a tensor of int32")));
  EXPECT_OK(filler.WriteBytes(0, absl::string_view("\1\0\0\0", 4)));
  EXPECT_EQ((*tensor.Data<int32_t>())[0], 1);

  ResizableTensor bools = OfShape({4});
  ASSERT_OK_AND_ASSIGN(ChunkFiller bool_filler, ChunkFiller::Create(&bools, DType::kBool));
  EXPECT_OK(bool_filler.WriteBytes(0, absl::string_view("\0\1", 2)));
  EXPECT_THAT(bool_filler.WriteBytes(2, absl::string_view("\0\xff", 2)),
              StatusIs(Code::kInvalidArgument, HasSubstr("byte 1 is 255")));
  EXPECT_EQ(bool_filler.num_missing(), 2);
}

TEST(ChunkFiller, Strings) {
  ResizableTensor tensor = OfShape({3});
  ASSERT_OK_AND_ASSIGN(ChunkFiller filler, ChunkFiller::Create(&tensor, DType::kString));
  EXPECT_THAT(filler.WriteBytes(0, "abc"), StatusIs(Code::kInvalidArgument, HasSubstr("tensor of objects")));
  EXPECT_OK(filler.Write<std::string>(1, {"b", "c"}));
  EXPECT_THAT(filler.Write<std::string>(2, {"again"}),
              StatusIs(Code::kAlreadyExists, HasSubstr("[1, 3) have arrived")));
  EXPECT_OK(filler.Write<std::string>(0, {"a"}));
  ASSERT_OK_AND_ASSIGN(const Tensor done, filler.Finish());
  EXPECT_EQ(done.ToString(), "string [3]: [\"a\" \"b\" \"c\"]");
}

TEST(ChunkFiller, RangesAreBounded) {
  ResizableTensor tensor = OfShape({100});
  ASSERT_OK_AND_ASSIGN(ChunkFiller filler, ChunkFiller::Create(&tensor, DType::kInt32, /*max_ranges=*/3));
  for (const int64_t begin : {10, 20, 30}) ASSERT_OK(WriteInts(filler, begin, {1}));
  EXPECT_THAT(WriteInts(filler, 40, {1}),
              StatusIs(Code::kResourceExhausted, HasSubstr("[40, 41) would be one range more than the 3 allowed")));
  // What touches one is no more; what joins two makes it fewer.
  EXPECT_OK(WriteInts(filler, 11, {1}));
  EXPECT_OK(WriteInts(filler, 9, {1}));
  EXPECT_OK(WriteInts(filler, 21, Ints(9, 1)));
  EXPECT_THAT(filler.Missing(10), ElementsAre(Range{0, 9}, Range{12, 20}, Range{31, 100}));
  EXPECT_OK(WriteInts(filler, 40, {1}));
  EXPECT_THAT(WriteInts(filler, 50, {1}), StatusIs(Code::kResourceExhausted));
}

TEST(ChunkFiller, FinishesOnce) {
  ResizableTensor tensor = OfShape({1});
  ASSERT_OK_AND_ASSIGN(ChunkFiller filler, ChunkFiller::Create(&tensor, DType::kInt32));
  ASSERT_OK(WriteInts(filler, 0, {1}));
  ASSERT_OK(filler.Finish());
  const auto refused = StatusIs(Code::kFailedPrecondition, HasSubstr("finished"));
  EXPECT_THAT(filler.Finish(), refused);
  EXPECT_THAT(WriteInts(filler, 0, {}), refused);
  EXPECT_THAT(filler.WriteBytes(0, "abcd"), refused);
  EXPECT_THAT(filler.Write<std::string>(0, {}), refused);
  EXPECT_THAT(filler.Missing(10), IsEmpty());
}

TEST(ChunkFiller, NothingToFill) {
  ResizableTensor tensor = OfShape({0, 3});
  ASSERT_OK_AND_ASSIGN(ChunkFiller filler, ChunkFiller::Create(&tensor, DType::kInt32));
  EXPECT_TRUE(filler.IsComplete());
  EXPECT_THAT(WriteInts(filler, 0, {1}), StatusIs(Code::kOutOfRange));
  EXPECT_EQ(filler.Finish()->shape(), TensorShape({0, 3}));
}

TEST(ChunkFiller, MissingIsListedInPart) {
  ResizableTensor tensor = OfShape({1000});
  ASSERT_OK_AND_ASSIGN(ChunkFiller filler, ChunkFiller::Create(&tensor, DType::kInt32));
  for (int64_t begin = 0; begin < 1000; begin += 2) ASSERT_OK(WriteInts(filler, begin, {1}));
  EXPECT_THAT(filler.Missing(7), SizeIs(7));
  EXPECT_THAT(filler.Finish(),
              StatusIs(Code::kFailedPrecondition, HasSubstr("500 of 1000 elements are missing: [1, 2)")));
  EXPECT_THAT(filler.Finish(), StatusIs(Code::kFailedPrecondition, ::testing::EndsWith("[15, 16) ...")));
}

TEST(ChunkFiller, AResizedTensorGoesItsOwnWay) {
  ResizableTensor tensor = OfShape({2});
  ASSERT_OK_AND_ASSIGN(ChunkFiller filler, ChunkFiller::Create(&tensor, DType::kInt32));
  ASSERT_OK(tensor.Resize({1}));
  ASSERT_OK(WriteInts(filler, 0, {1, 2}));
  EXPECT_EQ(filler.Finish()->flat<int32_t>()[1], 2);
  EXPECT_FALSE(tensor.storage_initialized());
}

TEST(ChunkFiller, WithoutMemory) {
  ResizableOptions options;
  options.allocator = MakeRef<FailingAllocator>(1);
  ResizableTensor tensor(options);
  ASSERT_OK(tensor.Resize({2}));
  EXPECT_THAT(ChunkFiller::Create(&tensor, DType::kInt32), StatusIs(Code::kResourceExhausted, HasSubstr("int32 [2]")));
  EXPECT_THAT(ChunkFiller::Create(&tensor, DType::kInvalid), StatusIs(Code::kInvalidArgument, HasSubstr("invalid")));
}

// Against a plain vector of flags.
TEST(ChunkFiller, AgreesWithAModel) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const int64_t total = 1 + random() % 40;
    ResizableTensor tensor = OfShape({total});
    ASSERT_OK_AND_ASSIGN(ChunkFiller filler, ChunkFiller::Create(&tensor, DType::kInt32));
    Ints model(static_cast<size_t>(total), -1);
    for (int step = 0; step < 60; ++step) {
      const int64_t begin = static_cast<int64_t>(random() % 44) - 2;
      const int64_t count = random() % 6;
      const bool inside = begin >= 0 && begin + count <= total;
      const bool fresh = inside && std::all_of(model.begin() + begin, model.begin() + begin + count,
                                               [](int32_t value) { return value == -1; });
      EXPECT_EQ(WriteInts(filler, begin, Ints(static_cast<size_t>(count), step)).code(),
                fresh ? Code::kOk : (inside ? Code::kAlreadyExists : Code::kOutOfRange));
      if (fresh) std::fill_n(model.begin() + begin, count, step);
      std::vector<Range> missing;
      for (int64_t i = 0; i < total; ++i) {
        if (model[static_cast<size_t>(i)] != -1) continue;
        if (!missing.empty() && missing.back().end == i) {
          ++missing.back().end;
        } else {
          missing.push_back({i, i + 1});
        }
      }
      ASSERT_EQ(filler.Missing(100), missing);
      ASSERT_EQ(filler.num_missing(), std::count(model.begin(), model.end(), -1));
    }
    if (!filler.IsComplete()) continue;
    ASSERT_OK_AND_ASSIGN(const Tensor done, filler.Finish());
    EXPECT_EQ(Ints(done.data<int32_t>(), done.data<int32_t>() + total), model);
  }
}

}  // namespace
}  // namespace tensorcask
