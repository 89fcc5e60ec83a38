// Reads a GGUF header from front to back: numbers in either byte order, texts, and over arrays that stay in the file.
//
//   HeaderCursor cursor(*file, /*position=*/8, /*big_endian=*/false);
//   CASK_ASSIGN_OR_RETURN(const auto count, cursor.Number<uint64_t>());
//
// Memory: a window of the file. Errors, which do not name the file: DataLoss if the file ends; from errno.

#ifndef TENSORCASK_SERIALIZE_GGUF_INTERNAL_HEADER_CURSOR_H_
#define TENSORCASK_SERIALIZE_GGUF_INTERNAL_HEADER_CURSOR_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/piece_buffer.h"
#include "tensorcask/tensor/base/endian.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask::gguf {

class HeaderCursor {
 public:
  // Requires: `source` outlives the cursor, and position <= source.size_bytes().
  HeaderCursor(const ByteSource& source, uint64_t position, bool big_endian);

  uint64_t position() const { return window_offset_ + next_; }
  uint64_t left() const { return source_.size_bytes() - position(); }
  bool big_endian() const { return big_endian_; }

  template <typename T>
  absl::StatusOr<T> Number() {
    char bytes[sizeof(T)];
    if (sizeof(T) <= window_bytes_ - next_) {
      std::memcpy(bytes, window_.data() + next_, sizeof(T));
      next_ += sizeof(T);
    } else {
      CASK_RETURN_IF_ERROR(Read(bytes, sizeof(T)));
    }
    if (big_endian_) SwapBytes(bytes, 1, sizeof(T));
    return LoadLittleEndian<T>(bytes);
  }

  // A text: its length, of at most `max_bytes`, and its bytes. Errors: also DataLoss past max_bytes.
  absl::StatusOr<std::string> Text(uint64_t max_bytes);

  absl::Status Skip(uint64_t bytes);
  absl::Status SkipTexts(uint64_t count);
  // Skips `count` bytes, which must be 0 or 1. Errors: DataLoss.
  absl::Status SkipBools(uint64_t count);
  // The same for bytes that should be 0: false if one is not.
  absl::StatusOr<bool> SkipZeros(uint64_t count);

 private:
  absl::Status Read(char* out, size_t size);
  // The bytes of the window that are left; reads the next window if there are none. Requires: left() > 0.
  absl::StatusOr<absl::string_view> Window();
  absl::Status CheckLeft(uint64_t bytes) const;

  const ByteSource& source_;
  const bool big_endian_;
  PieceBuffer window_;
  uint64_t window_offset_;  // the position of the window, in the source
  size_t window_bytes_ = 0;
  size_t next_ = 0;  // in the window
};

}  // namespace tensorcask::gguf

#endif  // TENSORCASK_SERIALIZE_GGUF_INTERNAL_HEADER_CURSOR_H_
