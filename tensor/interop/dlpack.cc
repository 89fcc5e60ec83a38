#include "tensorcask/tensor/interop/dlpack.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/tensor/base/bool_bytes.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/device.h"
#include "tensorcask/tensor/device_memory.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/interop/dlpack_abi.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/device_elements.h"
#include "tensorcask/tensor/strided/layout.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask {
namespace {

using dlpack::DLDataType;
using dlpack::DLManagedTensor;
using dlpack::DLManagedTensorVersioned;
using dlpack::DLTensor;
using internal::IsOnDevice;

template <typename Managed>
using ManagedPtr = std::unique_ptr<Managed, DLPackDeleter>;

struct DTypeCode {
  DType dtype;
  uint8_t code;
  uint8_t bits;
};

constexpr DTypeCode kDTypeCodes[] = {
    {DType::kInt8, dlpack::kDLInt, 8},
    {DType::kInt16, dlpack::kDLInt, 16},
    {DType::kInt32, dlpack::kDLInt, 32},
    {DType::kInt64, dlpack::kDLInt, 64},
    {DType::kInt4, dlpack::kDLInt, 4},
    {DType::kInt2, dlpack::kDLInt, 2},
    {DType::kUint8, dlpack::kDLUInt, 8},
    {DType::kUint16, dlpack::kDLUInt, 16},
    {DType::kUint32, dlpack::kDLUInt, 32},
    {DType::kUint64, dlpack::kDLUInt, 64},
    {DType::kUint4, dlpack::kDLUInt, 4},
    {DType::kUint2, dlpack::kDLUInt, 2},
    {DType::kFloat16, dlpack::kDLFloat, 16},
    {DType::kFloat32, dlpack::kDLFloat, 32},
    {DType::kFloat64, dlpack::kDLFloat, 64},
    {DType::kBfloat16, dlpack::kDLBfloat, 16},
    {DType::kComplex64, dlpack::kDLComplex, 64},
    {DType::kComplex128, dlpack::kDLComplex, 128},
    {DType::kBool, dlpack::kDLBool, 8},
    {DType::kFloat8E3m4, dlpack::kDLFloat8_e3m4, 8},
    {DType::kFloat8E4m3, dlpack::kDLFloat8_e4m3, 8},
    {DType::kFloat8E4m3b11fnuz, dlpack::kDLFloat8_e4m3b11fnuz, 8},
    {DType::kFloat8E4m3fn, dlpack::kDLFloat8_e4m3fn, 8},
    {DType::kFloat8E4m3fnuz, dlpack::kDLFloat8_e4m3fnuz, 8},
    {DType::kFloat8E5m2, dlpack::kDLFloat8_e5m2, 8},
    {DType::kFloat8E5m2fnuz, dlpack::kDLFloat8_e5m2fnuz, 8},
    {DType::kFloat8E8m0fnu, dlpack::kDLFloat8_e8m0fnu, 8},
    {DType::kFloat6E2m3, dlpack::kDLFloat6_e2m3fn, 6},
    {DType::kFloat6E3m2, dlpack::kDLFloat6_e3m2fn, 6},
    {DType::kFloat4E2m1, dlpack::kDLFloat4_e2m1fn, 4},
};

absl::Status Invalid(absl::string_view why) { return absl::InvalidArgumentError(absl::StrCat("DLPack tensor: ", why)); }
absl::Status Unsupported(absl::string_view why) { return absl::UnimplementedError(absl::StrCat("DLPack: ", why)); }

// ---- Out ------------------------------------------------------------------------------------------------------------

// What a consumer gets. manager_ctx points to this object, for the deleter. Dims and strides are those of the view's
// layout.
template <typename Managed>
struct Exported {
  Managed managed = {};
  TensorView view;
  RefPtr<RefCounted> memory;  // keeps the bytes at their address, even if the buffer moves to other memory
};

struct Prepared {
  TensorView view;
  RefPtr<RefCounted> memory = nullptr;  // if the consumer may write to it
  uint64_t flags = 0;
  DLDataType dtype = {};
};

absl::StatusOr<Prepared> Copied(const TensorView& view, Prepared prepared, const DLPackExportOptions& options) {
  RefPtr<Allocator> allocator = options.allocator;
  if (!allocator) allocator = IsOnDevice(view) ? view.buffer()->copy_allocator() : CpuAllocator::Default();
  CASK_ASSIGN_OR_RETURN(prepared.view, internal::CloneAcross(view, allocator));
  prepared.flags |= dlpack::kDLPackFlagIsCopied;
  return prepared;
}

// What the consumer will share, copied if need be. `has_flags`: of the versioned form.
absl::StatusOr<Prepared> Prepare(const TensorView& view, const DLPackExportOptions& options, bool has_flags) {
  const auto* const code = std::find_if(std::begin(kDTypeCodes), std::end(kDTypeCodes),
                                        [&](const DTypeCode& code) { return code.dtype == view.dtype(); });
  if (code == std::end(kDTypeCodes)) {
    return Unsupported(absl::StrCat("there is no dtype for ", DTypeName(view.dtype())));
  }
  Prepared prepared = {view, nullptr, 0, {code->code, code->bits, 1}};
  if (code->bits < 8) {
    if (!has_flags) {
      return Unsupported(
          absl::StrCat("the legacy form cannot express that ", DTypeName(view.dtype()), " uses one byte per element"));
    }
    prepared.flags |= dlpack::kDLPackFlagIsSubbyteTypePadded;
  }
  const bool is_on_device = view.buffer() && view.buffer()->kind() == TensorBuffer::Kind::kDevice;
  if (view.buffer() && !is_on_device) CASK_RETURN_IF_ERROR(view.buffer()->CheckReadable());
  if (options.copy == DLPackCopy::kAlways) return Copied(view, std::move(prepared), options);
  if (view.num_elements() == 0) return prepared;

  if (!options.read_only) {
    prepared.memory = view.buffer()->HoldWritableMemory();
    if (prepared.memory) return prepared;
  }
  if (!has_flags) {
    if (options.copy == DLPackCopy::kIfNeeded) return Copied(view, std::move(prepared), options);
    return absl::FailedPreconditionError(
        absl::StrCat("DLPack: the memory of ", view.ToString(),
                     " is read-only, which the legacy form cannot express, and a copy is not allowed"));
  }
  prepared.flags |= dlpack::kDLPackFlagReadOnly;
  return prepared;
}

// Makes the elements usable for work of the consumer: that of its stream, or any.
absl::Status OrderStreams(const TensorView& view, std::optional<int64_t> stream, bool stream_may_end) {
  if (!IsOnDevice(view)) return absl::OkStatus();
  DeviceMemory& memory = *view.buffer()->device_memory();
  if (!stream) return memory.Synchronize(memory.stream());
  CASK_RETURN_IF_ERROR(memory.Order(memory.stream(), *stream));
  return view.buffer()->RecordStream(stream_may_end ? kEveryStream : *stream);
}

template <typename Managed>
absl::StatusOr<ManagedPtr<Managed>> Export(const TensorView& shared, const DLPackExportOptions& options) {
  constexpr bool kHasFlags = std::is_same_v<Managed, DLManagedTensorVersioned>;
  CASK_ASSIGN_OR_RETURN(Prepared prepared, Prepare(shared, options, kHasFlags));
  CASK_RETURN_IF_ERROR(OrderStreams(prepared.view, options.stream, options.stream_may_end));
  auto* const exported = new Exported<Managed>{{}, std::move(prepared.view), nullptr};
  const TensorView& view = exported->view;
  Managed& managed = exported->managed;
  managed.manager_ctx = exported;
  managed.deleter = [](Managed* self) { delete static_cast<Exported<Managed>*>(self->manager_ctx); };
  if constexpr (kHasFlags) {
    managed.version = {dlpack::kMajorVersion, dlpack::kMinorVersion};
    managed.flags = prepared.flags;
  }
  DLTensor& tensor = managed.dl_tensor;
  if (view.num_elements() > 0) {
    const TensorBuffer& buffer = *view.buffer();
    const auto* const data = static_cast<const char*>(IsOnDevice(view) ? buffer.device_data() : buffer.data());
    tensor.data = const_cast<char*>(data + view.offset() * static_cast<int64_t>(view.element_size()));
    exported->memory = prepared.memory ? std::move(prepared.memory) : buffer.HoldMemory();
  }
  const Device device = view.buffer() ? view.buffer()->device() : Device();
  tensor.device = {static_cast<int32_t>(device.type), device.index};
  tensor.ndim = view.rank();
  tensor.dtype = prepared.dtype;
  tensor.shape = const_cast<int64_t*>(view.dims().data());
  tensor.strides = const_cast<int64_t*>(view.strides().data());
  return ManagedPtr<Managed>(&managed);
}

// ---- In -------------------------------------------------------------------------------------------------------------

struct Flags {
  bool writable;
  bool padded;  // elements under a byte take a whole one
};

// `memory`: of the allocator, null for the host.
absl::Status CheckDevice(dlpack::DLDevice device, const DeviceMemory* memory) {
  const auto type = static_cast<DeviceType>(CheckedCast<uint8_t>(device.device_type).value_or(0));
  const bool on_host = type == DeviceType::kCpu || type == DeviceType::kCudaHost || type == DeviceType::kRocmHost;
  const Device wanted = memory == nullptr ? Device() : memory->device();
  if (on_host ? memory == nullptr : wanted == Device{type, device.device_id}) return absl::OkStatus();
  return Unsupported(absl::StrCat("the data is on device ", device.device_id, " of type ", device.device_type, " (",
                                  DeviceTypeName(type), "), and the allocator gives memory of ", wanted.ToString()));
}

absl::StatusOr<DType> DTypeOfTensor(DLDataType dtype, bool padded) {
  const auto named = [&] {
    return absl::StrCat("code ", int{dtype.code}, ", ", int{dtype.bits}, " bits, ", dtype.lanes, " lanes");
  };
  if (dtype.lanes == 0) return Invalid(absl::StrCat("dtype of ", named()));
  if (dtype.lanes > 1) return Unsupported(absl::StrCat("vectors are not supported: dtype of ", named()));
  const auto* const code = std::find_if(std::begin(kDTypeCodes), std::end(kDTypeCodes), [&](const DTypeCode& code) {
    return code.code == dtype.code && code.bits == dtype.bits;
  });
  if (code == std::end(kDTypeCodes)) return Unsupported(absl::StrCat("unknown dtype of ", named()));
  if (dtype.bits < 8 && !padded) {
    return Unsupported(absl::StrCat("packed elements are not supported: ", DTypeName(code->dtype), " of ", named()));
  }
  return code->dtype;
}

// The layout of `tensor` counted from its lowest element: offset() is how many lie before the one of index 0.
absl::StatusOr<Layout> LayoutOf(const DLTensor& tensor) {
  if (tensor.ndim < 0 || tensor.ndim > TensorShape::kMaxRank) {
    return Invalid(absl::StrCat("rank ", tensor.ndim, "; 0 to ", TensorShape::kMaxRank, " are possible"));
  }
  const auto rank = static_cast<size_t>(tensor.ndim);
  if (tensor.shape == nullptr && rank > 0) return Invalid(absl::StrCat("rank ", rank, " and a null shape"));
  const absl::Span<const int64_t> dims(tensor.shape, rank);
  CASK_ASSIGN_OR_RETURN(const TensorShape shape, TensorShape::Create(dims));
  if (tensor.strides == nullptr) return Layout::RowMajor(shape);
  const absl::Span<const int64_t> strides(tensor.strides, rank);
  std::optional<int64_t> before = 0;
  if (shape.num_elements() > 0) {
    for (size_t axis = 0; axis < rank; ++axis) {
      if (strides[axis] >= 0) continue;
      const std::optional<int64_t> reach = CheckedMul(dims[axis] - 1, strides[axis]);
      before = reach && before ? CheckedSub(*before, *reach) : std::nullopt;
      if (!before) return Invalid(absl::StrCat("at axis ", axis, " positions are below -2^63"));
    }
  }
  return Layout::Create(dims, strides, *before);
}

// The bytes from the lowest to the highest element.
absl::StatusOr<absl::Span<char>> MemoryOf(const DLTensor& tensor, DType dtype, const Layout& layout) {
  if (tensor.data == nullptr) return Invalid(absl::StrCat(layout.num_elements(), " elements and null data"));
  const auto element_size = static_cast<int64_t>(ElementSize(dtype));
  const std::optional<int64_t> before = CheckedMul(layout.offset(), element_size);
  const std::optional<int64_t> size = CheckedMul(layout.bounds().end, element_size);
  const std::optional<uint64_t> first = CheckedAdd(reinterpret_cast<uint64_t>(tensor.data), tensor.byte_offset);
  if (before && size && first) {
    const std::optional<uint64_t> begin = CheckedSub(*first, static_cast<uint64_t>(*before));
    if (begin && *begin > 0 && CheckedAdd(*begin, static_cast<uint64_t>(*size))) {
      return absl::MakeSpan(reinterpret_cast<char*>(*begin), static_cast<size_t>(*size));
    }
  }
  return Invalid(absl::StrCat(DTypeName(dtype), " ", layout.ToString(), ", ", tensor.byte_offset,
                              " bytes from its data, leaves the address space"));
}

bool ElementsAreBools(const char* first, absl::Span<const int64_t> dims, absl::Span<const int64_t> strides) {
  if (dims.empty()) return AreBools({first, 1});
  const int64_t count = strides[0] == 0 ? 1 : dims[0];
  for (int64_t i = 0; i < count; ++i) {
    if (!ElementsAreBools(first + i * strides[0], dims.subspan(1), strides.subspan(1))) return false;
  }
  return true;
}

// Whether all elements are 0 or 1, in time that `memory` bounds: a small one may repeat its bytes without end. Bytes
// between the elements may be anything, unless there are fewer of them all than of elements.
bool HoldsBools(absl::Span<const char> memory, const Layout& layout) {
  if (AreBools({memory.data(), memory.size()})) return true;
  uint64_t visited = 1;
  for (int axis = 0; axis < layout.rank(); ++axis) {
    if (layout.stride(axis) != 0) visited *= static_cast<uint64_t>(layout.dim(axis));
  }
  return visited < memory.size() && ElementsAreBools(memory.data() + layout.offset(), layout.dims(), layout.strides());
}

// Why the memory cannot be used where it is; "" if it can. Of memory on a device only the address is looked at.
std::string WhyCopy(DType dtype, absl::Span<const char> memory, const Layout& layout, bool reads_bools) {
  const size_t alignment = ElementAlignment(dtype);
  if (reinterpret_cast<uintptr_t>(memory.data()) % alignment != 0) {
    return absl::StrCat("the address of its ", DTypeName(dtype), " elements is not a multiple of ", alignment);
  }
  if (reads_bools && !HoldsBools(memory, layout)) return "a byte of its bools is neither 0 nor 1";
  return "";
}

void CopyBytes(DType dtype, absl::Span<const char> from, char* to) {
  if (dtype == DType::kBool) {
    std::transform(from.begin(), from.end(), to, [](char byte) { return static_cast<char>(byte != 0); });
  } else {
    std::memcpy(to, from.data(), from.size());
  }
}

// A finished copy. `memory` is where the allocator allocates, but bools are on the host.
absl::StatusOr<RefPtr<TensorBuffer>> CopyOf(DType dtype, absl::Span<const char> memory,
                                            const RefPtr<Allocator>& allocator) {
  CASK_ASSIGN_OR_RETURN(RefPtr<TensorBuffer> copy, TensorBuffer::Allocate(memory.size(), allocator));
  DeviceMemory* const device = copy->device_memory();
  if (device == nullptr) {
    CopyBytes(dtype, memory, static_cast<char*>(copy->mutable_data()));
    return copy;
  }
  CASK_ASSIGN_OR_RETURN(void* const to, copy->MutableDeviceData());
  if (dtype != DType::kBool) {
    CASK_RETURN_IF_ERROR(device->CopyWithin(to, memory.data(), memory.size()));
    CASK_RETURN_IF_ERROR(device->Synchronize(device->stream()));
    return copy;
  }
  CASK_RETURN_IF_ERROR(device->Write(to, memory.size(), [&memory](absl::Span<char> piece) {
    CopyBytes(DType::kBool, memory.first(piece.size()), piece.data());
    memory.remove_prefix(piece.size());
    return absl::OkStatus();
  }));
  return copy;
}

template <typename Managed>
absl::StatusOr<TensorView> Import(ManagedPtr<Managed> managed, Flags flags, const DLPackImportOptions& options) {
  const RefPtr<Allocator>& allocator = options.allocator ? options.allocator : CpuAllocator::Default();
  const DLTensor& tensor = managed->dl_tensor;
  DeviceMemory* const device = allocator->device_memory();
  CASK_RETURN_IF_ERROR(CheckDevice(tensor.device, device));
  CASK_ASSIGN_OR_RETURN(const DType dtype, DTypeOfTensor(tensor.dtype, flags.padded));
  CASK_ASSIGN_OR_RETURN(Layout layout, LayoutOf(tensor));
  if (layout.num_elements() == 0) return TensorView::Create(nullptr, dtype, std::move(layout));
  CASK_ASSIGN_OR_RETURN(const absl::Span<char> memory, MemoryOf(tensor, dtype, layout));

  RefPtr<TensorBuffer> bools;  // bools of a device, on the host
  const bool is_output = options.is_output && options.copy == DLPackCopy::kNever;
  const bool reads_bools = dtype == DType::kBool && !is_output;
  if (device != nullptr && reads_bools) {
    CASK_ASSIGN_OR_RETURN(bools, TensorBuffer::Allocate(memory.size()));
    char* const to = static_cast<char*>(bools->mutable_data());
    CASK_RETURN_IF_ERROR(internal::ReadToHost(*device, memory.data(), absl::MakeSpan(to, memory.size())));
  }
  const absl::Span<const char> readable = bools ? absl::Span<const char>(bools->bytes()) : memory;
  const std::string why_copy = WhyCopy(dtype, readable, layout, reads_bools);
  if (options.copy == DLPackCopy::kAlways || !why_copy.empty()) {
    if (options.copy == DLPackCopy::kNever) return Invalid(absl::StrCat(why_copy, ", and a copy is not allowed"));
    CASK_ASSIGN_OR_RETURN(RefPtr<TensorBuffer> copy, CopyOf(dtype, readable, allocator));
    return TensorView::Create(std::move(copy), dtype, std::move(layout));
  }
  TensorBuffer::External external;
  external.data = memory.data();
  external.size_bytes = memory.size();
  external.writable = flags.writable;
  if (device != nullptr) external.kind = TensorBuffer::Kind::kDevice;
  external.release = [managed = managed.release()] { DLPackDeleter()(managed); };
  external.allocator = allocator;
  return TensorView::Create(TensorBuffer::WrapExternal(std::move(external)), dtype, std::move(layout));
}

}  // namespace

absl::StatusOr<DLPackPtr> ToDLPack(const TensorView& view, const DLPackExportOptions& options) {
  return Export<DLManagedTensorVersioned>(view, options);
}

absl::StatusOr<LegacyDLPackPtr> ToLegacyDLPack(const TensorView& view, const DLPackExportOptions& options) {
  return Export<DLManagedTensor>(view, options);
}

absl::StatusOr<TensorView> FromDLPack(DLManagedTensorVersioned* managed, const DLPackImportOptions& options) {
  if (managed == nullptr) return Invalid("the pointer is null");
  DLPackPtr owned(managed);
  if (managed->version.major != dlpack::kMajorVersion) {
    return Unsupported(absl::StrCat("version ", managed->version.major, ".", managed->version.minor,
                                    "; this build reads ", dlpack::kMajorVersion, ".x"));
  }
  const Flags flags = {(managed->flags & dlpack::kDLPackFlagReadOnly) == 0,
                       (managed->flags & dlpack::kDLPackFlagIsSubbyteTypePadded) != 0};
  return Import(std::move(owned), flags, options);
}

absl::StatusOr<TensorView> FromLegacyDLPack(DLManagedTensor* managed, const DLPackImportOptions& options) {
  if (managed == nullptr) return Invalid("the pointer is null");
  return Import(LegacyDLPackPtr(managed), {options.legacy_is_writable, /*padded=*/false}, options);
}

}  // namespace tensorcask
