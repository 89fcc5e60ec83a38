#include "tensorcask/serialize/zip/zip_member_stream.h"

#include <zlib.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/damage_mark.h"
#include "tensorcask/tensor/base/crc32.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"

namespace tensorcask {
namespace {

using zip::kFirstInputBytes;

constexpr size_t kInputBytes = size_t{256} << 10;
constexpr size_t kPieceBytes = size_t{256} << 10;  // small enough to be in the cache when the checksum reads it
constexpr size_t kSkipBytes = size_t{64} << 10;    // how much data is skipped at once
constexpr size_t kMaxOutput = size_t{1} << 30;     // zlib counts in unsigned int

}  // namespace

struct ZipMemberStream::Inflater {
  z_stream zlib = {};
  bool ready = false;     // inflateEnd is due
  bool ended = false;     // the end of the deflate stream was reached
  uint64_t consumed = 0;  // stored bytes read from the file
  std::string input;

  ~Inflater() {
    if (ready) inflateEnd(&zlib);
  }
};

ZipMemberStream::ZipMemberStream(const ByteSource* file, const ZipMember* member, bool verify)
    : file_(file), member_(member), verify_(verify) {}
ZipMemberStream::~ZipMemberStream() = default;

absl::Status ZipMemberStream::Read(absl::Span<char> out) {
  if (out.size() > member_->size_bytes - position_) {
    return absl::DataLossError(
        absl::StrCat(out.size(), " bytes at ", position_, " asked, the member has ", member_->size_bytes));
  }
  if (out.empty()) return absl::OkStatus();
  CASK_RETURN_IF_ERROR(member_->deflated ? Inflate(out) : ReadStored(out));
  return absl::OkStatus();
}

absl::Status ZipMemberStream::ReadStored(absl::Span<char> out) {
  const size_t piece_bytes = verify_ ? kPieceBytes : out.size();
  while (!out.empty()) {
    const absl::Span<char> piece = out.first(std::min(out.size(), piece_bytes));
    CASK_RETURN_IF_ERROR(file_->ReadAt(member_->data_offset + position_, piece));
    if (verify_) crc_ = ExtendCrc32(crc_, absl::string_view(piece.data(), piece.size()));
    position_ += piece.size();
    out.remove_prefix(piece.size());
  }
  return absl::OkStatus();
}

absl::Status ZipMemberStream::StartInflating() {
  if (inflater_ != nullptr) return absl::OkStatus();
  auto state = std::make_unique<Inflater>();
  if (inflateInit2(&state->zlib, -MAX_WBITS) != Z_OK) {
    return MarkResourceFailure(absl::ResourceExhaustedError("no memory to inflate"));
  }
  state->ready = true;
  inflater_ = std::move(state);
  return absl::OkStatus();
}

// One call of inflate. 0 bytes are not an error: more input may give more. Requires: the stream has not ended.
absl::StatusOr<size_t> ZipMemberStream::InflateSome(absl::Span<char> out) {
  Inflater& state = *inflater_;
  if (state.zlib.avail_in == 0 && state.consumed < member_->stored_bytes) {
    // Where each read waits for an answer from afar, they grow.
    const ReadShape shape = file_->read_shape();
    const uint64_t grown = shape.in_flight > 1 ? std::min(shape.piece_bytes, state.consumed) : 0;
    const uint64_t most = state.consumed == 0 ? kFirstInputBytes : std::max<uint64_t>(kInputBytes, grown);
    const auto bytes = static_cast<size_t>(std::min(most, member_->stored_bytes - state.consumed));
    state.input.resize(bytes);
    CASK_RETURN_IF_ERROR(file_->ReadAt(member_->data_offset + state.consumed, absl::MakeSpan(&state.input[0], bytes)));
    state.consumed += bytes;
    state.zlib.next_in = reinterpret_cast<Bytef*>(&state.input[0]);
    state.zlib.avail_in = static_cast<uInt>(bytes);
  }
  state.zlib.next_out = reinterpret_cast<Bytef*>(out.data());
  state.zlib.avail_out = static_cast<uInt>(out.size());
  const int result = inflate(&state.zlib, Z_NO_FLUSH);
  if (result == Z_STREAM_END) {
    state.ended = true;
  } else if (result == Z_MEM_ERROR) {
    return MarkResourceFailure(absl::ResourceExhaustedError("no memory to inflate"));
  } else if (result == Z_BUF_ERROR && state.consumed == member_->stored_bytes) {
    return absl::DataLossError(absl::StrCat("its ", member_->stored_bytes, " deflated bytes end too early, after ",
                                            position_, " bytes of data"));
  } else if (result != Z_OK && result != Z_BUF_ERROR) {
    return absl::DataLossError(absl::StrCat("cannot be inflated after ", position_,
                                            " bytes: ", state.zlib.msg == nullptr ? "bad data" : state.zlib.msg));
  }
  return out.size() - state.zlib.avail_out;
}

absl::Status ZipMemberStream::Inflate(absl::Span<char> out) {
  CASK_RETURN_IF_ERROR(StartInflating());
  while (!out.empty()) {
    if (inflater_->ended) {
      return absl::DataLossError(
          absl::StrCat("inflates to ", position_, " bytes; the directory says ", member_->size_bytes));
    }
    const absl::Span<char> room = out.first(std::min(out.size(), verify_ ? kPieceBytes : kMaxOutput));
    CASK_ASSIGN_OR_RETURN(const size_t given, InflateSome(room));
    if (verify_) crc_ = ExtendCrc32(crc_, absl::string_view(out.data(), given));
    position_ += given;
    out.remove_prefix(given);
  }
  return absl::OkStatus();
}

absl::Status ZipMemberStream::Skip(uint64_t bytes) {
  if (bytes > member_->size_bytes - position_) {
    return absl::DataLossError(
        absl::StrCat(bytes, " bytes at ", position_, " asked, the member has ", member_->size_bytes));
  }
  if (!member_->deflated && !verify_) {
    position_ += bytes;
    return absl::OkStatus();
  }
  std::string skipped(std::min<uint64_t>(bytes, kSkipBytes), '\0');
  while (bytes > 0) {
    const size_t piece = std::min<uint64_t>(bytes, skipped.size());
    CASK_RETURN_IF_ERROR(Read(absl::MakeSpan(&skipped[0], piece)));
    bytes -= piece;
  }
  return absl::OkStatus();
}

absl::Status ZipMemberStream::FinishInflating() {
  CASK_RETURN_IF_ERROR(StartInflating());
  while (!inflater_->ended) {
    char more;
    CASK_ASSIGN_OR_RETURN(const size_t given, InflateSome(absl::MakeSpan(&more, 1)));
    if (given > 0) {
      return absl::DataLossError(
          absl::StrCat("inflates to more than the ", member_->size_bytes, " bytes that the directory says"));
    }
  }
  const uint64_t unused = member_->stored_bytes - inflater_->consumed + inflater_->zlib.avail_in;
  if (unused > 0)
    return absl::DataLossError(
        absl::StrCat("has ", unused, unused == 1 ? " byte" : " bytes", " behind its deflated data"));
  return absl::OkStatus();
}

absl::Status ZipMemberStream::Finish() {
  CASK_RETURN_IF_ERROR(Skip(member_->size_bytes - position_));
  if (member_->deflated) CASK_RETURN_IF_ERROR(FinishInflating());
  if (verify_ && crc_ != member_->crc32) {
    return MarkWrongChecksum(
        absl::DataLossError(absl::StrCat("has the CRC-32 ", absl::Hex(crc_, absl::kZeroPad8), "; the directory says ",
                                         absl::Hex(member_->crc32, absl::kZeroPad8))));
  }
  return absl::OkStatus();
}

absl::StatusOr<DeflatedExtent> MeasureDeflated(const ByteSource& file, uint64_t offset, absl::Span<char> scratch,
                                               DecodeQuota* quota) {
  ZipMember rest;
  rest.deflated = true;
  rest.data_offset = offset;
  rest.stored_bytes = file.size_bytes() - offset;
  ZipMemberStream stream(&file, &rest, /*verify=*/true);
  CASK_RETURN_IF_ERROR(stream.StartInflating());
  while (!stream.inflater_->ended) {
    CASK_ASSIGN_OR_RETURN(const size_t given, stream.InflateSome(scratch));
    CASK_RETURN_IF_ERROR(quota->Charge(given));
    stream.crc_ = ExtendCrc32(stream.crc_, absl::string_view(scratch.data(), given));
    stream.position_ += given;
  }
  return DeflatedExtent{stream.inflater_->consumed - stream.inflater_->zlib.avail_in, stream.position_, stream.crc_};
}

}  // namespace tensorcask
