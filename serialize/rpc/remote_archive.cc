#include "tensorcask/serialize/rpc/remote_archive.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "tensorcask/proto/exchange_service.grpc.pb.h"
#include "tensorcask/proto/exchange_service.pb.h"
#include "tensorcask/serialize/archive/archive_entry.h"
#include "tensorcask/serialize/exchange/deadline.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/serialize/rpc/internal/beside_tensors.h"
#include "tensorcask/serialize/rpc/internal/grpc_status.h"
#include "tensorcask/serialize/rpc/internal/piece_receiver.h"
#include "tensorcask/serialize/rpc/internal/remote_address.h"
#include "tensorcask/serialize/rpc/internal/split_blocks.h"
#include "tensorcask/serialize/rpc/internal/stream_call.h"
#include "tensorcask/serialize/rpc/internal/strided_memory.h"
#include "tensorcask/serialize/wire/codec_options.h"
#include "tensorcask/serialize/wire/serialized_tensor.h"
#include "tensorcask/serialize/wire/shape_codec.h"
#include "tensorcask/serialize/wire/slice_codec.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/strided/device_elements.h"

namespace tensorcask {
namespace {

using rpc::Address;
using rpc::FromGrpc;
using rpc::IsInterruption;
using rpc::kNeverWaits;
using rpc::ParseAddress;
using rpc::PieceReceiver;
using rpc::PullTarget;
namespace v1 = rpc::v1;

constexpr char kListMethod[] = "/tensorcask.rpc.v1.TensorExchange/List";
constexpr char kPullMethod[] = "/tensorcask.rpc.v1.TensorExchange/Pull";
constexpr char kWatchMethod[] = "/tensorcask.rpc.v1.TensorExchange/Watch";
constexpr size_t kMaxEncodingBytes = 64;
constexpr absl::Duration kMaxDelay = absl::Seconds(5);
// The items of one request, at most: a server accepts 4 MiB.
constexpr size_t kMaxItemsBytes = size_t{2} << 20;
constexpr int64_t kMaxFileMetadataBytes = int64_t{128} << 20;
constexpr uint64_t kReadBytes = uint64_t{16} << 20;  // of one call of ReadBlocks

absl::Status CheckEncoding(const std::string& encoding) {
  const auto is_printable = [](char c) { return c >= ' ' && c <= '~'; };
  if (!encoding.empty() && encoding.size() <= kMaxEncodingBytes &&
      std::all_of(encoding.begin(), encoding.end(), is_printable)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(Quoted(encoding), " is not an encoding: wanted 1 to ",
                                                 kMaxEncodingBytes, " printable characters of ASCII"));
}

// Errors: InvalidArgument for what no server may say of a tensor.
absl::StatusOr<ArchiveEntry> DecodeEntry(const v1::OfferedTensor& tensor) {
  ArchiveEntry entry;
  const std::optional<DType> dtype = DTypeFromNumber(tensor.dtype());
  if (!dtype.has_value() || *dtype == DType::kInvalid) {
    return absl::InvalidArgumentError(absl::StrCat("no dtype has the number ", static_cast<int>(tensor.dtype())));
  }
  entry.dtype = *dtype;
  CASK_ASSIGN_OR_RETURN(entry.shape, DecodeShape(tensor.shape()));
  if (tensor.strides_size() != 0 && tensor.strides_size() != entry.shape.rank()) {
    return absl::InvalidArgumentError(
        absl::StrCat(tensor.strides_size(), " strides for the shape ", entry.shape.ToString()));
  }
  entry.strides.assign(tensor.strides().begin(), tensor.strides().end());
  CASK_RETURN_IF_ERROR(CheckEncoding(tensor.encoding()));
  entry.encoding = tensor.encoding();
  entry.stored_bytes = tensor.stored_bytes();
  if (tensor.has_decoded_bytes()) entry.decoded_bytes = tensor.decoded_bytes();
  entry.has_metadata = tensor.has_metadata();
  entry.reads_in_blocks = IsFixedSize(entry.dtype);
  return entry;
}

// Starts the call with its only request. False: the call has ended.
absl::StatusOr<bool> Ask(rpc::StreamCall* call, const google::protobuf::Message& request) {
  CASK_ASSIGN_OR_RETURN(const bool begun, call->Start());
  if (!begun) return false;
  grpc::ByteBuffer buffer;
  bool own_buffer = false;
  grpc::SerializationTraits<google::protobuf::Message>::Serialize(request, &buffer, &own_buffer);
  return call->WriteLast(buffer);
}

// Reads the next message. False: the call has ended.
absl::StatusOr<bool> ReadMessage(rpc::StreamCall* call, google::protobuf::Message* message) {
  grpc::ByteBuffer buffer;
  CASK_ASSIGN_OR_RETURN(const bool has_message, call->Read(&buffer));
  if (!has_message) return false;
  if (!grpc::SerializationTraits<google::protobuf::Message>::Deserialize(&buffer, message).ok()) {
    return absl::DataLossError(absl::StrCat("sent a message that is not a ", message->GetTypeName()));
  }
  return true;
}

}  // namespace

class RemoteArchive::Impl {
 public:
  Impl(std::string path, Address address, RemoteOptions options)
      : path_(std::move(path)), address_(std::move(address)), options_(std::move(options)) {
    channel_ = rpc::MakeChannel(address_, options_.credentials);
    stub_ = std::make_unique<rpc::StreamCall::Stub>(channel_);
  }

  // If the server gets other tensors between the pages, it begins again.
  absl::Status ReadList() {
    const Deadline deadline = options_.pull.timeout;
    for (int attempt = 1;; ++attempt) {
      const absl::Status status = ReadListOnce(deadline);
      if (!absl::IsAborted(status) || attempt >= options_.pull.max_attempts) return status;
    }
  }

  absl::Status ReadListOnce(const Deadline& deadline) {
    TensorVersion version;
    std::vector<ArchiveEntry> entries;
    rpc::BesideTensors beside;
    const std::shared_ptr<ListingBudget> budget =
        options_.listing != nullptr ? options_.listing : std::make_shared<ListingBudget>(options_.limits);
    v1::ListRequest request;
    request.set_prefix(address_.prefix);
    bool has_file_metadata = false;
    do {
      CASK_ASSIGN_OR_RETURN(const v1::ListResponse page, ReadPage(request, deadline));
      const TensorVersion found = {page.version().step(), page.version().id()};
      if (found.id == 0 || (request.has_version() && found != version)) {
        return absl::DataLossError(absl::StrCat(path_, ": a page of the list is of ", found.ToString(), "; wanted ",
                                                version.id == 0 ? "a version" : version.ToString()));
      }
      version = found;
      *request.mutable_version() = page.version();
      CASK_RETURN_IF_ERROR(TakePage(page, budget.get(), &entries));
      // Each page must bring the list forward.
      if (page.next() != 0 && (page.next() <= request.start() || page.tensors_size() == 0)) {
        return absl::DataLossError(absl::StrCat(path_, ": the page from tensor ", request.start(), " of the list has ",
                                                page.tensors_size(), " tensors and is followed by ", page.next()));
      }
      request.set_start(page.next());
      has_file_metadata = page.has_file_metadata();
    } while (request.start() != 0);
    if (has_file_metadata) {
      CASK_ASSIGN_OR_RETURN(beside, ReadFileMetadata(version, deadline, budget.get()));
    }
    version_ = version;
    entries_ = std::move(entries);
    beside_ = std::move(beside);
    return absl::OkStatus();
  }

  // Waits for a version that is not the archive's.
  absl::StatusOr<TensorVersion> WaitForNewer(Deadline deadline) const {
    absl::Duration delay = options_.pull.first_delay;
    v1::WatchRequest request;
    request.mutable_version()->set_step(version_.step);
    request.mutable_version()->set_id(version_.id);
    while (true) {
      rpc::StreamCall call(stub_.get(), kWatchMethod, deadline.remaining(), kNeverWaits, "the server sent nothing",
                           options_.pull.keep_going);
      CASK_ASSIGN_OR_ANNOTATE(bool goes_on, Ask(&call, request), path_);
      v1::Version found;
      while (goes_on) {
        CASK_ASSIGN_OR_ANNOTATE(goes_on, ReadMessage(&call, &found), path_);
        const TensorVersion version = {found.step(), found.id()};
        if (goes_on && version != version_ && version.id != 0) return version;
      }
      CASK_ASSIGN_OR_ANNOTATE(const grpc::Status status, call.Finish(), path_);
      const bool is_late = status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED;
      if (!status.ok() && !is_late && !IsInterruption(status)) return FromGrpc(status, path_);
      // The server may come back.
      if (is_late || deadline.remaining() <= delay) {
        return absl::DeadlineExceededError(absl::StrCat(path_, ": no version newer than ", version_.ToString(),
                                                        status.ok() || is_late ? "" : ": ",
                                                        is_late ? "" : status.error_message()));
      }
      CASK_ANNOTATE_IF_ERROR(rpc::WaitToRetry(channel_.get(), delay, options_.pull.keep_going), path_);
      delay = std::min(2 * delay, kMaxDelay);
    }
  }

  // Reads the items in one stream.
  absl::Status PullItems(const RemoteArchive& archive, absl::Span<const PullItem> items,
                         const PullOptions& options) const {
    std::vector<PullTarget> targets;
    std::vector<TensorView> on_host(items.size());  // of items on a device
    targets.reserve(items.size());
    for (size_t i = 0; i < items.size(); ++i) {
      const PullItem& item = items[i];
      CASK_RETURN_IF_ERROR(CheckItem(archive, item));
      PullTarget target;
      target.name = item.name;
      if (item.slice.has_value() && !item.slice->IsFull()) target.slice = item.slice;
      target.out = item.out;
      if (internal::IsOnDevice(*item.out)) {
        CASK_ASSIGN_OR_RETURN(on_host[i], Tensor::Create(item.out->dtype(), item.out->shape()));
        target.out = &on_host[i];
      }
      targets.push_back(std::move(target));
    }
    CASK_RETURN_IF_ERROR(Pull(absl::MakeSpan(targets), version_, options_.limits, options));
    for (size_t i = 0; i < items.size(); ++i) {
      if (targets[i].out == &on_host[i]) CASK_RETURN_IF_ERROR(internal::CopyFromHost(on_host[i], items[i].out));
    }
    return absl::OkStatus();
  }

  // The tensor or a part of it as a message: the form for strings and for metadata.
  absl::StatusOr<DecodedTensor> PullMessage(const ArchiveEntry& entry, std::optional<TensorSlice> slice) const {
    const std::string what = absl::StrCat(path_, ": tensor ", Quoted(entry.name));
    TensorShape shape = entry.shape;
    if (slice.has_value()) {
      CASK_ASSIGN_OR_ANNOTATE(shape, slice->Apply(entry.shape), what);
      if (slice->IsFull()) slice.reset();
    }
    std::string message;
    PullTarget target;
    target.name = entry.name;
    target.slice = std::move(slice);
    target.message = &message;
    CASK_RETURN_IF_ERROR(Pull(absl::MakeSpan(&target, 1), version_, options_.limits, options_.pull));
    DecodeOptions decode;
    decode.limits = options_.limits;
    absl::StatusOr<DecodedTensor> tensor = DecodeSerializedTensorWithMetadata(message, decode);
    if (!tensor.ok()) return AsDataLoss(tensor.status(), what);
    if (tensor->view.dtype() != entry.dtype || tensor->view.shape() != shape) {
      return absl::DataLossError(absl::StrCat(what, ": ", DTypeName(tensor->view.dtype()), " ",
                                              tensor->view.shape().ToString(), " came; the list says ",
                                              DTypeName(entry.dtype), " ", shape.ToString()));
    }
    return tensor;
  }

  absl::StatusOr<TensorMetadata> PullMetadata(const ArchiveEntry& entry) const {
    std::string message;
    PullTarget target;
    target.name = entry.name;
    target.message = &message;
    target.kind = PullTarget::Message::kMetadataAlone;
    CASK_RETURN_IF_ERROR(Pull(absl::MakeSpan(&target, 1), version_, options_.limits, options_.pull));
    DecodeOptions decode;
    decode.limits = options_.limits;
    absl::StatusOr<TensorMetadata> metadata =
        rpc::DecodeMetadataAlone(message, entry.dtype, entry.shape.rank(), decode);
    if (metadata.ok()) return metadata;
    return AsDataLoss(metadata.status(), absl::StrCat(path_, ": tensor ", Quoted(entry.name)));
  }

  // Memory for elements of a fixed size. Errors: ResourceExhausted; DataLoss for strides that no tensor can have.
  absl::StatusOr<TensorView> MakeMemory(DType dtype, const TensorShape& shape,
                                        absl::Span<const int64_t> strides) const {
    DecodeQuota quota = DecodeQuota::ForFile(options_.limits);
    const std::optional<uint64_t> bytes =
        CheckedMul<uint64_t>(static_cast<uint64_t>(shape.num_elements()), ElementSize(dtype));
    CASK_RETURN_IF_ERROR(quota.Charge(bytes.value_or(DecodeQuota::kTooMany)));
    absl::StatusOr<TensorView> memory = rpc::MakeStridedView(dtype, shape, strides);
    if (absl::IsInvalidArgument(memory.status())) return absl::DataLossError(memory.status().message());
    return memory;
  }

  const std::string path_;
  const Address address_;
  const RemoteOptions options_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<rpc::StreamCall::Stub> stub_;
  TensorVersion version_;
  std::vector<ArchiveEntry> entries_;
  rpc::BesideTensors beside_;

 private:
  // What the server has beside the tensors that the archive has.
  absl::StatusOr<rpc::BesideTensors> ReadFileMetadata(const TensorVersion& version, const Deadline& deadline,
                                                      ListingBudget* budget) const {
    std::string message;
    PullTarget target;
    target.name = "metadata of the file";
    target.message = &message;
    target.kind = PullTarget::Message::kFileMetadata;
    DecodeLimits limits = options_.limits;
    limits.max_message_bytes = std::min(limits.max_message_bytes, kMaxFileMetadataBytes);
    PullOptions pull = options_.pull;
    pull.timeout = deadline.remaining();
    CASK_RETURN_IF_ERROR(Pull(absl::MakeSpan(&target, 1), version, limits, pull));
    budget->AddIndex(message.size());
    CASK_ASSIGN_OR_ANNOTATE(rpc::BesideTensors all,
                            rpc::FromMessage(message, [&](uint64_t bytes) { return budget->Charge(bytes); }), path_);
    if (address_.prefix.empty()) return all;
    rpc::BesideTensors below;
    below.notes = std::move(all.notes);
    rpc::ValueTypes types;
    for (const auto& [key, type] : rpc::TakeTypes(&all.entries)) {
      absl::string_view rest = key;
      if (absl::ConsumePrefix(&rest, address_.prefix)) types.emplace(std::string(rest), type);
    }
    for (auto& [key, value] : all.entries) {
      absl::string_view rest = key;
      if (absl::ConsumePrefix(&rest, address_.prefix)) below.entries.emplace(std::string(rest), std::move(value));
    }
    const size_t left_out = all.entries.size() - below.entries.size();
    rpc::AddTypes(types, &below.entries);
    if (left_out > 0) {
      below.notes.push_back(absl::StrCat(left_out, " of the ", all.entries.size(),
                                         " metadata of the server are not below ", Quoted(address_.prefix)));
    }
    return below;
  }

  // Fills the targets, whose names are those of entries. Repeats as the options say.
  absl::Status Pull(absl::Span<PullTarget> targets, const TensorVersion& version, const DecodeLimits& limits,
                    const PullOptions& options) const {
    for (PullTarget& target : targets) {
      if (target.kind != PullTarget::Message::kFileMetadata) target.name.insert(0, address_.prefix);
    }
    PieceReceiver receiver(path_, version.id, limits, targets);
    const Deadline deadline = options.timeout;
    absl::Duration delay = options.first_delay;
    uint64_t received = 0;
    for (int attempt = 1; !receiver.is_complete();) {
      size_t asked_end = 0;
      const grpc::ByteBuffer request = MakeRequest(targets, version, &receiver, &asked_end);
      CASK_ASSIGN_OR_RETURN(const grpc::Status status, Attempt(request, &receiver, deadline, options));
      if (receiver.is_complete()) break;
      if (status.ok()) {
        if (receiver.position().target < asked_end) return receiver.CheckComplete();
        continue;
      }
      if (!IsInterruption(status)) return FromGrpc(status, path_);
      if (receiver.received_bytes() > received) {  // it went on
        attempt = 1;
        delay = options.first_delay;
      }
      received = receiver.received_bytes();
      if (++attempt > options.max_attempts) return Unreachable(status);
      if (deadline.remaining() <= delay) return OutOfTime(options);
      CASK_ANNOTATE_IF_ERROR(rpc::WaitToRetry(channel_.get(), delay, options.keep_going), path_);
      delay = std::min(2 * delay, kMaxDelay);
    }
    return absl::OkStatus();
  }

  absl::Status CheckItem(const RemoteArchive& archive, const PullItem& item) const {
    CASK_ASSIGN_OR_RETURN(const ArchiveEntry* const entry, archive.Find(item.name));
    const std::string what = absl::StrCat(path_, ": tensor ", Quoted(item.name));
    TensorShape shape = entry->shape;
    if (item.slice.has_value()) {
      CASK_ASSIGN_OR_ANNOTATE(shape, item.slice->Apply(entry->shape), what);
    }
    if (!IsFixedSize(entry->dtype)) {
      return absl::InvalidArgumentError(absl::StrCat(what, ": elements of dtype ", DTypeName(entry->dtype),
                                                     " have no fixed size; Read returns them"));
    }
    if (item.out->dtype() != entry->dtype || item.out->shape() != shape) {
      return absl::InvalidArgumentError(absl::StrCat(what, ": is ", DTypeName(entry->dtype), " ", shape.ToString(),
                                                     "; the memory for it is ", DTypeName(item.out->dtype()), " ",
                                                     item.out->shape().ToString()));
    }
    return Annotate(item.out->CheckWritable(), what);
  }

  absl::Status Unreachable(const grpc::Status& status) const {
    return absl::UnavailableError(absl::StrCat(path_, ": ", status.error_message()));
  }
  absl::Status OutOfTime(const PullOptions& options) const {
    return absl::DeadlineExceededError(
        absl::StrCat(path_, ": the time of ", absl::FormatDuration(options.timeout), " is over"));
  }

  absl::StatusOr<v1::ListResponse> ReadPage(const v1::ListRequest& request, const Deadline& deadline) const {
    absl::Duration delay = options_.pull.first_delay;
    for (int attempt = 1;; ++attempt) {
      rpc::StreamCall call(stub_.get(), kListMethod, deadline.remaining(), options_.pull.stall_timeout,
                           "the server sent nothing", options_.pull.keep_going);
      v1::ListResponse page;
      CASK_ASSIGN_OR_ANNOTATE(bool answered, Ask(&call, request), path_);
      if (answered) {
        CASK_ASSIGN_OR_ANNOTATE(answered, ReadMessage(&call, &page), path_);
      }
      CASK_ASSIGN_OR_ANNOTATE(const grpc::Status status, call.Finish(), path_);
      if (status.ok() && answered) return page;
      if (status.ok()) return absl::DataLossError(absl::StrCat(path_, ": sent no page of the list"));
      if (!IsInterruption(status)) return FromGrpc(status, path_);
      if (attempt >= options_.pull.max_attempts) return Unreachable(status);
      if (deadline.remaining() <= delay) return OutOfTime(options_.pull);
      CASK_ANNOTATE_IF_ERROR(rpc::WaitToRetry(channel_.get(), delay, options_.pull.keep_going), path_);
      delay = std::min(2 * delay, kMaxDelay);
    }
  }

  absl::Status TakePage(const v1::ListResponse& page, ListingBudget* budget, std::vector<ArchiveEntry>* entries) const {
    budget->AddIndex(page.ByteSizeLong());
    for (const v1::OfferedTensor& tensor : page.tensors()) {
      absl::StatusOr<ArchiveEntry> entry = DecodeEntry(tensor);
      if (!entry.ok()) {
        return AsDataLoss(Annotate(entry.status(), absl::StrCat("tensor ", Quoted(tensor.name()))), path_);
      }
      absl::string_view name = tensor.name();
      if (!absl::ConsumePrefix(&name, address_.prefix)) {
        return absl::DataLossError(absl::StrCat(path_, ": the list has ", Quoted(name), ", which does not begin with ",
                                                Quoted(address_.prefix)));
      }
      if (static_cast<int64_t>(name.size()) > options_.limits.max_name_bytes) {
        return PastLimit(absl::StrCat(path_, ": has a name of ", name.size(), " bytes"), "max_name_bytes",
                         options_.limits.max_name_bytes);
      }
      if (!entries->empty() && name <= entries->back().name) {
        return absl::DataLossError(absl::StrCat(path_, ": ", Quoted(name), " comes after ",
                                                Quoted(entries->back().name), "; names must come once and in order"));
      }
      entry->name = std::string(name);
      CASK_RETURN_IF_ERROR(budget->Charge(EntryMemory(*entry)));
      entries->push_back(*std::move(entry));
      if (static_cast<int64_t>(entries->size()) > options_.limits.max_entries) {
        return PastLimit(absl::StrCat(path_, ": has more tensors"), "max_entries", options_.limits.max_entries);
      }
    }
    return absl::OkStatus();
  }

  // The request for what the receiver still lacks, up to the target *end: as much of it as a server accepts.
  static grpc::ByteBuffer MakeRequest(absl::Span<const PullTarget> targets, const TensorVersion& version,
                                      PieceReceiver* receiver, size_t* end) {
    const PieceReceiver::Position from = receiver->BeginAttempt();
    v1::PullRequest request;
    request.mutable_version()->set_step(version.step);
    request.mutable_version()->set_id(version.id);
    size_t bytes = 0;
    size_t next = from.target;
    for (; next < targets.size() && bytes < kMaxItemsBytes; ++next) {
      const PullTarget& target = targets[next];
      v1::PullItem* const item = request.add_items();
      const bool is_tensor = target.kind == PullTarget::Message::kTensor;
      item->set_file_metadata(target.kind == PullTarget::Message::kFileMetadata);
      item->set_metadata_alone(target.kind == PullTarget::Message::kMetadataAlone);
      item->set_as_message(is_tensor && target.message != nullptr);
      if (!item->file_metadata()) item->set_name(target.name);
      if (target.slice.has_value()) EncodeSlice(*target.slice, item->mutable_slice());
      if (next == from.target) item->set_offset(from.offset);
      bytes += item->ByteSizeLong() + 8;
    }
    *end = next;
    grpc::ByteBuffer buffer;
    bool own_buffer = false;
    grpc::SerializationTraits<v1::PullRequest>::Serialize(request, &buffer, &own_buffer);
    return buffer;
  }

  // The status with which the server ended the stream. Errors: those that end the pull.
  absl::StatusOr<grpc::Status> Attempt(const grpc::ByteBuffer& request, PieceReceiver* receiver,
                                       const Deadline& deadline, const PullOptions& options) const {
    std::array<grpc::ByteBuffer, 2> messages;  // one is looked at while the next one comes
    rpc::StreamCall call(stub_.get(), kPullMethod, deadline.remaining(), options.stall_timeout,
                         "the server sent nothing", options.keep_going);
    CASK_ASSIGN_OR_ANNOTATE(bool begun, call.Start(), path_);
    if (begun) {
      CASK_ASSIGN_OR_ANNOTATE(begun, call.WriteLast(request), path_);
    }
    std::vector<grpc::Slice> slices;
    std::vector<absl::string_view> parts;
    if (begun) call.StartRead(&messages[0]);
    for (size_t next = 0; begun; next = 1 - next) {
      CASK_ASSIGN_OR_ANNOTATE(const bool has_message, call.FinishRead(), path_);
      if (!has_message) break;
      call.StartRead(&messages[1 - next]);
      slices.clear();
      parts.clear();
      if (!messages[next].Dump(&slices).ok())
        return absl::DataLossError(absl::StrCat(path_, ": sent a message without bytes"));
      for (const grpc::Slice& slice : slices) {
        parts.emplace_back(reinterpret_cast<const char*>(slice.begin()), slice.size());
      }
      CASK_RETURN_IF_ERROR(receiver->Receive(parts));
    }
    CASK_ASSIGN_OR_ANNOTATE(const grpc::Status status, call.Finish(), path_);
    return status;
  }
};

RemoteArchive::RemoteArchive(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
RemoteArchive::~RemoteArchive() = default;

absl::StatusOr<std::unique_ptr<RemoteArchive>> RemoteArchive::Open(const std::string& address,
                                                                   const RemoteOptions& options) {
  CASK_ASSIGN_OR_RETURN(Address parsed, ParseAddress(address));
  std::unique_ptr<RemoteArchive> archive(
      new RemoteArchive(std::make_unique<Impl>(address, std::move(parsed), options)));
  CASK_RETURN_IF_ERROR(archive->Refresh());
  // Else a misspelled name would be verified and found whole.
  const Impl& impl = *archive->impl_;
  if (impl.entries_.empty() && !impl.address_.prefix.empty()) {
    return absl::NotFoundError(
        absl::StrCat(address, ": the server has no tensor below ", Quoted(impl.address_.prefix)));
  }
  return archive;
}

const TensorVersion& RemoteArchive::version() const { return impl_->version_; }
absl::Status RemoteArchive::Refresh() { return impl_->ReadList(); }
absl::StatusOr<TensorVersion> RemoteArchive::WaitForNewer(Deadline deadline) const {
  return impl_->WaitForNewer(deadline);
}
const std::string& RemoteArchive::path() const { return impl_->path_; }
const std::vector<ArchiveEntry>& RemoteArchive::entries() const { return impl_->entries_; }
const FileMetadata& RemoteArchive::file_metadata() const { return impl_->beside_.entries; }
std::vector<std::string> RemoteArchive::notes() const { return impl_->beside_.notes; }

absl::StatusOr<Tensor> RemoteArchive::Read(absl::string_view name) const {
  CASK_ASSIGN_OR_RETURN(const ArchiveEntry* const entry, Find(name));
  return ReadSlice(name, TensorSlice::Full(entry->shape.rank()));
}

absl::StatusOr<Tensor> RemoteArchive::ReadSlice(absl::string_view name, const TensorSlice& slice) const {
  CASK_ASSIGN_OR_RETURN(const ArchiveEntry* const entry, Find(name));
  const std::string what = absl::StrCat(path(), ": tensor ", Quoted(name));
  CASK_ASSIGN_OR_ANNOTATE(const TensorShape shape, slice.Apply(entry->shape), what);
  if (IsFixedSize(entry->dtype)) {
    CASK_ASSIGN_OR_ANNOTATE(TensorView view, impl_->MakeMemory(entry->dtype, shape, {}), what);
    CASK_RETURN_IF_ERROR(ReadSliceInto(name, slice, &view));
    return view.ToTensor();
  }
  CASK_ASSIGN_OR_RETURN(const DecodedTensor decoded, impl_->PullMessage(*entry, slice));
  return decoded.view.ToTensor();
}

absl::Status RemoteArchive::ReadInto(absl::string_view name, TensorView* out) const {
  CASK_ASSIGN_OR_RETURN(const ArchiveEntry* const entry, Find(name));
  return ReadSliceInto(name, TensorSlice::Full(entry->shape.rank()), out);
}

absl::Status RemoteArchive::ReadSliceInto(absl::string_view name, const TensorSlice& slice, TensorView* out) const {
  CASK_ASSIGN_OR_RETURN(const ArchiveEntry* const entry, Find(name));
  if (!IsFixedSize(entry->dtype)) return ArchiveReader::ReadSliceInto(name, slice, out);
  const PullItem item = {std::string(name), slice, out};
  return impl_->PullItems(*this, {item}, impl_->options_.pull);
}

// One call for many blocks: a call takes at least the time to the server and back.
absl::StatusOr<std::unique_ptr<TensorBlocks>> RemoteArchive::ReadBlocks(const ArchiveEntry& entry,
                                                                        uint64_t block_bytes) const {
  if (!entry.reads_in_blocks || block_bytes >= kReadBytes) return ArchiveReader::ReadBlocks(entry, block_bytes);
  CASK_ASSIGN_OR_RETURN(std::unique_ptr<TensorBlocks> large, ArchiveReader::ReadBlocks(entry, kReadBytes));
  return rpc::SplitBlocks(std::move(large), block_bytes);
}

absl::StatusOr<DecodedTensor> RemoteArchive::ReadWithMetadata(absl::string_view name) const {
  CASK_ASSIGN_OR_RETURN(const ArchiveEntry* const entry, Find(name));
  if (!IsFixedSize(entry->dtype)) return impl_->PullMessage(*entry, std::nullopt);
  DecodedTensor tensor;
  CASK_ASSIGN_OR_RETURN(tensor.metadata, Metadata(name));
  CASK_ASSIGN_OR_ANNOTATE(tensor.view, impl_->MakeMemory(entry->dtype, entry->shape, entry->strides),
                          absl::StrCat(path(), ": tensor ", Quoted(name)));
  CASK_RETURN_IF_ERROR(ReadInto(name, &tensor.view));
  return tensor;
}

absl::StatusOr<TensorMetadata> RemoteArchive::Metadata(absl::string_view name) const {
  CASK_ASSIGN_OR_RETURN(const ArchiveEntry* const entry, Find(name));
  return entry->has_metadata ? impl_->PullMetadata(*entry) : TensorMetadata();
}

absl::Status PullInto(const RemoteArchive* archive, absl::Span<const PullItem> items, const PullOptions& options) {
  return archive->impl_->PullItems(*archive, items, options);
}

// ---------------------------------------------------------------------------------------------------------------------

RemoteArchiveFormat::RemoteArchiveFormat(bool tls, RemoteOptions options)
    : RemoteFormat(tls), options_(std::move(options)) {}
RemoteArchiveFormat::~RemoteArchiveFormat() = default;

absl::StatusOr<std::unique_ptr<ArchiveReader>> RemoteArchiveFormat::Open(const std::string& path,
                                                                         const ArchiveReaderOptions& options) const {
  RemoteOptions remote = options_;
  remote.limits = options.limits;
  remote.listing = options.listing;
  CASK_ASSIGN_OR_RETURN(std::unique_ptr<RemoteArchive> archive, RemoteArchive::Open(path, remote));
  return std::unique_ptr<ArchiveReader>(std::move(archive));
}

}  // namespace tensorcask
