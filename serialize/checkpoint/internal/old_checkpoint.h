// The checkpoint that a save overwrites, from the beginning of the save to its end.
//
//   CASK_ASSIGN_OR_RETURN(OldCheckpoint old, OldCheckpoint::Open(prefix, files));
//   CASK_ASSIGN_OR_RETURN(const int num_shards, old.ChooseNumShards(2));   // 3 if the old one has 2 data files
//   ... write ...
//   CASK_RETURN_IF_ERROR(old.CheckUnchanged());
//   ... publish; remove the files that old.Replaced(num_shards) named before ...
//
// The names of the new data files must differ from those that the old index needs (FORMAT.md section 6). They are
// chosen when the save begins, so the index must be the same when the save ends.

#ifndef TENSORCASK_SERIALIZE_CHECKPOINT_INTERNAL_OLD_CHECKPOINT_H_
#define TENSORCASK_SERIALIZE_CHECKPOINT_INTERNAL_OLD_CHECKPOINT_H_

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/io/replaced_files.h"

namespace tensorcask::checkpoint {

class OldCheckpoint {
 public:
  // An index that is missing or cannot be read is not an error. Errors: from errno if the index cannot be read and the
  // folder cannot be listed.
  static absl::StatusOr<OldCheckpoint> Open(const std::string& prefix, FileSystem* file_system);

  // The smallest number of data files, `wanted` or more, with which no new data file has the name of a data file of the
  // old checkpoint: `wanted`, or `wanted` + 1 if the old one has `wanted`. If its index cannot be read, its number of
  // data files is unknown, so no name of an existing data file of the prefix is used.
  // Errors: InvalidArgument if there is no such number up to kMaxShards.
  absl::StatusOr<int> ChooseNumShards(int wanted) const;

  // Errors: Aborted if another save has replaced the index since Open; from errno. An index that was removed is no
  // error: no data file is needed then.
  absl::Status CheckUnchanged() const;

  // What a save of `num_shards` data files replaces: the index and the data files that it counts. Other files called
  // PREFIX.data-SSSSS-of-NNNNN stay, and so do all if the index cannot be read, but for those whose names the save
  // needs (FORMAT.md section 6): the notes name them. Call it before the new files have their names. Errors: those of
  // HasFileAt.
  absl::StatusOr<ReplacedFiles> Replaced(int num_shards) const;

 private:
  struct Found {
    std::shared_ptr<const ByteSource> index;  // null: there is none, or it cannot be opened
    bool is_readable = true;                  // false: there is an index, or may be one, that cannot be read
    int num_shards = 0;                       // that of a readable index; 0: there is none
    std::set<int> taken;                      // numbers of data files whose names are not used
  };

  OldCheckpoint(std::string prefix, FileSystem* file_system, Found found);
  static absl::StatusOr<Found> Look(const std::string& prefix, FileSystem* file_system);

  std::string prefix_;
  FileSystem* file_system_;
  Found found_;  // the index stays open: while it is, no other file has its FileId
};

}  // namespace tensorcask::checkpoint

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_INTERNAL_OLD_CHECKPOINT_H_
