#include "tensorcask/tensor/strided/copy.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <numeric>

#include "absl/base/attributes.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tensorcask/tensor/base/cpu.h"
#include "tensorcask/tensor/base/endian.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/dtype_visit.h"
#include "tensorcask/tensor/nested_values.h"
#include "tensorcask/tensor/resource_handle.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/internal/axes.h"
#include "tensorcask/tensor/strided/internal/copy_few.h"
#include "tensorcask/tensor/strided/internal/copy_kernels.h"
#include "tensorcask/tensor/strided/internal/copy_strided.h"
#include "tensorcask/tensor/strided/internal/few_elements.h"
#include "tensorcask/tensor/strided/layout.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tensor/variant.h"

namespace tensorcask {
namespace {

using internal::FewElements;

constexpr int64_t kTooFewForKernel = 16;  // elements, for which the choice of a kernel takes longer than the copy

internal::CopyStridedOptions Strided(const CopyOptions& options) {
  internal::CopyStridedOptions strided;
  strided.num_threads = options.num_threads;
  strided.fresh = false;
  return strided;
}

absl::Status Refused(const TensorView& from, const TensorView& to, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("Copy of ", from.ToString(), " to ", to.ToString(), ": ", why));
}

// Equal strides along all axes on which there is more than one element.
bool HaveEqualSteps(const Layout& a, const Layout& b) {
  for (int axis = 0; axis < a.rank(); ++axis) {
    if (a.dim(axis) > 1 && a.stride(axis) != b.stride(axis)) return false;
  }
  return true;
}

// The address of the element at index 0, 0 ...
uintptr_t FirstAddress(const TensorView& view, const void* data, size_t object_bytes) {
  return reinterpret_cast<uintptr_t>(data) + static_cast<uintptr_t>(view.offset()) * object_bytes;
}

// Elements of a fixed size, again and again.
struct Pattern {
  static constexpr size_t kBytes = 16;  // a multiple of every element size
  uint64_t halves[2];

  bool HasEqualBytes() const {
    return halves[0] == halves[1] && halves[0] == (halves[0] & 0xff) * uint64_t{0x0101010101010101};
  }
};

Pattern PatternOf(const void* element, size_t element_bytes) {
  uint64_t half = 0;
  switch (element_bytes) {
    case 1:
      half = LoadLittleEndian<uint8_t>(element) * uint64_t{0x0101010101010101};
      break;
    case 2:
      half = LoadLittleEndian<uint16_t>(element) * uint64_t{0x0001000100010001};
      break;
    case 4:
      half = LoadLittleEndian<uint32_t>(element) * uint64_t{0x0000000100000001};
      break;
    case 8:
      half = LoadLittleEndian<uint64_t>(element);
      break;
    default:
      return LoadLittleEndian<Pattern>(element);
  }
  return {{half, half}};
}

// Writes `bytes` bytes at `to`, whole elements.
void FillRun(const Pattern& pattern, char* to, size_t bytes) {
  if (bytes < Pattern::kBytes) {
    return internal::CopyShort(reinterpret_cast<const char*>(&pattern), to, static_cast<int64_t>(bytes));
  }
  for (size_t done = 0; done + Pattern::kBytes <= bytes; done += Pattern::kBytes) {
    std::memcpy(to + done, &pattern, Pattern::kBytes);
  }
  std::memcpy(to + bytes - Pattern::kBytes, &pattern, Pattern::kBytes);  // overlaps the one before by whole elements
}

// True if `bytes_a` bytes at `a` and `bytes_b` bytes at `b` overlap.
bool Overlap(const void* a, size_t bytes_a, const void* b, size_t bytes_b) {
  const auto start_a = reinterpret_cast<uintptr_t>(a);
  const auto start_b = reinterpret_cast<uintptr_t>(b);
  return start_a < start_b + bytes_b && start_b < start_a + bytes_a;
}

// False if no element of one view overlaps an element of the other because all steps of both are multiples of a number
// and the distance between the views is not. Example: the real and the imaginary parts of one array.
bool MayMeet(const Layout& from, const Layout& to, uintptr_t distance_bytes, size_t object_bytes) {
  if (distance_bytes % object_bytes != 0) return true;
  uint64_t divisor = 0;
  for (int axis = 0; axis < to.rank(); ++axis) {
    if (to.dim(axis) == 1) continue;
    divisor = std::gcd(divisor, static_cast<uint64_t>(std::abs(from.stride(axis))));
    divisor = std::gcd(divisor, static_cast<uint64_t>(std::abs(to.stride(axis))));
  }
  return divisor == 0 || distance_bytes / object_bytes % divisor == 0;
}

// Any copy of one dtype. Separate from Copy: otherwise the compiler saves registers on every call.
ABSL_ATTRIBUTE_NOINLINE absl::Status CopyAny(const TensorView& from, TensorView* to, const CopyOptions& options) {
  if (from.dims() != to->dims()) return Refused(from, *to, "the dims differ");
  if (from.num_elements() == 0) return absl::OkStatus();
  CASK_RETURN_IF_ERROR(from.buffer()->CheckReadable());
  CASK_RETURN_IF_ERROR(to->buffer()->CheckReadable());
  const bool to_is_dense = to->layout().IsContiguous();  // then it names each position once
  if (!to_is_dense) {
    if (absl::Status status = to->CheckWritable(); !status.ok()) return Refused(from, *to, status.message());
  }
  const size_t object_bytes = ObjectBytes(from.dtype());
  // The same elements: nothing to do. (This is also true of two lazy clones that still share memory; they keep sharing
  // it.)
  if (FirstAddress(from, from.buffer()->data(), object_bytes) ==
          FirstAddress(*to, to->buffer()->data(), object_bytes) &&
      HaveEqualSteps(from.layout(), to->layout())) {
    return absl::OkStatus();
  }

  // EnsureMutable may move a root to other memory, so addresses are computed afterwards.
  CASK_RETURN_IF_ERROR(to->EnsureMutable());
  char* const to_data = static_cast<char*>(to->buffer()->mutable_data());
  const char* const from_data = static_cast<const char*>(from.buffer()->data());
  const auto copy_from = [&](const void* data, const Layout& layout) {
    internal::CopyStrided(from.dtype(), data, layout, to_data, to->layout(), Strided(options));
    return absl::OkStatus();
  };
  // First a quick test of the whole buffers, then one of the parts that the views cover.
  if (!Overlap(from_data, from.buffer()->size_bytes(), to_data, to->buffer()->size_bytes())) {
    return copy_from(from_data, from.layout());
  }
  const TensorView::ByteRange source = from.bounds();
  const TensorView::ByteRange target = to->bounds();
  if (!Overlap(from_data + source.begin, source.end - source.begin, to_data + target.begin,
               target.end - target.begin)) {
    return copy_from(from_data, from.layout());
  }
  if (!IsObject(from.dtype()) && HaveEqualSteps(from.layout(), to->layout()) &&
      from.layout().IsNonOverlappingAndDense()) {
    std::memmove(to_data + target.begin, from_data + source.begin, target.end - target.begin);
    return absl::OkStatus();
  }
  const uintptr_t first_from = FirstAddress(from, from_data, object_bytes);
  const uintptr_t first_to = FirstAddress(*to, to_data, object_bytes);
  if (!MayMeet(from.layout(), to->layout(), std::max(first_from, first_to) - std::min(first_from, first_to),
               object_bytes)) {
    return copy_from(from_data, from.layout());
  }
  CASK_ASSIGN_OR_RETURN(const TensorView aside, from.Clone());
  return copy_from(aside.buffer()->data(), aside.layout());
}

// The next two are separate, too: with them, Copy would save more registers on every call.
ABSL_ATTRIBUTE_NOINLINE void CopyWithPlan(size_t element_bytes, const TensorView& from, const char* from_first,
                                          const TensorView& to, char* to_first) {
  internal::Axes axes = internal::LongAxes(from.layout(), to.layout());
  internal::CopyAlong(&axes, element_bytes, from_first, 0, to_first, 0);
}

// One axis, or two that are transposed: a kernel takes them as they are.
ABSL_ATTRIBUTE_NOINLINE void CopyWithKernel(size_t element_bytes, const TensorView& from, const char* from_first,
                                            char* to_first) {
  const auto size = static_cast<int64_t>(element_bytes);
  const internal::CopyKernels& kernels = internal::KernelsFor(element_bytes, GetCpuFeatures());
  const int64_t* const dims = from.dims().data();
  const int64_t* const strides = from.strides().data();
  if (from.rank() == 1) return kernels.gather(from_first, strides[0] * size, to_first, dims[0]);
  kernels.transpose(from_first, strides[1] * size, to_first, dims[1] * size, dims[1], dims[0], internal::Planes());
}

// A copy from one element that is repeated for all indices. `value` is not an element of *to.
absl::Status FillRepeated(const void* value, TensorView* to, const CopyOptions& options) {
  if (!to->layout().IsContiguous()) CASK_RETURN_IF_ERROR(to->CheckWritable());
  CASK_RETURN_IF_ERROR(to->EnsureMutable());
  CASK_ASSIGN_OR_RETURN(const Layout repeated, Layout().AsStrided(to->dims(), DimVector(to->rank(), 0)));
  internal::CopyStrided(to->dtype(), value, repeated, to->buffer()->mutable_data(), to->layout(), Strided(options));
  return absl::OkStatus();
}

}  // namespace

absl::Status Copy(const TensorView& from, TensorView* to, const CopyOptions& options) {
  if (from.dtype() != to->dtype()) return Refused(from, *to, "the dtypes differ");
  const FewElements few(from, *to, /*strided_bytes=*/SIZE_MAX);
  const bool is_dense = few.kind == FewElements::Kind::kDense;
  if (few.kind == FewElements::Kind::kNo || (!is_dense && few.MayOverlap(from, *to))) return CopyAny(from, to, options);
  // The same elements: nothing to do. Two lazy clones that still share memory keep sharing it.
  if (is_dense && few.from_first == few.to_first) return absl::OkStatus();
  char* const to_first = few.WritableFirst(to);
  if (is_dense) {
    internal::CopyShort(few.from_first, to_first, few.count * static_cast<int64_t>(few.to_size));
    return absl::OkStatus();
  }
  const int rank = to->rank();
  if (few.count > kTooFewForKernel && (rank == 1 || (rank == 2 && from.strides()[0] == 1))) {
    CopyWithKernel(few.to_size, from, few.from_first, to_first);
  } else if (few.count <= internal::kFewStridedElements) {
    internal::CopyFewElements(few.to_size, few.from_first, from.layout(), to_first, to->strides());
  } else {
    CopyWithPlan(few.to_size, from, few.from_first, *to, to_first);
  }
  return absl::OkStatus();
}

// ---- Filling --------------------------------------------------------------------------------------------------------

namespace internal {

absl::Status FillElement(const void* value, TensorView* to, const CopyOptions& options) {
  constexpr int64_t kFewFilled = 256;
  const size_t size = to->element_size();
  const int64_t count = to->num_elements();
  if (count == 0) return absl::OkStatus();
  if (size == 0) {  // objects
    return VisitObjectDType(to->dtype(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      const T copy = *static_cast<const T*>(value);
      return FillRepeated(&copy, to, options);
    });
  }
  // Loaded first: `value` may be an element of *to, which may move to other memory.
  const Pattern pattern = PatternOf(value, size);
  const bool is_few = count <= kFewFilled;
  const bool is_memset = pattern.HasEqualBytes() && options.num_threads <= 1;
  if ((!is_few && !is_memset) || !to->layout().IsContiguous()) return FillRepeated(&pattern, to, options);
  CASK_RETURN_IF_ERROR(to->EnsureMutable());
  char* const data = static_cast<char*>(to->buffer()->mutable_data()) + static_cast<size_t>(to->offset()) * size;
  const size_t bytes = static_cast<size_t>(count) * size;
  if (is_few) {
    FillRun(pattern, data, bytes);
  } else {
    std::memset(data, static_cast<int>(pattern.halves[0] & 0xff), bytes);
  }
  return absl::OkStatus();
}

absl::Status FillConverted(const NestedValues& value, TensorView* to, const CopyOptions& options) {
  const absl::StatusOr<Tensor> element = TensorFromValues(value, to->dtype());
  if (element.ok()) return FillElement(element->buffer()->data(), to, options);
  return Annotate(element.status(), absl::StrCat("Fill of ", to->ToString()));
}

absl::Status FillOfAnotherDType(DType dtype, const TensorView& to) {
  return absl::InvalidArgumentError(absl::StrCat("Fill of ", to.ToString(), " with a ", DTypeName(dtype), " value"));
}

}  // namespace internal
}  // namespace tensorcask
