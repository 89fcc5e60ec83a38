// Keeps objects that are costly to make for their next user in this process.
//
//   static auto* const idle = new IdleList<ContextPointer, (size_t{8} << 20)>();
//   ContextPointer context = idle->Acquire();      // null: the list is empty, make one
//   idle->Give(std::move(context), bytes);      // destroyed if the list would hold more than 8 MiB
//
// Thread-safe. Never allocates.

#ifndef TENSORCASK_SERIALIZE_PAYLOAD_CODEC_IDLE_LIST_H_
#define TENSORCASK_SERIALIZE_PAYLOAD_CODEC_IDLE_LIST_H_

#include <array>
#include <cstddef>
#include <mutex>
#include <utility>

namespace tensorcask::payload {

// Pointer: a std::unique_ptr.
template <typename Pointer, size_t kMaxBytes>
class IdleList {
 public:
  static constexpr size_t kMost = 16;

  // The object that was given last; null if there is none.
  Pointer Acquire() {
    std::lock_guard<std::mutex> lock(mutex_);
    if (count_ == 0) return nullptr;
    Entry& last = entries_[--count_];
    bytes_ -= last.bytes;
    return std::move(last.thing);
  }

  // `bytes` is the size of the object. Requires: not null.
  void Give(Pointer thing, size_t bytes) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (count_ == kMost || bytes > kMaxBytes - bytes_) return;
    bytes_ += bytes;
    entries_[count_++] = {std::move(thing), bytes};
  }

 private:
  struct Entry {
    Pointer thing;
    size_t bytes = 0;
  };
  std::mutex mutex_;
  std::array<Entry, kMost> entries_;
  size_t count_ = 0;
  size_t bytes_ = 0;  // of all
};

}  // namespace tensorcask::payload

#endif  // TENSORCASK_SERIALIZE_PAYLOAD_CODEC_IDLE_LIST_H_
