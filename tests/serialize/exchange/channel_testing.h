// What a channel sends, caught as bytes, and bytes played to a channel: for peers that behave badly.

#ifndef TENSORCASK_TESTS_SERIALIZE_EXCHANGE_CHANNEL_TESTING_H_
#define TENSORCASK_TESTS_SERIALIZE_EXCHANGE_CHANNEL_TESTING_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/exchange/channel.h"
#include "tensorcask/serialize/exchange/frame.h"
#include "tensorcask/serialize/exchange/message_codec.h"
#include "tensorcask/serialize/exchange/scoped_descriptor.h"
#include "tensorcask/serialize/exchange/unix_socket.h"
#include "tensorcask/tensor/base/crc32c.h"

namespace tensorcask::testing {

// Longer than anything here takes; a test that waits for it has failed.
constexpr absl::Duration kLong = absl::Seconds(30);
constexpr absl::Duration kShort = absl::Milliseconds(20);

struct Ends {
  UnixSocket ours;
  UnixSocket theirs;
};

inline Ends MakeEnds() {
  auto pair = UnixSocket::Pair();
  EXPECT_TRUE(pair.ok()) << pair.status();
  return {std::move(pair->first), std::move(pair->second)};
}

struct Frame {
  exchange::FrameHead head;
  std::string rest;  // body and inline data
  std::vector<ScopedDescriptor> descriptors;

  std::string bytes() const {
    const auto encoded = exchange::EncodeFrameHead(head);
    return std::string(encoded.data(), encoded.size()) + rest;
  }
  std::vector<int> numbers() const {
    std::vector<int> numbers;
    for (const ScopedDescriptor& descriptor : descriptors) numbers.push_back(descriptor.get());
    return numbers;
  }
  // A frame whose body says something else.
  void SetBody(const std::string& body) {
    rest = body + rest.substr(head.body_bytes);
    head.body_bytes = body.size();
    head.body_crc32c = Crc32c(body);
  }
  std::string body() const { return rest.substr(0, head.body_bytes); }
};

inline Frame CatchFrame(UnixSocket* socket) {
  Frame frame;
  char head[exchange::kFrameHeadBytes];
  EXPECT_TRUE(socket->ReceiveExactly(absl::MakeSpan(head), exchange::kMaxDescriptors, &frame.descriptors, kLong).ok());
  const auto decoded = exchange::DecodeFrameHead({head, sizeof(head)});
  EXPECT_TRUE(decoded.ok()) << decoded.status();
  if (!decoded.ok()) return frame;
  frame.head = *decoded;
  frame.rest.resize(frame.head.body_bytes + frame.head.inline_bytes);
  EXPECT_TRUE(socket->ReceiveExactly(absl::MakeSpan(&frame.rest[0], frame.rest.size()), kLong).ok());
  return frame;
}

// The first message that a channel sends, and the hello before it.
struct Caught {
  std::string hello;
  Frame message;
};

inline Caught Catch(const Message& message, const ChannelOptions& options = {}) {
  Ends ends = MakeEnds();
  Channel channel = Channel::FromSocket(std::move(ends.ours), options);
  const absl::Status status = channel.Send(message, kLong);
  EXPECT_TRUE(status.ok()) << status;
  Caught caught;
  caught.hello = CatchFrame(&ends.theirs).bytes();
  caught.message = CatchFrame(&ends.theirs);
  return caught;
}

// A channel whose other side is in the test's hands.
struct Victim {
  UnixSocket peer;
  Channel channel;

  explicit Victim(const ChannelOptions& options = {}) : Victim(MakeEnds(), options) {}
  void Play(absl::string_view bytes, absl::Span<const int> descriptors = {}) {
    const absl::Status status = peer.SendAll({bytes}, descriptors, kLong);
    EXPECT_TRUE(status.ok()) << status;
  }

 private:
  Victim(Ends ends, const ChannelOptions& options)
      : peer(std::move(ends.theirs)), channel(Channel::FromSocket(std::move(ends.ours), options)) {}
};

}  // namespace tensorcask::testing

#endif  // TENSORCASK_TESTS_SERIALIZE_EXCHANGE_CHANNEL_TESTING_H_
