// Reading and writing little-endian numbers at any address, and swapping the bytes of big-endian files.
//
//   uint32_t count = LoadLittleEndian<uint32_t>(bytes.data() + 8);
//
// Hosts are little-endian (asserted); files of either order are read.

#ifndef TENSORCASK_TENSOR_BASE_ENDIAN_H_
#define TENSORCASK_TENSOR_BASE_ENDIAN_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace tensorcask {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ && sizeof(void*) == 8,
              "Tensorcask runs on 64-bit little-endian hosts");

// The T stored at `bytes`, which need not be aligned.
template <typename T>
T LoadLittleEndian(const void* bytes) {
  static_assert(std::is_trivially_copyable_v<T>);
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

// Stores `value` at `bytes`, which need not be aligned.
template <typename T>
void StoreLittleEndian(T value, void* bytes) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::memcpy(bytes, &value, sizeof(T));
}

// Reverses the bytes of each of `count` items of `item_size` bytes at `data`, in place.
// Requires: item_size is 1, 2, 4 or 8 (a complex number is two items).
void SwapBytes(void* data, size_t count, size_t item_size);

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_BASE_ENDIAN_H_
