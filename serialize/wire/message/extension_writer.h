// Writes the TensorExtension of a message (FORMAT.md section 3). Internal.

#ifndef TENSORCASK_SERIALIZE_WIRE_MESSAGE_EXTENSION_WRITER_H_
#define TENSORCASK_SERIALIZE_WIRE_MESSAGE_EXTENSION_WRITER_H_

#include <cstdint>

#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/metadata.h"

namespace tensorcask::internal {

// The value of field crc32c for elements with this checksum: the masked checksum, or 1 if that is 0, which means "not
// given".
uint32_t StoredCrc32c(uint32_t crc);

struct ExtensionContent {
  const TensorMetadata* metadata = nullptr;  // not null; must outlive this
  int dtype_number = 0;                      // in the extension-only and the encoded form; else 0
  DimVector strides;                         // in the extension-only form; empty: row-major
  int64_t storage_offset = 0;                // in the extension-only form
  bool checksum = false;
  uint64_t payload_bytes = 0;  // in the encoded form; else 0
};

// The size of the message, without tag and length; 0 if all fields are at their defaults.
uint64_t ExtensionBytes(const ExtensionContent& content);
// Writes the message except the bytes of the payload, which end it; returns the end. `crc` is the crc32c of the
// elements if content.checksum.
char* WriteExtension(const ExtensionContent& content, uint32_t crc, char* out);

}  // namespace tensorcask::internal

#endif  // TENSORCASK_SERIALIZE_WIRE_MESSAGE_EXTENSION_WRITER_H_
