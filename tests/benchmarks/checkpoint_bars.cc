#include "tensorcask/tests/benchmarks/checkpoint_bars.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/checkpoint/checkpoint_writer.h"
#include "tensorcask/serialize/checkpoint/write/background_save.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/benchmarks/bar_data.h"
#include "tensorcask/tests/benchmarks/bars.h"
#include "tensorcask/tests/benchmarks/limits.h"
#include "tensorcask/tests/benchmarks/load_rows.h"
#include "tensorcask/tests/benchmarks/measure.h"
#include "tensorcask/tests/benchmarks/units.h"

namespace tensorcask::benchmarks {
namespace {

constexpr int kTensors = 64;
constexpr int kRounds = 25;  // a save or a load takes 15 to 30 ms
constexpr size_t kTotalBytes = 256 * kMiB;

void PlainWrite(const std::string& path, const std::vector<Tensor>& tensors, bool sync) {
  const int file = open(path.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
  if (file < 0 || fallocate(file, FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(kTotalBytes)) != 0) {
    std::fprintf(stderr, "bars: no reserved file here; the comparison is to write() into unreserved space\n");
  }
  for (const Tensor& tensor : tensors) {
    size_t done = 0;
    while (done < tensor.bytes().size()) {
      const ssize_t n = write(file, tensor.bytes().data() + done, tensor.bytes().size() - done);
      if (n <= 0) std::exit(1);
      done += static_cast<size_t>(n);
    }
  }
  if (sync) fsync(file);
  close(file);
}

void RowsOfSaves(Folder* folder, const std::vector<Tensor>& tensors) {
  const auto to_plain_write = [&](bool sync, int threads) {
    std::vector<double> ratios;
    for (int round = 0; round < 12; ++round) {
      folder->Clear();
      const double ours = SecondsOf([&] { SaveInShards(folder->Path("m"), tensors, sync, threads); });
      folder->Clear();
      const double plain = SecondsOf([&] { PlainWrite(folder->Path("p"), tensors, sync); });
      // A virtual machine may have given memory back to its host: the first round takes it again.
      if (round > 0) ratios.push_back(ours / plain);
    }
    return FigureOf(ratios);
  };
  std::vector<absl::string_view> texts;
  for (const Tensor& tensor : tensors) texts.push_back(tensor.bytes());
  for (const int threads : {1, 2}) {
    const std::string name = absl::StrCat("save 64 x 4 MiB, checksummed, threads: ", threads);
    Note(name, to_plain_write(false, threads), "x write", "write() into reserved space, one thread");
    std::vector<std::string> paths;
    for (int i = 0; i < threads; ++i) paths.push_back(folder->Path(absl::StrCat("p", i)));
    std::vector<std::function<double()>> loops;
    for (const size_t piece_bytes : kPieceSizes) {
      loops.emplace_back([&, piece_bytes] {
        folder->Clear();
        return SecondsOf([&] { WriteInPieces(texts, paths, piece_bytes); });
      });
    }
    size_t fastest = 0;
    const Figure figure = RatioToFastest(
        kRounds,
        [&] {
          folder->Clear();
          return SecondsOf([&] { SaveInShards(folder->Path("m"), tensors, /*sync=*/false, threads); });
        },
        loops, &fastest);
    // The loop knows all tensors before it reserves their space. The writer gets them one by one.
    Row(absl::StrCat(name, ", its limit"), figure, kLimitBar, "x limit",
        absl::StrCat("pieces of ", kPieceSizes[fastest] >> 10, " KiB written and summed"));
  }
  Row("save 64 x 4 MiB, checksummed, sync = true", to_plain_write(true, 1), 1.1, "x write",
      "write() into reserved space, fsync");
}

void RowsOfLoads(Folder* folder, std::vector<Tensor>* warm) {
  const auto open_reader = [&] { return Require(CheckpointReader::Open(folder->Path("m"))); };
  Loaded loaded;
  loaded.path = folder->Path("m.data-00000-of-00001");
  loaded.warm = warm;
  loaded.extend = ExtendCrc32c;
  LoadRows("load 64 x 4 MiB, verified, into warm memory", loaded, [&] {
    const CheckpointReader reader = open_reader();
    for (int i = 0; i < kTensors; ++i) Require(reader.ReadInto(NameOf(i), &(*warm)[static_cast<size_t>(i)]));
  });
  loaded.fresh = true;
  for (const int threads : {1, 2}) {
    loaded.num_threads = threads;
    LoadRows(absl::StrCat("load 64 x 4 MiB, verified, fresh, threads: ", threads), loaded,
             [&] { Keep(Require(open_reader().ReadAll(threads)).back().tensor.bytes().data()); });
  }
  const auto plain_read = [&] {
    std::vector<absl::Span<char>> spans;
    for (Tensor& tensor : *warm) spans.push_back(tensor.mutable_bytes());
    ReadInPieces(loaded.path, 0, spans, kMiB, nullptr);
  };
  const auto map = [&] {
    const CheckpointReader reader = open_reader();
    for (int i = 0; i < kTensors; ++i) Keep(Require(reader.Map(NameOf(i))).bytes().data());
  };
  Note("load 64 x 4 MiB, verified, mapped", MedianRatio(9, map, plain_read), "x read", "read() into warm memory");
  constexpr size_t kPopulated[] = {0, 4 * kMiB, 16 * kMiB};
  std::vector<std::function<double()>> loops;
  for (const size_t populated_bytes : kPopulated) {
    loops.emplace_back(
        [&, populated_bytes] { return SecondsOf([&] { MapAndSum(loaded.path, populated_bytes, ExtendCrc32c); }); });
  }
  size_t fastest = 0;
  const Figure figure = RatioToFastest(
      kRounds, [&] { return SecondsOf(map); }, loops, &fastest);
  Row("load 64 x 4 MiB, verified, mapped, its limit", figure, kLimitBar, "x limit",
      absl::StrCat("mapped and summed, populated by ", kPopulated[fastest] >> 20, " MiB"));
}

}  // namespace

void CheckpointRows() {
  std::vector<Tensor> tensors;
  for (int i = 0; i < kTensors; ++i) {
    tensors.push_back(Filled(TensorShape({1, static_cast<int64_t>(kMiB)}), static_cast<uint32_t>(i)));
  }
  Folder folder = Folder::OnDisk();
  RowsOfSaves(&folder, tensors);
  folder.Clear();
  SaveInShards(folder.Path("m"), tensors, /*sync=*/false, /*threads=*/1);
  std::vector<Tensor> warm;
  for (const Tensor& tensor : tensors) warm.push_back(Require(tensor.Clone()));
  RowsOfLoads(&folder, &warm);
}

// What a training loop waits for while 1 GiB is saved in the background.
void BackgroundRow() {
  constexpr int kManyTensors = 1000;
  std::vector<Tensor> tensors;
  std::vector<std::string> names;
  for (int i = 0; i < kManyTensors; ++i) {
    tensors.push_back(Filled(TensorShape({512, 525}), static_cast<uint32_t>(i)));
    names.push_back(absl::StrCat("model/layer", i, "/kernel"));
  }
  Folder folder = Folder::OnDisk();
  Tensor copy = Require(tensors[0].Clone());
  const auto copy_all = [&] {
    for (const Tensor& tensor : tensors) {
      std::memcpy(copy.mutable_bytes().data(), tensor.bytes().data(), tensor.bytes().size());
    }
  };
  std::vector<double> stalls;
  for (int round = 0; round < 7; ++round) {
    folder.Clear();
    const double copied = SecondsOf(copy_all);
    CheckpointWriterOptions options;
    options.sync = false;
    options.background = true;
    std::unique_ptr<BackgroundSave> going_on;
    stalls.push_back(SecondsOf([&] {
                       CheckpointWriter writer = Require(CheckpointWriter::Create(folder.Path("m"), options));
                       for (size_t i = 0; i < kManyTensors; ++i) Require(writer.Add(names[i], tensors[i]));
                       going_on = std::make_unique<BackgroundSave>(Require(writer.FinishInBackground()));
                     }) /
                     copied);
    Require(going_on->Wait());
  }
  Row("background save of 1 GiB in 1,000 tensors: stall", FigureOf(stalls), 0.02, "x memcpy",
      "memcpy of the same bytes to where it stays in the caches");
}

// Biases, counters, norms: tensors that are smaller than their names.
void ManySmallRows() {
  constexpr int kManyTensors = 60'000;
  const Tensor scalar = Tensor::Scalar<float>(1);
  std::vector<std::string> names;
  for (int i = 0; i < kManyTensors; ++i) names.push_back(absl::StrCat("model/layer", i, "/bias"));
  Folder folder = Folder::OnDisk();
  const Folder beside = Folder::OnDisk();
  SmallFile file(beside.Path("unit"));
  std::vector<double> saves;
  for (int round = 0; round < 9; ++round) {
    folder.Clear();
    const double appends = SecondsOf([&] { file.Appends(kManyTensors); });
    saves.push_back(SecondsOf([&] {
                      CheckpointWriterOptions options;
                      options.sync = false;
                      CheckpointWriter writer = Require(CheckpointWriter::Create(folder.Path("m"), options));
                      for (const std::string& name : names) Require(writer.Add(name, scalar));
                      Require(writer.Finish());
                    }) /
                    appends);
  }
  Row("save 60,000 tensors of 4 bytes, each", FigureOf(saves), 2.5, "x write", kOfAppends);
  const auto load = [&] {
    const CheckpointReader reader = Require(CheckpointReader::Open(folder.Path("m")));
    Keep(Require(reader.ReadAll()).size());
  };
  const auto read = [&](int times) { file.Reads(times); };
  Row("load 60,000 tensors of 4 bytes, each", InUnits(9, kManyTensors, load, read), 5, "x read", kOfReads);
}

void LookupRows() {
  ManySmallRows();
  constexpr int kManyTensors = 1'000'000;
  Folder folder = Folder::OnDisk();
  const auto name = [](int i) { return absl::StrFormat("model/layer_%07d/weights", i); };
  {
    CheckpointWriterOptions options;
    options.sync = false;
    CheckpointWriter writer = Require(CheckpointWriter::Create(folder.Path("m"), options));
    const Tensor scalar = Tensor::Scalar<float>(1);
    for (int i = 0; i < kManyTensors; ++i) Require(writer.Add(name(i), scalar));
    Require(writer.Finish());
  }
  const std::string prefix = folder.Path("m");
  const Folder beside = Folder::OnDisk();
  const SmallFile file(beside.Path("unit"));
  const auto open_file = [&](int times) { file.OpensAndMaps(times); };
  const auto open = [&] { Keep(Require(CheckpointReader::Open(prefix)).num_shards()); };
  Row("open a checkpoint of 1,000,000 tensors", InUnits(21, 1, open, open_file), 50, "x open", kOfMaps);
  constexpr int kReads = 100;
  constexpr int kAllocations = 1000;
  std::vector<double> cold;
  std::vector<double> again;
  const CheckpointReader reader = Require(CheckpointReader::Open(prefix));
  for (int i = 0; i < 200; ++i) {
    const std::string wanted = name((i * 4999 + 17) % kManyTensors);  // each in a block of its own
    const auto find = [&] { Keep(Require(reader.Find(wanted)).offset); };
    cold.push_back(SecondsOf(find) / SecondsOf([&] { file.Reads(kReads); }) * kReads);
    again.push_back(SecondsOf(find) / SecondsOf([] { Allocations(kAllocations); }) * kAllocations);
  }
  Row("look one up, its block not read yet", FigureOf(cold), 40, "x read", kOfReads);
  Row("look one up again", FigureOf(again), 200, "x malloc", kOfAllocations);
  const auto list = [&] { Keep(Require(Require(CheckpointReader::Open(prefix)).entries()).size()); };
  Row("list all, each", InUnits(3, kManyTensors, list, Allocations), 100, "x malloc", kOfAllocations);
}

}  // namespace tensorcask::benchmarks
