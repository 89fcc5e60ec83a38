#include "tensorcask/serialize/sharded/internal/host_memory.h"

#ifdef __linux__

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/exchange/shared_memory.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/tensor/base/scoped_descriptor.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask::sharded {

std::string NameOfHost() {
  std::array<char, 64> boot;
  const ScopedDescriptor file(open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
  const ssize_t boot_bytes = file.is_open() ? read(file.get(), boot.data(), boot.size()) : -1;
  std::array<char, 64> processes;
  const ssize_t processes_bytes = readlink("/proc/self/ns/pid", processes.data(), processes.size());
  if (boot_bytes <= 0 || processes_bytes <= 0) return "";
  return absl::StrCat(absl::string_view(boot.data(), static_cast<size_t>(boot_bytes)), " ",
                      absl::string_view(processes.data(), static_cast<size_t>(processes_bytes)));
}

absl::StatusOr<RefPtr<TensorBuffer>> AllocateHostMemory(uint64_t bytes) {
  SharedMemoryAllocator::Options options;
  options.min_shared_bytes = 1;
  CASK_ASSIGN_OR_RETURN(const RefPtr<SharedMemoryAllocator> shared, SharedMemoryAllocator::Create(options));
  CASK_ASSIGN_OR_RETURN(RefPtr<TensorBuffer> memory, TensorBuffer::Allocate(static_cast<size_t>(bytes), shared));
  if (!memory->file_range().has_value()) return absl::InternalError("shared memory has no descriptor");
  return memory;
}

HostMemoryAddress AddressOf(const TensorBuffer& memory) {
  return {static_cast<uint64_t>(getpid()), static_cast<uint64_t>(memory.file_range()->descriptor)};
}

absl::StatusOr<RefPtr<TensorBuffer>> OpenHostMemory(const HostMemoryAddress& address, uint64_t bytes) {
  const std::string path = absl::StrCat("/proc/", address.process, "/fd/", address.descriptor);
  ScopedDescriptor file(open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
  if (!file.is_open()) return absl::ErrnoToStatus(errno, absl::StrCat(path, ": opening the memory of another rank"));
  DecodeLimits limits;
  limits.max_message_bytes = std::numeric_limits<int64_t>::max();
  return MapSharedMemory(std::move(file), 0, bytes, limits);
}

}  // namespace tensorcask::sharded

#else  // there are no sealed memory files

#include "absl/status/status.h"

namespace tensorcask::sharded {

std::string NameOfHost() { return ""; }

absl::StatusOr<RefPtr<TensorBuffer>> AllocateHostMemory(uint64_t) {
  return absl::UnimplementedError("processes share memory on Linux only");
}

HostMemoryAddress AddressOf(const TensorBuffer&) { return {}; }

absl::StatusOr<RefPtr<TensorBuffer>> OpenHostMemory(const HostMemoryAddress&, uint64_t) {
  return absl::UnimplementedError("processes share memory on Linux only");
}

}  // namespace tensorcask::sharded

#endif
