// Replaces the list of tensors in the index of a model in several files, and keeps all other bytes of the index.

#ifndef TENSORCASK_SERIALIZE_SAFETENSORS_INTERNAL_INDEX_REWRITE_H_
#define TENSORCASK_SERIALIZE_SAFETENSORS_INTERNAL_INDEX_REWRITE_H_

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tensorcask::safetensors {

// `files` has the file of each tensor. Requires: ParseModelIndex accepts `text`. Errors: Unimplemented if the key
// "weight_map" is written with escapes.
absl::StatusOr<std::string> ReplaceWeightMap(absl::string_view text, const std::map<std::string, std::string>& files);

}  // namespace tensorcask::safetensors

#endif  // TENSORCASK_SERIALIZE_SAFETENSORS_INTERNAL_INDEX_REWRITE_H_
