// Finds the whole blocks of a table without being told where they begin: what is left to do when its index is damaged.
// Internal.
//
// A block is whole if some five bytes [type, checksum] hold the checksum of the bytes in front of them. Trying each
// begin with each end would take the square of the file. Instead: a checksum is linear, so that the one of any range is
// a difference of two numbers, each of which belongs to one place in the file; the pairs of places that fit are found
// like equal keys of two lists. One pass over the bytes (about 10 ns each) numbers all places where a block may end,
// another all where one may begin. What fits is then read and checked as any block is. Compressed blocks are found like
// others.

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
// bytes: a file that is made to hold more ends and pairs than chance does is searched in part.
// Requires: fewer than 4 GiB.
void ForEachWholeBlock(absl::string_view bytes, const DecodeLimits& limits,
                       absl::FunctionRef<void(const BlockHandle&, const BlockReader&)> fn);

}  // namespace tensorcask::checkpoint

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_TABLE_BLOCK_SEARCH_H_
