// Opening a safetensors file of 10,000 tensors, and loading and saving 64 tensors of 4 MiB beside the system calls that
// move as many bytes on one thread.
//
//   bazel run //tests/benchmarks:safetensors_benchmark
//
// Counters are medians of times measured in turns: read_ratio over read() of the same bytes into warm memory,
// write_ratio over write() of them to a new file. Files are below TMPDIR.

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "benchmark/benchmark.h"
#include "tensorcask/serialize/io/piece_buffer.h"
#include "tensorcask/serialize/safetensors/safetensors_reader.h"
#include "tensorcask/serialize/safetensors/safetensors_writer.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/benchmarks/bar_data.h"
#include "tensorcask/tests/benchmarks/bars.h"
#include "tensorcask/tests/benchmarks/measure.h"

namespace tensorcask {
namespace {

using benchmarks::Folder;
using benchmarks::Keep;
using benchmarks::MedianRatio;
using benchmarks::Require;

constexpr size_t kTensors = 64;
constexpr int64_t kTensorElements = int64_t{1} << 20;  // float32: 4 MiB
constexpr size_t kBytes = kTensors * static_cast<size_t>(kTensorElements) * 4;
constexpr int kRounds = 11;

const Folder& TheFolder() {
  static const Folder folder = Folder::OnDisk();  // goes with the process
  return folder;
}

std::vector<Tensor> MakeTensors() {
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < kTensors; ++i) {
    tensors.push_back(Require(Tensor::Create(DType::kFloat32, TensorShape({kTensorElements}))));
    uint32_t value = static_cast<uint32_t>(i);
    for (float& element : tensors.back().mutable_flat<float>()) {
      value = value * 1664525 + 1013904223;
      element = static_cast<float>(value >> 8);
    }
  }
  return tensors;
}

void Save(const std::string& path, const std::vector<Tensor>& tensors, bool checksums) {
  SafetensorsWriterOptions options;
  options.checksums = checksums;
  options.overwrite = true;
  options.sync = false;
  SafetensorsWriter writer = Require(SafetensorsWriter::Create(path, options));
  for (size_t i = 0; i < tensors.size(); ++i) Require(writer.Add(absl::StrCat("layer", i, "/kernel"), tensors[i]));
  Require(writer.Finish());
}

const std::string& SavedModel() {
  static const std::string* const path = [] {
    auto* made = new std::string(TheFolder().Path("model.safetensors"));
    Save(*made, MakeTensors(), /*checksums=*/true);
    return made;
  }();
  return *path;
}

// read() of the whole file into warm memory.
void PlainRead(const std::string& path, PieceBuffer* memory) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  size_t done = 0;
  while (done < memory->size()) {
    const ssize_t got = read(file, memory->data() + done, std::min<size_t>(memory->size() - done, size_t{1} << 20));
    if (got <= 0) break;
    done += static_cast<size_t>(got);
  }
  close(file);
}

enum class How { kMapped, kCopied, kIntoWarm };

void BM_Load(benchmark::State& state, How how, bool verify) {
  const std::string& path = SavedModel();
  PieceBuffer memory(kBytes, kBytes);
  std::fill_n(memory.data(), kBytes, 1);
  std::vector<Tensor> warm = MakeTensors();
  SafetensorsReaderOptions options;
  options.verify = verify;
  const auto load = [&] {
    const SafetensorsReader reader = Require(SafetensorsReader::Open(path, options));
    for (size_t i = 0; i < kTensors; ++i) {
      const std::string name = absl::StrCat("layer", i, "/kernel");
      if (how == How::kMapped) Keep(Require(reader.Map(name)).bytes().data());
      if (how == How::kCopied) Keep(Require(reader.Read(name)).bytes().data());
      if (how == How::kIntoWarm) Require(reader.ReadInto(name, &warm[i]));
    }
  };
  benchmarks::Figure ratio;
  for (auto _ : state) ratio = MedianRatio(kRounds, load, [&] { PlainRead(path, &memory); });
  state.counters["read_ratio"] = ratio.median;
  state.counters["seconds"] = benchmarks::MedianSeconds(5, load).median;
}
BENCHMARK_CAPTURE(BM_Load, mapped, How::kMapped, false)->Iterations(1)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_Load, mapped_verified, How::kMapped, true)->Iterations(1)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_Load, copied, How::kCopied, false)->Iterations(1)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_Load, copied_verified, How::kCopied, true)->Iterations(1)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_Load, into_warm, How::kIntoWarm, false)->Iterations(1)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_Load, into_warm_verified, How::kIntoWarm, true)->Iterations(1)->Unit(benchmark::kMillisecond);

void BM_Save(benchmark::State& state, bool checksums) {
  const std::vector<Tensor> tensors = MakeTensors();
  const std::string path = TheFolder().Path("saved.safetensors");
  const std::string plain = TheFolder().Path("plain");
  const auto plain_write = [&] {
    const int file = open(plain.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    for (const Tensor& tensor : tensors) {
      if (write(file, tensor.bytes().data(), tensor.bytes().size()) < 0) abort();
    }
    close(file);
  };
  benchmarks::Figure ratio;
  for (auto _ : state)
    ratio = MedianRatio(
        5, [&] { Save(path, tensors, checksums); }, plain_write);
  state.counters["write_ratio"] = ratio.median;
}
BENCHMARK_CAPTURE(BM_Save, plain, false)->Iterations(1)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_Save, checksums, true)->Iterations(1)->Unit(benchmark::kMillisecond);

// Names as long as those of language models; 24 bytes of data each.
void BM_Open10000(benchmark::State& state, bool checksums) {
  const std::string path = TheFolder().Path("many.safetensors");
  SafetensorsWriterOptions options;
  options.overwrite = true;
  options.sync = false;
  options.checksums = checksums;
  SafetensorsWriter writer = Require(SafetensorsWriter::Create(path, options));
  const Tensor tensor = Require(Tensor::Zeros(DType::kFloat32, TensorShape({2, 3})));
  for (int i = 0; i < 10'000; ++i) {
    Require(writer.Add(absl::StrCat("model.layers.", i, ".self_attn.q_proj.weight"), tensor));
  }
  Require(writer.Finish());
  for (auto _ : state) Keep(Require(SafetensorsReader::Open(path)).entries().size());
}
BENCHMARK_CAPTURE(BM_Open10000, plain, false)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(BM_Open10000, checksums, true)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace tensorcask
