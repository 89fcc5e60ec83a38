// What a conversion does with the values that a file has beside its tensors (ArchiveReader::Values).

#ifndef TENSORCASK_SERIALIZE_ARCHIVE_INTERNAL_PLANNED_VALUES_H_
#define TENSORCASK_SERIALIZE_ARCHIVE_INTERNAL_PLANNED_VALUES_H_

#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tensorcask/serialize/archive/archive_format.h"
#include "tensorcask/serialize/archive/archive_reader.h"
#include "tensorcask/serialize/archive/archive_writer.h"

namespace tensorcask::archive {

// The names of the values under the root, and those of the metadata: what `unset` can name.
absl::StatusOr<std::set<std::string>> ValueNames(const ArchiveReader& source);

// The values under the root that `target` holds (ArchiveFormat::HoldsValue), in order, arrays read from the file;
// without those of `unset`.
absl::StatusOr<std::vector<FileValue>> HeldValues(const ArchiveReader& source, const ArchiveFormat& target,
                                                  const std::set<std::string>& unset);

// A sentence on the values that reach `target` neither so nor as metadata, such as lists in most formats; "" if there
// are none.
absl::StatusOr<std::string> NoteNotCopied(const ArchiveReader& source, const ArchiveFormat& target);

}  // namespace tensorcask::archive

#endif  // TENSORCASK_SERIALIZE_ARCHIVE_INTERNAL_PLANNED_VALUES_H_
