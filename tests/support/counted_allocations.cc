#include "tensorcask/tests/support/counted_allocations.h"

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace {

std::atomic<int64_t> num_allocations{0};
std::atomic<bool> nothrow_fails{false};

void* CountedAllocation(size_t bytes) {
  num_allocations.fetch_add(1, std::memory_order_relaxed);
  return std::malloc(bytes == 0 ? 1 : bytes);
}

}  // namespace

// All forms, so that no two of them mix. Not inlined: GCC would see malloc meet delete and new meet free, and warn.
#define NOT_INLINED __attribute__((noinline))

NOT_INLINED void* operator new(size_t bytes) {
  void* const block = CountedAllocation(bytes);
  if (block == nullptr) std::abort();
  return block;
}
NOT_INLINED void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  return nothrow_fails ? nullptr : CountedAllocation(bytes);
}
NOT_INLINED void* operator new[](size_t bytes) { return operator new(bytes); }
NOT_INLINED void* operator new[](size_t bytes, const std::nothrow_t&) noexcept { return CountedAllocation(bytes); }
NOT_INLINED void operator delete(void* block) noexcept { std::free(block); }
NOT_INLINED void operator delete(void* block, size_t) noexcept { std::free(block); }
NOT_INLINED void operator delete(void* block, const std::nothrow_t&) noexcept { std::free(block); }
NOT_INLINED void operator delete[](void* block) noexcept { std::free(block); }
NOT_INLINED void operator delete[](void* block, size_t) noexcept { std::free(block); }
NOT_INLINED void operator delete[](void* block, const std::nothrow_t&) noexcept { std::free(block); }

namespace tensorcask::testing {

int64_t NumAllocations() { return num_allocations.load(); }

FailingNothrowNew::FailingNothrowNew() { nothrow_fails = true; }
FailingNothrowNew::~FailingNothrowNew() { nothrow_fails = false; }

}  // namespace tensorcask::testing
