// Visits all records of an index in the order of the file, and checks all that can be checked without reading data.
//
//   CASK_ASSIGN_OR_RETURN(WalkedIndex index, WalkIndex(prefix, files, limits, [&](key, value, entry) { ... }));

#ifndef TENSORCASK_SERIALIZE_CHECKPOINT_INDEX_WALK_H_
#define TENSORCASK_SERIALIZE_CHECKPOINT_INDEX_WALK_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/checkpoint/format/entry_decoder.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/serialize/io/file_system.h"

namespace tensorcask::checkpoint {

struct WalkedIndex {
  IndexHeader header;
  std::string header_value;                // the bytes of the header in the file
  std::map<int32_t, uint64_t> used_bytes;  // by shard that entries name: the end of the last range
};

// Checks index and entries as CheckpointReader::entries does, then calls fn(key, value, entry) for each key but that of
// the header, in order. Does not look at the data files. Errors: those of CheckpointReader::Open and entries; those of
// fn.
absl::StatusOr<WalkedIndex> WalkEntries(
    const std::string& prefix, FileSystem* files, const DecodeLimits& limits,
    absl::FunctionRef<absl::Status(absl::string_view, absl::string_view, const IndexEntry&)> fn);

// WalkEntries, then checks that the data files that entries name are regular files and long enough.
// Errors: also DataLoss, naming the first data file that is not; from errno.
absl::StatusOr<WalkedIndex> WalkIndex(
    const std::string& prefix, FileSystem* files, const DecodeLimits& limits,
    absl::FunctionRef<absl::Status(absl::string_view, absl::string_view, const IndexEntry&)> fn);

// Checks that data files of `num_shards` are regular files, and as long as `used_bytes`, by shard, says. Errors:
// DataLoss for the first that is not; from errno.
absl::Status CheckDataFiles(const std::string& prefix, int num_shards, const std::map<int32_t, uint64_t>& used_bytes,
                            FileSystem* files);

// The paths of all those that are not. Errors: from errno.
absl::StatusOr<std::vector<std::string>> DamagedDataFiles(const std::string& prefix, const WalkedIndex& index,
                                                          FileSystem* files);

// The prefix of the base that the index of `prefix` names, "" if it names none. Errors: those of
// CheckpointReader::Open.
absl::StatusOr<std::string> BasePrefixOf(const std::string& prefix, FileSystem* files);

// Whether a checkpoint is whole: WalkIndex and that all data files are there, or with `everything` all that
// CheckpointReader::VerifyAll checks. A base that the index names must be there, too, and with `everything` be the
// right one.
// Errors: the first damage found, DataLoss for a base that is missing; errors that prevent the check.
absl::Status CheckWhole(const std::string& prefix, bool everything, FileSystem* files);

}  // namespace tensorcask::checkpoint

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_INDEX_WALK_H_
