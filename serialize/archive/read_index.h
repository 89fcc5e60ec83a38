// Reads the part of a stored tensor that one index per axis selects, as a[1, 2:, ::2] in Python.
//
//   CASK_ASSIGN_OR_RETURN(const ArchiveEntry* const entry, archive->Find("embedding"));
//   absl::StatusOr<TensorView> rows = ReadIndex(*archive, *entry, {AxisIndex::Slice(1000, 1010)});
//   absl::StatusOr<TensorView> last = ReadIndex(*archive, *entry, {-1});

#ifndef TENSORCASK_SERIALIZE_ARCHIVE_READ_INDEX_H_
#define TENSORCASK_SERIALIZE_ARCHIVE_READ_INDEX_H_

#include "tensorcask/tensor/base/cxx17.h"

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/archive/archive_entry.h"
#include "tensorcask/serialize/archive/archive_reader.h"
#include "tensorcask/tensor/compat/axis_index.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask {

// The result is equal to IndexView of the whole tensor. Reads the smallest slice that has all selected elements
// (ArchiveReader::ReadSlice), so a step of 2 reads all elements and drops every second one; nothing if no element is
// selected; the whole tensor, with its checksum, if `index` selects all of it.
// Errors: InvalidArgument for more indices than axes and for a step of 0; OutOfRange for an element outside; those of
// ArchiveReader::ReadSlice. Requires: `entry` is one of `archive`.
absl::StatusOr<TensorView> ReadIndex(const ArchiveReader& archive, const ArchiveEntry& entry,
                                     absl::Span<const AxisIndex> index);

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_ARCHIVE_READ_INDEX_H_
