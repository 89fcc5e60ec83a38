#include "tensorcask/serialize/io/publication.h"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/io/forwarding_file_system.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/tests/serialize/io/publication_testing.h"
#include "tensorcask/tests/support/faulty_file_system.h"
#include "tensorcask/tests/support/in_child.h"
#include "tensorcask/tests/support/status_matchers.h"
#include "tensorcask/tests/support/temp_folder.h"
#include "tensorcask/tests/support/uploading_file_system.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::Content;
using ::tensorcask::testing::FaultyFileSystem;
using ::tensorcask::testing::FileOperation;
using ::tensorcask::testing::InChild;
using ::tensorcask::testing::kNew;
using ::tensorcask::testing::kOld;
using ::tensorcask::testing::NamesIn;
using ::tensorcask::testing::On;
using ::tensorcask::testing::PublishAll;
using ::tensorcask::testing::PutAll;
using ::tensorcask::testing::StatusIs;
using ::tensorcask::testing::StepsAfterWriting;
using ::tensorcask::testing::TempFolder;
using ::tensorcask::testing::UploadingFileSystem;
using ::tensorcask::testing::WhatReadersFind;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::Pair;
using Code = absl::StatusCode;

TEST(PublicationTest, FilesAppearAtCommitAndNotBefore) {
  MemoryFileSystem memory;
  Publication publish(On(&memory));
  ASSERT_OK_AND_ASSIGN(FileSink * a, publish.Add("a"));
  ASSERT_OK_AND_ASSIGN(FileSink * b, publish.Add("b"));
  ASSERT_OK(a->Append("first"));
  ASSERT_OK(b->Append("second"));
  EXPECT_THAT(memory.Paths(), ElementsAre(MatchesRegex("a\\.tmp-[0-9a-f]{16}"), MatchesRegex("b\\.tmp-[0-9a-f]{16}")));
  ASSERT_OK(publish.Commit());
  EXPECT_THAT(memory.Paths(), ElementsAre("a", "b"));
  EXPECT_EQ(*memory.Find("a"), "first");
  EXPECT_EQ(*memory.Find("b"), "second");
  EXPECT_EQ(memory.open_handles(), 0u);
  EXPECT_THAT(publish.Commit(), StatusIs(Code::kFailedPrecondition, HasSubstr("Commit after Commit")));
  EXPECT_THAT(publish.Add("c"), StatusIs(Code::kFailedPrecondition, HasSubstr("c: added after Commit")));
  publish.Abandon();
  EXPECT_THAT(memory.Paths(), ElementsAre("a", "b")) << "published is published";
}

TEST(PublicationTest, ASwitchThatWasReplacedLeavesTheOtherFiles) {
  MemoryFileSystem memory;
  memory.Put("data", "old data");
  memory.Put("switch", "old switch");
  PublishOptions options = On(&memory);
  options.overwrite = true;
  ReadOptions read;
  read.file_system = &memory;
  {
    Publication publish(options);
    ASSERT_OK_AND_ASSIGN(std::shared_ptr<const ByteSource> old, OpenFileSource("switch", read));
    publish.ReplaceOnly(std::move(old));
    ASSERT_OK(publish.Add("data").status());
    ASSERT_OK(publish.Add("switch").status());
    memory.Put("switch", "of another writer");
    EXPECT_THAT(publish.Commit(), StatusIs(Code::kAborted, HasSubstr("switch: was replaced")));
  }
  EXPECT_THAT(memory.Paths(), ElementsAre("data", "switch"));
  EXPECT_EQ(*memory.Find("data"), "old data");
  EXPECT_EQ(*memory.Find("switch"), "of another writer");
}

// As Python's multiprocessing makes them.
TEST(PublicationTest, AChildOfForkLeavesTheFilesToItsParent) {
  const TempFolder folder;
  auto publish = std::make_unique<Publication>(On(FileSystem::Posix()));
  ASSERT_OK_AND_ASSIGN(FileSink * sink, publish->Add(folder.Path("a")));
  ASSERT_OK(sink->Append("first"));
  EXPECT_TRUE(InChild([&] {
    publish.reset();
    return true;
  }));
  EXPECT_TRUE(InChild([&] {
    publish->Abandon();
    return true;
  }));
  EXPECT_TRUE(InChild([&] {
    EXPECT_THAT(publish->Commit(), StatusIs(Code::kFailedPrecondition, HasSubstr("a: the parent of this process")));
    EXPECT_THAT(publish->Add("b"), StatusIs(Code::kFailedPrecondition, HasSubstr("b: the parent of this process")));
    EXPECT_THAT(sink->Append("second"), StatusIs(Code::kFailedPrecondition, HasSubstr("the parent of this process")));
    EXPECT_THAT(sink->Flush(false), StatusIs(Code::kFailedPrecondition));
    return !::testing::Test::HasFailure();
  }));
  ASSERT_OK(sink->Append(" third"));
  ASSERT_OK(publish->Commit());
  ASSERT_OK_AND_ASSIGN(const std::shared_ptr<const ByteSource> source, OpenFileSource(folder.Path("a"), {}));
  std::string bytes(source->size_bytes(), '\0');
  ASSERT_OK(source->ReadAt(0, absl::MakeSpan(bytes)));
  EXPECT_EQ(bytes, "first third");
}

TEST(PublicationTest, WithoutCommitNothingIsLeft) {
  MemoryFileSystem memory;
  {
    Publication publish(On(&memory));
    ASSERT_OK_AND_ASSIGN(FileSink * a, publish.Add("a"));
    ASSERT_OK(a->Append(std::string(2 << 20, 'x')));
    EXPECT_EQ(memory.Paths().size(), 1u);
  }
  EXPECT_THAT(memory.Paths(), IsEmpty());
  Publication publish(On(&memory));
  ASSERT_OK(publish.Add("a"));
  publish.Abandon();
  EXPECT_THAT(memory.Paths(), IsEmpty());
  EXPECT_THAT(publish.Commit(), StatusIs(Code::kFailedPrecondition, HasSubstr("Abandon")));
  EXPECT_EQ(memory.open_handles(), 0u);
}

TEST(PublicationTest, NothingAddedIsNothingPublished) {
  MemoryFileSystem memory;
  Publication publish(On(&memory));
  EXPECT_OK(publish.Commit());
  EXPECT_THAT(memory.Paths(), IsEmpty());
}

TEST(PublicationTest, DataIsDurableBeforeTheSwitchIsNamed) {
  MemoryFileSystem memory;
  FaultyFileSystem files(&memory);
  ASSERT_OK(PublishAll(On(&files), kNew));
  EXPECT_THAT(StepsAfterWriting(files), ElementsAre("Sync m.data-0~", "Sync m.data-1~", "Sync m.index~",
                                                    "Rename m.data-0~ -> m.data-0", "Rename m.data-1~ -> m.data-1",
                                                    "SyncFolder .", "Rename m.index~ -> m.index", "SyncFolder ."));
}

TEST(PublicationTest, EveryFolderIsSynced) {
  MemoryFileSystem memory;
  FaultyFileSystem files(&memory);
  for (const char* folder : {"/a", "/b", "/c"}) ASSERT_EQ(memory.MakeFolder(folder), 0);
  ASSERT_OK(PublishAll(On(&files), {{"/a/1", ""}, {"/a/2", ""}, {"/b/1", ""}, {"/a/3", ""}, {"/c/index", ""}}));
  std::vector<std::string> steps = StepsAfterWriting(files);
  steps.erase(steps.begin(), steps.begin() + 5);
  EXPECT_THAT(steps, ElementsAre("Rename /a/1~ -> /a/1", "Rename /a/2~ -> /a/2", "SyncFolder /a",
                                 "Rename /b/1~ -> /b/1", "SyncFolder /b", "Rename /a/3~ -> /a/3", "SyncFolder /a",
                                 "Rename /c/index~ -> /c/index", "SyncFolder /c"));
}

// An old set of files with another switch: a reader that opens that switch finds all of the set, or no switch.
TEST(PublicationTest, OldFilesAreRemovedAfterTheSwitchAndTheOldSwitchBeforeTheOthers) {
  MemoryFileSystem memory;
  PutAll(&memory, {{"old.index", "i"}, {"old-0", "0"}, {"old-1", "1"}, {"m.data-1", "stays"}});
  FaultyFileSystem files(&memory);
  PublishOptions options = On(&files, /*sync=*/true, /*overwrite=*/true);
  Publication publish(options);
  for (const Content& file : kNew) {
    ASSERT_OK_AND_ASSIGN(FileSink* const sink, publish.Add(file.path));
    ASSERT_OK(sink->Append(file.bytes));
  }
  publish.RemoveAfterwards("old-0");
  publish.RemoveAfterwards("m.data-1");  // is new
  publish.RemoveAfterwards("was never there");
  publish.RemoveOldSwitch("old.index");
  publish.RemoveAfterwards("old-1");
  ASSERT_OK(publish.Commit());
  EXPECT_THAT(publish.removed(), ElementsAre("old.index", "old-0", "old-1"));
  EXPECT_THAT(memory.Paths(), ElementsAre("m.data-0", "m.data-1", "m.index"));
  const std::vector<std::string> steps = StepsAfterWriting(files);
  const auto at = [&](const std::string& part) {
    size_t i = 0;
    while (i < steps.size() && steps[i].find(part) == std::string::npos) ++i;
    return i;
  };
  EXPECT_LT(at("m.index~"), at("old.index"));
  EXPECT_LT(at("old.index") + 1, at("old-0"));  // a sync of the folder is between them
}

TEST(PublicationTest, AnOldSwitchThatCannotBeRemovedIsAnErrorAndTheNewFilesStay) {
  MemoryFileSystem memory;
  PutAll(&memory, {{"old.index", "i"}, {"old-0", "0"}});
  FaultyFileSystem files(&memory);
  Publication publish(On(&files, /*sync=*/true, /*overwrite=*/true));
  ASSERT_OK_AND_ASSIGN(FileSink* const sink, publish.Add("m"));
  ASSERT_OK(sink->Append("new"));
  publish.RemoveOldSwitch("old.index");
  publish.RemoveAfterwards("old-0");
  files.FailAt(1, EACCES, FaultyFileSystem::kForEver, FileOperation::kRemove);
  EXPECT_THAT(publish.Commit(), StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("old.index: cannot remove")));
  EXPECT_THAT(publish.removed(), IsEmpty());
  EXPECT_THAT(memory.Paths(), ElementsAre("m", "old-0", "old.index"));
}

TEST(PublicationTest, OverwritingReplacesTheSwitchInOneStep) {
  MemoryFileSystem memory;
  PutAll(&memory, kOld);
  FaultyFileSystem files(&memory);
  ASSERT_OK(PublishAll(On(&files, /*sync=*/true, /*overwrite=*/true), kNew));
  EXPECT_THAT(StepsAfterWriting(files), ElementsAre("Sync m.data-0~", "Sync m.data-1~", "Sync m.index~",
                                                    "Rename m.data-0~ -> m.data-0", "Rename m.data-1~ -> m.data-1",
                                                    "SyncFolder .", "Rename m.index~ -> m.index", "SyncFolder ."));
  EXPECT_EQ(WhatReadersFind(memory), "new");
}

TEST(PublicationTest, TheFileSystemIsToldEachFinalName) {
  MemoryFileSystem memory;
  UploadingFileSystem files(&memory);
  memory.Put("old", "old");
  {
    Publication publish(On(&files));
    ASSERT_OK_AND_ASSIGN(FileSink * a, publish.Add("a"));
    ASSERT_OK(publish.AddExisting("old", "copy"));
    ASSERT_OK_AND_ASSIGN(FileSink * index, publish.Add("index"));
    ASSERT_OK(a->Append("first"));
    ASSERT_OK(index->Append("switch"));
    EXPECT_EQ(memory.Find("a"), nullptr);
    EXPECT_EQ(files.unpublished(), 3u);
    ASSERT_OK(publish.Commit());
  }
  EXPECT_EQ(*memory.Find("a"), "first");
  EXPECT_EQ(*memory.Find("copy"), "old");
  EXPECT_EQ(*memory.Find("index"), "switch");
  {
    Publication publish(On(&files));
    ASSERT_OK_AND_ASSIGN(FileSink * b, publish.Add("b"));
    ASSERT_OK(b->Append("lost"));
  }
  EXPECT_EQ(memory.Paths(), (std::vector<std::string>{"a", "copy", "index", "old"}));
  EXPECT_EQ(files.unpublished(), 0u);
}

TEST(PublicationTest, ASingleFileIsReplacedInOneStep) {
  MemoryFileSystem memory;
  memory.Put("a", "old");
  FaultyFileSystem files(&memory);
  ASSERT_OK(PublishAll(On(&files, /*sync=*/true, /*overwrite=*/true), {{"a", "new"}}));
  EXPECT_THAT(StepsAfterWriting(files), ElementsAre("Sync a~", "Rename a~ -> a", "SyncFolder ."));
  EXPECT_EQ(*memory.Find("a"), "new");
}

TEST(PublicationTest, WithoutSyncTheOrderIsTheSame) {
  MemoryFileSystem memory;
  FaultyFileSystem files(&memory);
  ASSERT_OK(PublishAll(On(&files, /*sync=*/false), kNew));
  EXPECT_THAT(StepsAfterWriting(files), ElementsAre("Rename m.data-0~ -> m.data-0", "Rename m.data-1~ -> m.data-1",
                                                    "Rename m.index~ -> m.index"));
}

TEST(PublicationTest, ATakenNameIsRefusedEarly) {
  MemoryFileSystem memory;
  memory.Put("a", "old");
  ASSERT_EQ(memory.MakeFolder("d"), 0);
  Publication publish(On(&memory));
  EXPECT_THAT(publish.Add("a"), StatusIs(Code::kAlreadyExists, HasSubstr("a: exists already")));
  EXPECT_THAT(publish.Add("d"), StatusIs(Code::kAlreadyExists, HasSubstr("d: exists already")));
  ASSERT_OK(publish.Add("b"));
  EXPECT_THAT(publish.Add("b"), StatusIs(Code::kAlreadyExists, HasSubstr("b: added twice")));
  Publication overwriting(On(&memory, true, /*overwrite=*/true));
  EXPECT_OK(overwriting.Add("a"));
  EXPECT_THAT(overwriting.Add("d"), StatusIs(Code::kFailedPrecondition, HasSubstr("d: is not a regular file")));
}

TEST(PublicationTest, BadPathsAreRefused) {
  const TempFolder folder;
  folder.Write("file", "");
  ASSERT_EQ(symlink("loop", folder.Path("loop").c_str()), 0);
  struct Row {
    const char* name;
    std::string path;
    Code code;
    const char* says;
  };
  const Row rows[] = {
      {"Empty", "", Code::kInvalidArgument, "empty"},
      {"Nul", folder.Path(std::string("a\0b", 3)), Code::kInvalidArgument, "NUL"},
      {"Slash", folder.Path("a/"), Code::kInvalidArgument, "names a folder"},
      {"LongName", folder.Path(std::string(256, 'n')), Code::kInvalidArgument, "limit is 255"},
      {"LongPath", folder.path() + std::string(4096, '/') + "a", Code::kInvalidArgument, "limit is 4095"},
      {"NoFolder", folder.Path("no/a"), Code::kNotFound, "no/a: cannot create: No such file or directory"},
      {"FileAsFolder", folder.Path("file/a"), Code::kFailedPrecondition, "file/a: cannot look"},
      {"LinkLoop", folder.Path("loop"), Code::kUnknown, "loop: cannot look"}};
  for (const bool overwrite : {false, true}) {
    for (const Row& row : rows) {
      SCOPED_TRACE(row.name);
      Publication publish(On(FileSystem::Posix(), false, overwrite));
      EXPECT_THAT(publish.Add(row.path), StatusIs(row.code, HasSubstr(row.says)));
    }
  }
}

TEST(PublicationTest, NamesAtTheLimitOfTheSystem) {
  const TempFolder folder;
  std::vector<std::string> names = {"n", std::string(200, 'n'), std::string(234, 'n'), std::string(235, 'n'),
                                    std::string(255, 'n')};
  std::string umlauts = "x";
  while (umlauts.size() < 255) umlauts += "\xc3\xa4";
  names.push_back(umlauts);
  for (const std::string& name : names) {
    SCOPED_TRACE(name);
    Publication publish(On(FileSystem::Posix(), false));
    ASSERT_OK(publish.Add(folder.Path(name)));
    const std::string temporary = NamesIn(folder.path()).at(0);
    EXPECT_LE(temporary.size(), 255u);
    const std::string stem = temporary.substr(0, temporary.size() - 21);
    EXPECT_EQ(name.compare(0, stem.size(), stem), 0);
    if (name == umlauts) {
      EXPECT_EQ(stem.size() % 2, 1u) << "no character is cut";
    }
    ASSERT_OK(publish.Commit());
    EXPECT_THAT(NamesIn(folder.path()), ElementsAre(name));
    ASSERT_EQ(unlink(folder.Path(name).c_str()), 0);
  }
}

TEST(PublicationTest, PathsAtTheLimitOfTheSystem) {
  MemoryFileSystem memory;
  const std::string folder = std::string(4094 - 10, '/');
  for (const size_t name_bytes : {1, 5, 10, 11}) {
    Publication publish(On(&memory, false));
    const std::string path = folder + std::string(name_bytes, 'n');
    EXPECT_THAT(publish.Add(path), StatusIs(Code::kInvalidArgument, HasSubstr("limit is 4095"))) << "no room for .tmp-";
  }
  Publication publish(On(&memory, false));
  const std::string path = std::string(4095 - 30, '/') + std::string(30, 'n');
  ASSERT_OK(publish.Add(path));
  ASSERT_OK(publish.Commit());
  EXPECT_THAT(memory.Paths(), ElementsAre("/" + std::string(30, 'n')));
}

TEST(PublicationTest, TheErrorOfAMissingFolderKeepsItsNumber) {
  const TempFolder folder;
  Publication publish(On(FileSystem::Posix()));
  const absl::Status status = publish.Add(folder.Path("no/a")).status();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kNotFound, HasSubstr("there is no folder ")));
  EXPECT_EQ(ErrorNumberOf(status), ENOENT);
}

TEST(PublicationTest, ADanglingLinkIsNotWrittenThrough) {
  const TempFolder folder;
  ASSERT_EQ(symlink("elsewhere", folder.Path("a").c_str()), 0);
  EXPECT_THAT(PublishAll(On(FileSystem::Posix()), {{folder.Path("a"), "x"}}),
              StatusIs(Code::kAlreadyExists, HasSubstr("/a: exists already")));
  EXPECT_THAT(NamesIn(folder.path()), ElementsAre("a"));
  ASSERT_OK(PublishAll(On(FileSystem::Posix(), true, /*overwrite=*/true), {{folder.Path("a"), "x"}}));
  struct stat info;
  ASSERT_EQ(lstat(folder.Path("a").c_str(), &info), 0);
  EXPECT_TRUE(S_ISREG(info.st_mode)) << "the link is replaced, not what it leads to";
  EXPECT_THAT(NamesIn(folder.path()), ElementsAre("a"));
}

TEST(PublicationTest, NewFilesHaveThePermissionsThatTheOldOnesHaveInCommon) {
  const TempFolder folder;
  const std::string data = folder.Path("data");
  const std::string index = folder.Path("index");
  const auto publish = [&](bool overwrite) {
    return PublishAll(On(FileSystem::Posix(), true, overwrite), {{data, "x"}, {index, "y"}});
  };
  const auto mode_of = [](const std::string& path) {
    struct stat info;
    return stat(path.c_str(), &info) == 0 ? info.st_mode & 07777 : 0;
  };
  ASSERT_OK(publish(false));
  const mode_t ordinary = mode_of(index);
  for (const auto& [mode_of_index, mode_of_data, both] :
       {std::array<mode_t, 3>{0600, 0644, 0600}, {0640, 0600, 0600}, {0664, 0646, 0644}}) {
    ASSERT_EQ(chmod(index.c_str(), mode_of_index), 0);
    ASSERT_EQ(chmod(data.c_str(), mode_of_data), 0);
    ASSERT_OK(publish(true));
    EXPECT_EQ(mode_of(index), both);
    EXPECT_EQ(mode_of(data), both);
  }
  ASSERT_EQ(unlink(index.c_str()), 0);
  ASSERT_EQ(unlink(data.c_str()), 0);
  ASSERT_OK(publish(true));
  EXPECT_EQ(mode_of(index), ordinary);
  EXPECT_EQ(mode_of(data), ordinary);
}

TEST(PublicationTest, AVanishedFolderIsAnErrorNamingTheFile) {
  const TempFolder folder;
  ASSERT_EQ(mkdir(folder.Path("d").c_str(), 0700), 0);
  Publication publish(On(FileSystem::Posix()));
  ASSERT_OK(publish.Add(folder.Path("d/a")));
  ASSERT_EQ(unlink(folder.Path("d/" + NamesIn(folder.Path("d")).at(0)).c_str()), 0);
  ASSERT_EQ(rmdir(folder.Path("d").c_str()), 0);
  EXPECT_THAT(publish.Commit(), StatusIs(Code::kNotFound, HasSubstr("/d/a.tmp-0000000000000000: cannot lock")));
}

TEST(PublicationTest, OfTwoWritersOneWinsWhole) {
  // The other one publishes everything just before the n-th operation of the first.
  const std::vector<Content> other = {{"m.data-0", "other"}, {"m.data-1", "other"}, {"m.index", "other"}};
  int lost = 0;
  for (int64_t n = 1;; ++n) {
    SCOPED_TRACE(n);
    MemoryFileSystem memory;
    FaultyFileSystem files(&memory);
    bool came = false;
    absl::Status other_status;
    files.SetHook([&](int64_t at, FileOperation, const std::string&) {
      if (at != n) return;
      came = true;
      other_status = PublishAll(On(&memory), other);
    });
    const absl::Status status = PublishAll(On(&files), kNew);
    if (!came) break;
    EXPECT_NE(status.ok(), other_status.ok());
    EXPECT_THAT(memory.Paths(), ElementsAre("m.data-0", "m.data-1", "m.index"));
    if (status.ok()) {
      EXPECT_EQ(WhatReadersFind(memory), "new");
    } else {
      ++lost;
      EXPECT_THAT(status, StatusIs(Code::kAlreadyExists, MatchesRegex("m\\.(data-[01]|index): .*exists.*")));
      for (const Content& content : other) EXPECT_EQ(*memory.Find(content.path), content.bytes);
    }
  }
  EXPECT_GT(lost, 5);
}

TEST(PublicationTest, ThreadsRacingForRealNames) {
  const TempFolder folder;
  for (int round = 0; round < 20; ++round) {
    const std::string prefix = folder.Path("m" + std::to_string(round));
    std::vector<absl::Status> statuses(4);
    std::vector<std::thread> threads;
    for (size_t t = 0; t < statuses.size(); ++t) {
      threads.emplace_back([&, t] {
        const std::string bytes(1000, static_cast<char>('a' + t));
        statuses[t] =
            PublishAll(On(FileSystem::Posix(), false), {{prefix + ".data", bytes}, {prefix + ".index", bytes}});
      });
    }
    for (std::thread& thread : threads) thread.join();
    int won = 0;
    for (size_t t = 0; t < statuses.size(); ++t) {
      if (!statuses[t].ok()) {
        EXPECT_THAT(statuses[t], StatusIs(Code::kAlreadyExists, HasSubstr(prefix + ".")));
        continue;
      }
      ++won;
      const std::string bytes(1000, static_cast<char>('a' + t));
      for (const char* suffix : {".data", ".index"}) {
        ASSERT_OK_AND_ASSIGN(const RefPtr<TensorBuffer> found, ReadWholeFile(prefix + suffix, 1000));
        EXPECT_EQ(found->bytes(), bytes);
      }
    }
    EXPECT_EQ(won, 1);
  }
  EXPECT_EQ(NamesIn(folder.path()).size(), 40u) << "and nothing else is left";
}

TEST(PublicationTest, ATemporaryNameThatIsTakenIsPassedOver) {
  MemoryFileSystem memory;
  FaultyFileSystem files(&memory);
  std::vector<IoResult> others;  // handles of other writers, which live
  files.SetHook([&](int64_t, FileOperation operation, const std::string& path) {
    if (operation == FileOperation::kCreateNew && others.size() < 3) others.push_back(memory.CreateNew(path));
  });
  ASSERT_OK(PublishAll(On(&files), {{"a", "x"}}));
  EXPECT_EQ(memory.Paths().size(), 4u);
  EXPECT_EQ(*memory.Find("a"), "x");
  files.SetHook([&](int64_t, FileOperation operation, const std::string& path) {
    if (operation == FileOperation::kCreateNew) others.push_back(memory.CreateNew(path));
  });
  EXPECT_THAT(PublishAll(On(&files), {{"b", "x"}}), StatusIs(Code::kAlreadyExists, HasSubstr("b.tmp-")));
  EXPECT_EQ(files.operations(FileOperation::kCreateNew), 4 + 8) << "and it ends";
  EXPECT_EQ(memory.Paths().size(), 4u + 8u) << "what is not ours is left alone";
  for (const IoResult handle : others) EXPECT_EQ(memory.Close(handle), 0);
}

TEST(PublicationTest, TheFirstTemporaryNameIsFixedAndTakenOverFromADeadWriter) {
  MemoryFileSystem memory;
  memory.Put("a.tmp-0000000000000000", "half a file");
  Publication publish(On(&memory));
  ASSERT_OK_AND_ASSIGN(FileSink * a, publish.Add("a"));
  EXPECT_EQ(a->path(), "a.tmp-0000000000000000");
  ASSERT_OK(a->Append("whole"));
  Publication second(On(&memory));
  ASSERT_OK_AND_ASSIGN(FileSink * b, second.Add("a"));
  EXPECT_NE(b->path(), a->path()) << "its writer lives";
  PublishOptions random = On(&memory);
  random.random_names = true;
  Publication third(random);
  ASSERT_OK_AND_ASSIGN(FileSink * c, third.Add("c"));
  EXPECT_NE(c->path(), "c.tmp-0000000000000000");
  third.Abandon();
  second.Abandon();
  ASSERT_OK(publish.Commit());
  EXPECT_THAT(memory.Paths(), ElementsAre("a"));
  EXPECT_EQ(*memory.Find("a"), "whole");
}

// Notes the parts of files that are to reach the disk before the end.
class EarlySyncs final : public ForwardingFileSystem {
 public:
  explicit EarlySyncs(FileSystem* behind) : ForwardingFileSystem(behind) {}
  IoResult StartSync(IoResult handle, uint64_t offset, uint64_t bytes) override {
    parts.emplace_back(offset, bytes);
    return answer != 0 ? answer : ForwardingFileSystem::StartSync(handle, offset, bytes);
  }
  IoResult answer = 0;
  std::vector<std::pair<uint64_t, uint64_t>> parts;
};

TEST(PublicationTest, LargeFilesThatWillBeSyncedReachTheDiskWhileTheyGrow) {
  constexpr uint64_t kMiB = uint64_t{1} << 20;
  const TempFolder folder;
  for (const bool sync : {false, true}) {
    EarlySyncs files(FileSystem::Posix());
    Publication publish(On(&files, sync));
    const std::string path = folder.Path(sync ? "synced" : "not synced");
    ASSERT_OK_AND_ASSIGN(FileSink* const sink, publish.Add(path));
    for (int i = 0; i < 40; ++i) EXPECT_OK(sink->Append(std::string(kMiB, static_cast<char>(i))));
    ASSERT_OK(publish.Commit());
    if (sync) {
      EXPECT_THAT(files.parts, ElementsAre(Pair(0, 16 * kMiB), Pair(16 * kMiB, 16 * kMiB)));
    } else {
      EXPECT_THAT(files.parts, IsEmpty());
    }
    ASSERT_OK_AND_ASSIGN(const std::shared_ptr<const ByteSource> source, OpenFileSource(path, {}));
    EXPECT_EQ(source->size_bytes(), 40 * kMiB);
    std::array<char, 2> bytes;
    EXPECT_OK(source->ReadAt(16 * kMiB - 1, absl::MakeSpan(bytes)));
    EXPECT_THAT(bytes, ElementsAre(15, 16));
  }
}

TEST(PublicationTest, CopiesOfLargeFilesDoTheSame) {
  constexpr uint64_t kBytes = uint64_t{40} << 20;
  const TempFolder folder;
  EarlySyncs files(FileSystem::Posix());
  ASSERT_OK(PublishAll(On(&files, /*sync=*/false), {{folder.Path("from"), std::string(kBytes, 'x')}}));
  ReadOptions options;
  options.file_system = &files;
  ASSERT_OK_AND_ASSIGN(const std::shared_ptr<const ByteSource> source, OpenFileSource(folder.Path("from"), options));
  Publication publish(On(&files, /*sync=*/true));
  ASSERT_OK_AND_ASSIGN(FileSink* const sink, publish.Add(folder.Path("to")));
  ASSERT_OK(sink->AppendFrom(*source, 0, kBytes));
  ASSERT_OK(publish.Commit());
  uint64_t end = 0;  // of what the system copies at a time, which may be all
  for (const auto& [offset, bytes] : files.parts) {
    EXPECT_EQ(offset, end);
    EXPECT_GE(bytes, uint64_t{16} << 20);
    end += bytes;
  }
  EXPECT_GT(end, kBytes - (uint64_t{16} << 20));
}

TEST(PublicationTest, BytesThatDoNotReachTheDiskEarlyAreAnError) {
  const std::string some(size_t{20} << 20, 'x');
  for (const int error : {EIO, ENOSPC, EDQUOT, EINVAL, ENOSYS, EOPNOTSUPP}) {
    MemoryFileSystem memory;
    EarlySyncs files(&memory);
    files.answer = -error;
    const absl::Status status = PublishAll(On(&files), {{"a", some}});
    EXPECT_EQ(files.parts.size(), 1u);
    if (error == EIO || error == ENOSPC || error == EDQUOT) {
      EXPECT_EQ(ErrorNumberOf(status), error);
      EXPECT_THAT(memory.Paths(), IsEmpty());
    } else {
      EXPECT_OK(status);
      EXPECT_EQ(memory.Find("a")->size(), some.size());
    }
  }
}

}  // namespace
}  // namespace tensorcask
