// What the crash model calls possible, on logs so short that one can tell by hand.

#include "tensorcask/tests/support/crash_model.h"

#include <cerrno>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tests/support/crash_file_system.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::CrashFileSystem;
using ::tensorcask::testing::CrashMode;
using ::tensorcask::testing::CrashModel;
using ::tensorcask::testing::CrashOp;
using ::tensorcask::testing::CrashSampling;
using ::tensorcask::testing::CrashState;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

constexpr auto kRefuse = FileSystem::OnExisting::kRefuse;
constexpr auto kReplace = FileSystem::OnExisting::kReplace;

// A state as text: "a=xyz b=" for two files.
std::string TextOf(const CrashState& state) {
  std::string text;
  for (const std::string& folder : state.folders) absl::StrAppend(&text, folder, "/ ");
  for (const auto& [path, bytes] : state.files) absl::StrAppend(&text, path, "=", bytes, " ");
  return text;
}

// All states after everything in the log.
std::set<std::string> StatesOf(const CrashFileSystem& files, CrashMode mode) {
  const CrashModel model(files.log(), mode);
  CrashSampling sampling;
  sampling.random_states = 0;
  sampling.max_exhaustive = 12;
  std::set<std::string> states;
  int64_t visits = 0;
  const int64_t count = model.ForEachState(model.num_ops(), sampling, [&](const CrashState& state) {
    ++visits;
    EXPECT_FALSE(state.what.empty());
    states.insert(TextOf(state));
    return true;
  });
  EXPECT_EQ(count, visits);
  return states;
}

void Write(CrashFileSystem* files, const std::string& path, const std::string& bytes, bool sync) {
  const IoResult handle = files->CreateNew(path);
  ASSERT_GE(handle, 0);
  ASSERT_EQ(files->Append(handle, bytes), static_cast<IoResult>(bytes.size()));
  if (sync) {
    ASSERT_EQ(files->Sync(handle), 0);
  }
  ASSERT_EQ(files->Close(handle), 0);
}

TEST(CrashModel, SyncKeepsTheContentButNotTheName) {
  CrashFileSystem files;
  Write(&files, "a", "xy", /*sync=*/true);
  EXPECT_THAT(StatesOf(files, CrashMode::kWeak), UnorderedElementsAre("", "a=xy "));
  EXPECT_THAT(StatesOf(files, CrashMode::kProcess), ElementsAre("a=xy "));
  files.SyncFolder(".");
  EXPECT_THAT(StatesOf(files, CrashMode::kWeak), ElementsAre("a=xy "));
}

TEST(CrashModel, SyncOfTheFolderKeepsTheNameButNotTheContent) {
  CrashFileSystem files;
  Write(&files, "a", "xy", /*sync=*/false);
  files.SyncFolder(".");
  const std::string zeros("\0\0", 2);
  const std::string garbage({'\xa5', '\x26'});
  EXPECT_THAT(StatesOf(files, CrashMode::kOrdered),
              UnorderedElementsAre("a= ", "a=x ", "a=" + std::string("x\0", 2) + " ", "a=x\x26 ", "a=xy ",
                                   "a=" + zeros + " ", "a=" + garbage + " "));
}

TEST(CrashModel, PagesAreLostOneByOne) {
  CrashFileSystem files;
  Write(&files, "a", std::string(4096, 'x') + std::string(4096, 'y') + "z", /*sync=*/false);
  files.SyncFolder(".");
  const std::set<std::string> states = StatesOf(files, CrashMode::kWeak);
  const std::string hole(4096, '\0');
  EXPECT_THAT(states, Contains("a=" + std::string(4096, 'x') + hole + "z "));
  EXPECT_THAT(states, Contains("a=" + hole + std::string(4096, 'y') + " "));
  EXPECT_THAT(states, Contains("a=" + std::string(511, 'x') + " "));
  EXPECT_THAT(states, Contains("a=" + std::string(512, 'x') + std::string(7681, '\0') + " "));
  EXPECT_THAT(states, Not(Contains("a=" + std::string(4096, 'x') + std::string(2, 'y') + " ")));
}

TEST(CrashModel, NamesOfAFolderComeInOrderOrInAny) {
  CrashFileSystem files;
  Write(&files, "a", "1", /*sync=*/true);
  Write(&files, "b", "2", /*sync=*/true);
  EXPECT_THAT(StatesOf(files, CrashMode::kOrdered), UnorderedElementsAre("", "a=1 ", "a=1 b=2 "));
  EXPECT_THAT(StatesOf(files, CrashMode::kWeak), UnorderedElementsAre("", "a=1 ", "b=2 ", "a=1 b=2 "));
}

TEST(CrashModel, RenamingIsAtomic) {
  CrashFileSystem files;
  Write(&files, "a", "old", /*sync=*/true);
  Write(&files, "b", "new", /*sync=*/true);
  files.Settle();
  ASSERT_EQ(files.Rename("b", "a", kRefuse), -EEXIST);
  ASSERT_EQ(files.Rename("b", "a", kReplace), 0);
  EXPECT_THAT(StatesOf(files, CrashMode::kWeak), UnorderedElementsAre("a=old b=new ", "a=new "));
  files.SyncFolder(".");
  EXPECT_THAT(StatesOf(files, CrashMode::kWeak), ElementsAre("a=new "));
}

TEST(CrashModel, RemovedNamesMayComeBack) {
  CrashFileSystem files;
  Write(&files, "a", "1", /*sync=*/true);
  files.Settle();
  ASSERT_EQ(files.Remove("a"), 0);
  EXPECT_THAT(StatesOf(files, CrashMode::kOrdered), UnorderedElementsAre("", "a=1 "));
}

TEST(CrashModel, LinksAreNamesOfTheSameBytes) {
  CrashFileSystem files;
  Write(&files, "a", "1", /*sync=*/false);
  ASSERT_EQ(files.Link("a", "b"), 0);
  const IoResult handle = files.OpenToRead("b");
  ASSERT_EQ(files.Sync(handle), 0);
  files.Close(handle);
  EXPECT_THAT(StatesOf(files, CrashMode::kWeak), UnorderedElementsAre("", "a=1 ", "b=1 ", "a=1 b=1 "));
}

TEST(CrashModel, LocksLeaveAnEmptyFile) {
  CrashFileSystem files;
  const IoResult lock = files.Lock("lock");
  ASSERT_GE(lock, 0);
  EXPECT_EQ(files.Lock("lock"), -EWOULDBLOCK);
  files.Close(lock);
  const IoResult again = files.Lock("lock");
  EXPECT_GE(again, 0);
  files.Close(again);
  EXPECT_THAT(StatesOf(files, CrashMode::kWeak), UnorderedElementsAre("", "lock= "));
}

TEST(CrashModel, AFolderTakesItsFilesWithIt) {
  CrashFileSystem files;
  ASSERT_EQ(files.MakeFolder("d"), 0);
  Write(&files, "d/a", "1", /*sync=*/true);
  files.SyncFolder("d");
  EXPECT_THAT(StatesOf(files, CrashMode::kWeak), UnorderedElementsAre("", "d/ d/a=1 "));
  files.SyncFolder(".");
  EXPECT_THAT(StatesOf(files, CrashMode::kWeak), ElementsAre("d/ d/a=1 "));
}

TEST(CrashModel, AFailedSyncCannotBeMadeGood) {
  CrashFileSystem files;
  const IoResult handle = files.CreateNew("a");
  files.SyncFolder(".");
  files.FailSync(1);
  files.Append(handle, "x");
  EXPECT_EQ(files.Sync(handle), -EIO);
  EXPECT_EQ(files.Sync(handle), 0);
  EXPECT_THAT(StatesOf(files, CrashMode::kOrdered), Contains("a= "));
  EXPECT_EQ(files.now().Find("a")->size(), 1u);  // until the crash it is there
  files.Append(handle, "y");
  EXPECT_EQ(files.Sync(handle), 0);
  EXPECT_THAT(StatesOf(files, CrashMode::kOrdered), Not(Contains("a=x ")));
  EXPECT_THAT(StatesOf(files, CrashMode::kOrdered), Contains("a=xy "));
  files.Close(handle);
  EXPECT_EQ(files.open_handles(), 0u);
}

TEST(CrashModel, RandomStatesAreThoseOfTheirSeed) {
  CrashFileSystem files;
  Write(&files, "a", std::string(9000, 'x'), /*sync=*/false);
  Write(&files, "b", "2", /*sync=*/false);
  const CrashModel model(files.log(), CrashMode::kWeak);
  const auto draw = [&](uint64_t seed) {
    CrashSampling sampling;
    sampling.systematic = false;
    sampling.random_states = 50;
    sampling.seed = seed;
    std::string all;
    EXPECT_EQ(model.ForEachState(model.num_ops(), sampling,
                                 [&](const CrashState& state) {
                                   all += TextOf(state) + '\n';
                                   return true;
                                 }),
              50);
    return all;
  };
  EXPECT_EQ(draw(1), draw(1));
  EXPECT_NE(draw(1), draw(2));
}

TEST(CrashModel, RestoresIntoAFileSystem) {
  CrashFileSystem files;
  ASSERT_EQ(files.MakeFolder("/d"), 0);
  Write(&files, "/d/a", "1", /*sync=*/true);
  EXPECT_EQ(files.Rename("/d/a", "/a", kRefuse), -EXDEV);
  const CrashModel model(files.log(), CrashMode::kProcess);
  EXPECT_EQ(model.op(0).ToString(), "MakeFolder /d");
  EXPECT_EQ(model.op(1).kind, CrashOp::kCreate);
  model.ForEachState(model.num_ops(), {}, [&](const CrashState& state) {
    MemoryFileSystem after;
    state.Restore(&after);
    EXPECT_THAT(after.Paths(), ElementsAre("/d/a"));
    EXPECT_EQ(*after.Find("/d/a"), "1");
    return true;
  });
}

}  // namespace
}  // namespace tensorcask
