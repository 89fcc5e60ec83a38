#include "tensorcask/serialize/rpc/tensor_server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tensorcask/proto/exchange_service.grpc.pb.h"
#include "tensorcask/proto/exchange_service.pb.h"
#include "tensorcask/serialize/archive/archive_entry.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/serialize/rpc/internal/grpc_status.h"
#include "tensorcask/serialize/rpc/internal/item_bytes.h"
#include "tensorcask/serialize/rpc/internal/piece.h"
#include "tensorcask/serialize/rpc/internal/piece_receiver.h"
#include "tensorcask/serialize/rpc/internal/piece_slices.h"
#include "tensorcask/serialize/rpc/internal/work_queue.h"
#include "tensorcask/serialize/wire/codec_options.h"
#include "tensorcask/serialize/wire/serialized_tensor.h"
#include "tensorcask/serialize/wire/shape_codec.h"
#include "tensorcask/serialize/wire/slice_codec.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"

namespace tensorcask {
namespace {

using rpc::ItemBytes;
using rpc::ItemRequest;
namespace v1 = rpc::v1;

constexpr size_t kPageBytes = size_t{1} << 20;
constexpr int kMaxRequestBytes = (4 << 20) + 4096;  // a piece of kMaxPieceBytes, too
constexpr int kFileThreads = 8;

void SetVersion(const TensorVersion& version, v1::Version* out) {
  out->set_step(version.step);
  out->set_id(version.id);
}

// Errors: Aborted if the client wants another version than the one that is served.
absl::Status CheckVersion(bool wanted, const v1::Version& version, const TensorVersion& served) {
  if (!wanted || (version.id() == served.id && version.step() == served.step)) return absl::OkStatus();
  const TensorVersion other = {version.step(), version.id()};
  return absl::AbortedError(absl::StrCat("the server has ", served.ToString(), " now, and no longer ", other.ToString(),
                                         "; list its tensors again"));
}

void EncodeEntry(const ArchiveReader& archive, const ArchiveEntry& entry, v1::OfferedTensor* out) {
  out->set_name(entry.name);
  out->set_dtype(static_cast<DataType>(DTypeNumber(entry.dtype)));
  EncodeShape(entry.shape, out->mutable_shape());
  if (!archive.strides_only_permute()) out->mutable_strides()->Add(entry.strides.begin(), entry.strides.end());
  out->set_encoding(entry.encoding);
  out->set_stored_bytes(entry.stored_bytes);
  if (entry.decoded_bytes.has_value()) out->set_decoded_bytes(*entry.decoded_bytes);
  out->set_has_metadata(entry.has_metadata);
}

// One page: the readable tensors with the prefix, from number `start` among all with the prefix.
absl::Status MakePage(const TensorSnapshot& snapshot, const v1::ListRequest& request, v1::ListResponse* page) {
  CASK_RETURN_IF_ERROR(CheckVersion(request.has_version(), request.version(), snapshot.version));
  SetVersion(snapshot.version, page->mutable_version());
  const std::vector<ArchiveEntry>& entries = snapshot.tensors->entries();
  const auto first =
      std::lower_bound(entries.begin(), entries.end(), request.prefix(),
                       [](const ArchiveEntry& entry, const std::string& key) { return entry.name < key; });
  const auto left = static_cast<uint64_t>(entries.end() - first);
  if (request.start() > left) {
    return absl::OutOfRangeError(absl::StrCat("a page from tensor ", request.start(), "; there are ", left));
  }
  size_t bytes = 0;
  for (auto entry = first + static_cast<int64_t>(request.start()); entry != entries.end(); ++entry) {
    if (!absl::StartsWith(entry->name, request.prefix())) break;
    if (!entry->read_status.ok()) continue;
    if (bytes >= kPageBytes) {
      page->set_next(static_cast<uint64_t>(entry - first));
      break;
    }
    v1::OfferedTensor* const tensor = page->add_tensors();
    EncodeEntry(*snapshot.tensors, *entry, tensor);
    bytes += tensor->ByteSizeLong();
  }
  return absl::OkStatus();
}

absl::StatusOr<ItemRequest> DecodeItem(v1::PullItem item) {
  ItemRequest request;
  request.name = std::move(*item.mutable_name());
  if (item.has_slice()) {
    CASK_ASSIGN_OR_RETURN(request.slice, DecodeSlice(item.slice()));
  }
  request.as_message = item.as_message();
  request.offset = item.offset();
  return request;
}

struct ParsedPull {
  TensorSnapshot snapshot;
  std::vector<ItemRequest> items;
};

absl::StatusOr<ParsedPull> ParsePull(const grpc::ByteBuffer& bytes, TensorSource* source) {
  v1::PullRequest request;
  grpc::ByteBuffer buffer(bytes);  // which parsing empties
  if (!grpc::SerializationTraits<v1::PullRequest>::Deserialize(&buffer, &request).ok()) {
    return absl::InvalidArgumentError("the request is not a PullRequest");
  }
  ParsedPull pull;
  CASK_ASSIGN_OR_RETURN(pull.snapshot, source->Current());
  CASK_RETURN_IF_ERROR(CheckVersion(request.has_version(), request.version(), pull.snapshot.version));
  for (v1::PullItem& item : *request.mutable_items()) {
    CASK_ASSIGN_OR_RETURN(ItemRequest decoded, DecodeItem(std::move(item)));
    pull.items.push_back(std::move(decoded));
  }
  return pull;
}

bool IsLoopback(absl::string_view host) {
  return host == "localhost" || host == "[::1]" || host == "::1" || absl::StartsWith(host, "127.");
}

bool HasPort(absl::string_view address) {
  const size_t colon = address.rfind(':');
  uint32_t port = 0;
  return colon != absl::string_view::npos && colon > 0 && absl::SimpleAtoi(address.substr(colon + 1), &port) &&
         port <= UINT16_MAX;
}

// For a stream that is refused. Base is its reactor.
template <typename Base>
class RefusedStream final : public Base {
 public:
  explicit RefusedStream(const absl::Status& status) { this->Finish(rpc::ToGrpc(status)); }
  void OnDone() override { delete this; }
};

// A stream of any kind that a server has.
class OpenStream {
 public:
  virtual ~OpenStream() = default;
  // Whether it has waited for its client since before `limit`. Requires: the stream is registered, and the registry
  // locked. The same holds for the other two.
  virtual bool IsSlow(std::chrono::steady_clock::time_point now, absl::Duration limit) const = 0;
  virtual void End() = 0;                                  // it is slow
  virtual void Offer(const TensorVersion& /*version*/) {}  // there is a new version
  virtual bool EndForDrain() { return false; }             // true: the stream has been ended
};

// Since when a stream waits for its client.
class WaitClock {
 public:
  void Begin() { began_ns_ = std::max<int64_t>(1, std::chrono::steady_clock::now().time_since_epoch().count()); }
  void Stop() { began_ns_ = 0; }
  bool IsPast(std::chrono::steady_clock::time_point now, absl::Duration limit) const {
    const int64_t began = began_ns_;
    return began != 0 && now.time_since_epoch().count() - began > absl::ToInt64Nanoseconds(limit);
  }

 private:
  std::atomic<int64_t> began_ns_{0};  // 0: it does not wait
};

}  // namespace

class TensorServer::Impl final
    : public v1::TensorExchange::WithCallbackMethod_List<
          v1::TensorExchange::WithRawCallbackMethod_Pull<v1::TensorExchange::WithCallbackMethod_Watch<
              v1::TensorExchange::WithRawCallbackMethod_Push<v1::TensorExchange::Service>>>> {
 public:
  Impl(TensorSource* source, TensorServerOptions options)
      : source_(source),
        options_(std::move(options)),
        memory_("max_memory_bytes", static_cast<int64_t>(std::min<uint64_t>(options_.max_memory_bytes, INT64_MAX))) {}
  ~Impl() override;

  absl::Status Start();
  void Drain(Deadline deadline);

  grpc::ServerUnaryReactor* List(grpc::CallbackServerContext* context, const v1::ListRequest* request,
                                 v1::ListResponse* response) override;
  grpc::ServerWriteReactor<grpc::ByteBuffer>* Pull(grpc::CallbackServerContext* context,
                                                   const grpc::ByteBuffer* request) override;
  grpc::ServerWriteReactor<v1::Version>* Watch(grpc::CallbackServerContext* context,
                                               const v1::WatchRequest* request) override;
  grpc::ServerReadReactor<grpc::ByteBuffer>* Push(grpc::CallbackServerContext* context,
                                                  grpc::ByteBuffer* response) override;

 private:
  friend class TensorServer;
  class PullStream;
  class PushStream;
  class WatchStream;

  absl::Status Accept(OpenStream* stream);  // OK: the stream is one of streams_
  void Remove(OpenStream* stream);
  void EndSlowStreams();
  void FollowSource();
  absl::Status CheckAccepting() const {
    return draining_ ? absl::UnavailableError("the server is draining") : absl::OkStatus();
  }

  TensorSource* const source_;
  const TensorServerOptions options_;
  DecodeQuota memory_;
  std::string address_;
  int port_ = 0;
  std::atomic<bool> draining_{false};
  std::atomic<uint64_t> sent_bytes_{0};

  // Recursive: ending a stream may run its OnDone at once, in the same thread.
  mutable std::recursive_mutex mutex_;
  std::condition_variable_any changed_;
  std::set<OpenStream*> streams_;
  uint64_t total_streams_ = 0;
  uint64_t refused_streams_ = 0;
  uint64_t slow_streams_ = 0;
  uint64_t pushes_ = 0;
  bool ends_ = false;

  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<rpc::WorkQueue> files_;
  std::thread watch_;   // ends slow streams
  std::thread follow_;  // tells watches of new versions; from the first watch on
};

// One Pull. Its steps follow one another: a piece is made, written, and when gRPC has taken it, the next one is made.
// Only the last step calls Finish.
class TensorServer::Impl::PullStream final : public grpc::ServerWriteReactor<grpc::ByteBuffer>, public OpenStream {
 public:
  PullStream(Impl* server, grpc::CallbackServerContext* context, ParsedPull pull)
      : server_(server), context_(context), pull_(std::move(pull)) {}

  void Advance() {
    if (pull_.snapshot.in_memory) {
      MakePiece();
    } else {
      server_->files_->Add([this] { MakePiece(); });
    }
  }

  void OnWriteDone(bool ok) override {
    clock_.Stop();
    if (!ok) {
      Finish(grpc::Status(grpc::StatusCode::CANCELLED, "the client has gone"));
      return;
    }
    server_->sent_bytes_ += piece_bytes_;
    Advance();
  }

  void OnDone() override {
    server_->Remove(this);
    delete this;
  }

  bool IsSlow(std::chrono::steady_clock::time_point now, absl::Duration limit) const override {
    return clock_.IsPast(now, limit);
  }
  void End() override { context_->TryCancel(); }

 private:
  void MakePiece() {
    const absl::StatusOr<bool> made = NextPiece();
    if (!made.ok() || !*made) {
      bytes_ = nullptr;
      Finish(rpc::ToGrpc(made.status()));
      return;
    }
    clock_.Begin();
    StartWrite(&buffer_);
  }

  // Fills buffer_; false at the end of all items.
  absl::StatusOr<bool> NextPiece() {
    while (true) {
      if (bytes_ == nullptr) {
        if (item_ == pull_.items.size()) return false;
        CASK_ASSIGN_OR_RETURN(bytes_, rpc::OpenItem(pull_.snapshot, pull_.items[item_], &server_->memory_));
        offset_ = pull_.items[item_].offset;
      }
      buffer_.Clear();  // the memory of the piece before may be used again
      CASK_ASSIGN_OR_RETURN(ItemBytes::Piece piece, bytes_->Next());
      if (!piece.bytes.empty()) {
        FillBuffer(std::move(piece));
        return true;
      }
      bytes_ = nullptr;
      ++item_;
    }
  }

  void FillBuffer(ItemBytes::Piece piece) {
    rpc::PieceHeader header;
    header.item = static_cast<uint32_t>(item_);
    header.offset = offset_;
    header.version_id = pull_.snapshot.version.id;
    if (pull_.items[item_].as_message) header.message_bytes = bytes_->total_bytes();
    piece_bytes_ = piece.bytes.size();
    grpc::ByteBuffer filled = rpc::MakePieceBuffer(header, std::move(piece));
    buffer_.Swap(&filled);
    offset_ += piece_bytes_;
  }

  Impl* const server_;
  grpc::CallbackServerContext* const context_;
  const ParsedPull pull_;
  size_t item_ = 0;
  std::unique_ptr<ItemBytes> bytes_;  // of the item; null: it is not open yet
  uint64_t offset_ = 0;               // of the next piece
  uint64_t piece_bytes_ = 0;
  grpc::ByteBuffer buffer_;
  WaitClock clock_;
};

// One Watch. It writes the newest version that it knows whenever the client has taken the one before.
class TensorServer::Impl::WatchStream final : public grpc::ServerWriteReactor<v1::Version>, public OpenStream {
 public:
  WatchStream(Impl* server, const TensorVersion& known) : server_(server), written_(known), newest_(known) {}

  void Offer(const TensorVersion& version) override {
    Step([&] { newest_ = version; });
  }
  bool EndForDrain() override {
    Step([&] { SetEnd(absl::UnavailableError("the server is draining")); });
    return true;
  }
  bool IsSlow(std::chrono::steady_clock::time_point now, absl::Duration limit) const override {
    return clock_.IsPast(now, limit);
  }
  void End() override {
    Step([&] { SetEnd(absl::DeadlineExceededError("the client takes nothing")); });
  }

  void OnWriteDone(bool ok) override {
    clock_.Stop();
    Step([&] {
      writing_ = false;
      if (!ok) SetEnd(absl::CancelledError("the client has gone"));
    });
  }
  void OnCancel() override {
    Step([&] { SetEnd(absl::CancelledError("the client has gone")); });
  }
  void OnDone() override {
    server_->Remove(this);
    delete this;
  }

 private:
  void SetEnd(const absl::Status& status) {
    if (!ends_) status_ = status;
    ends_ = true;
  }

  // Changes the state, and does what follows from it: writes or finishes, once and outside the lock.
  template <typename Change>
  void Step(const Change& change) {
    bool writes = false;
    bool finishes = false;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      change();
      if (!writing_ && ends_ && !finished_) finishes = finished_ = true;
      if (!writing_ && !ends_ && newest_ != written_) writes = writing_ = true;
      if (writes) {
        written_ = newest_;
        SetVersion(written_, &message_);
      }
    }
    if (finishes) {
      Finish(rpc::ToGrpc(status_));
    } else if (writes) {
      clock_.Begin();
      StartWrite(&message_);
    }
  }

  Impl* const server_;
  std::mutex mutex_;
  TensorVersion written_;
  TensorVersion newest_;
  bool writing_ = false;
  bool ends_ = false;
  bool finished_ = false;
  absl::Status status_;
  v1::Version message_;
  WaitClock clock_;
};

// One Push: the header, then the tensors that it announces, into memory of their own.
class TensorServer::Impl::PushStream final : public grpc::ServerReadReactor<grpc::ByteBuffer>, public OpenStream {
 public:
  PushStream(Impl* server, grpc::CallbackServerContext* context, grpc::ByteBuffer* response)
      : server_(server), context_(context), response_(response) {}

  void Read() {
    clock_.Begin();
    StartRead(&message_);
  }
  void OnReadDone(bool ok) override {
    clock_.Stop();
    if (!ok) {
      Finish(rpc::ToGrpc(context_->IsCancelled() ? absl::CancelledError("the client has gone") : Complete()));
      return;
    }
    const absl::Status status = Receive();
    message_.Clear();
    if (!status.ok()) {
      Finish(rpc::ToGrpc(status));
      return;
    }
    Read();
  }
  void OnDone() override {
    server_->Remove(this);
    delete this;
  }

  bool IsSlow(std::chrono::steady_clock::time_point now, absl::Duration limit) const override {
    return clock_.IsPast(now, limit);
  }
  void End() override { context_->TryCancel(); }

 private:
  absl::Status Receive() {
    std::vector<grpc::Slice> slices;
    std::vector<absl::string_view> parts;
    if (!message_.Dump(&slices).ok()) return absl::DataLossError("a message without bytes");
    for (const grpc::Slice& slice : slices) {
      parts.emplace_back(reinterpret_cast<const char*>(slice.begin()), slice.size());
    }
    if (receiver_ == nullptr) {  // the first message
      uint64_t total = 0;
      std::string begin;
      for (const absl::string_view part : parts) {
        total += part.size();
        absl::StrAppend(&begin, part.substr(0, rpc::kMaxPieceHeaderBytes - begin.size()));
      }
      CASK_ASSIGN_OR_RETURN(const rpc::ParsedPiece first, rpc::ParsePieceHeader(begin, total));
      version_id_ = first.header.version_id;
      targets_.push_back({"the header", std::nullopt, nullptr, &header_});
      receiver_ = std::make_unique<rpc::PieceReceiver>("push", version_id_, Limits(), targets_);
    }
    CASK_RETURN_IF_ERROR(receiver_->Receive(parts));
    return has_header_ || !receiver_->is_complete() ? absl::OkStatus() : ReadHeader();
  }

  // Makes memory for the tensors.
  absl::Status ReadHeader() {
    v1::PushHeader header;
    if (!header.ParseFromString(header_)) return absl::InvalidArgumentError("the header is not a PushHeader");
    has_header_ = true;
    step_ = header.step();
    if (header.tensors_size() > Limits().max_entries) {
      return PastLimit(absl::StrCat("has ", header.tensors_size(), " tensors"), "max_entries", Limits().max_entries);
    }
    DecodeQuota quota = DecodeQuota::ForFile(Limits());
    for (v1::PushedTensor& tensor : *header.mutable_tensors()) {
      CASK_ANNOTATE_IF_ERROR(Add(&tensor, &quota), absl::StrCat("tensor ", Quoted(tensor.name())));
    }
    targets_.clear();
    for (PushedTensor& tensor : tensors_) {
      targets_.push_back({tensor.name, std::nullopt, tensor.as_message ? nullptr : &tensor.view,
                          tensor.as_message ? &tensor.message : nullptr});
    }
    // Item 0 was the header.
    receiver_ = std::make_unique<rpc::PieceReceiver>("push", version_id_, Limits(), targets_, /*first_item=*/1);
    return absl::OkStatus();
  }

  absl::Status Add(v1::PushedTensor* tensor, DecodeQuota* quota) {
    const std::optional<DType> dtype = DTypeFromNumber(tensor->dtype());
    if (!dtype.has_value() || *dtype == DType::kInvalid) {
      return absl::InvalidArgumentError(absl::StrCat("no dtype has the number ", static_cast<int>(tensor->dtype())));
    }
    if (static_cast<int64_t>(tensor->name().size()) > Limits().max_name_bytes) {
      return PastLimit(absl::StrCat("has a name of ", tensor->name().size(), " bytes"), "max_name_bytes",
                       Limits().max_name_bytes);
    }
    if (tensor->as_message() == IsFixedSize(*dtype)) {
      return absl::InvalidArgumentError("only elements without a fixed size come as a message");
    }
    CASK_ASSIGN_OR_RETURN(const TensorShape shape, DecodeShape(tensor->shape()));
    PushedTensor& pushed = tensors_.emplace_back();
    pushed.name = std::move(*tensor->mutable_name());
    pushed.as_message = tensor->as_message();
    pushed.dtype = *dtype;
    pushed.shape = shape;
    if (pushed.as_message) return absl::OkStatus();
    const std::optional<uint64_t> bytes =
        CheckedMul<uint64_t>(static_cast<uint64_t>(shape.num_elements()), ElementSize(*dtype));
    CASK_RETURN_IF_ERROR(quota->Charge(bytes.value_or(DecodeQuota::kTooMany)));
    CASK_ASSIGN_OR_RETURN(pushed.view, Tensor::Create(*dtype, shape));
    return absl::OkStatus();
  }

  // All has arrived, or the client stopped early.
  absl::Status Complete() {
    if (!has_header_) return absl::DataLossError("the push ended before its header");
    CASK_RETURN_IF_ERROR(receiver_->CheckComplete());
    DecodeOptions decode;
    decode.limits = Limits();
    std::vector<NamedView> views;
    for (PushedTensor& tensor : tensors_) {
      if (tensor.as_message) {
        CASK_ASSIGN_OR_ANNOTATE(tensor.view, DecodeSerializedTensor(tensor.message, decode),
                                absl::StrCat("tensor ", Quoted(tensor.name)));
        if (tensor.view.dtype() != tensor.dtype || tensor.view.shape() != tensor.shape) {
          return absl::DataLossError(absl::StrCat("tensor ", Quoted(tensor.name), ": is not what the header says"));
        }
      }
      views.push_back({tensor.name, std::move(tensor.view)});
    }
    CASK_ASSIGN_OR_RETURN(const TensorVersion version, server_->source_->Replace(step_, std::move(views)));
    {
      const std::lock_guard<std::recursive_mutex> lock(server_->mutex_);
      ++server_->pushes_;
    }
    v1::PushResponse response;
    SetVersion(version, response.mutable_version());
    bool own_buffer = false;
    grpc::SerializationTraits<v1::PushResponse>::Serialize(response, response_, &own_buffer);
    return absl::OkStatus();
  }

  struct PushedTensor {
    std::string name;
    bool as_message = false;
    DType dtype = DType::kInvalid;
    TensorShape shape;
    TensorView view;      // elements of a fixed size
    std::string message;  // others
  };

  const DecodeLimits& Limits() const { return server_->options_.push_limits; }

  Impl* const server_;
  grpc::CallbackServerContext* const context_;
  grpc::ByteBuffer* const response_;
  grpc::ByteBuffer message_;
  uint64_t version_id_ = 0;
  std::string header_;
  bool has_header_ = false;
  int64_t step_ = 0;
  std::deque<PushedTensor> tensors_;  // whose addresses stay
  std::vector<rpc::PullTarget> targets_;
  std::unique_ptr<rpc::PieceReceiver> receiver_;
  WaitClock clock_;
};

absl::Status TensorServer::Impl::Start() {
  if (!HasPort(options_.address)) {
    return absl::InvalidArgumentError(
        absl::StrCat(Quoted(options_.address), " is no address to listen at; wanted HOST:PORT, such as 127.0.0.1:0"));
  }
  const std::string host = options_.address.substr(0, options_.address.rfind(':'));
  if (options_.credentials == nullptr && !options_.insecure && !IsLoopback(host)) {
    return absl::InvalidArgumentError(
        absl::StrCat(options_.address,
                     " is an address of other hosts, and there are no credentials: every host that reaches it could "
                     "read all tensors. Give credentials, listen at 127.0.0.1, or allow it (insecure)"));
  }
  static std::once_flag once;
  std::call_once(once, [] {
    grpc::EnableDefaultHealthCheckService(true);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  });
  grpc::ServerBuilder builder;
  builder.AddListeningPort(options_.address,
                           options_.credentials != nullptr ? options_.credentials : grpc::InsecureServerCredentials(),
                           &port_);
  builder.RegisterService(this);
  builder.SetMaxReceiveMessageSize(kMaxRequestBytes);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);  // else a second server gets half of the clients
  server_ = builder.BuildAndStart();
  if (server_ == nullptr || port_ == 0) {
    return absl::UnavailableError(absl::StrCat("cannot listen at ", options_.address, ": is the port in use?"));
  }
  address_ = absl::StrCat(host, ":", port_);
  files_ = std::make_unique<rpc::WorkQueue>(kFileThreads);
  watch_ = std::thread([this] { EndSlowStreams(); });
  return absl::OkStatus();
}

TensorServer::Impl::~Impl() {
  if (server_ == nullptr) return;
  Drain(absl::ZeroDuration());
  server_->Wait();
  {
    const std::lock_guard<std::recursive_mutex> lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  if (watch_.joinable()) watch_.join();
  if (follow_.joinable()) follow_.join();
  server_ = nullptr;
  files_ = nullptr;
}

void TensorServer::Impl::Drain(Deadline deadline) {
  {
    std::unique_lock<std::recursive_mutex> lock(mutex_);
    draining_ = true;
    for (OpenStream* const stream : std::vector<OpenStream*>(streams_.begin(), streams_.end())) {
      if (streams_.count(stream) != 0) stream->EndForDrain();
    }
    while (!streams_.empty()) {
      const absl::Duration left = deadline.remaining();
      if (left <= absl::ZeroDuration()) break;
      changed_.wait_for(lock, absl::ToChronoNanoseconds(std::min(left, absl::Hours(1))));
    }
  }
  server_->Shutdown(std::chrono::system_clock::now());  // cuts what is left
}

void TensorServer::Impl::EndSlowStreams() {
  const auto tick =
      absl::ToChronoNanoseconds(std::max(absl::Milliseconds(1), std::min(absl::Seconds(1), options_.slow_client / 4)));
  std::unique_lock<std::recursive_mutex> lock(mutex_);
  while (!ends_) {
    changed_.wait_for(lock, tick);
    const auto now = std::chrono::steady_clock::now();
    std::vector<OpenStream*> slow;
    for (OpenStream* const stream : streams_) {
      if (stream->IsSlow(now, options_.slow_client)) slow.push_back(stream);
    }
    for (OpenStream* const stream : slow) {
      if (streams_.count(stream) == 0) continue;
      ++slow_streams_;
      stream->End();
    }
  }
}

absl::Status TensorServer::Impl::Accept(OpenStream* stream) {
  const std::lock_guard<std::recursive_mutex> lock(mutex_);
  absl::Status status = CheckAccepting();
  if (status.ok() && streams_.size() >= static_cast<size_t>(std::max(options_.max_streams, 0))) {
    status =
        PastLimit(absl::StrCat("the server has ", streams_.size(), " streams"), "max_streams", options_.max_streams);
  }
  if (!status.ok()) {
    ++refused_streams_;
    return status;
  }
  ++total_streams_;
  streams_.insert(stream);
  return absl::OkStatus();
}

void TensorServer::Impl::Remove(OpenStream* stream) {
  const std::lock_guard<std::recursive_mutex> lock(mutex_);
  streams_.erase(stream);
  changed_.notify_all();
}

grpc::ServerUnaryReactor* TensorServer::Impl::List(grpc::CallbackServerContext* context, const v1::ListRequest* request,
                                                   v1::ListResponse* response) {
  const absl::Status status = [&]() -> absl::Status {
    CASK_RETURN_IF_ERROR(CheckAccepting());
    CASK_ASSIGN_OR_RETURN(const TensorSnapshot snapshot, source_->Current());
    return MakePage(snapshot, *request, response);
  }();
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  reactor->Finish(rpc::ToGrpc(status));
  return reactor;
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* TensorServer::Impl::Pull(grpc::CallbackServerContext* context,
                                                                     const grpc::ByteBuffer* request) {
  absl::StatusOr<ParsedPull> pull = ParsePull(*request, source_);
  if (!pull.ok()) return new RefusedStream<grpc::ServerWriteReactor<grpc::ByteBuffer>>(pull.status());
  auto stream = std::make_unique<PullStream>(this, context, *std::move(pull));
  const absl::Status accepted = Accept(stream.get());
  if (!accepted.ok()) return new RefusedStream<grpc::ServerWriteReactor<grpc::ByteBuffer>>(accepted);
  stream->Advance();
  return stream.release();  // OnDone deletes it
}

grpc::ServerWriteReactor<v1::Version>* TensorServer::Impl::Watch(grpc::CallbackServerContext* /*context*/,
                                                                 const v1::WatchRequest* request) {
  const TensorVersion known = {request->version().step(), request->version().id()};
  auto stream = std::make_unique<WatchStream>(this, known);
  const absl::Status accepted = Accept(stream.get());
  if (!accepted.ok()) return new RefusedStream<grpc::ServerWriteReactor<v1::Version>>(accepted);
  {
    const std::lock_guard<std::recursive_mutex> lock(mutex_);
    if (!follow_.joinable()) follow_ = std::thread([this] { FollowSource(); });
  }
  const absl::StatusOr<TensorSnapshot> current = source_->Current();
  if (current.ok()) stream->Offer(current->version);
  return stream.release();  // OnDone deletes it
}

// Offers each version to all watches. A watch that was accepted meanwhile has offered the newest to itself.
void TensorServer::Impl::FollowSource() {
  constexpr absl::Duration kTick = absl::Milliseconds(200);
  TensorVersion known;
  while (true) {
    const absl::StatusOr<TensorSnapshot> newer = source_->WaitForNewer(known, kTick);
    if (!newer.ok() && !absl::IsDeadlineExceeded(newer.status())) absl::SleepFor(kTick);
    const std::lock_guard<std::recursive_mutex> lock(mutex_);
    if (ends_) return;
    if (!newer.ok()) continue;
    known = newer->version;
    for (OpenStream* const stream : std::vector<OpenStream*>(streams_.begin(), streams_.end())) {
      if (streams_.count(stream) != 0) stream->Offer(known);
    }
  }
}

grpc::ServerReadReactor<grpc::ByteBuffer>* TensorServer::Impl::Push(grpc::CallbackServerContext* context,
                                                                    grpc::ByteBuffer* response) {
  auto stream = std::make_unique<PushStream>(this, context, response);
  const absl::Status accepted =
      options_.accept_pushes ? Accept(stream.get()) : absl::PermissionDeniedError("the server accepts no pushes");
  if (!accepted.ok()) return new RefusedStream<grpc::ServerReadReactor<grpc::ByteBuffer>>(accepted);
  stream->Read();
  return stream.release();  // OnDone deletes it
}

// ---------------------------------------------------------------------------------------------------------------------

TensorServer::TensorServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TensorServer::~TensorServer() = default;

absl::StatusOr<std::unique_ptr<TensorServer>> TensorServer::Start(TensorSource* source, TensorServerOptions options) {
  auto impl = std::make_unique<Impl>(source, std::move(options));
  CASK_RETURN_IF_ERROR(impl->Start());
  return std::unique_ptr<TensorServer>(new TensorServer(std::move(impl)));
}

int TensorServer::port() const { return impl_->port_; }
const std::string& TensorServer::address() const { return impl_->address_; }
void TensorServer::Drain(Deadline deadline) { impl_->Drain(deadline); }

TensorServerStats TensorServer::stats() const {
  const std::lock_guard<std::recursive_mutex> lock(impl_->mutex_);
  TensorServerStats stats;
  stats.num_streams = static_cast<int>(impl_->streams_.size());
  stats.total_streams = impl_->total_streams_;
  stats.refused_streams = impl_->refused_streams_;
  stats.slow_streams = impl_->slow_streams_;
  stats.sent_bytes = impl_->sent_bytes_;
  stats.pushes = impl_->pushes_;
  return stats;
}

}  // namespace tensorcask
