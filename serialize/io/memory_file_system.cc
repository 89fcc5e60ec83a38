#include "tensorcask/serialize/io/memory_file_system.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <new>
#include <utility>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "tensorcask/serialize/io/internal/path_limits.h"

namespace tensorcask {
namespace {

constexpr size_t kPageBytes = 4096;

// "a//b/./c/" is "a/b/c"; nothing left is "." or "/".
std::string Normalised(const std::string& path) {
  std::vector<absl::string_view> parts;
  for (absl::string_view part : absl::StrSplit(path, '/', absl::SkipEmpty())) {
    if (part != ".") parts.push_back(part);
  }
  const bool absolute = !path.empty() && path.front() == '/';
  if (parts.empty()) return absolute ? "/" : ".";
  return (absolute ? "/" : "") + absl::StrJoin(parts, "/");
}

// The error that the system returns for such a path; 0 if none.
IoResult CheckName(const std::string& path) {
  if (path.empty()) return -ENOENT;
  if (path.find('\0') != std::string::npos) return -EINVAL;
  if (path.size() > internal::kMaxPathBytes) return -ENAMETOOLONG;
  for (absl::string_view part : absl::StrSplit(path, '/')) {
    if (part.size() > internal::kMaxNameBytes) return -ENAMETOOLONG;
  }
  return 0;
}

// Zeroed pages; null if there is no memory.
std::shared_ptr<char> AllocatePages(size_t bytes) {
  constexpr std::align_val_t kAlignment{kPageBytes};
  void* pages = ::operator new(bytes, kAlignment, std::nothrow);
  if (pages == nullptr) return nullptr;
  std::memset(pages, 0, bytes);
  return std::shared_ptr<char>(static_cast<char*>(pages), [](char* freed) { ::operator delete(freed, kAlignment); });
}

// No two files have one number, also if the first is gone.
uint64_t NextFileNumber() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

}  // namespace

// The bytes move only when they outgrow their memory, and a mapping keeps the old memory. So Append never changes
// mapped bytes.
struct MemoryFileSystem::File {
  const uint64_t number = NextFileNumber();
  std::shared_ptr<char> bytes;
  bool locked = false;
  int shared_locks = 0;
  size_t size = 0;
  size_t capacity = 0;

  bool Write(uint64_t offset, absl::string_view added) {
    if (added.empty()) return true;
    constexpr size_t kMaxBytes = SIZE_MAX / 4;
    if (offset > kMaxBytes || added.size() > kMaxBytes - offset) return false;
    const size_t end = offset + added.size();
    if (end > capacity) {
      const size_t pages = (std::max(end, size * 2) + kPageBytes - 1) / kPageBytes;
      std::shared_ptr<char> larger = AllocatePages(pages * kPageBytes);
      if (larger == nullptr) return false;
      if (size > 0) std::memcpy(larger.get(), bytes.get(), size);
      bytes = std::move(larger);
      capacity = pages * kPageBytes;
    }
    std::memcpy(bytes.get() + offset, added.data(), added.size());
    size = std::max(size, end);
    return true;
  }
};

MemoryFileSystem::MemoryFileSystem() : folders_({"/", "."}) {}
MemoryFileSystem::~MemoryFileSystem() = default;

std::shared_ptr<const std::string> MemoryFileSystem::Find(const std::string& path) const {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto it = files_.find(Normalised(path));
  if (it == files_.end()) return nullptr;
  return std::make_shared<const std::string>(it->second->bytes.get(), it->second->size);
}

void MemoryFileSystem::Put(const std::string& path, absl::string_view bytes) {
  auto file = std::make_shared<File>();
  file->Write(0, bytes);
  std::lock_guard<std::mutex> lock(mutex_);
  files_[Normalised(path)] = std::move(file);
}

std::vector<std::string> MemoryFileSystem::Paths() const {
  std::lock_guard<std::mutex> lock(mutex_);
  std::vector<std::string> paths;
  for (const auto& [path, file] : files_) paths.push_back(path);
  return paths;
}

size_t MemoryFileSystem::open_handles() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return handles_.size() + mappings_.size();
}

IoResult MemoryFileSystem::OpenLocked(std::shared_ptr<File> file, bool writes, LockKind lock) {
  if (lock == LockKind::kShared) ++file->shared_locks;
  if (lock == LockKind::kExclusive) file->locked = true;
  handles_[next_handle_] = {std::move(file), writes, lock, /*position=*/0};
  return next_handle_++;
}

// The error that prevents a new file or folder at the normalised `path`, apart from an existing one; 0 if none.
IoResult MemoryFileSystem::CheckNewName(const std::string& path) const {
  const std::string folder = FolderOf(path);
  if (folders_.count(folder) != 0) return 0;
  return files_.count(folder) != 0 ? -ENOTDIR : -ENOENT;
}

FileInfo MemoryFileSystem::InfoOf(const File& file) {
  FileInfo info;
  info.size_bytes = file.size;
  info.id = {1, file.number};
  return info;
}

IoResult MemoryFileSystem::OpenToRead(const std::string& path) {
  if (const IoResult bad = CheckName(path); bad != 0) return bad;
  const std::string name = Normalised(path);
  std::lock_guard<std::mutex> lock(mutex_);
  if (folders_.count(name) != 0) return -EISDIR;
  const auto it = files_.find(name);
  if (it == files_.end()) return files_.count(FolderOf(name)) != 0 ? -ENOTDIR : -ENOENT;
  if (path.back() == '/') return -ENOTDIR;
  return OpenLocked(it->second, /*writes=*/false);
}

IoResult MemoryFileSystem::CheckNew(const std::string& path) {
  if (const IoResult bad = CheckName(path); bad != 0) return bad;
  const std::string name = Normalised(path);
  std::lock_guard<std::mutex> lock(mutex_);
  return CheckNewLocked(name, path.back() == '/');
}

IoResult MemoryFileSystem::CheckNewLocked(const std::string& name, bool has_slash) const {
  if (has_slash) return -EISDIR;
  if (folders_.count(name) != 0 || files_.count(name) != 0) return -EEXIST;
  return CheckNewName(name);
}

IoResult MemoryFileSystem::DescribeOpen(IoResult handle, FileInfo* info) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto it = handles_.find(handle);
  if (it == handles_.end()) return -EBADF;
  *info = InfoOf(*it->second.file);
  return 0;
}

IoResult MemoryFileSystem::CreateNew(const std::string& path) {
  if (const IoResult bad = CheckName(path); bad != 0) return bad;
  const std::string name = Normalised(path);
  std::lock_guard<std::mutex> lock(mutex_);
  if (const IoResult bad = CheckNewLocked(name, path.back() == '/'); bad != 0) return bad;
  const auto file = std::make_shared<File>();
  files_[name] = file;
  return OpenLocked(file, /*writes=*/true, LockKind::kShared);
}

IoResult MemoryFileSystem::ReadAt(IoResult handle, uint64_t offset, absl::Span<char> out) {
  std::shared_ptr<char> bytes;
  size_t size = 0;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto it = handles_.find(handle);
    if (it == handles_.end() || it->second.writes) return -EBADF;
    bytes = it->second.file->bytes;
    size = it->second.file->size;
  }
  if (offset > INT64_MAX) return -EINVAL;
  if (offset >= size) return 0;
  const size_t count = std::min<size_t>(out.size(), size - offset);
  if (count > 0) std::memcpy(out.data(), bytes.get() + offset, count);
  return static_cast<IoResult>(count);
}

IoResult MemoryFileSystem::Append(IoResult handle, absl::string_view bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto it = handles_.find(handle);
  if (it == handles_.end() || !it->second.writes) return -EBADF;
  if (!it->second.file->Write(it->second.position, bytes)) return -ENOSPC;
  it->second.position += bytes.size();
  return static_cast<IoResult>(bytes.size());
}

IoResult MemoryFileSystem::WriteAt(IoResult handle, uint64_t offset, absl::string_view bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto it = handles_.find(handle);
  if (it == handles_.end() || !it->second.writes) return -EBADF;
  if (offset > INT64_MAX) return -EFBIG;
  return it->second.file->Write(offset, bytes) ? static_cast<IoResult>(bytes.size()) : -ENOSPC;
}

IoResult MemoryFileSystem::Reserve(IoResult handle, uint64_t) {
  std::lock_guard<std::mutex> lock(mutex_);
  return handles_.count(handle) != 0 ? -EOPNOTSUPP : -EBADF;
}

IoResult MemoryFileSystem::SizeOf(IoResult handle) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto it = handles_.find(handle);
  return it != handles_.end() ? static_cast<IoResult>(it->second.file->size) : -EBADF;
}

IoResult MemoryFileSystem::Sync(IoResult handle) {
  std::lock_guard<std::mutex> lock(mutex_);
  return handles_.count(handle) != 0 ? 0 : -EBADF;
}

IoResult MemoryFileSystem::SetPublic(IoResult handle) { return Sync(handle); }

IoResult MemoryFileSystem::Close(IoResult handle) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto it = handles_.find(handle);
  if (it == handles_.end()) return -EBADF;
  if (it->second.lock == LockKind::kShared) --it->second.file->shared_locks;
  if (it->second.lock == LockKind::kExclusive) it->second.file->locked = false;
  handles_.erase(it);
  return 0;
}

IoResult MemoryFileSystem::Map(IoResult handle, uint64_t offset, size_t size_bytes, const char** data) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto it = handles_.find(handle);
  if (it == handles_.end()) return -EBADF;
  if (it->second.writes) return -EACCES;
  const File& file = *it->second.file;
  if (size_bytes == 0 || offset % kPageBytes != 0 || offset > file.size || size_bytes > file.size - offset)
    return -EINVAL;
  *data = file.bytes.get() + offset;
  mappings_.emplace(*data, file.bytes);
  return 0;
}

IoResult MemoryFileSystem::Unmap(const char* data, size_t) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto it = mappings_.find(data);
  if (it == mappings_.end()) return -EINVAL;
  mappings_.erase(it);
  return 0;
}

IoResult MemoryFileSystem::Rename(const std::string& from, const std::string& to, OnExisting on_existing) {
  for (const std::string* path : {&from, &to}) {
    if (const IoResult bad = CheckName(*path); bad != 0) return bad;
  }
  const std::string old_name = Normalised(from);
  const std::string new_name = Normalised(to);
  std::lock_guard<std::mutex> lock(mutex_);
  const auto it = files_.find(old_name);
  if (it == files_.end()) return folders_.count(old_name) != 0 ? -EISDIR : -ENOENT;
  if (to.back() == '/') return -ENOTDIR;
  if (const IoResult bad = CheckNewName(new_name); bad != 0) return bad;
  const bool taken = files_.count(new_name) != 0 || folders_.count(new_name) != 0;
  if (taken && on_existing == OnExisting::kRefuse) return -EEXIST;
  if (folders_.count(new_name) != 0) return -EISDIR;
  if (old_name == new_name) return 0;
  files_[new_name] = it->second;
  files_.erase(old_name);
  return 0;
}

IoResult MemoryFileSystem::Link(const std::string& from, const std::string& to) {
  for (const std::string* path : {&from, &to}) {
    if (const IoResult bad = CheckName(*path); bad != 0) return bad;
  }
  const std::string old_name = Normalised(from);
  const std::string new_name = Normalised(to);
  std::lock_guard<std::mutex> lock(mutex_);
  if (folders_.count(old_name) != 0) return -EOPNOTSUPP;
  const auto it = files_.find(old_name);
  if (it == files_.end()) return -ENOENT;
  if (to.back() == '/') return -ENOENT;
  if (files_.count(new_name) != 0 || folders_.count(new_name) != 0) return -EEXIST;
  if (const IoResult bad = CheckNewName(new_name); bad != 0) return bad;
  files_[new_name] = it->second;
  return 0;
}

IoResult MemoryFileSystem::Lock(const std::string& path) {
  if (const IoResult bad = CheckName(path); bad != 0) return bad;
  const std::string name = Normalised(path);
  std::lock_guard<std::mutex> lock(mutex_);
  if (folders_.count(name) != 0 || path.back() == '/') return -EISDIR;
  auto it = files_.find(name);
  if (it == files_.end()) {
    if (const IoResult bad = CheckNewName(name); bad != 0) return bad;
    it = files_.emplace(name, std::make_shared<File>()).first;
  }
  if (it->second->locked || it->second->shared_locks > 0) return -EWOULDBLOCK;
  return OpenLocked(it->second, /*writes=*/false, LockKind::kExclusive);
}

IoResult MemoryFileSystem::LockShared(const std::string& path) {
  if (const IoResult bad = CheckName(path); bad != 0) return bad;
  std::lock_guard<std::mutex> lock(mutex_);
  const auto it = files_.find(Normalised(path));
  if (it == files_.end()) return -ENOENT;
  if (it->second->locked) return -EWOULDBLOCK;
  return OpenLocked(it->second, /*writes=*/false, LockKind::kShared);
}

IoResult MemoryFileSystem::RemoveUnlocked(const std::string& path) {
  if (const IoResult bad = CheckName(path); bad != 0) return bad;
  const std::string name = Normalised(path);
  std::lock_guard<std::mutex> lock(mutex_);
  if (folders_.count(name) != 0) return -EINVAL;
  const auto it = files_.find(name);
  if (it == files_.end()) return -ENOENT;
  if (it->second->locked || it->second->shared_locks > 0) return -EWOULDBLOCK;
  files_.erase(it);
  return 0;
}

IoResult MemoryFileSystem::Remove(const std::string& path) {
  if (const IoResult bad = CheckName(path); bad != 0) return bad;
  const std::string name = Normalised(path);
  std::lock_guard<std::mutex> lock(mutex_);
  if (folders_.count(name) != 0) return -EISDIR;
  return files_.erase(name) != 0 ? 0 : -ENOENT;
}

IoResult MemoryFileSystem::MakeFolder(const std::string& path) {
  if (const IoResult bad = CheckName(path); bad != 0) return bad;
  const std::string name = Normalised(path);
  std::lock_guard<std::mutex> lock(mutex_);
  if (files_.count(name) != 0 || folders_.count(name) != 0) return -EEXIST;
  if (const IoResult bad = CheckNewName(name); bad != 0) return bad;
  folders_.insert(name);
  return 0;
}

IoResult MemoryFileSystem::SyncFolder(const std::string& path) {
  if (const IoResult bad = CheckName(path); bad != 0) return bad;
  const std::string name = Normalised(path);
  std::lock_guard<std::mutex> lock(mutex_);
  if (folders_.count(name) != 0) return 0;
  return files_.count(name) != 0 ? -ENOTDIR : -ENOENT;
}

IoResult MemoryFileSystem::Describe(const std::string& path, FileInfo* info) {
  if (const IoResult bad = CheckName(path); bad != 0) return bad;
  const std::string name = Normalised(path);
  std::lock_guard<std::mutex> lock(mutex_);
  if (folders_.count(name) != 0) {
    *info = FileInfo();
    info->type = FileInfo::Type::kFolder;
    return 0;
  }
  const auto it = files_.find(name);
  if (it == files_.end()) return files_.count(FolderOf(name)) != 0 ? -ENOTDIR : -ENOENT;
  if (path.back() == '/') return -ENOTDIR;
  *info = InfoOf(*it->second);
  return 0;
}

IoResult MemoryFileSystem::List(const std::string& path, std::vector<std::string>* names) {
  names->clear();
  if (const IoResult bad = SyncFolder(path); bad != 0) return bad;
  const std::string folder = Normalised(path);
  std::lock_guard<std::mutex> lock(mutex_);
  const auto add = [&](const std::string& name) {
    if (name != folder && name != "." && FolderOf(name) == folder) names->push_back(name.substr(name.rfind('/') + 1));
  };
  for (const auto& [name, file] : files_) add(name);
  for (const std::string& name : folders_) add(name);
  std::sort(names->begin(), names->end());
  return 0;
}

}  // namespace tensorcask
