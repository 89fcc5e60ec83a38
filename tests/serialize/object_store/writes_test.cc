#include "tensorcask/serialize/object_store/object_store.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/object_store/internal/object_requests.h"
#include "tensorcask/serialize/object_store/internal/object_url.h"
#include "tensorcask/serialize/object_store/internal/request_engine.h"
#include "tensorcask/serialize/object_store/internal/task_threads.h"
#include "tensorcask/serialize/object_store/internal/upload.h"
#include "tensorcask/serialize/safetensors/safetensors_reader.h"
#include "tensorcask/serialize/safetensors/safetensors_writer.h"
#include "tensorcask/tests/serialize/object_store/store_testing.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using namespace ::tensorcask::testing;  // NOLINT(google-build-using-namespace)
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Code = absl::StatusCode;

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

TEST(ObjectStore, ClosingSendsThePartsThatAreLeft) {
  LyingServer server;
  const std::unique_ptr<ObjectStore> store = StoreFor(server);
  FileSystem* const files = store->files();
  const auto write = [&](const std::string& path) {
    const IoResult handle = files->CreateToPublish(path + ".tmp-0000000000000000", path);
    EXPECT_EQ(files->Append(handle, PatternBytes(7 << 20)), 7 << 20);
    return files->Close(handle);
  };
  EXPECT_EQ(write("s3://bucket/a"), 0);
  const auto parts = [&] {
    const std::vector<std::string> kinds = server.Kinds();
    return std::count(kinds.begin(), kinds.end(), "part");
  };
  while (parts() < 2) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_FALSE(server.Has("bucket/a"));
  ASSERT_EQ(files->Rename("s3://bucket/a.tmp-0000000000000000", "s3://bucket/a", FileSystem::OnExisting::kRefuse), 0);
  EXPECT_TRUE(server.Get("bucket/a") == PatternBytes(7 << 20));

  // An upload that could not begin has lost its parts, and is not published without them.
  server.LieAlways([](Exchange* exchange) {
    exchange->request.Kind() == "create" ? exchange->Fail(403, "AccessDenied") : exchange->Work();
  });
  EXPECT_EQ(write("s3://bucket/b"), -EACCES);
  server.TellTheTruth();
  EXPECT_EQ(files->Rename("s3://bucket/b.tmp-0000000000000000", "s3://bucket/b", FileSystem::OnExisting::kRefuse),
            -EACCES);
  EXPECT_FALSE(server.Has("bucket/b"));
}

TEST(ObjectStore, TheSizeOfPartsFollowsTheAnnouncedSize) {
  LyingServer server;
  ObjectStoreOptions options = OptionsFor(server);
  options.part_bytes = 0;
  struct Case {
    uint64_t announced;
    uint64_t part;
  };
  for (const Case& row : {Case{0, 16 << 20}, Case{100 << 20, 16 << 20}, Case{uint64_t{4} << 30, 21 << 20},
                          Case{uint64_t{100} << 30, 64 << 20}, Case{uint64_t{512} << 30, 105 << 20}}) {
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

TEST(PartPlan, AFileOfFiveTebibytesHasRoomWhateverWasAnnounced) {
  constexpr uint64_t kMostS3Bytes = uint64_t{5} << 40;
  constexpr uint64_t kMostS3PartBytes = uint64_t{5} << 30;
  const internal::PartPlan plan;
  for (const uint64_t announced : {uint64_t{0}, uint64_t{1} << 20, uint64_t{264} << 20, uint64_t{10} << 30,
                                   uint64_t{700} << 30, kMostS3Bytes, UINT64_MAX}) {
    SCOPED_TRACE(announced);
    const uint64_t first = plan.PartBytes(announced);
    EXPECT_LE(first, kMostS3PartBytes);
    if (announced <= kMostS3Bytes) {
      EXPECT_GE(first * plan.equal_parts, announced);
    }
    uint64_t total = first;
    uint64_t part = first;
    for (size_t i = 1; i < internal::Upload::kMaxParts; ++i) {
      part = plan.NextPartBytes(part, i);
      EXPECT_EQ(part == first, i < plan.equal_parts || first == uint64_t{4} << 30) << i;
      EXPECT_LE(part, kMostS3PartBytes);
      total += part;
    }
    EXPECT_GE(total, kMostS3Bytes);
  }
}

TEST(Upload, AFileThatOutgrowsWhatWasAnnouncedHasLongerParts) {
  constexpr uint64_t kMiB = uint64_t{1} << 20;
  const std::string bytes = PatternBytes(21 * kMiB + 77);
  struct Case {
    const char* name;
    uint64_t announced_at_first;
    uint64_t announced_later;
    std::vector<uint64_t> mebibytes;  // of the parts but the last one
  };
  const Case rows[] = {
      {"nothing", 0, 0, {1, 1, 1, 2, 2, 4, 4}},
      {"a part of it", 5 * kMiB, 0, {2, 2, 2, 4, 4}},
      {"more and more", 2 * kMiB, 30 * kMiB, {1, 1, 1, 2, 2, 4, 4}},
      {"all of it", bytes.size(), 0, {8, 8}},
  };
  for (const Case& row : rows) {
    SCOPED_TRACE(row.name);
    LyingServer server;
    server.demands_equal_parts = false;
    ObjectStoreOptions options = OptionsFor(server);
    std::mutex mutex;
    std::map<uint64_t, uint64_t> parts;  // sizes, by offset
    options.observer = [&](const RequestRecord& record) {
      const std::lock_guard<std::mutex> lock(mutex);
      if (record.purpose == "part") parts[record.offset] = record.bytes;
    };
    internal::RequestEngine engine(options, "eu-test-1", options.credentials);
    const internal::ObjectRequests requests(&engine, server.url());
    internal::TaskThreads threads(4);
    internal::PartPlan plan;
    plan.gathered_bytes = 1000;
    plan.least_bytes = kMiB;
    plan.equal_parts = 3;
    plan.parts_until_twice = 2;
    ASSERT_OK_AND_ASSIGN(const internal::ObjectUrl url, internal::ParseObjectUrl("s3://bucket/a"));
    internal::Upload upload(&requests, &threads, url, plan, 4);
    upload.Announce(row.announced_at_first);
    for (size_t done = 0; done < bytes.size(); done += 100'000) {
      const absl::string_view piece = absl::string_view(bytes).substr(done, 100'000);
      ASSERT_EQ(upload.Append(piece), static_cast<IoResult>(piece.size())) << upload.detail();
      upload.Announce(row.announced_later);
    }
    ASSERT_EQ(upload.Close(), 0) << upload.detail();
    ASSERT_EQ(upload.Publish({}), 0) << upload.detail();
    EXPECT_TRUE(server.Get("bucket/a") == bytes);
    uint64_t end = 0;
    size_t i = 0;
    for (const auto& [offset, size] : parts) {
      EXPECT_EQ(offset, end);
      end += size;
      if (i < row.mebibytes.size()) {
        EXPECT_EQ(size, row.mebibytes[i] * kMiB) << i;
      }
      ++i;
    }
    EXPECT_EQ(end, bytes.size());
    EXPECT_EQ(parts.size(), row.mebibytes.size() + 1);
  }
}

TEST(ObjectStore, UploadsAreListedByTheirNamesHoweverTheStoreEncodesThem) {
  using ListKeys = LyingServer::ListKeys;
  for (const ListKeys keys : {ListKeys::kPlus, ListKeys::kPercent, ListKeys::kRaw}) {
    SCOPED_TRACE(static_cast<int>(keys));
    LyingServer server;
    server.list_keys = keys;
    const std::unique_ptr<ObjectStore> store = StoreFor(server);
    const std::string path = "s3://bucket/run 1/50%20off+";
    const IoResult handle = store->files()->CreateToPublish(path + ".tmp-0000000000000000", path);
    ASSERT_GE(handle, 0);
    ASSERT_EQ(store->files()->Append(handle, PatternBytes(12 << 20)), 12 << 20);
    ASSERT_EQ(store->files()->Close(handle), 0);
    ASSERT_OK_AND_ASSIGN(const std::vector<UnfinishedUpload> uploads, store->ListUploads("s3://bucket/run 1/"));
    ASSERT_EQ(uploads.size(), 1u);
    EXPECT_EQ(uploads[0].path, path);
    EXPECT_OK(store->RemoveUpload(uploads[0]));
    EXPECT_EQ(server.num_uploads(), 0u);
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
  EXPECT_THAT(other->RemoveUpload(uploads[0]), StatusIs(Code::kNotFound, HasSubstr("s3://bucket/b")));  // it is gone
}

TEST(ObjectStore, SavesAndLoadsCheckpoints) {
  LyingServer server;
  const std::unique_ptr<ObjectStore> store = StoreFor(server);
  std::vector<Tensor> tensors;
  for (uint32_t i = 0; i < 5; ++i) tensors.push_back(PatternTensor((i + 1) * 1234567, i));
  ASSERT_OK(SaveCheckpoint(store->files(), "s3://bucket/run/step-1", tensors));
  EXPECT_THAT(server.Paths(), ElementsAre("bucket/run/step-1.data-00000-of-00001", "bucket/run/step-1.index"));
  EXPECT_EQ(server.num_uploads(), 0u);
  // Parts, and seven more, and one because nothing is in the folder yet.
  const size_t parts = (server.Get("bucket/run/step-1.data-00000-of-00001").size() + (5 << 20) - 1) / (5 << 20);
  EXPECT_LE(server.num_requests(), parts + 8) << ::testing::PrintToString(server.Kinds());

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

}  // namespace
}  // namespace tensorcask
