// What killed writers left in a folder of an object store, for `tensorcask clean`.
//
//   CASK_ASSIGN_OR_RETURN(const std::vector<StoreLeftover> found, FindStoreLeftovers("s3://bucket/run/"));
//   CASK_RETURN_IF_ERROR(RemoveStoreLeftover(found[0]));
//
// A store has no locks that would tell whether a writer lives, so only the age of a leftover speaks for its writer.

#ifndef TENSORCASK_TOOLS_STORE_LEFTOVERS_H_
#define TENSORCASK_TOOLS_STORE_LEFTOVERS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tensorcask/serialize/io/file_system.h"

namespace tensorcask::tools {

struct StoreLeftover {
  std::string path;       // of an upload: the name that the file would get
  std::string upload_id;  // "": a data file of a checkpoint whose index does not exist
  FileInfo file;          // of such a data file; stores do not tell the size of an upload
  absl::Time since;       // when the upload began, or the data file was published; InfiniteFuture: unknown
};

// Those of the folder `folder` ("s3://bucket/run/"), not of folders inside, by name. Requires: ToolStore().
// Errors: Unimplemented for a web server; those of ObjectStore::ListUploads and of FileSystem::List.
absl::StatusOr<std::vector<StoreLeftover>> FindStoreLeftovers(const std::string& folder);

// Errors: FailedPrecondition, and nothing is removed, if the index of a data file exists now, or the data file is
// another one; those of ObjectStore::RemoveUpload and FileSystem::Remove.
absl::Status RemoveStoreLeftover(const StoreLeftover& leftover);

}  // namespace tensorcask::tools

#endif  // TENSORCASK_TOOLS_STORE_LEFTOVERS_H_
