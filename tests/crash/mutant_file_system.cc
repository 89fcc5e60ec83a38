#include "tensorcask/tests/crash/mutant_file_system.h"

#include <cerrno>
#include <utility>

#include "absl/strings/match.h"

namespace tensorcask::testing {
namespace {

constexpr char kOverwritten[] = "/ckpt.index";  // the index that scenarios overwrite

}  // namespace

MutantFileSystem::MutantFileSystem(CrashFileSystem* behind, Mutation mutation)
    : ForwardingFileSystem(behind), mutation_(std::move(mutation)) {
  const bool sync_fails = mutation_.kind == Mutation::kFailSync || mutation_.kind == Mutation::kIgnoreFailedSync ||
                          mutation_.kind == Mutation::kRetryFailedSync;
  behind->FailSync(sync_fails ? mutation_.n : 0);
}

MutantFileSystem::~MutantFileSystem() {
  if (unsynced_ >= 0) behind()->Close(unsynced_);
}

bool MutantFileSystem::done() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return done_;
}

IoResult MutantFileSystem::OpenToRead(const std::string& path) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (mutation_.kind == Mutation::kOldIndexUnseen && absl::EndsWith(path, kOverwritten)) {
    done_ = true;
    return -ENOENT;
  }
  return behind()->OpenToRead(path);
}

IoResult MutantFileSystem::CreateFile(const std::string& path, const std::string* final_path) {
  std::lock_guard<std::mutex> lock(mutex_);
  const IoResult handle = ForwardingFileSystem::CreateFile(path, final_path);
  if (handle < 0) return handle;
  paths_[handle] = path;
  const bool loses = mutation_.kind == Mutation::kFailClose || mutation_.kind == Mutation::kIgnoreFailedClose;
  if (loses && ++creates_ == mutation_.n) losing_ = handle;
  return handle;
}

IoResult MutantFileSystem::Append(IoResult handle, absl::string_view bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto whole = static_cast<IoResult>(bytes.size());
  const absl::string_view half = bytes.substr(0, (bytes.size() + 1) / 2);
  if (handle == losing_) {
    const IoResult written = behind()->Append(handle, half);
    return written < 0 ? written : whole;
  }
  const bool is_short = mutation_.kind == Mutation::kShortWrite || mutation_.kind == Mutation::kIgnoreShortWrite;
  if (is_short && ++appends_ == mutation_.n) {
    done_ = true;
    const IoResult written = behind()->Append(handle, half);
    return written < 0 || mutation_.kind == Mutation::kShortWrite ? written : whole;
  }
  return behind()->Append(handle, bytes);
}

IoResult MutantFileSystem::Sync(IoResult handle) {
  std::lock_guard<std::mutex> lock(mutex_);
  const bool is_nth = ++syncs_ == mutation_.n;
  if (is_nth && (mutation_.kind == Mutation::kDropSync || mutation_.kind == Mutation::kRenameBeforeSync)) {
    done_ = true;
    if (mutation_.kind == Mutation::kRenameBeforeSync) unsynced_ = handle;
    return 0;
  }
  const IoResult synced = behind()->Sync(handle);
  if (!is_nth || synced >= 0) return synced;
  done_ = true;
  if (mutation_.kind == Mutation::kIgnoreFailedSync) return 0;
  if (mutation_.kind == Mutation::kRetryFailedSync) return behind()->Sync(handle);
  return synced;
}

IoResult MutantFileSystem::Close(IoResult handle) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (handle == unsynced_) return 0;
  paths_.erase(handle);
  const IoResult closed = behind()->Close(handle);
  if (handle != losing_) return closed;
  losing_ = -1;
  done_ = true;
  return mutation_.kind == Mutation::kFailClose ? -EDQUOT : closed;
}

IoResult MutantFileSystem::Rename(const std::string& from, const std::string& to, OnExisting on_existing) {
  std::lock_guard<std::mutex> lock(mutex_);
  const bool is_index = absl::EndsWith(to, ".index");
  const bool waits = mutation_.kind == Mutation::kIndexFirst        ? absl::StrContains(to, ".data-")
                     : mutation_.kind == Mutation::kRemoveFirst     ? is_index
                     : mutation_.kind == Mutation::kRemoveDataFirst ? absl::EndsWith(to, kOverwritten)
                                                                    : false;
  if (waits) {
    waiting_.push_back({from, to, on_existing});
    return 0;
  }
  if (mutation_.kind == Mutation::kRemoveIndexFirst && is_index && behind()->Remove(to) == 0) done_ = true;
  const IoResult renamed = behind()->Rename(from, to, on_existing);
  if (renamed < 0) return renamed;
  if (unsynced_ >= 0 && paths_[unsynced_] == from) {
    behind()->Sync(unsynced_);
    behind()->Close(unsynced_);
    unsynced_ = -1;
  }
  if (mutation_.kind == Mutation::kIndexFirst && is_index) RenameWaiting();
  return renamed;
}

void MutantFileSystem::RenameWaiting() {
  for (const Renaming& late : waiting_) {
    done_ = true;
    behind()->Rename(late.from, late.to, late.on_existing);
  }
  waiting_.clear();
}

IoResult MutantFileSystem::Remove(const std::string& path) {
  std::lock_guard<std::mutex> lock(mutex_);
  const IoResult removed = behind()->Remove(path);
  const bool is_data = absl::StrContains(path, ".data-") && !absl::StrContains(path, ".tmp-");
  if (mutation_.kind == Mutation::kRemoveFirst && absl::EndsWith(path, ".index")) RenameWaiting();
  if (mutation_.kind == Mutation::kRemoveDataFirst && is_data) RenameWaiting();
  return removed;
}

IoResult MutantFileSystem::SyncFolder(const std::string& path) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (++folder_syncs_ == mutation_.n && mutation_.kind == Mutation::kDropFolderSync) {
    done_ = true;
    return 0;
  }
  return behind()->SyncFolder(path);
}

}  // namespace tensorcask::testing
