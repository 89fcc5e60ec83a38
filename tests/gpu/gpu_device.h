// The device of a test: the simulated one, that of a driver without a GPU (fake_cuda.cc), or a GPU.
//
//   class CopyTest : public GpuTest {};
//   CASK_ON_EACH_DEVICE(CopyTest);                        // Simulated/CopyTest.*, FakeDriver/CopyTest.*,
//   Cuda/CopyTest.*
//
//   TEST_P(CopyTest, TheCopyWaits) {
//     const StreamId stream = NewStream();
//     Hold(stream);                                       // work that is added to it now does not begin ...
//     ASSERT_OK(backend().Copy(..., stream));
//     EXPECT_FALSE(backend().QueryEvent(event).value());
//     Release(stream);                                    // ... before this, which also waits for it
//   }
//
// A test is skipped, with the reason, where its device is missing. Suites with a name in LargeTest use much memory or
// time.

#ifndef TENSORCASK_TESTS_GPU_GPU_DEVICE_H_
#define TENSORCASK_TESTS_GPU_GPU_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <ostream>
#include <vector>

#include "gtest/gtest.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/memory/caching_allocator.h"
#include "tensorcask/tensor/memory/cuda_backend.h"
#include "tensorcask/tensor/memory/device_backend.h"
#include "tensorcask/tensor/memory/simulated_backend.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask::testing {

enum class DeviceKind { kSimulated, kFakeDriver, kCuda };
std::ostream& operator<<(std::ostream& out, DeviceKind kind);

inline constexpr size_t kMiB = size_t{1} << 20;

class Gate;  // in gpu_device.cc

class GpuTest : public ::testing::TestWithParam<DeviceKind> {
 protected:
  GpuTest();
  ~GpuTest() override;
  void SetUp() override;
  void TearDown() override;

  DeviceKind kind() const { return GetParam(); }
  bool on_gpu() const { return kind() == DeviceKind::kCuda; }
  const RefPtr<DeviceBackend>& device() const { return device_; }
  DeviceBackend& backend() const { return *device_; }
  // Null on the simulated device.
  CudaBackend* cuda() const { return cuda_; }
  // With the default options, for tests that need no cache of their own.
  const RefPtr<CachingAllocator>& cache() const { return cache_; }
  // Another backend for the same device, or on the simulated one the same backend.
  RefPtr<DeviceBackend> OtherBackend() const;

  // Destroyed when the test ends.
  StreamId NewStream();
  // Work that is added to the stream from now on does not begin before Release. Meanwhile the thread must not wait for
  // the stream, nor free memory of the device, which waits for all streams. One stream at a time.
  void Hold(StreamId stream);
  // Lets the work begin, and waits until it has finished.
  void Release(StreamId stream);

  // Bytes of the device on the host, after the work of `stream`.
  std::vector<uint8_t> Bytes(const void* address, size_t bytes, StreamId stream = kDefaultStream) const;
  TensorView Upload(const TensorView& host) const;
  static Tensor OnHost(const TensorView& view);
  uint64_t FreeBytes() const;

 private:
  RefPtr<DeviceBackend> device_;
  RefPtr<SimulatedBackend> simulated_;
  CudaBackend* cuda_ = nullptr;
  RefPtr<CachingAllocator> cache_;
  std::vector<StreamId> streams_;
  std::unique_ptr<Gate> gate_;
  int live_before_ = 0;
};

// 0, 1, 2, ... as elements of any dtype of fixed size: the low bytes of each are the number, bools are its lowest bit.
Tensor Counting(DType dtype, const TensorShape& shape);
inline Tensor Counting(const TensorShape& shape) { return Counting(DType::kInt32, shape); }
// The elements of a tensor of the host.
template <typename T>
std::vector<T> Values(const Tensor& tensor) {
  const auto flat = tensor.flat<T>();
  return std::vector<T>(flat.begin(), flat.end());
}
// uint8 [bytes] that do not repeat.
Tensor Noise(size_t bytes, uint64_t seed = 1);

// Whether there are bytes and all of them have this value. (Matchers take long for a million of them.)
bool AllAre(const std::vector<uint8_t>& bytes, uint8_t value);

// Whether `check` holds in one of ten tries. For numbers of free bytes, which other programs on the GPU change as well.
template <typename Check>
bool HoldsInATry(Check check) {
  for (int i = 0; i < 10; ++i) {
    if (check()) return true;
  }
  return false;
}

#define CASK_ON_EACH_DEVICE(Suite)                                                                                \
  INSTANTIATE_TEST_SUITE_P(Simulated, Suite, ::testing::Values(::tensorcask::testing::DeviceKind::kSimulated));   \
  INSTANTIATE_TEST_SUITE_P(FakeDriver, Suite, ::testing::Values(::tensorcask::testing::DeviceKind::kFakeDriver)); \
  INSTANTIATE_TEST_SUITE_P(Cuda, Suite, ::testing::Values(::tensorcask::testing::DeviceKind::kCuda))

}  // namespace tensorcask::testing

#endif  // TENSORCASK_TESTS_GPU_GPU_DEVICE_H_
