// Statistics of tensors, and the totals that they are made of.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/archive/archive.h"
#include "tensorcask/serialize/archive/archive_entry.h"
#include "tensorcask/serialize/archive/archive_reader.h"
#include "tensorcask/serialize/archive/element_totals.h"
#include "tensorcask/serialize/archive/formats/all_formats.h"
#include "tensorcask/serialize/archive/save_load.h"
#include "tensorcask/serialize/archive/summarize.h"
#include "tensorcask/serialize/archive/tensor_blocks.h"
#include "tensorcask/serialize/wire/decoded_tensor.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/convert.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/support/status_matchers.h"
#include "tensorcask/tests/support/temp_folder.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::StatusIs;
using ::tensorcask::testing::TempFolder;
using ::testing::HasSubstr;

TEST(ElementTotals, VectorCodeAgreesWithPortableCode) {
  const float odd[] = {0.0F,
                       -0.0F,
                       std::numeric_limits<float>::quiet_NaN(),
                       std::numeric_limits<float>::infinity(),
                       -std::numeric_limits<float>::infinity(),
                       1e-40F,
                       -1e-45F,
                       3.4e38F,
                       -3.4e38F};
  for (uint32_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    std::vector<float> values(random() % 100);
    for (float& value : values) {
      value = random() % 3 == 0 ? odd[random() % std::size(odd)] : static_cast<float>(random() % 1000) / 7 - 50;
    }
    archive::ElementTotals a;
    archive::ElementTotals b;
    archive::AddFloats(values.data(), values.size(), &a);
    archive::AddFloatsPortable(values.data(), values.size(), &b);
    EXPECT_EQ(a.count, b.count);
    EXPECT_EQ(a.zeros, b.zeros);
    EXPECT_EQ(a.nans, b.nans);
    EXPECT_EQ(a.infinities, b.infinities);
    EXPECT_EQ(a.subnormals, b.subnormals);
    EXPECT_EQ(a.min, b.min);
    EXPECT_EQ(a.max, b.max);
    // The order of additions differs, and so does the rounding.
    const double tolerance = 1e-9 * (1 + std::max(std::abs(b.min), std::abs(b.max)));
    EXPECT_NEAR(a.mean(), b.mean(), tolerance);
    EXPECT_NEAR(a.standard_deviation(), b.standard_deviation(), tolerance);
  }
}

TEST(ElementTotals, ALargeMeanDoesNotHideASmallSpread) {
  std::vector<float> values(1000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = 1e6F + static_cast<float>(i % 2);
  archive::ElementTotals totals;
  archive::AddFloats(values.data(), values.size(), &totals);
  EXPECT_DOUBLE_EQ(totals.mean(), 1e6 + 0.5);
  EXPECT_DOUBLE_EQ(totals.standard_deviation(), 0.5);
}

template <typename T>
Tensor TensorOf(DType dtype, const std::vector<T>& values) {
  Tensor tensor = *Tensor::Create(dtype, TensorShape({static_cast<int64_t>(values.size())}));
  std::memcpy(tensor.mutable_bytes().data(), values.data(), values.size() * sizeof(T));
  return tensor;
}

// A double holds none of these limits but the lowest.
TEST(ElementTotals, OfIntegersOf64BitsHaveAnExactRange) {
  constexpr int64_t kLow = std::numeric_limits<int64_t>::min() + 1;
  constexpr int64_t kHigh = std::numeric_limits<int64_t>::max();
  archive::ElementTotals totals;
  ASSERT_OK(totals.Add(TensorOf<int64_t>(DType::kInt64, {5, kHigh - 1, 7})));
  ASSERT_OK(totals.Add(TensorOf<int64_t>(DType::kInt64, {0, kLow, 1})));
  EXPECT_EQ(totals.exact_min, absl::int128(kLow));
  EXPECT_EQ(totals.exact_max, absl::int128(kHigh - 1));
  constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max() - 1;
  archive::ElementTotals natural;
  ASSERT_OK(natural.Add(TensorOf<uint64_t>(DType::kUint64, {kMost, (uint64_t{1} << 53) + 1})));
  EXPECT_EQ(natural.exact_min, absl::int128((uint64_t{1} << 53) + 1));
  EXPECT_EQ(natural.exact_max, absl::int128(kMost));
  EXPECT_TRUE(archive::HasExactRange(DType::kInt64));
  EXPECT_FALSE(archive::HasExactRange(DType::kInt32));
}

// As elements of 32 bits have them, which take another path.
TEST(ElementTotals, OfBytesAreThoseOfWideIntegers) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const bool is_signed = seed % 2 == 0;
    const size_t size = 1 + random() % (seed < 40 ? 200 : 300000);
    const int low = is_signed ? -128 : 0;
    const int spread = 1 + static_cast<int>(random() % 256);
    std::vector<uint8_t> bytes(size);
    std::vector<int32_t> wide(size);
    for (size_t i = 0; i < size; ++i) {
      wide[i] = low + static_cast<int>(random() % spread);
      bytes[i] = static_cast<uint8_t>(wide[i]);
    }
    archive::ElementTotals a;
    archive::ElementTotals b;
    ASSERT_OK(a.Add(TensorOf(is_signed ? DType::kInt8 : DType::kUint8, bytes)));
    ASSERT_OK(b.Add(TensorOf(DType::kInt32, wide)));
    EXPECT_EQ(a.count, b.count);
    EXPECT_EQ(a.zeros, b.zeros);
    EXPECT_EQ(a.min, b.min);
    EXPECT_EQ(a.max, b.max);
    EXPECT_EQ(a.sum, b.sum);  // sums of integers, and so exact
    EXPECT_EQ(a.squares, b.squares);
  }
}

// The subnormal numbers of a type are those whose exponent is 0 and whose mantissa is not.
TEST(ElementTotals, CountSubnormalsByTheLimitsOfTheType) {
  struct Row {
    DType dtype;
    int bits;      // in use
    int mantissa;  // bits
    bool has_sign = true;
  };
  for (const Row& row :
       {Row{DType::kFloat8E5m2, 8, 2}, Row{DType::kFloat8E4m3, 8, 3}, Row{DType::kFloat8E3m4, 8, 4},
        Row{DType::kFloat8E4m3fn, 8, 3}, Row{DType::kFloat8E4m3fnuz, 8, 3}, Row{DType::kFloat8E4m3b11fnuz, 8, 3},
        Row{DType::kFloat8E5m2fnuz, 8, 2}, Row{DType::kFloat8E8m0fnu, 8, 0, false}, Row{DType::kFloat6E2m3, 6, 3},
        Row{DType::kFloat6E3m2, 6, 2}, Row{DType::kFloat4E2m1, 4, 1}}) {
    SCOPED_TRACE(DTypeName(row.dtype));
    std::vector<uint8_t> all;
    for (int bits = 0; bits < 1 << row.bits; ++bits) all.push_back(static_cast<uint8_t>(bits));
    archive::ElementTotals totals;
    ASSERT_OK(totals.Add(TensorOf(row.dtype, all)));
    const uint64_t of_a_sign = (uint64_t{1} << row.mantissa) - 1;
    EXPECT_EQ(totals.subnormals, row.has_sign ? 2 * of_a_sign : 0);
    EXPECT_EQ(totals.count, all.size());
  }
}

// Numbers of one byte are counted by their bits, and their sums made of the counts.
TEST(ElementTotals, OfFloatsOfOneByteAreThoseOfWideFloats) {
  const std::vector<uint8_t> bits = {0x00, 0x80, 0x38, 0x38, 0xb8, 0x40, 0x7e, 0xfe, 0x7f, 0x01, 0x08};
  const Tensor bytes = TensorOf(DType::kFloat8E4m3fn, bits);
  ASSERT_OK_AND_ASSIGN(const TensorView wide, ConvertTo(bytes, DType::kFloat32));
  archive::ElementTotals a;
  archive::ElementTotals b;
  ASSERT_OK(a.Add(bytes));
  ASSERT_OK(b.Add(wide));
  EXPECT_EQ(a.count, b.count);
  EXPECT_EQ(a.zeros, 2u);
  EXPECT_EQ(a.nans, 1u);
  EXPECT_EQ(a.min, -448);
  EXPECT_EQ(a.max, 448);
  EXPECT_DOUBLE_EQ(a.mean(), b.mean());
  EXPECT_DOUBLE_EQ(a.standard_deviation(), b.standard_deviation());
}

TEST(ElementTotals, OfNoFiniteElementAreCountsAlone) {
  std::vector<float> values(40, std::numeric_limits<float>::quiet_NaN());
  for (size_t size = 0; size < values.size(); ++size) {
    SCOPED_TRACE(size);
    archive::ElementTotals totals;
    archive::AddFloats(values.data(), size, &totals);
    EXPECT_EQ(totals.count, size);
    EXPECT_EQ(totals.nans, size);
    EXPECT_FALSE(totals.has_origin);
  }
}

// Writes one tensor of 1000 x 1000: (i % 1000) - 250, with a zero of its own at the end.
void WriteOne(const std::string& path) {
  const AllFormats formats;
  const std::unique_ptr<ArchiveWriter> writer = *CreateArchive(path, **FormatForName(path, formats.list()));
  ArchiveEntry entry;
  entry.name = "w";
  entry.dtype = DType::kFloat32;
  entry.shape = TensorShape({1000, 1000});
  entry.stored_bytes = 4000000;
  Tensor tensor = *Tensor::Create(entry.dtype, entry.shape);
  float* const data = tensor.mutable_data<float>();
  for (int64_t i = 0; i < 1000000; ++i) data[i] = static_cast<float>(i % 1000) - 250;
  data[999999] = 0;
  DecodedTensor decoded;
  decoded.view = tensor;
  ASSERT_OK(writer->Declare(entry));
  ASSERT_OK(writer->Add(entry, decoded));
  ASSERT_OK(writer->Finish());
}

// One tensor alone is read by one thread and measured by another, where its format can read it in blocks.
class SummarizeOneTensor : public ::testing::TestWithParam<std::string> {
 protected:
  SummarizeOneTensor() : path_(folder_.Path(GetParam())) { WriteOne(path_); }

  const TempFolder folder_;
  const std::string path_;
};

TEST_P(SummarizeOneTensor, NumberOfThreadsMakesNoDifference) {
  const AllFormats formats;
  const std::unique_ptr<ArchiveReader> reader = *OpenArchive(path_, formats.list());
  for (const uint64_t block_bytes : {uint64_t{4096}, uint64_t{1} << 18, uint64_t{1} << 30}) {
    SCOPED_TRACE(block_bytes);
    std::vector<TensorStatistics> of_threads;
    for (const int num_threads : {1, 2}) {
      uint64_t bytes = 0;
      SummarizeOptions options;
      options.num_threads = num_threads;
      options.block_bytes = block_bytes;
      options.progress = [&](uint64_t so_far) {
        bytes = so_far;
        return true;
      };
      const absl::StatusOr<std::vector<TensorStatistics>> all = Summarize(*reader, options);
      ASSERT_OK(all.status());
      ASSERT_EQ(all->size(), 1);
      ASSERT_OK((*all)[0].status);
      EXPECT_EQ(bytes, 4000000);
      of_threads.push_back((*all)[0]);
    }
    const TensorStatistics& one = of_threads[0];
    const TensorStatistics& two = of_threads[1];
    EXPECT_EQ(one.zeros, 1001);
    EXPECT_EQ(one.min, -250);
    EXPECT_EQ(one.max, 749);
    EXPECT_NEAR(one.mean, 249.5 - 749e-6, 1e-9);
    EXPECT_EQ(two.zeros, one.zeros);
    EXPECT_EQ(two.min, one.min);
    EXPECT_EQ(two.max, one.max);
    EXPECT_EQ(two.mean, one.mean);
    EXPECT_EQ(two.standard_deviation, one.standard_deviation);
    EXPECT_EQ(two.histogram, one.histogram);
  }
}

TEST_P(SummarizeOneTensor, CanBeCancelled) {
  const AllFormats formats;
  const std::unique_ptr<ArchiveReader> reader = *OpenArchive(path_, formats.list());
  for (const int num_threads : {1, 2}) {
    SCOPED_TRACE(num_threads);
    SummarizeOptions options;
    options.num_threads = num_threads;
    options.block_bytes = 40000;
    options.progress = [](uint64_t bytes) { return bytes < 400000; };
    EXPECT_THAT(Summarize(*reader, options), StatusIs(absl::StatusCode::kCancelled));
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, SummarizeOneTensor,
                         ::testing::Values("one", "one.safetensors", "one.npy", "one.npz", "one.pb"));

// Counts the blocks that were asked for, and lets a thread wait for that.
class BlockCount {
 public:
  void Add() {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++count_;
    changed_.notify_all();
  }

  bool WaitFor(int count, std::chrono::milliseconds most) {
    std::unique_lock<std::mutex> lock(mutex_);
    return changed_.wait_for(lock, most, [&] { return count_ >= count; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int count_ = 0;
};

// One tensor of three blocks of one element each.
class ThreeBlocks final : public ArchiveReader {
 public:
  explicit ThreeBlocks(BlockCount* asked) : asked_(asked) {
    entries_[0].name = "w";
    entries_[0].dtype = DType::kFloat32;
    entries_[0].shape = TensorShape({3});
    entries_[0].reads_in_blocks = true;
  }

  absl::string_view format() const override { return "test"; }
  const std::string& path() const override { return path_; }
  const std::vector<ArchiveEntry>& entries() const override { return entries_; }
  absl::StatusOr<Tensor> Read(absl::string_view) const override { return absl::UnimplementedError("Read"); }
  absl::StatusOr<Tensor> ReadSlice(absl::string_view, const TensorSlice&) const override {
    return absl::UnimplementedError("ReadSlice");
  }
  absl::StatusOr<std::unique_ptr<TensorBlocks>> ReadBlocks(const ArchiveEntry&, uint64_t) const override {
    return std::make_unique<Blocks>(asked_);
  }

 private:
  class Blocks final : public TensorBlocks {
   public:
    explicit Blocks(BlockCount* asked) : asked_(asked) {}
    absl::StatusOr<std::optional<TensorBlock>> Next() override {
      asked_->Add();
      if (next_ == 3) return std::nullopt;
      TensorBlock block;
      block.slice = *TensorSlice::Create({{next_, 1}});
      block.elements = Tensor::FromValues<float>({static_cast<float>(next_)});
      ++next_;
      return block;
    }

   private:
    BlockCount* const asked_;
    int64_t next_ = 0;
  };

  BlockCount* const asked_;
  const std::string path_ = "three";
  std::vector<ArchiveEntry> entries_ = std::vector<ArchiveEntry>(1);
};

TEST(Summarize, TheNextBlockOfOneTensorIsReadWhileABlockIsMeasured) {
  // If the second thread starts late, the first one reads, too: then the tensor is summarized again.
  bool overlapped = false;
  for (int round = 0; round < 30 && !overlapped; ++round) {
    BlockCount asked;
    const ThreeBlocks reader(&asked);
    int measured = 0;
    SummarizeOptions options;
    options.num_threads = 2;
    options.block_bytes = sizeof(float);
    options.progress = [&](uint64_t) {
      if (++measured == 1) overlapped = asked.WaitFor(2, std::chrono::milliseconds(500));
      return true;
    };
    const absl::StatusOr<std::vector<TensorStatistics>> all = Summarize(reader, options);
    ASSERT_OK(all.status());
    ASSERT_OK((*all)[0].status);
    EXPECT_EQ(measured, 3);
    EXPECT_EQ((*all)[0].max, 2);
  }
  EXPECT_TRUE(overlapped);
}

TEST(Summarize, PatternsChooseTheTensors) {
  const TempFolder folder;
  const AllFormats formats;
  std::vector<TensorToSave> tensors;
  for (const char* const name : {"a/bias", "a/kernel", "b/kernel"}) {
    tensors.push_back({name, Tensor::FromValues<float>({1}), {}});
  }
  const std::string path = folder.Path("m.npz");
  ASSERT_OK(SaveTensors(path, **FormatForName(path, formats.list()), tensors, {}).status());
  const std::unique_ptr<ArchiveReader> reader = *OpenArchive(path, formats.list());
  SummarizeOptions options;
  options.include = {"*/kernel"};
  ASSERT_OK_AND_ASSIGN(const std::vector<TensorStatistics> found, Summarize(*reader, options));
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].name, "a/kernel");
  EXPECT_EQ(found[1].name, "b/kernel");
}

TEST(Summarize, DamageIsToldWithTheTensor) {
  const TempFolder folder;
  const std::string path = folder.Path("damaged");
  WriteOne(path);
  FILE* const file = fopen((path + ".data-00000-of-00001").c_str(), "r+b");
  ASSERT_NE(file, nullptr);
  fseek(file, 3900000, SEEK_SET);
  fputc(0x7f, file);
  fclose(file);
  const AllFormats formats;
  const std::unique_ptr<ArchiveReader> reader = *OpenArchive(path, formats.list());
  for (const int num_threads : {1, 2}) {
    SCOPED_TRACE(num_threads);
    SummarizeOptions options;
    options.num_threads = num_threads;
    const absl::StatusOr<std::vector<TensorStatistics>> all = Summarize(*reader, options);
    ASSERT_OK(all.status());
    ASSERT_EQ(all->size(), 1);
    EXPECT_EQ((*all)[0].shape, reader->entries()[0].shape);
    EXPECT_THAT((*all)[0].status, StatusIs(absl::StatusCode::kDataLoss, HasSubstr("checksum")));
  }
}

}  // namespace
}  // namespace tensorcask
