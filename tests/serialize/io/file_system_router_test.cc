// Paths of several systems; what holds for every FileSystem is tried through a router in file_system_test.cc.

#include "tensorcask/serialize/io/file_system_router.h"

#include <cerrno>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/forwarding_file_system.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/serialize/io/publication.h"
#include "tensorcask/tests/support/status_matchers.h"
#include "tensorcask/tests/support/uploading_file_system.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::UploadingFileSystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using OnExisting = FileSystem::OnExisting;

// Says something beside each errno, and gives the handles that it is told to.
class Talking final : public ForwardingFileSystem {
 public:
  Talking(FileSystem* behind, std::string detail) : ForwardingFileSystem(behind), detail_(std::move(detail)) {}
  std::string LastDetail() const override { return detail_; }
  IoResult OpenToRead(const std::string& path) override {
    return handle > 0 ? handle : ForwardingFileSystem::OpenToRead(path);
  }
  IoResult Close(IoResult closed) override {
    if (closed == handle) ++closes;
    return closed == handle ? 0 : ForwardingFileSystem::Close(closed);
  }
  IoResult handle = 0;
  int closes = 0;

 private:
  const std::string detail_;
};

class FileSystemRouterTest : public ::testing::Test {
 protected:
  FileSystemRouterTest() : store_(&remote_), talking_disk_(&disk_, "disk"), talking_store_(&store_, "store") {
    router_.Add("s3", &talking_store_);
    remote_.MakeFolder("s3:");
    remote_.MakeFolder("s3:/b");
    disk_.Put("a", "on the disk");
    remote_.Put("s3://b/a", "in the store");
  }

  std::string Content(const std::string& path) {
    ReadOptions options;
    options.file_system = &router_;
    const auto source = OpenFileSource(path, options);
    if (!source.ok()) return source.status().ToString();
    std::string bytes((*source)->size_bytes(), '\0');
    EXPECT_OK((*source)->ReadAt(0, absl::MakeSpan(&bytes[0], bytes.size())));
    return bytes;
  }

  MemoryFileSystem disk_;
  MemoryFileSystem remote_;
  UploadingFileSystem store_;
  Talking talking_disk_;
  Talking talking_store_;
  FileSystemRouter router_{&talking_disk_};
};

TEST_F(FileSystemRouterTest, EachPathGoesToTheSystemOfItsScheme) {
  EXPECT_EQ(Content("a"), "on the disk");
  EXPECT_EQ(Content("s3://b/a"), "in the store");
  EXPECT_EQ(router_.Of("s3://b"), &talking_store_);
  for (const char* path : {"a", "/s3://b/a", "s3:/b/a", "gs://b/a", "3s://b/a", "s 3://b", "://b", ""}) {
    EXPECT_EQ(router_.Of(path), &talking_disk_) << path;
  }
  std::vector<std::string> names;
  EXPECT_EQ(router_.List("s3://b", &names), 0);
  EXPECT_THAT(names, ElementsAre("a"));
}

TEST_F(FileSystemRouterTest, HandlesOfTwoSystemsAreToldApart) {
  const IoResult near = router_.OpenToRead("a");
  const IoResult far = router_.OpenToRead("s3://b/a");
  ASSERT_GE(near, 0);
  ASSERT_GE(far, 0);
  EXPECT_NE(near, far);
  EXPECT_EQ(router_.SizeOf(near), 11);
  EXPECT_EQ(router_.SizeOf(far), 12);
  EXPECT_EQ(router_.ShapeOf(near).in_flight, 1);
  EXPECT_EQ(router_.ShapeOf(far).in_flight, 16);
  std::string bytes(2, '\0');
  EXPECT_EQ(router_.ReadManyAt(far, {{10, absl::MakeSpan(&bytes[0], 2)}}), 0);
  EXPECT_EQ(bytes, "re");
  EXPECT_EQ(router_.CopyRange(near, 0, far, 1), -EOPNOTSUPP);
  EXPECT_EQ(router_.Close(near), 0);
  EXPECT_EQ(router_.SizeOf(far), 12);
  EXPECT_EQ(router_.Close(far), 0);
}

TEST_F(FileSystemRouterTest, FilesStayInTheirSystem) {
  EXPECT_EQ(router_.Rename("a", "s3://b/c", OnExisting::kReplace), -EXDEV);
  EXPECT_EQ(router_.CreateToPublish("c.tmp", "s3://b/c"), -EXDEV);
  EXPECT_EQ(router_.Link("s3://b/a", "c"), -EOPNOTSUPP);
  EXPECT_THAT(disk_.Paths(), ElementsAre("a"));
}

TEST_F(FileSystemRouterTest, PublishesInBoth) {
  for (const std::string& path : {std::string("new"), std::string("s3://b/new")}) {
    PublishOptions options;
    options.file_system = &router_;
    Publication publish(options);
    ASSERT_OK_AND_ASSIGN(FileSink * sink, publish.Add(path));
    ASSERT_OK(sink->Append(path));
    ASSERT_OK(publish.Commit());
    EXPECT_EQ(Content(path), path);
  }
  EXPECT_THAT(disk_.Paths(), ElementsAre("a", "new"));
  EXPECT_THAT(remote_.Paths(), ElementsAre("s3:/b/a", "s3:/b/new"));
}

TEST_F(FileSystemRouterTest, ErrorsHaveWhatTheFailedSystemSays) {
  EXPECT_THAT(Content("s3://b/missing"), HasSubstr("s3://b/missing: cannot open: No such file or directory (store)"));
  EXPECT_THAT(Content("missing"), HasSubstr("missing: cannot open: No such file or directory (disk)"));
  ASSERT_EQ(router_.Rename("a", "s3://b/c", OnExisting::kReplace), -EXDEV);
  EXPECT_EQ(router_.LastDetail(), "") << "the router's own error";
}

TEST_F(FileSystemRouterTest, MappingsGoBackToTheirSystem) {
  const IoResult handle = router_.OpenToRead("a");
  const char* first = nullptr;
  const char* second = nullptr;
  ASSERT_EQ(router_.Map(handle, 0, 11, &first), 0);
  ASSERT_EQ(router_.Map(handle, 0, 11, &second), 0);
  EXPECT_EQ(router_.Unmap(first, 11), 0);
  EXPECT_EQ(router_.Unmap(second, 11), 0);
  EXPECT_EQ(router_.Unmap(first, 11), -EINVAL);
  EXPECT_EQ(router_.Close(handle), 0);
  EXPECT_EQ(disk_.open_handles(), 0u);
}

TEST_F(FileSystemRouterTest, AHandleWithoutSpaceForTheNumberIsRefused) {
  talking_disk_.handle = std::numeric_limits<IoResult>::max() / 2;
  EXPECT_EQ(router_.OpenToRead("a"), -EMFILE);
  EXPECT_EQ(talking_disk_.closes, 1);
}

}  // namespace
}  // namespace tensorcask
