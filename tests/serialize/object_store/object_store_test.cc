#include "tensorcask/serialize/object_store/object_store.h"

#include <cerrno>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/files.h"
#include "tensorcask/tests/serialize/object_store/store_testing.h"
#include "tensorcask/tests/support/in_child.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using namespace ::tensorcask::testing;  // NOLINT(google-build-using-namespace)
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using Code = absl::StatusCode;

TEST(ObjectStore, KeysOfAllKindsComeBack) {
  LyingServer server;
  const std::unique_ptr<ObjectStore> store = StoreFor(server);
  FileSystem* const files = store->files();
  const std::string long_key =
      absl::StrCat(std::string(200, 'k'), "/", std::string(200, 'k'), "/", std::string(200, 'k'), "/",
                   std::string(200, 'k'), "/", std::string(200, 'k'), "/", std::string(19, 'k'));
  ASSERT_EQ(long_key.size(), 1024u);
  for (const std::string& key :
       {std::string("with space"), std::string("a+b"), std::string("100%"), std::string("%2F"),
        std::string("a:b=c&d?e"), std::string("größe/模型"), std::string("~tilde_-."), std::string("...a"), long_key}) {
    SCOPED_TRACE(key);
    const std::string path = absl::StrCat("s3://bucket/", key);
    const IoResult handle = files->CreateToPublish(path + ".tmp-0000000000000000", path);
    ASSERT_GE(handle, 0) << files->LastDetail();
    ASSERT_EQ(files->Append(handle, key), static_cast<IoResult>(key.size()));
    EXPECT_EQ(files->Close(handle), 0);
    ASSERT_EQ(files->Rename(path + ".tmp-0000000000000000", path, FileSystem::OnExisting::kRefuse), 0);
    EXPECT_EQ(server.Get(absl::StrCat("bucket/", key)), key);
    std::string read;
    ASSERT_EQ(ReadFile(files, path, &read), 0);
    EXPECT_EQ(read, key);
  }
}

TEST(ObjectStore, ImpossibleNamesAreRefusedWithASentence) {
  LyingServer server;
  const std::unique_ptr<ObjectStore> store = StoreFor(server);
  FileSystem* const files = store->files();
  const std::pair<std::string, std::string> rows[] = {
      {"s3://bucket/a//b", "empty step"},
      {"s3://bucket/./b", "the step \".\""},
      {"s3://bucket/a/../b", "the step \"..\""},
      {"s3://bucket//", "empty step"},
      {"s3://bucket/" + std::string(1025, 'k'), "1025 bytes, the limit is 1024"},
      {"s3://bucket/\xff", "not UTF-8"},
      {"s3://bucket/a\nb", "control character"},
      {"s3://b", "the bucket"},
      {"s3://", "the bucket"},
      {"s3://a..b/c", "the bucket"},
      {"file:///etc/passwd", "is not a URL"},
      {"ftp://host/a", "is not a URL"},
      {"https://", "no host"},
      {"https://user:secret@host/a", "a user name"},
      {"https://host/a#b", "fragment"},
  };
  for (const auto& [path, says] : rows) {
    SCOPED_TRACE(path);
    EXPECT_EQ(files->OpenToRead(path), -EDESTADDRREQ);
    EXPECT_THAT(files->LastDetail(), HasSubstr(says));
    EXPECT_THAT(files->LastDetail(), Not(HasSubstr("secret")));
  }
  EXPECT_EQ(server.num_requests(), 0u);
}

// Its threads, its connections and its uploads are those of the parent.
TEST(ObjectStore, AChildOfForkOnlyDestroysIt) {
  LyingServer server;
  std::unique_ptr<ObjectStore> store = StoreFor(server);
  FileSystem* const files = store->files();
  const std::string temporary = "s3://bucket/a.tmp-0000000000000000";
  const IoResult handle = files->CreateToPublish(temporary, "s3://bucket/a");
  const std::string bytes = PatternBytes(16 << 20);
  ASSERT_EQ(files->Append(handle, bytes), 16 << 20);  // starts threads
  EXPECT_TRUE(InChild([&] {
    const bool are_refused =
        files->Append(handle, "more") == -EOPNOTSUPP && files->Close(handle) == -EOPNOTSUPP &&
        files->Rename(temporary, "s3://bucket/a", FileSystem::OnExisting::kRefuse) == -EOPNOTSUPP &&
        files->Remove(temporary) == -EOPNOTSUPP;
    const bool is_said = absl::StrContains(files->LastDetail(), "in a child of fork");
    const bool is_read = files->OpenToRead("s3://bucket/a") >= 0;
    store = nullptr;
    return are_refused && is_said && !is_read;
  }));
  EXPECT_EQ(files->Close(handle), 0) << files->LastDetail();
  EXPECT_EQ(files->Rename(temporary, "s3://bucket/a", FileSystem::OnExisting::kRefuse), 0) << files->LastDetail();
  EXPECT_EQ(server.Get("bucket/a"), bytes);
  EXPECT_TRUE(InChild([&] {  // its threads wait for work
    store = nullptr;
    return true;
  }));
}

// A thread of the parent waits for the answer when the child is made.
TEST(ObjectStore, AChildOfForkDoesNotWaitForAFileThatIsBeingOpened) {
  LyingServer server;
  server.Put("bucket/a", "content");
  std::promise<void> asked;
  std::promise<void> may_answer;
  server.LieAlways([&](Exchange* exchange) {
    asked.set_value();
    may_answer.get_future().wait();
    exchange->Work();
  });
  const std::unique_ptr<ObjectStore> store = StoreFor(server);
  ReadOptions options;
  options.file_system = store->files();
  ASSERT_OK_AND_ASSIGN(const std::shared_ptr<const ByteSource> source, OpenFileSourceSoon("s3://bucket/a", options));
  std::thread waits([&] { EXPECT_OK(source->WaitUntilOpen()); });
  asked.get_future().wait();
  EXPECT_TRUE(InChild([&] {
    char byte = 0;
    return !source->WaitUntilOpen().ok() && source->size_bytes() == 0 &&
           !source->ReadAt(0, absl::MakeSpan(&byte, 1)).ok();
  }));
  may_answer.set_value();
  waits.join();
  EXPECT_EQ(source->size_bytes(), 7u);
}

TEST(ObjectStore, OptionsAreChecked) {
  const auto code_of = [](void (*change)(ObjectStoreOptions*)) {
    ObjectStoreOptions options;
    change(&options);
    return ObjectStore::Create(options).status().code();
  };
  EXPECT_EQ(code_of([](ObjectStoreOptions*) {}), Code::kOk);
  EXPECT_EQ(code_of([](ObjectStoreOptions* o) { o->range_bytes = 1; }), Code::kInvalidArgument);
  EXPECT_EQ(code_of([](ObjectStoreOptions* o) { o->part_bytes = 1 << 20; }), Code::kInvalidArgument);
  EXPECT_EQ(code_of([](ObjectStoreOptions* o) { o->connections = 0; }), Code::kInvalidArgument);
  EXPECT_EQ(code_of([](ObjectStoreOptions* o) { o->max_attempts = 0; }), Code::kInvalidArgument);
  EXPECT_EQ(code_of([](ObjectStoreOptions* o) { o->stall = absl::ZeroDuration(); }), Code::kInvalidArgument);
  EXPECT_EQ(code_of([](ObjectStoreOptions* o) { o->region = "a/b"; }), Code::kInvalidArgument);
  EXPECT_EQ(code_of([](ObjectStoreOptions* o) { o->endpoint = "host:9000"; }), Code::kInvalidArgument);
  EXPECT_EQ(code_of([](ObjectStoreOptions* o) { o->endpoint = "https://u:p@host"; }), Code::kInvalidArgument);
}

TEST(ObjectStore, RequestsAreSignedAndCounted) {
  LyingServer server;
  ObjectStoreOptions options = OptionsFor(server);
  std::mutex mutex;
  std::vector<RequestRecord> records;
  options.observer = [&](const RequestRecord& record) {
    std::lock_guard<std::mutex> lock(mutex);
    records.push_back(record);
  };
  const std::unique_ptr<ObjectStore> store = StoreFor(options);
  ASSERT_OK(SaveCheckpoint(store->files(), "s3://bucket/a", {PatternTensor(12 << 20)}));
  std::string read;
  ASSERT_EQ(ReadFile(store->files(), "s3://bucket/a.data-00000-of-00001", &read), 0);
  const std::vector<ServerRequest> requests = server.requests();
  for (const ServerRequest& request : requests) {
    EXPECT_THAT(request.Header("authorization"), HasSubstr(absl::StrCat("Credential=", kTestKeyId, "/")));
    EXPECT_THAT(request.Header("authorization"), HasSubstr("/eu-test-1/s3/aws4_request"));
    EXPECT_THAT(request.Header("authorization"), HasSubstr("x-amz-content-sha256"));
    EXPECT_EQ(request.Header("x-amz-security-token"), kTestToken);
    EXPECT_THAT(request.Header("x-amz-content-sha256"), Not(IsEmpty()));
  }
  EXPECT_EQ(records.size(), requests.size());
  const ObjectStoreStats stats = store->stats();
  EXPECT_EQ(stats.requests, requests.size());
  EXPECT_EQ(stats.retries, 0u);
  EXPECT_GE(stats.bytes_sent, 12u << 20);
  EXPECT_GE(stats.bytes_received, 12u << 20);
  // Files of web servers are not signed: the keys are not theirs.
  server.ForgetRequests();
  ASSERT_EQ(ReadFile(store->files(), server.url() + "/bucket/a.index", &read), 0);
  for (const ServerRequest& request : server.requests()) EXPECT_EQ(request.Header("authorization"), "");
}

TEST(ObjectStore, SignaturesAreThoseOfTheRules) {
  LyingServer server;
  server.CheckSignatures(kTestSecret);
  const std::unique_ptr<ObjectStore> store = StoreFor(server);
  FileSystem* const files = store->files();
  for (const char* name : {"plain", "a b+c%d:e=f&g?h", "größe/~x"}) {
    SCOPED_TRACE(name);
    const std::string path = absl::StrCat("s3://bucket/", name);
    ASSERT_OK(SaveCheckpoint(files, path, {PatternTensor(12 << 20)}));  // create, parts, complete, put, head
    std::string read;
    ASSERT_EQ(ReadFile(files, path + ".data-00000-of-00001", &read), 0) << files->LastDetail();
  }
  std::vector<std::string> names;
  EXPECT_EQ(files->List("s3://bucket/", &names), 0) << files->LastDetail();
  ASSERT_OK(store->ListUploads("s3://bucket/"));
  EXPECT_EQ(files->Remove("s3://bucket/plain.index"), 0) << files->LastDetail();
  const IoResult handle = files->CreateToPublish("s3://bucket/a.tmp-0000000000000000", "s3://bucket/a");
  ASSERT_EQ(files->Append(handle, PatternBytes(11 << 20)), 11 << 20);
  EXPECT_EQ(files->Close(handle), 0);
  EXPECT_EQ(files->Remove("s3://bucket/a.tmp-0000000000000000"), 0) << files->LastDetail();  // abort
  server.CheckSignatures("another secret");
  std::string read;
  EXPECT_EQ(ReadFile(files, "s3://bucket/plain.data-00000-of-00001", &read), -EACCES);
  EXPECT_THAT(files->LastDetail(), HasSubstr("SignatureDoesNotMatch"));
}

TEST(ObjectStore, SecretsAreInNoMessage) {
  LyingServer server;
  ObjectStoreOptions options = OptionsFor(server);
  std::mutex mutex;
  std::string said;
  options.observer = [&](const RequestRecord& record) {
    std::lock_guard<std::mutex> lock(mutex);
    absl::StrAppend(&said, record.method, record.name, record.purpose);
  };
  const std::unique_ptr<ObjectStore> store = StoreFor(options);
  // A server that repeats all that it got.
  server.LieAlways([](Exchange* exchange) {
    std::string all;
    for (const auto& [name, value] : exchange->request.headers) absl::StrAppend(&all, value, " ");
    exchange->Answer(400, absl::StrCat("<Error><Code>Bad</Code><Message>", kTestSecret, " ", kTestToken, " ",
                                       kTestKeyId, " ", all, "</Message></Error>"));
  });
  FileSystem* const files = store->files();
  std::string read;
  EXPECT_LT(ReadFile(files, "s3://bucket/a", &read), 0);
  absl::StrAppend(&said, files->LastDetail());
  absl::StrAppend(&said, SaveCheckpoint(files, "s3://bucket/a", {PatternTensor(100)}).ToString());
  absl::StrAppend(&said, store->ListUploads("s3://bucket/").status().ToString());
  const std::string signed_url = absl::StrCat(server.url(), "/bucket/a?X-Amz-Date=/1/&X-Amz-Signature=", kTestSecret);
  EXPECT_LT(ReadFile(files, signed_url, &read), 0);
  absl::StrAppend(&said, files->LastDetail());
  ReadOptions options_of_read;
  options_of_read.file_system = files;
  absl::StrAppend(&said, OpenFileSource(signed_url, options_of_read).status().ToString());
  absl::StrAppend(&said, DescribeFile(signed_url, files).status().ToString());
  server.TellTheTruth();  // 404
  absl::StrAppend(&said, OpenFileSource(signed_url, options_of_read).status().ToString());
  server.Put("bucket/a", PatternBytes(100'000));
  const absl::StatusOr<std::shared_ptr<const ByteSource>> source = OpenFileSource(signed_url, options_of_read);
  ASSERT_TRUE(source.ok()) << source.status();
  server.Put("bucket/a", PatternBytes(100'000, 2));
  read.resize(1000);
  absl::StrAppend(&said, (*source)->ReadAt(0, absl::MakeSpan(&read[0], read.size())).ToString());
  EXPECT_THAT(said, HasSubstr("s3://bucket/a"));
  EXPECT_THAT(said, Not(HasSubstr(kTestSecret)));
  EXPECT_THAT(said, Not(HasSubstr(kTestToken)));
  EXPECT_THAT(said, Not(HasSubstr(kTestKeyId)));
}

}  // namespace
}  // namespace tensorcask
