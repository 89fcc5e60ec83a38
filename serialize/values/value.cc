#include "tensorcask/serialize/values/value.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "tensorcask/tensor/base/check.h"

namespace tensorcask {
namespace {

constexpr uint64_t kMostValues = std::numeric_limits<uint64_t>::max();

uint64_t BitsOf(double value) {
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

double DoubleOf(uint64_t bits) {
  double value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

bool HasText(ValueKind kind) {
  return kind == ValueKind::kText || kind == ValueKind::kBytes || kind == ValueKind::kBigInt ||
         kind == ValueKind::kDType || kind == ValueKind::kDevice;
}

bool HasItems(ValueKind kind) {
  return kind == ValueKind::kList || kind == ValueKind::kTuple || kind == ValueKind::kSet || kind == ValueKind::kSize;
}

}  // namespace

ValueTree::Id ValueTree::Add(ValueKind kind, int bits, uint64_t data, uint64_t size) {
  CASK_CHECK(nodes_.size() < std::numeric_limits<Id>::max(), "a tree has fewer than 2^32 - 1 values");
  nodes_.push_back({kind, static_cast<uint8_t>(bits), 1, 1, data, size});
  return static_cast<Id>(nodes_.size() - 1);
}

ValueTree::Id ValueTree::AddParent(ValueKind kind, absl::Span<const Id> items) {
  uint32_t depth = 0;
  uint64_t num_values = 1;
  for (const Id item : items) {
    CASK_CHECK(item < nodes_.size(), "an item is added before what holds it");
    const Node& node = nodes_[item];
    depth = std::max(depth, node.depth);
    num_values = node.num_values < kMostValues - num_values ? num_values + node.num_values : kMostValues;
  }
  const Id id = Add(kind, 0, items.empty() ? 0 : items_.size(), items.size());
  nodes_[id].depth = depth + 1;
  nodes_[id].num_values = num_values;
  items_.insert(items_.end(), items.begin(), items.end());
  return id;
}

ValueTree::Id ValueTree::AddNone() { return Add(ValueKind::kNone, 0, 0); }
ValueTree::Id ValueTree::AddBool(bool value) { return Add(ValueKind::kBool, 0, value ? 1 : 0); }
ValueTree::Id ValueTree::AddInt(int64_t value, int bits) {
  return Add(ValueKind::kInt, bits, static_cast<uint64_t>(value));
}
ValueTree::Id ValueTree::AddUint(uint64_t value, int bits) { return Add(ValueKind::kUint, bits, value); }
ValueTree::Id ValueTree::AddFloat(double value, int bits) { return Add(ValueKind::kFloat, bits, BitsOf(value)); }
ValueTree::Id ValueTree::AddComplex(std::complex<double> value, int bits) {
  return Add(ValueKind::kComplex, bits, BitsOf(value.real()), BitsOf(value.imag()));
}

ValueTree::Id ValueTree::AddText(absl::string_view text, ValueKind kind) {
  CASK_CHECK(HasText(kind), "a kind of text");
  const Id id = Add(kind, 0, text_.size(), text.size());
  text_.append(text.data(), text.size());
  return id;
}

ValueTree::Id ValueTree::AddTensor(uint64_t number) { return Add(ValueKind::kTensor, 0, number); }

ValueTree::Id ValueTree::AddFileArray(const FileArray& array) {
  arrays_.push_back(array);
  return Add(ValueKind::kFileArray, 0, arrays_.size() - 1);
}

ValueTree::Id ValueTree::AddItems(ValueKind kind, absl::Span<const Id> items) {
  CASK_CHECK(HasItems(kind), "a kind with items");
  return AddParent(kind, items);
}

ValueTree::Id ValueTree::AddEmptyList(ValueKind item_kind, int item_bits) {
  return Add(ValueKind::kList, item_bits, static_cast<uint64_t>(item_kind));
}

ValueTree::Id ValueTree::AddMap(absl::Span<const std::pair<Id, Id>> entries) {
  std::vector<Id> items;
  items.reserve(2 * entries.size());
  for (const auto& [key, value] : entries) {
    items.push_back(key);
    items.push_back(value);
  }
  return AddParent(ValueKind::kMap, items);
}

ValueTree::Id ValueTree::AddObject(absl::string_view class_name, Id arguments, Id state) {
  return AddParent(ValueKind::kObject, {AddText(class_name), arguments, state});
}

Value ValueTree::root() const {
  CASK_CHECK(!empty(), "the tree has a value");
  return Value(this, static_cast<Id>(nodes_.size() - 1));
}

Value ValueTree::value(Id id) const {
  CASK_CHECK(id < nodes_.size(), "an id of this tree");
  return Value(this, id);
}

uint64_t ValueTree::memory_bytes() const {
  return nodes_.capacity() * sizeof(Node) + items_.capacity() * sizeof(Id) + text_.capacity() +
         arrays_.capacity() * sizeof(FileArray);
}

const ValueTree::Node& Value::Checked(ValueKind kind) const {
  CASK_CHECK(node().kind == kind, "the value is of another kind");
  return node();
}

Value Value::At(uint64_t i) const {
  CASK_CHECK(i < node().size, "the value has fewer items");
  return Value(tree_, tree_->items_[node().data + i]);
}

bool Value::bool_value() const { return Checked(ValueKind::kBool).data != 0; }
int64_t Value::int_value() const { return static_cast<int64_t>(Checked(ValueKind::kInt).data); }
uint64_t Value::uint_value() const { return Checked(ValueKind::kUint).data; }
double Value::float_value() const { return DoubleOf(Checked(ValueKind::kFloat).data); }
std::complex<double> Value::complex_value() const {
  const ValueTree::Node& of = Checked(ValueKind::kComplex);
  return {DoubleOf(of.data), DoubleOf(of.size)};
}

absl::string_view Value::text() const {
  CASK_CHECK(HasText(kind()), "the value is of another kind");
  return absl::string_view(tree_->text_).substr(node().data, node().size);
}

uint64_t Value::tensor() const { return Checked(ValueKind::kTensor).data; }
const FileArray& Value::file_array() const { return tree_->arrays_[Checked(ValueKind::kFileArray).data]; }

size_t Value::size() const {
  if (kind() == ValueKind::kMap) return node().size / 2;
  return HasItems(kind()) ? node().size : 0;
}

ValueKind Value::empty_item_kind() const {
  return kind() == ValueKind::kList && node().size == 0 ? static_cast<ValueKind>(node().data) : ValueKind::kNone;
}

Value Value::item(size_t i) const {
  CASK_CHECK(HasItems(kind()), "the value is of another kind");
  return At(i);
}

Value Value::key(size_t i) const {
  Checked(ValueKind::kMap);
  return At(2 * uint64_t{i});
}

Value Value::entry(size_t i) const {
  Checked(ValueKind::kMap);
  return At(2 * uint64_t{i} + 1);
}

absl::string_view Value::class_name() const {
  Checked(ValueKind::kObject);
  return At(0).text();
}

Value Value::arguments() const {
  Checked(ValueKind::kObject);
  return At(1);
}

Value Value::state() const {
  Checked(ValueKind::kObject);
  return At(2);
}

size_t Value::num_children() const {
  if (kind() == ValueKind::kObject) return 2;
  return kind() == ValueKind::kMap || HasItems(kind()) ? node().size : 0;
}

Value Value::child(size_t i) const {
  CASK_CHECK(i < num_children(), "the value has fewer children");
  return At(kind() == ValueKind::kObject ? uint64_t{i} + 1 : uint64_t{i});
}

}  // namespace tensorcask
