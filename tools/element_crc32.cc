#include "tensorcask/tools/element_crc32.h"

#include <zlib.h>

#include <string>

#include "absl/strings/string_view.h"
#include "tensorcask/serialize/wire/message/object_encoder.h"
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
  internal::VisitObjects(tensor, [&crc](auto objects) {
    std::string bytes;
    for (const auto& object : objects) {
      bytes.resize(internal::ObjectSize(object));
      internal::WriteObject(object, bytes.data());
      char length[sizeof(uint64_t)];
      StoreLittleEndian<uint64_t>(bytes.size(), length);
      crc = Extend(Extend(crc, {length, sizeof(length)}), bytes);
    }
  });
  return static_cast<uint32_t>(crc);
}

}  // namespace tensorcask::tools
