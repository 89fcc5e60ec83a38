// libtorch_allocator.so with an allocator of this test in the place of PyTorch's.

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "gtest/gtest.h"
#include "tensorcask/tests/support/test_module.h"

namespace tensorcask {

int64_t g_allocated = 0;
int64_t g_freed = 0;
size_t g_bytes = 0;

// As PyTorch has them.
struct DataPtrOfTest {
  void* data;
  std::unique_ptr<void, void (*)(void*)> context;
  int8_t device_type;
  int8_t device_index;
};

class AllocatorOfTest {
 public:
  virtual ~AllocatorOfTest() = default;
  virtual DataPtrOfTest allocate(size_t bytes) {
    ++g_allocated;
    g_bytes += bytes;
    return {this, {this, [](void*) { ++g_freed; }}, 1, 0};
  }
};

AllocatorOfTest* Get(const int8_t& type) {
  static AllocatorOfTest allocator;
  return type == 1 ? &allocator : nullptr;
}

TEST(TorchAllocator, ReplaysTheTraceOnceMoreThanTheRounds) {
  void* const library = dlopen(testing::TestModule("tests/gpu/libtorch_allocator.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  const auto seconds =
      reinterpret_cast<double (*)(AllocatorOfTest * (*)(const int8_t&), int, const int64_t*, size_t, int)>(
          dlsym(library, "StepSeconds"));
  ASSERT_NE(seconds, nullptr);
  const int64_t events[] = {100, 20, -1, 3};
  EXPECT_GT(seconds(Get, 1, events, 4, 5), 0);
  EXPECT_EQ(g_allocated, 6 * 3);
  EXPECT_EQ(g_freed, 6 * 3);  // at the end of a replay, too
  EXPECT_EQ(g_bytes, 6U * 123);
  EXPECT_EQ(seconds(Get, 2, events, 4, 5), -1);  // no such device
}

}  // namespace tensorcask
