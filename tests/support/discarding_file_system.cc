#include "tensorcask/tests/support/discarding_file_system.h"

#include <algorithm>
#include <cerrno>

namespace tensorcask::testing {

std::optional<uint64_t> DiscardingFileSystem::SizeOfFile(const std::string& path) const {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto it = files_.find(path);
  return it != files_.end() ? std::optional<uint64_t>(*it->second) : std::nullopt;
}

std::vector<std::string> DiscardingFileSystem::Paths() const {
  std::lock_guard<std::mutex> lock(mutex_);
  std::vector<std::string> paths;
  for (const auto& [path, size] : files_) paths.push_back(path);
  return paths;
}

uint64_t DiscardingFileSystem::bytes_written() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return bytes_written_;
}

size_t DiscardingFileSystem::open_handles() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return handles_.size();
}

IoResult DiscardingFileSystem::OpenToRead(const std::string& path) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto it = files_.find(path);
  if (it == files_.end()) return -ENOENT;
  handles_[next_handle_] = {it->second, 0};
  return next_handle_++;
}

IoResult DiscardingFileSystem::CreateNew(const std::string& path) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto [it, is_new] = files_.try_emplace(path, std::make_shared<uint64_t>(0));
  if (!is_new) return -EEXIST;
  handles_[next_handle_] = {it->second, 0};
  return next_handle_++;
}

IoResult DiscardingFileSystem::ReadAt(IoResult, uint64_t, absl::Span<char>) { return -EOPNOTSUPP; }

IoResult DiscardingFileSystem::Append(IoResult handle, absl::string_view bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto it = handles_.find(handle);
  if (it == handles_.end()) return -EBADF;
  it->second.position += bytes.size();
  *it->second.size = std::max(*it->second.size, it->second.position);
  bytes_written_ += bytes.size();
  return static_cast<IoResult>(bytes.size());
}

IoResult DiscardingFileSystem::WriteAt(IoResult handle, uint64_t offset, absl::string_view bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto it = handles_.find(handle);
  if (it == handles_.end()) return -EBADF;
  *it->second.size = std::max(*it->second.size, offset + bytes.size());
  bytes_written_ += bytes.size();
  return static_cast<IoResult>(bytes.size());
}

IoResult DiscardingFileSystem::Reserve(IoResult, uint64_t) { return -EOPNOTSUPP; }

IoResult DiscardingFileSystem::SizeOf(IoResult handle) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto it = handles_.find(handle);
  return it != handles_.end() ? static_cast<IoResult>(*it->second.size) : -EBADF;
}

IoResult DiscardingFileSystem::Sync(IoResult handle) {
  std::lock_guard<std::mutex> lock(mutex_);
  return handles_.count(handle) != 0 ? 0 : -EBADF;
}

IoResult DiscardingFileSystem::SetPublic(IoResult handle) { return Sync(handle); }

IoResult DiscardingFileSystem::Close(IoResult handle) {
  std::lock_guard<std::mutex> lock(mutex_);
  return handles_.erase(handle) != 0 ? 0 : -EBADF;
}

IoResult DiscardingFileSystem::Map(IoResult, uint64_t, size_t, const char**) { return -EOPNOTSUPP; }

IoResult DiscardingFileSystem::Unmap(const char*, size_t) { return -EINVAL; }

IoResult DiscardingFileSystem::Rename(const std::string& from, const std::string& to, OnExisting on_existing) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto it = files_.find(from);
  if (it == files_.end()) return -ENOENT;
  if (on_existing == OnExisting::kRefuse && files_.count(to) != 0) return -EEXIST;
  if (from == to) return 0;
  files_[to] = it->second;
  files_.erase(from);
  return 0;
}

IoResult DiscardingFileSystem::Link(const std::string& from, const std::string& to) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto it = files_.find(from);
  if (it == files_.end()) return -ENOENT;
  return files_.emplace(to, it->second).second ? 0 : -EEXIST;
}

IoResult DiscardingFileSystem::Lock(const std::string& path) {
  std::lock_guard<std::mutex> lock(mutex_);
  Size& size = files_[path];
  if (size == nullptr) size = std::make_shared<uint64_t>(0);
  handles_[next_handle_] = {size, 0};
  return next_handle_++;
}

IoResult DiscardingFileSystem::Remove(const std::string& path) {
  std::lock_guard<std::mutex> lock(mutex_);
  return files_.erase(path) != 0 ? 0 : -ENOENT;
}

IoResult DiscardingFileSystem::MakeFolder(const std::string&) { return 0; }

IoResult DiscardingFileSystem::SyncFolder(const std::string&) { return 0; }

IoResult DiscardingFileSystem::Describe(const std::string& path, FileInfo* info) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto it = files_.find(path);
  if (it == files_.end()) return -ENOENT;
  *info = FileInfo();
  info->size_bytes = *it->second;
  return 0;
}

IoResult DiscardingFileSystem::List(const std::string& path, std::vector<std::string>* names) {
  std::lock_guard<std::mutex> lock(mutex_);
  names->clear();
  const std::string folder = path.empty() || path.back() == '/' ? path : path + '/';
  for (const auto& [file, size] : files_) {
    const std::string& name = file;
    if (name.compare(0, folder.size(), folder) == 0 && name.find('/', folder.size()) == std::string::npos) {
      names->push_back(name.substr(folder.size()));
    }
  }
  return 0;
}

}  // namespace tensorcask::testing
