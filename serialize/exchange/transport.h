// Carries the frames of a channel: bytes in order, with a deadline on every wait, and descriptors beside the bytes if
// the transport can carry them.
//
//   Channel channel = Channel::FromTransport(MakeTransport(std::move(socket)));   // as Channel::FromSocket
//
// Errors are those of unix_socket.h. One thread may send while another receives; Shutdown may come from any thread.

#ifndef TENSORCASK_SERIALIZE_EXCHANGE_TRANSPORT_H_
#define TENSORCASK_SERIALIZE_EXCHANGE_TRANSPORT_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/exchange/deadline.h"
#include "tensorcask/serialize/exchange/unix_socket.h"
#include "tensorcask/tensor/base/scoped_descriptor.h"

namespace tensorcask {

class Transport {
 public:
  virtual ~Transport() = default;

  // Descriptors that one call of SendAll may carry; 0 between hosts: all tensors then travel in the frames.
  virtual size_t max_descriptors() const = 0;
  virtual const std::string& name() const = 0;  // names the peer, for messages

  virtual absl::Status SendAll(absl::Span<const absl::string_view> pieces, absl::Span<const int> descriptors,
                               Deadline deadline) = 0;
  // As UnixSocket::ReceiveSome, for memory files only. Further error: InvalidArgument for any other descriptor.
  virtual absl::StatusOr<size_t> ReceiveSome(absl::Span<char> out, size_t max_descriptors,
                                             std::vector<ScopedDescriptor>* descriptors, Deadline deadline) = 0;
  // As UnixSocket::WaitUntilReceived. A transport that cannot tell returns OK.
  virtual absl::Status WaitUntilReceived(Deadline deadline);
  virtual void Shutdown() = 0;
};

std::unique_ptr<Transport> MakeTransport(UnixSocket socket);

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_EXCHANGE_TRANSPORT_H_
