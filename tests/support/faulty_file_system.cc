#include "tensorcask/tests/support/faulty_file_system.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tensorcask::testing {
namespace {

bool GivesBack(FileOperation operation) {
  return operation == FileOperation::kClose || operation == FileOperation::kUnmap;
}

// After an interrupted close the handle is gone, and munmap and rename are not interrupted.
bool MayBeInterrupted(FileOperation operation) {
  return !GivesBack(operation) && operation != FileOperation::kRename && operation != FileOperation::kLink;
}

bool GivesHandle(FileOperation operation) {
  return operation == FileOperation::kOpenToRead || operation == FileOperation::kCreateNew ||
         operation == FileOperation::kLock || operation == FileOperation::kLockShared;
}

}  // namespace

absl::string_view FileOperationName(FileOperation operation) {
  switch (operation) {
    case FileOperation::kOpenToRead:
      return "OpenToRead";
    case FileOperation::kCreateNew:
      return "CreateNew";
    case FileOperation::kReadAt:
      return "ReadAt";
    case FileOperation::kAppend:
      return "Append";
    case FileOperation::kWriteAt:
      return "WriteAt";
    case FileOperation::kReserve:
      return "Reserve";
    case FileOperation::kSizeOf:
      return "SizeOf";
    case FileOperation::kSync:
      return "Sync";
    case FileOperation::kSetPublic:
      return "SetPublic";
    case FileOperation::kClose:
      return "Close";
    case FileOperation::kMap:
      return "Map";
    case FileOperation::kUnmap:
      return "Unmap";
    case FileOperation::kRename:
      return "Rename";
    case FileOperation::kLink:
      return "Link";
    case FileOperation::kLock:
      return "Lock";
    case FileOperation::kLockShared:
      return "LockShared";
    case FileOperation::kRemoveUnlocked:
      return "RemoveUnlocked";
    case FileOperation::kRemove:
      return "Remove";
    case FileOperation::kMakeFolder:
      return "MakeFolder";
    case FileOperation::kSyncFolder:
      return "SyncFolder";
    case FileOperation::kDescribe:
      return "Describe";
    case FileOperation::kList:
      return "List";
  }
  return "?";
}

void FaultyFileSystem::FailAt(int64_t n, int error, Duration duration, std::optional<FileOperation> only) {
  std::lock_guard<std::mutex> lock(mutex_);
  fail_at_ = n;
  error_ = error;
  duration_ = duration;
  only_ = only;
}

void FaultyFileSystem::FailAfterEffect(bool yes) {
  std::lock_guard<std::mutex> lock(mutex_);
  after_effect_ = yes;
}

void FaultyFileSystem::LimitTransfers(size_t bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  max_transfer_bytes_ = bytes;
}

void FaultyFileSystem::InterruptEach(int times) {
  std::lock_guard<std::mutex> lock(mutex_);
  interrupts_ = times;
}

void FaultyFileSystem::SetHook(Hook hook) {
  std::lock_guard<std::mutex> lock(mutex_);
  hook_ = std::move(hook);
}

void FaultyFileSystem::KeepLog(bool yes) {
  std::lock_guard<std::mutex> lock(mutex_);
  keep_log_ = yes;
}

int64_t FaultyFileSystem::operations() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return operations_;
}

int64_t FaultyFileSystem::operations(FileOperation operation) const {
  std::lock_guard<std::mutex> lock(mutex_);
  return by_kind_[static_cast<size_t>(operation)];
}

int64_t FaultyFileSystem::faults() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return faults_;
}

size_t FaultyFileSystem::open_handles() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return handles_.size() + mappings_.size();
}

uint64_t FaultyFileSystem::bytes_read() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return bytes_read_;
}

uint64_t FaultyFileSystem::bytes_written() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return bytes_written_;
}

std::vector<FaultyFileSystem::Record> FaultyFileSystem::log() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return log_;
}

std::string FaultyFileSystem::LogText() const {
  std::string text;
  for (const Record& record : log()) {
    absl::StrAppend(&text, FileOperationName(record.operation), " ", record.path);
    if (record.result < 0) absl::StrAppend(&text, " = ", record.result, record.injected ? " (injected)" : "");
    text += '\n';
  }
  return text;
}

IoResult FaultyFileSystem::Perform(FileOperation operation, const std::string& path,
                                   const std::function<IoResult()>& carry_out) {
  Record record{operation, path};
  bool interrupted = false;
  bool do_it = true;
  int error = 0;
  {
    std::unique_lock<std::mutex> lock(mutex_);
    const int64_t n = ++operations_;
    const int64_t n_of_kind = ++by_kind_[static_cast<size_t>(operation)];
    if (hook_) {
      const Hook hook = hook_;
      lock.unlock();
      hook(n, operation, path);
      lock.lock();
    }
    const int64_t number = only_.has_value() ? n_of_kind : n;
    const bool numbered = !only_.has_value() || *only_ == operation;
    if (fail_at_ > 0 && numbered && (number == fail_at_ || (duration_ == kForEver && number > fail_at_))) {
      ++faults_;
      error = error_;
      record.injected = true;
      do_it = after_effect_ || GivesBack(operation);
    } else if (interrupts_given_ < interrupts_ && MayBeInterrupted(operation)) {
      ++interrupts_given_;
      interrupted = true;
      record.injected = true;
      do_it = false;
    } else {
      interrupts_given_ = 0;
    }
  }
  record.result = do_it ? carry_out() : 0;
  if (record.injected) {
    // A handle or mapping that the caller never hears of would leak through no fault of his.
    if (do_it && record.result >= 0 && GivesHandle(operation)) behind_->Close(record.result);
    record.result = -(interrupted ? EINTR : error);
  }
  const IoResult result = record.result;
  std::lock_guard<std::mutex> lock(mutex_);
  if (result >= 0) {
    if (GivesHandle(operation)) handles_[result] = path;
    if (operation == FileOperation::kReadAt) bytes_read_ += static_cast<uint64_t>(result);
    const bool writes = operation == FileOperation::kAppend || operation == FileOperation::kWriteAt;
    if (writes) bytes_written_ += static_cast<uint64_t>(result);
  }
  if (keep_log_) log_.push_back(std::move(record));
  return result;
}

std::string FaultyFileSystem::PathOf(IoResult handle) const {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto it = handles_.find(handle);
  return it != handles_.end() ? it->second : absl::StrCat("handle ", handle);
}

size_t FaultyFileSystem::max_transfer_bytes() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return max_transfer_bytes_;
}

IoResult FaultyFileSystem::OpenToRead(const std::string& path) {
  return Perform(FileOperation::kOpenToRead, path, [&] { return behind_->OpenToRead(path); });
}

IoResult FaultyFileSystem::CreateNew(const std::string& path) {
  return Perform(FileOperation::kCreateNew, path, [&] { return behind_->CreateNew(path); });
}

IoResult FaultyFileSystem::CreateToPublish(const std::string& path, const std::string& final_path) {
  return Perform(FileOperation::kCreateNew, path, [&] { return behind_->CreateToPublish(path, final_path); });
}

IoResult FaultyFileSystem::ReadAt(IoResult handle, uint64_t offset, absl::Span<char> out) {
  return Perform(FileOperation::kReadAt, PathOf(handle),
                 [&] { return behind_->ReadAt(handle, offset, out.subspan(0, max_transfer_bytes())); });
}

IoResult FaultyFileSystem::Append(IoResult handle, absl::string_view bytes) {
  return Perform(FileOperation::kAppend, PathOf(handle),
                 [&] { return behind_->Append(handle, bytes.substr(0, max_transfer_bytes())); });
}

IoResult FaultyFileSystem::WriteAt(IoResult handle, uint64_t offset, absl::string_view bytes) {
  return Perform(FileOperation::kWriteAt, PathOf(handle),
                 [&] { return behind_->WriteAt(handle, offset, bytes.substr(0, max_transfer_bytes())); });
}

IoResult FaultyFileSystem::Reserve(IoResult handle, uint64_t size_bytes) {
  return Perform(FileOperation::kReserve, PathOf(handle), [&] { return behind_->Reserve(handle, size_bytes); });
}

IoResult FaultyFileSystem::SizeOf(IoResult handle) {
  return Perform(FileOperation::kSizeOf, PathOf(handle), [&] { return behind_->SizeOf(handle); });
}

IoResult FaultyFileSystem::Sync(IoResult handle) {
  return Perform(FileOperation::kSync, PathOf(handle), [&] { return behind_->Sync(handle); });
}

IoResult FaultyFileSystem::SetPublic(IoResult handle) {
  return Perform(FileOperation::kSetPublic, PathOf(handle), [&] { return behind_->SetPublic(handle); });
}

IoResult FaultyFileSystem::Close(IoResult handle) {
  return Perform(FileOperation::kClose, PathOf(handle), [&] {
    {
      // Before the handle is really closed: its number may be another thread's the moment after.
      std::lock_guard<std::mutex> lock(mutex_);
      handles_.erase(handle);
    }
    return behind_->Close(handle);
  });
}

IoResult FaultyFileSystem::Map(IoResult handle, uint64_t offset, size_t size_bytes, const char** data) {
  const std::string path = PathOf(handle);
  const char* mapped = nullptr;
  const IoResult result =
      Perform(FileOperation::kMap, path, [&] { return behind_->Map(handle, offset, size_bytes, &mapped); });
  if (result >= 0) {
    std::lock_guard<std::mutex> lock(mutex_);
    mappings_[mapped] = path;
    *data = mapped;
  } else if (mapped != nullptr) {
    behind_->Unmap(mapped, size_bytes);  // done, and reported as failed: the caller cannot give it back
  }
  return result;
}

IoResult FaultyFileSystem::Unmap(const char* data, size_t size_bytes) {
  std::string path = "?";
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto it = mappings_.find(data);
    if (it != mappings_.end()) {
      path = it->second;
      mappings_.erase(it);
    }
  }
  return Perform(FileOperation::kUnmap, path, [&] { return behind_->Unmap(data, size_bytes); });
}

IoResult FaultyFileSystem::Rename(const std::string& from, const std::string& to, OnExisting on_existing) {
  return Perform(FileOperation::kRename, absl::StrCat(from, " -> ", to),
                 [&] { return behind_->Rename(from, to, on_existing); });
}

IoResult FaultyFileSystem::Link(const std::string& from, const std::string& to) {
  return Perform(FileOperation::kLink, absl::StrCat(from, " -> ", to), [&] { return behind_->Link(from, to); });
}

IoResult FaultyFileSystem::Lock(const std::string& path) {
  return Perform(FileOperation::kLock, path, [&] { return behind_->Lock(path); });
}

IoResult FaultyFileSystem::LockShared(const std::string& path) {
  return Perform(FileOperation::kLockShared, path, [&] { return behind_->LockShared(path); });
}

IoResult FaultyFileSystem::RemoveUnlocked(const std::string& path) {
  return Perform(FileOperation::kRemoveUnlocked, path, [&] { return behind_->RemoveUnlocked(path); });
}

IoResult FaultyFileSystem::Remove(const std::string& path) {
  return Perform(FileOperation::kRemove, path, [&] { return behind_->Remove(path); });
}

IoResult FaultyFileSystem::MakeFolder(const std::string& path) {
  return Perform(FileOperation::kMakeFolder, path, [&] { return behind_->MakeFolder(path); });
}

IoResult FaultyFileSystem::SyncFolder(const std::string& path) {
  return Perform(FileOperation::kSyncFolder, path, [&] { return behind_->SyncFolder(path); });
}

IoResult FaultyFileSystem::Describe(const std::string& path, FileInfo* info) {
  return Perform(FileOperation::kDescribe, path, [&] { return behind_->Describe(path, info); });
}

IoResult FaultyFileSystem::List(const std::string& path, std::vector<std::string>* names) {
  return Perform(FileOperation::kList, path, [&] { return behind_->List(path, names); });
}

}  // namespace tensorcask::testing
