// Values in the metadata of formats that keep only text beside their tensors, such as safetensors. In other formats,
// such as GGUF, a key with the name of the table is an ordinary key (ArchiveReader::has_types_of_metadata).
//
// Each value is an entry of the metadata: its path, and its text (serialize/values/value_text.h). One more entry,
// kValueTableKey, says which entries these are, because a text may look like a number. It has a line for each of them,
// sorted by name:
//
//   value int epoch                       the text 3 of the entry "epoch" is the int 3
//   value text optimizer.name             the text "adam", with its quotes, is a text
//   metadata uint32 llama.block_count     the same of a number that is metadata of its file, such as a key of GGUF
//
// A "value" is from the object that has the tensors, such as that of torch.save, and goes back there. Names have
// absl::Utf8SafeCEscape. Lines for entries that are not there are ignored, and an entry whose text is not a value of
// its type is a text: so other programs, and `tensorcask edit`, may change the metadata.

#ifndef TENSORCASK_SERIALIZE_ARCHIVE_INTERNAL_VALUE_TABLE_H_
#define TENSORCASK_SERIALIZE_ARCHIVE_INTERNAL_VALUE_TABLE_H_

#include <map>
#include <string>

#include "absl/strings/string_view.h"
#include "tensorcask/serialize/archive/archive_reader.h"
#include "tensorcask/serialize/values/value.h"

namespace tensorcask::archive {

inline constexpr char kValueTableKey[] = "tensorcask.values";

struct TypedText {
  bool is_value = false;  // false: metadata
  std::string type;       // ValueTextType
};

// By the name of the entry.
using ValueTable = std::map<std::string, TypedText>;

// The lines of the table whose entries are in `metadata` and have a text of the type.
ValueTable ReadValueTable(const FileMetadata& metadata);
// The same of the metadata of a file; nothing if it has types without a table.
ValueTable ReadValueTable(const ArchiveReader& source);
// True if `key` of the metadata of `source` is the table.
bool IsValueTable(const ArchiveReader& source, absl::string_view key);

// Adds the table to *metadata, without lines for other entries. Without lines there is no table.
void AddValueTable(const ValueTable& table, FileMetadata* metadata);

// The metadata as a map: values for the entries of its table, texts for all others, without the table itself.
ValueTree TreeOfMetadata(const FileMetadata& metadata);

}  // namespace tensorcask::archive

#endif  // TENSORCASK_SERIALIZE_ARCHIVE_INTERNAL_VALUE_TABLE_H_
