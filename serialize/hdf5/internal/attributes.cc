#include "tensorcask/serialize/hdf5/internal/attributes.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/hdf5/internal/btree2.h"
#include "tensorcask/serialize/hdf5/internal/datatype.h"
#include "tensorcask/serialize/hdf5/internal/fractal_heap.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/endian.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/utf8.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/float_types.h"

namespace tensorcask::hdf5 {
namespace {

constexpr uint64_t kMaxRank = 32;  // HDF5's limit

ValueTree::Id AddText(absl::string_view text, ValueTree* tree) {
  return tree->AddText(text, internal::IsUtf8(text) ? ValueKind::kText : ValueKind::kBytes);
}

absl::string_view WithoutPadding(absl::string_view text, Datatype::Padding padding) {
  if (padding == Datatype::Padding::kSpaces) {
    while (absl::ConsumeSuffix(&text, " ")) {
    }
    return text;
  }
  if (padding == Datatype::Padding::kNulTerminated) return text.substr(0, text.find('\0'));
  while (absl::ConsumeSuffix(&text, absl::string_view("\0", 1))) {
  }
  return text;
}

template <typename T>
T Load(const char* bytes) {
  return LoadLittleEndian<T>(bytes);
}

double LoadFloat(DType dtype, const char* bytes) {
  switch (dtype) {
    case DType::kFloat16:
      return static_cast<double>(static_cast<float>(Load<float16>(bytes)));
    case DType::kBFloat16:
      return static_cast<double>(static_cast<float>(Load<bfloat16>(bytes)));
    case DType::kFloat32:
      return static_cast<double>(Load<float>(bytes));
    default:
      return Load<double>(bytes);
  }
}

// The number at `element`, which is little-endian.
absl::StatusOr<ValueTree::Id> AddNumber(DType dtype, const char* element, ValueTree* tree) {
  const auto bits = static_cast<int>(8 * ElementSize(dtype));
  switch (dtype) {
    case DType::kBool:
      return tree->AddBool(*element != 0);
    case DType::kInt8:
      return tree->AddInt(Load<int8_t>(element), bits);
    case DType::kInt16:
      return tree->AddInt(Load<int16_t>(element), bits);
    case DType::kInt32:
      return tree->AddInt(Load<int32_t>(element), bits);
    case DType::kInt64:
      return tree->AddInt(Load<int64_t>(element), bits);
    case DType::kUint8:
      return tree->AddUint(Load<uint8_t>(element), bits);
    case DType::kUint16:
      return tree->AddUint(Load<uint16_t>(element), bits);
    case DType::kUint32:
      return tree->AddUint(Load<uint32_t>(element), bits);
    case DType::kUint64:
      return tree->AddUint(Load<uint64_t>(element), bits);
    case DType::kFloat16:
    case DType::kBFloat16:
    case DType::kFloat32:
    case DType::kFloat64:
      return tree->AddFloat(LoadFloat(dtype, element), bits);
    case DType::kComplex64:
      return tree->AddComplex({LoadFloat(DType::kFloat32, element), LoadFloat(DType::kFloat32, element + 4)}, bits);
    case DType::kComplex128:
      return tree->AddComplex({LoadFloat(DType::kFloat64, element), LoadFloat(DType::kFloat64, element + 8)}, bits);
    default:
      return absl::UnimplementedError(absl::StrCat("is ", DTypeName(dtype), ", which no value can be"));
  }
}

// Nests items, row-major, as the dims say. Requires: all dims are positive.
ValueTree::Id Nest(std::vector<ValueTree::Id> items, absl::Span<const int64_t> dims, ValueTree* tree) {
  for (size_t axis = dims.size(); axis-- > 0;) {
    const auto length = static_cast<size_t>(dims[axis]);
    std::vector<ValueTree::Id> lists;
    for (size_t i = 0; i < items.size(); i += length) {
      lists.push_back(tree->AddItems(ValueKind::kList, absl::MakeConstSpan(items).subspan(i, length)));
    }
    items = std::move(lists);
  }
  return items[0];
}

}  // namespace

absl::StatusOr<Dataspace> ParseDataspace(absl::string_view body, const File& file) {
  Cursor in(body);
  const uint64_t version = in.Uint(1);
  const uint64_t rank = in.Uint(1);
  in.Skip(1);  // flags: whether sizes of growth follow
  const uint64_t type = version == 2 ? in.Uint(1) : 1;
  if (in.ok() && version != 1 && version != 2) {
    return absl::UnimplementedError(absl::StrCat("has a dataspace of version ", version, "; 1 and 2 are read"));
  }
  if (rank > kMaxRank) return absl::DataLossError(absl::StrCat("has ", rank, " axes; ", kMaxRank, " are possible"));
  if (version == 1) in.Skip(5);
  Dataspace space;
  space.is_null = type == 2;
  for (uint64_t axis = 0; axis < rank; ++axis) {
    const std::optional<int64_t> dim = CheckedCast<int64_t>(file.Length(&in));
    if (!dim) return absl::DataLossError("has an axis of 2^63 elements or more");
    space.dims.push_back(*dim);
  }
  if (!in.ok()) return CutShort("its dataspace");
  return space;
}

absl::StatusOr<std::vector<Attribute>> AttributeReader::Read(const std::vector<Message>& header, ValueTree* tree) {
  std::vector<Attribute> attributes;
  for (const Message& message : header) {
    if (message.type == static_cast<int>(MessageType::kAttribute)) {
      CASK_RETURN_IF_ERROR(Add(message, tree, &attributes));
    } else if (message.type == static_cast<int>(MessageType::kAttributeInfo)) {
      const absl::Status status = ReadMany(message, tree, &attributes);
      if (!status.ok() && !IsAboutContent(status)) return status;
      if (status.ok()) continue;
      Attribute others;  // without a name: those in the heap
      others.status = status;
      attributes.push_back(std::move(others));
    }
  }
  return attributes;
}

absl::Status AttributeReader::Add(const Message& message, ValueTree* tree, std::vector<Attribute>* attributes) {
  Attribute attribute;
  const absl::StatusOr<ValueTree::Id> value = ReadOne(message, &attribute.name, tree);
  if (!value.ok() && !IsAboutContent(value.status())) return value.status();
  attribute.status = value.status();
  if (value.ok()) attribute.value = *value;
  CASK_RETURN_IF_ERROR(listing_->Charge(sizeof(Attribute) + attribute.name.size()));
  attributes->push_back(std::move(attribute));
  return absl::OkStatus();
}

// Many attributes, and large ones, are in a heap, and a B-tree of their names says where.
absl::Status AttributeReader::ReadMany(const Message& message, ValueTree* tree, std::vector<Attribute>* attributes) {
  constexpr uint64_t kHeapIdBytes = 8;
  constexpr uint64_t kSharedFlag = 0x02;
  Cursor in(message.body);
  in.Skip(1);
  if ((in.Uint(1) & 1) != 0) in.Skip(2);
  const uint64_t address = file_->Address(&in);
  const uint64_t names = file_->Address(&in);
  if (!in.ok()) return CutShort("an attribute info message");
  if (address == kUndefined || names == kUndefined) return absl::OkStatus();
  CASK_ASSIGN_OR_RETURN(FractalHeap heap, FractalHeap::Open(address, file_));
  const auto first = static_cast<std::ptrdiff_t>(attributes->size());
  const auto add = [&](absl::string_view record) -> absl::Status {
    Cursor of(record);
    const absl::string_view id = of.Bytes(kHeapIdBytes);
    Message one;
    one.type = static_cast<int>(MessageType::kAttribute);
    one.is_shared = (of.Uint(1) & kSharedFlag) != 0;
    if (!of.ok()) return CutShort("a record of an attribute");
    CASK_ASSIGN_OR_RETURN(one.body, heap.Get(id));
    return Add(one, tree, attributes);
  };
  CASK_RETURN_IF_ERROR(ForEachRecord(names, RecordKind::kAttributeName, file_, add));
  // The tree has them in the order of hashes.
  std::sort(attributes->begin() + first, attributes->end(),
            [](const Attribute& a, const Attribute& b) { return a.name < b.name; });
  return absl::OkStatus();
}

absl::StatusOr<ValueTree::Id> AttributeReader::ReadOne(const Message& message, std::string* name, ValueTree* tree) {
  constexpr uint64_t kSharedParts = 3;
  if (message.is_shared) return absl::UnimplementedError("is shared with other objects, and is not read");
  Cursor in(message.body);
  const uint64_t version = in.Uint(1);
  if (in.ok() && (version < 1 || version > 3)) {
    return absl::UnimplementedError(absl::StrCat("has version ", version, "; 1 to 3 are read"));
  }
  const uint64_t flags = in.Uint(1);
  const uint64_t name_bytes = in.Uint(2);
  const uint64_t type_bytes = in.Uint(2);
  const uint64_t space_bytes = in.Uint(2);
  if (version == 3) in.Skip(1);  // the characters of the name
  const auto part = [&](uint64_t size) {
    const size_t start = in.position();
    const absl::string_view bytes = in.Bytes(size);
    if (version == 1) in.AlignTo8(start);
    return bytes;
  };
  const absl::string_view stored_name = part(name_bytes);
  *name = std::string(stored_name.substr(0, stored_name.find('\0')));
  Cursor type_in(part(type_bytes));
  const absl::string_view space_body = part(space_bytes);
  if (!in.ok()) return CutShort("it");
  if (version > 1 && (flags & kSharedParts) != 0) return absl::UnimplementedError("has a type that objects share");
  CASK_ASSIGN_OR_RETURN(const Datatype type, ParseDatatype(&type_in));
  CASK_ASSIGN_OR_RETURN(const Dataspace space, ParseDataspace(space_body, *file_));
  if (space.is_null) return tree->AddNone();

  uint64_t count = 1;
  for (const int64_t dim : space.dims) {
    const std::optional<uint64_t> product = CheckedMul(count, static_cast<uint64_t>(dim));
    if (!product) return absl::DataLossError("has more than 2^64 elements");
    count = *product;
  }
  if (count == 0) return tree->AddItems(ValueKind::kList, {});
  if (count > in.left() / type.size) return CutShort("it");
  // What a value takes in the tree, with its place in lists.
  constexpr uint64_t kValueBytes = 64;
  CASK_RETURN_IF_ERROR(listing_->Charge(count * kValueBytes));
  std::vector<ValueTree::Id> items;
  items.reserve(static_cast<size_t>(count));
  for (uint64_t i = 0; i < count; ++i) {
    const absl::string_view element = in.Bytes(type.size);
    switch (type.kind) {
      case Datatype::Kind::kText:
        items.push_back(AddText(WithoutPadding(element, type.padding), tree));
        break;
      case Datatype::Kind::kLongText: {
        Cursor reference(element);
        CASK_ASSIGN_OR_RETURN(const std::string text, LongText(&reference));
        CASK_RETURN_IF_ERROR(listing_->Charge(text.size()));
        items.push_back(AddText(text, tree));
        break;
      }
      case Datatype::Kind::kOpaque:
        items.push_back(tree->AddText(element, ValueKind::kBytes));
        break;
      case Datatype::Kind::kNumber: {
        std::string number(element);
        if (type.big_endian) {
          const size_t parts = IsComplex(type.dtype) ? 2 : 1;
          SwapBytes(number.data(), parts, number.size() / parts);
        }
        CASK_ASSIGN_OR_RETURN(const ValueTree::Id id, AddNumber(type.dtype, number.data(), tree));
        items.push_back(id);
        break;
      }
      case Datatype::Kind::kOther:
        return absl::UnimplementedError(absl::StrCat("is ", type.what, ", which is not read"));
    }
  }
  return Nest(std::move(items), space.dims, tree);
}

absl::StatusOr<std::string> AttributeReader::LongText(Cursor* in) {
  const uint64_t size = in->Uint(4);
  const uint64_t address = file_->Address(in);
  const uint64_t number = in->Uint(4);
  if (!in->ok()) return CutShort("it");
  if (size == 0 || address == 0 || address == kUndefined) return std::string();
  if (!collections_.contains(address)) CASK_RETURN_IF_ERROR(ReadCollection(address));
  const auto& texts = collections_[address];
  const auto found = texts.find(number);
  if (found == texts.end() || found->second.size() < size) {
    return absl::DataLossError(absl::StrCat("is a text of ", size, " bytes, number ", number, " of the heap at ",
                                            address, ", which has none"));
  }
  return found->second.substr(0, static_cast<size_t>(size));
}

absl::Status AttributeReader::ReadCollection(uint64_t address) {
  const auto head_bytes = static_cast<uint64_t>(8 + file_->length_bytes());
  CASK_ASSIGN_OR_RETURN(const std::string head, file_->Read(address, head_bytes));
  Cursor head_in(head);
  const bool is_collection = head_in.Bytes(4) == "GCOL" && head_in.Uint(1) == 1;
  head_in.Skip(3);
  const uint64_t size = file_->Length(&head_in);
  if (!is_collection || size < head_bytes) {
    return absl::DataLossError(absl::StrCat("the heap of texts at ", address, " has not its signature"));
  }
  CASK_ASSIGN_OR_RETURN(const std::string body, file_->Read(address + head_bytes, size - head_bytes));
  CASK_RETURN_IF_ERROR(listing_->Charge(body.size()));
  absl::flat_hash_map<uint64_t, std::string> texts;
  Cursor in(body);
  const auto object_bytes = static_cast<size_t>(8 + file_->length_bytes());
  while (in.left() >= object_bytes) {
    const uint64_t number = in.Uint(2);
    in.Skip(2 + 4);
    const uint64_t bytes = file_->Length(&in);
    if (number == 0) break;  // free space, to the end
    const size_t start = in.position();
    const absl::string_view text = in.Bytes(bytes);
    if (!in.ok()) return CutShort(absl::StrCat("the heap of texts at ", address));
    if (in.left() >= 8 - (in.position() - start) % 8) in.AlignTo8(start);
    texts.emplace(number, text);
  }
  collections_.emplace(address, std::move(texts));
  return absl::OkStatus();
}

}  // namespace tensorcask::hdf5
