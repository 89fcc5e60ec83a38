#include "tensorcask/serialize/exchange/transport.h"

#include <utility>

namespace tensorcask {
namespace {

class UnixTransport final : public Transport {
 public:
  explicit UnixTransport(UnixSocket socket) : socket_(std::move(socket)) {}

  size_t max_descriptors() const override { return UnixSocket::kMaxDescriptors; }
  const std::string& name() const override { return socket_.name(); }

  absl::Status SendAll(absl::Span<const absl::string_view> pieces, absl::Span<const int> descriptors,
                       Deadline deadline) override {
    return socket_.SendAll(pieces, descriptors, deadline);
  }
  absl::StatusOr<size_t> ReceiveSome(absl::Span<char> out, size_t max_descriptors,
                                     std::vector<ScopedDescriptor>* descriptors, Deadline deadline) override {
    return socket_.ReceiveSome(out, max_descriptors, descriptors, deadline);
  }
  void Shutdown() override { socket_.Shutdown(); }

 private:
  UnixSocket socket_;
};

}  // namespace

std::unique_ptr<Transport> MakeTransport(UnixSocket socket) {
  return std::make_unique<UnixTransport>(std::move(socket));
}

}  // namespace tensorcask
