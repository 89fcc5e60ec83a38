#include "tensorcask/serialize/torch/internal/pickle_writer.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/torch/internal/globals.h"
#include "tensorcask/tensor/base/endian.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/utf8.h"

namespace tensorcask::torch {
namespace {

constexpr size_t kMaxIntegerBytes = 255;

// Instructions.
constexpr char kMark = '(';
constexpr char kEmptyTuple = ')';
constexpr char kTuple = 't';
constexpr char kTuple1 = '\x85';
constexpr char kTuple2 = '\x86';
constexpr char kCall = 'R';
constexpr char kEmptyList = ']';
constexpr char kAppends = 'e';
constexpr char kEmptyDict = '}';
constexpr char kSetItems = 'u';
constexpr char kPersistentId = 'Q';
constexpr char kStop = '.';

bool IsUnhashable(ValueKind kind) {
  return kind == ValueKind::kList || kind == ValueKind::kSet || kind == ValueKind::kMap;
}

// The bytes of an integer as LONG1 has them: two's complement, little-endian; nullopt if they are too many.
std::optional<std::string> IntegerBytes(absl::string_view digits) {
  const bool is_negative = !digits.empty() && digits[0] == '-';
  if (is_negative) digits.remove_prefix(1);
  std::string bytes;
  for (const char digit : digits) {
    if (digit < '0' || digit > '9') return std::nullopt;
    int carry = digit - '0';
    for (char& byte : bytes) {
      carry += static_cast<unsigned char>(byte) * 10;
      byte = static_cast<char>(carry & 0xff);
      carry >>= 8;
    }
    if (carry != 0) bytes.push_back(static_cast<char>(carry));
    if (bytes.size() > kMaxIntegerBytes) return std::nullopt;
  }
  if (bytes.empty() || (bytes.back() & 0x80) != 0) bytes.push_back('\0');  // for the sign
  if (is_negative) {
    int carry = 1;
    for (char& byte : bytes) {
      carry += static_cast<unsigned char>(~byte);
      byte = static_cast<char>(carry & 0xff);
      carry >>= 8;
    }
  }
  if (bytes.size() > kMaxIntegerBytes) return std::nullopt;
  return bytes;
}

class Writer {
 public:
  Writer(const ValueTree& tree, absl::Span<const SavedTensor> tensors) : tree_(tree), tensors_(tensors) {}

  absl::StatusOr<std::string> Write() {
    CASK_RETURN_IF_ERROR(Count());
    out_ = std::string("\x80\x02", 2);  // PROTO
    std::vector<Open> open;
    CASK_RETURN_IF_ERROR(Begin(tree_.root(), &open));
    while (!open.empty()) {
      Open& last = open.back();
      if (last.next < last.value.num_children()) {
        CASK_RETURN_IF_ERROR(Begin(last.value.child(last.next++), &open));
        continue;
      }
      End(last.value);
      open.pop_back();
    }
    Put(kStop);
    return std::move(out_);
  }

 private:
  struct Open {
    Value value;
    size_t next = 0;  // which of its children comes next
  };

  // Counts the places of each value. An item has a smaller number than the value that holds it.
  absl::Status Count() {
    places_.resize(size_t{tree_.root().id()} + 1);
    tensor_places_.resize(tensors_.size());
    places_.back() = 1;
    for (size_t id = places_.size(); id-- > 0;) {
      if (places_[id] == 0) continue;
      const Value value = tree_.value(static_cast<ValueTree::Id>(id));
      CASK_RETURN_IF_ERROR(CheckPickled(value));
      if (value.kind() == ValueKind::kTensor) tensor_places_[value.tensor()] = AddPlaces(id, value.tensor());
      for (size_t i = 0; i < value.num_children(); ++i) {
        uint8_t& places = places_[value.child(i).id()];
        places = std::min<uint8_t>(2, static_cast<uint8_t>(places + 1));
      }
    }
    return absl::OkStatus();
  }
  uint8_t AddPlaces(size_t id, uint64_t tensor) const {
    return std::min<uint8_t>(2, static_cast<uint8_t>(tensor_places_[tensor] + places_[id]));
  }

  // ---- Instructions -------------------------------------------------------------------------------------------------

  void Put(char instruction) { out_.push_back(instruction); }
  template <typename T>
  void PutNumber(T number) {
    char bytes[sizeof(T)];
    StoreLittleEndian(number, bytes);
    out_.append(bytes, sizeof(T));
  }

  // Keeps the last value in the memo, under the number that this returns.
  uint32_t Keep() {
    const uint32_t number = memo_++;
    Put(number < 256 ? 'q' : 'r');
    number < 256 ? PutNumber(static_cast<uint8_t>(number)) : PutNumber(number);
    return number;
  }
  void PutKept(uint32_t number) {
    Put(number < 256 ? 'h' : 'j');
    number < 256 ? PutNumber(static_cast<uint8_t>(number)) : PutNumber(number);
  }

  void PutInt(int64_t value) {
    if (value >= 0 && value <= 0xff) {
      Put('K');
      PutNumber(static_cast<uint8_t>(value));
    } else if (value >= 0 && value <= 0xffff) {
      Put('M');
      PutNumber(static_cast<uint16_t>(value));
    } else if (value >= INT32_MIN && value <= INT32_MAX) {
      Put('J');
      PutNumber(static_cast<int32_t>(value));
    } else {
      Put('\x8a');  // always eight bytes: C++ accepts no other number
      Put(sizeof(value));
      PutNumber(value);
    }
  }
  void PutInteger(absl::string_view bytes) {
    Put('\x8a');
    Put(static_cast<char>(bytes.size()));
    out_.append(bytes.data(), bytes.size());
  }
  void PutBool(bool value) { Put(value ? '\x88' : '\x89'); }
  void PutFloat(double value) {
    char bytes[sizeof(value)];
    StoreLittleEndian(value, bytes);
    std::reverse(std::begin(bytes), std::end(bytes));
    Put('G');
    out_.append(bytes, sizeof(bytes));
  }
  void PutText(absl::string_view text) {
    Put('X');
    PutNumber(static_cast<uint32_t>(text.size()));
    out_.append(text.data(), text.size());
  }

  // A text or a name that is often used.
  void PutKnown(absl::string_view text) {
    const auto [found, is_new] = known_.try_emplace(text, 0);
    if (!is_new) return PutKept(found->second);
    PutText(text);
    found->second = Keep();
  }
  // "torch.Size": the name after the last dot is in the module before it.
  void PutName(absl::string_view name) {
    const auto [found, is_new] = names_.try_emplace(name, 0);
    if (!is_new) return PutKept(found->second);
    const size_t dot = name.rfind('.');
    absl::StrAppend(&out_, "c", name.substr(0, dot), "\n", name.substr(dot + 1), "\n");
    found->second = Keep();
  }

  void PutNumbers(absl::Span<const int64_t> numbers) {
    Put(kMark);
    for (const int64_t number : numbers) PutInt(number);
    Put(kTuple);
  }

  // ---- Values -------------------------------------------------------------------------------------------------------

  // Writes a value without children, or the beginning of one with children, which it opens.
  absl::Status Begin(Value value, std::vector<Open>* open) {
    if (const auto kept = kept_.find(value.id()); kept != kept_.end()) {
      PutKept(kept->second);
      return absl::OkStatus();
    }
    switch (value.kind()) {
      case ValueKind::kNone:
        Put('N');
        break;
      case ValueKind::kBool:
        PutBool(value.bool_value());
        break;
      case ValueKind::kInt:
        PutInt(value.int_value());
        break;
      case ValueKind::kUint:
        if (value.uint_value() <= static_cast<uint64_t>(INT64_MAX)) {
          PutInt(static_cast<int64_t>(value.uint_value()));
        } else {
          PutInteger(*IntegerBytes(absl::StrCat(value.uint_value())));
        }
        break;
      case ValueKind::kBigInt:
        PutInteger(*IntegerBytes(value.text()));
        KeepIfShared(value);
        break;
      case ValueKind::kFloat:
        PutFloat(value.float_value());
        break;
      case ValueKind::kComplex:
        PutName("__builtin__.complex");
        PutFloat(value.complex_value().real());
        PutFloat(value.complex_value().imag());
        Put(kTuple2);
        Put(kCall);
        break;
      case ValueKind::kText:
        PutText(value.text());
        KeepIfShared(value);
        break;
      case ValueKind::kBytes:
        PutBytes(value.text());
        KeepIfShared(value);
        break;
      case ValueKind::kDType:
        PutName(FindGlobal(absl::StrCat("torch.", value.text()))->name);
        break;
      case ValueKind::kDevice:
        PutName("torch.device");
        PutKnown(value.text());
        Put(kTuple1);
        Put(kCall);
        break;
      case ValueKind::kTensor:
        PutTensor(value.tensor());
        break;
      case ValueKind::kList:
        Put(kEmptyList);
        KeepIfShared(value);
        break;
      case ValueKind::kMap:
        Put(kEmptyDict);
        KeepIfShared(value);
        break;
      case ValueKind::kSet:
        PutName("__builtin__.set");
        Put(kEmptyList);
        break;
      case ValueKind::kSize:
        PutName("torch.Size");
        break;
      case ValueKind::kTuple:
        break;
      case ValueKind::kFileArray:
      case ValueKind::kObject:
        return CheckPickled(value);
    }
    if (HasItems(value.kind())) {
      if (value.num_children() > 0 || value.kind() == ValueKind::kTuple || value.kind() == ValueKind::kSize) Put(kMark);
      open->push_back({value});
    }
    return absl::OkStatus();
  }

  static bool HasItems(ValueKind kind) {
    return IsUnhashable(kind) || kind == ValueKind::kTuple || kind == ValueKind::kSize;
  }

  void End(Value value) {
    switch (value.kind()) {
      case ValueKind::kMap:
        if (value.size() > 0) Put(kSetItems);
        return;
      case ValueKind::kList:
        if (value.size() > 0) Put(kAppends);
        return;
      case ValueKind::kSet:
        if (value.size() > 0) Put(kAppends);
        Put(kTuple1);
        Put(kCall);
        break;
      case ValueKind::kSize:
        Put(kTuple);
        Put(kTuple1);
        Put(kCall);
        break;
      default:
        Put(kTuple);
    }
    KeepIfShared(value);
  }

  void KeepIfShared(Value value) {
    if (places_[value.id()] > 1) kept_[value.id()] = Keep();
  }

  // Protocol 2 has no bytes: each is the character of its number.
  void PutBytes(absl::string_view bytes) {
    std::string text;
    for (const char byte : bytes) {
      const auto code = static_cast<unsigned char>(byte);
      if (code >= 0x80) text.push_back(static_cast<char>(0xc0 | code >> 6));
      text.push_back(static_cast<char>(code < 0x80 ? code : 0x80 | (code & 0x3f)));
    }
    PutName("_codecs.encode");
    PutText(text);
    PutKnown("latin1");
    Put(kTuple2);
    Put(kCall);
  }

  void PutTensor(uint64_t number) {
    if (const auto kept = kept_tensors_.find(number); kept != kept_tensors_.end()) return PutKept(kept->second);
    const SavedTensor& tensor = tensors_[number];
    // Null for newer dtypes: their storage is of bytes, and the tensor names the dtype.
    const Global* const storage = FindGlobalOf(GlobalUse::kStorage, tensor.dtype);
    PutName(tensor.quantizer != nullptr ? "torch._utils._rebuild_qtensor"
            : storage != nullptr        ? "torch._utils._rebuild_tensor_v2"
                                        : "torch._utils._rebuild_tensor_v3");
    Put(kMark);
    PutStorage(storage != nullptr ? storage->name : "torch.storage.UntypedStorage", tensor.storage,
               tensor.storage_bytes / (storage != nullptr ? ElementSize(tensor.dtype) : 1));
    PutInt(tensor.layout.offset());
    PutNumbers(tensor.layout.dims());
    PutNumbers(tensor.layout.strides());
    if (tensor.quantizer != nullptr) PutQuantizer(*tensor.quantizer);
    PutBool(tensor.requires_grad);
    PutHooks();
    if (storage == nullptr) PutName(FindGlobalOf(GlobalUse::kDType, tensor.dtype)->name);
    Put(kTuple);
    Put(kCall);
    if (tensor_places_[number] > 1) kept_tensors_[number] = Keep();
  }

  void PutStorage(absl::string_view class_name, uint64_t key, uint64_t num_elements) {
    Put(kMark);
    PutKnown("storage");
    PutName(class_name);
    PutText(absl::StrCat(key));
    PutKnown("cpu");
    PutInt(static_cast<int64_t>(num_elements));
    Put(kTuple);
    Put(kPersistentId);
  }

  void PutHooks() {
    PutName("collections.OrderedDict");
    Put(kEmptyTuple);
    Put(kCall);
  }

  void PutQuantizer(const SavedQuantizer& quantizer) {
    Put(kMark);
    PutName(quantizer.scheme);
    if (quantizer.per_channel) {
      PutChannels(quantizer.floats ? DType::kFloat32 : DType::kFloat64, quantizer.scales_storage, quantizer.channels);
      PutChannels(quantizer.floats ? DType::kFloat32 : DType::kInt64, quantizer.zero_points_storage,
                  quantizer.channels);
      PutInt(quantizer.axis);
    } else {
      PutFloat(quantizer.scale);
      PutInt(quantizer.zero_point);
    }
    Put(kTuple);
  }

  // A tensor of one axis, which is all of its storage.
  void PutChannels(DType dtype, uint64_t storage, int64_t channels) {
    PutName("torch._utils._rebuild_tensor_v2");
    Put(kMark);
    PutStorage(FindGlobalOf(GlobalUse::kStorage, dtype)->name, storage, static_cast<uint64_t>(channels));
    PutInt(0);
    PutNumbers({channels});
    PutNumbers({1});
    PutBool(false);
    PutHooks();
    Put(kTuple);
    Put(kCall);
  }

  const ValueTree& tree_;
  const absl::Span<const SavedTensor> tensors_;
  std::string out_;
  std::vector<uint8_t> places_;         // for each value: 0, 1, or 2 for more
  std::vector<uint8_t> tensor_places_;  // for each tensor
  // Numbers in the memo.
  uint32_t memo_ = 0;
  absl::flat_hash_map<ValueTree::Id, uint32_t> kept_;
  absl::flat_hash_map<uint64_t, uint32_t> kept_tensors_;
  absl::flat_hash_map<std::string, uint32_t> known_;
  absl::flat_hash_map<std::string, uint32_t> names_;
};

absl::Status Refused(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("a pickle has no ", what));
}

}  // namespace

absl::Status CheckSavedDType(DType dtype) {
  if (FindGlobalOf(GlobalUse::kDType, dtype) != nullptr) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat(DTypeName(dtype), " is not a dtype of PyTorch"));
}

absl::Status CheckPickled(Value value) {
  switch (value.kind()) {
    case ValueKind::kObject:
      return Refused(absl::StrCat("object of the class ", Quoted(value.class_name())));
    case ValueKind::kFileArray:
      return Refused("array that is left in another file");
    case ValueKind::kText:
    case ValueKind::kDevice:
      if (!internal::IsUtf8(value.text())) return Refused("text that is not UTF-8");
      [[fallthrough]];
    case ValueKind::kBytes:
      if (value.text().size() > UINT32_MAX / 2) return Refused("text of 2 GiB");
      return absl::OkStatus();
    case ValueKind::kBigInt:
      if (!IntegerBytes(value.text()).has_value()) return Refused("integer of more than 255 bytes");
      return absl::OkStatus();
    case ValueKind::kDType: {
      const Global* const global = FindGlobal(absl::StrCat("torch.", value.text()));
      if (global == nullptr || global->use != GlobalUse::kDType) {
        return Refused(absl::StrCat("dtype ", Quoted(value.text())));
      }
      return absl::OkStatus();
    }
    case ValueKind::kMap:
    case ValueKind::kSet: {
      const size_t step = value.kind() == ValueKind::kMap ? 2 : 1;
      for (size_t i = 0; i < value.num_children(); i += step) {
        if (IsUnhashable(value.child(i).kind())) return Refused("list, set or map as a key or in a set");
      }
      return absl::OkStatus();
    }
    case ValueKind::kSize:
      for (size_t i = 0; i < value.num_children(); ++i) {
        if (value.child(i).kind() != ValueKind::kInt) return Refused("Size of anything but integers");
      }
      return absl::OkStatus();
    case ValueKind::kNone:
    case ValueKind::kBool:
    case ValueKind::kInt:
    case ValueKind::kUint:
    case ValueKind::kFloat:
    case ValueKind::kComplex:
    case ValueKind::kTensor:
    case ValueKind::kList:
    case ValueKind::kTuple:
      return absl::OkStatus();
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> WritePickle(const ValueTree& values, absl::Span<const SavedTensor> tensors) {
  return Writer(values, tensors).Write();
}

absl::StatusOr<std::string> WriteTexts(const std::map<std::string, std::string>& texts) {
  ValueTree tree;
  std::vector<std::pair<ValueTree::Id, ValueTree::Id>> entries;
  for (const auto& [key, value] : texts) {
    if (!internal::IsUtf8(key) || !internal::IsUtf8(value)) {
      return absl::InvalidArgumentError(absl::StrCat("the metadata ", Quoted(key), " is not UTF-8"));
    }
    const ValueTree::Id id = tree.AddText(key);
    entries.emplace_back(id, tree.AddText(value));
  }
  tree.AddMap(entries);
  return WritePickle(tree, {});
}

}  // namespace tensorcask::torch
