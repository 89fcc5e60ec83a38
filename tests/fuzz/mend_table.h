// Gives a changed index file correct checksums again, so that a fuzzer gets past them.

#ifndef TENSORCASK_TESTS_FUZZ_MEND_TABLE_H_
#define TENSORCASK_TESTS_FUZZ_MEND_TABLE_H_

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace tensorcask::testing {

// Writes the magic number and the checksum of each block of `table` that can be found from its footer, as far as they
// make sense. First calls mend_value(key suffix, value), which may change it in place, for each value of a data block.
void MendTable(absl::Span<char> table, absl::FunctionRef<void(absl::string_view, absl::Span<char>)> mend_value);

}  // namespace tensorcask::testing

#endif  // TENSORCASK_TESTS_FUZZ_MEND_TABLE_H_
