#include "tensorcask/serialize/gguf/internal/header_cursor.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace tensorcask::gguf {
namespace {

constexpr size_t kWindowBytes = size_t{256} << 10;

}  // namespace

HeaderCursor::HeaderCursor(const ByteSource& source, uint64_t position, bool big_endian)
    : source_(source), big_endian_(big_endian), window_(source.size_bytes(), kWindowBytes), window_offset_(position) {}

absl::Status HeaderCursor::CheckLeft(uint64_t bytes) const {
  if (bytes <= left()) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("the file ends inside the header: ", bytes, " bytes at ", position(),
                                          " are wanted, and ", left(), " are left"));
}

absl::StatusOr<absl::string_view> HeaderCursor::Window() {
  if (next_ == window_bytes_) {
    window_offset_ += next_;
    next_ = 0;
    window_bytes_ = static_cast<size_t>(std::min<uint64_t>(window_.size(), source_.size_bytes() - window_offset_));
    absl::Status read = source_.ReadAt(window_offset_, absl::MakeSpan(window_.data(), window_bytes_));
    if (!read.ok()) {
      window_bytes_ = 0;
      return read;
    }
  }
  return absl::string_view(window_.data() + next_, window_bytes_ - next_);
}

absl::Status HeaderCursor::Read(char* out, size_t size) {
  if (size > window_bytes_ - next_) CASK_RETURN_IF_ERROR(CheckLeft(size));
  while (size > 0) {
    CASK_ASSIGN_OR_RETURN(const absl::string_view window, Window());
    const size_t part = std::min(size, window.size());
    std::memcpy(out, window.data(), part);
    out += part;
    size -= part;
    next_ += part;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> HeaderCursor::Text(uint64_t max_bytes) {
  CASK_ASSIGN_OR_RETURN(const auto size, Number<uint64_t>());
  CASK_RETURN_IF_ERROR(CheckLeft(size));
  if (size > max_bytes) {
    return absl::DataLossError(absl::StrCat("a text of ", size, " bytes; at most ", max_bytes, " are allowed here"));
  }
  if (size <= window_bytes_ - next_) {
    next_ += static_cast<size_t>(size);
    return std::string(window_.data() + next_ - size, static_cast<size_t>(size));
  }
  std::string text(static_cast<size_t>(size), '\0');
  CASK_RETURN_IF_ERROR(Read(text.data(), text.size()));
  return text;
}

absl::Status HeaderCursor::Skip(uint64_t bytes) {
  CASK_RETURN_IF_ERROR(CheckLeft(bytes));
  if (bytes <= window_bytes_ - next_) {
    next_ += static_cast<size_t>(bytes);
  } else {
    window_offset_ = position() + bytes;
    window_bytes_ = 0;
    next_ = 0;
  }
  return absl::OkStatus();
}

absl::Status HeaderCursor::SkipTexts(uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) {
    CASK_ASSIGN_OR_RETURN(const auto size, Number<uint64_t>());
    CASK_RETURN_IF_ERROR(Skip(size));
  }
  return absl::OkStatus();
}

absl::Status HeaderCursor::SkipBools(uint64_t count) {
  CASK_RETURN_IF_ERROR(CheckLeft(count));
  while (count > 0) {
    CASK_ASSIGN_OR_RETURN(absl::string_view window, Window());
    window = window.substr(0, static_cast<size_t>(std::min<uint64_t>(window.size(), count)));
    for (const char c : window) {
      if (c == 0 || c == 1) continue;
      return absl::DataLossError(absl::StrCat("a bool has the byte ", static_cast<unsigned char>(c), ", not 0 or 1"));
    }
    next_ += window.size();
    count -= window.size();
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> HeaderCursor::SkipZeros(uint64_t count) {
  CASK_RETURN_IF_ERROR(CheckLeft(count));
  bool all_zero = true;
  while (count > 0) {
    CASK_ASSIGN_OR_RETURN(absl::string_view window, Window());
    window = window.substr(0, static_cast<size_t>(std::min<uint64_t>(window.size(), count)));
    all_zero = all_zero && window.find_first_not_of('\0') == absl::string_view::npos;
    next_ += window.size();
    count -= window.size();
  }
  return all_zero;
}

}  // namespace tensorcask::gguf
