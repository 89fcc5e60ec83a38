#include "tensorcask/tensor/internal/shape_rep.h"

#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tests/support/counted_allocations.h"

namespace tensorcask::internal {
namespace {

using Form = TensorShapeRep::Form;

int64_t Product(const std::vector<int64_t>& dims) {
  int64_t product = 1;
  for (const int64_t dim : dims) product *= dim;
  return product;
}

TensorShapeRep Rep(const std::vector<int64_t>& dims) { return TensorShapeRep(dims, Product(dims)); }

std::vector<int64_t> Dims(const TensorShapeRep& rep) {
  std::vector<int64_t> dims;
  for (int axis = 0; axis < rep.rank(); ++axis) dims.push_back(rep.dim(axis));
  return dims;
}

struct FormCase {
  const char* name;
  std::vector<int64_t> dims;
  Form form;
};

// The bounds of TensorFlow's kMaxRep16 and kMaxRep32.
const FormCase kForms[] = {
    {"Scalar", {}, Form::k16},
    {"Zero", {0}, Form::k16},
    {"SixSmall", {1, 2, 3, 4, 5, 6}, Form::k16},
    {"SevenSmall", {1, 2, 3, 4, 5, 6, 7}, Form::kHeap},
    {"Largest16", {65533, 65533}, Form::k16},
    {"First32", {65534}, Form::k32},
    {"AllOnes16", {65535}, Form::k32},
    {"Three32", {65536, 1, 65536}, Form::k32},
    {"Four32", {65536, 1, 1, 1}, Form::kHeap},
    {"Largest32", {4294967293}, Form::k32},
    {"FirstHeap", {4294967294}, Form::kHeap},
    {"AllOnes32", {4294967295}, Form::kHeap},
    {"LargestHeap", {INT64_MAX}, Form::kHeap},
    {"Rank254", std::vector<int64_t>(254, 1), Form::kHeap},
};

class ShapeRepForms : public ::testing::TestWithParam<FormCase> {};

TEST_P(ShapeRepForms, HoldDims) {
  const TensorShapeRep rep = Rep(GetParam().dims);
  EXPECT_EQ(rep.form(), GetParam().form);
  EXPECT_EQ(rep.rank(), static_cast<int>(GetParam().dims.size()));
  EXPECT_EQ(Dims(rep), GetParam().dims);
  EXPECT_EQ(rep.num_elements(), Product(GetParam().dims));
  EXPECT_EQ(rep.dtype(), DType::kInvalid);
}

// From any form to any other, by each way of copying.
TEST_P(ShapeRepForms, ReplaceEachOther) {
  for (const FormCase& other : kForms) {
    SCOPED_TRACE(other.name);
    TensorShapeRep from = Rep(GetParam().dims);
    from.set_dtype(DType::kFloat16);

    TensorShapeRep copied = Rep(other.dims);
    copied = from;
    EXPECT_EQ(Dims(copied), GetParam().dims);
    EXPECT_EQ(copied.dtype(), DType::kFloat16);
    EXPECT_EQ(Dims(from), GetParam().dims);

    TensorShapeRep assigned = Rep(other.dims);
    assigned.set_dtype(DType::kInt8);
    assigned.Assign(GetParam().dims, Product(GetParam().dims));
    EXPECT_EQ(Dims(assigned), GetParam().dims);
    EXPECT_EQ(assigned.form(), GetParam().form);
    EXPECT_EQ(assigned.dtype(), DType::kInt8) << "Assign keeps the dtype";

    TensorShapeRep moved = Rep(other.dims);
    moved = std::move(from);
    EXPECT_EQ(Dims(moved), GetParam().dims);
    EXPECT_EQ(moved.num_elements(), Product(GetParam().dims));
    EXPECT_EQ(moved.dtype(), DType::kFloat16);
    EXPECT_EQ(from.rank(), 0);  // NOLINT(bugprone-use-after-move): promised
    EXPECT_EQ(from.num_elements(), 1);
    EXPECT_EQ(from.dtype(), DType::kInvalid);
  }
}

TEST_P(ShapeRepForms, CopyAndMoveToThemselves) {
  TensorShapeRep rep = Rep(GetParam().dims);
  TensorShapeRep& same = rep;
  rep = same;
  EXPECT_EQ(Dims(rep), GetParam().dims);
  rep = std::move(same);
  EXPECT_EQ(Dims(rep), GetParam().dims);
  const TensorShapeRep built(std::move(rep));
  EXPECT_EQ(Dims(built), GetParam().dims);
  EXPECT_EQ(rep.rank(), 0);  // NOLINT(bugprone-use-after-move): promised
}

INSTANTIATE_TEST_SUITE_P(All, ShapeRepForms, ::testing::ValuesIn(kForms),
                         [](const auto& info) { return std::string(info.param.name); });

// A list of many shapes, and its copies, take the memory of the dims once.
TEST(ShapeRep, CopiesShareTheirDims) {
  const std::vector<int64_t> dims(254, 1);
  auto first = std::make_unique<TensorShapeRep>(Rep(dims));
  std::vector<TensorShapeRep> copies;
  copies.reserve(100);
  EXPECT_EQ(testing::AllocationsOf([&] {
              for (int i = 0; i < 100; ++i) copies.push_back(*first);
            }),
            0);
  copies[50].Assign({2, 3}, 6);
  first.reset();
  EXPECT_EQ(Dims(copies[50]), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(Dims(copies[51]), dims);
  // Owners may end in several threads at once.
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([mine = copies, &dims] {
      for (int i = 0; i < 1000; ++i) {
        const TensorShapeRep copy = mine[static_cast<size_t>(i % 50)];
        EXPECT_EQ(Dims(copy), dims);
      }
    });
  }
  copies.clear();
  for (std::thread& thread : threads) thread.join();
}

// The drawing in shape_rep.h, byte by byte.
TEST(ShapeRep, BytesAreTensorFlows) {
  const auto bytes_of = [](const TensorShapeRep& rep) {
    std::vector<uint8_t> bytes(sizeof(rep));
    std::memcpy(bytes.data(), static_cast<const void*>(&rep), sizeof(rep));
    return bytes;
  };
  TensorShapeRep rep16 = Rep({0x0102, 3});
  rep16.set_dtype(DType::kInt64);
  EXPECT_EQ(bytes_of(rep16), (std::vector<uint8_t>{2, 1, 3, 0, 0,    0,    0, 0, 0, 0, 0, 0,  //
                                                   0, 9, 2, 0, 0x06, 0x03, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(bytes_of(Rep({0x01020304, 2})), (std::vector<uint8_t>{4, 3, 2, 1, 2, 0, 0, 0, 0, 0, 0, 0,  //
                                                                  0, 0, 2, 1, 8, 6, 4, 2, 0, 0, 0, 0}));
  const TensorShapeRep heap = Rep({1, 2, 3, 4, 5, 6, 7});
  const std::vector<uint8_t> bytes = bytes_of(heap);
  const int64_t* dims = nullptr;
  std::memcpy(&dims, bytes.data(), sizeof(dims));
  EXPECT_EQ(std::vector<int64_t>(dims, dims + 7), Dims(heap));
  EXPECT_EQ(bytes[14], 7);
  EXPECT_EQ(bytes[15], 2);
}

TEST(ShapeRep, AppendsOnlyWhatTheSmallFormHolds) {
  TensorShapeRep rep;
  EXPECT_FALSE(rep.TryAppend16(65534, 65534));
  for (int64_t i = 1; i <= 6; ++i) EXPECT_TRUE(rep.TryAppend16(i, rep.num_elements() * i));
  EXPECT_FALSE(rep.TryAppend16(1, 720));
  EXPECT_EQ(Dims(rep), (std::vector<int64_t>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(rep.num_elements(), 720);
  TensorShapeRep rep32 = Rep({65536});
  EXPECT_FALSE(rep32.TryAppend16(1, 65536));
}

TEST(ShapeRep, EmptyVector) {
  const TensorShapeRep rep = TensorShapeRep::EmptyVector(DType::kFloat32);
  EXPECT_EQ(Dims(rep), std::vector<int64_t>{0});
  EXPECT_EQ(rep.num_elements(), 0);
  EXPECT_EQ(rep.dtype(), DType::kFloat32);
}

TEST(ShapeRepDeathTest, RefusesTheRankThatMarksUnknown) {
  const std::vector<int64_t> dims(255, 1);
  EXPECT_DEATH(TensorShapeRep(dims, 1), "at most 254 dims");
}

}  // namespace
}  // namespace tensorcask::internal
