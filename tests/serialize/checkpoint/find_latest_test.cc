#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/proto/checkpoint.pb.h"
#include "tensorcask/serialize/checkpoint/checkpoint_writer.h"
#include "tensorcask/serialize/checkpoint/manager.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/serialize/checkpoint/checkpoint_testing.h"
#include "tensorcask/tests/support/faulty_file_system.h"
#include "tensorcask/tests/support/status_matchers.h"
#include "tensorcask/tests/support/temp_folder.h"
#include "tensorcask/tests/support/test_data.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::BytesOf;
using ::tensorcask::testing::FaultyFileSystem;
using ::tensorcask::testing::FileOperation;
using ::tensorcask::testing::Save;
using ::tensorcask::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using Code = absl::StatusCode;

constexpr char kIndex[] = "/run/ckpt-3.index";
constexpr char kData0[] = "/run/ckpt-3.data-00000-of-00002";
constexpr char kData1[] = "/run/ckpt-3.data-00001-of-00002";

// Steps 1, 2 and 3.
void MakeRun(MemoryFileSystem* files) {
  ASSERT_EQ(files->MakeFolder("/run"), 0);
  for (const int step : {1, 2, 3}) {
    CheckpointWriterOptions options;
    options.file_system = files;
    options.num_shards = 2;
    ASSERT_OK(Save(absl::StrCat("/run/ckpt-", step),
                   {{"a", Tensor::FromValues<float>({1, 2, 3}), 0}, {"b", Tensor::FromValues<float>({4, 5, 6}), 1}},
                   options));
  }
}

void Change(MemoryFileSystem* files, const std::string& path, size_t at) {
  std::string bytes = BytesOf(*files, path);
  bytes.at(at) = static_cast<char>(bytes[at] ^ 1);
  files->Put(path, bytes);
}

// An index without tensors that wants readers of version 3.
std::string NewerIndex() {
  BundleHeaderProto header;
  header.set_num_shards(1);
  header.mutable_version()->set_producer(1);
  header.mutable_version()->set_min_consumer(3);
  return testing::IndexOf({{"", header.SerializeAsString()}});
}

struct DamageCase {
  const char* name;
  void (*damage)(MemoryFileSystem*);
  bool seen_in_structure;  // by CheckStep::kStructure as well
  const char* says;        // nullptr: it is not damage
};

class FindLatestDamage : public ::testing::TestWithParam<DamageCase> {};

TEST_P(FindLatestDamage, IsPassedOverAndNamed) {
  const DamageCase& param = GetParam();
  MemoryFileSystem files;
  ASSERT_NO_FATAL_FAILURE(MakeRun(&files));
  param.damage(&files);
  const std::vector<std::string> before = files.Paths();
  for (const CheckStep check : {CheckStep::kStructure, CheckStep::kEverything}) {
    SCOPED_TRACE(check == CheckStep::kStructure ? "structure" : "everything");
    ASSERT_OK_AND_ASSIGN(const LatestCheckpoint latest, FindLatestCheckpoint("/run", "ckpt", check, &files));
    const bool passed_over = param.says != nullptr && (param.seen_in_structure || check == CheckStep::kEverything);
    EXPECT_EQ(latest.step, passed_over ? 2 : 3);
    EXPECT_EQ(latest.prefix, passed_over ? "/run/ckpt-2" : "/run/ckpt-3");
    ASSERT_EQ(latest.skipped.size(), passed_over ? 1u : 0u);
    if (passed_over) {
      EXPECT_EQ(latest.skipped[0].step, 3);
      EXPECT_THAT(std::string(latest.skipped[0].why.message()), HasSubstr(param.says));
    }
  }
  EXPECT_EQ(files.Paths(), before) << "and nothing has changed";
  EXPECT_EQ(files.open_handles(), 0u);
}

const DamageCase kDamage[] = {
    {"None", [](MemoryFileSystem*) {}, true, nullptr},
    {"EmptyIndex", [](MemoryFileSystem* f) { f->Put(kIndex, ""); }, true, kIndex},
    {"CutIndex", [](MemoryFileSystem* f) { f->Put(kIndex, BytesOf(*f, kIndex).substr(0, 60)); }, true, kIndex},
    {"ChangedIndex", [](MemoryFileSystem* f) { Change(f, kIndex, 30); }, true, kIndex},
    {"NewerVersion", [](MemoryFileSystem* f) { f->Put(kIndex, NewerIndex()); }, true, "requires reader version 3"},
    {"NoData", [](MemoryFileSystem* f) { f->Remove(kData1); }, true, kData1},
    {"CutData", [](MemoryFileSystem* f) { f->Put(kData0, "1234"); }, true, kData0},
    {"DataIsAFolder",
     [](MemoryFileSystem* f) {
       f->Remove(kData0);
       f->MakeFolder(kData0);
     },
     true, kData0},
    {"ChangedData", [](MemoryFileSystem* f) { Change(f, kData1, 5); }, false, "tensor \"b\""},
    {"ChangedPadding", [](MemoryFileSystem* f) { Change(f, kData1, 40); }, false, nullptr},
    {"LongerData", [](MemoryFileSystem* f) { f->Put(kData1, BytesOf(*f, kData1) + "more"); }, false, nullptr},
    {"HalfWrittenStep", [](MemoryFileSystem* f) { f->Put("/run/ckpt-4.data-00000-of-00001", "x"); }, true, nullptr},
    {"Temporary", [](MemoryFileSystem* f) { f->Put("/run/ckpt-4.index.tmp-0123456789abcdef", "x"); }, true, nullptr},
    {"LeadingZero", [](MemoryFileSystem* f) { f->Put("/run/ckpt-04.index", "x"); }, true, nullptr},
    {"PastInt64", [](MemoryFileSystem* f) { f->Put("/run/ckpt-9223372036854775808.index", "x"); }, true, nullptr},
    {"Sign", [](MemoryFileSystem* f) { f->Put("/run/ckpt-+4.index", "x"); }, true, nullptr},
    {"OtherName", [](MemoryFileSystem* f) { f->Put("/run/other-4.index", "x"); }, true, nullptr},
    {"LongerName", [](MemoryFileSystem* f) { f->Put("/run/ckpt-1-4.index", "x"); }, true, nullptr},
    {"FalseStateFile", [](MemoryFileSystem* f) { f->Put("/run/checkpoint", "model_checkpoint_path: \"/etc/passwd\""); },
     true, nullptr},
};
INSTANTIATE_TEST_SUITE_P(All, FindLatestDamage, ::testing::ValuesIn(kDamage),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(FindLatestTest, NewestFirstAmongTheSkipped) {
  MemoryFileSystem files;
  ASSERT_NO_FATAL_FAILURE(MakeRun(&files));
  files.Put(kIndex, "");
  files.Put("/run/ckpt-9223372036854775807.index", "x");
  files.Put("/run/ckpt-10.index", "x");
  ASSERT_OK_AND_ASSIGN(const LatestCheckpoint latest,
                       FindLatestCheckpoint("/run", "ckpt", CheckStep::kEverything, &files));
  EXPECT_EQ(latest.step, 2);
  ASSERT_EQ(latest.skipped.size(), 3u);
  EXPECT_EQ(latest.skipped[0].step, INT64_MAX);
  EXPECT_EQ(latest.skipped[1].step, 10);
  EXPECT_EQ(latest.skipped[2].step, 3);
}

TEST(FindLatestTest, NoneIsNotFound) {
  MemoryFileSystem files;
  EXPECT_THAT(FindLatestCheckpoint("/run", "ckpt", CheckStep::kEverything, &files),
              StatusIs(Code::kNotFound, HasSubstr("/run: cannot list")));
  ASSERT_EQ(files.MakeFolder("/run"), 0);
  EXPECT_THAT(FindLatestCheckpoint("/run", "ckpt", CheckStep::kEverything, &files),
              StatusIs(Code::kNotFound, HasSubstr("/run: holds no whole checkpoint \"ckpt-STEP\"")));
  for (const int step : {1, 2, 3, 4, 5}) files.Put(absl::StrCat("/run/ckpt-", step, ".index"), "x");
  EXPECT_THAT(FindLatestCheckpoint("/run", "ckpt", CheckStep::kEverything, &files),
              StatusIs(Code::kNotFound, AllOf(HasSubstr("; step 5: /run/ckpt-5.index: "), HasSubstr("; step 3: "),
                                              Not(HasSubstr("step 2")), HasSubstr("; and 2 more"))));
  for (const char* name : {"", "a/b", "a-of-b"}) {
    EXPECT_THAT(FindLatestCheckpoint("/run", name, CheckStep::kEverything, &files), StatusIs(Code::kInvalidArgument));
  }
}

// A reader that is slow while a run goes on: steps vanish under it, and it looks again.
TEST(FindLatestTest, StepsThatGoMeanwhileAreNoDamage) {
  for (int64_t n = 1;; ++n) {
    SCOPED_TRACE(n);
    MemoryFileSystem memory;
    ASSERT_NO_FATAL_FAILURE(MakeRun(&memory));
    FaultyFileSystem files(&memory);
    bool came = false;
    files.SetHook([&](int64_t at, FileOperation, const std::string&) {
      if (at != n) return;
      came = true;
      CheckpointWriterOptions options;
      options.file_system = &memory;
      EXPECT_OK(Save("/run/ckpt-4", {{"a", Tensor::Scalar<float>(4)}}, options));
      for (const int step : {1, 2, 3}) {
        const std::string prefix = absl::StrCat("/run/ckpt-", step);
        memory.Remove(prefix + ".index");
        memory.Remove(prefix + ".data-00000-of-00002");
        memory.Remove(prefix + ".data-00001-of-00002");
      }
    });
    ASSERT_OK_AND_ASSIGN(const LatestCheckpoint latest,
                         FindLatestCheckpoint("/run", "ckpt", CheckStep::kEverything, &files));
    EXPECT_THAT(latest.skipped, IsEmpty());
    EXPECT_GE(latest.step, 3) << "3 if all of it had been read";
    if (!came) break;
  }
}

// A step that cannot be read is not damaged, and an older step is not treated as the newest because of it.
TEST(FindLatestTest, ErrorsOfTheSystemAreErrors) {
  MemoryFileSystem memory;
  ASSERT_NO_FATAL_FAILURE(MakeRun(&memory));
  for (const int error : {EMFILE, EACCES, EIO}) {
    for (const auto duration : {FaultyFileSystem::kOnce, FaultyFileSystem::kForEver}) {
      for (const CheckStep check : {CheckStep::kStructure, CheckStep::kEverything}) {
        for (int64_t n = 1;; ++n) {
          SCOPED_TRACE(absl::StrCat("error ", error, " at ", n));
          FaultyFileSystem files(&memory);
          files.FailAt(n, error, duration);
          const absl::StatusOr<LatestCheckpoint> latest = FindLatestCheckpoint("/run", "ckpt", check, &files);
          EXPECT_EQ(files.open_handles(), 0u);
          if (latest.ok()) {
            EXPECT_EQ(latest->step, 3);
            EXPECT_THAT(latest->skipped, IsEmpty());
          } else {
            EXPECT_THAT(std::string(latest.status().message()), HasSubstr("/run"));
          }
          if (files.faults() == 0) {
            ASSERT_OK(latest);
            EXPECT_EQ(latest->step, 3);
            break;
          }
        }
      }
    }
  }
}

// A name that leads nowhere hides no older step, and does not keep us looking.
TEST(FindLatestTest, AnIndexThatIsADeadLinkIsPassedOver) {
  const testing::TempFolder folder;
  CheckpointWriterOptions options;
  options.sync = false;
  ASSERT_OK(Save(folder.Path("ckpt-1"), {{"a", Tensor::Scalar<float>(1)}}, options));
  ASSERT_EQ(symlink("nowhere", folder.Path("ckpt-2.index").c_str()), 0);
  ASSERT_OK_AND_ASSIGN(const LatestCheckpoint latest, FindLatestCheckpoint(folder.Path("")));
  EXPECT_EQ(latest.step, 1);
  ASSERT_EQ(latest.skipped.size(), 1u);
  EXPECT_EQ(latest.skipped[0].step, 2);
  EXPECT_THAT(latest.skipped[0].why, StatusIs(Code::kNotFound, HasSubstr("ckpt-2.index")));
}

TEST(FindLatestTest, FindsTensorFlowsCheckpoints) {
  const std::string folder = testing::TestDataFolder("tensorflow");
  if (folder.empty()) GTEST_SKIP() << "no test data";
  ASSERT_OK_AND_ASSIGN(LatestCheckpoint latest, FindLatestCheckpoint(folder + "/tf-mnist-ckpt", "model.ckpt"));
  EXPECT_EQ(latest.step, 46900);
  ASSERT_OK_AND_ASSIGN(latest, FindLatestCheckpoint(folder + "/t2t-transformer-2shards", "model.ckpt"));
  EXPECT_EQ(latest.step, 1);
}

}  // namespace
}  // namespace tensorcask
