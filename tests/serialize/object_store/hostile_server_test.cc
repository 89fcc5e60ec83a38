// What a hostile server can take of a reader's memory and time: answers that never end, and answers that hardly begin.

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/object_store/object_store.h"
#include "tensorcask/tests/serialize/object_store/store_testing.h"
#include "tensorcask/tests/support/lying_server.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using namespace ::tensorcask::testing;  // NOLINT(google-build-using-namespace)
using ::testing::HasSubstr;
using ::testing::SizeIs;
using Code = absl::StatusCode;

constexpr uint64_t kMiB = uint64_t{1} << 20;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kHasSanitizer = true;
#else
constexpr bool kHasSanitizer = false;
#endif

// How much memory this process takes at most, beside what it has now.
class PeakMemory {
 public:
  PeakMemory() : before_(Of("VmRSS:")) { std::ofstream("/proc/self/clear_refs") << "5"; }
  // 0 with a sanitizer, which keeps freed memory for a while.
  uint64_t Growth() const { return kHasSanitizer ? 0 : std::max(Of("VmHWM:"), before_) - before_; }

 private:
  static uint64_t Of(absl::string_view name) {
    std::ifstream file("/proc/self/status");
    for (std::string line; std::getline(file, line);) {
      absl::string_view rest = line;
      if (!absl::ConsumePrefix(&rest, name)) continue;
      uint64_t kilobytes = 0;
      EXPECT_TRUE(absl::SimpleAtoi(rest.substr(0, rest.find("kB")), &kilobytes)) << line;
      return kilobytes << 10;
    }
    ADD_FAILURE() << "/proc/self/status has no " << name;
    return 0;
  }

  const uint64_t before_;
};

// Some twenty bytes a second.
std::string Drip() {
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  return "x";
}

TEST(HostileServer, ADripIsBrokenOffAsAStall) {
  const struct {
    const char* name;
    LyingServer::Lie lie;
  } rows[] = {
      {"of a body",
       [](Exchange* exchange) {
         exchange->Work();
         exchange->sent_bytes = 0;
         exchange->has_length = false;  // an answer to HEAD has none to wait for
         exchange->more = Drip;
       }},
      {"of headers",
       [](Exchange* exchange) {
         exchange->is_silent = true;
         exchange->more = [is_first = true]() mutable {
           return std::exchange(is_first, false) ? "HTTP/1.1 200 OK\r\nX: " : Drip();
         };
       }},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.name);
    LyingServer server;
    server.Put("bucket/a", PatternBytes(1 << 20));
    server.LieAlways(row.lie);
    ObjectStoreOptions options = OptionsFor(server);
    options.max_attempts = 2;
    const std::unique_ptr<ObjectStore> store = StoreFor(options);
    std::string read;
    EXPECT_EQ(ReadFile(store->files(), "s3://bucket/a", &read), -ETIMEDOUT) << store->files()->LastDetail();
    EXPECT_THAT(store->files()->LastDetail(), HasSubstr("after 2 attempts"));
    EXPECT_EQ(server.num_requests(), 2u);
    std::vector<std::string> names;
    EXPECT_EQ(store->files()->List("s3://bucket", &names), -ETIMEDOUT);
  }
}

TEST(HostileServer, AnswersThatDoNotEndTakeLittleMemory) {
  const std::string line = absl::StrCat("X-Filler: ", std::string(1000, 'x'), "\r\n");
  const std::string bytes(64 << 10, 'x');
  const auto endless_body = [&](Exchange* exchange) {
    exchange->Work();
    exchange->has_length = false;
    exchange->more = [&] { return bytes; };
  };
  const struct {
    const char* name;
    LyingServer::Lie lie;
  } rows[] = {
      {"headers",
       [&](Exchange* exchange) {
         exchange->is_silent = true;
         exchange->more = [&line, is_first = true]() mutable {
           return std::exchange(is_first, false) ? "HTTP/1.1 200 OK\r\n" : line;
         };
       }},
      {"one header",
       [&](Exchange* exchange) {
         exchange->is_silent = true;
         exchange->more = [&bytes, is_first = true]() mutable {
           return std::exchange(is_first, false) ? "HTTP/1.1 200 OK\r\nX: " : bytes;
         };
       }},
      {"interim answers",
       [&](Exchange* exchange) {
         exchange->is_silent = true;
         exchange->more = [] { return "HTTP/1.1 100 Continue\r\n\r\n"; };
       }},
      {"the body", endless_body},
      {"the body of an error",
       [&](Exchange* exchange) {
         endless_body(exchange);
         exchange->status = 403;
       }},
      {"a body that begins as XML",
       [&](Exchange* exchange) {
         endless_body(exchange);
         exchange->Answer(200, "<ListBucketResult><Contents><Key>");
       }},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.name);
    LyingServer server;
    server.Put("bucket/a", PatternBytes(1 << 20));
    ObjectStoreOptions options = OptionsFor(server);
    options.max_attempts = 2;
    const std::unique_ptr<ObjectStore> store = StoreFor(options);
    FileSystem* const files = store->files();
    const IoResult handle = files->OpenToRead("s3://bucket/a");
    ASSERT_GE(handle, 0);
    server.LieAlways(row.lie);
    const PeakMemory peak;
    std::string read(200000, '\0');
    EXPECT_LT(files->ReadAt(handle, 0, absl::MakeSpan(&read[0], read.size())), 0);
    std::vector<std::string> names;
    EXPECT_LT(files->List("s3://bucket/", &names), 0);
    EXPECT_FALSE(store->ListUploads("s3://bucket/").ok());
    EXPECT_LT(files->Remove("s3://bucket/b.tmp-0000000000000000"), 0);
    EXPECT_LE(peak.Growth(), 24 * kMiB) << "of 8 MiB for a list";
    // A file that is opened may come as a whole, up to 64 MiB.
    EXPECT_LT(files->OpenToRead("s3://bucket/a"), 0);
    EXPECT_LE(peak.Growth(), 160 * kMiB);
    EXPECT_EQ(files->Close(handle), 0);
  }
}

// ---- Lists ----------------------------------------------------------------------------------------------------------

// A page of `count` entries, which says that another one follows.
using Entry = std::function<std::string(size_t number)>;
std::string PageOf(const char* root, size_t first, size_t count, const Entry& entry) {
  std::string page = absl::StrCat("<", root, "><IsTruncated>true</IsTruncated><NextContinuationToken>t", first,
                                  "</NextContinuationToken><NextKeyMarker>t", first, "</NextKeyMarker>");
  for (size_t i = first; i < first + count; ++i) absl::StrAppend(&page, entry(i));
  return absl::StrCat(page, "</", root, ">");
}

LyingServer::Lie EndlessList(const char* root, size_t page_entries, Entry entry) {
  return [=, first = std::make_shared<std::atomic<size_t>>(0)](Exchange* exchange) {
    exchange->Answer(200, PageOf(root, first->fetch_add(page_entries), page_entries, entry));
  };
}

TEST(HostileServer, AListThatDoesNotEndIsBounded) {
  const std::string filler(1000, 'k');
  const Entry object = [&](size_t i) {
    return absl::StrCat("<Contents><Key>run/", filler, i, "</Key><Size>1</Size></Contents>");
  };
  const Entry folder = [&](size_t i) {
    return absl::StrCat("<CommonPrefixes><Prefix>run/", filler, i, "/</Prefix></CommonPrefixes>");
  };
  const Entry upload = [&](size_t i) {
    return absl::StrCat("<Upload><Key>run/", i, "</Key><UploadId>", filler, "</UploadId></Upload>");
  };
  for (const Entry& entry : {object, folder}) {
    LyingServer server;
    const std::unique_ptr<ObjectStore> store = StoreFor(server);
    server.LieAlways(EndlessList("ListBucketResult", 1000, entry));
    const PeakMemory peak;
    std::vector<std::string> names;
    EXPECT_EQ(store->files()->List("s3://bucket/run", &names), -EFBIG);
    EXPECT_THAT(store->files()->LastDetail(), HasSubstr("names take more than 256 MiB"));
    EXPECT_LE(peak.Growth(), 320 * kMiB);
    EXPECT_LT(server.num_requests(), 300u);
  }
  LyingServer server;
  const std::unique_ptr<ObjectStore> store = StoreFor(server);
  server.LieAlways(EndlessList("ListMultipartUploadsResult", 1000, upload));
  const PeakMemory peak;
  EXPECT_THAT(store->ListUploads("s3://bucket/run/").status(),
              StatusIs(Code::kResourceExhausted, HasSubstr("takes more than 256 MiB")));
  EXPECT_LE(peak.Growth(), 320 * kMiB);
}

TEST(HostileServer, APageOfOtherNamesEndsAList) {
  const std::pair<const char*, Entry> rows[] = {
      {"another folder", [](size_t i) { return absl::StrCat("<Contents><Key>other/", i, "</Key></Contents>"); }},
      {"a folder below", [](size_t i) { return absl::StrCat("<Contents><Key>run/below/", i, "</Key></Contents>"); }},
      {"a folder above", [](size_t) { return "<Contents><Key>run/../secret</Key></Contents>"; }},
      {"two levels of folders",
       [](size_t i) { return absl::StrCat("<CommonPrefixes><Prefix>run/a/", i, "/</Prefix></CommonPrefixes>"); }},
      {"the folder itself, without an end", [](size_t) { return "<Contents><Key>run/</Key></Contents>"; }},
      {"nothing", [](size_t) { return ""; }},
  };
  for (const auto& [name, entry] : rows) {
    SCOPED_TRACE(name);
    LyingServer server;
    const std::unique_ptr<ObjectStore> store = StoreFor(server);
    server.LieAlways(EndlessList("ListBucketResult", 1000, entry));
    std::vector<std::string> names;
    EXPECT_EQ(store->files()->List("s3://bucket/run", &names), -EBADMSG) << store->files()->LastDetail();
    EXPECT_THAT(names, SizeIs(0));
    EXPECT_LE(server.num_requests(), 2u);
  }
  LyingServer server;
  const std::unique_ptr<ObjectStore> store = StoreFor(server);
  server.LieAlways(EndlessList("ListMultipartUploadsResult", 1000, [](size_t) { return ""; }));
  EXPECT_THAT(store->ListUploads("s3://bucket/run/").status(), StatusIs(Code::kDataLoss, HasSubstr("do not end")));
  server.LieAlways(EndlessList("ListMultipartUploadsResult", 1000, [filler = std::string(1000, 'k')](size_t i) {
    return absl::StrCat("<Upload><Key>other/", filler, i, "</Key><UploadId>1</UploadId></Upload>");
  }));
  EXPECT_THAT(store->ListUploads("s3://bucket/run/").status(), StatusIs(Code::kResourceExhausted));
  EXPECT_LT(server.num_requests(), 300u);
}

}  // namespace
}  // namespace tensorcask
