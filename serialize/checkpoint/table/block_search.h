// Finds the whole blocks of a table without an index of blocks, for a file whose index is damaged. Internal.
//
// A block is whole if some five bytes [type, checksum] hold the checksum of the bytes in front of them. To try each
// begin with each end would take time with the square of the file size. But CRC-32C is linear: the checksum of a range
// is a difference of two numbers, one for each end of the range. So matching offsets are found like equal keys of two
// lists. One pass over the bytes (about 10 ns each) computes the numbers of all offsets where a block may end, another
// those where a block may begin. Each match is then read and checked like any block. Compressed blocks are found in the
// same way.

#ifndef TENSORCASK_SERIALIZE_CHECKPOINT_TABLE_BLOCK_SEARCH_H_
#define TENSORCASK_SERIALIZE_CHECKPOINT_TABLE_BLOCK_SEARCH_H_

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/checkpoint/table/block_reader.h"
#include "tensorcask/serialize/checkpoint/table/table_format.h"
#include "tensorcask/serialize/io/decode_limits.h"

namespace tensorcask::checkpoint {

// Calls fn(handle, block) for each whole block in `bytes`, in the order of their places; they do not overlap. Empty
// blocks and the index of blocks are among them. Memory: 2 x `bytes` at most. Time is in proportion to `bytes` for any
// bytes: a file with more ends and pairs than chance produces is searched only in part. Requires: fewer than 4 GiB.
void ForEachWholeBlock(absl::string_view bytes, const DecodeLimits& limits,
                       absl::FunctionRef<void(const BlockHandle&, const BlockReader&)> fn);

}  // namespace tensorcask::checkpoint

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_TABLE_BLOCK_SEARCH_H_
