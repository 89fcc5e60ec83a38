// Shell patterns for names of tensors (tensor/base/glob.h) that may be names themselves, such as "x[0]".

#ifndef TENSORCASK_SERIALIZE_ARCHIVE_INTERNAL_CHOSEN_NAMES_H_
#define TENSORCASK_SERIALIZE_ARCHIVE_INTERNAL_CHOSEN_NAMES_H_

#include <string>
#include <vector>

#include "tensorcask/serialize/archive/archive_entry.h"

namespace tensorcask::archive {

// The patterns, each without '*' and '?' that is the name of one of `entries` made to match this name alone: "x[0]"
// then does not choose "x0", too. Requires: `entries` are sorted by name.
std::vector<std::string> NamesFirst(std::vector<std::string> globs, const std::vector<ArchiveEntry>& entries);

}  // namespace tensorcask::archive

#endif  // TENSORCASK_SERIALIZE_ARCHIVE_INTERNAL_CHOSEN_NAMES_H_
