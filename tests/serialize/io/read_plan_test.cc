// Reads of a file system that likes large pieces, several at a time: with a plan and without one.

#include "tensorcask/serialize/io/read_plan.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/forwarding_file_system.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/tests/support/faulty_file_system.h"
#include "tensorcask/tests/support/in_child.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::FaultyFileSystem;
using ::tensorcask::testing::FileOperation;
using ::tensorcask::testing::InChild;
using ::tensorcask::testing::StatusIs;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Code = absl::StatusCode;

constexpr ReadShape kShape = {100, 4, 10};

// Notes what is read together.
class Shaped final : public ForwardingFileSystem {
 public:
  explicit Shaped(FileSystem* behind, ReadShape shape = kShape) : ForwardingFileSystem(behind), shape_(shape) {}
  ReadShape read_shape() const override { return shape_; }
  ReadShape ShapeOf(IoResult) const override { return shape_; }
  IoResult ReadAt(IoResult handle, uint64_t offset, absl::Span<char> out) override {
    Note({{offset, out.size()}});
    return behind()->ReadAt(handle, offset, out);
  }
  IoResult ReadManyAt(IoResult handle, absl::Span<const ReadRange> ranges) override {
    Call call;
    for (const ReadRange& range : ranges) call.push_back({range.offset, range.out.size()});
    Note(std::move(call));
    return behind()->ReadManyAt(handle, ranges);
  }
  IoResult ReadPieceAt(IoResult handle, absl::Span<const ReadRange> ranges) override {
    ++long_pieces_;
    return ReadManyAt(handle, ranges);
  }
  using Call = std::vector<std::pair<uint64_t, uint64_t>>;
  std::vector<Call> calls() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return calls_;
  }
  // All ranges of all calls by offset: threads that fetch have no order.
  Call Ranges() const {
    Call ranges;
    for (const Call& call : calls()) ranges.insert(ranges.end(), call.begin(), call.end());
    std::sort(ranges.begin(), ranges.end());
    return ranges;
  }
  void Forget() {
    const std::lock_guard<std::mutex> lock(mutex_);
    calls_.clear();
  }
  int long_pieces() const { return long_pieces_; }  // calls of ReadPieceAt

 private:
  void Note(Call call) {
    const std::lock_guard<std::mutex> lock(mutex_);
    calls_.push_back(std::move(call));
  }

  const ReadShape shape_;
  std::atomic<int> long_pieces_{0};
  mutable std::mutex mutex_;
  std::vector<Call> calls_;
};

class ReadPlanTest : public ::testing::Test {
 protected:
  ReadPlanTest() {
    std::mt19937 random(1);
    for (size_t i = 0; i < 2000; ++i) bytes_ += static_cast<char>(random());
    memory_.Put("f", bytes_);
    file_ = Open(&files_);
  }

  static std::shared_ptr<const ByteSource> Open(FileSystem* files) {
    ReadOptions options;
    options.file_system = files;
    return *OpenFileSource("f", options);
  }

  void ExpectReads(const ByteSource& file, uint64_t offset, size_t size) {
    std::string out(size, '\0');
    ASSERT_OK(file.ReadAt(offset, absl::MakeSpan(&out[0], size)));
    EXPECT_EQ(out, bytes_.substr(offset, size)) << offset;
  }

  std::string bytes_;
  MemoryFileSystem memory_;
  Shaped files_{&memory_};
  std::shared_ptr<const ByteSource> file_;
};

using Ranges = std::vector<std::pair<uint64_t, uint64_t>>;
using Calls = std::vector<Ranges>;

TEST_F(ReadPlanTest, WithoutAPlanALargeReadIsCutIntoPieces) {
  ExpectReads(*file_, 5, 50);
  ExpectReads(*file_, 5, 250);
  EXPECT_EQ(files_.calls(), (Calls{{{5, 50}}, {{5, 100}, {105, 100}, {205, 50}}}));
}

TEST_F(ReadPlanTest, RangesAreJoinedUpToAPieceAndAGap) {
  std::vector<std::string> out(7, std::string(30, '\0'));
  std::vector<ReadRange> ranges;
  const std::vector<uint64_t> offsets = {300, 0, 35, 71, 150, 191, 1000};  // a gap of 5, 6, 49, 11, 709
  for (size_t i = 0; i < offsets.size(); ++i) ranges.push_back({offsets[i], absl::MakeSpan(&out[i][0], 30)});
  ASSERT_OK(file_->ReadRanges(ranges));
  for (size_t i = 0; i < offsets.size(); ++i) EXPECT_EQ(out[i], bytes_.substr(offsets[i], 30)) << i;
  // 71 + 30 would be more than a piece.
  EXPECT_EQ(files_.calls(), (Calls{{{0, 65}, {71, 30}, {150, 30}, {191, 30}}, {{300, 30}, {1000, 30}}}));
}

TEST_F(ReadPlanTest, NeighboursAreFetchedTogetherAndSeveralAtATime) {
  ReadPlan plan;
  for (uint64_t i = 0; i < 100; ++i) plan.Add(file_, i * 12, 10);
  plan.Start();
  EXPECT_THAT(files_.calls(), IsEmpty()) << "nothing before it is needed";
  for (uint64_t i = 0; i < 100; ++i) ExpectReads(*file_, i * 12, 10);
  EXPECT_EQ(files_.Ranges().size(), 12u) << "1198 bytes";
  for (const auto& [offset, size] : files_.Ranges()) EXPECT_LE(size, 100u) << offset;
}

// A range that fills half of what is in flight is left out, and goes straight to where it is wanted.
TEST_F(ReadPlanTest, LargeRangesAreReadAlone) {
  ReadPlan plan;
  plan.Add(file_, 0, 10);
  plan.Add(file_, 10, 200);
  plan.Add(file_, 210, 10);
  plan.Start();
  ExpectReads(*file_, 0, 10);
  ExpectReads(*file_, 10, 200);
  ExpectReads(*file_, 210, 10);
  EXPECT_EQ(files_.Ranges(), (Ranges{{0, 10}, {10, 100}, {110, 100}, {210, 10}}));
}

// Such a range is fetched like others if it is read in small steps.
TEST_F(ReadPlanTest, LargeRangesThatAreReadInStepsAreFetched) {
  ReadPlan plan;
  plan.Add(file_, 0, 10);
  plan.Add(file_, 10, 350);
  plan.Add(file_, 1000, 10);
  plan.Start();
  for (uint64_t at = 0; at < 360; at += 10) ExpectReads(*file_, at, 10);
  ExpectReads(*file_, 1000, 10);
  EXPECT_EQ(files_.Ranges(), (Ranges{{0, 10}, {10, 100}, {110, 100}, {210, 100}, {310, 50}, {1000, 10}}));
}

// Of a system that joins ranges, like an object store.
constexpr ReadShape kJoiningShape = {100, 4, 10, true};

TEST_F(ReadPlanTest, PiecesGoStraightIntoTheMemoryThatIsKnown) {
  for (const bool joins : {true, false}) {
    SCOPED_TRACE(joins);
    Shaped files(&memory_, joins ? kJoiningShape : kShape);
    const auto file = Open(&files);
    // The second one lies in two pieces, and the last one far from them. Between the first two are 5 bytes.
    const std::vector<std::pair<uint64_t, size_t>> places = {{0, 40}, {45, 100}, {145, 20}, {500, 30}};
    std::vector<std::string> out;
    ReadPlan plan;
    for (const auto& [offset, size] : places) out.emplace_back(size, '\0');
    for (size_t i = 0; i < places.size(); ++i) plan.Add(file, places[i].first, places[i].second, &out[i][0]);
    plan.Start();
    for (size_t i = 0; i < places.size(); ++i) {
      ASSERT_OK(file->ReadAt(places[i].first, absl::MakeSpan(&out[i][0], out[i].size())));
      EXPECT_EQ(out[i], bytes_.substr(places[i].first, places[i].second)) << i;
    }
    Calls calls = files.calls();
    std::sort(calls.begin(), calls.end());
    // Where ranges are not joined, a piece of several is read into memory of the plan.
    EXPECT_EQ(calls, joins ? (Calls{{{0, 40}, {45, 55}}, {{100, 45}, {145, 20}}, {{500, 30}}})
                           : (Calls{{{0, 100}}, {{100, 65}}, {{500, 30}}}));
  }
}

// Of a system for which fewer reads are better.
constexpr ReadShape kLongShape = {100, 4, 10, true, 250};

TEST(ReadShape, LongPiecesAreEqualInWholeRounds) {
  EXPECT_EQ(kLongShape.PieceBytesOf(0), 100u);
  EXPECT_EQ(kLongShape.PieceBytesOf(400), 100u);
  EXPECT_EQ(kLongShape.PieceBytesOf(401), 101u);
  EXPECT_EQ(kLongShape.PieceBytesOf(1000), 250u);
  EXPECT_EQ(kLongShape.PieceBytesOf(1001), 126u) << "two rounds of four";
  EXPECT_EQ(kLongShape.PieceBytesOf(2000), 250u);
  EXPECT_EQ(kLongShape.PieceBytesOf(uint64_t{1} << 62), 250u);
  EXPECT_EQ(kShape.PieceBytesOf(1000), 100u) << "where none are longer";
  EXPECT_EQ(ReadShape().PieceBytesOf(1 << 30), ReadShape().piece_bytes);
}

TEST_F(ReadPlanTest, PiecesIntoMemoryThatIsKnownMayBeLonger) {
  Shaped files(&memory_, kLongShape);
  const auto file = Open(&files);
  std::string out(1100, '\0');
  const auto read = [&] {
    for (size_t i = 0; i < 22; ++i) ASSERT_OK(file->ReadAt(i * 50, absl::MakeSpan(&out[i * 50], 50)));
    EXPECT_TRUE(out == bytes_.substr(0, 1100));
    std::fill(out.begin(), out.end(), '\0');
  };
  const auto sizes = [&] {
    std::vector<uint64_t> sizes;
    for (const Ranges& call : files.calls()) sizes.push_back(call.back().first + call.back().second - call[0].first);
    std::sort(sizes.begin(), sizes.end());
    files.Forget();
    return sizes;
  };
  {
    ReadPlan plan;
    for (size_t i = 0; i < 22; ++i) plan.Add(file, i * 50, 50, &out[i * 50]);
    plan.Start();
    read();
    EXPECT_EQ(sizes(), (std::vector<uint64_t>{134, 138, 138, 138, 138, 138, 138, 138}));
    EXPECT_EQ(files.long_pieces(), 8);
  }
  // What has no memory is held in short pieces, and does not make a long one of those before it.
  {
    ReadPlan plan;
    for (size_t i = 0; i < 20; ++i) plan.Add(file, i * 50, 50, &out[i * 50]);
    for (size_t i = 20; i < 22; ++i) plan.Add(file, i * 50, 50);
    plan.Start();
    read();
    EXPECT_EQ(sizes(), (std::vector<uint64_t>{100, 250, 250, 250, 250}));
  }
  // And so are bytes that are announced twice.
  {
    ReadPlan plan;
    for (size_t i = 0; i < 22; ++i) plan.Add(file, i * 50, 50, &out[i * 50]);
    plan.Add(file, 20, 20);
    plan.Start();
    read();
    for (const uint64_t size : sizes()) EXPECT_LE(size, kLongShape.piece_bytes);
  }
}

// Ranges of 50 bytes, of which those of 100, 250, ... lie in two pieces.
TEST_F(ReadPlanTest, WhatHasComeIsToldWhileTheRestArrives) {
  Shaped files(&memory_, kLongShape);
  const auto file = Open(&files);
  for (int round = 0; round < 20; ++round) {
    std::string out(1100, '\0');
    const std::vector<size_t> whole = {0, 1, 3, 4, 6, 7, 9, 10, 12, 14, 15, 17, 18, 20, 21};  // in a piece of 138 bytes
    std::mutex mutex;
    std::vector<size_t> told;
    const auto num_told = [&] {
      const std::lock_guard<std::mutex> lock(mutex);
      return told.size();
    };
    {
      ReadPlan plan;
      plan.WhenFetched([&](size_t number) {
        EXPECT_EQ(bytes_.compare(number * 50, 50, &out[number * 50], 50), 0) << "it is there";
        const std::lock_guard<std::mutex> lock(mutex);
        told.push_back(number);
      });
      for (size_t i = 0; i < 22; ++i) plan.Add(file, i * 50, 50, &out[i * 50], i);
      plan.Start();
      ASSERT_OK(file->ReadAt(0, absl::MakeSpan(&out[0], 50)));
      if (round % 2 == 0) {
        for (size_t i = 1; i < 22; ++i) ASSERT_OK(file->ReadAt(i * 50, absl::MakeSpan(&out[i * 50], 50)));
        while (num_told() < whole.size()) std::this_thread::yield();
      }
    }
    // After the end of the plan nothing is told any more.
    std::sort(told.begin(), told.end());
    if (round % 2 == 0) {
      EXPECT_EQ(told, whole);
    } else {
      EXPECT_TRUE(std::includes(whole.begin(), whole.end(), told.begin(), told.end()));
    }
  }
  // Without memory, and of pieces that cannot be fetched, nothing is told.
  FaultyFileSystem faulty(&files);
  const auto failing = Open(&faulty);
  std::string out(50, '\0');
  ReadPlan plan;
  plan.WhenFetched([&](size_t number) { EXPECT_EQ(number, 2u); });
  plan.Add(failing, 0, 50, nullptr, 0);
  plan.Add(failing, 1000, 50, &out[0], 1);
  plan.Start();
  ExpectReads(*failing, 0, 50);
  faulty.FailAt(faulty.operations(FileOperation::kReadAt) + 1, EIO, FaultyFileSystem::kOnce, FileOperation::kReadAt);
  EXPECT_OK(failing->ReadAt(1000, absl::MakeSpan(&out[0], 50)));
}

// A caller that reads the first file only slowly does not keep the others waiting.
TEST_F(ReadPlanTest, FilesWithMemoryAreFetchedOneBehindTheOther) {
  Shaped files(&memory_, kLongShape);
  ReadOptions options;
  options.file_system = &files;
  constexpr size_t kFiles = 3;
  std::vector<std::shared_ptr<const ByteSource>> sources;
  std::vector<std::string> out(kFiles, std::string(1000, '\0'));
  for (const char* const name : {"f", "g", "h"}) {
    memory_.Put(name, bytes_);
    sources.push_back(*OpenFileSource(name, options));
  }
  for (int round = 0; round < 20; ++round) {
    files.Forget();
    std::atomic<int> told{0};
    {
      ReadPlan plan;
      plan.WhenFetched([&](size_t) { ++told; });
      for (size_t i = 0; i < kFiles; ++i) plan.Add(sources[i], 0, 1000, &out[i][0], i);
      // What has no memory waits for the caller.
      plan.Add(sources[2], 1500, 100);
      plan.Start();
      EXPECT_THAT(files.calls(), IsEmpty()) << "nothing is fetched before the first read";
      ASSERT_OK(sources[0]->ReadAt(0, absl::MakeSpan(&out[0][0], 10)));
      while (files.calls().size() < kFiles * 4) std::this_thread::yield();
      if (round % 3 == 0) continue;  // the plan ends while threads of the first file fetch the others
      for (size_t i = 0; i < kFiles; ++i) {
        const size_t done = i == 0 ? 10 : 0;
        ASSERT_OK(sources[i]->ReadAt(done, absl::MakeSpan(&out[i][done], 1000 - done)));
        EXPECT_TRUE(out[i] == bytes_.substr(0, 1000));
        std::fill(out[i].begin(), out[i].end(), '\0');
      }
      EXPECT_EQ(files.calls().size(), kFiles * 4);
      ExpectReads(*sources[2], 1500, 100);
      EXPECT_EQ(files.calls().size(), kFiles * 4 + 1);
    }
    EXPECT_EQ(told, 0) << "each range came in several pieces";
  }
}

TEST_F(ReadPlanTest, MemoryMayBeToldWhenTheReadsAreOnTheirWay) {
  Shaped files(&memory_, kLongShape);
  ReadOptions options;
  options.file_system = &files;
  for (int round = 0; round < 30; ++round) {
    const auto file = *OpenFileSourceSoon("f", options);
    std::string out(2000, '\0');
    std::atomic<int> told{0};
    ReadPlan plan;
    plan.WhenFetched([&](size_t number) {
      EXPECT_EQ(bytes_.compare(number * 100, 100, &out[number * 100], 100), 0);
      ++told;
    });
    for (size_t i = 0; i < 10; ++i) plan.AddLater(file, i * 100, 100, i);
    plan.Add(file, 1000, 50);  // without memory
    for (size_t i = 11; i < 20; ++i) plan.AddLater(file, i * 100, 100, i);
    plan.Start();
    if (round % 3 == 0) continue;  // the end comes before the memory
    plan.SetMemory([&](size_t number) { return round % 3 == 1 && number == 3 ? nullptr : &out[number * 100]; });
    for (size_t i = 0; i < 20; ++i) {
      ASSERT_OK(file->ReadAt(i * 100, absl::MakeSpan(&out[i * 100], i == 10 ? 50 : 100)));
    }
    EXPECT_TRUE(out.substr(0, 1050) == bytes_.substr(0, 1050));
    EXPECT_TRUE(out.substr(1100) == bytes_.substr(1100));
  }
  // The end comes while threads of the first file wait for memory of the second one.
  memory_.Put("g", bytes_);
  for (int round = 0; round < 10; ++round) {
    ReadPlan plan;
    for (const char* const name : {"f", "g"}) plan.AddLater(*OpenFileSourceSoon(name, options), 0, 400, 0);
    plan.Start();
    if (round % 2 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  // Ranges that the file does not have, and no file.
  const auto file = *OpenFileSourceSoon("f", options);
  std::string out(100, '\0');
  {
    ReadPlan plan;
    plan.AddLater(file, 1950, 100, 0);
    plan.AddLater(file, 0, 100, 1);
    plan.Start();
    plan.SetMemory([&](size_t number) { return number == 0 ? nullptr : &out[0]; });
    ASSERT_OK(file->ReadAt(0, absl::MakeSpan(&out[0], 100)));
    EXPECT_EQ(out, bytes_.substr(0, 100));
    EXPECT_THAT(file->ReadAt(1950, absl::MakeSpan(&out[0], 100)), StatusIs(Code::kDataLoss, HasSubstr("has 2000")));
  }
  EXPECT_THAT(OpenFileSourceSoon("nothing", options).status(), StatusIs(Code::kNotFound, HasSubstr("nothing")));
}

TEST_F(ReadPlanTest, MemoryNeedsNoRoomInThePlan) {
  Shaped files(&memory_, kJoiningShape);
  const auto file = Open(&files);
  std::string out(2000, '\0');
  ReadPlan plan;
  plan.Add(file, 0, 2000, &out[0]);
  plan.Start();
  ASSERT_OK(file->ReadAt(0, absl::MakeSpan(&out[0], 1)));
  while (files.Ranges().size() < 20) std::this_thread::yield();
  ASSERT_OK(file->ReadAt(1, absl::MakeSpan(&out[1], 1999)));
  EXPECT_TRUE(out == bytes_);
  EXPECT_EQ(files.Ranges().size(), 20u);
}

TEST_F(ReadPlanTest, BytesThatAreReadIntoOtherMemoryAreRead) {
  Shaped files(&memory_, kJoiningShape);
  const auto file = Open(&files);
  std::string known(50, '\0');
  ReadPlan plan;
  plan.Add(file, 100, 50, &known[0]);
  plan.Start();
  ExpectReads(*file, 100, 50);
  ASSERT_OK(file->ReadAt(100, absl::MakeSpan(&known[0], 50)));
  EXPECT_EQ(known, bytes_.substr(100, 50));
  EXPECT_EQ(files.calls(), (Calls{{{100, 50}}, {{100, 50}}}));
}

TEST_F(ReadPlanTest, BytesOfTwoRangesAreHeldForBoth) {
  Shaped files(&memory_, kJoiningShape);
  const auto file = Open(&files);
  for (const bool second_has_memory : {true, false}) {
    files.Forget();
    std::string first(150, '\0');
    std::string second(150, '\0');
    ReadPlan plan;
    plan.Add(file, 100, 150, &first[0]);
    plan.Add(file, 100, 150, second_has_memory ? &second[0] : nullptr);
    plan.Start();
    ASSERT_OK(file->ReadAt(100, absl::MakeSpan(&first[0], 150)));
    ASSERT_OK(file->ReadAt(100, absl::MakeSpan(&second[0], 150)));
    EXPECT_EQ(first, bytes_.substr(100, 150));
    EXPECT_EQ(second, first);
  }
}

// A piece that cannot be fetched fails the reads that need it alone, each with its own error.
TEST_F(ReadPlanTest, MemoryIsFilledAgainAfterAnError) {
  Shaped shaped(&memory_, kJoiningShape);
  FaultyFileSystem faulty(&shaped);
  const auto file = Open(&faulty);
  for (int64_t n = 1; n <= 4; ++n) {
    faulty.FailAt(0, EIO);
    std::string out(400, '\0');
    ReadPlan plan;
    for (size_t i = 0; i < 8; ++i) plan.Add(file, i * 50, 50, &out[i * 50]);
    plan.Start();
    faulty.FailAt(faulty.operations(FileOperation::kReadAt) + n, EIO, FaultyFileSystem::kOnce, FileOperation::kReadAt);
    for (size_t i = 0; i < 8; ++i) ASSERT_OK(file->ReadAt(i * 50, absl::MakeSpan(&out[i * 50], 50)));
    EXPECT_TRUE(out == bytes_.substr(0, 400)) << n;
  }
}

// Pieces are fetched beside the caller, as many as there is memory for.
TEST_F(ReadPlanTest, WhatFollowsIsFetchedMeanwhile) {
  ReadPlan plan;
  for (uint64_t i = 0; i < 30; ++i) plan.Add(file_, i * 60, 20);
  plan.Start();
  ExpectReads(*file_, 0, 20);
  while (files_.Ranges().size() < 20) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const size_t fetched = files_.Ranges().size();
  EXPECT_GE(fetched, 20u);
  EXPECT_LE(fetched, 21u) << "400 bytes, and the piece that was read";
  for (uint64_t i = 1; i < 30; ++i) ExpectReads(*file_, i * 60, 20);
  EXPECT_EQ(files_.Ranges().size(), 30u);
}

// Each read waits until as many go on as may.
class Together final : public ForwardingFileSystem {
 public:
  explicit Together(FileSystem* behind) : ForwardingFileSystem(behind) {}
  ReadShape ShapeOf(IoResult) const override { return kShape; }
  IoResult ReadAt(IoResult handle, uint64_t offset, absl::Span<char> out) override {
    std::unique_lock<std::mutex> lock(mutex_);
    const int round = begun_++ / kShape.in_flight;
    EXPECT_LE(begun_ - ended_, kShape.in_flight);
    changed_.notify_all();
    EXPECT_TRUE(changed_.wait_for(lock, std::chrono::seconds(60), [&] { return begun_ / kShape.in_flight > round; }));
    lock.unlock();
    const IoResult read = behind()->ReadAt(handle, offset, out);
    lock.lock();
    ++ended_;
    return read;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int begun_ = 0;
  int ended_ = 0;
};

// Of 8 pieces, 4 at a time, no third round has one: also when the caller does other things.
TEST_F(ReadPlanTest, AsManyPiecesAsMayAreFetchedInEachRound) {
  Together files(&memory_);
  const std::shared_ptr<const ByteSource> file = Open(&files);
  std::string out(800, '\0');
  ReadPlan plan;
  for (size_t i = 0; i < 8; ++i) plan.Add(file, i * 100, 100, &out[i * 100]);
  plan.Start();
  for (size_t i = 0; i < 8; ++i) ASSERT_OK(file->ReadAt(i * 100, absl::MakeSpan(&out[i * 100], 100)));
  EXPECT_EQ(out, bytes_.substr(0, 800));
}

// The first read waits until it may go on. Reads of the last bytes wait for a while for one of memory.
class OneReadWaits final : public ForwardingFileSystem {
 public:
  explicit OneReadWaits(FileSystem* behind) : ForwardingFileSystem(behind) {}
  ReadShape read_shape() const override { return kShape; }
  ReadShape ShapeOf(IoResult) const override { return kShape; }
  IoResult ReadAt(IoResult handle, uint64_t offset, absl::Span<char> out) override {
    {
      std::unique_lock<std::mutex> lock(mutex_);
      ++begun_;
      if (offset >= kIntoMemory && offset < kLast) ++into_memory_;
      changed_.notify_all();
      if (offset == 0) changed_.wait(lock, [&] { return may_go_on_; });
      if (offset >= kLast) changed_.wait_for(lock, kMoment, [&] { return into_memory_ > 0; });
    }
    return behind()->ReadAt(handle, offset, out);
  }
  void AwaitBegun(int reads) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return begun_ >= reads; });
  }
  void GoOn() {
    const std::lock_guard<std::mutex> lock(mutex_);
    may_go_on_ = true;
    changed_.notify_all();
  }
  int reads_into_memory() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return into_memory_;
  }
  static constexpr uint64_t kIntoMemory = 500;
  static constexpr uint64_t kLast = 1900;

 private:
  static constexpr std::chrono::milliseconds kMoment{200};
  std::mutex mutex_;
  std::condition_variable changed_;
  int begun_ = 0;
  int into_memory_ = 0;
  bool may_go_on_ = false;
};

// The memory of a plan's ranges is free after the plan, also while another thread reads of the same file.
TEST_F(ReadPlanTest, NothingIsWrittenToMemoryAfterThePlan) {
  OneReadWaits files(&memory_);
  const std::shared_ptr<const ByteSource> file = Open(&files);
  std::string into(100, '\0');
  auto plan = std::make_unique<ReadPlan>();
  for (uint64_t i = 0; i < 5; ++i) plan->Add(file, i * 100, 100);  // of which 4 fill the memory that may be held
  plan->Add(file, OneReadWaits::kIntoMemory, 100, &into[0]);
  plan->Start();
  std::thread other([&] {
    std::string first(100, '\0');
    std::string last(50, '\0');
    ASSERT_OK(file->ReadRanges({{0, absl::MakeSpan(&first[0], 100)}, {1900, absl::MakeSpan(&last[0], 50)}}));
    EXPECT_EQ(first + last, bytes_.substr(0, 100) + bytes_.substr(1900, 50));
  });
  files.AwaitBegun(4);
  plan = nullptr;
  files.GoOn();
  other.join();
  EXPECT_EQ(files.reads_into_memory(), 0);
  EXPECT_EQ(into, std::string(100, '\0'));
}

TEST_F(ReadPlanTest, AChildOfForkDoesNotWaitForTheThreadsOfAPlan) {
  auto plan = std::make_unique<ReadPlan>();
  for (uint64_t i = 0; i < 20; ++i) plan->Add(file_, i * 100, 100);
  plan->Start();
  ExpectReads(*file_, 0, 100);  // starts threads, which wait for memory
  while (files_.Ranges().size() < 5) std::this_thread::yield();
  EXPECT_TRUE(InChild([&] {
    std::string out(2000, '\0');
    const bool was_read = file_->ReadAt(0, absl::MakeSpan(&out[0], out.size())).ok() && out == bytes_;
    plan = nullptr;
    file_ = nullptr;
    return was_read;
  }));
  for (uint64_t i = 1; i < 20; ++i) ExpectReads(*file_, i * 100, 100);
}

TEST_F(ReadPlanTest, WhatIsReadSeveralTimesIsKept) {
  AnnounceOptions options;
  options.is_read_once = false;
  options.max_gap_bytes = 5;
  const std::vector<FileRange> ranges = {{0, 20}, {26, 20}, {50, 20}};  // gaps of 6 and 4
  const std::shared_ptr<void> announced = file_->Announce(ranges, options);
  for (int i = 0; i < 3; ++i) {
    for (const FileRange& range : ranges) ExpectReads(*file_, range.offset, range.size_bytes);
  }
  EXPECT_EQ(files_.Ranges(), (Ranges{{0, 20}, {26, 44}}));
}

TEST_F(ReadPlanTest, StepsAreTakenInTheOrderOfFilesIfAnythingIsPlanned) {
  const auto other = Open(&files_);
  const auto steps = [](const auto& a, const auto& b) -> std::vector<ReadPlan::Step> {
    return {{a, 500, 10}, {nullptr, 0, 0}, {b, 0, 10}, {a, 100, 10}, {b, 5, 10}, {a, 500, 10}};
  };
  const auto start = [](const std::vector<ReadPlan::Step>& all, ReadPlan* plan) {
    const StepOrder order = plan->StartSteps(all.size(), [&](size_t number) { return all[number]; });
    std::vector<size_t> numbers;
    for (size_t i = 0; i < order.size(); ++i) numbers.push_back(order[i]);
    return numbers;
  };
  ReadPlan plan;
  EXPECT_EQ(start(steps(file_, other), &plan), (std::vector<size_t>{3, 0, 1, 5, 2, 4}));
  ExpectReads(*file_, 100, 10);
  ExpectReads(*file_, 500, 10);
  EXPECT_EQ(files_.Ranges(), (Ranges{{100, 10}, {500, 10}}));
  Shaped disk(&memory_, ReadShape());
  const auto on_disk = Open(&disk);
  ReadPlan nothing;
  EXPECT_EQ(start(steps(on_disk, on_disk), &nothing), (std::vector<size_t>{0, 1, 2, 3, 4, 5}));
  ReadPlan empty;
  EXPECT_EQ(start({}, &empty), std::vector<size_t>());
}

TEST_F(ReadPlanTest, AStepMayReadSeveralRanges) {
  const std::vector<ReadPlan::Step> steps = {{file_, 300, 10, {{file_, 312, 10}, {nullptr, 0, 0}, {file_, 600, 10}}},
                                             {file_, 100, 10}};
  ReadPlan plan;
  const StepOrder order = plan.StartSteps(steps.size(), [&](size_t number) { return steps[number]; });
  ASSERT_EQ(order.size(), 2u);
  EXPECT_EQ(order[0], 1u);
  EXPECT_EQ(order[1], 0u);
  for (const uint64_t offset : {100, 300, 312, 600}) ExpectReads(*file_, offset, 10);
  EXPECT_EQ(files_.Ranges(), (Ranges{{100, 10}, {300, 22}, {600, 10}}));
}

TEST_F(ReadPlanTest, OtherReadsAreAsWithoutAPlan) {
  ReadPlan plan;
  plan.Add(file_, 100, 50);
  plan.Start();
  ExpectReads(*file_, 400, 20);
  ExpectReads(*file_, 90, 70);  // begins before the planned range
  ExpectReads(*file_, 100, 50);
  ExpectReads(*file_, 100, 50);  // a second time
  EXPECT_EQ(files_.calls(), (Calls{{{400, 20}}, {{90, 70}}, {{100, 50}}, {{100, 50}}}));
}

TEST_F(ReadPlanTest, ADiskIsReadAsBefore) {
  Shaped disk(&memory_, ReadShape());
  const auto file = Open(&disk);
  ReadPlan plan;
  plan.Add(file, 0, 10);
  plan.Add(file, 10, 10);
  plan.Add(nullptr, 0, 10);
  plan.Start();
  ExpectReads(*file, 0, 10);
  ExpectReads(*file, 10, 10);
  EXPECT_EQ(disk.calls(), (Calls{{{0, 10}}, {{10, 10}}}));
}

TEST_F(ReadPlanTest, AWindowIsPlannedInItsFile) {
  ASSERT_OK_AND_ASSIGN(const auto window, MakeWindow(file_, 1000, 500));
  ReadPlan plan;
  plan.Add(window, 0, 50);
  plan.Add(window, 50, 50);
  plan.Add(window, 490, 50);  // leaves it
  plan.Start();
  std::string out(100, '\0');
  ASSERT_OK(window->ReadAt(0, absl::MakeSpan(&out[0], 50)));
  ASSERT_OK(window->ReadAt(50, absl::MakeSpan(&out[50], 50)));
  EXPECT_EQ(out, bytes_.substr(1000, 100));
  EXPECT_EQ(files_.calls(), (Calls{{{1000, 100}}}));
}

// Any ranges, in any order, whole or in part: the bytes are right, and memory stays bounded.
TEST_F(ReadPlanTest, AnyReadsGetTheirBytes) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto below = [&](uint64_t n) { return static_cast<uint64_t>(random() % n); };
    std::vector<FileRange> ranges;
    for (uint64_t i = below(40); i-- > 0;) {
      const uint64_t offset = below(1900);
      ranges.push_back({offset, below(std::min<uint64_t>(2000 - offset, 120))});
    }
    if (below(2) == 0) {
      std::sort(ranges.begin(), ranges.end(), [](const auto& a, const auto& b) { return a.offset < b.offset; });
    }
    // Some have memory, which is never the one in which they are read here.
    std::vector<std::string> memory;
    for (const FileRange& range : ranges) memory.emplace_back(range.size_bytes + 1, '\0');
    ReadPlan plan;
    for (size_t i = 0; i < ranges.size(); ++i) {
      plan.Add(file_, ranges[i].offset, ranges[i].size_bytes, below(3) == 0 ? &memory[i][0] : nullptr);
    }
    plan.Start();
    files_.Forget();
    for (int i = 0; i < 60; ++i) {
      if (!ranges.empty() && below(4) != 0) {
        const FileRange& range = ranges[static_cast<size_t>(i) % ranges.size()];
        const uint64_t skipped = below(3) == 0 ? below(range.size_bytes + 1) : 0;
        ExpectReads(*file_, range.offset + skipped, range.size_bytes - skipped);
      } else {
        const uint64_t offset = below(2000);
        ExpectReads(*file_, offset, below(2000 - offset));
      }
    }
    for (const auto& call : files_.calls()) {
      for (const auto& [offset, size] : call) EXPECT_LE(size, 100u);
    }
  }
}

TEST_F(ReadPlanTest, ManyThreadsReadOnePlan) {
  // Without notes, which are not for several threads.
  class Quiet final : public ForwardingFileSystem {
   public:
    using ForwardingFileSystem::ForwardingFileSystem;
    ReadShape ShapeOf(IoResult) const override { return kShape; }
  } quiet(&memory_);
  const auto file = Open(&quiet);
  ReadPlan plan;
  for (uint64_t i = 0; i < 200; ++i) plan.Add(file, i * 10, 10);
  plan.Start();
  std::vector<std::thread> threads;
  std::atomic<uint64_t> next{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (uint64_t i = next++; i < 200; i = next++) {
        std::string out(10, '\0');
        EXPECT_OK(file->ReadAt(i * 10, absl::MakeSpan(&out[0], 10)));
        EXPECT_EQ(out, bytes_.substr(i * 10, 10));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// The error is that of the range that has it, and the others are read.
TEST_F(ReadPlanTest, AFailedPieceFailsOnlyTheReadsThatNeedIt) {
  FaultyFileSystem faulty(&files_);
  const auto file = Open(&faulty);
  for (int64_t n = 1; n <= 8; ++n) {
    faulty.FailAt(0, EIO);
    ReadPlan plan;
    for (uint64_t i = 0; i < 8; ++i) plan.Add(file, i * 200, 50);
    plan.Start();
    int failed = 0;
    faulty.FailAt(faulty.operations(FileOperation::kReadAt) + n, EIO, FaultyFileSystem::kOnce, FileOperation::kReadAt);
    for (uint64_t i = 0; i < 8; ++i) {
      std::string out(50, '\0');
      const absl::Status status = file->ReadAt(i * 200, absl::MakeSpan(&out[0], 50));
      failed += status.ok() ? 0 : 1;
      EXPECT_TRUE(!status.ok() || out == bytes_.substr(i * 200, 50));
    }
    EXPECT_EQ(failed, 0) << "fetched again";
  }
  ReadPlan plan;
  plan.Add(file, 0, 50);
  plan.Start();
  faulty.FailAt(faulty.operations(FileOperation::kReadAt) + 1, EIO, FaultyFileSystem::kForEver, FileOperation::kReadAt);
  std::string out(50, '\0');
  EXPECT_THAT(file->ReadAt(0, absl::MakeSpan(&out[0], 50)), StatusIs(Code::kUnknown, HasSubstr("f: cannot read at 0")));
}

// Reads throw, as where the system has no memory, but for those of this thread.
class ThrowingElsewhere final : public ForwardingFileSystem {
 public:
  explicit ThrowingElsewhere(FileSystem* behind) : ForwardingFileSystem(behind) {}
  ReadShape read_shape() const override { return kShape; }
  ReadShape ShapeOf(IoResult) const override { return kShape; }
  IoResult ReadAt(IoResult handle, uint64_t offset, absl::Span<char> out) override {
    Throw();
    return behind()->ReadAt(handle, offset, out);
  }
  IoResult ReadManyAt(IoResult handle, absl::Span<const ReadRange> ranges) override {
    Throw();
    return behind()->ReadManyAt(handle, ranges);
  }
  IoResult ReadPieceAt(IoResult handle, absl::Span<const ReadRange> ranges) override {
    return ReadManyAt(handle, ranges);
  }
  int thrown() const { return thrown_; }

 private:
  void Throw() {
    if (std::this_thread::get_id() == main_) return;
    ++thrown_;
    throw std::bad_alloc();
  }

  const std::thread::id main_ = std::this_thread::get_id();
  std::atomic<int> thrown_{0};
};

TEST_F(ReadPlanTest, WhatAThreadCouldNotFetchForAnExceptionIsRead) {
  ThrowingElsewhere files(&memory_);
  const std::shared_ptr<const ByteSource> file = Open(&files);
  for (int round = 0; round < 50; ++round) {
    ReadPlan plan;
    for (uint64_t i = 0; i < 20; ++i) plan.Add(file, i * 100, 100);
    plan.Start();
    for (uint64_t i = 0; i < 20; ++i) {
      ExpectReads(*file, i * 100, 100);
      if (i == 0) std::this_thread::yield();
    }
  }
  EXPECT_GT(files.thrown(), 0);
}

TEST_F(ReadPlanTest, AFileThatShrankIsDamage) {
  class Shrinking final : public ForwardingFileSystem {
   public:
    using ForwardingFileSystem::ForwardingFileSystem;
    ReadShape ShapeOf(IoResult) const override { return kShape; }
    IoResult ReadManyAt(IoResult, absl::Span<const ReadRange>) override { return -ENODATA; }
  } shrinking(&memory_);
  const auto file = Open(&shrinking);
  std::string out(500, '\0');
  EXPECT_THAT(file->ReadAt(0, absl::MakeSpan(&out[0], 500)),
              StatusIs(Code::kDataLoss, HasSubstr("f: had 2000 bytes when it was opened")));
}

}  // namespace
}  // namespace tensorcask
