// The memory behind tensors, shared by reference count.
//
//   absl::StatusOr<RefPtr<TensorBuffer>> root = TensorBuffer::Allocate(4096);
//   RefPtr<TensorBuffer> row = TensorBuffer::MakeSubBuffer(*root, /*offset_bytes=*/1024, /*size_bytes=*/256);
//   row->root() == root->get()           // true; a sub-buffer of a sub-buffer has the same root
//   absl::StatusOr<RefPtr<TensorBuffer>> copy = row->LazyClone();   // 256 bytes, copied on the first write to either
//
// A buffer is either a *root*, which has the memory, or a *sub-buffer*: a range of a root, stored as root and byte
// offset and never as a pointer, because a root may move to other memory (below). The kind of a buffer never changes:
//
//   kind       memory                                            made by
//   kBytes     from an Allocator                                 Allocate
//   kElements  the same, holding constructed C++ objects         AllocateElements<std::string>
//   kScalar    one value inside the buffer object itself         MakeScalar
//   kExternal  owned by the caller; a callback releases it       WrapExternal
//   kMapped    a mapped file (made in serialize/io), or shared   WrapExternal
//              memory from another process (serialize/exchange)
//   kNoData    none: the buffer has a size and a message, which  MakeWithoutData
//              every access to the data reports
//   kDevice    memory of a device, allocated or external         Allocate, WrapExternal
//
// The host cannot access the data of a kDevice buffer: data() and mutable_data() CHECK, CheckReadable and EnsureMutable
// return FailedPrecondition. device_data() is its address on the device. LazyClone works, and the copy that it delays
// is made on the device.
//
// Copy on write. LazyClone makes another root on the same memory. The first mutable access to one of the two roots
// gives it private memory. All tensors on that root see the new memory; the other root keeps the old one. The last root
// on some memory writes in place. Memory that must not be written (a mapped file, external memory wrapped read-only,
// memory shared with another process) is replaced in the same way. A pointer taken before a LazyClone, or before the
// first mutable access, must not be used for writing; it stays readable while a buffer on that memory exists.
//
// Several threads may call const methods at once, LazyClone included. mutable_data and EnsureMutable, like writing,
// must be the only use of the root at that time. Roots that share memory do not disturb each other.

#ifndef TENSORCASK_TENSOR_BUFFER_H_
#define TENSORCASK_TENSOR_BUFFER_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/device.h"
#include "tensorcask/tensor/device_memory.h"

namespace tensorcask {

class TensorBuffer : public RefCounted {
 public:
  enum class Kind : uint8_t { kBytes, kElements, kScalar, kExternal, kMapped, kNoData, kDevice };

  // `size_bytes` uninitialised bytes, aligned to Allocator::kAlignment. Small blocks of the default allocator share one
  // allocation with the buffer object.
  // Errors: those of Allocator::TryAllocate.
  static absl::StatusOr<RefPtr<TensorBuffer>> Allocate(size_t size_bytes,
                                                       const RefPtr<Allocator>& allocator = CpuAllocator::Default());

  // `count` value-initialised objects, destroyed with the buffer. T's default constructor must not throw.
  // Errors: those of Allocate; InvalidArgument if count * sizeof(T) overflows, or if the allocator is a device's.
  template <typename T>
  static absl::StatusOr<RefPtr<TensorBuffer>> AllocateElements(
      size_t count, const RefPtr<Allocator>& allocator = CpuAllocator::Default());

  // A buffer of a size but without memory, for a tensor of which only the geometry is known. `message` says why there
  // is no data, and what to do about it.
  static RefPtr<TensorBuffer> MakeWithoutData(size_t size_bytes, std::string message);

  // One value of a fixed-size type, in the same allocation as the buffer object.
  template <typename T>
  static RefPtr<TensorBuffer> MakeScalar(T value);

  // An offset in an open file.
  struct FileRange {
    int descriptor = -1;
    uint64_t offset_bytes = 0;
  };

  struct External {
    void* data = nullptr;
    size_t size_bytes = 0;
    bool writable = true;  // false: the first mutable access copies
    Kind kind = Kind::kExternal;
    std::function<void()> release;  // called once, after the last reference is dropped; may be empty
    RefPtr<Allocator> allocator;    // for the copy that EnsureMutable makes; null: CpuAllocator::Default()
    FileRange file_range = {};      // where the data is in a file that another process may map; open until `release`
  };
  // With Kind::kDevice, `data` is an address on the device of `allocator`, which is then required. After the last
  // reference is dropped, `release` waits for the work that is then on the stream of the allocator's DeviceMemory and
  // on the streams given to RecordStream. If there is none it is called at once. Otherwise the next call to that
  // DeviceMemory or the allocator after the end of the work calls it, on the thread of that call.
  static RefPtr<TensorBuffer> WrapExternal(External memory);

  // Bytes [offset_bytes, offset_bytes + size_bytes) of `parent`. Requires: they lie inside it.
  static RefPtr<TensorBuffer> MakeSubBuffer(const RefPtr<TensorBuffer>& parent, size_t offset_bytes, size_t size_bytes);

  // Bytes [offset_bytes, offset_bytes + size_bytes) of this buffer as a root of their own. The memory is shared, and
  // copied later, if it is a separate block from an Allocator. Memory inside a buffer object (up to 896 bytes) and
  // memory of others (external, mapped) is copied at once. Objects are always cloned as a whole buffer.
  // Errors: ResourceExhausted; FailedPrecondition without data; Unimplemented for objects that cannot be copied.
  absl::StatusOr<RefPtr<TensorBuffer>> LazyClone(size_t offset_bytes, size_t size_bytes) const;
  absl::StatusOr<RefPtr<TensorBuffer>> LazyClone() const { return LazyClone(0, size_bytes_); }

  // CHECKs that the buffer has data; CheckReadable tells beforehand. Null only for external memory of 0 bytes.
  const void* data() const {
    if (__builtin_expect(root_->base_ == nullptr, 0)) return root_->NullData();
    return static_cast<const char*>(root_->base_) + offset_bytes_;
  }
  // True if the address of the data is a multiple of `alignment`; without data, if offset_bytes() is.
  bool IsAlignedTo(size_t alignment) const {
    return (reinterpret_cast<uintptr_t>(root_->base_) + offset_bytes_) % alignment == 0;
  }
  size_t size_bytes() const { return size_bytes_; }
  absl::string_view bytes() const { return {static_cast<const char*>(data()), size_bytes_}; }

  // Errors: FailedPrecondition for kNoData, with the message given to MakeWithoutData, and for kDevice.
  absl::Status CheckReadable() const {
    return kind() == Kind::kNoData || kind() == Kind::kDevice ? Unreadable() : absl::OkStatus();
  }
  // Gives the root private, writable memory, with a copy if needed.
  // Errors, and nothing has changed: ResourceExhausted; FailedPrecondition without data; Unimplemented for objects that
  // cannot be copied.
  absl::Status EnsureMutable() { return root_->writable_ ? absl::OkStatus() : root_->MakeWritable(); }
  // True if EnsureMutable has nothing to do. Like EnsureMutable, this must be the only use of the root at that time.
  bool HasWritableMemory() { return root_->writable_; }
  // Makes the memory writable as EnsureMutable does, CHECKs that this succeeds, and returns the address.
  void* mutable_data() {
    if (__builtin_expect(!root_->writable_, 0)) root_->MakeWritableOrDie();
    // One writer at a time: no read-modify-write.
    root_->version_.store(root_->version_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    return static_cast<char*>(root_->base_) + offset_bytes_;
  }

  // Where the data is: the host (Device()), except for kDevice.
  Device device() const { return kind() == Kind::kDevice ? device_memory()->device() : Device(); }
  // How the host reaches the data of kDevice; null for other kinds. Lives as long as the memory.
  DeviceMemory* device_memory() const;
  // The address on the device, for work that reads. Requires: kDevice.
  const void* device_data() const;
  // The address on the device, for work that writes. Gives the root private memory first, with a copy that is work of
  // device_memory()->stream(). Counts as a write. Requires: kDevice.
  // Errors, and nothing has changed: ResourceExhausted; errors of the device.
  absl::StatusOr<void*> MutableDeviceData();
  // Delays the reuse of the memory, or `release` of external memory, until the work has finished that is on `stream`
  // when it is freed (DeviceMemory::RecordStream). Requires: kDevice.
  absl::Status RecordStream(int64_t stream) const;

  // How often mutable_data was called on this root or its sub-buffers. If the number is unchanged, the data was not
  // written since, except through pointers that were taken before (pointers given to other libraries included).
  uint64_t version() const { return root_->version_.load(std::memory_order_relaxed); }

  bool is_root() const { return root_ == this; }
  TensorBuffer* root() const { return root_; }
  size_t offset_bytes() const { return offset_bytes_; }  // from the start of the root
  Kind kind() const { return root_->kind_; }
  // The allocator for copies of this memory: its own, or that of WrapExternal.
  const RefPtr<Allocator>& copy_allocator() const { return root_->PrivateMemoryAllocator(); }
  absl::string_view allocator_name() const;  // "" for scalars, for external and mapped memory, and without data
  Allocator::BlockInfo block_info() const;   // the block that the root uses, if an allocator records it

  // While the result exists, the bytes now at data() stay readable at their address, even if this root or its lazy
  // clones move to other memory: for pointers that leave the library. (A reference to the root is not enough: it keeps
  // whatever memory the root has at the time.)
  RefPtr<RefCounted> HoldMemory() const;
  // The same for pointers through which the memory may be written; null unless IsWritableInPlace(). Until the next
  // LazyClone, writes to this root stay at the present address although the result shares its memory. version() counts
  // the call as one write. Other threads may call const methods meanwhile, LazyClone included.
  RefPtr<RefCounted> HoldWritableMemory() const;

  // The range of an open file that has the bytes now at data(), if another process can map it: for memory from an
  // allocator with Allocator::DescriptorOf, and for external memory wrapped with a file_range. Never for objects:
  // their pointers are meaningless in another process. The memory owns the descriptor: a caller who needs it for longer
  // than HoldMemory() duplicates it.
  std::optional<FileRange> file_range() const;

  // For memory that is shared with another process: from now on it is never written in place. The first mutable access
  // to this root, or to a lazy clone on the same memory, copies, even if no other root uses it. Requires: file_range().
  void FreezeMemory() const;

  // True if a write to this root would change the bytes at their present address, without a copy.
  bool IsWritableInPlace() const;

  // True if the root is kElements and made by AllocateElements<T>.
  template <typename T>
  bool HoldsElements() const {
    return root_->type_ == &kElementTypeOf<T>;
  }

  // True if the caller's is the only reference to this buffer, to its root and to the memory, and the memory is neither
  // frozen nor external (a private copy that replaced such memory counts as neither).
  bool IsExclusive() const;

 protected:
  // How the objects of a kElements root are destroyed and copied. The address identifies their type: kElementTypeOf.
  struct ElementType {
    size_t size_bytes;
    void (*destroy)(void* data, size_t size_bytes);
    void (*copy)(const void* from, size_t size_bytes, void* to);  // to uninitialised memory; null: cannot be copied
  };

  // A root. `held` keeps its memory alive, if that is not part of the object.
  TensorBuffer(Kind kind, const void* base, size_t size_bytes, bool writable, const ElementType* type,
               RefPtr<RefCounted> held);
  TensorBuffer(RefPtr<TensorBuffer> root, size_t offset_bytes, size_t size_bytes);
  ~TensorBuffer() override = default;

  void* base() const { return base_; }
  const ElementType* type() const { return type_; }
  // Drops the references of this buffer. It is not read afterwards.
  void DropMemory() {
    base_ = nullptr;
    held_ = nullptr;
  }

 private:
  class Block;
  class BlockBuffer;
  class DeviceBuffer;
  class ExternalBuffer;
  class InlineBuffer;
  class NoDataBuffer;
  class SubBuffer;

  template <typename T>
  static void DestroyElements(void* data, size_t size_bytes) {
    std::destroy_n(static_cast<T*>(data), size_bytes / sizeof(T));
  }
  template <typename T>
  static void CopyElements(const void* from, size_t size_bytes, void* to) {
    std::uninitialized_copy_n(static_cast<const T*>(from), size_bytes / sizeof(T), static_cast<T*>(to));
  }
  template <typename T>
  static constexpr auto CopierOf() -> void (*)(const void*, size_t, void*) {
    if constexpr (std::is_copy_constructible_v<T>) {
      return &CopyElements<T>;
    } else {
      return nullptr;
    }
  }
  template <typename T>
  static constexpr ElementType kElementTypeOf = {sizeof(T), &DestroyElements<T>, CopierOf<T>()};

  static absl::StatusOr<RefPtr<TensorBuffer>> AllocateRaw(Kind kind, size_t size_bytes, const ElementType* type,
                                                          const RefPtr<Allocator>& allocator);
  static RefPtr<TensorBuffer> MakeScalarBytes(const void* value, size_t size_bytes);
  static absl::Status ElementsTooLarge(size_t count, size_t element_bytes);

  static absl::StatusOr<RefPtr<TensorBuffer>> AllocateOnDevice(size_t size_bytes, const RefPtr<Allocator>& allocator);
  static absl::StatusOr<RefPtr<TensorBuffer>> MakeBlockBuffer(Kind kind, const void* base, size_t size_bytes,
                                                              bool writable, const ElementType* type,
                                                              RefPtr<Block> block);

  absl::Status Unreadable() const;  // the error of CheckReadable

  // The next three: for a root.
  absl::Status MakeWritable();
  void MakeWritableOrDie();
  const void* NullData() const;
  // The next two: for a root, while sharing_mutex is held.
  bool IsWritableInPlaceLocked() const;
  RefPtr<RefCounted> HoldMemoryLocked() const;
  // The next two: for a root.
  RefPtr<RefCounted> ShareMemory() const;  // what LazyClone shares, from now on read-only here; null: it must copy
  Block* block() const;                    // held_ of a root, as a block; null if its memory is not a block
  virtual const RefPtr<Allocator>& PrivateMemoryAllocator() const { return CpuAllocator::Default(); }
  virtual FileRange ExternalFileRange() const { return {}; }  // while held_ is null
  virtual absl::string_view NoDataMessage() const { return ""; }

  TensorBuffer* const root_;   // this, for a root
  void* base_;                 // roots: the memory now in use
  const size_t offset_bytes_;  // from the root's base_
  const size_t size_bytes_;
  const ElementType* const type_;     // roots of kind kElements
  std::atomic<uint64_t> version_{0};  // roots: what version() returns
  // Sub-buffers: the root. Roots: the block that base_ points into, shared with lazy clones; null if base_ points into
  // this object or to external memory.
  RefPtr<RefCounted> held_;
  const Kind kind_;
  mutable bool writable_;  // roots: base_ may be written. LazyClone clears it, under a lock, also of a const buffer
};

// ---------------------------------------------------------------------------------------------------------------------

template <typename T>
absl::StatusOr<RefPtr<TensorBuffer>> TensorBuffer::AllocateElements(size_t count, const RefPtr<Allocator>& allocator) {
  static_assert(std::is_nothrow_default_constructible_v<T>, "elements are made without exceptions");
  static_assert(alignof(T) <= Allocator::kAlignment);
  if (count > SIZE_MAX / sizeof(T)) return ElementsTooLarge(count, sizeof(T));
  absl::StatusOr<RefPtr<TensorBuffer>> buffer =
      AllocateRaw(Kind::kElements, count * sizeof(T), &kElementTypeOf<T>, allocator);
  if (buffer.ok()) std::uninitialized_value_construct_n(static_cast<T*>((*buffer)->base_), count);
  return buffer;
}

template <typename T>
RefPtr<TensorBuffer> TensorBuffer::MakeScalar(T value) {
  static_assert(std::is_trivially_copyable_v<T>, "objects are elements, not scalars");
  return MakeScalarBytes(&value, sizeof(T));
}

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_BUFFER_H_
