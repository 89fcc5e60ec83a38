// Exceptions of operator new and of functions of the caller: none leaves a thread of the store, passes through curl or
// expat, or keeps what others wait for.

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/object_store/internal/answer_receiver.h"
#include "tensorcask/serialize/object_store/internal/task_threads.h"
#include "tensorcask/serialize/object_store/internal/xml_answer.h"
#include "tensorcask/serialize/object_store/object_store.h"
#include "tensorcask/tests/serialize/object_store/store_testing.h"
#include "tensorcask/tests/support/failing_new.h"
#include "tensorcask/tests/support/lying_server.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using namespace ::tensorcask::testing;  // NOLINT(google-build-using-namespace)
using ::testing::AnyOf;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

constexpr int kRounds = 10;  // more than there are connections and threads

TEST(TaskThreads, AnExceptionIsAnErrorAndAllElseIsRun) {
  internal::TaskThreads threads(4);
  for (const size_t count : {1, 2, 100}) {
    for (const size_t bad : {size_t{0}, count - 1}) {
      SCOPED_TRACE(absl::StrCat(bad, " of ", count));
      std::vector<std::atomic<int>> runs(count);
      EXPECT_THAT(threads.RunAll(count,
                                 [&](size_t i) {
                                   ++runs[i];
                                   if (i == bad) throw std::runtime_error("of a test");
                                 }),
                  StatusIs(Code::kResourceExhausted, HasSubstr("of a test")));
      for (const std::atomic<int>& one : runs) EXPECT_EQ(one, 1);
    }
  }
  for (int i = 0; i < kRounds; ++i) threads.Submit([] { throw std::bad_alloc(); });
  std::atomic<int> ran{0};
  EXPECT_OK(threads.RunAll(100, [&](size_t) { ++ran; }));
  EXPECT_EQ(ran, 100);
}

TEST(AnswerReceiver, AnExceptionRefusesTheAnswer) {
  char byte = 0;
  const ReadRange part = {0, absl::MakeSpan(&byte, 1)};
  internal::ExpectedRange range;
  range.parts = absl::MakeConstSpan(&part, 1);
  range.when_answered = []() -> bool { throw std::bad_alloc(); };
  uint64_t done = 0;
  internal::RangeReceiver receiver(range, &done);
  EXPECT_FALSE(receiver.AddBody("x", 206));
  EXPECT_EQ(receiver.refused(), -ENOMEM);
}

// An observer is called by the threads that send and fetch.
class ThrowingObserver : public ::testing::Test {
 protected:
  std::unique_ptr<ObjectStore> StoreThatThrowsAt(const std::string& purpose) {
    ObjectStoreOptions options = OptionsFor(server_);
    options.observer = [this, purpose](const RequestRecord& record) {
      if (is_throwing_ && record.purpose == purpose) throw std::runtime_error("of an observer");
    };
    return StoreFor(options);
  }

  LyingServer server_;
  std::atomic<bool> is_throwing_{true};
};

TEST_F(ThrowingObserver, EndsASaveWithAnError) {
  const std::unique_ptr<ObjectStore> store = StoreThatThrowsAt("part");
  for (int round = 0; round < kRounds; ++round) {
    EXPECT_THAT(SaveCheckpoint(store->files(), "s3://bucket/ckpt", {PatternTensor(11 << 20)}),
                StatusIs(Code::kResourceExhausted, HasSubstr("of an observer")));
    EXPECT_EQ(server_.num_uploads(), 0u);
  }
  is_throwing_ = false;
  EXPECT_OK(SaveCheckpoint(store->files(), "s3://bucket/ckpt", {PatternTensor(11 << 20)}));
}

TEST_F(ThrowingObserver, EndsAReadWithAnError) {
  const std::string bytes = PatternBytes(40 << 20);
  server_.Put("bucket/a", bytes);
  const std::unique_ptr<ObjectStore> store = StoreThatThrowsAt("read");
  std::string read;
  for (int round = 0; round < kRounds; ++round) {
    EXPECT_EQ(ReadFile(store->files(), "s3://bucket/a", &read), -ENOMEM);
    EXPECT_THAT(store->files()->LastDetail(), HasSubstr("of an observer"));
  }
  is_throwing_ = false;
  EXPECT_EQ(ReadFile(store->files(), "s3://bucket/a", &read), 0);
  EXPECT_TRUE(read == bytes);
}

TEST_F(ThrowingObserver, EndsAnOpeningThatOthersWaitFor) {
  server_.Put("bucket/a", "bytes");
  const std::unique_ptr<ObjectStore> store = StoreThatThrowsAt("open");
  FileSystem* const files = store->files();
  for (int round = 0; round < kRounds; ++round) {
    const IoResult handle = files->OpenToReadSoon("s3://bucket/a");
    ASSERT_GE(handle, 0);
    EXPECT_EQ(files->SizeOf(handle), -ENOMEM);
    EXPECT_THAT(files->LastDetail(), HasSubstr("of an observer"));
    EXPECT_EQ(files->Close(handle), 0);
  }
}

// Each allocation of this thread fails in turn. The store has four connections, which must all come back.
TEST(Allocations, EachMayFailWhileAFileIsRead) {
  LyingServer server;
  const std::string bytes = PatternBytes(200'000);
  server.Put("bucket/a", bytes);
  const std::unique_ptr<ObjectStore> store = StoreFor(server);
  std::string read;
  int64_t n = 0;
  for (bool has_failed = true; has_failed; ++n) {
    SCOPED_TRACE(n);
    {
      const FailingNew failing(n, FailingNew::kOnce, FailingNew::kThisThread);
      try {
        EXPECT_THAT(ReadFile(store->files(), "s3://bucket/a", &read), AnyOf(0, -ENOMEM));
      } catch (const std::bad_alloc&) {
        // In a thread of the caller an exception may pass through the library.
      }
      has_failed = failing.has_failed();
    }
    ASSERT_EQ(ReadFile(store->files(), "s3://bucket/a", &read), 0) << store->files()->LastDetail();
    ASSERT_TRUE(read == bytes);
  }
  EXPECT_GT(n, 20);
}

TEST(Allocations, EachMayFailWhileAListIsParsed) {
  const std::string key(100, 'k');
  const std::string text = absl::StrCat("<ListBucketResult><EncodingType>url</EncodingType><Contents><Key>", key,
                                        "</Key><Size>7</Size></Contents><CommonPrefixes><Prefix>", key,
                                        "/</Prefix></CommonPrefixes>", "</ListBucketResult>");
  int64_t n = 0;
  int refused = 0;
  for (bool has_failed = true; has_failed; ++n) {
    SCOPED_TRACE(n);
    const FailingNew failing(n, FailingNew::kOnce, FailingNew::kThisThread);
    try {
      const absl::StatusOr<internal::ObjectPage> page = internal::ParseObjectPage(text);
      if (!page.ok()) {
        EXPECT_EQ(page.status().code(), Code::kResourceExhausted);
      }
      refused += page.ok() ? 0 : 1;
    } catch (const std::bad_alloc&) {
    }
    has_failed = failing.has_failed();
  }
  EXPECT_GT(refused, 3);  // those in the functions that expat calls
}

}  // namespace
}  // namespace tensorcask
