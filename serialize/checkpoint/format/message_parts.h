// Parts of messages that bundles and V1 checkpoints share.
//
//   CASK_RETURN_IF_ERROR(CheckStoredMessage(value, kEntryRules, limits, "its entry"));
//   ForEachField(value, [&](const WireReader::Field& field) { ... });   // cannot fail now
//
// Errors do not name the file. They are DataLoss, and ResourceExhausted past a limit.

#ifndef TENSORCASK_SERIALIZE_CHECKPOINT_FORMAT_MESSAGE_PARTS_H_
#define TENSORCASK_SERIALIZE_CHECKPOINT_FORMAT_MESSAGE_PARTS_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/serialize/protowire/message_rules.h"
#include "tensorcask/serialize/protowire/wire_reader.h"
#include "tensorcask/tensor/slice.h"

namespace tensorcask::checkpoint {

// CheckMessage for a message in a file; `what` names it in errors.
// Errors: DataLoss if `bytes` are not a message of `rules`; ResourceExhausted past max_depth.
absl::Status CheckStoredMessage(absl::string_view bytes, const internal::MessageRules& rules,
                                const DecodeLimits& limits, absl::string_view what);

// The functions below require that CheckMessage has passed the message or the field.

// The number of an int32 field. Errors: DataLoss if it does not fit 32 bits. (protobuf would drop the upper bits.)
absl::Status ParseInt32(const WireReader::Field& field, absl::string_view name, int64_t* value);

// A TensorSliceProto. Errors: DataLoss for extents that no shape has.
absl::StatusOr<TensorSlice> DecodeSlice(absl::string_view message);

// A VersionDef, or several that are merged: which readers may read the file.
extern const internal::MessageRules kVersionRules;
struct Versions {
  int64_t producer = 0;
  int64_t min_consumer = 0;
  std::optional<int64_t> bad_consumer;  // one of 1 to the reader's own version, if there is one
};
absl::Status MergeVersions(absl::string_view message, int consumer, Versions* versions);

// Errors: Unimplemented if `versions` exclude a reader of version `consumer`. Such a reader also reads what older
// versions read, so a file that excludes one of these excludes it too.
absl::Status CheckVersions(const Versions& versions, int consumer);

}  // namespace tensorcask::checkpoint

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_FORMAT_MESSAGE_PARTS_H_
