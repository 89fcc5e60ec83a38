#include "tensorcask/tools/element_crc32.h"

#include <zlib.h>

#include <string>

#include "absl/strings/string_view.h"
#include "tensorcask/tensor/base/endian.h"

namespace tensorcask::tools {
namespace {

uLong Extend(uLong crc, absl::string_view bytes) {
  return crc32_z(crc, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
}

}  // namespace

uint32_t ElementCrc32(const Tensor& tensor) {
  uLong crc = crc32_z(0, nullptr, 0);
  if (IsFixedSize(tensor.dtype())) {
    // zlib takes a null pointer for a request for the initial value.
    if (tensor.num_elements() > 0) crc = Extend(crc, tensor.bytes());
    return static_cast<uint32_t>(crc);
  }
  for (const std::string& element : tensor.flat<std::string>()) {
    char length[sizeof(uint64_t)];
    StoreLittleEndian<uint64_t>(element.size(), length);
    crc = Extend(Extend(crc, {length, sizeof(length)}), element);
  }
  return static_cast<uint32_t>(crc);
}

}  // namespace tensorcask::tools
