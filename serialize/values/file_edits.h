// Changes to the names and the metadata that a file of tensors stores, and what came of them. Each format applies them
// in its own room; serialize/archive/edit.h is the door.
//
//   FileEdits edits;
//   edits.renames["w"] = "encoder/w";
//   edits.set_metadata["license"] = "MIT";
//   CASK_ASSIGN_OR_RETURN(const FileEditResult result, safetensors.Edit("m.safetensors", edits, {}));

#ifndef TENSORCASK_SERIALIZE_VALUES_FILE_EDITS_H_
#define TENSORCASK_SERIALIZE_VALUES_FILE_EDITS_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/serialize/io/file_system.h"

namespace tensorcask {

struct FileEdits {
  std::map<std::string, std::string> renames;       // from the name of a tensor to its new name, which differs
  std::set<std::string> removed;                    // names of tensors
  std::map<std::string, std::string> set_metadata;  // entries of the file's metadata to add or replace
  std::set<std::string> unset_metadata;             // keys of the file's metadata

  bool empty() const { return renames.empty() && removed.empty() && set_metadata.empty() && unset_metadata.empty(); }
};

struct FileEditOptions {
  FileSystem* file_system = FileSystem::Posix();
  std::string output;    // the path of the result, which must not exist; "": the result replaces the file
  bool dry_run = false;  // check everything and write nothing
  bool sync = true;      // durable when the function returns
  bool lenient = false;  // ArchiveReaderOptions::lenient; what it accepts is in FileEditResult::notes
  DecodeLimits limits;
  // Called between pieces of at most 64 MiB with the bytes copied so far. False ends the edit with Cancelled, and
  // nothing has changed. Null: no calls.
  std::function<bool(uint64_t bytes)> progress;
};

struct FileEditResult {
  std::vector<std::string> files;  // those that were written, or would be
  // For a model in several files: replaced[i] is the old file that files[i] replaces. Otherwise empty.
  std::vector<std::string> replaced;
  std::vector<std::string> removed_files;  // old files that were removed, or would be
  uint64_t written_bytes = 0;              // headers, directories, indexes
  uint64_t copied_bytes = 0;               // elements, from an old file to a new one
  uint64_t unused_bytes = 0;               // the bytes of removed tensors, which stay in data files
  std::vector<std::string> notes;          // sentences on what a user might not expect
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_VALUES_FILE_EDITS_H_
