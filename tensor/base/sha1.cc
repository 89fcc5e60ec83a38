#include "tensorcask/tensor/base/sha1.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "tensorcask/tensor/base/endian.h"

namespace tensorcask {
namespace {

uint32_t RotateLeft(uint32_t value, int bits) { return value << bits | value >> (32 - bits); }
uint32_t LoadBigEndian32(const char* bytes) { return __builtin_bswap32(LoadLittleEndian<uint32_t>(bytes)); }

}  // namespace

void Sha1::AddBlock(const char* block) {
  std::array<uint32_t, 80> words;
  for (size_t i = 0; i < 16; ++i) words[i] = LoadBigEndian32(block + 4 * i);
  for (size_t i = 16; i < words.size(); ++i) {
    words[i] = RotateLeft(words[i - 3] ^ words[i - 8] ^ words[i - 14] ^ words[i - 16], 1);
  }
  auto [a, b, c, d, e] = state_;
  for (size_t i = 0; i < words.size(); ++i) {
    const uint32_t mixed = i < 20   ? ((b & c) | (~b & d)) + 0x5a827999
                           : i < 40 ? (b ^ c ^ d) + 0x6ed9eba1
                           : i < 60 ? ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdc
                                    : (b ^ c ^ d) + 0xca62c1d6;
    const uint32_t next = RotateLeft(a, 5) + mixed + e + words[i];
    e = d;
    d = c;
    c = RotateLeft(b, 30);
    b = a;
    a = next;
  }
  state_[0] += a;
  state_[1] += b;
  state_[2] += c;
  state_[3] += d;
  state_[4] += e;
}

void Sha1::Update(absl::string_view bytes) {
  size_t used = static_cast<size_t>(total_bytes_ % kBlockBytes);
  total_bytes_ += bytes.size();
  while (!bytes.empty()) {
    if (used == 0 && bytes.size() >= kBlockBytes) {
      AddBlock(bytes.data());
      bytes.remove_prefix(kBlockBytes);
      continue;
    }
    const size_t count = std::min(bytes.size(), kBlockBytes - used);
    std::memcpy(pending_.data() + used, bytes.data(), count);
    bytes.remove_prefix(count);
    used = (used + count) % kBlockBytes;
    if (used == 0) AddBlock(pending_.data());
  }
}

std::string Sha1::Finish() {
  const uint64_t bits = total_bytes_ * 8;
  std::string padding(1, '\x80');
  padding.append((kBlockBytes * 2 - 9 - total_bytes_ % kBlockBytes) % kBlockBytes, '\0');
  for (int shift = 56; shift >= 0; shift -= 8) padding.push_back(static_cast<char>(bits >> shift));
  Update(padding);
  std::string digits;
  for (const uint32_t word : state_) absl::StrAppend(&digits, absl::Hex(word, absl::kZeroPad8));
  return digits;
}

}  // namespace tensorcask
