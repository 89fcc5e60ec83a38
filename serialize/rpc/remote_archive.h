// The tensors of a server on another host (tensor_server.h, `tensorcask serve --listen`), as an archive.
//
//   CASK_ASSIGN_OR_RETURN(const auto remote, RemoteArchive::Open("grpc://10.0.0.7:50051", {}));
//   CASK_ASSIGN_OR_RETURN(const Tensor w, remote->Read("encoder/w"));
//
//   TensorView weights = ...;                                              // memory of the caller, any strides
//   CASK_RETURN_IF_ERROR(PullInto(remote.get(), {{"encoder/w", TensorSlice::Full(2), &weights}}, {}));
//
// An address is grpc://HOST:PORT, or grpcs://HOST:PORT for TLS; with /NAME appended, the archive has the tensors whose
// names begin with "NAME/", without this prefix. RemoteArchiveFormat lets OpenArchive (archive.h) open addresses.
//
// An archive is of one version of the server's tensors: the newest when it was opened or refreshed. Bytes arrive in
// pieces with a checksum each, which are copied straight to their place. If the connection breaks, a pull goes on where
// it stopped. Errors of all calls, besides those of ArchiveReader:
//   DataLoss            the server sent what it must not: a wrong checksum, other bytes than were asked for; the
//                       client does not ask again
//   Unavailable         the server cannot be reached, or went away max_attempts times; or it drains
//   DeadlineExceeded    PullOptions::timeout is over, or the server sent nothing for stall_timeout
//   Aborted             the server has another version by now: Refresh, or open the archive again. What a caller does
//                       with the tensors may also end with Aborted: IsNewVersionOfServer tells the two apart
//   Cancelled           PullOptions::keep_going ended the call
//   Unauthenticated, PermissionDenied   the credentials are missing or wrong
//   ResourceExhausted   a limit, of DecodeLimits or of the server
// After an error, the elements of what was pulled into are unspecified.

#ifndef TENSORCASK_SERIALIZE_RPC_REMOTE_ARCHIVE_H_
#define TENSORCASK_SERIALIZE_RPC_REMOTE_ARCHIVE_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/archive/archive_format.h"
#include "tensorcask/serialize/archive/archive_reader.h"
#include "tensorcask/serialize/exchange/deadline.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/serialize/io/listing_budget.h"
#include "tensorcask/serialize/rpc/remote_format.h"
#include "tensorcask/serialize/rpc/tensor_source.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/view.h"

namespace grpc {
class ChannelCredentials;
}  // namespace grpc

namespace tensorcask {

struct PullOptions {
  absl::Duration timeout = absl::InfiniteDuration();  // for the whole call
  absl::Duration stall_timeout = absl::Minutes(1);    // the longest time without a piece
  // How often a request is sent at most before a piece of the answer arrives.
  int max_attempts = 5;
  absl::Duration first_delay = absl::Milliseconds(100);  // before the second attempt; then twice as long each time
  // Asked for each piece, and about 20 times per second while a call waits, on the thread of the caller. false: the
  // call ends with Cancelled. Null: always true.
  std::function<bool()> keep_going = nullptr;
};

struct RemoteOptions {
  // Null: none for grpc://, and for grpcs:// those with which gRPC checks the server against the authorities of the
  // system. grpc::SslCredentials makes others.
  std::shared_ptr<grpc::ChannelCredentials> credentials = nullptr;
  DecodeLimits limits;
  PullOptions pull;                                  // for all reads, and for the list
  std::shared_ptr<ListingBudget> listing = nullptr;  // as ArchiveReaderOptions::listing
};

// Const methods are thread-safe.
class RemoteArchive final : public ArchiveReader {
 public:
  // Lists the tensors, and reads the metadata of the file that is served.
  // Errors: InvalidArgument for a text that is not an address; NotFound if it has a NAME, and no tensor is below that
  // name; those above.
  static absl::StatusOr<std::unique_ptr<RemoteArchive>> Open(const std::string& address, const RemoteOptions& options);
  ~RemoteArchive() override;

  const TensorVersion& version() const;
  // Lists the tensors of the newest version. Not while another thread uses the archive. Errors: those above; the
  // archive then stays unchanged.
  absl::Status Refresh();
  // Waits until the server has another version than the archive, and returns it: Refresh then lists its tensors. Goes
  // on waiting while the server is away. Errors: DeadlineExceeded; those above.
  absl::StatusOr<TensorVersion> WaitForNewer(Deadline deadline) const;

  absl::string_view format() const override { return "grpc"; }
  const std::string& path() const override;
  const std::vector<ArchiveEntry>& entries() const override;
  const FileMetadata& file_metadata() const override;
  std::vector<std::string> notes() const override;  // the server's: what it has beside the tensors and does not serve
  absl::StatusOr<Tensor> Read(absl::string_view name) const override;
  absl::Status ReadInto(absl::string_view name, TensorView* out) const override;
  absl::StatusOr<Tensor> ReadSlice(absl::string_view name, const TensorSlice& slice) const override;
  absl::Status ReadSliceInto(absl::string_view name, const TensorSlice& slice, TensorView* out) const override;
  absl::StatusOr<std::unique_ptr<TensorBlocks>> ReadBlocks(const ArchiveEntry& entry,
                                                           uint64_t block_bytes) const override;
  absl::StatusOr<DecodedTensor> ReadWithMetadata(absl::string_view name) const override;
  absl::StatusOr<TensorMetadata> Metadata(absl::string_view name) const override;

 private:
  friend absl::Status PullInto(const RemoteArchive* archive, absl::Span<const struct PullItem> items,
                               const PullOptions& options);
  class Impl;
  explicit RemoteArchive(std::unique_ptr<Impl> impl);

  const std::unique_ptr<Impl> impl_;
};

// A tensor or a part of it, and where its elements go.
struct PullItem {
  std::string name;
  std::optional<TensorSlice> slice;  // nullopt: the whole tensor
  TensorView* out = nullptr;  // has the dtype of the tensor and the shape of the slice; any strides, host or device
};

// Reads all items in one stream, in order.
// Errors, before anything is sent: NotFound; InvalidArgument for another dtype or shape, for elements without a fixed
// size and for a view in which two indices name one element; OutOfRange for a slice outside the tensor. Then those
// above.
absl::Status PullInto(const RemoteArchive* archive, absl::Span<const PullItem> items, const PullOptions& options);

// True for the Aborted of a server, also after Annotate (tensor/base/status_util.h).
bool IsNewVersionOfServer(const absl::Status& status);

// "grpc://HOST:PORT[/NAME]" in place of a path; with `tls`, "grpcs://...".
class RemoteArchiveFormat final : public RemoteFormat {
 public:
  explicit RemoteArchiveFormat(bool tls, RemoteOptions options = RemoteOptions());
  ~RemoteArchiveFormat() override;

  // Uses only the limits and the budget of the list of `options`. Errors: those of RemoteArchive::Open.
  absl::StatusOr<std::unique_ptr<ArchiveReader>> Open(const std::string& path,
                                                      const ArchiveReaderOptions& options) const override;

 private:
  const RemoteOptions options_;
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_RPC_REMOTE_ARCHIVE_H_
