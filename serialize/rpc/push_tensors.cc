#include "tensorcask/serialize/rpc/push_tensors.h"

#include <grpcpp/grpcpp.h>

#include <memory>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tensorcask/proto/exchange_service.grpc.pb.h"
#include "tensorcask/proto/exchange_service.pb.h"
#include "tensorcask/serialize/archive/archive_entry.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/serialize/rpc/internal/beside_tensors.h"
#include "tensorcask/serialize/rpc/internal/grpc_status.h"
#include "tensorcask/serialize/rpc/internal/item_bytes.h"
#include "tensorcask/serialize/rpc/internal/piece_slices.h"
#include "tensorcask/serialize/rpc/internal/remote_address.h"
#include "tensorcask/serialize/rpc/internal/stream_call.h"
#include "tensorcask/serialize/rpc/live_tensors.h"
#include "tensorcask/serialize/wire/shape_codec.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"

namespace tensorcask {
namespace {

constexpr char kPushMethod[] = "/tensorcask.rpc.v1.TensorExchange/Push";

// What is sent, and how far it has come.
class Push {
 public:
  Push(rpc::StreamCall* call, const TensorSnapshot& snapshot, const std::vector<const ArchiveEntry*>& entries,
       const DecodeLimits& limits, const PushArchiveOptions& options)
      : call_(call), snapshot_(snapshot), entries_(entries), memory_(DecodeQuota::ForFile(limits)), options_(options) {}

  // The header as item 0, then the tensors. False: the server has ended the call.
  absl::StatusOr<bool> SendAll() {
    CASK_ASSIGN_OR_RETURN(std::string message, Header());  // which may take a while
    CASK_ASSIGN_OR_RETURN(bool goes_on, call_->Start());
    const std::unique_ptr<rpc::ItemBytes> header = rpc::MessageItem(std::move(message));
    if (goes_on) {
      CASK_ASSIGN_OR_RETURN(goes_on, SendItem(0, /*as_message=*/true, header.get()));
    }
    sent_bytes_ = 0;  // counts bytes of tensors
    uint32_t number = 0;
    for (const ArchiveEntry* const entry : entries_) {
      if (!goes_on) return false;
      rpc::ItemRequest item;
      item.name = entry->name;
      item.as_message = !IsFixedSize(entry->dtype);
      CASK_ASSIGN_OR_RETURN(const std::unique_ptr<rpc::ItemBytes> elements, rpc::OpenItem(snapshot_, item, &memory_));
      CASK_ASSIGN_OR_RETURN(goes_on, SendItem(++number, item.as_message, elements.get()));
    }
    return goes_on ? call_->WritesDone() : goes_on;
  }

 private:
  absl::StatusOr<std::string> Header() const {
    rpc::v1::PushHeader header;
    header.set_step(snapshot_.version.step);
    for (const ArchiveEntry* const entry : entries_) {
      rpc::v1::PushedTensor* const tensor = header.add_tensors();
      tensor->set_name(entry->name);
      tensor->set_dtype(static_cast<DataType>(DTypeNumber(entry->dtype)));
      EncodeShape(entry->shape, tensor->mutable_shape());
      tensor->set_as_message(!IsFixedSize(entry->dtype));
      if (tensor->as_message()) continue;
      if (!snapshot_.tensors->strides_only_permute()) {
        tensor->mutable_strides()->Add(entry->strides.begin(), entry->strides.end());
      }
      CASK_ASSIGN_OR_RETURN(*tensor->mutable_metadata(), MetadataOf(*entry));
    }
    CASK_ASSIGN_OR_RETURN(*header.mutable_file_metadata(), FileMetadataMessage());
    if (header.ByteSizeLong() > INT32_MAX) {
      return absl::ResourceExhaustedError(
          absl::StrCat("the list of the tensors and their metadata has ", header.ByteSizeLong(), " bytes"));
    }
    return header.SerializeAsString();
  }

  // "": it has none.
  absl::StatusOr<std::string> MetadataOf(const ArchiveEntry& entry) const {
    if (!entry.has_metadata) return "";
    const std::string what = absl::StrCat("tensor ", Quoted(entry.name));
    absl::StatusOr<TensorMetadata> metadata = snapshot_.tensors->Metadata(entry.name);
    if (!metadata.ok() && options_.allow_loss) {
      Note(absl::StrCat(what, ": its metadata is left out: ", metadata.status().message()));
      return "";
    }
    CASK_ANNOTATE_IF_ERROR(metadata.status(), what);
    absl::StatusOr<std::string> message = rpc::EncodeMetadataAlone(entry.dtype, entry.shape.rank(), *metadata);
    if (!message.ok()) return Annotate(message.status(), what);
    return message;
  }

  absl::StatusOr<std::string> FileMetadataMessage() const {
    const rpc::BesideTensors beside = rpc::FromArchive(*snapshot_.tensors);
    if (!beside.lost.empty() && !options_.allow_loss) {
      return absl::InvalidArgumentError(
          absl::StrCat(absl::StrJoin(beside.lost, "; "), "; PushArchiveOptions::allow_loss leaves these values out"));
    }
    for (const std::string& note : beside.notes) Note(note);
    for (const std::string& lost : beside.lost) Note(lost);
    return beside.entries.empty() ? "" : rpc::ToMessage(beside.entries, {});
  }

  void Note(const std::string& sentence) const {
    if (options_.note != nullptr) options_.note(sentence);
  }

  absl::StatusOr<bool> SendItem(uint32_t number, bool as_message, rpc::ItemBytes* bytes) {
    uint64_t offset = 0;
    while (true) {
      if (options_.keep_going != nullptr && !options_.keep_going(sent_bytes_)) {
        return absl::CancelledError("the push was broken off");
      }
      CASK_ASSIGN_OR_RETURN(rpc::ItemBytes::Piece piece, bytes->Next());
      if (piece.bytes.empty()) return true;
      rpc::PieceHeader header;
      header.item = number;
      header.offset = offset;
      header.version_id = snapshot_.version.id;
      if (as_message) header.message_bytes = bytes->total_bytes();
      offset += piece.bytes.size();
      sent_bytes_ += piece.bytes.size();
      CASK_ASSIGN_OR_RETURN(const bool goes_on, call_->Write(rpc::MakePieceBuffer(header, std::move(piece))));
      if (!goes_on) return false;
    }
  }

  rpc::StreamCall* const call_;
  const TensorSnapshot& snapshot_;
  const std::vector<const ArchiveEntry*>& entries_;
  DecodeQuota memory_;
  const PushArchiveOptions& options_;
  uint64_t sent_bytes_ = 0;
};

absl::StatusOr<rpc::Address> ParseServer(const std::string& address) {
  CASK_ASSIGN_OR_RETURN(rpc::Address parsed, rpc::ParseAddress(address));
  if (parsed.prefix.empty()) return parsed;
  return absl::InvalidArgumentError(
      absl::StrCat(address, ": a push replaces all tensors of a server; wanted an address without a name"));
}

absl::StatusOr<TensorVersion> PushEntries(const std::string& address, const rpc::Address& parsed,
                                          const TensorSnapshot& snapshot,
                                          const std::vector<const ArchiveEntry*>& entries, const RemoteOptions& options,
                                          const PushArchiveOptions& how) {
  rpc::StreamCall::Stub stub(rpc::MakeChannel(parsed, options.credentials));
  rpc::StreamCall call(&stub, kPushMethod, options.pull.timeout, options.pull.stall_timeout, "the server took nothing",
                       options.pull.keep_going);
  Push push(&call, snapshot, entries, options.limits, how);
  CASK_ASSIGN_OR_ANNOTATE(const bool sent, push.SendAll(), address);
  grpc::ByteBuffer answer;
  rpc::v1::PushResponse response;
  bool answered = false;
  if (sent) {
    CASK_ASSIGN_OR_ANNOTATE(answered, call.Read(&answer), address);
    if (answered && !grpc::SerializationTraits<rpc::v1::PushResponse>::Deserialize(&answer, &response).ok()) {
      return absl::DataLossError(absl::StrCat(address, ": the answer is not a PushResponse"));
    }
  }
  CASK_ASSIGN_OR_ANNOTATE(const grpc::Status status, call.Finish(), address);
  if (!status.ok()) {
    if (!rpc::IsInterruption(status)) return rpc::FromGrpc(status, address);
    return absl::UnavailableError(absl::StrCat(address, ": ", status.error_message()));
  }
  if (!answered || response.version().id() == 0) {
    return absl::DataLossError(
        absl::StrCat(address, ": the server ended the push without an error and without a version of the tensors"));
  }
  return TensorVersion{response.version().step(), response.version().id()};
}

}  // namespace

absl::StatusOr<TensorVersion> PushTensors(const std::string& address, int64_t step, std::vector<NamedView> tensors,
                                          const RemoteOptions& options, FileMetadata file_metadata) {
  CASK_ASSIGN_OR_RETURN(const rpc::Address parsed, ParseServer(address));
  LiveTensors live;  // checks the names, and holds the elements as they are now
  CASK_RETURN_IF_ERROR(live.Publish(step, std::move(tensors), std::move(file_metadata)));
  CASK_ASSIGN_OR_RETURN(const TensorSnapshot snapshot, live.Current());
  std::vector<const ArchiveEntry*> entries;
  for (const ArchiveEntry& entry : snapshot.tensors->entries()) entries.push_back(&entry);
  return PushEntries(address, parsed, snapshot, entries, options, PushArchiveOptions());
}

absl::StatusOr<TensorVersion> PushArchive(const std::string& address, int64_t step,
                                          std::shared_ptr<const ArchiveReader> archive,
                                          const std::vector<std::string>& names, const RemoteOptions& options,
                                          const PushArchiveOptions& push) {
  CASK_ASSIGN_OR_RETURN(const rpc::Address parsed, ParseServer(address));
  std::vector<const ArchiveEntry*> entries;
  std::set<std::string> known;
  for (const std::string& name : names) {
    if (!known.insert(name).second) {
      return absl::AlreadyExistsError(absl::StrCat("two tensors have the name ", Quoted(name)));
    }
    CASK_ASSIGN_OR_RETURN(const ArchiveEntry* const entry, archive->Find(name));
    CASK_RETURN_IF_ERROR(archive->CheckReadable(*entry));
    entries.push_back(entry);
  }
  TensorSnapshot snapshot;
  snapshot.version = MakeTensorVersion(step);
  snapshot.tensors = std::move(archive);
  return PushEntries(address, parsed, snapshot, entries, options, push);
}

}  // namespace tensorcask
