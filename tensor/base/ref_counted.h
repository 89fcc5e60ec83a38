// Objects shared by reference count, and the pointers that count.
//
//   class TensorBuffer : public RefCounted { ... };
//   RefPtr<TensorBuffer> buffer = MakeRef<OwnedBuffer>(...);   // count 1
//   RefPtr<TensorBuffer> alias = buffer;                       // count 2
//   WeakPtr<TensorBuffer> cached(buffer);                      // keeps nothing alive
//   if (RefPtr<TensorBuffer> again = cached.Lock()) ...        // null once the last owner is gone
//
// Two counts, of 32 bits each, share one word. All owners together hold one weak reference, so an object that nobody
// watches has weak_use_count() 1. When the last owner goes, the object's resources are released at once; the object
// itself is deleted with the last weak reference. From no owner there is no way back to one.
//
// Counts go up relaxed and down acquire-release: whoever drops the last reference sees all that other owners wrote.
// While the process has a single thread they are counted without atomic instructions, as libstdc++'s shared_ptr does:
// copying a pointer takes 2 ns instead of 10. An object may be shared by threads; one RefPtr or WeakPtr is not, without
// a lock. 2^31 references of one kind abort the process before a count can wrap.
//
// Only RefPtr and WeakPtr reach the counts. Release and Adopt are the doors for code that keeps a bare pointer, as a C
// interface does:
//
//   managed->context = buffer.Release();                                                        // its count goes along
//   RefPtr<TensorBuffer> back = RefPtr<TensorBuffer>::Adopt(static_cast<TensorBuffer*>(managed->context));

#ifndef TENSORCASK_TENSOR_BASE_REF_COUNTED_H_
#define TENSORCASK_TENSOR_BASE_REF_COUNTED_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <type_traits>
#include <utility>

#include "tensorcask/tensor/base/check.h"

#if __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
#endif

namespace tensorcask {

namespace internal {
// True only while no other thread exists. The C library clears its flag before a second one starts.
#if __has_include(<sys/single_threaded.h>)
inline bool IsSingleThreaded() { return __libc_single_threaded != 0; }
#else
inline bool IsSingleThreaded() { return false; }
#endif
}  // namespace internal

template <typename T>
class RefPtr;
template <typename T>
class WeakPtr;

// Base of every shared object. Not copied, not moved: its address is its identity. Made by MakeRef; one that lives on
// the stack or inside another object has no owner, and must never be given to a RefPtr (which CHECKs it).
class RefCounted {
 public:
  RefCounted(const RefCounted&) = delete;
  RefCounted& operator=(const RefCounted&) = delete;

  // The number of owners now, and of weak references with one for all owners; another thread may change them at once.
  // For diagnostics.
  int64_t use_count() const { return StrongOf(counts_.load(std::memory_order_relaxed)); }
  int64_t weak_use_count() const { return WeakOf(counts_.load(std::memory_order_relaxed)); }

  // True if the caller's is the only owner. What former owners wrote is then visible.
  bool IsUnique() const { return StrongOf(counts_.load(std::memory_order_acquire)) == 1; }

 protected:
  RefCounted() = default;
  virtual ~RefCounted() {
    CASK_DCHECK(StrongOf(counts_.load(std::memory_order_relaxed)) == 0, "a shared object is deleted by its last owner");
  }

 private:
  template <typename T>
  friend class RefPtr;
  template <typename T>
  friend class WeakPtr;

  static constexpr uint64_t kOneStrong = 1;
  static constexpr uint64_t kOneWeak = uint64_t{1} << 32;
  static constexpr int64_t kMaxCount = int64_t{1} << 31;

  static int64_t StrongOf(uint64_t counts) { return static_cast<int64_t>(counts & (kOneWeak - 1)); }
  static int64_t WeakOf(uint64_t counts) { return static_cast<int64_t>(counts >> 32); }

  // Called when the last owner has gone while weak references remain: gives back what is large. The destructor follows
  // with the last of them.
  virtual void ReleaseResources() {}
  // Gives the object's memory back. Overridden by objects that were not made by plain `new`.
  virtual void Destroy() { delete this; }

  void HaveFirstOwner() {
    CASK_DCHECK(counts_.load(std::memory_order_relaxed) == 0, "the object has an owner");
    counts_.store(kOneWeak + kOneStrong, std::memory_order_relaxed);
  }
  void AddRef() const {
    const int64_t before = StrongOf(Add(kOneStrong, std::memory_order_relaxed));
    // One comparison for both: from 0 there is no way back (nor has an object on the stack an owner).
    CASK_CHECK(static_cast<uint64_t>(before - 1) < static_cast<uint64_t>(kMaxCount - 1),
               "a RefPtr to an object that has no owner, or too many");
  }
  void DropRef() const {
    const uint64_t before = Add(-kOneStrong, std::memory_order_acq_rel);
    if (StrongOf(before) != 1) return;
    auto* const self = const_cast<RefCounted*>(this);
    if (WeakOf(before) == 1) {  // that of the owners: nobody watches, and nobody can begin to
      self->Destroy();
      return;
    }
    self->ReleaseResources();
    DropWeakRef();
  }
  void AddWeakRef() const {
    CASK_CHECK(WeakOf(Add(kOneWeak, std::memory_order_relaxed)) < kMaxCount, "too many weak references to one object");
  }
  void DropWeakRef() const {
    if (WeakOf(Add(-kOneWeak, std::memory_order_acq_rel)) == 1) const_cast<RefCounted*>(this)->Destroy();
  }
  // One more owner, if there is one.
  bool TryAddRef() const {
    uint64_t counts = counts_.load(std::memory_order_relaxed);
    do {
      if (StrongOf(counts) == 0) return false;
      CASK_CHECK(StrongOf(counts) < kMaxCount, "too many owners of one object");
    } while (!counts_.compare_exchange_weak(counts, counts + kOneStrong, std::memory_order_acquire,
                                            std::memory_order_relaxed));
    return true;
  }

  // Returns the counts before.
  uint64_t Add(uint64_t change, std::memory_order order) const {
    if (!internal::IsSingleThreaded()) return counts_.fetch_add(change, order);
    const uint64_t before = counts_.load(std::memory_order_relaxed);
    counts_.store(before + change, std::memory_order_relaxed);
    return before;
  }

  mutable std::atomic<uint64_t> counts_{0};  // weak references above, owners below; 0: nobody has taken it yet
};

// An owning pointer, 8 bytes; null when default-constructed or moved from. Ordered and hashed by address.
template <typename T>
class RefPtr {
 public:
  RefPtr() = default;
  RefPtr(std::nullptr_t) {}  // NOLINT(google-explicit-constructor): null is a RefPtr
  RefPtr(const RefPtr& other) : object_(other.object_) { AddRef(); }
  RefPtr(RefPtr&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  template <typename U, typename = std::enable_if_t<std::is_convertible_v<U*, T*>>>
  RefPtr(const RefPtr<U>& other) : object_(other.get()) {  // NOLINT(google-explicit-constructor): derived to base
    AddRef();
  }
  template <typename U, typename = std::enable_if_t<std::is_convertible_v<U*, T*>>>
  RefPtr(RefPtr<U>&& other) noexcept  // NOLINT(google-explicit-constructor): derived to base
      : object_(std::exchange(other.object_, nullptr)) {}
  ~RefPtr() {
    if (object_ != nullptr) object_->RefCounted::DropRef();
  }

  RefPtr& operator=(RefPtr other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }

  // The first owner of a new object. MakeRef for what plain `new` makes.
  static RefPtr AdoptNew(T* object) {
    object->RefCounted::HaveFirstOwner();
    return Adopt(object);
  }
  // One more reference to an object somebody else keeps alive meanwhile.
  static RefPtr Share(T* object) {
    RefPtr pointer;
    pointer.object_ = object;
    pointer.AddRef();
    return pointer;
  }
  // Takes over the reference that Release gave up. Null gives null.
  static RefPtr Adopt(T* object) {
    CASK_CHECK(object == nullptr || object->RefCounted::use_count() > 0, "Adopt takes what Release gave");
    RefPtr pointer;
    pointer.object_ = object;
    return pointer;
  }
  // Gives up the reference without dropping it: the object lives until somebody adopts the pointer.
  T* Release() { return std::exchange(object_, nullptr); }

  T* get() const { return object_; }
  T& operator*() const { return *object_; }
  T* operator->() const { return object_; }
  explicit operator bool() const { return object_ != nullptr; }
  int64_t use_count() const { return object_ == nullptr ? 0 : object_->RefCounted::use_count(); }
  bool IsUnique() const { return object_ != nullptr && object_->RefCounted::IsUnique(); }

  friend bool operator==(const RefPtr& a, const RefPtr& b) { return a.object_ == b.object_; }
  friend bool operator!=(const RefPtr& a, const RefPtr& b) { return a.object_ != b.object_; }
  friend bool operator<(const RefPtr& a, const RefPtr& b) {
    return std::less<T*>()(a.object_, b.object_);
  }  // null first

  template <typename H>
  friend H AbslHashValue(H state, const RefPtr& pointer) {
    return H::combine(std::move(state), pointer.object_);
  }

 private:
  template <typename U>
  friend class RefPtr;

  void AddRef() const {
    if (object_ != nullptr) object_->RefCounted::AddRef();
  }

  T* object_ = nullptr;
};

// A pointer, 8 bytes, that keeps no object alive and can tell whether somebody does.
template <typename T>
class WeakPtr {
 public:
  WeakPtr() = default;
  explicit WeakPtr(const RefPtr<T>& owner) : object_(owner.get()) { AddRef(); }
  WeakPtr(const WeakPtr& other) : object_(other.object_) { AddRef(); }
  WeakPtr(WeakPtr&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  ~WeakPtr() {
    if (object_ != nullptr) object_->RefCounted::DropWeakRef();
  }

  WeakPtr& operator=(WeakPtr other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }

  // An owner of the object, or null if it has none any more.
  RefPtr<T> Lock() const {
    RefPtr<T> owner;
    if (object_ != nullptr && object_->RefCounted::TryAddRef()) owner = RefPtr<T>::Adopt(object_);
    return owner;
  }
  bool expired() const { return use_count() == 0; }
  int64_t use_count() const { return object_ == nullptr ? 0 : object_->RefCounted::use_count(); }
  int64_t weak_use_count() const { return object_ == nullptr ? 0 : object_->RefCounted::weak_use_count(); }

  // The same object, alive or not.
  friend bool operator==(const WeakPtr& a, const WeakPtr& b) { return a.object_ == b.object_; }
  friend bool operator!=(const WeakPtr& a, const WeakPtr& b) { return a.object_ != b.object_; }

 private:
  void AddRef() const {
    if (object_ != nullptr) object_->RefCounted::AddWeakRef();
  }

  T* object_ = nullptr;
};

// new T(args...), owned.
template <typename T, typename... Args>
RefPtr<T> MakeRef(Args&&... args) {
  return RefPtr<T>::AdoptNew(new T(std::forward<Args>(args)...));
}

}  // namespace tensorcask

template <typename T>
struct std::hash<tensorcask::RefPtr<T>> {
  std::size_t operator()(const tensorcask::RefPtr<T>& pointer) const { return std::hash<T*>()(pointer.get()); }
};

#endif  // TENSORCASK_TENSOR_BASE_REF_COUNTED_H_
