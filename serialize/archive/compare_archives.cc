#include "tensorcask/serialize/archive/compare_archives.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/archive/chosen_names.h"
#include "tensorcask/serialize/archive/internal/exact_difference.h"
#include "tensorcask/serialize/archive/tensor_blocks.h"
#include "tensorcask/tensor/base/glob.h"
#include "tensorcask/tensor/base/parallel_for.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/dtype_visit.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/convert.h"
#include "tensorcask/tensor/strided/metadata.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/summary.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The index in the tensor of element `place`, in row-major order, of a block.
std::vector<int64_t> IndexIn(const TensorSlice& slice, const TensorView& block, int64_t place) {
  std::vector<int64_t> index(block.rank());
  for (int axis = block.rank() - 1; axis >= 0; --axis) {
    index[axis] = place % block.dim(axis) + (slice.IsFullAt(axis) ? 0 : slice.extent(axis).start);
    place /= block.dim(axis);
  }
  return index;
}

// The dtype, of those that CompareAs takes, that holds each number of `dtype` exactly.
DType WideDType(DType dtype) {
  if (IsComplex(dtype)) return DType::kComplex128;
  return dtype == DType::kInt64 || dtype == DType::kUint64 ? dtype : DType::kFloat64;
}

// fn(TypeTag<T>()) for the element type T of WideDType(dtype).
template <typename Fn>
absl::Status VisitWide(DType dtype, const Fn& fn) {
  switch (WideDType(dtype)) {
    case DType::kComplex128:
      return fn(TypeTag<std::complex<double>>());
    case DType::kInt64:
      return fn(TypeTag<int64_t>());
    case DType::kUint64:
      return fn(TypeTag<uint64_t>());
    default:
      return fn(TypeTag<double>());
  }
}

bool AreNumbers(DType a, DType b) { return ElementSize(a) > 0 && ElementSize(b) > 0; }

template <typename T>
constexpr bool kIsComplex = !std::is_arithmetic_v<T>;

template <typename T>
using Double = std::conditional_t<kIsComplex<T>, std::complex<double>, double>;

template <typename T>
auto Real(T x) {
  if constexpr (kIsComplex<T>) {
    return x.real();
  } else {
    return x;
  }
}

template <typename T>
double Imaginary(T x) {
  if constexpr (kIsComplex<T>) {
    return x.imag();
  } else {
    return 0;
  }
}

// |a - b|; its high part is NaN or infinite if a part of a or b is.
template <typename A, typename B>
archive::ExactSum Distance(A a, B b) {
  const archive::ExactSum real = archive::ExactDifference(Real(a), Real(b));
  if constexpr (kIsComplex<A> || kIsComplex<B>) {
    const double imaginary = Imaginary(a) - Imaginary(b);
    if (imaginary != 0) return {std::hypot(real.high, imaginary), 0};
  }
  return {std::abs(real.high), real.high < 0 ? -real.low : real.low};
}

// |a - b|, rounded. As Distance(a, b).high; of floats faster.
template <typename A, typename B>
double RoundedDistance(A a, B b) {
  if constexpr (std::is_floating_point_v<A> && std::is_floating_point_v<B>) {
    return std::abs(static_cast<double>(a) - static_cast<double>(b));
  } else {
    return Distance(a, b).high;
  }
}

// The sum of the squares of the finite elements.
template <typename T>
double SumOfSquares(const T* data, int64_t size) {
  constexpr int kSums = 4;  // each addition waits for the one before it in its sum
  double sums[kSums] = {};
  for (int64_t i = 0; i < size; ++i) {
    const auto real = static_cast<double>(Real(data[i]));
    double square = real * real;
    if constexpr (kIsComplex<T>) square += static_cast<double>(Imaginary(data[i])) * Imaginary(data[i]);
    // The square of a finite element may be infinite.
    if (std::isfinite(square) || (std::isfinite(real) && std::isfinite(Imaginary(data[i])))) sums[i % kSums] += square;
  }
  return sums[0] + sums[1] + sums[2] + sums[3];
}

// The root of the mean, also of no elements.
double RootMean(double squares, uint64_t count) {
  return count == 0 ? 0 : std::sqrt(squares / static_cast<double>(count));
}

double Ratio(double rms, double rms_a) {
  if (rms == 0) return 0;
  return rms_a > 0 && rms < kInfinity ? rms / rms_a : kInfinity;
}

// Compares the elements of two blocks whose bytes differ.
class ElementComparer {
 public:
  ElementComparer(const CompareOptions& options, TensorDifference* out) : options_(options), out_(out) {}

  absl::Status Compare(const TensorBlock& a, const TensorBlock& b) {
    largest_ = -1;
    largest_relative_ = -1;
    CASK_RETURN_IF_ERROR(CompareElements(a.elements, b.elements));
    if (largest_relative_ >= 0) out_->where_relative = IndexIn(a.slice, a.elements, largest_relative_);
    if (largest_ < 0) return absl::OkStatus();
    out_->where = IndexIn(a.slice, a.elements, largest_);
    if (a.elements.dtype() == DType::kString) return absl::OkStatus();
    out_->text_a = Text(a.elements, largest_);
    out_->text_b = Text(b.elements, largest_);
    return absl::OkStatus();
  }

  // Adds a block of a to the squares of a alone.
  absl::Status AddSquaresOfA(const TensorView& a) {
    if (a.dtype() == DType::kFloat32) return AddSquares<float>(a);
    CASK_ASSIGN_OR_RETURN(const TensorView wide, Widened(a));
    return VisitWide(wide.dtype(), [&](auto tag) { return AddSquares<typename decltype(tag)::type>(wide); });
  }

  void ForgetSquaresOfA() { squares_a_ = 0; }

  // Sets the root mean squares. Requires: the squares of all elements of a are added.
  void SetRootMeans(uint64_t num_elements) {
    out_->rms = RootMean(squares_, num_elements);
    out_->rms_a = RootMean(squares_a_, num_elements);
  }

 private:
  template <typename T>
  absl::Status AddSquares(const TensorView& a) {
    squares_a_ += SumOfSquares(a.data<T>(), a.num_elements());
    return absl::OkStatus();
  }

  // The text of element `place` of a row-major view.
  static std::string Text(const TensorView& view, int64_t place) {
    return internal::SummarizeElements({view.dtype(), view.buffer()->data(), {}, {}, view.offset() + place}, {});
  }

  absl::Status CompareElements(const TensorView& a, const TensorView& b) {
    if (a.dtype() == b.dtype()) {
      if (a.dtype() == DType::kFloat32) return CompareAs<float, float>(a, b);
      if (a.dtype() == DType::kComplex64) return CompareAs<std::complex<float>, std::complex<float>>(a, b);
      if (a.dtype() == DType::kString) {
        CompareStrings(a, b);
        return absl::OkStatus();
      }
      if (a.element_size() == 0) return absl::UnimplementedError("elements of this dtype cannot be compared");
    }
    CASK_ASSIGN_OR_RETURN(const TensorView wide_a, Widened(a));
    CASK_ASSIGN_OR_RETURN(const TensorView wide_b, Widened(b));
    return VisitWide(wide_a.dtype(), [&](auto tag_a) {
      return VisitWide(wide_b.dtype(), [&](auto tag_b) {
        return CompareAs<typename decltype(tag_a)::type, typename decltype(tag_b)::type>(wide_a, wide_b);
      });
    });
  }

  static absl::StatusOr<TensorView> Widened(const TensorView& view) {
    const DType wide = WideDType(view.dtype());
    if (view.dtype() == wide) return view;
    return ConvertTo(view, wide);
  }

  template <typename A, typename B>
  absl::Status CompareAs(const TensorView& a, const TensorView& b) {
    const A* const as = a.data<A>();
    const B* const bs = b.data<B>();
    squares_a_ += SumOfSquares(as, a.num_elements());
    for (int64_t i = 0; i < a.num_elements(); ++i) {
      // C++ would convert an integer beside another type, and round it.
      if constexpr (std::is_same_v<A, B> || (!std::is_integral_v<A> && !std::is_integral_v<B>)) {
        if (as[i] == bs[i]) continue;
        if (as[i] != as[i] && bs[i] != bs[i]) continue;  // NaN
      }
      const double size = std::abs(static_cast<Double<B>>(bs[i]));
      const double tolerance = options_.absolute_tolerance + options_.relative_tolerance * size;
      const double rounded = RoundedDistance(as[i], bs[i]);
      const double distance = std::isfinite(rounded) ? rounded : kInfinity;
      squares_ += distance * distance;
      const bool is_close =
          distance < tolerance || (distance == tolerance && !Distance(as[i], bs[i]).IsAbove(tolerance));
      if (is_close && distance < kInfinity) continue;
      Note(i, distance, size > 0 && std::isfinite(size) ? distance / size : kInfinity);
    }
    return absl::OkStatus();
  }

  void CompareStrings(const TensorView& a, const TensorView& b) {
    const std::string* const as = a.data<std::string>();
    const std::string* const bs = b.data<std::string>();
    for (int64_t i = 0; i < a.num_elements(); ++i) {
      if (as[i] != bs[i]) Note(i, kInfinity, kInfinity);
    }
  }

  void Note(int64_t place, double absolute, double relative) {
    const bool is_first = out_->num_different++ == 0;
    if (is_first || absolute > out_->max_absolute) {
      out_->max_absolute = absolute;
      largest_ = place;
    }
    if (is_first || relative > out_->max_relative) {
      out_->max_relative = relative;
      largest_relative_ = place;
    }
  }

  const CompareOptions& options_;
  TensorDifference* const out_;
  // The elements of the current block that have the largest difference of all so far, by number in the block; -1: none.
  int64_t largest_ = -1;
  int64_t largest_relative_ = -1;
  double squares_ = 0;
  double squares_a_ = 0;
};

struct Pair {
  const ArchiveEntry* a = nullptr;  // null: only in b
  const ArchiveEntry* b = nullptr;
  absl::string_view name;
  bool equal = false;                            // their bytes
  std::unique_ptr<TensorDifference> difference;  // null for most
};

// A tensor by the name that it has in b.
struct Named {
  absl::string_view name;
  const ArchiveEntry* entry;
};

// The tensors that `include` chooses, sorted by name; of a file without names its only one. `rename` may be null;
// *new_names keeps what it returns.
absl::StatusOr<std::vector<Named>> Choose(const ArchiveReader& archive, const std::vector<std::string>& include,
                                          const std::function<absl::StatusOr<std::string>(absl::string_view)>& rename,
                                          std::deque<std::string>* new_names) {
  std::vector<Named> chosen;
  chosen.reserve(archive.entries().size());
  for (const ArchiveEntry& entry : archive.entries()) {
    if (rename) {
      CASK_ASSIGN_OR_RETURN(std::string new_name, rename(entry.name));
      new_names->push_back(std::move(new_name));
    }
    const Named named = {rename ? new_names->back() : entry.name, &entry};
    const auto matches = [&](const std::string& glob) { return MatchesGlob(glob, named.name); };
    if (!archive.has_names() || include.empty() || std::any_of(include.begin(), include.end(), matches)) {
      chosen.push_back(named);
    }
  }
  if (!rename) return chosen;
  std::sort(chosen.begin(), chosen.end(), [](const Named& x, const Named& y) { return x.name < y.name; });
  const auto twice =
      std::adjacent_find(chosen.begin(), chosen.end(), [](const Named& x, const Named& y) { return x.name == y.name; });
  if (twice == chosen.end()) return chosen;
  return absl::AlreadyExistsError(absl::StrCat(archive.path(), ": tensors ", Quoted(twice->entry->name), " and ",
                                               Quoted((twice + 1)->entry->name), " would both be called ",
                                               Quoted(twice->name)));
}

absl::StatusOr<std::vector<Pair>> PairUp(const ArchiveReader& a, const ArchiveReader& b, const CompareOptions& options,
                                         std::deque<std::string>* new_names) {
  std::vector<std::string> include = archive::NamesFirst(options.include, b.entries());
  if (!options.rename) include = archive::NamesFirst(std::move(include), a.entries());
  CASK_ASSIGN_OR_RETURN(const std::vector<Named> chosen_a, Choose(a, include, options.rename, new_names));
  CASK_ASSIGN_OR_RETURN(const std::vector<Named> chosen_b, Choose(b, include, nullptr, new_names));
  std::vector<Pair> pairs;
  pairs.reserve(std::max(chosen_a.size(), chosen_b.size()));
  const auto add = [&](const ArchiveEntry* of_a, const ArchiveEntry* of_b, absl::string_view name) {
    pairs.emplace_back();
    pairs.back().a = of_a;
    pairs.back().b = of_b;
    pairs.back().name = name;
  };
  if ((!a.has_names() || !b.has_names()) && chosen_a.size() == 1 && chosen_b.size() == 1) {
    const bool named_by_b = !a.has_names() && b.has_names();
    add(chosen_a[0].entry, chosen_b[0].entry, named_by_b ? chosen_b[0].name : chosen_a[0].name);
    return pairs;
  }
  auto next_a = chosen_a.begin();
  auto next_b = chosen_b.begin();
  while (next_a != chosen_a.end() || next_b != chosen_b.end()) {
    const bool takes_a = next_b == chosen_b.end() || (next_a != chosen_a.end() && next_a->name <= next_b->name);
    const bool takes_b = next_a == chosen_a.end() || (next_b != chosen_b.end() && next_b->name <= next_a->name);
    add(takes_a ? next_a->entry : nullptr, takes_b ? next_b->entry : nullptr, takes_a ? next_a->name : next_b->name);
    if (takes_a) ++next_a;
    if (takes_b) ++next_b;
  }
  return pairs;
}

// Reads a tensor of `a` once more.
absl::Status AddSquaresOfA(const ArchiveReader& a, const ArchiveEntry& entry, uint64_t block_bytes,
                           archive::ByteProgress* progress, ElementComparer* comparer) {
  CASK_ASSIGN_OR_RETURN(const std::unique_ptr<TensorBlocks> blocks, a.ReadBlocks(entry, block_bytes));
  comparer->ForgetSquaresOfA();
  while (true) {
    CASK_ASSIGN_OR_RETURN(const std::optional<TensorBlock> block, blocks->Next());
    if (!block.has_value()) return absl::OkStatus();
    CASK_RETURN_IF_ERROR(comparer->AddSquaresOfA(block->elements));
    if (!progress->Add(0)) return absl::CancelledError("the comparison was cancelled");
  }
}

// What its elements are stored as.
std::string TypeOf(const ArchiveEntry& entry) {
  return entry.is_quantized ? entry.encoding : std::string(DTypeName(entry.dtype));
}

bool AreComparedByValue(const CompareOptions& options, const ArchiveEntry& a, const ArchiveEntry& b) {
  if (a.dtype == b.dtype) return true;
  if (!AreNumbers(a.dtype, b.dtype)) return false;
  if (options.cast || options.relative_tolerance > 0 || options.absolute_tolerance > 0) return true;
  return (a.is_quantized || b.is_quantized) && IsFloating(a.dtype) && IsFloating(b.dtype);
}

absl::Status CompareValues(const ArchiveReader& a, const ArchiveReader& b, const CompareOptions& options,
                           archive::ByteProgress* progress, Pair* pair, TensorDifference* out) {
  // Blocks of as many elements, whatever the size of each.
  const size_t size_a = ElementSize(pair->a->dtype);
  const size_t size_b = ElementSize(pair->b->dtype);
  const bool is_cast = pair->a->dtype != pair->b->dtype;
  const uint64_t elements_each = is_cast ? std::max<uint64_t>(options.block_bytes / std::max(size_a, size_b), 1) : 0;
  const uint64_t bytes_a = is_cast ? elements_each * size_a : options.block_bytes;
  const uint64_t bytes_b = is_cast ? elements_each * size_b : options.block_bytes;
  CASK_ASSIGN_OR_RETURN(const std::unique_ptr<TensorBlocks> blocks_a, a.ReadBlocks(*pair->a, bytes_a));
  CASK_ASSIGN_OR_RETURN(const std::unique_ptr<TensorBlocks> blocks_b, b.ReadBlocks(*pair->b, bytes_b));
  ElementComparer comparer(options, out);
  pair->equal = true;
  bool has_equal_blocks = false;
  while (true) {
    CASK_ASSIGN_OR_RETURN(const std::optional<TensorBlock> block_a, blocks_a->Next());
    CASK_ASSIGN_OR_RETURN(const std::optional<TensorBlock> block_b, blocks_b->Next());
    if (!block_a.has_value() || !block_b.has_value()) break;
    if (is_cast) pair->equal = false;  // bytes of two dtypes mean different numbers
    const TensorView& elements = block_a->elements;
    if (is_cast || elements.element_size() == 0 || elements.bytes() != block_b->elements.bytes()) {
      const uint64_t before = out->num_different;
      CASK_RETURN_IF_ERROR(comparer.Compare(*block_a, *block_b));
      if (elements.element_size() > 0 || out->num_different > before) pair->equal = false;
    } else {
      has_equal_blocks = true;
    }
    const uint64_t bytes =
        static_cast<uint64_t>(elements.num_elements()) * (elements.element_size() + block_b->elements.element_size());
    if (!progress->Add(bytes)) return absl::CancelledError("the comparison was cancelled");
  }
  if (out->num_different == 0 || pair->a->dtype == DType::kString) return absl::OkStatus();
  // Most tensors are equal, so the pass above does not spend time on the squares of equal blocks.
  if (has_equal_blocks) CASK_RETURN_IF_ERROR(AddSquaresOfA(a, *pair->a, bytes_a, progress, &comparer));
  comparer.SetRootMeans(static_cast<uint64_t>(pair->a->shape.num_elements()));
  return absl::OkStatus();
}

void ComparePair(const ArchiveReader& a, const ArchiveReader& b, const CompareOptions& options,
                 archive::ByteProgress* progress, Pair* pair) {
  using Kind = TensorDifference::Kind;
  TensorDifference difference;
  if (pair->a != nullptr) difference.a = *pair->a;
  if (pair->b != nullptr) difference.b = *pair->b;
  difference.name = std::string(pair->name);
  if (pair->a == nullptr || pair->b == nullptr) {
    difference.kind = pair->a == nullptr ? Kind::kOnlyInB : Kind::kOnlyInA;
  } else if (!pair->a->read_status.ok() || !pair->b->read_status.ok()) {  // their dtypes may be unknown
    difference.kind = Kind::kUnreadable;
    difference.status = !pair->a->read_status.ok() ? a.CheckReadable(*pair->a) : b.CheckReadable(*pair->b);
  } else if (!AreComparedByValue(options, *pair->a, *pair->b)) {
    difference.kind = Kind::kDType;
  } else if (pair->a->shape != pair->b->shape) {
    difference.kind = Kind::kShape;
  } else {
    difference.status = CompareValues(a, b, options, progress, pair, &difference);
    difference.kind = difference.status.ok() ? Kind::kValues : Kind::kUnreadable;
    difference.type_a = TypeOf(*pair->a);
    difference.type_b = TypeOf(*pair->b);
    if (difference.status.ok() && difference.num_different == 0) return;
  }
  pair->difference = std::make_unique<TensorDifference>(std::move(difference));
}

// The differences of values together, of each pair of types.
std::vector<TypeDifference> ByType(const std::vector<TensorDifference>& differences) {
  struct Squares {
    double of_difference = 0;
    double of_a = 0;
  };
  std::map<std::pair<std::string, std::string>, std::pair<TypeDifference, Squares>> by_type;
  for (const TensorDifference& one : differences) {
    if (one.kind != TensorDifference::Kind::kValues || one.a.dtype == DType::kString) continue;
    auto& [total, squares] = by_type[{one.type_a, one.type_b}];
    const auto elements = static_cast<uint64_t>(one.a.shape.num_elements());
    ++total.tensors;
    total.elements += elements;
    total.max_absolute = std::max(total.max_absolute, one.max_absolute);
    squares.of_difference += one.rms * one.rms * static_cast<double>(elements);
    squares.of_a += one.rms_a * one.rms_a * static_cast<double>(elements);
  }
  std::vector<TypeDifference> totals;
  for (auto& [types, sums] : by_type) {
    TypeDifference& total = sums.first;
    std::tie(total.type_a, total.type_b) = types;
    total.rms = RootMean(sums.second.of_difference, total.elements);
    total.rms_a = RootMean(sums.second.of_a, total.elements);
    totals.push_back(std::move(total));
  }
  return totals;
}

// Whether the same quantized elements stand for other numbers in the two files.
bool HaveOtherScales(const ArchiveReader& a, const ArchiveEntry& in_a, const ArchiveReader& b,
                     const ArchiveEntry& in_b) {
  if (!IsQuantized(in_a.dtype) || in_a.dtype != in_b.dtype || !in_a.has_metadata || !in_b.has_metadata) return false;
  const absl::StatusOr<TensorMetadata> of_a = a.Metadata(in_a.name);
  const absl::StatusOr<TensorMetadata> of_b = b.Metadata(in_b.name);
  if (!of_a.ok() || !of_b.ok()) return false;
  const auto is_other = [](const TensorMetadata& one, const TensorMetadata& other) {
    return std::any_of(one.attributes.begin(), one.attributes.end(), [&](const auto& attribute) {
      const auto found = other.attributes.find(attribute.first);
      return absl::StartsWith(attribute.first, "torch.") &&
             (found == other.attributes.end() || found->second != attribute.second);
    });
  };
  return is_other(*of_a, *of_b) || is_other(*of_b, *of_a);
}

}  // namespace

double TensorDifference::relative_rms() const { return Ratio(rms, rms_a); }

double TypeDifference::relative_rms() const { return Ratio(rms, rms_a); }

absl::StatusOr<CompareReport> Compare(const ArchiveReader& a, const ArchiveReader& b, const CompareOptions& options) {
  std::deque<std::string> new_names;
  CASK_ASSIGN_OR_RETURN(std::vector<Pair> pairs, PairUp(a, b, options, &new_names));
  archive::ByteProgress progress(options.progress);
  CASK_RETURN_IF_ERROR(ParallelFor(options.num_threads, pairs.size(), [&](size_t i) {
    if (!progress.cancelled()) ComparePair(a, b, options, &progress, &pairs[i]);
  }));
  if (progress.cancelled()) return absl::CancelledError("the comparison was cancelled");
  CompareReport report;
  for (Pair& pair : pairs) {
    if (pair.difference != nullptr) {
      report.differences.push_back(std::move(*pair.difference));
      pair.difference = nullptr;
    } else {
      const bool is_cast = pair.a->dtype != pair.b->dtype;
      ++(pair.equal && !is_cast ? report.equal : report.within_tolerance);
      if (is_cast) ++report.other_dtypes;
      if (HaveOtherScales(a, *pair.a, b, *pair.b)) ++report.other_scales;
    }
  }
  std::stable_sort(report.differences.begin(), report.differences.end(),
                   [](const TensorDifference& x, const TensorDifference& y) {
                     const auto key = [](const TensorDifference& one) {
                       const bool has_values = one.kind == TensorDifference::Kind::kValues;
                       return std::make_tuple(has_values, -one.max_relative, -one.relative_rms(), -one.max_absolute);
                     };
                     return key(x) < key(y);
                   });
  report.by_type = ByType(report.differences);
  return report;
}

}  // namespace tensorcask
