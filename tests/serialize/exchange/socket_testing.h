// Sending, receiving and running out of descriptors, for the tests of sockets and listeners.

#ifndef TENSORCASK_TESTS_SERIALIZE_EXCHANGE_SOCKET_TESTING_H_
#define TENSORCASK_TESTS_SERIALIZE_EXCHANGE_SOCKET_TESTING_H_

#include <fcntl.h>
#include <sys/resource.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/exchange/deadline.h"
#include "tensorcask/serialize/exchange/unix_socket.h"
#include "tensorcask/tensor/base/scoped_descriptor.h"

namespace tensorcask::testing {

// Longer than anything here takes; a test that waits for it has failed.
inline constexpr absl::Duration kLong = absl::Seconds(30);
inline constexpr absl::Duration kShort = absl::Milliseconds(50);

inline absl::StatusOr<std::string> Receive(UnixSocket* socket, size_t size, Deadline deadline = kLong) {
  std::string text(size, '?');
  const absl::Status status = socket->ReceiveExactly(absl::MakeSpan(&text[0], size), deadline);
  if (!status.ok()) return status;
  return text;
}

inline absl::Status Send(UnixSocket* socket, absl::string_view text, absl::Span<const int> descriptors = {}) {
  return socket->SendAll({text}, descriptors, kLong);
}

// Lets the process have `more` descriptors than it has, and no further.
class DescriptorLimit {
 public:
  explicit DescriptorLimit(int more) {
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &before_), 0);
    // New ones take the lowest free number.
    const ScopedDescriptor next(fcntl(0, F_DUPFD_CLOEXEC, 0));
    const struct rlimit limit = {static_cast<rlim_t>(next.get() + more), before_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  }
  ~DescriptorLimit() { EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before_), 0); }

 private:
  struct rlimit before_;
};

}  // namespace tensorcask::testing

#endif  // TENSORCASK_TESTS_SERIALIZE_EXCHANGE_SOCKET_TESTING_H_
