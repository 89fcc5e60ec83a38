// Names and links that try to leave a folder.

#include "tensorcask/serialize/io/contained_folder.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/io/internal/open_beneath.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/tests/support/status_matchers.h"
#include "tensorcask/tests/support/temp_folder.h"

namespace tensorcask {
namespace {

using Code = absl::StatusCode;
using Links = ContainedFolder::Links;
using ::tensorcask::testing::StatusIs;
using ::tensorcask::testing::TempFolder;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

TEST(ContainedName, KeepsNamesBeneathTheFolder) {
  const auto name = [](absl::string_view text) { return ContainedName(text).value_or("refused"); };
  EXPECT_EQ(name("a"), "a");
  EXPECT_EQ(name("a/b.bin"), "a/b.bin");
  EXPECT_EQ(name("./a//b/../c"), "a/c");
  EXPECT_EQ(name("a..b"), "a..b");
  EXPECT_EQ(name("..."), "...");
  EXPECT_EQ(name("a/../../b"), "refused");
}

TEST(ContainedName, RefusesAllOthers) {
  const struct {
    std::string name;
    const char* says;
  } kCases[] = {{"", "empty"},
                {"/a", "absolute"},
                {"..", "leaves"},
                {"../a", "leaves"},
                {"a/../..", "leaves"},
                {".", "of a folder"},
                {"a/.", "of a folder"},
                {"a/", "of a folder"},
                {"a/b/..", "of a folder"},
                {std::string("a\0b", 3), "NUL"},
                {std::string(256, 'a'), "255"},
                {std::string(5000, '/'), ""}};
  for (const auto& c : kCases) {
    EXPECT_THAT(ContainedName(c.name), StatusIs(Code::kInvalidArgument, HasSubstr(c.says))) << c.name;
  }
}

// A folder "in" with a model, and another one beside it.
class ContainedFolderTest : public ::testing::Test {
 protected:
  ContainedFolderTest() {
    fs::create_directories(folder_.Path("in/sub"));
    fs::create_directories(folder_.Path("out"));
    folder_.Write("in/model", "m");
    folder_.Write("in/a", "inside");
    folder_.Write("in/sub/b", "below");
    folder_.Write("out/c", "outside");
  }

  void Link(const std::string& target, const std::string& name) {
    fs::remove(folder_.Path(name));
    fs::create_symlink(target, folder_.Path(name));
  }

  // The content, or the error.
  std::string Content(absl::string_view name, Links links = Links::kContained, const std::string& model = "in/model") {
    const absl::StatusOr<ContainedFolder> folder = ContainedFolder::Of(folder_.Path(model), links, {});
    if (!folder.ok()) return folder.status().ToString();
    const auto source = folder->Open(name);
    if (!source.ok()) return source.status().ToString();
    std::string content((*source)->size_bytes(), '\0');
    EXPECT_OK((*source)->ReadAt(0, absl::MakeSpan(content)));
    return content;
  }

  const TempFolder folder_;
};

TEST_F(ContainedFolderTest, OpensFilesInItAndBelow) {
  EXPECT_EQ(Content("a"), "inside");
  EXPECT_EQ(Content("sub/b"), "below");
  EXPECT_EQ(Content("./sub/../a"), "inside");
  EXPECT_THAT(Content("gone"), HasSubstr(folder_.Path("in/gone")));
  EXPECT_THAT(Content("a/b"), ::testing::Not(HasSubstr("inside")));
  EXPECT_THAT(Content("../out/c"), HasSubstr("leaves the folder"));
}

TEST_F(ContainedFolderTest, OpensRegularFilesOnly) {
  EXPECT_THAT(Content("sub"), HasSubstr("is a folder"));
  ASSERT_EQ(mkfifo(folder_.Path("in/pipe").c_str(), 0600), 0);
  EXPECT_THAT(Content("pipe"), HasSubstr("not a regular file"));
  const int server = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  const std::string path = folder_.Path("in/socket");
  if (path.size() < sizeof(address.sun_path)) {
    std::memcpy(address.sun_path, path.data(), path.size());
    ASSERT_EQ(bind(server, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_THAT(Content("socket"), HasSubstr("not a regular file"));
  }
  close(server);
}

TEST_F(ContainedFolderTest, FollowsOneLinkThatStaysInside) {
  Link("a", "in/link");
  EXPECT_EQ(Content("link"), "inside");
  EXPECT_THAT(Content("link", Links::kRefused), HasSubstr("PERMISSION_DENIED"));
  Link("../a", "in/sub/up");
  EXPECT_EQ(Content("sub/up"), "inside");
  Link(folder_.Path("in/sub/b"), "in/absolute");
  EXPECT_EQ(Content("absolute"), "below");
  Link("../out/../in/a", "in/detour");  // it ends inside
  EXPECT_EQ(Content("detour"), "inside");
}

TEST_F(ContainedFolderTest, FollowsNoOtherLink) {
  for (const std::string& target : {std::string("../out/c"), folder_.Path("out/c"), std::string("/etc/passwd"),
                                    std::string("/proc/self/exe"), std::string("/proc/self/cwd/x")}) {
    Link(target, "in/link");
    EXPECT_THAT(Content("link"), ::testing::AnyOf(HasSubstr("PERMISSION_DENIED"), HasSubstr("NOT_FOUND"))) << target;
  }
  Link("a", "in/first");
  Link("first", "in/second");
  EXPECT_THAT(Content("second"), HasSubstr("PERMISSION_DENIED"));
  Link("loop", "in/loop");
  EXPECT_THAT(Content("loop"), HasSubstr("PERMISSION_DENIED"));
  Link("sub", "in/folder");
  EXPECT_THAT(Content("folder/b"), HasSubstr("PERMISSION_DENIED"));
  EXPECT_THAT(Content("folder"), HasSubstr("is a folder"));
  Link("..", "in/above");
  EXPECT_THAT(Content("above"), HasSubstr("is a folder"));
  Link("gone", "in/dangling");
  EXPECT_THAT(Content("dangling"), HasSubstr("NOT_FOUND"));
}

// The model is a link, and its folder is where the names are; where the model itself is, is allowed for links, too.
TEST_F(ContainedFolderTest, FollowsLinksToTheFolderOfTheModelItself) {
  Link("../out/c", "in/cached");
  Link("../out/c", "in/data");
  EXPECT_EQ(Content("data", Links::kContained, "in/cached"), "outside");
  EXPECT_THAT(Content("data", Links::kContained, "in/model"), HasSubstr("PERMISSION_DENIED"));
  EXPECT_THAT(Content("c", Links::kContained, "in/cached"), HasSubstr("NOT_FOUND"));  // names are those beside the link
}

TEST_F(ContainedFolderTest, WalksWhereTheKernelCannotResolve) {
  const int in = open(folder_.Path("in").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  ASSERT_GE(in, 0);
  const auto walk = [&](const std::string& name) {
    const IoResult opened = internal::OpenBeneathByWalk(in, name);
    if (opened >= 0) close(static_cast<int>(opened));
    return opened < 0 ? opened : 0;
  };
  EXPECT_EQ(walk("a"), 0);
  EXPECT_EQ(walk("sub/b"), 0);
  EXPECT_EQ(walk("gone"), -ENOENT);
  EXPECT_EQ(walk("sub/gone"), -ENOENT);
  EXPECT_EQ(walk("a/b"), -ENOTDIR);
  EXPECT_EQ(walk("sub"), -EISDIR);
  Link("a", "in/link");
  EXPECT_EQ(walk("link"), -ELOOP);
  Link("sub", "in/folder");
  EXPECT_EQ(walk("folder/b"), -ELOOP);
  ASSERT_EQ(mkfifo(folder_.Path("in/pipe").c_str(), 0600), 0);
  EXPECT_EQ(walk("pipe"), -EINVAL);
  close(in);
}

TEST_F(ContainedFolderTest, ClosesWhatItOpened) {
  const auto open_files = [] {
    return std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator());
  };
  const auto before = open_files();
  Link("a", "in/link");
  for (const char* name : {"a", "link", "gone", "../out/c", "sub", "sub/b"}) Content(name);
  absl::StatusOr<ContainedFolder> folder = ContainedFolder::Of(folder_.Path("in/model"), Links::kContained, {});
  ASSERT_OK(folder.status());
  ContainedFolder moved = *std::move(folder);
  moved = *ContainedFolder::Of(folder_.Path("out/c"), Links::kContained, {});
  EXPECT_OK(moved.Open("c").status());
  moved = *ContainedFolder::Of(folder_.Path("in/model"), Links::kRefused, {});
  {
    const ContainedFolder last = std::move(moved);
    EXPECT_OK(last.Open("a").status());
  }
  EXPECT_LE(open_files(), before + 4);  // `folder` and `moved` may hold folders, no more
}

TEST_F(ContainedFolderTest, KeepsTheLastFilesOpenAndKnowsThemAgain) {
  constexpr int kFiles = 100;
  for (int i = 0; i < kFiles; ++i) std::ofstream(folder_.Path(absl::StrCat("in/part", i))) << i;
  const ContainedFiles files(*ContainedFolder::Of(folder_.Path("in/model"), Links::kContained, {}));
  const auto open_files = [] {
    return std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator());
  };
  const auto before = open_files();
  const ByteSource* const first = files.Open("part0").value().get();
  EXPECT_EQ(files.Open("part0").value().get(), first);
  for (int i = 0; i < kFiles; ++i) ASSERT_OK(files.Open(absl::StrCat("part", i)).status());
  EXPECT_EQ(open_files(), before + 64);

  // part1 was closed meanwhile, part99 was not.
  std::string text(2, ' ');
  for (const char* name : {"part1", "part99"}) {
    std::ofstream(folder_.Path("in/new")) << (name == std::string("part1") ? "x" : "xx");
    fs::rename(folder_.Path("in/new"), folder_.Path(absl::StrCat("in/", name)));
  }
  EXPECT_THAT(files.Open("part1").status(), StatusIs(Code::kDataLoss, HasSubstr("part1: was replaced since")));
  ASSERT_OK((*files.Open("part99"))->ReadAt(0, absl::MakeSpan(text.data(), 2)));
  EXPECT_EQ(text, "99");
  EXPECT_THAT(files.Open("../out/c").status(), StatusIs(Code::kInvalidArgument, HasSubstr("leaves")));
}

TEST(ContainedFolder, NeedsAFileSystemWithFolders) {
  MemoryFileSystem files;
  ReadOptions options;
  options.file_system = &files;
  EXPECT_THAT(ContainedFolder::Of("dir/m", Links::kContained, options).status(),
              StatusIs(Code::kUnimplemented, HasSubstr("dir: ")));
  EXPECT_THAT(ContainedFolder::Of("/gone/m", Links::kContained, {}).status(),
              StatusIs(Code::kNotFound, HasSubstr("/gone")));
}

}  // namespace
}  // namespace tensorcask
