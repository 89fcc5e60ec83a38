// A value that is either borrowed from the caller, or owned because it had to be made.
//
//   absl::StatusOr<MaybeOwned<TensorView>> dense = view.ExpectContiguous();   // view itself if it is contiguous
//   Use((*dense)->data<float>());
//
// Borrowing changes no reference count, and the borrowed value must outlive this object. A copy of a borrowing object
// borrows the same value. A moved-from owning object owns a moved-from T.

#ifndef TENSORCASK_TENSOR_STRIDED_MAYBE_OWNED_H_
#define TENSORCASK_TENSOR_STRIDED_MAYBE_OWNED_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <utility>
#include <variant>

namespace tensorcask {

template <typename T>
class MaybeOwned {
 public:
  static MaybeOwned Borrow(const T& value) { return MaybeOwned(&value); }
  static MaybeOwned Borrow(const T&&) = delete;  // would dangle
  static MaybeOwned Own(T value) { return MaybeOwned(std::move(value)); }

  bool is_borrowed() const { return value_.index() == 0; }
  const T& operator*() const { return is_borrowed() ? *std::get<0>(value_) : std::get<1>(value_); }
  const T* operator->() const { return &**this; }

  // The value itself: moved out if owned, copied if borrowed.
  T Take() && { return is_borrowed() ? T(*std::get<0>(value_)) : T(std::move(std::get<1>(value_))); }

 private:
  explicit MaybeOwned(const T* borrowed) : value_(std::in_place_index<0>, borrowed) {}
  explicit MaybeOwned(T&& owned) : value_(std::in_place_index<1>, std::move(owned)) {}

  std::variant<const T*, T> value_;
};

}  // namespace tensorcask

#endif  // TENSORCASK_TENSOR_STRIDED_MAYBE_OWNED_H_
