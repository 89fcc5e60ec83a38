// Keeps objects that are costly to make for their next user in this process.
//
//   static auto* const idle = new IdleList<ContextPointer, (size_t{8} << 20)>();
//   ContextPointer context = idle->Acquire();      // null: the list is empty, make one
//   idle->Give(std::move(context), bytes);      // destroyed if the list would hold more than 8 MiB
//
// Thread-safe. Never allocates, and never waits long: where another thread holds the list, it counts as empty or full.
// So it also works in a child of fork(2), where a thread that held the list at the fork does not exist.

#ifndef TENSORCASK_SERIALIZE_PAYLOAD_CODEC_IDLE_LIST_H_
#define TENSORCASK_SERIALIZE_PAYLOAD_CODEC_IDLE_LIST_H_

#include <array>
#include <cstddef>
#include <mutex>
#include <thread>
#include <utility>

namespace tensorcask::payload {

// Pointer: a std::unique_ptr.
template <typename Pointer, size_t kMaxBytes>
class IdleList {
 public:
  static constexpr size_t kMost = 16;

  // The object that was released last; null if the list is empty.
  Pointer Acquire() {
    const std::unique_lock<std::mutex> lock = Lock();
    if (!lock.owns_lock() || count_ == 0) return nullptr;
    Entry& last = entries_[--count_];
    bytes_ -= last.bytes;
    return std::move(last.thing);
  }

  // `bytes` is the size of the object. Requires: not null.
  void Give(Pointer thing, size_t bytes) {
    const std::unique_lock<std::mutex> lock = Lock();
    if (!lock.owns_lock() || count_ == kMost || bytes > kMaxBytes - bytes_) return;
    bytes_ += bytes;
    entries_[count_++] = {std::move(thing), bytes};
  }

 private:
  // Not owned if another thread keeps the list for longer than it takes to move an object.
  std::unique_lock<std::mutex> Lock() {
    constexpr int kTries = 100;
    std::unique_lock<std::mutex> lock(mutex_, std::defer_lock);
    for (int i = 0; i < kTries && !lock.try_lock(); ++i) std::this_thread::yield();
    return lock;
  }

  struct Entry {
    Pointer thing;
    size_t bytes = 0;
  };
  std::mutex mutex_;
  std::array<Entry, kMost> entries_;
  size_t count_ = 0;
  size_t bytes_ = 0;  // the size of all of them
};

}  // namespace tensorcask::payload

#endif  // TENSORCASK_SERIALIZE_PAYLOAD_CODEC_IDLE_LIST_H_
