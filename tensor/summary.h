// Tensors as text, for people.
//
//   Tensor t = Tensor::FromValues<float>({{1, 2.5f, 3}, {4, 5, 6}});
//   SummarizeValue(t)                       // "[[1 2.5 3] [4 5 6]]"
//   SummarizeValue(t, one_entry_each_end)   // "[[1 ... 3] [4 ... 6]]"; SummaryOptions with max_entries = 1
//   ElementToString(t, 1)                   // "2.5"
//
// The notation of NumPy: nested brackets, elements separated by a space, "..." where entries are left out; "[]" for a
// tensor without elements. Floats print with the fewest characters that read back to the same number in their own type,
// as std::to_chars does, and never beyond its range (0.1 as float16, as bfloat16 and as float32 is "0.1"). nan, inf and
// -0 print as such; complex numbers as 1+2j; bools as true and false; integers of all kinds as integers; strings in
// double quotes with C escapes for everything that is not printable UTF-8, so that text from a file cannot control a
// terminal; resources as <resource "v" on "/device:CPU:0">; variants as <variant "tensorflow::Tensor", 0 bytes, 1
// tensor>.
// Time and length grow with the entries that are shown, not with the size of the tensor.

#ifndef TENSORCASK_TENSOR_SUMMARY_H_
#define TENSORCASK_TENSOR_SUMMARY_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstdint>
#include <string>

#include "absl/types/span.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask {

struct SummaryOptions {
  // This many entries are shown at each end of each axis, and "..." replaces the others; < 0 shows all.
  int64_t max_entries = 3;
  // With max_entries >= 0: this many elements are shown in total, and "..." replaces the others. (This is what the
  // argument of Tensor::SummarizeValue limits, as TensorFlow's does.)
  int64_t max_elements = 10000;
  bool multiline = false;  // one line per row, as NumPy prints (but columns are not aligned)
};

std::string SummarizeValue(const Tensor& tensor, const SummaryOptions& options = {});

namespace internal {
// The elements of a tensor of any strides: the one at index (i, j) is number offset + i * strides[0] + j * strides[1]
// after `base`. Objects are of the class of the dtype.
struct StridedElements {
  DType dtype;
  const void* base;
  absl::Span<const int64_t> dims;
  absl::Span<const int64_t> strides;
  int64_t offset;
};
std::string SummarizeElements(const StridedElements& elements, const SummaryOptions& options);
}  // namespace internal

// One element, in the same notation. Requires: 0 <= index < tensor.num_elements().
std::string ElementToString(const Tensor& tensor, int64_t index);

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_SUMMARY_H_
