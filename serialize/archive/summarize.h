// Computes for each tensor of an archive: range, mean, spread, and the numbers of NaN, infinite and subnormal elements.
//
//   CASK_ASSIGN_OR_RETURN(const std::vector<TensorStatistics> all, Summarize(*archive));
//   for (const TensorStatistics& one : all) std::cout << one.name << " " << one.min << " " << one.max << "\n";
//
// Reads each tensor once, in blocks where the format allows that.

#ifndef TENSORCASK_SERIALIZE_ARCHIVE_SUMMARIZE_H_
#define TENSORCASK_SERIALIZE_ARCHIVE_SUMMARIZE_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/numeric/int128.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tensorcask/serialize/archive/archive_reader.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"

namespace tensorcask {

struct TensorStatistics {
  static constexpr int kBins = 16;

  std::string name;
  DType dtype = DType::kInvalid;
  TensorShape shape;
  absl::Status status;  // not OK: the elements could not be read

  uint64_t num_elements = 0;
  // False for strings, complex numbers and other elements without an order: nothing below is set.
  bool is_numeric = false;
  uint64_t zeros = 0;
  uint64_t nans = 0;
  uint64_t infinities = 0;
  uint64_t subnormals = 0;
  // The number of finite elements, and the smallest and the largest of them (0 if there are none).
  uint64_t finite = 0;
  double min = 0;
  double max = 0;
  // min and max without rounding, for int64 and uint64 elements; nullopt for all others.
  struct ExactRange {
    absl::int128 min = 0;
    absl::int128 max = 0;
  };
  std::optional<ExactRange> exact_range;
  double mean = 0;                // NaN if the sum overflows
  double standard_deviation = 0;  // over all elements: divided by their number; NaN if the sum of squares overflows
  // How many finite elements of a sample of up to 65536, evenly spaced, lie in each of kBins equal parts of [min, max].
  std::array<uint64_t, kBins> histogram{};
};

struct SummarizeOptions {
  std::vector<std::string> include;            // shell patterns; empty: all tensors
  int num_threads = 2;                         // each takes one tensor at a time; two share the work on a single tensor
  uint64_t block_bytes = uint64_t{256} << 10;  // small enough for the second-level cache
  // Called after each block with the total of bytes so far; false ends with Cancelled. Never on two threads at once.
  std::function<bool(uint64_t bytes)> progress;
};

// One entry per tensor, sorted by name. A tensor that cannot be read has a status, and does not end the work. Errors:
// Cancelled.
absl::StatusOr<std::vector<TensorStatistics>> Summarize(const ArchiveReader& archive,
                                                        const SummarizeOptions& options = {});

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_ARCHIVE_SUMMARIZE_H_
