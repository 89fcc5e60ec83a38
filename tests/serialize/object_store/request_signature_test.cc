#include "tensorcask/serialize/object_store/internal/request_signature.h"

#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/object_store/internal/sha256.h"

namespace tensorcask {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

// The examples of Amazon's "Signature Calculations for the Authorization Header".
TEST(RequestSignature, AmazonsExamples) {
  const Credentials credentials = {"AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "",
                                   absl::InfiniteFuture()};
  const absl::Time time = absl::FromUnixSeconds(1369353600);  // 2013-05-24
  const struct {
    const char* method;
    const char* path;
    std::vector<std::string> headers;
    const char* body;
    const char* signature;
  } rows[] = {
      {"GET",
       "/test.txt",
       {"Range: bytes=0-9"},
       "",
       "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"},
      {"PUT",
       "/test%24file.text",
       {"Date: Fri, 24 May 2013 00:00:00 GMT", "x-amz-storage-class: REDUCED_REDUNDANCY"},
       "Welcome to Amazon S3.",
       "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"},
      {"GET", "/?lifecycle=", {}, "", "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"},
      {"GET", "?max-keys=2&prefix=J", {}, "", "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"},
  };
  for (const auto& row : rows) {
    std::vector<std::string> headers = row.headers;
    headers.push_back(absl::StrCat("x-amz-content-sha256: ", internal::Sha256Hex(row.body)));
    internal::SignRequest(row.method, absl::StrCat("https://examplebucket.s3.amazonaws.com", row.path), credentials,
                          "us-east-1", time, &headers);
    EXPECT_THAT(headers.back(), HasSubstr(absl::StrCat(", Signature=", row.signature))) << row.path;
    EXPECT_THAT(headers.back(), HasSubstr("Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, "));
  }
}

TEST(RequestSignature, TheHostIsThatOfTheUrl) {
  const struct {
    const char* url;
    const char* host;
  } rows[] = {
      {"https://host/bucket/a?b=c:443", "Host: host"}, {"https://host:443/bucket/a", "Host: host"},
      {"https://host:80/bucket/a", "Host: host:80"},   {"http://host:80", "Host: host"},
      {"http://host:9000?a=b", "Host: host:9000"},     {"http://[::1]:9000/a", "Host: [::1]:9000"},
  };
  for (const auto& row : rows) {
    std::vector<std::string> headers = {"x-amz-content-sha256: UNSIGNED-PAYLOAD"};
    internal::SignRequest("GET", row.url, {"key", "secret", "", absl::InfiniteFuture()}, "r", absl::UnixEpoch(),
                          &headers);
    EXPECT_THAT(headers, Contains(row.host)) << row.url;
    EXPECT_THAT(headers, Contains("x-amz-date: 19700101T000000Z"));
  }
}

// RFC 4231, test cases 2 and 6: a short key, and one that is longer than a block.
TEST(RequestSignature, HmacSha256) {
  const auto hex = [](const std::string& bytes) { return absl::BytesToHexString(bytes); };
  EXPECT_EQ(hex(internal::HmacSha256("Jefe", "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(
      hex(internal::HmacSha256(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First")),
      "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

}  // namespace
}  // namespace tensorcask
