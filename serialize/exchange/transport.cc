#include "tensorcask/serialize/exchange/transport.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/exchange/internal/close_received.h"
#include "tensorcask/tensor/base/owner_process.h"

namespace tensorcask {
namespace {

class UnixTransport final : public Transport {
 public:
  explicit UnixTransport(UnixSocket socket) : socket_(std::move(socket)) {}
  // Ends the connection first, so that the peer can send no descriptor while the socket is closed. A child's copy after
  // fork(2) only closes its descriptor.
  ~UnixTransport() override {
    if (owner_.IsThisProcess()) socket_.Shutdown();
  }

  size_t max_descriptors() const override { return UnixSocket::kMaxDescriptors; }
  const std::string& name() const override { return socket_.name(); }

  absl::Status SendAll(absl::Span<const absl::string_view> pieces, absl::Span<const int> descriptors,
                       Deadline deadline) override {
    return socket_.SendAll(pieces, descriptors, deadline);
  }
  absl::StatusOr<size_t> ReceiveSome(absl::Span<char> out, size_t max_descriptors,
                                     std::vector<ScopedDescriptor>* descriptors, Deadline deadline) override {
    const size_t num_before = descriptors->size();
    absl::StatusOr<size_t> received = socket_.ReceiveSome(out, max_descriptors, descriptors, deadline);
    if (!received.ok() || descriptors->size() == num_before) return received;
    const auto first = descriptors->begin() + static_cast<ptrdiff_t>(num_before);
    if (std::all_of(first, descriptors->end(),
                    [](const ScopedDescriptor& one) { return exchange::IsMemoryFile(one.get()); })) {
      return received;
    }
    // Here, before any of them has an owner that closes it and waits.
    exchange::CloseReceived(descriptors);
    return absl::InvalidArgumentError(
        absl::StrCat(name(), ": sent a descriptor that is not a file in memory; a sealed memory file is wanted"));
  }
  absl::Status WaitUntilReceived(Deadline deadline) override { return socket_.WaitUntilReceived(deadline); }
  void Shutdown() override { socket_.Shutdown(); }

 private:
  UnixSocket socket_;
  const OwnerProcess owner_;
};

}  // namespace

absl::Status Transport::WaitUntilReceived(Deadline /*deadline*/) { return absl::OkStatus(); }

std::unique_ptr<Transport> MakeTransport(UnixSocket socket) {
  return std::make_unique<UnixTransport>(std::move(socket));
}

}  // namespace tensorcask
