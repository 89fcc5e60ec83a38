#include "tensorcask/serialize/rpc/internal/piece_receiver.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tensorcask/tensor/base/bool_bytes.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/strided/layout.h"
#include "tensorcask/tensor/strided/row_major_range.h"

namespace tensorcask::rpc {
namespace {

uint64_t ElementBytesOf(const TensorView& view) {
  return static_cast<uint64_t>(view.num_elements()) * view.element_size();
}

// Copies the data after the header of a message that comes in parts, and returns its checksum.
uint32_t CopyData(const ParsedPiece& piece, absl::Span<const absl::string_view> parts, char* out) {
  uint32_t crc = 0;
  size_t skip = piece.header_bytes;
  for (absl::string_view part : parts) {
    const size_t skipped = std::min(skip, part.size());
    part.remove_prefix(skipped);
    skip -= skipped;
    crc = CopyAndExtendCrc32c(crc, part.data(), out, part.size());
    out += part.size();
  }
  return crc;
}

absl::Status CheckSum(const PieceHeader& header, uint32_t found) {
  if (found == header.crc32c) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("bytes ", header.offset, " to ", header.offset + header.data_bytes,
                                          " have the checksum ", absl::Hex(found, absl::kZeroPad8),
                                          "; the server sent ", absl::Hex(header.crc32c, absl::kZeroPad8)));
}

}  // namespace

PieceReceiver::PieceReceiver(absl::string_view server, uint64_t version_id, const DecodeLimits& limits,
                             absl::Span<const PullTarget> targets, uint32_t first_item, DecodeQuota* messages)
    : server_(server),
      version_id_(version_id),
      limits_(limits),
      targets_(targets),
      first_item_(first_item),
      messages_(messages) {
  SkipEmpty();
}

void PieceReceiver::SkipEmpty() {
  while (!is_complete() && target().message == nullptr && ElementBytesOf(*target().out) == position_.offset) {
    position_ = {position_.target + 1, 0};
    message_bytes_ = 0;
  }
}

absl::Status PieceReceiver::Receive(absl::Span<const absl::string_view> parts) {
  // The header lies in the first part, or is small enough to be put together here.
  std::array<char, kMaxPieceHeaderBytes> joined;
  absl::string_view begin = parts.empty() ? absl::string_view() : parts[0];
  uint64_t total = 0;
  for (const absl::string_view part : parts) total += part.size();
  if (begin.size() < kMaxPieceHeaderBytes && begin.size() < total) {
    size_t bytes = 0;
    for (const absl::string_view part : parts) {
      const size_t taken = std::min(part.size(), joined.size() - bytes);
      std::memcpy(joined.data() + bytes, part.data(), taken);
      bytes += taken;
    }
    begin = absl::string_view(joined.data(), bytes);
  }
  CASK_ASSIGN_OR_ANNOTATE(const ParsedPiece piece, ParsePieceHeader(begin, total), server_);
  if (is_complete()) {
    return absl::DataLossError(absl::StrCat(server_, ": sent ", piece.header.data_bytes, " bytes too many"));
  }
  CASK_ANNOTATE_IF_ERROR(Store(piece, parts), absl::StrCat(server_, ": tensor ", Quoted(target().name)));
  received_bytes_ += piece.header.data_bytes;
  position_.offset += piece.header.data_bytes;
  if (target().message != nullptr && position_.offset == message_bytes_) {
    position_ = {position_.target + 1, 0};
    message_bytes_ = 0;
  }
  SkipEmpty();
  return absl::OkStatus();
}

absl::Status PieceReceiver::Store(const ParsedPiece& piece, absl::Span<const absl::string_view> parts) {
  const PieceHeader& header = piece.header;
  if (header.version_id != version_id_) {
    return absl::DataLossError(absl::StrCat("a piece is of version ", absl::Hex(header.version_id, absl::kZeroPad16),
                                            "; wanted ", absl::Hex(version_id_, absl::kZeroPad16)));
  }
  const uint64_t wanted = position_.target - first_target_ + first_item_;
  if (header.item != wanted) {
    return absl::DataLossError(
        absl::StrCat("a piece of item ", header.item, " came; wanted item ", wanted, " from byte ", position_.offset));
  }
  if (header.offset != position_.offset) {
    return absl::DataLossError(
        absl::StrCat("a piece of offset ", header.offset, " came; wanted offset ", position_.offset));
  }
  if (header.data_bytes > kMaxPieceBytes) {
    return absl::DataLossError(
        absl::StrCat("a piece has ", header.data_bytes, " bytes; at most ", kMaxPieceBytes, " are valid"));
  }
  return target().message != nullptr ? StoreMessage(piece, parts) : StoreElements(piece, parts);
}

absl::Status PieceReceiver::StoreMessage(const ParsedPiece& piece, absl::Span<const absl::string_view> parts) {
  const PieceHeader& header = piece.header;
  if (message_bytes_ == 0) {
    if (header.message_bytes > LimitOf(limits_.max_message_bytes)) {
      return PastLimit(absl::StrCat("is a message of ", header.message_bytes, " bytes"), "max_message_bytes",
                       limits_.max_message_bytes);
    }
    if (messages_ != nullptr) CASK_RETURN_IF_ERROR(messages_->Charge(header.message_bytes));
    message_bytes_ = header.message_bytes;
  }
  if (header.message_bytes != message_bytes_) {
    return absl::DataLossError(
        absl::StrCat("is a message of ", header.message_bytes, " bytes; a piece before said ", message_bytes_));
  }
  if (header.data_bytes > message_bytes_ - position_.offset) {
    return absl::DataLossError(absl::StrCat("a piece of ", header.data_bytes, " bytes from ", position_.offset,
                                            " leaves the message of ", message_bytes_, " bytes"));
  }
  // Memory grows with the bytes that are there, not with the bytes that the server claims.
  std::string& message = *target().message;
  message.resize(position_.offset + header.data_bytes);
  return CheckSum(header, CopyData(piece, parts, &message[position_.offset]));
}

absl::Status PieceReceiver::StoreElements(const ParsedPiece& piece, absl::Span<const absl::string_view> parts) {
  const PieceHeader& header = piece.header;
  TensorView& out = *target().out;
  const uint64_t total = ElementBytesOf(out);
  const size_t element_size = out.element_size();
  if (header.data_bytes > total - position_.offset) {
    return absl::DataLossError(absl::StrCat("a piece of ", header.data_bytes, " bytes from ", position_.offset,
                                            " leaves the ", total, " bytes of ", DTypeName(out.dtype()), " ",
                                            out.shape().ToString()));
  }
  if (header.data_bytes % element_size != 0) {
    return absl::DataLossError(
        absl::StrCat("a piece has ", header.data_bytes, " bytes; wanted a multiple of ", element_size));
  }
  CASK_RETURN_IF_ERROR(out.EnsureMutable());
  char* const memory =
      static_cast<char*>(out.buffer()->mutable_data()) + static_cast<size_t>(out.offset()) * element_size;
  if (out.IsContiguous() && out.dtype() != DType::kBool) {
    return CheckSum(header, CopyData(piece, parts, memory + position_.offset));
  }
  // The bytes of a bool must be checked before they are one.
  if (scratch_ == nullptr || scratch_->size_bytes() < header.data_bytes) {
    CASK_ASSIGN_OR_RETURN(scratch_, TensorBuffer::Allocate(std::max(header.data_bytes, kPieceBytes)));
  }
  char* const scratch = static_cast<char*>(scratch_->mutable_data());
  CASK_RETURN_IF_ERROR(CheckSum(header, CopyData(piece, parts, scratch)));
  if (out.dtype() == DType::kBool) {
    const absl::Status valid = CheckBools(absl::string_view(scratch, header.data_bytes));
    if (!valid.ok()) return absl::DataLossError(valid.message());
  }
  const auto begin = static_cast<int64_t>(position_.offset / element_size);
  const auto count = static_cast<int64_t>(header.data_bytes / element_size);
  const Layout row_major = Layout::RowMajor(out.shape());
  CopyRange(out.dtype(), {row_major, scratch, begin}, {out.layout(), static_cast<char*>(out.buffer()->mutable_data())},
            begin, begin + count);
  return absl::OkStatus();
}

absl::Status PieceReceiver::CheckComplete() const {
  if (is_complete()) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(server_, ": tensor ", Quoted(target().name), ": the server ended after byte ", position_.offset,
                   target().message != nullptr ? absl::StrCat(" of a message")
                                               : absl::StrCat(" of ", ElementBytesOf(*target().out))));
}

}  // namespace tensorcask::rpc
