#include "tensorcask/serialize/gguf/internal/block_numbers.h"
#include "tensorcask/serialize/gguf/internal/decoders.h"

namespace tensorcask::gguf {
namespace {

// The scale and the minimum of group `group` of 8, six bits each, of the 12 bytes that q4_k and q5_k have for them.
struct ScaleAndMin {
  ScaleAndMin(const uint8_t* bytes, int group) {
    if (group < 4) {
      scale = bytes[group] & 63;
      min = bytes[group + 4] & 63;
    } else {
      scale = (bytes[group + 4] & 15) | (bytes[group - 4] >> 6) << 4;
      min = (bytes[group + 4] >> 4) | (bytes[group] >> 6) << 4;
    }
  }
  int scale;
  int min;
};

// Digits in base 3, of each byte first the first one, each less 1. A byte is scaled so that multiplying by 3 moves the
// next digit above it: the digit is rest * 3 >> 8.
template <int kBytes, int kDigits>
void TernaryCodes(const uint8_t* __restrict bytes, int8_t* __restrict codes) {
  constexpr uint8_t kPowers[5] = {1, 3, 9, 27, 81};
  for (int digit = 0; digit < kDigits; ++digit) {
    for (int i = 0; i < kBytes; ++i) {
      const auto rest = static_cast<uint8_t>(bytes[i] * kPowers[digit]);
      codes[digit * kBytes + i] = static_cast<int8_t>((rest >= 86 ? 1 : 0) + (rest >= 171 ? 1 : 0) - 1);
    }
  }
}

}  // namespace

void DecodeQ2K(const uint8_t* blocks, size_t count, float* out) {
  ForEachBlock<84, 256>(blocks, count, out, [](const uint8_t* __restrict block, float* __restrict numbers) {
    const float d = HalfAt(block + 80);
    const float dmin = HalfAt(block + 82);
    for (int group = 0; group < 16; ++group) {  // groups of 16 elements
      const float scale = d * static_cast<float>(block[group] & 15);
      const float min = dmin * static_cast<float>(block[group] >> 4);
      const uint8_t* const codes = block + 16 + group / 8 * 32 + group % 2 * 16;
      const int shift = group % 8 / 2 * 2;
      for (int i = 0; i < 16; ++i) {
        numbers[group * 16 + i] = scale * static_cast<float>(codes[i] >> shift & 3) - min;
      }
    }
  });
}

void DecodeQ3K(const uint8_t* blocks, size_t count, float* out) {
  ForEachBlock<110, 256>(blocks, count, out, [](const uint8_t* __restrict block, float* __restrict numbers) {
    const float d = HalfAt(block + 108);
    const uint8_t* const scales = block + 96;
    for (int group = 0; group < 16; ++group) {  // groups of 16 elements
      const int low = group < 8 ? scales[group] & 15 : scales[group - 8] >> 4;
      const int high = scales[8 + group % 4] >> (2 * (group / 4)) & 3;
      const float scale = d * static_cast<float>((low | high << 4) - 32);
      const uint8_t* const codes = block + 32 + group / 8 * 32 + group % 2 * 16;
      const uint8_t* const high_bits = block + group % 2 * 16;
      const int shift = group % 8 / 2 * 2;
      for (int i = 0; i < 16; ++i) {
        const int code = (codes[i] >> shift & 3) | (high_bits[i] >> (group / 2) & 1) << 2;
        numbers[group * 16 + i] = scale * static_cast<float>(code - 4);
      }
    }
  });
}

void DecodeQ4K(const uint8_t* blocks, size_t count, float* out) {
  ForEachBlock<144, 256>(blocks, count, out, [](const uint8_t* __restrict block, float* __restrict numbers) {
    const float d = HalfAt(block);
    const float dmin = HalfAt(block + 2);
    for (int group = 0; group < 8; ++group) {  // groups of 32 elements
      const ScaleAndMin stored(block + 4, group);
      const float scale = d * static_cast<float>(stored.scale);
      const float min = dmin * static_cast<float>(stored.min);
      const uint8_t* const codes = block + 16 + group / 2 * 32;
      float* const part = numbers + group * 32;
      // Two loops: a constant shift keeps bytes as bytes, 16 in a register.
      if (group % 2 == 0) {
        for (int i = 0; i < 32; ++i) part[i] = scale * static_cast<float>(codes[i] & 15) - min;
      } else {
        for (int i = 0; i < 32; ++i) part[i] = scale * static_cast<float>(codes[i] >> 4) - min;
      }
    }
  });
}

void DecodeQ5K(const uint8_t* blocks, size_t count, float* out) {
  ForEachBlock<176, 256>(blocks, count, out, [](const uint8_t* __restrict block, float* __restrict numbers) {
    const float d = HalfAt(block);
    const float dmin = HalfAt(block + 2);
    const uint8_t* const high_bits = block + 16;
    for (int group = 0; group < 8; ++group) {  // groups of 32 elements
      const ScaleAndMin stored(block + 4, group);
      const float scale = d * static_cast<float>(stored.scale);
      const float min = dmin * static_cast<float>(stored.min);
      const uint8_t* const codes = block + 48 + group / 2 * 32;
      const auto bit = static_cast<uint8_t>(1 << group);
      float* const part = numbers + group * 32;
      const auto high = [&](int i) { return (high_bits[i] & bit) != 0 ? 16 : 0; };
      if (group % 2 == 0) {
        for (int i = 0; i < 32; ++i) part[i] = scale * static_cast<float>((codes[i] & 15) + high(i)) - min;
      } else {
        for (int i = 0; i < 32; ++i) part[i] = scale * static_cast<float>((codes[i] >> 4) + high(i)) - min;
      }
    }
  });
}

void DecodeQ6K(const uint8_t* blocks, size_t count, float* out) {
  ForEachBlock<210, 256>(blocks, count, out, [](const uint8_t* __restrict block, float* __restrict numbers) {
    const float d = HalfAt(block + 208);
    for (int group = 0; group < 16; ++group) {  // groups of 16 elements
      const float scale = d * SignedByte(block[192 + group]);
      const int half = group / 8;         // which half of the block: 128 elements
      const int quarter = group % 8 / 2;  // which quarter of that: 32 elements
      const uint8_t* const low = block + half * 64 + quarter % 2 * 32 + group % 2 * 16;
      const uint8_t* const high = block + 128 + half * 32 + group % 2 * 16;
      const int low_shift = quarter / 2 * 4;
      const int high_shift = quarter * 2;
      for (int i = 0; i < 16; ++i) {
        const int code = (low[i] >> low_shift & 15) | (high[i] >> high_shift & 3) << 4;
        numbers[group * 16 + i] = scale * static_cast<float>(code - 32);
      }
    }
  });
}

void DecodeQ8K(const uint8_t* blocks, size_t count, float* out) {
  ForEachBlock<292, 256>(blocks, count, out, [](const uint8_t* __restrict block, float* __restrict numbers) {
    const auto d = LoadLittleEndian<float>(block);
    for (int i = 0; i < 256; ++i) numbers[i] = SignedByte(block[4 + i]) * d;
  });
}

void DecodeIq4Xs(const uint8_t* blocks, size_t count, float* out) {
  ForEachBlock<136, 256>(blocks, count, out, [](const uint8_t* __restrict block, float* __restrict numbers) {
    const float d = HalfAt(block);
    const auto high = LoadLittleEndian<uint16_t>(block + 2);
    for (int group = 0; group < 8; ++group) {  // groups of 32 elements
      const int low = block[4 + group / 2] >> (group % 2 * 4) & 15;
      const float scale = d * static_cast<float>((low | (high >> (2 * group) & 3) << 4) - 32);
      const uint8_t* const codes = block + 8 + group * 16;
      for (int i = 0; i < 16; ++i) {
        numbers[group * 32 + i] = scale * static_cast<float>(kNonLinear4[codes[i] & 15]);
        numbers[group * 32 + i + 16] = scale * static_cast<float>(kNonLinear4[codes[i] >> 4]);
      }
    }
  });
}

void DecodeTq10(const uint8_t* blocks, size_t count, float* out) {
  ForEachBlock<54, 256>(blocks, count, out, [](const uint8_t* __restrict block, float* __restrict numbers) {
    const float d = HalfAt(block + 52);
    int8_t codes[256];
    TernaryCodes<32, 5>(block, codes);
    TernaryCodes<16, 5>(block + 32, codes + 160);
    TernaryCodes<4, 4>(block + 48, codes + 240);
    for (int i = 0; i < 256; ++i) numbers[i] = static_cast<float>(codes[i]) * d;
  });
}

void DecodeTq20(const uint8_t* blocks, size_t count, float* out) {
  ForEachBlock<66, 256>(blocks, count, out, [](const uint8_t* __restrict block, float* __restrict numbers) {
    const float d = HalfAt(block + 64);
    for (int group = 0; group < 8; ++group) {  // groups of 32 elements
      const uint8_t* const codes = block + group / 4 * 32;
      const int shift = group % 4 * 2;
      for (int i = 0; i < 32; ++i) {
        numbers[group * 32 + i] = static_cast<float>((codes[i] >> shift & 3) - 1) * d;
      }
    }
  });
}

}  // namespace tensorcask::gguf
