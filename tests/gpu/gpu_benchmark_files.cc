// Saves of tensors of the device and loads to it, in memory of the system, beside the limits: writing and reading the
// same bytes with as many threads, and copying them between pinned memory and the device. The slower of the two is what
// a save or a load can reach.

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/checkpoint/checkpoint_writer.h"
#include "tensorcask/serialize/checkpoint/write/background_save.h"
#include "tensorcask/serialize/safetensors/safetensors_entry.h"
#include "tensorcask/serialize/safetensors/safetensors_reader.h"
#include "tensorcask/serialize/safetensors/safetensors_writer.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/parallel_for.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/memory/copy_across.h"
#include "tensorcask/tensor/memory/device_backend.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/gpu/gpu_benchmark.h"

namespace tensorcask::benchmarks {
namespace {

constexpr size_t kPieceBytes = 1 * kMiB;  // for each write() and read() of the limits

std::string NameOf(size_t i) { return absl::StrCat("layer", i, "/kernel"); }

// A new folder in memory of the system if it has room, else where temporary files go; gone at the end.
class Folder {
 public:
  static absl::StatusOr<std::unique_ptr<Folder>> Create(const std::string& wanted, uint64_t bytes) {
    std::string parent = wanted;
    if (parent.empty()) parent = FreeBytes("/dev/shm") > bytes ? "/dev/shm" : std::filesystem::temp_directory_path();
    std::string path = parent + "/tensorcask-gpu-XXXXXX";
    if (mkdtemp(path.data()) == nullptr) return absl::ErrnoToStatus(errno, path);
    return std::make_unique<Folder>(std::move(path));
  }
  static uint64_t FreeBytes(const std::string& folder) {
    struct statvfs found = {};
    return statvfs(folder.c_str(), &found) == 0 ? uint64_t{found.f_bavail} * found.f_frsize : 0;
  }

  explicit Folder(std::string path) : path_(std::move(path)) {}
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  const std::string& path() const { return path_; }
  std::string Path(const std::string& name) const { return path_ + "/" + name; }
  void Clear() const {
    for (const auto& file : std::filesystem::directory_iterator(path_)) std::filesystem::remove(file);
  }

 private:
  const std::string path_;
};

// Calls fn(i) for 0 <= i < count on threads; the first error.
template <typename Fn>
absl::Status OnThreads(size_t num_threads, size_t count, Fn&& fn) {
  std::mutex mutex;
  absl::Status first;
  CASK_RETURN_IF_ERROR(ParallelFor(static_cast<int>(num_threads), count, [&](size_t i) {
    const absl::Status status = fn(i);
    if (status.ok()) return;
    const std::lock_guard<std::mutex> lock(mutex);
    if (first.ok()) first = status;
  }));
  return first;
}

absl::Status WriteFile(const std::string& path, absl::string_view bytes) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) return absl::ErrnoToStatus(errno, path);
  absl::Status status;
  for (size_t at = 0; at < bytes.size() && status.ok(); at += kPieceBytes) {
    const absl::string_view piece = bytes.substr(at, kPieceBytes);
    if (write(file, piece.data(), piece.size()) != static_cast<ssize_t>(piece.size()))
      status = absl::ErrnoToStatus(errno, path);
  }
  close(file);
  return status;
}

absl::Status ReadFile(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return absl::ErrnoToStatus(errno, path);
  std::vector<char> piece(kPieceBytes);
  ssize_t got = 0;
  do {
    got = read(file, piece.data(), piece.size());
  } while (got > 0);
  const absl::Status status = got == 0 ? absl::OkStatus() : absl::ErrnoToStatus(errno, path);
  close(file);
  return status;
}

// Tensors of the device, the folder and the number of threads of a save and a load.
struct Files {
  const Bench& bench;
  const Folder& folder;
  std::vector<TensorView> tensors;
  size_t tensor_bytes = 0;
  size_t num_threads = 1;

  size_t total_bytes() const { return tensors.size() * tensor_bytes; }
  std::string what() const {
    return absl::StrCat(SizeText(total_bytes()), ", ", num_threads, num_threads == 1 ? " thread" : " threads");
  }
  void Figure(const std::string& name, double seconds, double limit_seconds) const {
    PrintFigure(absl::StrCat(name, ", ", what()), GibPerSecond(total_bytes(), seconds), "GiB/s",
                limit_seconds / seconds);
  }
  void Limit(const std::string& name, double seconds) const {
    PrintFigure(absl::StrCat("limit: ", name, ", ", what()), GibPerSecond(total_bytes(), seconds), "GiB/s");
  }
};

CheckpointWriterOptions Writing(const Files& files) {
  CheckpointWriterOptions options;
  options.sync = false;
  options.num_threads = static_cast<int>(files.num_threads);
  options.num_shards = static_cast<int>(files.num_threads);
  return options;
}

absl::StatusOr<CheckpointWriter> AddAll(const Files& files, const CheckpointWriterOptions& options) {
  CASK_ASSIGN_OR_RETURN(CheckpointWriter writer, CheckpointWriter::Create(files.folder.Path("m"), options));
  for (size_t i = 0; i < files.tensors.size(); ++i) {
    CheckpointAddOptions add;
    add.shard = static_cast<int>(i % files.num_threads);
    add.unchanging = !options.background;
    CASK_RETURN_IF_ERROR(writer.Add(NameOf(i), files.tensors[i], add));
  }
  return writer;
}

absl::Status SaveCheckpoint(const Files& files) {
  CASK_ASSIGN_OR_RETURN(CheckpointWriter writer, AddAll(files, Writing(files)));
  return writer.Finish();
}

absl::Status SaveSafetensors(const Files& files) {
  SafetensorsWriterOptions options;
  options.sync = false;
  CASK_ASSIGN_OR_RETURN(SafetensorsWriter writer,
                        SafetensorsWriter::Create(files.folder.Path("m.safetensors"), options));
  for (size_t i = 0; i < files.tensors.size(); ++i)
    CASK_RETURN_IF_ERROR(writer.Declare(NameOf(i), files.tensors[i].dtype(), files.tensors[i].shape()));
  for (size_t i = 0; i < files.tensors.size(); ++i) CASK_RETURN_IF_ERROR(writer.Add(NameOf(i), files.tensors[i]));
  return writer.Finish();
}

absl::Status LoadCheckpoint(const Files& files) {
  CheckpointReaderOptions options;
  options.allocator = files.bench.cache;
  options.limits.max_file_decoded_bytes = 4 * files.total_bytes();
  CASK_ASSIGN_OR_RETURN(const CheckpointReader reader, CheckpointReader::Open(files.folder.Path("m"), options));
  CASK_ASSIGN_OR_RETURN(const std::vector<CheckpointNamedTensor> loaded,
                        reader.ReadAll(static_cast<int>(files.num_threads)));
  if (loaded.size() != files.tensors.size()) return absl::InternalError("tensors are missing");
  return files.bench.device->Synchronize(kDefaultStream);
}

absl::Status LoadSafetensors(const Files& files) {
  CASK_ASSIGN_OR_RETURN(const SafetensorsReader reader, SafetensorsReader::Open(files.folder.Path("m.safetensors")));
  std::vector<Tensor> loaded(reader.entries().size());
  CASK_RETURN_IF_ERROR(OnThreads(files.num_threads, loaded.size(), [&](size_t i) -> absl::Status {
    const SafetensorsEntry& entry = reader.entries()[i];
    if (!entry.checksum.has_value()) return absl::InternalError("the file has no checksum");
    CASK_ASSIGN_OR_RETURN(loaded[i], Tensor::Create(entry.dtype, entry.shape, files.bench.cache));
    TensorView view(loaded[i]);
    return reader.ReadInto(entry.name, &view);
  }));
  return files.bench.device->Synchronize(kDefaultStream);
}

// The seconds of fn; the folder is empty before and after, and whatever fn leaves is removed outside of the time.
template <typename Fn>
absl::StatusOr<double> MedianInEmptyFolder(const Files& files, Fn&& fn) {
  files.folder.Clear();
  CASK_ASSIGN_OR_RETURN(const double seconds, MedianOfRounds(files.bench, [&]() -> absl::StatusOr<double> {
                          files.folder.Clear();
                          const Stopwatch watch;
                          CASK_RETURN_IF_ERROR(fn(files));
                          return watch.Seconds();
                        }));
  files.folder.Clear();
  return seconds;
}

// All bytes in as many files as there are threads, and their reading.
absl::Status DiskLimits(const Files& files, double* write_seconds, double* read_seconds) {
  const std::string bytes(files.total_bytes() / files.num_threads, 'x');
  const auto path = [&](size_t i) { return files.folder.Path(absl::StrCat("limit", i)); };
  const auto write_all = [&](const Files&) {
    return OnThreads(files.num_threads, files.num_threads, [&](size_t i) { return WriteFile(path(i), bytes); });
  };
  CASK_ASSIGN_OR_RETURN(*write_seconds, MedianInEmptyFolder(files, write_all));
  CASK_RETURN_IF_ERROR(write_all(files));
  CASK_ASSIGN_OR_RETURN(*read_seconds, MedianSeconds(files.bench, [&] {
    return OnThreads(files.num_threads, files.num_threads, [&](size_t i) { return ReadFile(path(i)); });
  }));
  files.folder.Clear();
  files.Limit("write()", *write_seconds);
  files.Limit("read()", *read_seconds);
  return absl::OkStatus();
}

// What is loaded is what was saved.
absl::Status CheckLoaded(const Files& files) {
  CheckpointReaderOptions options;
  options.allocator = files.bench.cache;
  CASK_ASSIGN_OR_RETURN(const CheckpointReader reader, CheckpointReader::Open(files.folder.Path("m"), options));
  const size_t last = files.tensors.size() - 1;
  CASK_ASSIGN_OR_RETURN(const Tensor loaded, reader.Read(NameOf(last)));
  CASK_ASSIGN_OR_RETURN(const TensorView there, To(TensorView(loaded), CpuAllocator::Default()));
  CASK_ASSIGN_OR_RETURN(const TensorView here, To(files.tensors[last], CpuAllocator::Default()));
  CASK_ASSIGN_OR_RETURN(const Tensor a, there.ToTensor());
  CASK_ASSIGN_OR_RETURN(const Tensor b, here.ToTensor());
  return a.bytes() == b.bytes() ? absl::OkStatus() : absl::DataLossError("the loaded tensor differs");
}

absl::Status SaveAndLoad(const Files& files) {
  CASK_ASSIGN_OR_RETURN(const double from_device,
                        PinnedCopySeconds(files.bench, CopyKind::kDeviceToHost, files.total_bytes()));
  CASK_ASSIGN_OR_RETURN(const double to_device,
                        PinnedCopySeconds(files.bench, CopyKind::kHostToDevice, files.total_bytes()));
  double write_seconds = 0;
  double read_seconds = 0;
  CASK_RETURN_IF_ERROR(DiskLimits(files, &write_seconds, &read_seconds));
  const double save_limit = std::max(from_device, write_seconds);
  const double load_limit = std::max(to_device, read_seconds);

  CASK_ASSIGN_OR_RETURN(const double save, MedianInEmptyFolder(files, SaveCheckpoint));
  files.Figure("checkpoint: save, of the slower of write() and a pinned copy", save, save_limit);
  CASK_RETURN_IF_ERROR(SaveCheckpoint(files));
  CASK_RETURN_IF_ERROR(CheckLoaded(files));
  CASK_ASSIGN_OR_RETURN(const double load, MedianSeconds(files.bench, [&] { return LoadCheckpoint(files); }));
  files.Figure("checkpoint: load, verified, of the slower of read() and a pinned copy", load, load_limit);

  if (files.num_threads == 1) {
    CASK_ASSIGN_OR_RETURN(const double seconds, MedianInEmptyFolder(files, SaveSafetensors));
    files.Figure("safetensors: save, of the slower of write() and a pinned copy", seconds, save_limit);
  }
  files.folder.Clear();
  CASK_RETURN_IF_ERROR(SaveSafetensors(files));
  CASK_ASSIGN_OR_RETURN(const double seconds, MedianSeconds(files.bench, [&] { return LoadSafetensors(files); }));
  files.Figure("safetensors: load, verified, of the slower of read() and a pinned copy", seconds, load_limit);
  files.folder.Clear();
  return absl::OkStatus();
}

// How long a background save keeps its caller, the first time and once pinned memory is cached.
absl::Status BackgroundStall(const Files& files) {
  for (const char* const when : {"the first one", "the second one"}) {
    files.folder.Clear();
    CheckpointWriterOptions options = Writing(files);
    options.background = true;
    const Stopwatch watch;
    CASK_ASSIGN_OR_RETURN(CheckpointWriter writer, AddAll(files, options));
    CASK_ASSIGN_OR_RETURN(BackgroundSave save, writer.FinishInBackground());
    const double stall = watch.Seconds();
    CASK_RETURN_IF_ERROR(save.Wait());
    const double all = watch.Seconds();
    PrintFigure(absl::StrCat("background save, ", when, ": stall, of its whole time, ", files.what()), stall * 1e3,
                "ms", stall / all);
  }
  return absl::OkStatus();
}

// `count` tensors of the device with different bytes.
absl::StatusOr<std::vector<TensorView>> MakeTensors(const Bench& bench, size_t count, size_t bytes) {
  CASK_ASSIGN_OR_RETURN(Tensor host, Tensor::Create(DType::kFloat32, TensorShape({static_cast<int64_t>(bytes / 4)})));
  uint32_t state = 1;
  for (float& value : host.mutable_flat<float>()) {
    state = state * 1664525U + 1013904223U;
    value = static_cast<float>(static_cast<int32_t>(state)) * 1e-9F;
  }
  std::vector<TensorView> tensors;
  for (size_t i = 0; i < count; ++i) {
    host.mutable_data<float>()[0] = static_cast<float>(i);
    CASK_ASSIGN_OR_RETURN(TensorView there, To(TensorView(host), bench.cache));
    tensors.push_back(std::move(there));
  }
  return tensors;
}

// Memory of the host that can be had, caches included.
uint64_t AvailableBytes() {
  std::ifstream file("/proc/meminfo");
  std::string name;
  uint64_t kibibytes = 0;
  while (file >> name >> kibibytes) {
    if (name == "MemAvailable:") return kibibytes * kKiB;
    file.ignore(100, '\n');
  }
  return 0;
}

}  // namespace

absl::Status FileFigures(const Bench& bench) {
  const size_t tensor_bytes = bench.small ? 1 * kMiB : 128 * kMiB;
  size_t count = bench.small ? 8 : 64;
  // Room for the tensors that are saved and those that are loaded, for a checkpoint, and for what a background save
  // keeps on the host.
  CASK_ASSIGN_OR_RETURN(const DeviceMemoryInfo memory, bench.device->MemoryInfo());
  const uint64_t host_bytes = AvailableBytes();
  const uint64_t disk_bytes =
      std::max(Folder::FreeBytes(bench.folder.empty() ? "/dev/shm" : bench.folder),
               bench.folder.empty() ? Folder::FreeBytes(std::filesystem::temp_directory_path()) : 0);
  const auto fits = [&] {
    const uint64_t total = count * tensor_bytes;
    return 3 * total <= memory.free_bytes && 2 * total <= disk_bytes && 4 * total <= host_bytes;
  };
  while (count > 1 && !fits()) count /= 2;
  if (!fits()) return absl::ResourceExhaustedError("there is no room for one tensor");
  CASK_ASSIGN_OR_RETURN(const std::unique_ptr<Folder> folder, Folder::Create(bench.folder, 2 * count * tensor_bytes));
  std::cout << "saves and loads of " << count << " tensors of " << SizeText(tensor_bytes) << " in " << folder->path()
            << std::endl;

  CASK_ASSIGN_OR_RETURN(std::vector<TensorView> tensors, MakeTensors(bench, count, tensor_bytes));
  const Files threaded{bench, *folder, tensors, tensor_bytes, std::min(bench.num_threads, count)};
  CASK_RETURN_IF_ERROR(SaveAndLoad(threaded));
  // One thread takes longer, so it gets less.
  tensors.resize(std::max<size_t>(1, count / 4));
  const Files alone{bench, *folder, std::move(tensors), tensor_bytes, 1};
  CASK_RETURN_IF_ERROR(SaveAndLoad(alone));
  return BackgroundStall(threaded);
}

}  // namespace tensorcask::benchmarks
