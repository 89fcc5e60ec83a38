// Allocations, copies, saves and loads on a GPU, beside the driver's own: gpu_benchmark [--simulated] [--small]
//
// Prints lines of JSON: {"name":, "value":, "unit":, "ratio":} for a figure, {"case":, "outcome":} for a group of them.
// Ratios are of medians of one run. A ratio of a time is ours over the driver's; a ratio of a speed is ours over the
// limit that its name tells, so 1 is as fast as the limit.

#include "tensorcask/tests/gpu/gpu_benchmark.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/memory/caching_allocator.h"
#include "tensorcask/tensor/memory/copy_across.h"
#include "tensorcask/tensor/memory/cuda_backend.h"
#include "tensorcask/tensor/memory/device_backend.h"
#include "tensorcask/tensor/memory/simulated_backend.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask::benchmarks {
namespace {

std::string DriverLibrary() {
  const char* const named = std::getenv("TENSORCASK_CUDA_LIBRARY");
  return named == nullptr ? CudaBackend::Options().library : named;
}

// The driver's allocator in the order of a stream (cuMemAllocAsync), called directly.
class AsyncAllocator {
 public:
  static absl::StatusOr<AsyncAllocator> Create(void* stream) {
    void* const library = dlopen(DriverLibrary().c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return absl::UnimplementedError(dlerror());
    AsyncAllocator made;
    made.stream_ = stream;
    const auto find = [&](const char* name, auto* function) {
      *function = reinterpret_cast<std::remove_reference_t<decltype(*function)>>(dlsym(library, name));
      return *function == nullptr ? absl::UnimplementedError(absl::StrCat("the driver has no ", name))
                                  : absl::OkStatus();
    };
    int (*retain)(void**, int) = nullptr;
    int (*set_current)(void*) = nullptr;
    int (*default_pool)(void**, int) = nullptr;
    int (*set_attribute)(void*, int, void*) = nullptr;
    CASK_RETURN_IF_ERROR(find("cuDevicePrimaryCtxRetain", &retain));
    CASK_RETURN_IF_ERROR(find("cuCtxSetCurrent", &set_current));
    CASK_RETURN_IF_ERROR(find("cuMemAllocAsync", &made.allocate_));
    CASK_RETURN_IF_ERROR(find("cuMemFreeAsync", &made.free_));
    CASK_RETURN_IF_ERROR(find("cuStreamSynchronize", &made.synchronize_));
    CASK_RETURN_IF_ERROR(find("cuDeviceGetDefaultMemPool", &default_pool));
    CASK_RETURN_IF_ERROR(find("cuMemPoolSetAttribute", &set_attribute));
    // The pool keeps what is freed, as our cache does.
    void* context = nullptr;
    void* pool = nullptr;
    uint64_t keep_all = UINT64_MAX;
    constexpr int kReleaseThreshold = 4;
    int failed = retain(&context, 0);
    failed = failed != 0 ? failed : set_current(context);
    failed = failed != 0 ? failed : default_pool(&pool, 0);
    failed = failed != 0 ? failed : set_attribute(pool, kReleaseThreshold, &keep_all);
    if (failed != 0) return absl::InternalError(absl::StrCat("the driver's pool of memory cannot be set up: ", failed));
    return made;
  }

  // `count` allocations, each freed at once.
  absl::Status Run(size_t bytes, int count) {
    int failed = 0;
    for (int i = 0; i < count; ++i) {
      unsigned long long block = 0;  // NOLINT(google-runtime-int): CUdeviceptr
      failed |= allocate_(&block, bytes, stream_);
      failed |= free_(block, stream_);
    }
    failed |= synchronize_(stream_);
    return failed == 0 ? absl::OkStatus() : absl::InternalError(absl::StrCat("cuMemAllocAsync fails: ", failed));
  }

 private:
  int (*allocate_)(unsigned long long*, size_t, void*) = nullptr;  // NOLINT(google-runtime-int)
  int (*free_)(unsigned long long, void*) = nullptr;               // NOLINT(google-runtime-int)
  int (*synchronize_)(void*) = nullptr;
  void* stream_ = nullptr;
};

absl::Status AllocateAndFree(CachingAllocator& cache, size_t bytes, int count) {
  for (int i = 0; i < count; ++i) {
    CASK_ASSIGN_OR_RETURN(void* const block, cache.TryAllocate(bytes));
    cache.Deallocate(block, bytes);
  }
  return absl::OkStatus();
}

absl::StatusOr<TensorView> NewBytes(size_t bytes, const RefPtr<Allocator>& allocator) {
  CASK_ASSIGN_OR_RETURN(const Tensor tensor,
                        Tensor::Create(DType::kUint8, TensorShape({static_cast<int64_t>(bytes)}), allocator));
  return TensorView(tensor);
}

// One way of a copy, from or to memory of `allocator`.
absl::Status CopyFigure(const Bench& bench, CopyKind kind, const RefPtr<Allocator>& allocator, const std::string& what,
                        double limit_seconds) {
  const size_t bytes = bench.copy_bytes();
  CASK_ASSIGN_OR_RETURN(TensorView host, NewBytes(bytes, allocator));
  CASK_ASSIGN_OR_RETURN(TensorView there, NewBytes(bytes, bench.cache));
  CASK_RETURN_IF_ERROR(host.buffer()->EnsureMutable());
  std::memset(host.buffer()->mutable_data(), 7, bytes);  // so that its pages are present
  const bool to_device = kind == CopyKind::kHostToDevice;
  CASK_ASSIGN_OR_RETURN(const double seconds, MedianSeconds(bench, [&]() -> absl::Status {
                          CASK_RETURN_IF_ERROR(to_device ? CopyAcross(host, &there) : CopyAcross(there, &host));
                          return bench.device->Synchronize(kDefaultStream);
                        }));
  PrintFigure(
      absl::StrCat(what, to_device ? " to the device, " : " from the device, ", SizeText(bytes), ", of a pinned copy"),
      GibPerSecond(bytes, seconds), "GiB/s", limit_seconds / seconds);
  return absl::OkStatus();
}

// What the driver makes of memory that is not pinned.
absl::Status PageableFigure(const Bench& bench, CopyKind kind, double limit_seconds) {
  const size_t bytes = bench.copy_bytes();
  CASK_ASSIGN_OR_RETURN(const TensorView host, NewBytes(bytes, CpuAllocator::Default()));
  CASK_ASSIGN_OR_RETURN(const TensorView there, NewBytes(bytes, bench.cache));
  CASK_RETURN_IF_ERROR(host.buffer()->EnsureMutable());
  void* const host_data = host.buffer()->mutable_data();
  CASK_ASSIGN_OR_RETURN(void* const data, there.buffer()->MutableDeviceData());
  std::memset(host_data, 7, bytes);
  const bool to_device = kind == CopyKind::kHostToDevice;
  CASK_ASSIGN_OR_RETURN(const double seconds, MedianSeconds(bench, [&]() -> absl::Status {
                          CASK_RETURN_IF_ERROR(bench.device->Copy(kind, to_device ? data : host_data,
                                                                  to_device ? host_data : data, bytes, kDefaultStream));
                          return bench.device->Synchronize(kDefaultStream);
                        }));
  PrintFigure(absl::StrCat("the driver, pageable memory", to_device ? " to the device, " : " from the device, ",
                           SizeText(bytes), ", of a pinned copy"),
              GibPerSecond(bytes, seconds), "GiB/s", limit_seconds / seconds);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<double> PinnedCopySeconds(const Bench& bench, CopyKind kind, size_t bytes) {
  const size_t copied = std::min(bytes, bench.copy_bytes());
  CASK_ASSIGN_OR_RETURN(const TensorView host, NewBytes(copied, bench.cache->pinned()));
  CASK_ASSIGN_OR_RETURN(const TensorView there, NewBytes(copied, bench.cache));
  CASK_RETURN_IF_ERROR(host.buffer()->EnsureMutable());
  void* const host_data = host.buffer()->mutable_data();
  CASK_ASSIGN_OR_RETURN(void* const data, there.buffer()->MutableDeviceData());
  std::memset(host_data, 7, copied);
  const bool to_device = kind == CopyKind::kHostToDevice;
  CASK_ASSIGN_OR_RETURN(
      const double seconds, MedianSeconds(bench, [&]() -> absl::Status {
        CASK_RETURN_IF_ERROR(bench.device->Copy(kind, to_device ? data : host_data, to_device ? host_data : data,
                                                copied, kDefaultStream));
        return bench.device->Synchronize(kDefaultStream);
      }));
  return seconds * static_cast<double>(bytes) / static_cast<double>(copied);
}

absl::Status AllocationFigures(const Bench& bench) {
  const int count = bench.small ? 1000 : 20000;
  const auto nanoseconds = [&](double seconds) { return seconds / count * 1e9; };
  for (const size_t bytes : {size_t{512}, kMiB, 20 * kMiB}) {
    CASK_ASSIGN_OR_RETURN(const double ours,
                          MedianSeconds(bench, [&] { return AllocateAndFree(*bench.cache, bytes, count); }));
    const std::string name = absl::StrCat("allocate and free ", SizeText(bytes));
    if (bench.cuda == nullptr) {
      PrintFigure(name, nanoseconds(ours), "ns");
      continue;
    }
    CASK_ASSIGN_OR_RETURN(const StreamId stream, bench.device->CreateStream());
    CASK_ASSIGN_OR_RETURN(void* const handle, bench.cuda->StreamHandle(stream));
    CASK_ASSIGN_OR_RETURN(AsyncAllocator driver, AsyncAllocator::Create(handle));
    CASK_ASSIGN_OR_RETURN(const double theirs, MedianSeconds(bench, [&] { return driver.Run(bytes, count); }));
    PrintFigure(absl::StrCat(name, ", over cuMemAllocAsync"), nanoseconds(ours), "ns", ours / theirs);
    PrintFigure(absl::StrCat(name, ", cuMemAllocAsync"), nanoseconds(theirs), "ns");
    CASK_RETURN_IF_ERROR(bench.device->DestroyStream(stream));
  }
  return absl::OkStatus();
}

absl::Status CopyFigures(const Bench& bench) {
  for (const CopyKind kind : {CopyKind::kHostToDevice, CopyKind::kDeviceToHost}) {
    CASK_ASSIGN_OR_RETURN(const double limit, PinnedCopySeconds(bench, kind, bench.copy_bytes()));
    PrintFigure(absl::StrCat("limit: a pinned copy",
                             kind == CopyKind::kHostToDevice ? " to the device, " : " from the device, ",
                             SizeText(bench.copy_bytes())),
                GibPerSecond(bench.copy_bytes(), limit), "GiB/s");
    CASK_RETURN_IF_ERROR(CopyFigure(bench, kind, bench.cache->pinned(), "CopyAcross, pinned memory", limit));
    CASK_RETURN_IF_ERROR(CopyFigure(bench, kind, CpuAllocator::Default(), "CopyAcross, pageable memory", limit));
    CASK_RETURN_IF_ERROR(PageableFigure(bench, kind, limit));
  }
  return absl::OkStatus();
}

namespace {

absl::StatusOr<Bench> MakeBench(bool simulated, bool small) {
  Bench bench;
  bench.small = small;
  if (small) bench.seconds = 0.2;
  if (simulated) {
    SimulatedBackend::Options options;
    options.memory_bytes = uint64_t{1} << 30;
    options.automatic = true;
    CASK_ASSIGN_OR_RETURN(bench.device, SimulatedBackend::Create(options));
  } else {
    CudaBackend::Options options;
    options.library = DriverLibrary();
    CASK_ASSIGN_OR_RETURN(RefPtr<CudaBackend> cuda, CudaBackend::Create(options));
    bench.cuda = cuda.get();
    bench.device = std::move(cuda);
  }
  bench.cache = CachingAllocator::Make(bench.device);
  return bench;
}

int Main(int argc, char** argv) {
  bool simulated = false;
  bool small = false;
  std::string folder;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--simulated") {
      simulated = true;
    } else if (argument == "--small") {
      small = true;
    } else if (argument == "--folder" && i + 1 < argc) {
      folder = argv[++i];
    } else {
      std::cerr << "usage: gpu_benchmark [--simulated] [--small] [--folder FOLDER]\n";
      return 2;
    }
  }
  absl::StatusOr<Bench> bench = MakeBench(simulated, small);
  if (!bench.ok()) {
    std::cerr << "gpu_benchmark: " << bench.status() << "\n";
    return 1;
  }
  bench->folder = folder;
  const std::pair<const char*, absl::Status (*)(const Bench&)> groups[] = {
      {"allocations", AllocationFigures}, {"copies", CopyFigures}, {"files", FileFigures}};
  int status = 0;
  for (const auto& [name, measure] : groups) {
    const absl::Status done = measure(*bench);
    PrintCase(name, done);
    if (!done.ok()) status = 1;
  }
  return status;
}

}  // namespace
}  // namespace tensorcask::benchmarks

int main(int argc, char** argv) { return tensorcask::benchmarks::Main(argc, argv); }
