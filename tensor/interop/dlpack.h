// Exchanges tensors with other libraries of the same process (NumPy, PyTorch, JAX, ...) through DLPack, without a copy.
//
//   absl::StatusOr<DLPackPtr> out = ToDLPack(view);                // shares the memory and keeps it alive
//   PyCapsule_New(out->release(), "dltensor_versioned", ...);      // the consumer calls the deleter once
//   absl::StatusOr<TensorView> in = FromDLPack(managed);           // owns `managed` from the call on, even on error
//   absl::StatusOr<TensorView> old = FromLegacyDLPack(legacy);     // capsules named "dltensor"
//
// There are two forms. The versioned form (DLPack 1.x) has a flag for read-only memory. The legacy form does not, so
// its consumers either never write (NumPy) or always may (others).
//
// The data is on the host, or on a device for which tensor/memory has an allocator. Each dtype of fixed size has a
// DLPack code, except the quantized ones; strings have none. Elements under a byte (int4, float6_e2m3, ...) use one
// byte each here, which only the versioned form can express.
//
// Strides count elements in both libraries, so every view can be exported: transposed, flipped (negative strides),
// broadcast (stride 0). Exported strides are always present, byte_offset is 0, and `data` points to the element of
// index 0 with the alignment of the view (null without elements). No library guarantees the 256-byte alignment that
// DLPack describes.
//
// Streams. Work on a tensor must start after the work that produced it. The consumer names its stream, and the producer
// makes that stream wait. Out: DLPackExportOptions::stream is the consumer's. In: the consumer's is the stream of
// DLPackImportOptions::allocator (DeviceMemory::stream()). A StreamId is not the number that Python's
// __dlpack__(stream=) takes: for CUDA that is CudaBackend::StreamHandle, and 1 for stream 0. CudaBackend::AdoptStream
// gives a stream of another library an id.
//
// Several threads may call these functions at once. A managed tensor may be released on any thread.
//
// Source: https://dmlc.github.io/dlpack/latest, and `copy` of __dlpack__ in the Python array API standard 2023.12.

#ifndef TENSORCASK_TENSOR_INTEROP_DLPACK_H_
#define TENSORCASK_TENSOR_INTEROP_DLPACK_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/interop/dlpack_abi.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask {

// Owns a managed tensor and calls its deleter, if it has one. After release(), the new owner must call it.
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
  bool read_only = false;  // export as read-only even if the memory is writable
  // Allocates a copy, on its own device or on the host. Null: the copy is where the view is.
  RefPtr<Allocator> allocator;
  // For memory of a device: the consumer's stream, an id of that device's backend. Work added to it later waits for the
  // work that is now on DeviceMemory::stream() of the memory. When the memory is freed, it is reused only after the
  // work that is then on the consumer's stream. nullopt: the function waits for DeviceMemory::stream(), and the
  // consumer finishes its work before it calls the deleter.
  std::optional<int64_t> stream;
  // The consumer may destroy its stream while it has the tensor. The memory is then reused after all work of the device
  // at the time of the reuse, instead of that of the stream at the time of the free.
  bool stream_may_end = false;
};

// Memory is exported with the read-only flag if `read_only` is set or if TensorBuffer::IsWritableInPlace() is false:
// mapped files, external memory wrapped read-only, memory shared with a LazyClone. The consumer sees later writes to
// the exporting tensor if they happen in place (the case of `read_only` alone), but not if a write copies first. To
// share such memory for writing, call TensorView::EnsureMutable() before the export. Other memory is shared for reading
// and writing in both directions. TensorBuffer::version() counts the export as one write, and does not count the
// consumer's writes. A LazyClone made after the export does not protect from the consumer's writes: use Clone.
//
// A copy is dense, in the order of MemoryFormat::kPreserve, writable even with `read_only`, and has the flag "is
// copied". Elements that the view repeats are repeated in the copy: bound num_elements() first if strides of 0 came
// from outside.
//
// Errors: Unimplemented for a dtype without a DLPack code; FailedPrecondition for a buffer without data;
// ResourceExhausted if the memory of a copy cannot be allocated; errors of the device, for example InvalidArgument for
// a stream that does not exist.
absl::StatusOr<DLPackPtr> ToDLPack(const TensorView& view, const DLPackExportOptions& options = {});

// The same in the legacy form. Read-only memory needs a copy here, because the form has no read-only flag and the
// consumer may write.
// Errors: those of ToDLPack; FailedPrecondition for read-only memory under kNever; Unimplemented for elements under a
// byte.
absl::StatusOr<LegacyDLPackPtr> ToLegacyDLPack(const TensorView& view, const DLPackExportOptions& options = {});

// ---- In -------------------------------------------------------------------------------------------------------------

struct DLPackImportOptions {
  DLPackCopy copy = DLPackCopy::kIfNeeded;
  // All elements will be written before one is read: under kNever, the bytes of bools are not checked.
  bool is_output = false;
  // Legacy tensors have no read-only flag. false: they are treated as read-only, and the first mutable access copies.
  bool legacy_is_writable = false;
  // Allocates a copy, now or at the first mutable access; null: CpuAllocator::Default(). Data on a device requires an
  // allocator of that device.
  RefPtr<Allocator> allocator = CpuAllocator::Default();
};

// The tensor of `managed`, which this function owns from the call on: the deleter is called exactly once, when the
// last user of the memory is gone, or before returning if the memory is not used (an error, a copy, no elements). For
// memory of a device it is called as `release` of TensorBuffer::External is, after the work that uses the memory. A
// null deleter is not called. If the major version differs, only the deleter is read. The pointers cannot be checked:
// the producer, a library of the same process, must pass valid ones. Everything else is checked.
//
// Null strides mean row-major. The memory of the view is the range between its lowest and highest element, because
// DLPack does not tell the size of the block. A tensor with the read-only flag is copied on the first mutable access.
// Unknown flags and other minor versions are ignored, as DLPack demands.
//
// A copy is needed for data that is not aligned to its elements, and for bools with a byte that is neither 0 nor 1
// (such bytes become 1). Bools are therefore read once on import, those of a device through a copy on the host, and the
// producer must not write other bytes later. A copy has the same strides, covers what the view covered and is writable.
// Memory of the types "cuda_host" and "rocm_host" is memory of the host.
//
// Errors: InvalidArgument if `managed` is null or its fields contradict each other: a negative rank or size, a rank
// above TensorShape::kMaxRank, a null shape or null data with elements, elements outside the address space, 0 lanes;
// InvalidArgument also if a copy is needed under kNever. Unimplemented, naming what was found, for another major
// version or dtype, for a device that is not the allocator's, for vectors (lanes above 1) and for packed elements under
// a byte. ResourceExhausted if the memory of a copy cannot be allocated. Errors of the device.
absl::StatusOr<TensorView> FromDLPack(dlpack::DLManagedTensorVersioned* managed,
                                      const DLPackImportOptions& options = {});

// The same for the legacy form, which has no version and no flags: elements under a byte are packed.
absl::StatusOr<TensorView> FromLegacyDLPack(dlpack::DLManagedTensor* managed, const DLPackImportOptions& options = {});

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_INTEROP_DLPACK_H_
