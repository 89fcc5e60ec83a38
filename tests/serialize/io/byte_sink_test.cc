#include "tensorcask/serialize/io/byte_sink.h"

#include <sys/resource.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/forwarding_file_system.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/buffer.h"
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
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

std::string RandomText(size_t size, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::string text(size, '\0');
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

TEST(StringSinkTest, AppendsToWhatIsThere) {
  std::string text = "before ";
  StringSink sink(&text);
  EXPECT_OK(sink.Append("abc"));
  EXPECT_OK(sink.Append(absl::string_view("d\0e", 3)));
  EXPECT_EQ(text, std::string("before abcd\0e", 13));
  EXPECT_EQ(sink.position(), 6u);
}

TEST(DiscardSinkTest, Counts) {
  DiscardSink sink;
  EXPECT_OK(sink.Append("abc"));
  EXPECT_OK(sink.Append(""));
  EXPECT_EQ(sink.position(), 3u);
}

TEST(FileSinkTest, AppendsOfEverySizeComeOutInOrder) {
  for (uint64_t seed = 0; seed < 6; ++seed) {
    SCOPED_TRACE(seed);
    MemoryFileSystem memory;
    FaultyFileSystem files(&memory);
    if (seed % 2 == 1) files.LimitTransfers(100'003);
    if (seed % 3 == 1) files.InterruptEach(3);
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<FileSink> sink, FileSink::Create("a", &files));
    std::mt19937_64 random(seed);
    std::string want;
    for (int i = 0; i < 60; ++i) {
      const size_t size = random() % (size_t{1} << (random() % 22));
      const std::string piece = RandomText(size, random());
      ASSERT_OK(sink->Append(piece));
      want += piece;
      ASSERT_EQ(sink->position(), want.size());
      if (i % 30 == 29) {
        ASSERT_OK(sink->Flush(/*sync=*/i == 29));
      }
    }
    EXPECT_OK(sink->Close(/*sync=*/true));
    EXPECT_EQ(sink->position(), want.size());
    EXPECT_TRUE(*memory.Find("a") == want);
    EXPECT_EQ(memory.open_handles(), 0u);
  }
}

TEST(FileSinkTest, EveryShortCountOfASmallFile) {
  for (size_t limit = 1; limit <= 20; ++limit) {
    MemoryFileSystem memory;
    FaultyFileSystem files(&memory);
    files.LimitTransfers(limit);
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<FileSink> sink, FileSink::Create("a", &files));
    ASSERT_OK(sink->Append("nineteen characters"));
    ASSERT_OK(sink->Close(false));
    EXPECT_EQ(*memory.Find("a"), "nineteen characters");
    EXPECT_EQ(files.operations(FileOperation::kAppend), static_cast<int64_t>((19 + limit - 1) / limit));
  }
}

TEST(FileSinkTest, GathersSmallAppendsAndPassesLargeOnesOn) {
  MemoryFileSystem memory;
  FaultyFileSystem files(&memory);
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<FileSink> sink, FileSink::Create("a", &files));
  for (int i = 0; i < 1000; ++i) ASSERT_OK(sink->Append("0123456789"));
  EXPECT_EQ(files.operations(FileOperation::kAppend), 0);
  ASSERT_OK(sink->Append(std::string(300'000, 'x')));
  EXPECT_EQ(files.operations(FileOperation::kAppend), 2);
  ASSERT_OK(sink->Append("tail"));
  ASSERT_OK(sink->Flush(false));
  EXPECT_EQ(memory.Find("a")->size(), 310'004u);
  EXPECT_EQ(files.operations(FileOperation::kSync), 0);
  ASSERT_OK(sink->Flush(true));
  EXPECT_EQ(files.operations(FileOperation::kSync), 1);
}

TEST(FileSinkTest, WritesBeforeAndBehindWhatWasAppended) {
  MemoryFileSystem memory;
  FaultyFileSystem files(&memory);
  files.LimitTransfers(3);
  files.InterruptEach(1);
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<FileSink> sink, FileSink::Create("a", &files));
  ASSERT_OK(sink->Append("0123456789"));
  ASSERT_OK(sink->WriteAt(12, "behind"));
  ASSERT_OK(sink->WriteAt(2, "front"));
  EXPECT_EQ(sink->position(), 10u);
  ASSERT_OK(sink->Append("ab"));
  ASSERT_OK(sink->Close(true));
  EXPECT_EQ(*memory.Find("a"), "01front789abbehind");
  EXPECT_THAT(sink->WriteAt(0, "x"), StatusIs(Code::kFailedPrecondition, HasSubstr("a: is closed")));
}

TEST(FileSinkTest, IsDeadAfterAFailedWriteAt) {
  MemoryFileSystem memory;
  FaultyFileSystem files(&memory);
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<FileSink> sink, FileSink::Create("a", &files));
  ASSERT_OK(sink->Append("0123456789"));
  files.FailAt(1, ENOSPC, FaultyFileSystem::kOnce, FileOperation::kWriteAt);
  EXPECT_THAT(sink->WriteAt(2, "front"), StatusIs(Code::kResourceExhausted, HasSubstr("a: cannot write at 2")));
  EXPECT_THAT(sink->Append("x"), StatusIs(Code::kResourceExhausted, HasSubstr("a: cannot write at 2")));
  EXPECT_EQ(files.open_handles(), 0u);
}

// With and without copies inside the system, from and to offsets that are multiples of a block and not.
TEST(FileSinkTest, AppendFromCopiesAnyRangeToAnyPosition) {
  const TempFolder folder;
  MemoryFileSystem memory;
  const std::string text = RandomText(700'000, 1);
  for (FileSystem* const files : {FileSystem::Posix(), static_cast<FileSystem*>(&memory)}) {
    const bool in_memory = files == &memory;
    const std::string source_path = in_memory ? "source" : folder.Write("source", text);
    if (in_memory) memory.Put("source", text);
    ReadOptions read;
    read.file_system = files;
    ASSERT_OK_AND_ASSIGN(const std::shared_ptr<const ByteSource> source, OpenFileSource(source_path, read));
    int number = 0;
    for (const size_t head : {0, 1, 4096, 5000}) {
      for (const size_t offset : {0, 5, 904, 4096}) {
        for (const size_t bytes : {0, 3, 4096, 100'000, 650'000}) {
          const std::string name = absl::StrCat("copy", ++number);
          const std::string path = in_memory ? name : folder.Path(name);
          ASSERT_OK_AND_ASSIGN(const std::unique_ptr<FileSink> sink, FileSink::Create(path, files));
          ASSERT_OK(sink->Append(text.substr(0, head)));
          ASSERT_OK(sink->AppendFrom(*source, offset, bytes));
          EXPECT_EQ(sink->position(), head + bytes);
          ASSERT_OK(sink->Append("end"));
          ASSERT_OK(sink->Close(/*sync=*/false));
          ASSERT_OK_AND_ASSIGN(const RefPtr<TensorBuffer> copy, ReadWholeFile(path, UINT64_MAX, read));
          const absl::string_view got(static_cast<const char*>(copy->data()), copy->size_bytes());
          EXPECT_TRUE(got == absl::StrCat(text.substr(0, head), text.substr(offset, bytes), "end"))
              << head << " " << offset << " " << bytes;
        }
      }
    }
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<FileSink> sink,
                         FileSink::Create(in_memory ? "past" : folder.Path("past"), files));
    EXPECT_THAT(sink->AppendFrom(*source, 699'000, 2000), StatusIs(Code::kDataLoss, HasSubstr("the file has 700000")));
  }
}

TEST(FileSinkTest, ExistingFilesAndBadPathsAreRefused) {
  MemoryFileSystem memory;
  memory.Put("a", "old");
  EXPECT_THAT(FileSink::Create("a", &memory), StatusIs(Code::kAlreadyExists, HasSubstr("a: cannot create")));
  EXPECT_EQ(*memory.Find("a"), "old");
  EXPECT_THAT(FileSink::Create("", &memory), StatusIs(Code::kInvalidArgument, HasSubstr("empty")));
  EXPECT_THAT(FileSink::Create("no/a", &memory), StatusIs(Code::kNotFound, HasSubstr("no/a: cannot create")));
}

TEST(FileSinkTest, IsDeadAfterAnError) {
  MemoryFileSystem memory;
  FaultyFileSystem files(&memory);
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<FileSink> sink, FileSink::Create("a", &files));
  files.FailAt(2, ENOSPC, FaultyFileSystem::kOnce, FileOperation::kAppend);
  ASSERT_OK(sink->Append(std::string(300'000, 'x')));
  const auto full = StatusIs(Code::kResourceExhausted, HasSubstr("a: cannot write at 300000: No space left"));
  EXPECT_THAT(sink->Append(std::string(300'000, 'y')), full);
  const int64_t operations = files.operations();
  EXPECT_THAT(sink->Append("z"), full);
  EXPECT_THAT(sink->Flush(true), full);
  EXPECT_THAT(sink->Close(true), full);
  EXPECT_EQ(files.operations(), operations) << "nothing more is tried";
  EXPECT_EQ(memory.open_handles(), 0u);
}

TEST(FileSinkTest, AFailedSyncIsFinal) {
  for (const int error : {EIO, ENOSPC, EDQUOT, ESTALE}) {
    MemoryFileSystem memory;
    FaultyFileSystem files(&memory);
    files.FailAt(1, error, FaultyFileSystem::kOnce, FileOperation::kSync);
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<FileSink> sink, FileSink::Create("a", &files));
    ASSERT_OK(sink->Append("abc"));
    const absl::Status failed = sink->Flush(true);
    EXPECT_THAT(failed, StatusIs(IoError(-error, "", "").code(), HasSubstr("a: cannot sync")));
    EXPECT_EQ(sink->Flush(true), failed);
    EXPECT_EQ(sink->Close(true), failed);
    EXPECT_EQ(files.operations(FileOperation::kSync), 1);
  }
}

TEST(FileSinkTest, ErrorsOfCloseAreErrors) {
  MemoryFileSystem memory;
  FaultyFileSystem files(&memory);
  files.FailAt(1, EDQUOT, FaultyFileSystem::kOnce, FileOperation::kClose);
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<FileSink> sink, FileSink::Create("a", &files));
  EXPECT_THAT(sink->Close(false), StatusIs(Code::kResourceExhausted, HasSubstr("a: cannot close")));
  EXPECT_EQ(files.operations(FileOperation::kClose), 1) << "a handle is closed once";
}

TEST(FileSinkTest, AnInterruptedCloseHasClosed) {
  MemoryFileSystem memory;
  FaultyFileSystem files(&memory);
  files.FailAt(1, EINTR, FaultyFileSystem::kOnce, FileOperation::kClose);
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<FileSink> sink, FileSink::Create("a", &files));
  EXPECT_OK(sink->Close(true));
  EXPECT_EQ(files.operations(FileOperation::kClose), 1);
}

TEST(FileSinkTest, EndlessInterruptionsEnd) {
  MemoryFileSystem memory;
  FaultyFileSystem files(&memory);
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<FileSink> sink, FileSink::Create("a", &files));
  files.FailAt(1, EINTR, FaultyFileSystem::kForEver);
  EXPECT_THAT(sink->Append(std::string(300'000, 'x')), StatusIs(Code::kUnavailable, HasSubstr("Interrupted")));
}

TEST(FileSinkTest, WithoutRoomToReserveItStillWrites) {
  for (const int error : {EOPNOTSUPP, ENOSPC, EIO}) {
    MemoryFileSystem memory;
    FaultyFileSystem files(&memory);
    files.FailAt(1, error, FaultyFileSystem::kForEver, FileOperation::kReserve);
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<FileSink> sink, FileSink::Create("a", &files));
    sink->ReserveHint(UINT64_MAX);
    for (int i = 0; i < 12; ++i) ASSERT_OK(sink->Append(std::string(1 << 20, 'x')));
    EXPECT_OK(sink->Close(true));
    EXPECT_EQ(memory.Find("a")->size(), size_t{12} << 20);
    EXPECT_LE(files.operations(FileOperation::kReserve), 2) << "a refusal is taken as such";
  }
}

// Notes the sizes for which room is asked for, in MiB.
class Reservations final : public ForwardingFileSystem {
 public:
  explicit Reservations(FileSystem* behind) : ForwardingFileSystem(behind) {}
  IoResult Reserve(IoResult, uint64_t size_bytes) override {
    sizes.push_back(size_bytes >> 20);
    return 0;
  }
  std::vector<uint64_t> sizes;
};

TEST(FileSinkTest, AsksForRoomInFewRequests) {
  MemoryFileSystem memory;
  const auto requests_of = [&](const std::string& path, uint64_t hint_bytes) {
    Reservations files(&memory);
    const absl::StatusOr<std::unique_ptr<FileSink>> sink = FileSink::Create(path, &files);
    EXPECT_OK(sink);
    if (hint_bytes > 0) (*sink)->ReserveHint(hint_bytes);
    for (int i = 0; i < 100; ++i) EXPECT_OK((*sink)->Append(std::string(1 << 20, 'x')));
    EXPECT_OK((*sink)->Close(false));
    return files.sizes;
  };
  EXPECT_THAT(requests_of("announced", 100 << 20), ElementsAre(100));
  EXPECT_THAT(requests_of("announced too small", 60 << 20), ElementsAre(60, 122, 100)) << "gives back the rest";
  EXPECT_THAT(requests_of("grows", 0), ElementsAre(2, 6, 14, 30, 62, 126, 100));
}

TEST(FileSinkTest, RoomCanBeReleasedBeforeClose) {
  MemoryFileSystem memory;
  Reservations files(&memory);
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<FileSink> sink, FileSink::Create("a", &files));
  sink->ReleaseReserved();  // there is none
  for (int i = 0; i < 3; ++i) ASSERT_OK(sink->Append(std::string(1 << 20, 'x')));
  sink->ReleaseReserved();
  sink->ReleaseReserved();
  EXPECT_THAT(files.sizes, ElementsAre(2, 6, 3));
  ASSERT_OK(sink->Append(std::string(1 << 20, 'y')));  // asks again
  ASSERT_OK(sink->Append("z"));                        // gathered
  sink->ReleaseReserved();
  EXPECT_OK(sink->Close(false));
  EXPECT_THAT(files.sizes, ElementsAre(2, 6, 3, 8, 4));
  EXPECT_EQ(memory.Find("a")->size(), (size_t{4} << 20) + 1);
}

TEST(FileSinkTest, RoomForWhatWasGatheredIsReleasedWithIt) {
  MemoryFileSystem memory;
  Reservations files(&memory);
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<FileSink> sink, FileSink::Create("a", &files));
  ASSERT_OK(sink->Append(std::string(1000 << 10, 'x')));
  ASSERT_OK(sink->Append(std::string(60000, 'y')));  // gathered; with it, the file is long enough to ask for room
  sink->ReleaseReserved();
  EXPECT_THAT(files.sizes, ElementsAre(2, 1));
  EXPECT_OK(sink->Close(false));
  EXPECT_THAT(files.sizes, ElementsAre(2, 1));
}

TEST(FileSinkTest, ARefusedReleaseIsRepeatedByClose) {
  MemoryFileSystem memory;
  Reservations with_room(&memory);
  FaultyFileSystem files(&with_room);
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<FileSink> sink, FileSink::Create("a", &files));
  sink->ReserveHint(1 << 20);
  files.FailAt(2, ENOSPC, FaultyFileSystem::kOnce, FileOperation::kReserve);
  sink->ReleaseReserved();
  const auto before = files.operations(FileOperation::kReserve);
  EXPECT_OK(sink->Close(false));
  EXPECT_EQ(files.operations(FileOperation::kReserve), before + 1);
}

TEST(FileSinkTest, AfterAnErrorNoRoomIsReleased) {
  MemoryFileSystem memory;
  Reservations with_room(&memory);
  FaultyFileSystem files(&with_room);
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<FileSink> sink, FileSink::Create("a", &files));
  sink->ReserveHint(1 << 20);
  ASSERT_OK(sink->Append("gathered"));
  files.FailAt(1, ENOSPC, FaultyFileSystem::kForEver, FileOperation::kAppend);
  sink->ReleaseReserved();
  EXPECT_EQ(files.operations(FileOperation::kReserve), 1);
  EXPECT_THAT(sink->Flush(false), StatusIs(Code::kResourceExhausted, HasSubstr("a: cannot write")))
      << "the error of the write that ReleaseReserved needed";
}

TEST(FileSinkTest, RealFilesEndWithTheRoomTheyNeedAndAreReadable) {
  const TempFolder folder;
  const std::string path = folder.Path("a");
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<FileSink> sink, FileSink::Create(path));
  const std::string piece = RandomText((5 << 20) + 17, 1);
  ASSERT_OK(sink->Append(piece));
  struct stat info;
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0077, 0u) << "private while it is written";
  ASSERT_OK(sink->Close(true));
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(static_cast<size_t>(info.st_size), piece.size());
  EXPECT_LE(static_cast<size_t>(info.st_blocks) * 512, piece.size() + (1 << 20));
  const mode_t mask = umask(022);
  umask(mask);
  EXPECT_EQ(info.st_mode & 0777, 0666 & ~mask);
}

TEST(FileSinkTest, TakesNothingAfterClose) {
  MemoryFileSystem memory;
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<FileSink> sink, FileSink::Create("a", &memory));
  ASSERT_OK(sink->Close(false));
  const auto closed = StatusIs(Code::kFailedPrecondition, AllOf(HasSubstr("a: "), HasSubstr("closed")));
  EXPECT_THAT(sink->Append("x"), closed);
  EXPECT_THAT(sink->Flush(false), closed);
  EXPECT_THAT(sink->Close(false), closed);
}

// The most memory this process has had so far.
int64_t PeakMemoryBytes() {
  rusage usage;
  return getrusage(RUSAGE_SELF, &usage) == 0 ? int64_t{usage.ru_maxrss} * 1024 : -1;
}

TEST(FileSinkTest, MemoryDoesNotGrowWithTheFile) {
  DiscardingFileSystem files;
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<FileSink> sink, FileSink::Create("a", &files));
  const std::string large(1 << 20, 'x');
  const std::string small(1 << 15, 'x');
  const int64_t before = PeakMemoryBytes();
  for (int i = 0; i < 8000; ++i) ASSERT_OK(sink->Append(large));
  for (int i = 0; i < 6144; ++i) ASSERT_OK(sink->Append(small));
  ASSERT_OK(sink->Close(true));
  EXPECT_EQ(files.SizeOfFile("a"), uint64_t{8192} << 20);
  EXPECT_LT(PeakMemoryBytes() - before, 16 << 20);
}

}  // namespace
}  // namespace tensorcask
