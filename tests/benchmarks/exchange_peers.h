// The other ends of the exchange benchmarks, as processes of their own.
//
//   ChannelPeer peer(ChannelPeer::Answers::kEcho);
//   peer.Ask(message);           // there and back
//   SocketPeer bare(1024);
//   bare.RoundTrip();            // 1024 bytes there and back by read(2) and write(2)
//
// They are made by fork(2), before any thread is.

#ifndef TENSORCASK_TESTS_BENCHMARKS_EXCHANGE_PEERS_H_
#define TENSORCASK_TESTS_BENCHMARKS_EXCHANGE_PEERS_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "tensorcask/serialize/exchange/channel.h"
#include "tensorcask/serialize/exchange/message_codec.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"

namespace tensorcask::benchmarks {

// While it lives this thread has a processor of its own, and so has each Child made meanwhile, if there are two: else
// the system puts both ends on one or on two as it likes, which makes a difference of 3 x.
class OwnProcessors {
 public:
  OwnProcessors();
  ~OwnProcessors();
};

// Page faults of this process so far.
int64_t PageFaults();

// One float32 tensor of so many bytes, all written.
Message MessageOf(int64_t bytes, const RefPtr<Allocator>& allocator);

// A process that does one thing and ends, with its maker at the latest.
class Child {
 public:
  explicit Child(absl::FunctionRef<void()> run);
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child();  // waits

 private:
  pid_t process_;
};

class ChannelPeer {
 public:
  enum class Answers : uint8_t {
    kEcho,     // with the message, decoded and encoded again
    kReceipt,  // when it has released the message: with none of its tensors, `request` is its PageFaults()
  };
  explicit ChannelPeer(Answers answers, ChannelOptions options = {});
  ~ChannelPeer();

  Message Ask(const Message& message);

 private:
  std::unique_ptr<Channel> channel_;
  std::unique_ptr<Child> child_;
};

class SocketPeer {
 public:
  explicit SocketPeer(size_t bytes);
  ~SocketPeer();

  void RoundTrip();

 private:
  std::string bytes_;
  int socket_ = -1;
  std::unique_ptr<Child> child_;
};

}  // namespace tensorcask::benchmarks

#endif  // TENSORCASK_TESTS_BENCHMARKS_EXCHANGE_PEERS_H_
