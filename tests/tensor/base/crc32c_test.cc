// Runs under TENSORCASK_CPU = unset, avx2, sse42 and scalar (BUILD.bazel), and calls every kernel that the processor
// has in any case.

#include "tensorcask/tensor/base/crc32c.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "tensorcask/tensor/base/cpu.h"
#include "tensorcask/tensor/base/internal/crc32c_kernels.h"

namespace tensorcask {
namespace {

// One bit at a time, straight from the definition: divides the reflected message by the polynomial.
uint32_t Crc32cByBits(absl::string_view bytes) {
  uint32_t crc = 0xffffffff;
  for (const char byte : bytes) {
    crc ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78 : 0);
  }
  return ~crc;
}

std::string RandomBytes(size_t count, uint32_t seed) {
  std::mt19937_64 random(seed);
  std::string bytes(count, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

struct Vector {
  const char* name;
  std::string bytes;
  uint32_t crc;
};

// RFC 3720, B.4, and the check value of the catalogue of CRC algorithms.
std::vector<Vector> KnownVectors() {
  std::string ascending(32, '\0');
  for (size_t i = 0; i < ascending.size(); ++i) ascending[i] = static_cast<char>(i);
  const unsigned char read_command[48] = {0x01, 0xc0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,    0, 0, 0, 0,
                                          0x14, 0,    0, 0, 0, 0, 4, 0, 0, 0, 0, 0x14, 0, 0, 0, 0x18,
                                          0x28, 0,    0, 0, 0, 0, 0, 0, 2, 0, 0, 0,    0, 0, 0, 0};
  return {{"Empty", "", 0},
          {"Check", "123456789", 0xe3069283},
          {"Zeros", std::string(32, '\0'), 0x8a9136aa},
          {"Ones", std::string(32, '\xff'), 0x62a8ab43},
          {"Ascending", ascending, 0x46dd794e},
          {"Descending", std::string(ascending.rbegin(), ascending.rend()), 0x113fdb5c},
          {"ReadCommand", std::string(reinterpret_cast<const char*>(read_command), sizeof(read_command)), 0xd9963a56}};
}

TEST(Crc32c, KnownVectors) {
  for (const Vector& v : KnownVectors()) {
    SCOPED_TRACE(v.name);
    EXPECT_EQ(Crc32c(v.bytes), v.crc);
    EXPECT_EQ(internal::ExtendCrc32cPortable(0, v.bytes), v.crc);
    EXPECT_EQ(Crc32cByBits(v.bytes), v.crc);
  }
}

// Sizes around each kernel's blocks (up to 4 pages, 3 pages) and random ones, at random alignments.
std::vector<size_t> InterestingSizes() {
  std::vector<size_t> sizes;
  for (size_t i = 0; i <= 1100; ++i) sizes.push_back(i);
  for (size_t block : {4096, 12288, 16384, 24576, 32768, 49152, 65536}) {
    for (size_t near : {-257, -64, -1, 0, 1, 7, 8, 63, 64, 65, 255, 256, 320, 384}) sizes.push_back(block + near);
  }
  std::mt19937 random(1);
  for (int i = 0; i < 200; ++i) sizes.push_back(random() % 70001);
  return sizes;
}

TEST(Crc32c, KernelsAgree) {
  const std::string bytes = RandomBytes(70000 + 64, 2);
  const auto* const data = reinterpret_cast<const unsigned char*>(bytes.data());
  std::mt19937 random(3);
  for (size_t size : InterestingSizes()) {
    const size_t offset = random() % 64;
    const uint32_t before = static_cast<uint32_t>(random());
    SCOPED_TRACE(testing::Message() << size << " bytes at " << offset);
    const uint32_t want = internal::Crc32cPortable(before, data + offset, size);
    ASSERT_EQ(~ExtendCrc32c(~before, absl::string_view(bytes).substr(offset, size)), want);
#if defined(__x86_64__)
    if (__builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.2")) {
      ASSERT_EQ(internal::Crc32cSse42(before, data + offset, size), want);
    }
    if (GetCpuFeatures().vpclmul256) {
      ASSERT_EQ(internal::Crc32cAvx2(before, data + offset, size), want);
    }
    if (GetCpuFeatures().vpclmul512) {
      ASSERT_EQ(internal::Crc32cAvx512(before, data + offset, size), want);
    }
#elif defined(__aarch64__)
    if (GetCpuFeatures().arm_crc32) {
      ASSERT_EQ(internal::Crc32cArm(before, data + offset, size), want);
    }
#endif
  }
}

TEST(Crc32c, PortableAgreesWithTheDefinition) {
  const std::string bytes = RandomBytes(300, 4);
  for (size_t size = 0; size <= bytes.size(); ++size) {
    const absl::string_view prefix = absl::string_view(bytes).substr(0, size);
    ASSERT_EQ(internal::ExtendCrc32cPortable(0, prefix), Crc32cByBits(prefix)) << size;
  }
}

TEST(Crc32c, ExtendsAsOneString) {
  const std::string bytes = RandomBytes(3000, 5);
  const uint32_t whole = Crc32c(bytes);
  for (size_t cut = 0; cut <= bytes.size(); cut += 7) {
    const absl::string_view view(bytes);
    ASSERT_EQ(ExtendCrc32c(Crc32c(view.substr(0, cut)), view.substr(cut)), whole) << cut;
  }
}

TEST(Crc32c, CombinesWhatWasComputedApart) {
  const std::string bytes = RandomBytes(70000, 6);
  const absl::string_view view(bytes);
  const uint32_t whole = Crc32c(bytes);
  for (size_t cut : {0, 1, 2, 3, 8, 100, 4095, 4096, 65536, 69999, 70000}) {
    SCOPED_TRACE(cut);
    EXPECT_EQ(CombineCrc32c(Crc32c(view.substr(0, cut)), Crc32c(view.substr(cut)), bytes.size() - cut), whole);
  }
}

// Lengths that no memory holds: appending b then c zeros is appending b + c.
TEST(Crc32c, CombinesHugeLengths) {
  constexpr uint64_t kHuge = uint64_t{1} << 63;
  const uint32_t a = Crc32c("a");
  for (uint64_t b : {uint64_t{1}, uint64_t{1} << 32, kHuge - 1, kHuge}) {
    const uint64_t c = ~uint64_t{0} - b;
    SCOPED_TRACE(b);
    EXPECT_EQ(CombineCrc32c(CombineCrc32c(a, 0, b), 0, c), CombineCrc32c(a, 0, ~uint64_t{0}));
  }
  std::string zeros(1 << 20, '\0');
  EXPECT_EQ(CombineCrc32c(a, Crc32c(zeros), zeros.size()), Crc32c("a" + zeros));
}

// Checks a copy of `size` bytes: the checksum, the bytes, and that nothing around them changed.
void ExpectCopies(const std::string& bytes, size_t from, size_t to, size_t size) {
  std::vector<char> out(to + size + 64, 'x');
  const absl::string_view source = absl::string_view(bytes).substr(from, size);
  ASSERT_EQ(CopyAndExtendCrc32c(17, source.data(), out.data() + to, size), ExtendCrc32c(17, source));
  ASSERT_TRUE(std::equal(source.begin(), source.end(), out.data() + to));
  ASSERT_TRUE(std::all_of(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(to), [](char c) { return c == 'x'; }));
  ASSERT_TRUE(std::all_of(out.end() - 64, out.end(), [](char c) { return c == 'x'; }));
}

TEST(Crc32c, Copies) {
  const std::string bytes = RandomBytes(70000 + 64, 7);
  std::mt19937 random(8);
  for (size_t size : {0, 1, 7, 8, 63, 64, 255, 256, 8191, 8192, 8193, 16384, 65536, 70000}) {
    const size_t from = random() % 64;
    const size_t to = random() % 64;
    SCOPED_TRACE(testing::Message() << size << " bytes, " << from << " to " << to);
    ExpectCopies(bytes, from, to, size);
  }
}

TEST(Crc32c, CopiesPastTheCaches) {
  constexpr size_t kStreamed = 8 << 20;  // from here on
  const std::string bytes = RandomBytes(kStreamed + 20000, 9);
  for (size_t size : {kStreamed - 1, kStreamed, kStreamed + 1, kStreamed + 4097, kStreamed + 16383}) {
    for (size_t to : {0, 1, 63}) {
      SCOPED_TRACE(testing::Message() << size << " bytes to " << to);
      ExpectCopies(bytes, 5, to, size);
    }
  }
}

#if defined(__x86_64__)
TEST(Crc32c, StreamingKernelsAgree) {
  const std::string bytes = RandomBytes(70000 + 64, 10);
  const auto* const data = reinterpret_cast<const unsigned char*>(bytes.data());
  std::vector<internal::StreamingCrc32cKernel> kernels;
  if (__builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.2")) {
    kernels.push_back(internal::StreamCrc32cSse42);
  }
  if (GetCpuFeatures().vpclmul256) kernels.push_back(internal::StreamCrc32cAvx2);
  if (GetCpuFeatures().vpclmul512) kernels.push_back(internal::StreamCrc32cAvx512);
  std::mt19937 random(11);
  std::vector<unsigned char> out(70000 + 64);
  for (size_t size : InterestingSizes()) {
    const size_t from = random() % 64;
    const size_t to = random() % 64;
    SCOPED_TRACE(testing::Message() << size << " bytes, " << from << " to " << to);
    const uint32_t want = internal::Crc32cPortable(23, data + from, size);
    for (const auto kernel : kernels) {
      std::fill(out.begin(), out.end(), static_cast<unsigned char>(0));
      ASSERT_EQ(kernel(23, data + from, size, out.data() + to), want);
      ASSERT_TRUE(std::equal(data + from, data + from + size, out.data() + to));
    }
  }
}
#endif

TEST(Crc32c, MaskComesBack) {
  std::mt19937 random(12);
  for (int i = 0; i < 1000; ++i) {
    const uint32_t crc = static_cast<uint32_t>(random());
    EXPECT_NE(MaskCrc32c(crc), crc);
    EXPECT_EQ(UnmaskCrc32c(MaskCrc32c(crc)), crc);
  }
  // LevelDB, util/crc32c.h: rotate right by 15 bits, then add 0xa282ead8.
  EXPECT_EQ(MaskCrc32c(0), 0xa282ead8u);
  EXPECT_EQ(MaskCrc32c(0x00008000), 0xa282ead9u);
}

}  // namespace
}  // namespace tensorcask
