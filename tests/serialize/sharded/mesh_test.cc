#include "tensorcask/serialize/sharded/mesh.h"

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

using ::tensorcask::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

// What each rank holds: a slice, "none", and " (replica)" after it.
std::vector<std::string> HeldBy(const TensorShape& shape, const Mesh& mesh, const PartitionSpec& spec,
                                Division division = Division::kChunk) {
  std::vector<std::string> all;
  for (int rank = 0; rank < mesh.num_ranks(); ++rank) {
    const absl::StatusOr<HeldPiece> held = PieceOf(shape, mesh, spec, rank, division);
    EXPECT_OK(held);
    all.push_back((held->slice.has_value() ? held->slice->ToString() : "none") +
                  (held->is_replica ? " (replica)" : ""));
  }
  return all;
}

TEST(MeshTest, NumbersRanksWithTheLastAxisFastest) {
  const Mesh mesh({{"data", 2}, {"model", 4}});
  EXPECT_EQ(mesh.num_ranks(), 8);
  EXPECT_EQ(mesh.Coordinate(5, 0), 1);
  EXPECT_EQ(mesh.Coordinate(5, 1), 1);
  EXPECT_EQ(mesh.ToString(), "data=2,model=4");
  ASSERT_OK_AND_ASSIGN(const Mesh parsed, Mesh::Parse("data=2,model=4"));
  EXPECT_EQ(parsed.ToString(), mesh.ToString());
}

TEST(MeshTest, GivesEachRankItsPieceAndTellsReplicas) {
  const Mesh mesh({{"data", 2}, {"model", 2}});
  EXPECT_THAT(HeldBy(TensorShape({4, 3}), mesh, {"model", kReplicated}),
              ElementsAre("0,2:-", "2,2:-", "0,2:- (replica)", "2,2:- (replica)"));
  EXPECT_THAT(HeldBy(TensorShape({4, 4}), mesh, {"model", "data"}),
              ElementsAre("0,2:0,2", "2,2:0,2", "0,2:2,2", "2,2:2,2"));
  EXPECT_THAT(HeldBy(TensorShape({4}), mesh, {}), ElementsAre("-", "- (replica)", "- (replica)", "- (replica)"));
  EXPECT_THAT(HeldBy(TensorShape({8}), mesh, {"data+model"}), ElementsAre("0,2", "2,2", "4,2", "6,2"));
  EXPECT_THAT(HeldBy(TensorShape({8}), mesh, {"model+data"}), ElementsAre("0,2", "4,2", "2,2", "6,2"));
}

// torch.chunk(torch.arange(5), 4) has pieces of 2, 2 and 1; torch.arange(2) of 1 and 1.
TEST(MeshTest, DividesUnevenAxesAsTorchChunk) {
  const Mesh mesh({{"model", 4}});
  EXPECT_THAT(HeldBy(TensorShape({5}), mesh, {"model"}), ElementsAre("0,2", "2,2", "4,1", "none"));
  EXPECT_THAT(HeldBy(TensorShape({2}), mesh, {"model"}), ElementsAre("0,1", "1,1", "none", "none"));
  EXPECT_THAT(HeldBy(TensorShape({1}), mesh, {"model"}), ElementsAre("-", "none", "none", "none"));
  // As DTensor, [Shard(0), Shard(0)]: each piece of 3 is divided into 2 and 1.
  EXPECT_THAT(HeldBy(TensorShape({5}), Mesh({{"a", 2}, {"b", 2}}), {"a+b"}), ElementsAre("0,2", "2,1", "3,1", "4,1"));
}

TEST(MeshTest, DividesTheLongestAxis) {
  EXPECT_THAT(HeldBy(TensorShape({std::numeric_limits<int64_t>::max()}), Mesh({{"model", 2}}), {"model"}),
              ElementsAre("0,4611686018427387904", "4611686018427387904,4611686018427387903"));
}

TEST(MeshTest, GivesTensorsWithoutElementsToTheFirstRank) {
  EXPECT_THAT(HeldBy(TensorShape({0, 3}), Mesh({{"model", 2}}), {"model"}), ElementsAre("-:-", "none"));
}

TEST(MeshTest, DividesAsJaxOrRefuses) {
  const Mesh mesh({{"model", 4}});
  EXPECT_THAT(HeldBy(TensorShape({8}), mesh, {"model"}, Division::kExact), ElementsAre("0,2", "2,2", "4,2", "6,2"));
  EXPECT_THAT(PieceOf(TensorShape({5}), mesh, {"model"}, 0, Division::kExact),
              StatusIs(Code::kInvalidArgument, HasSubstr("axis 0 has 5 elements, which 4 ranks of \"model\"")));
}

TEST(MeshTest, RefusesWhatIsNoMesh) {
  EXPECT_THAT(Mesh::Parse("data"), StatusIs(Code::kInvalidArgument, HasSubstr("wanted NAME=SIZE")));
  EXPECT_THAT(Mesh::Parse(""), StatusIs(Code::kInvalidArgument, HasSubstr("wanted NAME=SIZE")));
  EXPECT_THAT(Mesh::Parse("a=0"), StatusIs(Code::kInvalidArgument, HasSubstr("has size 0")));
  EXPECT_THAT(Mesh::Parse("a=2,a=2"), StatusIs(Code::kInvalidArgument, HasSubstr("two axes called \"a\"")));
  EXPECT_THAT(Mesh::Parse("a b=2"), StatusIs(Code::kInvalidArgument, HasSubstr("called \"a b\"")));
  EXPECT_THAT(Mesh::Parse("a=65536,b=65536"), StatusIs(Code::kInvalidArgument, HasSubstr("too many ranks")));
  EXPECT_THAT(Mesh::Create({}), StatusIs(Code::kInvalidArgument, HasSubstr("none is given")));
}

TEST(MeshTest, RefusesSpecsThatDoNotFit) {
  const Mesh mesh({{"model", 2}});
  EXPECT_THAT(PieceOf(TensorShape({4}), mesh, {"data"}, 0),
              StatusIs(Code::kInvalidArgument, HasSubstr("divided over \"data\"; the mesh is model=2")));
  EXPECT_THAT(PieceOf(TensorShape({4, 4}), mesh, {"model", "model"}, 0),
              StatusIs(Code::kInvalidArgument, HasSubstr("two divisions are over \"model\"")));
  EXPECT_THAT(PieceOf(TensorShape({4}), mesh, {"", "model"}, 0),
              StatusIs(Code::kInvalidArgument, HasSubstr("the spec divides axis 1; the tensor has 1 axis")));
  EXPECT_OK(PieceOf(TensorShape({4}), mesh, {"model", ""}, 0));
  EXPECT_THAT(PieceOf(TensorShape({4}), mesh, {"model"}, 2), StatusIs(Code::kOutOfRange, HasSubstr("rank 2")));
}

TEST(MeshTest, ParsesSpecs) {
  ASSERT_OK_AND_ASSIGN(const PartitionSpec spec, ParsePartitionSpec("data+model,-"));
  EXPECT_THAT(spec, ElementsAre("data+model", ""));
  ASSERT_OK_AND_ASSIGN(const PartitionSpec scalar, ParsePartitionSpec(""));
  EXPECT_TRUE(scalar.empty());
  EXPECT_THAT(ParsePartitionSpec("a,,b"), StatusIs(Code::kInvalidArgument, HasSubstr("empty element")));
}

}  // namespace
}  // namespace tensorcask
