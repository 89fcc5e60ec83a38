// External memory that changes while the library reads it, as memory shared with another process may.
//
//   ChangingMemory memory(DType::kInt64, {1000});
//   memory.Change();                        // every byte is another one
//   const ChangingMemory::Thread thread(&memory);      // until the end of the block, all the time
//   ... save memory.tensor() ...

#ifndef TENSORCASK_TESTS_SUPPORT_MEMORY_THAT_CHANGES_H_
#define TENSORCASK_TESTS_SUPPORT_MEMORY_THAT_CHANGES_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <random>
#include <thread>
#include <vector>

#include "absl/base/config.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask::testing {

class ChangingMemory {
 public:
  // Half of the bytes are zeros, so that compression pays, and half are noise, which is stored as it is.
  ChangingMemory(DType dtype, int64_t num_elements)
      : bytes_(static_cast<size_t>(num_elements) * ElementSize(dtype)), dtype_(dtype), num_elements_(num_elements) {
    std::mt19937 random(1);
    for (size_t i = bytes_.size() / 2; i < bytes_.size(); ++i) bytes_[i] = static_cast<char>(random());
  }

  Tensor tensor() {
    TensorBuffer::External external;
    external.data = bytes_.data();
    external.size_bytes = bytes_.size();
    return *Tensor::FromBuffer(dtype_, TensorShape({num_elements_}), TensorBuffer::WrapExternal(external));
  }
  const std::vector<char>& bytes() const { return bytes_; }

  // Zeros become ones and the other way round: varints of another length.
  void Change() {
    volatile char* const bytes = bytes_.data();
    for (size_t i = 0; i < bytes_.size(); ++i) bytes[i] = static_cast<char>(~bytes[i]);
  }

  // Does nothing under tsan, which would call it what it is: a race.
  class Thread {
   public:
    explicit Thread(ChangingMemory* memory)
        : thread_([this, memory] {
            while (!done_.load()) memory->Change();
          }) {}
    ~Thread() {
      done_.store(true);
      thread_.join();
    }
    Thread(const Thread&) = delete;
    Thread& operator=(const Thread&) = delete;

   private:
#ifdef ABSL_HAVE_THREAD_SANITIZER
    std::atomic<bool> done_{true};
#else
    std::atomic<bool> done_{false};
#endif
    std::thread thread_;
  };

 private:
  std::vector<char> bytes_;
  const DType dtype_;
  const int64_t num_elements_;
};

}  // namespace tensorcask::testing

#endif  // TENSORCASK_TESTS_SUPPORT_MEMORY_THAT_CHANGES_H_
