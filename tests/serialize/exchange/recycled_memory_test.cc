#include "tensorcask/serialize/exchange/internal/recycled_memory.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/exchange/shared_memory.h"
#include "tensorcask/serialize/exchange/unix_socket.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/base/scoped_descriptor.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tests/serialize/exchange/descriptor_count.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask::exchange {
namespace {

using ::tensorcask::testing::CountMappedMemoryFiles;
using ::tensorcask::testing::CountOpenDescriptors;
using Loan = RecycledMemory::Loan;

constexpr size_t kMiB = size_t{1} << 20;

class RecycledMemoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!RecycledMemory(kMiB).Lend(1)) GTEST_SKIP() << "no /proc, memory files or leases";
  }
  void TearDown() override {
    EXPECT_EQ(CountOpenDescriptors(), descriptors_);
    EXPECT_EQ(CountMappedMemoryFiles(), mappings_);
  }

 private:
  const int descriptors_ = CountOpenDescriptors();
  const int mappings_ = CountMappedMemoryFiles();
};

// The address of the next loan of as many bytes; null if it fails.
char* NextPlace(RecycledMemory* memory, size_t bytes) {
  const std::optional<Loan> loan = memory->Lend(bytes);
  return loan ? loan->data : nullptr;
}

TEST_F(RecycledMemoryTest, LendsAllThatItMayKeep) {
  for (const size_t most : {100 * kMiB, 100 * kMiB + 1, 3 * kMiB + 4095}) {
    SCOPED_TRACE(most);
    RecycledMemory memory(most);
    EXPECT_TRUE(memory.Lend(most - 4095));
    EXPECT_FALSE(memory.Lend(most + 1));
  }
}

TEST_F(RecycledMemoryTest, AReceiverMapsWhatWasWritten) {
  RecycledMemory memory(16 * kMiB);
  for (const size_t bytes : {size_t{1}, size_t{4096}, size_t{300'000}, 5 * kMiB + 1}) {
    SCOPED_TRACE(bytes);
    const std::string text(bytes, static_cast<char>('a' + bytes % 7));
    std::optional<Loan> loan = memory.Lend(bytes);
    ASSERT_TRUE(loan);
    std::memcpy(loan->data, text.data(), bytes);
    EXPECT_EQ(fcntl(loan->descriptor.get(), F_GETFD), FD_CLOEXEC);
    ASSERT_OK_AND_ASSIGN(const RefPtr<TensorBuffer> received, MapSharedMemory(std::move(loan->descriptor), 0, bytes));
    EXPECT_EQ(received->bytes(), text);
  }
}

TEST_F(RecycledMemoryTest, IsLentAgainOnceNobodyHasIt) {
  RecycledMemory memory(16 * kMiB);
  std::optional<Loan> loan = memory.Lend(kMiB);
  char* const first = loan->data;
  EXPECT_NE(NextPlace(&memory, kMiB), first) << "its descriptor is open here";

  auto pair = UnixSocket::Pair();
  ASSERT_OK(pair);
  ASSERT_OK(pair->first.SendAll({"x"}, {loan->descriptor.get()}, absl::Seconds(30)));
  loan->descriptor.Close();
  EXPECT_NE(NextPlace(&memory, kMiB), first) << "its descriptor is on its way";

  char byte;
  std::vector<ScopedDescriptor> descriptors;
  ASSERT_OK(pair->second.ReceiveExactly(absl::MakeSpan(&byte, 1), 1, &descriptors, absl::Seconds(30)));
  absl::StatusOr<RefPtr<TensorBuffer>> received = MapSharedMemory(std::move(descriptors.at(0)), 0, kMiB);
  ASSERT_OK(received);
  EXPECT_NE(NextPlace(&memory, kMiB), first) << "a receiver has it";

  ScopedDescriptor handed_on(fcntl((*received)->file_range()->descriptor, F_DUPFD_CLOEXEC, 0));
  *received = nullptr;
  EXPECT_NE(NextPlace(&memory, kMiB), first) << "somebody has it from the receiver";

  handed_on.Close();
  EXPECT_EQ(NextPlace(&memory, kMiB), first);
  EXPECT_EQ(NextPlace(&memory, kMiB - 5000), first) << "and for less";
}

TEST_F(RecycledMemoryTest, AnotherProcessHasItUntilItDies) {
  RecycledMemory memory(16 * kMiB);
  std::optional<Loan> loan = memory.Lend(kMiB);
  char* const first = loan->data;
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    while (true) pause();
  }
  loan = std::nullopt;
  EXPECT_NE(NextPlace(&memory, kMiB), first);
  ASSERT_EQ(kill(child, SIGKILL), 0);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_EQ(NextPlace(&memory, kMiB), first);
}

TEST_F(RecycledMemoryTest, TheSmallestThatFitsIsTaken) {
  RecycledMemory memory(16 * kMiB);
  std::vector<Loan> loans;
  for (const size_t size : {4, 1, 2}) loans.push_back(*memory.Lend(size * kMiB));
  char* const two = loans[2].data;
  loans.clear();
  EXPECT_EQ(NextPlace(&memory, kMiB + 1), two);
}

TEST_F(RecycledMemoryTest, KeepsNoMoreThanItMay) {
  RecycledMemory memory(4 * kMiB);
  EXPECT_FALSE(memory.Lend(4 * kMiB + 1));
  EXPECT_FALSE(RecycledMemory(0).Lend(1));
  std::vector<Loan> loans;
  for (int i = 0; i < 4; ++i) loans.push_back(*memory.Lend(kMiB));
  EXPECT_FALSE(memory.Lend(1)) << "all of it is lent";
  loans.resize(1);
  EXPECT_TRUE(memory.Lend(3 * kMiB)) << "in place of three that are free";
  loans.clear();
  EXPECT_TRUE(memory.Lend(4 * kMiB));
  EXPECT_EQ(CountMappedMemoryFiles(), 1);
}

TEST_F(RecycledMemoryTest, KeepsSoManyBlocks) {
  RecycledMemory memory(16 * kMiB);
  std::vector<Loan> loans;
  for (size_t i = 0; i < RecycledMemory::kMaxBlocks; ++i) loans.push_back(*memory.Lend(1));
  EXPECT_FALSE(memory.Lend(1));
  loans.pop_back();
  EXPECT_TRUE(memory.Lend(kMiB));
}

}  // namespace
}  // namespace tensorcask::exchange
