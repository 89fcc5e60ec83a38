#include "tensorcask/serialize/gguf/internal/block_numbers.h"
#include "tensorcask/serialize/gguf/internal/decoders.h"

namespace tensorcask::gguf {
namespace {

// 2^(exponent - 128), as the scale of mxfp4 says: exponents 0 and 1 give subnormal numbers, 255 is not NaN.
float MxScale(uint8_t exponent) {
  const uint32_t bits = exponent >= 2 ? static_cast<uint32_t>(exponent - 1) << 23 : uint32_t{0x200000} << exponent;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// Half of an unsigned float8 (E4M3), the scale of nvfp4: 0 and 0x7f are 0. Of other bytes the highest bit is ignored.
float NvScale(uint8_t bits) {
  if (bits == 0x7f) return 0.0f;
  const uint32_t exponent = bits >> 3 & 15;
  const uint32_t mantissa = bits & 7;
  if (exponent == 0) return static_cast<float>(mantissa) * 0x1p-10f;
  const uint32_t float_bits = (exponent + 127 - 7 - 1) << 23 | mantissa << 20;
  float value;
  std::memcpy(&value, &float_bits, sizeof value);
  return value;
}

// Calls number(code, i) for element `i` of 32, whose codes are the low halves of 16 bytes, then the high ones.
template <typename Number>
void ForEachNibble(const uint8_t* __restrict codes, float* __restrict numbers, Number number) {
  CASK_KEEP_LOOP
  for (int i = 0; i < 16; ++i) numbers[i] = number(codes[i] & 15, i);
  CASK_KEEP_LOOP
  for (int i = 0; i < 16; ++i) numbers[i + 16] = number(codes[i] >> 4, i + 16);
}

// A code of four bits, with bit `i` of `high` above them.
int FiveBits(int low, uint32_t high, int i) { return low | static_cast<int>(high >> i & 1) << 4; }

}  // namespace

void DecodeQ40(const uint8_t* blocks, size_t count, float* out) {
  ForEachBlock<18, 32>(blocks, count, out, [](const uint8_t* __restrict block, float* __restrict numbers) {
    const float d = HalfAt(block);
    ForEachNibble(block + 2, numbers, [&](int code, int /*i*/) { return static_cast<float>(code - 8) * d; });
  });
}

void DecodeQ41(const uint8_t* blocks, size_t count, float* out) {
  ForEachBlock<20, 32>(blocks, count, out, [](const uint8_t* __restrict block, float* __restrict numbers) {
    const float d = HalfAt(block);
    const float m = HalfAt(block + 2);
    ForEachNibble(block + 4, numbers, [&](int code, int /*i*/) { return static_cast<float>(code) * d + m; });
  });
}

void DecodeQ50(const uint8_t* blocks, size_t count, float* out) {
  ForEachBlock<22, 32>(blocks, count, out, [](const uint8_t* __restrict block, float* __restrict numbers) {
    const float d = HalfAt(block);
    const auto high = LoadLittleEndian<uint32_t>(block + 2);
    ForEachNibble(block + 6, numbers,
                  [&](int code, int i) { return static_cast<float>(FiveBits(code, high, i) - 16) * d; });
  });
}

void DecodeQ51(const uint8_t* blocks, size_t count, float* out) {
  ForEachBlock<24, 32>(blocks, count, out, [](const uint8_t* __restrict block, float* __restrict numbers) {
    const float d = HalfAt(block);
    const float m = HalfAt(block + 2);
    const auto high = LoadLittleEndian<uint32_t>(block + 4);
    ForEachNibble(block + 8, numbers,
                  [&](int code, int i) { return static_cast<float>(FiveBits(code, high, i)) * d + m; });
  });
}

void DecodeQ80(const uint8_t* blocks, size_t count, float* out) {
  ForEachBlock<34, 32>(blocks, count, out, [](const uint8_t* __restrict block, float* __restrict numbers) {
    const float d = HalfAt(block);
    for (int i = 0; i < 32; ++i) numbers[i] = SignedByte(block[2 + i]) * d;
  });
}

void DecodeQ81(const uint8_t* blocks, size_t count, float* out) {
  ForEachBlock<36, 32>(blocks, count, out, [](const uint8_t* __restrict block, float* __restrict numbers) {
    const float d = HalfAt(block);
    for (int i = 0; i < 32; ++i) numbers[i] = SignedByte(block[4 + i]) * d;
  });
}

void DecodeIq4Nl(const uint8_t* blocks, size_t count, float* out) {
  ForEachBlock<18, 32>(blocks, count, out, [](const uint8_t* __restrict block, float* __restrict numbers) {
    const float d = HalfAt(block);
    for (int i = 0; i < 16; ++i) {
      numbers[i] = d * static_cast<float>(kNonLinear4[block[2 + i] & 15]);
      numbers[i + 16] = d * static_cast<float>(kNonLinear4[block[2 + i] >> 4]);
    }
  });
}

void DecodeMxfp4(const uint8_t* blocks, size_t count, float* out) {
  ForEachBlock<17, 32>(blocks, count, out, [](const uint8_t* __restrict block, float* __restrict numbers) {
    const float d = MxScale(block[0]);
    for (int i = 0; i < 16; ++i) {
      numbers[i] = static_cast<float>(kTwiceFloat4[block[1 + i] & 15]) * d;
      numbers[i + 16] = static_cast<float>(kTwiceFloat4[block[1 + i] >> 4]) * d;
    }
  });
}

void DecodeNvfp4(const uint8_t* blocks, size_t count, float* out) {
  ForEachBlock<36, 64>(blocks, count, out, [](const uint8_t* __restrict block, float* __restrict numbers) {
    for (int part = 0; part < 4; ++part) {
      const float d = NvScale(block[part]);
      const uint8_t* const codes = block + 4 + part * 8;
      for (int i = 0; i < 8; ++i) {
        numbers[part * 16 + i] = static_cast<float>(kTwiceFloat4[codes[i] & 15]) * d;
        numbers[part * 16 + i + 8] = static_cast<float>(kTwiceFloat4[codes[i] >> 4]) * d;
      }
    }
  });
}

void DecodeQ10(const uint8_t* blocks, size_t count, float* out) {
  ForEachBlock<18, 128>(blocks, count, out, [](const uint8_t* __restrict block, float* __restrict numbers) {
    const float d = HalfAt(block);
    for (int byte = 0; byte < 16; ++byte) {
      const int bits = block[2 + byte];
      for (int i = 0; i < 8; ++i) numbers[byte * 8 + i] = d * static_cast<float>((bits >> i & 1) * 2 - 1);
    }
  });
}

void DecodeQ20(const uint8_t* blocks, size_t count, float* out) {
  ForEachBlock<18, 64>(blocks, count, out, [](const uint8_t* __restrict block, float* __restrict numbers) {
    const float d = HalfAt(block);
    for (int byte = 0; byte < 16; ++byte) {
      const int codes = block[2 + byte];
      for (int i = 0; i < 4; ++i) numbers[byte * 4 + i] = static_cast<float>((codes >> (2 * i) & 3) - 1) * d;
    }
  });
}

}  // namespace tensorcask::gguf
