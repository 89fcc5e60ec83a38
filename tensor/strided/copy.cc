#include "tensorcask/tensor/strided/copy.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/dtype_visit.h"
#include "tensorcask/tensor/strided/copy_strided.h"
#include "tensorcask/tensor/strided/layout.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask {
namespace {

internal::CopyStridedOptions Strided(const CopyOptions& options) {
  internal::CopyStridedOptions strided;
  strided.num_threads = options.num_threads;
  strided.fresh = false;
  return strided;
}

absl::Status Refused(const TensorView& from, const TensorView& to, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("Copy of ", from.ToString(), " to ", to.ToString(), ": ", why));
}

absl::Status CheckWritable(const TensorView& to) {
  // The usual destination first: dense in its order, it names each place once.
  return to.layout().IsContiguous() ? absl::OkStatus() : to.CheckWritable();
}

// Equal strides along all axes on which there is more than one element.
bool HaveEqualSteps(const Layout& a, const Layout& b) {
  for (int axis = 0; axis < a.rank(); ++axis) {
    if (a.dim(axis) > 1 && a.stride(axis) != b.stride(axis)) return false;
  }
  return true;
}

// Where the elements are: number 0 of `data` would be the first of the layout if all steps were 0.
struct Places {
  uintptr_t first;  // address of the element at index 0, 0 ...
  uintptr_t begin;  // of the bytes that hold all elements
  uintptr_t end;
};
Places PlacesOf(const TensorView& view, const void* data, size_t object_bytes) {
  const TensorView::ByteRange bounds = view.bounds();
  const auto base = reinterpret_cast<uintptr_t>(data);
  return {base + static_cast<uintptr_t>(view.offset()) * object_bytes, base + bounds.begin, base + bounds.end};
}

// False if no element of the one lies in an element of the other: because all steps of both are multiples of a number
// that the distance between the two is not, as in the real and the imaginary parts of one array.
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

}  // namespace

absl::Status Copy(const TensorView& from, TensorView* to, const CopyOptions& options) {
  if (from.dtype() != to->dtype()) return Refused(from, *to, "the dtypes differ");
  if (from.dims() != to->dims()) return Refused(from, *to, "the dims differ");
  if (from.num_elements() == 0) return absl::OkStatus();
  CASK_RETURN_IF_ERROR(from.buffer()->CheckReadable());
  CASK_RETURN_IF_ERROR(to->buffer()->CheckReadable());
  if (absl::Status status = CheckWritable(*to); !status.ok()) return Refused(from, *to, status.message());

  const size_t object_bytes = from.dtype() == DType::kString ? sizeof(std::string) : from.element_size();
  const bool equal_steps = HaveEqualSteps(from.layout(), to->layout());
  const auto same_elements = [&] {
    return equal_steps && PlacesOf(from, from.buffer()->data(), object_bytes).first ==
                              PlacesOf(*to, to->buffer()->data(), object_bytes).first;
  };
  // Two lazy clones of one memory are the same elements, too, and need not part for this.
  if (same_elements()) return absl::OkStatus();

  // From here on addresses stay: those of both sides, where they share a root, are taken after it may have moved.
  CASK_RETURN_IF_ERROR(to->EnsureMutable());
  void* const to_data = to->buffer()->mutable_data();
  const void* const from_data = from.buffer()->data();
  const auto copy_from = [&](const void* data, const Layout& layout) {
    internal::CopyStrided(from.dtype(), data, layout, to_data, to->layout(), Strided(options));
    return absl::OkStatus();
  };
  const Places source = PlacesOf(from, from_data, object_bytes);
  const Places target = PlacesOf(*to, to_data, object_bytes);
  if (source.end <= target.begin || target.end <= source.begin) return copy_from(from_data, from.layout());
  if (equal_steps && from.dtype() != DType::kString && from.layout().IsNonOverlappingAndDense()) {
    std::memmove(static_cast<char*>(to_data) + to->bounds().begin,
                 static_cast<const char*>(from_data) + from.bounds().begin, target.end - target.begin);
    return absl::OkStatus();
  }
  const uintptr_t distance = source.first > target.first ? source.first - target.first : target.first - source.first;
  if (!MayMeet(from.layout(), to->layout(), distance, object_bytes)) return copy_from(from_data, from.layout());
  CASK_ASSIGN_OR_RETURN(const TensorView aside, from.Clone());
  return copy_from(aside.buffer()->data(), aside.layout());
}

// A copy from one element that all indices name.
template <typename T>
absl::Status Fill(const T& value, TensorView* to, const CopyOptions& options) {
  if (to->dtype() != kDTypeOf<T>) {
    return absl::InvalidArgumentError(
        absl::StrCat("Fill of ", to->ToString(), " with a ", DTypeName(kDTypeOf<T>), " value"));
  }
  if (to->num_elements() == 0) return absl::OkStatus();
  CASK_RETURN_IF_ERROR(CheckWritable(*to));
  CASK_RETURN_IF_ERROR(to->EnsureMutable());
  const T copy = value;  // `value` may lie in *to
  CASK_ASSIGN_OR_RETURN(const Layout repeated, Layout().AsStrided(to->dims(), DimVector(to->rank(), 0)));
  internal::CopyStrided(to->dtype(), &copy, repeated, to->buffer()->mutable_data(), to->layout(), Strided(options));
  return absl::OkStatus();
}

#define CASK_FILL(id, number, T, name) \
  template absl::Status Fill<T>(const T& value, TensorView* to, const CopyOptions& options);
CASK_FIXED_SIZE_DTYPES(CASK_FILL)
#undef CASK_FILL
template absl::Status Fill<std::string>(const std::string& value, TensorView* to, const CopyOptions& options);

}  // namespace tensorcask
