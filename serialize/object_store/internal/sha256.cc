#include "tensorcask/serialize/object_store/internal/sha256.h"

#include <array>
#include <cstdint>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace tensorcask::internal {
namespace {

constexpr size_t kSha256Block = 64;

// FIPS 180-4, 4.2.2: of the cube roots of the first 64 primes.
constexpr std::array<uint32_t, 64> kSha256Rounds = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

uint32_t RotateRight(uint32_t word, int bits) { return (word >> bits) | (word << (32 - bits)); }

uint32_t LoadBigEndian32(const char* bytes) {
  uint32_t word = 0;
  for (int i = 0; i < 4; ++i) word = (word << 8) | static_cast<unsigned char>(bytes[i]);
  return word;
}

// FIPS 180-4, 6.2.2.
void AddSha256Block(const char* block, std::array<uint32_t, 8>* state) {
  std::array<uint32_t, 64> schedule;
  for (size_t i = 0; i < 16; ++i) schedule[i] = LoadBigEndian32(block + 4 * i);
  for (size_t i = 16; i < 64; ++i) {
    const uint32_t before = schedule[i - 15];
    const uint32_t last = schedule[i - 2];
    const uint32_t small0 = RotateRight(before, 7) ^ RotateRight(before, 18) ^ (before >> 3);
    const uint32_t small1 = RotateRight(last, 17) ^ RotateRight(last, 19) ^ (last >> 10);
    schedule[i] = schedule[i - 16] + small0 + schedule[i - 7] + small1;
  }
  auto [a, b, c, d, e, f, g, h] = *state;
  for (size_t i = 0; i < 64; ++i) {
    const uint32_t big1 = RotateRight(e, 6) ^ RotateRight(e, 11) ^ RotateRight(e, 25);
    const uint32_t first = h + big1 + ((e & f) ^ (~e & g)) + kSha256Rounds[i] + schedule[i];
    const uint32_t big0 = RotateRight(a, 2) ^ RotateRight(a, 13) ^ RotateRight(a, 22);
    const uint32_t second = big0 + ((a & b) ^ (a & c) ^ (b & c));
    h = g;
    g = f;
    f = e;
    e = d + first;
    d = c;
    c = b;
    b = a;
    a = first + second;
  }
  const std::array<uint32_t, 8> added = {a, b, c, d, e, f, g, h};
  for (size_t i = 0; i < added.size(); ++i) (*state)[i] += added[i];
}

std::array<uint32_t, 8> Sha256(absl::string_view bytes) {
  std::array<uint32_t, 8> state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                   0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  const uint64_t bits = uint64_t{bytes.size()} * 8;
  for (; bytes.size() >= kSha256Block; bytes.remove_prefix(kSha256Block)) AddSha256Block(bytes.data(), &state);
  // The rest, a one bit, zeros, and the length in the last eight bytes: one block or two.
  std::array<char, 2 * kSha256Block> tail = {};
  if (!bytes.empty()) std::memcpy(tail.data(), bytes.data(), bytes.size());
  tail[bytes.size()] = static_cast<char>(0x80);
  const size_t tail_bytes = bytes.size() + 9 <= kSha256Block ? kSha256Block : 2 * kSha256Block;
  for (size_t i = 0; i < 8; ++i) tail[tail_bytes - 1 - i] = static_cast<char>((bits >> (8 * i)) & 0xff);
  for (size_t at = 0; at < tail_bytes; at += kSha256Block) AddSha256Block(tail.data() + at, &state);
  return state;
}

std::string Sha256Bytes(absl::string_view text) {
  std::string bytes;
  for (const uint32_t word : Sha256(text)) {
    for (int bits = 24; bits >= 0; bits -= 8) bytes.push_back(static_cast<char>((word >> bits) & 0xff));
  }
  return bytes;
}

}  // namespace

std::string Sha256Hex(absl::string_view bytes) {
  std::string hex;
  for (const uint32_t word : Sha256(bytes)) absl::StrAppend(&hex, absl::Hex(word, absl::kZeroPad8));
  return hex;
}

std::string HmacSha256(absl::string_view key, absl::string_view text) {
  std::string inner = key.size() > kSha256Block ? Sha256Bytes(key) : std::string(key);
  inner.resize(kSha256Block, '\0');
  std::string outer = inner;
  for (char& byte : inner) byte = static_cast<char>(byte ^ 0x36);
  for (char& byte : outer) byte = static_cast<char>(byte ^ 0x5c);
  return Sha256Bytes(outer + Sha256Bytes(absl::StrCat(inner, text)));
}

}  // namespace tensorcask::internal
