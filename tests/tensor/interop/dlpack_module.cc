// A shared library with a C interface for numpy_test.py: views behind pointers, and legacy DLPack both ways. What
// returns a pointer returns null on an error, of which cask_error() is the text.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/interop/dlpack.h"
#include "tensorcask/tensor/interop/dlpack_abi.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask {
namespace {

std::string last_error;

template <typename T>
bool Failed(const absl::StatusOr<T>& result) {
  if (!result.ok()) last_error = result.status().ToString();
  return !result.ok();
}

TensorView* Made(absl::StatusOr<TensorView> view) { return Failed(view) ? nullptr : new TensorView(*std::move(view)); }

absl::StatusOr<TensorView> FromBytes(const char* dtype_name, int rank, const int64_t* dims, const void* bytes,
                                     size_t size_bytes) {
  const absl::StatusOr<DType> dtype = ParseDType(dtype_name);
  if (!dtype.ok()) return dtype.status();
  const absl::StatusOr<TensorShape> shape = TensorShape::Create({dims, static_cast<size_t>(rank)});
  if (!shape.ok()) return shape.status();
  absl::StatusOr<Tensor> tensor = Tensor::Create(*dtype, *shape);
  if (!tensor.ok()) return tensor.status();
  if (tensor->bytes().size() != size_bytes) return absl::InvalidArgumentError("these are other bytes");
  if (size_bytes > 0) std::memcpy(tensor->mutable_bytes().data(), bytes, size_bytes);
  return TensorView(*tensor);
}

}  // namespace
}  // namespace tensorcask

using namespace tensorcask;  // NOLINT(google-build-using-namespace): the functions below are C's

extern "C" {

const char* cask_error() { return last_error.c_str(); }

TensorView* cask_make(const char* dtype, int rank, const int64_t* dims, const void* bytes, size_t size_bytes) {
  return Made(FromBytes(dtype, rank, dims, bytes, size_bytes));
}
TensorView* cask_transpose(const TensorView* view) { return Made(view->Transpose(0, 1)); }
TensorView* cask_flip(const TensorView* view, int64_t axis) { return Made(view->Flip({axis})); }
TensorView* cask_expand(const TensorView* view, int rank, const int64_t* dims) {
  return Made(view->Expand({dims, static_cast<size_t>(rank)}));
}
TensorView* cask_step(const TensorView* view, int64_t axis, int64_t step) {
  return Made(view->Slice(axis, std::nullopt, std::nullopt, step));
}
void cask_delete(TensorView* view) { delete view; }

// "float32 [2,3] strides [3,1] offset 0".
const char* cask_text(const TensorView* view) {
  static std::string text;
  text = view->ToString();
  return text.c_str();
}
int64_t cask_owners(const TensorView* view) { return view->buffer() ? view->buffer()->use_count() : 0; }

// The address of the element of index 0.
const void* cask_data(const TensorView* view) {
  if (view->num_elements() == 0) return nullptr;
  return static_cast<const char*>(view->buffer()->data()) + view->offset() * static_cast<int64_t>(view->element_size());
}
// The same after making the memory writable.
const void* cask_writable_data(TensorView* view) {
  const absl::Status status = view->EnsureMutable();
  if (status.ok()) return cask_data(view);
  last_error = status.ToString();
  return nullptr;
}
// The elements, row-major, to `size_bytes` bytes at `out`; false if they are not so many.
bool cask_bytes(const TensorView* view, void* out, size_t size_bytes) {
  const absl::StatusOr<Tensor> dense = view->ToTensor();
  if (Failed(dense) || dense->bytes().size() != size_bytes) return false;
  if (size_bytes > 0) std::memcpy(out, dense->bytes().data(), size_bytes);
  return true;
}

// `copy`: the number of a DLPackCopy.
dlpack::DLManagedTensor* cask_to_legacy(const TensorView* view, int copy) {
  DLPackExportOptions options;
  options.copy = static_cast<DLPackCopy>(copy);
  absl::StatusOr<LegacyDLPackPtr> managed = ToLegacyDLPack(*view, options);
  return Failed(managed) ? nullptr : managed->release();
}
TensorView* cask_from_legacy(dlpack::DLManagedTensor* managed, int copy, bool is_writable) {
  DLPackImportOptions options;
  options.copy = static_cast<DLPackCopy>(copy);
  options.legacy_is_writable = is_writable;
  return Made(FromLegacyDLPack(managed, options));
}
void cask_release_legacy(dlpack::DLManagedTensor* managed) { DLPackDeleter()(managed); }

}  // extern "C"
