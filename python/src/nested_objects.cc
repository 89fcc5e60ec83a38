#include "tensorcask/python/src/nested_objects.h"

#include <complex>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/python/src/base/errors.h"
#include "tensorcask/python/src/base/text.h"
#include "tensorcask/serialize/archive/archive_entry.h"
#include "tensorcask/serialize/values/value.h"
#include "tensorcask/tensor/base/quote.h"

namespace nb = nanobind;

namespace tensorcask::python {
namespace {

class Maker {
 public:
  Maker(const ArchiveReader& archive, nb::handle read)
      : archive_(archive), read_(read), is_among_values_(archive.entries().size()) {}

  // A value comes before those that hold it, so one pass makes all of them. A value that two hold is one object.
  nb::object Make(const ValueTree& tree) {
    std::vector<nb::object> made;
    for (ValueTree::Id id = 0; id <= tree.root().id(); ++id) made.push_back(MakeOne(tree.value(id), made));
    return made.back();
  }

  void AddOthers(nb::dict values) {
    for (size_t i = 0; i < is_among_values_.size(); ++i) {
      if (is_among_values_[i] || IsAliasAmongValues(archive_.entries()[i])) continue;
      const nb::object name = ToText(archive_.entries()[i].name);
      if (values.contains(name)) {
        Raise(absl::InvalidArgumentError(absl::StrCat(archive_.path(), ": a tensor and a value have the name ",
                                                      Quoted(archive_.entries()[i].name))));
      }
      values[name] = read_(name);
    }
  }

 private:
  // The values have one number for all names of a tensor.
  bool IsAliasAmongValues(const ArchiveEntry& entry) const {
    if (entry.alias_of.empty()) return false;
    const absl::StatusOr<const ArchiveEntry*> tensor = archive_.Find(entry.alias_of);
    return tensor.ok() && is_among_values_[static_cast<size_t>(*tensor - archive_.entries().data())];
  }

  nb::object MakeOne(const Value& value, const std::vector<nb::object>& made) {
    const auto items = [&] {
      nb::list list;
      for (size_t i = 0; i < value.size(); ++i) list.append(made[value.item(i).id()]);
      return list;
    };
    switch (value.kind()) {
      case ValueKind::kNone:
        return nb::none();
      case ValueKind::kBool:
        return nb::bool_(value.bool_value());
      case ValueKind::kInt:
        return nb::int_(value.int_value());
      case ValueKind::kUint:
        return nb::int_(value.uint_value());
      case ValueKind::kBigInt:
        return Builtin("int")(ToText(value.text()));
      case ValueKind::kFloat:
        return nb::float_(value.float_value());
      case ValueKind::kComplex:
        return Builtin("complex")(value.complex_value().real(), value.complex_value().imag());
      case ValueKind::kText:
      case ValueKind::kDType:
      case ValueKind::kDevice:
        return ToText(value.text());
      case ValueKind::kBytes:
        return ToBytes(value.text());
      case ValueKind::kTensor:
        is_among_values_[value.tensor()] = true;
        return read_(ToText(archive_.entries()[value.tensor()].name));
      case ValueKind::kFileArray:
        return Make(Take(archive_.ReadFileArray(value.file_array())));
      case ValueKind::kList:
        return items();
      case ValueKind::kTuple:
      case ValueKind::kSize:
        return Builtin("tuple")(items());
      case ValueKind::kSet:
        return Builtin("set")(items());
      case ValueKind::kMap: {
        nb::dict map;
        for (size_t i = 0; i < value.size(); ++i) map[made[value.key(i).id()]] = made[value.entry(i).id()];
        return map;
      }
      case ValueKind::kObject:
        return nb::module_::import_("tensorcask")
            .attr("OpaqueObject")(ToText(value.class_name()), made[value.arguments().id()], made[value.state().id()]);
    }
    return nb::none();
  }

  static nb::object Builtin(const char* name) { return nb::module_::import_("builtins").attr(name); }

  const ArchiveReader& archive_;
  const nb::handle read_;
  std::vector<bool> is_among_values_;  // of the tensors
};

}  // namespace

nb::object NestedValues(const ArchiveReader& archive, nb::handle read) {
  const ValueTree tree = Take(archive.Values());
  Maker maker(archive, read);
  nb::object values = tree.empty() ? nb::object(nb::dict()) : maker.Make(tree);
  if (nb::isinstance<nb::dict>(values)) maker.AddOthers(nb::cast<nb::dict>(values));
  return values;
}

}  // namespace tensorcask::python
