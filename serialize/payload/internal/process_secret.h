// A random secret of this process. Another process cannot construct two pieces of data with the same hash. No byte that
// is written depends on it.
//
//   XXH3_128bits_withSecret(data, size, ProcessSecret().data(), ProcessSecret().size())

#ifndef TENSORCASK_SERIALIZE_PAYLOAD_INTERNAL_PROCESS_SECRET_H_
#define TENSORCASK_SERIALIZE_PAYLOAD_INTERNAL_PROCESS_SECRET_H_

#include "absl/strings/string_view.h"

namespace tensorcask::payload {

// As long as XXH3 requires; the same at each call.
absl::string_view ProcessSecret();

}  // namespace tensorcask::payload

#endif  // TENSORCASK_SERIALIZE_PAYLOAD_INTERNAL_PROCESS_SECRET_H_
