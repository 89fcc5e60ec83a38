#include "tensorcask/serialize/gguf/internal/header.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <limits>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/gguf/internal/header_cursor.h"
#include "tensorcask/serialize/gguf/internal/value_types.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/serialize/stored/name_order.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/dtype.h"

namespace tensorcask::gguf {
namespace {

constexpr uint64_t kLengthBytes = 8;                 // the size of the length of a text
constexpr uint64_t kMinKeyBytes = 8 + 4 + 1;         // the length of the name, the type, a number of one byte
constexpr uint64_t kMinTensorBytes = 8 + 4 + 4 + 8;  // the length of the name, the rank, the type, the offset
constexpr uint64_t kMemoryOfValue = 64;              // in the tree, its bytes apart

std::optional<uint64_t> RoundUp(uint64_t value, uint64_t alignment) {
  const std::optional<uint64_t> sum = CheckedAdd(value, alignment - 1);
  if (!sum) return std::nullopt;
  return *sum / alignment * alignment;
}

// Charges `bytes` of memory, for which the header up to the cursor is good.
absl::Status Charge(const HeaderCursor& cursor, uint64_t bytes, HeaderMemory* memory) {
  memory->budget->AddIndex(cursor.position() - memory->counted_bytes);
  memory->counted_bytes = cursor.position();
  return memory->budget->Charge(bytes);
}

// Adds values to a tree as the cursor comes to them.
class ValueParser {
 public:
  ValueParser(HeaderCursor* cursor, HeaderMemory* memory) : cursor_(*cursor), memory_(memory) {}

  // A value with its type in front.
  absl::StatusOr<ValueTree::Id> TypedValue() {
    CASK_ASSIGN_OR_RETURN(const ValueType type, Type());
    return type.kind == ValueKind::kList ? Array() : Single(type);
  }

  absl::StatusOr<ValueTree::Id> Items(const ValueType& type, uint64_t count) {
    if (count == 0) return memory_->tree->AddEmptyList(type.kind, type.kind == ValueKind::kBool ? 0 : type.bits);
    std::vector<ValueTree::Id> items;
    for (uint64_t i = 0; i < count; ++i) {
      CASK_ASSIGN_OR_RETURN(const ValueTree::Id item, Single(type));
      items.push_back(item);
    }
    return memory_->tree->AddItems(ValueKind::kList, items);
  }

 private:
  absl::StatusOr<ValueType> Type() {
    CASK_ASSIGN_OR_RETURN(const auto number, cursor_.Number<uint32_t>());
    if (number >= std::size(kValueTypes)) {
      return absl::DataLossError(
          absl::StrCat("the value has the type ", number, "; the format has 0 to ", std::size(kValueTypes) - 1));
    }
    return kValueTypes[number];
  }

  absl::StatusOr<ValueTree::Id> Single(const ValueType& type) {
    CASK_RETURN_IF_ERROR(Charge(cursor_, kMemoryOfValue, memory_));
    if (type.kind == ValueKind::kFloat && type.bits == 32) {
      CASK_ASSIGN_OR_RETURN(const auto bits, cursor_.Number<uint32_t>());
      return memory_->tree->AddFloat(NumberOfFloat(bits), type.bits);
    }
    switch (type.bits) {
      case 8:
        return Add<uint8_t, int8_t>(type);
      case 16:
        return Add<uint16_t, int16_t>(type);
      case 32:
        return Add<uint32_t, int32_t>(type);
      case 64:
        return Add<uint64_t, int64_t>(type);
      default:
        break;
    }
    CASK_ASSIGN_OR_RETURN(const std::string text, cursor_.Text(std::numeric_limits<uint64_t>::max()));
    CASK_RETURN_IF_ERROR(Charge(cursor_, text.size(), memory_));
    return memory_->tree->AddText(text);
  }

  template <typename Unsigned, typename Signed>
  absl::StatusOr<ValueTree::Id> Add(const ValueType& type) {
    CASK_ASSIGN_OR_RETURN(const Unsigned bits, cursor_.Number<Unsigned>());
    if (type.kind == ValueKind::kUint) return memory_->tree->AddUint(bits, type.bits);
    if (type.kind == ValueKind::kInt) return memory_->tree->AddInt(static_cast<Signed>(bits), type.bits);
    if (type.kind == ValueKind::kFloat) {
      double number = 0;
      std::memcpy(&number, &bits, sizeof bits);
      return memory_->tree->AddFloat(number, type.bits);
    }
    if (bits > 1) return absl::DataLossError(absl::StrCat("a bool has the byte ", bits, ", not 0 or 1"));
    return memory_->tree->AddBool(bits == 1);
  }

  absl::StatusOr<ValueTree::Id> Array() {
    CASK_ASSIGN_OR_RETURN(const ValueType type, Type());
    if (type.kind == ValueKind::kList) return absl::DataLossError("the value is an array of arrays");
    CASK_ASSIGN_OR_RETURN(const auto count, cursor_.Number<uint64_t>());
    const uint64_t item_bytes = type.bits > 0 ? static_cast<uint64_t>(type.bits) / 8 : kLengthBytes;
    if (count > cursor_.left() / item_bytes) {
      return absl::DataLossError(absl::StrCat("the array announces ", count, " elements of at least ", item_bytes,
                                              " bytes; ", cursor_.left(), " bytes of the file are left"));
    }
    CASK_RETURN_IF_ERROR(Charge(cursor_, kMemoryOfValue, memory_));
    if (count <= memory_->max_items) return Items(type, count);
    FileArray array;
    array.kind = type.kind;
    array.bits = type.kind == ValueKind::kBool ? 0 : type.bits;
    array.count = count;
    array.offset = cursor_.position();
    CASK_RETURN_IF_ERROR(type.kind == ValueKind::kText   ? cursor_.SkipTexts(count)
                         : type.kind == ValueKind::kBool ? cursor_.SkipBools(count)
                                                         : cursor_.Skip(count * item_bytes));
    array.stored_bytes = cursor_.position() - array.offset;
    return memory_->tree->AddFileArray(array);
  }

  HeaderCursor& cursor_;
  HeaderMemory* const memory_;
};

// The first name that two of `items` have; null if all differ. `order`: of their names.
template <typename Item>
const std::string* FindDuplicate(const std::vector<Item>& items, const std::vector<uint32_t>& order) {
  const auto found = std::adjacent_find(order.begin(), order.end(),
                                        [&](uint32_t a, uint32_t b) { return items[a].name == items[b].name; });
  return found != order.end() ? &items[*found].name : nullptr;
}

absl::StatusOr<std::vector<HeaderKey>> ParseKeys(uint64_t count, HeaderCursor* cursor, HeaderMemory* memory) {
  std::vector<HeaderKey> keys;
  ValueParser values(cursor, memory);
  for (uint64_t i = 0; i < count; ++i) {
    HeaderKey key;
    CASK_ASSIGN_OR_ANNOTATE(key.name, cursor->Text(kMaxKeyNameBytes), absl::StrCat("name of key ", i));
    if (key.name.empty()) return absl::DataLossError(absl::StrCat("key ", i, " has an empty name"));
    key.offset = cursor->position();
    CASK_ASSIGN_OR_ANNOTATE(key.value, values.TypedValue(), absl::StrCat("key ", Quoted(key.name)));
    key.stored_bytes = cursor->position() - key.offset;
    key.is_padding = IsPadding(key.name, memory->tree->value(key.value));
    CASK_RETURN_IF_ERROR(Charge(*cursor, sizeof(HeaderKey) + 2 * key.name.size(), memory));
    keys.push_back(std::move(key));
  }
  if (const std::string* const name = FindDuplicate(keys, stored::OrderByName(keys)); name != nullptr) {
    return absl::DataLossError(absl::StrCat("two keys have the name ", Quoted(*name)));
  }
  return keys;
}

absl::StatusOr<uint64_t> AlignmentOf(const std::vector<HeaderKey>& keys, const ValueTree& tree) {
  for (const HeaderKey& key : keys) {
    if (key.name != kAlignmentKey) continue;
    const Value value = tree.value(key.value);
    if (value.kind() != ValueKind::kUint || value.bits() != 32) {
      return absl::DataLossError(absl::StrCat(kAlignmentKey, " is not a uint32"));
    }
    const uint64_t alignment = value.uint_value();
    if (!IsAlignment(alignment)) {
      return absl::DataLossError(
          absl::StrCat(kAlignmentKey, " is ", alignment, "; wanted a power of two of at most ", kMaxAlignment));
    }
    return alignment;
  }
  return kDefaultAlignment;
}

// The shape of a tensor whose sizes the file has innermost first, and the bytes that it takes.
absl::Status ParseSizes(HeaderCursor* cursor, HeaderTensor* tensor) {
  CASK_ASSIGN_OR_RETURN(const auto rank, cursor->Number<uint32_t>());
  if (rank > kMaxRank) {
    return absl::DataLossError(absl::StrCat("has ", rank, " dimensions; the format has at most ", kMaxRank));
  }
  int64_t dims[kMaxRank] = {};
  for (uint32_t axis = rank; axis-- > 0;) {
    CASK_ASSIGN_OR_RETURN(dims[axis], cursor->Number<int64_t>());
  }
  CASK_ASSIGN_OR_RETURN(const auto id, cursor->Number<uint32_t>());
  tensor->type = FindElementType(id);
  if (tensor->type == nullptr) return UnknownElementType(id);
  absl::StatusOr<TensorShape> shape = TensorShape::Create(absl::MakeConstSpan(dims, rank));
  if (!shape.ok()) return AsDataLoss(shape.status(), "shape");
  tensor->shape = *std::move(shape);
  const ElementType& type = *tensor->type;
  const int64_t innermost = rank > 0 ? dims[rank - 1] : 1;
  if (innermost % type.elements != 0) {
    return absl::DataLossError(absl::StrCat("has rows of ", innermost, " elements; wanted a multiple of ",
                                            type.elements, ", which a block of ", type.name, " has"));
  }
  const int64_t num_elements = tensor->shape.num_elements();
  const std::optional<int64_t> bytes = CheckedMul<int64_t>(num_elements / type.elements, type.bytes);
  if (num_elements == 0 || !bytes) CASK_RETURN_IF_ERROR(ShapeInBytes(tensor->shape, type).status());
  tensor->stored_bytes = static_cast<uint64_t>(bytes.value_or(0));
  return absl::OkStatus();
}

// The tensors, with offsets that count from the start of the data.
absl::StatusOr<std::vector<HeaderTensor>> ParseTensors(uint64_t count, uint64_t alignment, const DecodeLimits& limits,
                                                       HeaderCursor* cursor, HeaderMemory* memory) {
  std::vector<HeaderTensor> tensors;
  uint64_t next = 0;  // where the data of the next tensor begins
  for (uint64_t i = 0; i < count; ++i) {
    HeaderTensor tensor;
    CASK_ASSIGN_OR_ANNOTATE(tensor.name, cursor->Text(LimitOf(limits.max_name_bytes)),
                            absl::StrCat("name of tensor ", i));
    const absl::Status status = [&]() -> absl::Status {
      CASK_RETURN_IF_ERROR(ParseSizes(cursor, &tensor));
      CASK_ASSIGN_OR_RETURN(tensor.offset, cursor->Number<uint64_t>());
      if (tensor.offset != next) {
        return absl::DataLossError(
            absl::StrCat("its data begins at ", tensor.offset, " of the data; the tensors before it end at ", next));
      }
      const std::optional<uint64_t> end = CheckedAdd(next, tensor.stored_bytes);
      const std::optional<uint64_t> padded = end ? RoundUp(*end, alignment) : std::nullopt;
      if (!padded) return absl::DataLossError("the tensors up to this one have too many bytes");
      next = *padded;
      return Charge(*cursor, sizeof(HeaderTensor) + tensor.name.size(), memory);
    }();
    if (!status.ok()) return Annotate(status, absl::StrCat("tensor ", Quoted(tensor.name)));
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

// Makes offsets count from the start of the file, and compares the ends of the tensors with that of the file.
absl::Status PlaceTensors(uint64_t file_bytes, Header* header) {
  uint64_t end = header->data_offset;
  for (HeaderTensor& tensor : header->tensors) {
    const bool is_inside = header->data_offset <= file_bytes && tensor.offset <= file_bytes - header->data_offset &&
                           tensor.stored_bytes <= file_bytes - header->data_offset - tensor.offset;
    if (!is_inside && tensor.stored_bytes > 0) {
      return absl::DataLossError(absl::StrCat("tensor ", Quoted(tensor.name), ": its ", tensor.stored_bytes,
                                              " bytes at ", tensor.offset, " of the data, which begins at ",
                                              header->data_offset, ", pass the end of the file (", file_bytes,
                                              " bytes); the file was cut or not copied whole"));
    }
    if (!is_inside) continue;  // no bytes, and the padding before it is absent
    tensor.offset += header->data_offset;
    end = tensor.offset + tensor.stored_bytes;
  }
  const std::optional<uint64_t> padded = RoundUp(end, header->alignment);
  if (!header->tensors.empty() && padded && file_bytes < *padded) {
    header->notes.push_back("the padding behind the last tensor is absent");
  } else if (padded && file_bytes > *padded) {
    header->notes.push_back(absl::StrCat(file_bytes - *padded, " bytes are behind the last tensor"));
  }
  return absl::OkStatus();
}

void NoteLongNames(Header* header) {
  uint64_t count = 0;
  const std::string* first = nullptr;
  for (const HeaderTensor& tensor : header->tensors) {
    if (tensor.name.size() < kLongName) continue;
    if (count++ == 0) first = &tensor.name;
  }
  if (count == 0) return;
  header->notes.push_back(absl::StrCat(count, count == 1 ? " name has " : " names have ", kLongName,
                                       " bytes and more, which ggml refuses; the first is ", Quoted(*first)));
}

}  // namespace

absl::StatusOr<TensorShape> ShapeInBytes(const TensorShape& shape, const ElementType& type) {
  auto dims = shape.dims();
  if (dims.empty()) dims.push_back(1);
  const std::optional<int64_t> row = CheckedMul<int64_t>(dims.back() / type.elements, type.bytes);
  dims.back() = row.value_or(0);
  absl::StatusOr<TensorShape> bytes = TensorShape::Create(dims);
  if (row && bytes.ok()) return bytes;
  return absl::DataLossError(absl::StrCat("shape ", shape.ToString(), " has too many bytes"));
}

absl::StatusOr<Header> ParseHeader(const ByteSource& source, const DecodeLimits& limits, HeaderMemory* memory) {
  char start[8] = {};
  if (source.size_bytes() >= sizeof start) CASK_RETURN_IF_ERROR(source.ReadAt(0, absl::MakeSpan(start)));
  if (absl::string_view(start, kMagic.size()) != kMagic) return absl::DataLossError("not a GGUF file");
  Header header;
  header.version = LoadLittleEndian<uint32_t>(start + kMagic.size());
  if ((header.version & 0xffff) == 0 && header.version != 0) {
    header.big_endian = true;
    SwapBytes(&header.version, 1, sizeof header.version);
  }
  if (header.version == 0 || header.version == 1) {
    return absl::DataLossError(absl::StrCat("GGUF of version ", header.version, "; wanted version 2 or 3"));
  }
  if (header.version > 3) {
    return absl::UnimplementedError(
        absl::StrCat("GGUF of version ", header.version, ", which is newer than this build; wanted version 2 or 3"));
  }
  HeaderCursor cursor(source, sizeof start, header.big_endian);
  CASK_ASSIGN_OR_RETURN(const auto num_tensors, cursor.Number<uint64_t>());
  CASK_ASSIGN_OR_RETURN(const auto num_keys, cursor.Number<uint64_t>());
  for (const auto& [count, min_bytes, what] :
       {std::make_tuple(num_keys, kMinKeyBytes, " keys"), std::make_tuple(num_tensors, kMinTensorBytes, " tensors")}) {
    if (count > cursor.left() / min_bytes) {
      return absl::DataLossError(absl::StrCat("the header announces ", count, what, "; the ", cursor.left(),
                                              " bytes behind it hold at most ", cursor.left() / min_bytes));
    }
    if (count > LimitOf(limits.max_entries)) {
      return PastLimit(absl::StrCat("has ", count, what), "max_entries", limits.max_entries);
    }
  }
  CASK_ASSIGN_OR_RETURN(header.keys, ParseKeys(num_keys, &cursor, memory));
  CASK_ASSIGN_OR_RETURN(header.alignment, AlignmentOf(header.keys, *memory->tree));
  CASK_ASSIGN_OR_RETURN(header.tensors, ParseTensors(num_tensors, header.alignment, limits, &cursor, memory));
  header.by_name = stored::OrderByName(header.tensors);
  if (const std::string* const name = FindDuplicate(header.tensors, header.by_name); name != nullptr) {
    return absl::DataLossError(absl::StrCat("two tensors have the name ", Quoted(*name)));
  }
  header.data_offset = *RoundUp(cursor.position(), header.alignment);
  CASK_ASSIGN_OR_RETURN(const bool is_padded,
                        cursor.SkipZeros(std::min(header.data_offset - cursor.position(), cursor.left())));
  if (!is_padded) header.notes.push_back("the padding behind the header is not zero");
  CASK_RETURN_IF_ERROR(PlaceTensors(source.size_bytes(), &header));
  NoteLongNames(&header);
  return header;
}

absl::StatusOr<ValueTree> ReadFileArray(const ByteSource& source, const FileArray& array, bool big_endian,
                                        const DecodeLimits& limits) {
  ValueTree tree;
  ListingBudget budget(limits);
  HeaderMemory memory{&tree, &budget};
  memory.counted_bytes = array.offset;
  HeaderCursor cursor(source, array.offset, big_endian);
  const ValueType type = {array.kind, array.kind == ValueKind::kBool ? 8 : array.bits, ""};
  const absl::Status added = ValueParser(&cursor, &memory).Items(type, array.count).status();
  if (absl::IsResourceExhausted(added)) {
    return PastLimit(absl::StrCat("an array of ", array.count, " elements takes too much memory as a list"),
                     "max_memory_beyond_input", limits.max_memory_beyond_input);
  }
  CASK_RETURN_IF_ERROR(added);
  return tree;
}

absl::StatusOr<std::string> ReadArrayBytes(const ByteSource& source, const FileArray& array, bool big_endian) {
  std::string bytes;
  if (big_endian && array.kind == ValueKind::kText) {
    HeaderCursor cursor(source, array.offset, big_endian);
    for (uint64_t i = 0; i < array.count; ++i) {
      CASK_ASSIGN_OR_RETURN(const std::string text, cursor.Text(array.stored_bytes));
      char length[kLengthBytes];
      StoreLittleEndian<uint64_t>(text.size(), length);
      bytes.append(length, kLengthBytes).append(text);
    }
    return bytes;
  }
  bytes.resize(static_cast<size_t>(array.stored_bytes));
  CASK_RETURN_IF_ERROR(source.ReadAt(array.offset, absl::MakeSpan(&bytes[0], bytes.size())));
  if (big_endian && array.bits > 8) {
    SwapBytes(&bytes[0], static_cast<size_t>(array.count), static_cast<size_t>(array.bits) / 8);
  }
  return bytes;
}

}  // namespace tensorcask::gguf
