// Runs under TENSORCASK_CPU = unset, avx2 and scalar (BUILD.bazel), against models that take one number at a time.

#include "tensorcask/serialize/payload/codec/planes.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tensor/base/check.h"

namespace tensorcask::payload {
namespace {

using testing::ElementsAre;

using Bytes = std::vector<uint8_t>;
using Numbers = std::vector<uint64_t>;  // numbers of any size: the bytes above are 0

constexpr int kSizes[] = {1, 2, 4, 8};
constexpr NumberOrder kOrders[] = {NumberOrder::kFloat, NumberOrder::kInteger};

// Bytes in a block of exactly their size, so that the address sanitizer sees what is read or written beside them, at
// any distance from a cache line.
class Block {
 public:
  Block(size_t bytes, size_t misalignment) : bytes_(bytes), misalignment_(misalignment) {
    void* memory = nullptr;
    CASK_CHECK(posix_memalign(&memory, 64, bytes + misalignment) == 0, "no memory");
    memory_ = static_cast<uint8_t*>(memory);
    std::memset(data(), 0xa5, bytes);
  }
  Block(const Bytes& bytes, size_t misalignment) : Block(bytes.size(), misalignment) {
    std::copy(bytes.begin(), bytes.end(), data());
  }
  ~Block() { std::free(memory_); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  uint8_t* data() { return memory_ + misalignment_; }
  Bytes bytes() const { return Bytes(memory_ + misalignment_, memory_ + misalignment_ + bytes_); }

 private:
  uint8_t* memory_;
  const size_t bytes_;
  const size_t misalignment_;
};

Bytes ToBytes(const Numbers& numbers, int size) {
  Bytes bytes;
  for (const uint64_t number : numbers) {
    for (int i = 0; i < size; ++i) bytes.push_back(static_cast<uint8_t>(number >> 8 * i));
  }
  return bytes;
}

uint64_t Mask(int size) { return std::numeric_limits<uint64_t>::max() >> (64 - 8 * size); }
uint64_t TopBit(int size) { return uint64_t{1} << (8 * size - 1); }

uint64_t RotatedLeft(uint64_t number, int size) {
  return (number << 1 & Mask(size)) | ((number & TopBit(size)) != 0 ? 1 : 0);
}

Bytes ModelOfPlanes(const Numbers& numbers, int size, bool rotate) {
  Bytes planes;
  for (int i = 0; i < size; ++i) {
    for (const uint64_t number : numbers) {
      planes.push_back(static_cast<uint8_t>((rotate ? RotatedLeft(number, size) : number) >> 8 * i));
    }
  }
  return planes;
}

uint64_t ModelOfOrder(uint64_t number, int size, NumberOrder order) {
  if (order == NumberOrder::kInteger) return number;
  return (number & TopBit(size)) != 0 ? ~number & Mask(size) : number + TopBit(size);
}
uint64_t ModelOfDifference(uint64_t number, uint64_t base, int size, NumberOrder order) {
  const uint64_t difference = (ModelOfOrder(number, size, order) - ModelOfOrder(base, size, order)) & Mask(size);
  const uint64_t doubled = difference * 2 & Mask(size);
  return (difference & TopBit(size)) != 0 ? ~doubled & Mask(size) : doubled;
}

// Random numbers, `zeros` of 100 of them 0; the others are any, or such that sizes and signs go wrong at.
Numbers RandomNumbers(size_t count, int size, int zeros, std::mt19937_64* random) {
  const uint64_t top = TopBit(size);
  const uint64_t edges[] = {1, 0x80, 0x100, top, top - 1, top + 1, Mask(size), Mask(size) - 1, Mask(size) & ~0xff};
  Numbers numbers(count);
  for (uint64_t& number : numbers) {
    if (static_cast<int>((*random)() % 100) < zeros) continue;
    const uint64_t drawn = (*random)();
    number = (drawn % 4 == 0 ? edges[(*random)() % std::size(edges)] : drawn) & Mask(size);
  }
  return numbers;
}

// All small counts, which have all kinds of rests, and large ones.
std::vector<size_t> Counts() {
  std::vector<size_t> counts(301);
  for (size_t i = 0; i < counts.size(); ++i) counts[i] = i;
  counts.insert(counts.end(), {1000, 4096, 4095, 32768 + 13, 65536});
  return counts;
}

// Calls `check(numbers, size, misalignment, random)` for all sizes with all counts, and with all misalignments.
template <typename Check>
void ForManyNumbers(uint64_t seed, Check&& check) {
  std::mt19937_64 random(seed);
  for (const int size : kSizes) {
    const auto run = [&](size_t count, size_t misalignment) {
      if (testing::Test::HasFatalFailure()) return;
      const int zeros = std::vector<int>{0, 10, 50, 90, 99, 100}[random() % 6];
      SCOPED_TRACE(absl::StrCat(count, " numbers of ", size, " bytes, ", zeros, " % zeros, ", misalignment,
                                " past a line, seed ", seed));
      check(RandomNumbers(count, size, zeros, &random), size, misalignment, random);
    };
    for (const size_t count : Counts()) run(count, random() % 64);
    for (size_t misalignment = 0; misalignment < 64; ++misalignment) run(200 + random() % 100, misalignment);
  }
}

// ---- Planes ---------------------------------------------------------------------------------------------------------

struct PlanesCase {
  const char* name;
  int size;
  bool rotate;
  Numbers numbers;
  Bytes planes;
};

class KnownPlanes : public testing::TestWithParam<PlanesCase> {};

TEST_P(KnownPlanes, SplitAndJoin) {
  const PlanesCase& c = GetParam();
  Block planes(c.planes.size(), 1);
  SplitPlanes(ToBytes(c.numbers, c.size).data(), c.numbers.size(), c.size, c.rotate, planes.data());
  EXPECT_EQ(planes.bytes(), c.planes);

  std::vector<PlaneSource> sources(c.size);
  for (int i = 0; i < c.size; ++i) sources[i].bytes = planes.data() + i * c.numbers.size();
  Block joined(c.planes.size(), 1);
  JoinPlanes(sources.data(), c.numbers.size(), c.size, c.rotate, joined.data());
  EXPECT_EQ(joined.bytes(), ToBytes(c.numbers, c.size));
}

const PlanesCase kKnownPlanes[] = {
    {"Bytes", 1, false, {0x80, 0x41, 7}, {0x80, 0x41, 7}},
    {"RotatedBytes", 1, true, {0x80, 0x41, 0xff}, {0x01, 0x82, 0xff}},
    {"Words", 2, false, {0x0201, 0x1211, 0x2221}, {0x01, 0x11, 0x21, 0x02, 0x12, 0x22}},
    {"Bfloat16", 2, true, {0x3f80, 0xbf80, 0x8001}, {0x00, 0x01, 0x03, 0x7f, 0x7f, 0x00}},
    {"Int32", 4, false, {0x04030201, 0x14131211}, {0x01, 0x11, 0x02, 0x12, 0x03, 0x13, 0x04, 0x14}},
    {"Float32", 4, true, {0x3f800000, 0xbf800000}, {0x00, 0x01, 0, 0, 0, 0, 0x7f, 0x7f}},
    {"Int64", 8, false, {0x0807060504030201}, {1, 2, 3, 4, 5, 6, 7, 8}},
    {"Float64",
     8,
     true,
     {0x8000000000000001, 0x3ff0000000000000},
     {3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xe0, 0, 0x7f}},
    {"None", 4, true, {}, {}},
};
INSTANTIATE_TEST_SUITE_P(All, KnownPlanes, testing::ValuesIn(kKnownPlanes),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Planes, SplitAndJoinLikeTheModel) {
  ForManyNumbers(1, [](const Numbers& numbers, int size, size_t misalignment, std::mt19937_64& random) {
    for (const bool rotate : {false, true}) {
      SCOPED_TRACE(rotate ? "rotated" : "as they are");
      const Bytes bytes = ToBytes(numbers, size);
      const Bytes model = ModelOfPlanes(numbers, size, rotate);
      Block input(bytes, misalignment);
      Block planes(bytes.size(), random() % 64);
      SplitPlanes(input.data(), numbers.size(), size, rotate, planes.data());
      ASSERT_EQ(planes.bytes(), model);

      std::vector<PlaneSource> sources(size);
      for (int i = 0; i < size; ++i) sources[i].bytes = planes.data() + i * numbers.size();
      for (const bool non_temporal : {false, true}) {
        Block joined(bytes.size(), non_temporal && random() % 2 != 0 ? 0 : misalignment);
        JoinPlanes(sources.data(), numbers.size(), size, rotate, joined.data(), non_temporal);
        ASSERT_EQ(joined.bytes(), bytes);
      }
    }
  });
}

TEST(Planes, JoinConstantsOfAnyPlanes) {
  std::mt19937_64 random(2);
  for (const int size : kSizes) {
    for (unsigned constants = 0; constants < 1u << size; ++constants) {
      const bool rotated = random() % 2 != 0;
      const size_t count = random() % 400;
      SCOPED_TRACE(absl::StrCat(count, " numbers of ", size, " bytes, constant planes 0x", absl::Hex(constants)));
      std::vector<PlaneSource> sources(size);
      Bytes planes(size * count);
      for (uint8_t& byte : planes) byte = static_cast<uint8_t>(random());
      for (int i = 0; i < size; ++i) {
        if ((constants >> i & 1) == 0) {
          sources[i].bytes = planes.data() + i * count;
        } else {
          sources[i].constant = static_cast<uint8_t>(random());
          std::fill_n(planes.begin() + i * count, count, sources[i].constant);
        }
      }
      Block joined(size * count, random() % 64);
      JoinPlanes(sources.data(), count, size, rotated, joined.data());

      Block split(size * count, 0);
      SplitPlanes(joined.data(), count, size, rotated, split.data());
      ASSERT_EQ(split.bytes(), planes);
    }
  }
}

// ---- Zero bitmap ----------------------------------------------------------------------------------------------------

TEST(Zeros, KnownMaskAndDenseNumbers) {
  for (const int size : kSizes) {
    SCOPED_TRACE(size);
    // That with only its highest bit is a -0.0: it stays.
    const Numbers numbers = {0, 5, TopBit(size), 0, 0, 0, 0, 0, 7, 0};
    Block mask(2, 1);
    Block dense(size_t{10} * size, 1);
    EXPECT_EQ(CompactNonzeros(ToBytes(numbers, size).data(), 10, size, mask.data(), dense.data()), 3);
    EXPECT_THAT(mask.bytes(), ElementsAre(0x06, 0x01));
    EXPECT_EQ(Bytes(dense.data(), dense.data() + size_t{3} * size), ToBytes({5, TopBit(size), 7}, size));
    EXPECT_EQ(CountZeros(ToBytes(numbers, size).data(), 10, size), 7);

    Block back(size_t{10} * size, 1);
    ExpandZeros(mask.data(), dense.data(), 10, size, back.data());
    EXPECT_EQ(back.bytes(), ToBytes(numbers, size));
  }
}

// Takes, counts and puts back, and compares with what the definition says.
void ExpectCompactNonzeros(const Numbers& numbers, int size, size_t misalignment) {
  const Bytes bytes = ToBytes(numbers, size);
  Numbers nonzero;
  Bytes model_mask((numbers.size() + 7) / 8);
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (numbers[i] == 0) continue;
    nonzero.push_back(numbers[i]);
    model_mask[i / 8] = static_cast<uint8_t>(model_mask[i / 8] | 1 << i % 8);
  }
  const Bytes model_dense = ToBytes(nonzero, size);

  Block input(bytes, misalignment);
  Block mask(model_mask.size(), (misalignment + 1) % 64);
  Block room(bytes.size(), (misalignment + 2) % 64);
  ASSERT_EQ(CompactNonzeros(input.data(), numbers.size(), size, mask.data(), room.data()), nonzero.size());
  ASSERT_EQ(mask.bytes(), model_mask);
  ASSERT_EQ(Bytes(room.data(), room.data() + model_dense.size()), model_dense);
  ASSERT_EQ(CountZeros(input.data(), numbers.size(), size), numbers.size() - nonzero.size());
  ASSERT_EQ(CountBits(mask.data(), model_mask.size()), nonzero.size());

  Block dense(model_dense, (misalignment + 3) % 64);
  Block back(bytes.size(), misalignment);
  ExpandZeros(mask.data(), dense.data(), numbers.size(), size, back.data());
  ASSERT_EQ(back.bytes(), bytes);
}

TEST(Zeros, LikeTheModel) {
  ForManyNumbers(3, [](const Numbers& numbers, int size, size_t misalignment, std::mt19937_64&) {
    ExpectCompactNonzeros(numbers, size, misalignment);
  });
}

// The last numbers that are not 0 are read while many places are still to be filled, or up to the very end.
TEST(Zeros, AtOneEndOnly) {
  for (const int size : kSizes) {
    for (size_t nonzero = 0; nonzero <= 300; nonzero += 7) {
      SCOPED_TRACE(absl::StrCat(nonzero, " of 300 numbers of ", size, " bytes"));
      Numbers numbers(300);
      std::fill_n(numbers.begin(), nonzero, TopBit(size) + 1);
      ExpectCompactNonzeros(numbers, size, 0);
      std::reverse(numbers.begin(), numbers.end());
      ExpectCompactNonzeros(numbers, size, 0);
    }
  }
}

TEST(Zeros, DenseMayBeMissingIfThereIsNone) {
  const Bytes mask(100);
  Block numbers(3200, 0);
  ExpandZeros(mask.data(), nullptr, 800, 4, numbers.data());
  EXPECT_EQ(numbers.bytes(), Bytes(3200));
}

TEST(Zeros, NothingOfNothing) {
  for (const int size : kSizes) {
    EXPECT_EQ(CompactNonzeros(nullptr, 0, size, nullptr, nullptr), 0);
    ExpandZeros(nullptr, nullptr, 0, size, nullptr);
    EXPECT_EQ(CountZeros(nullptr, 0, size), 0);
  }
  EXPECT_EQ(CountBits(nullptr, 0), 0);
}

// ---- Bits -----------------------------------------------------------------------------------------------------------

TEST(Bits, KnownCounts) {
  const Bytes bytes = {0x00, 0x01, 0x80, 0xff, 0x0f, 0x55, 0x00, 0x10, 0xfe};
  EXPECT_EQ(CountBits(bytes.data(), 0), 0);
  EXPECT_EQ(CountBits(bytes.data(), 2), 1);
  EXPECT_EQ(CountBits(bytes.data(), 8), 0 + 1 + 1 + 8 + 4 + 4 + 0 + 1);
  EXPECT_EQ(CountBits(bytes.data(), 9), 19 + 7);
}

TEST(Bits, KnownBools) {
  const Bytes bools = {1, 0, 1, 1, 0, 0, 0, 0, 1};
  Block bits(2, 1);
  ASSERT_TRUE(PackBools(bools.data(), 9, bits.data()));
  EXPECT_THAT(bits.bytes(), ElementsAre(0x0d, 0x01));
  Block unpacked(9, 1);
  UnpackBools(bits.data(), 9, unpacked.data());
  EXPECT_EQ(unpacked.bytes(), bools);
}

TEST(Bits, PackAndUnpackLikeTheModel) {
  std::mt19937_64 random(4);
  for (const size_t count : Counts()) {
    SCOPED_TRACE(count);
    Bytes bools(count);
    Bytes model((count + 7) / 8);
    for (size_t i = 0; i < count; ++i) {
      bools[i] = random() % 2;
      model[i / 8] = static_cast<uint8_t>(model[i / 8] | bools[i] << i % 8);
    }
    Block input(bools, random() % 64);
    Block bits(model.size(), random() % 64);
    ASSERT_TRUE(PackBools(input.data(), count, bits.data()));
    ASSERT_EQ(bits.bytes(), model);
    Block unpacked(count, random() % 64);
    UnpackBools(bits.data(), count, unpacked.data());
    ASSERT_EQ(unpacked.bytes(), bools);
  }
}

TEST(Bits, NoOtherByteIsABool) {
  for (const size_t count : {1, 8, 31, 32, 33, 100, 300}) {
    Block bits((count + 7) / 8, 0);
    for (size_t place = 0; place < count; ++place) {
      for (const uint8_t byte : Bytes{2, 3, 0x10, 0x80, 0x81, 0xff}) {
        SCOPED_TRACE(absl::StrCat(byte, " at ", place, " of ", count));
        Bytes bools(count, 1);
        bools[place] = byte;
        ASSERT_FALSE(PackBools(bools.data(), count, bits.data()));
      }
    }
  }
}

// ---- Differences ----------------------------------------------------------------------------------------------------

struct DifferenceCase {
  const char* name;
  int size;
  NumberOrder order;
  uint64_t number;
  uint64_t base;
  uint64_t difference;
};

class KnownDifferences : public testing::TestWithParam<DifferenceCase> {};

// Alone, and as one of 100.
TEST_P(KnownDifferences, ComputeAndAdd) {
  const DifferenceCase& c = GetParam();
  for (const size_t count : {1, 100}) {
    const Bytes numbers = ToBytes(Numbers(count, c.number), c.size);
    const Bytes base = ToBytes(Numbers(count, c.base), c.size);
    Block differences(numbers.size(), 1);
    ComputeDifferences(numbers.data(), base.data(), count, c.size, c.order, differences.data());
    EXPECT_EQ(differences.bytes(), ToBytes(Numbers(count, c.difference), c.size));
    Block added(numbers.size(), 1);
    AddDifferences(differences.data(), base.data(), count, c.size, c.order, added.data());
    EXPECT_EQ(added.bytes(), numbers);
  }
}

constexpr NumberOrder kFloat = NumberOrder::kFloat;
constexpr NumberOrder kInteger = NumberOrder::kInteger;
const DifferenceCase kKnownDifferences[] = {
    {"Equal", 4, kFloat, 0x3f800000, 0x3f800000, 0},
    {"NextFloat", 4, kFloat, 0x3f800001, 0x3f800000, 2},
    {"AcrossAPowerOfTwo", 4, kFloat, 0x3f7fffff, 0x3f800000, 1},
    {"NegativeFloatsFall", 4, kFloat, 0xbf800001, 0xbf800000, 1},
    {"MinusZeroBelowZero", 4, kFloat, 0x80000000, 0, 1},
    {"ZeroAboveMinusZero", 4, kFloat, 0, 0x80000000, 2},
    {"SmallestAroundZero", 4, kFloat, 1, 0x80000001, 6},
    {"NanPayloads", 4, kFloat, 0x7fc00005, 0x7fc00001, 8},
    {"InfinityAboveLargest", 4, kFloat, 0x7f800000, 0x7f7fffff, 2},
    // o is 0xff800000 and 0x007fffff: 0xff000001 is -0xffffff.
    {"InfinitiesApart", 4, kFloat, 0x7f800000, 0xff800000, 0x1fffffd},
    {"Bfloat16", 2, kFloat, 0x3f7f, 0x3f80, 1},
    {"Bfloat16Signs", 2, kFloat, 0x0000, 0x8000, 2},
    {"Float8", 1, kFloat, 0x80, 0x01, 3},
    {"Float64", 8, kFloat, 0x3fefffffffffffff, 0x3ff0000000000000, 1},
    {"Float64Signs", 8, kFloat, 0x0000000000000001, 0x8000000000000000, 4},
    {"Int8Wraps", 1, kInteger, 0x80, 0x7f, 2},
    {"Int16Falls", 2, kInteger, 5, 8, 5},
    {"Int32MinWraps", 4, kInteger, 0x80000000, 0x7fffffff, 2},
    {"Int32MinFromZero", 4, kInteger, 0x80000000, 0, 0xffffffff},
    {"Int32Falls", 4, kInteger, 0xffffffff, 0, 1},
    {"Int64MinFromZero", 8, kInteger, 0x8000000000000000, 0, 0xffffffffffffffff},
    {"Int64MaxFromMin", 8, kInteger, 0x7fffffffffffffff, 0x8000000000000000, 1},
};
INSTANTIATE_TEST_SUITE_P(All, KnownDifferences, testing::ValuesIn(kKnownDifferences),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Differences, ComputeAndAddLikeTheModel) {
  ForManyNumbers(5, [](const Numbers& numbers, int size, size_t misalignment, std::mt19937_64& random) {
    for (const NumberOrder order : kOrders) {
      SCOPED_TRACE(order == kFloat ? "floats" : "integers");
      const Numbers base_numbers = RandomNumbers(numbers.size(), size, 20, &random);
      Numbers model(numbers.size());
      for (size_t i = 0; i < model.size(); ++i) {
        model[i] = ModelOfDifference(numbers[i], base_numbers[i], size, order);
      }
      const Bytes bytes = ToBytes(numbers, size);
      Block input(bytes, misalignment);
      Block base(ToBytes(base_numbers, size), random() % 64);
      Block differences(bytes.size(), random() % 64);
      ComputeDifferences(input.data(), base.data(), numbers.size(), size, order, differences.data());
      ASSERT_EQ(differences.bytes(), ToBytes(model, size));

      Block added(bytes.size(), misalignment);
      AddDifferences(differences.data(), base.data(), numbers.size(), size, order, added.data());
      ASSERT_EQ(added.bytes(), bytes);
      AddDifferences(differences.data(), base.data(), numbers.size(), size, order, differences.data());
      ASSERT_EQ(differences.bytes(), bytes);  // in place
    }
  });
}

// All pairs of numbers of one byte.
TEST(Differences, OfAllBytes) {
  for (const NumberOrder order : kOrders) {
    Numbers numbers;
    Numbers base;
    Numbers model;
    for (uint64_t pair = 0; pair < 65536; ++pair) {
      numbers.push_back(pair >> 8);
      base.push_back(pair & 0xff);
      model.push_back(ModelOfDifference(pair >> 8, pair & 0xff, 1, order));
    }
    Bytes differences(numbers.size());
    ComputeDifferences(ToBytes(numbers, 1).data(), ToBytes(base, 1).data(), numbers.size(), 1, order,
                       differences.data());
    EXPECT_EQ(differences, ToBytes(model, 1));
    AddDifferences(differences.data(), ToBytes(base, 1).data(), numbers.size(), 1, order, differences.data());
    EXPECT_EQ(differences, ToBytes(numbers, 1));
  }
}

}  // namespace
}  // namespace tensorcask::payload
