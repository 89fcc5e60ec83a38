#include "tensorcask/serialize/torch/internal/pickle_builder.h"

#include <algorithm>
#include <cstddef>

namespace tensorcask::torch {

PickleBuilder::PickleBuilder(Pickle* pickle, DecodeQuota* quota) : pickle_(pickle), quota_(quota) {
  for (const Object::Kind kind : {Object::Kind::kNone, Object::Kind::kBool, Object::Kind::kBool}) {
    pickle_->objects.emplace_back();
    pickle_->objects.back().kind = kind;
  }
  ints_.fill(kNoRef);
  pickle_->objects[Bool(true)].integer = 1;
}

// Charges a few pages at once: an instruction needs some bytes.
bool PickleBuilder::ChargeMore(uint64_t bytes) {
  constexpr uint64_t kAtOnce = uint64_t{16} << 10;
  if (!status_.ok()) return false;
  if (bytes < kAtOnce && quota_->Charge(kAtOnce).ok()) {
    prepaid_ += kAtOnce - bytes;
    return true;
  }
  quota_->Release(prepaid_);
  prepaid_ = 0;
  status_ = quota_->Charge(bytes);
  return status_.ok();
}

Ref PickleBuilder::Push(Object::Kind kind, uint64_t index) {
  Object object;
  object.kind = kind;
  object.index = static_cast<uint32_t>(index);
  pickle_->objects.push_back(object);
  return static_cast<Ref>(pickle_->objects.size() - 1);
}

Ref PickleBuilder::Int(int64_t value) {
  Ref* const shared = value >= 0 && value < kSharedInts ? &ints_[static_cast<size_t>(value)] : nullptr;
  if (shared != nullptr && *shared != kNoRef) return *shared;
  if (!Charge(sizeof(Object))) return None();
  const Ref ref = Push(Object::Kind::kInt, 0);
  pickle_->objects[ref].integer = value;
  if (shared != nullptr) *shared = ref;
  return ref;
}

Ref PickleBuilder::Uint(uint64_t value) {
  if (value <= static_cast<uint64_t>(INT64_MAX)) return Int(static_cast<int64_t>(value));
  const Ref ref = Int(static_cast<int64_t>(value));
  if (ref != None()) pickle_->objects[ref].kind = Object::Kind::kUint;
  return ref;
}

Ref PickleBuilder::Float(double value) {
  if (!Charge(sizeof(Object))) return None();
  const Ref ref = Push(Object::Kind::kFloat, 0);
  pickle_->objects[ref].real = value;
  return ref;
}

Ref PickleBuilder::Complex(std::complex<double> value) {
  return New(Object::Kind::kComplex, value, &pickle_->complexes);
}

Ref PickleBuilder::Text(absl::string_view text, Object::Kind kind) {
  constexpr uint64_t kMapSlotBytes = 2 * (sizeof(absl::string_view) + sizeof(Ref) + 1);
  const bool is_shared = kind == Object::Kind::kText || kind == Object::Kind::kBytes;
  auto* const map = kind == Object::Kind::kText ? &texts_ : &bytes_;
  if (!is_shared) {
    if (!Charge(sizeof(Object))) return None();
    const Ref ref = Push(kind, 0);
    pickle_->objects[ref].text = text;
    return ref;
  }
  const auto [slot, is_new] = map->try_emplace(text, None());
  if (!is_new) return slot->second;
  if (!Charge(sizeof(Object) + kMapSlotBytes)) return None();
  slot->second = Push(kind, 0);
  pickle_->objects[slot->second].text = text;
  return slot->second;
}

Ref PickleBuilder::List(Object::Kind kind, absl::Span<const Ref> items) {
  const bool is_empty_tuple = kind == Object::Kind::kTuple && items.empty();
  if (is_empty_tuple && empty_tuple_ != kNoRef) return empty_tuple_;
  if (!Charge(items.size() * sizeof(Ref))) return None();
  RefList list;
  list.items = Allocate(items.size());
  list.size = list.capacity = items.size();
  std::copy(items.begin(), items.end(), list.items);
  const Ref ref = New(kind, list, &pickle_->lists);
  if (is_empty_tuple && ref != None()) empty_tuple_ = ref;
  return ref;
}

Ref PickleBuilder::BoundedList(absl::Span<const Ref> items, int64_t most) {
  const Ref list = List(Object::Kind::kList, items);
  if (list != None()) pickle_->objects[list].integer = most + 1;
  return list;
}

Ref PickleBuilder::NewGlobal(const Global& row) { return New(Object::Kind::kGlobal, row, &pickle_->globals); }

bool PickleBuilder::AddStorage(const Storage& storage) {
  if (!Charge(sizeof(Storage))) return false;
  pickle_->storages.push_back(storage);
  return true;
}

Ref PickleBuilder::NewView(const StorageView& view) { return New(Object::Kind::kStorage, view, &pickle_->views); }

Ref PickleBuilder::NewTensor(const PickledTensor& tensor) {
  return New(Object::Kind::kTensor, tensor, &pickle_->tensors);
}

Ref PickleBuilder::NewInstance(const Instance& instance) {
  return New(Object::Kind::kObject, instance, &pickle_->instances);
}

Ref PickleBuilder::NewNumpyDType(const NumpyDType& dtype) {
  return New(Object::Kind::kNumpyDType, dtype, &pickle_->numpy_dtypes);
}

Ref PickleBuilder::NewNumpyArray(const NumpyArray& array) {
  return New(Object::Kind::kNumpyArray, array, &pickle_->numpy_arrays);
}

Ref PickleBuilder::Retyped(Ref list, Object::Kind kind) {
  if (!Charge(sizeof(Object))) return None();
  return Push(kind, object(list).index);
}

absl::string_view PickleBuilder::Keep(std::string text) {
  if (!Charge(sizeof(std::string) + text.size())) return "";
  pickle_->made.push_back(std::move(text));
  return pickle_->made.back();
}

void PickleBuilder::Append(Ref list, absl::Span<const Ref> items) {
  RefList& to = pickle_->lists[object(list).index];
  if (items.size() > to.capacity - to.size) {
    const size_t capacity = std::max(2 * to.capacity, to.size + items.size());
    if (!Charge(capacity * sizeof(Ref))) return;
    Ref* const moved = Allocate(capacity);
    std::copy_n(to.items, to.size, moved);
    to.items = moved;
    to.capacity = capacity;
  }
  std::copy(items.begin(), items.end(), to.items + to.size);
  to.size += items.size();
}

Ref* PickleBuilder::Allocate(size_t count) {
  constexpr size_t kLeastOfBlock = 256;
  constexpr size_t kMostOfBlock = size_t{1} << 15;
  if (count > block_refs_ - used_refs_) {
    // A list that is large for a block has one of its own, and the block goes on.
    const bool is_large = count > kMostOfBlock / 8;
    const size_t refs = is_large ? count : std::max(count, std::clamp(2 * block_refs_, kLeastOfBlock, kMostOfBlock));
    pickle_->list_memory.emplace_back(new Ref[refs]);
    if (is_large) return pickle_->list_memory.back().get();
    block_ = pickle_->list_memory.back().get();
    block_refs_ = refs;
    used_refs_ = 0;
  }
  Ref* const items = block_ + used_refs_;
  used_refs_ += count;
  return items;
}

}  // namespace tensorcask::torch
