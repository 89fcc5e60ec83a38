#include "tensorcask/python/src/tensor_object.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tensorcask/python/src/arguments.h"
#include "tensorcask/python/src/arrays.h"
#include "tensorcask/python/src/base/errors.h"
#include "tensorcask/python/src/base/interrupts.h"
#include "tensorcask/python/src/base/text.h"
#include "tensorcask/python/src/bindings.h"
#include "tensorcask/python/src/devices.h"
#include "tensorcask/python/src/numpy_dtypes.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/device.h"
#include "tensorcask/tensor/interop/dlpack.h"
#include "tensorcask/tensor/memory/device_backend.h"
#include "tensorcask/tensor/strided/compare.h"
#include "tensorcask/tensor/strided/convert.h"
#include "tensorcask/tensor/strided/copy.h"

namespace nb = nanobind;

namespace tensorcask::python {
namespace {

// ---- Indices --------------------------------------------------------------------------------------------------------

std::optional<int64_t> OptionalNumber(nb::handle number) {
  if (number.is_none()) return std::nullopt;
  PyObject* const index = PyNumber_Index(number.ptr());
  if (index == nullptr) throw nb::python_error();
  const nb::object owner = nb::steal(index);
  // As Python does for slices, numbers that no tensor can have become the nearest that one could have.
  return PyNumber_AsSsize_t(owner.ptr(), nullptr);
}

AxisIndex FromOneIndex(nb::handle index) {
  if (PySlice_Check(index.ptr())) {
    const std::optional<int64_t> step = OptionalNumber(index.attr("step"));
    return AxisIndex::Slice(OptionalNumber(index.attr("start")), OptionalNumber(index.attr("stop")), step.value_or(1));
  }
  if (PyIndex_Check(index.ptr()) == 0 || PyBool_Check(index.ptr())) {
    PyErr_Format(PyExc_TypeError, "an index must be an integer, a slice or ..., not %R", index.type().ptr());
    throw nb::python_error();
  }
  return AxisIndex(*OptionalNumber(index));
}

// Runs fn() without the GIL, on elements that stay where they are: meanwhile another thread of Python may write to a
// tensor on the same memory, which moves that tensor to other memory.
template <typename Fn>
auto Pinned(const TensorView& view, Fn&& fn) {
  const RefPtr<RefCounted> pin = PinMemory(view);
  return WithoutGil(fn);
}

void CheckOnHost(const TensorView& view) {
  if (view.device() == Device()) return;
  Raise(absl::FailedPreconditionError(
      absl::StrCat("the tensor is on ", DeviceName(view), "; this needs elements on the host: numpy() copies them")));
}

// The same for elements on the host; throws for those on a GPU.
template <typename Fn>
auto Reading(const TensorView& view, Fn&& fn) {
  CheckOnHost(view);
  return Pinned(view, fn);
}

// ---- DLPack ---------------------------------------------------------------------------------------------------------

constexpr char kVersioned[] = "dltensor_versioned";
constexpr char kLegacy[] = "dltensor";

// Of a capsule that no consumer has taken.
template <typename Managed>
void DestroyCapsule(PyObject* capsule, const char* name) {
  if (PyCapsule_IsValid(capsule, name) == 0) return;
  auto* const managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, name));
  if (managed != nullptr && managed->deleter != nullptr) managed->deleter(managed);
}
void DestroyVersioned(PyObject* capsule) { DestroyCapsule<dlpack::DLManagedTensorVersioned>(capsule, kVersioned); }
void DestroyLegacy(PyObject* capsule) { DestroyCapsule<dlpack::DLManagedTensor>(capsule, kLegacy); }

nb::object MakeCapsule(void* managed, const char* name, PyCapsule_Destructor destroy) {
  PyObject* const capsule = PyCapsule_New(managed, name, destroy);
  if (capsule == nullptr) throw nb::python_error();
  return nb::steal(capsule);
}

// Sets what depends on the device: that of the consumer's stream, and whether the copy is on the host.
void SetDevice(const TensorView& view, nb::handle stream, nb::handle dl_device, DLPackExportOptions* options) {
  const Device device = view.device();
  const Device wanted = dl_device.is_none() ? device
                                            : Device{static_cast<DeviceType>(nb::cast<int>(nb::int_(dl_device[0]))),
                                                     nb::cast<int>(nb::int_(dl_device[1]))};
  if (wanted != device && wanted != Device()) {
    const std::string text = absl::StrCat("__dlpack__: the memory is on ", device.ToString(),
                                          ", and is not exported to ", wanted.ToString());
    PyErr_SetString(PyExc_BufferError, text.c_str());
    throw nb::python_error();
  }
  if (wanted == Device()) {
    if (!stream.is_none()) Raise(absl::InvalidArgumentError("__dlpack__: memory of the host has no stream"));
    if (device != Device()) options->allocator = CpuAllocator::Default();
  } else {
    options->stream = ConsumerStream(view, stream);
    // CuPy destroys streams. The default stream is always there.
    options->stream_may_end = options->stream.value_or(kDefaultStream) != kDefaultStream;
  }
}

nb::object ExportDLPack(const TensorView& view, nb::handle stream, nb::handle max_version, nb::handle dl_device,
                        nb::handle copy) {
  DLPackExportOptions options;
  if (!copy.is_none()) options.copy = nb::cast<bool>(copy) ? DLPackCopy::kAlways : DLPackCopy::kNever;
  SetDevice(view, stream, dl_device, &options);
  if (options.allocator) {  // from a GPU to the host
    if (options.copy == DLPackCopy::kNever) {
      PyErr_SetString(PyExc_BufferError, "__dlpack__: memory of a GPU is copied to the host, and copy is False");
      throw nb::python_error();
    }
    options.copy = DLPackCopy::kAlways;
  }
  const bool is_versioned = !max_version.is_none() && nb::cast<int>(max_version[0]) >= 1;
  // A pin would make memory of a GPU shared, and so read-only.
  const auto run = [&](auto&& fn) { return view.device() == Device() ? Pinned(view, fn) : WithoutGil(fn); };
  if (is_versioned) {
    DLPackPtr managed = Take(run([&] { return ToDLPack(view, options); }));
    nb::object capsule = MakeCapsule(managed.get(), kVersioned, &DestroyVersioned);
    static_cast<void>(managed.release());
    return capsule;
  }
  LegacyDLPackPtr managed = Take(run([&] { return ToLegacyDLPack(view, options); }));
  nb::object capsule = MakeCapsule(managed.get(), kLegacy, &DestroyLegacy);
  static_cast<void>(managed.release());
  return capsule;
}

// ---- The class ------------------------------------------------------------------------------------------------------

std::vector<int64_t> Numbers(const nb::args& args) {
  std::vector<int64_t> numbers;
  const nb::handle source =
      args.size() == 1 && !PyIndex_Check(nb::handle(args[0]).ptr()) ? nb::handle(args[0]) : nb::handle(args);
  for (const nb::handle number : nb::iter(source)) numbers.push_back(nb::cast<int64_t>(number));
  return numbers;
}

nb::object ToArray(const TensorView& view, nb::handle dtype, nb::handle copy) {
  nb::object array = ToNumpy(OnHost(view));
  if (!dtype.is_none()) return array.attr("astype")(dtype, nb::arg("copy") = !copy.is_none() && nb::cast<bool>(copy));
  return !copy.is_none() && nb::cast<bool>(copy) ? array.attr("copy")() : array;
}

std::string Repr(const TensorView& view) {
  if (view.device() != Device()) {
    return absl::StrCat("tensorcask.Tensor(device=", DeviceName(view), ", dtype=", DTypeName(view.dtype()),
                        ", shape=", view.shape().ToString(), ")");
  }
  SummaryOptions options;
  options.multiline = view.rank() > 1;
  return absl::StrCat("tensorcask.Tensor(", SummarizeValue(view, options), ", dtype=", DTypeName(view.dtype()),
                      ", shape=", view.shape().ToString(), ")");
}

std::string ReprHtml(const TensorView& view) {
  SummaryOptions options;
  options.multiline = true;
  return absl::StrCat("<div><b>", DTypeName(view.dtype()), "</b> ", EscapeHtml(view.shape().ToString()), ", strides [",
                      absl::StrJoin(view.strides(), ","), "], ", view.num_elements(), " elements<pre>",
                      EscapeHtml(view.device() == Device() ? SummarizeValue(view, options) : DeviceName(view)),
                      "</pre></div>");
}

void Assign(TensorView& view, nb::handle index, nb::handle value) {
  CheckOnHost(view);
  TensorView part = Take(IndexView(view, FromIndex(index, view.rank())));
  const TensorView source = FromPython(value, "the value");
  // With the GIL: no other thread may use this tensor while its memory moves.
  const TensorView converted = source.dtype() == view.dtype() ? source : Take(ConvertTo(source, view.dtype()));
  Check(Copy(Take(converted.Expand(part.dims())), &part));
}

template <typename Class>
void DefineViews(Class& tensor) {
  tensor
      .def(
          "__getitem__",
          [](const TensorView& view, nb::handle index) { return Take(IndexView(view, FromIndex(index, view.rank()))); },
          nb::sig("def __getitem__(self, index: int | slice | types.EllipsisType | tuple[int | slice | "
                  "types.EllipsisType, ...], /) -> Tensor"),
          "A view of a part, on the same memory: ``t[1, ..., ::-2]``.")
      .def(
          "__setitem__", &Assign, nb::arg("index"), nb::arg("value"),
          nb::sig("def __setitem__(self, index: int | slice | types.EllipsisType | tuple[int | slice | "
                  "types.EllipsisType, ...], value: object, /) -> None"),
          "Writes elements, converted to the dtype of this tensor and repeated along axes of size 1. Memory that other "
          "tensors share lazily, or that is mapped from a file, is copied first.")
      .def(
          "transpose", [](const TensorView& v, int64_t a, int64_t b) { return Take(v.Transpose(a, b)); },
          nb::arg("axis1") = -2, nb::arg("axis2") = -1, "Swaps two axes. No copy.")
      .def(
          "permute", [](const TensorView& view, nb::args axes) { return Take(view.Permute(Numbers(axes))); },
          nb::sig("def permute(self, *axes: int) -> Tensor"), "The axes in another order. No copy.")
      .def(
          "reshape",
          [](const TensorView& view, nb::args dims) {
            if (!view.IsContiguous()) CheckOnHost(view);
            return Take(view.ReshapeOrCopy(Numbers(dims)));
          },
          nb::sig("def reshape(self, *shape: int) -> Tensor"),
          "The elements in another shape; copied if no strides give it. One size may be -1.")
      .def(
          "expand", [](const TensorView& view, nb::args dims) { return Take(view.Expand(Numbers(dims))); },
          nb::sig("def expand(self, *shape: int) -> Tensor"), "Repeats axes of size 1 without a copy (stride 0).")
      .def(
          "flip", [](const TensorView& view, nb::args axes) { return Take(view.Flip(Numbers(axes))); },
          nb::sig("def flip(self, *axes: int) -> Tensor"), "Reverses axes. No copy.")
      .def(
          "squeeze", [](const TensorView& view) { return view.Squeeze(); }, "Without the axes of size 1. No copy.")
      .def(
          "unsqueeze", [](const TensorView& view, int64_t axis) { return Take(view.Unsqueeze(axis)); }, nb::arg("axis"),
          "With a new axis of size 1. No copy.")
      .def(
          "bitcast",
          [](const TensorView& view, nb::handle dtype) { return Take(view.Bitcast(FromDTypeArgument(dtype))); },
          nb::arg("dtype"), nb::sig("def bitcast(self, dtype: object) -> Tensor"),
          "The same bytes as elements of another dtype. No copy.");
}

template <typename Class>
void DefineCopies(Class& tensor) {
  tensor
      .def(
          "clone", [](const TensorView& view) { return Take(Reading(view, [&] { return view.Clone(); })); },
          "A copy in new memory.")
      .def(
          "lazy_clone", [](const TensorView& view) { return Take(Reading(view, [&] { return view.LazyClone(); })); },
          "A copy that shares the memory until one of the two is written.")
      .def(
          "contiguous", [](const TensorView& view) { return Take(Reading(view, [&] { return view.Contiguous(); })); },
          "This tensor if it is row-major, else a copy that is.")
      .def(
          "astype",
          [](const TensorView& view, nb::handle dtype) {
            const DType to = FromDTypeArgument(dtype);
            return Take(Reading(view, [&] { return ConvertTo(view, to); }));
          },
          nb::arg("dtype"), nb::sig("def astype(self, dtype: object) -> Tensor"),
          "The elements converted to another dtype (a name, or what ``numpy.dtype`` takes).")
      .def(
          "equal",
          [](const TensorView& view, nb::handle other) {
            const TensorView theirs = FromPython(other, "the other array");
            const RefPtr<RefCounted> pin = PinMemory(theirs);
            return Reading(view, [&] { return Equal(view, theirs); });
          },
          nb::arg("other"), nb::sig("def equal(self, other: object) -> bool"),
          "True if dtype, shape and all elements are equal, bit by bit.")
      .def(
          "numpy", [](const TensorView& view) { return ToNumpy(OnHost(view)); },
          nb::sig("def numpy(self) -> numpy.ndarray"),
          "An array on this memory; read-only if the memory is mapped or shared lazily. Strings, and elements on a "
          "GPU, "
          "are copied.")
      .def("__array__", &ToArray, nb::arg("dtype").none() = nb::none(), nb::arg("copy").none() = nb::none(),
           nb::sig("def __array__(self, dtype: object = None, copy: bool | None = None) -> typing.Any"))
      .def("__dlpack__", &ExportDLPack, nb::kw_only(), nb::arg("stream").none() = nb::none(),
           nb::arg("max_version").none() = nb::none(), nb::arg("dl_device").none() = nb::none(),
           nb::arg("copy").none() = nb::none(),
           nb::sig("def __dlpack__(self, *, stream: object = None, max_version: tuple[int, int] | None = None, "
                   "dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> object"),
           "A DLPack capsule on this memory, for ``torch.from_dlpack`` and others.")
      .def(
          "__dlpack_device__",
          [](const TensorView& view) {
            const Device device = view.device();
            return nb::make_tuple(static_cast<int>(device.type), device.index);
          },
          nb::sig("def __dlpack_device__(self) -> tuple[int, int]"));
}

}  // namespace

RefPtr<RefCounted> PinMemory(const TensorView& view) {
  return view.buffer() ? view.buffer()->HoldMemory() : RefPtr<RefCounted>();
}

const TensorView* TensorOf(nb::handle object) {
  const TensorView* view = nullptr;
  if (nb::isinstance<TensorView>(object)) view = nb::inst_ptr<TensorView>(object);
  return view;
}

nb::object ToTensorObject(const TensorView& view) { return nb::cast(view); }

std::vector<AxisIndex> FromIndex(nb::handle index, int rank) {
  std::vector<AxisIndex> result;
  if (!PyTuple_Check(index.ptr()) && index.ptr() != Py_Ellipsis) {
    result.push_back(FromOneIndex(index));
    return result;
  }
  const nb::tuple parts = PyTuple_Check(index.ptr()) ? nb::borrow<nb::tuple>(index) : nb::make_tuple(nb::borrow(index));
  bool has_ellipsis = false;
  for (const nb::handle part : parts) {
    if (part.ptr() != Py_Ellipsis) {
      result.push_back(FromOneIndex(part));
      continue;
    }
    if (has_ellipsis) throw nb::index_error("an index can have one ellipsis ('...')");
    has_ellipsis = true;
    for (auto missing = rank - static_cast<int64_t>(parts.size()) + 1; missing > 0; --missing) {
      result.push_back(AxisIndex::All());
    }
  }
  return result;
}

void DefineTensor(nb::module_& m) {
  nb::class_<TensorView> tensor(
      m, "Tensor", nb::is_weak_referenceable(),
      "A strided view of elements in memory of the library or of another one.\n\n"
      "    >>> import numpy as np, tensorcask as tc\n"
      "    >>> t = tc.Tensor(np.arange(6, dtype=np.float32).reshape(2, 3))\n"
      "    >>> t.transpose()[::-1].shape\n"
      "    (3, 2)\n"
      "    >>> t.transpose().numpy()[0].tolist()\n"
      "    [0.0, 3.0]\n\n"
      "Slices, transposes and reshapes share the memory. ``lazy_clone`` copies when one of the two is written.");
  tensor
      .def(
          "__init__",
          [](TensorView* self, nb::handle object, const nb::kwargs& others) {
            CheckKeywords<TensorView>(others, object, "array");
            new (self) TensorView(FromPython(object, "the array", Access::kReadHere));
          },
          nb::arg("array").none() = nb::none(), nb::arg("others"), nb::sig("def __init__(self, array: object) -> None"),
          "On the memory of an array that has DLPack, the buffer protocol or ``__array__``, without a copy (on a GPU: "
          "of row-major arrays). The "
          "memory is not written: the first ``t[...] = x`` copies it.")
      .def_prop_ro(
          "shape", [](const TensorView& view) { return ToTuple(view.dims()); },
          nb::sig("def shape(self) -> tuple[int, ...]"))
      .def_prop_ro(
          "strides", [](const TensorView& view) { return ToTuple(view.strides()); },
          nb::sig("def strides(self) -> tuple[int, ...]"), "Steps in elements, not in bytes.")
      .def_prop_ro(
          "dtype", [](const TensorView& view) { return ToText(DTypeName(view.dtype())); },
          nb::sig("def dtype(self) -> str"), "The name: ``'float32'``, ``'bfloat16'``, ``'string'``.")
      .def_prop_ro(
          "device", [](const TensorView& view) { return ToText(DeviceName(view)); }, nb::sig("def device(self) -> str"),
          "``'cpu'``, or ``'cuda:0'`` for memory of a GPU, which ``numpy`` copies to the host.")
      .def_prop_ro("ndim", [](const TensorView& view) { return view.rank(); })
      .def_prop_ro("size", [](const TensorView& view) { return view.num_elements(); })
      .def_prop_ro("nbytes",
                   [](const TensorView& v) { return v.num_elements() * static_cast<int64_t>(v.element_size()); })
      .def_prop_ro(
          "readonly", [](const TensorView& v) { return v.buffer() && !v.buffer()->IsWritableInPlace(); },
          "True if a write copies the memory first.")
      .def_prop_ro("T",
                   [](const TensorView& view) {
                     std::vector<int64_t> axes;
                     for (int axis = view.rank() - 1; axis >= 0; --axis) axes.push_back(axis);
                     return Take(view.Permute(axes));
                   })
      .def("__len__",
           [](const TensorView& view) {
             if (view.rank() == 0) throw nb::type_error("a tensor without axes has no length");
             return view.dim(0);
           })
      .def(
          "__repr__", [](const TensorView& view) { return ToText(Repr(view)); }, nb::sig("def __repr__(self) -> str"))
      .def(
          "_repr_html_", [](const TensorView& view) { return ToText(ReprHtml(view)); },
          nb::sig("def _repr_html_(self) -> str"));
  DefineViews(tensor);
  DefineCopies(tensor);
}

}  // namespace tensorcask::python
