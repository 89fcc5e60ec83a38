// Objects that are replaced on condition, bytes that come out of order, and requests with a deadline.

#include <cerrno>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/file_system_router.h"
#include "tensorcask/serialize/io/publication.h"
#include "tensorcask/serialize/object_store/object_store.h"
#include "tensorcask/tests/serialize/object_store/store_testing.h"
#include "tensorcask/tests/support/lying_server.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using namespace ::tensorcask::testing;  // NOLINT(google-build-using-namespace)
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Code = absl::StatusCode;

constexpr char kPath[] = "s3://bucket/file";
constexpr char kTemporary[] = "s3://bucket/file.tmp-0000000000000000";

void WriteTemporary(FileSystem* files, const std::string& bytes) {
  const IoResult handle = files->CreateToPublish(kTemporary, kPath);
  ASSERT_GE(handle, 0) << files->LastDetail();
  ASSERT_EQ(files->Append(handle, bytes), static_cast<IoResult>(bytes.size()));
  ASSERT_EQ(files->Close(handle), 0);
}

TEST(RenameOver, ReplacesTheObjectThatWasOpenedAndNoOther) {
  for (const size_t size : {size_t{1000}, (size_t{5} << 20) + 1}) {  // one request, and an upload in parts
    SCOPED_TRACE(size);
    LyingServer server;
    const std::unique_ptr<ObjectStore> store = StoreFor(server);
    FileSystemRouter router(FileSystem::Posix());
    router.Add("s3", store->files());
    server.Put("bucket/file", "old");
    const IoResult old = router.OpenToRead(kPath);
    ASSERT_GE(old, 0);
    const std::string bytes = PatternBytes(size);
    WriteTemporary(&router, bytes);
    EXPECT_EQ(router.RenameOver(kTemporary, kPath, old), 0) << router.LastDetail();
    EXPECT_TRUE(server.Get("bucket/file") == bytes);

    WriteTemporary(&router, "third");
    EXPECT_EQ(router.RenameOver(kTemporary, kPath, old), -ESTALE);
    EXPECT_THAT(router.LastDetail(), HasSubstr("another writer replaced or removed it first"));
    EXPECT_EQ(router.Remove(kTemporary), 0);
    EXPECT_TRUE(server.Get("bucket/file") == bytes);

    EXPECT_EQ(router.Remove(kPath), 0);
    WriteTemporary(&router, "fourth");
    EXPECT_EQ(router.RenameOver(kTemporary, kPath, old), -ESTALE);
    EXPECT_EQ(router.Remove(kTemporary), 0);
    EXPECT_FALSE(server.Has("bucket/file"));
    EXPECT_EQ(router.Close(old), 0);
    EXPECT_EQ(server.num_uploads(), 0u);
  }
}

TEST(RenameOver, IsRefusedForHandlesOfOtherFiles) {
  LyingServer server;
  const std::unique_ptr<ObjectStore> store = StoreFor(server);
  FileSystem* const files = store->files();
  FileSystemRouter router(FileSystem::Posix());
  router.Add("s3", files);
  server.Put("bucket/file", "old");
  server.Put("bucket/other", "old");
  WriteTemporary(files, "new");
  const IoResult other = files->OpenToRead("s3://bucket/other");
  EXPECT_EQ(files->RenameOver(kTemporary, kPath, other), -EINVAL);
  EXPECT_EQ(files->RenameOver(kTemporary, kPath, other + 100), -EBADF);
  const IoResult disk = router.OpenToRead("/proc/self/exe");
  ASSERT_GE(disk, 0);
  EXPECT_EQ(router.RenameOver(kTemporary, kPath, disk), -EXDEV);
  EXPECT_EQ(router.Close(disk), 0);
  EXPECT_EQ(files->Close(other), 0);
  EXPECT_EQ(server.Get("bucket/file"), "old");
}

TEST(RenameOver, APublicationReplacesOnlyWhatItWasTold) {
  LyingServer server;
  const std::unique_ptr<ObjectStore> store = StoreFor(server);
  server.Put("bucket/file", "old");
  ReadOptions read;
  read.file_system = store->files();
  ASSERT_OK_AND_ASSIGN(const std::shared_ptr<const ByteSource> old, OpenFileSource(kPath, read));
  for (const bool is_replaced : {false, true}) {
    Publication publish({store->files(), /*sync=*/true, /*overwrite=*/true});
    publish.ReplaceOnly(old);
    ASSERT_OK_AND_ASSIGN(FileSink* const sink, publish.Add(kPath));
    ASSERT_OK(sink->Append(is_replaced ? "third" : "second"));
    const absl::Status committed = publish.Commit();
    if (is_replaced) {
      EXPECT_THAT(committed, StatusIs(Code::kAborted, HasSubstr("another writer")));
    } else {
      EXPECT_OK(committed);
    }
    EXPECT_EQ(server.Get("bucket/file"), "second");
  }
}

// ---- Bytes out of order ---------------------------------------------------------------------------------------------

TEST(Upload, BytesPastTheEndWaitForThoseBeforeThem) {
  constexpr size_t kMiB = size_t{1} << 20;
  const std::string bytes = PatternBytes(17 * kMiB);
  const absl::string_view all = bytes;
  LyingServer server;
  const std::unique_ptr<ObjectStore> store = StoreFor(server);
  FileSystem* const files = store->files();
  const IoResult handle = files->CreateToPublish(kTemporary, kPath);
  const auto write = [&](size_t from, size_t to) {
    return files->WriteAt(handle, from * kMiB, all.substr(from * kMiB, (to - from) * kMiB)) ==
           static_cast<IoResult>((to - from) * kMiB);
  };
  EXPECT_TRUE(write(9, 12));
  EXPECT_TRUE(write(12, 13));
  EXPECT_TRUE(write(15, 16));
  EXPECT_EQ(files->SizeOf(handle), static_cast<IoResult>(16 * kMiB));
  EXPECT_EQ(files->WriteAt(handle, 14 * kMiB, all.substr(0, kMiB + 1)), -EOPNOTSUPP);  // overlaps what waits
  EXPECT_EQ(files->Append(handle, all.substr(0, 7 * kMiB)), static_cast<IoResult>(7 * kMiB));
  EXPECT_TRUE(write(7, 9));
  EXPECT_TRUE(write(13, 15));
  EXPECT_TRUE(write(16, 17));
  EXPECT_EQ(files->Close(handle), 0);
  ASSERT_EQ(files->Rename(kTemporary, kPath, FileSystem::OnExisting::kRefuse), 0) << files->LastDetail();
  EXPECT_TRUE(server.Get("bucket/file") == bytes);
}

TEST(Upload, GapsBecomeZerosAndAppendGoesOnWhereItEnded) {
  LyingServer server;
  const std::unique_ptr<ObjectStore> store = StoreFor(server);
  FileSystem* const files = store->files();
  const IoResult handle = files->CreateToPublish(kTemporary, kPath);
  EXPECT_EQ(files->Append(handle, "ab"), 2);
  EXPECT_EQ(files->WriteAt(handle, 4, "ef"), 2);
  EXPECT_EQ(files->Append(handle, "c"), 1);
  EXPECT_EQ(files->WriteAt(handle, 8, "i"), 1);
  EXPECT_EQ(files->Close(handle), 0);
  ASSERT_EQ(files->Rename(kTemporary, kPath, FileSystem::OnExisting::kRefuse), 0) << files->LastDetail();
  EXPECT_EQ(server.Get("bucket/file"), std::string("abc\0ef\0\0i", 9));
}

// ---- Deadlines ------------------------------------------------------------------------------------------------------

TEST(Deadline, NoRequestBeginsAfterIt) {
  LyingServer server;
  server.Put("bucket/file", PatternBytes(200'000));
  const std::unique_ptr<ObjectStore> store = StoreFor(server);
  ReadOptions read;
  read.file_system = store->files();
  ASSERT_OK_AND_ASSIGN(const std::shared_ptr<const ByteSource> file, OpenFileSource(kPath, read));
  store->SetDeadline(absl::Now() - absl::Seconds(1));
  server.ForgetRequests();
  char byte = 0;
  EXPECT_THAT(file->ReadAt(0, absl::MakeSpan(&byte, 1)),
              StatusIs(Code::kDeadlineExceeded, HasSubstr("GET s3://bucket/file: the deadline has passed")));
  EXPECT_THAT(SaveCheckpoint(store->files(), "s3://bucket/ckpt", {PatternTensor(10)}),
              StatusIs(Code::kDeadlineExceeded));
  EXPECT_EQ(server.num_requests(), 0u);
  store->SetDeadline(absl::InfiniteFuture());
  EXPECT_OK(file->ReadAt(0, absl::MakeSpan(&byte, 1)));
}

TEST(Deadline, OfTheOptionsEndsASilentRequestAndItsRepetitions) {
  LyingServer server;
  server.LieAlways([](Exchange* exchange) {
    exchange->is_silent = true;
    exchange->end = Exchange::End::kHang;
  });
  ObjectStoreOptions options = OptionsFor(server);
  options.stall = absl::Hours(1);
  options.max_attempts = 100;
  options.deadline = absl::Now() + absl::Milliseconds(200);
  const std::unique_ptr<ObjectStore> store = StoreFor(options);
  std::string bytes;
  EXPECT_EQ(ReadFile(store->files(), kPath, &bytes), -ETIMEDOUT);
  EXPECT_THAT(store->files()->LastDetail(), HasSubstr("the deadline has passed"));
}

TEST(Deadline, RefusalsAreNotRepeatedPastIt) {
  LyingServer server;
  server.LieAlways([](Exchange* exchange) {
    exchange->Fail(503, "SlowDown");
    exchange->SetHeader("Retry-After", "30");
  });
  ObjectStoreOptions options = OptionsFor(server);
  options.deadline = absl::Now() + absl::Milliseconds(200);
  const std::unique_ptr<ObjectStore> store = StoreFor(options);
  std::string bytes;
  EXPECT_EQ(ReadFile(store->files(), kPath, &bytes), -ETIMEDOUT);
  EXPECT_THAT(store->files()->LastDetail(), HasSubstr("the deadline has passed, after the server answered 503"));
  EXPECT_EQ(server.num_requests(), 1u);
}

TEST(Deadline, AnUploadThatIsLateIsRemoved) {
  LyingServer server;
  ObjectStoreOptions options = OptionsFor(server);
  std::unique_ptr<ObjectStore> store = StoreFor(options);
  ObjectStore* const late = store.get();
  server.LieAlways([late](Exchange* exchange) {
    exchange->Work();
    if (exchange->request.Kind() == "part") late->SetDeadline(absl::Now());
  });
  EXPECT_THAT(SaveCheckpoint(store->files(), "s3://bucket/ckpt", {PatternTensor(11 << 20)}),
              StatusIs(Code::kDeadlineExceeded));
  EXPECT_THAT(server.Paths(), IsEmpty());
  EXPECT_EQ(server.num_uploads(), 0u);
}

}  // namespace
}  // namespace tensorcask
