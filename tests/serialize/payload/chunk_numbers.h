// What the tests of chunks share: numbers of every kind, coding that fails the test on an error, and the parts of a
// coded chunk.
//
//   const std::string bytes = Numbers(kFloat32, 50000, Kind::kWeights, /*seed=*/1);
//   ChunkEncoder encoder(kFloat32, PayloadLevel::kDefault);
//   const std::string coded = EncodeOrFail(&encoder, bytes);  // empty if the chunk stays raw
//   ExpectDecodes(&decoder, coded, bytes);
//   EXPECT_EQ(Flags(coded), 1);                               // rotated
//   EXPECT_EQ(Planes(coded, 4)[3].kind, 3);                   // the highest bytes are Huffman codes

#ifndef TENSORCASK_TESTS_SERIALIZE_PAYLOAD_CHUNK_NUMBERS_H_
#define TENSORCASK_TESTS_SERIALIZE_PAYLOAD_CHUNK_NUMBERS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tensorcask/serialize/payload/codec/chunk_codec.h"

namespace tensorcask::testing {

constexpr payload::NumberType kFloat32{payload::NumberKind::kFloat, 4};

std::string NameOf(payload::NumberType type);  // "float32"

enum class Kind {
  kNoise,      // any bits
  kConstant,   // one number
  kZeros,      // zeros
  kSparse,     // noise in one of ten, else zeros
  kWeights,    // the highest bytes of floats as of a trained model
  kSpecial,    // the highest bytes of NaNs with payloads, both zeros, infinities, denormals
  kCounting,   // 0, 1, 2, ...
  kRepeated,   // 37 numbers, again and again
  kHalfNoise,  // noise, then one number
  kLast        // not a kind: how many there are
};
// `count` numbers, little-endian; bools are 0 and 1. The same for the same arguments.
std::string Numbers(payload::NumberType type, size_t count, Kind kind, uint32_t seed);

// The coded chunk; empty if it stays raw. If encoding fails, fails the test and returns no bytes.
std::string EncodeOrFail(payload::ChunkEncoder* encoder, const std::string& bytes, const std::string& base = "");

// What `coded` (a raw chunk if it is empty) decodes to is `bytes`.
void ExpectDecodes(payload::ChunkDecoder* decoder, const std::string& coded, const std::string& bytes,
                   const std::string& base = "");

// Flags of a coded chunk; -1 of a raw one.
int Flags(const std::string& coded);

// The planes of a coded chunk, taken apart as FORMAT.md section 3 tells.
struct TakenApart {
  int kind;
  std::string bytes;
};
std::vector<TakenApart> Planes(const std::string& coded, int count);

}  // namespace tensorcask::testing

#endif  // TENSORCASK_TESTS_SERIALIZE_PAYLOAD_CHUNK_NUMBERS_H_
