#include "tensorcask/python/src/arrays.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/python/src/base/errors.h"
#include "tensorcask/python/src/base/interrupts.h"
#include "tensorcask/python/src/base/text.h"
#include "tensorcask/python/src/bindings.h"
#include "tensorcask/python/src/devices.h"
#include "tensorcask/python/src/numpy_dtypes.h"
#include "tensorcask/python/src/tensor_object.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/device.h"
#include "tensorcask/tensor/interop/dlpack.h"
#include "tensorcask/tensor/strided/layout.h"
#include "tensorcask/tensor/tensor.h"

namespace nb = nanobind;

namespace tensorcask::python {
namespace {

// ---- Out ------------------------------------------------------------------------------------------------------------

// Memory of a tensor with the buffer protocol: the base of the arrays that ToNumpy makes.
struct Memory {
  RefPtr<TensorBuffer> buffer;
  RefPtr<RefCounted> hold;  // of what `data` points to, if the buffer moves to other memory
  void* data = nullptr;
  size_t size_bytes = 0;
  bool writable = false;
};

int GetBuffer(PyObject* self, Py_buffer* buffer, int flags) {
  const Memory* const memory = nb::inst_ptr<Memory>(self);
  return PyBuffer_FillInfo(buffer, self, memory->data, static_cast<Py_ssize_t>(memory->size_bytes),
                           memory->writable ? 0 : 1, flags);
}

PyType_Slot kMemorySlots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(GetBuffer)}, {0, nullptr}};

Memory MemoryOf(const TensorView& view) {
  const TensorView::ByteRange bounds = view.bounds();
  Memory memory;
  memory.buffer = view.buffer();
  memory.hold = view.buffer()->HoldWritableMemory();
  memory.writable = memory.hold != nullptr;
  if (!memory.writable) memory.hold = view.buffer()->HoldMemory();
  memory.data = const_cast<char*>(static_cast<const char*>(view.buffer()->data()) + bounds.begin);
  memory.size_bytes = bounds.end - bounds.begin;
  return memory;
}

nb::object StringsToNumpy(const TensorView& view) {
  const Tensor dense = Take(view.ToTensor());
  nb::list values;
  for (int64_t i = 0; i < dense.num_elements(); ++i) values.append(ToBytes(dense.data<std::string>()[i]));
  const nb::object array = Numpy().attr("empty")(ToTuple(view.dims()), ToNumpyDType(DType::kString));
  if (view.rank() == 0) {
    array[nb::tuple()] = values[0];
  } else if (dense.num_elements() > 0) {
    const nb::object flat = array.attr("reshape")(-1);
    flat[nb::slice(nb::none(), nb::none(), nb::none())] = values;
  }
  return array;
}

// ---- In: the buffer protocol ----------------------------------------------------------------------------------------

// A buffer of Python's as a DLPack tensor, so that one function checks what comes from outside (FromDLPack).
struct ManagedBuffer {
  dlpack::DLManagedTensorVersioned managed{};
  Py_buffer buffer{};
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;
};

void ReleaseBuffer(dlpack::DLManagedTensorVersioned* managed) {
  auto* const owner = static_cast<ManagedBuffer*>(managed->manager_ctx);
  if (!CanTakeGil()) return;  // the process ends: the memory stays
  const nb::gil_scoped_acquire acquire;
  PyObject *type, *value, *traceback;  // an exception of this thread must stay
  PyErr_Fetch(&type, &value, &traceback);
  PyBuffer_Release(&owner->buffer);
  PyErr_Restore(type, value, traceback);
  delete owner;
}

dlpack::DLDataType IntegersOf(DType dtype) {
  const auto bits = static_cast<uint8_t>(8 * ElementSize(dtype));
  if (dtype == DType::kBool) return {dlpack::kDLBool, 8, 1};
  if (IsComplex(dtype)) return {dlpack::kDLComplex, bits, 1};
  if (IsFloating(dtype)) return {dlpack::kDLFloat, bits, 1};
  const bool is_unsigned =
      dtype == DType::kUint8 || dtype == DType::kUint16 || dtype == DType::kUint32 || dtype == DType::kUint64;
  return {static_cast<uint8_t>(is_unsigned ? dlpack::kDLUInt : dlpack::kDLInt), bits, 1};
}

// Null if the strides in bytes are no multiples of the element size.
std::unique_ptr<ManagedBuffer> LendBuffer(nb::handle array, DType dtype, Access access) {
  auto owner = std::make_unique<ManagedBuffer>();
  Py_buffer& buffer = owner->buffer;
  if (PyObject_GetBuffer(array.ptr(), &buffer, PyBUF_STRIDES) != 0) throw nb::python_error();
  const auto element_size = static_cast<Py_ssize_t>(ElementSize(dtype));
  bool expressible = buffer.itemsize == element_size;
  for (int axis = 0; axis < buffer.ndim; ++axis) {
    owner->shape.push_back(buffer.shape[axis]);
    // The stride of an axis with one element means nothing, and may be anything.
    const Py_ssize_t stride = buffer.shape[axis] > 1 ? buffer.strides[axis] : element_size;
    expressible = expressible && stride % element_size == 0;
    owner->strides.push_back(stride / element_size);
  }
  if (!expressible) {
    PyBuffer_Release(&buffer);
    return nullptr;
  }
  dlpack::DLManagedTensorVersioned& managed = owner->managed;
  managed.version = {dlpack::kMajorVersion, dlpack::kMinorVersion};
  managed.manager_ctx = owner.get();
  managed.deleter = &ReleaseBuffer;
  managed.flags = buffer.readonly != 0 || access != Access::kWrite ? dlpack::kDLPackFlagReadOnly : 0;
  managed.dl_tensor = {buffer.buf, {1, 0}, buffer.ndim, IntegersOf(dtype), owner->shape.data(), owner->strides.data(),
                       0};
  return owner;
}

DLPackImportOptions ImportOptions(Access access, std::optional<Device> gpu = std::nullopt) {
  DLPackImportOptions options;
  options.is_output = access == Access::kWrite;
  if (options.is_output) options.copy = DLPackCopy::kNever;
  options.legacy_is_writable = options.is_output;
  if (gpu.has_value()) options.allocator = Take(GpuAllocator(*gpu));
  return options;
}

TensorView TakeImported(absl::StatusOr<TensorView> view, const std::string& what, Access access) {
  if (!view.ok()) Raise(Annotate(view.status(), what));
  if (access == Access::kWrite && view->num_elements() > 0 && !view->buffer()->IsWritableInPlace()) {
    Raise(absl::InvalidArgumentError(absl::StrCat(what, ": the array is read-only")));
  }
  return *std::move(view);
}

[[noreturn]] void RaiseType(const std::string& what, nb::handle object, const char* problem) {
  const nb::object text = ToText(what);  // it has the name of a tensor: no part of the format
  PyErr_Format(PyExc_TypeError, "%U: %s, not %R", text.ptr(), problem, object.ptr());
  throw nb::python_error();
}

bool IsInstance(nb::handle object, const nb::object& module, const char* type) {
  if (module.is_none() || !nb::hasattr(module, type)) return false;
  const int result = PyObject_IsInstance(object.ptr(), module.attr(type).ptr());
  if (result < 0) throw nb::python_error();
  return result != 0;
}

// ---- In: text -------------------------------------------------------------------------------------------------------

TensorView FromTextArray(nb::handle array, const std::string& what) {
  std::vector<int64_t> dims;
  for (const nb::handle dim : nb::iter(array.attr("shape"))) dims.push_back(nb::cast<int64_t>(dim));
  Tensor tensor = Take(Tensor::Create(DType::kString, Take(TensorShape::Create(dims))));
  const nb::object values = array.attr("reshape")(-1).attr("tolist")();
  int64_t i = 0;
  for (const nb::handle value : nb::iter(values)) {
    if (!PyUnicode_Check(value.ptr()) && !PyBytes_Check(value.ptr())) {
      RaiseType(what, value.type(), "elements of an array of objects must be str or bytes");
    }
    if (i >= tensor.num_elements()) break;
    tensor.mutable_data<std::string>()[i++] = FromText(value, "an element");
  }
  return tensor;
}

// ---- In: NumPy ------------------------------------------------------------------------------------------------------

bool IsMasked(nb::handle array) { return IsInstance(array, ImportedModule("numpy.ma"), "MaskedArray"); }

TensorView FromNumpy(nb::object array, const std::string& what, Access access) {
  if (IsMasked(array)) {
    RaiseType(what, array.type(), "tensors have no mask; pass array.filled(), or array.data with all elements");
  }
  const nb::object dtype = array.attr("dtype");
  const NumpyElements elements = FromNumpyDType(dtype);
  if (!elements.dtype.has_value()) RaiseType(what, dtype, "tensors can have a dtype of numbers, bool or text");
  if (access == Access::kWrite && (elements.is_text || elements.is_swapped)) {
    RaiseType(what, dtype, "only numbers in the byte order of this machine can be read into an array");
  }
  if (elements.is_text) return FromTextArray(array, what);
  if (elements.carrier != nullptr) {
    array = array.attr("view")(Numpy().attr("dtype")(elements.carrier).attr("newbyteorder")(dtype.attr("byteorder")));
  }
  if (elements.is_swapped) array = array.attr("astype")(array.attr("dtype").attr("newbyteorder")("="));
  const DType lent = elements.carrier != nullptr ? elements.carrier_dtype : *elements.dtype;
  std::unique_ptr<ManagedBuffer> buffer = LendBuffer(array, lent, access);
  if (buffer == nullptr) {
    if (access == Access::kWrite) {
      Raise(absl::InvalidArgumentError(absl::StrCat(what, ": a stride is no multiple of the element size")));
    }
    buffer = LendBuffer(Numpy().attr("array")(array), lent, access);
  }
  TensorView view = TakeImported(FromDLPack(&buffer.release()->managed, ImportOptions(access)), what, access);
  return elements.carrier == nullptr ? view : Take(view.Bitcast(*elements.dtype));
}

// ---- In: DLPack -----------------------------------------------------------------------------------------------------

template <typename Managed>
Managed* TakeCapsule(nb::handle capsule, const char* name, const char* used_name) {
  void* const pointer = PyCapsule_GetPointer(capsule.ptr(), name);
  if (pointer == nullptr || PyCapsule_SetName(capsule.ptr(), used_name) != 0) throw nb::python_error();
  return static_cast<Managed*>(pointer);
}

// While it lives, a GPU is the current one of a framework, whose __dlpack__ and copies look at that alone.
class CurrentGpu {
 public:
  CurrentGpu(const nb::object& module, std::optional<Device> gpu) {
    if (module.is_none() || !gpu.has_value()) return;
    const bool is_torch = TextOf(module.attr("__name__")) == "torch";
    scope_ = module.attr("cuda").attr(is_torch ? "device" : "Device")(gpu->index);
    scope_.attr("__enter__")();
  }
  ~CurrentGpu() {
    if (!scope_.is_valid()) return;
    PyObject *type, *value, *traceback;  // an exception of this thread must stay
    PyErr_Fetch(&type, &value, &traceback);
    PyObject* const left = PyObject_CallMethod(scope_.ptr(), "__exit__", "OOO", Py_None, Py_None, Py_None);
    if (left == nullptr) PyErr_Clear();
    Py_XDECREF(left);
    PyErr_Restore(type, value, traceback);
  }
  CurrentGpu(const CurrentGpu&) = delete;
  CurrentGpu& operator=(const CurrentGpu&) = delete;

 private:
  nb::object scope_;
};

// With an allocator of a GPU, the work that the object's library has added so far comes before ours.
nb::object CallDLPack(nb::handle object, const DLPackImportOptions& options) {
  const nb::object method = object.attr("__dlpack__");
  nb::dict arguments;
  if (options.allocator->device_memory() != nullptr) arguments["stream"] = StreamNumber(options.allocator);
  std::vector<nb::dict> forms = {arguments};  // an object from before DLPack 1.0 knows no more
  const auto add_form = [&](const char* name, const nb::object& value) {
    forms.push_back(nb::borrow<nb::dict>(nb::object(forms.back().attr("copy")())));
    forms.back()[name] = value;
  };
  add_form("max_version", nb::make_tuple(dlpack::kMajorVersion, dlpack::kMinorVersion));
  if (options.copy == DLPackCopy::kNever) add_form("copy", nb::borrow(Py_False));
  for (; forms.size() > 1; forms.pop_back()) {
    try {
      return method(**forms.back());
    } catch (nb::python_error& error) {
      if (!error.matches(PyExc_TypeError)) throw;
    }
  }
  return method(**forms.back());
}

TensorView FromDLPackObject(nb::handle object, const std::string& what, Access access,
                            std::optional<Device> gpu = std::nullopt) {
  const DLPackImportOptions options = ImportOptions(access, gpu);
  const nb::object capsule = CallDLPack(object, options);
  absl::StatusOr<TensorView> view;
  // Bools of a GPU are read, after work that may need the GIL.
  const auto import = [&](auto&& fn) { return gpu.has_value() ? WithoutGil(fn) : fn(); };
  constexpr char kVersioned[] = "dltensor_versioned";
  if (PyCapsule_IsValid(capsule.ptr(), kVersioned) != 0) {
    const void* const lent = PyCapsule_GetPointer(capsule.ptr(), kVersioned);
    const uint64_t flags = static_cast<const dlpack::DLManagedTensorVersioned*>(lent)->flags;
    if (access == Access::kWrite && (flags & dlpack::kDLPackFlagIsCopied) != 0) {
      Raise(absl::InvalidArgumentError(absl::StrCat(what, ": the array gives a copy of its elements to write to")));
    }
    auto* const managed = TakeCapsule<dlpack::DLManagedTensorVersioned>(capsule, kVersioned, "used_dltensor_versioned");
    view = import([&] { return FromDLPack(managed, options); });
  } else {
    auto* const managed = TakeCapsule<dlpack::DLManagedTensor>(capsule, "dltensor", "used_dltensor");
    view = import([&] { return FromLegacyDLPack(managed, options); });
  }
  return TakeImported(std::move(view), what, access);
}

// ---- In: memory of GPUs ---------------------------------------------------------------------------------------------

// True if the library can use the memory of this GPU where it is.
bool CanReach(std::optional<Device> gpu) {
  return gpu.has_value() && WithoutGil([&] { return GpuAllocator(*gpu); }).ok();
}

bool IsFullMemory(const nb::python_error& error, const nb::object& module) {
  if (error.matches(PyExc_MemoryError)) return true;  // CuPy's is one
  return !module.is_none() && nb::hasattr(module, "OutOfMemoryError") && error.matches(module.attr("OutOfMemoryError"));
}

// copy() on a GPU, or if its memory is full `to_host`(). `module`: of the array.
template <typename Copy, typename ToHost>
nb::object CopyWhereItFits(const nb::object& module, Copy&& copy, ToHost&& to_host) {
  try {
    return copy();
  } catch (nb::python_error& error) {
    if (!IsFullMemory(error, module)) throw;
  }
  return to_host();
}

// A view of elements on a GPU, as `access` wants it. Requires: the array does not change any more, for kSnapshot.
TensorView WhereWanted(const TensorView& view, Access access) {
  if (access == Access::kWrite || (access != Access::kRead && view.IsContiguous())) return view;
  return OnHost(view);
}

// ---- In: PyTorch ----------------------------------------------------------------------------------------------------

std::optional<Device> GpuOfTorch(nb::handle tensor) {
  const nb::object device = tensor.attr("device");
  if (TextOf(device.attr("type")) != "cuda") return std::nullopt;  // __dlpack_device__ raises for some other types
  return Device{DeviceType::kCuda, nb::cast<int>(device.attr("index"))};
}

// A tensor that DLPack can pass on: without its history, its bits in memory, where `access` wants it.
nb::object PlainTorchTensor(nb::object tensor, const std::string& what, Access access) {
  tensor = tensor.attr("detach")();
  const bool is_on_host = TextOf(tensor.attr("device").attr("type")) == "cpu";
  const bool is_lazy = nb::cast<bool>(tensor.attr("is_conj")()) || nb::cast<bool>(tensor.attr("is_neg")());
  const std::optional<Device> gpu = GpuOfTorch(tensor);
  const bool stays = is_on_host || (access != Access::kRead && CanReach(gpu));
  if (access == Access::kWrite) {
    if (is_lazy) {
      Raise(absl::InvalidArgumentError(absl::StrCat(
          what, ": the tensor is conjugated or negated lazily; pass tensor.resolve_conj().resolve_neg()")));
    }
    if (!stays) {
      const std::string device = TextOf(tensor.attr("device"));
      const absl::Status why = gpu.has_value() ? GpuAllocator(*gpu).status() : absl::OkStatus();
      Raise(absl::InvalidArgumentError(absl::StrCat(what, ": the tensor is on ", device,
                                                    ", to which the library cannot read",
                                                    why.ok() ? "" : absl::StrCat(" (", why.message(), ")"))));
    }
    return tensor;
  }
  if (is_lazy) tensor = tensor.attr("resolve_conj")().attr("resolve_neg")();
  if (is_on_host) return tensor;
  const auto to_host = [&] { return tensor.attr("cpu")(); };
  if (!stays) return to_host();
  const char* const copy = access == Access::kSnapshot ? "clone" : "contiguous";
  const nb::object torch = ImportedModule("torch");
  return CopyWhereItFits(
      torch, [&] { return tensor.attr(copy)(nb::arg("memory_format") = torch.attr("contiguous_format")); }, to_host);
}

// PyTorch before 2.9 has no DLPack codes for its float8 dtypes.
TensorView FromTorch(nb::object tensor, const std::string& what, Access access) {
  tensor = PlainTorchTensor(std::move(tensor), what, access);
  const std::string name = TextOf(tensor.attr("dtype"));  // "torch.float8_e4m3fn"
  const std::optional<Device> gpu = GpuOfTorch(tensor);
  const CurrentGpu current(ImportedModule("torch"), gpu);
  if (name.rfind("torch.float8", 0) != 0) return FromDLPackObject(tensor, what, access, gpu);
  const nb::object bytes = tensor.attr("view")(ImportedModule("torch").attr("uint8"));
  const DType dtype = Take(ParseDType(absl::string_view(name).substr(sizeof("torch.") - 1)));
  return Take(FromDLPackObject(bytes, what, access, gpu).Bitcast(dtype));
}

// ---- In: CuPy, JAX and others ---------------------------------------------------------------------------------------

// An array of CuPy whose strides are not negative: CuPy tells DLPack wrong ones. `flipped` are the axes to flip back.
nb::object WithoutNegativeStrides(nb::object array, std::vector<int64_t>* flipped) {
  const auto rank = nb::cast<int64_t>(array.attr("ndim"));
  nb::list index;
  for (int64_t axis = 0; axis < rank; ++axis) {
    const bool is_negative = nb::cast<int64_t>(array.attr("strides")[axis]) < 0;
    if (is_negative) flipped->push_back(axis);
    index.append(is_negative ? nb::slice(nb::none(), nb::none(), nb::int_(-1))
                             : nb::slice(nb::none(), nb::none(), nb::none()));
  }
  return flipped->empty() ? array : nb::object(array[nb::tuple(index)]);
}

// Of an array of CuPy.
TensorView FromCupy(nb::object array, const std::string& what, Access access, Device gpu) {
  const CurrentGpu current(ImportedModule("cupy"), gpu);
  const auto to_host = [&] { return array.attr("get")(); };
  if (access != Access::kWrite && !CanReach(gpu)) return FromNumpy(to_host(), what, access);
  if (access == Access::kSnapshot) {
    const nb::object copy = CopyWhereItFits(
        ImportedModule("cupy"), [&] { return array.attr("copy")("C"); }, to_host);
    if (!GpuOf(copy).has_value()) return FromNumpy(copy, what, access);
    array = copy;
  }
  std::vector<int64_t> flipped;
  array = WithoutNegativeStrides(std::move(array), &flipped);
  const TensorView view = FromDLPackObject(array, what, access, gpu);
  return WhereWanted(flipped.empty() ? view : Take(view.Flip(flipped)), access);
}

// Of another object with __dlpack__ whose memory is on a GPU. What is kept beyond the call is copied to the host: an
// array of JAX whose memory is lent cannot be donated.
TensorView FromGpuObject(const nb::object& object, const std::string& what, Access access, Device gpu) {
  if (IsInstance(object, ImportedModule("cupy"), "ndarray")) return FromCupy(object, what, access, gpu);
  return WhereWanted(FromDLPackObject(object, what, access, gpu), access == Access::kSnapshot ? Access::kRead : access);
}

// Objects with the buffer protocol or __array__, numbers, text and lists of these.
TensorView FromAnything(nb::handle object, const std::string& what, Access access) {
  if (object.is_none()) RaiseType(what, object.type(), "wanted an array");
  const bool is_text = PyUnicode_Check(object.ptr()) || PyBytes_Check(object.ptr());
  nb::object array =
      is_text ? Numpy().attr("array")(object, ToNumpyDType(DType::kString)) : Numpy().attr("asanyarray")(object);
  const NumpyElements elements = FromNumpyDType(array.attr("dtype"));
  // NumPy drops zero bytes at the end of the texts of a list.
  if (elements.is_text && !is_text) array = Numpy().attr("asarray")(object, ToNumpyDType(DType::kString));
  return FromNumpy(array, what, access);
}

}  // namespace

std::optional<TensorView> OwnMemoryOf(nb::handle array) {
  if (!IsInstance(array, Numpy(), "ndarray") || IsMasked(array)) return std::nullopt;
  nb::object base = array.attr("base");
  while (IsInstance(base, Numpy(), "ndarray")) base = base.attr("base");
  if (!nb::isinstance<Memory>(base)) return std::nullopt;
  const Memory& memory = *nb::inst_ptr<Memory>(base);
  const NumpyElements elements = FromNumpyDType(array.attr("dtype"));
  if (!elements.dtype.has_value() || elements.is_text || elements.is_swapped) return std::nullopt;
  const nb::object plain = elements.carrier == nullptr ? nb::borrow(array) : array.attr("view")(elements.carrier);
  const std::unique_ptr<ManagedBuffer> lent = LendBuffer(plain, *elements.dtype, Access::kRead);
  if (lent == nullptr) return std::nullopt;
  const auto* const data = static_cast<const char*>(lent->buffer.buf);
  const std::vector<int64_t> dims = lent->shape;
  const std::vector<int64_t> strides = lent->strides;
  PyBuffer_Release(&lent->buffer);
  const ptrdiff_t offset = data - static_cast<const char*>(memory.buffer->data());
  const auto element_size = static_cast<ptrdiff_t>(ElementSize(*elements.dtype));
  const bool has_moved = memory.data < memory.buffer->data() ||
                         static_cast<char*>(memory.data) + memory.size_bytes >
                             static_cast<const char*>(memory.buffer->data()) + memory.buffer->size_bytes();
  if (has_moved || offset % element_size != 0) return std::nullopt;
  absl::StatusOr<Layout> layout = Layout::Create(dims, strides, offset / element_size);
  if (!layout.ok()) return std::nullopt;
  absl::StatusOr<TensorView> view = TensorView::Create(memory.buffer, *elements.dtype, *std::move(layout));
  if (!view.ok()) return std::nullopt;
  return *std::move(view);
}

nb::tuple ToTuple(absl::Span<const int64_t> numbers) {
  nb::list list;
  for (const int64_t number : numbers) list.append(number);
  return nb::tuple(list);
}

nb::object ToNumpy(const TensorView& view) {
  if (view.dtype() == DType::kString) return StringsToNumpy(view);
  const nb::object dtype = ToNumpyDType(view.dtype());
  if (view.num_elements() == 0) return Numpy().attr("empty")(ToTuple(view.dims()), dtype);
  const auto element_size = static_cast<int64_t>(view.element_size());
  const nb::object make = Numpy().attr("ndarray");
  const nb::object memory = nb::cast(MemoryOf(view));
  if (view.IsContiguous()) return make(ToTuple(view.dims()), dtype, memory);
  std::vector<int64_t> strides;
  for (const int64_t stride : view.strides()) strides.push_back(stride * element_size);
  const int64_t offset = view.offset() * element_size - static_cast<int64_t>(view.bounds().begin);
  return make(ToTuple(view.dims()), dtype, memory, offset, ToTuple(strides));
}

TensorView FromPython(nb::handle object, const std::string& what, Access access) {
  if (const TensorView* const own = TensorOf(object)) {
    if (access == Access::kWrite && own->num_elements() > 0 && !own->buffer()->IsWritableInPlace()) {
      Raise(absl::InvalidArgumentError(absl::StrCat(what, ": the tensor is read-only")));
    }
    return WhereWanted(*own, access == Access::kSnapshot ? Access::kRead : access);
  }
  if (access == Access::kWrite && IsInstance(object, ImportedModule("jax"), "Array")) {
    Raise(absl::InvalidArgumentError(absl::StrCat(what, ": arrays of JAX cannot be changed; load them instead")));
  }
  if (IsInstance(object, Numpy(), "ndarray")) return FromNumpy(nb::borrow(object), what, access);
  if (IsInstance(object, ImportedModule("torch"), "Tensor")) return FromTorch(nb::borrow(object), what, access);
  if (access != Access::kWrite && nb::hasattr(object, "__array__") && !nb::hasattr(object, "__dlpack__")) {
    return FromAnything(object, what, access);
  }
  if (nb::hasattr(object, "__dlpack__")) {
    try {
      const std::optional<Device> gpu = GpuOf(object);
      return gpu.has_value() ? FromGpuObject(nb::borrow(object), what, access, *gpu)
                             : FromDLPackObject(object, what, access);
    } catch (nb::python_error& error) {
      // A library without a DLPack code for this dtype may still have NumPy's: JAX, with a RuntimeError for integers of
      // 4 bits.
      const bool is_refusal =
          error.matches(PyExc_BufferError) || error.matches(PyExc_TypeError) || error.matches(PyExc_RuntimeError);
      if (access == Access::kWrite || !is_refusal || !nb::hasattr(object, "__array__")) throw;
    }
  }
  if (access == Access::kWrite) RaiseType(what, object.type(), "wanted an array that can be written");
  return FromAnything(object, what, access);
}

void DefineArrays(nb::module_& m) {
  nb::class_<Memory>(m, "_Memory", nb::type_slots(kMemorySlots), "Memory of a tensor: the base of arrays.");
}

}  // namespace tensorcask::python
