// Tensors on a device, with a cache of its memory. docs/guide/memory.md shows this file.

#include <iostream>
#include <string>

#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/checkpoint/checkpoint_writer.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/memory/caching_allocator.h"
#include "tensorcask/tensor/memory/copy_across.h"
#include "tensorcask/tensor/memory/simulated_backend.h"
#include "tensorcask/tensor/tensor.h"

namespace cask = tensorcask;

absl::Status TensorsOnADevice(const std::string& prefix) {
  CASK_ASSIGN_OR_RETURN(const auto device, cask::SimulatedBackend::Create({/*memory_bytes=*/64 << 20}));
  const auto cache = cask::CachingAllocator::Make(device);

  // Memory that comes and goes: the cache asks the device once.
  for (int step = 0; step < 100; ++step) {
    CASK_RETURN_IF_ERROR(cask::Tensor::Zeros(cask::DType::kFloat32, cask::TensorShape({1024, 1024}), cache).status());
  }
  std::cout << cache->statistics().ToString();

  // To the device, from there into a checkpoint, and from the checkpoint to the device.
  const cask::Tensor weights = cask::Tensor::FromValues<float>({{1, 2, 3}, {4, 5, 6}});
  CASK_ASSIGN_OR_RETURN(const cask::TensorView on_device, cask::To(weights, cache));
  CASK_ASSIGN_OR_RETURN(cask::CheckpointWriter writer, cask::CheckpointWriter::Create(prefix));
  CASK_RETURN_IF_ERROR(writer.Add("weights", on_device));
  CASK_RETURN_IF_ERROR(writer.Finish());

  cask::CheckpointReaderOptions options;
  options.allocator = cache;
  CASK_ASSIGN_OR_RETURN(const cask::CheckpointReader reader, cask::CheckpointReader::Open(prefix, options));
  CASK_ASSIGN_OR_RETURN(const cask::Tensor loaded, reader.Read("weights"));
  CASK_ASSIGN_OR_RETURN(const cask::TensorView back, cask::To(loaded, cask::CpuAllocator::Default()));
  std::cout << loaded.device().ToString() << ": " << back << '\n';

  // More than the device has: an error whose message has the numbers. All that is there stays usable.
  const auto too_large = cask::Tensor::Create(cask::DType::kFloat32, cask::TensorShape({1 << 25}), cache);
  std::cout << absl::StatusCodeToString(too_large.status().code()) << '\n';
  return absl::OkStatus();
}

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: memory PREFIX\n";
    return 2;
  }
  const absl::Status status = TensorsOnADevice(argv[1]);
  if (!status.ok()) std::cerr << status << '\n';
  return status.ok() ? 0 : 1;
}
