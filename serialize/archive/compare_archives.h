// What differs between two archives, of any formats.
//
//   CASK_ASSIGN_OR_RETURN(const CompareReport report, Compare(*before, *after, {}));
//   for (const TensorDifference& one : report.differences) std::cout << one.name << " " << one.max_absolute << "\n";
//
// Reads each tensor once, in blocks where the formats allow that. Tensors are compared by name. A file of a format that
// has no names (ArchiveReader::has_names) is compared with the only tensor of the other side that `include` chooses.

#ifndef TENSORCASK_SERIALIZE_ARCHIVE_COMPARE_ARCHIVES_H_
#define TENSORCASK_SERIALIZE_ARCHIVE_COMPARE_ARCHIVES_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/archive/archive_entry.h"
#include "tensorcask/serialize/archive/archive_reader.h"

namespace tensorcask {

struct CompareOptions {
  std::vector<std::string> include;  // shell patterns for the names in b; empty: all tensors
  // The name that a tensor of a has in b, or an error that ends the comparison; null: names are the same.
  // CompileRenames (rename_rules.h) makes one of rules.
  std::function<absl::StatusOr<std::string>(absl::string_view)> rename;
  // Tensors of two dtypes of numbers are compared by value. A tolerance above 0 implies it, and so does a float beside
  // a tensor that is stored in blocks (ArchiveEntry::is_quantized). Otherwise the dtypes are the difference.
  bool cast = false;
  // Elements a and b count as equal if |a - b| <= absolute_tolerance + relative_tolerance * |b|, or if both are NaN.
  // The values are exact, also those of a 64-bit integer beside a float: 2^53 + 1 is not 2^53. The right side is
  // computed in float64, and so is |a - b| of complex numbers with different imaginary parts.
  double relative_tolerance = 0;
  double absolute_tolerance = 0;
  int num_threads = 2;                         // each takes one tensor at a time
  uint64_t block_bytes = uint64_t{256} << 10;  // small enough for the second-level cache
  // Called after each block with the total of bytes so far; false ends with Cancelled. Never on two threads at once.
  std::function<bool(uint64_t bytes)> progress;
};

struct TensorDifference {
  enum class Kind { kOnlyInA, kOnlyInB, kDType, kShape, kValues, kUnreadable };
  Kind kind = Kind::kValues;
  std::string name;
  ArchiveEntry a;       // empty for kOnlyInB
  ArchiveEntry b;       // empty for kOnlyInA
  absl::Status status;  // the error of kUnreadable

  // The rest is set for kValues.
  uint64_t num_different = 0;  // elements that are not equal
  // The largest |a - b|, rounded; infinite if one of the two is NaN or infinite and the other is not equal to it.
  double max_absolute = 0;
  double max_relative = 0;     // the largest |a - b| / |b|
  std::vector<int64_t> where;  // the index of the element with max_absolute; of strings, the first that differs
  std::vector<int64_t> where_relative;  // the index of the element with max_relative
  std::string text_a;                   // the element at `where`, as ElementToString writes it; "" for strings
  std::string text_b;
  std::string type_a;  // "float32"; for blocks their type: "q4_k"
  std::string type_b;
  // Root mean squares over all elements, those within the tolerances too; infinite if max_absolute is, or if a square
  // overflows.
  double rms = 0;    // that of a - b
  double rms_a = 0;  // that of a, without elements that are NaN or infinite

  double relative_rms() const;  // |a - b| / |a| of the tensors as vectors: what part of a changed
};

// All differences in values between tensors of one pair of types: what a quantiser changed.
struct TypeDifference {
  std::string type_a;
  std::string type_b;
  int64_t tensors = 0;
  uint64_t elements = 0;
  double max_absolute = 0;
  double rms = 0;  // as in TensorDifference
  double rms_a = 0;

  double relative_rms() const;
};

struct CompareReport {
  int64_t equal = 0;             // tensors whose bytes are equal
  int64_t within_tolerance = 0;  // tensors whose elements all count as equal, but whose bytes or dtypes differ
  int64_t other_dtypes = 0;      // tensors of within_tolerance whose dtypes differ
  int64_t other_scales = 0;      // quantized tensors among all these with another scale or zero point ("torch.scale")
  // Missing, dtype and shape first; then values: the largest max_relative first, and among equal ones the largest
  // relative_rms first.
  std::vector<TensorDifference> differences;
  std::vector<TypeDifference> by_type;  // differences of kValues, without strings; sorted by both types
};

// Errors: Cancelled; those of `rename`; AlreadyExists if `rename` gives two tensors of a one name. A tensor that cannot
// be read is a difference.
absl::StatusOr<CompareReport> Compare(const ArchiveReader& a, const ArchiveReader& b,
                                      const CompareOptions& options = {});

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_ARCHIVE_COMPARE_ARCHIVES_H_
