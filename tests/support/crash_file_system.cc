#include "tensorcask/tests/support/crash_file_system.h"

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tensorcask::testing {

std::string CrashOp::ToString() const {
  switch (kind) {
    case kCreate:
      return absl::StrCat("Create ", path);
    case kMakeFolder:
      return absl::StrCat("MakeFolder ", path);
    case kWrite:
      return absl::StrCat("Write ", path, " ", offset, "+", bytes.size());
    case kSync:
      return absl::StrCat("Sync ", path);
    case kFailedSync:
      return absl::StrCat("failed Sync ", path);
    case kRename:
      return absl::StrCat("Rename ", from, " -> ", path);
    case kLink:
      return absl::StrCat("Link ", from, " -> ", path);
    case kRemove:
      return absl::StrCat("Remove ", path);
    case kSyncFolder:
      return absl::StrCat("SyncFolder ", path);
    case kSettle:
      return "Settle";
  }
  return "?";
}

std::vector<CrashOp> CrashFileSystem::log() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return log_;
}

size_t CrashFileSystem::log_size() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return log_.size();
}

void CrashFileSystem::Settle() {
  std::lock_guard<std::mutex> lock(mutex_);
  Record(CrashOp::kSettle, -1, "");
}

void CrashFileSystem::FailSync(int n) {
  std::lock_guard<std::mutex> lock(mutex_);
  fail_sync_ = n;
}

void CrashFileSystem::Record(CrashOp::Kind kind, int file, const std::string& path, const std::string& from) {
  CrashOp op;
  op.kind = kind;
  op.file = file;
  op.path = path;
  op.from = from;
  log_.push_back(std::move(op));
}

IoResult CrashFileSystem::CreateFile(const std::string& path, const std::string* final_path) {
  std::lock_guard<std::mutex> lock(mutex_);
  const IoResult handle = ForwardingFileSystem::CreateFile(path, final_path);
  if (handle < 0) return handle;
  handles_[handle] = {num_files_, path, 0};
  names_[path] = num_files_;
  Record(CrashOp::kCreate, num_files_++, path);
  return handle;
}

IoResult CrashFileSystem::OpenToRead(const std::string& path) {
  std::lock_guard<std::mutex> lock(mutex_);
  const IoResult handle = now_.OpenToRead(path);
  if (handle >= 0) handles_[handle] = {names_[path], path, 0};
  return handle;
}

IoResult CrashFileSystem::Append(IoResult handle, absl::string_view bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  const IoResult written = now_.Append(handle, bytes);
  if (written <= 0) return written;
  Handle& to = handles_[handle];
  RecordWrite(to, to.size_bytes, bytes.substr(0, static_cast<size_t>(written)));
  to.size_bytes += static_cast<uint64_t>(written);
  return written;
}

IoResult CrashFileSystem::WriteAt(IoResult handle, uint64_t offset, absl::string_view bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  const IoResult written = now_.WriteAt(handle, offset, bytes);
  if (written > 0) RecordWrite(handles_[handle], offset, bytes.substr(0, static_cast<size_t>(written)));
  return written;
}

void CrashFileSystem::RecordWrite(const Handle& to, uint64_t offset, absl::string_view bytes) {
  CrashOp op;
  op.kind = CrashOp::kWrite;
  op.file = to.file;
  op.path = to.path;
  op.offset = offset;
  op.bytes = std::string(bytes);
  log_.push_back(std::move(op));
}

IoResult CrashFileSystem::Sync(IoResult handle) {
  std::lock_guard<std::mutex> lock(mutex_);
  const IoResult synced = now_.Sync(handle);
  if (synced < 0) return synced;
  const bool fails = fail_sync_ > 0 && --fail_sync_ == 0;
  const Handle& of = handles_[handle];
  Record(fails ? CrashOp::kFailedSync : CrashOp::kSync, of.file, of.path);
  return fails ? -EIO : synced;
}

IoResult CrashFileSystem::Close(IoResult handle) {
  std::lock_guard<std::mutex> lock(mutex_);
  handles_.erase(handle);
  return now_.Close(handle);
}

IoResult CrashFileSystem::Rename(const std::string& from, const std::string& to, OnExisting on_existing) {
  if (FolderOf(from) != FolderOf(to)) return -EXDEV;
  std::lock_guard<std::mutex> lock(mutex_);
  const IoResult renamed = now_.Rename(from, to, on_existing);
  if (renamed < 0 || from == to) return renamed;
  const int file = names_[from];
  names_.erase(from);
  names_[to] = file;
  Record(CrashOp::kRename, file, to, from);
  return renamed;
}

IoResult CrashFileSystem::Link(const std::string& from, const std::string& to) {
  std::lock_guard<std::mutex> lock(mutex_);
  const IoResult linked = now_.Link(from, to);
  if (linked < 0) return linked;
  names_[to] = names_[from];
  Record(CrashOp::kLink, names_[to], to, from);
  return linked;
}

IoResult CrashFileSystem::Lock(const std::string& path) {
  std::lock_guard<std::mutex> lock(mutex_);
  const IoResult handle = now_.Lock(path);
  if (handle < 0) return handle;
  if (names_.count(path) == 0) {
    names_[path] = num_files_;
    Record(CrashOp::kCreate, num_files_++, path);
  }
  handles_[handle] = {names_[path], path, 0};
  return handle;
}

IoResult CrashFileSystem::Remove(const std::string& path) {
  std::lock_guard<std::mutex> lock(mutex_);
  const IoResult removed = now_.Remove(path);
  if (removed < 0) return removed;
  Record(CrashOp::kRemove, names_[path], path);
  names_.erase(path);
  return removed;
}

IoResult CrashFileSystem::LockShared(const std::string& path) {
  std::lock_guard<std::mutex> lock(mutex_);
  const IoResult handle = now_.LockShared(path);
  if (handle >= 0) handles_[handle] = {names_[path], path, 0};
  return handle;
}

IoResult CrashFileSystem::RemoveUnlocked(const std::string& path) {
  std::lock_guard<std::mutex> lock(mutex_);
  const IoResult removed = now_.RemoveUnlocked(path);
  if (removed < 0) return removed;
  Record(CrashOp::kRemove, names_[path], path);
  names_.erase(path);
  return removed;
}

IoResult CrashFileSystem::MakeFolder(const std::string& path) {
  std::lock_guard<std::mutex> lock(mutex_);
  const IoResult made = now_.MakeFolder(path);
  if (made >= 0) Record(CrashOp::kMakeFolder, -1, path);
  return made;
}

IoResult CrashFileSystem::SyncFolder(const std::string& path) {
  std::lock_guard<std::mutex> lock(mutex_);
  const IoResult synced = now_.SyncFolder(path);
  if (synced >= 0) Record(CrashOp::kSyncFolder, -1, path);
  return synced;
}

}  // namespace tensorcask::testing
