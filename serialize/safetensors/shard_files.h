// The files of models: names for the new ones of an edit (edit_files.h), which old ones it may remove, and which files
// of a folder are parts of a model.

#ifndef TENSORCASK_SERIALIZE_SAFETENSORS_SHARD_FILES_H_
#define TENSORCASK_SERIALIZE_SAFETENSORS_SHARD_FILES_H_

#include <cstddef>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/io/replaced_files.h"
#include "tensorcask/serialize/safetensors/internal/open_model.h"

namespace tensorcask::safetensors {

// "b" of "/a/b".
inline absl::string_view LastName(absl::string_view path) { return path.substr(path.rfind('/') + 1); }

// A name that is free: "model-00001-of-00002-r1.safetensors" of "model-00001-of-00002.safetensors", then "...-r2".
// Errors: AlreadyExists if 10,000 names are taken; from errno.
absl::StatusOr<std::string> NextRevision(const std::string& path, FileSystem* files);

// `count` paths "NAME-00001-of-00003.safetensors" beside `path` ("NAME.safetensors"). If one of these names is taken:
// "NAME-00001-of-00003-r1.safetensors", then "...-r2", so that no file that exists gets another content.
// Errors: AlreadyExists if 10,000 revisions are taken; from errno.
absl::StatusOr<std::vector<std::string>> FreeShardPaths(const std::string& path, size_t count, FileSystem* files);

// What is written over the model NAME.safetensors.
enum class NewModel {
  kOneFile,     // NAME.safetensors
  kFiles,       // an index and its files, in place of NAME.safetensors, too
  kOnlyByIndex  // an index and its files; the caller named the index
};
// What the new model at `path` ("NAME.safetensors") replaces: NAME.safetensors, its index, and the files of the folder
// that the index lists. Of these stay: NAME.safetensors with kOnlyByIndex; files that another index of the folder
// lists; files that are not called *.safetensors. Notes say so.
// Errors: FailedPrecondition if the file is not the index of a model, so that what it lists is unknown, and would have
// to be removed (kOneFile); those of HasFileAt.
absl::StatusOr<ReplacedFiles> FindReplacedModel(const std::string& path, NewModel kind, FileSystem* files);

// OK if there is neither a file `path` ("NAME.safetensors") nor its index, which readers would take for another model
// of that name. Errors: AlreadyExists; from errno, if the file system cannot say.
absl::Status CheckNoModel(const std::string& path, FileSystem* files);

// The names of the files that the index at `index_path` lists; empty if it cannot be read. Reads 100 MB of it at most.
std::set<std::string> FilesOfModel(const std::string& index_path, FileSystem* files);

// Whether `name` is that of an index: "model.safetensors.index.json", "model.safetensors.index.fp16.json".
bool IsIndexName(absl::string_view name);

// Whether `name` is that of a shard: "model-00001-of-00003.safetensors", "model-00001-of-00003-r2.safetensors".
bool IsShardName(absl::string_view name);

// The files that other indexes of a folder need.
class OtherIndexes {
 public:
  // Reads each index in the folder of `index_path` once, except that one.
  OtherIndexes(const std::string& index_path, const OpenOptions& open);

  // Why the file `name` of this folder must stay when the index no longer lists it: another one lists it, or there is
  // one that cannot be read. Empty: it may be removed.
  std::string WhyNeeded(absl::string_view name) const;

 private:
  std::map<std::string, std::string, std::less<>> index_of_;  // by the name of a file
  std::string unknown_;                                       // why it is not known what others list; empty if it is
};

}  // namespace tensorcask::safetensors

#endif  // TENSORCASK_SERIALIZE_SAFETENSORS_SHARD_FILES_H_
