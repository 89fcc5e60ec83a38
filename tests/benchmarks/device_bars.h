// The promises about checkpoints of tensors on a device, and about memory that is kept for reuse.

#ifndef TENSORCASK_TESTS_BENCHMARKS_DEVICE_BARS_H_
#define TENSORCASK_TESTS_BENCHMARKS_DEVICE_BARS_H_

namespace tensorcask::benchmarks {

void DeviceRows();

}  // namespace tensorcask::benchmarks

#endif  // TENSORCASK_TESTS_BENCHMARKS_DEVICE_BARS_H_
