// The limits that strided copies are measured against: hand-written loops that move the same cache lines, each once,
// from and to the same places, and leave the order of the elements inside them as it is. What a copy takes longer is
// the price of moving elements.
//
//   for (const LimitLoop& loop : LimitLoops(view)) loop.run(memory);

#ifndef TENSORCASK_TESTS_BENCHMARKS_LIMITS_H_
#define TENSORCASK_TESTS_BENCHMARKS_LIMITS_H_

#include <functional>
#include <string>
#include <vector>

#include "tensorcask/tensor/strided/view.h"

namespace tensorcask::benchmarks {

struct LimitLoop {
  std::string name;
  std::function<void(void* to)> run;  // `to`: memory of the result's size, aligned to 64 bytes
};

// Three loops for the copy of `from` to row-major memory, which differ in the order of the lines. They use non-temporal
// stores where the processor has them. Requires: `from` outlives them; either it has every second element of a dense
// tensor, or an axis other than the last one has a step of 1, and both are whole cache lines.
std::vector<LimitLoop> LimitLoops(const TensorView& from);

}  // namespace tensorcask::benchmarks

#endif  // TENSORCASK_TESTS_BENCHMARKS_LIMITS_H_
