#include "tensorcask/serialize/hdf5/internal/object_header.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/hdf5/internal/cursor.h"
#include "tensorcask/serialize/hdf5/internal/metadata_checksum.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"

namespace tensorcask::hdf5 {
namespace {

constexpr absl::string_view kSignatureOfHeader = "OHDR";
constexpr absl::string_view kSignatureOfContinuation = "OCHK";
// Flags of a message.
constexpr int kShared = 0x02;
constexpr int kMustBeKnown = 0x80;

class HeaderReader {
 public:
  explicit HeaderReader(File* file) : file_(file) {}

  absl::Status Read(uint64_t address) {
    // The longest beginning of a header of version 2.
    constexpr uint64_t kMostBytes = 4 + 1 + 1 + 16 + 4 + 8;
    CASK_ASSIGN_OR_RETURN(const std::string start, file_->ReadAtMost(address, kMostBytes));
    if (absl::StartsWith(start, kSignatureOfHeader)) {
      CASK_RETURN_IF_ERROR(ReadVersion2(address, start));
    } else {
      CASK_RETURN_IF_ERROR(ReadVersion1(address, start));
    }
    for (size_t i = 0; i < blocks_.size(); ++i) {
      const Block block = blocks_[i];
      if (!seen_.insert(block.address).second) return absl::DataLossError("has one continuation twice");
      CASK_ASSIGN_OR_RETURN(const std::string bytes, file_->Read(block.address, block.size));
      absl::string_view messages = bytes;
      uint64_t at = block.address;
      if (version_ == 2) {
        if (!absl::StartsWith(bytes, kSignatureOfContinuation)) {
          return absl::DataLossError("has a continuation without its signature");
        }
        CASK_RETURN_IF_ERROR(CheckMetadataChecksum(bytes));
        if (bytes.size() < kSignatureOfContinuation.size() + kChecksumBytes) return CutShort("it");
        messages = messages.substr(kSignatureOfContinuation.size(),
                                   bytes.size() - kSignatureOfContinuation.size() - kChecksumBytes);
        at += kSignatureOfContinuation.size();
      }
      CASK_RETURN_IF_ERROR(AddMessages(messages, at));
    }
    return absl::OkStatus();
  }

  std::vector<Message> messages() && { return std::move(messages_); }

 private:
  struct Block {
    uint64_t address;
    uint64_t size;
  };

  absl::Status ReadVersion1(uint64_t address, absl::string_view start) {
    constexpr uint64_t kPrefixBytes = 16;  // four of them padding
    Cursor in(start);
    version_ = static_cast<int>(in.Uint(1));
    if (version_ != 1) return absl::DataLossError(absl::StrCat("begins with ", version_, ", which is no version"));
    in.Skip(1);
    messages_left_ = in.Uint(2);
    in.Skip(4);  // how many links there are
    blocks_.push_back({address + kPrefixBytes, in.Uint(4)});
    return in.ok() ? absl::OkStatus() : CutShort("it");
  }

  absl::Status ReadVersion2(uint64_t address, absl::string_view start) {
    Cursor in(start);
    in.Skip(kSignatureOfHeader.size());
    version_ = static_cast<int>(in.Uint(1));
    if (version_ != 2) {
      return absl::UnimplementedError(absl::StrCat("has version ", version_, "; 1 and 2 are read"));
    }
    const uint64_t flags = in.Uint(1);
    has_creation_order_ = (flags & 0x04) != 0;
    if ((flags & 0x20) != 0) in.Skip(16);  // times
    if ((flags & 0x10) != 0) in.Skip(4);   // limits of attributes
    const uint64_t size = in.Uint(1 << (flags & 0x03));
    if (!in.ok()) return CutShort("it");
    const size_t prefix = in.position();
    if (size > kUndefined - prefix - kChecksumBytes) return CutShort("it");
    CASK_ASSIGN_OR_RETURN(const std::string bytes, file_->Read(address, prefix + size + kChecksumBytes));
    CASK_RETURN_IF_ERROR(CheckMetadataChecksum(bytes));
    return AddMessages(absl::string_view(bytes).substr(prefix, static_cast<size_t>(size)), address + prefix);
  }

  // `address`: of the block.
  absl::Status AddMessages(absl::string_view block, uint64_t address) {
    const size_t head = version_ == 1 ? 8 : has_creation_order_ ? 6 : 4;
    Cursor in(block);
    while (in.left() >= head && (version_ == 2 || messages_left_ > 0)) {
      Message message;
      message.type = static_cast<int>(in.Uint(version_ == 1 ? 2 : 1));
      const uint64_t size = in.Uint(2);
      const auto flags = static_cast<int>(in.Uint(1));
      in.Skip(head - (version_ == 1 ? 5 : 4));
      CASK_ASSIGN_OR_RETURN(message.position, file_->Position(address + in.position(), 0));
      const absl::string_view body = in.Bytes(size);
      if (!in.ok()) return CutShort("it");
      if (version_ == 1) --messages_left_;
      message.is_shared = (flags & kShared) != 0;
      if (message.type == 0) continue;
      if (message.type == static_cast<int>(MessageType::kContinuation)) {
        Cursor place(body);
        const uint64_t next = file_->Address(&place);
        blocks_.push_back({next, file_->Length(&place)});
        if (!place.ok()) return CutShort("it");
        continue;
      }
      if ((flags & kMustBeKnown) != 0 && message.type > static_cast<int>(MessageType::kAttributeInfo)) {
        return absl::UnimplementedError(absl::StrCat("has a message of type ", message.type, ", which is not known"));
      }
      message.body = std::string(body);
      messages_.push_back(std::move(message));
    }
    return absl::OkStatus();
  }

  File* const file_;
  int version_ = 0;
  bool has_creation_order_ = false;
  uint64_t messages_left_ = 0;  // counted in version 1 only
  std::vector<Block> blocks_;   // that are to be read
  absl::flat_hash_set<uint64_t> seen_;
  std::vector<Message> messages_;
};

}  // namespace

absl::StatusOr<std::vector<Message>> ReadObjectHeader(uint64_t address, File* file) {
  HeaderReader reader(file);
  CASK_ANNOTATE_IF_ERROR(reader.Read(address), absl::StrCat("the object header at ", address));
  return std::move(reader).messages();
}

const Message* Find(const std::vector<Message>& header, MessageType type) {
  const auto found = std::find_if(header.begin(), header.end(),
                                  [type](const Message& message) { return message.type == static_cast<int>(type); });
  return found == header.end() ? nullptr : &*found;
}

}  // namespace tensorcask::hdf5
