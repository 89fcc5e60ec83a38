// Data files of a folder that no index lists: their save was killed, or goes on.
//
//   for (const std::string& name : DataWithoutIndex(names)) ...   // "ckpt-7.data-00000-of-00001" without
//   "ckpt-7.index"

#ifndef TENSORCASK_SERIALIZE_CHECKPOINT_UNLISTED_DATA_H_
#define TENSORCASK_SERIALIZE_CHECKPOINT_UNLISTED_DATA_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace tensorcask::checkpoint {

// The data files without an index among `names`, which are all names of one folder, sorted.
std::vector<std::string> DataWithoutIndex(absl::Span<const std::string> names);

// The path of the index of the data file `path`. Requires: `path` is one of a data file.
std::string IndexPathOfData(absl::string_view path);

}  // namespace tensorcask::checkpoint

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_UNLISTED_DATA_H_
