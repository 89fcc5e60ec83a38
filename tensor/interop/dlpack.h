// Tensors to and from other libraries of the same process (NumPy, PyTorch, JAX, ...) through DLPack, without a copy.
//
//   absl::StatusOr<DLPackPtr> out = ToDLPack(view);                // shares the memory and keeps it alive
//   PyCapsule_New(out->release(), "dltensor_versioned", ...);      // whoever has the pointer calls its deleter, once
//   absl::StatusOr<TensorView> in = FromDLPack(managed);           // takes `managed` over, also on an error
//   absl::StatusOr<TensorView> old = FromLegacyDLPack(managed);    // capsules named "dltensor"
//
// There are two forms. The versioned one (DLPack 1.x) can say that memory must not be written; the legacy one cannot,
// so its consumers either never write (NumPy) or always may (others).
//
// Data live on the host: device type 1 ("cpu") with any index. Each dtype of fixed size has its DLPack code, except the
// quantized ones; strings have none. Elements under a byte (int4, float6_e2m3, ...) take a byte each here, which only
// the versioned form can say.
//
// Strides count elements here as there, so any view passes as it is: transposed, flipped (negative strides), broadcast
// (stride 0). Exported strides are always filled in, byte_offset is 0, and `data` is the element of index 0 at whatever
// alignment the view has (null without elements); DLPack's nominal 256 bytes are promised by no library.
//
// Functions are safe together. A managed tensor may be released on any thread.
//
// Source: https://dmlc.github.io/dlpack/latest, and `copy` of __dlpack__ in the Python array API standard 2023.12.

#ifndef TENSORCASK_TENSOR_INTEROP_DLPACK_H_
#define TENSORCASK_TENSOR_INTEROP_DLPACK_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/interop/dlpack_abi.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask {

// Owns a managed tensor: calls its deleter, if it has one. release() hands it to somebody who will.
struct DLPackDeleter {
  template <typename Managed>
  void operator()(Managed* managed) const {
    if (managed->deleter != nullptr) managed->deleter(managed);
  }
};
using DLPackPtr = std::unique_ptr<dlpack::DLManagedTensorVersioned, DLPackDeleter>;
using LegacyDLPackPtr = std::unique_ptr<dlpack::DLManagedTensor, DLPackDeleter>;

enum class DLPackCopy : uint8_t {
  kNever,     // share the memory, or fail
  kIfNeeded,  // share it unless something below says "needs a copy"
  kAlways,
};

// ---- Out ------------------------------------------------------------------------------------------------------------

struct DLPackExportOptions {
  DLPackCopy copy = DLPackCopy::kIfNeeded;
  bool read_only = false;                                 // also where the memory could be written
  RefPtr<Allocator> allocator = CpuAllocator::Default();  // of a copy
};

// Memory is read-only if `read_only` says so or if TensorBuffer::IsWritableInPlace() is false: mapped files, external
// memory wrapped read-only, memory shared with a LazyClone. It then carries the read-only flag. What is written to our
// tensor later is seen through it where that happens in place (`read_only` alone), and not where a write copies first.
// To share such memory for writing call TensorView::EnsureMutable() before. Memory that is not read-only is shared for
// reading and writing both ways, and TensorBuffer::version() counts the export as a write, but no later one by others.
// A LazyClone made while a consumer has it is not protected from the consumer's writes: Clone instead.
//
// A copy is dense, in the order of MemoryFormat::kPreserve, and writable whatever `read_only` says; it has the flag
// "is copied". It repeats what the view repeats: bound num_elements() first if strides of 0 came from outside.
//
// Errors: Unimplemented for a dtype without a DLPack code; FailedPrecondition for a buffer without data;
// ResourceExhausted if the memory of a copy cannot be had.
absl::StatusOr<DLPackPtr> ToDLPack(const TensorView& view, const DLPackExportOptions& options = {});

// The same in the legacy form. Read-only memory needs a copy here, as the consumer cannot be told and may write.
// Errors: as above; FailedPrecondition for read-only memory under kNever; Unimplemented for elements under a byte.
absl::StatusOr<LegacyDLPackPtr> ToLegacyDLPack(const TensorView& view, const DLPackExportOptions& options = {});

// ---- In -------------------------------------------------------------------------------------------------------------

struct DLPackImportOptions {
  DLPackCopy copy = DLPackCopy::kIfNeeded;
  // Legacy tensors do not say whether they may be written. false: they may not, and the first mutable access copies.
  bool legacy_is_writable = false;
  RefPtr<Allocator> allocator = CpuAllocator::Default();  // of a copy, now or at the first mutable access
};

// The tensor behind `managed`, which belongs to this function from the call on: the deleter is called exactly once,
// when the last user of the memory is gone, or before returning if nothing of it is used (an error, a copy, no
// elements). A null deleter is not called. Of another major version nothing but the deleter is touched. Whether the
// pointers lead to memory cannot be checked: the producer, a neighbour in this process, is believed that much and no
// more.
//
// Null strides mean row-major. The memory of the view is what lies between its lowest and highest element: how much the
// producer has around them is not told. A tensor flagged read-only is copied on the first mutable access. Unknown flags
// and other minor versions are ignored, as DLPack asks.
//
// Needs a copy: data that are not aligned to their elements, and bools of which a byte is neither 0 nor 1 (those become
// 1). So bools are read once on import, and nobody may write other bytes later. A copy has the same strides, covers
// what the view covered and is writable.
//
// Errors: InvalidArgument if `managed` is null or its fields disagree: a negative rank or size, a rank above
// TensorShape::kMaxRank, null shape or data where there must be some, elements outside the address space, 0 lanes, and
// what needs a copy under kNever. Unimplemented, naming what was found, for another major version, device or dtype, for
// vectors (lanes above 1) and for elements under a byte that are packed. ResourceExhausted if the memory of a copy
// cannot be had.
absl::StatusOr<TensorView> FromDLPack(dlpack::DLManagedTensorVersioned* managed,
                                      const DLPackImportOptions& options = {});

// The same of the legacy form, which has no version and no flags: elements under a byte are packed.
absl::StatusOr<TensorView> FromLegacyDLPack(dlpack::DLManagedTensor* managed, const DLPackImportOptions& options = {});

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_INTEROP_DLPACK_H_
