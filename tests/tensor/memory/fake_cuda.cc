// A driver library without a driver, for cuda_backend_test and gpu_test: device memory is memory of the C library, and
// work is done when it is added, or after FakeCudaSet("asynchronous", 1) by a thread of the stream. Virtual memory is
// address space of the process, which cannot be accessed before it is mapped and given access. FakeCudaSet changes what
// it says and lets calls fail.

#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "tensorcask/tests/tensor/memory/fake_cuda_queues.h"

namespace {

using fake_cuda::Moment;
using fake_cuda::Queues;

// Memory of the C library: a test may let operator new fail, of which a driver knows nothing.
template <typename T>
struct Malloc {
  using value_type = T;

  Malloc() = default;
  template <typename U>
  Malloc(const Malloc<U>&) {}
  T* allocate(size_t count) { return static_cast<T*>(std::malloc(count * sizeof(T))); }
  void deallocate(T* block, size_t) { std::free(block); }
  bool operator==(const Malloc&) const { return true; }
  bool operator!=(const Malloc&) const { return false; }
};
template <typename Key, typename Value>
using Map = std::map<Key, Value, std::less<>, Malloc<std::pair<const Key, Value>>>;

using Address = unsigned long long;

struct State {
  std::mutex mutex;
  Map<std::string, int> values = {
      {"version", 12020}, {"devices", 2}, {"virtual memory", 1}, {"total MiB", 64}, {"asynchronous", 0}};
  Map<Address, size_t> blocks;
  Map<void*, size_t> host_blocks;
  int contexts = 0;
  int streams = 0;
  int events = 0;
  // Virtual memory: addresses and mappings by their start, memory by its handle (true until it is released).
  Map<Address, size_t> reservations;
  Map<Address, Address> mappings;  // to the handle
  struct Memory {
    size_t bytes = 0;
    bool has_handle = true;
    bool is_mapped = false;
  };
  Map<Address, Memory> memory;
  Address next_handle = 1;
};

State& TheState() {
  static State& state = *new State();
  return state;
}

// What FakeCudaSet set: 0 by default.
int Value(const char* name) {
  State& state = TheState();
  const std::lock_guard<std::mutex> lock(state.mutex);
  const auto found = state.values.find(std::string_view(name));
  return found == state.values.end() ? 0 : found->second;
}

int Count(int State::*counter, int change) {
  State& state = TheState();
  const std::lock_guard<std::mutex> lock(state.mutex);
  return state.*counter += change;
}

thread_local int current_contexts = 0;

// The result that the test asked for; 201 (invalid context) without a context.
int Begin(const char* call) { return current_contexts > 0 ? Value(call) : 201; }

// The next two require: the lock is held.
size_t TotalBytes() { return static_cast<size_t>(TheState().values["total MiB"]) << 20; }
size_t UsedBytes() {
  size_t used = 0;
  for (const auto& block : TheState().blocks) used += block.second;
  for (const auto& memory : TheState().memory) used += memory.second.bytes;
  return used;
}

constexpr size_t kGranularity = size_t{2} << 20;

// Streams and events made before this is set must not be used afterwards.
bool IsAsynchronous() { return Value("asynchronous") != 0; }

// Work of a stream: done now, or by the stream's thread.
template <typename Work>
int Add(const char* call, void* stream, Work work) {
  if (const int result = Begin(call)) return result;
  if (IsAsynchronous()) {
    Queues::All().Of(stream).Add(work);
  } else {
    work();
  }
  return 0;
}

// What cuEventCreate gives: the moment of the last record.
using Event = std::shared_ptr<Moment>;

// While the lock is held.
void ForgetUnused(Address handle) {
  const auto found = TheState().memory.find(handle);
  if (!found->second.has_handle && !found->second.is_mapped) TheState().memory.erase(found);
}

}  // namespace

extern "C" {

// CUmemAllocationProp and CUmemAccessDesc.
struct Properties {
  int type, handle_types, location_type, device;
  void* windows_handle;
  unsigned char flags[8];
};
struct Access {
  int location_type, device, flags;
};

void FakeCudaSet(const char* name, int value) {
  const std::lock_guard<std::mutex> lock(TheState().mutex);
  TheState().values[name] = value;
}
// Contexts, streams, events and blocks that exist.
int FakeCudaLive() {
  State& state = TheState();
  const std::lock_guard<std::mutex> lock(state.mutex);
  return state.contexts + state.streams + state.events + static_cast<int>(state.blocks.size()) +
         static_cast<int>(state.host_blocks.size() + state.reservations.size() + state.mappings.size() +
                          state.memory.size());
}

int cuInit(unsigned) { return Value("cuInit"); }
int cuDriverGetVersion(int* version) {
  *version = Value("version");
  return 0;
}
int cuGetErrorName(int result, const char** name) {
  switch (result) {
    case 2:
      *name = "CUDA_ERROR_OUT_OF_MEMORY";
      return 0;
    case 700:
      *name = "CUDA_ERROR_ILLEGAL_ADDRESS";
      return 0;
    default:
      return 1;
  }
}
int cuDeviceGetCount(int* count) {
  *count = Value("devices");
  return Value("cuDeviceGetCount");
}
int cuDeviceGet(int* device, int ordinal) {
  *device = 100 + ordinal;
  return 0;
}
int cuDevicePrimaryCtxRetain(void** context, int device) {
  if (Value("cuDevicePrimaryCtxRetain") != 0) return Value("cuDevicePrimaryCtxRetain");
  *context = reinterpret_cast<void*>(static_cast<size_t>(device));
  Count(&State::contexts, 1);
  return 0;
}
int cuDevicePrimaryCtxRelease_v2(int) { return Count(&State::contexts, -1) < 0 ? 1 : 0; }
int cuCtxPushCurrent_v2(void*) {
  if (Value("cuCtxPushCurrent") != 0) return Value("cuCtxPushCurrent");
  ++current_contexts;
  return 0;
}
int cuCtxPopCurrent_v2(void**) {
  --current_contexts;
  return 0;
}
int cuCtxSynchronize() {
  if (const int result = Begin("cuCtxSynchronize")) return result;
  if (IsAsynchronous()) Queues::All().WaitForAll();
  return 0;
}

int cuMemGetInfo_v2(size_t* free_bytes, size_t* total) {
  const std::lock_guard<std::mutex> lock(TheState().mutex);
  *free_bytes = TotalBytes() - UsedBytes();
  *total = TotalBytes();
  return 0;
}
int cuMemAlloc_v2(Address* address, size_t bytes) {
  if (const int result = Begin("cuMemAlloc")) return result;
  const std::lock_guard<std::mutex> lock(TheState().mutex);
  if (bytes > TotalBytes() - UsedBytes()) return 2;
  *address = reinterpret_cast<Address>(std::aligned_alloc(512, (bytes + 511) / 512 * 512));
  TheState().blocks[*address] = bytes;
  return 0;
}
int cuMemFree_v2(Address address) {
  if (const int result = Begin("cuMemFree")) return result;
  const std::lock_guard<std::mutex> lock(TheState().mutex);
  if (TheState().blocks.erase(address) == 0) return 1;
  std::free(reinterpret_cast<void*>(address));
  return 0;
}
int cuMemHostAlloc(void** block, size_t bytes, unsigned) {
  if (const int result = Begin("cuMemHostAlloc")) return result;
  *block = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  const std::lock_guard<std::mutex> lock(TheState().mutex);
  TheState().host_blocks[*block] = bytes;
  return 0;
}
int cuMemFreeHost(void* block) {
  const std::lock_guard<std::mutex> lock(TheState().mutex);
  if (TheState().host_blocks.erase(block) == 0) return 1;
  std::free(block);
  return 0;
}

int cuDeviceGetAttribute(int* value, int attribute, int) {
  *value = attribute == 102 ? Value("virtual memory") : 0;
  return Begin("cuDeviceGetAttribute");
}
int cuMemGetAllocationGranularity(size_t* bytes, const Properties* properties, int) {
  *bytes = kGranularity;
  if (properties->type != 1 || properties->location_type != 1 || properties->device < 100) return 1;
  return Begin("cuMemGetAllocationGranularity");
}
int cuMemAddressReserve(Address* start, size_t bytes, size_t, Address, unsigned long long) {
  if (const int result = Begin("cuMemAddressReserve")) return result;
  if (bytes % kGranularity != 0) return 1;
  void* const found = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (found == MAP_FAILED) return 2;
  *start = reinterpret_cast<Address>(found);
  const std::lock_guard<std::mutex> lock(TheState().mutex);
  TheState().reservations[*start] = bytes;
  return 0;
}
int cuMemAddressFree(Address start, size_t bytes) {
  if (const int result = Begin("cuMemAddressFree")) return result;
  const std::lock_guard<std::mutex> lock(TheState().mutex);
  const auto found = TheState().reservations.find(start);
  if (found == TheState().reservations.end() || found->second != bytes) return 1;
  TheState().reservations.erase(found);
  return munmap(reinterpret_cast<void*>(start), bytes);
}
int cuMemCreate(Address* handle, size_t bytes, const Properties* properties, unsigned long long) {
  if (const int result = Begin("cuMemCreate")) return result;
  if (bytes % kGranularity != 0 || properties->type != 1) return 1;
  const std::lock_guard<std::mutex> lock(TheState().mutex);
  if (bytes > TotalBytes() - UsedBytes()) return 2;
  *handle = TheState().next_handle++;
  TheState().memory[*handle].bytes = bytes;
  return 0;
}
int cuMemRelease(Address handle) {
  const std::lock_guard<std::mutex> lock(TheState().mutex);
  if (TheState().memory.count(handle) == 0) return 1;
  TheState().memory[handle].has_handle = false;
  ForgetUnused(handle);
  return TheState().values["cuMemRelease"];
}
int cuMemMap(Address start, size_t bytes, size_t, Address handle, unsigned long long) {
  if (const int result = Begin("cuMemMap")) return result;
  const std::lock_guard<std::mutex> lock(TheState().mutex);
  const auto memory = TheState().memory.find(handle);
  if (memory == TheState().memory.end() || memory->second.bytes != bytes || TheState().mappings.count(start) > 0) {
    return 1;
  }
  memory->second.is_mapped = true;
  TheState().mappings[start] = handle;
  return 0;
}
int cuMemSetAccess(Address start, size_t bytes, const Access* access, size_t count) {
  if (const int result = Begin("cuMemSetAccess")) return result;
  if (count != 1 || access->flags != 3 || access->location_type != 1 || access->device < 100) return 1;
  return mprotect(reinterpret_cast<void*>(start), bytes, PROT_READ | PROT_WRITE);
}
int cuMemUnmap(Address start, size_t bytes) {
  if (const int result = Begin("cuMemUnmap")) return result;
  const std::lock_guard<std::mutex> lock(TheState().mutex);
  const auto found = TheState().mappings.find(start);
  if (found == TheState().mappings.end() || TheState().memory[found->second].bytes != bytes) return 1;
  TheState().memory[found->second].is_mapped = false;
  ForgetUnused(found->second);
  TheState().mappings.erase(found);
  void* const same = mmap(reinterpret_cast<void*>(start), bytes, PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  return same == MAP_FAILED ? 1 : 0;
}

#ifndef FAKE_CUDA_WITHOUT_STREAMS
int cuStreamCreate(void** stream, unsigned flags) {
  if (const int result = Begin("cuStreamCreate")) return result;
  if (flags != 1) return 1;
  *stream = IsAsynchronous() ? Queues::All().Create() : std::malloc(1);
  Count(&State::streams, 1);
  return 0;
}
#endif
int cuStreamDestroy_v2(void* stream) {
  if (IsAsynchronous()) {
    Queues::All().Destroy(stream);
  } else {
    std::free(stream);
  }
  Count(&State::streams, -1);
  return Begin("cuStreamDestroy");
}
int cuStreamSynchronize(void* stream) {
  if (const int result = Begin("cuStreamSynchronize")) return result;
  if (IsAsynchronous()) Queues::All().Of(stream).Wait();
  return 0;
}
int cuStreamQuery(void* stream) {
  if (const int result = Begin("cuStreamQuery")) return result;
  return IsAsynchronous() && !Queues::All().Of(stream).IsIdle() ? 600 : 0;
}
int cuStreamWaitEvent(void* stream, void* event, unsigned) {
  if (const int result = Begin("cuStreamWaitEvent")) return result;
  if (!IsAsynchronous()) return 0;
  const Event moment = *static_cast<Event*>(event);
  if (moment != nullptr) Queues::All().Of(stream).Add([moment] { moment->Wait(); });
  return 0;
}
int cuLaunchHostFunc(void* stream, void (*function)(void*), void* data) {
  return Add("cuLaunchHostFunc", stream, [=] { function(data); });
}

int cuEventCreate(void** event, unsigned flags) {
  if (const int result = Begin("cuEventCreate")) return result;
  if (flags != 2) return 1;
  *event = IsAsynchronous() ? new Event() : std::malloc(1);
  Count(&State::events, 1);
  return 0;
}
int cuEventDestroy_v2(void* event) {
  if (IsAsynchronous()) {
    delete static_cast<Event*>(event);
  } else {
    std::free(event);
  }
  Count(&State::events, -1);
  return 0;
}
int cuEventRecord(void* event, void* stream) {
  if (const int result = Begin("cuEventRecord")) return result;
  if (IsAsynchronous()) *static_cast<Event*>(event) = Queues::All().Of(stream).Record();
  return 0;
}
int cuEventQuery(void* event) {
  if (const int result = Begin("cuEventQuery")) return result;
  return IsAsynchronous() && !(*static_cast<Event*>(event))->HasCome() ? 600 : 0;
}
int cuEventSynchronize(void* event) {
  if (const int result = Begin("cuEventSynchronize")) return result;
  if (IsAsynchronous()) (*static_cast<Event*>(event))->Wait();
  return 0;
}

int cuMemcpyHtoDAsync_v2(Address to, const void* from, size_t bytes, void* stream) {
  return Add("copy", stream, [=] { std::memcpy(reinterpret_cast<void*>(to), from, bytes); });
}
int cuMemcpyDtoHAsync_v2(void* to, Address from, size_t bytes, void* stream) {
  return Add("copy", stream, [=] { std::memcpy(to, reinterpret_cast<const void*>(from), bytes); });
}
int cuMemcpyDtoDAsync_v2(Address to, Address from, size_t bytes, void* stream) {
  return Add("copy", stream,
             [=] { std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes); });
}
int cuMemsetD8Async(Address to, unsigned char value, size_t bytes, void* stream) {
  return Add("fill", stream, [=] { std::memset(reinterpret_cast<void*>(to), value, bytes); });
}

}  // extern "C"
