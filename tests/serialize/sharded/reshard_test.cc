#include "tensorcask/serialize/sharded/reshard.h"

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/checkpoint/checkpoint_writer.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/strided/compare.h"
#include "tensorcask/tests/serialize/sharded/sharded_testing.h"
#include "tensorcask/tests/support/faulty_file_system.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::FaultyFileSystem;
using ::tensorcask::testing::Model;
using ::tensorcask::testing::ModelTensor;
using ::tensorcask::testing::Numbered;
using ::tensorcask::testing::OnRanks;
using ::tensorcask::testing::Same;
using ::tensorcask::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using Code = absl::StatusCode;

Model SampleModel() {
  return {{"dense/bias", Numbered(DType::kFloat32, TensorShape({6}), 1)},
          {"dense/kernel", Numbered(DType::kFloat32, TensorShape({6, 5}), 2)},
          {"names", Numbered(DType::kString, TensorShape({3}), 3)},
          {"step", Numbered(DType::kInt64, TensorShape(), 4)}};
}

void SaveTo(const Model& model, const std::string& prefix, MemoryFileSystem* files) {
  CheckpointWriterOptions options;
  options.file_system = files;
  ASSERT_OK_AND_ASSIGN(CheckpointWriter writer, CheckpointWriter::Create(prefix, options));
  for (const ModelTensor& tensor : model) {
    CheckpointAddOptions add;
    add.metadata.attributes["of"] = tensor.name;
    ASSERT_OK(writer.Add(tensor.name, tensor.tensor, add));
  }
  ASSERT_OK(writer.Finish());
}

ReshardOptions On(MemoryFileSystem* files) {
  ReshardOptions options;
  options.reader.read.file_system = files;
  options.writer.file_system = files;
  return options;
}

TEST(ReshardTest, WritesThePiecesOfEachRankToItsDataFile) {
  MemoryFileSystem files;
  const Model model = SampleModel();
  SaveTo(model, "a", &files);
  ReshardOptions options = On(&files);
  options.rules = {{"dense/*", {"model", kReplicated}}, {"nothing/*", {"model"}}};
  ASSERT_OK_AND_ASSIGN(const ReshardReport report, ReshardCheckpoint("a", "b", Mesh({{"model", 4}}), options));
  EXPECT_EQ(report.num_tensors, 4);
  EXPECT_EQ(report.num_pieces, 2 * 3 + 2);  // 6 rows are 2, 2, 2 and none
  EXPECT_THAT(report.unmatched, ElementsAre("nothing/*"));
  ASSERT_THAT(report.bytes_of_ranks, SizeIs(4));
  EXPECT_EQ(report.bytes_of_ranks[0], 2u * 6u * 4u);
  EXPECT_GT(report.bytes_of_ranks[3], 8u) << "the replicas";

  CheckpointReaderOptions read;
  read.read.file_system = &files;
  ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, CheckpointReader::Open("b", read));
  EXPECT_EQ(reader.num_shards(), 4);
  for (const ModelTensor& tensor : model) {
    ASSERT_OK_AND_ASSIGN(const Tensor found, reader.Read(tensor.name));
    EXPECT_TRUE(Equal(found, tensor.tensor)) << tensor.name;
    ASSERT_OK_AND_ASSIGN(const TensorMetadata metadata, reader.Metadata(tensor.name));
    EXPECT_EQ(metadata.attributes.at("of"), tensor.name);
  }
  ASSERT_OK_AND_ASSIGN(const CheckpointEntry kernel, reader.Find("dense/kernel"));
  ASSERT_THAT(kernel.slices, SizeIs(3));
  EXPECT_EQ(kernel.slices[1].ToString(), "2,2:-");

  // And back to one piece each.
  ASSERT_OK(ReshardCheckpoint("b", "c", Mesh({{"all", 1}}), On(&files)));
  EXPECT_EQ(*files.Find("c.data-00000-of-00001"), *files.Find("a.data-00000-of-00001"));
  EXPECT_EQ(*files.Find("c.index"), *files.Find("a.index"));
}

TEST(ReshardTest, RefusesWhatItCannotDoAndLeavesNothing) {
  MemoryFileSystem files;
  SaveTo(SampleModel(), "a", &files);
  const std::vector<std::string> before = files.Paths();
  const auto reshard = [&](const PartitionRule& rule, Division division, const std::string& target = "b") {
    ReshardOptions options = On(&files);
    options.rules = {rule};
    options.division = division;
    const absl::Status status = ReshardCheckpoint("a", target, Mesh({{"model", 4}}), options).status();
    EXPECT_EQ(files.Paths(), before);
    return status;
  };
  EXPECT_THAT(reshard({"dense/kernel", {"model"}}, Division::kExact),
              StatusIs(Code::kInvalidArgument, HasSubstr("a: tensor \"dense/kernel\": axis 0 has 6 elements")));
  EXPECT_THAT(reshard({"step", {"model"}}, Division::kChunk),
              StatusIs(Code::kInvalidArgument, HasSubstr("tensor \"step\": the spec divides axis 0")));
  EXPECT_THAT(reshard({"*", {}}, Division::kChunk, "a"), StatusIs(Code::kAlreadyExists, HasSubstr("a.index")));
  ReshardOptions overwriting = On(&files);
  overwriting.writer.overwrite = true;
  EXPECT_THAT(ReshardCheckpoint("a", "./a", Mesh({{"model", 4}}), overwriting),
              StatusIs(Code::kInvalidArgument, HasSubstr("is the checkpoint that is read, a")));
  ReshardOptions stopped = On(&files);
  int left = 2;
  stopped.go_on = [&] { return left-- > 0; };
  EXPECT_THAT(ReshardCheckpoint("a", "b", Mesh({{"model", 4}}), stopped), StatusIs(Code::kCancelled, HasSubstr("b: ")));
  EXPECT_EQ(files.Paths(), before);
  EXPECT_THAT(ReshardCheckpoint("none", "b", Mesh({{"model", 4}}), On(&files)), StatusIs(Code::kNotFound));
  EXPECT_THAT(ReshardCheckpoint("a", "b", Mesh({{"model", 2'000'000'000}}), On(&files)),
              StatusIs(Code::kInvalidArgument, HasSubstr("b: 2000000000 data files; wanted 1 to 99999")));
  EXPECT_EQ(files.Paths(), before);
}

// Reshards "a" in a job, one rank for each of the mesh. Gives the report of rank 0.
absl::StatusOr<ReshardReport> InJob(const std::string& target, const Mesh& mesh, const ReshardOptions& options) {
  ReshardReport report;
  CASK_RETURN_IF_ERROR(Same(OnRanks(mesh.num_ranks(), [&](Communicator* comm) -> absl::Status {
    CASK_ASSIGN_OR_RETURN(const ReshardReport mine, ReshardCheckpoint(comm, "a", target, mesh, options));
    if (comm->rank() == 0) report = mine;
    return absl::OkStatus();
  })));
  return report;
}

TEST(ReshardTest, AJobWritesTheSameFiles) {
  MemoryFileSystem files;
  SaveTo(SampleModel(), "a", &files);
  ReshardOptions options = On(&files);
  options.rules = {{"dense/*", {"model", kReplicated}}, {"names", {"model"}}};
  const Mesh mesh({{"model", 3}});
  ASSERT_OK_AND_ASSIGN(const ReshardReport alone, ReshardCheckpoint("a", "b", mesh, options));
  for (const ReadSharing share : {ReadSharing::kNone, ReadSharing::kHost}) {
    options.share = share;
    ASSERT_OK_AND_ASSIGN(const ReshardReport report, InJob("c", mesh, options));
    EXPECT_EQ(report.num_pieces, alone.num_pieces);
    EXPECT_EQ(report.bytes_of_ranks, alone.bytes_of_ranks);
    // With tensors that ranks share the order in a data file is another one.
    CheckpointReaderOptions read;
    read.read.file_system = &files;
    ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, CheckpointReader::Open("c", read));
    for (const ModelTensor& tensor : SampleModel()) {
      ASSERT_OK_AND_ASSIGN(const Tensor found, reader.Read(tensor.name));
      EXPECT_TRUE(Equal(found, tensor.tensor)) << tensor.name;
      ASSERT_OK_AND_ASSIGN(const TensorMetadata metadata, reader.Metadata(tensor.name));
      EXPECT_EQ(metadata.attributes.at("of"), tensor.name);
    }
    for (const std::string name : {".index", ".data-00000-of-00003", ".data-00001-of-00003", ".data-00002-of-00003"}) {
      if (share == ReadSharing::kNone) {
        EXPECT_EQ(*files.Find("c" + name), *files.Find("b" + name)) << name;
      }
      files.Remove("c" + name);
    }
  }
  EXPECT_EQ(files.open_handles(), 0u);
}

TEST(ReshardTest, AJobThatSharesReadsEachTensorOnce) {
  MemoryFileSystem files;
  SaveTo({{"w", Numbered(DType::kFloat32, TensorShape({64, 256}), 1)}}, "a", &files);
  constexpr uint64_t kBytes = 64 * 256 * 4;
  for (const ReadSharing share : {ReadSharing::kNone, ReadSharing::kHost}) {
    FaultyFileSystem counting(&files);
    ReshardOptions options = On(&files);
    options.reader.read.file_system = &counting;
    options.rules = {{"w", {"model"}}};
    options.share = share;
    options.writer.overwrite = true;
    ASSERT_OK_AND_ASSIGN(const ReshardReport report, InJob("b", Mesh({{"model", 4}}), options));
    if (share == ReadSharing::kNone) {
      EXPECT_GE(counting.bytes_read(), 4 * kBytes);
    } else {
      EXPECT_LE(counting.bytes_read(), kBytes + 3 * files.Find("a.index")->size());
      EXPECT_THAT(report.removed, SizeIs(4)) << "those of the checkpoint before";
    }
  }
}

TEST(ReshardTest, AJobRefusesTheSameAndLeavesNothing) {
  MemoryFileSystem files;
  SaveTo(SampleModel(), "a", &files);
  const std::vector<std::string> before = files.Paths();
  ReshardOptions options = On(&files);
  options.rules = {{"step", {"model"}}};
  EXPECT_THAT(InJob("b", Mesh({{"model", 2}}), options),
              StatusIs(Code::kInvalidArgument, HasSubstr("tensor \"step\": the spec divides axis 0")));
  EXPECT_THAT(InJob("a", Mesh({{"model", 2}}), On(&files)), StatusIs(Code::kAlreadyExists, HasSubstr("a.index")));
  options.rules = {{"dense/*", {"model"}}};
  for (const ReadSharing share : {ReadSharing::kNone, ReadSharing::kHost}) {
    options.share = share;
    std::atomic<int> left{2};
    options.go_on = [&] { return left-- > 0; };
    EXPECT_THAT(InJob("b", Mesh({{"model", 2}}), options),
                StatusIs(Code::kCancelled, AllOf(HasSubstr("rank "), HasSubstr("b: stopped"))));
    EXPECT_EQ(files.Paths(), before);
  }
  EXPECT_THAT(Same(OnRanks(3,
                           [&](Communicator* comm) {
                             return ReshardCheckpoint(comm, "a", "b", Mesh({{"model", 2}}), On(&files)).status();
                           })),
              StatusIs(Code::kInvalidArgument, HasSubstr("mesh model=2 has 2 ranks; the job has 3")));
  EXPECT_EQ(files.Paths(), before);
  const auto with_paths = [&](const std::vector<std::string>& sources, const std::vector<std::string>& targets) {
    return Same(OnRanks(2, [&](Communicator* comm) {
      const auto rank = static_cast<size_t>(comm->rank());
      return ReshardCheckpoint(comm, sources[rank], targets[rank], Mesh({{"model", 2}}), On(&files)).status();
    }));
  };
  EXPECT_THAT(with_paths({"a", "./a"}, {"b", "b"}),
              StatusIs(Code::kInvalidArgument, HasSubstr("rank 1 was given the path \"./a\", and rank 0 \"a\"")));
  EXPECT_THAT(with_paths({"a", "a"}, {"b", "c"}),
              StatusIs(Code::kInvalidArgument, HasSubstr("rank 1 was given the path \"c\", and rank 0 \"b\"")));
  EXPECT_EQ(files.Paths(), before);
}

}  // namespace
}  // namespace tensorcask
