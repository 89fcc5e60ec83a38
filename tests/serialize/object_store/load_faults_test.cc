// What a server and a network can do to a load, at each of its requests, and what a caller learns of it.

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/object_store/object_store.h"
#include "tensorcask/tests/serialize/object_store/fault_testing.h"
#include "tensorcask/tests/serialize/object_store/store_testing.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using namespace ::tensorcask::testing;  // NOLINT(google-build-using-namespace)
using ::testing::AnyOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using Code = absl::StatusCode;
using Lie = LyingServer::Lie;

TEST(Faults, AStalledTransferIsBrokenOffAndRepeated) {
  LyingServer server;
  const std::unique_ptr<ObjectStore> store = StoreFor(server);
  ASSERT_OK(SaveAll(store->files()));
  server.ForgetRequests();
  server.LieAt(1, CutsTheBody(Exchange::End::kHang));
  ASSERT_OK(LoadAll(store->files()));
  server.ForgetRequests();
  server.LieAlways(Ends(Exchange::End::kHang, false));
  std::string read;
  EXPECT_EQ(ReadFile(store->files(), "s3://bucket/run/step-1.index", &read), -ETIMEDOUT);
  EXPECT_EQ(server.num_requests(), 3u);
  EXPECT_THAT(store->files()->LastDetail(), HasSubstr("after 3 attempts"));
}

// For each request of both ways to load: loads while the server lies there, and calls check(result) and
// check_requests(requests of a load without lies, requests made).
void LoadWithEach(const std::vector<Fault>& faults, const std::function<void(const absl::Status&)>& check,
                  const std::function<void(size_t wanted, size_t made)>& check_requests) {
  LyingServer server;
  {
    const std::unique_ptr<ObjectStore> store = StoreFor(server);
    ASSERT_OK(SaveAll(store->files()));
  }
  for (absl::Status (*load)(FileSystem*) : {&LoadAll, &LoadAllAtOnce}) {
    const size_t count = RequestsOf(load, &server);
    ASSERT_GE(count, 5u);
    for (const Fault& fault : faults) {
      for (size_t request = 0; request < count; ++request) {
        SCOPED_TRACE(absl::StrCat(fault.name, " at request ", request, load == &LoadAllAtOnce ? " of one call" : ""));
        server.ForgetRequests();
        server.LieAt(request, fault.lie);
        const std::unique_ptr<ObjectStore> store = StoreFor(server);
        check(load(store->files()));
        check_requests(count, server.num_requests());
        server.TellTheTruth();
      }
    }
  }
}

TEST(Faults, ALoadSurvivesEachThatPasses) {
  LoadWithEach(
      PassingFaults(), [](const absl::Status& loaded) { EXPECT_OK(loaded); },
      [](size_t wanted, size_t made) { EXPECT_EQ(made, wanted + 1); });
}

TEST(Faults, ALoadUnderALieIsRightOrAnError) {
  LoadWithEach(
      LastingFaults(), [](const absl::Status& loaded) { EXPECT_THAT(loaded, Not(StatusIs(Code::kInternal))); },
      [](size_t, size_t) {});
}

struct CodeCase {
  const char* name;
  Lie lie;
  IoResult result;
  const char* says;
  bool is_repeated = false;
};

TEST(Faults, EachHasItsCodeAndWords) {
  const auto with_header = [](const char* name, const char* value) {
    return [=](Exchange* exchange) {
      exchange->Work();
      exchange->SetHeader(name, value);
    };
  };
  const CodeCase rows[] = {
      {"closed", Ends(Exchange::End::kClose, false), -ECONNRESET, "after 3 attempts", true},
      {"500", Answers(500, "InternalError", false), -EAGAIN,
       "\"InternalError\": \"as a test asked\" (request \"18EB\")", true},
      {"503", Answers(503, "SlowDown", false), -EUSERS, "SlowDown", true},
      {"429", Answers(429, "TooManyRequests", false), -EUSERS, "429", true},
      {"404", Answers(404, "NoSuchKey", false), -ENOENT, "404"},
      {"403", Answers(403, "AccessDenied", false), -EACCES, "AccessDenied"},
      {"301",
       [](Exchange* exchange) {
         exchange->Fail(301, "PermanentRedirect");
         exchange->SetHeader("x-amz-bucket-region", "ap-south-7");
       },
       -EDESTADDRREQ, "the bucket is in the region \"ap-south-7\", and the request was for \"eu-test-1\""},
      {"302", Answers(302, "Found", false), -EDESTADDRREQ, "redirects are not followed"},
      {"412", Answers(412, "PreconditionFailed", false), -ESTALE, "was replaced while it was read"},
      {"another ETag", with_header("ETag", "\"another\""), -ESTALE, "was replaced while it was read"},
      {"416", Answers(416, "InvalidRange", false), -ESTALE, "is shorter than it was"},
      {"another range", with_header("Content-Range", "bytes 1-200000/1048576"), -EBADMSG,
       "has bytes 1 to 200000 of 1048576; 0 to 199999 of 1048576 are wanted"},
      {"another size", with_header("Content-Range", "bytes 0-199999/1048577"), -EBADMSG, "of 1048577"},
      {"no range", with_header("Content-Range", "nonsense"), -EBADMSG, "no Content-Range that can be read"},
      {"encoded", with_header("Content-Encoding", "gzip"), -EBADMSG, "Content-Encoding \"gzip\""},
      {"200",
       [](Exchange* exchange) {
         exchange->Work();
         exchange->status = 200;
       },
       -EBADMSG, "the status 200"},
      {"a shorter length",
       [](Exchange* exchange) {
         exchange->Work();
         exchange->body.resize(1000);
       },
       -EBADMSG, "has 1000 bytes, its Content-Range 200000"},
      {"a longer length",
       [](Exchange* exchange) {
         exchange->Work();
         exchange->body.resize(200001);
       },
       -EBADMSG, "has 200001 bytes, its Content-Range 200000"},
      {"a shorter body",
       [](Exchange* exchange) {
         exchange->Work();
         exchange->has_length = false;
         exchange->body.resize(1000);
       },
       -EBADMSG, "ends 199000 bytes before the end"},
      {"a longer body",
       [](Exchange* exchange) {
         exchange->Work();
         exchange->has_length = false;
         exchange->body.resize(200001);
       },
       -EBADMSG, "longer than its Content-Range"},
      {"endless headers",
       [](Exchange* exchange) {
         exchange->Work();
         for (int i = 0; i < 5000; ++i) exchange->headers.emplace_back(absl::StrCat("X-", i), std::string(1000, 'x'));
       },
       -EBADMSG, ""},
  };
  for (const CodeCase& row : rows) {
    SCOPED_TRACE(row.name);
    LyingServer server;
    server.Put("bucket/a", PatternBytes(1 << 20));
    const std::unique_ptr<ObjectStore> store = StoreFor(server);
    FileSystem* const files = store->files();
    const IoResult handle = files->OpenToRead("s3://bucket/a");
    ASSERT_GE(handle, 0);
    server.LieFrom(1, row.lie);
    std::string read(200000, '\0');
    EXPECT_EQ(files->ReadAt(handle, 0, absl::MakeSpan(&read[0], read.size())), row.result) << files->LastDetail();
    EXPECT_THAT(files->LastDetail(), HasSubstr(row.says));
    EXPECT_THAT(files->LastDetail(), HasSubstr("s3://bucket/a"));
    EXPECT_EQ(store->stats().requests, row.is_repeated ? 4u : 2u);
    EXPECT_EQ(files->Close(handle), 0);
    // None of a wrong answer is used; of one that ends too early or too late, what came before.
    const bool may_be_partial = absl::EndsWith(row.name, "body");
    if (row.result == -EBADMSG && !may_be_partial) {
      EXPECT_TRUE(read == std::string(200000, '\0')) << "bytes were used";
    }
  }
}

TEST(Faults, AServerThatIsNotThereIsUnavailable) {
  std::string url;
  {
    LyingServer server;
    url = server.url();
  }
  ObjectStoreOptions options;
  options.endpoint = url;
  options.max_attempts = 2;
  options.credentials = MakeAnonymousCredentials();
  const std::unique_ptr<ObjectStore> store = StoreFor(options);
  CheckpointReaderOptions read;
  read.read.file_system = store->files();
  EXPECT_THAT(CheckpointReader::Open(kFaultyPrefix, read).status(), StatusIs(Code::kUnavailable));
  EXPECT_THAT(SaveAll(store->files()), StatusIs(Code::kUnavailable));
}

TEST(Faults, AServerThatCannotBeSpokenToIsUnavailable) {
  LyingServer server;
  const struct {
    const char* name;
    std::string endpoint;
    const char* says;
  } rows[] = {
      {"no such name", "http://no-such-host.invalid", "resolve host"},
      {"no TLS", "https://" + server.url().substr(std::strlen("http://")), "SSL|timed out"},  // libcurl 7 or 8
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.name);
    ObjectStoreOptions options = OptionsFor(server);
    options.endpoint = row.endpoint;
    options.max_attempts = 2;
    const std::unique_ptr<ObjectStore> store = StoreFor(options);
    const absl::Status status = OpenSaved(store->files()).status();
    EXPECT_THAT(status, StatusIs(Code::kUnavailable, ContainsRegex(row.says)));
    EXPECT_THAT(status, StatusIs(Code::kUnavailable, HasSubstr("after 2 attempts")));
  }
}

TEST(Faults, ABrokenAnswerIsContinuedFromTheFirstMissingByte) {
  LyingServer server;
  const std::string bytes = PatternBytes(1 << 20);
  server.Put("bucket/a", bytes);
  const std::unique_ptr<ObjectStore> store = StoreFor(server);
  server.LieAt(1, CutsTheBody(Exchange::End::kClose));
  std::string read;
  ASSERT_EQ(ReadFile(store->files(), "s3://bucket/a", &read), 0);
  EXPECT_TRUE(read == bytes);
  const std::vector<ServerRequest> requests = server.requests();
  ASSERT_EQ(requests.size(), 3u);
  EXPECT_EQ(requests[1].Header("range"), "bytes=0-983039");
  EXPECT_EQ(requests[2].Header("range"), "bytes=491520-983039");
}

TEST(Faults, KeysThatExpireAreRenewedOnce) {
  class Counting final : public CredentialSource {
   public:
    absl::StatusOr<Credentials> Get(bool renew) override {
      if (renew) ++renewals;
      return Credentials{renewals == 0 ? "OLDKEY" : "NEWKEY", "secret", "", absl::InfiniteFuture()};
    }
    int renewals = 0;
  };
  LyingServer server;
  server.Put("bucket/a", "bytes");
  ObjectStoreOptions options = OptionsFor(server);
  const auto source = std::make_shared<Counting>();
  options.credentials = source;
  const std::unique_ptr<ObjectStore> store = StoreFor(options);
  server.LieAlways([](Exchange* exchange) {
    if (absl::StrContains(exchange->request.Header("authorization"), "NEWKEY")) return exchange->Work();
    exchange->Fail(400, "ExpiredToken");
  });
  std::string read;
  EXPECT_EQ(ReadFile(store->files(), "s3://bucket/a", &read), 0) << store->files()->LastDetail();
  EXPECT_EQ(source->renewals, 1);
  server.LieAlways(Answers(400, "ExpiredToken", false));
  EXPECT_EQ(ReadFile(store->files(), "s3://bucket/a", &read), -EACCES);
  EXPECT_EQ(source->renewals, 2);
}

TEST(Faults, AReaderDuringOverwriteGetsOldNewOrAborted) {
  const std::vector<Tensor> news = {PatternTensor(7 << 20, 11), PatternTensor(1000, 12), PatternTensor(5 << 20, 13)};
  LyingServer old_server;
  LyingServer new_server;
  {
    const std::unique_ptr<ObjectStore> store = StoreFor(old_server);
    ASSERT_OK(SaveAll(store->files()));
    const std::unique_ptr<ObjectStore> other = StoreFor(new_server);
    ASSERT_OK(SaveCheckpoint(other->files(), kFaultyPrefix, news));
  }
  const size_t count = RequestsOf(LoadAll, &old_server);
  const std::string old_data = old_server.Get(kFaultyData);
  const std::string old_index = old_server.Get(kFaultyIndex);
  for (size_t request = 0; request < count; ++request) {
    SCOPED_TRACE(request);
    old_server.Put(kFaultyData, old_data);
    old_server.Put(kFaultyIndex, old_index);
    old_server.ForgetRequests();
    old_server.LieAt(request, [&](Exchange* exchange) {
      old_server.Put(kFaultyData, new_server.Get(kFaultyData));
      old_server.Put(kFaultyIndex, new_server.Get(kFaultyIndex));
      exchange->Work();
    });
    const std::unique_ptr<ObjectStore> store = StoreFor(old_server);
    const absl::Status loaded = LoadAll(store->files());
    old_server.TellTheTruth();
    if (loaded.ok()) continue;
    const bool is_new = request == 0 && LoadAndCompare(store->files(), news).ok();
    // Data of the new checkpoint under the old index, opened in between: its checksums tell.
    EXPECT_TRUE(is_new || absl::IsAborted(loaded) || absl::IsDataLoss(loaded)) << loaded;
  }
}

}  // namespace
}  // namespace tensorcask
