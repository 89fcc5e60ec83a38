#include "tensorcask/serialize/zip/zip_walk.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/serialize/zip/zip_format.h"
#include "tensorcask/serialize/zip/zip_member_stream.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"

namespace tensorcask {
namespace {

using namespace zip;  // NOLINT(google-build-using-namespace): constants of this room

constexpr size_t kWindowBytes = size_t{64} << 10;
constexpr absl::string_view kHeaderIsCut = "the header of a member is cut short";

// True for an error that concerns one member.
bool IsAboutWalkedMember(const absl::Status& status) {
  return !IsResourceFailure(status) && (absl::IsDataLoss(status) || absl::IsUnimplemented(status) ||
                                        absl::IsInvalidArgument(status) || absl::IsResourceExhausted(status));
}

bool BeginsDirectory(uint32_t signature) {
  return signature == kEntrySignature || signature == kEnd64Signature || signature == kEndSignature;
}

struct Descriptor {
  uint64_t bytes = 0;
  uint32_t crc32 = 0;
};

class Walker {
 public:
  Walker(const ByteSource& file, const DecodeLimits& limits, SizeOfZipData size_of_data)
      : file_(file),
        limits_(limits),
        size_of_data_(size_of_data),
        memory_(DecodeQuota::ForUnbacked(limits, file.size_bytes())),
        inflated_(DecodeQuota::ForFile(limits)) {}

  absl::StatusOr<ZipWalk> Run() {
    while (!ended_) CASK_RETURN_IF_ERROR(Step());
    return std::move(walk_);
  }

 private:
  uint64_t Behind(uint64_t offset) const { return file_.size_bytes() - offset; }

  void End(absl::string_view reason) {
    ended_ = true;
    walk_.reason = std::string(reason);
  }
  // The member is listed, and the next one is not found.
  absl::Status EndWith(ZipMember member, absl::Status status, absl::string_view reason = "") {
    End(reason.empty() ? absl::StrCat("the end of member ", Quoted(member.name), " is not known") : reason);
    member.status = std::move(status);
    walk_.members.push_back(std::move(member));
    return absl::OkStatus();
  }

  absl::Status Step();
  absl::StatusOr<bool> ReadHeader(std::string* header);
  absl::Status Measure(ZipMember* member);
  absl::StatusOr<std::optional<Descriptor>> FindDescriptor(uint64_t offset, const ZipMember& member,
                                                           bool crc_is_known) const;

  const ByteSource& file_;
  const DecodeLimits& limits_;
  SizeOfZipData size_of_data_;
  DecodeQuota memory_;  // charged for the list
  DecodeQuota inflated_;
  std::string inflated_piece_ = std::string(kWindowBytes, '\0');  // scratch
  ZipWalk walk_;
  bool ended_ = false;
};

// The local header at the end of the walk, with name and extra fields. False if there is none, and the walk has ended.
absl::StatusOr<bool> Walker::ReadHeader(std::string* header) {
  const uint64_t rest = Behind(walk_.end);
  if (rest == 0) {
    End("the file ends");
    return false;
  }
  header->resize(std::min<uint64_t>(rest, kLocalBytes));
  CASK_RETURN_IF_ERROR(file_.ReadAt(walk_.end, absl::MakeSpan(*header)));
  if (header->size() >= sizeof(uint32_t) && BeginsDirectory(U32(header->data()))) {
    End("");
    return false;
  }
  if (header->size() >= sizeof(uint32_t) && U32(header->data()) != kLocalSignature) {
    End("no header of a member begins there");
    return false;
  }
  if (header->size() < kLocalBytes) {
    End(kHeaderIsCut);
    return false;
  }
  const uint64_t bytes = kLocalBytes + U16(header->data() + 26) + U16(header->data() + 28);
  header->resize(std::min(rest, bytes));
  CASK_RETURN_IF_ERROR(file_.ReadAt(walk_.end, absl::MakeSpan(*header)));
  return true;
}

absl::Status Walker::Step() {
  std::string header;
  CASK_ASSIGN_OR_RETURN(const bool is_there, ReadHeader(&header));
  if (!is_there) return absl::OkStatus();
  const size_t name_bytes = U16(header.data() + 26);
  const size_t extra_bytes = U16(header.data() + 28);
  if (header.size() < kLocalBytes + name_bytes) {
    End(kHeaderIsCut);
    return absl::OkStatus();
  }
  if (walk_.members.size() >= LimitOf(limits_.max_entries)) {
    return PastLimit("the archive has more members", "max_entries", limits_.max_entries);
  }
  if (name_bytes > LimitOf(limits_.max_name_bytes)) {
    return PastLimit(absl::StrCat("a member's name has ", name_bytes, " bytes"), "max_name_bytes",
                     limits_.max_name_bytes);
  }
  CASK_RETURN_IF_ERROR(memory_.Charge(sizeof(ZipMember) + name_bytes));
  ZipMember member;
  member.name = header.substr(kLocalBytes, name_bytes);
  member.header_offset = walk_.end;
  member.flags = U16(header.data() + 6);
  member.method = U16(header.data() + 8);
  member.deflated = member.method == kDeflated;
  member.crc32 = U32(header.data() + 14);
  member.stored_bytes = U32(header.data() + 18);
  member.size_bytes = U32(header.data() + 22);
  const size_t header_bytes = kLocalBytes + name_bytes + extra_bytes;
  if (header.size() < header_bytes) return EndWith(std::move(member), absl::DataLossError("its header is cut short"));
  member.data_offset = member.header_offset + header_bytes;
  absl::Status status = UnmaskZip64(absl::string_view(header).substr(header_bytes - extra_bytes),
                                    {&member.size_bytes, &member.stored_bytes});
  if (!status.ok()) return EndWith(std::move(member), std::move(status));
  const bool has_descriptor = (member.flags & kFlagDescriptor) != 0;
  const bool is_measured = has_descriptor && (member.stored_bytes == 0 || member.size_bytes == 0);
  if (is_measured) {
    member.stored_bytes = 0;
    member.size_bytes = 0;
    status = CheckMember(member, 0, 0);
    if (status.ok()) status = Measure(&member);
    if (!status.ok() && !IsAboutWalkedMember(status)) return status;
    if (!status.ok()) return EndWith(std::move(member), std::move(status));
  }
  const uint64_t available = Behind(member.data_offset);
  if (member.stored_bytes > available) {
    status = absl::DataLossError(
        absl::StrCat("is cut short: the file has ", available, " of its ", member.stored_bytes, " bytes"));
    const std::string reason = absl::StrCat("the file ends in the data of member ", Quoted(member.name));
    return EndWith(std::move(member), std::move(status), reason);
  }
  uint64_t end = member.data_offset + member.stored_bytes;
  if (has_descriptor) {
    const bool crc_is_known = member.crc32 != 0 || (is_measured && member.deflated);
    CASK_ASSIGN_OR_RETURN(const std::optional<Descriptor> descriptor, FindDescriptor(end, member, crc_is_known));
    if (!descriptor) {
      return EndWith(std::move(member),
                     absl::DataLossError("has no data descriptor behind its data, or a part of one"));
    }
    member.crc32 = descriptor->crc32;
    end += descriptor->bytes;
  }
  member.status = CheckMember(member, 0, 0);
  walk_.members.push_back(std::move(member));
  walk_.end = end;
  return absl::OkStatus();
}

// Finds the sizes of a member that only its data descriptor says; of deflated data the checksum, too.
absl::Status Walker::Measure(ZipMember* member) {
  if (member->deflated) {
    CASK_ASSIGN_OR_RETURN(const DeflatedExtent extent,
                          MeasureDeflated(file_, member->data_offset, absl::MakeSpan(inflated_piece_), &inflated_));
    member->stored_bytes = extent.stored_bytes;
    member->size_bytes = extent.size_bytes;
    member->crc32 = extent.crc32;
    return absl::OkStatus();
  }
  ZipMember rest = *member;
  rest.stored_bytes = Behind(member->data_offset);
  rest.size_bytes = rest.stored_bytes;
  CASK_ASSIGN_OR_RETURN(const std::optional<Descriptor> of_nothing,
                        FindDescriptor(member->data_offset, *member, /*crc_is_known=*/true));
  if (of_nothing.has_value() && member->crc32 == 0) return absl::OkStatus();
  absl::StatusOr<uint64_t> size = size_of_data_(rest);
  if (!size.ok() && !IsAboutWalkedMember(size.status())) return size.status();
  if (!size.ok()) {
    return absl::DataLossError(
        absl::StrCat("its size is behind its data, which does not say it, either: ", size.status().message()));
  }
  member->stored_bytes = *size;
  member->size_bytes = *size;
  return absl::OkStatus();
}

// The data descriptor at `offset`, in one of four forms: with or without a signature, with sizes of 8 or 4 bytes. None
// if no form has the sizes of the member and, if it is known, its checksum.
absl::StatusOr<std::optional<Descriptor>> Walker::FindDescriptor(uint64_t offset, const ZipMember& member,
                                                                 bool crc_is_known) const {
  char bytes[24];
  const size_t available = std::min<uint64_t>(sizeof(bytes), Behind(offset));
  CASK_RETURN_IF_ERROR(file_.ReadAt(offset, absl::MakeSpan(bytes, available)));
  for (const bool has_signature : {true, false}) {
    for (const bool is_wide : {true, false}) {
      const size_t start = has_signature ? 4 : 0;
      const size_t size = start + (is_wide ? 20 : 12);
      if (size > available || (has_signature && U32(bytes) != kDescriptorSignature)) continue;
      const char* const at = bytes + start;
      const uint64_t stored_bytes = is_wide ? U64(at + 4) : U32(at + 4);
      const uint64_t size_bytes = is_wide ? U64(at + 12) : U32(at + 8);
      if (stored_bytes != member.stored_bytes || size_bytes != member.size_bytes) continue;
      if (crc_is_known && U32(at) != member.crc32) continue;
      return std::optional<Descriptor>({size, U32(at)});
    }
  }
  return std::optional<Descriptor>();
}

}  // namespace

absl::StatusOr<ZipWalk> WalkZip(const ByteSource& file, const DecodeLimits& limits, SizeOfZipData size_of_data) {
  absl::StatusOr<ZipWalk> walk = Walker(file, limits, size_of_data).Run();
  // Errors of the source name the file already.
  if (!walk.ok() && !absl::StartsWith(walk.status().message(), absl::StrCat(file.name(), ": "))) {
    return Annotate(walk.status(), file.name());
  }
  return walk;
}

}  // namespace tensorcask
