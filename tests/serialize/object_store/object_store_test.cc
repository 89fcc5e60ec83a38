#include "tensorcask/serialize/object_store/object_store.h"

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/io/publication.h"
#include "tensorcask/serialize/safetensors/safetensors_reader.h"
#include "tensorcask/serialize/safetensors/safetensors_writer.h"
#include "tensorcask/tests/serialize/object_store/store_testing.h"
#include "tensorcask/tests/support/status_matchers.h"
#include "tensorcask/tests/support/test_data.h"

namespace tensorcask {
namespace {

using namespace ::tensorcask::testing;  // NOLINT(google-build-using-namespace)
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using Code = absl::StatusCode;

// ---- Reading ------------------------------------------------------------------------------------------------------

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
    // What lies before the end needs another request, and small reads behind each other share it.
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
  // Seven pieces; the eighth lies in the end that came first.
  EXPECT_EQ(server.num_requests(), 1u + 7u);
  for (const ServerRequest& request : server.requests()) {
    EXPECT_EQ(request.Header("if-match").empty(), request.Kind() != "read");
  }
  const ReadShape shape = store->files()->read_shape();
  EXPECT_EQ(shape.piece_bytes, 1u << 20);
  EXPECT_EQ(shape.in_flight, 4);
  EXPECT_EQ(shape.gap_bytes, 1u << 20);
  EXPECT_TRUE(shape.joins_ranges);
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
  EXPECT_EQ(files->OpenToRead("s3://bucket/run/"), -EISDIR);
}

TEST(ObjectStore, ListsFoldersOverManyPages) {
  LyingServer server;
  server.page_keys = 3;
  const std::unique_ptr<ObjectStore> store = StoreFor(server);
  for (const char* name : {"a", "b c", "d/1", "d/2", "d/e/3", "größe", "z+%&"}) {
    server.Put(absl::StrCat("bucket/run/", name), "x");
  }
  server.Put("bucket/other", "x");
  std::vector<std::string> names;
  ASSERT_EQ(store->files()->List("s3://bucket/run", &names), 0) << store->files()->LastDetail();
  EXPECT_THAT(names, ElementsAre("a", "b c", "d", "größe", "z+%&"));
  ASSERT_EQ(store->files()->List("s3://bucket/", &names), 0);
  EXPECT_THAT(names, ElementsAre("other", "run"));
  EXPECT_EQ(store->files()->List("s3://bucket/nothing", &names), -ENOENT);
}

// ---- Writing ------------------------------------------------------------------------------------------------------

TEST(ObjectStore, FilesOfEachSizeAreWrittenAndSeenOnlyWhenPublished) {
  LyingServer server;
  const std::unique_ptr<ObjectStore> store = StoreFor(server);
  FileSystem* const files = store->files();
  constexpr size_t kPart = 5 << 20;
  for (const size_t size : {size_t{0}, size_t{1}, kPart, kPart + 1, 2 * kPart, 3 * kPart + 77}) {
    SCOPED_TRACE(size);
    const std::string bytes = PatternBytes(size);
    const std::string path = absl::StrCat("s3://bucket/file-", size);
    const std::string temporary = path + ".tmp-0123456789abcdef";
    server.ForgetRequests();
    const IoResult handle = files->CreateToPublish(temporary, path);
    ASSERT_GE(handle, 0);
    EXPECT_EQ(files->CreateToPublish(temporary, path), -EEXIST);
    for (size_t done = 0; done < size;) {
      const size_t now = std::min<size_t>(size - done, 700001);
      ASSERT_EQ(files->Append(handle, absl::string_view(bytes).substr(done, now)), static_cast<IoResult>(now));
      done += now;
    }
    EXPECT_EQ(files->SizeOf(handle), static_cast<IoResult>(size));
    EXPECT_EQ(files->Sync(handle), 0);
    EXPECT_EQ(files->Close(handle), 0);
    EXPECT_FALSE(server.Has(path.substr(5)));
    ASSERT_EQ(files->Rename(temporary, path, FileSystem::OnExisting::kRefuse), 0) << files->LastDetail();
    EXPECT_TRUE(server.Get(path.substr(5)) == bytes);
    // One request for a small file; for others as many as there are parts, and two.
    EXPECT_EQ(server.num_requests(), size <= kPart ? 1u : (size + kPart - 1) / kPart + 2);
    EXPECT_EQ(server.num_uploads(), 0u);
  }
}

TEST(ObjectStore, TheFirstPartCanBeChangedUntilTheEnd) {
  LyingServer server;
  const std::unique_ptr<ObjectStore> store = StoreFor(server);
  FileSystem* const files = store->files();
  std::string bytes = PatternBytes(12 << 20);
  const IoResult handle = files->CreateToPublish("s3://bucket/a.tmp-0000000000000000", "s3://bucket/a");
  ASSERT_GE(handle, 0);
  ASSERT_EQ(files->Append(handle, bytes), 12 << 20);
  EXPECT_EQ(files->WriteAt(handle, 7, "seven"), 5);
  EXPECT_EQ(files->WriteAt(handle, 11 << 20, "eleven"), 6);
  EXPECT_EQ(files->WriteAt(handle, 6 << 20, "six"), -EOPNOTSUPP);
  EXPECT_THAT(files->LastDetail(), HasSubstr("can still be changed"));
  EXPECT_EQ(files->Close(handle), 0);
  ASSERT_EQ(files->Rename("s3://bucket/a.tmp-0000000000000000", "s3://bucket/a", FileSystem::OnExisting::kRefuse), 0);
  bytes.replace(7, 5, "seven");
  bytes.replace(11 << 20, 6, "eleven");
  EXPECT_TRUE(server.Get("bucket/a") == bytes);
}

TEST(ObjectStore, TheSizeOfPartsFollowsTheAnnouncedSize) {
  LyingServer server;
  ObjectStoreOptions options = OptionsFor(server);
  options.part_bytes = 0;
  struct Case {
    uint64_t announced;
    uint64_t part;
  };
  for (const Case& row : {Case{0, 16 << 20}, Case{100 << 20, 8 << 20}, Case{uint64_t{4} << 30, 21 << 20},
                          Case{uint64_t{1} << 40, 64 << 20}}) {
    SCOPED_TRACE(row.announced);
    std::mutex mutex;
    uint64_t second_offset = 0;
    options.observer = [&](const RequestRecord& record) {
      std::lock_guard<std::mutex> lock(mutex);
      if (record.purpose == "part" && record.offset != 0) second_offset = std::max(second_offset, record.offset);
    };
    const std::unique_ptr<ObjectStore> store = StoreFor(options);
    FileSystem* const files = store->files();
    const IoResult handle = files->CreateToPublish("s3://bucket/a.tmp-0000000000000000", "s3://bucket/a");
    ASSERT_GE(handle, 0);
    ASSERT_EQ(files->Reserve(handle, row.announced), 0);
    const std::string piece = PatternBytes(1 << 20);
    for (uint64_t done = 0; done < row.part + (1 << 20); done += piece.size()) {
      ASSERT_EQ(files->Append(handle, piece), static_cast<IoResult>(piece.size()));
    }
    EXPECT_EQ(files->Close(handle), 0);
    ASSERT_EQ(files->Rename("s3://bucket/a.tmp-0000000000000000", "s3://bucket/a", FileSystem::OnExisting::kReplace), 0)
        << files->LastDetail();
    EXPECT_EQ(second_offset, row.part);
  }
}

TEST(ObjectStore, WhatIsNotPublishedLeavesNothing) {
  LyingServer server;
  std::unique_ptr<ObjectStore> store = StoreFor(server);
  FileSystem* const files = store->files();
  for (const char* name : {"a", "b"}) {
    const std::string path = absl::StrCat("s3://bucket/", name);
    const IoResult handle = files->CreateToPublish(path + ".tmp-0000000000000000", path);
    ASSERT_GE(handle, 0);
    ASSERT_EQ(files->Append(handle, PatternBytes(12 << 20)), 12 << 20);
    EXPECT_EQ(files->Close(handle), 0);
  }
  EXPECT_EQ(server.num_uploads(), 2u);
  EXPECT_EQ(files->Remove("s3://bucket/a.tmp-0000000000000000"), 0);
  EXPECT_EQ(server.num_uploads(), 1u);
  EXPECT_EQ(files->Remove("s3://bucket/a.tmp-0000000000000000"), -ENOENT);
  ASSERT_OK_AND_ASSIGN(const std::vector<UnfinishedUpload> uploads, store->ListUploads("s3://bucket/"));
  ASSERT_EQ(uploads.size(), 1u);
  EXPECT_EQ(uploads[0].path, "s3://bucket/b");
  EXPECT_EQ(absl::ToUnixSeconds(uploads[0].started), 1767323045);
  store.reset();
  EXPECT_EQ(server.num_uploads(), 0u);
  EXPECT_THAT(server.Paths(), IsEmpty());
  const std::unique_ptr<ObjectStore> other = StoreFor(server);
  EXPECT_OK(other->RemoveUpload(uploads[0]));  // it is gone
}

TEST(ObjectStore, SavesAndLoadsCheckpoints) {
  LyingServer server;
  const std::unique_ptr<ObjectStore> store = StoreFor(server);
  std::vector<Tensor> tensors;
  for (uint32_t i = 0; i < 5; ++i) tensors.push_back(PatternTensor((i + 1) * 1234567, i));
  ASSERT_OK(SaveCheckpoint(store->files(), "s3://bucket/run/step-1", tensors));
  EXPECT_THAT(server.Paths(), ElementsAre("bucket/run/step-1.data-00000-of-00001", "bucket/run/step-1.index"));
  EXPECT_EQ(server.num_uploads(), 0u);
  // Parts, and seven more.
  const size_t parts = (server.Get("bucket/run/step-1.data-00000-of-00001").size() + (5 << 20) - 1) / (5 << 20);
  EXPECT_LE(server.num_requests(), parts + 7) << ::testing::PrintToString(server.Kinds());

  CheckpointReaderOptions options;
  options.read.file_system = store->files();
  server.ForgetRequests();
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, CheckpointReader::Open("s3://bucket/run/step-1", options));
  ASSERT_OK_AND_ASSIGN(const auto entries, reader.entries());
  EXPECT_EQ(entries.size(), 5u);
  EXPECT_THAT(server.Kinds(), ElementsAre("open"));
  for (size_t i = 0; i < tensors.size(); ++i) {
    ASSERT_OK_AND_ASSIGN(const Tensor read, reader.Read(std::to_string(i)));
    EXPECT_EQ(read.ToString(), tensors[i].ToString());
    EXPECT_EQ(memcmp(read.data<uint8_t>(), tensors[i].data<uint8_t>(), tensors[i].TotalBytes()), 0);
  }
  EXPECT_THAT(SaveCheckpoint(store->files(), "s3://bucket/run/step-1", tensors), StatusIs(Code::kAlreadyExists));
}

TEST(ObjectStore, SavesSafetensorsWhoseHeaderIsWrittenLast) {
  LyingServer server;
  const std::unique_ptr<ObjectStore> store = StoreFor(server);
  SafetensorsWriterOptions options;
  options.file_system = store->files();
  options.checksums = true;
  const Tensor tensor = PatternTensor(12 << 20);
  ASSERT_OK_AND_ASSIGN(SafetensorsWriter writer, SafetensorsWriter::Create("s3://bucket/m.safetensors", options));
  ASSERT_OK(writer.Declare("w", tensor.dtype(), tensor.shape()));
  ASSERT_OK(writer.Add("w", tensor));
  ASSERT_OK(writer.Finish());
  SafetensorsReaderOptions read;
  read.read.file_system = store->files();
  ASSERT_OK_AND_ASSIGN(const SafetensorsReader reader, SafetensorsReader::Open("s3://bucket/m.safetensors", read));
  ASSERT_OK_AND_ASSIGN(const Tensor found, reader.Read("w"));
  EXPECT_EQ(memcmp(found.data<uint8_t>(), tensor.data<uint8_t>(), tensor.TotalBytes()), 0);
}

TEST(ObjectStore, OfRacingWritersOneWins) {
  LyingServer server;
  constexpr int kWriters = 8;
  for (int round = 0; round < 200; ++round) {
    SCOPED_TRACE(round);
    const std::string path = absl::StrCat("s3://bucket/race-", round);
    const size_t size = round % 20 == 0 ? (5 << 20) + 1 : 1000;  // an upload in parts, and one request
    std::atomic<int> winner{-1};
    std::atomic<int> wins{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < kWriters; ++i) {
      threads.emplace_back([&, i] {
        const std::unique_ptr<ObjectStore> store = StoreFor(server);
        FileSystem* const files = store->files();
        const std::string temporary = path + ".tmp-0000000000000000";
        const IoResult handle = files->CreateToPublish(temporary, path);
        files->Append(handle, PatternBytes(size, static_cast<uint32_t>(i)));
        files->Close(handle);
        const IoResult renamed = files->Rename(temporary, path, FileSystem::OnExisting::kRefuse);
        if (renamed == 0) {
          winner = i;
          ++wins;
        } else {
          EXPECT_EQ(renamed, -EEXIST) << files->LastDetail();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wins, 1);
    EXPECT_TRUE(server.Get(path.substr(5)) == PatternBytes(size, static_cast<uint32_t>(winner)));
    EXPECT_EQ(server.num_uploads(), 0u);
  }
}

// ---- Names, options and secrets -----------------------------------------------------------------------------------

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
  EXPECT_LT(ReadFile(files, server.url() + "/bucket/a?X-Amz-Signature=" + kTestSecret, &read), 0);
  absl::StrAppend(&said, files->LastDetail());
  absl::StrAppend(&said, SaveCheckpoint(files, "s3://bucket/a", {PatternTensor(100)}).ToString());
  absl::StrAppend(&said, store->ListUploads("s3://bucket/").status().ToString());
  EXPECT_THAT(said, HasSubstr("s3://bucket/a"));
  EXPECT_THAT(said, Not(HasSubstr(kTestSecret)));
  EXPECT_THAT(said, Not(HasSubstr(kTestToken)));
  EXPECT_THAT(said, Not(HasSubstr(kTestKeyId)));
}

}  // namespace
}  // namespace tensorcask
