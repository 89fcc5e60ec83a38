#include "tensorcask/serialize/protowire/message_rules.h"

#include <cstddef>

#include "absl/strings/str_cat.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/base/utf8.h"

namespace tensorcask::internal {
namespace {

using Kind = FieldRule::Kind;

// The wire type of one value of `kind`.
WireType SingleType(Kind kind) {
  switch (kind) {
    case Kind::kVarint:
    case Kind::kPackedVarint:
      return WireType::kVarint;
    case Kind::kFixed32:
    case Kind::kPackedFixed32:
      return WireType::kFixed32;
    case Kind::kPackedFixed64:
      return WireType::kFixed64;
    case Kind::kBytes:
    case Kind::kUtf8:
    case Kind::kMessage:
      break;
  }
  return WireType::kBytes;
}

bool IsPacked(Kind kind) {
  return kind == Kind::kPackedVarint || kind == Kind::kPackedFixed32 || kind == Kind::kPackedFixed64;
}

const char* TypeName(WireType type) {
  switch (type) {
    case WireType::kVarint:
      return "a varint";
    case WireType::kFixed64:
      return "a 64-bit number";
    case WireType::kBytes:
      return "bytes";
    case WireType::kGroup:
      return "a group";
    case WireType::kFixed32:
      break;
  }
  return "a 32-bit number";
}

// Says what is wrong with the bytes of a field that is not a message; null if they are valid.
const char* FaultOfBytes(const FieldRule& rule, absl::string_view bytes) {
  switch (rule.kind) {
    case Kind::kUtf8:
      return IsUtf8(bytes) ? nullptr : "is not UTF-8";
    case Kind::kPackedVarint:
      return ForEachVarint(bytes, [](uint64_t) { return true; }) ? nullptr : "does not hold complete varints";
    case Kind::kPackedFixed32:
      return bytes.size() % 4 == 0 ? nullptr : "does not hold complete 32-bit numbers";
    case Kind::kPackedFixed64:
      return bytes.size() % 8 == 0 ? nullptr : "does not hold complete 64-bit numbers";
    default:
      return nullptr;
  }
}

}  // namespace

const FieldRule* MessageRules::Find(uint32_t number) const {
  // Most tables list the numbers from 1 on, without a gap. The subtraction wraps for number 0.
  if (const size_t i = size_t{number} - 1; i < fields.size() && fields[i].number == number) return &fields[i];
  for (const FieldRule& rule : fields) {
    if (rule.number == number) return &rule;
  }
  return nullptr;
}

bool WireTypeFits(const FieldRule& rule, WireType type) {
  return type == SingleType(rule.kind) || (type == WireType::kBytes && IsPacked(rule.kind));
}

absl::Status TooDeep() { return absl::ResourceExhaustedError("messages nest deeper than the limit max_depth allows"); }

absl::Status CheckMessage(absl::string_view bytes, const MessageRules& rules, int max_depth) {
  if (max_depth < 0) return TooDeep();
  WireReader reader(bytes, max_depth);
  WireReader::Field field;
  while (reader.Next(&field)) {
    const FieldRule* rule = rules.Find(field.number);
    if (rule == nullptr) continue;
    if (!WireTypeFits(*rule, field.type)) {
      return absl::InvalidArgumentError(absl::StrCat(rule->name, " at byte ", field.position, " is ",
                                                     TypeName(field.type), " on the wire; expected ",
                                                     TypeName(SingleType(rule->kind))));
    }
    if (rule->kind == Kind::kMessage) {
      CASK_ANNOTATE_IF_ERROR(CheckMessage(field.bytes, *rule->message, max_depth - 1), rule->name);
    } else if (field.type == WireType::kBytes) {
      const char* fault = FaultOfBytes(*rule, field.bytes);
      if (fault != nullptr) {
        return absl::InvalidArgumentError(absl::StrCat(rule->name, " at byte ", field.position, " ", fault));
      }
    }
  }
  return reader.status();
}

}  // namespace tensorcask::internal
