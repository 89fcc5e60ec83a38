// Marks errors about a tensor that is damaged while others of its file may be whole, so that a program can say what
// helps: another function of the library, which the tool and Python call by other names.
//
//   return MarkWrongChecksum(absl::DataLossError("its checksum is 1, stored is 2"));
//   ...
//   if (HasWrongChecksum(status)) ...  // reading without verifying gives the elements as they are
//   if (IsDamagedPart(status)) ...     // SalvageArchive saves the other tensors
//
// Annotate and AppendToMessage keep the mark.

#ifndef TENSORCASK_SERIALIZE_IO_DAMAGE_MARK_H_
#define TENSORCASK_SERIALIZE_IO_DAMAGE_MARK_H_

#include "absl/status/status.h"

namespace tensorcask {

// The elements are there, but they have another checksum than the one stored. Requires: !status.ok().
absl::Status MarkWrongChecksum(absl::Status status);

// Part of the file is damaged, missing or cut. Changes only DataLoss that has no mark.
absl::Status MarkDamagedPart(absl::Status status);

// `status` with the mark of `cause`, if that has one. Requires: !status.ok().
absl::Status MarkDamageOf(const absl::Status& cause, absl::Status status);

bool IsDamagedPart(const absl::Status& status);  // true for both marks
bool HasWrongChecksum(const absl::Status& status);

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_IO_DAMAGE_MARK_H_
