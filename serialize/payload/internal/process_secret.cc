#include "tensorcask/serialize/payload/internal/process_secret.h"

#include <xxhash.h>

#include <array>
#include <chrono>
#include <cstdint>

#include "tensorcask/tensor/base/random_bytes.h"

namespace tensorcask::payload {
namespace {

struct Secret {
  Secret() {
    if (internal::FillWithRandomBytes(words.data(), sizeof(words))) return;
    auto state = static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
    for (uint64_t& word : words) word = state = (state ^ (state >> 31)) * 0x9e3779b97f4a7c15u + 1;
  }
  std::array<uint64_t, XXH3_SECRET_SIZE_MIN / sizeof(uint64_t)> words;
};
static_assert(sizeof(Secret) == XXH3_SECRET_SIZE_MIN);

}  // namespace

absl::string_view ProcessSecret() {
  static const Secret secret;
  return absl::string_view(reinterpret_cast<const char*>(secret.words.data()), sizeof(secret.words));
}

}  // namespace tensorcask::payload
