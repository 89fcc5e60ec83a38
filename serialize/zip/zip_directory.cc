#include "tensorcask/serialize/zip/zip_directory.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/serialize/zip/zip_format.h"
#include "tensorcask/serialize/zip/zip_member.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"

namespace tensorcask {
namespace {

using namespace zip;  // NOLINT(google-build-using-namespace): constants of this room

constexpr absl::string_view kEndMagic("PK\5\6", 4);

absl::Status Damaged(absl::string_view what) { return absl::DataLossError(what); }

// What the end of the archive says of the directory.
struct End {
  uint64_t entries = 0;
  uint64_t directory_bytes = 0;
  uint64_t directory_offset = 0;
};

// The last bytes of the file, which hold the end records.
struct Tail {
  std::string bytes;
  uint64_t offset = 0;  // where bytes[0] is in the file
};

// The position in `tail` of the one end record whose comment ends with the file.
absl::StatusOr<size_t> FindEndRecord(const Tail& tail) {
  const absl::string_view bytes = tail.bytes;
  std::optional<size_t> found;
  for (size_t at = bytes.find(kEndMagic); at != absl::string_view::npos; at = bytes.find(kEndMagic, at + 1)) {
    if (bytes.size() - at < kEndBytes || U16(bytes.data() + at + 20) != bytes.size() - at - kEndBytes) continue;
    if (found) return Damaged("two end records of a zip archive fit the end of the file");
    found = at;
  }
  if (!found) {
    return Damaged(
        "no end record of a zip archive: the file is cut short (an incomplete download?), has more bytes behind its "
        "end, or is no archive");
  }
  if (bytes.find(kEndMagic, *found + kEndBytes) != absl::string_view::npos) {
    return Damaged("the comment of the archive contains another end record");
  }
  return *found;
}

// The zip64 end record, if a locator stands before the end record at `end_at`; it moves *directory_end to its start.
absl::StatusOr<std::optional<End>> ReadEnd64(const ByteSource& file, const Tail& tail, size_t end_at,
                                             uint64_t* directory_end) {
  if (end_at < kLocatorBytes || U32(tail.bytes.data() + end_at - kLocatorBytes) != kLocatorSignature) {
    return std::optional<End>();
  }
  const char* locator = tail.bytes.data() + end_at - kLocatorBytes;
  const uint64_t locator_offset = tail.offset + end_at - kLocatorBytes;
  if (U32(locator + 4) != 0 || U32(locator + 16) > 1) {
    return absl::UnimplementedError("the archive is spread over several files");
  }
  const uint64_t offset = U64(locator + 8);
  if (!RangeFits(offset, kEnd64Bytes, locator_offset) || offset + kEnd64Bytes != locator_offset) {
    return Damaged(absl::StrCat("the zip64 locator points to ", offset, "; the zip64 end record should begin at ",
                                locator_offset < kEnd64Bytes ? 0 : locator_offset - kEnd64Bytes));
  }
  char record[kEnd64Bytes];
  CASK_RETURN_IF_ERROR(file.ReadAt(offset, absl::MakeSpan(record)));
  if (U32(record) != kEnd64Signature || U64(record + 4) != kEnd64Bytes - 12) {
    return Damaged(absl::StrCat("no zip64 end record of ", kEnd64Bytes, " bytes at ", offset));
  }
  if (U32(record + 16) != 0 || U32(record + 20) != 0) {
    return absl::UnimplementedError("the archive is spread over several files");
  }
  if (U64(record + 24) != U64(record + 32)) return Damaged("the zip64 end record has two different numbers of members");
  *directory_end = offset;
  End end;
  end.entries = U64(record + 32);
  end.directory_bytes = U64(record + 40);
  end.directory_offset = U64(record + 48);
  return std::optional<End>(end);
}

absl::StatusOr<End> ReadEnd(const ByteSource& file) {
  const uint64_t size = file.size_bytes();
  if (size < kEndBytes)
    return Damaged(absl::StrCat(size, size == 1 ? " byte is" : " bytes are", " too short for a zip archive"));
  Tail tail;
  tail.bytes.resize(std::min<uint64_t>(size, kEndBytes + kMaxCommentBytes + kLocatorBytes));
  tail.offset = size - tail.bytes.size();
  CASK_RETURN_IF_ERROR(file.ReadAt(tail.offset, absl::MakeSpan(&tail.bytes[0], tail.bytes.size())));
  CASK_ASSIGN_OR_RETURN(const size_t at, FindEndRecord(tail));
  const char* record = tail.bytes.data() + at;
  uint64_t directory_end = tail.offset + at;
  CASK_ASSIGN_OR_RETURN(const std::optional<End> end64, ReadEnd64(file, tail, at, &directory_end));
  if (U16(record + 4) != 0 || U16(record + 6) != 0) {
    return absl::UnimplementedError("the archive is spread over several files");
  }
  if (U16(record + 8) != U16(record + 10)) return Damaged("the end record has two different numbers of members");
  End end;
  end.entries = U16(record + 10);
  end.directory_bytes = U32(record + 12);
  end.directory_offset = U32(record + 16);
  if (end64) {
    if ((end.entries != kMask16 && end.entries != end64->entries) ||
        (end.directory_bytes != kMask32 && end.directory_bytes != end64->directory_bytes) ||
        (end.directory_offset != kMask32 && end.directory_offset != end64->directory_offset)) {
      return Damaged("the end record and the zip64 end record disagree");
    }
    end = *end64;
  }
  if (!RangeFits(end.directory_offset, end.directory_bytes, directory_end) ||
      end.directory_offset + end.directory_bytes != directory_end) {
    return Damaged(absl::StrCat("the directory, ", end.directory_bytes, " bytes at ", end.directory_offset,
                                ", does not end at ", directory_end, ", where the end record begins"));
  }
  if (end.entries > end.directory_bytes / kEntryBytes) {
    return Damaged(
        absl::StrCat("a directory of ", end.directory_bytes, " bytes cannot hold ", end.entries, " members"));
  }
  return end;
}

// True for an error that concerns one member.
bool IsAboutMember(const absl::Status& status) {
  return (absl::IsDataLoss(status) || absl::IsUnimplemented(status)) && !IsResourceFailure(status);
}

// Consumes one entry from the front of *directory.
absl::StatusOr<ZipMember> ParseEntry(bool list_damaged, absl::string_view* directory) {
  const char* entry = directory->data();
  if (directory->size() < kEntryBytes || U32(entry) != kEntrySignature) {
    return Damaged("the directory has fewer members than the end record says");
  }
  const size_t name_bytes = U16(entry + 28);
  const size_t extra_bytes = U16(entry + 30);
  const size_t comment_bytes = U16(entry + 32);
  if (name_bytes + extra_bytes + comment_bytes > directory->size() - kEntryBytes) {
    return Damaged("an entry of the directory leaves the directory");
  }
  ZipMember member;
  member.flags = U16(entry + 8);
  member.method = U16(entry + 10);
  member.deflated = member.method == kDeflated;
  member.crc32 = U32(entry + 16);
  member.stored_bytes = U32(entry + 20);
  member.size_bytes = U32(entry + 24);
  member.header_offset = U32(entry + 42);
  member.name.assign(entry + kEntryBytes, name_bytes);
  const absl::string_view extra(entry + kEntryBytes + name_bytes, extra_bytes);
  absl::Status status = UnmaskZip64(extra, {&member.size_bytes, &member.stored_bytes, &member.header_offset});
  if (status.ok() && U16(entry + 34) != 0) status = absl::UnimplementedError("lies in another file of the archive");
  if (status.ok()) {
    status = CheckMember(member, U16(entry + 4), U32(entry + 38));
    if (list_damaged) std::swap(member.status, status);
  }
  if (!status.ok()) return Annotate(status, absl::StrCat("member ", Quoted(member.name)));
  directory->remove_prefix(kEntryBytes + name_bytes + extra_bytes + comment_bytes);
  return member;
}

// True if `found` is `wanted`, or if the member has a data descriptor and the local header leaves the number to it.
bool Agrees(uint64_t found, uint64_t wanted, bool has_descriptor) {
  return found == wanted || (has_descriptor && found == 0);
}

// Compares the data descriptor `bytes` with the directory. Of four forms: with or without a signature, with sizes of 4
// or 8 bytes.
absl::Status CheckDescriptor(const ZipMember& member, absl::string_view bytes) {
  const char* at = bytes.data();
  const bool has_signature = bytes.size() == 16 || bytes.size() == 24;
  if (!has_signature && bytes.size() != 12 && bytes.size() != 20) {
    return Damaged(absl::StrCat("has ", bytes.size(), bytes.size() == 1 ? " byte" : " bytes",
                                " behind its data, where the data descriptor should be"));
  }
  if (has_signature && U32(at) != kDescriptorSignature) return Damaged("has no data descriptor behind its data");
  if (has_signature) at += 4;
  const bool wide = bytes.size() >= 20;
  const uint64_t stored_bytes = wide ? U64(at + 4) : U32(at + 4);
  const uint64_t size_bytes = wide ? U64(at + 12) : U32(at + 8);
  if (U32(at) != member.crc32 || stored_bytes != member.stored_bytes || size_bytes != member.size_bytes) {
    return Damaged("has a data descriptor that disagrees with the directory");
  }
  return absl::OkStatus();
}

// The size of a local header, with the extra fields that programs write.
uint64_t UsualHeaderBytes(const ZipMember& member) {
  constexpr size_t kUsualExtraBytes = 128;  // at most
  return kLocalBytes + member.name.size() + kUsualExtraBytes;
}

constexpr uint64_t kMostDescriptorBytes = 24;

// Fetches what CheckLocal and then the caller read, if that is better than to read it step by step.
std::shared_ptr<void> FetchHeaders(const ByteSource& file, uint64_t directory_offset,
                                   const std::vector<ZipMember*>& sorted, uint64_t data_bytes) {
  constexpr uint64_t kGapBytes = uint64_t{64} << 10;  // the elements between headers are not wanted
  if (file.read_shape().in_flight <= 1) return nullptr;
  std::vector<FileRange> ranges;
  for (size_t i = 0; i < sorted.size(); ++i) {
    const ZipMember& member = *sorted[i];
    const uint64_t end = i + 1 < sorted.size() ? sorted[i + 1]->header_offset : directory_offset;
    if (end <= member.header_offset) continue;
    const uint64_t available = end - member.header_offset;
    const uint64_t start_bytes = data_bytes == 0 ? 0 : member.deflated ? kFirstInputBytes : data_bytes;
    const uint64_t wanted = UsualHeaderBytes(member) + start_bytes;
    ranges.push_back({member.header_offset, std::min(available, wanted)});
    if ((member.flags & kFlagDescriptor) != 0 && available > wanted + kMostDescriptorBytes) {
      ranges.push_back({end - kMostDescriptorBytes, kMostDescriptorBytes});
    }
  }
  AnnounceOptions options;
  options.is_read_once = false;
  options.max_gap_bytes = kGapBytes;
  return file.Announce(ranges, options);
}

// Reads local headers and data descriptors with the headers that begin soon after them: small members lie close
// together, and large ones far apart.
class HeaderReader {
 public:
  // `sorted` are in the order of the file, and the last one ends at `directory_offset`. All of these outlive it.
  HeaderReader(const ByteSource& file, const std::vector<ZipMember*>& sorted, uint64_t directory_offset)
      : file_(file), sorted_(sorted), directory_offset_(directory_offset) {}

  // Bytes of the file, until the next call. The next header after `offset` is that of member `next`, or none is.
  absl::StatusOr<absl::string_view> Read(uint64_t offset, uint64_t bytes, size_t next) {
    if (offset < start_ || !RangeFits(offset - start_, bytes, bytes_.size())) {
      bytes_.resize(static_cast<size_t>(std::max(bytes, EndOfGroup(offset, next) - offset)));
      start_ = offset;
      CASK_RETURN_IF_ERROR(file_.ReadAt(offset, absl::MakeSpan(&bytes_[0], bytes_.size())));
    }
    return absl::string_view(bytes_).substr(static_cast<size_t>(offset - start_), static_cast<size_t>(bytes));
  }

 private:
  // Behind the last header that ends within kMostBytes of `start`; `start` if none does.
  uint64_t EndOfGroup(uint64_t start, size_t next) const {
    constexpr uint64_t kMostBytes = uint64_t{64} << 10;
    uint64_t end = start;
    for (; next < sorted_.size() && sorted_[next]->header_offset < directory_offset_; ++next) {
      const uint64_t header = sorted_[next]->header_offset;
      const uint64_t header_bytes = std::min(UsualHeaderBytes(*sorted_[next]), directory_offset_ - header);
      if (header - start + header_bytes > kMostBytes) break;
      end = header + header_bytes;
    }
    return end;
  }

  const ByteSource& file_;
  const std::vector<ZipMember*>& sorted_;
  const uint64_t directory_offset_;
  uint64_t start_ = 0;  // where bytes_ are in the file
  std::string bytes_;
};

// Compares the local header of member `i` with the directory and sets data_offset. The member ends at `end`.
absl::Status CheckLocal(uint64_t end, size_t i, HeaderReader* headers, ZipMember* member) {
  const uint64_t available = end - member->header_offset;
  if (available < kLocalBytes + member->name.size()) return Damaged("overlaps the next member");
  CASK_ASSIGN_OR_RETURN(absl::string_view header,
                        headers->Read(member->header_offset, std::min(available, UsualHeaderBytes(*member)), i));
  if (U32(header.data()) != kLocalSignature) return Damaged(absl::StrCat("has no header at ", member->header_offset));
  const uint64_t extra_bytes = U16(header.data() + 28);
  const uint64_t header_bytes = kLocalBytes + U16(header.data() + 26) + extra_bytes;
  if (U16(header.data() + 26) != member->name.size() ||
      header.substr(kLocalBytes, member->name.size()) != member->name) {
    return Damaged("has another name in its own header");
  }
  if (available < header_bytes || available - header_bytes < member->stored_bytes) {
    return Damaged("overlaps the next member");
  }
  if (header.size() < header_bytes) {
    CASK_ASSIGN_OR_RETURN(header, headers->Read(member->header_offset, header_bytes, i));
  }
  if (U16(header.data() + 6) != member->flags || U16(header.data() + 8) != member->method) {
    return Damaged("has other flags or another method in its own header");
  }
  uint64_t stored_bytes = U32(header.data() + 18);
  uint64_t size_bytes = U32(header.data() + 22);
  CASK_RETURN_IF_ERROR(
      UnmaskZip64(header.substr(header_bytes - extra_bytes, extra_bytes), {&size_bytes, &stored_bytes}));
  const bool has_descriptor = (member->flags & kFlagDescriptor) != 0;
  if (!Agrees(U32(header.data() + 14), member->crc32, has_descriptor) ||
      !Agrees(stored_bytes, member->stored_bytes, has_descriptor) ||
      !Agrees(size_bytes, member->size_bytes, has_descriptor)) {
    return Damaged("has another size or checksum in its own header");
  }
  member->data_offset = member->header_offset + header_bytes;
  const uint64_t rest = available - header_bytes - member->stored_bytes;
  if (!has_descriptor) {
    return rest == 0 ? absl::OkStatus()
                     : Damaged(absl::StrCat("is followed by ", rest, rest == 1 ? " byte" : " bytes", " of no member"));
  }
  if (rest > kMostDescriptorBytes) return CheckDescriptor(*member, "");
  CASK_ASSIGN_OR_RETURN(const absl::string_view descriptor, headers->Read(end - rest, rest, i + 1));
  return CheckDescriptor(*member, descriptor);
}

// The members must follow one another from the first byte to the directory.
absl::Status CheckExtents(const ByteSource& file, uint64_t directory_offset, bool list_damaged, ZipReadAhead* ahead,
                          std::vector<ZipMember>* members) {
  std::vector<ZipMember*> sorted;
  sorted.reserve(members->size());
  for (ZipMember& member : *members) sorted.push_back(&member);
  const auto is_before = [](const ZipMember* a, const ZipMember* b) { return a->header_offset < b->header_offset; };
  // The directory of most archives is in the order of the file.
  if (!std::is_sorted(sorted.begin(), sorted.end(), is_before)) std::sort(sorted.begin(), sorted.end(), is_before);
  const uint64_t start = sorted.empty() ? directory_offset : sorted[0]->header_offset;
  if (start != 0)
    return Damaged(absl::StrCat(start, start == 1 ? " byte" : " bytes", " of no member at the start of the file"));
  ahead->fetched = FetchHeaders(file, directory_offset, sorted, ahead->data_bytes);
  HeaderReader headers(file, sorted, directory_offset);
  for (size_t i = 0; i < sorted.size(); ++i) {
    const uint64_t end = i + 1 < sorted.size() ? sorted[i + 1]->header_offset : directory_offset;
    absl::Status status;
    if (end <= sorted[i]->header_offset) {
      status =
          Damaged(i + 1 < sorted.size() ? absl::StrCat("has the same header as member ", Quoted(sorted[i + 1]->name))
                                        : absl::StrCat("begins at ", sorted[i]->header_offset,
                                                       ", behind the other members' end at ", directory_offset));
    } else if (sorted[i]->status.ok() || absl::IsUnimplemented(sorted[i]->status)) {
      // What cannot be read yet can be damaged all the same: another reader may go by the other header.
      status = CheckLocal(end, i, &headers, sorted[i]);
      if (list_damaged && IsAboutMember(status)) sorted[i]->status = std::exchange(status, absl::OkStatus());
    }
    if (!status.ok()) return Annotate(status, absl::StrCat("member ", Quoted(sorted[i]->name)));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ZipMember>> ReadDirectory(const ByteSource& file, const DecodeLimits& limits,
                                                     bool list_damaged, ZipReadAhead* ahead) {
  CASK_ASSIGN_OR_RETURN(const End end, ReadEnd(file));
  if (end.entries > LimitOf(limits.max_entries)) {
    return PastLimit(absl::StrCat("the archive has ", end.entries, " members"), "max_entries", limits.max_entries);
  }
  std::string bytes(end.directory_bytes, '\0');
  CASK_RETURN_IF_ERROR(file.ReadAt(end.directory_offset, absl::MakeSpan(&bytes[0], bytes.size())));
  absl::string_view rest = bytes;
  std::vector<ZipMember> members;
  members.reserve(end.entries);
  for (uint64_t i = 0; i < end.entries; ++i) {
    CASK_ASSIGN_OR_RETURN(ZipMember member, ParseEntry(list_damaged, &rest));
    if (member.name.size() > LimitOf(limits.max_name_bytes)) {
      return PastLimit(absl::StrCat("a member's name has ", member.name.size(), " bytes"), "max_name_bytes",
                       limits.max_name_bytes);
    }
    members.push_back(std::move(member));
  }
  if (!rest.empty()) return Damaged("the directory has more members than the end record says");
  absl::flat_hash_set<absl::string_view> names;
  names.reserve(members.size());
  for (const ZipMember& member : members) {
    if (!names.insert(member.name).second) return Damaged(absl::StrCat("two members are named ", Quoted(member.name)));
  }
  CASK_RETURN_IF_ERROR(CheckExtents(file, end.directory_offset, list_damaged, ahead, &members));
  return members;
}

}  // namespace

bool IsZip(absl::string_view start) {
  return start.substr(0, 4) == absl::string_view("PK\3\4", 4) || start.substr(0, 4) == kEndMagic;
}

absl::StatusOr<std::vector<ZipMember>> ReadZipDirectory(const ByteSource& file, const DecodeLimits& limits,
                                                        bool list_damaged, ZipReadAhead* ahead) {
  ZipReadAhead headers_alone;
  absl::StatusOr<std::vector<ZipMember>> members =
      ReadDirectory(file, limits, list_damaged, ahead != nullptr ? ahead : &headers_alone);
  // Errors of the source name the file already.
  if (!members.ok() && !absl::StartsWith(members.status().message(), absl::StrCat(file.name(), ": "))) {
    return Annotate(members.status(), file.name());
  }
  return members;
}

}  // namespace tensorcask
