// The rows of `bars` about encoded payloads.

#ifndef TENSORCASK_TESTS_BENCHMARKS_PAYLOAD_BARS_H_
#define TENSORCASK_TESTS_BENCHMARKS_PAYLOAD_BARS_H_

namespace tensorcask::benchmarks {

void PayloadRows();

}  // namespace tensorcask::benchmarks

#endif  // TENSORCASK_TESTS_BENCHMARKS_PAYLOAD_BARS_H_
