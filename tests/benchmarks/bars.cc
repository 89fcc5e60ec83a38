// Measures each promise about speed, and prints whether it is met or missed:
//
//   NAME   FIGURE  BAR   met|missed   compared to
//
// One thread, medians, warm memory unless a row says otherwise. tools/dev bench bars runs this. Its arguments are names
// of groups of rows; without arguments it measures all.

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/checkpoint/reader.h"
#include "tensorcask/serialize/checkpoint/write/background_save.h"
#include "tensorcask/serialize/checkpoint/writer.h"
#include "tensorcask/serialize/wire/serialized_tensor.h"
#include "tensorcask/serialize/wire/zero_copy.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/benchmarks/bar_data.h"
#include "tensorcask/tests/benchmarks/bar_groups.h"
#include "tensorcask/tests/benchmarks/bars.h"
#include "tensorcask/tests/benchmarks/device_bars.h"
#include "tensorcask/tests/benchmarks/exchange_bars.h"
#include "tensorcask/tests/benchmarks/formats_bars.h"
#include "tensorcask/tests/benchmarks/limits.h"
#include "tensorcask/tests/benchmarks/machine.h"
#include "tensorcask/tests/benchmarks/measure.h"
#include "tensorcask/tests/benchmarks/payload_bars.h"
#include "tensorcask/tests/benchmarks/strided_bars.h"

namespace tensorcask::benchmarks {
namespace {

void WireRows() {
  const size_t size = 256 * kMiB;
  const Tensor tensor = Filled(TensorShape({static_cast<int64_t>(size / 4)}), 1);
  Tensor warm = Require(tensor.Clone());
  std::string message(Require(EncodedSize(tensor, {})), '\1');
  const auto copy = [&] { std::memcpy(&message[0], tensor.bytes().data(), size); };
  Row("encode 256 MiB into warm memory",
      MedianRatio(
          9, [&] { Require(EncodeTensorTo(tensor, {}, absl::MakeSpan(&message[0], message.size()))); }, copy),
      1.1, "x memcpy", "memcpy of the same bytes");
  Require(EncodeTensorTo(tensor, {}, absl::MakeSpan(&message[0], message.size())));
  const auto copy_back = [&] { std::memcpy(warm.mutable_bytes().data(), message.data() + 16, size); };
  Row("decode 256 MiB into warm memory",
      MedianRatio(
          9, [&] { Require(DecodeTensorInto(message, {}, &warm)); }, copy_back),
      1.1, "x memcpy", "memcpy of the same bytes");
  Row("encode 256 MiB by reference, unverified",
      MedianRatio(
          9, [&] { Require(EncodeTensorToCord(tensor, {}, {}).status()); }, copy),
      0.01, "x memcpy", "memcpy of the same bytes");
  const absl::Cord cord = Require(EncodeTensorToCord(tensor, {}, {}));
  Row("decode 256 MiB by reference, unverified",
      MedianRatio(
          9, [&] { Require(DecodeTensorFromCord(cord).status()); }, copy_back),
      0.01, "x memcpy", "memcpy of the same bytes");
}

void CheckpointRows() {
  constexpr int kTensors = 64;
  const size_t total = 256 * kMiB;
  std::vector<Tensor> tensors;
  for (int i = 0; i < kTensors; ++i) {
    tensors.push_back(Filled(TensorShape({1, static_cast<int64_t>(kMiB)}), static_cast<uint32_t>(i)));
  }
  Folder folder = Folder::OnDisk();
  const auto name = [](int i) { return absl::StrCat("layer", i, "/kernel"); };
  const auto save = [&](const std::string& prefix, bool sync, int threads = 1) {
    CheckpointWriterOptions options;
    options.sync = sync;
    options.num_shards = threads;
    options.num_threads = threads;
    CheckpointWriter writer = Require(CheckpointWriter::Create(prefix, options));
    for (int i = 0; i < kTensors; ++i) {
      AddOptions add;
      add.shard = i % threads;
      Require(writer.Add(name(i), tensors[static_cast<size_t>(i)], add));
    }
    Require(writer.Finish());
  };
  const auto plain_write = [&](const std::string& path, bool sync) {
    const int file = open(path.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    if (file < 0 || fallocate(file, FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(total)) != 0) {
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
  };
  const auto to_plain_write = [&](bool sync, int threads) {
    std::vector<double> ratios;
    for (int round = 0; round < 12; ++round) {
      folder.Clear();
      const double ours = SecondsOf([&] { save(folder.Path("m"), sync, threads); });
      folder.Clear();
      const double plain = SecondsOf([&] { plain_write(folder.Path("p"), sync); });
      // A virtual machine may have given memory back to its host: the first round takes it again.
      if (round > 0) ratios.push_back(ours / plain);
    }
    return FigureOf(ratios);
  };
  Row("save 64 x 4 MiB, checksummed, sync = false", to_plain_write(false, 1), 1.1, "x write",
      "write() into reserved space");
  Row("save 64 x 4 MiB, two shards on two threads", to_plain_write(false, 2), 0.65, "x write",
      "write() into reserved space, one thread");
  Row("save 64 x 4 MiB, checksummed, sync = true", to_plain_write(true, 1), 1.1, "x write",
      "write() into reserved space, fsync");

  std::vector<absl::string_view> texts;
  for (const Tensor& tensor : tensors) texts.push_back(tensor.bytes());
  const auto over_limit = [&](int threads) {
    std::vector<std::string> paths;
    for (int i = 0; i < threads; ++i) paths.push_back(folder.Path(absl::StrCat("p", i)));
    std::vector<std::function<double()>> loops;
    for (const size_t piece_bytes : kPieceSizes) {
      loops.emplace_back([&, piece_bytes] {
        folder.Clear();
        return SecondsOf([&] { WriteInPieces(texts, paths, piece_bytes); });
      });
    }
    size_t fastest = 0;
    const Figure figure = RatioToFastest(
        9,
        [&] {
          folder.Clear();
          return SecondsOf([&] { save(folder.Path("m"), /*sync=*/false, threads); });
        },
        loops, &fastest);
    Row(absl::StrCat("save 64 x 4 MiB, threads: ", threads, ", its limit"), figure, 1.05, "x limit",
        absl::StrCat("pieces of ", kPieceSizes[fastest] >> 10, " KiB written and summed"));
  };
  over_limit(1);
  over_limit(2);

  folder.Clear();
  save(folder.Path("m"), false);
  const std::string data_path = folder.Path("m.data-00000-of-00001");
  const int file = open(data_path.c_str(), O_RDONLY | O_CLOEXEC);
  std::vector<Tensor> warm;
  for (const Tensor& tensor : tensors) warm.push_back(Require(tensor.Clone()));
  const auto plain_read = [&] {
    off_t offset = 0;
    for (Tensor& tensor : warm) {
      const absl::Span<char> out = tensor.mutable_bytes();
      if (pread(file, out.data(), out.size(), offset) != static_cast<ssize_t>(out.size())) std::exit(1);
      offset += static_cast<off_t>(out.size());
    }
  };
  const auto open_reader = [&] { return Require(CheckpointReader::Open(folder.Path("m"))); };
  Row("load the same, verified: mapped",
      MedianRatio(
          9,
          [&] {
            const CheckpointReader reader = open_reader();
            for (int i = 0; i < kTensors; ++i) Keep(Require(reader.Map(name(i))).bytes().data());
          },
          plain_read),
      0.9, "x read", "read() into warm memory");
  Row("load the same, verified: into warm memory",
      MedianRatio(
          9,
          [&] {
            const CheckpointReader reader = open_reader();
            for (int i = 0; i < kTensors; ++i) Require(reader.ReadInto(name(i), &warm[static_cast<size_t>(i)]));
          },
          plain_read),
      1.3, "x read", "read() into warm memory");
  Row("load the same, verified: into fresh memory",
      MedianRatio(
          9,
          [&] {
            const CheckpointReader reader = open_reader();
            std::vector<Tensor> fresh;
            for (int i = 0; i < kTensors; ++i) fresh.push_back(Require(reader.Read(name(i))));
            Keep(fresh.back().bytes().data());
          },
          plain_read),
      2.1, "x read", "read() into warm memory");
  close(file);
}

// What a training loop waits for while 1 GiB is taken away from under it.
void BackgroundRow() {
  constexpr int kTensors = 1000;
  std::vector<Tensor> tensors;
  std::vector<std::string> names;
  for (int i = 0; i < kTensors; ++i) {
    tensors.push_back(Filled(TensorShape({512, 525}), static_cast<uint32_t>(i)));
    names.push_back(absl::StrCat("model/layer", i, "/kernel"));
  }
  Folder folder = Folder::OnDisk();
  std::vector<double> stalls;
  for (int round = 0; round < 7; ++round) {
    folder.Clear();
    CheckpointWriterOptions options;
    options.sync = false;
    options.background = true;
    std::unique_ptr<BackgroundSave> going_on;
    stalls.push_back(SecondsOf([&] {
      CheckpointWriter writer = Require(CheckpointWriter::Create(folder.Path("m"), options));
      for (size_t i = 0; i < kTensors; ++i) Require(writer.Add(names[i], tensors[i]));
      going_on = std::make_unique<BackgroundSave>(Require(writer.FinishInBackground()));
    }));
    Require(going_on->Wait());
  }
  Row("background save of 1 GiB in 1,000 tensors: stall", FigureOf(stalls).Times(1e3), 1, "ms", "-");
}

void LookupRows() {
  constexpr int kTensors = 1'000'000;
  Folder folder = Folder::OnDisk();
  const auto name = [](int i) { return absl::StrFormat("model/layer_%07d/weights", i); };
  {
    CheckpointWriterOptions options;
    options.sync = false;
    CheckpointWriter writer = Require(CheckpointWriter::Create(folder.Path("m"), options));
    const Tensor scalar = Tensor::Scalar<float>(1);
    for (int i = 0; i < kTensors; ++i) Require(writer.Add(name(i), scalar));
    Require(writer.Finish());
  }
  const std::string prefix = folder.Path("m");
  Row("open a checkpoint of 1,000,000 tensors",
      MedianSeconds(21, [&] { Keep(Require(CheckpointReader::Open(prefix)).num_shards()); }).Times(1e3), 1, "ms", "-");
  std::vector<double> cold;
  std::vector<double> again;
  const CheckpointReader reader = Require(CheckpointReader::Open(prefix));
  for (int i = 0; i < 200; ++i) {
    const std::string wanted = name((i * 4999 + 17) % kTensors);  // each in a block of its own
    cold.push_back(SecondsOf([&] { Keep(Require(reader.Find(wanted)).offset); }));
    again.push_back(SecondsOf([&] { Keep(Require(reader.Find(wanted)).offset); }));
  }
  Row("look one up, its block not read yet", FigureOf(cold).Times(1e6), 20, "us", "-");
  Row("look one up again", FigureOf(again).Times(1e6), 2, "us", "-");
  Row("list all", MedianSeconds(3, [&] { Keep(Require(Require(CheckpointReader::Open(prefix)).entries()).size()); }), 1,
      "s", "-");
}

void CoreRows() {
  const size_t size = 64 * kMiB;
  const Tensor source = Filled(TensorShape({static_cast<int64_t>(size / 4)}), 3);
  Tensor warm = Require(source.Clone());
  Row("copy into freshly allocated 64 MiB",
      MedianRatio(
          15, [&] { Keep(Require(source.Clone()).bytes().data()); },
          [&] { std::memcpy(warm.mutable_bytes().data(), source.bytes().data(), size); }),
      2.0, "x memcpy", "memcpy between warm buffers");

  constexpr int kBatch = 100000;
  const auto nanoseconds = [](const Figure& seconds) { return seconds.Times(1e9 / kBatch); };
  Row("copying a handle",
      nanoseconds(MedianSeconds(
          21,
          [&] {
            for (int i = 0; i < kBatch; ++i) {
              const Tensor alias = source;  // NOLINT(performance-unnecessary-copy-initialization): it is what is timed
              Keep(&alias);
            }
          })),
      4, "ns", "-");
  const TensorShape small({4});
  Row("making a small tensor",
      nanoseconds(MedianSeconds(21,
                                [&] {
                                  for (int i = 0; i < kBatch; ++i) {
                                    const Tensor tensor = Require(Tensor::Create(DType::kFloat32, small));
                                    Keep(&tensor);
                                  }
                                })),
      50, "ns", "-");
  Row("bytes of a shape", Exactly(sizeof(TensorShape)), 24, "bytes", "-");
  Row("bytes of a tensor", Exactly(sizeof(Tensor)), 32, "bytes", "-");
}

}  // namespace
}  // namespace tensorcask::benchmarks

int main(int argc, char** argv) {
  using namespace tensorcask::benchmarks;  // NOLINT(google-build-using-namespace): this is its main
  const std::vector<BarGroup> all = {
      {"core", CoreRows},     {"strided", StridedRows},          {"exchange", ExchangeRows},
      {"wire", WireRows},     {"checkpoint", CheckpointRows},    {"background", BackgroundRow},
      {"lookup", LookupRows}, {"formats", [] { FormatRows(); }}, {"payload", PayloadRows},
      {"device", DeviceRows},
  };
  const std::vector<BarGroup> groups = Require(ChosenGroups(all, std::vector<std::string>(argv + 1, argv + argc)));
  std::printf("%s\n", DescribeMachine().c_str());
  std::printf("%-54s %19s %12s  %-6s  %s\n", "what", "figure", "bar", "", "compared to, in the same run");
  for (const BarGroup& group : groups) group.rows();
  if (MissedRows() > 0) std::printf("%d missed\n", MissedRows());
  return 0;
}
