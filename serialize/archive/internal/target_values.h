// What the target of a conversion gets of the values beside the tensors, if its format holds them
// (ArchiveTraits::nested): the tree of the source, without what was not chosen.
//
// - Tensors that keep their names keep their places. Others are left to the writer, which makes them entries of the
//   root: `--rename` that takes "model." away makes a flat dict of the model.
// - The patterns that choose tensors choose values, too, by their names. Values keep their names.
// - A container that has become empty is left out. In a list, None stands for what is left out, so that the positions
//   of the others stay.

#ifndef TENSORCASK_SERIALIZE_ARCHIVE_INTERNAL_TARGET_VALUES_H_
#define TENSORCASK_SERIALIZE_ARCHIVE_INTERNAL_TARGET_VALUES_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tensorcask/serialize/archive/archive_format.h"
#include "tensorcask/serialize/archive/archive_reader.h"
#include "tensorcask/serialize/archive/convert_archives.h"

namespace tensorcask::archive {

struct TargetValues {
  std::shared_ptr<const ArchiveValues> values;                // null: the target gets a flat list of its tensors
  std::vector<std::pair<std::string, absl::Status>> refused;  // names of values that the format cannot hold, and why
};

// For the items of a plan, all of which are of `source`. Null values if the tree of the source has no tensors (its
// metadata then is all that it has), is too large to choose from, or is not a map and a tensor leaves its place.
// Errors: those of source.Values(); AlreadyExists if a tensor gets the name of a value of the root.
absl::StatusOr<TargetValues> ValuesForTarget(const ArchiveReader& source, const ArchiveFormat& target,
                                             const std::vector<ConversionItem>& items, const ConvertOptions& options);

}  // namespace tensorcask::archive

#endif  // TENSORCASK_SERIALIZE_ARCHIVE_INTERNAL_TARGET_VALUES_H_
