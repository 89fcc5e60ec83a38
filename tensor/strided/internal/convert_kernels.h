// Converts dense elements from one dtype to another. Internal.
//
// There is no kernel for each of the 35 x 35 pairs. An element is loaded into the smallest of four wide types (float,
// double, int64, uint64) that holds all values of its dtype, converted to the wide type of the other dtype, and stored.
// Steps that change nothing are left out, so conversions between float32 and small floats, float64 or int64 take one
// step. A few frequent pairs have a kernel of their own.
//
// Only the last step rounds; all others are exact or round to odd: if a wide type is too narrow for the value, its last
// bit records that something was lost. The type after it has at least two bits less, so the final rounding gives the
// same result as rounding the exact value. (S. Boldo, G. Melquiond, "When double rounding is odd", 2005.)

#ifndef TENSORCASK_TENSOR_STRIDED_INTERNAL_CONVERT_KERNELS_H_
#define TENSORCASK_TENSOR_STRIDED_INTERNAL_CONVERT_KERNELS_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "tensorcask/tensor/base/cpu.h"
#include "tensorcask/tensor/dtype.h"

namespace tensorcask::internal {

// Converts `count` elements, a multiple of 16 unless the step takes any count. They do not overlap and are aligned for
// their types.
using ConvertKernel = void (*)(const void* from, void* to, size_t count);

struct ConvertStep {
  ConvertKernel run = nullptr;
  size_t to_size = 0;  // bytes of an element of the result
  bool takes_any_count = false;
};

// The steps from one dtype to another, in order, at most three. Without steps the bytes are the same.
class Conversion {
 public:
  // Requires: both have a fixed size.
  static Conversion Find(DType from, DType to, const CpuFeatures& features);
  // The same with GetCpuFeatures(), from a table.
  static const Conversion& OfThisProcessor(DType from, DType to);

  size_t num_steps() const { return num_steps_; }
  // Converts `count` dense elements from `from` to `to`, which do not overlap. With `stream`, it writes the results, in
  // pieces: CopyKernels::stream uses non-temporal stores.
  using Stream = void (*)(const char* from, char* to, int64_t bytes);
  void Run(const void* from, void* to, size_t count, Stream stream = nullptr) const {
    if (num_steps_ == 1 && steps_[0].takes_any_count && stream == nullptr) return steps_[0].run(from, to, count);
    RunAny(from, to, count, stream);
  }

 private:
  void RunAny(const void* from, void* to, size_t count, Stream stream) const;
  void RunPieces(const void* from, void* to, size_t count, Stream stream) const;
  void Add(ConvertStep step) {
    if (step.run != nullptr) steps_[num_steps_++] = step;
  }

  std::array<ConvertStep, 3> steps_;
  size_t num_steps_ = 0;
  size_t from_size_ = 0;
};

}  // namespace tensorcask::internal

#endif  // TENSORCASK_TENSOR_STRIDED_INTERNAL_CONVERT_KERNELS_H_
