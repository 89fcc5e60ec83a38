#include "tensorcask/tensor/buffer.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
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

namespace tensorcask {
namespace {

// Buffers up to this size stand in one block with their object. It keeps the block within what the C library hands out
// from a thread's own list (1032 bytes in glibc).
constexpr size_t kMaxInlineBytes = 896;

absl::Status OutOfMemory(size_t size_bytes, absl::string_view allocator_name) {
  return absl::ResourceExhaustedError(
      absl::StrCat("no memory for ", size_bytes, " bytes from allocator \"", allocator_name, "\""));
}

// Bytes or elements in a block of their own.
class OwnedBuffer final : public TensorBuffer {
 public:
  OwnedBuffer(Kind kind, void* data, size_t size_bytes, const ElementType* type, const RefPtr<Allocator>& allocator)
      : TensorBuffer(kind, data, size_bytes, /*writable=*/true), data_(data), type_(type), allocator_(allocator) {}
  ~OwnedBuffer() override {
    if (type_ != nullptr) type_->destroy(data_, size_bytes());
    allocator_->Deallocate(data_, size_bytes());
  }

 private:
  absl::string_view RootAllocatorName() const override { return allocator_->name(); }
  const ElementType* RootElementType() const override { return type_; }

  void* const data_;
  const ElementType* const type_;
  const RefPtr<Allocator> allocator_;
};

// Bytes, elements or a scalar in one block with the object:
//   | InlineBuffer | padding up to a multiple of kAlignment | data |
class InlineBuffer final : public TensorBuffer {
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
      : TensorBuffer(kind, data, size_bytes, /*writable=*/true), data_(data), type_(type) {}
  ~InlineBuffer() override {
    if (type_ != nullptr) type_->destroy(data_, size_bytes());
  }
  void Destroy() override {
    this->~InlineBuffer();
    ::operator delete(static_cast<void*>(this));
  }

  absl::string_view RootAllocatorName() const override {
    return kind() == Kind::kScalar ? absl::string_view() : CpuAllocator::Default()->name();
  }
  const ElementType* RootElementType() const override { return type_; }

  void* const data_;
  const ElementType* const type_;
};

class ExternalBuffer final : public TensorBuffer {
 public:
  explicit ExternalBuffer(External memory)
      : TensorBuffer(memory.kind, memory.data, memory.size_bytes, memory.writable),
        release_(std::move(memory.release)),
        allocator_(std::move(memory.allocator)) {}
  ~ExternalBuffer() override {
    if (release_) release_();
  }

 private:
  const RefPtr<Allocator>& PrivateMemoryAllocator() const override {
    return allocator_ ? allocator_ : CpuAllocator::Default();
  }

  const std::function<void()> release_;
  const RefPtr<Allocator> allocator_;
};

class SubBuffer final : public TensorBuffer {
 public:
  SubBuffer(RefPtr<TensorBuffer> root, size_t offset_bytes, size_t size_bytes)
      : TensorBuffer(std::move(root), offset_bytes, size_bytes) {}
};

}  // namespace

TensorBuffer::TensorBuffer(Kind kind, void* base, size_t size_bytes, bool writable)
    : root_(this), base_(base), offset_bytes_(0), size_bytes_(size_bytes), kind_(kind), writable_(writable) {}

TensorBuffer::TensorBuffer(RefPtr<TensorBuffer> root, size_t offset_bytes, size_t size_bytes)
    : root_(root.get()),
      base_(nullptr),
      offset_bytes_(offset_bytes),
      size_bytes_(size_bytes),
      kind_(root->kind_),
      writable_(false),
      held_(std::move(root)) {}

absl::StatusOr<RefPtr<TensorBuffer>> TensorBuffer::Allocate(size_t size_bytes, const RefPtr<Allocator>& allocator) {
  return AllocateRaw(Kind::kBytes, size_bytes, nullptr, allocator);
}

absl::StatusOr<RefPtr<TensorBuffer>> TensorBuffer::AllocateRaw(Kind kind, size_t size_bytes, const ElementType* type,
                                                               const RefPtr<Allocator>& allocator) {
  // No bytes are asked of no allocator.
  if (size_bytes == 0 || (size_bytes <= kMaxInlineBytes && allocator == CpuAllocator::Default())) {
    InlineBuffer* const buffer = InlineBuffer::New(kind, size_bytes, type);
    if (buffer == nullptr) return OutOfMemory(size_bytes, allocator->name());
    return RefPtr<TensorBuffer>::AdoptNew(buffer);
  }
  void* const data = allocator->Allocate(size_bytes);
  if (data == nullptr) return OutOfMemory(size_bytes, allocator->name());
  OwnedBuffer* const buffer = new (std::nothrow) OwnedBuffer(kind, data, size_bytes, type, allocator);
  if (buffer == nullptr) {
    allocator->Deallocate(data, size_bytes);
    return OutOfMemory(sizeof(OwnedBuffer), "new");
  }
  return RefPtr<TensorBuffer>::AdoptNew(buffer);
}

RefPtr<TensorBuffer> TensorBuffer::MakeScalarBytes(const void* value, size_t size_bytes) {
  InlineBuffer* const buffer = InlineBuffer::New(Kind::kScalar, size_bytes, nullptr);
  CASK_CHECK(buffer != nullptr, "no memory for a scalar");
  std::memcpy(buffer->base_, value, size_bytes);
  return RefPtr<TensorBuffer>::AdoptNew(buffer);
}

RefPtr<TensorBuffer> TensorBuffer::WrapExternal(External memory) {
  CASK_CHECK(memory.kind == Kind::kExternal || memory.kind == Kind::kMapped,
             "WrapExternal makes buffers of kind kExternal and kMapped only");
  CASK_CHECK(memory.data != nullptr || memory.size_bytes == 0, "WrapExternal: null data with a size");
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

absl::Status TensorBuffer::CopyToPrivateMemory() {
  CASK_ASSIGN_OR_RETURN(RefPtr<TensorBuffer> copy, Allocate(size_bytes_, PrivateMemoryAllocator()));
  if (size_bytes_ > 0) std::memcpy(copy->base_, base_, size_bytes_);
  base_ = copy->base_;
  held_ = std::move(copy);
  writable_ = true;
  return absl::OkStatus();
}

void TensorBuffer::CopyToPrivateMemoryOrDie() {
  const absl::Status status = CopyToPrivateMemory();
  CASK_CHECK(status.ok(), std::string(status.message()).c_str());
}

bool TensorBuffer::IsExclusive() const {
  const bool ours = (root_->kind_ != Kind::kExternal && root_->kind_ != Kind::kMapped) || root_->held_;
  return ours && IsUnique() && root_->IsUnique();
}

}  // namespace tensorcask
