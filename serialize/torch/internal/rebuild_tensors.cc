#include "tensorcask/serialize/torch/internal/rebuild_tensors.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/layout.h"

namespace tensorcask::torch {
namespace {

using Kind = Object::Kind;

using Numbers = absl::InlinedVector<int64_t, 8>;

// The integers of a tuple, none negative.
absl::StatusOr<Numbers> ReadSizes(const PickleBuilder& builder, Ref list, absl::string_view what) {
  const Kind kind = builder.object(list).kind;
  if (kind != Kind::kTuple && kind != Kind::kSize && kind != Kind::kList) {
    return absl::DataLossError(absl::StrCat("the ", what, " of a tensor is not a tuple"));
  }
  const absl::Span<const Ref> items = builder.pickle().items(list);
  if (items.size() > static_cast<size_t>(TensorShape::kMaxRank)) {
    return absl::DataLossError(
        absl::StrCat("a tensor has ", items.size(), " axes; at most ", TensorShape::kMaxRank, " are read"));
  }
  Numbers numbers;
  for (const Ref item : items) {
    const Object& number = builder.object(item);
    if (number.kind != Kind::kInt || number.integer < 0) {
      return absl::DataLossError(absl::StrCat("the ", what, " of a tensor has ",
                                              number.kind == Kind::kInt ? absl::StrCat(number.integer) : "a value",
                                              " for an axis; wanted a number of at least 0"));
    }
    numbers.push_back(number.integer);
  }
  return numbers;
}

// Checks sizes, strides and offset of a tensor against each other, and against the `available` elements.
absl::Status CheckGeometry(const PickleBuilder& builder, const PickledTensor& tensor,
                           std::optional<uint64_t> available) {
  CASK_ASSIGN_OR_RETURN(const Numbers size, ReadSizes(builder, tensor.size, "size"));
  CASK_ASSIGN_OR_RETURN(const Numbers stride, ReadSizes(builder, tensor.stride, "stride"));
  if (size.size() != stride.size()) {
    return absl::DataLossError(absl::StrCat("a tensor has ", size.size(), " sizes, but ", stride.size(), " strides"));
  }
  if (tensor.offset < 0) return absl::DataLossError(absl::StrCat("a tensor begins at element ", tensor.offset));
  const absl::StatusOr<Layout> layout = Layout::Create(size, stride, tensor.offset);
  if (!layout.ok()) return absl::DataLossError(absl::StrCat("a tensor: ", layout.status().message()));
  if (!available.has_value() || layout->num_elements() == 0) return absl::OkStatus();
  if (static_cast<uint64_t>(layout->bounds().end) > *available) {
    return absl::DataLossError(absl::StrCat("a tensor of ", layout->ToString(), " needs ", layout->bounds().end,
                                            " elements; its storage has ", *available));
  }
  return absl::OkStatus();
}

// conj and neg, all that the metadata of a tensor may have.
absl::Status ReadBits(const CallArguments& call, size_t i, PickledTensor* tensor) {
  if (i >= call.size() || call.Is(i, Kind::kNone)) return absl::OkStatus();
  if (!call.Is(i, Kind::kDict)) return call.Wrong("a dict of metadata");
  const absl::Span<const Ref> entries = call.list(i);
  for (size_t k = 0; k < entries.size(); k += 2) {
    const Object& key = call.builder().object(entries[k]);
    const Object& value = call.builder().object(entries[k + 1]);
    const bool is_conj = key.text == "conj";
    if (key.kind != Kind::kText || value.kind != Kind::kBool || (!is_conj && key.text != "neg")) {
      return absl::UnimplementedError(
          absl::StrCat("the metadata of a tensor has ", Quoted(key.text), "; only \"conj\" and \"neg\" are known"));
    }
    (is_conj ? tensor->conj : tensor->neg) = value.integer != 0;
  }
  return absl::OkStatus();
}

absl::Status KeyOfBoth(absl::string_view key) {
  return absl::DataLossError(absl::StrCat("both a storage and a part of one have the key ", Quoted(key)));
}

}  // namespace

absl::StatusOr<Ref> MakeTensor(const CallArguments& call, GlobalUse use) {
  constexpr absl::string_view kWanted = "a storage, an offset, a size and a stride";
  const bool is_v3 = use == GlobalUse::kTensorV3;
  const bool is_quantized = use == GlobalUse::kQuantized;
  if (call.size() < (is_v3 || is_quantized ? 7 : 4) || call.size() > (is_v3 ? 8 : 7) || !call.Is(0, Kind::kStorage) ||
      !call.Is(1, Kind::kInt)) {
    return call.Wrong(kWanted);
  }
  const Pickle& pickle = call.builder().pickle();
  const StorageView& view = pickle.views[call.at(0).index];
  const Storage& storage = pickle.storages[view.storage];
  PickledTensor tensor;
  tensor.view = call.at(0).index;
  tensor.offset = call.at(1).integer;
  tensor.size = call.ref(2);
  tensor.stride = call.ref(3);
  tensor.dtype = storage.dtype;
  tensor.element_bytes = static_cast<uint8_t>(storage.element_bytes);
  if (is_v3) {
    const Global* const dtype = call.Named(6, GlobalUse::kDType);
    if (dtype == nullptr) return call.Wrong("a dtype as its seventh argument");
    tensor.dtype = dtype->dtype;
    tensor.element_bytes = dtype->element_bytes;
    tensor.dtype_name = call.ref(6);
    if (tensor.element_bytes == 0) {
      return absl::UnimplementedError(absl::StrCat("a tensor of ", dtype->name, ", whose bytes are not known"));
    }
  }
  const size_t grad = is_quantized ? 5 : 4;
  if (call.size() > grad) {
    if (!call.Is(grad, Kind::kBool)) return call.Wrong("true or false for requires_grad");
    tensor.requires_grad = call.at(grad).integer != 0;
  }
  if (is_quantized) {
    tensor.form = PickledTensor::Form::kQuantized;
    tensor.parts = call.ref(4);
    const bool is_tuple = call.Is(4, Kind::kTuple) && (call.list(4).size() == 3 || call.list(4).size() == 4);
    const Object* const scheme = is_tuple ? &call.builder().object(call.list(4)[0]) : nullptr;
    if (scheme == nullptr || scheme->kind != Kind::kGlobal || pickle.globals[scheme->index].use != GlobalUse::kScheme) {
      return call.Wrong("a scheme, scales, zero points and perhaps an axis");
    }
  } else {
    CASK_RETURN_IF_ERROR(ReadBits(call, is_v3 ? 7 : 6, &tensor));
  }
  // The storage counts elements of its class, which may be bytes.
  const uint64_t bytes = view.num_elements * storage.element_bytes;  // fits: FindStorage
  CASK_RETURN_IF_ERROR(CheckGeometry(call.builder(), tensor, bytes / tensor.element_bytes));
  if (tensor.element_bytes != storage.element_bytes &&
      view.offset * storage.element_bytes % tensor.element_bytes != 0) {
    return absl::DataLossError("a tensor begins inside an element of its storage");
  }
  return call.builder().NewTensor(tensor);
}

absl::StatusOr<Ref> MakeParameter(const CallArguments& call) {
  if (call.size() < 3 || call.size() > 4 || !call.Is(1, Kind::kBool)) {
    return call.Wrong("a tensor, requires_grad and hooks");
  }
  if (call.Is(0, Kind::kObject)) {  // for an opaque class
    if (call.size() < 4) return call.ref(0);
    Instance object = call.builder().pickle().instances[call.at(0).index];
    if (object.state != kNoRef) return absl::DataLossError("an object gets two states");
    object.state = call.ref(3);
    return call.builder().NewInstance(object);
  }
  if (!call.Is(0, Kind::kTensor)) return call.Wrong("a tensor, requires_grad and hooks");
  PickledTensor tensor = call.builder().pickle().tensors[call.at(0).index];
  tensor.requires_grad = call.at(1).integer != 0;
  if (call.size() == 4) tensor.state = call.ref(3);
  return call.builder().NewTensor(tensor);
}

absl::StatusOr<Ref> MakeSparse(const CallArguments& call) {
  const bool has_data = call.size() == 2 && call.Is(0, Kind::kText) && call.Is(1, Kind::kTuple);
  if (!has_data) return call.Wrong("a layout and its parts");
  const absl::Span<const Ref> parts = call.list(1);
  const bool is_coo = call.at(0).text == "torch.sparse_coo";
  const size_t values = is_coo ? 1 : 2;
  if (parts.size() < values + 2 || parts.size() > values + 3) return call.Wrong("indices, values and a size");
  for (size_t i = 0; i <= values; ++i) {
    if (call.builder().object(parts[i]).kind != Kind::kTensor) return call.Wrong("indices, values and a size");
  }
  const PickledTensor& of = call.builder().pickle().tensors[call.builder().object(parts[values]).index];
  PickledTensor tensor;
  tensor.form = PickledTensor::Form::kSparse;
  tensor.dtype = of.dtype;
  tensor.element_bytes = of.element_bytes;
  tensor.size = parts[values + 1];
  tensor.layout = call.ref(0);
  tensor.parts = call.ref(1);
  CASK_ASSIGN_OR_RETURN(const Numbers size, ReadSizes(call.builder(), tensor.size, "size"));
  const absl::StatusOr<TensorShape> shape = TensorShape::Create(size);
  if (!shape.ok()) return absl::DataLossError(absl::StrCat("a sparse tensor: ", shape.status().message()));
  return call.builder().NewTensor(tensor);
}

absl::StatusOr<Ref> MakeShell(const CallArguments& call, GlobalUse use) {
  const bool is_meta = use == GlobalUse::kMeta;
  const size_t first = is_meta ? 0 : 1;
  const size_t grad = is_meta ? 3 : 7;
  const Global* const dtype = call.Named(first, GlobalUse::kDType);
  if (call.size() != grad + 1 || dtype == nullptr || !call.Is(grad, Kind::kBool)) {
    return call.Wrong("a dtype, a size and a stride");
  }
  PickledTensor tensor;
  tensor.form = is_meta ? PickledTensor::Form::kMeta : PickledTensor::Form::kWrapper;
  tensor.dtype = dtype->dtype;
  tensor.element_bytes = dtype->element_bytes;
  tensor.dtype_name = call.ref(first);
  tensor.size = call.ref(first + 1);
  tensor.stride = call.ref(first + 2);
  tensor.requires_grad = call.at(grad).integer != 0;
  CASK_RETURN_IF_ERROR(CheckGeometry(call.builder(), tensor, std::nullopt));
  return call.builder().NewTensor(tensor);
}

absl::StatusOr<Ref> FindStorage(Ref id, KnownStorages* known, PickleBuilder* builder) {
  if (builder->object(id).kind != Kind::kTuple) return absl::DataLossError("a persistent id that is not a tuple");
  const absl::Span<const Ref> items = builder->pickle().items(id);
  const auto is = [&](size_t i, Kind kind) { return i < items.size() && builder->object(items[i]).kind == kind; };
  if (!is(0, Kind::kText) || builder->object(items[0]).text != "storage") {
    return absl::DataLossError("a persistent id that does not begin with \"storage\"");
  }
  if (items.size() < 5 || items.size() > 6 || !is(1, Kind::kGlobal) || !is(2, Kind::kText) || !is(3, Kind::kText) ||
      !is(4, Kind::kInt)) {
    return absl::DataLossError("a storage without a class, a key, a device or a size");
  }
  const Global& row = builder->pickle().globals[builder->object(items[1]).index];
  const absl::string_view key = builder->object(items[2]).text;
  if (row.use != GlobalUse::kStorage) {
    return absl::DataLossError(absl::StrCat("storage ", Quoted(key), " has the class ", Quoted(row.name)));
  }
  const int64_t count = builder->object(items[4]).integer;
  if (count < 0 || !CheckedMul(count, int64_t{row.element_bytes})) {
    return absl::DataLossError(absl::StrCat("storage ", Quoted(key), " has ", count, " elements"));
  }
  Storage storage;
  storage.key = items[2];
  storage.device = items[3];
  storage.dtype = row.dtype;
  storage.element_bytes = row.element_bytes;
  storage.num_elements = static_cast<uint64_t>(count);
  const auto [place, is_new] = known->storages.try_emplace(storage.key, builder->pickle().storages.size());
  const Storage* const first = is_new ? nullptr : &builder->pickle().storages[place->second];
  const bool is_same = !is_new && first->dtype == storage.dtype && first->element_bytes == storage.element_bytes &&
                       first->num_elements == storage.num_elements && first->device == storage.device;
  // PyTorch lets an empty storage have several types.
  if (!is_new && !is_same && (first->num_elements != 0 || count != 0)) {
    return absl::DataLossError(
        absl::StrCat("storage ", Quoted(key), " is declared twice, with two sizes, types or devices"));
  }
  if (is_new && !builder->Charge(2 * sizeof(*place))) return builder->None();
  uint32_t number = place->second;
  if (!is_same) {
    number = static_cast<uint32_t>(builder->pickle().storages.size());
    if (!builder->AddStorage(storage)) return builder->None();
  }
  StorageView view = {number, 0, storage.num_elements};
  if (items.size() == 6 && !is(5, Kind::kNone)) {
    const bool is_tuple = is(5, Kind::kTuple) && builder->pickle().items(items[5]).size() == 3;
    const Ref part_key = is_tuple ? builder->pickle().items(items[5])[0] : kNoRef;
    const Object* const offset = is_tuple ? &builder->object(builder->pickle().items(items[5])[1]) : nullptr;
    const Object* const size = is_tuple ? &builder->object(builder->pickle().items(items[5])[2]) : nullptr;
    if (!is_tuple || builder->object(part_key).kind != Kind::kText || offset->kind != Kind::kInt ||
        size->kind != Kind::kInt || offset->integer < 0 || size->integer < 0 ||
        !RangeFits(static_cast<uint64_t>(offset->integer), static_cast<uint64_t>(size->integer),
                   storage.num_elements)) {
      return absl::DataLossError(absl::StrCat("a part of storage ", Quoted(key), " leaves it"));
    }
    view.offset = static_cast<uint64_t>(offset->integer);
    view.num_elements = static_cast<uint64_t>(size->integer);
    // PyTorch makes one storage of all parts with a key.
    const auto [part, is_first] = known->parts.try_emplace(part_key, view);
    const StorageView& same = part->second;
    if (same.storage != view.storage || same.offset != view.offset || same.num_elements != view.num_elements) {
      return absl::DataLossError(absl::StrCat("a part ", Quoted(builder->object(part_key).text), " of storage ",
                                              Quoted(key), " is declared twice, with two places"));
    }
    if (is_first && !builder->Charge(2 * sizeof(*part))) return builder->None();
    if (known->storages.contains(part_key)) return KeyOfBoth(builder->object(part_key).text);
  }
  if (known->parts.contains(storage.key)) return KeyOfBoth(key);
  return builder->NewView(view);
}

}  // namespace tensorcask::torch
