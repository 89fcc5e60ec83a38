#include "tensorcask/tensor/base/copy_bytes.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <random>
#include <string>

#include "gtest/gtest.h"
#include "tensorcask/tensor/base/cpu.h"

namespace tensorcask::internal {
namespace {

std::string RandomText(size_t bytes) {
  std::mt19937_64 random(1);
  std::string text(bytes, '\0');
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

// Copies to and from all addresses by `copy`, and checks that it writes nothing else.
template <typename Copy>
void ExpectCopies(const std::string& source, size_t size, Copy&& copy) {
  std::string destination(size + 200, '\0');
  for (const size_t from : {0, 3}) {
    for (const size_t to : {0, 1, 63, 64}) {
      SCOPED_TRACE(::testing::Message() << size << " bytes from " << from << " to " << to);
      std::fill(destination.begin(), destination.end(), '\x7e');
      copy(&destination[to], source.data() + from, size);
      ASSERT_EQ(std::memcmp(&destination[to], source.data() + from, size), 0);
      ASSERT_EQ(destination.substr(0, to), std::string(to, '\x7e'));
      ASSERT_EQ(destination.substr(to + size), std::string(destination.size() - to - size, '\x7e'));
    }
  }
}

TEST(CopyBytes, CopiesAnySize) {
  const auto streamed = static_cast<size_t>(GetCpuTuning().stream_bytes) / 2;
  const std::string source = RandomText(streamed + 20000);
  for (const size_t size : {size_t{0}, size_t{1}, size_t{8191}, streamed - 1, streamed, streamed + 8191}) {
    ExpectCopies(source, size, CopyBytes);
  }
  CopyBytes(nullptr, nullptr, 0);
}

TEST(CopyBytes, StreamsByOnePageAndByTwo) {
  const std::string source = RandomText(70000);
  for (const int pages : {1, 2}) {
    for (const size_t size : {0, 1, 4095, 4096, 8191, 8192, 8255, 8256, 12288, 16384, 65537}) {
      ExpectCopies(source, size,
                   [pages](void* to, const void* from, size_t bytes) { StreamBytes(to, from, bytes, pages); });
    }
  }
}

}  // namespace
}  // namespace tensorcask::internal
