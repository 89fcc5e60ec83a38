#include "tensorcask/tests/support/failing_new.h"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <limits>
#include <new>

namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

std::atomic<int64_t> first_to_fail{kNever};
std::atomic<int64_t> last_to_fail{-1};
std::atomic<int64_t> num_allocations{0};
std::atomic<bool> failed{false};
std::atomic<bool> every_thread{true};
thread_local bool is_this_thread = false;

bool FailsNow() {
  if (!every_thread.load(std::memory_order_relaxed) && !is_this_thread) return false;
  const int64_t n = num_allocations.fetch_add(1, std::memory_order_relaxed);
  return n >= first_to_fail.load(std::memory_order_relaxed) && n <= last_to_fail.load(std::memory_order_relaxed);
}

void* Allocate(size_t bytes, size_t alignment) {
  if (FailsNow()) {
    failed.store(true, std::memory_order_relaxed);
    return nullptr;
  }
  if (alignment <= alignof(std::max_align_t)) return std::malloc(bytes == 0 ? 1 : bytes);
  return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

void* AllocateOrThrow(size_t bytes, size_t alignment) {
  void* const block = Allocate(bytes, alignment);
  if (block == nullptr) throw std::bad_alloc();
  return block;
}

}  // namespace

// All forms, so that no two of them mix. Not inlined: GCC would see malloc meet delete and new meet free, and warn.
#define NOT_INLINED __attribute__((noinline))

NOT_INLINED void* operator new(size_t bytes) { return AllocateOrThrow(bytes, 1); }
NOT_INLINED void* operator new[](size_t bytes) { return AllocateOrThrow(bytes, 1); }
NOT_INLINED void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return Allocate(bytes, 1); }
NOT_INLINED void* operator new[](size_t bytes, const std::nothrow_t&) noexcept { return Allocate(bytes, 1); }
NOT_INLINED void* operator new(size_t bytes, std::align_val_t alignment) {
  return AllocateOrThrow(bytes, static_cast<size_t>(alignment));
}
NOT_INLINED void* operator new[](size_t bytes, std::align_val_t alignment) {
  return AllocateOrThrow(bytes, static_cast<size_t>(alignment));
}
NOT_INLINED void* operator new(size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return Allocate(bytes, static_cast<size_t>(alignment));
}
NOT_INLINED void* operator new[](size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return Allocate(bytes, static_cast<size_t>(alignment));
}
NOT_INLINED void operator delete(void* block) noexcept { std::free(block); }
NOT_INLINED void operator delete[](void* block) noexcept { std::free(block); }
NOT_INLINED void operator delete(void* block, size_t) noexcept { std::free(block); }
NOT_INLINED void operator delete[](void* block, size_t) noexcept { std::free(block); }
NOT_INLINED void operator delete(void* block, const std::nothrow_t&) noexcept { std::free(block); }
NOT_INLINED void operator delete[](void* block, const std::nothrow_t&) noexcept { std::free(block); }
NOT_INLINED void operator delete(void* block, std::align_val_t) noexcept { std::free(block); }
NOT_INLINED void operator delete[](void* block, std::align_val_t) noexcept { std::free(block); }
NOT_INLINED void operator delete(void* block, size_t, std::align_val_t) noexcept { std::free(block); }
NOT_INLINED void operator delete[](void* block, size_t, std::align_val_t) noexcept { std::free(block); }
NOT_INLINED void operator delete(void* block, std::align_val_t, const std::nothrow_t&) noexcept { std::free(block); }
NOT_INLINED void operator delete[](void* block, std::align_val_t, const std::nothrow_t&) noexcept { std::free(block); }

namespace tensorcask::testing {

FailingNew::FailingNew(int64_t n, Extent extent, Threads threads) {
  is_this_thread = threads == kThisThread;
  every_thread.store(threads == kEveryThread);
  failed.store(false);
  num_allocations.store(0);
  last_to_fail.store(extent == kOnce ? n : kNever);
  first_to_fail.store(n);
}

FailingNew::~FailingNew() {
  first_to_fail.store(kNever);
  last_to_fail.store(-1);
  every_thread.store(true);
  is_this_thread = false;
}

bool FailingNew::has_failed() const { return failed.load(); }

}  // namespace tensorcask::testing
