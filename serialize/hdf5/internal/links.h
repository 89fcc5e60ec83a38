// What a group holds: names, and where the objects are that they name.

#ifndef TENSORCASK_SERIALIZE_HDF5_INTERNAL_LINKS_H_
#define TENSORCASK_SERIALIZE_HDF5_INTERNAL_LINKS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/hdf5/internal/file.h"
#include "tensorcask/serialize/hdf5/internal/object_header.h"

namespace tensorcask::hdf5 {

struct Link {
  std::string name;
  uint64_t address = kUndefined;  // where the object header is, if `refusal` is empty
  // Why the link is not followed: "is a soft link to \"/x\"". Only hard links are followed: others lead out of the
  // file, or to a name that may not be there.
  std::string refusal;
};

// True if the object is a group.
bool IsGroup(const std::vector<Message>& header);

// The links of a group, sorted by name. Requires: IsGroup. Errors: DataLoss if a rule is broken or two links have one
// name; ResourceExhausted past `max_links`.
absl::StatusOr<std::vector<Link>> ReadLinks(const std::vector<Message>& header, int64_t max_links, File* file);

}  // namespace tensorcask::hdf5

#endif  // TENSORCASK_SERIALIZE_HDF5_INTERNAL_LINKS_H_
