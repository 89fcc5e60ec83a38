#include "tensorcask/serialize/wire/content_bytes.h"

#include <cstring>

#include "tensorcask/serialize/wire/wire_writer.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/strided/row_major.h"

namespace tensorcask::internal {
namespace {

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

uint32_t TensorCrc32c(const TensorView& tensor) {
  if (tensor.dtype() == DType::kString) {
    return StringListCrc32c({tensor.data<std::string>(), static_cast<size_t>(tensor.num_elements())});
  }
  return Crc32c(tensor.bytes());
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

absl::Status SetContent(const TensorView& tensor, uint64_t bytes, std::string* content) {
  if (tensor.dtype() == DType::kString) {
    content->resize(bytes);
    WriteStringList({tensor.data<std::string>(), static_cast<size_t>(tensor.num_elements())}, &(*content)[0]);
  } else if (tensor.IsContiguous()) {
    content->assign(tensor.bytes().data(), bytes);
  } else {
    content->resize(bytes);
    return CopyRowMajor(tensor, absl::MakeSpan(&(*content)[0], bytes));
  }
  return absl::OkStatus();
}

}  // namespace tensorcask::internal
