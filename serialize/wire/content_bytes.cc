#include "tensorcask/serialize/wire/content_bytes.h"

#include <algorithm>
#include <cstring>

#include "tensorcask/serialize/wire/copy_bytes.h"
#include "tensorcask/serialize/wire/value_traits.h"
#include "tensorcask/serialize/wire/wire_writer.h"
#include "tensorcask/tensor/base/crc32c.h"

namespace tensorcask::internal {
namespace {

// Calls with the traits of a dtype under a byte.
template <typename Fn>
void VisitSubByte(DType dtype, Fn&& fn) {
  switch (dtype) {
    case DType::kInt4:
      return fn(ValueTraits<int4>());
    case DType::kUint4:
      return fn(ValueTraits<uint4>());
    case DType::kInt2:
      return fn(ValueTraits<int2>());
    default:
      return fn(ValueTraits<uint2>());
  }
}

// The crc of the canonical form of sub-byte elements, a piece at a time.
uint32_t SubByteCrc32c(DType dtype, absl::string_view elements) {
  char piece[4096];
  uint32_t crc = 0;
  while (!elements.empty()) {
    const size_t bytes = std::min(elements.size(), sizeof(piece));
    ElementsFromContent(dtype, elements.data(), bytes, piece);
    crc = ExtendCrc32c(crc, absl::string_view(piece, bytes));
    elements.remove_prefix(bytes);
  }
  return crc;
}

uint32_t StringListCrc32c(absl::Span<const std::string> strings) {
  uint32_t crc = 0;
  for (const std::string& text : strings) {
    char length[10];
    const char* end = WriteVarint(text.size(), length);
    crc = ExtendCrc32c(crc, absl::string_view(length, static_cast<size_t>(end - length)));
  }
  for (const std::string& text : strings) crc = ExtendCrc32c(crc, absl::string_view(text.data(), text.size()));
  return crc;
}

}  // namespace

int ContentBits(DType dtype) {
  switch (dtype) {
    case DType::kInt4:
    case DType::kUint4:
      return 4;
    case DType::kInt2:
    case DType::kUint2:
      return 2;
    default:
      return 8;
  }
}

void ContentFromElements(DType dtype, const char* elements, size_t bytes, char* content) {
  const int bits = ContentBits(dtype);
  if (bits == 8) return CopyBytes(content, elements, bytes);
  const int mask = (1 << bits) - 1;
  for (size_t i = 0; i < bytes; ++i) content[i] = static_cast<char>(elements[i] & mask);
}

void ElementsFromContent(DType dtype, const char* content, size_t bytes, char* elements) {
  if (ContentBits(dtype) == 8) return CopyBytes(elements, content, bytes);
  VisitSubByte(dtype, [&](auto traits) {
    for (size_t i = 0; i < bytes; ++i) elements[i] = static_cast<char>(traits.FromValue(content[i]));
  });
}

uint32_t TensorCrc32c(const Tensor& tensor) {
  if (tensor.dtype() == DType::kString) {
    return StringListCrc32c({tensor.data<std::string>(), static_cast<size_t>(tensor.num_elements())});
  }
  if (ContentBits(tensor.dtype()) == 8) return Crc32c(tensor.bytes());
  return SubByteCrc32c(tensor.dtype(), tensor.bytes());
}

uint32_t StoredCrc32c(uint32_t crc) {
  const uint32_t masked = MaskCrc32c(crc);
  return masked == 0 ? 1 : masked;
}

uint64_t StringListBytes(absl::Span<const std::string> strings) {
  uint64_t bytes = 0;
  for (const std::string& text : strings) bytes += VarintBytes(text.size()) + text.size();
  return bytes;
}

char* WriteStringList(absl::Span<const std::string> strings, char* out) {
  for (const std::string& text : strings) out = WriteVarint(text.size(), out);
  for (const std::string& text : strings) {
    std::memcpy(out, text.data(), text.size());
    out += text.size();
  }
  return out;
}

}  // namespace tensorcask::internal
