// A simulated device with a cache, which must have nothing left when it is destroyed.

#ifndef TENSORCASK_TESTS_SUPPORT_SIMULATED_DEVICE_H_
#define TENSORCASK_TESTS_SUPPORT_SIMULATED_DEVICE_H_

#include <cstdint>

#include "gtest/gtest.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/device.h"
#include "tensorcask/tensor/memory/caching_allocator.h"
#include "tensorcask/tensor/memory/copy_across.h"
#include "tensorcask/tensor/memory/simulated_backend.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask::testing {

class SimulatedDevice {
 public:
  explicit SimulatedDevice(int32_t index, uint64_t memory_bytes = uint64_t{64} << 20) {
    SimulatedBackend::Options options;
    options.device = {DeviceType::kExtension, index};
    options.memory_bytes = memory_bytes;
    device = SimulatedBackend::Create(options).value();
    cache = CachingAllocator::Make(device);
  }
  ~SimulatedDevice() {
    cache = nullptr;
    EXPECT_EQ(device->live_allocations(), 0);
    EXPECT_EQ(device->live_events(), 0);
    EXPECT_EQ(device->live_host_bytes(), 0U);
  }
  SimulatedDevice(const SimulatedDevice&) = delete;
  SimulatedDevice& operator=(const SimulatedDevice&) = delete;

  TensorView Upload(const TensorView& host) const { return To(host, cache).value(); }

  RefPtr<SimulatedBackend> device;
  RefPtr<CachingAllocator> cache;
};

inline Tensor OnHost(const TensorView& view) { return To(view, CpuAllocator::Default()).value().ToTensor().value(); }

}  // namespace tensorcask::testing

#endif  // TENSORCASK_TESTS_SUPPORT_SIMULATED_DEVICE_H_
