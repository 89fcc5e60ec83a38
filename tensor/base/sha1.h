// SHA-1 (FIPS 180-4), for formats that use it as a checksum. Forgeries of it exist, so it proves nothing about who
// wrote the bytes.
//
//   Sha1 hash;
//   hash.Update("abc");
//   hash.Finish()   // "a9993e364706816aba3e25717850c26c9cd0d89d"

#ifndef TENSORCASK_TENSOR_BASE_SHA1_H_
#define TENSORCASK_TENSOR_BASE_SHA1_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace tensorcask {

class Sha1 {
 public:
  void Update(absl::string_view bytes);
  // 40 hexadecimal digits, in lower case. Nothing is called afterwards.
  std::string Finish();

 private:
  static constexpr size_t kBlockBytes = 64;

  void AddBlock(const char* block);

  std::array<uint32_t, 5> state_ = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
  std::array<char, kBlockBytes> pending_;
  uint64_t total_bytes_ = 0;
};

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_BASE_SHA1_H_
