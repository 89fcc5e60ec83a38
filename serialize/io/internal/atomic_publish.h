// Files that appear whole or not at all.
//
//   AtomicPublish publish({.sync = true});
//   CASK_ASSIGN_OR_RETURN(FileSink* data, publish.Add("model.data-00000-of-00001"));
//   CASK_ASSIGN_OR_RETURN(FileSink* index, publish.Add("model.index"));
//   ... append ...
//   CASK_RETURN_IF_ERROR(publish.Commit());   // model.index is there only if all of model.data-* is
//
// Each file is written under a temporary name in the folder of its final one (NAME.tmp-RANDOM, created exclusively).
// AddExisting gives that name to a file that is there already, so that it appears together with the others.
// Commit closes and (with sync) syncs all of them, then gives each its final name in the order of Add. The folders of
// all others are synced before the last one is renamed, and its own after that: what is added last is the switch that
// makes the rest count.
//
// Destroyed without Commit, or when Commit fails, the temporaries are removed, and so are the files it had already
// published, best effort, in the reverse order. Should even that fail, the switch stands only if everything else does.
// A process that was killed leaves files named *.tmp-* that anybody may remove.
//
// Of several writers that publish the same names without `overwrite`, one wins and the others get AlreadyExists. With
// `overwrite` nobody keeps two writers apart: that is for the caller to do.

#ifndef TENSORCASK_SERIALIZE_IO_INTERNAL_ATOMIC_PUBLISH_H_
#define TENSORCASK_SERIALIZE_IO_INTERNAL_ATOMIC_PUBLISH_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tensorcask/serialize/io/byte_sink.h"
#include "tensorcask/serialize/io/file_system.h"

namespace tensorcask {

struct PublishOptions {
  FileSystem* file_system = FileSystem::Posix();
  // Durable when Commit returns. Without it the order of steps is the same, and a crash of the process is survived as
  // well; a crash of the machine may leave files empty.
  bool sync = true;
  // Replace files that have the final names. If there are several, the last added, the switch, is then removed first
  // (and its folder synced), so that it never stands beside new files it does not belong to: a crash leaves the old
  // set, the new one, or no switch. A single file is simply replaced: a crash leaves the old one or the new one. When
  // Commit fails after the switch has its name (the last sync), the new files stay: the old ones are gone, and these
  // are whole.
  bool overwrite = false;
};

class AtomicPublish {
 public:
  explicit AtomicPublish(PublishOptions options);
  ~AtomicPublish();
  AtomicPublish(const AtomicPublish&) = delete;
  AtomicPublish& operator=(const AtomicPublish&) = delete;

  // The sink of a new file that Commit will publish as `final_path`; it belongs to this object, and is gone when Commit
  // fails. Errors: AlreadyExists if the final name is taken (unless overwriting) or was added before;
  // FailedPrecondition if there is something else than a regular file, or after Commit; InvalidArgument as CheckPath;
  // from errno, naming the path.
  absl::StatusOr<FileSink*> Add(const std::string& final_path);

  // Commit will publish the file at `source_path` as `final_path` too: as a second name of the same file, so that who
  // writes to it later writes to both, or as a copy (in bounded memory) where the file system has no second names. With
  // sync its content is made durable, however it was written. The source keeps its name.
  // Errors: as Add; NotFound, and whatever keeps it from being read, naming the source; FailedPrecondition if that is
  // no regular file.
  absl::Status AddExisting(const std::string& source_path, const std::string& final_path);

  // Errors: what failed first, naming the file, by its temporary name while it has that; what a sink had reported
  // before; AlreadyExists if somebody took a final name meanwhile; FailedPrecondition if called twice.
  absl::Status Commit();

  // Removes everything written so far; nothing after Commit. Called by the destructor.
  void Abandon();

 private:
  struct Entry {
    std::string final_path;
    std::string temporary_path;
    std::unique_ptr<FileSink> sink;  // null: of AddExisting, and nobody has it open
    bool renaming = false;           // was tried, and the answer leaves open whether it was done
    bool published = false;          // has its final name
  };

  absl::Status CheckFinalPath(const std::string& final_path) const;
  absl::StatusOr<FileSink*> AddTemporary(const std::string& final_path, absl::FunctionRef<absl::Status(Entry*)> create);
  absl::Status Publish();
  absl::Status SyncExisting(const Entry& entry);
  absl::Status Rename(Entry* entry);
  absl::Status SyncFolderOf(const Entry& entry);
  IoResult Remove(const std::string& path);

  PublishOptions options_;
  std::vector<Entry> entries_;
  bool done_ = false;
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_IO_INTERNAL_ATOMIC_PUBLISH_H_
