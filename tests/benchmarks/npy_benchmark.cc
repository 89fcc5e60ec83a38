// npy and npz files of 256 MiB, beside read() and write() of the same bytes; and mapping one member of an npz file.
//
//   bazel run //tests/benchmarks:npy_benchmark
//
// The counter ratio is the median time over that of read() into warm memory, or of write() into reserved space,
// measured in turns. Files are in /dev/shm if there is such a folder: disks would hide the difference.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "benchmark/benchmark.h"
#include "tensorcask/serialize/npy/npy_reader.h"
#include "tensorcask/serialize/npy/npy_types.h"
#include "tensorcask/serialize/npy/npy_writer.h"
#include "tensorcask/serialize/npy/npz_reader.h"
#include "tensorcask/serialize/npy/npz_writer.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/benchmarks/measure.h"

namespace tensorcask::benchmarks {
namespace {

constexpr int64_t kRows = 4096;
constexpr int64_t kColumns = 16384;  // 256 MiB of float32

void Check(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::abort();
}

// A file that is removed at the end.
class File {
 public:
  explicit File(const std::string& ending) {
    struct stat info;
    const char* folder = stat("/dev/shm", &info) == 0 ? "/dev/shm" : "/tmp";
    path_ = absl::StrCat(folder, "/tensorcask-", getpid(), ending);
  }
  ~File() { unlink(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

const Tensor& Numbers() {
  static const auto* const tensor = [] {
    auto* made = new Tensor(*Tensor::Create(DType::kFloat32, TensorShape({kRows, kColumns})));
    uint32_t state = 1;
    for (float& value : made->mutable_flat<float>()) value = static_cast<float>(state = state * 1664525 + 1013904223);
    return made;
  }();
  return *tensor;
}

void BareWrite(const std::string& path) {
  const absl::string_view bytes = Numbers().bytes();
  unlink(path.c_str());
  const int file = open(path.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600);
  if (file < 0 || posix_fallocate(file, 0, static_cast<off_t>(bytes.size())) != 0) std::abort();
  for (size_t at = 0; at < bytes.size(); at += size_t{1} << 20) {
    if (write(file, bytes.data() + at, size_t{1} << 20) != 1 << 20) std::abort();
  }
  close(file);
}

void BareRead(const std::string& path, Tensor* into) {
  const absl::Span<char> bytes = into->mutable_bytes();
  const int file = open(path.c_str(), O_RDONLY);
  for (size_t at = 0; at < bytes.size(); at += size_t{1} << 20) {
    if (pread(file, bytes.data() + at, size_t{1} << 20, static_cast<off_t>(at)) != 1 << 20) std::abort();
  }
  close(file);
}

template <typename Ours, typename Bare>
void Compare(benchmark::State& state, const Ours& ours, const Bare& bare) {
  ours();
  bare();
  std::vector<double> ratios;
  for (auto _ : state) {
    const double seconds = SecondsOf(ours);
    state.SetIterationTime(seconds);
    ratios.push_back(seconds / SecondsOf(bare));
  }
  state.counters["ratio"] = Median(ratios);
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(Numbers().TotalBytes()));
}

void SaveNpy(benchmark::State& state) {
  const File ours(".npy");
  const File bare(".bare");
  NpyWriterOptions options;
  options.sync = false;
  const auto save = [&] {
    unlink(ours.path().c_str());
    Check(WriteNpy(ours.path(), Numbers(), options));
  };
  Compare(state, save, [&] { BareWrite(bare.path()); });
}
BENCHMARK(SaveNpy)->Iterations(9)->UseManualTime()->Unit(benchmark::kMillisecond);

void WriteNpz(const std::string& path) {
  NpzWriterOptions options;
  options.sync = false;
  options.overwrite = true;
  absl::StatusOr<NpzWriter> writer = NpzWriter::Create(path, options);
  Check(writer.status());
  Check(writer->Add("w", Numbers()));
  Check(writer->Finish());
}

void SaveNpz(benchmark::State& state) {
  const File ours(".npz");
  const File bare(".bare");
  const auto save = [&] {
    unlink(ours.path().c_str());
    WriteNpz(ours.path());
  };
  Compare(state, save, [&] { BareWrite(bare.path()); });
}
BENCHMARK(SaveNpz)->Iterations(9)->UseManualTime()->Unit(benchmark::kMillisecond);

void LoadNpy(benchmark::State& state) {
  const File file(".npy");
  Check(WriteNpy(file.path(), Numbers()));
  Tensor into = *Numbers().Clone();
  const auto load = [&] {
    const absl::StatusOr<NpyReader> reader = NpyReader::Open(file.path());
    Check(reader.status());
    Check(reader->ReadInto("", &into));
  };
  Compare(state, load, [&] { BareRead(file.path(), &into); });
}
BENCHMARK(LoadNpy)->Iterations(9)->UseManualTime()->Unit(benchmark::kMillisecond);

// Argument: whether the checksum is compared.
void LoadNpz(benchmark::State& state) {
  const File file(".npz");
  WriteNpz(file.path());
  Tensor into = *Numbers().Clone();
  NpyReaderOptions options;
  options.verify_checksums = state.range(0) != 0;
  const auto load = [&] {
    const absl::StatusOr<NpzReader> reader = NpzReader::Open(file.path(), options);
    Check(reader.status());
    Check(reader->ReadInto("w", &into));
  };
  Compare(state, load, [&] { BareRead(file.path(), &into); });
}
BENCHMARK(LoadNpz)->ArgName("verified")->Arg(0)->Arg(1)->Iterations(9)->UseManualTime()->Unit(benchmark::kMillisecond);

// Opening the file and mapping its one member, without the checksum.
void MapNpz(benchmark::State& state) {
  const File file(".npz");
  WriteNpz(file.path());
  NpyReaderOptions options;
  options.verify_checksums = false;
  for (auto _ : state) {
    const absl::StatusOr<NpzReader> reader = NpzReader::Open(file.path(), options);
    Check(reader.status());
    const absl::StatusOr<TensorView> view = reader->Map("w");
    Check(view.status());
    Keep(view->data<float>());
  }
}
BENCHMARK(MapNpz)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace tensorcask::benchmarks
