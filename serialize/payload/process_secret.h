// Bytes that only this process knows, from hashing with which nobody can gain: who does not know them cannot make two
// pieces of data of one hash. They decide nothing else: no byte that is written depends on them.
//
//   XXH3_128bits_withSecret(data, size, ProcessSecret().data(), ProcessSecret().size())

#ifndef TENSORCASK_SERIALIZE_PAYLOAD_PROCESS_SECRET_H_
#define TENSORCASK_SERIALIZE_PAYLOAD_PROCESS_SECRET_H_

#include "absl/strings/string_view.h"

namespace tensorcask::payload {

// As many as XXH3 wants, the same at each call.
absl::string_view ProcessSecret();

}  // namespace tensorcask::payload

#endif  // TENSORCASK_SERIALIZE_PAYLOAD_PROCESS_SECRET_H_
