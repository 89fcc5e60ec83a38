// The names of a checkpoint's files: PREFIX.index and PREFIX.data-SSSSS-of-NNNNN (FORMAT.md section 2).

#ifndef TENSORCASK_SERIALIZE_CHECKPOINT_FORMAT_NAMING_H_
#define TENSORCASK_SERIALIZE_CHECKPOINT_FORMAT_NAMING_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tensorcask::checkpoint {

inline constexpr int kMaxShards = 99999;  // five digits

std::string IndexPath(absl::string_view prefix);
std::string DataPath(absl::string_view prefix, int shard, int num_shards);
// The prefix of the checkpoint called `name` in the folder of the checkpoint at `prefix`.
std::string PrefixBeside(absl::string_view prefix, absl::string_view name);

// The prefix of the checkpoint at `path`, which is the prefix or the path of the index.
// Errors: InvalidArgument for a path that ends in a slash, "." or "..", or has no name, for the path of a data file,
// and as CheckPath.
absl::StatusOr<std::string> PrefixOfPath(const std::string& path);

// Errors: the same; InvalidArgument for the path of an index and for names with "%s" or "-of-", which other tools treat
// as patterns of files.
absl::Status CheckNewPrefix(const std::string& prefix);

// Errors: InvalidArgument for a name that no tensor of an index can have: "", one that begins with a NUL byte, one of
// more than 64 KiB.
absl::Status CheckTensorName(absl::string_view name);

struct DataName {
  absl::string_view prefix;
  int shard = 0;
  int num_shards = 0;
};
// The parts of the name or path of a data file. Empty if `path` is not the path of a data file.
std::optional<DataName> ParseDataName(absl::string_view path);

}  // namespace tensorcask::checkpoint

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_FORMAT_NAMING_H_
