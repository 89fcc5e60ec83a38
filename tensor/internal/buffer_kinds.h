// The kinds of TensorBuffer, and the block of memory that buffers share for copy-on-write. For buffer.cc alone.

#ifndef TENSORCASK_TENSOR_INTERNAL_BUFFER_KINDS_H_
#define TENSORCASK_TENSOR_INTERNAL_BUFFER_KINDS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <set>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/catch_exceptions.h"
#include "tensorcask/tensor/base/check.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/device_memory.h"

namespace tensorcask {
namespace internal {

inline absl::Status NoBufferMemory(size_t size_bytes, absl::string_view allocator_name) {
  return MarkResourceFailure(absl::ResourceExhaustedError(
      absl::StrCat("no memory for ", size_bytes, " bytes from allocator \"", allocator_name, "\"")));
}

}  // namespace internal

// Memory from an allocator, used by one or several roots. The last one destroys the elements and frees the memory.
class TensorBuffer::Block final : public RefCounted {
 public:
  // data() lies `lead_bytes` after a multiple of Allocator::kAlignment. Errors: ResourceExhausted. Requires:
  // size_bytes > 0.
  static absl::StatusOr<RefPtr<Block>> Allocate(size_t size_bytes, const RefPtr<Allocator>& allocator,
                                                size_t lead_bytes = 0) {
    CASK_ASSIGN_OR_RETURN(void* const memory, allocator->TryAllocate(lead_bytes + size_bytes));
    auto* const block = new (std::nothrow) Block(memory, lead_bytes, size_bytes, allocator);
    if (block != nullptr) return RefPtr<Block>::AdoptNew(block);
    allocator->Deallocate(memory, lead_bytes + size_bytes);
    return internal::NoBufferMemory(sizeof(Block), "new");
  }
  // The same with a copy of the bytes at `from`. The copy has the alignment of `from`, so parts that are aligned for
  // their elements stay aligned.
  static absl::StatusOr<RefPtr<Block>> CopyOf(const void* from, size_t size_bytes, const ElementType* type,
                                              const RefPtr<Allocator>& allocator) {
    const size_t lead_bytes = reinterpret_cast<uintptr_t>(from) % alignof(std::max_align_t);
    CASK_ASSIGN_OR_RETURN(RefPtr<Block> block, Allocate(size_bytes, allocator, lead_bytes));
    if (type == nullptr) {
      std::memcpy(block->data(), from, size_bytes);
    } else {
      type->copy(from, size_bytes, block->data());
      block->HoldElements(type);
    }
    return block;
  }

  ~Block() override {
    if (type_ != nullptr) type_->destroy(data(), size_bytes_);
    allocator_->Deallocate(memory_, lead_bytes_ + size_bytes_);
  }

  void HoldElements(const ElementType* type) { type_ = type; }  // they have been constructed
  void* data() const { return memory_ + lead_bytes_; }
  const void* start() const { return memory_; }
  Allocator::BlockInfo info() const { return allocator_->Describe(memory_); }
  const RefPtr<Allocator>& allocator() const { return allocator_; }

  // The range of the allocator's file that holds `data`, which lies in this block; descriptor -1 without a file.
  FileRange FileRangeOf(const void* data) const {
    return {allocator_->DescriptorOf(memory_), static_cast<uint64_t>(static_cast<const char*>(data) - memory_)};
  }

  // Another process may read this memory: from now on no root writes to it.
  void Freeze() { frozen_.store(true, std::memory_order_relaxed); }
  // True if the caller's root may write here. The count is read first: if it is 1, all that former owners wrote is
  // visible, also a Freeze.
  bool IsWritable() const { return IsUnique() && !frozen_.load(std::memory_order_relaxed); }

 private:
  Block(void* memory, size_t lead_bytes, size_t size_bytes, const RefPtr<Allocator>& allocator)
      : memory_(static_cast<char*>(memory)), lead_bytes_(lead_bytes), size_bytes_(size_bytes), allocator_(allocator) {}

  char* const memory_;
  const size_t lead_bytes_;
  const size_t size_bytes_;
  const RefPtr<Allocator> allocator_;
  const ElementType* type_ = nullptr;
  std::atomic<bool> frozen_{false};
};

// Bytes or elements in a block, which may be shared with other roots.
class TensorBuffer::BlockBuffer final : public TensorBuffer {
 public:
  BlockBuffer(Kind kind, const void* base, size_t size_bytes, bool writable, const ElementType* type,
              RefPtr<Block> block)
      : TensorBuffer(kind, base, size_bytes, writable, type, std::move(block)) {}

 private:
  void ReleaseResources() override { DropMemory(); }
  const RefPtr<Allocator>& PrivateMemoryAllocator() const override {
    return static_cast<const Block*>(held_.get())->allocator();
  }
};

// Bytes, elements or a scalar in one block with the object:
//   | InlineBuffer | padding up to a multiple of kAlignment | data |
class TensorBuffer::InlineBuffer final : public TensorBuffer {
 public:
  // Null when memory is short.
  static InlineBuffer* New(Kind kind, size_t size_bytes, const ElementType* type) {
    constexpr size_t kOverhead = sizeof(InlineBuffer) + Allocator::kAlignment - __STDCPP_DEFAULT_NEW_ALIGNMENT__;
    void* const block = ::operator new(kOverhead + size_bytes, std::nothrow);
    if (block == nullptr) return nullptr;
    void* data = static_cast<char*>(block) + sizeof(InlineBuffer);
    size_t space = kOverhead + size_bytes - sizeof(InlineBuffer);
    data = std::align(Allocator::kAlignment, size_bytes, data, space);
    return new (block) InlineBuffer(kind, data, size_bytes, type);
  }

 private:
  InlineBuffer(Kind kind, void* data, size_t size_bytes, const ElementType* type)
      : TensorBuffer(kind, data, size_bytes, /*writable=*/true, type, nullptr) {}
  ~InlineBuffer() override { ReleaseResources(); }
  void ReleaseResources() override {
    if (type() != nullptr && base() != nullptr) type()->destroy(base(), size_bytes());
    DropMemory();
  }
  void Destroy() override {
    this->~InlineBuffer();
    ::operator delete(static_cast<void*>(this));
  }
};

class TensorBuffer::ExternalBuffer final : public TensorBuffer {
 public:
  explicit ExternalBuffer(External memory)
      : TensorBuffer(memory.kind, memory.data, memory.size_bytes, memory.writable, nullptr, nullptr),
        release_(std::move(memory.release)),
        allocator_(std::move(memory.allocator)),
        file_range_(memory.file_range) {}
  ~ExternalBuffer() override { ReleaseResources(); }

 private:
  void ReleaseResources() override {
    DropMemory();
    if (const std::function<void()> release = std::exchange(release_, nullptr)) release();
  }
  const RefPtr<Allocator>& PrivateMemoryAllocator() const override {
    return allocator_ ? allocator_ : CpuAllocator::Default();
  }
  FileRange ExternalFileRange() const override { return file_range_; }

  std::function<void()> release_;
  const RefPtr<Allocator> allocator_;
  const FileRange file_range_;
};

// Memory of a device: a block, which may be shared with other roots, or memory of another library. base() is null, so
// that each access by the host is refused.
class TensorBuffer::DeviceBuffer final : public TensorBuffer {
 public:
  DeviceBuffer(RefPtr<Block> block, size_t offset_bytes, size_t size_bytes, RefPtr<Allocator> allocator)
      : TensorBuffer(Kind::kDevice, nullptr, size_bytes, /*writable=*/false, nullptr, block),
        address_(static_cast<char*>(block->data()) + offset_bytes),
        allocator_(std::move(allocator)) {}
  explicit DeviceBuffer(External memory)
      : TensorBuffer(Kind::kDevice, nullptr, memory.size_bytes, /*writable=*/false, nullptr, nullptr),
        address_(static_cast<char*>(memory.data)),
        allocator_(std::move(memory.allocator)),
        external_(MakeRef<ExternalMemory>(std::move(memory.release))),
        writes_in_place_(memory.writable) {}
  ~DeviceBuffer() override { ReleaseResources(); }

  static const DeviceBuffer& RootOf(const TensorBuffer& buffer) {
    CASK_CHECK(buffer.kind() == Kind::kDevice, "the buffer is not in memory of a device");
    return *static_cast<const DeviceBuffer*>(buffer.root());
  }

  char* address() const { return address_; }
  DeviceMemory* memory() const { return allocator_->device_memory(); }

  absl::StatusOr<RefPtr<TensorBuffer>> ClonePart(size_t offset_bytes, size_t size_bytes) const {
    RefPtr<Block> shared = RefPtr<Block>::Adopt(static_cast<Block*>(ShareMemory().Release()));
    if (shared) {
      const auto block_offset = static_cast<size_t>(address_ - static_cast<char*>(shared->data())) + offset_bytes;
      return New(std::move(shared), block_offset, size_bytes, allocator_);
    }
    CASK_ASSIGN_OR_RETURN(RefPtr<TensorBuffer> copy, AllocateOnDevice(size_bytes, allocator_));
    CASK_RETURN_IF_ERROR(memory()->CopyWithin(RootOf(*copy).address_, address_ + offset_bytes, size_bytes));
    return copy;
  }

  bool WritesInPlace() const { return writes_in_place_ || (held_ && block()->IsWritable()); }
  // Sets whether writes go to the present address. Requires: the caller holds sharing_mutex.
  void SetWritesInPlace(bool in_place) const { writes_in_place_ = in_place; }

  absl::Status MakePrivate() {
    if (size_bytes() == 0 || WritesInPlace()) return absl::OkStatus();
    CASK_ASSIGN_OR_RETURN(RefPtr<Block> copy, Block::Allocate(size_bytes(), allocator_));
    CASK_RETURN_IF_ERROR(memory()->CopyWithin(copy->data(), address_, size_bytes()));
    address_ = static_cast<char*>(copy->data());
    held_ = std::move(copy);
    return absl::OkStatus();
  }

  static absl::StatusOr<RefPtr<TensorBuffer>> New(RefPtr<Block> block, size_t offset_bytes, size_t size_bytes,
                                                  const RefPtr<Allocator>& allocator) {
    auto* const buffer = new (std::nothrow) DeviceBuffer(std::move(block), offset_bytes, size_bytes, allocator);
    if (buffer == nullptr) return internal::NoBufferMemory(sizeof(DeviceBuffer), "new");
    return RefPtr<TensorBuffer>::AdoptNew(buffer);
  }

  absl::Status AddStream(int64_t stream) const {
    if (external_) {
      const std::lock_guard<std::mutex> lock(external_->mutex);
      if (stream != memory()->stream()) external_->streams.insert(stream);
    }
    return held_ ? memory()->RecordStream(block()->start(), stream) : absl::OkStatus();
  }

 private:
  // Released with the last reference.
  struct ExternalMemory final : public RefCounted {
    explicit ExternalMemory(std::function<void()> fn) : release(std::move(fn)) {}
    ~ExternalMemory() override {
      if (release) release();
    }

    const std::function<void()> release;
    std::mutex mutex;
    std::set<int64_t> streams;  // beside that of the allocator
  };

  void ReleaseResources() override {
    DropMemory();
    const RefPtr<RefCounted> external = std::move(external_);
    if (!external) return;
    const auto keep = [&](int64_t stream) {
      const auto until_done = [&] { return memory()->KeepUntilDone(external, stream); };
      if (CatchExceptions(until_done).ok()) return;
      static_cast<void>(CatchExceptions([&] { return memory()->Synchronize(stream); }));
    };
    keep(memory()->stream());
    for (const int64_t stream : static_cast<ExternalMemory*>(external.get())->streams) keep(stream);
  }
  const RefPtr<Allocator>& PrivateMemoryAllocator() const override { return allocator_; }

  char* address_;
  const RefPtr<Allocator> allocator_;
  RefPtr<ExternalMemory> external_;
  mutable bool writes_in_place_ = false;  // external memory that is writable, or after HoldWritableMemory
};

class TensorBuffer::NoDataBuffer final : public TensorBuffer {
 public:
  NoDataBuffer(size_t size_bytes, std::string message)
      : TensorBuffer(Kind::kNoData, nullptr, size_bytes, /*writable=*/false, nullptr, nullptr),
        message_(std::move(message)) {}

 private:
  absl::string_view NoDataMessage() const override { return message_; }

  const std::string message_;
};

class TensorBuffer::SubBuffer final : public TensorBuffer {
 public:
  SubBuffer(RefPtr<TensorBuffer> root, size_t offset_bytes, size_t size_bytes)
      : TensorBuffer(std::move(root), offset_bytes, size_bytes) {}

 private:
  void ReleaseResources() override { DropMemory(); }
};

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_INTERNAL_BUFFER_KINDS_H_
