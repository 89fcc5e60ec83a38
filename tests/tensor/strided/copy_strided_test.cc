// The kernels of copies, of each level that this processor has: against a model that moves one element at a time.

#include "tensorcask/tensor/strided/internal/copy_strided.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tensor/base/check.h"
#include "tensorcask/tensor/base/cpu.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/layout.h"
#include "tensorcask/tests/tensor/strided/layout_model.h"

namespace tensorcask::internal {
namespace {

using testing::Model;
using testing::Numbers;

const DType kDTypes[] = {DType::kUint8, DType::kUint16, DType::kFloat32, DType::kFloat64, DType::kComplex128};

struct Level {
  const char* name;
  CpuFeatures features;
};
// Under TENSORCASK_CPU, what it leaves.
std::vector<Level> Levels() {
  std::vector<Level> levels = {{"scalar", CpuFeatures()}};
  if (GetCpuFeatures().avx2) levels.push_back({"avx2", LimitFeatures(GetCpuFeatures(), "avx2")});
  if (GetCpuFeatures().avx512) levels.push_back({"avx512", GetCpuFeatures()});
  if (GetCpuFeatures().neon) levels.push_back({"neon", GetCpuFeatures()});
  return levels;
}

// Bytes in a block of exactly their size, so that the address sanitizer sees what is read or written beside them, at
// any distance from a cache line.
class Block {
 public:
  Block(size_t bytes, size_t misalignment) : misalignment_(misalignment) {
    void* memory = nullptr;
    CASK_CHECK(posix_memalign(&memory, 64, bytes + misalignment) == 0, "no memory");
    memory_ = static_cast<char*>(memory);
  }
  ~Block() { std::free(memory_); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  char* data() { return memory_ + misalignment_; }

 private:
  char* memory_;
  const size_t misalignment_;
};

// Bytes between two pages that cannot be accessed, the last byte beside the second one or the first beside the first:
// so a kernel that reads beside the elements ends the test, also without a sanitizer.
class GuardedBlock {
 public:
  GuardedBlock(size_t bytes, bool at_end) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t accessible = (bytes + page - 1) / page * page;
    mapped_ = accessible + 2 * page;
    memory_ = mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CASK_CHECK(memory_ != MAP_FAILED, "no memory");
    char* const first = static_cast<char*>(memory_) + page;
    CASK_CHECK(mprotect(first, accessible, PROT_READ | PROT_WRITE) == 0, "no access");
    data_ = first + (at_end ? accessible - bytes : 0);
  }
  ~GuardedBlock() { munmap(memory_, mapped_); }
  GuardedBlock(const GuardedBlock&) = delete;
  GuardedBlock& operator=(const GuardedBlock&) = delete;

  char* data() { return data_; }

 private:
  void* memory_;
  size_t mapped_;
  char* data_;
};

void FillWithRandomBytes(char* bytes, size_t count, std::mt19937* random) {
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<char>((*random)());
}

// Copies by all levels, with and without stores past the cache, on one thread and on three, and compares all bytes of
// the destination, also those that no element has.
void ExpectCopies(DType dtype, const Layout& from, const Layout& to, uint32_t seed) {
  SCOPED_TRACE(absl::StrCat(DTypeName(dtype), " ", from.ToString(), " to ", to.ToString(), " seed ", seed));
  std::mt19937 random(seed);
  const size_t element_bytes = ElementSize(dtype);
  const auto from_bytes = static_cast<size_t>(from.bounds().end) * element_bytes;
  const auto to_bytes = static_cast<size_t>(to.bounds().end) * element_bytes;
  const bool aligned = random() % 2 == 0;
  Block block(from_bytes, aligned ? 0 : random() % 64);
  GuardedBlock guarded(from_bytes, /*at_end=*/seed / 4 % 2 == 0);
  char* const source = seed / 2 % 2 == 0 ? guarded.data() : block.data();
  Block target(to_bytes, aligned ? 0 : random() % 64);
  FillWithRandomBytes(source, from_bytes, &random);
  std::vector<char> before(to_bytes);
  FillWithRandomBytes(before.data(), to_bytes, &random);

  const Model from_places = Model::Of(from);
  const Model to_places = Model::Of(to);
  std::vector<char> wanted = before;
  for (size_t i = 0; i < to_places.places.size(); ++i) {
    std::memcpy(wanted.data() + static_cast<size_t>(to_places.places[i]) * element_bytes,
                source + static_cast<size_t>(from_places.places[i]) * element_bytes, element_bytes);
  }
  CpuTuning small_caches;
  small_caches.l1_bytes = 4 << 10;
  small_caches.l2_bytes = random() % 2 == 0 ? 64 << 10 : 8 << 20;
  small_caches.tlb_pages = 200;
  small_caches.prefetch_ahead_bytes = std::array<int64_t, 3>{0, 256, 8 << 10}[random() % 3];
  CopyChoices any_choices;
  any_choices.transpose_lines = std::array<int64_t, 4>{1, 2, 3, 8}[random() % 4];
  any_choices.adjacent_lines = std::array<int64_t, 4>{1, 2, 5, 8}[random() % 4];
  any_choices.memcpy_row_bytes = std::array<int64_t, 3>{0, 100, 8 << 10}[random() % 3];
  any_choices.stream_row_bytes = std::array<int64_t, 3>{0, 64, 512}[random() % 3];
  any_choices.transpose_in_l2 = random() % 2 == 0;
  any_choices.transpose_by_avx2 = random() % 2 == 0;
  const bool as_here = random() % 3 == 0;
  const CpuTuning* const tuning = as_here ? nullptr : &small_caches;
  const CopyChoices* const choices = as_here ? nullptr : &any_choices;
  for (const Level& level : Levels()) {
    for (const bool fresh : {false, true}) {
      for (const int64_t stream_bytes : {int64_t{0}, INT64_MAX}) {
        for (const int num_threads : {1, 3}) {
          if (num_threads > 1 && (fresh || to_bytes < (size_t{256} << 10))) continue;  // less is not divided
          CopyStridedOptions options;
          options.features = &level.features;
          options.fresh = fresh;
          options.stream_bytes = stream_bytes;
          options.num_threads = num_threads;
          options.tuning = tuning;
          options.choices = choices;
          std::copy(before.begin(), before.end(), target.data());
          CopyStrided(dtype, source, from, target.data(), to, options);
          const auto wrong = std::mismatch(wanted.begin(), wanted.end(), target.data());
          ASSERT_TRUE(wrong.first == wanted.end())
              << level.name << (fresh ? ", fresh" : "") << ", streaming from " << stream_bytes << " on, " << num_threads
              << " threads, " << (as_here ? CopyChoices::Of(GetCpuTuning().family) : any_choices).transpose_lines
              << " lines: byte " << wrong.first - wanted.begin() << " of " << to_bytes;
        }
      }
    }
  }
}

// Elements in any order, with gaps and of any direction; some axes of the source stand still.
Layout RandomLayout(const Numbers& dims, bool may_repeat, std::mt19937* random) {
  std::vector<size_t> order(dims.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  if ((*random)() % 3 != 0) std::shuffle(order.begin(), order.end(), *random);
  const bool dense = (*random)() % 2 == 0;
  Numbers strides(dims.size(), 0);
  int64_t step = dense || (*random)() % 2 == 0 ? 1 : static_cast<int64_t>((*random)() % 4 + 1);
  int64_t offset = static_cast<int64_t>((*random)() % 6);
  for (size_t i = order.size(); i-- > 0;) {
    const int64_t dim = dims[order[i]];
    if (may_repeat && (*random)() % 6 == 0) continue;
    strides[order[i]] = step;
    if ((*random)() % 4 == 0) {
      strides[order[i]] = -step;
      offset += std::max<int64_t>(dim - 1, 0) * step;
    }
    step = step * std::max<int64_t>(dim, 1) + (dense ? 0 : static_cast<int64_t>((*random)() % 4));
  }
  return *Layout::Create(dims, strides, offset);
}

Numbers RandomDims(int64_t most, std::mt19937* random) {
  const int64_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64, 65, 100, 130, 300};
  Numbers dims((*random)() % 7);
  for (int64_t& dim : dims) {
    do dim = sizes[(*random)() % std::size(sizes)];
    while (dim > most);
    most /= dim;
  }
  if (!dims.empty() && (*random)() % 20 == 0) dims[(*random)() % dims.size()] = 0;
  return dims;
}

TEST(CopyStrided, MovesEachElement) {
  for (uint32_t seed = 0; seed < 600; ++seed) {
    std::mt19937 random(seed);
    const Numbers dims = RandomDims(20000, &random);
    const Layout from = RandomLayout(dims, /*may_repeat=*/true, &random);
    const Layout to = RandomLayout(dims, /*may_repeat=*/false, &random);
    ExpectCopies(kDTypes[random() % std::size(kDTypes)], from, to, seed);
    if (HasFatalFailure()) return;
  }
}

// Around the edges of blocks, tiles and cache lines.
TEST(CopyStrided, TransposesRectanglesOfAllSizes) {
  const int64_t sizes[] = {1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 129, 200, 447, 449, 700};
  uint32_t seed = 0;
  for (const int64_t rows : sizes) {
    for (const int64_t columns : sizes) {
      if (rows * columns > 40000) continue;
      const DType dtype = kDTypes[++seed % std::size(kDTypes)];
      const int64_t padding = seed % 3 == 0 ? 0 : seed % 64;  // after each row
      const Layout from = *Layout::Create({rows, columns}, {columns + padding, 1}, padding / 2);
      ExpectCopies(dtype, *from.Transpose(0, 1), Layout::RowMajor(TensorShape({columns, rows})), seed);
      const Layout padded = *Layout::Create({columns, rows}, {rows + 64, 1}, padding % 2 == 0 ? 0 : 5);
      ExpectCopies(dtype, *from.Transpose(0, 1), padded, seed);
      ExpectCopies(dtype, *from.Transpose(0, 1)->Flip({0}), padded, seed);
      if (HasFatalFailure()) return;
    }
  }
}

// Destinations whose rows start at cache lines, and sources of adjacent rows and of others.
TEST(CopyStrided, TransposesIntoWholeCacheLines) {
  uint32_t seed = 0;
  for (const DType dtype : kDTypes) {
    const int64_t line = 64 / static_cast<int64_t>(ElementSize(dtype));
    for (const int64_t rows : {line, line + 1, 4 * line, 9 * line, 9 * line + line / 2}) {
      for (const int64_t columns : {line - 1, line, line + 3, 2 * line, int64_t{2048} + line + 1}) {
        if (rows * columns > 200000 || columns < 1) continue;
        const int64_t to_row = (rows + line - 1) / line * line + seed % 2 * line;
        const Layout to = *Layout::Create({2, columns, rows}, {columns * to_row, to_row, 1}, 0);
        for (const int64_t padding : {0, 5}) {
          const int64_t from_row = columns + padding;
          const Layout from = *Layout::Create({2, columns, rows}, {rows * from_row, 1, from_row}, 0);
          ExpectCopies(dtype, from, to, ++seed);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

// Sides that fill no register, and rows of the destination whose distance is a multiple of 4 KiB.
TEST(CopyStrided, TransposesShortSides) {
  uint32_t seed = 0;
  for (const DType dtype : kDTypes) {
    const int64_t far = 4096 / static_cast<int64_t>(ElementSize(dtype));
    for (const int64_t rows : {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 17, 20}) {
      for (const int64_t columns : {1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 31, 64}) {
        const Layout from = *Layout::Create({3, columns, rows}, {rows * columns, 1, columns}, 0);
        ExpectCopies(dtype, from, Layout::RowMajor(TensorShape({3, columns, rows})), ++seed);
        const int64_t row = seed % 2 == 0 ? far : rows + 1;
        ExpectCopies(dtype, from, *Layout::Create({3, columns, rows}, {row * columns, row, 1}, 0), ++seed);
        if (HasFatalFailure()) return;
      }
    }
  }
}

// Short rows, one after the other and apart.
TEST(CopyStrided, MovesRowsOfAllSizes) {
  uint32_t seed = 0;
  for (const DType dtype : kDTypes) {
    for (int64_t count = 1; count <= 1200; count += count < 20 ? 1 : count < 140 ? 13 : 177) {
      const Layout from = *Layout::Create({5, 4, count}, {count, 5 * count, 1}, 0);
      ExpectCopies(dtype, from, Layout::RowMajor(TensorShape({5, 4, count})), ++seed);
      ExpectCopies(dtype, from, *Layout::Create({5, 4, count}, {4 * count + 9, count + 2, 1}, 0), ++seed);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(CopyStrided, GathersRowsOfAllSizes) {
  uint32_t seed = 0;
  for (const int64_t step : {-3, -2, -1, 0, 1, 2, 3, 40}) {
    for (const int64_t count : {1, 2, 3, 15, 16, 17, 31, 32, 33, 63, 64, 65, 66, 127, 128, 129, 1000, 5000}) {
      for (const DType dtype : kDTypes) {
        const int64_t most = std::abs(step) * (count - 1);
        const Layout from = *Layout::Create({2, count}, {most + 7, step}, step < 0 ? most : 0);
        ExpectCopies(dtype, from, Layout::RowMajor(TensorShape({2, count})), ++seed);
        ExpectCopies(dtype, from, *Layout::Create({2, count}, {-count - 1, 1}, count + 1), ++seed);
        if (HasFatalFailure()) return;
      }
    }
  }
}

// Colours of pixels: two or three rows whose elements take turns in the destination, or took turns in the source.
TEST(CopyStrided, MovesElementsThatTakeTurns) {
  uint32_t seed = 0;
  for (const DType dtype : kDTypes) {
    for (const int64_t colours : {2, 3}) {
      for (const int64_t pixels : {1, 2, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 48, 64, 65, 100, 700, 5000}) {
        const Layout planes = *Layout::Create({4, pixels, colours}, {pixels * colours + 1, 1, pixels}, 0);
        const Layout together = *Layout::Create({4, pixels, colours}, {pixels * colours, colours, 1}, 0);
        ExpectCopies(dtype, planes, together, ++seed);
        ExpectCopies(dtype, *together.Transpose(1, 2), *planes.Transpose(1, 2), ++seed);
        const Layout apart = *Layout::Create({4, pixels, colours}, {(pixels + 3) * 5, 5, 1}, 2);
        ExpectCopies(dtype, planes, apart, ++seed);
        if (HasFatalFailure()) return;
      }
    }
  }
}

// Small equal rectangles, one after the other.
TEST(CopyStrided, TransposesManySmallPlanes) {
  uint32_t seed = 0;
  for (const DType dtype : kDTypes) {
    for (const int64_t planes : {1, 2, 7, 300}) {
      for (const int64_t rows : {2, 4, 5, 8, 9, 16, 17, 33}) {
        for (const int64_t columns : {2, 3, 4, 8, 9, 16, 17}) {
          const Layout from = *Layout::Create({rows, planes, columns}, {planes * columns, columns, 1}, 0);
          ExpectCopies(dtype, *from.Permute({2, 1, 0}), Layout::RowMajor(TensorShape({columns, planes, rows})), ++seed);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

struct LargeCase {
  const char* name;
  Layout from;
  Layout to;
};

// Large enough for several threads and for all that is written past the cache.
TEST(CopyStrided, DividesLargeCopies) {
  const auto dense = [](std::initializer_list<int64_t> dims) { return Layout::RowMajor(TensorShape(dims)); };
  const LargeCase cases[] = {
      {"Block", dense({700001}), dense({700001})},
      {"Rows", *dense({300, 1100}).Slice(1, 1, 1050), dense({300, 1049})},
      {"ShortRows", *dense({30000, 12}).Slice(1, 1, 10), dense({30000, 9})},
      {"EverySecond", *dense({200, 3001}).Slice(1, 0, {}, 2), dense({200, 1501})},
      {"EverySecondOfShortRows", *dense({9000, 81}).Slice(1, 0, {}, 2), dense({9000, 41})},
      {"Transpose", *dense({515, 611}).Transpose(0, 1), dense({611, 515})},
      {"TransposeOfAligned", *dense({512, 640}).Transpose(0, 1), dense({640, 512})},
      {"ReverseAxes", *dense({61, 67, 71}).Permute({2, 1, 0}), dense({71, 67, 61})},
      {"ChannelsLast", *dense({2, 33, 80, 70}).Permute({0, 2, 3, 1}), dense({2, 80, 70, 33})},
      {"ChannelsFirst", *dense({2, 80, 70, 33}).Permute({0, 3, 1, 2}), dense({2, 33, 80, 70})},
      {"Pixels", *dense({3, 400, 301}).Permute({1, 2, 0}), dense({400, 301, 3})},
      {"Planes", *dense({400, 301, 3}).Permute({2, 0, 1}), dense({3, 400, 301})},
      {"FewPlanesOfMany", *dense({300, 301, 20}).Permute({2, 0, 1}), dense({20, 300, 301})},
      {"ShortRunsAsElements", *dense({300, 200, 2}).Permute({1, 0, 2}), dense({200, 300, 2})},
      {"Scattered", dense({300, 700}), *dense({300, 1400}).Slice(1, 1, {}, 2)},
      {"TransposeOfEverySecond", *dense({500, 1000}).Slice(1, 0, {}, 2)->Transpose(0, 1), dense({500, 500})},
      {"Repeated", *dense({500, 1}).Expand({500, 600}), dense({500, 600})},
      {"ReversedAndRepeated", *dense({600}).Flip({0})->Expand({500, 600}), dense({500, 600})},
      {"EveryFourthAndRepeated", *dense({2400}).Slice(0, 0, {}, 4)->Expand({500, 600}), dense({500, 600})},
      {"PlanesOfEverySecondColour", *dense({9000, 20, 2}).Select(2, 0)->Transpose(0, 1), dense({20, 9000})},
      {"WindowsThatOverlap", *Layout::Create({60, 5000}, {1, 7}, 0), dense({60, 5000})},
      {"PlanesOfReversedPixels", *dense({400, 301, 3}).Flip({0, 1})->Permute({2, 0, 1}), dense({3, 400, 301})},
      {"ReversedPixels", *dense({3, 400, 301}).Flip({1, 2})->Permute({1, 2, 0}), dense({400, 301, 3})},
  };
  uint32_t seed = 0;
  for (const LargeCase& test : cases) {
    SCOPED_TRACE(test.name);
    ExpectCopies(DType::kFloat32, test.from, test.to, ++seed);
    ExpectCopies(kDTypes[seed % std::size(kDTypes)], test.from, test.to, seed);
  }
}

TEST(CopyStrided, AssignsStrings) {
  const std::vector<std::string> from = {"a", "", std::string(100, 'b'), std::string("\0c", 2), "d", "e"};
  std::vector<std::string> to(6, "old");
  CopyStrided(DType::kString, from.data(), *Layout::RowMajor(TensorShape({2, 3})).Transpose(0, 1), to.data(),
              Layout::RowMajor(TensorShape({3, 2})));
  EXPECT_THAT(to, ::testing::ElementsAre(from[0], from[3], from[1], from[4], from[2], from[5]));
}

}  // namespace
}  // namespace tensorcask::internal
