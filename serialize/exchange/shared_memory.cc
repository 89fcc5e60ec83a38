#include "tensorcask/serialize/exchange/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/exchange/internal/close_received.h"
#include "tensorcask/serialize/exchange/internal/memory_file.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/check.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/memory_pages.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/base/scoped_descriptor.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/buffer.h"

namespace tensorcask {
namespace {

using internal::PageBytes;

constexpr long kTmpfsMagic = 0x01021994;  // linux/magic.h: files in memory, those without a name among them

size_t HalfOfAllMemory() { return internal::MachineMemoryBytes().value_or(UINT64_MAX) / 2 / PageBytes() * PageBytes(); }

// `bytes` (whole pages) of mapped memory and its file; null on failure.
char* MapNewFile(size_t bytes, ScopedDescriptor* file) {
  *file = exchange::MakeMemoryFile(bytes);
  return file->is_open() ? exchange::MapNewMemoryFile(*file, bytes) : nullptr;
}

absl::Status NotShareable(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("received descriptor: ", what, "; a sealed memory file is wanted"));
}

// The size of a file whose bytes all have memory and keep it. Errors: InvalidArgument. Requires: it is a file in
// memory, so none of these calls waits for a file system in user space.
absl::StatusOr<uint64_t> CheckMemoryFile(int descriptor) {
  const int seals = fcntl(descriptor, F_GET_SEALS);
  // Files of huge pages (hugetlbfs) have seals as well, but can run out of pages under a mapping.
  struct statfs file_system;
  if (fstatfs(descriptor, &file_system) != 0) return absl::ErrnoToStatus(errno, "received descriptor: fstatfs");
  if (file_system.f_type != kTmpfsMagic) return NotShareable("it has huge pages (hugetlbfs)");
  if ((seals & F_SEAL_SHRINK) == 0) return NotShareable("it is not sealed against shrinking");
  if ((seals & F_SEAL_GROW) == 0) return NotShareable("it is not sealed against growing");
  if ((seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)) == 0)
    return NotShareable("it is not sealed against future writing");
  // A hole would get memory when it is read, from this process. The seals allow no new holes. Memory past the end of
  // the file would hide holes in the count of blocks, so it is freed first, by truncating the file to its own size.
  struct stat about;
  if (fstat(descriptor, &about) != 0) return absl::ErrnoToStatus(errno, "received descriptor: fstat");
  if (ftruncate(descriptor, about.st_size) != 0) return NotShareable("it is not open for writing");
  if (fstat(descriptor, &about) != 0) return absl::ErrnoToStatus(errno, "received descriptor: fstat");
  const auto size_bytes = static_cast<uint64_t>(about.st_size);
  const auto backed_bytes = static_cast<uint64_t>(about.st_blocks) * 512;  // fits: it counts memory
  if (backed_bytes < size_bytes) {
    return NotShareable(absl::StrCat("only ", backed_bytes, " of its ", size_bytes, " bytes have memory"));
  }
  return size_bytes;
}

// A file in memory that is mapped for reading, until this is destroyed.
class Mapping {
 public:
  Mapping() = default;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() { Unmap(); }

  // False and errno if the system refuses. Requires: `offset_bytes` is at the start of a page; not called before.
  bool Map(ScopedDescriptor file, uint64_t offset_bytes, size_t size_bytes) {
    const auto map = [&](int sharing) {
      return mmap(nullptr, size_bytes, PROT_READ, sharing, file.get(), static_cast<off_t>(offset_bytes));
    };
    void* mapped = map(MAP_SHARED);
    // Before 6.7 Linux treats every shared mapping as one that may write, and refuses it after F_SEAL_WRITE. A private
    // mapping of pages that no process writes shows the same bytes.
    if (mapped == MAP_FAILED && errno == EPERM) mapped = map(MAP_PRIVATE);
    if (mapped == MAP_FAILED) return false;
    file_ = std::move(file);
    data_ = static_cast<char*>(mapped);
    size_bytes_ = size_bytes;
    return true;
  }
  void Unmap() {
    if (data_ != nullptr) munmap(std::exchange(data_, nullptr), size_bytes_);
    file_.Close();
  }

  char* data() const { return data_; }
  int descriptor() const { return file_.get(); }

 private:
  ScopedDescriptor file_;
  char* data_ = nullptr;
  size_t size_bytes_ = 0;
};

}  // namespace

// ---- The sender -----------------------------------------------------------------------------------------------------

absl::StatusOr<RefPtr<SharedMemoryAllocator>> SharedMemoryAllocator::Create(Options options) {
  if (options.max_total_bytes == 0) options.max_total_bytes = HalfOfAllMemory();
  ScopedDescriptor file;
  char* const trial = MapNewFile(PageBytes(), &file);
  if (trial == nullptr) {
    // EINVAL: a seal or a flag that this system does not know.
    return absl::ErrnoToStatus(errno == EINVAL ? ENOSYS : errno, "making a sealed memory file");
  }
  munmap(trial, PageBytes());
  return RefPtr<SharedMemoryAllocator>::AdoptNew(new SharedMemoryAllocator(options));
}

SharedMemoryAllocator::~SharedMemoryAllocator() { CASK_DCHECK(blocks_.empty(), "an allocator outlives its blocks"); }

bool SharedMemoryAllocator::Reserve(size_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (bytes > options_.max_total_bytes - total_bytes_) return false;
  total_bytes_ += bytes;
  return true;
}

void SharedMemoryAllocator::GiveBack(size_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  total_bytes_ -= bytes;
}

void* SharedMemoryAllocator::Allocate(size_t bytes) {
  if (bytes < options_.min_shared_bytes) return CpuAllocator::Default()->Allocate(bytes);
  const std::optional<uint64_t> mapped_bytes = CheckedAlignUp(bytes, PageBytes());
  if (!mapped_bytes || *mapped_bytes > PTRDIFF_MAX) return nullptr;
  // The entry first, so that an exception (no memory) leaves nothing behind.
  std::map<const void*, Block> entry;
  Block& block = entry[nullptr];
  if (!Reserve(*mapped_bytes)) return nullptr;
  block.mapped_bytes = *mapped_bytes;
  char* const memory = MapNewFile(block.mapped_bytes, &block.descriptor);
  if (memory == nullptr) {
    GiveBack(block.mapped_bytes);
    return nullptr;
  }
  auto node = entry.extract(entry.begin());
  node.key() = memory;
  const std::lock_guard<std::mutex> lock(mutex_);
  blocks_.insert(std::move(node));
  return memory;
}

void SharedMemoryAllocator::Deallocate(void* block, size_t bytes) {
  if (bytes < options_.min_shared_bytes) return CpuAllocator::Default()->Deallocate(block, bytes);
  Block taken;
  {
    // Before the address is free: another thread may get it from the system at once.
    const std::lock_guard<std::mutex> lock(mutex_);
    auto node = blocks_.extract(block);
    CASK_CHECK(!node.empty(), "Deallocate takes back what Allocate gave");
    taken = std::move(node.mapped());
  }
  munmap(block, taken.mapped_bytes);
  taken.descriptor.Close();
  GiveBack(taken.mapped_bytes);
}

int SharedMemoryAllocator::DescriptorOf(const void* block) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = blocks_.find(block);
  return found == blocks_.end() ? -1 : found->second.descriptor.get();
}

size_t SharedMemoryAllocator::total_bytes() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return total_bytes_;
}

absl::Status SharedMemoryAllocator::SealAgainstWriting(const TensorBuffer& buffer) {
  const auto range = buffer.file_range();
  if (!range) return absl::FailedPreconditionError("SealAgainstWriting: this memory is not shared");
  const char* const start = static_cast<const char*>(buffer.data()) - range->offset_bytes;
  int file = -1;
  size_t mapped_bytes = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = blocks_.find(start);
    if (found == blocks_.end()) {
      return absl::FailedPreconditionError(
          "SealAgainstWriting: this memory belongs to another allocator, or was received");
    }
    file = found->second.descriptor.get();
    mapped_bytes = found->second.mapped_bytes;
  }
  // From here on two threads may do the same to one block: the second changes nothing.
  if ((fcntl(file, F_GET_SEALS) & F_SEAL_WRITE) != 0) return absl::OkStatus();
  // The kernel refuses the seal while a mapping could become writable, as every shared mapping of a file that is open
  // for writing can. So the block is mapped again, at the same address, from the same file opened for reading only.
  const ScopedDescriptor readable = exchange::OpenAgain(file, O_RDONLY);
  if (!readable.is_open()) {
    return errno == ENOENT ? absl::UnimplementedError("SealAgainstWriting: /proc is needed")
                           : absl::ErrnoToStatus(errno, "SealAgainstWriting: opening the memory file for reading");
  }
  buffer.FreezeMemory();
  void* const block = const_cast<char*>(start);
  const void* const again = mmap(block, mapped_bytes, PROT_READ, MAP_SHARED | MAP_FIXED, readable.get(), 0);
  // Replacing a mapping fails only if the system has no memory for its own few bytes, and then the tensors may have
  // lost their memory.
  CASK_CHECK(again == block, "SealAgainstWriting: the system could not map memory again");
  if (fcntl(file, F_ADD_SEALS, F_SEAL_WRITE) == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("SealAgainstWriting: ", absl::ErrnoToStatus(errno, "something else can write here").message()));
}

// ---- The receiver ---------------------------------------------------------------------------------------------------

absl::StatusOr<RefPtr<TensorBuffer>> MapSharedMemory(ScopedDescriptor descriptor, uint64_t offset_bytes,
                                                     uint64_t size_bytes, const DecodeLimits& limits) {
  if (!exchange::IsMemoryFile(descriptor.get())) {
    exchange::CloseReceived(std::move(descriptor));
    return NotShareable("it is not a file in memory");
  }
  CASK_ASSIGN_OR_RETURN(const uint64_t file_bytes, CheckMemoryFile(descriptor.get()));
  if (size_bytes == kAllBytes && offset_bytes <= file_bytes) size_bytes = file_bytes - offset_bytes;
  if (!RangeFits(offset_bytes, size_bytes, file_bytes)) {
    return absl::InvalidArgumentError(absl::StrCat("received memory file: ", size_bytes, " bytes at offset ",
                                                   offset_bytes, " exceed its ", file_bytes, " bytes"));
  }
  if (size_bytes > static_cast<uint64_t>(std::max<int64_t>(limits.max_message_bytes, 0))) {
    return absl::ResourceExhaustedError(absl::StrCat("received memory file: ", size_bytes,
                                                     " bytes, limit max_message_bytes is ", limits.max_message_bytes));
  }
  if (size_bytes == 0) return TensorBuffer::Allocate(0);

  const size_t lead_bytes = offset_bytes % PageBytes();
  const auto mapping = std::make_shared<Mapping>();
  if (!mapping->Map(std::move(descriptor), offset_bytes - lead_bytes, lead_bytes + size_bytes)) {
    return absl::ErrnoToStatus(errno, "received memory file: mmap");
  }
  TensorBuffer::External memory;
  memory.data = mapping->data() + lead_bytes;
  memory.size_bytes = size_bytes;
  memory.writable = false;
  memory.kind = TensorBuffer::Kind::kMapped;
  memory.file_range = {mapping->descriptor(), offset_bytes};
  memory.release = [mapping] { mapping->Unmap(); };
  return TensorBuffer::WrapExternal(std::move(memory));
}

bool IsSealedAgainstWriting(const TensorBuffer& buffer) {
  const auto range = buffer.file_range();
  if (!range) return false;
  const int seals = fcntl(range->descriptor, F_GET_SEALS);
  return seals >= 0 && (seals & F_SEAL_WRITE) != 0;
}

}  // namespace tensorcask
