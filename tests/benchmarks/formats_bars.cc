#include "tensorcask/tests/benchmarks/formats_bars.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/archive/archive.h"
#include "tensorcask/serialize/archive/compare_archives.h"
#include "tensorcask/serialize/archive/convert_archives.h"
#include "tensorcask/serialize/archive/formats/npy_format.h"
#include "tensorcask/serialize/archive/formats/safetensors_format.h"
#include "tensorcask/serialize/archive/summarize.h"
#include "tensorcask/serialize/io/piece_buffer.h"
#include "tensorcask/serialize/npy/npy_reader.h"
#include "tensorcask/serialize/npy/npy_types.h"
#include "tensorcask/serialize/npy/npy_writer.h"
#include "tensorcask/serialize/npy/npz_reader.h"
#include "tensorcask/serialize/npy/npz_writer.h"
#include "tensorcask/serialize/safetensors/safetensors_reader.h"
#include "tensorcask/serialize/safetensors/safetensors_writer.h"
#include "tensorcask/tensor/base/check.h"
#include "tensorcask/tensor/base/crc32.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/base/parallel_for.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/benchmarks/bar_data.h"
#include "tensorcask/tests/benchmarks/bars.h"
#include "tensorcask/tests/benchmarks/load_rows.h"
#include "tensorcask/tests/benchmarks/measure.h"
#include "tensorcask/tests/benchmarks/units.h"

namespace tensorcask::benchmarks {
namespace {

constexpr int kTensors = 64;
constexpr size_t kTensorBytes = 16 * kMiB;  // 1 GiB in all
constexpr size_t kNpyBytes = 256 * kMiB;
constexpr size_t kPieceBytes = kMiB;  // for each plain system call
constexpr int kRounds = 7;

TensorShape ShapeOf(size_t bytes) { return TensorShape({4, static_cast<int64_t>(bytes / 16)}); }

std::string NameOf(size_t i) { return absl::StrCat("model.layers.", i, ".weight"); }

// read() of `into.size()` bytes from `offset`.
void ReadPieces(int file, uint64_t offset, absl::Span<char> into) {
  while (!into.empty()) {
    const ssize_t got = pread(file, into.data(), std::min(into.size(), kPieceBytes), static_cast<off_t>(offset));
    if (got <= 0) exit(1);
    offset += static_cast<uint64_t>(got);
    into.remove_prefix(static_cast<size_t>(got));
  }
}

void PlainWrite(const std::string& path, absl::string_view bytes) {
  unlink(path.c_str());
  const int file = open(path.c_str(), O_CREAT | O_WRONLY | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0 || posix_fallocate(file, 0, static_cast<off_t>(bytes.size())) != 0) exit(1);
  for (; !bytes.empty(); bytes.remove_prefix(kPieceBytes)) {
    if (write(file, bytes.data(), kPieceBytes) != static_cast<ssize_t>(kPieceBytes)) exit(1);
  }
  close(file);
}

void SaveSafetensors(const std::string& path, const std::vector<Tensor>& tensors) {
  SafetensorsWriterOptions options;
  options.sync = false;
  SafetensorsWriter writer = Require(SafetensorsWriter::Create(path, options));
  for (size_t i = 0; i < tensors.size(); ++i) Require(writer.Add(NameOf(i), tensors[i]));
  Require(writer.Finish());
}

SafetensorsReader OpenSafetensors(const std::string& path, bool verify) {
  SafetensorsReaderOptions options;
  options.verify = verify;
  return Require(SafetensorsReader::Open(path, options));
}

void SafetensorsRows(const std::string& path, std::vector<Tensor>* warm) {
  for (const bool verify : {false, true}) {
    const std::string mode = verify ? ", verified" : ", not verified";
    Loaded loaded;
    loaded.path = path;
    loaded.offset = OpenSafetensors(path, verify).entries().front().offset;
    loaded.warm = warm;
    loaded.extend = verify ? ExtendCrc32c : nullptr;
    LoadRows(absl::StrCat("safetensors: load 1 GiB, warm", mode), loaded, [&] {
      const SafetensorsReader reader = OpenSafetensors(path, verify);
      for (size_t i = 0; i < kTensors; ++i) Require(reader.ReadInto(NameOf(i), &(*warm)[i]));
    });
    loaded.fresh = true;
    for (const int threads : {1, 2}) {
      loaded.num_threads = threads;
      LoadRows(absl::StrCat("safetensors: load 1 GiB, fresh", mode, ", threads: ", threads), loaded,
               [&] { Keep(Require(OpenSafetensors(path, verify).ReadAll(threads)).size()); });
    }
  }
  const SafetensorsReader reader = OpenSafetensors(path, /*verify=*/false);
  const auto map = [&] {
    for (size_t i = 0; i < kTensors; ++i) Keep(Require(reader.Map(NameOf(i))).bytes().data());
  };
  Row("safetensors: map 1 GiB in 64 tensors after open, each", InUnits(21, kTensors, map, Allocations), 80, "x malloc",
      absl::StrCat(kOfAllocations, "; not verified"));
}

void NpyRows(const Folder& folder, const Tensor& source) {
  const std::string npy = folder.Path("w.npy");
  const std::string npz = folder.Path("w.npz");
  const std::string bare = folder.Path("bare");
  const auto plain_write = [&] { PlainWrite(bare, source.bytes()); };
  NpyWriterOptions npy_options;
  npy_options.sync = false;
  const auto save_npy = [&] {
    unlink(npy.c_str());
    Require(WriteNpy(npy, source, npy_options));
  };
  NpzWriterOptions npz_options;
  npz_options.sync = false;
  const auto save_npz = [&] {
    unlink(npz.c_str());
    NpzWriter writer = Require(NpzWriter::Create(npz, npz_options));
    Require(writer.Add("w", source));
    Require(writer.Finish());
  };
  const char* const beside_write = "write() into reserved space";
  Row("npy: save 256 MiB", MedianRatio(kRounds, save_npy, plain_write), 1.1, "x write", beside_write);
  Row("npz: save 256 MiB, stored", MedianRatio(kRounds, save_npz, plain_write), 1.1, "x write", beside_write);
  // The pages in which a file lies decide how fast it is read. So the loops read the same file.
  std::vector<Tensor> memory = {Require(source.Clone())};
  Loaded loaded;
  loaded.path = npy;
  loaded.offset = Require(Require(NpyReader::Open(npy)).Find("")).data_offset;
  loaded.warm = &memory;
  LoadRows("npy: load 256 MiB", loaded, [&] { Require(Require(NpyReader::Open(npy)).ReadInto("", &memory.front())); });
  NpyReaderOptions options;
  options.verify_checksums = false;
  loaded.path = npz;
  loaded.offset = Require(Require(NpzReader::Open(npz)).Find("w")).data_offset;
  const auto load_npz = [&] { Require(Require(NpzReader::Open(npz, options)).ReadInto("w", &memory.front())); };
  LoadRows("npz: load 256 MiB, stored, not verified", loaded, load_npz);
  loaded.extend = ExtendCrc32;
  options.verify_checksums = true;
  LoadRows("npz: load 256 MiB, stored, verified", loaded, load_npz);
  options.verify_checksums = false;
  const auto map = [&] { Keep(Require(Require(NpzReader::Open(npz, options)).Map("w")).data<float>()); };
  const SmallFile file(folder.Path("unit"));
  Row("npz: open and map a stored member of 256 MiB", InUnits(21, 1, map, [&](int times) { file.OpensAndMaps(times); }),
      50, "x open", absl::StrCat(kOfMaps, "; not verified"));
}

// Both files, on two threads, into buffers that stay in the caches.
void ReadBoth(const std::string& a, const std::string& b, absl::Span<PieceBuffer> buffers) {
  const std::string* const paths[] = {&a, &b};
  Require(ParallelFor(2, 2, [&](size_t i) {
    const int file = open(paths[i]->c_str(), O_RDONLY | O_CLOEXEC);
    for (uint64_t done = 0; done < kTensors * kTensorBytes; done += buffers[i].size()) {
      ReadPieces(file, done, absl::MakeSpan(buffers[i]));
    }
    close(file);
  }));
}

// Half of the file on each of two threads, in pieces that stay in the second-level cache, whose words are summed: the
// least that statistics of a file take.
void ReadAndSum(const std::string& path) {
  constexpr uint64_t kPieceBytes = uint64_t{256} << 10;
  constexpr uint64_t kHalfBytes = kTensors * kTensorBytes / 2;
  Require(ParallelFor(2, 2, [&](size_t half) {
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    std::vector<uint64_t> piece(kPieceBytes / sizeof(uint64_t));
    uint64_t sum = 0;
    for (uint64_t done = 0; done < kHalfBytes; done += kPieceBytes) {
      const auto at = static_cast<off_t>(half * kHalfBytes + done);
      CASK_CHECK(pread(file, piece.data(), kPieceBytes, at) == static_cast<ssize_t>(kPieceBytes),
                 "the file is shorter");
      sum = std::accumulate(piece.begin(), piece.end(), sum);
    }
    Keep(sum);
    close(file);
  }));
}

// From each of `formats` to each, beside cp of the source.
void ConvertRows(const Folder& folder, const std::string& first, const std::vector<const ArchiveFormat*>& formats) {
  const auto convert = [](const std::string& from, const std::string& to, const ArchiveFormat& from_format,
                          const ArchiveFormat& to_format) {
    std::filesystem::remove(to);
    const std::unique_ptr<ArchiveReader> source = Require(OpenArchive(from, {&from_format}));
    const ArchiveReader* const sources[] = {source.get()};
    const ConversionPlan plan = Require(PlanConversion(sources, to_format));
    ArchiveWriterOptions options;
    options.sync = false;
    options.file_metadata = plan.file_metadata;
    const std::unique_ptr<ArchiveWriter> writer = Require(CreateArchive(to, to_format, options));
    Keep(Require(RunConversion(plan, {}, writer.get())).bytes);
  };
  const std::string source = folder.Path("source");
  const std::string target = folder.Path("converted");
  for (const ArchiveFormat* const from : formats) {
    convert(first, source, *formats[0], *from);
    const std::string command = absl::StrCat("cp '", source, "' '", folder.Path("cp"), "'");
    const auto plain_copy = [&] {
      std::filesystem::remove(folder.Path("cp"));
      if (std::system(command.c_str()) != 0) exit(1);
    };
    for (const ArchiveFormat* const to : formats) {
      const auto ours = [&] { convert(source, target, *from, *to); };
      RowAtLeast(absl::StrCat("convert 1 GiB, ", from->name(), " to ", to->name()),
                 MedianRatio(7, ours, plain_copy).Inverse(), 0.6, "x cp", "cp");
    }
    std::filesystem::remove(target);
    std::filesystem::remove(folder.Path("cp"));
  }
}

void ArchiveRows(const Folder& folder, const std::string& path) {
  const std::string copy = folder.Path("copy.safetensors");
  std::filesystem::copy_file(path, copy);
  const SafetensorsArchiveFormat safetensors;
  const NpzArchiveFormat npz;
  const std::unique_ptr<ArchiveReader> a = Require(OpenArchive(path, {&safetensors}));
  const std::unique_ptr<ArchiveReader> b = Require(OpenArchive(copy, {&safetensors}));
  const auto stats = [&] { Keep(Require(Summarize(*a)).size()); };
  RowAtLeast("stats of 1 GiB float32 in a file, two threads",
             MedianRatio(kRounds, stats, [&] { ReadAndSum(path); }).Inverse(), 0.8, "x limit",
             "read() of it on two threads, in pieces that are summed");
  PieceBuffer buffers[] = {{kMiB, kMiB}, {kMiB, kMiB}};
  const auto diff = [&] { Keep(Require(Compare(*a, *b)).equal); };
  RowAtLeast("diff of two equal files of 1 GiB, two threads",
             MedianRatio(kRounds, diff, [&] { ReadBoth(path, copy, absl::MakeSpan(buffers)); }).Inverse(), 0.8,
             "x read", "read() of both on two threads");

  ConvertRows(folder, path, {&safetensors, &npz});
}

void Print(const std::vector<double>& seconds) {
  for (const double one : seconds) std::printf("%.9f\n", one);
}

// Makes and times `rounds` calls, after one that warms up.
std::vector<double> Times(int rounds, const std::function<void()>& fn) {
  fn();
  std::vector<double> seconds;
  for (int i = 0; i < rounds; ++i) seconds.push_back(SecondsOf(fn));
  return seconds;
}

}  // namespace

void FormatRows(absl::string_view part) {
  const Folder folder = Folder::InMemory();
  if (part != "npy") {
    std::vector<Tensor> tensors;
    for (size_t i = 0; i < kTensors; ++i) tensors.push_back(Filled(ShapeOf(kTensorBytes), static_cast<uint32_t>(i)));
    const std::string path = folder.Path("model.safetensors");
    SaveSafetensors(path, tensors);
    if (part != "archive") SafetensorsRows(path, &tensors);
    if (part != "safetensors") ArchiveRows(folder, path);
  }
  if (part.empty() || part == "npy") {
    const Tensor source = Filled(ShapeOf(kNpyBytes), 1);
    NpyRows(folder, source);
  }
}

bool PrintSeconds(const std::string& what, const std::string& path, int rounds) {
  if (what == "open") {
    Print(Times(rounds, [&] { Keep(Require(SafetensorsReader::Open(path)).entries().size()); }));
  } else if (what == "load-safetensors") {
    Print(Times(rounds, [&] { Keep(Require(Require(SafetensorsReader::Open(path)).ReadAll()).size()); }));
  } else if (what == "load-npy") {
    Print(Times(rounds, [&] { Keep(Require(Require(NpyReader::Open(path)).Read("")).bytes().data()); }));
  } else if (what == "load-npz") {
    Print(Times(rounds, [&] { Keep(Require(Require(NpzReader::Open(path)).ReadAll()).size()); }));
  } else if (what == "save-npy" || what == "save-npz") {
    const Tensor source = Filled(ShapeOf(kNpyBytes), 1);
    Print(Times(rounds, [&] {
      if (what == "save-npy") {
        NpyWriterOptions options;
        options.sync = false;
        options.overwrite = true;
        Require(WriteNpy(path, source, options));
      } else {
        NpzWriterOptions options;
        options.sync = false;
        options.overwrite = true;
        NpzWriter writer = Require(NpzWriter::Create(path, options));
        Require(writer.Add("w", source));
        Require(writer.Finish());
      }
    }));
  } else {
    return false;
  }
  return true;
}

}  // namespace tensorcask::benchmarks
