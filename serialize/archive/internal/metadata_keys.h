// Errors of edits and conversions that change the metadata of a file.

#ifndef TENSORCASK_SERIALIZE_ARCHIVE_INTERNAL_METADATA_KEYS_H_
#define TENSORCASK_SERIALIZE_ARCHIVE_INTERNAL_METADATA_KEYS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace tensorcask::archive {

// NotFound: there is no entry `key` to remove, but those of `keys`. `where` names the files.
absl::Status NoSuchMetadata(absl::string_view where, absl::string_view key, const std::vector<absl::string_view>& keys);

absl::Status SetAndUnset(absl::string_view key);  // InvalidArgument: both are asked for

// `"author", "license"`, and "..." for more than eight.
std::string ListedKeys(const std::vector<absl::string_view>& keys);

}  // namespace tensorcask::archive

#endif  // TENSORCASK_SERIALIZE_ARCHIVE_INTERNAL_METADATA_KEYS_H_
