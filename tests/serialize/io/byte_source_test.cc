#include "tensorcask/serialize/io/byte_source.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/io/contained_folder.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/serialize/io/piece_buffer.h"
#include "tensorcask/tests/support/discarding_file_system.h"
#include "tensorcask/tests/support/faulty_file_system.h"
#include "tensorcask/tests/support/status_matchers.h"
#include "tensorcask/tests/support/temp_folder.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::DiscardingFileSystem;
using ::tensorcask::testing::FaultyFileSystem;
using ::tensorcask::testing::FileOperation;
using ::tensorcask::testing::StatusIs;
using ::tensorcask::testing::TempFolder;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Code = absl::StatusCode;
using SourcePtr = std::shared_ptr<const ByteSource>;

std::string RandomText(size_t size, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::string text(size, '\0');
  size_t i = 0;
  for (; i + 8 <= size; i += 8) {
    const uint64_t bits = random();
    for (size_t k = 0; k < 8; ++k) text[i + k] = static_cast<char>(bits >> (8 * k));
  }
  for (; i < size; ++i) text[i] = static_cast<char>(random());
  return text;
}

// Every way of having the same bytes behind a ByteSource.
struct Way {
  const char* name;
  bool real;  // a real file, else one in memory; memory_source: no file at all
  bool memory_source;
  ReadStrategy strategy;
};
const Way kWays[] = {{"Read", true, false, ReadStrategy::kRead},
                     {"Parallel", true, false, ReadStrategy::kParallel},
                     {"Map", true, false, ReadStrategy::kMap},
                     {"ReadInMemory", false, false, ReadStrategy::kRead},
                     {"ParallelInMemory", false, false, ReadStrategy::kParallel},
                     {"MapInMemory", false, false, ReadStrategy::kMap},
                     {"Bytes", false, true, ReadStrategy::kRead}};

class ByteSourceTest : public ::testing::TestWithParam<Way> {
 protected:
  ~ByteSourceTest() override {
    EXPECT_EQ(faulty_.open_handles(), 0u);
    EXPECT_EQ(memory_.open_handles(), 0u);
  }

  SourcePtr Open(const std::string& text) {
    const Way& way = GetParam();
    if (way.memory_source) {
      text_ = text;
      return MakeMemorySource("bytes", text_);
    }
    ReadOptions options;
    options.strategy = way.strategy;
    if (way.real) {
      path_ = folder_.Write("f", text);
    } else {
      path_ = "f";
      memory_.Put(path_, text);
      options.file_system = &faulty_;
      faulty_.LimitTransfers(1'000'003);
      faulty_.InterruptEach(1);
    }
    absl::StatusOr<SourcePtr> source = OpenFileSource(path_, options);
    EXPECT_OK(source);
    return source.ok() ? *source : nullptr;
  }

  TempFolder folder_;
  MemoryFileSystem memory_;
  FaultyFileSystem faulty_{&memory_};
  std::string path_ = "bytes";
  std::string text_;
};

TEST_P(ByteSourceTest, ReadsAnyRange) {
  const std::string text = RandomText(100'000, 1);
  const SourcePtr source = Open(text);
  ASSERT_NE(source, nullptr);
  EXPECT_EQ(source->size_bytes(), text.size());
  EXPECT_EQ(source->name(), path_);
  std::mt19937_64 random(2);
  for (int i = 0; i < 200; ++i) {
    const size_t offset = random() % (text.size() + 1);
    std::string out(random() % (text.size() - offset + 1), '.');
    ASSERT_OK(source->ReadAt(offset, absl::MakeSpan(out)));
    ASSERT_TRUE(out == text.substr(offset, out.size())) << offset << " + " << out.size();
  }
}

TEST_P(ByteSourceTest, ReadsLargeRanges) {
  const std::string text = RandomText((size_t{19} << 20) + 1234, 3);
  const SourcePtr source = Open(text);
  ASSERT_NE(source, nullptr);
  for (const size_t offset : {size_t{0}, size_t{1}, size_t{4099}}) {
    std::string out(text.size() - offset, '.');
    ASSERT_OK(source->ReadAt(offset, absl::MakeSpan(out)));
    EXPECT_TRUE(out == text.substr(offset));
  }
}

TEST_P(ByteSourceTest, PastTheEndIsDataLoss) {
  const SourcePtr source = Open(std::string(1020, 'x'));
  ASSERT_NE(source, nullptr);
  struct Row {
    uint64_t offset;
    size_t size;
    const char* says;
  };
  const Row rows[] = {{1000, 48, ": 48 bytes at 1000 were requested; the file has 1020"},
                      {1021, 0, ": 0 bytes at 1021 were requested"},
                      {0, 1021, ": 1021 bytes at 0"},
                      {UINT64_MAX, 1, "bytes at 18446744073709551615 were requested"},
                      {UINT64_MAX - 10, 20, "were requested; the file has 1020"}};
  std::string out(2000, '.');
  for (const Row& row : rows) {
    const auto lost = StatusIs(Code::kDataLoss, AllOf(HasSubstr(path_), HasSubstr(row.says)));
    const absl::Span<char> span = absl::MakeSpan(out).subspan(0, row.size);
    EXPECT_THAT(source->ReadAt(row.offset, span), lost);
    const ReadRange ranges[] = {{0, absl::MakeSpan(out).subspan(100, 1)}, {row.offset, span}};
    EXPECT_THAT(source->ReadRanges(ranges), lost);
    EXPECT_THAT(source->Map(row.offset, row.size), lost);
  }
  EXPECT_EQ(out, std::string(2000, '.')) << "nothing was read";
  EXPECT_OK(source->ReadAt(1020, {}));
}

TEST_P(ByteSourceTest, RangesAgreeWithReadingEachAlone) {
  const std::string text = RandomText(3'000'000, 4);
  const SourcePtr source = Open(text);
  ASSERT_NE(source, nullptr);
  for (uint64_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const size_t spread = size_t{1} << (8 + random() % 14);  // how far apart they lie
    const size_t base = random() % text.size();
    std::vector<std::string> outs(random() % 200);
    std::vector<ReadRange> ranges;
    std::vector<std::string> wants;
    for (std::string& out : outs) {
      const size_t offset = std::min(base + random() % spread, text.size());
      const size_t longest = random() % 20 == 0 ? 400'000 : random() % 10 == 0 ? 0 : 9000;
      out.assign(std::min(longest == 0 ? 0 : random() % longest, text.size() - offset), '.');
      ranges.push_back({offset, absl::MakeSpan(out)});
      wants.push_back(text.substr(offset, out.size()));
    }
    ASSERT_OK(source->ReadRanges(ranges));
    EXPECT_TRUE(outs == wants);
  }
}

TEST_P(ByteSourceTest, MappedBytesOutliveTheSource) {
  const std::string text = RandomText(50'000, 5);
  SourcePtr source = Open(text);
  ASSERT_NE(source, nullptr);
  if (GetParam().memory_source) {
    EXPECT_THAT(source->Map(0, 10), StatusIs(Code::kUnimplemented, HasSubstr("bytes: cannot be mapped")));
    return;
  }
  std::vector<RefPtr<TensorBuffer>> buffers;
  struct Row {
    uint64_t offset;
    size_t size;
  };
  const Row rows[] = {{0, 50'000},      {1, 7},      {4095, 2},   {4096, 4096},
                      {12'345, 20'000}, {49'999, 1}, {50'000, 0}, {17, 0}};
  for (const Row& row : rows) {
    ASSERT_OK_AND_ASSIGN(RefPtr<TensorBuffer> buffer, source->Map(row.offset, row.size));
    buffers.push_back(std::move(buffer));
  }
  source.reset();
  for (size_t i = 0; i < buffers.size(); ++i) {
    EXPECT_EQ(buffers[i]->bytes(), absl::string_view(text).substr(rows[i].offset, rows[i].size)) << i;
    EXPECT_EQ(buffers[i]->kind(), TensorBuffer::Kind::kMapped);
  }
  // Writing goes to a private copy: of the file, of other buffers, nothing changes.
  ASSERT_OK(buffers[1]->EnsureMutable());
  static_cast<char*>(buffers[1]->mutable_data())[0] ^= 1;
  EXPECT_EQ(buffers[0]->bytes(), text);
  EXPECT_NE(buffers[1]->bytes(), absl::string_view(text).substr(1, 7));
}

TEST_P(ByteSourceTest, IsSafeFromSeveralThreads) {
  const std::string text = RandomText(200'000, 6);
  const SourcePtr source = Open(text);
  ASSERT_NE(source, nullptr);
  std::atomic<int> good{0};
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = 0; i < 50; ++i) {
        const size_t offset = (t * 7919 + i * 4093) % 190'000;
        std::string out(5000, '.');
        if (!source->ReadAt(offset, absl::MakeSpan(out)).ok() || out != text.substr(offset, 5000)) return;
        if (GetParam().memory_source) continue;
        const absl::StatusOr<RefPtr<TensorBuffer>> mapped = source->Map(offset, 5000);
        if (!mapped.ok() || (*mapped)->bytes() != out) return;
      }
      ++good;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 4);
}

INSTANTIATE_TEST_SUITE_P(All, ByteSourceTest, ::testing::ValuesIn(kWays),
                         [](const auto& info) { return info.param.name; });

TEST(OpenFileSourceTest, RejectsWithCodeAndMessage) {
  const TempFolder folder;
  ASSERT_EQ(mkfifo(folder.Path("pipe").c_str(), 0600), 0);
  ASSERT_EQ(symlink("loop", folder.Path("loop").c_str()), 0);
  struct Row {
    const char* name;
    std::string path;
    Code code;
    std::string says;
  };
  const Row rows[] = {
      {"Missing", folder.Path("missing"), Code::kNotFound, "missing: cannot open: No such file"},
      {"Folder", folder.path(), Code::kFailedPrecondition, folder.path() + ": cannot open: is a folder"},
      {"FolderSlash", folder.path() + "/", Code::kFailedPrecondition, "is a folder"},
      {"Pipe", folder.Path("pipe"), Code::kFailedPrecondition, "pipe: cannot open: is not a regular file"},
      {"Device", "/dev/zero", Code::kFailedPrecondition, "/dev/zero: cannot open: is not a regular file"},
      {"LinkLoop", folder.Path("loop"), Code::kUnknown, "loop: cannot open: Too many levels"},
      {"Empty", "", Code::kInvalidArgument, "empty"},
      {"Nul", std::string("a\0b", 3), Code::kInvalidArgument, "NUL"},
      {"LongName", std::string(256, 'n'), Code::kInvalidArgument, "limit is 255"},
      {"LongPath", std::string(5000, '/'), Code::kInvalidArgument, "limit is 4095"}};
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    EXPECT_THAT(OpenFileSource(row.path, {}), StatusIs(row.code, HasSubstr(row.says)));
    EXPECT_THAT(ReadWholeFile(row.path, 1000), StatusIs(row.code, HasSubstr(row.says)));
  }
}

TEST(FileSourceTest, AFileThatShrankIsDataLossNotAShortRead) {
  for (const ReadStrategy strategy : {ReadStrategy::kRead, ReadStrategy::kParallel, ReadStrategy::kMap}) {
    for (const bool was_mapped : {false, true}) {
      const TempFolder folder;
      const std::string path = folder.Write("f", std::string(20 << 20, 'x'));
      ReadOptions options;
      options.strategy = strategy;
      ASSERT_OK_AND_ASSIGN(const SourcePtr source, OpenFileSource(path, options));
      std::string out(16 << 20, '.');
      if (was_mapped) {
        ASSERT_OK(source->Map(0, 1000));
      }
      ASSERT_EQ(truncate(path.c_str(), 10'000), 0);
      const auto shrank =
          StatusIs(Code::kDataLoss, HasSubstr("/f: had 20971520 bytes when it was opened, and now ends at 10000"));
      EXPECT_THAT(source->ReadAt(100, absl::MakeSpan(out)), StatusIs(Code::kDataLoss, HasSubstr("/f: had 20971520")));
      EXPECT_THAT(source->ReadAt(9000, absl::MakeSpan(out).subspan(0, 5000)), shrank);
      EXPECT_THAT(source->Map(100, 20'000), shrank);
      EXPECT_OK(source->ReadAt(100, absl::MakeSpan(out).subspan(0, 1000)));
      ASSERT_OK_AND_ASSIGN(const RefPtr<TensorBuffer> rest, source->Map(9000, 1000));
      EXPECT_EQ(rest->bytes(), std::string(1000, 'x'));
      ASSERT_EQ(truncate(path.c_str(), 20 << 20), 0);
      if (!was_mapped && strategy != ReadStrategy::kMap) {
        EXPECT_THAT(source->Map(100, 20000), shrank) << "the mapping was made of the shorter file";
      }
    }
  }
}

TEST(FileSourceTest, AGrowingFileIsReadAsItWasWhenOpened) {
  const TempFolder folder;
  const std::string path = folder.Write("f", "abc");
  ASSERT_OK_AND_ASSIGN(const SourcePtr source, OpenFileSource(path, {}));
  folder.Write("f", "abcdef");
  std::string out(4, '.');
  EXPECT_EQ(source->size_bytes(), 3u);
  EXPECT_THAT(source->ReadAt(0, absl::MakeSpan(out)), StatusIs(Code::kDataLoss, HasSubstr("the file has 3")));
}

TEST(FileSourceTest, EveryShortCountOfASmallFile) {
  MemoryFileSystem memory;
  memory.Put("f", "nineteen characters");
  for (size_t limit = 1; limit <= 20; ++limit) {
    FaultyFileSystem files(&memory);
    files.LimitTransfers(limit);
    files.InterruptEach(static_cast<int>(limit % 3));
    ReadOptions options;
    options.file_system = &files;
    ASSERT_OK_AND_ASSIGN(const RefPtr<TensorBuffer> text, ReadWholeFile("f", 19, options));
    EXPECT_EQ(text->bytes(), "nineteen characters");
  }
}

TEST(FileSourceTest, NeighboursAreReadTogether) {
  MemoryFileSystem memory;
  memory.Put("f", std::string(10 << 20, 'x'));
  FaultyFileSystem files(&memory);
  ReadOptions options;
  options.file_system = &files;
  ASSERT_OK_AND_ASSIGN(const SourcePtr source, OpenFileSource("f", options));
  struct Row {
    const char* name;
    uint64_t step;
    size_t size;
    size_t count;
    int64_t reads;
  };
  const Row rows[] = {
      {"Touching", 100, 100, 1000, 1},         {"SmallGaps", 4196, 100, 100, 1}, {"LargeGaps", 4197, 100, 100, 100},
      {"Overlapping", 50, 100, 1000, 1},       {"Same", 0, 100, 1000, 1},        {"BoundedMemory", 4096, 4096, 512, 2},
      {"LargeOnes", 300'000, 300'000, 10, 10}, {"Empty", 100, 0, 10, 0}};
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    std::vector<std::string> outs(row.count, std::string(row.size, '.'));
    std::vector<ReadRange> ranges;
    for (size_t i = row.count; i-- > 0;) ranges.push_back({i * row.step, absl::MakeSpan(outs[i])});
    const int64_t before = files.operations(FileOperation::kReadAt);
    ASSERT_OK(source->ReadRanges(ranges));
    EXPECT_EQ(files.operations(FileOperation::kReadAt) - before, row.reads);
    EXPECT_EQ(outs, std::vector<std::string>(row.count, std::string(row.size, 'x')));
  }
}

TEST(FileSourceTest, ManyMappedPiecesAreOneMapping) {
  MemoryFileSystem memory;
  memory.Put("f", std::string(10'000, 'x'));
  FaultyFileSystem files(&memory);
  ReadOptions options;
  options.file_system = &files;
  ASSERT_OK_AND_ASSIGN(SourcePtr source, OpenFileSource("f", options));
  std::vector<RefPtr<TensorBuffer>> buffers;
  for (uint64_t i = 0; i < 9000; ++i) {
    ASSERT_OK_AND_ASSIGN(RefPtr<TensorBuffer> buffer, source->Map(i, 1000));
    buffers.push_back(std::move(buffer));
  }
  EXPECT_EQ(files.operations(FileOperation::kMap), 1);
  source.reset();
  EXPECT_EQ(files.open_handles(), 1u) << "the mapping";
  buffers.clear();
  EXPECT_EQ(files.open_handles(), 0u);
}

TEST(FileSourceTest, EachFailingOperationIsReportedAndLeaksNothing) {
  MemoryFileSystem memory;
  const std::string text = RandomText(10 << 20, 7);
  memory.Put("f", text);
  const auto use = [&](FileSystem* files, ReadStrategy strategy) -> absl::Status {
    ReadOptions options;
    options.file_system = files;
    options.strategy = strategy;
    const absl::StatusOr<SourcePtr> source = OpenFileSource("f", options);
    if (!source.ok()) return source.status();
    std::string out(text.size(), '.');
    if (absl::Status read = (*source)->ReadAt(0, absl::MakeSpan(out)); !read.ok()) return read;
    EXPECT_TRUE(out == text);
    const absl::StatusOr<RefPtr<TensorBuffer>> mapped = (*source)->Map(10, 20);
    if (!mapped.ok()) return mapped.status();
    EXPECT_EQ((*mapped)->bytes(), text.substr(10, 20));
    return absl::OkStatus();
  };
  int runs = 0;
  for (const ReadStrategy strategy : {ReadStrategy::kRead, ReadStrategy::kParallel, ReadStrategy::kMap}) {
    for (const int error : {EIO, EINTR, EAGAIN, EMFILE, EACCES, ESTALE}) {
      for (const auto duration : {FaultyFileSystem::kOnce, FaultyFileSystem::kForEver}) {
        for (int64_t n = 1;; ++n) {
          SCOPED_TRACE(::testing::Message() << "error " << error << " at " << n << (duration ? " for ever" : " once"));
          FaultyFileSystem files(&memory);
          files.FailAt(n, error, duration);
          const absl::Status status = use(&files, strategy);
          EXPECT_EQ(files.open_handles(), 0u);
          EXPECT_EQ(memory.open_handles(), 0u);
          if (files.faults() == 0) {
            EXPECT_OK(status);
            break;
          }
          ++runs;
          if (error == EINTR && duration == FaultyFileSystem::kOnce) {
            EXPECT_OK(status);
          }
          if (!status.ok()) {
            EXPECT_THAT(status, StatusIs(IoError(-error, "", "").code(), HasSubstr("f: cannot ")));
          } else if (error != EINTR) {
            // Giving back cannot fail for the reader.
            const FileOperation failed = files.log().back().operation;
            EXPECT_TRUE(failed == FileOperation::kClose || failed == FileOperation::kUnmap) << files.LogText();
          }
        }
      }
    }
  }
  EXPECT_GT(runs, 150);
}

TEST(FileSourceTest, SaysSoWhereNothingCanBeMapped) {
  DiscardingFileSystem files;
  EXPECT_EQ(files.Append(files.CreateNew("f"), "abc"), 3);
  ReadOptions options;
  options.file_system = &files;
  ASSERT_OK_AND_ASSIGN(const SourcePtr source, OpenFileSource("f", options));
  EXPECT_THAT(source->Map(0, 3), StatusIs(Code::kUnimplemented, HasSubstr("f: cannot map")));
  MemoryFileSystem memory;
  memory.Put("f", "abc");
  FaultyFileSystem faulty(&memory);
  faulty.FailAt(1, ENODEV, FaultyFileSystem::kForEver, FileOperation::kMap);
  options.file_system = &faulty;
  ASSERT_OK_AND_ASSIGN(const SourcePtr other, OpenFileSource("f", options));
  EXPECT_THAT(other->Map(0, 3), StatusIs(Code::kUnimplemented, HasSubstr("cannot map files")));
}

TEST(ReadWholeFileTest, TakesNoMoreThanAllowed) {
  const TempFolder folder;
  const std::string path = folder.Write("f", "abcdef");
  EXPECT_THAT(ReadWholeFile(path, 5), StatusIs(Code::kResourceExhausted, HasSubstr("/f: has 6 bytes, the limit is 5")));
  ASSERT_OK_AND_ASSIGN(const RefPtr<TensorBuffer> whole, ReadWholeFile(path, 6));
  EXPECT_EQ(whole->bytes(), "abcdef");
  folder.Write("empty", "");
  ASSERT_OK_AND_ASSIGN(const RefPtr<TensorBuffer> nothing, ReadWholeFile(folder.Path("empty"), 0));
  EXPECT_EQ(nothing->bytes(), "");
  folder.Write("sparse", "");
  ASSERT_EQ(truncate(folder.Path("sparse").c_str(), off_t{1} << 42), 0);
  EXPECT_THAT(ReadWholeFile(folder.Path("sparse"), 1 << 30), StatusIs(Code::kResourceExhausted, HasSubstr("limit")));
}

// An empty file cannot be mapped, and need not be.
TEST_P(ByteSourceTest, NothingOfAnEmptyFileIsMapped) {
  const SourcePtr source = Open("");
  ASSERT_NE(source, nullptr);
  if (GetParam().memory_source) return;
  ASSERT_OK_AND_ASSIGN(const RefPtr<TensorBuffer> buffer, source->Map(0, 0));
  EXPECT_EQ(buffer->size_bytes(), 0u);
  EXPECT_EQ(buffer->kind(), TensorBuffer::Kind::kMapped);
}

TEST(PieceBuffer, BeginsAtAPageAndIsNoLargerThanWhatItIsFor) {
  for (const uint64_t total : {uint64_t{0}, uint64_t{1}, uint64_t{5000}, uint64_t{1} << 40}) {
    PieceBuffer buffer(total, size_t{1} << 20);
    EXPECT_EQ(buffer.size(), std::min<uint64_t>(total, uint64_t{1} << 20));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 4096, 0);
  }
}

TEST(MemorySource, OfABufferIsMappedAndKeepsIt) {
  ASSERT_OK_AND_ASSIGN(RefPtr<TensorBuffer> bytes, TensorBuffer::Allocate(100));
  std::memset(bytes->mutable_data(), 'x', 100);
  const void* const data = bytes->data();
  SourcePtr source = MakeMemorySource("m", std::move(bytes));
  EXPECT_EQ(source->size_bytes(), 100u);
  ASSERT_OK_AND_ASSIGN(const RefPtr<TensorBuffer> part, source->Map(10, 90));
  EXPECT_THAT(source->Map(10, 91).status(), StatusIs(Code::kDataLoss, HasSubstr("m: 91 bytes at 10")));
  source.reset();
  EXPECT_EQ(part->bytes(), std::string(90, 'x'));
  EXPECT_EQ(part->data(), static_cast<const char*>(data) + 10);
}

TEST(OpenFileSource, OpensOnlyTheSourceOfItsOptions) {
  const TempFolder folder;
  const std::string path = folder.Write("f", "of the system");
  ReadOptions options;
  options.source = MakeMemorySource("m", "of memory");
  ASSERT_OK_AND_ASSIGN(const SourcePtr source, OpenFileSource("m", options));
  EXPECT_EQ(source, options.source);
  EXPECT_THAT(OpenFileSource(path, options).status(),
              StatusIs(Code::kNotFound, HasSubstr("/f: cannot be read, because only the bytes of m are given")));
  ASSERT_OK_AND_ASSIGN(const ContainedFolder beside,
                       ContainedFolder::Of(folder.Path("m"), ContainedFolder::Links::kContained, options));
  EXPECT_THAT(beside.Open("f").status(), StatusIs(Code::kNotFound, HasSubstr("/f: cannot be read, because only")));
}

TEST(ByteSourceWindow, IsASourceOfItsOwn) {
  const TempFolder folder;
  const std::string content = RandomText(20'000, 3);
  const std::string path = folder.Write("f", content);
  ASSERT_OK_AND_ASSIGN(const SourcePtr file, OpenFileSource(path, {}));
  ASSERT_OK_AND_ASSIGN(const SourcePtr window, MakeWindow(file, 5001, 10'000));
  EXPECT_EQ(window->name(), path);
  EXPECT_EQ(window->size_bytes(), 10'000u);
  std::string read(100, '\0');
  EXPECT_OK(window->ReadAt(9900, absl::MakeSpan(read)));
  EXPECT_EQ(read, content.substr(14'901, 100));
  EXPECT_THAT(window->ReadAt(9901, absl::MakeSpan(read)), StatusIs(Code::kDataLoss, HasSubstr("the file has 10000")));
  EXPECT_THAT(window->ReadAt(~uint64_t{0}, absl::MakeSpan(read)), StatusIs(Code::kDataLoss));
  std::string other(7, '\0');
  EXPECT_OK(window->ReadRanges({{0, absl::MakeSpan(read)}, {3, absl::MakeSpan(other)}}));
  EXPECT_EQ(read, content.substr(5001, 100));
  EXPECT_EQ(other, content.substr(5004, 7));
  EXPECT_THAT(window->ReadRanges({{0, absl::MakeSpan(read)}, {9999, absl::MakeSpan(other)}}),
              StatusIs(Code::kDataLoss));
  ASSERT_OK_AND_ASSIGN(const RefPtr<TensorBuffer> mapped, window->Map(1, 9999));
  EXPECT_EQ(mapped->bytes(), content.substr(5002, 9999));
  EXPECT_THAT(window->Map(1, 10'000).status(), StatusIs(Code::kDataLoss));
  ASSERT_OK_AND_ASSIGN(const SourcePtr inner, MakeWindow(window, 10'000, 0));
  EXPECT_EQ(inner->size_bytes(), 0u);
  EXPECT_THAT(MakeWindow(window, 10'001, 0).status(), StatusIs(Code::kDataLoss));
  EXPECT_THAT(MakeWindow(file, 15'000, 5001).status(), StatusIs(Code::kDataLoss));
}

}  // namespace
}  // namespace tensorcask
