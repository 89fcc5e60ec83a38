// What a conversion does with the values that a file has beside its tensors (ArchiveReader::Values).

#ifndef TENSORCASK_SERIALIZE_ARCHIVE_INTERNAL_PLANNED_VALUES_H_
#define TENSORCASK_SERIALIZE_ARCHIVE_INTERNAL_PLANNED_VALUES_H_

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/archive/archive_format.h"
#include "tensorcask/serialize/archive/archive_reader.h"
#include "tensorcask/serialize/values/value.h"

namespace tensorcask::archive {

struct SourceValue {
  std::string name;  // its path: JoinedName, or ExactName where another value or entry of the metadata has that name
  std::shared_ptr<const ValueTree> tree;
  ValueTree::Id id = 0;
  bool is_metadata = false;  // file_metadata has it, as text

  Value value() const { return tree->value(id); }
};

struct SourceValues {
  // All values of a flat map whose values nothing shares, such as the metadata of GGUF. Of another tree there are at
  // most 65,536 and one for each 16 bytes of the tree, and fewer if it would take long to make texts of them.
  std::vector<SourceValue> values;
  uint64_t num_more = 0;       // values that are not in the list
  bool are_many = false;       // there are even more, which were not counted
  bool among_tensors = false;  // the tensors are in the tree of the values
};

// The values of `source`. Maps with entries are entered, and so are lists that cannot be one value of the target: those
// for which ArchiveFormat::HoldsValue is false or, if it keeps only text, which have no ValueText.
absl::StatusOr<SourceValues> ValuesOf(const ArchiveReader& source, const ArchiveFormat& target);

// The names of the values and of the metadata: what `unset` can name.
absl::StatusOr<std::set<std::string>> ValueNames(const ArchiveReader& source);

// "PATH: 2 values beside the tensors are not copied: "a", "b"". `names` may have only the first.
std::string ValuesNotCopied(absl::string_view path, uint64_t count, bool are_many,
                            const std::vector<std::string>& names);

// That sentence for a target without metadata; "" if there are no values.
absl::StatusOr<std::string> NoteNotCopied(const ArchiveReader& source, const ArchiveFormat& target);

}  // namespace tensorcask::archive

#endif  // TENSORCASK_SERIALIZE_ARCHIVE_INTERNAL_PLANNED_VALUES_H_
