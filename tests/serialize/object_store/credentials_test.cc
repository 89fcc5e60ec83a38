#include "tensorcask/serialize/object_store/credentials.h"

#include <stdlib.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/object_store/object_store.h"
#include "tensorcask/tests/support/lying_server.h"
#include "tensorcask/tests/support/status_matchers.h"
#include "tensorcask/tests/support/temp_folder.h"

namespace tensorcask {
namespace {

using namespace ::tensorcask::testing;  // NOLINT(google-build-using-namespace)
using ::testing::HasSubstr;
using ::testing::Not;
using Code = absl::StatusCode;

// An environment that has nothing of S3, and no machine that answers.
class DefaultCredentialsTest : public ::testing::Test {
 protected:
  DefaultCredentialsTest() {
    for (const char* name :
         {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_NO_SIGN_REQUEST",
          "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
          "AWS_CONTAINER_AUTHORIZATION_TOKEN", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
          "AWS_EC2_METADATA_SERVICE_ENDPOINT", "AWS_REGION", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"}) {
      unsetenv(name);
    }
    Set("AWS_EC2_METADATA_DISABLED", "true");
    Set("AWS_SHARED_CREDENTIALS_FILE", folder_.Path("credentials"));
    Set("AWS_CONFIG_FILE", folder_.Path("config"));
  }

  static void Set(const char* name, const std::string& value) { setenv(name, value.c_str(), 1); }
  static absl::StatusOr<Credentials> Find() { return MakeDefaultCredentials()->Get(/*renew=*/false); }
  static std::string KeyId() {
    const absl::StatusOr<Credentials> found = Find();
    return found.ok() ? found->access_key_id : found.status().ToString();
  }

  const TempFolder folder_;
};

TEST_F(DefaultCredentialsTest, NowhereIsAnErrorThatNamesThePlaces) {
  EXPECT_THAT(Find(), StatusIs(Code::kNotFound, HasSubstr("AWS_ACCESS_KEY_ID")));
  Set("AWS_NO_SIGN_REQUEST", "true");
  ASSERT_OK_AND_ASSIGN(const Credentials none, Find());
  EXPECT_TRUE(none.is_anonymous());
}

TEST_F(DefaultCredentialsTest, TheEnvironmentComesBeforeTheProfile) {
  folder_.Write("credentials",
                "[default]\naws_access_key_id=FILE\naws_secret_access_key=s\n"
                "[work]\naws_access_key_id=WORK\naws_secret_access_key=s\naws_session_token=t\n");
  folder_.Write("config", "[profile third]\naws_access_key_id=THIRD\naws_secret_access_key=s\n");
  EXPECT_EQ(KeyId(), "FILE");
  Set("AWS_PROFILE", "work");
  EXPECT_EQ(KeyId(), "WORK");
  EXPECT_EQ(Find()->session_token, "t");
  Set("AWS_PROFILE", "third");
  EXPECT_EQ(KeyId(), "THIRD");
  Set("AWS_PROFILE", "none");
  EXPECT_THAT(Find(), StatusIs(Code::kNotFound, HasSubstr("no profile \"none\"")));
  Set("AWS_ACCESS_KEY_ID", "ENV");
  EXPECT_THAT(Find(), StatusIs(Code::kFailedPrecondition, HasSubstr("wanted together")));
  Set("AWS_SECRET_ACCESS_KEY", "s");
  EXPECT_EQ(KeyId(), "ENV");
}

TEST_F(DefaultCredentialsTest, TheFilesAreReadAgainForNewKeys) {
  const auto write = [&](const std::string& id) {
    folder_.Write("credentials", absl::StrCat("[default]\naws_access_key_id=", id, "\naws_secret_access_key=s\n"));
  };
  write("OLD");
  const std::shared_ptr<CredentialSource> source = MakeDefaultCredentials();
  EXPECT_EQ(source->Get(/*renew=*/false)->access_key_id, "OLD");
  write("NEW");
  EXPECT_EQ(source->Get(/*renew=*/false)->access_key_id, "OLD");
  EXPECT_EQ(source->Get(/*renew=*/true)->access_key_id, "NEW");
  EXPECT_EQ(source->Get(/*renew=*/false)->access_key_id, "NEW");
}

TEST_F(DefaultCredentialsTest, NoProgramIsRun) {
  const std::string mark = folder_.Path("was-run");
  folder_.Write("config", absl::StrCat("[default]\ncredential_process = touch ", mark, "\n"));
  EXPECT_THAT(Find(), StatusIs(Code::kFailedPrecondition, HasSubstr("credential_process, which is not used")));
  EXPECT_FALSE(std::filesystem::exists(mark));
}

TEST_F(DefaultCredentialsTest, OfAContainer) {
  LyingServer server;
  std::string authorization;
  server.LieAlways([&](Exchange* exchange) {
    authorization = exchange->request.Header("authorization");
    exchange->Answer(200,
                     R"({"AccessKeyId":"BOX","SecretAccessKey":"s","Token":"t","Expiration":"2999-01-01T00:00:00Z"})");
  });
  Set("AWS_CONTAINER_CREDENTIALS_FULL_URI", server.url() + "/keys");
  Set("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", folder_.Write("token", "from-the-file\n"));
  const std::shared_ptr<CredentialSource> source = MakeDefaultCredentials();
  ASSERT_OK_AND_ASSIGN(const Credentials found, source->Get(false));
  EXPECT_EQ(found.access_key_id, "BOX");
  EXPECT_EQ(authorization, "from-the-file");
  ASSERT_OK(source->Get(false));
  EXPECT_EQ(server.num_requests(), 1u);  // remembered
  ASSERT_OK(source->Get(true));
  EXPECT_EQ(server.num_requests(), 2u);
  Set("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://example.org/keys");
  EXPECT_THAT(Find(), StatusIs(Code::kInvalidArgument, HasSubstr("in the clear")));
  // What follows the "@" is the host for curl.
  for (const char* url : {"http://127.0.0.1:80@example.org/keys", "http://[::1]:80@example.org/keys",
                          "https://127.0.0.1@example.org/keys"}) {
    Set("AWS_CONTAINER_CREDENTIALS_FULL_URI", url);
    EXPECT_THAT(Find(), StatusIs(Code::kInvalidArgument, HasSubstr("with a user name"))) << url;
  }
  Set("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "@example.org/keys");
  EXPECT_THAT(Find(), StatusIs(Code::kInvalidArgument, HasSubstr("with a user name")));
  Set("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", ".example.org/keys");
  EXPECT_THAT(Find(), StatusIs(Code::kInvalidArgument, HasSubstr("in the clear")));
}

TEST_F(DefaultCredentialsTest, OfTheMachineWithAToken) {
  LyingServer server;
  server.LieAlways([&](Exchange* exchange) {
    const ServerRequest& request = exchange->request;
    if (request.method == "PUT" && request.path == "latest/api/token") return exchange->Answer(200, "TOKEN");
    if (request.Header("x-aws-ec2-metadata-token") != "TOKEN") return exchange->Answer(401, "");
    const std::string roles = "latest/meta-data/iam/security-credentials/";
    if (request.path == roles) return exchange->Answer(200, "my-role");
    if (request.path != roles + "my-role") return exchange->Answer(404, "");
    exchange->Answer(200, R"({"AccessKeyId":"MACHINE","SecretAccessKey":"s","Token":"t"})");
  });
  Set("AWS_EC2_METADATA_DISABLED", "false");
  Set("AWS_EC2_METADATA_SERVICE_ENDPOINT", server.url() + "/");
  EXPECT_EQ(KeyId(), "MACHINE");
}

TEST_F(DefaultCredentialsTest, AnswersThatAreNoneAreRefusedWithoutAPieceOfThem) {
  LyingServer server;
  Set("AWS_CONTAINER_CREDENTIALS_FULL_URI", server.url() + "/keys");
  for (const char* answer :
       {"", "secret", "[\"secret\"]", R"({"AccessKeyId":"secret"})", R"({"AccessKeyId":"secret","SecretAccessKey":7})",
        R"({"AccessKeyId":"secret","SecretAccessKey":"secret","Expiration":"secret"})",
        "{\"AccessKeyId\":\"secret\\r\\nX: y\",\"SecretAccessKey\":\"secret\"}"}) {
    SCOPED_TRACE(answer);
    server.LieAlways([&](Exchange* exchange) { exchange->Answer(200, answer); });
    const absl::StatusOr<Credentials> found = Find();
    EXPECT_THAT(found, StatusIs(Code::kInvalidArgument));
    EXPECT_THAT(found.status().ToString(), Not(HasSubstr("secret\"")));
  }
  server.LieAlways([&](Exchange* exchange) { exchange->Answer(500, "secret"); });
  EXPECT_THAT(Find(), StatusIs(Code::kUnavailable, Not(HasSubstr("secret"))));
  server.LieAlways([&](Exchange* exchange) { exchange->Answer(200, std::string(1 << 20, 'x')); });
  EXPECT_THAT(Find(), StatusIs(Code::kUnavailable));
}

TEST_F(DefaultCredentialsTest, RegionAndEndpointComeFromTheEnvironmentAndTheProfile) {
  LyingServer server;
  folder_.Write("config", absl::StrCat("[default]\nregion = profile-1\nendpoint_url = ", server.url(),
                                       "\naws_access_key_id=A\naws_secret_access_key=s\n"));
  server.Put("bucket/a", "bytes");
  {
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ObjectStore> store, ObjectStore::Create({}));
    EXPECT_GE(store->files()->OpenToRead("s3://bucket/a"), 0);
  }
  Set("AWS_REGION", "environment-1");
  {
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ObjectStore> store, ObjectStore::Create({}));
    EXPECT_GE(store->files()->OpenToRead("s3://bucket/a"), 0);
  }
  const std::vector<ServerRequest> requests = server.requests();
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_THAT(requests[0].Header("authorization"), HasSubstr("/profile-1/s3/"));
  EXPECT_THAT(requests[1].Header("authorization"), HasSubstr("/environment-1/s3/"));
}

}  // namespace
}  // namespace tensorcask
