// Where something went wrong, in front of the message that says what.
//
//   if (!status.ok()) return In("/m.index: tensor \"w\"", status);

#ifndef TENSORCASK_SERIALIZE_CHECKPOINT_STATUS_PLACE_H_
#define TENSORCASK_SERIALIZE_CHECKPOINT_STATUS_PLACE_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "tensorcask/tensor/base/process_error.h"

namespace tensorcask::checkpoint {

// `what` is a file, or a tensor in one. Requires: !status.ok().
inline absl::Status In(absl::string_view what, const absl::Status& status) { return internal::Prefixed(what, status); }

}  // namespace tensorcask::checkpoint

#endif  // TENSORCASK_SERIALIZE_CHECKPOINT_STATUS_PLACE_H_
