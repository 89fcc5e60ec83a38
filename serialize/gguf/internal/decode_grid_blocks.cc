#include "tensorcask/serialize/gguf/internal/block_numbers.h"
#include "tensorcask/serialize/gguf/internal/decoders.h"
#include "tensorcask/serialize/gguf/internal/grid_rows.h"

namespace tensorcask::gguf {
namespace {

// A grid with a byte for each element.
template <int kRows, int kWidth>
class Grid {
 public:
  template <int kValues>
  Grid(const uint16_t (&rows)[kRows], const int8_t (&values)[kValues]) {
    constexpr int kBits = 16 / kWidth > 2 ? 3 : 2;
    for (int row = 0; row < kRows; ++row) {
      for (int i = 0; i < kWidth; ++i) {
        const int code = rows[row] >> (kBits * i) & ((1 << kBits) - 1);
        rows_[row][i] = values[code < kValues ? code : 0];
      }
    }
  }
  const int8_t* row(int index) const { return rows_[index]; }

 private:
  int8_t rows_[kRows][kWidth];
};

constexpr int8_t kIq2Values[] = {8, 25, 43};
constexpr int8_t kIq1Values[] = {-1, 0, 1};

// Eight signs of seven bits: the number of minus signs is even.
uint8_t EvenSigns(uint32_t bits) {
  bits &= 127;
  uint32_t parity = bits ^ bits >> 4;
  parity ^= parity >> 2;
  parity ^= parity >> 1;
  return static_cast<uint8_t>(bits | (parity & 1) << 7);
}

// Byte i of a row: -1 if bit i of its number is set, else 0.
struct SignRows {
  constexpr SignRows() {
    for (int number = 0; number < 256; ++number) {
      for (int i = 0; i < 8; ++i) rows[number][i] = (number & 1 << i) != 0 ? -1 : 0;
    }
  }
  int8_t rows[256][8] = {};
};
constexpr SignRows kSigns;

// The eight elements of a row, times `scale`; element i is negative if bit i of `signs` is set.
void PutSigned(const int8_t* __restrict row, float scale, int signs, float* __restrict out) {
  const int8_t* const sign = kSigns.rows[signs & 255];  // all bits, or none
  CASK_KEEP_LOOP
  for (int i = 0; i < 8; ++i) {
    out[i] = scale * static_cast<float>(static_cast<int8_t>((row[i] ^ sign[i]) - sign[i]));
  }
}

// The same of two rows of four elements.
void PutSignedPair(const int8_t* first, const int8_t* second, float scale, int signs, float* out) {
  const uint64_t both = LoadLittleEndian<uint32_t>(first) | uint64_t{LoadLittleEndian<uint32_t>(second)} << 32;
  int8_t row[8];
  StoreLittleEndian(both, row);
  PutSigned(row, scale, signs, out);
}

// The eight elements of a row of iq1_s: `delta` is added before they are scaled.
void PutShifted(const int8_t* __restrict row, float scale, float delta, float* __restrict out) {
  CASK_KEEP_LOOP
  for (int i = 0; i < 8; ++i) out[i] = scale * (static_cast<float>(row[i]) + delta);
}

const Grid<2048, 8>& Iq1Grid() {
  static const auto* const kGrid = new Grid<2048, 8>(kIq1SRows, kIq1Values);
  return *kGrid;
}

constexpr float kIq1Delta = 0.125f;

}  // namespace

void DecodeIq2Xxs(const uint8_t* blocks, size_t count, float* out) {
  static const auto* const kGrid = new Grid<256, 8>(kIq2XxsRows, kIq2Values);
  ForEachBlock<66, 256>(blocks, count, out, [](const uint8_t* __restrict block, float* __restrict numbers) {
    const float d = HalfAt(block);
    for (int group = 0; group < 8; ++group) {  // groups of 32 elements
      const uint8_t* const rows = block + 2 + group * 8;
      const auto rest = LoadLittleEndian<uint32_t>(rows + 4);
      const float scale = d * (0.5f + static_cast<float>(rest >> 28)) * 0.25f;
      for (int i = 0; i < 4; ++i) {
        PutSigned(kGrid->row(rows[i]), scale, EvenSigns(rest >> (7 * i)), numbers + group * 32 + i * 8);
      }
    }
  });
}

void DecodeIq2Xs(const uint8_t* blocks, size_t count, float* out) {
  static const auto* const kGrid = new Grid<512, 8>(kIq2XsRows, kIq2Values);
  ForEachBlock<74, 256>(blocks, count, out, [](const uint8_t* __restrict block, float* __restrict numbers) {
    const float d = HalfAt(block);
    for (int group = 0; group < 16; ++group) {  // groups of 16 elements
      const int code = block[66 + group / 2] >> (group % 2 * 4) & 15;
      const float scale = d * (0.5f + static_cast<float>(code)) * 0.25f;
      for (int i = 0; i < 2; ++i) {
        const auto row = LoadLittleEndian<uint16_t>(block + 2 + (group * 2 + i) * 2);
        PutSigned(kGrid->row(row & 511), scale, EvenSigns(row >> 9), numbers + group * 16 + i * 8);
      }
    }
  });
}

void DecodeIq2S(const uint8_t* blocks, size_t count, float* out) {
  static const auto* const kGrid = new Grid<1024, 8>(kIq2SRows, kIq2Values);
  ForEachBlock<82, 256>(blocks, count, out, [](const uint8_t* __restrict block, float* __restrict numbers) {
    const float d = HalfAt(block);
    for (int group = 0; group < 16; ++group) {  // groups of 16 elements
      const int code = block[74 + group / 2] >> (group % 2 * 4) & 15;
      const float scale = d * (0.5f + static_cast<float>(code)) * 0.25f;
      for (int i = group * 2; i < group * 2 + 2; ++i) {
        const int row = block[2 + i] | (block[66 + i / 4] >> (i % 4 * 2) & 3) << 8;
        PutSigned(kGrid->row(row), scale, block[34 + i], numbers + i * 8);
      }
    }
  });
}

void DecodeIq3Xxs(const uint8_t* blocks, size_t count, float* out) {
  static constexpr int8_t kValues[] = {4, 12, 20, 28, 36, 44, 52, 62};
  static const auto* const kGrid = new Grid<256, 4>(kIq3XxsRows, kValues);
  ForEachBlock<98, 256>(blocks, count, out, [](const uint8_t* __restrict block, float* __restrict numbers) {
    const float d = HalfAt(block);
    for (int group = 0; group < 8; ++group) {  // groups of 32 elements
      const auto rest = LoadLittleEndian<uint32_t>(block + 66 + group * 4);
      const float scale = d * (0.5f + static_cast<float>(rest >> 28)) * 0.5f;
      for (int i = 0; i < 4; ++i) {
        const uint8_t* const rows = block + 2 + group * 8 + i * 2;
        const int signs = EvenSigns(rest >> (7 * i));
        PutSignedPair(kGrid->row(rows[0]), kGrid->row(rows[1]), scale, signs, numbers + group * 32 + i * 8);
      }
    }
  });
}

void DecodeIq3S(const uint8_t* blocks, size_t count, float* out) {
  static constexpr int8_t kValues[] = {1, 3, 5, 7, 9, 11, 13, 15};
  static const auto* const kGrid = new Grid<512, 4>(kIq3SRows, kValues);
  ForEachBlock<110, 256>(blocks, count, out, [](const uint8_t* __restrict block, float* __restrict numbers) {
    const float d = HalfAt(block);
    for (int group = 0; group < 8; ++group) {  // groups of 32 elements
      const int code = block[106 + group / 2] >> (group % 2 * 4) & 15;
      const float scale = d * static_cast<float>(1 + 2 * code);
      for (int i = 0; i < 4; ++i) {
        const int high = block[66 + group] >> (2 * i);
        const int first = block[2 + group * 8 + 2 * i] | (high & 1) << 8;
        const int second = block[2 + group * 8 + 2 * i + 1] | (high >> 1 & 1) << 8;
        PutSignedPair(kGrid->row(first), kGrid->row(second), scale, block[74 + group * 4 + i],
                      numbers + group * 32 + i * 8);
      }
    }
  });
}

void DecodeIq1S(const uint8_t* blocks, size_t count, float* out) {
  ForEachBlock<50, 256>(blocks, count, out,
                        [&grid = Iq1Grid()](const uint8_t* __restrict block, float* __restrict numbers) {
                          const float d = HalfAt(block);
                          for (int group = 0; group < 8; ++group) {  // groups of 32 elements
                            const auto rest = LoadLittleEndian<uint16_t>(block + 34 + group * 2);
                            const float scale = d * static_cast<float>(2 * (rest >> 12 & 7) + 1);
                            const float delta = (rest & 0x8000) != 0 ? -kIq1Delta : kIq1Delta;
                            for (int i = 0; i < 4; ++i) {
                              const int row = block[2 + group * 4 + i] | (rest >> (3 * i) & 7) << 8;
                              PutShifted(grid.row(row), scale, delta, numbers + group * 32 + i * 8);
                            }
                          }
                        });
}

void DecodeIq1M(const uint8_t* blocks, size_t count, float* out) {
  ForEachBlock<56, 256>(
      blocks, count, out, [&grid = Iq1Grid()](const uint8_t* __restrict block, float* __restrict numbers) {
        uint16_t scales[4];
        int d_bits = 0;  // the highest four bits of each
        for (int i = 0; i < 4; ++i) {
          scales[i] = LoadLittleEndian<uint16_t>(block + 48 + i * 2);
          d_bits |= scales[i] >> 12 << (4 * i);
        }
        const float d = HalfValue(static_cast<uint16_t>(d_bits));
        for (int group = 0; group < 16; ++group) {  // groups of 16 elements
          const float scale = d * static_cast<float>(2 * (scales[group / 4] >> (group % 4 * 3) & 7) + 1);
          for (int i = group * 2; i < group * 2 + 2; ++i) {
            const int high = block[32 + i / 2] >> (i % 2 * 4) & 15;
            PutShifted(grid.row(block[i] | (high & 7) << 8), scale, (high & 8) != 0 ? -kIq1Delta : kIq1Delta,
                       numbers + i * 8);
          }
        }
      });
}

}  // namespace tensorcask::gguf
