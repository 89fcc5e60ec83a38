#include "tensorcask/serialize/protowire/wire_reader.h"

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/tensor/base/endian.h"
#include "tensorcask/tensor/base/varint.h"

namespace tensorcask {
namespace {

constexpr uint32_t kEndGroup = 4;  // the wire type that closes a group
constexpr size_t kMaxTagBytes = 5;
constexpr size_t kMaxLengthBytes = 5;  // the longest that protobuf writes

}  // namespace

bool WireReader::NextGeneral(Field* field) {
  if (!status_.ok() || position_ == message_.size()) return false;
  field->position = position_;
  uint32_t tag = 0;
  if (!ReadTag(&tag)) return false;
  field->number = tag >> 3;
  field->value = 0;
  field->bytes = absl::string_view();
  switch (tag & 7) {
    case static_cast<uint32_t>(WireType::kGroup):
      field->type = WireType::kGroup;
      return SkipGroup(field->number, &field->bytes);
    case kEndGroup:
      return Fail("the end of a group that was not started");
    default:
      return ReadValue(tag, field);
  }
}

bool WireReader::Fail(absl::string_view what) {
  status_ = absl::InvalidArgumentError(absl::StrCat(what, " at byte ", position_));
  return false;
}

bool WireReader::FailTooDeep() {
  status_ = absl::ResourceExhaustedError(absl::StrCat(
      "groups at byte ", position_, " nest deeper than the limit max_depth, ", max_depth_, " here, allows"));
  return false;
}

bool WireReader::ReadTag(uint32_t* tag) {
  absl::string_view bytes = rest();
  uint64_t value = 0;
  if (!ParseVarint(&bytes, &value) || rest().size() - bytes.size() > kMaxTagBytes) {
    return Fail("a tag that is cut short or longer than 5 bytes");
  }
  *tag = static_cast<uint32_t>(value);
  if (*tag >> 3 == 0) return Fail("field number 0");
  position_ = message_.size() - bytes.size();
  return true;
}

bool WireReader::ReadValue(uint32_t tag, Field* field) {
  absl::string_view bytes = rest();
  switch (tag & 7) {
    case static_cast<uint32_t>(WireType::kVarint):
      field->type = WireType::kVarint;
      if (!ParseVarint(&bytes, &field->value)) return Fail("a varint that is cut short or longer than 10 bytes");
      break;
    case static_cast<uint32_t>(WireType::kFixed64):
      field->type = WireType::kFixed64;
      if (bytes.size() < sizeof(uint64_t)) return Fail("a 64-bit number that is cut short");
      field->value = LoadLittleEndian<uint64_t>(bytes.data());
      bytes.remove_prefix(sizeof(uint64_t));
      break;
    case static_cast<uint32_t>(WireType::kFixed32):
      field->type = WireType::kFixed32;
      if (bytes.size() < sizeof(uint32_t)) return Fail("a 32-bit number that is cut short");
      field->value = LoadLittleEndian<uint32_t>(bytes.data());
      bytes.remove_prefix(sizeof(uint32_t));
      break;
    case static_cast<uint32_t>(WireType::kBytes): {
      field->type = WireType::kBytes;
      uint64_t length = 0;
      if (!ParseVarint(&bytes, &length)) return Fail("a length that is cut short or longer than 10 bytes");
      if (rest().size() - bytes.size() > kMaxLengthBytes && length >> 35 == 0) {
        return Fail("a length that is longer than it needs to be");
      }
      if (length > bytes.size()) {
        return Fail(absl::StrCat("a length of ", length, " with only ", bytes.size(),
                                 bytes.size() == 1 ? " byte" : " bytes", " left"));
      }
      field->bytes = bytes.substr(0, static_cast<size_t>(length));
      bytes.remove_prefix(static_cast<size_t>(length));
      break;
    }
    default:
      return Fail(absl::StrCat("wire type ", tag & 7));
  }
  position_ = message_.size() - bytes.size();
  return true;
}

bool WireReader::SkipGroup(uint32_t number, absl::string_view* content) {
  const size_t start = position_;
  absl::InlinedVector<uint32_t, 16> open = {number};  // the open groups at this position, innermost last
  if (max_depth_ < 1) return FailTooDeep();
  while (true) {
    if (position_ == message_.size()) return Fail(absl::StrCat("no end of group ", open.back()));
    const size_t tag_position = position_;
    uint32_t tag = 0;
    if (!ReadTag(&tag)) return false;
    if ((tag & 7) == static_cast<uint32_t>(WireType::kGroup)) {
      if (open.size() >= static_cast<size_t>(max_depth_)) {
        return FailTooDeep();
      }
      open.push_back(tag >> 3);
    } else if ((tag & 7) == kEndGroup) {
      if (tag >> 3 != open.back()) {
        return Fail(absl::StrCat("the end of group ", tag >> 3, " inside group ", open.back()));
      }
      open.pop_back();
      if (open.empty()) {
        *content = message_.substr(start, tag_position - start);
        return true;
      }
    } else {
      Field skipped;
      if (!ReadValue(tag, &skipped)) return false;
    }
  }
}

}  // namespace tensorcask
