#include "tensorcask/python/src/bindings.h"

#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tensorcask/python/src/arguments.h"
#include "tensorcask/python/src/arrays.h"
#include "tensorcask/python/src/base/errors.h"
#include "tensorcask/python/src/base/interrupts.h"
#include "tensorcask/python/src/base/pickles.h"
#include "tensorcask/python/src/base/text.h"
#include "tensorcask/serialize/archive/compare_archives.h"
#include "tensorcask/serialize/archive/summarize.h"
#include "tensorcask/tensor/base/quote.h"

namespace nb = nanobind;

namespace tensorcask::python {

template <>
struct FieldsOf<TensorDifference> {
  static constexpr auto kAll = std::make_tuple(
      &TensorDifference::kind, &TensorDifference::name, &TensorDifference::status, &TensorDifference::num_different,
      &TensorDifference::max_absolute, &TensorDifference::max_relative, &TensorDifference::where,
      &TensorDifference::type_a, &TensorDifference::type_b, &TensorDifference::rms, &TensorDifference::rms_a);
};
template <>
struct FieldsOf<TypeDifference> {
  using T = TypeDifference;
  static constexpr auto kAll =
      std::make_tuple(&T::type_a, &T::type_b, &T::tensors, &T::elements, &T::max_absolute, &T::rms, &T::rms_a);
};
template <>
struct FieldsOf<CompareReport> {
  static constexpr auto kAll =
      std::make_tuple(&CompareReport::equal, &CompareReport::within_tolerance, &CompareReport::other_dtypes,
                      &CompareReport::differences, &CompareReport::by_type);
};
template <>
struct FieldsOf<TensorStatistics::ExactRange> {
  static constexpr auto kAll = std::make_tuple(&TensorStatistics::ExactRange::min, &TensorStatistics::ExactRange::max);
};
template <>
struct FieldsOf<TensorStatistics> {
  using T = TensorStatistics;
  static constexpr auto kAll = std::make_tuple(
      &T::name, &T::dtype, &T::shape, &T::status, &T::num_elements, &T::is_numeric, &T::zeros, &T::nans, &T::infinities,
      &T::subnormals, &T::min, &T::max, &T::exact_range, &T::mean, &T::standard_deviation, &T::histogram);
};

namespace {

const char* KindName(TensorDifference::Kind kind) {
  switch (kind) {
    case TensorDifference::Kind::kOnlyInA:
      return "only in a";
    case TensorDifference::Kind::kOnlyInB:
      return "only in b";
    case TensorDifference::Kind::kDType:
      return "dtype";
    case TensorDifference::Kind::kShape:
      return "shape";
    case TensorDifference::Kind::kValues:
      return "values";
    case TensorDifference::Kind::kUnreadable:
      return "unreadable";
  }
  return "";
}

CompareReport Diff(nb::handle a, nb::handle b, double rtol, double atol, nb::handle names, nb::handle rename, bool cast,
                   nb::handle threads, const nb::kwargs& reading) {
  const std::shared_ptr<const ArchiveReader> first = Open(FromOpenArguments(a, reading));
  const std::shared_ptr<const ArchiveReader> second = Open(FromOpenArguments(b, reading));
  CompareOptions options;
  options.include = FromNames(names, "a pattern of names").value_or(std::vector<std::string>());
  options.relative_tolerance = rtol;
  options.absolute_tolerance = atol;
  options.cast = cast;
  options.rename = FromRename(*first, rename);
  options.num_threads = FromThreads(threads);
  options.progress = [](uint64_t) { return KeepGoing(); };
  return Take(WithoutGil([&] { return Compare(*first, *second, options); }));
}

std::string Repr(const TensorDifference& one) {
  std::string text = absl::StrCat("Difference(", Quoted(one.name), ", ", KindName(one.kind));
  if (one.kind == TensorDifference::Kind::kValues) {
    absl::StrAppend(&text, ", ", one.num_different, " different, at most ", one.max_absolute);
  }
  return absl::StrCat(text, ")");
}

void DefineDiff(nb::module_& m) {
  nb::class_<TensorDifference> difference(
      m, "Difference",
      "What differs of one tensor between two files: an element of ``DiffReport.differences``."
      "\n\n"
      "    >>> import numpy as np, tensorcask as tc\n"
      "    >>> _ = tc.save('a.npz', {'w': np.zeros(3)}, overwrite=True)\n"
      "    >>> _ = tc.save('b.npz', {'w': np.array([0, 0, 0.5])}, overwrite=True)\n"
      "    >>> one, = tc.diff('a.npz', 'b.npz').differences\n"
      "    >>> one.kind, one.num_different, one.max_absolute, one.where\n"
      "    ('values', 1, 0.5, (2,))\n");
  difference
      .def_prop_ro(
          "name", [](const TensorDifference& one) { return ToText(one.name); }, nb::sig("def name(self) -> str"))
      .def_prop_ro(
          "kind", [](const TensorDifference& one) { return ToText(KindName(one.kind)); },
          nb::sig("def kind(self) -> str"), "'only in a', 'only in b', 'dtype', 'shape', 'values' or 'unreadable'.")
      .def_prop_ro(
          "message", [](const TensorDifference& one) { return ToText(one.status.message()); },
          nb::sig("def message(self) -> str"), "Of 'unreadable': why.")
      .def_ro("num_different", &TensorDifference::num_different, "Elements that are not equal.")
      .def_ro("max_absolute", &TensorDifference::max_absolute, "The largest ``|a - b|``.")
      .def_ro("max_relative", &TensorDifference::max_relative, "The largest ``|a - b| / |b|``.")
      .def_prop_ro(
          "where", [](const TensorDifference& one) { return ToTuple(one.where); },
          nb::sig("def where(self) -> tuple[int, ...]"), "The index of the element with ``max_absolute``.")
      .def_prop_ro(
          "type_a", [](const TensorDifference& one) { return ToText(one.type_a); }, nb::sig("def type_a(self) -> str"),
          "Of 'values': the dtype in a, or the type of its blocks: 'q4_k'.")
      .def_prop_ro(
          "type_b", [](const TensorDifference& one) { return ToText(one.type_b); }, nb::sig("def type_b(self) -> str"),
          "The same of b.")
      .def_ro("rms", &TensorDifference::rms, "The root mean square of ``a - b``, over all elements.")
      .def_prop_ro("relative_rms", &TensorDifference::relative_rms, "``rms`` by the root mean square of ``a``.")
      .def(
          "__repr__", [](const TensorDifference& one) { return ToText(Repr(one)); },
          nb::sig("def __repr__(self) -> str"));
  DefinePickle(difference);
  nb::class_<TypeDifference> by_type(
      m, "TypeDifference",
      "What differs of all tensors with one pair of types: an element of ``DiffReport.by_type``. ``diff`` of a model "
      "and its quantised form has one for each type of blocks."
      "\n\n"
      "    >>> import numpy as np, tensorcask as tc\n"
      "    >>> _ = tc.save('a.npz', {'w': np.float64([4, 4])}, overwrite=True)\n"
      "    >>> _ = tc.save('b.npz', {'w': np.float32([5, 3])}, overwrite=True)\n"
      "    >>> one, = tc.diff('a.npz', 'b.npz', cast=True).by_type\n"
      "    >>> one.type_a, one.type_b, one.tensors, one.relative_rms\n"
      "    ('float64', 'float32', 1, 0.25)\n");
  by_type
      .def_prop_ro(
          "type_a", [](const TypeDifference& one) { return ToText(one.type_a); }, nb::sig("def type_a(self) -> str"),
          "The dtype in a, or the type of its blocks: 'q4_k'.")
      .def_prop_ro(
          "type_b", [](const TypeDifference& one) { return ToText(one.type_b); }, nb::sig("def type_b(self) -> str"),
          "The same of b.")
      .def_ro("tensors", &TypeDifference::tensors, "The number of tensors that differ.")
      .def_ro("elements", &TypeDifference::elements, "The number of their elements.")
      .def_ro("max_absolute", &TypeDifference::max_absolute, "The largest ``|a - b|``.")
      .def_ro("rms", &TypeDifference::rms, "The root mean square of ``a - b``, over all elements.")
      .def_prop_ro("relative_rms", &TypeDifference::relative_rms, "``rms`` by the root mean square of ``a``.")
      .def(
          "__repr__",
          [](const TypeDifference& one) {
            return ToText(absl::StrCat("TypeDifference(", one.type_a, " and ", one.type_b, ": ", one.tensors,
                                       one.tensors == 1 ? " tensor" : " tensors", ", rms ", one.rms, ")"));
          },
          nb::sig("def __repr__(self) -> str"));
  DefinePickle(by_type);
  nb::class_<CompareReport> report(m, "DiffReport",
                                   "What ``diff`` found. True if something differs.\n\n"
                                   "    >>> import numpy as np, tensorcask as tc\n"
                                   "    >>> _ = tc.save('a.npz', {'w': np.zeros(3)}, overwrite=True)\n"
                                   "    >>> report = tc.diff('a.npz', 'a.npz')\n"
                                   "    >>> bool(report), report.equal\n"
                                   "    (False, 1)\n");
  report.def_ro("equal", &CompareReport::equal, "The number of tensors whose bytes are equal.")
      .def_ro("within_tolerance", &CompareReport::within_tolerance,
              "The number of tensors that are equal within the tolerances alone, or by value but not in dtype.")
      .def_ro("other_dtypes", &CompareReport::other_dtypes, "Of these, the tensors whose dtypes differ.")
      .def_prop_ro(
          "differences",
          [](const CompareReport& report) {
            nb::list list;
            for (const TensorDifference& one : report.differences) list.append(nb::cast(one));
            return list;
          },
          nb::sig("def differences(self) -> list[Difference]"))
      .def_prop_ro(
          "by_type",
          [](const CompareReport& report) {
            nb::list list;
            for (const TypeDifference& one : report.by_type) list.append(nb::cast(one));
            return list;
          },
          nb::sig("def by_type(self) -> list[TypeDifference]"),
          "Of the differences of values: the totals of each pair of types.")
      .def("__bool__", [](const CompareReport& report) { return !report.differences.empty(); })
      .def(
          "__repr__",
          [](const CompareReport& report) {
            return ToText(absl::StrCat("<DiffReport: ", report.equal, " equal, ", report.within_tolerance,
                                       " within tolerance, ", report.differences.size(), " different>"));
          },
          nb::sig("def __repr__(self) -> str"));
  DefinePickle(report);
  m.def(
      "diff", &Diff, nb::arg("a"), nb::arg("b"), nb::kw_only(), nb::arg("rtol") = 0.0, nb::arg("atol") = 0.0,
      nb::arg("names").none() = nb::none(), nb::arg("rename").none() = nb::none(), nb::arg("cast") = false,
      nb::arg("threads").none() = nb::none(), nb::arg("reading"),
      nb::sig("def diff(a: " TENSORCASK_READABLE ", b: " TENSORCASK_READABLE ", *, rtol: float = 0.0, "
              "atol: float = 0.0, names: str | collections.abc.Iterable[str] | None = None, "
              "rename: str | collections.abc.Sequence[str] | collections.abc.Callable[[str], str] | "
              "collections.abc.Mapping[str, str] | None = None, "
              "cast: bool = False, threads: int | None = None, " TENSORCASK_READ_ARGUMENTS ") -> DiffReport"),
      "What differs between two files of any formats: names, dtypes, shapes and values.\n\n"
      "Elements count as equal if ``|a - b| <= atol + rtol * |b|``, if their bits are equal or if both are NaN. "
      "``rename`` gives the name in ``b`` of a tensor of ``a``, as in ``convert``. Tensors of different dtypes differ, "
      "unless ``cast`` or a tolerance is given, or one of them is stored in GGUF's blocks and the other one has "
      "floats: "
      "then their values are compared. Values are exact, also those of a "
      "64-bit integer beside a float: 2**53 + 1 is not 2**53. "
      "The other arguments are those of ``open``, for both files.\n\n"
      "    >>> import numpy as np, tensorcask as tc\n"
      "    >>> _ = tc.save('a.npz', {'w': np.zeros(3)}, overwrite=True)\n"
      "    >>> _ = tc.save('b.safetensors', {'w': np.array([0, 0, 0.5])}, overwrite=True)\n"
      "    >>> tc.diff('a.npz', 'b.safetensors').differences\n"
      "    [Difference(\"w\", values, 1 different, at most 0.5)]\n");
}

std::vector<TensorStatistics> Summaries(nb::handle path, nb::handle names, nb::handle threads,
                                        const nb::kwargs& reading) {
  const std::shared_ptr<const ArchiveReader> archive = Open(FromOpenArguments(path, reading));
  SummarizeOptions options;
  options.include = FromNames(names, "a pattern of names").value_or(std::vector<std::string>());
  options.num_threads = FromThreads(threads);
  options.progress = [](uint64_t) { return KeepGoing(); };
  return Take(WithoutGil([&] { return Summarize(*archive, options); }));
}

void DefineStats(nb::module_& m) {
  nb::class_<TensorStatistics> statistics(
      m, "TensorStats",
      "Range, mean, spread and odd elements of one tensor.\n\n"
      "    >>> import numpy as np, tensorcask as tc\n"
      "    >>> _ = tc.save('a.npz', {'w': np.array([0.0, 4.0, np.inf])}, overwrite=True)\n"
      "    >>> one, = tc.stats('a.npz')\n"
      "    >>> one.min, one.max, one.std, one.zeros, one.infinities\n"
      "    (0.0, 4.0, 2.0, 1, 1)\n");
  statistics
      .def_prop_ro(
          "name", [](const TensorStatistics& one) { return ToText(one.name); }, nb::sig("def name(self) -> str"))
      .def_prop_ro(
          "dtype", [](const TensorStatistics& one) { return ToText(DTypeName(one.dtype)); },
          nb::sig("def dtype(self) -> str"))
      .def_prop_ro(
          "shape", [](const TensorStatistics& one) { return ToTuple(one.shape.dims()); },
          nb::sig("def shape(self) -> tuple[int, ...]"))
      .def_prop_ro(
          "error",
          [](const TensorStatistics& one) -> nb::object {
            return one.status.ok() ? nb::none() : ToText(one.status.message());
          },
          nb::sig("def error(self) -> str | None"), "Why the elements could not be read.")
      .def_ro("is_numeric", &TensorStatistics::is_numeric, "False for strings and complex numbers: no figures.")
      .def_ro("size", &TensorStatistics::num_elements)
      .def_ro("zeros", &TensorStatistics::zeros)
      .def_ro("nans", &TensorStatistics::nans)
      .def_ro("infinities", &TensorStatistics::infinities)
      .def_ro("subnormals", &TensorStatistics::subnormals)
      .def_prop_ro(
          "min",
          [](const TensorStatistics& one) {
            return one.exact_range ? State<absl::int128>::Get(one.exact_range->min) : nb::object(nb::float_(one.min));
          },
          nb::sig("def min(self) -> float | int"),
          "Of the finite elements, an int if they are 64-bit integers. ``max``, ``mean`` and ``std`` are of these, "
          "too.")
      .def_prop_ro(
          "max",
          [](const TensorStatistics& one) {
            return one.exact_range ? State<absl::int128>::Get(one.exact_range->max) : nb::object(nb::float_(one.max));
          },
          nb::sig("def max(self) -> float | int"))
      .def_ro("mean", &TensorStatistics::mean)
      .def_ro("std", &TensorStatistics::standard_deviation)
      .def_prop_ro(
          "histogram",
          [](const TensorStatistics& one) {
            nb::list bins;
            for (const uint64_t bin : one.histogram) bins.append(bin);
            return bins;
          },
          nb::sig("def histogram(self) -> list[int]"),
          "How many elements of a sample lie in each sixteenth of ``[min, max]``.")
      .def(
          "__repr__",
          [](const TensorStatistics& one) {
            return ToText(absl::StrCat("<TensorStats of ", Quoted(one.name), ": ", one.min, " to ", one.max, ", mean ",
                                       one.mean, ", std ", one.standard_deviation, ">"));
          },
          nb::sig("def __repr__(self) -> str"));
  DefinePickle(statistics);
  m.def(
      "stats",
      [](nb::handle path, nb::handle names, nb::handle threads, const nb::kwargs& reading) {
        nb::list list;
        for (const TensorStatistics& one : Summaries(path, names, threads, reading)) list.append(nb::cast(one));
        return list;
      },
      nb::arg("path"), nb::arg("names").none() = nb::none(), nb::kw_only(), nb::arg("threads").none() = nb::none(),
      nb::arg("reading"),
      nb::sig("def stats(path: " TENSORCASK_READABLE ", names: str | collections.abc.Iterable[str] | None = None, *, "
              "threads: int | None = None, " TENSORCASK_READ_ARGUMENTS ") -> list[TensorStats]"),
      "Range, mean, spread, zeros, NaNs and infinities of each tensor, by name. Reads each tensor once. "
      "The other arguments are those of ``open``.\n\n"
      "    >>> import numpy as np, tensorcask as tc\n"
      "    >>> _ = tc.save('a.npz', {'w': np.array([1.0, 3.0, np.nan])}, overwrite=True)\n"
      "    >>> one, = tc.stats('a.npz')\n"
      "    >>> one.mean, one.nans\n"
      "    (2.0, 1)\n");
}

}  // namespace

void DefineComparisons(nb::module_& m) {
  DefineDiff(m);
  DefineStats(m);
}

}  // namespace tensorcask::python
