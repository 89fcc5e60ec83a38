// The limits that the library is measured against, each the best of some hand-written loops.
//
//   for (const LimitLoop& loop : LimitLoops(view)) loop.run(memory);

#ifndef TENSORCASK_TESTS_BENCHMARKS_LIMITS_H_
#define TENSORCASK_TESTS_BENCHMARKS_LIMITS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask::benchmarks {

struct LimitLoop {
  std::string name;
  std::function<void(void* to)> run;  // `to`: memory of the result's size, aligned to 64 bytes
};

// Loops for the copy of `from` to row-major memory: they move the same cache lines, each once, from and to the
// same places, and leave the elements inside them in their order. What a copy takes longer is the price of that order.
// They differ in the order of the lines. They use non-temporal stores where the processor has them. Requires: `from`
// outlives them; either it has every second element of a dense tensor, or an axis other than the last one has a step of
// 1, and both are whole cache lines.
std::vector<LimitLoop> LimitLoops(const TensorView& from);

// A save or a load takes so much of the best of its loops at most.
inline constexpr double kLimitBar = 1.05;

// The sizes of pieces, in bytes, for WriteInPieces and ReadInPieces.
inline constexpr size_t kPieceSizes[] = {size_t{256} << 10, size_t{512} << 10, size_t{1} << 20};

// Writes the texts to new files: text i goes to file i % paths.size(), in pieces of `piece_bytes`, into reserved space,
// and a CRC-32C of each text is computed on the way. Several files are written on threads of their own beside the
// caller, which stays free to bring more. CHECKs that this succeeds.
void WriteInPieces(const std::vector<absl::string_view>& texts, const std::vector<std::string>& paths,
                   size_t piece_bytes);

// A checksum of `bytes` that follow others whose checksum is `sum`.
using ExtendSum = uint32_t (*)(uint32_t sum, absl::string_view bytes);

// Reads the file from `offset` on into the spans, one after the other, on `num_threads` threads that take a span each
// in turn. Reads in pieces of `piece_bytes`, and sums each of them while it is in the cache (null: no sums). CHECKs
// that this succeeds.
void ReadInPieces(const std::string& path, uint64_t offset, const std::vector<absl::Span<char>>& into,
                  size_t piece_bytes, ExtendSum extend, int num_threads = 1);

// Maps the file and sums its bytes. Asks the system to make `populated_bytes` present at a time, before they are summed
// (0: their pages become present as they are read). CHECKs that this succeeds.
void MapAndSum(const std::string& path, size_t populated_bytes, ExtendSum extend);

}  // namespace tensorcask::benchmarks

#endif  // TENSORCASK_TESTS_BENCHMARKS_LIMITS_H_
