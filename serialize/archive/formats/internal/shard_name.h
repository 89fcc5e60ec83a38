// What the name of a file says beside its content.
//
//   for (std::string& note : NotesOfName("model-00001-of-00003.safetensors")) notes.push_back(std::move(note));
//   // "is file 1 of 3 of a model, which is usually opened by model.safetensors.index.json"

#ifndef TENSORCASK_SERIALIZE_ARCHIVE_FORMATS_INTERNAL_SHARD_NAME_H_
#define TENSORCASK_SERIALIZE_ARCHIVE_FORMATS_INTERNAL_SHARD_NAME_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace tensorcask::archive {

// "model-00001-of-00003.safetensors": 1 and 3, "model" and ".safetensors". nullopt for other names, and where there is
// one file.
struct FileNumber {
  int number;  // from 1 on
  int count;
  absl::string_view before;
  absl::string_view after;
};
std::optional<FileNumber> NumberInName(absl::string_view name);

// The note that the file is one of several of a model; none for other names, and where there is one file. The name of
// the index is the usual one: no file is looked for.
std::vector<std::string> NotesOfName(absl::string_view path);

}  // namespace tensorcask::archive

#endif  // TENSORCASK_SERIALIZE_ARCHIVE_FORMATS_INTERNAL_SHARD_NAME_H_
