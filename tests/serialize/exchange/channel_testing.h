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
#include "tensorcask/serialize/exchange/internal/frame.h"
#include "tensorcask/serialize/exchange/message_codec.h"
#include "tensorcask/serialize/exchange/shared_memory.h"
#include "tensorcask/serialize/exchange/unix_socket.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/base/scoped_descriptor.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/metadata.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"

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

// Two channels that talk to each other.
struct Pair {
  Channel a;
  Channel b;
};

inline Pair MakePair(const ChannelOptions& options = {}) {
  Ends ends = MakeEnds();
  return {Channel::FromSocket(std::move(ends.ours), options), Channel::FromSocket(std::move(ends.theirs), options)};
}

// All blocks are memory files, however small.
inline const RefPtr<SharedMemoryAllocator>& Shared() {
  static const auto* const allocator = new RefPtr<SharedMemoryAllocator>(
      *SharedMemoryAllocator::Create({/*min_shared_bytes=*/0, /*max_total_bytes=*/0}));
  return *allocator;
}

// Numbers 1, 2, ... as float32 of this shape.
inline Tensor Counting(const TensorShape& shape, const RefPtr<Allocator>& allocator) {
  Tensor tensor = *Tensor::Create(DType::kFloat32, shape, allocator);
  float value = 0;
  for (float& x : tensor.mutable_flat<float>()) x = value += 1;
  return tensor;
}

// One tensor of each way to travel, with metadata.
inline Message Mixed() {
  Message message;
  message.topic = "batch";
  message.request = 7;
  TensorMetadata metadata;
  metadata.name = "w";
  message.tensors.push_back({*TensorView(Counting(TensorShape({3, 4}), Shared())).Transpose(0, 1), metadata});
  message.tensors.push_back({Counting(TensorShape({5}), CpuAllocator::Default()), metadata});
  message.tensors.push_back({Counting(TensorShape({2}), Shared()), {}});
  return message;
}

// The same but for the number of the request.
inline void ExpectSame(const Message& found, const Message& wanted) {
  EXPECT_EQ(found.topic, wanted.topic);
  ASSERT_EQ(found.tensors.size(), wanted.tensors.size());
  for (size_t i = 0; i < wanted.tensors.size(); ++i) {
    EXPECT_EQ(found.tensors[i].metadata, wanted.tensors[i].metadata);
    EXPECT_EQ(found.tensors[i].view.strides(), wanted.tensors[i].view.strides());
    EXPECT_EQ(SummarizeValue(found.tensors[i].view), SummarizeValue(wanted.tensors[i].view));
  }
}

struct Frame {
  exchange::FrameHeader header;
  std::string rest;  // body and inline data
  std::vector<ScopedDescriptor> descriptors;

  std::string bytes() const {
    const auto encoded = exchange::EncodeFrameHeader(header);
    return std::string(encoded.data(), encoded.size()) + rest;
  }
  std::vector<int> numbers() const {
    std::vector<int> numbers;
    for (const ScopedDescriptor& descriptor : descriptors) numbers.push_back(descriptor.get());
    return numbers;
  }
  // A frame whose body says something else.
  void SetBody(const std::string& body) {
    rest = body + rest.substr(header.body_bytes);
    header.body_bytes = body.size();
    header.body_crc32c = Crc32c(body);
  }
  std::string body() const { return rest.substr(0, header.body_bytes); }
};

inline Frame CatchFrame(UnixSocket* socket) {
  Frame frame;
  char header[exchange::kFrameHeaderBytes];
  EXPECT_TRUE(
      socket->ReceiveExactly(absl::MakeSpan(header), exchange::kMaxDescriptors, &frame.descriptors, kLong).ok());
  const auto decoded = exchange::DecodeFrameHeader({header, sizeof(header)});
  EXPECT_TRUE(decoded.ok()) << decoded.status();
  if (!decoded.ok()) return frame;
  frame.header = *decoded;
  frame.rest.resize(frame.header.body_bytes + frame.header.inline_bytes);
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
