// Memory for pieces of a file that are read one after the other.
//
// Begins at a page, as pieces of files mostly do. Some processors copy with `rep movsb` ten times slower to an address
// that lies 1 to 31 bytes after that of the source, both modulo a page (AMD EPYC of Zen 3: 1.6 GiB/s for 20); read()
// copies so, and large blocks of malloc() begin 16 bytes after a page.

#ifndef TENSORCASK_SERIALIZE_IO_PIECE_BUFFER_H_
#define TENSORCASK_SERIALIZE_IO_PIECE_BUFFER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>

namespace tensorcask {

class PieceBuffer {
 public:
  // A buffer of `total_bytes`, but of no more than `most_bytes`. The bytes are not set. Throws std::bad_alloc.
  PieceBuffer(uint64_t total_bytes, size_t most_bytes)
      : size_(static_cast<size_t>(std::min<uint64_t>(total_bytes, most_bytes))),
        data_(static_cast<char*>(::operator new(size_, kPage))) {}
  ~PieceBuffer() { ::operator delete(data_, kPage); }
  PieceBuffer(const PieceBuffer&) = delete;
  PieceBuffer& operator=(const PieceBuffer&) = delete;

  char* data() { return data_; }
  size_t size() const { return size_; }

 private:
  static constexpr std::align_val_t kPage{4096};

  size_t size_;
  char* data_;
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_IO_PIECE_BUFFER_H_
