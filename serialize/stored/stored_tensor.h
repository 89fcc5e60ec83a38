// Says where the elements of one tensor lie in a source of bytes, and in which form. The directory of a format (its
// index or header) is parsed to this; elements.h reads it.
//
//   StoredTensor w;   // float32 [1024,768], at byte 4096
//   w.dtype = DType::kFloat32;
//   w.shape = TensorShape({1024, 768});
//   w.offset = 4096;
//   w.stored_bytes = 1024 * 768 * 4;
//   w.checksum = {ChecksumKind::kCrc32c, 0x1d0fa5b3};
//
// The parser makes sure of this, so that nothing checks it again: `dtype` has elements of fixed size; the bytes from
// `offset` on lie in the source; there are exactly as many as the elements need; `layout` has the dims of `shape` and
// names each element from 0 to the last one once.

#ifndef TENSORCASK_SERIALIZE_STORED_STORED_TENSOR_H_
#define TENSORCASK_SERIALIZE_STORED_STORED_TENSOR_H_

#include <cstdint>
#include <optional>

#include "tensorcask/tensor/base/checksum.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/layout.h"

namespace tensorcask::stored {

struct StoredTensor {
  DType dtype = DType::kInvalid;
  TensorShape shape;
  uint64_t offset = 0;        // the first byte in the source
  uint64_t stored_bytes = 0;  // the size in the source
  // 1 to 7: the elements have so many bits, the first one begins with the lowest bit of the first byte, and in memory
  // each takes a byte. 0: they have the size that they have in memory.
  int packed_bits = 0;
  bool big_endian = false;       // only for elements that are not packed
  std::optional<Layout> layout;  // the order in the source; nullopt: row-major. Only for elements that are not packed
  Checksum checksum;             // that of the stored bytes
  // Tensors of a reader with equal ids have the same stored bytes, which are verified once (verified_once.h). 0: they
  // are verified each time.
  uint64_t storage_id = 0;
};

}  // namespace tensorcask::stored

#endif  // TENSORCASK_SERIALIZE_STORED_STORED_TENSOR_H_
