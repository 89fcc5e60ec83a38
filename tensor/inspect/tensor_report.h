// A report on one tensor: geometry, memory, reference counts and metadata, as text or JSON.
//
//   MakeReport(*view.Transpose(0, 1)).ToText()
//
//   float32 [3,2] strides [1,3] offset 0
//     elements  6 of 4 bytes, 24 bytes together
//     storage   24 bytes, 1 x the elements
//     order     dense, not contiguous; suggests contiguous
//     overlap   none
//     buffer    bytes from allocator "cpu", bytes 0 to 24 of its root; version 0
//     counts    buffer 2, root 2; shared
//     writing   in place
//     metadata  name "", device cpu, memory_format contiguous, requires_grad false, attributes {}
//
// Equal fields give equal text and JSON, byte for byte. Addresses, which differ from run to run, are added only on
// request. Making a report does not change the reference counts. Text from files is escaped.

#ifndef TENSORCASK_TENSOR_INSPECT_TENSOR_REPORT_H_
#define TENSORCASK_TENSOR_INSPECT_TENSOR_REPORT_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/compat/handle.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/strided/memory_format.h"
#include "tensorcask/tensor/strided/metadata.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask {

// The memory.
struct BufferReport {
  TensorBuffer::Kind kind = TensorBuffer::Kind::kBytes;
  std::string allocator;  // "" if it is not known
  const void* address = nullptr;
  size_t size_bytes = 0;
  size_t offset_bytes = 0;  // from the start of the root
  size_t root_bytes = 0;    // the memory that is kept alive
  int64_t use_count = 0;
  int64_t root_use_count = 0;  // the references to the root: one per sub-buffer, and one per user of the whole
  uint64_t version = 0;
  bool exclusive = false;          // the memory is not shared (TensorBuffer::IsExclusive)
  bool writable_in_place = false;  // the next write copies nothing: not read-only, not shared with a lazy clone
};

// The object that handles share.
struct ObjectReport {
  int64_t use_count = 0;
  int64_t weak_use_count = 0;  // weak handles, plus 1
  bool frozen = false;
};

struct TensorReport {
  enum class Addresses : uint8_t { kHide, kShow };

  DType dtype = DType::kFloat32;
  std::vector<int64_t> dims;
  std::vector<int64_t> strides;  // elements
  int64_t offset = 0;            // elements
  int64_t num_elements = 0;
  int64_t element_bytes = 0;            // strings: the object without its characters
  std::optional<int64_t> tensor_bytes;  // num_elements of element_bytes; empty past int64_t (views may repeat elements)
  bool contiguous = false;
  bool channels_last_2d = false;
  bool channels_last_3d = false;
  bool dense = false;     // Layout::IsNonOverlappingAndDense
  bool overlaps = false;  // Layout::HasInternalOverlap
  MemoryFormat suggested_format = MemoryFormat::kContiguous;
  std::optional<BufferReport> buffer;  // empty without elements
  std::optional<ObjectReport> object;  // set for handles only
  TensorMetadata metadata;             // that of a handle; default for tensors and views

  // Bytes kept alive per byte of the elements: 1 for a tensor that uses its whole memory, 100 for one row of a hundred,
  // less than 1 if elements repeat. Empty without elements, and if tensor_bytes is empty.
  std::optional<double> waste_ratio() const;

  // Without a trailing line end.
  std::string ToText(Addresses addresses = Addresses::kHide) const;
  // One JSON object in one line, with the names above. Empty fields are null. If a name, or a key or value of an
  // attribute, is not UTF-8, each wrong byte is replaced by U+FFFD, and a second field "..._hex" has the exact bytes in
  // hex.
  std::string ToJson(Addresses addresses = Addresses::kHide) const;
};

TensorReport MakeReport(const Tensor& tensor);
TensorReport MakeReport(const TensorView& view);
// Error: FailedPrecondition for an undefined handle.
absl::StatusOr<TensorReport> CreateReport(const TensorHandle& handle);

// "bytes", "elements", "scalar", "external", "mapped", "no_data".
absl::string_view BufferKindName(TensorBuffer::Kind kind);

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_INSPECT_TENSOR_REPORT_H_
