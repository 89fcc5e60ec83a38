#include "tensorcask/tests/benchmarks/sharded_bars.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/checkpoint/checkpoint_writer.h"
#include "tensorcask/serialize/checkpoint/merge.h"
#include "tensorcask/serialize/sharded/sharded_save.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/benchmarks/bar_data.h"
#include "tensorcask/tests/benchmarks/bars.h"
#include "tensorcask/tests/benchmarks/limits.h"
#include "tensorcask/tests/benchmarks/measure.h"

namespace tensorcask::benchmarks {
namespace {

constexpr int kRounds = 9;

// ---- Merges ---------------------------------------------------------------------------------------------------------

constexpr int kSources = 8;

struct Cost {
  double cpu_seconds = 0;
  double peak_mib = 0;  // all memory of the process
};

// What run() costs in a process of its own, which begins as small as this one is.
Cost CostOf(const std::function<void()>& run) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    run();
    _exit(0);
  }
  int status = 0;
  rusage usage = {};
  if (child < 0 || wait4(child, &status, 0, &usage) != child || status != 0) {
    std::fprintf(stderr, "sharded: a process failed\n");
    std::exit(1);
  }
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return {seconds(usage.ru_utime) + seconds(usage.ru_stime), static_cast<double>(usage.ru_maxrss) / 1024};
}

std::string Source(const Folder& folder, int source) { return folder.Path(absl::StrCat("source", source)); }

// Checkpoints of `count` entries of a byte in all: whole tensors, or pieces of tensors that have one in each source.
void MakeSources(const Folder& folder, int count, bool pieces) {
  const Tensor byte = Require(Tensor::Create(DType::kInt8, TensorShape({1})));
  for (int source = 0; source < kSources; ++source) {
    CheckpointWriterOptions options;
    options.sync = false;
    options.alignment = 1;
    CheckpointWriter writer = Require(CheckpointWriter::Create(Source(folder, source), options));
    const TensorSlice slice = Require(TensorSlice::Create({{source, 1}}));
    for (int i = 0; i < count / kSources; ++i) {
      if (pieces) {
        Require(writer.AddSlice(absl::StrFormat("tensor%06d", i), TensorShape({kSources}), slice, byte));
      } else {
        Require(writer.Add(absl::StrFormat("tensor%06d", i * kSources + source), byte));
      }
    }
    Require(writer.Finish());
  }
}

void MergeAll(const Folder& folder) {
  std::vector<std::string> sources;
  for (int source = 0; source < kSources; ++source) sources.push_back(Source(folder, source));
  CheckpointMergeOptions options;
  options.sync = false;
  options.overwrite = true;
  Require(MergeCheckpoints(sources, folder.Path("merged"), options).status());
}

void MergeRow(int count, bool pieces, double cpu_bar) {
  const Folder folder = Folder::InMemory();
  CostOf([&] { MakeSources(folder, count, pieces); });
  Cost least = CostOf([&] { MergeAll(folder); });
  for (int i = 1; i < 3; ++i) {
    const Cost cost = CostOf([&] { MergeAll(folder); });
    least = {std::min(least.cpu_seconds, cost.cpu_seconds), std::max(least.peak_mib, cost.peak_mib)};
  }
  const std::string name = absl::StrCat("merge of 10^6 ", pieces ? "pieces" : "whole tensors", " of 8 sources");
  Row(absl::StrCat(name, ": processor time"), Exactly(least.cpu_seconds), cpu_bar, "s", "least of 3");
  Row(absl::StrCat(name, ": memory"), Exactly(least.peak_mib), 64, "MiB", "all of the process, most of 3");
}

void OpenRow() {
  constexpr int kPieces = 100'000;
  const Folder folder = Folder::InMemory();
  CostOf([&] {
    MakeSources(folder, kPieces, /*pieces=*/true);
    MergeAll(folder);
  });
  const Figure opened = MedianSeconds(kRounds, [&] { Keep(Require(CheckpointReader::Open(folder.Path("merged")))); });
  Row("open a checkpoint of 10^5 pieces", opened.Times(1e3), 1, "ms", "");
}

// ---- Saves ----------------------------------------------------------------------------------------------------------

constexpr size_t kRankBytes = 256 * kMiB;
constexpr int kTensorsOfRank = 16;

std::vector<LocalPiece> PiecesOf(int rank) {
  std::vector<LocalPiece> pieces;
  const TensorShape shape({static_cast<int64_t>(kRankBytes / kTensorsOfRank / sizeof(float))});
  for (int i = 0; i < kTensorsOfRank; ++i) {
    const Tensor tensor = Filled(shape, static_cast<uint32_t>(rank * kTensorsOfRank + i));
    pieces.push_back({absl::StrFormat("rank%d/%02d", rank, i), shape, TensorSlice::Full(1), tensor, {}});
  }
  return pieces;
}

absl::string_view TextOf(const LocalPiece& piece) {
  return {static_cast<const char*>(piece.elements.buffer()->data()), piece.elements.buffer()->size_bytes()};
}

// The rounds of both ranks. Every function is called by both, and gives the seconds until both are done.
class SaveRounds {
 public:
  SaveRounds(Communicator* comm, std::string folder) : comm_(comm), folder_(std::move(folder)) {
    mine_ = PiecesOf(comm->rank());
    if (comm->rank() != 0) return;
    both_ = mine_;
    for (LocalPiece& piece : PiecesOf(1)) both_.push_back(std::move(piece));
  }

  double TwoRanks() {
    return Timed([&] { Save(comm_, mine_); });
  }
  double OneRank() {
    return Timed([&] {
      if (comm_->rank() == 0) Save(MakeThreadCommunicators(1)[0].get(), both_);
    });
  }
  double TwoLoops() {
    return Timed([&] { Write(mine_, absl::StrCat("loop", comm_->rank())); });
  }
  double OneLoop() {
    return Timed([&] {
      if (comm_->rank() == 0) Write(both_, "loop");
    });
  }

 private:
  // The files are removed before and after, by rank 0.
  double Timed(const std::function<void()>& run) {
    Clear();
    Require(comm_->Barrier());
    const double seconds = SecondsOf([&] {
      run();
      Require(comm_->Barrier());
    });
    Clear();
    return seconds;
  }
  void Clear() {
    if (comm_->rank() != 0) return;
    for (const auto& file : std::filesystem::directory_iterator(folder_)) std::filesystem::remove(file);
  }
  void Save(Communicator* comm, const std::vector<LocalPiece>& pieces) {
    ShardedSaveOptions options;
    options.sync = false;
    Require(ShardedSave(comm, folder_ + "/saved", pieces, options));
  }
  void Write(const std::vector<LocalPiece>& pieces, const std::string& name) {
    std::vector<absl::string_view> texts;
    for (const LocalPiece& piece : pieces) texts.push_back(TextOf(piece));
    WriteInPieces(texts, {folder_ + "/" + name}, kMiB);
  }

  Communicator* const comm_;
  const std::string folder_;
  std::vector<LocalPiece> mine_;
  std::vector<LocalPiece> both_;  // at rank 0
};

}  // namespace

void MergeRows() {
  MergeRow(1'000'000, /*pieces=*/false, 1.5);
  MergeRow(1'000'000, /*pieces=*/true, 3);
  OpenRow();
}

void SaveRows(Communicator* comm, const std::string& folder, const std::string& engine) {
  constexpr double kAllowedSeconds = 2e-3;  // for the exchanges, and for the index
  SaveRounds rounds(comm, folder);
  std::vector<double> speedup;
  std::vector<double> speedup_of_loops;
  std::vector<double> to_loops;
  for (int round = -1; round < kRounds; ++round) {  // the first one is not counted
    const double one = rounds.OneRank();
    const double two = rounds.TwoRanks();
    const double one_loop = rounds.OneLoop();
    const double two_loops = rounds.TwoLoops();
    if (round < 0) continue;
    speedup.push_back(one / two);
    speedup_of_loops.push_back(one_loop / two_loops);
    to_loops.push_back((two - kAllowedSeconds) / two_loops);
  }
  if (comm->rank() != 0) return;
  const std::string name = absl::StrCat("save of 2 x 256 MiB by 2 ranks (", engine, "): ");
  RowAtLeast(absl::StrCat(name, "speed"), FigureOf(speedup), 1.7, "x", "one rank");
  Note(absl::StrCat(name, "speed of the loops"), FigureOf(speedup_of_loops), "x", "one loop");
  Row(absl::StrCat(name, "time less 2 ms"), FigureOf(to_loops), kLimitBar, "x loops", "two loops with one barrier");
}

}  // namespace tensorcask::benchmarks
