// The index of a model in several files: model.safetensors.index.json (FORMAT.md section 6). Bytes to a struct; no
// files.

#ifndef TENSORCASK_SERIALIZE_SAFETENSORS_MODEL_INDEX_H_
#define TENSORCASK_SERIALIZE_SAFETENSORS_MODEL_INDEX_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/serialize/safetensors/internal/json_header.h"

namespace tensorcask::safetensors {

struct ModelIndex {
  std::map<std::string, std::string> files;     // by tensor: a name in the folder of the index
  std::map<std::string, std::string> metadata;  // entries that are strings
  std::optional<uint64_t> total_size;           // bytes of all tensors
  std::vector<std::string> notes;
};

// Whether `name` is the name of a file in the same folder: not empty, no '/', no '\\', no NUL byte, not "." or "..",
// and at most 255 bytes.
bool IsPlainFileName(absl::string_view name);

// Errors, which do not name the file: DataLoss, also for a file name that is not plain; ResourceExhausted.
absl::StatusOr<ModelIndex> ParseModelIndex(absl::string_view text, const ParseOptions& options);
// Within these limits: for the models of other formats that have such an index.
absl::StatusOr<ModelIndex> ParseModelIndex(absl::string_view text, const DecodeLimits& limits);

}  // namespace tensorcask::safetensors

#endif  // TENSORCASK_SERIALIZE_SAFETENSORS_MODEL_INDEX_H_
