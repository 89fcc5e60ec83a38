// Descriptors and shared memory that a peer sends: wrong files, too few, and memory that changes meanwhile.

#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/exchange/channel.h"
#include "tensorcask/serialize/exchange/internal/frame.h"
#include "tensorcask/serialize/exchange/shared_memory.h"
#include "tensorcask/serialize/exchange/unix_socket.h"
#include "tensorcask/tensor/base/scoped_descriptor.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/layout.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/serialize/exchange/channel_faults_testing.h"
#include "tensorcask/tests/serialize/exchange/channel_testing.h"
#include "tensorcask/tests/serialize/exchange/descriptor_count.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::Catch;
using ::tensorcask::testing::Caught;
using ::tensorcask::testing::Counting;
using ::tensorcask::testing::CountOpenDescriptors;
using ::tensorcask::testing::ExpectSame;
using ::tensorcask::testing::Frame;
using ::tensorcask::testing::kLong;
using ::tensorcask::testing::Mixed;
using ::tensorcask::testing::ReceiveOf;
using ::tensorcask::testing::Shared;
using ::tensorcask::testing::StatusIs;
using ::tensorcask::testing::Victim;
using ::tensorcask::testing::WithChecksum;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

// ---- Descriptors ----------------------------------------------------------------------------------------------------

// A message of one float32 [4] at byte `offset_bytes` of block 1.
Frame OneShared(uint64_t offset_bytes) {
  exchange::MessageBody body;
  exchange::TensorEntry entry;
  entry.block = 1;
  entry.dtype = DType::kFloat32;
  entry.shape = TensorShape({4});
  entry.offset_bytes = offset_bytes;
  entry.size_bytes = 16;
  body.tensors = {entry};
  Frame frame;
  frame.header.type = exchange::FrameType::kMessage;
  frame.header.sequence = 1;
  frame.header.num_descriptors = 1;
  frame.SetBody(exchange::EncodeBody(body));
  return frame;
}

ScopedDescriptor MemoryFile(int64_t bytes, int seals) {
  ScopedDescriptor file(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(ftruncate(file.get(), bytes), 0);
  if (bytes <= 4096) {
    EXPECT_EQ(fallocate(file.get(), 0, 0, bytes), 0);
  }
  EXPECT_EQ(fcntl(file.get(), F_ADD_SEALS, seals), 0);
  return file;
}

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;

struct DescriptorCase {
  const char* name;
  ScopedDescriptor (*make)();
  uint64_t offset_bytes;
  const char* says;  // all InvalidArgument
};

ScopedDescriptor PipeEnd() {
  int ends[2];
  EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
  close(ends[1]);
  return ScopedDescriptor(ends[0]);
}

const DescriptorCase kDescriptorCases[] = {
    {"Pipe", [] { return PipeEnd(); }, 0, "not a file in memory"},
    {"Directory", [] { return ScopedDescriptor(open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC)); }, 0,
     "not a file in memory"},
    {"Epoll", [] { return ScopedDescriptor(epoll_create1(EPOLL_CLOEXEC)); }, 0, "not a file in memory"},
    {"Zeros", [] { return ScopedDescriptor(open("/dev/zero", O_RDWR | O_CLOEXEC)); }, 0, "not a file in memory"},
    {"File", [] { return ScopedDescriptor(open("/proc/self/exe", O_RDONLY | O_CLOEXEC)); }, 0, "not a file in memory"},
    {"Socket", [] { return ScopedDescriptor(dup(testing::MakeEnds().ours.descriptor())); }, 0, "not a file in memory"},
    {"Unsealed", [] { return MemoryFile(4096, 0); }, 0, "block 1"},
    {"NotSealedAgainstShrinking", [] { return MemoryFile(4096, F_SEAL_GROW | F_SEAL_WRITE); }, 0, "block 1"},
    {"TooSmall", [] { return MemoryFile(12, kSeals); }, 0, "exceed"},
    {"EndsBefore", [] { return MemoryFile(4096, kSeals); }, 4084, "exceed"},
    {"FarBehind", [] { return MemoryFile(4096, kSeals); }, UINT64_MAX - 31, "exceed"},
    {"Wraps", [] { return MemoryFile(4096, kSeals); }, UINT64_MAX - 14, "16 bytes at"},
    {"NotAligned", [] { return MemoryFile(4096, kSeals); }, 2, "not a multiple of 4"},
    {"Holes", [] { return MemoryFile(int64_t{1} << 40, kSeals); }, 0, "block 1"},
};

// Descriptors that are not memory files are closed by helper processes, a moment later.
void ExpectDescriptorsSettleAt(int wanted) {
  for (int i = 0; i < 500 && CountOpenDescriptors() != wanted; ++i) absl::SleepFor(absl::Milliseconds(10));
  EXPECT_EQ(CountOpenDescriptors(), wanted);
}

class DescriptorFaults : public ::testing::TestWithParam<DescriptorCase> {};
TEST_P(DescriptorFaults, AreRefused) {
  const std::string hello = Catch({}).hello;
  const Frame frame = OneShared(GetParam().offset_bytes);
  const ScopedDescriptor descriptor = GetParam().make();
  ASSERT_TRUE(descriptor.is_open());
  const int before = CountOpenDescriptors();
  EXPECT_THAT(ReceiveOf(frame, {descriptor.get()}, hello),
              StatusIs(Code::kInvalidArgument, HasSubstr(GetParam().says)));
  ExpectDescriptorsSettleAt(before);
}
INSTANTIATE_TEST_SUITE_P(Rows, DescriptorFaults, ::testing::ValuesIn(kDescriptorCases),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(ChannelFaults, ASealedFileOfAnyMakerIsTaken) {
  const ScopedDescriptor file = MemoryFile(4096, kSeals);
  EXPECT_OK(ReceiveOf(OneShared(4080), {file.get()}, Catch({}).hello));
}

// SO-06.
TEST(ChannelFaults, DescriptorsThatAreNotAsSaidAreRefused) {
  const std::string hello = Catch({}).hello;
  const ScopedDescriptor file = MemoryFile(4096, kSeals);
  Frame frame = OneShared(0);
  const int before = CountOpenDescriptors();
  EXPECT_THAT(ReceiveOf(frame, {}, hello), StatusIs(Code::kInvalidArgument, HasSubstr("0 descriptors")));
  for (const size_t count : {2, 253}) {
    EXPECT_THAT(ReceiveOf(frame, std::vector<int>(count, file.get()), hello),
                StatusIs(Code::kInvalidArgument, HasSubstr("descriptors; its header says 1")));
  }
  frame.header.num_descriptors = 2;  // no tensor uses the second
  EXPECT_THAT(ReceiveOf(frame, {file.get(), file.get()}, hello),
              StatusIs(Code::kInvalidArgument, HasSubstr("block 2 belongs to no tensor")));
  {  // beside the body instead of the header
    frame.header.num_descriptors = 0;
    const std::string bytes = frame.bytes();
    Victim victim;
    victim.Play(hello);
    victim.Play(bytes.substr(0, exchange::kFrameHeaderBytes));
    victim.Play(bytes.substr(exchange::kFrameHeaderBytes), {file.get()});
    EXPECT_THAT(victim.channel.Receive(kLong),
                StatusIs(Code::kInvalidArgument, HasSubstr("1 descriptors; its header says 0")));
  }
  EXPECT_EQ(CountOpenDescriptors(), before);
}

TEST(ChannelFaults, WithoutRoomForDescriptorsItSaysSo) {
  const Caught caught = Catch(Mixed());
  Victim victim;
  victim.Play(caught.hello);
  victim.Play(caught.message.bytes(), caught.message.numbers());
  rlimit limit;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const ScopedDescriptor highest(fcntl(victim.peer.descriptor(), F_DUPFD_CLOEXEC, 0));  // no number below it is free
  rlimit none = limit;
  none.rlim_cur = static_cast<rlim_t>(highest.get()) + 1;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const absl::Status status = victim.channel.Receive(kLong).status();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_THAT(status, StatusIs(Code::kResourceExhausted, HasSubstr("room for 0 of them only")));
}

// ---- Shared memory that does not keep still -------------------------------------------------------------------------

TEST(ChannelFaults, BoolsAreCheckedWhereverTheyLie) {
  for (const bool sealed : {false, true}) {
    const Tensor bytes = *Tensor::Zeros(DType::kUint8, TensorShape({10}), Shared());
    Tensor bad = bytes;
    bad.mutable_flat<uint8_t>()[7] = 2;
    const absl::StatusOr<TensorView> bools =
        TensorView::Create(bad.buffer(), DType::kBool, Layout::RowMajor(TensorShape({10})));
    ASSERT_OK(bools);
    if (sealed && !Shared()->SealAgainstWriting(*bad.buffer()).ok()) GTEST_SKIP() << "no seals against writing";
    Message message;
    message.tensors = {{*bools, {}}};
    const Caught caught = Catch(message);
    EXPECT_THAT(ReceiveOf(caught.message, caught.message.numbers(), caught.hello),
                StatusIs(Code::kInvalidArgument, HasSubstr("tensor 0: byte 7 is 2; a bool is 0 or 1")));
    // What lies between the elements may be anything.
    message.tensors = {{*bools->Slice(0, 0, std::nullopt, 2), {}}};
    const Caught even = Catch(message);
    EXPECT_OK(ReceiveOf(even.message, even.message.numbers(), even.hello));
  }
}

TEST(ChannelFaults, AWrongChecksumIsFound) {
  Message message;
  Tensor tensor = Counting(TensorShape({10}), Shared());
  float* const first = tensor.mutable_flat<float>().data();
  message.tensors = {{tensor, {}}};
  const Caught caught = Catch(message, WithChecksum());
  *first = -1;  // a sender that does not keep its word
  EXPECT_THAT(ReceiveOf(caught.message, caught.message.numbers(), caught.hello),
              StatusIs(Code::kDataLoss, HasSubstr("crc32c")));
}

// SO-10: what was checked is what is used.
TEST(ChannelFaults, AChangeAfterTheCheckChangesNothing) {
  constexpr int64_t kSize = 1000;
  Tensor bools = *Tensor::Zeros(DType::kBool, TensorShape({kSize}), Shared());
  volatile uint8_t* const last = reinterpret_cast<uint8_t*>(bools.mutable_flat<bool>().data()) + kSize - 1;
  Message message;
  message.tensors = {{bools, {}}};
  const Caught caught = Catch(message);
  // Another process' view of the same memory, which this one's sanitizers do not follow.
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    while (true) *last = static_cast<uint8_t>(*last ^ 2);
  }
  int taken = 0;
  int refused = 0;
  for (int i = 0; i < 5000 && (taken == 0 || refused == 0 || i < 500); ++i) {
    const absl::StatusOr<Message> same = ReceiveOf(caught.message, caught.message.numbers(), caught.hello);
    if (!same.ok()) {
      EXPECT_THAT(same, StatusIs(Code::kInvalidArgument, HasSubstr("a bool is 0 or 1")));
      ++refused;
      continue;
    }
    ++taken;
    const absl::string_view bytes = same->tensors.at(0).view.bytes();
    for (int look = 0; look < 100; ++look) ASSERT_EQ(static_cast<const volatile char&>(bytes.back()), 0);
  }
  kill(child, SIGKILL);
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_GT(taken, 0);
  EXPECT_GT(refused, 0);
}

TEST(ChannelFaults, WhatWasReceivedOutlivesItsSender) {
  absl::StatusOr<Message> message = absl::UnknownError("");
  {
    const Caught caught = Catch(Mixed());
    message = ReceiveOf(caught.message, caught.message.numbers(), caught.hello);
  }
  ASSERT_OK(message);
  ExpectSame(*message, Mixed());
}

TEST(ChannelFaults, AnOffsetWithoutStridesIsRefused) {
  const ScopedDescriptor file = MemoryFile(4096, kSeals);
  exchange::MessageBody body;
  exchange::TensorEntry entry;
  entry.block = 1;
  entry.dtype = DType::kFloat32;
  entry.shape = TensorShape({4});
  entry.size_bytes = 16;
  const auto received = [&](const std::string& extension) {
    entry.extension = extension;
    body.tensors = {entry};
    Frame frame = OneShared(0);
    frame.SetBody(exchange::EncodeBody(body));
    return ReceiveOf(frame, {file.get()}, Catch({}).hello).status();
  };
  EXPECT_THAT(received("\x28\x03"), StatusIs(Code::kInvalidArgument, HasSubstr("storage_offset")));
  EXPECT_OK(received("\x20\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x28\x03")) << "stride -1, storage_offset 3";
}

}  // namespace
}  // namespace tensorcask
