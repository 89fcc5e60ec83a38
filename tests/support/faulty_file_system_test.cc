#include "tensorcask/tests/support/faulty_file_system.h"

#include <cerrno>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/tests/support/discarding_file_system.h"

namespace tensorcask::testing {
namespace {

using ::testing::ElementsAre;

TEST(FaultyFileSystemTest, WithoutFaultsAnswersAsTheOneBehindAndKeepsALog) {
  MemoryFileSystem memory;
  FaultyFileSystem files(&memory);
  const IoResult out = files.CreateNew("a");
  EXPECT_EQ(files.open_handles(), 1u);
  EXPECT_EQ(files.Append(out, "abc"), 3);
  EXPECT_EQ(files.Close(out), 0);
  EXPECT_EQ(files.Rename("a", "b", FileSystem::OnExisting::kRefuse), 0);
  EXPECT_EQ(files.OpenToRead("a"), -ENOENT);
  EXPECT_EQ(*memory.Find("b"), "abc");
  EXPECT_EQ(files.LogText(), "CreateNew a\nAppend a\nClose a\nRename a -> b\nOpenToRead a = -2\n");
  EXPECT_EQ(files.operations(), 5);
  EXPECT_EQ(files.operations(FileOperation::kAppend), 1);
  EXPECT_EQ(files.bytes_written(), 3u);
  EXPECT_EQ(files.faults(), 0);
  EXPECT_EQ(files.open_handles(), 0u);
}

TEST(FaultyFileSystemTest, FailsTheNthOnceOrForEver) {
  MemoryFileSystem memory;
  memory.Put("a", "abc");
  for (const bool for_ever : {false, true}) {
    FaultyFileSystem files(&memory);
    files.FailAt(2, ENOSPC, for_ever ? FaultyFileSystem::kForEver : FaultyFileSystem::kOnce);
    FileInfo info;
    EXPECT_EQ(files.Describe("a", &info), 0);
    EXPECT_EQ(files.Describe("a", &info), -ENOSPC);
    EXPECT_EQ(files.Describe("a", &info), for_ever ? -ENOSPC : 0);
    EXPECT_EQ(files.faults(), for_ever ? 2 : 1);
  }
}

TEST(FaultyFileSystemTest, CountsOneKindAlone) {
  MemoryFileSystem memory;
  FaultyFileSystem files(&memory);
  files.FailAt(2, EIO, FaultyFileSystem::kOnce, FileOperation::kAppend);
  const IoResult out = files.CreateNew("a");
  EXPECT_EQ(files.Append(out, "1"), 1);
  EXPECT_EQ(files.Sync(out), 0);
  EXPECT_EQ(files.Append(out, "2"), -EIO);
  EXPECT_EQ(files.Append(out, "3"), 1);
  EXPECT_EQ(files.Close(out), 0);
  EXPECT_EQ(*memory.Find("a"), "13");
}

TEST(FaultyFileSystemTest, AFailedCloseOrUnmapGivesBackAllTheSame) {
  MemoryFileSystem memory;
  memory.Put("a", std::string(5000, 'x'));
  FaultyFileSystem files(&memory);
  const IoResult in = files.OpenToRead("a");
  const char* data = nullptr;
  ASSERT_EQ(files.Map(in, 4096, 904, &data), 0);
  EXPECT_EQ(data[903], 'x');
  EXPECT_EQ(files.open_handles(), 2u);
  files.FailAt(1, EIO, FaultyFileSystem::kForEver);
  EXPECT_EQ(files.Unmap(data, 904), -EIO);
  EXPECT_EQ(files.Close(in), -EIO);
  EXPECT_EQ(files.open_handles(), 0u);
  EXPECT_EQ(memory.open_handles(), 0u);
}

TEST(FaultyFileSystemTest, CanFailAfterTheEffectWithoutLeaks) {
  MemoryFileSystem memory;
  memory.Put("a", "abc");
  FaultyFileSystem files(&memory);
  files.FailAfterEffect(true);
  const IoResult in = files.OpenToRead("a");
  files.FailAt(1, ESTALE, FaultyFileSystem::kForEver);
  const char* data = nullptr;
  EXPECT_EQ(files.Map(in, 0, 3, &data), -ESTALE);
  EXPECT_EQ(data, nullptr);
  EXPECT_EQ(files.Rename("a", "b", FileSystem::OnExisting::kRefuse), -ESTALE);
  EXPECT_EQ(files.CreateNew("c"), -ESTALE);
  EXPECT_THAT(memory.Paths(), ElementsAre("b", "c"));
  EXPECT_EQ(files.Close(in), -ESTALE);
  EXPECT_EQ(memory.open_handles(), 0u);
}

TEST(FaultyFileSystemTest, LimitsTransfersAndInterrupts) {
  MemoryFileSystem memory;
  memory.Put("a", "abcdef");
  FaultyFileSystem files(&memory);
  files.LimitTransfers(2);
  files.InterruptEach(2);
  EXPECT_EQ(files.OpenToRead("a"), -EINTR);
  EXPECT_EQ(files.OpenToRead("a"), -EINTR);
  const IoResult in = files.OpenToRead("a");
  ASSERT_GE(in, 0);
  std::string text(6, '.');
  EXPECT_EQ(files.ReadAt(in, 0, absl::MakeSpan(text)), -EINTR);
  EXPECT_EQ(files.ReadAt(in, 0, absl::MakeSpan(text)), -EINTR);
  EXPECT_EQ(files.ReadAt(in, 1, absl::MakeSpan(text)), 2);
  EXPECT_EQ(text, "bc....");
  EXPECT_EQ(files.Close(in), 0);
  EXPECT_EQ(files.faults(), 0);
  EXPECT_EQ(files.bytes_read(), 2u);
}

TEST(FaultyFileSystemTest, TheHookMayInterfere) {
  MemoryFileSystem memory;
  FaultyFileSystem files(&memory);
  std::vector<int64_t> numbers;
  files.SetHook([&](int64_t n, FileOperation operation, const std::string& path) {
    numbers.push_back(n);
    if (operation == FileOperation::kCreateNew) memory.Put(path, "was first");
  });
  FileInfo info;
  EXPECT_EQ(files.Describe("a", &info), -ENOENT);
  EXPECT_EQ(files.CreateNew("a"), -EEXIST);
  EXPECT_THAT(numbers, ElementsAre(1, 2));
}

TEST(DiscardingFileSystemTest, KeepsNamesAndSizes) {
  DiscardingFileSystem files;
  const IoResult out = files.CreateNew("d/a.tmp");
  EXPECT_EQ(files.CreateNew("d/a.tmp"), -EEXIST);
  EXPECT_EQ(files.Append(out, "abc"), 3);
  EXPECT_EQ(files.Append(out, "de"), 2);
  EXPECT_EQ(files.Rename("d/a.tmp", "d/a", FileSystem::OnExisting::kRefuse), 0);
  EXPECT_EQ(files.Append(out, "f"), 1);
  EXPECT_EQ(files.SizeOf(out), 6);
  EXPECT_EQ(files.Close(out), 0);
  EXPECT_EQ(files.Append(out, "g"), -EBADF);
  EXPECT_EQ(files.SizeOfFile("d/a"), 6u);
  EXPECT_EQ(files.SizeOfFile("d/a.tmp"), std::nullopt);
  std::vector<std::string> names;
  EXPECT_EQ(files.List("d", &names), 0);
  EXPECT_THAT(names, ElementsAre("a"));
  EXPECT_EQ(files.Remove("d/a"), 0);
  EXPECT_EQ(files.Remove("d/a"), -ENOENT);
  EXPECT_EQ(files.bytes_written(), 6u);
  EXPECT_EQ(files.open_handles(), 0u);
}

}  // namespace
}  // namespace tensorcask::testing
