// The rows of `bars` about tensors that go to another process on this host.

#ifndef TENSORCASK_TESTS_BENCHMARKS_EXCHANGE_BARS_H_
#define TENSORCASK_TESTS_BENCHMARKS_EXCHANGE_BARS_H_

namespace tensorcask::benchmarks {

void ExchangeRows();

}  // namespace tensorcask::benchmarks

#endif  // TENSORCASK_TESTS_BENCHMARKS_EXCHANGE_BARS_H_
