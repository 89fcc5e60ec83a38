#include "tensorcask/serialize/object_store/object_store.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/safetensors/safetensors_reader.h"
#include "tensorcask/tests/serialize/object_store/store_testing.h"
#include "tensorcask/tests/support/test_data.h"

namespace tensorcask {
namespace {

using namespace ::tensorcask::testing;  // NOLINT(google-build-using-namespace)
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(ObjectStore, ReadsFilesOfEachSize) {
  LyingServer server;
  const std::unique_ptr<ObjectStore> store = StoreFor(server);
  for (const size_t size : {0, 1, 65535, 65536, 65537, 3 << 20, 20 << 20}) {
    SCOPED_TRACE(size);
    const std::string bytes = PatternBytes(size);
    server.Put("bucket/file", bytes);
    for (const std::string& path : {std::string("s3://bucket/file"), server.url() + "/bucket/file"}) {
      SCOPED_TRACE(path);
      std::string read;
      ASSERT_EQ(ReadFile(store->files(), path, &read), 0) << store->files()->LastDetail();
      EXPECT_TRUE(read == bytes);
    }
  }
}

TEST(ObjectStore, OpeningIsOneRequestThatBringsTheEnd) {
  LyingServer server;
  const std::unique_ptr<ObjectStore> store = StoreFor(server);
  FileSystem* const files = store->files();
  const std::string bytes = PatternBytes(2 << 20);
  server.Put("bucket/a", bytes);
  server.Put("bucket/a.index", bytes);
  for (const auto& [path, tail] : {std::pair<std::string, size_t>{"s3://bucket/a", 64 << 10},
                                   std::pair<std::string, size_t>{"s3://bucket/a.index", 1 << 20}}) {
    SCOPED_TRACE(path);
    server.ForgetRequests();
    const IoResult handle = files->OpenToRead(path);
    ASSERT_GE(handle, 0);
    EXPECT_EQ(files->SizeOf(handle), 2 << 20);
    std::string read(tail, '\0');
    ASSERT_EQ(files->ReadAt(handle, bytes.size() - tail, absl::MakeSpan(&read[0], tail)), static_cast<IoResult>(tail));
    EXPECT_TRUE(read == bytes.substr(bytes.size() - tail));
    EXPECT_THAT(server.Kinds(), ElementsAre("open"));
    // What lies before the end needs another request, and small reads after each other share it.
    for (size_t i = 0; i < 100; ++i) {
      char byte = 0;
      ASSERT_EQ(files->ReadAt(handle, 8 * i, absl::MakeSpan(&byte, 1)), 1);
      EXPECT_EQ(byte, bytes[8 * i]);
    }
    EXPECT_THAT(server.Kinds(), ElementsAre("open", "read"));
    EXPECT_EQ(files->ReadAt(handle, bytes.size(), absl::MakeSpan(&read[0], 1)), 0);
    EXPECT_EQ(files->Close(handle), 0);
  }
}

TEST(ObjectStore, LargeRangesAreReadInPieces) {
  LyingServer server;
  ObjectStoreOptions options = OptionsFor(server);
  options.range_bytes = 1 << 20;
  const std::unique_ptr<ObjectStore> store = StoreFor(options);
  const std::string bytes = PatternBytes((7 << 20) + 123);
  server.Put("bucket/a", bytes);
  std::string read;
  ASSERT_EQ(ReadFile(store->files(), "s3://bucket/a", &read), 0);
  EXPECT_TRUE(read == bytes);
  // As many pieces as there are connections; the end came first.
  EXPECT_EQ(server.num_requests(), 1u + 4u);
  for (const ServerRequest& request : server.requests()) {
    EXPECT_EQ(request.Header("if-match").empty(), request.Kind() != "read");
  }
  const ReadShape shape = store->files()->read_shape();
  EXPECT_EQ(shape.piece_bytes, 1u << 20);
  EXPECT_EQ(shape.in_flight, 4);
  EXPECT_EQ(shape.gap_bytes, 1u << 20);
  EXPECT_TRUE(shape.joins_ranges);
  EXPECT_EQ(shape.longest_bytes, 4u << 20);
}

TEST(ObjectStore, APieceOfAPlanIsOneRequest) {
  LyingServer server;
  ObjectStoreOptions options = OptionsFor(server);
  options.range_bytes = 1 << 20;
  const std::unique_ptr<ObjectStore> store = StoreFor(options);
  FileSystem* const files = store->files();
  const std::string bytes = PatternBytes(8 << 20);
  server.Put("bucket/a", bytes);
  const IoResult handle = files->OpenToRead("s3://bucket/a");
  ASSERT_GE(handle, 0);
  server.ForgetRequests();
  std::string first(3 << 20, '\0');
  std::string second(500, '\0');
  std::vector<ReadRange> ranges = {{1000, absl::MakeSpan(&first[0], first.size())},
                                   {(3 << 20) + 5000, absl::MakeSpan(&second[0], second.size())}};
  ASSERT_EQ(files->ReadPieceAt(handle, ranges), 0) << files->LastDetail();
  EXPECT_TRUE(first == bytes.substr(1000, first.size()));
  EXPECT_TRUE(second == bytes.substr((3 << 20) + 5000, second.size()));
  EXPECT_THAT(server.Kinds(), ElementsAre("read"));
  ranges[1].offset = bytes.size() - 499;
  EXPECT_EQ(files->ReadPieceAt(handle, ranges), -ENODATA);
  server.Put("bucket/a", PatternBytes(8 << 20, 2));
  ranges.pop_back();
  EXPECT_EQ(files->ReadPieceAt(handle, ranges), -ESTALE);
  EXPECT_EQ(files->Close(handle), 0);
  EXPECT_EQ(files->ReadPieceAt(handle, ranges), -EBADF);
}

TEST(ObjectStore, AFileIsReadWhileItIsBeingOpened) {
  LyingServer server;
  const std::unique_ptr<ObjectStore> store = StoreFor(server);
  FileSystem* const files = store->files();
  const std::string bytes = PatternBytes(1 << 20);
  server.Put("bucket/a", bytes);
  for (int round = 0; round < 20; ++round) {
    const IoResult handle = files->OpenToReadSoon("s3://bucket/a");
    ASSERT_GE(handle, 0);
    std::string out(300000, '\0');
    std::vector<ReadRange> ranges = {{1000, absl::Span<char>(nullptr, 100000)},
                                     {200000, absl::Span<char>(nullptr, 200000)}};
    const auto find_memory = [&] {
      ranges[0].out = absl::MakeSpan(&out[0], 100000);
      ranges[1].out = absl::MakeSpan(&out[100000], 200000);
      return true;
    };
    ASSERT_EQ(files->ReadPieceSoon(handle, absl::MakeSpan(ranges), find_memory), 0) << files->LastDetail();
    EXPECT_TRUE(out == bytes.substr(1000, 100000) + bytes.substr(200000, 200000));
    EXPECT_EQ(files->SizeOf(handle), static_cast<IoResult>(bytes.size()));
    EXPECT_EQ(files->ReadPieceSoon(handle, absl::MakeSpan(ranges), [] { return false; }), -ECANCELED);
    EXPECT_EQ(files->Close(handle), 0);
  }
  // A memory that is not found, and a range that the file does not have.
  for (const bool fits : {true, false}) {
    const IoResult handle = files->OpenToReadSoon("s3://bucket/a");
    ASSERT_GE(handle, 0);
    ReadRange range = {fits ? 0 : bytes.size() - 10, absl::Span<char>(nullptr, 100)};
    const IoResult read = files->ReadPieceSoon(handle, absl::MakeSpan(&range, 1), [&] {
      EXPECT_TRUE(fits) << "memory is asked for when the size is known to be right";
      return false;
    });
    EXPECT_LT(read, 0);
    EXPECT_EQ(files->Close(handle), 0);
  }
  const IoResult missing = files->OpenToReadSoon("s3://bucket/none");
  ASSERT_GE(missing, 0);
  ReadRange range = {0, absl::Span<char>(nullptr, 100)};
  EXPECT_LT(files->ReadPieceSoon(missing, absl::MakeSpan(&range, 1),
                                 [] {
                                   ADD_FAILURE() << "there is no such file";
                                   return false;
                                 }),
            0);
  EXPECT_EQ(files->SizeOf(missing), -ENOENT);
  EXPECT_THAT(files->LastDetail(), HasSubstr("404"));
  FileInfo info;
  EXPECT_EQ(files->DescribeOpen(missing, &info), -ENOENT);
  EXPECT_EQ(files->Close(missing), 0);
  EXPECT_EQ(files->OpenToReadSoon("s3://bucket/folder/"), -EISDIR);
}

TEST(ObjectStore, RangesInAnyOrderAndPastTheEnd) {
  LyingServer server;
  const std::unique_ptr<ObjectStore> store = StoreFor(server);
  FileSystem* const files = store->files();
  const std::string bytes = PatternBytes(1 << 20);
  server.Put("bucket/a", bytes);
  const IoResult handle = files->OpenToRead("s3://bucket/a");
  ASSERT_GE(handle, 0);
  std::string first(200000, '\0');
  std::string second(100, '\0');
  std::vector<ReadRange> ranges = {{500000, absl::MakeSpan(&second[0], second.size())},
                                   {1000, absl::MakeSpan(&first[0], first.size())}};
  ASSERT_EQ(files->ReadManyAt(handle, ranges), 0);
  EXPECT_TRUE(first == bytes.substr(1000, first.size()));
  EXPECT_TRUE(second == bytes.substr(500000, second.size()));
  ranges.push_back({bytes.size() - 10, absl::MakeSpan(&second[0], 11)});
  EXPECT_EQ(files->ReadManyAt(handle, ranges), -ENODATA);
  EXPECT_EQ(files->Close(handle), 0);
}

TEST(ObjectStore, NearRangesAreOneRequest) {
  LyingServer server;
  const std::unique_ptr<ObjectStore> store = StoreFor(server);
  FileSystem* const files = store->files();
  const std::string bytes = PatternBytes(24 << 20);
  server.Put("bucket/a", bytes);
  const IoResult handle = files->OpenToRead("s3://bucket/a");
  ASSERT_GE(handle, 0);
  // A gap of a MiB, none, one of more, and ranges that overlap; the last one lies in the end that opening brought.
  const std::vector<std::pair<uint64_t, size_t>> places = {
      {1000, 3 << 20},      {(4 << 20) + 1000, 1 << 20}, {(5 << 20) + 1000, 100},
      {(7 << 20), 1 << 20}, {(7 << 20) + 500, 1 << 20},  {bytes.size() - 200000, 200000}};
  std::vector<std::string> out;
  std::vector<ReadRange> ranges;
  for (const auto& [offset, size] : places) out.emplace_back(size, '\0');
  for (size_t i = 0; i < places.size(); ++i) {
    ranges.push_back({places[i].first, absl::MakeSpan(&out[i][0], out[i].size())});
  }
  std::reverse(ranges.begin(), ranges.end());
  // An answer that breaks off is asked for from the first missing byte: in a range, in a gap, and at the end of one.
  for (const size_t sent : {size_t{5}, size_t{3} << 20, (size_t{3} << 20) + 500000, size_t{4} << 20}) {
    SCOPED_TRACE(sent);
    for (std::string& one : out) std::fill(one.begin(), one.end(), '\0');
    server.ForgetRequests();
    server.LieAlways([sent](Exchange* exchange) {
      exchange->Work();
      if (exchange->request.Header("range") != "bytes=1000-5243979") return;
      exchange->sent_bytes = sent;
      exchange->end = Exchange::End::kClose;
    });
    ASSERT_EQ(files->ReadManyAt(handle, ranges), 0) << files->LastDetail();
    for (size_t i = 0; i < places.size(); ++i) {
      EXPECT_TRUE(out[i] == bytes.substr(places[i].first, places[i].second)) << i;
    }
    EXPECT_EQ(server.num_requests(), 5u);
  }
  EXPECT_EQ(files->Close(handle), 0);
}

TEST(ObjectStore, ReadsSafetensorsOverHttp) {
  const std::string folder = TestDataFolder("safetensors");
  if (folder.empty()) GTEST_SKIP() << "no test data";
  LyingServer server;
  const std::unique_ptr<ObjectStore> store = StoreFor(server);
  SafetensorsReaderOptions remote;
  remote.read.file_system = store->files();
  int count = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    const std::string name = file.path().filename().string();
    if (file.path().extension() != ".safetensors") continue;
    SCOPED_TRACE(name);
    server.Put("files/" + name, ReadFileOrFail(file.path().string()));
    const absl::StatusOr<SafetensorsReader> here = SafetensorsReader::Open(file.path().string());
    const absl::StatusOr<SafetensorsReader> there = SafetensorsReader::Open(server.url() + "/files/" + name, remote);
    ASSERT_EQ(here.status().code(), there.status().code()) << there.status();
    if (!here.ok()) continue;
    const auto expected = here->ReadAll();
    const auto tensors = there->ReadAll();
    ASSERT_EQ(tensors.status().code(), expected.status().code()) << tensors.status();
    if (!expected.ok()) continue;
    ASSERT_EQ(tensors->size(), expected->size());
    for (const auto& [tensor_name, tensor] : *expected) {
      ASSERT_EQ(tensors->count(tensor_name), 1u);
      EXPECT_EQ(tensors->at(tensor_name).ToString(), tensor.ToString());
    }
    ++count;
  }
  EXPECT_GT(count, 10);
}

TEST(ObjectStore, AServerWithoutRangesIsReadUpTo64MiB) {
  LyingServer server;
  server.ignores_ranges = true;
  const std::unique_ptr<ObjectStore> store = StoreFor(server);
  const std::string bytes = PatternBytes(3 << 20);
  server.Put("files/a", bytes);
  std::string read;
  ASSERT_EQ(ReadFile(store->files(), server.url() + "/files/a", &read), 0);
  EXPECT_TRUE(read == bytes);
  EXPECT_THAT(server.Kinds(), ElementsAre("open"));
  server.Put("files/b", std::string((64 << 20) + 1, 'x'));
  EXPECT_EQ(ReadFile(store->files(), server.url() + "/files/b", &read), -EOPNOTSUPP);
  EXPECT_THAT(store->files()->LastDetail(), HasSubstr("the server does not answer ranges"));
}

TEST(ObjectStore, WebServersAreOnlyRead) {
  LyingServer server;
  const std::unique_ptr<ObjectStore> store = StoreFor(server);
  FileSystem* const files = store->files();
  const std::string path = server.url() + "/files/a";
  EXPECT_EQ(files->CreateToPublish(path + ".tmp-0000000000000000", path), -EROFS);
  EXPECT_EQ(files->Remove(path), -EROFS);
  std::vector<std::string> names;
  EXPECT_EQ(files->List(server.url() + "/files", &names), -EOPNOTSUPP);
  EXPECT_THAT(server.Kinds(), IsEmpty());
  EXPECT_THAT(files->LastDetail(), HasSubstr("cannot be listed"));
}

TEST(ObjectStore, DescribesObjectsAndFolders) {
  LyingServer server;
  const std::unique_ptr<ObjectStore> store = StoreFor(server);
  FileSystem* const files = store->files();
  server.Put("bucket/run/a.index", "12345");
  FileInfo info;
  ASSERT_EQ(files->Describe("s3://bucket/run/a.index", &info), 0);
  EXPECT_EQ(info.type, FileInfo::Type::kRegular);
  EXPECT_EQ(info.size_bytes, 5u);
  EXPECT_EQ(info.modified_unix_seconds, 784111777);
  EXPECT_TRUE(info.id.is_known());
  const FileId before = info.id;
  server.Put("bucket/run/a.index", "12345");
  ASSERT_EQ(files->Describe("s3://bucket/run/a.index", &info), 0);
  EXPECT_FALSE(info.id.Is(before));  // another version
  ASSERT_EQ(files->Describe("s3://bucket/run/", &info), 0);
  EXPECT_EQ(info.type, FileInfo::Type::kFolder);
  EXPECT_EQ(files->Describe("s3://bucket/run", &info), -ENOENT);
  // A folder, where it is asked for as one.
  EXPECT_EQ(files->Describe("s3://bucket/run/b", &info), -ENOENT);
  EXPECT_EQ(files->Describe("s3://bucket/run", &info), 0);
  EXPECT_EQ(files->Describe("s3://bucket/none/b", &info), -ENOENT);
  EXPECT_EQ(files->Describe("s3://bucket/none", &info), -ENOENT);
  // Nothing lies below it, and yet there may be an object of that name.
  server.Put("bucket/model", "1234567");
  EXPECT_EQ(files->Describe("s3://bucket/model/b", &info), -ENOENT);
  ASSERT_EQ(files->Describe("s3://bucket/model", &info), 0) << files->LastDetail();
  EXPECT_EQ(info.type, FileInfo::Type::kRegular);
  EXPECT_EQ(info.size_bytes, 7u);
  EXPECT_EQ(files->OpenToRead("s3://bucket/run/"), -EISDIR);
}

TEST(ObjectStore, AsksFurtherIfAHeadTellsNoSize) {
  for (const bool ignores_ranges : {false, true}) {
    for (const size_t size : {0, 1, 5}) {
      SCOPED_TRACE(absl::StrCat(ignores_ranges, " ", size));
      LyingServer server;
      server.ignores_ranges = ignores_ranges;
      server.Put("bucket/a", PatternBytes(size));
      server.LieAlways([](Exchange* exchange) {
        exchange->Work();
        if (exchange->request.method != "HEAD") return;
        exchange->headers.erase(std::remove_if(exchange->headers.begin(), exchange->headers.end(),
                                               [](const auto& header) { return header.first == "Content-Length"; }),
                                exchange->headers.end());
        exchange->has_length = false;
      });
      const std::unique_ptr<ObjectStore> store = StoreFor(server);
      for (const std::string& path : {std::string("s3://bucket/a"), server.url() + "/bucket/a"}) {
        FileInfo info;
        info.size_bytes = 99;
        ASSERT_EQ(store->files()->Describe(path, &info), 0) << store->files()->LastDetail();
        EXPECT_EQ(info.size_bytes, size);
        EXPECT_TRUE(info.id.is_known());
      }
    }
  }
}

TEST(ObjectStore, ABodyWhoseEndIsNotMarkedIsNotAFile) {
  LyingServer server;
  server.Put("files/a", PatternBytes(100'000));
  const std::unique_ptr<ObjectStore> store = StoreFor(server);
  std::string read;
  server.LieAlways([](Exchange* exchange) {  // whole or cut: nobody can tell
    exchange->Work();
    exchange->status = 200;
    exchange->has_length = false;
    exchange->sent_bytes = 50'000;
  });
  EXPECT_EQ(ReadFile(store->files(), server.url() + "/files/a", &read), -EBADMSG);
  EXPECT_THAT(store->files()->LastDetail(), HasSubstr("does not say how long the file is"));
  for (const bool is_whole : {true, false}) {
    server.LieAlways([is_whole](Exchange* exchange) {
      exchange->Answer(200, absl::StrCat("5\r\nabcde\r\n3\r\nfgh\r\n", is_whole ? "0\r\n\r\n" : ""));
      exchange->SetHeader("Transfer-Encoding", "chunked");
      exchange->has_length = false;
    });
    const IoResult result = ReadFile(store->files(), server.url() + "/files/a", &read);
    if (is_whole) {
      EXPECT_EQ(result, 0) << store->files()->LastDetail();
      EXPECT_EQ(read, "abcdefgh");
    } else {
      EXPECT_EQ(result, -ECONNRESET) << store->files()->LastDetail();
    }
  }
}

TEST(ObjectStore, AFileThatIsShorterThanTheRangeIsReadFromServersThatRefuseIt) {
  for (const char* range : {"bytes */5", "bytes */*", ""}) {
    for (const size_t size : {5, 0}) {
      SCOPED_TRACE(absl::StrCat(size, " ", range));
      LyingServer server;
      server.Put("files/a", PatternBytes(size));
      const std::unique_ptr<ObjectStore> store = StoreFor(server);
      server.LieAlways([&](Exchange* exchange) {
        if (exchange->request.Kind() != "open") return exchange->Work();
        exchange->Fail(416, "InvalidRange");
        if (range[0] != '\0') exchange->SetHeader("Content-Range", range);
      });
      std::string read;
      ASSERT_EQ(ReadFile(store->files(), server.url() + "/files/a", &read), 0) << store->files()->LastDetail();
      EXPECT_TRUE(read == PatternBytes(size));
      server.LieAlways([](Exchange* exchange) { exchange->Fail(416, "InvalidRange"); });
      EXPECT_LT(ReadFile(store->files(), server.url() + "/files/a", &read), 0);
      EXPECT_THAT(store->files()->LastDetail(), HasSubstr("416"));
    }
  }
}

// A HEAD has no text that would say why.
TEST(ObjectStore, ARefusedQuestionIsAskedAgainForTheReason) {
  LyingServer server;
  server.Put("bucket/a", "12345");
  const std::unique_ptr<ObjectStore> store = StoreFor(server);
  FileSystem* const files = store->files();
  FileInfo info;
  for (const int status : {301, 400, 403}) {
    SCOPED_TRACE(status);
    server.ForgetRequests();
    server.LieAlways([status](Exchange* exchange) { exchange->Fail(status, "ClockIsWrong"); });
    EXPECT_LT(files->Describe("s3://bucket/a", &info), 0);
    EXPECT_THAT(files->LastDetail(), HasSubstr("\"ClockIsWrong\": \"as a test asked\""));
    // A HEAD that gets 400 is repeated once with new keys: they may have expired.
    EXPECT_EQ(server.num_requests(), status == 400 ? 3u : 2u);
  }
  server.LieAlways([](Exchange* exchange) {
    exchange->request.Kind() == "head" ? exchange->Fail(403, "NoHeads") : exchange->Work();
  });
  ASSERT_EQ(files->Describe("s3://bucket/a", &info), 0);
  EXPECT_EQ(info.size_bytes, 5u);
}

TEST(ObjectStore, ListsFoldersOverManyPages) {
  using ListKeys = LyingServer::ListKeys;
  for (const ListKeys keys : {ListKeys::kPlus, ListKeys::kPercent, ListKeys::kRaw}) {
    SCOPED_TRACE(static_cast<int>(keys));
    LyingServer server;
    server.list_keys = keys;
    server.page_keys = 3;
    const std::unique_ptr<ObjectStore> store = StoreFor(server);
    for (const char* name : {"50%20off", "a", "b c", "d/1", "d/2", "d/e/3", "d e/1", "größe", "z+%&"}) {
      server.Put(absl::StrCat("bucket/run/", name), "x");
    }
    server.Put("bucket/other", "x");
    std::vector<std::string> names;
    ASSERT_EQ(store->files()->List("s3://bucket/run", &names), 0) << store->files()->LastDetail();
    EXPECT_THAT(names, ElementsAre("50%20off", "a", "b c", "d", "d e", "größe", "z+%&"));
    ASSERT_EQ(store->files()->List("s3://bucket/run/d e", &names), 0) << store->files()->LastDetail();
    EXPECT_THAT(names, ElementsAre("1"));
    ASSERT_EQ(store->files()->List("s3://bucket/", &names), 0);
    EXPECT_THAT(names, ElementsAre("other", "run"));
    EXPECT_EQ(store->files()->List("s3://bucket/nothing", &names), -ENOENT);
  }
}

}  // namespace
}  // namespace tensorcask
