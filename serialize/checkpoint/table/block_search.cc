#include "tensorcask/serialize/checkpoint/table/block_search.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/base/endian.h"

namespace tensorcask::checkpoint {
namespace {

// The register of CRC-32C is a polynomial over two elements; one bit of input divides it by x, in the reflected form.
// This is the way back: the register before a step of L(r) = (r >> 1) ^ (r & 1 ? kPolynomial : 0).
constexpr uint32_t kPolynomial = 0x82f63b78;
constexpr uint32_t StepBack(uint32_t r) { return (r & 0x80000000U) != 0 ? ((r ^ kPolynomial) << 1) | 1 : r << 1; }
constexpr uint32_t StepBack8(uint32_t r) {
  for (int i = 0; i < 8; ++i) r = StepBack(r);
  return r;
}

// Walks over bytes and knows, at place p, numbers that make the checksums of ranges comparable. Let M be eight steps L,
// and reg the register at p that started with 0 at place 0, so that reg(p + 1) = M(reg(p) ^ byte). A range from b that
// starts with register I ends at e with reg(e) ^ M^(e-b)(reg(b) ^ I). That this is the register C is the same as
//   M^-e(reg(e) ^ C) == M^-b(reg(b) ^ I)
// and each side belongs to one place.
class PlaceNumbers {
 public:
  // M^-p(reg ^ value).
  uint32_t With(uint32_t value) const {
    uint32_t sum = reg_;
    uint32_t bit = unit_;
    for (; value != 0; value >>= 1, bit = StepBack(bit)) sum ^= (value & 1) != 0 ? bit : 0;
    return sum;
  }
  // The same of I, all ones, with which every checksum starts.
  uint32_t OfBegin() const { return reg_ ^ ones_; }

  void Pass(char byte) {
    auto bits = static_cast<uint8_t>(byte);
    for (int i = 0; i < 8; ++i, bits = static_cast<uint8_t>(bits >> 1)) {
      reg_ ^= unit_ & (0U - (bits & 1U));
      unit_ = StepBack(unit_);
    }
    ones_ = StepBack8(ones_);
  }

 private:
  uint32_t reg_ = 0;            // M^-p(reg)
  uint32_t unit_ = 1;           // M^-p(1); M^-p(1 << i) is i steps back from it
  uint32_t ones_ = 0xffffffff;  // M^-p(I)
};

// A place where a block may end: that of its type, and the number that its begin must have.
struct End {
  uint32_t number;
  uint32_t place;
};
bool operator<(const End& a, const End& b) { return a.number != b.number ? a.number < b.number : a.place < b.place; }

// True if a block may end before `place`: the type is there, and in front of it, unless compressed, a restart array.
bool MayEndAt(absl::string_view bytes, size_t place) {
  if (bytes.size() - place < kBlockTrailerBytes) return false;
  if (bytes[place] == kSnappyBlock) return true;
  if (bytes[place] != kRawBlock || place < 2 * sizeof(uint32_t)) return false;
  const auto num_restarts = LoadLittleEndian<uint32_t>(bytes.data() + place - sizeof(uint32_t));
  if (num_restarts == 0 || num_restarts > place / sizeof(uint32_t) - 1) return false;
  const char* restarts = bytes.data() + place - (size_t{num_restarts} + 1) * sizeof(uint32_t);
  return LoadLittleEndian<uint32_t>(restarts) == 0;
}

// Finds the ends of blocks, from the front of the file, as many at a time as the memory allows.
class EndFinder {
 public:
  // Requires: `bytes` outlive this.
  explicit EndFinder(absl::string_view bytes) : bytes_(bytes) {}

  // The ends before this offset were returned.
  size_t offset() const { return offset_; }

  // The next ends, sorted. An uncompressed index has one end for 30 bytes, a compressed one of long runs up to one for
  // three. Each end takes 8 bytes of memory: with one end in 8 bytes of file, as much memory as the file.
  std::vector<End> Next() {
    const size_t max_ends = bytes_.size() / 8 + 16;
    std::vector<End> ends;
    for (; offset_ < bytes_.size() && ends.size() < max_ends; ++offset_) {
      const bool may_end = MayEndAt(bytes_, offset_);
      numbers_.Pass(bytes_[offset_]);  // the checksum covers the type
      if (!may_end) continue;
      const uint32_t crc = UnmaskCrc32c(LoadLittleEndian<uint32_t>(bytes_.data() + offset_ + 1));
      ends.push_back({numbers_.With(~crc), static_cast<uint32_t>(offset_)});
    }
    std::sort(ends.begin(), ends.end());
    return ends;
  }

 private:
  const absl::string_view bytes_;
  size_t offset_ = 0;
  PlaceNumbers numbers_;
};

// Excludes quickly most numbers that no end has.
class Filter {
 public:
  explicit Filter(const std::vector<End>& ends) {
    int bits = 10;
    while (bits < 27 && (size_t{1} << bits) < ends.size() * 32) ++bits;
    shift_ = 32 - bits;
    marks_.resize(size_t{1} << bits);
    for (const End& end : ends) marks_[end.number >> shift_] = true;
  }
  bool MayHave(uint32_t number) const { return marks_[number >> shift_]; }

 private:
  int shift_;
  std::vector<bool> marks_;
};

}  // namespace

void ForEachWholeBlock(absl::string_view bytes, const DecodeLimits& limits,
                       absl::FunctionRef<void(const BlockHandle&, const BlockReader&)> fn) {
  const std::shared_ptr<const ByteSource> source = MakeMemorySource("", bytes);
  // For a pair that matches by chance all bytes between are read. There are few such pairs unless the file is
  // malicious.
  uint64_t budget = 16 * uint64_t{bytes.size()} + (uint64_t{1} << 20);
  EndFinder finder(bytes);
  uint64_t end_of_last = 0;
  // The numbers at the end of the last block, or at an earlier offset: the search for more ends goes on from there.
  size_t known_offset = 0;
  PlaceNumbers known_numbers;
  while (finder.offset() < bytes.size()) {
    const std::vector<End> ends = finder.Next();
    const Filter filter(ends);
    PlaceNumbers numbers = known_numbers;
    for (size_t place = known_offset; place < finder.offset(); numbers.Pass(bytes[place++])) {
      if (place == end_of_last) {
        known_offset = place;
        known_numbers = numbers;
      }
      if (place < end_of_last || !filter.MayHave(numbers.OfBegin())) continue;
      const End wanted{numbers.OfBegin(), static_cast<uint32_t>(place)};
      for (auto end = std::lower_bound(ends.begin(), ends.end(), wanted);
           end != ends.end() && end->number == wanted.number; ++end) {
        const BlockHandle handle{place, end->place - place};
        if (handle.size_bytes > budget) return;
        budget -= handle.size_bytes;
        const absl::StatusOr<std::unique_ptr<const BlockReader>> block = BlockReader::Read(*source, handle, limits);
        if (!block.ok()) continue;
        budget += handle.size_bytes;
        fn(handle, **block);
        end_of_last = handle.offset + handle.size_bytes + kBlockTrailerBytes;
        break;
      }
    }
  }
}

}  // namespace tensorcask::checkpoint
