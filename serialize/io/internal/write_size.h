// How much one write(2) hands to the page cache.
//
// Large writes are the fastest: the kernel gives them large pages, which also cost less to map. But it keeps free pages
// of each size apart, and a virtual machine may have given those of one size back to its host. Each write that needs
// them then waits for the host, although there are free pages of other sizes: 4 GiB took 8.8 s in writes of 512 KiB,
// and 1.7 s if each slow write changed the size of the next one. A slow disk looks the same, but there no size is
// faster.

#ifndef TENSORCASK_SERIALIZE_IO_INTERNAL_WRITE_SIZE_H_
#define TENSORCASK_SERIALIZE_IO_INTERNAL_WRITE_SIZE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace tensorcask::internal {

class WriteSize {
 public:
  static constexpr size_t kMiddleBytes = size_t{128} << 10;
  static constexpr size_t kSmallBytes = size_t{32} << 10;
  static constexpr uint64_t kRetryBytes = uint64_t{64} << 20;  // until large writes are tried again
  static constexpr uint64_t kSlowNanosecondsPerKiB = 1024;     // 1 GB/s; writing to the page cache reaches 3 and more
  static constexpr int kSlowDisk = 24;  // so many slow writes without a fast one are the fault of the disk

  // The bytes to write now, of `bytes` that wait.
  size_t Of(size_t bytes) const { return std::min(bytes, most_); }

  // Takes note of how long a write took. A slow write changes the size: from all to kMiddleBytes, to kSmallBytes, to
  // all again. On a slow disk all bytes are written at once, for kRetryBytes.
  void Took(size_t written_bytes, uint64_t nanoseconds) {
    since_change_ += written_bytes;
    const bool is_slow = nanoseconds > (written_bytes >> 10) * kSlowNanosecondsPerKiB;
    if (since_change_ >= kRetryBytes) {
      slow_in_a_row_ = 0;
      ChangeTo(kAll);
    } else if (slow_in_a_row_ < kSlowDisk) {
      slow_in_a_row_ = is_slow ? slow_in_a_row_ + 1 : 0;
      if (slow_in_a_row_ == kSlowDisk) {
        ChangeTo(kAll);
      } else if (is_slow) {
        ChangeTo(most_ == kAll ? kMiddleBytes : most_ == kMiddleBytes ? kSmallBytes : kAll);
      }
    }
  }

 private:
  static constexpr size_t kAll = SIZE_MAX;

  void ChangeTo(size_t most) {
    most_ = most;
    since_change_ = 0;
  }

  size_t most_ = kAll;
  uint64_t since_change_ = 0;  // bytes
  int slow_in_a_row_ = 0;
};

}  // namespace tensorcask::internal

#endif  // TENSORCASK_SERIALIZE_IO_INTERNAL_WRITE_SIZE_H_
