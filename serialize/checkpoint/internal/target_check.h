// Checks that a checkpoint to be written is not one of its own sources, whatever spelling of the folder is used.
// Internal.

#ifndef TENSORCASK_SERIALIZE_CHECKPOINT_INTERNAL_TARGET_CHECK_H_
#define TENSORCASK_SERIALIZE_CHECKPOINT_INTERNAL_TARGET_CHECK_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/payload/base_lookup.h"

namespace tensorcask::checkpoint {

// Creates a file beside the target, looks for it in the folder of each source, and removes it: one folder can have many
// names. So it also shows early that the target can be written.
// Errors: InvalidArgument, "TARGET: is `what`, SOURCE"; those of CheckNoDevice and Publication::Add; from errno if the
// file cannot be removed.
absl::Status CheckTarget(const std::string& target, absl::Span<const std::string> sources, absl::string_view what,
                         bool overwrite, FileSystem* file_system);

// As CheckTarget with the checkpoint that `base` reads as the only source, for a target that replaces what is there.
// `base` may be null, or have no location.
absl::Status CheckNotBase(const std::string& target, const BaseLookup* base, bool overwrite, FileSystem* file_system);

// The last component of the prefix of the checkpoint that `base` reads, if its index lies in the folder of the file
// `temporary`, whatever the paths of that folder look like; else "". `base` may be null, or have no location.
// `temporary` exists in `file_system`, which may hide it.
std::string BaseBeside(const std::string& temporary, const BaseLookup* base, FileSystem* file_system);

// Errors: FailedPrecondition if `prefix` itself is the name of a device, pipe or socket. A caller who writes to
// /dev/null does not want /dev/null.index.
absl::Status CheckNoDevice(const std::string& prefix, FileSystem* file_system);

}  // namespace tensorcask::checkpoint

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_INTERNAL_TARGET_CHECK_H_
