#include "tensorcask/serialize/zip/zip_member.h"

#include <cstddef>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/zip/zip_format.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/utf8.h"

namespace tensorcask::zip {
namespace {

absl::Status Damaged(absl::string_view what) { return absl::DataLossError(what); }

// The content of the zip64 extra field among `extra`; empty if there is none.
absl::StatusOr<std::optional<absl::string_view>> FindZip64(absl::string_view extra) {
  std::optional<absl::string_view> found;
  while (extra.size() >= 4) {
    const uint16_t id = U16(extra.data());
    const size_t bytes = U16(extra.data() + 2);
    if (bytes > extra.size() - 4) return Damaged("an extra field is longer than the space for extra fields");
    if (id == kExtraZip64) {
      if (found) return Damaged("two zip64 extra fields");
      found = extra.substr(4, bytes);
    }
    extra.remove_prefix(4 + bytes);
  }
  for (const char byte : extra) {  // up to three zeros pad
    if (byte != 0) return Damaged("bytes behind the extra fields");
  }
  return found;
}

}  // namespace

absl::Status UnmaskZip64(absl::string_view extra, absl::Span<uint64_t* const> values) {
  CASK_ASSIGN_OR_RETURN(const std::optional<absl::string_view> zip64, FindZip64(extra));
  size_t at = 0;
  for (uint64_t* value : values) {
    if (*value != kMask32) continue;
    if (!zip64) return Damaged("a size or offset is in a zip64 extra field that is not there");
    if (zip64->size() - at < 8) return Damaged("the zip64 extra field is too short");
    *value = U64(zip64->data() + at);
    at += 8;
  }
  return absl::OkStatus();
}

absl::Status CheckMember(const ZipMember& member, uint16_t made_by, uint32_t attributes) {
  if ((member.flags & (kFlagEncrypted | kFlagStrongEncryption)) != 0) {
    return absl::UnimplementedError("is encrypted");
  }
  const uint16_t unknown = member.flags & static_cast<uint16_t>(~(kFlagLevel | kFlagDescriptor | kFlagUtf8));
  if (unknown != 0) return absl::UnimplementedError(absl::StrCat("has unknown flags ", unknown));
  if (member.method != kStored && member.method != kDeflated) {
    return absl::UnimplementedError(
        absl::StrCat("is compressed by method ", member.method, "; methods 0 (stored) and 8 (deflated) are read"));
  }
  if (made_by >> 8 == kMadeByUnix >> 8 && (attributes >> 28) == 0xa) return Damaged("is a symbolic link");
  if ((member.flags & kFlagUtf8) != 0 && !internal::IsUtf8(member.name)) {
    return Damaged("has a name that is marked as UTF-8 and is not");
  }
  if (!member.deflated && member.stored_bytes != member.size_bytes) {
    return Damaged(absl::StrCat("is stored in ", member.stored_bytes, " bytes and has ", member.size_bytes));
  }
  if (member.deflated && member.size_bytes / kMaxDeflateRatio > member.stored_bytes) {
    return Damaged(absl::StrCat("claims that ", member.stored_bytes, " deflated bytes make ", member.size_bytes,
                                "; they cannot make more than ", kMaxDeflateRatio, " times as many"));
  }
  if (member.is_folder() && member.size_bytes != 0) return Damaged("is a folder with data");
  return absl::OkStatus();
}

}  // namespace tensorcask::zip
