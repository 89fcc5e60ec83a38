#include "tensorcask/tests/gpu/gpu_device.h"

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <memory>
#include <mutex>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/memory/caching_allocator.h"
#include "tensorcask/tensor/memory/copy_across.h"
#include "tensorcask/tensor/memory/cuda_backend.h"
#include "tensorcask/tensor/memory/device_backend.h"
#include "tensorcask/tensor/memory/simulated_backend.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/support/status_matchers.h"
#include "tensorcask/tests/support/test_module.h"

namespace tensorcask::testing {
namespace {

constexpr uint64_t kBytesWithoutGpu = uint64_t{1} << 30;

std::string FakeLibrary() { return TestModule("tests/tensor/memory/libfake_cuda.so"); }
std::string LibraryOf(DeviceKind kind) {
  return kind == DeviceKind::kFakeDriver ? FakeLibrary() : CudaBackend::Options().library;
}

// A function of a library that is open already.
template <typename Function>
Function* Find(const std::string& library, const char* name) {
  void* const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  return handle == nullptr ? nullptr : reinterpret_cast<Function*>(dlsym(handle, name));
}

int LiveInFake() { return Find<int()>(FakeLibrary(), "FakeCudaLive")(); }

// Each way of moving bytes, once: the driver loads the code for it at the first call, and may wait for all work then.
absl::Status WarmUp(DeviceBackend& backend) {
  constexpr size_t kBytes = size_t{1} << 20;
  absl::StatusOr<void*> block = backend.Allocate(2 * kBytes);
  if (!block.ok()) return block.status();
  absl::StatusOr<void*> host = backend.AllocateHost(kBytes);
  if (!host.ok()) return host.status();
  char* const device = static_cast<char*>(*block);
  std::vector<char> pageable(kBytes);
  absl::Status status = backend.Fill(device, 1, kBytes, kDefaultStream);
  status.Update(backend.Copy(CopyKind::kHostToDevice, device, pageable.data(), kBytes, kDefaultStream));
  status.Update(backend.Copy(CopyKind::kDeviceToHost, pageable.data(), device, kBytes, kDefaultStream));
  status.Update(backend.Copy(CopyKind::kHostToDevice, device, *host, kBytes, kDefaultStream));
  status.Update(backend.Copy(CopyKind::kDeviceToDevice, device + kBytes, device, kBytes, kDefaultStream));
  status.Update(backend.Copy(CopyKind::kDeviceToHost, *host, device, kBytes, kDefaultStream));
  status.Update(backend.Synchronize(kDefaultStream));
  status.Update(backend.FreeHost(*host, kBytes));
  status.Update(backend.Free(*block, 2 * kBytes));
  return status;
}

// The backend of the GPU. It lives as long as the process: to make and destroy the context of a GPU takes long.
const absl::StatusOr<RefPtr<CudaBackend>>& Gpu() {
  static const auto& gpu = *new absl::StatusOr<RefPtr<CudaBackend>>([]() -> absl::StatusOr<RefPtr<CudaBackend>> {
    absl::StatusOr<RefPtr<CudaBackend>> made = CudaBackend::Create({});
    if (made.ok()) {
      if (absl::Status status = WarmUp(**made); !status.ok()) return status;
    }
    return made;
  }());
  return gpu;
}

}  // namespace

// Work of a stream that waits in a host function. It waits for a limited time, so that a thread which waits for the
// stream by mistake is a failed test and not one that never ends.
class Gate {
 public:
  ~Gate() { Open(); }

  absl::Status Put(const std::string& library, void* stream) {
    auto* const launch = Find<int(void*, void (*)(void*), void*)>(library, "cuLaunchHostFunc");
    auto* const retain = Find<int(void**, int)>(library, "cuDevicePrimaryCtxRetain");
    auto* const release = Find<int(int)>(library, "cuDevicePrimaryCtxRelease_v2");
    auto* const push = Find<int(void*)>(library, "cuCtxPushCurrent_v2");
    auto* const pop = Find<int(void**)>(library, "cuCtxPopCurrent_v2");
    auto* const device_get = Find<int(int*, int)>(library, "cuDeviceGet");
    if (launch == nullptr || retain == nullptr || release == nullptr || push == nullptr || pop == nullptr ||
        device_get == nullptr) {
      return absl::UnimplementedError(library + " lacks a function to hold up a stream");
    }
    int device = 0;
    void* context = nullptr;
    int result = device_get(&device, 0);
    if (result == 0) result = retain(&context, device);
    if (result != 0) return absl::InternalError("no context: " + std::to_string(result));
    result = push(context);
    if (result == 0) {
      auto* const shared = new std::shared_ptr<State>(state_);
      result = launch(stream, &Pass, shared);
      if (result != 0) delete shared;
      pop(&context);
    }
    release(device);
    return result == 0 ? absl::OkStatus() : absl::InternalError("cuLaunchHostFunc: " + std::to_string(result));
  }
  // Returns whether the gate was closed until now.
  bool Open() {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    state_->is_open = true;
    state_->opened.notify_all();
    return !state_->timed_out;
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable opened;
    bool is_open = false;
    bool timed_out = false;
  };

  static void Pass(void* data) {
    const std::unique_ptr<std::shared_ptr<State>> shared(static_cast<std::shared_ptr<State>*>(data));
    State& state = **shared;
    std::unique_lock<std::mutex> lock(state.mutex);
    if (state.opened.wait_for(lock, Limit(), [&] { return state.is_open; })) return;
    state.timed_out = true;
    // If this machine does not let a stream wait, the next tests need not find out as slowly.
    Limit() = std::chrono::milliseconds(300);
  }
  static std::chrono::milliseconds& Limit() {
    static std::chrono::milliseconds limit(5000);  // the driver calls host functions one after the other
    return limit;
  }

  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

std::ostream& operator<<(std::ostream& out, DeviceKind kind) {
  switch (kind) {
    case DeviceKind::kSimulated:
      return out << "simulated";
    case DeviceKind::kFakeDriver:
      return out << "driver without a GPU";
    case DeviceKind::kCuda:
      return out << "GPU";
  }
  return out;
}

GpuTest::GpuTest() = default;
GpuTest::~GpuTest() = default;

void GpuTest::SetUp() {
  switch (kind()) {
    case DeviceKind::kSimulated: {
      SimulatedBackend::Options options;
      options.memory_bytes = kBytesWithoutGpu;
      ASSERT_OK_AND_ASSIGN(simulated_, SimulatedBackend::Create(options));
      device_ = simulated_;
      break;
    }
    case DeviceKind::kFakeDriver: {
      if (!std::ifstream(FakeLibrary()).good()) GTEST_SKIP() << "there is no " << FakeLibrary();
      auto* const set = Find<void(const char*, int)>(FakeLibrary(), "FakeCudaSet");
      ASSERT_NE(set, nullptr) << dlerror();
      set("asynchronous", 1);  // while nothing of the library is in use
      set("total MiB", static_cast<int>(kBytesWithoutGpu / kMiB));
      live_before_ = LiveInFake();
      ASSERT_OK_AND_ASSIGN(RefPtr<CudaBackend> backend, CudaBackend::Create({0, FakeLibrary()}));
      cuda_ = backend.get();
      device_ = std::move(backend);
      break;
    }
    case DeviceKind::kCuda: {
      if (absl::IsUnimplemented(Gpu().status())) GTEST_SKIP() << Gpu().status().message();
      ASSERT_OK(Gpu());
      cuda_ = Gpu()->get();
      device_ = *Gpu();
      break;
    }
  }
  cache_ = CachingAllocator::Make(device_);
}

void GpuTest::TearDown() {
  if (!device_) return;
  gate_ = nullptr;
  // A tensor of the cache that was exported and imported again holds the cache while the cache keeps it for work that
  // is under way. Nothing else would end this.
  if (cache_) {
    EXPECT_OK(cache_->EmptyCache());
  }
  cache_ = nullptr;
  for (const StreamId stream : streams_) EXPECT_OK(device_->DestroyStream(stream));
  device_ = nullptr;
  if (simulated_) {
    EXPECT_EQ(simulated_->live_allocations(), 0);
    EXPECT_EQ(simulated_->live_events(), 0);
    EXPECT_EQ(simulated_->live_host_bytes(), 0U);
  }
  if (kind() == DeviceKind::kFakeDriver) {
    EXPECT_EQ(LiveInFake(), live_before_);
  }
}

RefPtr<DeviceBackend> GpuTest::OtherBackend() const {
  if (cuda_ == nullptr) return device_;
  return CudaBackend::Create({0, LibraryOf(kind())}).value();
}

StreamId GpuTest::NewStream() {
  streams_.push_back(device_->CreateStream().value());
  return streams_.back();
}

// Without this, nothing begins on the simulated device either.
void GpuTest::Hold(StreamId stream) {
  if (cuda_ == nullptr) return;
  gate_ = std::make_unique<Gate>();
  ASSERT_OK(gate_->Put(LibraryOf(kind()), cuda_->StreamHandle(stream).value()));
}

void GpuTest::Release(StreamId stream) {
  if (gate_ != nullptr) {
    EXPECT_TRUE(gate_->Open()) << "a call waited for the stream, or the test took seconds";
  }
  EXPECT_OK(device_->Synchronize(stream));
  gate_ = nullptr;
}

std::vector<uint8_t> GpuTest::Bytes(const void* address, size_t bytes, StreamId stream) const {
  std::vector<uint8_t> host(bytes);
  EXPECT_OK(device_->Copy(CopyKind::kDeviceToHost, host.data(), address, bytes, stream));
  EXPECT_OK(device_->Synchronize(stream));
  return host;
}

TensorView GpuTest::Upload(const TensorView& host) const { return To(host, cache_).value(); }

Tensor GpuTest::OnHost(const TensorView& view) { return To(view, CpuAllocator::Default()).value().ToTensor().value(); }

uint64_t GpuTest::FreeBytes() const { return device_->MemoryInfo().value().free_bytes; }

namespace {

// The greatest number that the bits of an element can hold, for elements below a byte and bools.
uint64_t MaskOf(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return 1;
    case DType::kInt2:
    case DType::kUint2:
      return 3;
    case DType::kInt4:
    case DType::kUint4:
    case DType::kFloat4E2m1:
      return 7;
    case DType::kFloat6E2m3:
    case DType::kFloat6E3m2:
      return 31;
    default:
      return UINT64_MAX;
  }
}

}  // namespace

Tensor Counting(DType dtype, const TensorShape& shape) {
  Tensor tensor = Tensor::Create(dtype, shape).value();
  if (tensor.num_elements() == 0) return tensor;
  const size_t size = ElementSize(dtype);
  char* const bytes = static_cast<char*>(tensor.buffer()->mutable_data());
  std::memset(bytes, 0, tensor.buffer()->size_bytes());
  const uint64_t mask = MaskOf(dtype);
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    const uint64_t number = static_cast<uint64_t>(i) & mask;
    std::memcpy(bytes + static_cast<size_t>(i) * size, &number, std::min(size, sizeof(number)));
  }
  return tensor;
}

bool AllAre(const std::vector<uint8_t>& bytes, uint8_t value) {
  return !bytes.empty() && std::all_of(bytes.begin(), bytes.end(), [value](uint8_t byte) { return byte == value; });
}

Tensor Noise(size_t bytes, uint64_t seed) {
  Tensor tensor = Tensor::Create(DType::kUint8, TensorShape({static_cast<int64_t>(bytes)})).value();
  char* const to = static_cast<char*>(tensor.buffer()->mutable_data());
  uint64_t state = seed * 0x9e3779b97f4a7c15;
  for (size_t done = 0; done < bytes; done += sizeof(state)) {
    state ^= state << 13;  // xorshift64
    state ^= state >> 7;
    state ^= state << 17;
    std::memcpy(to + done, &state, std::min(sizeof(state), bytes - done));
  }
  return tensor;
}

}  // namespace tensorcask::testing
