// Gives a changed payload correct checksums again, so that a fuzzer gets past them.

#ifndef TENSORCASK_TESTS_FUZZ_MEND_PAYLOAD_H_
#define TENSORCASK_TESTS_FUZZ_MEND_PAYLOAD_H_

#include "absl/types/span.h"

namespace tensorcask::testing {

// Writes the checksums of header, chunks and index, as far as they make sense. A delta gets zeros as its base, if they
// are no more than a MiB.
void MendPayload(absl::Span<char> bytes);

}  // namespace tensorcask::testing

#endif  // TENSORCASK_TESTS_FUZZ_MEND_PAYLOAD_H_
