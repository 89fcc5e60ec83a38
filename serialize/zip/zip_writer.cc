#include "tensorcask/serialize/zip/zip_writer.h"

#include <zlib.h>

#include <algorithm>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/zip/zip_format.h"
#include "tensorcask/tensor/base/check.h"
#include "tensorcask/tensor/base/crc32.h"
#include "tensorcask/tensor/base/endian.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/base/utf8.h"

namespace tensorcask {
namespace {

using namespace zip;  // NOLINT(google-build-using-namespace): constants of this room

constexpr uint16_t kDate = (1 << 5) | 1;                   // 1980-01-01
constexpr uint32_t kAttributes = uint32_t{0100644} << 16;  // a regular file, rw-r--r--
constexpr uint32_t kMaxAlignment = 16384;
constexpr size_t kOutputBytes = size_t{256} << 10;
constexpr uint64_t kSharedFromBytes = uint64_t{1} << 20;  // data that CopyMember aligns to blocks of file systems
constexpr uint32_t kBlockBytes = 4096;
constexpr uint32_t kDataAlignment = 64;        // for members that can be mapped
constexpr size_t kMaxInput = size_t{1} << 30;  // zlib counts in unsigned int
// Deflated data of incompressible input is longer than the input, by 5 bytes for 16 KiB and a few; this is more.
constexpr uint64_t MostDeflated(uint64_t bytes) { return bytes + bytes / 1024 + 64; }

template <typename T>
void Put(T value, std::string* out) {
  char bytes[sizeof(T)];
  StoreLittleEndian(value, bytes);
  out->append(bytes, sizeof(T));
}

void Put16(uint64_t value, std::string* out) { Put(static_cast<uint16_t>(value), out); }
void Put32(uint64_t value, std::string* out) { Put(static_cast<uint32_t>(value), out); }

bool IsAscii(absl::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

}  // namespace

struct ZipWriter::Member {
  std::string name;
  ZipMemberOptions options;
  uint16_t flags = 0;
  bool zip64 = false;  // in the local header and in the descriptor
  uint64_t header_offset = 0;
  uint64_t given_bytes = 0;   // by Append
  uint64_t stored_bytes = 0;  // written, or kept in `waiting`
  uint32_t crc32 = 0;         // that of the given bytes
  bool waits = false;         // the deflated data is kept until the end
  std::string waiting;
};

struct ZipWriter::Deflater {
  z_stream zlib = {};
  std::string output = std::string(kOutputBytes, '\0');

  ~Deflater() { deflateEnd(&zlib); }
};

ZipWriter::ZipWriter(ByteSink* sink, bool force_zip64)
    : sink_(sink), force_zip64_(force_zip64), start_(sink->position()) {}
ZipWriter::~ZipWriter() = default;

absl::Status ZipWriter::CheckName(absl::string_view name) {
  if (name.size() > kMaxNameBytes) {
    return absl::InvalidArgumentError(absl::StrCat("a name of ", name.size(), " bytes: ", Quoted(name),
                                                   "; zip archives have names of at most ", kMaxNameBytes));
  }
  if (name.find('\0') != absl::string_view::npos || !internal::IsUtf8(name)) {
    return absl::InvalidArgumentError(absl::StrCat("the name ", Quoted(name), " is not UTF-8 without NUL bytes"));
  }
  return absl::OkStatus();
}

// Checks the options, and makes *member_; writes nothing.
absl::Status ZipWriter::StartMember(absl::string_view name, const ZipMemberOptions& options) {
  CASK_CHECK(member_ == nullptr, "the member before was not ended");
  if (options.deflate_level < 0 || options.deflate_level > 9) {
    return absl::InvalidArgumentError(absl::StrCat("deflate_level is ", options.deflate_level, "; it must be 0 to 9"));
  }
  if (options.alignment == 0 || options.alignment > kMaxAlignment ||
      (options.alignment & (options.alignment - 1)) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("alignment is ", options.alignment, "; it must be a power of two up to ", kMaxAlignment));
  }
  if (!names_.emplace(name).second) return absl::AlreadyExistsError(absl::StrCat("two members named ", Quoted(name)));
  auto member = std::make_unique<Member>();
  member->name = std::string(name);
  member->options = options;
  member->header_offset = sink_->position() - start_;
  if (!IsAscii(name)) member->flags |= kFlagUtf8;
  const bool deflated = options.deflate_level > 0;
  member->zip64 = force_zip64_ || MostDeflated(options.size_bytes) >= kMask32;
  member->waits = deflated && options.crc32.has_value();
  if (!options.crc32) member->flags |= kFlagDescriptor;
  member_ = std::move(member);
  return absl::OkStatus();
}

absl::Status ZipWriter::BeginMember(absl::string_view name, const ZipMemberOptions& options) {
  CASK_CHECK(member_ == nullptr, "the member before was not ended");
  CASK_RETURN_IF_ERROR(CheckName(name));
  CASK_RETURN_IF_ERROR(StartMember(name, options));
  if (options.deflate_level > 0) {
    deflater_ = std::make_unique<Deflater>();
    if (deflateInit2(&deflater_->zlib, options.deflate_level, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
      member_ = nullptr;
      return MarkResourceFailure(absl::ResourceExhaustedError("no memory to deflate"));
    }
  } else {
    member_->stored_bytes = options.size_bytes;
  }
  if (member_->waits) return absl::OkStatus();
  CASK_RETURN_IF_ERROR(WriteHeader(/*numbers_are_known=*/options.crc32.has_value()));
  member_->stored_bytes = 0;
  return absl::OkStatus();
}

absl::Status ZipWriter::CopyMember(const ByteSource& from, const ZipMember& member, absl::string_view name) {
  ZipMemberOptions options;
  options.size_bytes = member.size_bytes;
  options.crc32 = member.crc32;
  options.deflate_level = member.deflated ? 1 : 0;
  if (member.stored_bytes >= kSharedFromBytes) {
    options.alignment = kBlockBytes;  // the data begin as far after the start of a block as they did
    options.prefix_bytes = (kBlockBytes - member.data_offset % kBlockBytes) % kBlockBytes;
  } else if (member.data_offset % kDataAlignment == 0) {
    options.alignment = kDataAlignment;
  }
  const bool is_renamed = name != member.name;
  if (is_renamed) CASK_RETURN_IF_ERROR(CheckName(name));
  CASK_RETURN_IF_ERROR(StartMember(name, options));
  // A name that stays is read as before, in whatever encoding.
  if (!is_renamed) member_->flags = (member_->flags & ~kFlagUtf8) | (member.flags & kFlagUtf8);
  member_->flags |= member.flags & kFlagLevel;
  member_->zip64 |= MostDeflated(member.stored_bytes) >= kMask32;
  member_->stored_bytes = member.stored_bytes;
  member_->given_bytes = member.size_bytes;
  member_->crc32 = member.crc32;
  CASK_RETURN_IF_ERROR(WriteHeader(/*numbers_are_known=*/true));
  CASK_RETURN_IF_ERROR(sink_->AppendFrom(from, member.data_offset, member.stored_bytes));
  AppendEntry();
  member_ = nullptr;
  return absl::OkStatus();
}

absl::Status ZipWriter::WriteHeader(bool numbers_are_known) {
  const Member& member = *member_;
  const uint32_t crc = numbers_are_known ? *member.options.crc32 : 0;
  const uint64_t stored_bytes = numbers_are_known ? member.stored_bytes : 0;
  const uint64_t size_bytes = numbers_are_known ? member.options.size_bytes : 0;
  std::string extra;
  if (member.zip64) {
    Put16(kExtraZip64, &extra);
    Put16(16, &extra);
    Put(size_bytes, &extra);
    Put(stored_bytes, &extra);
  }
  if (member.options.deflate_level == 0) {
    const uint64_t alignment = member.options.alignment;
    const uint64_t aligned_at =
        member.header_offset + kLocalBytes + member.name.size() + extra.size() + member.options.prefix_bytes;
    uint64_t padding = (alignment - aligned_at % alignment) % alignment;
    while (padding != 0 && padding < 6) padding += alignment;  // the field itself takes 6 bytes
    if (padding != 0) {
      Put16(kExtraPadding, &extra);
      Put16(padding - 4, &extra);
      Put16(alignment, &extra);
      extra.append(padding - 6, '\0');
    }
  }
  std::string header;
  Put32(kLocalSignature, &header);
  Put16(member.zip64 ? kVersionZip64 : kVersionPlain, &header);
  Put16(member.flags, &header);
  Put16(member.options.deflate_level > 0 ? kDeflated : kStored, &header);
  Put16(0, &header);  // time
  Put16(kDate, &header);
  Put32(crc, &header);
  Put32(member.zip64 ? kMask32 : stored_bytes, &header);
  Put32(member.zip64 ? kMask32 : size_bytes, &header);
  Put16(member.name.size(), &header);
  Put16(extra.size(), &header);
  absl::StrAppend(&header, member.name, extra);
  return sink_->Append(header);
}

absl::Status ZipWriter::Emit(absl::string_view bytes) {
  member_->stored_bytes += bytes.size();
  if (!member_->waits) return sink_->Append(bytes);
  member_->waiting.append(bytes.data(), bytes.size());
  return absl::OkStatus();
}

absl::Status ZipWriter::Deflate(absl::string_view bytes, bool end) {
  z_stream& zlib = deflater_->zlib;
  do {
    const absl::string_view input = bytes.substr(0, kMaxInput);
    bytes.remove_prefix(input.size());
    zlib.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(input.data()));
    zlib.avail_in = static_cast<uInt>(input.size());
    int result;
    do {
      zlib.next_out = reinterpret_cast<Bytef*>(&deflater_->output[0]);
      zlib.avail_out = static_cast<uInt>(kOutputBytes);
      result = deflate(&zlib, end && bytes.empty() ? Z_FINISH : Z_NO_FLUSH);
      CASK_CHECK(result == Z_OK || result == Z_STREAM_END || result == Z_BUF_ERROR, "deflate failed");
      CASK_RETURN_IF_ERROR(Emit(absl::string_view(deflater_->output.data(), kOutputBytes - zlib.avail_out)));
    } while (zlib.avail_out == 0);
  } while (!bytes.empty());
  return absl::OkStatus();
}

absl::Status ZipWriter::Append(absl::string_view bytes) {
  CASK_CHECK(member_ != nullptr, "no member was begun");
  CASK_CHECK(bytes.size() <= member_->options.size_bytes - member_->given_bytes, "more data than was announced");
  if (bytes.empty()) return absl::OkStatus();
  member_->given_bytes += bytes.size();
  // First written, then summed: the system copies from memory faster than the sum reads from there, and leaves the
  // bytes in the cache. `bytes` must not change meanwhile.
  CASK_RETURN_IF_ERROR(deflater_ != nullptr ? Deflate(bytes, /*end=*/false) : Emit(bytes));
  member_->crc32 = ExtendCrc32(member_->crc32, bytes);
  return absl::OkStatus();
}

absl::Status ZipWriter::EndMember() {
  CASK_CHECK(member_ != nullptr && member_->given_bytes == member_->options.size_bytes, "less data than was announced");
  Member& member = *member_;
  if (deflater_ != nullptr) {
    CASK_RETURN_IF_ERROR(Deflate("", /*end=*/true));
    deflater_ = nullptr;
  }
  if (member.options.crc32 && *member.options.crc32 != member.crc32) {
    return absl::InternalError(
        absl::StrCat("the data of member ", Quoted(member.name), " changed while it was written"));
  }
  if (member.waits) {
    CASK_RETURN_IF_ERROR(WriteHeader(/*numbers_are_known=*/true));
    CASK_RETURN_IF_ERROR(sink_->Append(member.waiting));
  }
  if ((member.flags & kFlagDescriptor) != 0) {
    std::string descriptor;
    Put32(kDescriptorSignature, &descriptor);
    Put32(member.crc32, &descriptor);
    if (member.zip64) {
      Put(member.stored_bytes, &descriptor);
      Put(member.given_bytes, &descriptor);
    } else {
      Put32(member.stored_bytes, &descriptor);
      Put32(member.given_bytes, &descriptor);
    }
    CASK_RETURN_IF_ERROR(sink_->Append(descriptor));
  }
  AppendEntry();
  member_ = nullptr;
  return absl::OkStatus();
}

void ZipWriter::AppendEntry() {
  const Member& member = *member_;
  std::string zip64;
  const auto masked = [&](uint64_t value) -> uint32_t {
    if (!force_zip64_ && value < kMask32) return static_cast<uint32_t>(value);
    Put(value, &zip64);
    return kMask32;
  };
  // The order of the values in the extra field.
  const uint32_t size_bytes = masked(member.given_bytes);
  const uint32_t stored_bytes = masked(member.stored_bytes);
  const uint32_t header_offset = masked(member.header_offset);
  const uint16_t version = member.zip64 || !zip64.empty() ? kVersionZip64 : kVersionPlain;
  Put32(kEntrySignature, &directory_);
  Put16(kMadeByUnix | version, &directory_);
  Put16(version, &directory_);
  Put16(member.flags, &directory_);
  Put16(member.options.deflate_level > 0 ? kDeflated : kStored, &directory_);
  Put16(0, &directory_);  // time
  Put16(kDate, &directory_);
  Put32(member.crc32, &directory_);
  Put32(stored_bytes, &directory_);
  Put32(size_bytes, &directory_);
  Put16(member.name.size(), &directory_);
  Put16(zip64.empty() ? 0 : zip64.size() + 4, &directory_);
  Put16(0, &directory_);  // comment
  Put16(0, &directory_);  // disk
  Put16(0, &directory_);  // internal attributes
  Put32(kAttributes, &directory_);
  Put32(header_offset, &directory_);
  absl::StrAppend(&directory_, member.name);
  if (!zip64.empty()) {
    Put16(kExtraZip64, &directory_);
    Put16(zip64.size(), &directory_);
    absl::StrAppend(&directory_, zip64);
  }
  ++num_members_;
}

absl::Status ZipWriter::Finish() {
  CASK_CHECK(member_ == nullptr, "a member was not ended");
  const uint64_t offset = sink_->position() - start_;
  const uint64_t bytes = directory_.size();
  std::string end;
  if (force_zip64_ || num_members_ >= kMask16 || bytes >= kMask32 || offset >= kMask32) {
    Put32(kEnd64Signature, &end);
    Put(uint64_t{kEnd64Bytes - 12}, &end);
    Put16(kMadeByUnix | kVersionZip64, &end);
    Put16(kVersionZip64, &end);
    Put32(0, &end);  // this disk
    Put32(0, &end);  // disk of the directory
    Put(num_members_, &end);
    Put(num_members_, &end);
    Put(bytes, &end);
    Put(offset, &end);
    Put32(kLocatorSignature, &end);
    Put32(0, &end);
    Put(offset + bytes, &end);
    Put32(1, &end);
  }
  Put32(kEndSignature, &end);
  Put16(0, &end);  // this disk
  Put16(0, &end);  // disk of the directory
  Put16(std::min<uint64_t>(num_members_, kMask16), &end);
  Put16(std::min<uint64_t>(num_members_, kMask16), &end);
  Put32(std::min<uint64_t>(bytes, kMask32), &end);
  Put32(std::min<uint64_t>(offset, kMask32), &end);
  Put16(0, &end);  // comment
  CASK_RETURN_IF_ERROR(sink_->Append(directory_));
  return sink_->Append(end);
}

}  // namespace tensorcask
