// The 24 bytes that store a shape, and the dtype of its tensor.
//
//   bytes   16-bit form        32-bit form        heap form
//   0-11    uint16 dims[6]     uint32 dims[3]     0-7: pointer to int64 dims
//   12      unused             unused             unused
//   13      dtype of the tensor that owns the shape (0 if none does)
//   14      rank, 0 to 254 (255 is kept for an unknown rank)
//   15      form: 0, 1, 2
//   16-23   number of elements, int64
//
// The same bytes as TensorFlow's TensorShapeRep (tensorflow/core/framework/tensor_shape.h), whose bounds these are: the
// 16-bit form holds dims below 65534 up to rank 6, the 32-bit form dims below 4294967294 up to rank 3, the heap form
// all others. (So no dim is ever all ones, TensorFlow's mark of an unknown dim.) The heap form points to rank() numbers
// from new[]. The form of a shape is not visible outside: equal dims compare equal.
//
// This class only stores dims: TensorShape has the rules about which dims are allowed.

#ifndef TENSORCASK_TENSOR_INTERNAL_SHAPE_REP_H_
#define TENSORCASK_TENSOR_INTERNAL_SHAPE_REP_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/types/span.h"
#include "tensorcask/tensor/dtype.h"

namespace tensorcask::internal {

class TensorShapeRep {
 public:
  enum class Form : uint8_t { k16 = 0, k32 = 1, kHeap = 2 };

  static constexpr int kMax16Rank = 6;
  static constexpr int kMax32Rank = 3;
  static constexpr int64_t kEnd16 = 65534;       // the 16-bit form holds dims below this
  static constexpr int64_t kEnd32 = 4294967294;  // the 32-bit form holds dims below this

  // Rank 0, one element, no dtype; so is a rep that was moved from.
  TensorShapeRep() = default;
  // Requires: dims.size() <= 254; every dim >= 0; num_elements is their product.
  TensorShapeRep(absl::Span<const int64_t> dims, int64_t num_elements) { Assign(dims, num_elements); }
  // Rank 1 of size 0.
  static TensorShapeRep EmptyVector(DType dtype) {
    TensorShapeRep rep;
    rep.Store(sizeof(uint64_t), InLastWord(kRankByte, 1) | InLastWord(kDTypeByte, static_cast<uint8_t>(dtype)));
    rep.num_elements_ = 0;
    return rep;
  }

  TensorShapeRep(const TensorShapeRep& other) {
    CopyBits(other);
    if (form() == Form::kHeap) CloneHeap();
  }
  TensorShapeRep(TensorShapeRep&& other) noexcept {
    CopyBits(other);
    other.ResetBits();
  }
  TensorShapeRep& operator=(const TensorShapeRep& other) {
    if (form() != Form::kHeap && other.form() != Form::kHeap) {
      CopyBits(other);
    } else {
      *this = TensorShapeRep(other);
    }
    return *this;
  }
  TensorShapeRep& operator=(TensorShapeRep&& other) noexcept {
    if (this != &other) {
      if (form() == Form::kHeap) FreeHeap();
      CopyBits(other);
      other.ResetBits();
    }
    return *this;
  }
  ~TensorShapeRep() {
    if (form() == Form::kHeap) FreeHeap();
  }

  int rank() const { return bytes_[kRankByte]; }
  Form form() const { return static_cast<Form>(bytes_[kFormByte]); }
  int64_t num_elements() const { return num_elements_; }

  // Requires: 0 <= axis < rank()
  int64_t dim(int axis) const {
    const size_t i = static_cast<size_t>(axis);
    switch (form()) {
      case Form::k16:
        return Load<uint16_t>(i * sizeof(uint16_t));
      case Form::k32:
        return Load<uint32_t>(i * sizeof(uint32_t));
      case Form::kHeap:
        break;
    }
    return heap()[i];
  }

  // Keeps the dtype. `dims` may not lie inside this rep.
  void Assign(absl::Span<const int64_t> dims, int64_t num_elements);

  // Appends a dim if the 16-bit form can hold it; otherwise returns false and changes nothing.
  bool TryAppend16(int64_t size, int64_t num_elements) {
    if (form() != Form::k16 || rank() == kMax16Rank || size >= kEnd16) return false;
    Store(static_cast<size_t>(bytes_[kRankByte]) * sizeof(uint16_t), static_cast<uint16_t>(size));
    ++bytes_[kRankByte];
    num_elements_ = num_elements;
    return true;
  }

  // Survives Assign and copies of the whole rep.
  DType dtype() const { return static_cast<DType>(bytes_[kDTypeByte]); }
  void set_dtype(DType dtype) {
    const uint64_t others = Load<uint64_t>(sizeof(uint64_t)) & ~InLastWord(kDTypeByte, 0xff);
    Store(sizeof(uint64_t), others | InLastWord(kDTypeByte, static_cast<uint8_t>(dtype)));
  }

 private:
  static constexpr size_t kDTypeByte = 13;
  static constexpr size_t kRankByte = 14;
  static constexpr size_t kFormByte = 15;

  // `value` as byte number `byte`, 8 to 15, of the second word. Words are stored as a whole: a load of one that was
  // just stored by parts takes longer.
  static constexpr uint64_t InLastWord(size_t byte, uint64_t value) { return value << 8 * (byte - sizeof(uint64_t)); }

  template <typename T>
  T Load(size_t byte) const {
    T value;
    std::memcpy(&value, bytes_ + byte, sizeof(T));
    return value;
  }
  template <typename T>
  void Store(size_t byte, T value) {
    std::memcpy(bytes_ + byte, &value, sizeof(T));
  }

  void CopyBits(const TensorShapeRep& other) {  // `other` may be this
    Store(0, other.Load<uint64_t>(0));
    Store(8, other.Load<uint64_t>(8));
    num_elements_ = other.num_elements_;
  }
  void ResetBits() {
    std::memset(bytes_, 0, sizeof(bytes_));
    num_elements_ = 1;
  }
  int64_t* heap() const { return Load<int64_t*>(0); }
  void CloneHeap();  // replaces the pointer, which is another rep's, by one to a copy
  void FreeHeap();

  alignas(8) uint8_t bytes_[16] = {};
  int64_t num_elements_ = 1;
};

static_assert(sizeof(TensorShapeRep) == 24, "a shape is 24 bytes");

}  // namespace tensorcask::internal

#endif  // TENSORCASK_TENSOR_INTERNAL_SHAPE_REP_H_
