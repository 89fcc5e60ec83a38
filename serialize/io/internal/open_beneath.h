// Opens files beneath an open folder, for FileSystem::Posix(): by openat2(2) where the kernel has it, else step by
// step.
//
// Answers are those of FileSystem: 0 or more, or a negative errno.

#ifndef TENSORCASK_SERIALIZE_IO_INTERNAL_OPEN_BENEATH_H_
#define TENSORCASK_SERIALIZE_IO_INTERNAL_OPEN_BENEATH_H_

#include <fcntl.h>

#include <string>

#include "absl/types/span.h"
#include "tensorcask/serialize/io/file_system.h"

namespace tensorcask::internal {

// O_NONBLOCK: opening a pipe without it waits for the other end. It changes nothing for regular files.
inline constexpr int kOpenToRead = O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY;

// `opened`, what open(2) has just returned, if it is a regular file. Closes anything else: -EISDIR, -EINVAL.
IoResult RegularFile(int opened);

// FileSystem::OpenFolderOf and FileSystem::OpenBeneath. Requires: no NUL in the texts.
IoResult OpenFolderOf(const std::string& path, bool resolved);
IoResult OpenBeneath(int folder, const std::string& name, absl::Span<const IoResult> targets);

// As OpenBeneath without `targets`, in the way of kernels that lack openat2. For tests.
IoResult OpenBeneathByWalk(int folder, const std::string& name);

}  // namespace tensorcask::internal

#endif  // TENSORCASK_SERIALIZE_IO_INTERNAL_OPEN_BENEATH_H_
