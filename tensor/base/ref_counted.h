// Objects shared by reference counting, and the pointers that count.
//
//   class Node : public RefCounted { ... };
//   RefPtr<Node> node = MakeRef<Node>();            // count 1; arguments are those of a constructor
//   RefPtr<Node> alias = node;                      // count 2
//   WeakPtr<Node> cached(node);                     // does not keep the object alive
//   if (RefPtr<Node> again = cached.Lock()) ...     // null after the last owner is gone
//
// Two counts of 32 bits each share one word: the owners (RefPtr), and the weak references (WeakPtr) plus one for all
// owners together. So an object without any WeakPtr has weak_use_count() 1. When the last owner goes, the object's
// resources are released at once; the object itself is deleted with the last weak reference. An object that has lost
// its last owner never gets another one.
//
// Counts are incremented relaxed and decremented acquire-release: the thread that drops the last reference sees all
// that other owners wrote. While the process has a single thread, counting uses no atomic instructions, as in
// libstdc++'s shared_ptr: copying a pointer takes 2 ns instead of 10. Threads may share an object, each with its own
// RefPtr or WeakPtr; sharing one RefPtr or WeakPtr needs a lock. At 2^31 references of one kind the process aborts,
// before a count can wrap.
//
// Only RefPtr and WeakPtr change the counts. Release and Adopt are for code that stores a bare pointer, such as a C
// interface:
//
//   context = node.Release();                                             // a void*, which carries the count
//   RefPtr<Node> back = RefPtr<Node>::Adopt(static_cast<Node*>(context));

#ifndef TENSORCASK_TENSOR_BASE_REF_COUNTED_H_
#define TENSORCASK_TENSOR_BASE_REF_COUNTED_H_

#include "tensorcask/tensor/base/cxx17.h"

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
// True only while the process has one thread. The C library clears its flag before a second thread starts.
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

// Base of every shared object. It is neither copied nor moved: its address is its identity. MakeRef makes one. An
// object on the stack or inside another object has no owner, and must never be given to a RefPtr (which CHECKs it).
class RefCounted {
 public:
  RefCounted(const RefCounted&) = delete;
  RefCounted& operator=(const RefCounted&) = delete;

  // The number of owners, and the number of weak references plus one for all owners. For diagnostics: another thread
  // may change them at any time.
  int64_t use_count() const { return StrongOf(counts_.load(std::memory_order_relaxed)); }
  int64_t weak_use_count() const { return WeakOf(counts_.load(std::memory_order_relaxed)); }

  // True if the caller is the only owner. All that former owners wrote is then visible.
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

  // Called when the last owner has gone while weak references remain: releases large members. The destructor runs when
  // the last weak reference goes.
  virtual void ReleaseResources() {}
  // Deletes the object. Overridden by objects that were not made by plain `new`.
  virtual void Destroy() { delete this; }

  void HaveFirstOwner() {
    CASK_DCHECK(counts_.load(std::memory_order_relaxed) == 0, "the object has an owner");
    counts_.store(kOneWeak + kOneStrong, std::memory_order_relaxed);
  }
  void AddRef() const {
    const int64_t before = StrongOf(Add(kOneStrong, std::memory_order_relaxed));
    // One comparison for both: no owner (the last one has gone, or the object is on the stack), and too many.
    CASK_CHECK(static_cast<uint64_t>(before - 1) < static_cast<uint64_t>(kMaxCount - 1),
               "a RefPtr to an object that has no owner, or too many");
  }
  void DropRef() const {
    const uint64_t before = Add(-kOneStrong, std::memory_order_acq_rel);
    if (StrongOf(before) != 1) return;
    auto* const self = const_cast<RefCounted*>(this);
    if (WeakOf(before) == 1) {  // only that of the owners: there is no WeakPtr, and none can be made any more
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
  // Adds an owner, unless the object has none.
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

  mutable std::atomic<uint64_t> counts_{0};  // weak references above, owners below; 0: no owner yet
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

  // The first owner of a new object. For objects made by plain `new`, use MakeRef.
  static RefPtr AdoptNew(T* object) {
    object->RefCounted::HaveFirstOwner();
    return Adopt(object);
  }
  // One more reference to an object that has an owner.
  static RefPtr Share(T* object) {
    RefPtr pointer;
    pointer.object_ = object;
    pointer.AddRef();
    return pointer;
  }
  // Takes over the reference that Release gave up. Null gives null.
  static RefPtr Adopt(T* object) {
    CASK_CHECK(object == nullptr || object->RefCounted::use_count() > 0, "Adopt takes a pointer that Release returned");
    RefPtr pointer;
    pointer.object_ = object;
    return pointer;
  }
  // Gives up the reference without dropping it: the object lives until Adopt is called with the pointer.
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

// A pointer, 8 bytes, that does not keep its object alive and tells whether an owner does.
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

  // A new owner of the object, or null if it has no owner any more.
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
