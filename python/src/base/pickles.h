// Lets results be pickled and deep-copied, by their fields: so a pool of processes can return them.
//
//   template <>
//   struct FieldsOf<ArchiveDamage> {
//     static constexpr auto kAll = std::make_tuple(&ArchiveDamage::tensor, &ArchiveDamage::file);
//   };
//   DefinePickle(nb::class_<ArchiveDamage>(m, "Damage"));
//
// Only for versions of the module that are equal: the state of an object is the tuple of its fields, without a version.

#ifndef TENSORCASK_PYTHON_SRC_BASE_PICKLES_H_
#define TENSORCASK_PYTHON_SRC_BASE_PICKLES_H_

#include <nanobind/nanobind.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/numeric/int128.h"
#include "absl/status/status.h"
#include "tensorcask/python/src/base/errors.h"
#include "tensorcask/python/src/base/text.h"
#include "tensorcask/serialize/archive/archive_reader.h"
#include "tensorcask/tensor/shape.h"

namespace tensorcask::python {

// The fields of T that a pickle keeps.
template <typename T>
struct FieldsOf;

template <>
struct FieldsOf<ArchiveDamage> {
  static constexpr auto kAll =
      std::make_tuple(&ArchiveDamage::tensor, &ArchiveDamage::file, &ArchiveDamage::offset, &ArchiveDamage::status);
};
template <>
struct FieldsOf<TensorCounts> {
  static constexpr auto kAll =
      std::make_tuple(&TensorCounts::whole, &TensorCounts::damaged, &TensorCounts::damaged_elsewhere,
                      &TensorCounts::not_readable, &TensorCounts::past_limit, &TensorCounts::not_checked,
                      &TensorCounts::incomplete, &TensorCounts::without_base, &TensorCounts::notes);
};

// A value as an object that Python pickles, and back. A struct is the tuple of its fields.
template <typename T>
struct State {
  static nanobind::object Get(const T& value) {
    if constexpr (std::is_arithmetic_v<T>) {
      return nanobind::cast(value);
    } else if constexpr (std::is_enum_v<T>) {
      return nanobind::int_(static_cast<int>(value));
    } else {
      return std::apply([&](auto... field) { return nanobind::object(nanobind::make_tuple(GetOf(value.*field)...)); },
                        FieldsOf<T>::kAll);
    }
  }
  static T Set(nanobind::handle state) {
    if constexpr (std::is_arithmetic_v<T>) {
      return nanobind::cast<T>(state);
    } else if constexpr (std::is_enum_v<T>) {
      return static_cast<T>(nanobind::cast<int>(state));
    } else {
      T value;
      size_t i = 0;
      std::apply([&](auto... field) { ((value.*field = SetOf(value.*field, state[i++])), ...); }, FieldsOf<T>::kAll);
      return value;
    }
  }

 private:
  template <typename Field>
  static nanobind::object GetOf(const Field& field) {
    return State<Field>::Get(field);
  }
  template <typename Field>
  static Field SetOf(const Field& /*type*/, nanobind::handle state) {
    return State<Field>::Set(state);
  }
};

// Of a 64-bit integer, with or without a sign.
template <>
struct State<absl::int128> {
  static nanobind::object Get(absl::int128 value) {
    return value < 0 ? nanobind::int_(static_cast<int64_t>(value)) : nanobind::int_(static_cast<uint64_t>(value));
  }
  static absl::int128 Set(nanobind::handle state) {
    int64_t small = 0;
    if (nanobind::try_cast(state, small)) return small;
    return nanobind::cast<uint64_t>(state);
  }
};

template <>
struct State<std::string> {
  static nanobind::object Get(const std::string& value) { return ToBytes(value); }
  static std::string Set(nanobind::handle state) { return FromText(state, "a field"); }
};

template <>
struct State<absl::Status> {
  static nanobind::object Get(const absl::Status& value) {
    return nanobind::make_tuple(static_cast<int>(value.code()), ToBytes(value.message()));
  }
  static absl::Status Set(nanobind::handle state) {
    return absl::Status(static_cast<absl::StatusCode>(nanobind::cast<int>(state[0])), FromText(state[1], "a message"));
  }
};

template <typename T>
struct State<std::vector<T>> {
  static nanobind::object Get(const std::vector<T>& values) {
    nanobind::list list;
    for (const T& value : values) list.append(State<T>::Get(value));
    return list;
  }
  static std::vector<T> Set(nanobind::handle state) {
    std::vector<T> values;
    for (const nanobind::handle one : nanobind::iter(state)) values.push_back(State<T>::Set(one));
    return values;
  }
};

template <typename T, size_t N>
struct State<std::array<T, N>> {
  static nanobind::object Get(const std::array<T, N>& values) {
    return State<std::vector<T>>::Get({values.begin(), values.end()});
  }
  static std::array<T, N> Set(nanobind::handle state) {
    std::array<T, N> values{};
    size_t i = 0;
    for (T& value : values) value = State<T>::Set(state[i++]);
    return values;
  }
};

template <typename T>
struct State<std::optional<T>> {
  static nanobind::object Get(const std::optional<T>& value) {
    return value ? State<T>::Get(*value) : nanobind::none();
  }
  static std::optional<T> Set(nanobind::handle state) {
    return state.is_none() ? std::nullopt : std::optional<T>(State<T>::Set(state));
  }
};

template <>
struct State<TensorShape> {
  static nanobind::object Get(const TensorShape& shape) {
    return State<std::vector<int64_t>>::Get({shape.begin(), shape.end()});
  }
  static TensorShape Set(nanobind::handle state) {
    return Take(TensorShape::Create(State<std::vector<int64_t>>::Set(state)));
  }
};

template <typename T>
void DefinePickle(nanobind::class_<T>& type) {
  type.def(
      "__getstate__", [](const T& self) { return State<T>::Get(self); },
      nanobind::sig("def __getstate__(self) -> object"));
  type.def(
      "__setstate__", [](T& self, nanobind::handle state) { new (&self) T(State<T>::Set(state)); },
      nanobind::sig("def __setstate__(self, state: object, /) -> None"));
}

}  // namespace tensorcask::python

#endif  // TENSORCASK_PYTHON_SRC_BASE_PICKLES_H_
