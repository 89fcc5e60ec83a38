// Reads the elements of a tensor that is stored in blocks, as float32: all of them or a slice. Reads only the blocks
// that hold the slice, a piece at a time.
//
//   CASK_RETURN_IF_ERROR(ReadBlockElements(*file, tensor, slice, /*num_threads=*/4, &out));
//
// Errors, which name neither file nor tensor: DataLoss if the file is too short; from errno.

#ifndef TENSORCASK_SERIALIZE_GGUF_INTERNAL_BLOCK_ELEMENTS_H_
#define TENSORCASK_SERIALIZE_GGUF_INTERNAL_BLOCK_ELEMENTS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "tensorcask/serialize/gguf/block_types.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask::gguf {

struct BlockTensor {
  const ElementType* type;  // a type of blocks
  TensorShape shape;        // rows are whole blocks
  uint64_t offset;          // the first byte in the source
  bool big_endian = false;  // requires: SwapBlocks knows the type
};

// The elements in `slice`, which lies in the shape. Requires: *out is float32 and has their shape;
// out->CheckWritable().
absl::Status ReadBlockElements(const ByteSource& source, const BlockTensor& tensor, const TensorSlice& slice,
                               int num_threads, TensorView* out);

}  // namespace tensorcask::gguf

#endif  // TENSORCASK_SERIALIZE_GGUF_INTERNAL_BLOCK_ELEMENTS_H_
