#include "tensorcask/serialize/hdf5/internal/metadata_checksum.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "tensorcask/tensor/base/endian.h"

namespace tensorcask::hdf5 {
namespace {

constexpr size_t kBlockBytes = 12;

constexpr uint32_t Rotate(uint32_t value, int bits) { return value << bits | value >> (32 - bits); }

struct State {
  uint32_t a, b, c;

  // One step of a mix: x loses y, takes it rotated, and y takes z.
  static void Step(uint32_t* x, uint32_t* y, uint32_t z, int bits) {
    *x -= *y;
    *x ^= Rotate(*y, bits);
    *y += z;
  }
  void Mix() {
    Step(&a, &c, b, 4);
    Step(&b, &a, c, 6);
    Step(&c, &b, a, 8);
    Step(&a, &c, b, 16);
    Step(&b, &a, c, 19);
    Step(&c, &b, a, 4);
  }
  // The end of a mix: x takes y and loses it rotated.
  static void EndStep(uint32_t* x, uint32_t y, int bits) {
    *x ^= y;
    *x -= Rotate(y, bits);
  }
  void End() {
    EndStep(&c, b, 14);
    EndStep(&a, c, 11);
    EndStep(&b, a, 25);
    EndStep(&c, b, 16);
    EndStep(&a, c, 4);
    EndStep(&b, a, 14);
    EndStep(&c, b, 24);
  }
};

}  // namespace

uint32_t MetadataChecksum(absl::string_view bytes) {
  const uint32_t start = 0xdeadbeef + static_cast<uint32_t>(bytes.size());
  State state = {start, start, start};
  while (!bytes.empty()) {
    char block[kBlockBytes] = {};
    const size_t size = std::min(bytes.size(), kBlockBytes);
    std::memcpy(block, bytes.data(), size);
    state.a += LoadLittleEndian<uint32_t>(block);
    state.b += LoadLittleEndian<uint32_t>(block + 4);
    state.c += LoadLittleEndian<uint32_t>(block + 8);
    bytes.remove_prefix(size);
    if (bytes.empty()) {
      state.End();
    } else {
      state.Mix();
    }
  }
  return state.c;
}

absl::Status CheckMetadataChecksum(absl::string_view bytes) {
  if (bytes.size() < kChecksumBytes) return absl::DataLossError("has no room for a checksum");
  const absl::string_view covered = bytes.substr(0, bytes.size() - kChecksumBytes);
  const uint32_t computed = MetadataChecksum(covered);
  const auto stored = LoadLittleEndian<uint32_t>(bytes.data() + covered.size());
  if (computed == stored) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("has the checksum ", absl::Hex(computed), ", stored is ", absl::Hex(stored)));
}

}  // namespace tensorcask::hdf5
