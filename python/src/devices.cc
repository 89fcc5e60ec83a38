#include "tensorcask/python/src/devices.h"

#include <cstdlib>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/python/src/arrays.h"
#include "tensorcask/python/src/base/errors.h"
#include "tensorcask/python/src/base/interrupts.h"
#include "tensorcask/python/src/base/process_mutex.h"
#include "tensorcask/python/src/base/text.h"
#include "tensorcask/python/src/bindings.h"
#include "tensorcask/python/src/numpy_dtypes.h"
#include "tensorcask/python/src/tensor_object.h"
#include "tensorcask/tensor/base/owner_process.h"
#include "tensorcask/tensor/device_memory.h"
#include "tensorcask/tensor/interop/dlpack_abi.h"
#include "tensorcask/tensor/memory/caching_allocator.h"
#include "tensorcask/tensor/memory/copy_across.h"
#include "tensorcask/tensor/memory/cuda_backend.h"
#include "tensorcask/tensor/tensor.h"

namespace nb = nanobind;

namespace tensorcask::python {
namespace {

struct Gpu {
  RefPtr<CudaBackend> backend;
  RefPtr<CachingAllocator> cache;
  RefPtr<Allocator> allocator;          // of the library's stream
  std::map<int64_t, StreamId> adopted;  // streams of other libraries, by the number that Python knows
};

struct Gpus {
  const OwnerProcess owner;
  ProcessMutex mutex;
  std::map<int, Gpu> by_number;
};

Gpus& AllGpus() {
  static auto* const all = new Gpus;
  return *all;
}

absl::StatusOr<Gpu> OpenGpu(int number) {
  CudaBackend::Options options;
  options.device = number;
#ifdef __GLIBC__
  const char* const library = secure_getenv("TENSORCASK_CUDA_LIBRARY");
#else
  const char* const library = std::getenv("TENSORCASK_CUDA_LIBRARY");
#endif
  if (library != nullptr) options.library = library;
  Gpu gpu;
  absl::StatusOr<RefPtr<CudaBackend>> backend = CudaBackend::Create(options);
  if (!backend.ok()) return backend.status();
  gpu.backend = *std::move(backend);
  gpu.cache = CachingAllocator::Make(gpu.backend);
  const absl::StatusOr<StreamId> stream = gpu.backend->CreateStream();
  if (!stream.ok()) return stream.status();
  gpu.allocator = CachingAllocator::OnStream(gpu.cache, *stream);
  return gpu;
}

absl::StatusOr<Gpu*> GpuOfNumber(int number) {
  Gpus& all = AllGpus();
  if (!all.owner.IsThisProcess()) {
    return absl::FailedPreconditionError(absl::StrCat("cuda:", number, ": this process was forked from one that uses ",
                                                      "the library; start it with the method 'spawn' instead"));
  }
  const std::lock_guard<ProcessMutex> lock(all.mutex);
  const auto found = all.by_number.find(number);
  if (found != all.by_number.end()) return &found->second;
  absl::StatusOr<Gpu> gpu = OpenGpu(number);
  if (!gpu.ok()) return gpu.status();
  return &all.by_number.emplace(number, *std::move(gpu)).first->second;
}

// Why arrays cannot be read to a GPU here; None if they can.
nb::object WhyNoGpu(int number) {
  const absl::StatusOr<Gpu*> gpu = WithoutGil([&] { return GpuOfNumber(number); });
  return gpu.ok() ? nb::none() : ToText(gpu.status().message());
}

// A tensor of uninitialised elements on a GPU.
nb::object EmptyOnGpu(nb::handle dtype, nb::handle shape, int number) {
  std::vector<int64_t> dims;
  for (const nb::handle dim : nb::iter(shape)) dims.push_back(nb::cast<int64_t>(dim));
  const DType type = FromDTypeArgument(dtype);
  const TensorShape tensor_shape = Take(TensorShape::Create(dims));
  return ToTensorObject(Take(WithoutGil([&]() -> absl::StatusOr<Tensor> {
    const absl::StatusOr<RefPtr<Allocator>> allocator = GpuAllocator({DeviceType::kCuda, number});
    if (!allocator.ok()) return allocator.status();
    return Tensor::Create(type, tensor_shape, *allocator);
  })));
}

}  // namespace

std::optional<Device> GpuOf(nb::handle array) {
  if (!nb::hasattr(array, "__dlpack_device__")) return std::nullopt;
  const nb::object device = array.attr("__dlpack_device__")();
  const auto type = nb::cast<int>(nb::int_(device[0]));
  if (type != static_cast<int>(DeviceType::kCuda)) return std::nullopt;
  return Device{DeviceType::kCuda, nb::cast<int>(nb::int_(device[1]))};
}

absl::StatusOr<RefPtr<Allocator>> GpuAllocator(Device device) {
  if (device.type != DeviceType::kCuda) {
    return absl::InvalidArgumentError(absl::StrCat("device ", device.ToString(), "; wanted a GPU such as \"cuda:0\""));
  }
  const absl::StatusOr<Gpu*> gpu = GpuOfNumber(device.index);
  if (!gpu.ok()) return gpu.status();
  return (*gpu)->allocator;
}

int64_t StreamNumber(const RefPtr<Allocator>& allocator) {
  const DeviceMemory& memory = *allocator->device_memory();
  const Gpu& gpu = *Take(GpuOfNumber(memory.device().index));
  return static_cast<int64_t>(reinterpret_cast<intptr_t>(Take(gpu.backend->StreamHandle(memory.stream()))));
}

std::optional<int64_t> ConsumerStream(const TensorView& view, nb::handle stream) {
  int64_t number = 1;
  if (!stream.is_none() && !nb::try_cast(stream, number)) {
    PyErr_Format(PyExc_TypeError, "__dlpack__: stream is %R; wanted an integer or None", stream.ptr());
    throw nb::python_error();
  }
  if (number == -1) return std::nullopt;
  if (number < 1) {
    Raise(absl::InvalidArgumentError(absl::StrCat("__dlpack__: stream ", number, "; wanted -1, 1, 2 or a handle")));
  }
  if (number == 1) return kDefaultStream;
  Gpu& gpu = *Take(GpuOfNumber(view.device().index));
  Gpus& all = AllGpus();
  const std::lock_guard<ProcessMutex> lock(all.mutex);
  const auto found = gpu.adopted.find(number);
  if (found != gpu.adopted.end()) return found->second;
  const StreamId id = gpu.backend->AdoptStream(reinterpret_cast<void*>(static_cast<intptr_t>(number)));
  gpu.adopted.emplace(number, id);
  return id;
}

std::string DeviceName(const TensorView& view) { return view.device().ToString(); }

TensorView OnHost(const TensorView& view) {
  return Take(WithoutGil([&] { return To(view, CpuAllocator::Default()); }));
}

void DefineDevices(nb::module_& m) {
  m.def("why_no_gpu", &WhyNoGpu, nb::arg("number"), nb::sig("def why_no_gpu(number: int) -> str | None"));
  m.def("empty_on_gpu", &EmptyOnGpu, nb::arg("dtype"), nb::arg("shape"), nb::arg("number"),
        nb::sig("def empty_on_gpu(dtype: str, shape: collections.abc.Sequence[int], number: int) -> Tensor"));
}

}  // namespace tensorcask::python
