// Publication::AddExisting: files that get a second name.

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/serialize/io/publication.h"
#include "tensorcask/tests/serialize/io/publication_testing.h"
#include "tensorcask/tests/support/faulty_file_system.h"
#include "tensorcask/tests/support/status_matchers.h"
#include "tensorcask/tests/support/temp_folder.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::FaultyFileSystem;
using ::tensorcask::testing::FileOperation;
using ::tensorcask::testing::NamesIn;
using ::tensorcask::testing::On;
using ::tensorcask::testing::StatusIs;
using ::tensorcask::testing::StepsAfterWriting;
using ::tensorcask::testing::TempFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using Code = absl::StatusCode;

TEST(PublicationExistingTest, AppearAtCommitWithTheOthers) {
  MemoryFileSystem memory;
  memory.Put("s", "content");
  FaultyFileSystem files(&memory);
  Publication publish(On(&files));
  ASSERT_OK(publish.AddExisting("s", "m.data"));
  ASSERT_OK_AND_ASSIGN(FileSink * index, publish.Add("m.index"));
  ASSERT_OK(index->Append("index"));
  EXPECT_THAT(memory.Paths(), ElementsAre(MatchesRegex("m\\.data\\.tmp-[0-9a-f]{16}"),
                                          MatchesRegex("m\\.index\\.tmp-[0-9a-f]{16}"), "s"));
  ASSERT_OK(publish.Commit());
  EXPECT_THAT(memory.Paths(), ElementsAre("m.data", "m.index", "s"));
  EXPECT_EQ(*memory.Find("m.data"), "content");
  // The content is made durable before the name.
  EXPECT_THAT(StepsAfterWriting(files), ElementsAre("Sync m.data~", "Sync m.index~", "Rename m.data~ -> m.data",
                                                    "SyncFolder .", "Rename m.index~ -> m.index", "SyncFolder ."));
  EXPECT_EQ(files.bytes_read(), 0u) << "no copy";
  EXPECT_EQ(files.open_handles(), 0u);
}

TEST(PublicationExistingTest, WithoutCommitTheSourceStaysAlone) {
  MemoryFileSystem memory;
  memory.Put("s", "content");
  for (const bool links : {true, false}) {
    FaultyFileSystem files(&memory);
    if (!links) files.FailAt(1, EOPNOTSUPP, FaultyFileSystem::kForEver, FileOperation::kLink);
    Publication publish(On(&files));
    ASSERT_OK(publish.AddExisting("s", "m.data"));
    EXPECT_EQ(memory.Paths().size(), 2u);
    publish.Abandon();
    EXPECT_THAT(memory.Paths(), ElementsAre("s"));
    EXPECT_EQ(*memory.Find("s"), "content");
    EXPECT_EQ(memory.open_handles(), 0u);
  }
}

TEST(PublicationExistingTest, IsCopiedWhereThereAreNoLinks) {
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{512} << 10, (size_t{1} << 20) + 17}) {
    MemoryFileSystem memory;
    std::string content(bytes, '\0');
    for (size_t i = 0; i < bytes; ++i) content[i] = static_cast<char>(i * 31 + i / 4096);
    memory.Put("s", content);
    FaultyFileSystem files(&memory);
    files.FailAt(1, EOPNOTSUPP, FaultyFileSystem::kForEver, FileOperation::kLink);
    files.LimitTransfers(100000);
    Publication publish(On(&files));
    ASSERT_OK(publish.AddExisting("s", "m"));
    ASSERT_OK(publish.Commit());
    EXPECT_EQ(*memory.Find("m"), content);
    EXPECT_THAT(StepsAfterWriting(files), ElementsAre("Sync m~", "Rename m~ -> m", "SyncFolder ."));
  }
}

TEST(PublicationExistingTest, BadSourcesAreRefused) {
  const TempFolder folder;
  folder.Write("taken", "");
  ASSERT_EQ(symlink("nowhere", folder.Path("dangling").c_str()), 0);
  ASSERT_EQ(mkfifo(folder.Path("pipe").c_str(), 0600), 0);
  struct Row {
    const char* name;
    const char* source;
    const char* target;
    Code code;
    const char* says;
  };
  const Row rows[] = {{"Missing", "none", "m", Code::kNotFound, "/none: cannot look for the file"},
                      {"Dangling", "dangling", "m", Code::kNotFound, "/dangling: cannot look"},
                      {"Folder", ".", "m", Code::kFailedPrecondition, "/.: is not a regular file"},
                      {"Pipe", "pipe", "m", Code::kFailedPrecondition, "/pipe: is not a regular file"},
                      {"Taken", "taken", "taken", Code::kAlreadyExists, "/taken: exists already"},
                      {"NoFolder", "taken", "no/m", Code::kNotFound, "/no/m: cannot create: No such file"}};
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    Publication publish(On(FileSystem::Posix()));
    EXPECT_THAT(publish.AddExisting(folder.Path(row.source), folder.Path(row.target)),
                StatusIs(row.code, HasSubstr(row.says)));
    EXPECT_OK(publish.Commit()) << "nothing was added";
  }
  EXPECT_THAT(NamesIn(folder.path()), ElementsAre("dangling", "pipe", "taken"));
  Publication publish(On(FileSystem::Posix()));
  EXPECT_THAT(publish.AddExisting("", folder.Path("m")), StatusIs(Code::kInvalidArgument, HasSubstr("empty")));
}

TEST(PublicationExistingTest, RealFilesAreLinkedEvenThroughLinks) {
  const TempFolder folder;
  folder.Write("s", "content");
  ASSERT_EQ(symlink("s", folder.Path("alias").c_str()), 0);
  ASSERT_EQ(mkdir(folder.Path("d").c_str(), 0700), 0);
  Publication publish(On(FileSystem::Posix()));
  ASSERT_OK(publish.AddExisting(folder.Path("alias"), folder.Path("d/m")));
  ASSERT_OK(publish.Commit());
  struct stat source;
  struct stat published;
  ASSERT_EQ(stat(folder.Path("s").c_str(), &source), 0);
  ASSERT_EQ(lstat(folder.Path("d/m").c_str(), &published), 0);
  EXPECT_EQ(source.st_ino, published.st_ino);
  EXPECT_THAT(NamesIn(folder.Path("d")), ElementsAre("m"));

  // Once more: rename(2) of two names of one file does nothing, and leaves both.
  Publication again(On(FileSystem::Posix(), true, /*overwrite=*/true));
  ASSERT_OK(again.AddExisting(folder.Path("s"), folder.Path("d/m")));
  ASSERT_OK(again.Commit());
  EXPECT_THAT(NamesIn(folder.Path("d")), ElementsAre("m"));
  // And onto itself.
  Publication self(On(FileSystem::Posix(), true, /*overwrite=*/true));
  ASSERT_OK(self.AddExisting(folder.Path("s"), folder.Path("s")));
  ASSERT_OK(self.Commit());
  EXPECT_THAT(NamesIn(folder.path()), ElementsAre("alias", "d", "s"));
  ASSERT_OK_AND_ASSIGN(const RefPtr<TensorBuffer> found, ReadWholeFile(folder.Path("s"), 1000));
  EXPECT_EQ(found->bytes(), "content");
}

// Each temporary name is locked through a file descriptor, and a process may have about a thousand.
TEST(PublicationExistingTest, ManyFilesTakeFewHandles) {
  constexpr int kFiles = Publication::kMaxLinkedAhead + 50;
  for (const bool fails : {false, true}) {
    MemoryFileSystem memory;
    FaultyFileSystem files(&memory);
    files.KeepLog(false);
    size_t most = 0;
    files.SetHook([&](int64_t, FileOperation, const std::string&) { most = std::max(most, files.open_handles()); });
    Publication publish(On(&files));
    for (int i = 0; i < kFiles; ++i) {
      memory.Put(absl::StrCat("s", i), absl::StrCat("content ", i));
      ASSERT_OK(publish.AddExisting(absl::StrCat("s", i), absl::StrCat("m", i)));
    }
    ASSERT_OK(publish.Add("m.index"));
    if (fails) memory.Remove(absl::StrCat("s", kFiles - 1));  // which has no second name yet
    const absl::Status committed = publish.Commit();
    EXPECT_LE(most, static_cast<size_t>(Publication::kMaxLinkedAhead) + 4);
    EXPECT_EQ(files.open_handles(), 0u);
    EXPECT_EQ(publish.switch_may_exist(), !fails);
    if (fails) {
      EXPECT_THAT(committed, StatusIs(Code::kNotFound, HasSubstr(absl::StrCat("s", kFiles - 1))));
      EXPECT_EQ(memory.Paths().size(), static_cast<size_t>(kFiles - 1)) << "the sources";
      continue;
    }
    EXPECT_OK(committed);
    EXPECT_EQ(memory.Paths().size(), static_cast<size_t>(2 * kFiles + 1));
    for (int i = 0; i < kFiles; ++i) EXPECT_EQ(*memory.Find(absl::StrCat("m", i)), absl::StrCat("content ", i));
  }
}

}  // namespace
}  // namespace tensorcask
