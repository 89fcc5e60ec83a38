// Indexes and data files that do not fit together, and paths that are not those of a checkpoint.

#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/tests/serialize/checkpoint/checkpoint_testing.h"
#include "tensorcask/tests/serialize/checkpoint/reader_testing.h"
#include "tensorcask/tests/support/status_matchers.h"
#include "tensorcask/tests/support/temp_folder.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::BytesOf;
using ::tensorcask::testing::CheckpointNamedTensor;
using ::tensorcask::testing::EntryOf;
using ::tensorcask::testing::IndexOf;
using ::tensorcask::testing::kData;
using ::tensorcask::testing::kFloat;
using ::tensorcask::testing::OpenIn;
using ::tensorcask::testing::Save;
using ::tensorcask::testing::StatusIs;
using ::tensorcask::testing::TempFolder;
using ::tensorcask::testing::WriteTo;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

TEST(Reader, RefusesOverlappingTensors) {
  const std::string bytes(8, '\0');
  MemoryFileSystem files;
  files.Put("/m.index", IndexOf(1, {{"a", EntryOf(kFloat, {2}, bytes, 8)},
                                    {"b", EntryOf(kFloat, {2}, bytes, 0)},
                                    {"c", EntryOf(kFloat, {2}, bytes, 12)}}));
  files.Put(kData, std::string(64, '\0'));
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenIn(&files));
  EXPECT_THAT(reader.entries(),
              StatusIs(Code::kDataLoss, AllOf(HasSubstr(kData), HasSubstr("tensor \"c\" at offset 12, 8 bytes"),
                                              HasSubstr("overlaps tensor \"a\" at offset 8"))));
  std::vector<std::string> damaged;
  ASSERT_OK_AND_ASSIGN(const CheckpointCounts counts, reader.VerifyAll([&](const CheckpointDamage& damage) {
    damaged.push_back(absl::StrCat(damage.tensor, " at ", damage.offset));
  }));
  EXPECT_EQ(counts.whole, 2);
  EXPECT_THAT(damaged, ElementsAre("c at 12"));
}

TEST(Reader, ReportsDataFilesThatAreMissing) {  // the index tells of more than there are
  const std::string bytes(8, '\0');
  MemoryFileSystem files;
  files.Put("/m.index", IndexOf(3, {{"w", EntryOf(kFloat, {2}, bytes)}}));
  files.Put("/m.data-00000-of-00003", bytes);
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenIn(&files));
  EXPECT_OK(reader.Read("w"));
  std::vector<std::string> damaged;
  ASSERT_OK_AND_ASSIGN(const CheckpointCounts counts, reader.VerifyAll([&](const CheckpointDamage& damage) {
    damaged.push_back(std::string(damage.status.message()));
  }));
  EXPECT_EQ(counts.whole, 1);
  EXPECT_THAT(damaged,
              ElementsAre("/m.data-00001-of-00003: is missing; the index names 3 data files, of which 2 are missing"));
}

TEST(Reader, NoticesTheDataOfAnotherCheckpoint) {
  MemoryFileSystem files;
  ASSERT_OK(Save("/m", {{"w", Tensor::FromValues<float>({1, 2})}}, WriteTo(&files)));
  ASSERT_OK(Save("/n", {{"w", Tensor::FromValues<float>({1, 3})}}, WriteTo(&files)));
  files.Put(kData, BytesOf(files, "/n.data-00000-of-00001"));
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenIn(&files));
  EXPECT_THAT(reader.Read("w"), StatusIs(Code::kDataLoss, HasSubstr("its checksum is")));
}

TEST(Reader, RefusesDataFilesThatAreNone) {
  const TempFolder folder;
  const std::string prefix = folder.Path("m");
  const std::string data = prefix + ".data-00000-of-00001";
  ASSERT_OK(Save(prefix, {{"w", Tensor::FromValues<float>({1, 2})}}, {}));
  const auto expect_refused = [&](Code code, const char* says) {
    SCOPED_TRACE(says);
    ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, CheckpointReader::Open(prefix));
    EXPECT_OK(reader.entries());
    EXPECT_THAT(reader.Read("w"), StatusIs(code, AllOf(HasSubstr(data), HasSubstr(says))));
    EXPECT_THAT(reader.Map("w"), StatusIs(code, AllOf(HasSubstr("\"w\""), HasSubstr(says))));
    int damages = 0;
    EXPECT_THAT(reader.VerifyAll([&](const CheckpointDamage&) { ++damages; }).status().code(),
                code == Code::kDataLoss || code == Code::kFailedPrecondition ? Code::kOk : code);
  };
  ASSERT_OK_AND_ASSIGN(const CheckpointReader open, CheckpointReader::Open(prefix));
  ASSERT_OK(open.Map("w"));
  ASSERT_EQ(truncate(data.c_str(), 7), 0);
  EXPECT_THAT(open.Read("w"), StatusIs(Code::kDataLoss, HasSubstr(data)));
  EXPECT_THAT(open.Map("w"), StatusIs(Code::kDataLoss, HasSubstr(data)));  // and no SIGBUS
  expect_refused(Code::kDataLoss, "has 7 bytes; 8 at 0 are wanted");
  ASSERT_EQ(truncate(data.c_str(), 0), 0);
  expect_refused(Code::kDataLoss, "this is an empty file");
  ASSERT_EQ(unlink(data.c_str()), 0);
  expect_refused(Code::kDataLoss, "though the index names it");
  ASSERT_EQ(mkdir(data.c_str(), 0700), 0);
  expect_refused(Code::kDataLoss, "is a folder");
  ASSERT_EQ(rmdir(data.c_str()), 0);
  ASSERT_EQ(mkfifo(data.c_str(), 0600), 0);
  expect_refused(Code::kDataLoss, "not a regular file");
  ASSERT_EQ(unlink(data.c_str()), 0);
  ASSERT_EQ(symlink("/dev/zero", data.c_str()), 0);
  expect_refused(Code::kDataLoss, "not a regular file");
  ASSERT_EQ(unlink(data.c_str()), 0);
  ASSERT_EQ(symlink(data.c_str(), data.c_str()), 0);
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, CheckpointReader::Open(prefix));
  EXPECT_THAT(reader.Read("w").status().message(), HasSubstr(data));  // ELOOP
}

TEST(Reader, TakesNamesAsData) {
  const std::vector<std::string> names = {std::string("a\0b", 3),  "line\nbreak", "\x1b[2J", "../../x", "/abs",
                                          std::string(65536, 'n'), "\xff\xfe",    "%s%n"};
  MemoryFileSystem files;
  std::vector<CheckpointNamedTensor> tensors;
  for (const std::string& name : names) tensors.push_back({name, Tensor::Scalar<int32_t>(1)});
  ASSERT_OK(Save("/m", tensors, WriteTo(&files)));
  EXPECT_THAT(files.Paths(), ElementsAre(kData, "/m.index"));
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, OpenIn(&files));
  for (const std::string& name : names) EXPECT_OK(reader.Read(name));
  const absl::Status missing = reader.Read("\x1b[2J" + std::string(5000, 'x')).status();
  EXPECT_LT(missing.message().size(), 300u);
  EXPECT_THAT(std::string(missing.message()), ::testing::Not(HasSubstr("\x1b")));

  const std::string index = IndexOf(1, {{std::string(1 << 20, 'n'), EntryOf(kFloat, {}, std::string(4, '\0'))}});
  files.Put("/m.index", index);
  ASSERT_OK_AND_ASSIGN(const CheckpointReader long_name, OpenIn(&files));
  EXPECT_THAT(long_name.entries(), StatusIs(Code::kResourceExhausted, HasSubstr("max_name_bytes is 65536")));
}

TEST(Reader, RefusesPathsThatAreNoPrefix) {
  const struct {
    std::string path;
    const char* says;
  } cases[] = {
      {"", "names a folder"},           {"/models/", "names a folder"},
      {".index", "names a folder"},     {"/m.data-00000-of-00001", "is the name of a data file; its prefix is \"/m\""},
      {std::string("/m\0x", 4), "NUL"}, {"/" + std::string(5000, 'm'), ""}};
  MemoryFileSystem files;
  for (const auto& test : cases) {
    SCOPED_TRACE(test.path.substr(0, 40));
    EXPECT_THAT(OpenIn(&files, test.path), StatusIs(Code::kInvalidArgument, HasSubstr(test.says)));
  }
}

}  // namespace
}  // namespace tensorcask
