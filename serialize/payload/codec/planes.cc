#include "tensorcask/serialize/payload/codec/planes.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include "tensorcask/serialize/payload/codec/planes_kernels.h"
#include "tensorcask/tensor/base/check.h"
#include "tensorcask/tensor/base/endian.h"

namespace tensorcask::payload {
namespace {

using internal::BlockKernels;
using internal::CountedBlocks;
using internal::FindBlockKernels;

// Returns fn(T()) for the unsigned T of that size.
template <typename Fn>
auto WithNumbers(int number_bytes, Fn&& fn) {
  switch (number_bytes) {
    case 1:
      return fn(uint8_t{});
    case 2:
      return fn(uint16_t{});
    case 4:
      return fn(uint32_t{});
    default:
      CASK_CHECK(number_bytes == 8, "planes: numbers of this size do not exist");
      return fn(uint64_t{});
  }
}

const uint8_t* Bytes(const void* memory) { return static_cast<const uint8_t*>(memory); }
uint8_t* Bytes(void* memory) { return static_cast<uint8_t*>(memory); }

template <typename T>
T Load(const void* numbers, size_t index) {
  return LoadLittleEndian<T>(Bytes(numbers) + index * sizeof(T));
}
template <typename T>
void Store(T number, void* numbers, size_t index) {
  StoreLittleEndian(number, Bytes(numbers) + index * sizeof(T));
}

// Loops over a piece have a fixed length and arrays of their own, so that compilers make vectors of them.
constexpr size_t kPiece = 64;

// The pieces of `count` numbers from number `done` on: the last one may be shorter.
class Pieces {
 public:
  Pieces(size_t done, size_t count) : end_(done), count_(count) {}

  // Moves to the first piece, or to the next one; false after the last.
  bool Next() {
    begin_ = end_;
    end_ += std::min(count_ - end_, kPiece);
    return begin_ < end_;
  }
  template <typename T>
  void Read(const void* numbers, T* piece) const {
    std::memcpy(piece, Bytes(numbers) + begin_ * sizeof(T), (end_ - begin_) * sizeof(T));
  }
  template <typename T>
  void Write(const T* piece, void* numbers) const {
    std::memcpy(Bytes(numbers) + begin_ * sizeof(T), piece, (end_ - begin_) * sizeof(T));
  }

 private:
  size_t begin_ = 0;
  size_t end_;
  size_t count_;
};

template <typename T>
constexpr int kTopBit = std::numeric_limits<T>::digits - 1;

// All bits of T, or none.
template <typename T>
T Repeated(bool bit) {
  return static_cast<T>(-static_cast<T>(bit));
}

template <typename T>
T RotateLeft(T number) {
  return static_cast<T>(static_cast<T>(number << 1) | number >> kTopBit<T>);
}
template <typename T>
T RotateRight(T number) {
  return static_cast<T>(number >> 1 | static_cast<T>(number << kTopBit<T>));
}

// FORMAT.md section 4: o(x), and its inverse.
template <typename T>
T Order(T number, NumberOrder order) {
  if (order == NumberOrder::kInteger) return number;
  return static_cast<T>(number ^ (Repeated<T>(number >> kTopBit<T>) | T{1} << kTopBit<T>));
}
template <typename T>
T Unorder(T ordered, NumberOrder order) {
  if (order == NumberOrder::kInteger) return ordered;
  return static_cast<T>(ordered ^ (Repeated<T>(ordered >> kTopBit<T> == 0) | T{1} << kTopBit<T>));
}
template <typename T>
T Zigzag(T difference) {
  return static_cast<T>(static_cast<T>(difference << 1) ^ Repeated<T>(difference >> kTopBit<T>));
}
template <typename T>
T Unzigzag(T zigzag) {
  return static_cast<T>(zigzag >> 1 ^ Repeated<T>(zigzag & 1));
}

}  // namespace

void SplitPlanes(const void* numbers, size_t count, int number_bytes, bool rotate, uint8_t* planes) {
  WithNumbers(number_bytes, [&](auto zero) {
    using T = decltype(zero);
    const BlockKernels* const kernels = FindBlockKernels(number_bytes);
    const size_t done = kernels != nullptr ? kernels->split[rotate](Bytes(numbers), count, planes) : 0;
    for (Pieces pieces(done, count); pieces.Next();) {
      T piece[kPiece] = {};
      pieces.Read(numbers, piece);
      if (rotate) {
        for (T& number : piece) number = RotateLeft(number);
      }
      for (size_t i = 0; i < sizeof(T); ++i) {
        uint8_t plane[kPiece];
        for (size_t j = 0; j < kPiece; ++j) plane[j] = static_cast<uint8_t>(piece[j] >> 8 * i);
        pieces.Write(plane, planes + i * count);
      }
    }
  });
}

void JoinPlanes(const PlaneSource* planes, size_t count, int number_bytes, bool rotated, void* numbers,
                bool non_temporal) {
  const bool stream = non_temporal && reinterpret_cast<uintptr_t>(numbers) % 64 == 0;
  WithNumbers(number_bytes, [&](auto zero) {
    using T = decltype(zero);
    const BlockKernels* const kernels = FindBlockKernels(number_bytes);
    const size_t done = kernels != nullptr ? kernels->join[rotated][stream](planes, count, Bytes(numbers)) : 0;
    for (Pieces pieces(done, count); pieces.Next();) {
      T piece[kPiece] = {};
      for (size_t i = 0; i < sizeof(T); ++i) {
        uint8_t plane[kPiece];
        std::memset(plane, planes[i].constant, kPiece);
        if (planes[i].bytes != nullptr) pieces.Read(planes[i].bytes, plane);
        for (size_t j = 0; j < kPiece; ++j) piece[j] = static_cast<T>(piece[j] | static_cast<T>(plane[j]) << 8 * i);
      }
      if (rotated) {
        for (T& number : piece) number = RotateRight(number);
      }
      pieces.Write(piece, numbers);
    }
  });
}

size_t CompactNonzeros(const void* numbers, size_t count, int number_bytes, uint8_t* bitmap, void* dense) {
  return WithNumbers(number_bytes, [&](auto zero) {
    using T = decltype(zero);
    const BlockKernels* const kernels = FindBlockKernels(number_bytes);
    CountedBlocks done;
    if (kernels != nullptr) done = kernels->compact_nonzeros(Bytes(numbers), count, bitmap, Bytes(dense));
    size_t taken = done.nonzero;
    unsigned bits = 0;
    for (size_t j = done.numbers; j < count; ++j) {
      const T number = Load<T>(numbers, j);
      Store<T>(number, dense, taken);  // there is room: taken <= j
      taken += number != 0;
      bits |= static_cast<unsigned>(number != 0) << j % 8;
      if (j % 8 == 7 || j + 1 == count) {
        bitmap[j / 8] = static_cast<uint8_t>(bits);
        bits = 0;
      }
    }
    return taken;
  });
}

void ExpandZeros(const uint8_t* bitmap, const void* dense, size_t count, int number_bytes, void* numbers) {
  WithNumbers(number_bytes, [&](auto zero) {
    using T = decltype(zero);
    const BlockKernels* const kernels = FindBlockKernels(number_bytes);
    CountedBlocks done;
    if (kernels != nullptr) {
      const size_t dense_count = kernels->count_bits(bitmap, (count + 7) / 8);
      done = kernels->expand_zeros(bitmap, Bytes(dense), dense_count, count, Bytes(numbers));
    }
    size_t put = done.nonzero;
    for (size_t j = done.numbers; j < count; ++j) {
      const bool nonzero = bitmap[j / 8] >> j % 8 & 1;
      Store<T>(nonzero ? Load<T>(dense, put) : T{0}, numbers, j);
      put += nonzero;
    }
  });
}

size_t CountBits(const uint8_t* bytes, size_t size) {
  if (const BlockKernels* const kernels = FindBlockKernels(1)) return kernels->count_bits(bytes, size);
  size_t bits = 0;
  size_t i = 0;
  for (; size - i >= 8; i += 8)
    bits += static_cast<size_t>(__builtin_popcountll(LoadLittleEndian<uint64_t>(bytes + i)));
  for (; i < size; ++i) bits += static_cast<size_t>(__builtin_popcount(bytes[i]));
  return bits;
}

size_t CountZeros(const void* numbers, size_t count, int number_bytes) {
  return WithNumbers(number_bytes, [&](auto zero) {
    using T = decltype(zero);
    const BlockKernels* const kernels = FindBlockKernels(number_bytes);
    CountedBlocks done;
    if (kernels != nullptr) done = kernels->count_zeros(Bytes(numbers), count);
    size_t zeros = done.numbers - done.nonzero;
    for (size_t j = done.numbers; j < count; ++j) zeros += Load<T>(numbers, j) == 0;
    return zeros;
  });
}

// Eight at a time, in a word: the multiplication below moves the bit of byte i from place 8 * i to 56 + i, where no sum
// carries.
bool PackBools(const void* bools, size_t count, uint8_t* bits) {
  const BlockKernels* const kernels = FindBlockKernels(1);
  uint8_t seen = 0;
  size_t j = kernels != nullptr ? kernels->pack_bools(Bytes(bools), count, bits, &seen) : 0;
  uint64_t words_seen = seen;
  for (; j < count; j += 8) {
    uint64_t word = 0;
    std::memcpy(&word, Bytes(bools) + j, count - j < 8 ? count - j : 8);
    words_seen |= word;
    bits[j / 8] = static_cast<uint8_t>(word * 0x0102040810204080 >> 56);
  }
  return (words_seen & 0xfefefefefefefefe) == 0;
}

void UnpackBools(const uint8_t* bits, size_t count, void* bools) {
  const BlockKernels* const kernels = FindBlockKernels(1);
  size_t j = kernels != nullptr ? kernels->unpack_bools(bits, count, Bytes(bools)) : 0;
  for (; j < count; j += 8) {
    // Byte i keeps bit i, which any carry into bit 7 then tells.
    const uint64_t kept = uint64_t{bits[j / 8]} * 0x0101010101010101 & 0x8040201008040201;
    const uint64_t word = (kept + 0x7f7f7f7f7f7f7f7f) >> 7 & 0x0101010101010101;
    std::memcpy(Bytes(bools) + j, &word, count - j < 8 ? count - j : 8);
  }
}

void ComputeDifferences(const void* numbers, const void* base, size_t count, int number_bytes, NumberOrder order,
                        void* differences) {
  WithNumbers(number_bytes, [&](auto zero) {
    using T = decltype(zero);
    size_t done = 0;
    if (const BlockKernels* const kernels = FindBlockKernels(number_bytes)) {
      const auto take = kernels->compute_differences[static_cast<int>(order)];
      done = take(Bytes(numbers), Bytes(base), count, Bytes(differences));
    }
    for (Pieces pieces(done, count); pieces.Next();) {
      T piece[kPiece] = {};
      T base_piece[kPiece] = {};
      pieces.Read(numbers, piece);
      pieces.Read(base, base_piece);
      for (size_t j = 0; j < kPiece; ++j) {
        piece[j] = Zigzag(static_cast<T>(Order(piece[j], order) - Order(base_piece[j], order)));
      }
      pieces.Write(piece, differences);
    }
  });
}

void AddDifferences(const void* differences, const void* base, size_t count, int number_bytes, NumberOrder order,
                    void* numbers) {
  WithNumbers(number_bytes, [&](auto zero) {
    using T = decltype(zero);
    size_t done = 0;
    if (const BlockKernels* const kernels = FindBlockKernels(number_bytes)) {
      const auto add = kernels->add_differences[static_cast<int>(order)];
      done = add(Bytes(differences), Bytes(base), count, Bytes(numbers));
    }
    for (Pieces pieces(done, count); pieces.Next();) {
      T piece[kPiece] = {};
      T base_piece[kPiece] = {};
      pieces.Read(differences, piece);
      pieces.Read(base, base_piece);
      for (size_t j = 0; j < kPiece; ++j) {
        piece[j] = Unorder(static_cast<T>(Unzigzag(piece[j]) + Order(base_piece[j], order)), order);
      }
      pieces.Write(piece, numbers);
    }
  });
}

}  // namespace tensorcask::payload
