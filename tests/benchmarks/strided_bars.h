// The rows of `bars` about views and strided copies.

#ifndef TENSORCASK_TESTS_BENCHMARKS_STRIDED_BARS_H_
#define TENSORCASK_TESTS_BENCHMARKS_STRIDED_BARS_H_

namespace tensorcask::benchmarks {

void StridedRows();

}  // namespace tensorcask::benchmarks

#endif  // TENSORCASK_TESTS_BENCHMARKS_STRIDED_BARS_H_
