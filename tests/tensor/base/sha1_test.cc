#include "tensorcask/tensor/base/sha1.h"

#include <algorithm>
#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"
#include "gtest/gtest.h"

namespace tensorcask {
namespace {

std::string Sha1Of(absl::string_view bytes, size_t step) {
  Sha1 hash;
  for (size_t done = 0; done < bytes.size(); done += step) hash.Update(bytes.substr(done, step));
  return hash.Finish();
}

// FIPS 180-4's examples.
TEST(Sha1, OfKnownTexts) {
  EXPECT_EQ(Sha1Of("", 1), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
  EXPECT_EQ(Sha1Of("abc", 3), "a9993e364706816aba3e25717850c26c9cd0d89d");
  EXPECT_EQ(Sha1Of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56),
            "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
  EXPECT_EQ(Sha1Of(std::string(1'000'000, 'a'), 4096), "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
}

// Lengths around the ends of blocks, in pieces of any size. The values are those of Python's hashlib for 'x' * n.
TEST(Sha1, OfEveryLengthInAnyPieces) {
  const struct {
    size_t length;
    const char* digits;
  } kCases[] = {{54, "31045e7bb077ff8d188a776b196b980388735dbb"},  {55, "cef734ba81a024479e09eb5a75b6ddae62e6abf1"},
                {56, "901305367c259952f4e7af8323f480d59f81335b"},  {57, "025ecbd5d70f8fb3c5457cd96bab13fda305dc59"},
                {63, "0ddc4e0cccd9a12850deb5abb0853a4425559fec"},  {64, "bb2fa3ee7afb9f54c6dfb5d021f14b1ffe40c163"},
                {65, "78c741ddc482e4cdf8c474a0876347a0905b6233"},  {119, "4300320394f7ee239bcdce7d3b8bcee173a0cd5c"},
                {120, "ceb2821639c4b6dcb10bce0e522ca2e608ce056d"}, {128, "150fa3fbdc899bd0b8f95a9fb6027f564d953762"}};
  for (const auto& c : kCases) {
    for (const size_t step : {size_t{1}, size_t{7}, size_t{63}, size_t{64}, size_t{65}, size_t{1000}}) {
      EXPECT_EQ(Sha1Of(std::string(c.length, 'x'), step), c.digits) << c.length << " in pieces of " << step;
    }
  }
}

}  // namespace
}  // namespace tensorcask
