// Parts of messages that bundles and V1 checkpoints share, and their fields, read by hand on WireReader.
//
//   WireReader reader(message);
//   for (WireReader::Field field; reader.Next(&field);) {
//     if (field.number == 1) CASK_RETURN_IF_ERROR(TakeInt64(field, "offset", &offset));
//   }
//   if (!reader.status().ok()) return NoMessage(reader, "its entry");
//
// Errors are DataLoss, without the name of the file: a known field of a wrong wire type, a number outside its field's
// type. Unknown fields are passed over.

#ifndef TENSORCASK_SERIALIZE_CHECKPOINT_MESSAGE_PARTS_H_
#define TENSORCASK_SERIALIZE_CHECKPOINT_MESSAGE_PARTS_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/wire/wire_reader.h"
#include "tensorcask/tensor/slice.h"

namespace tensorcask::checkpoint {

// ---- Fields ---------------------------------------------------------------------------------------------------------

// The error for bytes that are no message, which `reader` found.
absl::Status NoMessage(const WireReader& reader, absl::string_view what);

absl::Status Expect(const WireReader::Field& field, WireType type, absl::string_view name);
absl::Status TakeInt64(const WireReader::Field& field, absl::string_view name, int64_t* value);
absl::Status TakeInt32(const WireReader::Field& field, absl::string_view name, int64_t* value);

// ---- Messages -------------------------------------------------------------------------------------------------------

// A TensorSliceProto. Errors: besides, DataLoss for what is no slice of any shape.
absl::StatusOr<TensorSlice> DecodeSlice(absl::string_view message);

// A VersionDef, or several that are merged: who may read the file.
struct Versions {
  int64_t producer = 0;
  int64_t min_consumer = 0;
  std::optional<int64_t> bad_consumer;  // one of 1 to the reader's own version, if there is one
};
absl::Status MergeVersions(absl::string_view message, int consumer, Versions* versions);

// Errors: Unimplemented if they shut out a reader of version `consumer`, which reads what older ones read, as they do.
absl::Status CheckVersions(const Versions& versions, int consumer);

}  // namespace tensorcask::checkpoint

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_MESSAGE_PARTS_H_
