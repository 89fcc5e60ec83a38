#include "tensorcask/serialize/io/publication.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/files.h"
#include "tensorcask/serialize/io/internal/path_limits.h"
#include "tensorcask/serialize/io/internal/retry.h"
#include "tensorcask/tensor/base/check.h"
#include "tensorcask/tensor/base/random_bytes.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/utf8.h"

namespace tensorcask {
namespace {

using internal::kMaxNameBytes;
using internal::kMaxPathBytes;
using internal::RetryInterrupted;

constexpr size_t kSuffixBytes = 5 + 16;  // ".tmp-" and 64 random bits in hex
constexpr int kMaxTemporaryNames = 8;    // tried before we give up

uint64_t RandomBits() {
  uint64_t bits = 0;
  if (internal::FillWithRandomBytes(&bits, sizeof(bits))) return bits;
  // Collisions do no harm: an existing name is not opened, and another one is tried.
  const auto now = static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  return (now ^ (static_cast<uint64_t>(getpid()) << 40)) * 0x9e3779b97f4a7c15u;
}

// How many bytes of the file name `name` fit before the suffix, in a path whose folder part has `folder_bytes` bytes:
// not all of them for names near the system's limit. Never cuts a UTF-8 character, since some file systems refuse such
// names.
size_t StemBytes(absl::string_view name, size_t folder_bytes) {
  const size_t most = std::min(kMaxNameBytes, kMaxPathBytes - std::min(folder_bytes, kMaxPathBytes));
  return internal::Utf8Prefix(name, most - std::min(most, kSuffixBytes)).size();
}

std::string TemporaryPath(absl::string_view final_path, uint64_t number) {
  const size_t slash = final_path.rfind('/');
  const size_t folder_bytes = slash == absl::string_view::npos ? 0 : slash + 1;
  const absl::string_view name = final_path.substr(folder_bytes);
  return absl::StrCat(final_path.substr(0, folder_bytes + StemBytes(name, folder_bytes)), ".tmp-",
                      absl::Hex(number, absl::kZeroPad16));
}

// To a new file, which will get the name `final_path`.
absl::Status CopyFile(const std::string& source_path, const std::string& path, const std::string& final_path, bool sync,
                      FileSystem* files) {
  ReadOptions read;
  read.file_system = files;
  CASK_ASSIGN_OR_RETURN(const std::shared_ptr<const ByteSource> source, OpenFileSource(source_path, read));
  CASK_ASSIGN_OR_RETURN(const std::unique_ptr<FileSink> sink, FileSink::CreateToPublish(path, final_path, files));
  FilePermissions permissions;  // as a second name has them
  const IoResult known = RetryInterrupted([&] { return files->PermissionsOf(source_path, &permissions); });
  if (known >= 0) sink->KeepPermissions(permissions);
  const uint64_t size = source->size_bytes();
  sink->ReserveHint(size);
  CASK_RETURN_IF_ERROR(sink->AppendFrom(*source, 0, size));
  return sink->Close(sync);
}

absl::Status ReplacedMeanwhile(const std::string& path) {
  return absl::AbortedError(
      absl::StrCat(path, ": was replaced by another writer since it was read; this one changes nothing"));
}

}  // namespace

std::string FirstTemporaryPath(const std::string& final_path) { return TemporaryPath(final_path, 0); }

Publication::Publication(PublishOptions options) : options_(options) {}

Publication::~Publication() { Abandon(); }

absl::Status Publication::CheckOwner(const std::string& final_path) const {
  if (owner_.IsThisProcess()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(final_path, ": the parent of this process writes this file, and it alone may publish it"));
}

absl::Status Publication::CheckFinalPath(const std::string& final_path) const {
  CASK_RETURN_IF_ERROR(CheckOwner(final_path));
  if (done_) return absl::FailedPreconditionError(absl::StrCat(final_path, ": added after Commit or Abandon"));
  CASK_RETURN_IF_ERROR(CheckPath(final_path));
  if (final_path.back() == '/') {
    return absl::InvalidArgumentError(absl::StrCat(final_path, ": names a folder, a file is wanted"));
  }
  for (const Entry& entry : entries_) {
    if (entry.final_path == final_path) return absl::AlreadyExistsError(absl::StrCat(final_path, ": added twice"));
  }

  // An early check saves an hour of useless writing; only the rename decides.
  FileInfo info;
  IoResult found = RetryInterrupted([&] { return options_.file_system->Describe(final_path, &info); });
  if (found < 0 && found != -ENOENT)
    return IoError(found, final_path, "look for an existing file", options_.file_system);
  // A link that leads nowhere is a taken name.
  if (found < 0 && !options_.overwrite && options_.file_system->CheckNew(final_path) == -EEXIST) found = 0;
  if (found >= 0 && !options_.overwrite) return absl::AlreadyExistsError(absl::StrCat(final_path, ": exists already"));
  if (found >= 0 && options_.file_system->CheckNew(final_path) == -EPERM) {
    return absl::FailedPreconditionError(
        absl::StrCat(final_path, ": is a link to an open file of a process, and is not replaced"));
  }
  if (found >= 0 && info.type != FileInfo::Type::kRegular) {
    return absl::FailedPreconditionError(absl::StrCat(final_path, ": is not a regular file, and is not replaced"));
  }
  return absl::OkStatus();
}

// Adds an entry. `create` makes its temporary file, and returns AlreadyExists if the name is taken.
absl::StatusOr<FileSink*> Publication::AddTemporary(const std::string& final_path, bool random_name,
                                                    absl::FunctionRef<absl::Status(Entry*)> create) {
  CASK_RETURN_IF_ERROR(CheckFinalPath(final_path));
  if (options_.overwrite) KeepPermissionsOf(final_path);
  Entry entry;
  CASK_RETURN_IF_ERROR(MakeTemporary(final_path, random_name, create, &entry));
  entries_.push_back(std::move(entry));
  return entries_.back().sink.get();
}

absl::Status Publication::MakeTemporary(const std::string& final_path, bool random_name,
                                        absl::FunctionRef<absl::Status(Entry*)> create, Entry* made) {
  FileSystem* const files = options_.file_system;
  absl::Status status;
  for (int i = 0; i < kMaxTemporaryNames; ++i) {
    Entry entry;
    entry.final_path = final_path;
    entry.random_name = random_name || i > 0;
    entry.temporary_path = TemporaryPath(final_path, entry.random_name ? RandomBits() : 0);
    const auto remove_unlocked = [&] {
      return RetryInterrupted([&] { return files->RemoveUnlocked(entry.temporary_path); });
    };
    status = create(&entry);
    if (absl::IsAlreadyExists(status) && !entry.random_name && remove_unlocked() >= 0) status = create(&entry);
    if (status.ok()) {
      if (options_.sync && entry.sink != nullptr) entry.sink->SyncEarly();
      *made = std::move(entry);
      return absl::OkStatus();
    }
    if (!absl::IsAlreadyExists(status)) {
      // A network file system may have created the file although it reported an error. A file of a random name can only
      // be this writer's.
      entry.sink.reset();
      if (entry.random_name) {
        Remove(entry.temporary_path);
      } else {
        remove_unlocked();
      }
      break;
    }
  }
  if (!absl::IsNotFound(status)) return status;
  // The folder is missing. The name of the temporary file would only confuse.
  return NameMissingFolder(IoError(-ENOENT, final_path, "create", nullptr), final_path, files);
}

void Publication::KeepPermissionsOf(const std::string& path) {
  kept_paths_.push_back(path);
  MeetPermissionsOf(path);  // now, since the caller may remove the file before Commit
}

void Publication::MeetPermissionsOf(const std::string& path) {
  constexpr uint32_t kNobody = UINT32_MAX;  // whose permissions FileSystem::SetPermissions does not take
  constexpr uint32_t kNotGroup = 0707;
  FilePermissions found;
  if (RetryInterrupted([&] { return options_.file_system->PermissionsOf(path, &found); }) < 0) return;
  if (!permissions_.has_value()) permissions_ = found;
  permissions_->mode &= found.group == permissions_->group ? found.mode : found.mode & kNotGroup;
  if (found.user != permissions_->user) permissions_->user = kNobody;
}

absl::StatusOr<FileSink*> Publication::Add(const std::string& final_path) {
  return AddTemporary(final_path, options_.random_names, [&](Entry* entry) -> absl::Status {
    CASK_ASSIGN_OR_RETURN(entry->sink,
                          FileSink::CreateToPublish(entry->temporary_path, final_path, options_.file_system));
    return absl::OkStatus();
  });
}

absl::Status Publication::AddExisting(const std::string& source_path, const std::string& final_path) {
  FileSystem* const files = options_.file_system;
  CASK_RETURN_IF_ERROR(CheckPath(source_path));
  FileInfo info;
  const IoResult found = RetryInterrupted([&] { return files->Describe(source_path, &info); });
  if (found < 0) return IoError(found, source_path, "look for the file", files);
  if (info.type != FileInfo::Type::kRegular) {
    return absl::FailedPreconditionError(absl::StrCat(source_path, ": is not a regular file"));
  }
  if (linked_ahead_ < kMaxLinkedAhead) {
    ++linked_ahead_;
    // Random: for a moment nothing locks the file. If another process takes it for stale then, this one finds no file.
    return AddTemporary(final_path, /*random_name=*/true,
                        [&](Entry* entry) { return LinkExisting(source_path, final_path, entry); })
        .status();
  }
  CASK_RETURN_IF_ERROR(CheckFinalPath(final_path));
  if (options_.overwrite) KeepPermissionsOf(final_path);
  Entry entry;
  entry.final_path = final_path;
  entry.source_path = source_path;
  entries_.push_back(std::move(entry));
  return absl::OkStatus();
}

absl::Status Publication::LinkExisting(const std::string& source_path, const std::string& final_path, Entry* entry) {
  FileSystem* const files = options_.file_system;
  const IoResult linked = RetryInterrupted([&] { return files->Link(source_path, entry->temporary_path); });
  if (linked < 0 && linked != -EOPNOTSUPP) {
    return IoError(linked, source_path, absl::StrCat("give it the name ", entry->temporary_path), files);
  }
  if (linked < 0) {
    CASK_RETURN_IF_ERROR(CopyFile(source_path, entry->temporary_path, final_path, options_.sync, files));
    entry->synced = options_.sync;
  }
  return Lock(entry);
}

absl::Status Publication::Commit() {
  if (done_) return absl::FailedPreconditionError("Commit after Commit or Abandon");
  if (!entries_.empty()) CASK_RETURN_IF_ERROR(CheckOwner(entries_.back().final_path));
  absl::Status status = Publish();
  if (!status.ok()) Abandon();
  switch_may_exist_ |= status.ok();
  done_ = true;
  return status.ok() ? RemoveOldFiles() : status;
}

absl::Status Publication::RemoveOldFiles() {
  const auto is_new = [&](const std::string& path) {
    return std::any_of(entries_.begin(), entries_.end(), [&](const Entry& entry) { return entry.final_path == path; });
  };
  for (const std::string& path : old_switches_) {
    if (is_new(path)) continue;
    const IoResult removed = Remove(path);
    if (removed == -ENOENT) continue;
    if (removed < 0) return IoError(removed, path, "remove", options_.file_system);
    removed_.push_back(path);
    CASK_RETURN_IF_ERROR(SyncFolderOf(path));  // before the files that it needs are removed
  }
  for (const std::string& path : old_files_) {
    if (!is_new(path) && Remove(path) >= 0) removed_.push_back(path);
  }
  return absl::OkStatus();
}

void Publication::RemoveAfterwards(const std::string& path) {
  KeepPermissionsOf(path);
  old_files_.push_back(path);
}

void Publication::RemoveOldSwitch(const std::string& path) {
  KeepPermissionsOf(path);
  old_switches_.push_back(path);
}

absl::Status Publication::Publish() {
  if (entries_.empty()) return absl::OkStatus();
  for (const std::string& path : kept_paths_) MeetPermissionsOf(path);  // again: writing may have taken hours
  for (Entry& entry : entries_) {
    if (entry.temporary_path.empty()) continue;
    CASK_RETURN_IF_ERROR(Lock(&entry));  // the sink's own lock ends when the sink is closed
    if (entry.sink != nullptr && permissions_.has_value()) entry.sink->KeepPermissions(*permissions_);
    CASK_RETURN_IF_ERROR(entry.sink != nullptr ? entry.sink->Close(options_.sync) : SyncExisting(entry));
  }

  // Before the other files have their names, too: those that they replace would be gone.
  if (entries_.size() > 1 && replaced_ != nullptr && WasReplaced(*replaced_)) {
    return ReplacedMeanwhile(entries_.back().final_path);
  }
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (Entry* const late = &entries_[i]; late->temporary_path.empty()) {
      const std::string source_path = late->source_path;
      CASK_RETURN_IF_ERROR(DescribeFile(source_path, options_.file_system).status());
      const auto create = [&](Entry* entry) { return LinkExisting(source_path, entry->final_path, entry); };
      CASK_RETURN_IF_ERROR(MakeTemporary(late->final_path, /*random_name=*/true, create, late));
      CASK_RETURN_IF_ERROR(SyncExisting(*late));
    }
    CASK_RETURN_IF_ERROR(Rename(&entries_[i]));
    // Files in one folder are made durable together, but all others before the switch.
    const bool more_in_folder =
        i + 2 < entries_.size() && FolderOf(entries_[i].final_path) == FolderOf(entries_[i + 1].final_path);
    if (!more_in_folder) CASK_RETURN_IF_ERROR(SyncFolderOf(entries_[i].final_path));
  }
  return absl::OkStatus();
}

// Without a lock another process may take the file for stale. If its name is not random, that process may then create
// its own file under this name, so that going on without a lock is not safe.
absl::Status Publication::Lock(Entry* entry) {
  if (entry->lock >= 0) return absl::OkStatus();
  const IoResult lock = RetryInterrupted([&] { return options_.file_system->LockShared(entry->temporary_path); });
  entry->lock = std::max<IoResult>(lock, -1);
  if (lock >= 0 || lock == -EOPNOTSUPP || entry->random_name) return absl::OkStatus();
  return IoError(lock, entry->temporary_path, "lock", options_.file_system);
}

void Publication::Unlock(Entry* entry) {
  if (entry->lock >= 0) options_.file_system->Close(std::exchange(entry->lock, -1));
}

absl::Status Publication::Rename(Entry* entry) {
  const bool is_switch = entry == &entries_.back();
  const bool may_replace = options_.overwrite && (!options_.only_switch || is_switch);
  const auto on_existing = may_replace ? FileSystem::OnExisting::kReplace : FileSystem::OnExisting::kRefuse;
  entry->renaming = true;
  IoResult result = -EOPNOTSUPP;
  FileSystem* files_of_old = nullptr;
  IoResult old = -1;
  if (is_switch && replaced_ != nullptr && replaced_->GetFile(&files_of_old, &old)) {
    result = RetryInterrupted(
        [&] { return options_.file_system->RenameOver(entry->temporary_path, entry->final_path, old); });
  }
  if (result == -EOPNOTSUPP && files_of_old != nullptr && WasReplaced(*replaced_)) {
    entry->renaming = false;
    return ReplacedMeanwhile(entry->final_path);
  }
  const bool is_conditional = result != -EOPNOTSUPP;
  if (!is_conditional) {
    result = RetryInterrupted(
        [&] { return options_.file_system->Rename(entry->temporary_path, entry->final_path, on_existing); });
  }
  if (result >= 0) {
    entry->published = true;
    Unlock(entry);
    // If both names are names of the same file, rename leaves both (POSIX). That happens if the final name was already
    // a name of this file, from an earlier AddExisting.
    if (entry->sink == nullptr && options_.overwrite) Remove(entry->temporary_path);
    return absl::OkStatus();
  }
  // With these errors it is certain that nothing was renamed.
  if (result == -EEXIST || result == -ENOENT || (result == -ESTALE && is_conditional)) entry->renaming = false;
  return IoError(result, entry->final_path, absl::StrCat("rename ", entry->temporary_path, " to this"),
                 options_.file_system);
}

absl::Status Publication::SyncExisting(const Entry& entry) {
  if (!options_.sync || entry.synced) return absl::OkStatus();
  FileSystem* const files = options_.file_system;
  const IoResult handle = RetryInterrupted([&] { return files->OpenToRead(entry.temporary_path); });
  if (handle < 0) return IoError(handle, entry.temporary_path, "open", files);
  const IoResult synced = RetryInterrupted([&] { return files->Sync(handle); });
  files->Close(handle);  // nothing was written through it, so it has nothing to tell
  return synced < 0 ? IoError(synced, entry.temporary_path, "sync", files) : absl::OkStatus();
}

absl::Status Publication::SyncFolderOf(const std::string& path) {
  if (!options_.sync) return absl::OkStatus();
  const std::string folder = FolderOf(path);
  const IoResult result = RetryInterrupted([&] { return options_.file_system->SyncFolder(folder); });
  return result < 0 ? IoError(result, path, absl::StrCat("sync the folder ", folder), options_.file_system)
                    : absl::OkStatus();
}

void Publication::Abandon() {
  if (done_ || !owner_.IsThisProcess()) return;
  done_ = true;
  // While the switch exists, or may exist, the files that it needs are kept.
  bool keeps = false;
  for (size_t i = entries_.size(); i-- > 0;) {
    Entry& entry = entries_[i];
    entry.sink.reset();  // closes the file
    bool stands = entry.published;
    if (!entry.published && !entry.temporary_path.empty()) {
      // The rename returned an error. If the old name is gone anyway, the file was renamed and only the answer was
      // lost.
      const IoResult removed = Remove(entry.temporary_path);
      stands = entry.renaming && removed != 0;
      entry.published = stands && removed == -ENOENT;
    }
    Unlock(&entry);
    const bool is_switch = i + 1 == entries_.size();
    // All files have their names and only their durability is in doubt. With `overwrite` they are kept, because the old
    // switch is gone.
    if (is_switch && entry.published) keeps = options_.overwrite;
    if (entry.published && !keeps) stands = Remove(entry.final_path) < 0;
    if (is_switch) keeps = switch_may_exist_ = stands;
  }
}

IoResult Publication::Remove(const std::string& path) {
  return RetryInterrupted([&] { return options_.file_system->Remove(path); });
}

}  // namespace tensorcask
