// What a server, a network and a signal can do to a save and a load, at each of their requests.

#include <dirent.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/object_store/object_store.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tests/serialize/object_store/store_testing.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using namespace ::tensorcask::testing;  // NOLINT(google-build-using-namespace)
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using Code = absl::StatusCode;
using Lie = LyingServer::Lie;

constexpr char kPrefix[] = "s3://bucket/run/step-1";
constexpr char kIndex[] = "bucket/run/step-1.index";
constexpr char kData[] = "bucket/run/step-1.data-00000-of-00001";

// Three parts of 5 MiB.
const std::vector<Tensor>& SavedTensors() {
  static const std::vector<Tensor>& tensors =
      *new std::vector<Tensor>{PatternTensor(7 << 20, 1), PatternTensor(1000, 2), PatternTensor(5 << 20, 3)};
  return tensors;
}

absl::Status Compare(const Tensor& tensor, const Tensor& wanted) {
  const bool is_equal = tensor.shape() == wanted.shape() &&
                        std::memcmp(tensor.data<uint8_t>(), wanted.data<uint8_t>(), wanted.TotalBytes()) == 0;
  return is_equal ? absl::OkStatus() : absl::InternalError("a tensor has other elements than were saved");
}

absl::StatusOr<CheckpointReader> Open(FileSystem* files) {
  CheckpointReaderOptions options;
  options.read.file_system = files;
  return CheckpointReader::Open(kPrefix, options);
}

// OK if all tensors come back as they were saved, one after the other.
absl::Status LoadAndCompare(FileSystem* files, const std::vector<Tensor>& wanted) {
  CASK_ASSIGN_OR_RETURN(const CheckpointReader reader, Open(files));
  for (size_t i = 0; i < wanted.size(); ++i) {
    CASK_ASSIGN_OR_RETURN(const Tensor tensor, reader.Read(std::to_string(i)));
    CASK_RETURN_IF_ERROR(Compare(tensor, wanted[i]));
  }
  return absl::OkStatus();
}

Lie Answers(int status, const std::string& code, bool works) {
  return [=](Exchange* exchange) {
    if (works) exchange->Work();
    exchange->Fail(status, code);
  };
}

Lie Ends(Exchange::End end, bool works) {
  return [=](Exchange* exchange) {
    if (works) exchange->Work();
    exchange->is_silent = true;
    exchange->end = end;
  };
}

Lie CutsTheBody(Exchange::End end) {
  return [=](Exchange* exchange) {
    exchange->Work();
    exchange->sent_bytes = exchange->body.size() / 2;
    if (exchange->body.empty()) exchange->is_silent = true;
    exchange->end = end;
  };
}

struct Fault {
  const char* name;
  Lie lie;
};

// What passes: a request that is repeated succeeds.
std::vector<Fault> PassingFaults() {
  std::vector<Fault> faults = {
      {"closed before", Ends(Exchange::End::kClose, false)},
      {"closed after", Ends(Exchange::End::kClose, true)},
      {"reset before", Ends(Exchange::End::kReset, false)},
      {"reset after", Ends(Exchange::End::kReset, true)},
      {"body cut", CutsTheBody(Exchange::End::kClose)},
      {"body cut and reset", CutsTheBody(Exchange::End::kReset)},
      {"slow down", Answers(503, "SlowDown", false)},
      {"retry after",
       [](Exchange* exchange) {
         exchange->Fail(429, "TooManyRequests");
         exchange->SetHeader("Retry-After", "0");
       }},
  };
  for (const int status : {408, 500, 502, 503, 504}) {
    faults.push_back({"an error before", Answers(status, "InternalError", false)});
    faults.push_back({"an error after", Answers(status, "InternalError", true)});
  }
  return faults;
}

// What does not pass, or is no answer to the question.
std::vector<Fault> LastingFaults() {
  const auto with_header = [](const char* name, const char* value) {
    return [=](Exchange* exchange) {
      exchange->Work();
      exchange->SetHeader(name, value);
    };
  };
  return {
      {"forbidden", Answers(403, "AccessDenied", false)},
      {"forbidden after", Answers(403, "AccessDenied", true)},
      {"not found", Answers(404, "NoSuchKey", false)},
      {"no such upload", Answers(404, "NoSuchUpload", false)},
      {"no such upload after", Answers(404, "NoSuchUpload", true)},
      {"precondition failed", Answers(412, "PreconditionFailed", false)},
      {"precondition failed after", Answers(412, "PreconditionFailed", true)},
      {"conflict", Answers(409, "ConditionalRequestConflict", false)},
      {"conflict after", Answers(409, "ConditionalRequestConflict", true)},
      {"bad digest", Answers(400, "BadDigest", false)},
      {"moved", Answers(301, "PermanentRedirect", false)},
      {"not implemented", Answers(501, "NotImplemented", false)},
      {"an error with 200", [](Exchange* exchange) { exchange->Fail(200, "InternalError"); }},
      {"an error with 200 after",
       [](Exchange* exchange) {
         exchange->Work();
         exchange->Fail(200, "InternalError");
       }},
      {"empty", [](Exchange* exchange) { exchange->Answer(200, ""); }},
      {"garbage", [](Exchange* exchange) { exchange->Answer(200, std::string(1000, '\xfe')); }},
      {"garbage for a range", [](Exchange* exchange) { exchange->Answer(206, std::string(1000, 'x')); }},
      {"no status", [](Exchange* exchange) { exchange->Answer(0, ""); }},
      {"another range", with_header("Content-Range", "bytes 0-9/100")},
      {"a huge size", with_header("Content-Range", "bytes 0-9223372036854775806/9223372036854775807")},
      {"a huge length", with_header("Content-Length", "9223372036854775807")},
      {"a negative length", with_header("Content-Length", "-1")},
      {"two lengths",
       [](Exchange* exchange) {
         exchange->Work();
         exchange->headers.emplace_back("Content-Length", absl::StrCat(exchange->body.size()));
         exchange->headers.emplace_back("content-length", absl::StrCat(exchange->body.size() + 1));
       }},
      {"encoded", with_header("Content-Encoding", "gzip")},
      {"another ETag", with_header("ETag", "\"another\"")},
      {"no ETag", with_header("ETag", "")},
      {"endless headers",
       [](Exchange* exchange) {
         exchange->Work();
         for (int i = 0; i < 5000; ++i) exchange->headers.emplace_back(absl::StrCat("X-", i), std::string(1000, 'x'));
       }},
      {"an XML bomb",
       [](Exchange* exchange) {
         std::string bomb = "<?xml version=\"1.0\"?><!DOCTYPE a [<!ENTITY a \"aaaaaaaaaa\">";
         for (char c = 'b'; c < 'k'; ++c) {
           absl::StrAppend(&bomb, "<!ENTITY ", std::string(1, c), " \"");
           for (int i = 0; i < 10; ++i) absl::StrAppend(&bomb, "&", std::string(1, static_cast<char>(c - 1)), ";");
           absl::StrAppend(&bomb, "\">");
         }
         exchange->Answer(200, bomb + "]><ListBucketResult><Contents><Key>&j;</Key></Contents></ListBucketResult>");
       }},
      {"deep XML",
       [](Exchange* exchange) {
         std::string deep;
         for (int i = 0; i < 100000; ++i) deep += "<a>";
         exchange->Answer(200, deep);
       }},
  };
}

size_t RequestsOf(const std::function<absl::Status(FileSystem*)>& work, LyingServer* server) {
  server->ForgetRequests();
  const std::unique_ptr<ObjectStore> store = StoreFor(*server);
  EXPECT_OK(work(store->files()));
  return server->num_requests();
}

absl::Status Save(FileSystem* files) { return SaveCheckpoint(files, kPrefix, SavedTensors()); }
absl::Status Load(FileSystem* files) { return LoadAndCompare(files, SavedTensors()); }
// In one call, with several requests at a time.
absl::Status LoadAtOnce(FileSystem* files) {
  CASK_ASSIGN_OR_RETURN(const CheckpointReader reader, Open(files));
  CASK_ASSIGN_OR_RETURN(const auto tensors, reader.ReadAll());
  if (tensors.size() != SavedTensors().size()) return absl::InternalError("other tensors than were saved");
  for (const auto& [name, tensor] : tensors) CASK_RETURN_IF_ERROR(Compare(tensor, SavedTensors()[std::stoul(name)]));
  return absl::OkStatus();
}

// After a save that may have failed: no index, or a whole checkpoint.
void ExpectNothingOrAll(LyingServer* server, const absl::Status& saved) {
  server->TellTheTruth();
  EXPECT_TRUE(!saved.ok() || server->Has(kIndex)) << "the save said OK and published nothing";
  if (!server->Has(kIndex)) return;
  const std::unique_ptr<ObjectStore> store = StoreFor(*server);
  EXPECT_OK(LoadAndCompare(store->files(), SavedTensors())) << "after a save that said " << saved;
}

// Calls check(fault, request) for each request of a save, with a fresh server that lies there.
void SaveWithEach(
    const std::vector<Fault>& faults, const std::function<void(LyingServer*, const absl::Status&)>& check,
    const std::function<void(LyingServer*)>& prepare = [](LyingServer*) {}) {
  size_t count = 0;
  {
    LyingServer server;
    count = RequestsOf(Save, &server);
  }
  ASSERT_GE(count, 9u);
  for (const Fault& fault : faults) {
    for (size_t request = 0; request < count; ++request) {
      SCOPED_TRACE(absl::StrCat(fault.name, " at request ", request));
      LyingServer server;
      prepare(&server);
      server.LieAt(request, fault.lie);
      absl::Status saved;
      {
        const std::unique_ptr<ObjectStore> store = StoreFor(server);
        saved = Save(store->files());
      }
      check(&server, saved);
      if (::testing::Test::HasFailure()) return;
    }
  }
}

TEST(Faults, ASaveSurvivesEachThatPasses) {
  SaveWithEach(PassingFaults(), [](LyingServer* server, const absl::Status& saved) {
    EXPECT_OK(saved);
    ExpectNothingOrAll(server, saved);
    EXPECT_LE(server->num_uploads(), 1u);  // one whose id was lost
  });
}

TEST(Faults, ASaveSurvivesEachThatPassesOnAStoreThatForgetsUploads) {
  SaveWithEach(
      {{"closed after", Ends(Exchange::End::kClose, true)}, {"an error after", Answers(500, "InternalError", true)}},
      [](LyingServer* server, const absl::Status& saved) {
        EXPECT_OK(saved);
        ExpectNothingOrAll(server, saved);
      },
      [](LyingServer* server) {
        server->repeats_complete = false;
        server->lies_about_abort = true;
      });
}

TEST(Faults, ASaveUnderALieIsWholeOrInvisible) { SaveWithEach(LastingFaults(), ExpectNothingOrAll); }

TEST(Faults, ASaveThroughAServerThatFallsSilentIsWholeOrInvisible) {
  size_t count = 0;
  {
    LyingServer server;
    count = RequestsOf(Save, &server);
  }
  for (const bool forgets : {false, true}) {
    for (const bool works : {false, true}) {
      for (size_t request = 0; request < count; ++request) {
        SCOPED_TRACE(absl::StrCat("request ", request, works ? ", which is done" : "", forgets ? ", forgetful" : ""));
        LyingServer server;
        server.repeats_complete = !forgets;
        server.lies_about_abort = forgets;
        // The first request is done or not, and all that follow are not.
        server.LieFrom(request, Ends(Exchange::End::kClose, false));
        ObjectStoreOptions options = OptionsFor(server);
        options.max_attempts = 2;
        server.LieAt(request, Ends(Exchange::End::kClose, works));
        absl::Status saved;
        {
          const std::unique_ptr<ObjectStore> store = StoreFor(options);
          saved = Save(store->files());
          EXPECT_FALSE(saved.ok());
        }
        ExpectNothingOrAll(&server, saved);
      }
    }
  }
}

TEST(Faults, AStalledTransferIsBrokenOffAndRepeated) {
  LyingServer server;
  const std::unique_ptr<ObjectStore> store = StoreFor(server);
  ASSERT_OK(Save(store->files()));
  server.ForgetRequests();
  server.LieAt(1, CutsTheBody(Exchange::End::kHang));
  ASSERT_OK(Load(store->files()));
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
    ASSERT_OK(Save(store->files()));
  }
  for (absl::Status (*load)(FileSystem*) : {&Load, &LoadAtOnce}) {
    const size_t count = RequestsOf(load, &server);
    ASSERT_GE(count, 5u);
    for (const Fault& fault : faults) {
      for (size_t request = 0; request < count; ++request) {
        SCOPED_TRACE(absl::StrCat(fault.name, " at request ", request, load == &LoadAtOnce ? " of one call" : ""));
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
  EXPECT_THAT(CheckpointReader::Open(kPrefix, read).status(), StatusIs(Code::kUnavailable));
  EXPECT_THAT(Save(store->files()), StatusIs(Code::kUnavailable));
}

TEST(Faults, AServerThatCannotBeSpokenToIsUnavailable) {
  LyingServer server;
  const struct {
    const char* name;
    std::string endpoint;
    const char* says;
  } rows[] = {
      {"no such name", "http://no-such-host.invalid", "resolve host"},
      {"no TLS", "https://" + server.url().substr(std::strlen("http://")), "SSL"},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.name);
    ObjectStoreOptions options = OptionsFor(server);
    options.endpoint = row.endpoint;
    options.max_attempts = 2;
    const std::unique_ptr<ObjectStore> store = StoreFor(options);
    const absl::Status status = Open(store->files()).status();
    EXPECT_THAT(status, StatusIs(Code::kUnavailable, HasSubstr(row.says)));
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

// The one moment that matters: each answer to the request that publishes, whether it was done or not.
TEST(Faults, WhoPublishedIsFoundOut) {
  for (const size_t size : {size_t{1000}, size_t{6} << 20}) {
    const std::string kind = size == 1000 ? "put" : "complete";
    const std::string bytes = PatternBytes(size);
    struct Case {
      const char* name;
      int status;  // 0: no answer
      const char* code;
      bool works;
      bool other;  // another writer published meanwhile
      IoResult result;
    };
    const IoResult conflict = size == 1000 ? 0 : -ESTALE;
    const Case rows[] = {
        {"412, ours", 412, "PreconditionFailed", true, false, 0},
        {"412, another's", 412, "PreconditionFailed", false, true, -EEXIST},
        {"lost, ours", 0, "", true, false, 0},
        {"lost, nobody's", 0, "", false, false, 0},
        {"lost, another's", 0, "", false, true, -EEXIST},
        {"500, ours", 500, "InternalError", true, false, 0},
        {"500, nobody's", 500, "InternalError", false, false, 0},
        {"500, another's", 500, "InternalError", false, true, -EEXIST},
        {"404, ours", 404, "NoSuchUpload", true, false, 0},
        {"404, nobody's", 404, "NoSuchUpload", false, false, 0},
        {"404, another's", 404, "NoSuchUpload", false, true, -EEXIST},
        {"409, ours", 409, "ConditionalRequestConflict", true, false, 0},
        {"409, nobody's", 409, "ConditionalRequestConflict", false, false, conflict},
        {"409, another's", 409, "ConditionalRequestConflict", false, true, -EEXIST},
        {"an error with 200, ours", 200, "InternalError", true, false, 0},
        {"403", 403, "AccessDenied", false, false, -EACCES},
    };
    for (const Case& row : rows) {
      SCOPED_TRACE(absl::StrCat(kind, ": ", row.name));
      if (row.status == 200 && size == 1000) continue;  // a PUT has no such answer
      LyingServer server;
      const std::unique_ptr<ObjectStore> store = StoreFor(server);
      FileSystem* const files = store->files();
      const std::string temporary = "s3://bucket/a.tmp-0000000000000000";
      const IoResult handle = files->CreateToPublish(temporary, "s3://bucket/a");
      ASSERT_EQ(files->Append(handle, bytes), static_cast<IoResult>(size));
      ASSERT_EQ(files->Close(handle), 0);
      bool lied = false;
      server.LieAlways([&](Exchange* exchange) {
        if (exchange->request.Kind() != kind || std::exchange(lied, true)) return exchange->Work();
        if (row.other) server.Put("bucket/a", "another");
        if (row.works) exchange->Work();
        if (row.status != 0) return exchange->Fail(row.status, row.code);
        exchange->is_silent = true;
        exchange->end = Exchange::End::kClose;
      });
      EXPECT_EQ(files->Rename(temporary, "s3://bucket/a", FileSystem::OnExisting::kRefuse), row.result)
          << files->LastDetail();
      EXPECT_TRUE(lied);
      EXPECT_EQ(server.Get("bucket/a") == bytes, row.result == 0);
      EXPECT_EQ(server.Get("bucket/a") == "another", row.other);
      EXPECT_EQ(files->Remove(temporary), row.result == 0 ? -ENOENT : 0) << files->LastDetail();
      EXPECT_EQ(server.num_uploads(), 0u);
      EXPECT_EQ(server.Has("bucket/a"), row.result == 0 || row.other);
    }
  }
}

TEST(Faults, AWriterThatCannotFindOutKeepsWhatMayBePublished) {
  LyingServer server;
  ObjectStoreOptions options = OptionsFor(server);
  options.max_attempts = 1;
  const std::unique_ptr<ObjectStore> store = StoreFor(options);
  FileSystem* const files = store->files();
  const std::string temporary = "s3://bucket/a.tmp-0000000000000000";
  const IoResult handle = files->CreateToPublish(temporary, "s3://bucket/a");
  ASSERT_EQ(files->Append(handle, "bytes"), 5);
  ASSERT_EQ(files->Close(handle), 0);
  server.LieFrom(0, Ends(Exchange::End::kClose, false));
  server.LieAt(0, Ends(Exchange::End::kClose, true));
  EXPECT_LT(files->Rename(temporary, "s3://bucket/a", FileSystem::OnExisting::kRefuse), 0);
  EXPECT_THAT(files->LastDetail(), HasSubstr("whether it was published is unknown"));
  server.TellTheTruth();
  // The object is there, so the temporary file is not: it has its final name.
  EXPECT_EQ(files->Remove(temporary), -ENOENT);
  EXPECT_EQ(server.Get("bucket/a"), "bytes");
}

TEST(Faults, APartWhoseChecksumIsRefusedIsSentAgain) {
  LyingServer server;
  int refusals = 0;
  const std::unique_ptr<ObjectStore> store = StoreFor(server);
  server.LieAlways([&](Exchange* exchange) {
    if (exchange->request.Kind() != "part" || exchange->request.query.at("partNumber") != "2" || refusals == 2) {
      return exchange->Work();
    }
    ++refusals;
    exchange->Fail(400, "BadDigest");
  });
  EXPECT_OK(Save(store->files()));
  EXPECT_EQ(refusals, 2);
  server.LieAlways([&](Exchange* exchange) {
    if (exchange->request.Kind() != "part") return exchange->Work();
    exchange->Fail(400, "BadDigest");
  });
  EXPECT_THAT(SaveCheckpoint(store->files(), "s3://bucket/other", SavedTensors()), StatusIs(Code::kDataLoss));
  EXPECT_EQ(server.num_uploads(), 0u);
}

TEST(Faults, AReaderDuringOverwriteGetsOldNewOrAborted) {
  const std::vector<Tensor> news = {PatternTensor(7 << 20, 11), PatternTensor(1000, 12), PatternTensor(5 << 20, 13)};
  LyingServer old_server;
  LyingServer new_server;
  {
    const std::unique_ptr<ObjectStore> store = StoreFor(old_server);
    ASSERT_OK(Save(store->files()));
    const std::unique_ptr<ObjectStore> other = StoreFor(new_server);
    ASSERT_OK(SaveCheckpoint(other->files(), kPrefix, news));
  }
  const size_t count = RequestsOf(Load, &old_server);
  const std::string old_data = old_server.Get(kData);
  const std::string old_index = old_server.Get(kIndex);
  for (size_t request = 0; request < count; ++request) {
    SCOPED_TRACE(request);
    old_server.Put(kData, old_data);
    old_server.Put(kIndex, old_index);
    old_server.ForgetRequests();
    old_server.LieAt(request, [&](Exchange* exchange) {
      old_server.Put(kData, new_server.Get(kData));
      old_server.Put(kIndex, new_server.Get(kIndex));
      exchange->Work();
    });
    const std::unique_ptr<ObjectStore> store = StoreFor(old_server);
    const absl::Status loaded = Load(store->files());
    old_server.TellTheTruth();
    if (loaded.ok()) continue;
    const bool is_new = request == 0 && LoadAndCompare(store->files(), news).ok();
    // Data of the new checkpoint under the old index, opened in between: its checksums tell.
    EXPECT_TRUE(is_new || absl::IsAborted(loaded) || absl::IsDataLoss(loaded)) << loaded;
  }
}

size_t OpenDescriptors() {
  size_t count = 0;
  DIR* const folder = opendir("/proc/self/fd");
  while (folder != nullptr && readdir(folder) != nullptr) ++count;
  if (folder != nullptr) closedir(folder);
  return count;
}

uint64_t ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  uint64_t all = 0;
  uint64_t resident = 0;
  file >> all >> resident;
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

TEST(Faults, FailedSavesLeaveNoDescriptorsNoMemoryAndNoUploads) {
  LyingServer server;
  ObjectStoreOptions options = OptionsFor(server);
  options.max_attempts = 1;
  const std::unique_ptr<ObjectStore> store = StoreFor(options);
  const std::vector<Tensor> small = {PatternTensor(1000)};
  const std::vector<Tensor> large = {PatternTensor(6 << 20)};
  std::atomic<int> save{0};
  server.LieAlways([&](Exchange* exchange) {
    const std::string kind = exchange->request.Kind();
    const bool is_refused = kind == "put" || kind == "complete" || (kind == "part" && save % 40 == 0);
    return is_refused ? exchange->Fail(403, "AccessDenied") : exchange->Work();
  });
  size_t descriptors = 0;
  uint64_t resident = 0;
  for (save = 0; save < 1000; ++save) {
    if (save == 200) descriptors = OpenDescriptors(), resident = ResidentBytes();
    server.ForgetRequests();
    // An upload in parts now and then.
    const std::vector<Tensor>& tensors = save % 20 == 0 ? large : small;
    ASSERT_THAT(SaveCheckpoint(store->files(), kPrefix, tensors), StatusIs(Code::kPermissionDenied));
  }
  EXPECT_LE(OpenDescriptors(), descriptors + 2);
  EXPECT_LE(ResidentBytes(), resident + (uint64_t{8} << 20));
  EXPECT_EQ(server.num_uploads(), 0u);
  EXPECT_THAT(server.Paths(), IsEmpty());
}

TEST(Faults, AProcessKilledAtAnyRequestOfASaveLeavesItWholeOrInvisible) {
  size_t count = 0;
  {
    LyingServer server;
    count = RequestsOf(Save, &server);
  }
  for (const bool works : {false, true}) {
    for (size_t request = 0; request < count; ++request) {
      SCOPED_TRACE(absl::StrCat("killed at request ", request, works ? ", which is done" : ""));
      LyingServer server;
      int ready[2] = {};
      ASSERT_EQ(pipe(ready), 0);
      const pid_t child = fork();
      if (child == 0) {
        char go = 0;
        if (read(ready[0], &go, 1) != 1) _exit(1);
        const std::unique_ptr<ObjectStore> store = StoreFor(server);
        _exit(Save(store->files()).ok() ? 0 : 2);
      }
      ASSERT_GT(child, 0);
      server.LieAt(request, [&](Exchange* exchange) {
        if (works) exchange->Work();
        kill(child, SIGKILL);
        exchange->is_silent = true;
        exchange->end = Exchange::End::kClose;
      });
      ASSERT_EQ(write(ready[1], "x", 1), 1);
      int status = 0;
      ASSERT_EQ(waitpid(child, &status, 0), child);
      close(ready[0]);
      close(ready[1]);
      EXPECT_TRUE(WIFSIGNALED(status));
      ExpectNothingOrAll(&server, absl::UnknownError("killed"));
      // The next save is not hindered by what was left. It is refused if the first is there.
      const std::unique_ptr<ObjectStore> store = StoreFor(server);
      const bool was_published = server.Has(kIndex) || server.Has(kData);
      EXPECT_EQ(SaveCheckpoint(store->files(), kPrefix, SavedTensors(), /*overwrite=*/false).code(),
                was_published ? Code::kAlreadyExists : Code::kOk);
    }
  }
}

}  // namespace
}  // namespace tensorcask
