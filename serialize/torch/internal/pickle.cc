#include "tensorcask/serialize/torch/internal/pickle.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/torch/internal/globals.h"
#include "tensorcask/serialize/torch/internal/pickle_builder.h"
#include "tensorcask/serialize/torch/internal/pickle_rules.h"
#include "tensorcask/serialize/torch/internal/rebuild.h"
#include "tensorcask/serialize/torch/internal/rebuild_tensors.h"
#include "tensorcask/tensor/base/endian.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/base/utf8.h"

namespace tensorcask::torch {
namespace {

using Kind = Object::Kind;

class Machine {
 public:
  Machine(absl::string_view bytes, const PickleOptions& options, DecodeQuota* quota)
      : bytes_(bytes), options_(options), builder_(&pickle_, quota) {
    // The most that pickles of tensors usually have. Memory that is not used stays untouched.
    constexpr size_t kBytesOfObject = 6;
    constexpr size_t kBytesOfList = 12;
    constexpr size_t kMostReserved = size_t{1} << 18;
    pickle_.objects.reserve(std::min(bytes.size() / kBytesOfObject, kMostReserved));
    pickle_.lists.reserve(std::min(bytes.size() / kBytesOfList, kMostReserved));
  }

  absl::StatusOr<Pickle> Run() {
    if (bytes_.empty()) return absl::OutOfRangeError("the pickle has no bytes");
    if (static_cast<unsigned char>(bytes_[0]) != kProto) {
      return absl::DataLossError("does not begin as a pickle of protocol 2 to 5");
    }
    while (!is_done_) {
      const size_t start = at_;
      absl::Status status = Step();
      if (status.ok()) status = builder_.status();
      if (status.ok() && frame_ends_.has_value() && at_ > *frame_ends_) {
        status = absl::DataLossError("an instruction leaves its frame");
      }
      if (!status.ok()) return Annotate(status, absl::StrCat("byte ", start, " of the pickle"));
      if (frame_ends_ == at_) frame_ends_.reset();
    }
    pickle_.size_bytes = at_;
    CASK_RETURN_IF_ERROR(DropEqualKeys(&pickle_, &builder_));
    CASK_RETURN_IF_ERROR(ListDictAttributes(&pickle_, &builder_));
    return std::move(pickle_);
  }

 private:
  static constexpr unsigned char kProto = 0x80;

  static absl::Status Bad(absl::string_view what) { return absl::DataLossError(what); }

  // ---- Operands -----------------------------------------------------------------------------------------------------

  absl::StatusOr<absl::string_view> Take(uint64_t bytes) {
    if (bytes > bytes_.size() - at_) {
      return absl::OutOfRangeError(
          absl::StrCat("the pickle ends: ", bytes, " bytes are wanted, ", bytes_.size() - at_, " are left"));
    }
    const absl::string_view taken = bytes_.substr(at_, static_cast<size_t>(bytes));
    at_ += static_cast<size_t>(bytes);
    return taken;
  }

  template <typename T>
  absl::StatusOr<T> Number() {
    if (sizeof(T) <= bytes_.size() - at_) {
      at_ += sizeof(T);
      return LoadLittleEndian<T>(bytes_.data() + at_ - sizeof(T));
    }
    CASK_ASSIGN_OR_RETURN(const absl::string_view bytes, Take(sizeof(T)));
    return LoadLittleEndian<T>(bytes.data());
  }

  // Bytes after their length, a T.
  template <typename T>
  absl::StatusOr<absl::string_view> Counted() {
    CASK_ASSIGN_OR_RETURN(const T count, Number<T>());
    if constexpr (std::numeric_limits<T>::is_signed) {
      if (count < 0) return Bad(absl::StrCat("a length of ", count));
    }
    return Take(static_cast<uint64_t>(count));
  }

  absl::StatusOr<absl::string_view> Line() {
    const size_t end = bytes_.find('\n', at_);
    if (end == absl::string_view::npos) return absl::OutOfRangeError("the pickle ends inside a name");
    const absl::string_view line = bytes_.substr(at_, end - at_);
    at_ = end + 1;
    return line;
  }

  // ---- The stack ----------------------------------------------------------------------------------------------------

  size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }

  absl::Status Need(size_t count) const {
    if (stack_.size() - floor() >= count) return absl::OkStatus();
    return Bad(absl::StrCat("an instruction takes ", count, " values; the stack has ", stack_.size() - floor()));
  }

  // Requires: the stack is not empty.
  Ref Pop() {
    const Ref top = stack_.back();
    stack_.pop_back();
    return top;
  }

  void Push(Ref ref) {
    if (builder_.Charge(2 * sizeof(Ref))) stack_.push_back(ref);
  }

  absl::Status Push(const absl::StatusOr<Ref>& ref) {
    CASK_RETURN_IF_ERROR(ref.status());
    Push(*ref);
    return absl::OkStatus();
  }

  absl::Status PushText(const absl::StatusOr<absl::string_view>& text, bool is_text) {
    CASK_RETURN_IF_ERROR(text.status());
    Push(builder_.Text(*text, is_text && internal::IsUtf8(*text) ? Kind::kText : Kind::kBytes));
    return absl::OkStatus();
  }

  // The values on top of the stack.
  absl::Span<const Ref> Top(size_t count) const { return absl::MakeConstSpan(stack_).last(count); }

  // Removes the last mark: the number of values above it, which stay.
  absl::StatusOr<size_t> TakeMark() {
    if (marks_.empty()) return Bad("an instruction wants a mark, and there is none");
    const size_t count = stack_.size() - marks_.back();
    marks_.pop_back();
    return count;
  }

  // builtins.getattr is on the stack and in the memo until it is called, and becomes part of no value.
  absl::Status CheckNoGetAttr(absl::Span<const Ref> values) const {
    if (getattr_ == kNoRef) return absl::OkStatus();
    return std::find(values.begin(), values.end(), getattr_) == values.end() ? absl::OkStatus() : MisusesGetAttr();
  }

  // One value in place of the last ones.
  absl::Status Fold(Kind kind, size_t count) {
    CASK_RETURN_IF_ERROR(CheckNoGetAttr(Top(count)));
    const Ref list = builder_.List(kind, Top(count));
    stack_.resize(stack_.size() - count);
    Push(list);
    return absl::OkStatus();
  }

  absl::Status PushTuple(size_t count) {
    CASK_RETURN_IF_ERROR(Need(count));
    return Fold(Kind::kTuple, count);
  }

  absl::Status PushMarked(Kind kind) {
    CASK_ASSIGN_OR_RETURN(const size_t count, TakeMark());
    return Fold(kind, count);
  }

  // ---- Instructions -------------------------------------------------------------------------------------------------

  absl::Status Step() {
    if (at_ == bytes_.size()) return Take(1).status();
    const auto code = static_cast<unsigned char>(bytes_[at_++]);
    switch (code) {
      case kProto:
        return Proto();
      case 0x95:
        return Frame();
      case '.':
        return Stop();
      case '(':
        if (builder_.Charge(2 * sizeof(size_t))) marks_.push_back(stack_.size());
        return absl::OkStatus();
      case '0':
        if (stack_.size() == floor() && !marks_.empty()) {
          marks_.pop_back();
          return absl::OkStatus();
        }
        CASK_RETURN_IF_ERROR(Need(1));
        Pop();
        return absl::OkStatus();
      case '1': {
        CASK_ASSIGN_OR_RETURN(const size_t count, TakeMark());
        stack_.resize(stack_.size() - count);
        return absl::OkStatus();
      }
      case '2':
        CASK_RETURN_IF_ERROR(Need(1));
        Push(stack_.back());
        return absl::OkStatus();
      case 'N':
        Push(builder_.None());
        return absl::OkStatus();
      case 0x88:
        Push(builder_.Bool(true));
        return absl::OkStatus();
      case 0x89:
        Push(builder_.Bool(false));
        return absl::OkStatus();
      case 'J':
        return Integer(Number<int32_t>());
      case 'K':
        return Integer(Number<uint8_t>());
      case 'M':
        return Integer(Number<uint16_t>());
      case 0x8a:
        return Long(Counted<uint8_t>());
      case 0x8b:
        return Long(Counted<int32_t>());
      case 'G':
        return Float();
      case 'X':
        return PushText(Counted<uint32_t>(), true);
      case 0x8c:
        return PushText(Counted<uint8_t>(), true);
      case 0x8d:
        return PushText(Counted<uint64_t>(), true);
      case 'U':
        return PushText(Counted<uint8_t>(), true);  // written by Python 2: bytes, and most often text
      case 'T':
        return PushText(Counted<int32_t>(), true);
      case 'B':
        return PushText(Counted<uint32_t>(), false);
      case 'C':
        return PushText(Counted<uint8_t>(), false);
      case 0x8e:
      case 0x96:
        return PushText(Counted<uint64_t>(), false);
      case ')':
        return PushTuple(0);
      case 0x85:
        return PushTuple(1);
      case 0x86:
        return PushTuple(2);
      case 0x87:
        return PushTuple(3);
      case 't':
        return PushMarked(Kind::kTuple);
      case 0x91:
        return PushMarked(Kind::kSet);
      case ']':
        Push(builder_.List(Kind::kList, {}));
        return absl::OkStatus();
      case '}':
        Push(builder_.List(Kind::kDict, {}));
        return absl::OkStatus();
      case 0x8f:
        Push(builder_.List(Kind::kSet, {}));
        return absl::OkStatus();
      case 'a': {
        CASK_RETURN_IF_ERROR(Need(2));
        const Ref item = Pop();
        return Append(stack_.back(), {item}, Kind::kList);
      }
      case 'e':
        return AppendMarked(Kind::kList);
      case 0x90:
        return AppendMarked(Kind::kSet);
      case 's': {
        CASK_RETURN_IF_ERROR(Need(3));
        const Ref value = Pop();
        const Ref key = Pop();
        return Append(stack_.back(), {key, value}, Kind::kDict);
      }
      case 'u':
        return AppendMarked(Kind::kDict);
      case 'c': {
        CASK_ASSIGN_OR_RETURN(const absl::string_view module, Line());
        CASK_ASSIGN_OR_RETURN(const absl::string_view name, Line());
        return PushGlobal(module, name);
      }
      case 0x93: {
        CASK_RETURN_IF_ERROR(Need(2));
        const Object name = builder_.object(Pop());
        const Object module = builder_.object(Pop());
        if (module.kind != Kind::kText || name.kind != Kind::kText) return Bad("a global whose name is not text");
        return PushGlobal(module.text, name.text);
      }
      case 'R': {
        CASK_RETURN_IF_ERROR(Need(2));
        const Ref arguments = Pop();
        const Ref callable = Pop();
        CASK_RETURN_IF_ERROR(CheckNoGetAttr({arguments}));
        return Push(Call(callable, arguments, &builder_));
      }
      case 0x81: {
        CASK_RETURN_IF_ERROR(Need(2));
        const Ref arguments = Pop();
        return NewObject(Pop(), arguments);
      }
      case 0x92: {
        CASK_RETURN_IF_ERROR(Need(3));
        const Object keywords = builder_.object(Pop());
        const Ref arguments = Pop();
        const Ref callable = Pop();
        if (keywords.kind != Kind::kDict || pickle_.lists[keywords.index].size != 0) {
          return Bad("makes an object with arguments by name");
        }
        return NewObject(callable, arguments);
      }
      case 'b': {
        CASK_RETURN_IF_ERROR(Need(2));
        const Ref state = Pop();
        CASK_RETURN_IF_ERROR(CheckNoGetAttr({state, stack_.back()}));
        return SetState(stack_.back(), state, &builder_);
      }
      case 'Q': {
        CASK_RETURN_IF_ERROR(Need(1));
        if (options_.dcp_metadata) return Bad("declares a storage; the metadata of a checkpoint has none");
        return Push(FindStorage(Pop(), &storages_, &builder_));
      }
      case 'h':
        return Get(Number<uint8_t>());
      case 'j':
        return Get(Number<uint32_t>());
      case 'q':
        return Put(Number<uint8_t>());
      case 'r':
        return Put(Number<uint32_t>());
      case 0x94:
        return Put(absl::StatusOr<uint64_t>(num_memos_));
      default:
        break;
    }
    const absl::string_view refused = RefusedName(code);
    return Bad(refused.empty() ? absl::StrCat("no pickle has the instruction ", code)
                               : absl::StrCat("has the instruction ", refused));
  }

  absl::Status Proto() {
    CASK_ASSIGN_OR_RETURN(const uint8_t protocol, Number<uint8_t>());
    if (at_ != 2) return Bad("another pickle begins inside the pickle");
    if (protocol < 2 || protocol > 5) return Bad(absl::StrCat("a pickle of protocol ", protocol, "; 2 to 5 are read"));
    return absl::OkStatus();
  }

  absl::Status Frame() {
    CASK_ASSIGN_OR_RETURN(const uint64_t size, Number<uint64_t>());
    if (frame_ends_.has_value()) return Bad("a frame begins inside another frame");
    if (size > bytes_.size() - at_) {
      return absl::OutOfRangeError(
          absl::StrCat("a frame of ", size, " bytes, where ", bytes_.size() - at_, " are left"));
    }
    frame_ends_ = at_ + static_cast<size_t>(size);
    return absl::OkStatus();
  }

  absl::Status Stop() {
    if (!marks_.empty() || stack_.size() != 1) {
      return Bad(absl::StrCat("the pickle ends with ", stack_.size(), " values on its stack; wanted 1"));
    }
    if (frame_ends_.has_value() && *frame_ends_ != at_) return Bad("the pickle ends inside a frame");
    CASK_RETURN_IF_ERROR(CheckNoGetAttr(stack_));
    pickle_.root = stack_.back();
    is_done_ = true;
    return absl::OkStatus();
  }

  template <typename T>
  absl::Status Integer(const absl::StatusOr<T>& number) {
    CASK_RETURN_IF_ERROR(number.status());
    Push(builder_.Int(static_cast<int64_t>(*number)));
    return absl::OkStatus();
  }

  absl::Status Long(const absl::StatusOr<absl::string_view>& bytes) {
    constexpr size_t kMostBytes = 255;  // more take time that grows with the square
    CASK_RETURN_IF_ERROR(bytes.status());
    if (bytes->size() > kMostBytes) {
      return Bad(absl::StrCat("an integer of ", bytes->size(), " bytes; at most ", kMostBytes, " are read"));
    }
    if (bytes->size() > sizeof(uint64_t)) {
      const bool is_uint = bytes->size() == sizeof(uint64_t) + 1 && bytes->back() == 0;
      if (is_uint) {
        Push(builder_.Uint(LoadLittleEndian<uint64_t>(bytes->data())));
      } else {
        Push(builder_.Text(builder_.Keep(DecimalDigits(*bytes)), Kind::kBigInt));
      }
      return absl::OkStatus();
    }
    uint64_t value = !bytes->empty() && (bytes->back() & 0x80) != 0 ? ~uint64_t{0} : 0;
    for (size_t i = bytes->size(); i > 0; --i) value = value << 8 | static_cast<unsigned char>((*bytes)[i - 1]);
    Push(builder_.Int(static_cast<int64_t>(value)));
    return absl::OkStatus();
  }

  absl::Status Float() {
    CASK_ASSIGN_OR_RETURN(const absl::string_view bytes, Take(sizeof(double)));
    char little[sizeof(double)];
    std::reverse_copy(bytes.begin(), bytes.end(), little);
    Push(builder_.Float(LoadLittleEndian<double>(little)));
    return absl::OkStatus();
  }

  // Without the __init__ of the class: most classes of the table would not get their arguments.
  absl::Status NewObject(Ref of, Ref arguments) {
    CASK_RETURN_IF_ERROR(CheckNoGetAttr({of, arguments}));
    const Object& object = builder_.object(of);
    const Global* const global = object.kind == Kind::kGlobal ? &pickle_.globals[object.index] : nullptr;
    if (global != nullptr && global->use != GlobalUse::kPlainObject && global->use != GlobalUse::kUnknown &&
        global->use != GlobalUse::kEnumClass) {
      return Bad(absl::StrCat("makes an object of ", Quoted(global->name),
                              " by NEWOBJ, which is for objects of plain classes"));
    }
    return Push(Call(of, arguments, &builder_));
  }

  // Adds items to the value `to`. Objects of opaque classes may be lists and dicts, too.
  absl::Status Append(Ref to, absl::Span<const Ref> items, Kind kind) {
    CASK_RETURN_IF_ERROR(CheckNoGetAttr(items));
    if (builder_.object(to).kind == Kind::kObject) {
      Instance* const object = builder_.instance(to);
      Ref* const part = kind == Kind::kDict ? &object->entries : &object->items;
      if (*part == kNoRef) *part = builder_.List(kind, {});
      to = *part;
    }
    if (builder_.object(to).kind != kind) {
      return Bad(kind == Kind::kDict ? "sets an item of a value that is not a dict"
                                     : "adds an item to a value that is not a list or a set");
    }
    const int64_t bound = kind == Kind::kList ? builder_.object(to).integer : 0;
    if (bound > 0 && pickle_.items(to).size() + items.size() >= static_cast<uint64_t>(bound)) {
      return Bad(absl::StrCat("a deque of at most ", bound - 1, " items gets more"));
    }
    builder_.Append(to, items);
    return absl::OkStatus();
  }

  absl::Status AppendMarked(Kind kind) {
    CASK_ASSIGN_OR_RETURN(const size_t count, TakeMark());
    CASK_RETURN_IF_ERROR(Need(count + 1));
    if (kind == Kind::kDict && count % 2 != 0) return Bad("a key of a dict without a value");
    CASK_RETURN_IF_ERROR(Append(stack_[stack_.size() - count - 1], Top(count), kind));
    stack_.resize(stack_.size() - count);
    return absl::OkStatus();
  }

  absl::Status PushGlobal(absl::string_view module, absl::string_view name) {
    constexpr absl::string_view kTorchScript = "__torch__.";
    constexpr size_t kMostNameBytes = 256;
    if (module == "__builtin__") module = "builtins";  // Python 2
    if (module.size() > kMostNameBytes || name.size() > kMostNameBytes) {
      return Bad(absl::StrCat("a global with a name of more than ", kMostNameBytes, " bytes"));
    }
    const std::string full = absl::StrCat(module, ".", name);
    if (const Global* const global = options_.dcp_metadata ? FindMetadataGlobal(full) : FindGlobal(full);
        global != nullptr) {
      if (global->use != GlobalUse::kGetAttr) {
        Push(builder_.NewGlobal(*global));
        return absl::OkStatus();
      }
      if (getattr_ == kNoRef) getattr_ = builder_.NewGlobal(*global);
      Push(getattr_);
      return absl::OkStatus();
    }
    if (options_.dcp_metadata) {
      const absl::string_view harm = WhatItWouldDo(full);
      return absl::UnimplementedError(
          absl::StrCat("names ", Quoted(full), ", which ",
                       harm.empty() ? "is not one of the names of the metadata of a distributed checkpoint" : harm));
    }
    const bool is_module = options_.torchscript && absl::StartsWith(full, kTorchScript);
    if (!is_module && !options_.opaque_objects) {
      const absl::string_view harm = WhatItWouldDo(full);
      return absl::UnimplementedError(
          absl::StrCat("names ", Quoted(full), ", which ",
                       harm.empty() ? "is not one of the names of tensors and plain values that are read" : harm,
                       " (TorchReaderOptions::opaque_objects reads the file, with this as a name and nothing else)"));
    }
    auto [known, is_new] = named_.try_emplace(full, kNoRef);
    if (is_new) {
      Global global;
      global.name = builder_.Keep(full);
      global.use = is_module ? GlobalUse::kPlainObject : GlobalUse::kUnknown;
      if (!is_module) pickle_.opaque_names.push_back(full);
      known->second = builder_.NewGlobal(global);
    }
    Push(known->second);
    return absl::OkStatus();
  }

  template <typename T>
  absl::Status Get(const absl::StatusOr<T>& slot) {
    CASK_RETURN_IF_ERROR(slot.status());
    if (*slot >= memo_.size() || memo_[*slot] == kNoRef) return Bad(absl::StrCat("memo ", *slot, " was never set"));
    Push(memo_[*slot]);
    return absl::OkStatus();
  }

  template <typename T>
  absl::Status Put(const absl::StatusOr<T>& slot) {
    CASK_RETURN_IF_ERROR(slot.status());
    CASK_RETURN_IF_ERROR(Need(1));
    // Writers number their memos, and each memo has an object that takes a byte or more.
    if (*slot >= at_) return Bad(absl::StrCat("memo ", *slot, " is set by byte ", at_));
    if (*slot >= memo_.size()) {
      if (!builder_.Charge(2 * sizeof(Ref) * (*slot + 1 - memo_.size()))) return absl::OkStatus();
      memo_.resize(static_cast<size_t>(*slot) + 1, kNoRef);
    }
    num_memos_ += memo_[*slot] == kNoRef;
    memo_[*slot] = stack_.back();
    return absl::OkStatus();
  }

  const absl::string_view bytes_;
  const PickleOptions& options_;
  Pickle pickle_;
  PickleBuilder builder_;
  size_t at_ = 0;
  bool is_done_ = false;
  std::optional<size_t> frame_ends_;
  std::vector<Ref> stack_;
  std::vector<size_t> marks_;  // the height of the stack at each
  std::vector<Ref> memo_;
  uint64_t num_memos_ = 0;
  KnownStorages storages_;
  Ref getattr_ = kNoRef;                         // the one object of builtins.getattr
  absl::flat_hash_map<std::string, Ref> named_;  // globals outside the table
};

}  // namespace

absl::StatusOr<Pickle> ReadPickle(absl::string_view bytes, const PickleOptions& options, DecodeQuota* quota) {
  return Machine(bytes, options, quota).Run();
}

}  // namespace tensorcask::torch
