// Saving and loading 64 tensors of 4 MiB, beside the system calls that move as many bytes on one thread; handing 1 GiB
// to a save in the background; and looking into a checkpoint of 1,000,000 tensors.
//
//   bazel run //tests/benchmarks:checkpoint_benchmark
//
// Counters are medians of times measured in turns: write_ratio over write() of the same bytes into reserved space of a
// new file, read_ratio over read() of them into warm memory, memcpy_ratio over memcpy between warm buffers. Files are
// below TMPDIR.

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "benchmark/benchmark.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/checkpoint/checkpoint_writer.h"
#include "tensorcask/serialize/checkpoint/write/background_save.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/benchmarks/bar_data.h"
#include "tensorcask/tests/benchmarks/bars.h"
#include "tensorcask/tests/benchmarks/measure.h"

namespace tensorcask {
namespace {

using benchmarks::Folder;
using benchmarks::Keep;
using benchmarks::NameOf;
using benchmarks::Require;
using benchmarks::SaveInShards;
using benchmarks::SecondsOf;

constexpr size_t kTensors = 64;
constexpr size_t kTensorBytes = size_t{4} << 20;
constexpr size_t kBytes = kTensors * kTensorBytes;

const Folder& TheFolder() {
  static const Folder folder = Folder::OnDisk();  // goes with the process
  return folder;
}

std::vector<Tensor> MakeTensors(uint32_t start) {
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < kTensors; ++i) {
    Tensor tensor = Require(Tensor::Create(DType::kUint32, TensorShape({1024, kTensorBytes / 4096})));
    uint32_t value = start;
    for (uint32_t& element : tensor.mutable_flat<uint32_t>()) element = value = value * 1664525 + 1013904223;
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

const std::vector<Tensor>& Saved() {
  static const auto* tensors = new std::vector<Tensor>(MakeTensors(1));
  return *tensors;
}

std::vector<Tensor>& Warm() {
  static auto* tensors = new std::vector<Tensor>(MakeTensors(2));
  return *tensors;
}

void RemoveCheckpoint(const std::string& prefix, int shards = 1) {
  unlink((prefix + ".index").c_str());
  for (int i = 0; i < shards; ++i) unlink(absl::StrFormat("%s.data-%05d-of-%05d", prefix, i, shards).c_str());
}

// What the file system takes for the same bytes.
void PlainWrite(const std::string& path, bool sync) {
  const int file = open(path.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
  if (file < 0 || fallocate(file, FALLOC_FL_KEEP_SIZE, 0, kBytes) != 0) abort();
  for (const Tensor& tensor : Saved()) {
    if (write(file, tensor.bytes().data(), kTensorBytes) != static_cast<ssize_t>(kTensorBytes)) abort();
  }
  if (sync && fsync(file) != 0) abort();
  close(file);
}

void PlainRead(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  for (size_t i = 0; i < kTensors; ++i) {
    if (read(file, Warm()[i].mutable_bytes().data(), kTensorBytes) != static_cast<ssize_t>(kTensorBytes)) abort();
  }
  close(file);
}

void PlainCopy() {
  for (size_t i = 0; i < kTensors; ++i) {
    std::memcpy(Warm()[i].mutable_bytes().data(), Saved()[i].bytes().data(), kTensorBytes);
  }
}

// Runs work() in turns with baseline() and memcpy; clean() after each, not counted.
template <typename Work, typename Baseline, typename Clean>
void Measure(benchmark::State& state, const char* counter, Work&& work, Baseline&& baseline, Clean&& clean) {
  work();
  clean();
  baseline();
  clean();
  PlainCopy();
  std::vector<double> to_baseline;
  std::vector<double> to_memcpy;
  for (auto _ : state) {
    const double ours = SecondsOf(work);
    clean();
    state.SetIterationTime(ours);
    to_baseline.push_back(ours / SecondsOf(baseline));
    clean();
    to_memcpy.push_back(ours / SecondsOf(PlainCopy));
  }
  state.counters[counter] = benchmarks::Median(to_baseline);
  state.counters["memcpy_ratio"] = benchmarks::Median(to_memcpy);
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * kBytes));
  state.SetLabel("64 x uint32 [1024,1024]");
}

void BM_Save(benchmark::State& state) {
  const bool sync = state.range(0) != 0;
  const int threads = static_cast<int>(state.range(1));  // and shards
  const std::string prefix = TheFolder().Path("saved");
  const std::string plain = TheFolder().Path("plain");
  Measure(
      state, "write_ratio", [&] { SaveInShards(prefix, Saved(), sync, threads); }, [&] { PlainWrite(plain, sync); },
      [&] {
        RemoveCheckpoint(prefix, threads);
        unlink(plain.c_str());
      });
}
BENCHMARK(BM_Save)
    ->ArgNames({"sync", "threads"})
    ->ArgsProduct({{0, 1}, {1, 2}})
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond)
    ->Iterations(15);

// How long the caller waits before the save goes on without it: Create, 1,000 times Add, FinishInBackground.
void BM_BackgroundStall(benchmark::State& state) {
  constexpr size_t kMany = 1000;
  std::vector<Tensor> tensors;
  std::vector<std::string> names;
  for (size_t i = 0; i < kMany; ++i) {
    tensors.push_back(Require(Tensor::Zeros(DType::kFloat32, TensorShape({512, 525}))));
    names.push_back(NameOf(i));
  }
  const std::string prefix = TheFolder().Path("background");
  CheckpointWriterOptions options;
  options.sync = false;
  options.background = true;
  for (auto _ : state) {
    std::optional<BackgroundSave> going_on;
    state.SetIterationTime(SecondsOf([&] {
      CheckpointWriter writer = Require(CheckpointWriter::Create(prefix, options));
      for (size_t i = 0; i < kMany; ++i) Require(writer.Add(names[i], tensors[i]));
      going_on.emplace(Require(writer.FinishInBackground()));
    }));
    Require(going_on->Wait());
    RemoveCheckpoint(prefix);
  }
  state.SetLabel("1000 x float32 [512,525]");
}
BENCHMARK(BM_BackgroundStall)->UseManualTime()->Unit(benchmark::kMicrosecond)->Iterations(7);

// A checkpoint of the tensors.
const std::string& Checkpoint() {
  static const auto* prefix = [] {
    auto* made = new std::string(TheFolder().Path("loaded"));
    SaveInShards(*made, Saved(), /*sync=*/false, /*threads=*/1);
    return made;
  }();
  return *prefix;
}

template <typename Load>
void MeasureLoad(benchmark::State& state, Load&& load) {
  const std::string data = Checkpoint() + ".data-00000-of-00001";
  Measure(
      state, "read_ratio",
      [&] {
        const CheckpointReader reader = Require(CheckpointReader::Open(Checkpoint()));
        load(reader);
      },
      [&] { PlainRead(data); }, [] {});
}

void BM_LoadMapped(benchmark::State& state) {
  MeasureLoad(state, [](const CheckpointReader& reader) {
    for (size_t i = 0; i < kTensors; ++i) Keep(Require(reader.Map(NameOf(i))).bytes().data());
  });
}
void BM_LoadIntoWarmMemory(benchmark::State& state) {
  MeasureLoad(state, [](const CheckpointReader& reader) {
    for (size_t i = 0; i < kTensors; ++i) Require(reader.ReadInto(NameOf(i), &Warm()[i]));
  });
}
void BM_LoadIntoFreshMemory(benchmark::State& state) {
  MeasureLoad(state, [](const CheckpointReader& reader) {
    std::vector<Tensor> fresh;
    for (size_t i = 0; i < kTensors; ++i) fresh.push_back(Require(reader.Read(NameOf(i))));
    Keep(fresh.back().bytes().data());
  });
}
BENCHMARK(BM_LoadMapped)->UseManualTime()->Unit(benchmark::kMillisecond)->Iterations(21);
BENCHMARK(BM_LoadIntoWarmMemory)->UseManualTime()->Unit(benchmark::kMillisecond)->Iterations(21);
BENCHMARK(BM_LoadIntoFreshMemory)->UseManualTime()->Unit(benchmark::kMillisecond)->Iterations(21);

// ---- 1,000,000 tensors ----------------------------------------------------------------------------------------------

constexpr int kMany = 1000000;

std::string NameOfMany(int i) { return absl::StrFormat("model/layer_%07d/weights", i); }

const std::string& ManyTensors() {
  static const auto* prefix = [] {
    auto* made = new std::string(TheFolder().Path("many"));
    CheckpointWriterOptions options;
    options.sync = false;
    CheckpointWriter writer = Require(CheckpointWriter::Create(*made, options));
    const Tensor scalar = Tensor::Scalar<float>(1);
    for (int i = 0; i < kMany; ++i) Require(writer.Add(NameOfMany(i), scalar));
    Require(writer.Finish());
    return made;
  }();
  return *prefix;
}

void BM_Open(benchmark::State& state) {
  ManyTensors();
  for (auto _ : state) Keep(Require(CheckpointReader::Open(ManyTensors())).num_shards());
  state.SetLabel("1,000,000 tensors");
}
BENCHMARK(BM_Open)->Unit(benchmark::kMicrosecond);

void BM_FindCold(benchmark::State& state) {  // the block of the index was not read before
  std::optional<CheckpointReader> reader;
  int i = kMany;
  for (auto _ : state) {
    if (i >= kMany) {
      state.PauseTiming();
      reader.emplace(Require(CheckpointReader::Open(ManyTensors())));
      i = 17;
      state.ResumeTiming();
    }
    Keep(Require(reader->Find(NameOfMany(i))).offset);
    i += 4999;  // a block has fewer
  }
  state.SetLabel("1,000,000 tensors");
}
BENCHMARK(BM_FindCold)->Unit(benchmark::kMicrosecond);

void BM_FindWarm(benchmark::State& state) {
  const CheckpointReader reader = Require(CheckpointReader::Open(ManyTensors()));
  Require(reader.Find(NameOfMany(4711)).status());
  for (auto _ : state) Keep(Require(reader.Find(NameOfMany(4711))).offset);
  state.SetLabel("1,000,000 tensors");
}
BENCHMARK(BM_FindWarm)->Unit(benchmark::kMicrosecond);

void BM_ListAll(benchmark::State& state) {
  const CheckpointReader reader = Require(CheckpointReader::Open(ManyTensors()));
  for (auto _ : state) Keep(Require(reader.entries()).size());
  state.SetLabel("1,000,000 tensors");
}
BENCHMARK(BM_ListAll)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tensorcask
