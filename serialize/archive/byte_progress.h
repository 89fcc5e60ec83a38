// Counts the bytes that several threads have read, and asks the caller whether to go on.

#ifndef TENSORCASK_SERIALIZE_ARCHIVE_BYTE_PROGRESS_H_
#define TENSORCASK_SERIALIZE_ARCHIVE_BYTE_PROGRESS_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>

namespace tensorcask::archive {

class ByteProgress {
 public:
  using Callback = std::function<bool(uint64_t bytes)>;

  // `callback` may be null, and must outlive this object. It is never called on two threads at once.
  explicit ByteProgress(const Callback& callback) : callback_(callback) {}

  // False once the callback has returned false.
  bool Add(uint64_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    bytes_ += bytes;
    if (callback_ && !cancelled_) cancelled_ = !callback_(bytes_);
    return !cancelled_;
  }
  bool cancelled() const { return cancelled_; }

 private:
  const Callback& callback_;
  std::mutex mutex_;
  uint64_t bytes_ = 0;
  std::atomic<bool> cancelled_{false};
};

}  // namespace tensorcask::archive

#endif  // TENSORCASK_SERIALIZE_ARCHIVE_BYTE_PROGRESS_H_
