// Replaces the list of tensors, and their number of bytes, in the index of a model in several files, and keeps all
// other bytes of the index.

#ifndef TENSORCASK_SERIALIZE_SAFETENSORS_INTERNAL_INDEX_REWRITE_H_
#define TENSORCASK_SERIALIZE_SAFETENSORS_INTERNAL_INDEX_REWRITE_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tensorcask::safetensors {

// `files` has the file of each tensor. Requires: ParseModelIndex accepts `text`. Errors: Unimplemented if the key
// "weight_map" is written with escapes.
absl::StatusOr<std::string> ReplaceWeightMap(absl::string_view text, const std::map<std::string, std::string>& files);

// Sets "total_size" of the object "metadata". Requires: as above, with ModelIndex::total_size. Errors: Unimplemented if
// one of the keys is written with escapes.
absl::StatusOr<std::string> ReplaceTotalSize(absl::string_view text, uint64_t total_size);
// Takes `removed` from "total_parameters" of the object "metadata", if it has this number.
std::string ReduceTotalParameters(absl::string_view text, uint64_t removed);

}  // namespace tensorcask::safetensors

#endif  // TENSORCASK_SERIALIZE_SAFETENSORS_INTERNAL_INDEX_REWRITE_H_
