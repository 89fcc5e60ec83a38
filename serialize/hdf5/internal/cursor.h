// Reads one piece of metadata from front to back.
//
//   Cursor in(bytes);
//   const uint64_t version = in.Uint(1);
//   const absl::string_view name = in.Bytes(in.Uint(2));
//   if (!in.ok()) return CutShort("an attribute");
//
// After the end every number is 0 and every text is empty, so one check after all reads is enough. A number that is
// used before that, as a count or a size, is bounded by left().

#ifndef TENSORCASK_SERIALIZE_HDF5_INTERNAL_CURSOR_H_
#define TENSORCASK_SERIALIZE_HDF5_INTERNAL_CURSOR_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace tensorcask::hdf5 {

// DataLoss: "WHAT is cut short".
inline absl::Status CutShort(absl::string_view what) {
  return absl::DataLossError(absl::StrCat(what, " is cut short"));
}

class Cursor {
 public:
  explicit Cursor(absl::string_view bytes) : bytes_(bytes) {}

  bool ok() const { return ok_; }  // false: more was asked for than there is
  size_t position() const { return next_; }
  size_t left() const { return bytes_.size() - next_; }

  // A number of `size` bytes, 1 to 8, little-endian.
  uint64_t Uint(int size) {
    uint64_t value = 0;
    const absl::string_view bytes = Bytes(static_cast<uint64_t>(size));
    for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
    return value;
  }
  absl::string_view Bytes(uint64_t size) {
    if (size > left()) {
      ok_ = false;
      next_ = bytes_.size();
      return {};
    }
    const absl::string_view bytes = bytes_.substr(next_, static_cast<size_t>(size));
    next_ += bytes.size();
    return bytes;
  }
  void Skip(uint64_t size) { Bytes(size); }
  // Text up to a NUL byte, which is read, too.
  absl::string_view TextToNul() {
    const size_t end = bytes_.find('\0', next_);
    if (end == absl::string_view::npos) {
      Bytes(left() + uint64_t{1});
      return {};
    }
    const absl::string_view text = bytes_.substr(next_, end - next_);
    next_ = end + 1;
    return text;
  }
  // To the next position that is a multiple of 8, counted from `start`.
  void AlignTo8(size_t start) { Skip((8 - (next_ - start) % 8) % 8); }

 private:
  absl::string_view bytes_;
  size_t next_ = 0;
  bool ok_ = true;
};

}  // namespace tensorcask::hdf5

#endif  // TENSORCASK_SERIALIZE_HDF5_INTERNAL_CURSOR_H_
