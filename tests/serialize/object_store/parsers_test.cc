// What is read of a server's answers and of the files of other programs, as pure functions of bytes.

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/object_store/internal/http_headers.h"
#include "tensorcask/serialize/object_store/internal/object_url.h"
#include "tensorcask/serialize/object_store/internal/profile_file.h"
#include "tensorcask/serialize/object_store/internal/sha256.h"
#include "tensorcask/serialize/object_store/internal/xml_answer.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using namespace ::tensorcask::internal;  // NOLINT(google-build-using-namespace)
using namespace ::tensorcask::testing;   // NOLINT(google-build-using-namespace)
using ::testing::HasSubstr;
using Code = absl::StatusCode;

TEST(HttpHeaders, ContentRanges) {
  const std::optional<ContentRange> range = ParseContentRange("bytes 10-99/1000");
  ASSERT_TRUE(range.has_value());
  EXPECT_TRUE(range->is_satisfied);
  EXPECT_EQ(range->first, 10u);
  EXPECT_EQ(range->last, 99u);
  EXPECT_EQ(range->total, 1000u);
  const std::optional<ContentRange> none = ParseContentRange("bytes */0");
  ASSERT_TRUE(none.has_value());
  EXPECT_FALSE(none->is_satisfied);
  for (const char* bad : {"", "bytes", "bytes ", "bytes 1-2", "bytes 1-2/*", "bytes 2-1/10", "bytes 0-10/10",
                          "bytes -1-2/10", "bytes 1--2/10", "bytes 0x1-2/10", "bytes 1-2/10 ", "bytes  1-2/10",
                          "items 1-2/10", "bytes 1-2/18446744073709551616", "bytes 1-2/9223372036854775807",
                          "bytes +1-2/10", "bytes 1-2/10/10", "bytes 1,2-3/10"}) {
    EXPECT_FALSE(ParseContentRange(bad).has_value()) << bad;
  }
}

TEST(HttpHeaders, ETags) {
  EXPECT_EQ(ParseETag("\"abc\""), "\"abc\"");
  EXPECT_EQ(ParseETag("W/\"abc\""), "W/\"abc\"");
  EXPECT_EQ(ParseETag("abc-2"), "\"abc-2\"");
  for (const char* bad : {"", "\"abc", "\"a b\"", "W/abc", "\"a\"b\"", "\"\x01\"", "a\r\nX: y"}) {
    EXPECT_EQ(ParseETag(bad), "") << bad;
  }
  EXPECT_EQ(ParseETag(std::string(2000, 'a')), "");
  EXPECT_TRUE(IsStrongETag("\"abc\""));
  EXPECT_FALSE(IsStrongETag("W/\"abc\""));
  EXPECT_FALSE(IsStrongETag(""));
}

TEST(HttpHeaders, RetryAfter) {
  const absl::Time now = absl::FromUnixSeconds(784111777);
  EXPECT_EQ(ParseRetryAfter("120", now), absl::Seconds(120));
  EXPECT_EQ(ParseRetryAfter("Sun, 06 Nov 1994 08:50:37 GMT", now), absl::Seconds(60));
  EXPECT_EQ(ParseRetryAfter("Sun, 06 Nov 1994 08:00:00 GMT", now), absl::ZeroDuration());
  EXPECT_EQ(ParseRetryAfter("4611686018427387904", now), absl::Seconds(1 << 30));
  EXPECT_FALSE(ParseRetryAfter("-1", now).has_value());
  EXPECT_FALSE(ParseRetryAfter("soon", now).has_value());
}

TEST(HttpHeaders, ANewAnswerForgetsTheOneBefore) {
  AnswerHeaders headers;
  EXPECT_TRUE(headers.AddLine("HTTP/1.1 100 Continue\r\n"));
  EXPECT_TRUE(headers.AddLine("ETag: \"old\"\r\n"));
  EXPECT_TRUE(headers.AddLine("HTTP/1.1 200 OK\r\n"));
  EXPECT_EQ(headers.etag, "");
  EXPECT_TRUE(headers.AddLine("Content-Length: 5\r\n"));
  EXPECT_TRUE(headers.AddLine("content-length:5"));
  EXPECT_FALSE(headers.AddLine("Content-Length: 6\r\n"));
  EXPECT_FALSE(headers.is_chunked);
  EXPECT_TRUE(headers.AddLine("Transfer-Encoding: Chunked\r\n"));
  EXPECT_TRUE(headers.is_chunked);
  EXPECT_TRUE(headers.AddLine("Content-Range: bytes 0-1/2"));
  EXPECT_TRUE(headers.content_range.has_value());
  EXPECT_TRUE(headers.AddLine("Content-Range: bytes 0-1/2"));
  EXPECT_FALSE(headers.content_range.has_value());  // two are as bad as none
  AnswerHeaders many;
  bool goes_on = true;
  for (int i = 0; i < 1000 && goes_on; ++i) goes_on = many.AddLine(absl::StrCat("X: ", std::string(1000, 'x')));
  EXPECT_FALSE(goes_on);
}

TEST(ObjectUrls, AreEncodedAndDecoded) {
  ASSERT_OK_AND_ASSIGN(const ObjectUrl url, ParseObjectUrl("s3://bucket/a b/c+d"));
  EXPECT_EQ(url.bucket, "bucket");
  EXPECT_EQ(url.key, "a b/c+d");
  EXPECT_EQ(PercentEncoded(url.key, "/"), "a%20b/c%2Bd");
  EXPECT_EQ(PercentDecoded("a%20b%2"), "a b%2");
  EXPECT_EQ(PercentDecoded("%zz%4"), "%zz%4");
  ASSERT_OK_AND_ASSIGN(const ObjectUrl web, ParseObjectUrl("https://host:8080/größe a?token=x%20y"));
  EXPECT_EQ(web.http, "https://host:8080/gr%C3%B6%C3%9Fe%20a?token=x%20y");
  EXPECT_EQ(web.name, "https://host:8080/größe a");  // without what may be a secret
  ASSERT_OK_AND_ASSIGN(const ObjectUrl bucket, ParseObjectUrl("s3://bucket"));
  EXPECT_TRUE(bucket.is_folder);
}

TEST(ObjectUrls, Hosts) {
  EXPECT_EQ(HostOf("https://host:8080/path"), "host");
  EXPECT_EQ(HostOf("http://[::1]:80/"), "::1");
  EXPECT_EQ(HostOf("nonsense"), "");
  EXPECT_EQ(HostOf("http://127.0.0.1:80@example.org/"), "");  // curl connects to example.org
  EXPECT_EQ(HostOf("http://host/path@2"), "host");
  for (const char* host : {"localhost", "LOCALHOST", "127.0.0.1", "127.9.9.9", "::1"}) EXPECT_TRUE(IsLoopback(host));
  for (const char* host : {"host", "127.example.org", "128.0.0.1", "::2", ""}) EXPECT_FALSE(IsLoopback(host)) << host;
}

TEST(Sha256, OfTheStandard) {
  EXPECT_EQ(Sha256Hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Sha256Hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Sha256Hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(Sha256Hex(std::string(1000000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(ProfileFiles, SectionsAndSettings) {
  const ProfileFile file = ParseProfileFile(
      "# comment\n"
      "before = nothing\n"
      "[default]\n"
      "aws_access_key_id = AKIA\r\n"
      "Region=eu-1 # here\n"
      "s3 =\n"
      "  region = nested\n"
      "[profile other]\n"
      "region = us-2\n"
      "[broken\n"
      "region = lost\n"
      "[default]\n"
      "aws_secret_access_key=a/b+c=\n");
  EXPECT_EQ(file.Find("default", "aws_access_key_id"), "AKIA");
  EXPECT_EQ(file.Find("default", "region"), "eu-1");
  EXPECT_EQ(file.Find("default", "aws_secret_access_key"), "a/b+c=");
  EXPECT_EQ(file.Find("other", "region"), "us-2");
  EXPECT_EQ(file.Find("none", "region"), "");
  EXPECT_TRUE(file.Has("other"));
  EXPECT_FALSE(file.Has("broken"));
}

TEST(XmlAnswers, AreRead) {
  ASSERT_OK_AND_ASSIGN(const StoreError error,
                       ParseStoreError("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>NoSuchKey</Code>"
                                       "<Message>a &amp; b</Message><RequestId>18EB</RequestId></Error>"));
  EXPECT_EQ(error.code, "NoSuchKey");
  EXPECT_EQ(error.message, "a & b");
  EXPECT_EQ(error.request_id, "18EB");
  ASSERT_OK_AND_ASSIGN(
      const ObjectPage page,
      ParseObjectPage("<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
                      "<Contents><Key>a%20b</Key><LastModified>2026-01-02T03:04:05.678Z</LastModified>"
                      "<Size>7</Size></Contents><CommonPrefixes><Prefix>c/</Prefix></CommonPrefixes>"
                      "<EncodingType>url</EncodingType>"
                      "<IsTruncated>true</IsTruncated><NextContinuationToken>t=</NextContinuationToken>"
                      "</ListBucketResult>"));
  ASSERT_EQ(page.objects.size(), 1u);
  EXPECT_EQ(page.objects[0].key, "a b");
  EXPECT_EQ(page.objects[0].size_bytes, 7u);
  EXPECT_EQ(page.objects[0].modified_unix_seconds, 1767323045);
  EXPECT_EQ(page.folders, std::vector<std::string>{"c/"});
  EXPECT_EQ(page.next, "t=");
}

// A store that ignores encoding-type=url sends keys as they are, and does not say that it encoded them.
TEST(XmlAnswers, KeysAreDecodedIfThePageSaysThatTheyAreEncoded) {
  struct Case {
    const char* name;
    const char* encoding;
    const char* listed;
    const char* key;
  };
  const char* const kUrl = "<EncodingType>url</EncodingType>";
  for (const Case& row : {Case{"Amazon and MinIO", kUrl, "run/50%25+off%2B", "run/50% off+"},
                          Case{"Ceph", kUrl, "run/50%25%20off%2B", "run/50% off+"},
                          Case{"not encoded", "", "run/50%20off+", "run/50%20off+"},
                          Case{"another encoding", "<EncodingType>none</EncodingType>", "a%20b", "a%20b"}}) {
    SCOPED_TRACE(row.name);
    for (const bool is_first : {true, false}) {
      const auto page = [&](const char* root, const std::string& entries) {
        return absl::StrCat("<", root, ">", is_first ? row.encoding : "", entries, is_first ? "" : row.encoding, "</",
                            root, ">");
      };
      ASSERT_OK_AND_ASSIGN(
          const ObjectPage objects,
          ParseObjectPage(page("ListBucketResult",
                               absl::StrCat("<Contents><Key>", row.listed, "</Key></Contents>",
                                            "<CommonPrefixes><Prefix>", row.listed, "/</Prefix></CommonPrefixes>"))));
      ASSERT_EQ(objects.objects.size(), 1u);
      EXPECT_EQ(objects.objects[0].key, row.key);
      EXPECT_EQ(objects.folders, std::vector<std::string>{absl::StrCat(row.key, "/")});
      ASSERT_OK_AND_ASSIGN(
          const UploadPage uploads,
          ParseUploadPage(page("ListMultipartUploadsResult",
                               absl::StrCat("<Upload><Key>", row.listed, "</Key><UploadId>a+%20b</UploadId></Upload>",
                                            "<IsTruncated>true</IsTruncated><NextKeyMarker>", row.listed,
                                            "</NextKeyMarker><NextUploadIdMarker>a+%20b</NextUploadIdMarker>"))));
      ASSERT_EQ(uploads.uploads.size(), 1u);
      EXPECT_EQ(uploads.uploads[0].key, row.key);
      EXPECT_EQ(uploads.uploads[0].upload_id, "a+%20b");
      EXPECT_EQ(uploads.next_key, row.key);
      EXPECT_EQ(uploads.next_upload_id, "a+%20b");
    }
  }
}

TEST(XmlAnswers, OthersAreRefused) {
  const auto page = [](const std::string& inside) {
    return ParseObjectPage("<ListBucketResult>" + inside + "</ListBucketResult>").status();
  };
  EXPECT_THAT(ParseObjectPage(""), StatusIs(Code::kDataLoss, HasSubstr("not XML")));
  EXPECT_THAT(ParseObjectPage("<html>"), StatusIs(Code::kDataLoss, HasSubstr("not XML")));
  EXPECT_THAT(ParseObjectPage("<html/>"), StatusIs(Code::kDataLoss, HasSubstr("\"html\"")));
  EXPECT_THAT(ParseObjectPage("<!DOCTYPE a [<!ENTITY b \"c\">]><ListBucketResult/>"),
              StatusIs(Code::kDataLoss, HasSubstr("document type")));
  EXPECT_THAT(page("<Contents><Size>-1</Size></Contents>"), StatusIs(Code::kDataLoss, HasSubstr("Contents/Size")));
  EXPECT_THAT(page("<Contents><Size>99999999999999999999</Size></Contents>"), StatusIs(Code::kDataLoss));
  EXPECT_THAT(page("<Contents><LastModified>now</LastModified></Contents>"), StatusIs(Code::kDataLoss));
  EXPECT_THAT(page("<IsTruncated>true</IsTruncated>"), StatusIs(Code::kDataLoss, HasSubstr("NextContinuationToken")));
  EXPECT_THAT(page("&a;"), StatusIs(Code::kDataLoss));
  std::string many;
  for (int i = 0; i < 1001; ++i) many += "<Contents><Key>a</Key></Contents>";
  EXPECT_THAT(page(many), StatusIs(Code::kDataLoss, HasSubstr("one too many")));
  std::string deep;
  for (int i = 0; i < 40; ++i) deep += "<a>";
  EXPECT_THAT(page(deep), StatusIs(Code::kDataLoss, HasSubstr("too many levels")));
  EXPECT_THAT(page("<a>" + std::string(20000, 'x') + "</a>"), StatusIs(Code::kDataLoss, HasSubstr("too long")));
  EXPECT_THAT(ParseUploadId("<InitiateMultipartUploadResult/>"), StatusIs(Code::kDataLoss, HasSubstr("UploadId")));
}

}  // namespace
}  // namespace tensorcask
