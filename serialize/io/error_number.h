// The number of a system's error in the absl::Status that reports it. Codes of absl::Status are fewer than numbers:
//
//   const absl::Status status = writer.Finish();
//   if (ErrorNumberOf(status) == ENOSPC) ...   // the code is ResourceExhausted, as for a limit

#ifndef TENSORCASK_SERIALIZE_IO_ERROR_NUMBER_H_
#define TENSORCASK_SERIALIZE_IO_ERROR_NUMBER_H_

#include "absl/status/status.h"

namespace tensorcask {

// The errno of the operation on a file that failed. 0 if `status` is OK or about something else.
int ErrorNumberOf(const absl::Status& status);

// The same error with this errno. Requires: !status.ok().
absl::Status WithErrorNumber(absl::Status status, int error);

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_IO_ERROR_NUMBER_H_
