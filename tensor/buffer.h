// The memory behind tensors, shared by reference count.
//
//   absl::StatusOr<RefPtr<TensorBuffer>> root = TensorBuffer::Allocate(4096);
//   RefPtr<TensorBuffer> row = TensorBuffer::MakeSubBuffer(*root, /*offset_bytes=*/1024, /*size_bytes=*/256);
//   row->root() == root->get()           // true; a sub-buffer of a sub-buffer has the same root
//
// A buffer is either a *root*, which has the memory, or a *sub-buffer*: a range of a root, kept as root and byte
// offset and never as a pointer, because a root may move to other memory (below). What it is does not change in its
// life:
//
//   kind       memory                                            made by
//   kBytes     from an Allocator                                 Allocate
//   kElements  the same, holding objects that are constructed    AllocateElements<std::string>
//   kScalar    one value inside the buffer object itself         MakeScalar
//   kExternal  somebody else's, given back by a callback         WrapExternal
//   kMapped    a mapped file (made in serialize/io)              WrapExternal
//
// Memory that must not be written (a mapped file, external memory wrapped read-only) is copied on the first mutable
// access: EnsureMutable puts private memory under the root, which every tensor on this root then sees, and leaves the
// original untouched. Pointers taken before must not be written through; they stay readable while the buffer lives.
//
// Const methods are safe together. mutable_data and EnsureMutable need the root to themselves, as writing does.

#ifndef TENSORCASK_TENSOR_BUFFER_H_
#define TENSORCASK_TENSOR_BUFFER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"

namespace tensorcask {

class TensorBuffer : public RefCounted {
 public:
  enum class Kind : uint8_t { kBytes, kElements, kScalar, kExternal, kMapped };

  // `size_bytes` uninitialised bytes, aligned to Allocator::kAlignment. Small blocks of the default allocator share one
  // allocation with the buffer object. Errors: ResourceExhausted, naming the size, when the allocator gives null.
  static absl::StatusOr<RefPtr<TensorBuffer>> Allocate(size_t size_bytes,
                                                       const RefPtr<Allocator>& allocator = CpuAllocator::Default());

  // `count` value-initialised objects, destroyed with the buffer. T's default constructor must not throw.
  // Errors: as Allocate; InvalidArgument if count * sizeof(T) overflows.
  template <typename T>
  static absl::StatusOr<RefPtr<TensorBuffer>> AllocateElements(
      size_t count, const RefPtr<Allocator>& allocator = CpuAllocator::Default());

  // One value of a fixed-size type, in the same allocation as the buffer object.
  template <typename T>
  static RefPtr<TensorBuffer> MakeScalar(T value);

  struct External {
    void* data = nullptr;
    size_t size_bytes = 0;
    bool writable = true;  // false: the first mutable access copies
    Kind kind = Kind::kExternal;
    std::function<void()> release;  // called once, when the last reference is gone; may be empty
    RefPtr<Allocator> allocator;    // of the copy that EnsureMutable makes; null: CpuAllocator::Default()
  };
  static RefPtr<TensorBuffer> WrapExternal(External memory);

  // Bytes [offset_bytes, offset_bytes + size_bytes) of `parent`. Requires: they lie inside it.
  static RefPtr<TensorBuffer> MakeSubBuffer(const RefPtr<TensorBuffer>& parent, size_t offset_bytes, size_t size_bytes);

  const void* data() const { return static_cast<const char*>(root_->base_) + offset_bytes_; }
  size_t size_bytes() const { return size_bytes_; }
  absl::string_view bytes() const { return {static_cast<const char*>(data()), size_bytes_}; }

  // Private, writable memory under the root, copying if need be. Errors: ResourceExhausted, and nothing has changed.
  absl::Status EnsureMutable() { return root_->writable_ ? absl::OkStatus() : root_->CopyToPrivateMemory(); }
  // The same; CHECKs that the memory could be had.
  void* mutable_data() {
    if (__builtin_expect(!root_->writable_, 0)) root_->CopyToPrivateMemoryOrDie();
    return static_cast<char*>(root_->base_) + offset_bytes_;
  }

  bool is_root() const { return root_ == this; }
  TensorBuffer* root() const { return root_; }
  size_t offset_bytes() const { return offset_bytes_; }  // from the start of the root
  Kind kind() const { return root_->kind_; }
  absl::string_view allocator_name() const { return root_->RootAllocatorName(); }  // "" for scalars, external memory

  // True if the root is kElements and made by AllocateElements<T>.
  template <typename T>
  bool HoldsElements() const {
    return root_->RootElementType() == &kElementTypeOf<T>;
  }

  // True if nobody else can see this memory and it is ours: the only reference to this buffer, to its root, and not
  // external (unless EnsureMutable has put private memory in its place).
  bool IsExclusive() const;

 protected:
  // What is known of the objects of a kElements root. Its address stands for the type: see kElementTypeOf.
  struct ElementType {
    void (*destroy)(void* data, size_t size_bytes);
  };

  TensorBuffer(Kind kind, void* base, size_t size_bytes, bool writable);  // a root
  TensorBuffer(RefPtr<TensorBuffer> root, size_t offset_bytes, size_t size_bytes);
  ~TensorBuffer() override = default;

 private:
  template <typename T>
  static void DestroyElements(void* data, size_t size_bytes) {
    std::destroy_n(static_cast<T*>(data), size_bytes / sizeof(T));
  }
  template <typename T>
  static constexpr ElementType kElementTypeOf = {&DestroyElements<T>};

  static absl::StatusOr<RefPtr<TensorBuffer>> AllocateRaw(Kind kind, size_t size_bytes, const ElementType* type,
                                                          const RefPtr<Allocator>& allocator);
  static RefPtr<TensorBuffer> MakeScalarBytes(const void* value, size_t size_bytes);
  static absl::Status ElementsTooLarge(size_t count, size_t element_bytes);

  // Of a root.
  absl::Status CopyToPrivateMemory();
  void CopyToPrivateMemoryOrDie();
  virtual absl::string_view RootAllocatorName() const { return ""; }
  virtual const ElementType* RootElementType() const { return nullptr; }
  virtual const RefPtr<Allocator>& PrivateMemoryAllocator() const { return CpuAllocator::Default(); }

  TensorBuffer* const root_;   // this, for a root
  void* base_;                 // roots: the memory now in use
  const size_t offset_bytes_;  // from the root's base_
  const size_t size_bytes_;
  const Kind kind_;
  bool writable_;              // roots: base_ may be written
  RefPtr<TensorBuffer> held_;  // sub-buffers: the root; roots: what EnsureMutable put in place of read-only memory
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
  static_assert(std::is_trivially_copyable_v<T>, "strings are elements, not scalars");
  return MakeScalarBytes(&value, sizeof(T));
}

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_BUFFER_H_
