// Times PyTorch's allocator of a kind of device from inside its process, without Python between the calls:
//
//   helper = ctypes.CDLL("libtorch_allocator.so")     # after torch was imported and has begun to use the device
//   helper.StepSeconds(get_allocator, 1, events, count, rounds)   # get_allocator: of c10::GetAllocator
//
// Knows the layout of two classes of PyTorch: c10::Allocator, whose first virtual function after the destructor is
// allocate, and c10::DataPtr, which it returns (c10/core/Allocator.h, c10/util/UniqueVoidPtr.h).

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

// Not in an unnamed namespace: the compiler would know that no class here derives from Allocator.
namespace torch_layout {

struct DataPtr {
  void* data;
  std::unique_ptr<void, void (*)(void*)> context;
  int8_t device_type;
  int8_t device_index;
};

class Allocator {
 public:
  virtual ~Allocator() = default;
  virtual DataPtr allocate(size_t bytes) = 0;
};

}  // namespace torch_layout

namespace {

using torch_layout::Allocator;
using torch_layout::DataPtr;

double ReplaySeconds(Allocator& allocator, const int64_t* events, size_t count) {
  std::vector<DataPtr> blocks;
  blocks.reserve(count);
  const auto start = std::chrono::steady_clock::now();
  for (size_t i = 0; i < count; ++i) {
    if (events[i] > 0) {
      blocks.push_back(allocator.allocate(static_cast<size_t>(events[i])));
    } else {
      blocks[static_cast<size_t>(-events[i]) - 1].context = nullptr;
    }
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

// The median of the seconds of a step in `rounds` replays of a trace (traces/record.py says what its numbers mean),
// after one that fills the cache. -1 if there is no allocator for `device_type`, a c10::DeviceType.
extern "C" double StepSeconds(Allocator* (*get_allocator)(const int8_t&), int device_type, const int64_t* events,
                              size_t count, int rounds) {
  const auto type = static_cast<int8_t>(device_type);
  Allocator* const allocator = get_allocator(type);
  if (allocator == nullptr || count == 0 || rounds <= 0) return -1;
  std::vector<double> seconds;
  for (int round = 0; round <= rounds; ++round) {
    const double one = ReplaySeconds(*allocator, events, count);
    if (round > 0) seconds.push_back(one);
  }
  std::nth_element(seconds.begin(), seconds.begin() + rounds / 2, seconds.end());
  return seconds[static_cast<size_t>(rounds / 2)] / static_cast<double>(count);
}
