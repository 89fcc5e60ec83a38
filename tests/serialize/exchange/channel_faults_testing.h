// Messages from a peer that is played by the test.

#ifndef TENSORCASK_TESTS_SERIALIZE_EXCHANGE_CHANNEL_FAULTS_TESTING_H_
#define TENSORCASK_TESTS_SERIALIZE_EXCHANGE_CHANNEL_FAULTS_TESTING_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/exchange/channel.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/serialize/exchange/channel_testing.h"

namespace tensorcask::testing {

inline const ChannelOptions& WithChecksum() {
  static const auto* const options = [] {
    auto* made = new ChannelOptions();
    made->checksum = true;
    return made;
  }();
  return *options;
}

// What a channel makes of `frame` after a hello.
inline absl::StatusOr<Message> ReceiveOf(const Frame& frame, const std::vector<int>& descriptors,
                                         const std::string& hello) {
  Victim victim;
  victim.Play(hello);
  victim.Play(frame.bytes(), descriptors);
  victim.peer.Shutdown();
  return victim.channel.Receive(kLong);
}

}  // namespace tensorcask::testing

#endif  // TENSORCASK_TESTS_SERIALIZE_EXCHANGE_CHANNEL_FAULTS_TESTING_H_
