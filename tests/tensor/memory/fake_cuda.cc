// A driver library without a driver, for cuda_backend_test: device memory is memory of the C library, and work is done
// when it is added. FakeCudaSet changes what it says and lets calls fail.

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

namespace {

using Address = unsigned long long;

struct State {
  std::mutex mutex;
  std::map<std::string, int> values = {{"version", 12020}, {"devices", 2}};
  std::map<Address, size_t> blocks;
  std::map<void*, size_t> host_blocks;
  int contexts = 0;
  int streams = 0;
  int events = 0;
};

State& TheState() {
  static State& state = *new State();
  return state;
}

// What FakeCudaSet set: 0 by default.
int Value(const char* name) {
  State& state = TheState();
  const std::lock_guard<std::mutex> lock(state.mutex);
  const auto found = state.values.find(name);
  return found == state.values.end() ? 0 : found->second;
}

int Count(int State::*counter, int change) {
  State& state = TheState();
  const std::lock_guard<std::mutex> lock(state.mutex);
  return state.*counter += change;
}

constexpr size_t kTotalBytes = size_t{64} << 20;

thread_local int current_contexts = 0;

// The result that the test asked for; 201 (invalid context) without a context.
int Begin(const char* call) { return current_contexts > 0 ? Value(call) : 201; }

size_t UsedBytes() {
  size_t used = 0;
  for (const auto& block : TheState().blocks) used += block.second;
  return used;
}

}  // namespace

extern "C" {

void FakeCudaSet(const char* name, int value) {
  const std::lock_guard<std::mutex> lock(TheState().mutex);
  TheState().values[name] = value;
}
// Contexts, streams, events and blocks that exist.
int FakeCudaLive() {
  State& state = TheState();
  const std::lock_guard<std::mutex> lock(state.mutex);
  return state.contexts + state.streams + state.events + static_cast<int>(state.blocks.size()) +
         static_cast<int>(state.host_blocks.size());
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
int cuCtxSynchronize() { return Begin("cuCtxSynchronize"); }

int cuMemGetInfo_v2(size_t* free_bytes, size_t* total) {
  const std::lock_guard<std::mutex> lock(TheState().mutex);
  *free_bytes = kTotalBytes - UsedBytes();
  *total = kTotalBytes;
  return 0;
}
int cuMemAlloc_v2(Address* address, size_t bytes) {
  if (const int result = Begin("cuMemAlloc")) return result;
  const std::lock_guard<std::mutex> lock(TheState().mutex);
  if (bytes > kTotalBytes - UsedBytes()) return 2;
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

#ifndef FAKE_CUDA_WITHOUT_STREAMS
int cuStreamCreate(void** stream, unsigned flags) {
  if (const int result = Begin("cuStreamCreate")) return result;
  if (flags != 1) return 1;
  *stream = new int(0);
  Count(&State::streams, 1);
  return 0;
}
#endif
int cuStreamDestroy_v2(void* stream) {
  delete static_cast<int*>(stream);
  Count(&State::streams, -1);
  return Begin("cuStreamDestroy");
}
int cuStreamSynchronize(void*) { return Begin("cuStreamSynchronize"); }
int cuStreamWaitEvent(void*, void*, unsigned) { return Begin("cuStreamWaitEvent"); }
int cuEventCreate(void** event, unsigned flags) {
  if (const int result = Begin("cuEventCreate")) return result;
  if (flags != 2) return 1;
  *event = new int(0);
  Count(&State::events, 1);
  return 0;
}
int cuEventDestroy_v2(void* event) {
  delete static_cast<int*>(event);
  Count(&State::events, -1);
  return 0;
}
int cuEventRecord(void*, void*) { return Begin("cuEventRecord"); }
int cuEventQuery(void*) { return Begin("cuEventQuery"); }
int cuEventSynchronize(void*) { return Begin("cuEventSynchronize"); }

int cuMemcpyHtoDAsync_v2(Address to, const void* from, size_t bytes, void*) {
  if (const int result = Begin("copy")) return result;
  std::memcpy(reinterpret_cast<void*>(to), from, bytes);
  return 0;
}
int cuMemcpyDtoHAsync_v2(void* to, Address from, size_t bytes, void*) {
  if (const int result = Begin("copy")) return result;
  std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
  return 0;
}
int cuMemcpyDtoDAsync_v2(Address to, Address from, size_t bytes, void*) {
  if (const int result = Begin("copy")) return result;
  std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
  return 0;
}
int cuMemsetD8Async(Address to, unsigned char value, size_t bytes, void*) {
  if (const int result = Begin("fill")) return result;
  std::memset(reinterpret_cast<void*>(to), value, bytes);
  return 0;
}

}  // extern "C"
