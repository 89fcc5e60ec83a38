// Helpers of the fuzz targets: make decisions from the bytes of an input, and end the process if a promise is broken.
//
//   FuzzInput input(data, size);
//   const int64_t axis = input.Int(-3, 3);
//   const absl::string_view rest = input.Rest();
//   FUZZ_CHECK(decoded.ok(), decoded.status().ToString());

#ifndef TENSORCASK_TESTS_FUZZ_FUZZ_INPUT_H_
#define TENSORCASK_TESTS_FUZZ_FUZZ_INPUT_H_

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "absl/strings/string_view.h"

// Ends the program, with a message, unless `condition` holds.
#define FUZZ_CHECK(condition, message)                                                                   \
  do {                                                                                                   \
    if (!(condition)) ::tensorcask::testing::FuzzCheckFailed(__FILE__, __LINE__, #condition, (message)); \
  } while (false)

namespace tensorcask::testing {

[[noreturn]] inline void FuzzCheckFailed(const char* file, int line, const char* condition,
                                         const std::string& message) {
  std::fprintf(stderr, "ERROR: %s:%d: %s does not hold: %s\n", file, line, condition, message.c_str());
  std::abort();
}

// Numbers are taken from the front; from an input that is used up they are all 0.
class FuzzInput {
 public:
  FuzzInput(const uint8_t* data, size_t size) : rest_(reinterpret_cast<const char*>(data), size) {}

  bool empty() const { return rest_.empty(); }

  uint64_t Bits(size_t bytes) {  // at most 8
    uint64_t value = 0;
    for (size_t i = 0; i < bytes && !rest_.empty(); ++i) {
      value |= uint64_t{static_cast<uint8_t>(rest_.front())} << (8 * i);
      rest_.remove_prefix(1);
    }
    return value;
  }
  // A number in [low, high], from one byte. Requires: high - low < 256.
  int64_t Int(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(Bits(1) % static_cast<uint64_t>(high - low + 1));
  }
  // A number that is mostly small, and sometimes at the edge of what int64_t holds.
  int64_t AnyInt() {
    const uint64_t kind = Bits(1);
    if (kind < 200) return static_cast<int64_t>(kind) - 40;
    if (kind < 225) return INT64_MAX - static_cast<int64_t>(kind - 200);
    if (kind < 240) return INT64_MIN + static_cast<int64_t>(kind - 225);
    return static_cast<int64_t>(Bits(8));
  }
  absl::string_view Bytes(size_t size) {
    const absl::string_view bytes = rest_.substr(0, size);
    rest_.remove_prefix(bytes.size());
    return bytes;
  }
  absl::string_view Rest() { return Bytes(rest_.size()); }

 private:
  absl::string_view rest_;
};

}  // namespace tensorcask::testing

#endif  // TENSORCASK_TESTS_FUZZ_FUZZ_INPUT_H_
