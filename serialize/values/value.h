// Values that a file keeps beside its tensors: numbers, text, lists, maps, and what else a checkpoint or the metadata
// of a model has. A value has no behaviour. It is data, whatever program wrote it.
//
//   ValueTree tree;
//   const auto key = tree.AddText("lr");
//   tree.AddMap({{key, tree.AddFloat(0.5)}});                 // {"lr": 0.5}
//   Value lr = *FindValue(tree.root(), "lr");                 // value_path.h
//   std::string text = *ValueToJson(tree.root());             // value_json.h
//
// A tree is built from its leaves: an item exists before the list that holds it, so no value contains itself. Two lists
// may hold the same item, which is stored once. Such sharing lets a small file describe a large tree, so a value knows
// how large it is when it is written out (num_values), and a walk asks before it begins.
//
// A tree is three arrays: one copies and destroys it without recursion. Its memory is proportional to the values and
// the bytes of text that were added. A Value is a pointer and a number; it is valid until its tree is changed, moved or
// destroyed. Const methods are thread-safe.

#ifndef TENSORCASK_SERIALIZE_VALUES_VALUE_H_
#define TENSORCASK_SERIALIZE_VALUES_VALUE_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <complex>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace tensorcask {

enum class ValueKind : uint8_t {
  kNone,
  kBool,
  kInt,      // signed, 64 bits at most
  kUint,     // unsigned, 64 bits at most
  kBigInt,   // an integer past 64 bits, as decimal digits
  kFloat,    // as a double, which holds each float of 16 or 32 bits
  kComplex,  // two doubles
  kText,     // UTF-8; what is not UTF-8 is kBytes, unless the file calls it text
  kBytes,
  kDType,      // "float32": the name that the file has
  kDevice,     // "cuda:0"
  kTensor,     // a tensor of the file: its number in the list of the reader
  kFileArray,  // an array of numbers or texts that stays in the file
  kList,
  kTuple,
  kSet,
  kSize,    // the sizes of a tensor: integers
  kMap,     // keys and values, in the order of the file
  kObject,  // an object of a class that the reader does not know, with what the file says of it; nothing is made
};

// An array that a reader leaves in the file until a caller asks for it: 200,000 merges of a tokenizer, for example.
struct FileArray {
  ValueKind kind = ValueKind::kNone;  // the kind of each element
  int bits = 0;                       // the bits of each element, as Value::bits
  uint64_t count = 0;                 // elements
  uint64_t offset = 0;                // the first byte in the file
  uint64_t stored_bytes = 0;

  friend bool operator==(const FileArray& a, const FileArray& b) {
    return a.kind == b.kind && a.bits == b.bits && a.count == b.count && a.offset == b.offset &&
           a.stored_bytes == b.stored_bytes;
  }
};

class Value;

class ValueTree {
 public:
  using Id = uint32_t;  // the number of a value in this tree

  // Each adds a value and returns its id. Requires: fewer than 2^32 - 1 values; ids are of this tree.
  Id AddNone();
  Id AddBool(bool value);
  // `bits`: the width that the file gives the number, to write it back; 0: the file gives none, as Python does.
  Id AddInt(int64_t value, int bits = 0);
  Id AddUint(uint64_t value, int bits = 0);
  Id AddFloat(double value, int bits = 64);
  Id AddComplex(std::complex<double> value, int bits = 128);
  // kText, kBytes, kBigInt, kDType, kDevice.
  Id AddText(absl::string_view text, ValueKind kind = ValueKind::kText);
  Id AddTensor(uint64_t number);
  Id AddFileArray(const FileArray& array);
  Id AddItems(ValueKind kind, absl::Span<const Id> items);  // kList, kTuple, kSet, kSize
  // A list without items that says what they would be: numbers of `item_bits` bits, or texts (0).
  Id AddEmptyList(ValueKind item_kind, int item_bits);
  Id AddMap(absl::Span<const std::pair<Id, Id>> entries);  // keys and values; FindValue finds the last of equal keys
  Id AddObject(absl::string_view class_name, Id arguments, Id state);

  bool empty() const { return nodes_.empty(); }
  Value root() const;        // the value that was added last. Requires: !empty()
  Value value(Id id) const;  // Requires: `id` is of this tree
  uint64_t memory_bytes() const;

 private:
  friend class Value;

  struct Node {
    ValueKind kind;
    uint8_t bits;
    uint32_t depth;       // 1 for a leaf
    uint64_t num_values;  // written out, with this one; UINT64_MAX: that or more
    // A number; or where its bytes are in text_, or its items in items_, and how many.
    uint64_t data;
    uint64_t size;
  };

  Id Add(ValueKind kind, int bits, uint64_t data, uint64_t size = 0);
  Id AddParent(ValueKind kind, absl::Span<const Id> items);

  std::vector<Node> nodes_;
  std::vector<Id> items_;  // a map has its keys and values in turn; an object its class name, arguments and state
  std::string text_;
  std::vector<FileArray> arrays_;
};

class Value {
 public:
  ValueKind kind() const { return node().kind; }
  int bits() const { return node().bits; }         // for kInt, kUint, kFloat, kComplex
  uint32_t depth() const { return node().depth; }  // 1 for a leaf, else 1 more than its deepest item
  // How many values there are when this one is written out, with itself; UINT64_MAX: that or more.
  uint64_t num_values() const { return node().num_values; }

  // Require: the kind that they name.
  bool bool_value() const;
  int64_t int_value() const;
  uint64_t uint_value() const;
  double float_value() const;
  std::complex<double> complex_value() const;
  absl::string_view text() const;  // kText, kBytes, kBigInt, kDType, kDevice
  uint64_t tensor() const;
  const FileArray& file_array() const;

  // Items of a list, tuple, set or Size, entries of a map; 0 for other kinds.
  size_t size() const;
  // What the items of a list without items would be, if AddEmptyList made it: bits() has their bits. Else kNone.
  ValueKind empty_item_kind() const;
  Value item(size_t i) const;   // for a list, tuple, set or Size. Requires: i < size()
  Value key(size_t i) const;    // for a map. Requires: i < size()
  Value entry(size_t i) const;  // the value of key(i)

  absl::string_view class_name() const;  // for an object, as the next two
  Value arguments() const;
  Value state() const;

  // What a walk visits below this value, in order: items; keys and values in turn; arguments and state.
  size_t num_children() const;
  Value child(size_t i) const;

  ValueTree::Id id() const { return id_; }

 private:
  friend class ValueTree;
  Value(const ValueTree* tree, ValueTree::Id id) : tree_(tree), id_(id) {}
  const ValueTree::Node& node() const { return tree_->nodes_[id_]; }
  const ValueTree::Node& Checked(ValueKind kind) const;
  Value At(uint64_t i) const;

  const ValueTree* tree_;
  ValueTree::Id id_;
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_VALUES_VALUE_H_
