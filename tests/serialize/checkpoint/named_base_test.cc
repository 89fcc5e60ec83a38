// The base of deltas that an index names, which readers find by themselves.

#include <sys/stat.h>

#include <cerrno>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/proto/checkpoint.pb.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/checkpoint/checkpoint_writer.h"
#include "tensorcask/serialize/checkpoint/merge.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/serialize/payload/base_lookup.h"
#include "tensorcask/serialize/payload/payload_options.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/serialize/checkpoint/checkpoint_testing.h"
#include "tensorcask/tests/serialize/checkpoint/encoded_testing.h"
#include "tensorcask/tests/support/faulty_file_system.h"
#include "tensorcask/tests/support/status_matchers.h"
#include "tensorcask/tests/support/temp_folder.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::At;
using ::tensorcask::testing::BytesOf;
using ::tensorcask::testing::Damages;
using ::tensorcask::testing::Deltas;
using ::tensorcask::testing::ExpectReads;
using ::tensorcask::testing::FaultyFileSystem;
using ::tensorcask::testing::FileOperation;
using ::tensorcask::testing::InIndex;
using ::tensorcask::testing::NameBase;
using ::tensorcask::testing::OpenIn;
using ::tensorcask::testing::SaveIn;
using ::tensorcask::testing::Shared;
using ::tensorcask::testing::StatusIs;
using ::tensorcask::testing::TempFolder;
using ::tensorcask::testing::Trained;
using ::tensorcask::testing::Weights;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

class NamedBase : public Deltas {
 protected:
  // Reads the delta of "/m", and expects the same error of VerifyAll as its only damage.
  absl::Status ReadDelta() {
    const absl::StatusOr<CheckpointReader> reader = OpenIn(&files_);
    if (!reader.ok()) return reader.status();
    EXPECT_OK(reader->entries().status());
    EXPECT_OK(reader->Read("new").status()) << "other tensors need no base";
    absl::Status read = reader->Read("w").status();
    EXPECT_EQ(reader->Map("w").status(), read);
    EXPECT_EQ(reader->ReadSlice("w", *TensorSlice::Parse("0,1:-")).status(), read);
    EXPECT_EQ(reader->ReadAll().status(), read);
    if (!read.ok()) {
      EXPECT_THAT(Damages(*reader, 2), ElementsAre(read.message()));
    }
    return read;
  }
  void Move(const std::string& from, const std::string& to) {
    for (const char* suffix : {".index", ".data-00000-of-00001"}) {
      ASSERT_EQ(files_.Rename(from + suffix, to + suffix, FileSystem::OnExisting::kRefuse), 0);
    }
  }
};

TEST_F(NamedBase, IsFound) {
  EXPECT_EQ(InIndex<BundleHeaderProto>(files_, "/m", "").extension().base(), "base");
  EXPECT_EQ(InIndex<BundleHeaderProto>(files_, "/base", "").extension().base(), "");
  for (const char* const path : {"/m", "/m.index"}) {
    ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenIn(&files_, path));
    EXPECT_THAT(Damages(reader, 3), ElementsAre());
    ExpectReads(reader, "w", second_);
    ASSERT_OK_AND_ASSIGN(const auto all, reader.ReadAll(2));
    EXPECT_EQ(all.size(), 3u);
  }
  // Both move together.
  ASSERT_EQ(files_.MakeFolder("/moved"), 0);
  Move("/m", "/moved/m");
  Move("/base", "/moved/base");
  ASSERT_OK_AND_ASSIGN(const CheckpointReader moved, OpenIn(&files_, "/moved/m"));
  ExpectReads(moved, "w", second_);
}

TEST_F(NamedBase, IsReadOnlyForDeltas) {
  FaultyFileSystem files(&files_);
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenIn(&files, "/m"));
  ASSERT_OK(reader.entries());
  ASSERT_OK(reader.Read("new"));
  EXPECT_THAT(files.LogText(), ::testing::Not(HasSubstr("/base")));
  ASSERT_OK(reader.Read("w"));
  EXPECT_THAT(files.LogText(), HasSubstr("/base.index"));
}

TEST_F(NamedBase, TheBaseOfTheCallerComesFirst) {
  CheckpointReaderOptions options;
  SaveIn(&files_, "/wrong", {}, [](CheckpointWriter& writer) { return writer.Add("w", Weights({200, 100}, 2)); });
  options.base = Shared(OpenIn(&files_, "/wrong"));
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenIn(&files_, "/m", options));
  EXPECT_THAT(reader.Read("w"), StatusIs(Code::kFailedPrecondition, AllOf(HasSubstr("/wrong"), HasSubstr("hash"))));
}

TEST_F(NamedBase, ThatIsMissingOrAnotherIsSaid) {
  Move("/base", "/away");
  EXPECT_THAT(ReadDelta(), StatusIs(Code::kFailedPrecondition,
                                    AllOf(HasSubstr("tensor \"w\""), HasSubstr("a delta to /base, which is missing"),
                                          HasSubstr("(the option `base`)"))));
  SaveIn(&files_, "/base", {}, [](CheckpointWriter& writer) { return writer.Add("w", Weights({200, 100}, 2)); });
  EXPECT_THAT(ReadDelta(), StatusIs(Code::kFailedPrecondition, AllOf(HasSubstr("its base, /base"), HasSubstr("hash"))));
  files_.Put("/base.index", "not an index");
  EXPECT_THAT(ReadDelta(),
              StatusIs(Code::kFailedPrecondition, HasSubstr("/base, which cannot be opened: /base.index")));
  ASSERT_EQ(files_.Remove("/base.index"), 0);
  ASSERT_EQ(files_.MakeFolder("/base.index"), 0);
  EXPECT_THAT(ReadDelta(), StatusIs(Code::kFailedPrecondition, HasSubstr("is a folder")));
}

TEST_F(NamedBase, AnErrorThatMayPassIsNotRemembered) {
  FaultyFileSystem files(&files_);
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenIn(&files, "/m"));
  ASSERT_OK(reader.Read("new"));  // opens the data file
  files.FailAt(files.operations(FileOperation::kOpenToRead) + 1, EIO, FaultyFileSystem::kOnce,
               FileOperation::kOpenToRead);
  const absl::Status failed = reader.Read("w").status();
  EXPECT_EQ(ErrorNumberOf(failed), EIO);
  EXPECT_THAT(std::string(failed.message()), HasSubstr("/base.index"));
  EXPECT_OK(reader.Read("w"));
}

// A name from a stranger becomes a path, so it must stay in the folder.
TEST_F(NamedBase, ThatLeavesTheFolderIsDamage) {
  for (const std::string& base :
       {std::string("../base"), std::string("/base"), std::string("x/base"), std::string("base/"),
        std::string("../../etc/passwd"), std::string("base\0", 5), std::string("ba\0se", 5), std::string("/"),
        std::string(256, 'x'), std::string(1 << 20, 'x')}) {
    SCOPED_TRACE(base);
    NameBase(&files_, "/m", base);
    EXPECT_THAT(OpenIn(&files_), StatusIs(Code::kDataLoss, HasSubstr("wanted a name in the same folder")));
  }
}

TEST_F(NamedBase, OfAnyOtherNameReadsNothingElse) {
  for (const std::string& base : {std::string("."), std::string(".."), std::string("nothing"), std::string("m"),
                                  std::string("base.index"), std::string("base.data-00000-of-00001"),
                                  std::string(240, 'x'), std::string(255, 'x'), std::string("\xff\n\x1b[2J")}) {
    SCOPED_TRACE(base.substr(0, 40));
    NameBase(&files_, "/m", base);
    const absl::Status read = ReadDelta();
    EXPECT_THAT(read, StatusIs(Code::kFailedPrecondition));
    EXPECT_LT(read.message().size(), 1000u);
  }
}

// Deltas have a depth of one: neither a cycle nor a long chain is followed.
TEST_F(NamedBase, IsNoDeltaItself) {
  NameBase(&files_, "/m", "m");
  EXPECT_THAT(ReadDelta(),
              StatusIs(Code::kFailedPrecondition, HasSubstr("and so is the tensor of its name in its base, /m")));
  const std::string index = BytesOf(files_, "/m.index");
  const std::string data = BytesOf(files_, "/m.data-00000-of-00001");
  constexpr int kLength = 10000;
  for (int i = 0; i < 3; ++i) {
    const std::string prefix = absl::StrCat("/m", i);
    files_.Put(prefix + ".index", index);
    files_.Put(prefix + ".data-00000-of-00001", data);
    NameBase(&files_, prefix, absl::StrCat("m", (i + 1) % 3));
  }
  NameBase(&files_, "/m", "m0");
  EXPECT_THAT(ReadDelta(),
              StatusIs(Code::kFailedPrecondition, HasSubstr("and so is the tensor of its name in its base, /m0")));
  for (int i = 0; i < kLength; ++i) {
    const std::string prefix = absl::StrCat("/chain", i);
    files_.Put(prefix + ".index", index);
    files_.Put(prefix + ".data-00000-of-00001", data);
    NameBase(&files_, prefix, absl::StrCat("chain", i + 1));
  }
  FaultyFileSystem files(&files_);
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenIn(&files, "/chain0"));
  EXPECT_THAT(reader.Read("w"), StatusIs(Code::kFailedPrecondition, HasSubstr("and so is the tensor of its name")));
  EXPECT_THAT(files.LogText(), HasSubstr("/chain1.index"));
  EXPECT_THAT(files.LogText(), ::testing::Not(HasSubstr("/chain2.index")));
}

// Nothing is waited for.
TEST(NamedBaseOnDisk, ThatIsAPipeIsRefused) {
  const TempFolder folder;
  FileSystem* const files = FileSystem::Posix();
  const Tensor first = Weights({200, 100}, 1);
  SaveIn(files, folder.Path("base"), {}, [&](CheckpointWriter& writer) { return writer.Add("w", first); });
  CheckpointWriterOptions options = At(PayloadLevel::kDefault);
  options.payload.base = Shared(OpenIn(files, folder.Path("base")));
  SaveIn(files, folder.Path("m"), options, [&](CheckpointWriter& writer) { return writer.Add("w", Trained(first)); });
  ASSERT_EQ(files->Remove(folder.Path("base.index")), 0);
  ASSERT_EQ(mkfifo(folder.Path("base.index").c_str(), 0600), 0);
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenIn(files, folder.Path("m")));
  EXPECT_THAT(reader.Read("w"), StatusIs(Code::kFailedPrecondition, HasSubstr("is not a regular file")));
}

TEST(NamedBaseOnDisk, IsMergedByAnyPathOfTheFolder) {
  const TempFolder folder;
  FileSystem* const files = FileSystem::Posix();
  ASSERT_EQ(files->MakeFolder(folder.Path("sub")), 0);
  const Tensor first = Weights({200, 100}, 1);
  SaveIn(files, folder.Path("base"), {}, [&](CheckpointWriter& writer) { return writer.Add("w", first); });
  CheckpointWriterOptions options = At(PayloadLevel::kDefault);
  options.payload.base = Shared(OpenIn(files, folder.Path("base")));
  SaveIn(files, folder.Path("m"), options, [&](CheckpointWriter& writer) { return writer.Add("w", Trained(first)); });
  ASSERT_OK(MergeCheckpoints({folder.Path("m")}, folder.Path("sub/../to")));
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenIn(files, folder.Path("to")));
  ExpectReads(reader, "w", Trained(first));
  ASSERT_OK(MergeCheckpoints({folder.Path("m")}, folder.Path("sub/to")));
  ASSERT_OK_AND_ASSIGN(const CheckpointReader elsewhere, OpenIn(files, folder.Path("sub/to")));
  EXPECT_THAT(elsewhere.Read("w"), StatusIs(Code::kFailedPrecondition, HasSubstr("no base is given")));
}

TEST_F(NamedBase, OnlyDeltasHaveOne) {
  CheckpointWriterOptions options = At(PayloadLevel::kDefault);
  options.payload.base = Shared(OpenIn(&files_, "/base"));
  SaveIn(&files_, "/plain", options, [&](CheckpointWriter& writer) { return writer.Add("v", second_); });
  EXPECT_EQ(InIndex<BundleHeaderProto>(files_, "/plain", "").extension().base(), "");
  ASSERT_EQ(files_.MakeFolder("/elsewhere"), 0);
  SaveIn(&files_, "/elsewhere/m", options, [&](CheckpointWriter& writer) { return writer.Add("w", second_); });
  EXPECT_EQ(InIndex<BundleHeaderProto>(files_, "/elsewhere/m", "").extension().base(), "");
  options.payload.base = MakeBaseLookup(first_);
  SaveIn(&files_, "/memory", options, [&](CheckpointWriter& writer) { return writer.Add("w", second_); });
  EXPECT_EQ(InIndex<BundleHeaderProto>(files_, "/memory", "").extension().base(), "");
}

TEST_F(NamedBase, IsMergedWhereItIsTrue) {
  CheckpointMergeOptions options;
  options.file_system = &files_;
  options.overwrite = true;
  const auto merged = [&](const std::vector<std::string>& sources, const std::string& target) {
    EXPECT_OK(MergeCheckpoints(sources, target, options));
    return InIndex<BundleHeaderProto>(files_, target, "").extension().base();
  };
  const auto copy = [&](const std::string& to) {
    for (const char* suffix : {".index", ".data-00000-of-00001"})
      files_.Put(to + suffix, BytesOf(files_, "/m" + std::string(suffix)));
  };
  copy("/one");
  EXPECT_EQ(merged({"/one"}, "/to"), "base");
  copy("/one");
  ASSERT_EQ(files_.MakeFolder("/elsewhere"), 0);
  EXPECT_EQ(merged({"/one"}, "/elsewhere/to"), "");
  // Two bases.
  SaveIn(&files_, "/two", {}, [&](CheckpointWriter& writer) { return writer.Add("other", second_); });
  NameBase(&files_, "/two", "other");
  copy("/one");
  EXPECT_EQ(merged({"/one", "/two"}, "/to"), "");
}

}  // namespace
}  // namespace tensorcask
