// What the programs that write a distributed checkpoint as files of safetensors say in the metadata of each file, under
// DCP_SHARDING_INFO: of which part of a tensor it has the elements.
//
//   {"model.w": {"saved_offsets": [4, 0]}}      // model.w in this file is the box that begins at [4,0]

#ifndef TENSORCASK_SERIALIZE_SAFETENSORS_SHARDING_INFO_H_
#define TENSORCASK_SERIALIZE_SAFETENSORS_SHARDING_INFO_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/decode_limits.h"

namespace tensorcask::safetensors {

// The entry of the metadata.
inline constexpr absl::string_view kShardingInfoKey = "DCP_SHARDING_INFO";

// From names of tensors to the first element of the part. Other keys of a tensor are ignored.
using ShardingInfo = std::map<std::string, std::vector<int64_t>>;

// Errors, which do not name the file: DataLoss; ResourceExhausted past a limit.
absl::StatusOr<ShardingInfo> ParseShardingInfo(absl::string_view text, const DecodeLimits& limits);

}  // namespace tensorcask::safetensors

#endif  // TENSORCASK_SERIALIZE_SAFETENSORS_SHARDING_INFO_H_
