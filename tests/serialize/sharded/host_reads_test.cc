#include "tensorcask/serialize/sharded/internal/host_reads.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
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
using ::tensorcask::testing::FileOperation;
using ::tensorcask::testing::Layout;
using ::tensorcask::testing::Model;
using ::tensorcask::testing::Numbered;
using ::tensorcask::testing::OnRanks;
using ::tensorcask::testing::PiecesOf;
using ::tensorcask::testing::Same;
using ::tensorcask::testing::StatusIs;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using Code = absl::StatusCode;
using sharded::HostReads;
using sharded::HostRequest;

constexpr char kPrefix[] = "/job/step-1";

// ---- The reads of a host --------------------------------------------------------------------------------------------

char FirstByteOf(const std::string& key) { return static_cast<char>(std::hash<std::string>()(key)); }

// What happened in a job in which each rank has the requests of its number.
struct Outcome {
  std::map<std::string, int> reads;       // by key, through shared memory
  std::set<std::pair<int, size_t>> used;  // rank and request
  std::vector<std::vector<bool>> shared;  // by rank and request
};

absl::Status RunReads(const std::vector<std::vector<HostRequest>>& requests, uint64_t round_bytes, Outcome* outcome,
                      const std::string& bad_key = "") {
  std::mutex mutex;
  outcome->shared.resize(requests.size());
  return Same(OnRanks(static_cast<int>(requests.size()), [&](Communicator* comm) -> absl::Status {
    const std::vector<HostRequest>& mine = requests[static_cast<size_t>(comm->rank())];
    CASK_ASSIGN_OR_RETURN(HostReads reads, HostReads::Plan(comm, absl::OkStatus(), mine, round_bytes));
    for (size_t i = 0; i < mine.size(); ++i) {
      outcome->shared[static_cast<size_t>(comm->rank())].push_back(reads.is_shared(i));
    }
    const auto read = [&](size_t i, const RefPtr<TensorBuffer>& memory) -> absl::Status {
      EXPECT_EQ(memory->size_bytes(), mine[i].bytes);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(memory->data()) % 64, 0u);
      if (mine[i].key == bad_key) return absl::DataLossError("a bad sector");
      std::memset(memory->mutable_data(), FirstByteOf(mine[i].key), mine[i].bytes);
      const std::lock_guard<std::mutex> lock(mutex);
      ++outcome->reads[mine[i].key];
      return absl::OkStatus();
    };
    const auto use = [&](size_t i, const RefPtr<TensorBuffer>& memory) -> absl::Status {
      EXPECT_EQ(memory->bytes(), std::string(mine[i].bytes, FirstByteOf(mine[i].key))) << mine[i].key;
      const std::lock_guard<std::mutex> lock(mutex);
      EXPECT_TRUE(outcome->used.emplace(comm->rank(), i).second) << "rank " << comm->rank() << ", request " << i;
      return absl::OkStatus();
    };
    return reads.Run(absl::OkStatus(), read, use);
  }));
}

TEST(HostReadsTest, OneRankReadsWhatSeveralWant) {
  for (uint32_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937 random(seed);
    std::vector<std::vector<HostRequest>> requests(1 + random() % 5);
    std::map<std::string, std::set<size_t>> ranks_of;
    for (int key = 0; key < 20; ++key) {
      const std::string name = absl::StrCat("piece ", key);
      const uint64_t bytes = random() % 8 == 0 ? 0 : 1 + random() % 9000;
      for (size_t rank = 0; rank < requests.size(); ++rank) {
        if (random() % 2 == 0) continue;
        const size_t times = random() % 8 == 0 ? 2 : 1;
        requests[rank].insert(requests[rank].begin() + static_cast<ptrdiff_t>(random() % (requests[rank].size() + 1)),
                              times, {name, bytes});
        if (bytes > 0) ranks_of[name].insert(rank);
      }
    }
    Outcome outcome;
    ASSERT_OK(RunReads(requests, /*round_bytes=*/seed % 3 == 0 ? HostReads::kRoundBytes : 10'000, &outcome));
    size_t used = 0;
    for (size_t rank = 0; rank < requests.size(); ++rank) {
      for (size_t i = 0; i < requests[rank].size(); ++i) {
        const bool by_several = ranks_of[requests[rank][i].key].size() > 1;
        EXPECT_EQ(outcome.shared[rank][i], by_several) << requests[rank][i].key;
        used += by_several ? 1 : 0;
      }
    }
    EXPECT_EQ(outcome.used.size(), used);
    for (const auto& [key, ranks] : ranks_of) EXPECT_EQ(outcome.reads[key], ranks.size() > 1 ? 1 : 0) << key;
  }
}

TEST(HostReadsTest, TheErrorOfAReaderIsThatOfAllRanks) {
  Outcome outcome;
  const std::vector<HostRequest> all = {{"a", 100}, {"b", 100}, {"c", 100}};
  EXPECT_THAT(RunReads({all, all, all}, HostReads::kRoundBytes, &outcome, "b"),
              StatusIs(Code::kDataLoss, AllOf(HasSubstr("rank "), HasSubstr(": a bad sector"))));
  EXPECT_TRUE(outcome.used.empty());
}

// Changes a byte of what its rank gathers first, its address: 1 is in the name of the host, the last in the number.
class StrangerCommunicator final : public Communicator {
 public:
  StrangerCommunicator(Communicator* behind, bool changes_host) : behind_(behind), changes_host_(changes_host) {}
  int rank() const override { return behind_->rank(); }
  int size() const override { return behind_->size(); }
  absl::StatusOr<std::vector<std::string>> Gather(absl::string_view mine, int root) override {
    std::string bytes(mine);
    if (!changed_ && bytes.size() > 3) bytes[changes_host_ ? 3 : bytes.size() - 1] ^= 1;
    changed_ = true;
    return behind_->Gather(bytes, root);
  }
  absl::StatusOr<std::string> Broadcast(absl::string_view from_root, int root) override {
    return behind_->Broadcast(from_root, root);
  }
  absl::Status Barrier() override { return behind_->Barrier(); }

 private:
  Communicator* const behind_;
  const bool changes_host_;
  bool changed_ = false;
};

// Which ranks share, if rank 2 of 3 is a stranger.
std::vector<bool> WhoShares(bool changes_host) {
  std::vector<int> shares(3, -1);
  EXPECT_OK(Same(OnRanks(3, [&](Communicator* comm) -> absl::Status {
    StrangerCommunicator stranger(comm, changes_host);
    Communicator* const mine = comm->rank() == 2 ? &stranger : comm;
    CASK_ASSIGN_OR_RETURN(HostReads reads, HostReads::Plan(mine, absl::OkStatus(), {{"a", 10}}));
    shares[static_cast<size_t>(comm->rank())] = reads.is_shared(0) ? 1 : 0;
    const auto nothing = [](size_t, const RefPtr<TensorBuffer>&) { return absl::OkStatus(); };
    return reads.Run(absl::OkStatus(), nothing, nothing);
  })));
  return {shares[0] == 1, shares[1] == 1, shares[2] == 1};
}

TEST(HostReadsTest, RanksOfOtherHostsShareNothing) {
  EXPECT_THAT(WhoShares(/*changes_host=*/true), ::testing::ElementsAre(true, true, false));
}

TEST(HostReadsTest, NothingIsSharedWhereTheMemoryOfARankCannotBeRead) {
  EXPECT_THAT(WhoShares(/*changes_host=*/false), Each(false));
}

// ---- ShardedLoad ----------------------------------------------------------------------------------------------------

Model SavedModel(MemoryFileSystem* files) {
  files->MakeFolder("/job");
  const Model model = {{"kernel", Numbered(DType::kFloat32, TensorShape({64, 128}), 1)},
                       {"names", Numbered(DType::kString, TensorShape({5}), 2)},
                       {"flags", Numbered(DType::kBool, TensorShape({4096}), 3)},
                       {"empty", Numbered(DType::kInt8, TensorShape({0, 3}), 4)}};
  const Layout saved{Mesh({{"model", 2}}), {{"model"}, {}, {"model"}, {}}};
  ShardedSaveOptions options;
  options.file_system = files;
  EXPECT_OK(Same(OnRanks(2, [&](Communicator* comm) {
    return ShardedSave(comm, kPrefix, PiecesOf(model, saved, comm->rank()), options).status();
  })));
  return model;
}

// Four ranks load all of the model, into memory of other strides.
absl::Status LoadAll(const Model& model, FileSystem* files, ReadSharing share) {
  const Layout whole{Mesh({{"data", 4}}), std::vector<PartitionSpec>(model.size())};
  ShardedLoadOptions options;
  options.reader.read.file_system = files;
  options.share = share;
  return Same(OnRanks(4, [&](Communicator* comm) -> absl::Status {
    const std::vector<LocalPiece> expected = PiecesOf(model, whole, comm->rank());
    std::vector<WantedPiece> wanted;
    for (const LocalPiece& piece : expected) {
      std::vector<int64_t> dims(piece.elements.dims().rbegin(), piece.elements.dims().rend());
      std::vector<int64_t> axes;
      for (int axis = piece.elements.rank(); axis-- > 0;) axes.push_back(axis);
      const TensorView memory = *Tensor::Create(piece.elements.dtype(), *TensorShape::Create(dims));
      wanted.push_back({piece.name, piece.slice, *memory.Permute(axes)});
    }
    std::shuffle(wanted.begin(), wanted.end(), std::mt19937(static_cast<uint32_t>(comm->rank())));
    CASK_RETURN_IF_ERROR(ShardedLoad(comm, kPrefix, wanted, options));
    for (const WantedPiece& piece : wanted) {
      const auto same = std::find_if(expected.begin(), expected.end(),
                                     [&](const LocalPiece& other) { return other.name == piece.name; });
      EXPECT_TRUE(Equal(piece.into, same->elements)) << piece.name;
    }
    return absl::OkStatus();
  }));
}

TEST(ShardedLoadTest, FourRanksOfAHostReadWhatTheyShareOnce) {
  MemoryFileSystem files;
  const Model model = SavedModel(&files);
  const uint64_t shared_bytes = 64 * 128 * 4 + 4096;
  const uint64_t other_bytes = 3 * files.Find("/job/step-1.index")->size() + 4 * 300;  // the index, and the strings
  FaultyFileSystem apart(&files);
  ASSERT_OK(LoadAll(model, &apart, ReadSharing::kNone));
  EXPECT_GE(apart.bytes_read(), 4 * shared_bytes);
  FaultyFileSystem once(&files);
  ASSERT_OK(LoadAll(model, &once, ReadSharing::kHost));
  EXPECT_GE(once.bytes_read(), shared_bytes);
  EXPECT_LE(once.bytes_read(), shared_bytes + other_bytes);
  EXPECT_EQ(once.open_handles(), 0u);
}

TEST(ShardedLoadTest, AllRanksGetTheErrorOfTheRankThatReadsForThem) {
  MemoryFileSystem memory;
  const Model model = SavedModel(&memory);
  // One read of each data file fails, whichever rank makes it.
  for (const std::string part : {"0", "1"}) {
    FaultyFileSystem files(&memory);
    std::atomic<bool> failed{false};
    files.SetHook([&](int64_t n, FileOperation operation, const std::string& path) {
      if (operation != FileOperation::kReadAt || !absl::StrContains(path, absl::StrCat(".data-0000", part))) return;
      if (!failed.exchange(true)) files.FailAt(n, EIO);
    });
    EXPECT_THAT(LoadAll(model, &files, ReadSharing::kHost),
                StatusIs(Code::kUnknown, AllOf(HasSubstr("rank "), HasSubstr("Input/output error"))));
    EXPECT_EQ(files.open_handles(), 0u);
  }
}

TEST(ShardedLoadTest, RefusesTheSameWhenRanksShare) {
  MemoryFileSystem files;
  SavedModel(&files);
  const auto load = [&](const WantedPiece& piece) {
    ShardedLoadOptions options;
    options.reader.read.file_system = &files;
    options.share = ReadSharing::kHost;
    return Same(OnRanks(2, [&](Communicator* comm) { return ShardedLoad(comm, kPrefix, {piece}, options); }));
  };
  const TensorView floats = *Tensor::Create(DType::kFloat32, TensorShape({4096}));
  EXPECT_THAT(load({"nothing", TensorSlice::Full(1), floats}), StatusIs(Code::kNotFound, HasSubstr("rank 0: ")));
  EXPECT_THAT(load({"flags", TensorSlice::Full(1), floats}),
              StatusIs(Code::kInvalidArgument, HasSubstr("the tensor to fill is float32 [4096]")));
  EXPECT_THAT(load({"flags", *TensorSlice::Parse("1,4096"), floats}), StatusIs(Code::kOutOfRange, HasSubstr("flags")));
}

}  // namespace
}  // namespace tensorcask
