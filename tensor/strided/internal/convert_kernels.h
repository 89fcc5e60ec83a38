// Converting dense elements, a pair of dtypes at a time. Nothing to read here for users.
//
// Not a kernel for each of the 35 x 35 pairs: a dtype is loaded into the nearest of four wide types (float, double,
// int64, uint64) that holds each of its values, goes from there to the wide type of the other dtype, and is stored.
// Steps that would change nothing are left out, so that float32 <-> small floats, float64 and int64 take one, and a few
// frequent pairs have one of their own.
//
// Each step is exact but the last one that rounds: where a wide type is still too narrow for the value, it keeps in its
// last bit that something is missing (rounds to odd). What follows has at least two bits less and rounds as the full
// value would. (S. Boldo, G. Melquiond, "When double rounding is odd", 2005.)

#ifndef TENSORCASK_TENSOR_STRIDED_INTERNAL_CONVERT_KERNELS_H_
#define TENSORCASK_TENSOR_STRIDED_INTERNAL_CONVERT_KERNELS_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "tensorcask/tensor/base/cpu.h"
#include "tensorcask/tensor/dtype.h"

namespace tensorcask::internal {

// Converts `count` elements, a multiple of 64. They do not overlap and are aligned for their types.
using ConvertKernel = void (*)(const void* from, void* to, size_t count);

struct ConvertStep {
  ConvertKernel run;
  size_t to_size;  // bytes of an element that it makes
};

// How to get from one dtype to another: at most three steps, in order. None: the bytes are the same.
class Conversion {
 public:
  // Requires: both have a fixed size.
  static Conversion Find(DType from, DType to, const CpuFeatures& features);

  size_t num_steps() const { return num_steps_; }
  // Converts `count` dense elements from `from` to `to`, which do not overlap. With `stream` the results are put in
  // place by it, in pieces: CopyKernels::stream writes them past the cache.
  using Stream = void (*)(const char* from, char* to, int64_t bytes);
  void Run(const void* from, void* to, size_t count, Stream stream = nullptr) const;

 private:
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
