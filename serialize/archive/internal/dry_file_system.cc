#include "tensorcask/serialize/archive/internal/dry_file_system.h"

#include <algorithm>
#include <cerrno>

namespace tensorcask {

IoResult DryFileSystem::CheckNew(const std::string& path) {
  if (files_.count(path) != 0 || folders_.count(path) != 0) return -EEXIST;
  return folders_.count(FolderOf(path)) != 0 ? 0 : behind()->CheckNew(path);
}

IoResult DryFileSystem::CreateFile(const std::string& path, const std::string*) {
  if (const IoResult bad = CheckNew(path); bad < 0) return bad;
  files_.insert(path);
  handles_[next_handle_] = 0;
  return next_handle_++;
}

IoResult DryFileSystem::MakeFolder(const std::string& path) {
  if (const IoResult bad = CheckNew(path); bad < 0) return bad;
  folders_.insert(path);
  return 0;
}

IoResult DryFileSystem::Append(IoResult handle, absl::string_view bytes) {
  const auto size = handles_.find(handle);
  if (size == handles_.end()) return -EBADF;
  size->second += bytes.size();
  return static_cast<IoResult>(bytes.size());
}

IoResult DryFileSystem::WriteAt(IoResult handle, uint64_t offset, absl::string_view bytes) {
  const auto size = handles_.find(handle);
  if (size == handles_.end()) return -EBADF;
  size->second = std::max(size->second, offset + bytes.size());
  return static_cast<IoResult>(bytes.size());
}

IoResult DryFileSystem::CopyRange(IoResult, uint64_t, IoResult, uint64_t) { return -EOPNOTSUPP; }
IoResult DryFileSystem::Reserve(IoResult, uint64_t) { return -EOPNOTSUPP; }
IoResult DryFileSystem::StartSync(IoResult, uint64_t, uint64_t) { return -EOPNOTSUPP; }

IoResult DryFileSystem::SizeOf(IoResult handle) {
  const auto size = handles_.find(handle);
  return size != handles_.end() ? static_cast<IoResult>(size->second) : behind()->SizeOf(handle);
}

IoResult DryFileSystem::DescribeOpen(IoResult handle, FileInfo* info) {
  return handles_.count(handle) != 0 ? -EOPNOTSUPP : behind()->DescribeOpen(handle, info);
}

IoResult DryFileSystem::Sync(IoResult) { return 0; }
IoResult DryFileSystem::SetPublic(IoResult) { return 0; }
IoResult DryFileSystem::SetPermissions(IoResult, const FilePermissions&) { return 0; }

IoResult DryFileSystem::Close(IoResult handle) { return handles_.erase(handle) != 0 ? 0 : behind()->Close(handle); }

IoResult DryFileSystem::Rename(const std::string&, const std::string&, OnExisting) { return -EROFS; }
IoResult DryFileSystem::Link(const std::string&, const std::string&) { return -EROFS; }
IoResult DryFileSystem::Lock(const std::string&) { return -EOPNOTSUPP; }
IoResult DryFileSystem::LockShared(const std::string&) { return -EOPNOTSUPP; }
IoResult DryFileSystem::RemoveUnlocked(const std::string&) { return -EOPNOTSUPP; }
IoResult DryFileSystem::Remove(const std::string& path) { return files_.erase(path) != 0 ? 0 : -EROFS; }
IoResult DryFileSystem::SyncFolder(const std::string&) { return 0; }

IoResult DryFileSystem::Describe(const std::string& path, FileInfo* info) {
  const bool is_folder = folders_.count(path) != 0;
  if (!is_folder && files_.count(path) == 0) return behind()->Describe(path, info);
  *info = FileInfo();
  info->type = is_folder ? FileInfo::Type::kFolder : FileInfo::Type::kRegular;
  return 0;
}

IoResult DryFileSystem::List(const std::string& path, std::vector<std::string>* names) {
  names->clear();
  return folders_.count(path) != 0 ? 0 : behind()->List(path, names);
}

}  // namespace tensorcask
