// Makes the objects of a pickle, and charges their memory before it is used.
//
//   PickleBuilder builder(&pickle, &quota);
//   const Ref key = builder.Text("weight");
//   builder.List(Object::Kind::kTuple, {key, builder.Int(4)});
//   CASK_RETURN_IF_ERROR(builder.status());
//
// Past the quota a function makes nothing, returns the number of None and sets status(), which stays: the caller looks
// at it once for each instruction.

#ifndef TENSORCASK_SERIALIZE_TORCH_INTERNAL_PICKLE_BUILDER_H_
#define TENSORCASK_SERIALIZE_TORCH_INTERNAL_PICKLE_BUILDER_H_

#include <array>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/serialize/torch/internal/globals.h"
#include "tensorcask/serialize/torch/internal/pickle.h"

namespace tensorcask::torch {

class PickleBuilder {
 public:
  PickleBuilder(Pickle* pickle, DecodeQuota* quota);
  PickleBuilder(const PickleBuilder&) = delete;
  PickleBuilder& operator=(const PickleBuilder&) = delete;
  ~PickleBuilder() { quota_->Release(prepaid_); }

  const absl::Status& status() const { return status_; }
  const Pickle& pickle() const { return *pickle_; }
  const Object& object(Ref ref) const { return pickle_->objects[ref]; }

  Ref None() const { return 0; }
  Ref Bool(bool value) const { return value ? 2 : 1; }
  Ref Int(int64_t value);  // Equal small integers are one object
  Ref Uint(uint64_t value);
  Ref Float(double value);
  Ref Complex(std::complex<double> value);
  // `text` is in the bytes of the pickle or was kept by Keep. Equal texts of one kind are one object.
  Ref Text(absl::string_view text, Object::Kind kind = Object::Kind::kText);
  // kTuple, kList, kSet, kSize, kDict. Empty tuples are one object.
  Ref List(Object::Kind kind, absl::Span<const Ref> items);
  // kList, which may have at most so many items. Requires: `items` are no more.
  Ref BoundedList(absl::Span<const Ref> items, int64_t most);
  Ref NewGlobal(const Global& row);
  bool AddStorage(const Storage& storage);  // as the last of the storages. False: past the quota
  Ref NewView(const StorageView& view);
  Ref NewTensor(const PickledTensor& tensor);
  Ref NewInstance(const Instance& instance);
  Ref NewNumpyDType(const NumpyDType& dtype);
  Ref NewNumpyArray(const NumpyArray& array);
  // A tuple as a Size, a Size as a tuple: the same items.
  Ref Retyped(Ref list, Object::Kind kind);

  // A copy of a text that the bytes do not have as such.
  absl::string_view Keep(std::string text);

  void Append(Ref list, absl::Span<const Ref> items);
  // Notes the attributes of a dict, which are themselves a dict and may get more.
  void AddDictState(Ref state) {
    if (Charge(2 * sizeof(Ref))) dict_states_.push_back(state);
  }
  absl::Span<const Ref> dict_states() const { return dict_states_; }
  Instance* instance(Ref ref) { return &pickle_->instances[object(ref).index]; }
  PickledTensor* tensor(Ref ref) { return &pickle_->tensors[object(ref).index]; }
  NumpyDType* numpy_dtype(Ref ref) { return &pickle_->numpy_dtypes[object(ref).index]; }
  NumpyArray* numpy_array(Ref ref) { return &pickle_->numpy_arrays[object(ref).index]; }

  // Charges memory that the caller is about to use. False: past the quota.
  bool Charge(uint64_t bytes) {
    if (bytes > prepaid_ || !status_.ok()) return ChargeMore(bytes);
    prepaid_ -= bytes;
    return true;
  }

 private:
  bool ChargeMore(uint64_t bytes);

  // An object of this kind, with `element` as the last of `elements`.
  template <typename T>
  Ref New(Object::Kind kind, T element, std::vector<T>* elements) {
    if (!Charge(sizeof(Object) + sizeof(T))) return None();
    elements->push_back(std::move(element));
    return Push(kind, elements->size() - 1);
  }
  Ref Push(Object::Kind kind, uint64_t index);
  Ref* Allocate(size_t count);  // memory of the pickle for items of lists. Requires: it is charged

  static constexpr int64_t kSharedInts = 256;

  Pickle* const pickle_;
  DecodeQuota* const quota_;
  uint64_t prepaid_ = 0;  // charged, and not used yet
  absl::Status status_;
  absl::flat_hash_map<absl::string_view, Ref> texts_;
  absl::flat_hash_map<absl::string_view, Ref> bytes_;
  std::array<Ref, kSharedInts> ints_;
  Ref empty_tuple_ = kNoRef;
  std::vector<Ref> dict_states_;
  Ref* block_ = nullptr;  // a block of list_memory
  size_t block_refs_ = 0;
  size_t used_refs_ = 0;
};

}  // namespace tensorcask::torch

#endif  // TENSORCASK_SERIALIZE_TORCH_INTERNAL_PICKLE_BUILDER_H_
