// What a server can answer to the one request that publishes a file, done or not.

#include <cerrno>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/object_store/object_store.h"
#include "tensorcask/tests/serialize/object_store/fault_testing.h"
#include "tensorcask/tests/serialize/object_store/store_testing.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using namespace ::tensorcask::testing;  // NOLINT(google-build-using-namespace)
using ::testing::HasSubstr;

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

// A refusal says nothing about the request before it, which may still be on its way.
TEST(Faults, AClearRefusalDoesNotSettleALostRequestBeforeIt) {
  LyingServer server;
  const std::unique_ptr<ObjectStore> store = StoreFor(server);
  FileSystem* const files = store->files();
  const std::string temporary = "s3://bucket/a.tmp-0000000000000000";
  const IoResult handle = files->CreateToPublish(temporary, "s3://bucket/a");
  ASSERT_EQ(files->Append(handle, "bytes"), 5);
  ASSERT_EQ(files->Close(handle), 0);
  int puts = 0;
  server.LieAlways([&](Exchange* exchange) {
    if (exchange->request.Kind() != "put") return exchange->Work();
    if (puts++ > 0) return exchange->Fail(403, "AccessDenied");
    exchange->is_silent = true;
    exchange->end = Exchange::End::kClose;
  });
  EXPECT_EQ(files->Rename(temporary, "s3://bucket/a", FileSystem::OnExisting::kRefuse), -EACCES);
  EXPECT_EQ(puts, 2);
  // So what the file needs must stay.
  EXPECT_EQ(files->Remove(temporary), -EAGAIN);
  EXPECT_THAT(files->LastDetail(), HasSubstr("may take effect later"));
}

}  // namespace
}  // namespace tensorcask
