#include "tensorcask/serialize/exchange/internal/frame_receiver.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/exchange/deadline.h"
#include "tensorcask/serialize/exchange/internal/frame.h"
#include "tensorcask/serialize/exchange/internal/received_frame.h"
#include "tensorcask/serialize/exchange/transport.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/base/scoped_descriptor.h"
#include "tensorcask/tests/serialize/exchange/descriptor_count.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask::exchange {
namespace {

using ::tensorcask::testing::CountOpenDescriptors;
using ::tensorcask::testing::StatusIs;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

// A descriptor that can be told from others by the size of its file.
ScopedDescriptor Numbered(int64_t number) {
  ScopedDescriptor file(memfd_create("test", MFD_CLOEXEC));
  EXPECT_EQ(ftruncate(file.get(), number), 0);
  return file;
}

int64_t NumberOf(const ScopedDescriptor& file) {
  struct stat about;
  EXPECT_EQ(fstat(file.get(), &about), 0);
  return about.st_size;
}

// What one call of the system gives, if there is room for it.
struct Chunk {
  std::string bytes;
  std::vector<int64_t> descriptors;  // numbers
  size_t descriptors_at = 0;         // with which of the bytes they come
};

class ScriptedTransport final : public Transport {
 public:
  explicit ScriptedTransport(std::deque<Chunk> chunks) : chunks_(std::move(chunks)) {}

  size_t max_descriptors() const override { return kMaxDescriptors; }
  const std::string& name() const override { return name_; }
  absl::Status SendAll(absl::Span<const absl::string_view>, absl::Span<const int>, Deadline) override {
    return absl::UnimplementedError("nothing is sent");
  }
  absl::StatusOr<size_t> ReceiveSome(absl::Span<char> out, size_t max_descriptors,
                                     std::vector<ScopedDescriptor>* descriptors, Deadline) override {
    if (chunks_.empty()) return 0;
    Chunk& chunk = chunks_.front();
    const size_t size = chunk.bytes.copy(out.data(), out.size());
    chunk.bytes.erase(0, size);
    if (chunk.descriptors_at >= size) {
      chunk.descriptors_at -= size;
    } else {
      if (chunk.descriptors.size() + descriptors->size() > max_descriptors) {
        return absl::InvalidArgumentError("more descriptors than wanted");
      }
      for (const int64_t number : chunk.descriptors) descriptors->push_back(Numbered(number));
      chunk.descriptors.clear();
    }
    if (chunk.bytes.empty()) chunks_.pop_front();
    return size;
  }
  void Shutdown() override {}

 private:
  const std::string name_ = "script";
  std::deque<Chunk> chunks_;
};

struct SentFrame {
  std::string body;
  std::string inline_data;
  std::vector<int64_t> descriptors;
};

std::string Bytes(const SentFrame& frame, uint64_t sequence) {
  FrameHeader header;
  header.type = sequence == 0 ? FrameType::kHello : FrameType::kMessage;
  header.sequence = sequence;
  header.body_bytes = frame.body.size();
  header.inline_bytes = frame.inline_data.size();
  header.num_descriptors = static_cast<uint32_t>(frame.descriptors.size());
  header.body_crc32c = Crc32c(frame.body);
  const auto bytes = EncodeFrameHeader(header);
  return std::string(bytes.data(), bytes.size()) + frame.body + frame.inline_data;
}

// All frames that come, or the first error.
absl::StatusOr<std::vector<SentFrame>> ReceiveAll(std::deque<Chunk> chunks) {
  ScriptedTransport transport(std::move(chunks));
  FrameReceiver receiver(&transport, 1 << 20, CpuAllocator::Default());
  std::vector<SentFrame> frames;
  while (true) {
    const absl::StatusOr<bool> more = receiver.WaitForFrame(Deadline::Never());
    if (!more.ok()) return more.status();
    if (!*more) return frames;
    ReceivedFrame frame;
    const absl::Status status = receiver.Receive(&frame, Deadline::Never());
    if (!status.ok()) {
      EXPECT_TRUE(frame.descriptors.empty());
      return status;
    }
    SentFrame same = {std::string(frame.body), std::string(frame.inline_data), {}};
    for (const ScopedDescriptor& file : frame.descriptors) same.descriptors.push_back(NumberOf(file));
    if (!same.inline_data.empty()) {
      EXPECT_EQ(reinterpret_cast<uintptr_t>(frame.inline_data.data()) % kInlineAlignment, 0u);
    }
    frames.push_back(std::move(same));
  }
}

void ExpectSame(const std::vector<SentFrame>& found, const std::vector<SentFrame>& wanted) {
  ASSERT_EQ(found.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    SCOPED_TRACE(i);
    EXPECT_TRUE(found[i].body == wanted[i].body);
    EXPECT_TRUE(found[i].inline_data == wanted[i].inline_data);
    EXPECT_EQ(found[i].descriptors, wanted[i].descriptors);
  }
}

// Frames of all sizes, cut anywhere; as the system does it, bytes that bring descriptors are the last of their call.
TEST(FrameReceiver, FramesComeBackHoweverTheyAreCut) {
  constexpr size_t kSizes[] = {0, 1, 100, 5'000, 16'300, 16'340, 16'341, 16'384, 17'000, 60'000};
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto size = [&] { return kSizes[random() % std::size(kSizes)]; };
    std::vector<SentFrame> frames = {{"hello", "", {}}};
    std::deque<Chunk> chunks = {{Bytes(frames[0], 0), {}}};
    while (frames.size() < 12) {
      SentFrame frame = {std::string(size(), 'b'), std::string(size(), static_cast<char>(random())), {}};
      for (uint32_t i = random() % 8; i > 5; --i) frame.descriptors.push_back(static_cast<int64_t>(random() % 1000));
      std::string bytes = Bytes(frame, frames.size());
      // The first byte may come with what was sent before.
      if (random() % 2 == 0 || !chunks.back().descriptors.empty()) chunks.emplace_back();
      chunks.back().descriptors = frame.descriptors;
      chunks.back().descriptors_at = chunks.back().bytes.size();
      while (bytes.size() > 1 && random() % 4 != 0) {
        const size_t cut = 1 + random() % (bytes.size() - 1);
        chunks.back().bytes += bytes.substr(0, cut);
        bytes.erase(0, cut);
        chunks.emplace_back();
      }
      chunks.back().bytes += bytes;
      frames.push_back(std::move(frame));
    }
    absl::StatusOr<std::vector<SentFrame>> same = ReceiveAll(std::move(chunks));
    ASSERT_OK(same);
    ExpectSame(*same, frames);
  }
}

TEST(FrameReceiver, DescriptorsThatNoFrameNamesAreRefused) {
  const std::string hello = Bytes({"hello", "", {}}, 0);
  const SentFrame none = {"body", "data", {}};
  const SentFrame one = {"body", "data", {1}};
  const SentFrame large = {"body", std::string(100'000, 'x'), {}};
  const std::string header = Bytes(none, 1).substr(0, kFrameHeaderBytes);
  const std::string rest = Bytes(none, 1).substr(kFrameHeaderBytes);
  const struct {
    const char* name;
    std::deque<Chunk> chunks;
    const char* says;
  } kCases[] = {
      {"OneTooMany", {{hello, {}}, {Bytes(one, 1), {1, 2}}}, "2 descriptors; its header says 1"},
      {"OneTooFew", {{hello, {}}, {Bytes(one, 1), {}}}, "0 descriptors; its header says 1"},
      {"WithAHello", {{hello, {1}}}, "1 descriptors; its header says 0"},
      {"BehindTheHead", {{hello, {}}, {header, {}}, {rest, {1}}}, "1 descriptors; its header says 0"},
      {"BehindAHeadThatNamesIt",
       {{hello, {}}, {Bytes(one, 1).substr(0, kFrameHeaderBytes), {}}, {rest, {1}}},
       "0 descriptors; its header says 1"},
      {"InLargeData", {{hello, {}}, {Bytes(large, 1).substr(0, 50'000), {}}, {"x", {1}}}, "more descriptors"},
      {"OfAFrameThatHasNone", {{hello, {}}, {Bytes(none, 1) + Bytes(none, 2), {1}}}, "1 descriptors"},
      {"OfTheSecondFrameOnly", {{hello, {}}, {Bytes(none, 1) + Bytes(one, 2), {1, 2}}}, "2 descriptors"},
  };
  const int before = CountOpenDescriptors();
  for (const auto& row : kCases) {
    SCOPED_TRACE(row.name);
    EXPECT_THAT(ReceiveAll(row.chunks), StatusIs(Code::kInvalidArgument, HasSubstr(row.says)));
    EXPECT_EQ(CountOpenDescriptors(), before);
  }
}

TEST(FrameReceiver, ErrorsNameThePeerAndThePlace) {
  const std::string hello = Bytes({"hello", "", {}}, 0);
  EXPECT_THAT(ReceiveAll({{hello.substr(0, 7), {}}}),
              StatusIs(Code::kUnavailable, "script: closed after 7 of 44 bytes"));
  EXPECT_THAT(ReceiveAll({{hello.substr(0, 46), {}}}),
              StatusIs(Code::kUnavailable, "script: closed after 2 of 5 bytes"));
  std::string damaged = hello;
  damaged.back() = 'x';
  EXPECT_THAT(ReceiveAll({{damaged, {}}}),
              StatusIs(Code::kDataLoss, "script: the body of a frame has a wrong checksum"));
}

// ReceiveAll takes 1 MiB in one message.
TEST(FrameReceiver, TheLimitIsToTheByte) {
  const std::string hello = Bytes({"hello", "", {}}, 0);
  const SentFrame most = {"body", std::string((1 << 20) - 4, 'x'), {}};
  absl::StatusOr<std::vector<SentFrame>> same = ReceiveAll({{hello, {}}, {Bytes(most, 1), {}}});
  ASSERT_OK(same);
  ASSERT_EQ(same->size(), 2u);
  EXPECT_TRUE((*same)[1].inline_data == most.inline_data);
  const SentFrame body_alone = {std::string(1 << 20, 'x'), "", {}};
  EXPECT_OK(ReceiveAll({{hello, {}}, {Bytes(body_alone, 1), {}}}));
  const SentFrame one_more = {"body!", most.inline_data, {}};
  EXPECT_THAT(ReceiveAll({{hello, {}}, {Bytes(one_more, 1), {}}}),
              StatusIs(Code::kResourceExhausted, HasSubstr("1048576")));
}

}  // namespace
}  // namespace tensorcask::exchange
