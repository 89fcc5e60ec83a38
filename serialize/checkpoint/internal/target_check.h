// That a checkpoint to be written is none of those it is made from, however their folders are spelled. Internal.

#ifndef TENSORCASK_SERIALIZE_CHECKPOINT_INTERNAL_TARGET_CHECK_H_
#define TENSORCASK_SERIALIZE_CHECKPOINT_INTERNAL_TARGET_CHECK_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/io/file_system.h"

namespace tensorcask::checkpoint {

// Also finds early that the target can be written. Folders have many names: in which of them a new file appears is the
// test. That file is removed again.
// Errors: InvalidArgument, "TARGET: is `what`, SOURCE"; as AtomicPublish::Add; from errno if the file cannot be
// removed.
absl::Status CheckTarget(const std::string& target, absl::Span<const std::string> sources, absl::string_view what,
                         bool overwrite, FileSystem* file_system);

}  // namespace tensorcask::checkpoint

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_INTERNAL_TARGET_CHECK_H_
