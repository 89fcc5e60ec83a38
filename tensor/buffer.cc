#include "tensorcask/tensor/buffer.h"

#include <pthread.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/check.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/device_memory.h"
#include "tensorcask/tensor/internal/buffer_kinds.h"

namespace tensorcask {
namespace {

// Buffers up to this size are part of the allocation of their object. glibc serves blocks up to 1032 bytes from a list
// of the thread, without a lock.
constexpr size_t kMaxInlineBytes = 896;

// Guards the copy-on-write state of all roots: whether a root shares its memory.
std::mutex sharing_mutex;

// A child of fork(2) has a copy of the mutex, but not the thread that may hold it. So fork waits for that thread.
// (Registration fails only without memory; then a forked child may wait for ever.)
[[maybe_unused]] const int fork_handlers =
    pthread_atfork([] { sharing_mutex.lock(); }, [] { sharing_mutex.unlock(); }, [] { sharing_mutex.unlock(); });

}  // namespace

TensorBuffer::TensorBuffer(Kind kind, const void* base, size_t size_bytes, bool writable, const ElementType* type,
                           RefPtr<RefCounted> held)
    : root_(this),
      base_(const_cast<void*>(base)),
      offset_bytes_(0),
      size_bytes_(size_bytes),
      type_(type),
      held_(std::move(held)),
      kind_(kind),
      writable_(writable) {}

TensorBuffer::TensorBuffer(RefPtr<TensorBuffer> root, size_t offset_bytes, size_t size_bytes)
    : root_(root.get()),
      base_(nullptr),
      offset_bytes_(offset_bytes),
      size_bytes_(size_bytes),
      type_(nullptr),
      held_(std::move(root)),
      kind_(root_->kind_),
      writable_(false) {}

absl::StatusOr<RefPtr<TensorBuffer>> TensorBuffer::Allocate(size_t size_bytes, const RefPtr<Allocator>& allocator) {
  return AllocateRaw(Kind::kBytes, size_bytes, nullptr, allocator);
}

absl::StatusOr<RefPtr<TensorBuffer>> TensorBuffer::AllocateRaw(Kind kind, size_t size_bytes, const ElementType* type,
                                                               const RefPtr<Allocator>& allocator) {
  // A request for 0 bytes never reaches an allocator.
  if (size_bytes == 0 || (size_bytes <= kMaxInlineBytes && allocator == CpuAllocator::Default())) {
    InlineBuffer* const buffer = InlineBuffer::New(kind, size_bytes, type);
    if (buffer == nullptr) return internal::NoBufferMemory(size_bytes, allocator->name());
    return RefPtr<TensorBuffer>::AdoptNew(buffer);
  }
  if (const DeviceMemory* const memory = allocator->device_memory()) {
    if (type == nullptr) return AllocateOnDevice(size_bytes, allocator);
    return absl::InvalidArgumentError(absl::StrCat("objects are in memory of the host; allocator \"", allocator->name(),
                                                   "\" gives memory of ", memory->device().ToString()));
  }
  CASK_ASSIGN_OR_RETURN(RefPtr<Block> block, Block::Allocate(size_bytes, allocator));
  Block* const memory = block.get();
  absl::StatusOr<RefPtr<TensorBuffer>> buffer =
      MakeBlockBuffer(kind, memory->data(), size_bytes, /*writable=*/true, type, std::move(block));
  if (buffer.ok()) memory->HoldElements(type);  // the caller constructs them, and cannot fail
  return buffer;
}

absl::StatusOr<RefPtr<TensorBuffer>> TensorBuffer::AllocateOnDevice(size_t size_bytes,
                                                                    const RefPtr<Allocator>& allocator) {
  CASK_ASSIGN_OR_RETURN(RefPtr<Block> block, Block::Allocate(size_bytes, allocator));
  return DeviceBuffer::New(std::move(block), /*offset_bytes=*/0, size_bytes, allocator);
}

absl::StatusOr<RefPtr<TensorBuffer>> TensorBuffer::MakeBlockBuffer(Kind kind, const void* base, size_t size_bytes,
                                                                   bool writable, const ElementType* type,
                                                                   RefPtr<Block> block) {
  auto* const buffer = new (std::nothrow) BlockBuffer(kind, base, size_bytes, writable, type, std::move(block));
  if (buffer == nullptr) return internal::NoBufferMemory(sizeof(BlockBuffer), "new");
  return RefPtr<TensorBuffer>::AdoptNew(buffer);
}

RefPtr<TensorBuffer> TensorBuffer::MakeScalarBytes(const void* value, size_t size_bytes) {
  InlineBuffer* const buffer = InlineBuffer::New(Kind::kScalar, size_bytes, nullptr);
  CASK_CHECK(buffer != nullptr, "no memory for a scalar");
  std::memcpy(buffer->base(), value, size_bytes);
  return RefPtr<TensorBuffer>::AdoptNew(buffer);
}

RefPtr<TensorBuffer> TensorBuffer::WrapExternal(External memory) {
  CASK_CHECK(memory.kind == Kind::kExternal || memory.kind == Kind::kMapped || memory.kind == Kind::kDevice,
             "WrapExternal makes buffers of kind kExternal, kMapped and kDevice only");
  CASK_CHECK(memory.data != nullptr || memory.size_bytes == 0, "WrapExternal: null data with a size");
  if (memory.kind == Kind::kDevice) {
    CASK_CHECK(memory.allocator && memory.allocator->device_memory() != nullptr,
               "WrapExternal: memory of a device comes with the allocator of the device");
    return MakeRef<DeviceBuffer>(std::move(memory));
  }
  return MakeRef<ExternalBuffer>(std::move(memory));
}

RefPtr<TensorBuffer> TensorBuffer::MakeSubBuffer(const RefPtr<TensorBuffer>& parent, size_t offset_bytes,
                                                 size_t size_bytes) {
  CASK_CHECK(RangeFits(offset_bytes, size_bytes, parent->size_bytes()), "MakeSubBuffer: the range leaves its parent");
  return MakeRef<SubBuffer>(RefPtr<TensorBuffer>::Share(parent->root()), parent->offset_bytes() + offset_bytes,
                            size_bytes);
}

absl::Status TensorBuffer::ElementsTooLarge(size_t count, size_t element_bytes) {
  return absl::InvalidArgumentError(
      absl::StrCat(count, " elements of ", element_bytes, " bytes: the size in bytes overflows"));
}

RefPtr<TensorBuffer> TensorBuffer::MakeWithoutData(size_t size_bytes, std::string message) {
  return MakeRef<NoDataBuffer>(size_bytes, std::move(message));
}

absl::Status TensorBuffer::Unreadable() const {
  if (kind() == Kind::kDevice) {
    return absl::FailedPreconditionError(absl::StrCat("the data is in memory of ", device().ToString(),
                                                      ", which the host cannot access; copy it with CopyAcross or To "
                                                      "(tensor/memory/copy_across.h)"));
  }
  return absl::FailedPreconditionError(absl::StrCat("no data: ", root_->NoDataMessage()));
}

const void* TensorBuffer::NullData() const {
  const absl::Status status = CheckReadable();
  CASK_CHECK(status.ok(), std::string(status.message()).c_str());
  return nullptr;
}

// ---- Memory of a device ---------------------------------------------------------------------------------------------

DeviceMemory* TensorBuffer::device_memory() const {
  return kind() == Kind::kDevice ? DeviceBuffer::RootOf(*this).memory() : nullptr;
}

const void* TensorBuffer::device_data() const { return DeviceBuffer::RootOf(*this).address() + offset_bytes_; }

absl::StatusOr<void*> TensorBuffer::MutableDeviceData() {
  CASK_CHECK(kind() == Kind::kDevice, "the buffer is not in memory of a device");
  auto* const root = static_cast<DeviceBuffer*>(root_);
  CASK_RETURN_IF_ERROR(root->MakePrivate());
  root->version_.fetch_add(1, std::memory_order_relaxed);
  return root->address() + offset_bytes_;
}

absl::Status TensorBuffer::RecordStream(int64_t stream) const { return DeviceBuffer::RootOf(*this).AddStream(stream); }

// ---- Copy on write --------------------------------------------------------------------------------------------------

TensorBuffer::Block* TensorBuffer::block() const { return static_cast<Block*>(held_.get()); }

RefPtr<RefCounted> TensorBuffer::ShareMemory() const {
  const std::lock_guard<std::mutex> lock(sharing_mutex);
  if (held_) writable_ = false;
  if (held_ && kind() == Kind::kDevice) DeviceBuffer::RootOf(*this).SetWritesInPlace(false);
  return held_;
}

absl::StatusOr<RefPtr<TensorBuffer>> TensorBuffer::LazyClone(size_t offset_bytes, size_t size_bytes) const {
  CASK_CHECK(RangeFits(offset_bytes, size_bytes, size_bytes_), "LazyClone: the range leaves the buffer");
  if (kind() == Kind::kDevice) {
    if (size_bytes == 0) return AllocateRaw(Kind::kBytes, 0, nullptr, CpuAllocator::Default());
    return DeviceBuffer::RootOf(*this).ClonePart(offset_bytes_ + offset_bytes, size_bytes);
  }
  CASK_RETURN_IF_ERROR(CheckReadable());
  const ElementType* const type = root_->type_;
  if (type != nullptr) {
    CASK_CHECK((offset_bytes_ + offset_bytes) % type->size_bytes == 0 && size_bytes % type->size_bytes == 0,
               "LazyClone: the range cuts an object");
    if (type->copy == nullptr) return absl::UnimplementedError("the objects in this buffer cannot be copied");
  }
  const Kind kind = type == nullptr ? Kind::kBytes : Kind::kElements;
  if (size_bytes == 0) return AllocateRaw(kind, 0, type, CpuAllocator::Default());
  const void* const from = static_cast<const char*>(data()) + offset_bytes;
  RefPtr<Block> block = RefPtr<Block>::Adopt(static_cast<Block*>(root_->ShareMemory().Release()));
  if (block) return MakeBlockBuffer(kind, from, size_bytes, /*writable=*/false, type, std::move(block));
  const RefPtr<Allocator>& allocator = root_->PrivateMemoryAllocator();
  if (type == nullptr) {
    CASK_ASSIGN_OR_RETURN(RefPtr<TensorBuffer> copy, AllocateRaw(kind, size_bytes, nullptr, allocator));
    std::memcpy(copy->base_, from, size_bytes);
    return copy;
  }
  CASK_ASSIGN_OR_RETURN(block, Block::CopyOf(from, size_bytes, type, allocator));
  const void* const base = block->data();
  return MakeBlockBuffer(kind, base, size_bytes, /*writable=*/true, type, std::move(block));
}

absl::Status TensorBuffer::MakeWritable() {
  CASK_RETURN_IF_ERROR(CheckReadable());
  // The last root of a block may write to it. If two roots arrive here at once, both copy, and the second one frees the
  // block.
  if (size_bytes_ > 0 && !(held_ && block()->IsWritable())) {
    if (type_ != nullptr && type_->copy == nullptr) {
      return absl::UnimplementedError("the objects in this buffer cannot be copied");
    }
    CASK_ASSIGN_OR_RETURN(RefPtr<Block> copy, Block::CopyOf(base_, size_bytes_, type_, PrivateMemoryAllocator()));
    base_ = copy->data();
    held_ = std::move(copy);
  }
  writable_ = true;
  return absl::OkStatus();
}

void TensorBuffer::MakeWritableOrDie() {
  const absl::Status status = MakeWritable();
  CASK_CHECK(status.ok(), std::string(status.message()).c_str());
}

bool TensorBuffer::IsWritableInPlaceLocked() const {
  if (kind() == Kind::kDevice) return DeviceBuffer::RootOf(*this).WritesInPlace();
  return writable_ || (held_ && block()->IsWritable());
}

RefPtr<RefCounted> TensorBuffer::HoldMemoryLocked() const {
  if (held_) return held_;
  return RefPtr<RefCounted>::Share(root_);
}

RefPtr<RefCounted> TensorBuffer::HoldMemory() const {
  const std::lock_guard<std::mutex> lock(sharing_mutex);
  return root_->HoldMemoryLocked();
}

RefPtr<RefCounted> TensorBuffer::HoldWritableMemory() const {
  // The question and the answer belong to one step: a LazyClone between them would share the memory with the consumer.
  const std::lock_guard<std::mutex> lock(sharing_mutex);
  if (!root_->IsWritableInPlaceLocked()) return nullptr;
  if (kind() == Kind::kDevice) {
    DeviceBuffer::RootOf(*this).SetWritesInPlace(true);
  } else {
    root_->writable_ = true;
  }
  root_->version_.fetch_add(1, std::memory_order_relaxed);
  return root_->HoldMemoryLocked();
}

std::optional<TensorBuffer::FileRange> TensorBuffer::file_range() const {
  if (root_->type_ != nullptr || kind() == Kind::kDevice) return std::nullopt;
  FileRange range = root_->held_ ? root_->block()->FileRangeOf(root_->base_) : root_->ExternalFileRange();
  if (range.descriptor < 0) return std::nullopt;
  range.offset_bytes += offset_bytes_;
  return range;
}

void TensorBuffer::FreezeMemory() const {
  CASK_CHECK(file_range().has_value(), "FreezeMemory is for memory that another process can map");
  const std::lock_guard<std::mutex> lock(sharing_mutex);
  if (root_->held_) root_->block()->Freeze();
  root_->writable_ = false;
}

bool TensorBuffer::IsWritableInPlace() const {
  const std::lock_guard<std::mutex> lock(sharing_mutex);
  return root_->IsWritableInPlaceLocked();
}

bool TensorBuffer::IsExclusive() const {
  if (!IsUnique() || !root_->IsUnique()) return false;
  const std::lock_guard<std::mutex> lock(sharing_mutex);
  if (root_->held_) return root_->block()->IsWritable();
  return kind() == Kind::kBytes || kind() == Kind::kElements || kind() == Kind::kScalar;  // part of the object
}

absl::string_view TensorBuffer::allocator_name() const {
  const std::lock_guard<std::mutex> lock(sharing_mutex);
  if (root_->held_) return root_->PrivateMemoryAllocator()->name();
  const bool is_inline = kind() == Kind::kBytes || kind() == Kind::kElements;
  return is_inline ? CpuAllocator::Default()->name() : absl::string_view();
}

Allocator::BlockInfo TensorBuffer::block_info() const {
  const std::lock_guard<std::mutex> lock(sharing_mutex);
  return root_->held_ ? static_cast<const Block*>(root_->held_.get())->info() : Allocator::BlockInfo();
}

}  // namespace tensorcask
