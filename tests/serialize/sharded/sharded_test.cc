#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/checkpoint/checkpoint_writer.h"
#include "tensorcask/serialize/checkpoint/merge.h"
#include "tensorcask/serialize/io/forwarding_file_system.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/serialize/sharded/sharded_load.h"
#include "tensorcask/serialize/sharded/sharded_save.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/strided/compare.h"
#include "tensorcask/tests/serialize/sharded/sharded_testing.h"
#include "tensorcask/tests/support/faulty_file_system.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::FaultyFileSystem;
using ::tensorcask::testing::Layout;
using ::tensorcask::testing::Model;
using ::tensorcask::testing::ModelTensor;
using ::tensorcask::testing::Numbered;
using ::tensorcask::testing::OnRanks;
using ::tensorcask::testing::PiecesOf;
using ::tensorcask::testing::RandomLayout;
using ::tensorcask::testing::RandomModel;
using ::tensorcask::testing::Same;
using ::tensorcask::testing::StatusIs;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using Code = absl::StatusCode;

constexpr char kPrefix[] = "/job/step-1";

ShardedSaveOptions On(FileSystem* files) {
  ShardedSaveOptions options;
  options.file_system = files;
  return options;
}

CheckpointReaderOptions ReadFrom(FileSystem* files) {
  CheckpointReaderOptions options;
  options.read.file_system = files;
  return options;
}

absl::Status SaveModel(const Model& model, const Layout& layout, const ShardedSaveOptions& options) {
  return Same(OnRanks(layout.mesh.num_ranks(), [&](Communicator* comm) {
    return ShardedSave(comm, kPrefix, PiecesOf(model, layout, comm->rank()), options).status();
  }));
}

// Loads what each rank of `layout` wants into memory of other strides, and compares.
absl::Status LoadAndCompare(const Model& model, const Layout& layout, FileSystem* files) {
  ShardedLoadOptions options;
  options.reader.read.file_system = files;
  return Same(OnRanks(layout.mesh.num_ranks(), [&](Communicator* comm) -> absl::Status {
    const std::vector<LocalPiece> expected = PiecesOf(model, layout, comm->rank());
    std::vector<WantedPiece> wanted;
    for (const LocalPiece& piece : expected) {
      std::vector<int64_t> dims(piece.elements.dims().rbegin(), piece.elements.dims().rend());
      std::vector<int64_t> axes;
      for (int axis = piece.elements.rank(); axis-- > 0;) axes.push_back(axis);
      const TensorView memory = *Tensor::Create(piece.elements.dtype(), *TensorShape::Create(dims));
      wanted.push_back({piece.name, piece.slice, *memory.Permute(axes)});
    }
    CASK_RETURN_IF_ERROR(ShardedLoad(comm, kPrefix, wanted, options));
    for (size_t i = 0; i < wanted.size(); ++i) {
      EXPECT_TRUE(Equal(wanted[i].into, expected[i].elements)) << wanted[i].name << " " << wanted[i].slice;
    }
    return absl::OkStatus();
  }));
}

// The whole model, as a program of one process reads it.
void ExpectReaderFinds(const Model& model, FileSystem* files, const std::string& prefix = kPrefix) {
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, CheckpointReader::Open(prefix, ReadFrom(files)));
  ASSERT_OK_AND_ASSIGN(const std::vector<CheckpointEntry> entries, reader.entries());
  EXPECT_EQ(entries.size(), model.size());
  for (const ModelTensor& tensor : model) {
    ASSERT_OK_AND_ASSIGN(const Tensor read, reader.Read(tensor.name));
    EXPECT_TRUE(Equal(read, tensor.tensor)) << tensor.name;
  }
  ASSERT_OK_AND_ASSIGN(const CheckpointCounts counts,
                       reader.VerifyAll([](const CheckpointDamage& damage) { ADD_FAILURE() << damage.status; }));
  EXPECT_EQ(counts.whole, static_cast<int64_t>(model.size()));
}

class EveryPairOfRanks : public ::testing::TestWithParam<std::tuple<int, int>> {};

TEST_P(EveryPairOfRanks, SavesAndLoadsRandomLayouts) {
  const auto [num_savers, num_loaders] = GetParam();
  for (uint32_t seed = 0; seed < 7; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937 random(seed * 100 + static_cast<uint32_t>(num_savers * 10 + num_loaders));
    const Model model = RandomModel(&random);
    const Layout saved = RandomLayout(model, num_savers, &random);
    MemoryFileSystem files;
    files.MakeFolder("/job");
    ShardedSaveOptions options = On(&files);
    if (seed % 2 == 1) options.payload.level = PayloadLevel::kDefault;
    ASSERT_OK(SaveModel(model, saved, options));
    ExpectReaderFinds(model, &files);
    EXPECT_OK(LoadAndCompare(model, RandomLayout(model, num_loaders, &random), &files));
    EXPECT_EQ(files.open_handles(), 0u);
    for (const std::string& path : files.Paths()) EXPECT_THAT(path, Not(HasSubstr(".tmp-")));
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, EveryPairOfRanks,
                         ::testing::Combine(::testing::Values(2, 3, 4, 8), ::testing::Values(2, 3, 4, 8)),
                         [](const auto& info) {
                           return absl::StrCat(std::get<0>(info.param), "To", std::get<1>(info.param));
                         });

Model TwoTensors() {
  return {{"a", Numbered(DType::kFloat32, TensorShape({8, 4}), 1)},
          {"b", Numbered(DType::kInt32, TensorShape({6}), 2)}};
}

TEST(ShardedSaveTest, CompressesPieces) {
  MemoryFileSystem files;
  files.MakeFolder("/job");
  Model model = {{"zeros", *Tensor::Create(DType::kFloat32, TensorShape({256, 1024}))}};
  std::fill_n(model[0].tensor.mutable_data<float>(), model[0].tensor.num_elements(), 0.0f);
  ShardedSaveOptions options = On(&files);
  options.payload.level = PayloadLevel::kDefault;
  const Layout layout{Mesh({{"model", 4}}), {{"model"}}};
  ASSERT_OK(SaveModel(model, layout, options));
  uint64_t bytes = 0;
  for (const std::string& path : files.Paths()) bytes += files.Find(path)->size();
  EXPECT_LT(bytes, 100'000u);
  ExpectReaderFinds(model, &files);
  EXPECT_OK(LoadAndCompare(model, {Mesh({{"model", 3}}), {{"", "model"}}}, &files));
}

TEST(ShardedSaveTest, WritesAReplicaOnceAndSharesTheWork) {
  MemoryFileSystem files;
  files.MakeFolder("/job");
  Model model;
  Layout layout{Mesh({{"data", 4}}), {}};
  for (int i = 0; i < 16; ++i) {
    model.push_back({absl::StrCat("t", i), Numbered(DType::kInt8, TensorShape({1000 + i}), i)});
    layout.specs.emplace_back();
  }
  std::vector<SaveReport> reports(4);
  ASSERT_OK(Same(OnRanks(4, [&](Communicator* comm) -> absl::Status {
    CASK_ASSIGN_OR_RETURN(reports[static_cast<size_t>(comm->rank())],
                          ShardedSave(comm, kPrefix, PiecesOf(model, layout, comm->rank()), On(&files)));
    return absl::OkStatus();
  })));
  uint64_t total = 0;
  for (const SaveReport& report : reports) {
    EXPECT_EQ(report.num_pieces, 4);
    EXPECT_EQ(report.num_data_files, 4);
    EXPECT_NEAR(static_cast<double>(report.planned_bytes), 4030.0, 20.0);
    total += report.planned_bytes;
  }
  EXPECT_EQ(total, 16u * 1000u + 120u);
  ExpectReaderFinds(model, &files);
}

TEST(ShardedSaveTest, KeepsMetadataOfTheFirstPiece) {
  MemoryFileSystem files;
  files.MakeFolder("/job");
  const Model model = TwoTensors();
  const Layout layout{Mesh({{"model", 2}}), {{"model"}, {}}};
  ASSERT_OK(Same(OnRanks(2, [&](Communicator* comm) {
    std::vector<LocalPiece> pieces = PiecesOf(model, layout, comm->rank());
    for (LocalPiece& piece : pieces) piece.metadata.attributes["from"] = absl::StrCat("rank ", comm->rank());
    return ShardedSave(comm, kPrefix, pieces, On(&files)).status();
  })));
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, CheckpointReader::Open(kPrefix, ReadFrom(&files)));
  ASSERT_OK_AND_ASSIGN(const TensorMetadata sliced, reader.Metadata("a"));
  EXPECT_EQ(sliced.attributes.at("from"), "rank 0");
  ASSERT_OK_AND_ASSIGN(const TensorMetadata whole, reader.Metadata("b"));
  EXPECT_TRUE(absl::StartsWith(whole.attributes.at("from"), "rank "));
}

TEST(ShardedSaveTest, KeepsThePlanWhileDeclarationsStay) {
  MemoryFileSystem files;
  files.MakeFolder("/job");
  const Layout layout{Mesh({{"model", 2}}), {{"model"}, {}}};
  SavePlanCache caches[2];
  // Whether the plan was kept.
  const auto save = [&](const std::function<std::vector<LocalPiece>(int)>& pieces_of) {
    std::array<int, 2> kept{};
    EXPECT_OK(Same(OnRanks(2, [&](Communicator* comm) -> absl::Status {
      ShardedSaveOptions options = On(&files);
      options.overwrite = true;
      options.plan = &caches[comm->rank()];
      CASK_ASSIGN_OR_RETURN(const SaveReport report, ShardedSave(comm, kPrefix, pieces_of(comm->rank()), options));
      kept[static_cast<size_t>(comm->rank())] = report.kept_plan ? 1 : 0;
      return absl::OkStatus();
    })));
    EXPECT_EQ(kept[0], kept[1]);
    return kept[0] == 1;
  };
  const Model model = TwoTensors();
  const auto same = [&](int rank) { return PiecesOf(model, layout, rank); };
  EXPECT_FALSE(save(same));
  EXPECT_TRUE(save(same));
  ExpectReaderFinds(model, &files);

  Model more = model;
  more.push_back({"c", Numbered(DType::kInt8, TensorShape({3}), 9)});
  const auto changed = [&](int rank) {  // rank 1 has one piece more
    std::vector<LocalPiece> pieces = PiecesOf(model, layout, rank);
    if (rank == 1) pieces.push_back({"c", TensorShape({3}), TensorSlice::Full(1), TensorView(more[2].tensor), {}});
    return pieces;
  };
  EXPECT_FALSE(save(changed));
  ExpectReaderFinds(more, &files);
  EXPECT_TRUE(save(changed));
  ExpectReaderFinds(more, &files);
}

TEST(ShardedSaveTest, ReplacesACheckpointOfAsManyRanks) {
  MemoryFileSystem files;
  files.MakeFolder("/job");
  const Layout layout{Mesh({{"model", 2}}), {{"model"}, {}}};
  ASSERT_OK(SaveModel(TwoTensors(), layout, On(&files)));
  EXPECT_THAT(SaveModel(TwoTensors(), layout, On(&files)), StatusIs(Code::kAlreadyExists, HasSubstr("step-1.index")));
  Model model = TwoTensors();
  model[0].tensor = Numbered(DType::kFloat32, TensorShape({8, 4}), 99);
  ShardedSaveOptions options = On(&files);
  options.overwrite = true;
  ASSERT_OK(SaveModel(model, layout, options));
  ExpectReaderFinds(model, &files);
  // The old checkpoint had data files of 2, so the new one has 3.
  EXPECT_THAT(files.Paths(), ElementsAre(EndsWith(".data-00000-of-00003"), EndsWith(".data-00001-of-00003"),
                                         EndsWith(".data-00002-of-00003"), EndsWith(".index")));
}

TEST(ShardedSaveTest, ReportsWhatItReplacedAtRank0) {
  MemoryFileSystem files;
  files.MakeFolder("/job");
  const Model model = TwoTensors();
  const Layout layout{Mesh({{"model", 2}}), {{"model"}, {}}};
  ASSERT_OK(SaveModel(model, layout, On(&files)));
  files.Put("/job/step-1.data-00001-of-00003", "of a save that was killed");
  ShardedSaveOptions options = On(&files);
  options.overwrite = true;
  std::vector<SaveReport> reports(2);
  ASSERT_OK(Same(OnRanks(2, [&](Communicator* comm) -> absl::Status {
    CASK_ASSIGN_OR_RETURN(reports[static_cast<size_t>(comm->rank())],
                          ShardedSave(comm, kPrefix, PiecesOf(model, layout, comm->rank()), options));
    return absl::OkStatus();
  })));
  EXPECT_THAT(reports[0].removed, ElementsAre("/job/step-1.data-00000-of-00002", "/job/step-1.data-00001-of-00002"));
  EXPECT_THAT(reports[0].notes, ElementsAre(HasSubstr("/job/step-1.data-00001-of-00003: no index counts")));
  EXPECT_THAT(reports[1].removed, IsEmpty());
  EXPECT_THAT(reports[1].notes, IsEmpty());
}

TEST(ShardedSaveTest, OneRankSavesAndAnyNumberLoads) {
  MemoryFileSystem files;
  files.MakeFolder("/job");
  const Model model = TwoTensors();
  ASSERT_OK(SaveModel(model, {Mesh({{"all", 1}}), {{}, {}}}, On(&files)));
  EXPECT_OK(LoadAndCompare(model, {Mesh({{"model", 5}}), {{"", "model"}, {"model"}}}, &files));
}

TEST(ShardedSaveTest, WritesWhatMergesLikeOtherCheckpoints) {
  MemoryFileSystem files;
  files.MakeFolder("/job");
  const Model model = TwoTensors();
  ASSERT_OK(SaveModel(model, {Mesh({{"model", 2}}), {{"model"}, {"model"}}}, On(&files)));
  CheckpointWriterOptions writer_options;
  writer_options.file_system = &files;
  ASSERT_OK_AND_ASSIGN(CheckpointWriter writer, CheckpointWriter::Create("/job/other", writer_options));
  ASSERT_OK(writer.Add("other", model[0].tensor));
  ASSERT_OK(writer.Finish());
  CheckpointMergeOptions options;
  options.file_system = &files;
  ASSERT_OK(MergeCheckpoints({kPrefix, "/job/other"}, "/job/merged", options));
  Model merged = model;
  merged.push_back({"other", model[0].tensor});
  ExpectReaderFinds(merged, &files, "/job/merged");
}

TEST(ShardedLoadTest, ReadsOnlyWhatItsRankWants) {
  MemoryFileSystem files;
  files.MakeFolder("/job");
  const Model model = {{"big", Numbered(DType::kInt8, TensorShape({8, 4096}), 1)}};
  ASSERT_OK(SaveModel(model, {Mesh({{"model", 4}}), {{"model"}}}, On(&files)));
  const uint64_t index_bytes = files.Find("/job/step-1.index")->size();
  FaultyFileSystem counting(&files);
  ASSERT_OK(LoadAndCompare(model, {Mesh({{"model", 2}}), {{"model"}}}, &counting));
  // The elements once in all, and the index by rank 0 alone: its ends when it is opened, and then all of it.
  EXPECT_LE(counting.bytes_read(), 8u * 4096u + 3 * index_bytes);
  size_t opened = 0;
  for (const FaultyFileSystem::Record& record : counting.log()) {
    if (record.operation == testing::FileOperation::kOpenToRead && absl::EndsWith(record.path, ".index")) ++opened;
  }
  EXPECT_EQ(opened, 2u);
}

TEST(ShardedLoadTest, TellsAllRanksTheErrorOfOne) {
  MemoryFileSystem files;
  files.MakeFolder("/job");
  const Model model = TwoTensors();
  ASSERT_OK(SaveModel(model, {Mesh({{"model", 2}}), {{"model"}, {}}}, On(&files)));
  ShardedLoadOptions options;
  options.reader.read.file_system = &files;
  const auto load = [&](const std::string& prefix, const std::string& name) {
    return Same(OnRanks(3, [&](Communicator* comm) {
      std::vector<WantedPiece> wanted;
      if (comm->rank() == 2) {
        wanted.push_back({name, TensorSlice::Full(1), TensorView(*Tensor::Create(DType::kInt32, TensorShape({6})))});
      }
      return ShardedLoad(comm, prefix, wanted, options);
    }));
  };
  EXPECT_OK(load(kPrefix, "b"));
  EXPECT_THAT(load(kPrefix, "nothing"), StatusIs(Code::kNotFound, HasSubstr("rank 2: ")));
  EXPECT_THAT(load("/job/missing", "b"), StatusIs(Code::kNotFound, HasSubstr("/job/missing.index")));
}

TEST(ShardedLoadTest, RefusesRanksWithOtherPaths) {
  MemoryFileSystem files;
  files.MakeFolder("/job");
  const Layout layout{Mesh({{"model", 2}}), {{"model"}, {}}};
  ASSERT_OK(SaveModel(TwoTensors(), layout, On(&files)));
  ShardedLoadOptions options;
  options.reader.read.file_system = &files;
  EXPECT_THAT(Same(OnRanks(2,
                           [&](Communicator* comm) {
                             return ShardedLoad(comm, comm->rank() == 0 ? kPrefix : "/job/step-2", {}, options);
                           })),
              StatusIs(Code::kInvalidArgument,
                       HasSubstr("rank 1 was given the path \"/job/step-2\", and rank 0 \"/job/step-1\"")));
}

// The files as another host sees them. It numbers the device of a network file system itself and, with `numbers_files`,
// the files, too.
class OtherHost final : public ForwardingFileSystem {
 public:
  OtherHost(FileSystem* behind, bool numbers_files) : ForwardingFileSystem(behind), numbers_files_(numbers_files) {}
  IoResult DescribeOpen(IoResult handle, FileInfo* info) override {
    return Renumber(ForwardingFileSystem::DescribeOpen(handle, info), info);
  }
  IoResult Describe(const std::string& path, FileInfo* info) override {
    return Renumber(ForwardingFileSystem::Describe(path, info), info);
  }

 private:
  IoResult Renumber(IoResult result, FileInfo* info) const {
    info->id.device += 7;
    if (numbers_files_ && info->id.is_known()) info->id.number += 1000;
    return result;
  }
  const bool numbers_files_;
};

TEST(ShardedLoadTest, HostsMayNumberDevicesAndFilesThemselves) {
  using testing::FileOperation;
  const Model model = TwoTensors();
  const Layout layout{Mesh({{"model", 2}}), {{"model"}, {}}};
  for (const bool numbers_files : {false, true}) {
    SCOPED_TRACE(numbers_files);
    MemoryFileSystem memory;
    memory.MakeFolder("/job");
    ASSERT_OK(SaveModel(model, layout, On(&memory)));
    FaultyFileSystem files(&memory);
    OtherHost other(&files, numbers_files);
    const TensorView into = *Tensor::Create(DType::kInt32, TensorShape({6}));
    const auto load = [&] {  // rank 1 alone wants something
      return Same(OnRanks(2, [&](Communicator* comm) {
        ShardedLoadOptions options;
        options.reader.read.file_system = comm->rank() == 0 ? static_cast<FileSystem*>(&memory) : &other;
        std::vector<WantedPiece> wanted;
        if (comm->rank() == 1) wanted.push_back({"b", TensorSlice::Full(1), into});
        return ShardedLoad(comm, kPrefix, wanted, options);
      }));
    };
    ASSERT_OK(load());
    EXPECT_TRUE(Equal(into, model[1].tensor));
    size_t opened = 0;
    for (const FaultyFileSystem::Record& record : files.log()) {
      if (record.operation == FileOperation::kOpenToRead && absl::EndsWith(record.path, ".index")) ++opened;
    }
    EXPECT_EQ(opened, numbers_files ? 1u : 0u) << "the index is read to compare it, and only where that is needed";

    // The checkpoint is replaced before rank 1 looks at the index, or later.
    for (const std::string at : {".index", ".data-"}) {
      SCOPED_TRACE(at);
      bool replaced = false;
      files.SetHook([&](int64_t, FileOperation, const std::string& path) {
        if (replaced || !absl::StrContains(path, at)) return;
        replaced = true;
        ShardedSaveOptions options = On(&memory);
        options.overwrite = true;
        EXPECT_OK(SaveModel(model, layout, options));
      });
      EXPECT_THAT(load(), StatusIs(Code::kAborted, HasSubstr("was replaced")));
    }
  }
}

TEST(ShardedLoadTest, NoticesThatTheCheckpointWasReplaced) {
  MemoryFileSystem memory;
  memory.MakeFolder("/job");
  const Layout layout{Mesh({{"model", 2}}), {{"model"}, {}}};
  ASSERT_OK(SaveModel(TwoTensors(), layout, On(&memory)));
  FaultyFileSystem files(&memory);
  bool replaced = false;
  files.SetHook([&](int64_t, testing::FileOperation operation, const std::string& path) {
    if (replaced || operation != testing::FileOperation::kOpenToRead || !absl::StrContains(path, ".data-")) return;
    replaced = true;
    ShardedSaveOptions options = On(&memory);
    options.overwrite = true;
    EXPECT_OK(SaveModel(TwoTensors(), layout, options));
  });
  ShardedLoadOptions options;
  options.reader.read.file_system = &files;
  EXPECT_THAT(
      Same(OnRanks(1,
                   [&](Communicator* comm) {
                     const std::vector<WantedPiece> wanted = {
                         {"b", TensorSlice::Full(1), TensorView(*Tensor::Create(DType::kInt32, TensorShape({6})))}};
                     return ShardedLoad(comm, kPrefix, wanted, options);
                   })),
      StatusIs(Code::kAborted, HasSubstr("was replaced")));
}

}  // namespace
}  // namespace tensorcask
