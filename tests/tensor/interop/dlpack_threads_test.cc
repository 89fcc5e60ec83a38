// Const calls on one view from several threads, and from a forked child.

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <utility>

#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/interop/dlpack.h"
#include "tensorcask/tensor/interop/dlpack_abi.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask {
namespace {

// Too large to be part of the buffer object, so that LazyClone shares its memory.
Tensor Large() {
  Tensor tensor = *Tensor::Create(DType::kFloat32, TensorShape({16, 16}));
  for (int64_t i = 0; i < 256; ++i) tensor.mutable_flat<float>()(i) = static_cast<float>(i);
  return tensor;
}

const void* DataOf(const TensorView& view) { return view.buffer()->data(); }

TEST(DLPackThreads, AnExportThatMayNotCopySharesTheMemoryWhileOthersCloneIt) {
  constexpr int kExports = 50000;
  const TensorView view = Large();
  const void* const data = DataOf(view);
  std::atomic<bool> stop = false;
  std::thread cloner([&] {
    while (!stop.load()) (void)view.LazyClone();
  });
  DLPackExportOptions options;
  options.copy = DLPackCopy::kNever;
  int moved = 0;
  for (int i = 0; i < kExports; ++i) {
    const absl::StatusOr<DLPackPtr> out = ToDLPack(view, options);
    if (!out.ok() || (*out)->dl_tensor.data != data) ++moved;
  }
  stop = true;
  cloner.join();
  EXPECT_EQ(moved, 0) << "of " << kExports << " exports";
  EXPECT_EQ(DataOf(view), data);
}

// The copy-on-write state has a lock. A child that is forked while another thread holds it must not wait for ever.
TEST(DLPackThreads, AForkedChildCanClone) {
  const TensorView view = Large();
  std::atomic<bool> stop = false;
  std::thread cloner([&] {
    while (!stop.load()) (void)view.LazyClone();
  });
  for (int i = 0; i < 200; ++i) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      alarm(20);
      _exit(view.LazyClone().ok() ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "child " << i << " ended with status " << status;
  }
  stop = true;
  cloner.join();
}

}  // namespace
}  // namespace tensorcask
