#include "tensorcask/serialize/protowire/wire_cursor.h"

#include <algorithm>
#include <cstring>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/tensor/base/endian.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/varint.h"

namespace tensorcask {
namespace {

constexpr size_t kBlockAfterSeek = size_t{4} << 10;
constexpr size_t kNextBlock = size_t{64} << 10;
constexpr size_t kMostTagBytes = 5;

}  // namespace

absl::Status WireCursor::Fail(absl::string_view what) const {
  return absl::InvalidArgumentError(absl::StrCat(what, " at byte ", position_));
}

absl::StatusOr<absl::string_view> WireCursor::Look(uint64_t end, size_t wanted) {
  wanted = static_cast<size_t>(std::min<uint64_t>(wanted, end - position_));
  const bool is_inside = position_ >= block_begin_ && position_ - block_begin_ <= block_bytes_;
  const size_t skipped = is_inside ? static_cast<size_t>(position_ - block_begin_) : 0;
  if (!is_inside || block_bytes_ - skipped < wanted) {
    const size_t kept = is_inside ? block_bytes_ - skipped : 0;
    const size_t block = is_inside && block_bytes_ > 0 ? kNextBlock : kBlockAfterSeek;
    if (block_.size() < block) block_.resize(block);
    std::memmove(block_.data(), block_.data() + skipped, kept);
    block_begin_ = position_;
    block_bytes_ = kept;
    const uint64_t left = source_->size_bytes() - position_ - kept;
    const auto more = static_cast<size_t>(std::min<uint64_t>(left, block - kept));
    CASK_RETURN_IF_ERROR(source_->ReadAt(position_ + kept, absl::MakeSpan(block_.data() + kept, more)));
    block_bytes_ = kept + more;
  }
  const auto at = static_cast<size_t>(position_ - block_begin_);
  return absl::string_view(block_.data() + at,
                           static_cast<size_t>(std::min<uint64_t>(block_bytes_ - at, end - position_)));
}

absl::Status WireCursor::ReadVarint(uint64_t end, uint64_t* value) {
  // Most have one byte, which is in memory.
  const bool is_inside = position_ >= block_begin_ && position_ - block_begin_ < block_bytes_;
  const uint8_t first = is_inside ? static_cast<uint8_t>(block_[static_cast<size_t>(position_ - block_begin_)]) : 0x80;
  if (first < 0x80) {
    *value = first;
    ++position_;
    return absl::OkStatus();
  }
  CASK_ASSIGN_OR_RETURN(absl::string_view bytes, Look(end, kMaxVarintBytes));
  const size_t before = bytes.size();
  if (!ParseVarint(&bytes, value)) return Fail("a varint that is cut short or longer than 10 bytes");
  position_ += before - bytes.size();
  return absl::OkStatus();
}

absl::Status WireCursor::ReadFixed(uint64_t end, int width, uint64_t* value) {
  const auto bytes = static_cast<size_t>(width);
  if (end - position_ < bytes) return Fail(absl::StrCat("a ", 8 * width, "-bit number that is cut short"));
  CASK_ASSIGN_OR_RETURN(const absl::string_view found, Look(end, bytes));
  *value = width == 4 ? LoadLittleEndian<uint32_t>(found.data()) : LoadLittleEndian<uint64_t>(found.data());
  position_ += bytes;
  return absl::OkStatus();
}

absl::Status WireCursor::ReadBytes(absl::Span<char> out) {
  if (out.size() > kBlockAfterSeek) {
    CASK_RETURN_IF_ERROR(source_->ReadAt(position_, out));
  } else if (!out.empty()) {
    CASK_ASSIGN_OR_RETURN(const absl::string_view found, Look(position_ + out.size(), out.size()));
    std::memcpy(out.data(), found.data(), out.size());
  }
  position_ += out.size();
  return absl::OkStatus();
}

absl::Status WireCursor::ReadField(uint64_t end, Field* field) {
  field->position = position_;
  uint64_t tag = 0;
  CASK_RETURN_IF_ERROR(ReadVarint(end, &tag));
  if (position_ - field->position > kMostTagBytes) return Fail("a tag of more than 5 bytes");
  tag &= 0xffff'ffff;  // as protobuf does
  field->number = static_cast<uint32_t>(tag >> 3);
  if (field->number == 0) return Fail("field number 0");
  const auto type = static_cast<WireType>(tag & 7);
  field->type = type;
  field->value = 0;
  field->size = 0;
  if (position_ == end) return Fail("a field that is cut short");
  switch (type) {
    case WireType::kVarint:
      CASK_RETURN_IF_ERROR(ReadVarint(end, &field->value));
      break;
    case WireType::kFixed32:
    case WireType::kFixed64:
      CASK_RETURN_IF_ERROR(ReadFixed(end, type == WireType::kFixed32 ? 4 : 8, &field->value));
      break;
    case WireType::kBytes: {
      uint64_t size = 0;
      CASK_RETURN_IF_ERROR(ReadVarint(end, &size));
      if (size > end - position_) {
        return Fail(absl::StrCat("a length of ", size, " with only ", end - position_, " bytes left"));
      }
      field->size = size;
      break;
    }
    default:
      return Fail(absl::StrCat("wire type ", tag & 7));
  }
  field->begin = position_;
  return absl::OkStatus();
}

}  // namespace tensorcask
