#include "tensorcask/serialize/io/byte_stream.h"

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <optional>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::StatusIs;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

class Pipe {
 public:
  Pipe() { EXPECT_EQ(pipe2(ends_, O_CLOEXEC), 0); }
  ~Pipe() {
    CloseIn();
    CloseOut();
  }
  int out() const { return ends_[0]; }
  int in() const { return ends_[1]; }
  void CloseOut() { Close(&ends_[0]); }
  void CloseIn() { Close(&ends_[1]); }

 private:
  static void Close(int* end) {
    if (*end >= 0) close(*end);
    *end = -1;
  }
  int ends_[2] = {-1, -1};
};

std::string ReadAll(ByteStream& stream, size_t step) {
  std::string all;
  std::string buffer(step, '\0');
  while (true) {
    const absl::StatusOr<size_t> got = stream.Read(absl::MakeSpan(&buffer[0], buffer.size()));
    EXPECT_OK(got);
    if (!got.ok() || *got == 0) return all;
    all.append(buffer, 0, *got);
  }
}

std::string Numbers(size_t size) {
  std::string bytes(size, '\0');
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 31 % 251);
  return bytes;
}

TEST(SourceStream, ReadsOnFromAnOffset) {
  const std::string bytes = "0123456789";
  const auto stream = MakeSourceStream(MakeMemorySource("digits", bytes), 4);
  EXPECT_EQ(stream->name(), "digits");
  EXPECT_EQ(stream->bytes_left(), 6u);
  EXPECT_EQ(ReadAll(*stream, 4), "456789");
  EXPECT_EQ(stream->bytes_left(), 0u);
  EXPECT_EQ(ReadAll(*MakeSourceStream(MakeMemorySource("digits", bytes), 11), 4), "");
}

TEST(DescriptorStream, GivesWhatComesUntilTheEnd) {
  for (const bool blocking : {true, false}) {
    Pipe pipe;
    if (!blocking) {
      ASSERT_EQ(fcntl(pipe.out(), F_SETFL, O_NONBLOCK), 0);
    }
    const std::string bytes = Numbers(3000);
    std::thread writer([&] {
      for (const char byte : bytes) EXPECT_EQ(write(pipe.in(), &byte, 1), 1);
      pipe.CloseIn();
    });
    const auto stream = MakeDescriptorStream(pipe.out(), "a pipe");
    EXPECT_EQ(stream->name(), "a pipe");
    EXPECT_EQ(stream->bytes_left(), std::nullopt);
    EXPECT_TRUE(ReadAll(*stream, 1000) == bytes);
    writer.join();
  }
}

TEST(DescriptorStream, NamesTheStreamInErrors) {
  const auto folder = open("/", O_RDONLY | O_CLOEXEC);
  ASSERT_GE(folder, 0);
  char byte;
  EXPECT_THAT(MakeDescriptorStream(folder, "a folder")->Read(absl::MakeSpan(&byte, 1)),
              StatusIs(Code::kFailedPrecondition, HasSubstr("a folder: cannot read")));
  close(folder);
  EXPECT_THAT(MakeDescriptorStream(folder, "closed")->Read(absl::MakeSpan(&byte, 1)).status().message(),
              HasSubstr("closed: cannot read"));
}

TEST(DescriptorStream, GivesUpWhenAsked) {
  Pipe pipe;
  int asked = 0;
  const auto stream = MakeDescriptorStream(pipe.out(), "a pipe", [&] { return ++asked < 3; });
  char byte;
  EXPECT_THAT(stream->Read(absl::MakeSpan(&byte, 1)), StatusIs(Code::kCancelled, HasSubstr("a pipe: interrupted")));
  EXPECT_EQ(asked, 3);
}

TEST(DescriptorStream, ASignalEndsNoWait) {
  Pipe pipe;
  struct sigaction quiet = {}, before = {};
  quiet.sa_handler = [](int) {};
  ASSERT_EQ(sigaction(SIGUSR1, &quiet, &before), 0);
  const pthread_t reader = pthread_self();
  std::thread writer([&] {
    for (int i = 0; i < 20; ++i) {
      pthread_kill(reader, SIGUSR1);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_EQ(write(pipe.in(), "x", 1), 1);
    pipe.CloseIn();
  });
  EXPECT_EQ(ReadAll(*MakeDescriptorStream(pipe.out(), "a pipe"), 10), "x");
  writer.join();
  sigaction(SIGUSR1, &before, nullptr);
}

TEST(DescriptorSink, WritesAllInOrder) {
  for (const bool blocking : {true, false}) {
    Pipe pipe;
    if (!blocking) {
      ASSERT_EQ(fcntl(pipe.in(), F_SETFL, O_NONBLOCK), 0);
    }
    const std::string bytes = Numbers(3 << 20);
    std::string read;
    std::thread reader([&] { read = ReadAll(*MakeDescriptorStream(pipe.out(), "a pipe"), 100000); });
    DescriptorSink sink(pipe.in(), "a pipe");
    const size_t sizes[] = {0, 1, 17, (256 << 10) - 18, 1, 1, 2 << 20, 5, 300 << 10};
    size_t position = 0;
    for (const size_t size : sizes) {
      EXPECT_OK(sink.Append(absl::string_view(bytes).substr(position, size)));
      position += size;
      EXPECT_EQ(sink.position(), position);
    }
    EXPECT_OK(sink.Append(absl::string_view(bytes).substr(position)));
    EXPECT_OK(sink.Finish());
    EXPECT_THAT(sink.Append("x"), StatusIs(Code::kFailedPrecondition, HasSubstr("a pipe: is finished")));
    pipe.CloseIn();
    reader.join();
    EXPECT_TRUE(read == bytes);
  }
}

TEST(DescriptorSink, KeepsTheLastByteUntilTheEnd) {
  for (const size_t size : {size_t{1}, size_t{1000}, size_t{256} << 10, size_t{300} << 10}) {
    Pipe pipe;
    std::string read;
    std::thread reader([&] { read = ReadAll(*MakeDescriptorStream(pipe.out(), "a pipe"), 100000); });
    {
      DescriptorSink sink(pipe.in(), "a pipe");
      EXPECT_OK(sink.Append(Numbers(size)));
      EXPECT_OK(sink.Append(Numbers(size)));
    }
    pipe.CloseIn();
    reader.join();
    EXPECT_LT(read.size(), 2 * size);
  }
}

TEST(DescriptorSink, TellsThatTheReaderHasGone) {
  std::signal(SIGPIPE, SIG_IGN);
  Pipe pipe;
  pipe.CloseOut();
  DescriptorSink sink(pipe.in(), "a pipe");
  EXPECT_OK(sink.Append("gathered"));
  EXPECT_THAT(sink.Finish(), StatusIs(Code::kFailedPrecondition, HasSubstr("a pipe: cannot write: Broken pipe")));
  EXPECT_THAT(sink.Append("x"), StatusIs(Code::kFailedPrecondition, HasSubstr("Broken pipe")));
}

TEST(DescriptorSink, GivesUpWhenAsked) {
  Pipe pipe;  // without a reader
  int asked = 0;
  DescriptorSink sink(pipe.in(), "a pipe", [&] { return ++asked < 3; });
  ASSERT_EQ(fcntl(pipe.in(), F_SETFL, O_NONBLOCK), 0);
  EXPECT_THAT(sink.Append(Numbers(1 << 20)), StatusIs(Code::kCancelled, HasSubstr("a pipe: interrupted")));
}

}  // namespace
}  // namespace tensorcask
