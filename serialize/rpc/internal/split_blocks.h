// Small blocks out of large ones: a client asks for many MiB in one call, whatever size of block its caller wants.

#ifndef TENSORCASK_SERIALIZE_RPC_INTERNAL_SPLIT_BLOCKS_H_
#define TENSORCASK_SERIALIZE_RPC_INTERNAL_SPLIT_BLOCKS_H_

#include <cstdint>
#include <memory>

#include "tensorcask/serialize/archive/tensor_blocks.h"

namespace tensorcask::rpc {

// The same elements as `large` in blocks of at most `block_bytes` (at least one element). They share the memory of the
// large ones.
std::unique_ptr<TensorBlocks> SplitBlocks(std::unique_ptr<TensorBlocks> large, uint64_t block_bytes);

}  // namespace tensorcask::rpc

#endif  // TENSORCASK_SERIALIZE_RPC_INTERNAL_SPLIT_BLOCKS_H_
