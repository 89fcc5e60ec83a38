#include "tensorcask/serialize/io/internal/was_replaced.h"

#include <cerrno>

#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/io/internal/retry.h"

namespace tensorcask::internal {

bool WasReplaced(const ByteSource& file) {
  FileSystem* files = nullptr;
  IoResult handle = -1;
  if (!file.GetFile(&files, &handle)) return false;
  FileInfo opened;
  const IoResult described = RetryInterrupted([&] { return files->DescribeOpen(handle, &opened); });
  if (described < 0 || !opened.id.is_known()) return false;
  FileInfo now;
  const IoResult found = RetryInterrupted([&] { return files->Describe(file.name(), &now); });
  return found == -ENOENT || (found >= 0 && !opened.id.Is(now.id));
}

}  // namespace tensorcask::internal
