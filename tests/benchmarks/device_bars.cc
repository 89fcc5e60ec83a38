#include "tensorcask/tests/benchmarks/device_bars.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/checkpoint/checkpoint_writer.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/device_memory.h"
#include "tensorcask/tensor/memory/caching_allocator.h"
#include "tensorcask/tensor/memory/copy_across.h"
#include "tensorcask/tensor/memory/device_backend.h"
#include "tensorcask/tensor/memory/host_caching_allocator.h"
#include "tensorcask/tensor/memory/simulated_backend.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/benchmarks/bar_data.h"
#include "tensorcask/tests/benchmarks/bars.h"
#include "tensorcask/tests/benchmarks/limits.h"
#include "tensorcask/tests/benchmarks/measure.h"

namespace tensorcask::benchmarks {
namespace {

constexpr int kTensors = 64;
constexpr size_t kTensorBytes = 16 * kMiB;  // 1 GiB in all
constexpr int kRounds = 7;

// The copy engine of a simulated device: a thread that executes the work of its default stream.
class CopyEngine {
 public:
  explicit CopyEngine(RefPtr<SimulatedBackend> device)
      : device_(std::move(device)), thread_([this] {
          while (!ends_) {
            if (device_->Complete(kDefaultStream, 1) == 0) std::this_thread::yield();
          }
        }) {}
  ~CopyEngine() {
    ends_ = true;
    thread_.join();
  }
  CopyEngine(const CopyEngine&) = delete;
  CopyEngine& operator=(const CopyEngine&) = delete;

 private:
  const RefPtr<SimulatedBackend> device_;
  std::atomic<bool> ends_{false};
  std::thread thread_;
};

void Save(const std::string& prefix, const std::vector<TensorView>& tensors) {
  CheckpointWriterOptions options;
  options.sync = false;
  CheckpointWriter writer = Require(CheckpointWriter::Create(prefix, options));
  for (int i = 0; i < kTensors; ++i) Require(writer.Add(NameOf(i), tensors[static_cast<size_t>(i)]));
  Require(writer.Finish());
}

// Seconds for all tensors.
template <typename Each>
double ForAll(const std::vector<TensorView>& tensors, Each&& each) {
  return SecondsOf([&] {
    for (const TensorView& tensor : tensors) each(*tensor.buffer());
  });
}

// Ours over the slower one of the two steps, each of which takes its turn.
template <typename Ours, typename Copy, typename Disk>
Figure OverTheSlower(Ours&& ours, Copy&& copy, Disk&& disk) {
  ours(), copy(), disk();
  return CalmFigure(kRounds, [&] {
    const double seconds = ours();
    return seconds / std::max(copy(), disk());
  });
}

}  // namespace

void DeviceRows() {
  const RefPtr<SimulatedBackend> device = Require(SimulatedBackend::Create({/*memory_bytes=*/2048 * kMiB}));
  const CopyEngine engine(device);
  const RefPtr<CachingAllocator> cache = CachingAllocator::Make(device);
  Folder folder = Folder::InMemory();
  std::vector<TensorView> on_host;
  std::vector<TensorView> on_device;
  for (int i = 0; i < kTensors; ++i) {
    on_host.emplace_back(Filled(TensorShape({static_cast<int64_t>(kTensorBytes / 4)}), static_cast<uint32_t>(i)));
    on_device.push_back(Require(To(on_host.back(), cache)));
  }
  const std::string prefix = folder.Path("m");
  const auto save = [&](const std::vector<TensorView>& tensors) {
    folder.Clear();
    return SecondsOf([&] { Save(prefix, tensors); });
  };
  const Figure saves =
      OverTheSlower([&] { return save(on_device); },
                    [&] {
                      return ForAll(on_device, [](const TensorBuffer& buffer) {
                        Require(buffer.device_memory()->Read(buffer.device_data(), kTensorBytes,
                                                             [](absl::string_view) { return absl::OkStatus(); }));
                      });
                    },
                    [&] { return save(on_host); });
  Row("save 1 GiB from a device", saves, 1 / 0.9, "x slower", "of the copies alone and the save from the host");

  const auto load = [&](std::vector<TensorView>* tensors) {
    const CheckpointReader reader = Require(CheckpointReader::Open(prefix));
    return SecondsOf([&] {
      for (int i = 0; i < kTensors; ++i) Require(reader.ReadInto(NameOf(i), &(*tensors)[static_cast<size_t>(i)]));
    });
  };
  const auto load_to_device = [&] {
    CheckpointReaderOptions options;
    options.allocator = cache;
    const CheckpointReader reader = Require(CheckpointReader::Open(prefix, options));
    return SecondsOf([&] {
      for (int i = 0; i < kTensors; ++i) Keep(Require(reader.Read(NameOf(i))).buffer());
    });
  };
  const Figure loads = OverTheSlower(
      load_to_device,
      [&] {
        return ForAll(on_device, [](TensorBuffer& buffer) {
          Require(buffer.device_memory()->Write(Require(buffer.MutableDeviceData()), kTensorBytes,
                                                [](absl::Span<char>) { return absl::OkStatus(); }));
        });
      },
      [&] { return load(&on_host); });
  Row("load 1 GiB to a device, verified", loads, 1 / 0.9, "x slower", "of the copies alone and the load to the host");

  // A loop that loads again and again what it drops.
  const auto load_fresh = [&](const RefPtr<Allocator>& allocator) {
    CheckpointReaderOptions options;
    options.allocator = allocator;
    const CheckpointReader reader = Require(CheckpointReader::Open(prefix, options));
    std::vector<Tensor> tensors;
    for (int i = 0; i < kTensors; ++i) tensors.push_back(Require(reader.Read(NameOf(i))));
    Keep(tensors.back().bytes().data());
  };
  on_device.clear();
  const RefPtr<Allocator> kept = HostCachingAllocator::Make();
  Row("load 1 GiB in a loop, HostCachingAllocator, its limit",
      MedianRatio(
          kRounds, [&] { load_fresh(kept); }, [&] { load(&on_host); }),
      kLimitBar, "x limit", "a load into tensors that are there");
  on_host.clear();
  Note("load 1 GiB in a loop, HostCachingAllocator",
       MedianRatio(
           kRounds, [&] { load_fresh(kept); }, [&] { load_fresh(CpuAllocator::Default()); }),
       "x fresh", "the same with CpuAllocator, whose memory the system makes each time");
}

}  // namespace tensorcask::benchmarks
