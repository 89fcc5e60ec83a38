// Tensors with Python's semantics: several names for one shared object.
//
//   TensorHandle a(Tensor::FromValues<float>({1, 2}));
//   TensorHandle b = a;                              // the same object
//   absl::StatusOr<TensorHandle> c = a.Select(0, 0); // another object on the same buffer
//   absl::Status status = b.Replace(plus_one);       // a shows it too, *c does not
//
// There are three layers, with reference counts: a *handle* (8 bytes, a value) shares an *object*, which is neither
// copied nor moved and has a TensorView, TensorMetadata and a freeze flag; the view shares a *buffer*. `object()`
// identifies the object, `view()->buffer()->root()` the buffer. A change of the object shows through every handle on
// it; a change of the elements also shows through every view of them. Assigning a handle to another handle changes
// neither object nor elements.
//
// PyTorch and MegEngine agree on all this, but differ in `a += 1` and `a[0] = 1`. This class has both meanings, under
// different names:
//
//    #  code               MegEngine                                 c10
//    1  a += 1             a.Replace(sum): same object, new buffer.  Copy(sum, &view of a): same object and buffer.
//                          Handles on the object show it, views      Handles and views show it.
//                          made before keep the old buffer.
//    2  a = a + 1          a = TensorHandle(sum): new object, new buffer; other handles and views stay.  As MegEngine.
//    3  b = a[0]           a.Select(0, 0): new object, same buffer, offset moved.                        As MegEngine.
//    4  b = a.reshape(..)  a.ReshapeOrCopy(..): new object; same buffer if strides can do it, else new.  As MegEngine.
//    5  b = transpose(a)   a.Transpose(0, 1): new object, same buffer, strides swapped.                  As MegEngine.
//    6  a[0] = 1           a.Assign({0}, one, kCopyIfShared): same   a.Assign({0}, one, kWriteThrough): same object,
//                          object; new buffer if the old one is      same buffer. Handles and views show it.
//                          shared, else in place. Handles on the
//                          object show it, views do not.
//    7  b = a              Same object, its count + 1; the buffer's count stays.                         As MegEngine.
//    8  version()          1, 6: the old buffer's stays; the new     1, 6: it grows, for handles and views alike.
//       of the buffer      one has its own.
//    9  lazy clone of a    a.View(LazyClone): new object, new buffer on shared memory. A write to either, by any
//                          meaning above, is not seen through the other.
//
// So `a=[1,2]; b=a; b+=1; print(a)` prints [2,3]; with `b=b+1` it prints [1,2]; with `b=a[0]; b+=1`, MegEngine's,
// [1,2]; with `b=a; a[0]+=1; print(b)` [2,2].
//
// An undefined handle has no object: it was default-constructed or moved from. Operations that need an object return
// FailedPrecondition. A frozen object refuses every change of its geometry, buffer and metadata with
// FailedPrecondition; its elements stay writable in place.
//
// Counts are atomic, so threads may hold handles on one object. The object is thread-compatible: while one thread
// changes it or its elements, no other thread may use it.
//
// Source: c10/core/TensorImpl.h; the aliasing rules of MegEngine 1.9 and later.

#ifndef TENSORCASK_TENSOR_COMPAT_HANDLE_H_
#define TENSORCASK_TENSOR_COMPAT_HANDLE_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/compat/axis_index.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/metadata.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask {

// What handles share. Its address is its identity.
class TensorObject final : public RefCounted {
 public:
  TensorObject(TensorView view, TensorMetadata metadata) : view_(std::move(view)), metadata_(std::move(metadata)) {}

  const TensorView& view() const { return view_; }
  const TensorMetadata& metadata() const { return metadata_; }
  bool is_frozen() const { return frozen_; }

 private:
  friend class TensorHandle;

  void ReleaseResources() override;  // called when the last handle is gone while weak ones remain

  TensorView view_;
  TensorMetadata metadata_;
  bool frozen_ = false;
};

// What other objects, views and tensors on the same elements show after Assign.
enum class AssignMode : uint8_t {
  kCopyIfShared,  // the old elements
  kWriteThrough   // the new elements
};

class TensorHandle {
 public:
  // ---- Making -------------------------------------------------------------------------------------------------------

  TensorHandle() = default;  // undefined
  // A new object on the same buffer, with default metadata.
  explicit TensorHandle(const TensorView& view) : TensorHandle(MakeRef<TensorObject>(view.Alias(), TensorMetadata())) {}
  // The same with metadata.
  // Errors: those of TensorMetadata::Validate; InvalidArgument for a channels-last memory format that is not the one of
  // `view`.
  static absl::StatusOr<TensorHandle> Create(const TensorView& view, TensorMetadata metadata);

  // ---- What it is ---------------------------------------------------------------------------------------------------

  bool defined() const { return static_cast<bool>(object_); }
  // Null if undefined. For comparing identities and for reading without another reference: the pointer is valid while a
  // handle on the object exists.
  const TensorObject* object() const { return object_.get(); }
  int64_t use_count() const { return object_.use_count(); }  // handles on the object; 0 if undefined
  int64_t weak_use_count() const { return object_ ? object_->weak_use_count() : 0; }  // weak handles on it, + 1

  // Errors of all: FailedPrecondition if undefined.
  absl::StatusOr<TensorView> view() const;  // one more reference to the buffer; write elements through it
  absl::StatusOr<TensorMetadata> metadata() const;
  absl::StatusOr<DType> dtype() const;
  absl::StatusOr<TensorShape> shape() const;
  absl::StatusOr<bool> is_frozen() const;

  // False if either is undefined or, for buffers, without elements.
  bool SharesObjectWith(const TensorHandle& other) const { return object_ && object_ == other.object_; }
  bool SharesBufferWith(const TensorHandle& other) const;

  // `float32 [2] strides [1] offset 0; name "w", ...`, "frozen" after the geometry if it is; "undefined".
  std::string ToString() const;
  friend std::ostream& operator<<(std::ostream& out, const TensorHandle& handle);

  // ---- New objects --------------------------------------------------------------------------------------------------

  // A new object for fn(view), a TensorView or a StatusOr of one: any of TensorView's operations. The new object gets
  // the device, requires_grad if its dtype may have it, and the memory format if the strides still have it. It does not
  // get name and attributes, and is not frozen.
  // Errors: those of fn; FailedPrecondition if undefined.
  template <typename Fn>
  absl::StatusOr<TensorHandle> View(Fn&& fn) const {
    CASK_RETURN_IF_ERROR(CheckDefined("View"));
    absl::StatusOr<TensorView> view = std::forward<Fn>(fn)(object_->view());
    if (!view.ok()) return std::move(view).status();
    return Derived(*view);
  }
  absl::StatusOr<TensorHandle> At(absl::Span<const AxisIndex> index) const {
    return View([&](const TensorView& view) { return IndexView(view, index); });
  }
  absl::StatusOr<TensorHandle> Select(int64_t axis, int64_t index) const {
    return View([&](const TensorView& view) { return view.Select(axis, index); });
  }
  absl::StatusOr<TensorHandle> Slice(int64_t axis, std::optional<int64_t> start, std::optional<int64_t> end,
                                     int64_t step = 1) const {
    return View([&](const TensorView& view) { return view.Slice(axis, start, end, step); });
  }
  absl::StatusOr<TensorHandle> Transpose(int64_t axis1, int64_t axis2) const {
    return View([&](const TensorView& view) { return view.Transpose(axis1, axis2); });
  }
  absl::StatusOr<TensorHandle> Reshape(absl::Span<const int64_t> dims) const {
    return View([&](const TensorView& view) { return view.Reshape(dims); });
  }
  absl::StatusOr<TensorHandle> ReshapeOrCopy(absl::Span<const int64_t> dims) const {
    return View([&](const TensorView& view) { return view.ReshapeOrCopy(dims); });
  }

  // A shallow copy: a new object with the same dims, strides, offset, dtype, buffer (one more reference) and metadata,
  // name and attributes included. Its freeze flag is the argument (c10's shallow_copy_and_detach).
  // Error: FailedPrecondition if undefined.
  absl::StatusOr<TensorHandle> Alias(bool frozen) const;

  // ---- Changes of the object, seen through every handle on it -------------------------------------------------------
  //
  // Errors of all, and nothing has changed: FailedPrecondition if undefined, or frozen.

  // Cannot be undone. (Freezing a frozen object is not an error.)
  absl::Status Freeze();
  // Errors: those of Create.
  absl::Status SetMetadata(TensorMetadata metadata);
  // These change the view as TensorView's functions do, with the same errors. Here and below, a channels-last memory
  // format that no longer fits the strides becomes kContiguous.
  absl::Status SetDimsAndStrides(absl::Span<const int64_t> dims, absl::Span<const int64_t> strides);
  absl::Status SetOffset(int64_t offset);
  absl::Status ResizeDim(int rank);
  // Another view, of any dtype and shape; the metadata stays. Error: InvalidArgument if requires_grad is set and the
  // new dtype cannot have it.
  absl::Status Replace(const TensorView& view);
  // Takes over dims, strides, offset, dtype, buffer (one more reference) and metadata of `source`; the freeze flag and
  // the object stay (c10's shallow_copy_from). Error: FailedPrecondition also if `source` is undefined.
  absl::Status AdoptMetadataFrom(const TensorHandle& source);

  // ---- Elements -----------------------------------------------------------------------------------------------------

  // Assigns `value`, broadcast to it, to the part at `index` (IndexView), with the rules of Copy.
  //
  // kCopyIfShared writes in place only if no two indices name one element and TensorBuffer::IsExclusive holds: no other
  // object, view or tensor refers to the buffer, no lazy clone to its memory, and the memory is not external (whose
  // other users are unknown). Otherwise the elements of the object are first copied to a new, dense buffer, which a
  // frozen object refuses. Handles and weak handles on the object do not count as other users, because they show the
  // result either way. `value` counts if it shares the buffer, and so does a view() that the caller keeps.
  // kWriteThrough always writes in place (lazy clones keep the old elements), and refuses elements that overlap.
  //
  // Errors, and nothing has changed: FailedPrecondition if undefined, if frozen and a new buffer is needed, and for a
  // buffer without data; those of IndexView, Expand and Copy (InvalidArgument, OutOfRange); ResourceExhausted.
  absl::Status Assign(absl::Span<const AxisIndex> index, const TensorView& value, AssignMode mode);

 private:
  friend class WeakTensorHandle;

  explicit TensorHandle(RefPtr<TensorObject> object) : object_(std::move(object)) {}

  absl::Status CheckDefined(absl::string_view operation) const;
  absl::Status CheckChangeable(absl::string_view operation) const;
  TensorHandle Derived(const TensorView& view) const;
  void Become(TensorView view);
  template <typename Edit>
  absl::Status ChangeGeometry(absl::string_view operation, Edit&& edit);

  RefPtr<TensorObject> object_;
};

static_assert(sizeof(TensorHandle) == 8, "a handle is a pointer");

// Refers to an object without keeping it alive: its view and metadata are released with the last handle.
class WeakTensorHandle {
 public:
  WeakTensorHandle() = default;  // without an object: expired
  explicit WeakTensorHandle(const TensorHandle& handle) : object_(handle.object_) {}

  // A handle on the object; undefined if it is gone.
  TensorHandle Lock() const { return TensorHandle(object_.Lock()); }
  bool expired() const { return object_.expired(); }
  int64_t use_count() const { return object_.use_count(); }  // handles on the object
  int64_t weak_use_count() const { return object_.weak_use_count(); }

 private:
  WeakPtr<TensorObject> object_;
};

static_assert(sizeof(WeakTensorHandle) == 8, "a weak handle is a pointer");

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_COMPAT_HANDLE_H_
