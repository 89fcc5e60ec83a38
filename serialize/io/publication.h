// Files that appear whole or not at all.
//
//   Publication publish({.sync = true});
//   CASK_ASSIGN_OR_RETURN(FileSink* data, publish.Add("model.data-00000-of-00001"));
//   CASK_ASSIGN_OR_RETURN(FileSink* index, publish.Add("model.index"));
//   ... append ...
//   CASK_RETURN_IF_ERROR(publish.Commit());   // model.index is there only if all of model.data-* is
//
// Each file is written under a temporary name in the folder of its final name (NAME.tmp- and 16 hex digits, created
// exclusively; the file system is told the final name, FileSystem::CreateToPublish). AddExisting gives such a temporary
// name to an existing file, so that it appears together with the others. Of more than kMaxLinkedAhead existing files,
// the others get it in Commit, one at a time: each name is locked, and a lock takes a file descriptor. Commit closes
// and (with sync) syncs all of them, then gives each its final name in the order of Add. Commit syncs the folders of
// all other files before it renames the file that was added last, and the folder of that file afterwards. The file that
// was added last is the switch: only when it exists are the others in use.
//
// Destroyed without Commit, or when Commit fails, the temporaries are removed, and so are the files it had already
// published, best effort, in the reverse order. Even if that fails, the switch exists only if all other files do.
//
// A set of files is replaced by a set of files with other names. RemoveOldSwitch and RemoveAfterwards say which old
// files only the old set needs; Commit removes them last. So at any moment one of the two sets is there whole.
//
// In a child of fork(2) all this is the parent's: Add and Commit return FailedPrecondition there, and the destructor
// leaves the files.
//
// A process that was killed leaves its temporary files. Each is locked while its writer lives (stale_temporaries.h).
// The first writer of a name takes NAME.tmp-0000000000000000 and removes the file that a dead writer left there; a
// second writer at the same time takes a random number.
//
// If several writers publish the same names without `overwrite`, one wins and the others get AlreadyExists. With
// `overwrite` the caller must make sure that there is only one writer.

#ifndef TENSORCASK_SERIALIZE_IO_PUBLICATION_H_
#define TENSORCASK_SERIALIZE_IO_PUBLICATION_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tensorcask/serialize/io/byte_sink.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/tensor/base/owner_process.h"

namespace tensorcask {

struct PublishOptions {
  FileSystem* file_system = FileSystem::Posix();
  // Durable when Commit returns. Without it the order of steps is the same, and a crash of the process is survived as
  // well; a crash of the machine may leave files empty.
  bool sync = true;
  // Replace files that have the final names, each in one step. A crash leaves the old switch with all files that it
  // needs, or the new one, provided that the caller gives the other files names that the old switch does not use. If
  // Commit fails after the rename of the switch (in the last sync), the new files stay: they are whole, and the old
  // switch is gone. All new files get the permissions that the replaced files have in common (KeepPermissionsOf): a
  // private file stays private.
  bool overwrite = false;
  bool only_switch = false;   // with `overwrite`: only the switch replaces a file; the others get AlreadyExists
  bool random_names = false;  // each temporary name is random, so that no other folder has a file of this name
};

// The temporary name of the first writer of `final_path`.
std::string FirstTemporaryPath(const std::string& final_path);

class Publication {
 public:
  explicit Publication(PublishOptions options);
  ~Publication();
  Publication(const Publication&) = delete;
  Publication& operator=(const Publication&) = delete;

  // The sink of a new file that Commit will publish as `final_path`; it belongs to this object, and is gone when Commit
  // fails.
  // Errors: AlreadyExists if the final name is taken (unless overwriting) or was added before; FailedPrecondition if
  // the final name is not a regular file, or after Commit; InvalidArgument as CheckPath; from errno, naming the path.
  absl::StatusOr<FileSink*> Add(const std::string& final_path);

  // Commit will publish the file at `source_path` as `final_path` too: as a hard link, so that a later write changes
  // the file under both names, or as a copy (in bounded memory) if the file system has no hard links. With sync its
  // content is made durable, however it was written. The source keeps its name, and exists until Commit has returned.
  // Errors: those of Add; NotFound and other errors of reading, naming the source; FailedPrecondition if the source is
  // not a regular file.
  absl::Status AddExisting(const std::string& source_path, const std::string& final_path);

  // Commit gives the new files only permissions that the file at `path` grants, too, as if they replaced it: a file
  // that the caller removes afterwards, or one that is copied. If no file is there, this does nothing.
  void KeepPermissionsOf(const std::string& path);

  // Commit gives the switch its name only if the file of that name is still `old`, a file of this file system: Aborted
  // if another file is there, or none (FileSystem::RenameOver). Where the file system has no such step, Commit looks
  // first: a file that gets the name between the look and the rename is lost. No effect without options.overwrite.
  void ReplaceOnly(std::shared_ptr<const ByteSource> old) {
    if (options_.overwrite) replaced_ = std::move(old);
  }

  // Commit removes the file at `path`, which only the replaced files need, after the switch has its name: best effort,
  // since such a file only takes space. Files that Commit published stay. As KeepPermissionsOf.
  void RemoveAfterwards(const std::string& path);
  // The same for a switch of the old files that has another name than the new one: Commit removes it before the others,
  // with sync durably, and it is an error of Commit if it cannot be removed.
  void RemoveOldSwitch(const std::string& path);
  const std::vector<std::string>& removed() const { return removed_; }  // what Commit has removed of these

  // Errors: the first failure, naming the file (by its temporary name if it is not yet renamed); an error that a sink
  // reported before; AlreadyExists if a final name was taken meanwhile; FailedPrecondition if called twice.
  absl::Status Commit();

  // Removes everything written so far; nothing after Commit, or in a child of fork(2). Called by the destructor.
  void Abandon();

  // After Commit or Abandon: whether the file that was added last has its final name, or may have it. If it may, other
  // files that it needs must stay.
  bool switch_may_exist() const { return switch_may_exist_; }

  static constexpr int kMaxLinkedAhead = 128;

 private:
  struct Entry {
    std::string final_path;
    std::string temporary_path;      // "": of an existing file that gets it in Commit
    std::string source_path;         // where such a file comes from
    std::unique_ptr<FileSink> sink;  // null: of AddExisting, which does not open the file
    bool random_name = true;
    bool synced = false;     // for AddExisting: its content is durable
    IoResult lock = -1;      // a handle that locks the temporary file; -1: the sink does, or nothing does
    bool renaming = false;   // a rename was tried; it is unknown whether it took effect
    bool published = false;  // has its final name
  };

  absl::Status CheckOwner(const std::string& final_path) const;
  absl::Status CheckFinalPath(const std::string& final_path) const;
  absl::StatusOr<FileSink*> AddTemporary(const std::string& final_path, bool random_name,
                                         absl::FunctionRef<absl::Status(Entry*)> create);
  absl::Status MakeTemporary(const std::string& final_path, bool random_name,
                             absl::FunctionRef<absl::Status(Entry*)> create, Entry* made);
  absl::Status LinkExisting(const std::string& source_path, const std::string& final_path, Entry* entry);
  void MeetPermissionsOf(const std::string& path);
  absl::Status Lock(Entry* entry);
  void Unlock(Entry* entry);
  absl::Status Publish();
  absl::Status SyncExisting(const Entry& entry);
  absl::Status Rename(Entry* entry);
  absl::Status SyncFolderOf(const std::string& path);
  absl::Status RemoveOldFiles();
  IoResult Remove(const std::string& path);

  PublishOptions options_;
  std::vector<Entry> entries_;
  std::vector<std::string> kept_paths_;    // the paths given to KeepPermissionsOf
  std::vector<std::string> old_switches_;  // the paths given to RemoveOldSwitch
  std::vector<std::string> old_files_;     // the paths given to RemoveAfterwards
  std::vector<std::string> removed_;
  std::optional<FilePermissions> permissions_;  // what these have in common; none: those of a new file
  int linked_ahead_ = 0;                        // files of AddExisting that have a temporary name
  std::shared_ptr<const ByteSource> replaced_;  // the file given to ReplaceOnly
  bool done_ = false;
  bool switch_may_exist_ = false;
  const OwnerProcess owner_;
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_IO_PUBLICATION_H_
