// The numbers of one block, for each type of block. FORMAT.md section 4 has the formulas; block_types.h the table.
//
// Compiled with -ffp-contract=off: a fused multiplication and addition would round once where ggml rounds twice. On
// x86-64 each loop exists twice, for SSE2 and for AVX2 (ForEachBlock), with the same bits.

#ifndef TENSORCASK_SERIALIZE_GGUF_INTERNAL_DECODERS_H_
#define TENSORCASK_SERIALIZE_GGUF_INTERNAL_DECODERS_H_

#include <cstddef>
#include <cstdint>

namespace tensorcask::gguf {

// Blocks of 32, 64 and 128 elements (decode_small_blocks.cc).
void DecodeQ40(const uint8_t* blocks, size_t count, float* out);
void DecodeQ41(const uint8_t* blocks, size_t count, float* out);
void DecodeQ50(const uint8_t* blocks, size_t count, float* out);
void DecodeQ51(const uint8_t* blocks, size_t count, float* out);
void DecodeQ80(const uint8_t* blocks, size_t count, float* out);
void DecodeQ81(const uint8_t* blocks, size_t count, float* out);
void DecodeIq4Nl(const uint8_t* blocks, size_t count, float* out);
void DecodeMxfp4(const uint8_t* blocks, size_t count, float* out);
void DecodeNvfp4(const uint8_t* blocks, size_t count, float* out);
void DecodeQ10(const uint8_t* blocks, size_t count, float* out);
void DecodeQ20(const uint8_t* blocks, size_t count, float* out);

// Blocks of 256 elements with scales for parts of them (decode_k_blocks.cc).
void DecodeQ2K(const uint8_t* blocks, size_t count, float* out);
void DecodeQ3K(const uint8_t* blocks, size_t count, float* out);
void DecodeQ4K(const uint8_t* blocks, size_t count, float* out);
void DecodeQ5K(const uint8_t* blocks, size_t count, float* out);
void DecodeQ6K(const uint8_t* blocks, size_t count, float* out);
void DecodeQ8K(const uint8_t* blocks, size_t count, float* out);
void DecodeIq4Xs(const uint8_t* blocks, size_t count, float* out);
void DecodeTq10(const uint8_t* blocks, size_t count, float* out);
void DecodeTq20(const uint8_t* blocks, size_t count, float* out);

// Blocks of 256 elements whose codes are rows of a grid (decode_grid_blocks.cc).
void DecodeIq2Xxs(const uint8_t* blocks, size_t count, float* out);
void DecodeIq2Xs(const uint8_t* blocks, size_t count, float* out);
void DecodeIq2S(const uint8_t* blocks, size_t count, float* out);
void DecodeIq3Xxs(const uint8_t* blocks, size_t count, float* out);
void DecodeIq3S(const uint8_t* blocks, size_t count, float* out);
void DecodeIq1S(const uint8_t* blocks, size_t count, float* out);
void DecodeIq1M(const uint8_t* blocks, size_t count, float* out);

}  // namespace tensorcask::gguf

#endif  // TENSORCASK_SERIALIZE_GGUF_INTERNAL_DECODERS_H_
