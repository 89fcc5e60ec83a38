#include "tensorcask/serialize/report/singular_values.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/archive/element_totals.h"
#include "tensorcask/tensor/base/parallel_for.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/convert.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask {
namespace {

// Makes of x, whose elements are `step` apart, the vector v of the reflection 1 - beta v v^T that turns x into a
// multiple of its first axis; v[0] is 1. Returns {beta, the multiple}.
std::pair<double, double> Reflect(double* x, size_t size, size_t step) {
  double largest = 0;
  for (size_t i = 0; i < size; ++i) largest = std::max(largest, std::abs(x[i * step]));
  if (largest == 0) return {0, 0};
  double squares = 0;
  for (size_t i = 0; i < size; ++i) squares += (x[i * step] / largest) * (x[i * step] / largest);
  const double norm = largest * std::sqrt(squares);
  const double first = x[0];
  const double target = first > 0 ? -norm : norm;
  const double scale = first - target;
  for (size_t i = 1; i < size; ++i) x[i * step] /= scale;
  x[0] = 1;
  return {(target - first) / target, target};
}

// With eight sums at once, which the compiler makes vectors of.
double Dot(const double* x, const double* y, size_t size) {
  double sums[8] = {};
  size_t i = 0;
  for (; i + 8 <= size; i += 8) {
    for (size_t lane = 0; lane < 8; ++lane) sums[lane] += x[i + lane] * y[i + lane];
  }
  double sum = 0;
  for (; i < size; ++i) sum += x[i] * y[i];
  for (const double one : sums) sum += one;
  return sum;
}

void AddScaled(double factor, const double* x, size_t size, double* y) {
  for (size_t i = 0; i < size; ++i) y[i] += factor * x[i];
}

// Reduces a matrix of m >= n, row-major, to the diagonal d and the elements above it, e[0] to e[n - 2].
//
// Step k makes column k zero below the diagonal, by a reflection from the left, and row k after the element above the
// diagonal, by one from the right. The matrix is larger than a cache, so each step goes through it once: a row gets
// both reflections, and adds to the products with the next column, from which the next step makes its own.
class Bidiagonalizer {
 public:
  Bidiagonalizer(double* matrix, size_t m, size_t n) : a_(matrix), m_(m), n_(n), products_(n), left_sums_(n) {
    for (std::vector<double>& part : parts_) part.resize(n);
  }

  absl::Status Run(absl::FunctionRef<bool()> go_on, std::vector<double>* d, std::vector<double>* e) {
    for (size_t i = 1; i < m_; ++i) AddScaled(Row(i)[0], Row(i), n_, products_.data());
    for (size_t k = 0; k < n_; ++k) {
      if (!go_on()) return absl::CancelledError("cancelled");
      double* const row = Row(k);
      const double first = row[k];
      const auto [left, diagonal] = Reflect(row + k, m_ - k, n_);
      (*d)[k] = diagonal;
      const size_t size = n_ - k - 1;  // what is left of a row
      if (size == 0) break;
      double* const v = row + k + 1;
      // Products of the vector of the left reflection with the columns after k, times minus its factor.
      const double scale = first - diagonal;
      for (size_t j = k + 1; j < n_; ++j) {
        left_sums_[j] = left == 0 ? 0 : -left * (row[j] + products_[j] / scale);
      }
      AddScaled(1, &left_sums_[k + 1], size, v);
      const auto [right, above] = size > 1 ? Reflect(v, size, 1) : std::pair<double, double>(0, v[0]);
      (*e)[k] = above;
      CASK_RETURN_IF_ERROR(ReflectRows(k, right, v, size));
    }
    return absl::OkStatus();
  }

 private:
  static constexpr size_t kParts = 2;  // that threads share; always as many, so that all runs give the same values
  static constexpr size_t kFewElements = size_t{1} << 16;  // for which a thread is not worth its start

  double* Row(size_t i) { return a_ + i * n_; }

  // Both reflections of step k, of the rows after k.
  absl::Status ReflectRows(size_t k, double right, const double* v, size_t size) {
    const size_t rows = m_ - k - 1;
    const auto reflect = [&](size_t part) {
      std::vector<double>& products = parts_[part];
      std::fill(products.begin() + static_cast<int64_t>(k) + 1, products.end(), 0);
      const size_t end = k + 1 + rows * (part + 1) / kParts;
      for (size_t i = k + 1 + rows * part / kParts; i < end; ++i) {
        double* const row = Row(i) + k + 1;
        AddScaled(Row(i)[k], &left_sums_[k + 1], size, row);
        if (right != 0) AddScaled(-right * Dot(row, v, size), v, size, row);
        if (i > k + 1) AddScaled(row[0], row, size, &products[k + 1]);
      }
    };
    CASK_RETURN_IF_ERROR(ParallelFor(rows * size > kFewElements ? static_cast<int>(kParts) : 1, kParts, reflect));
    for (size_t j = k + 1; j < n_; ++j) products_[j] = parts_[0][j] + parts_[1][j];
    return absl::OkStatus();
  }

  double* const a_;
  const size_t m_;
  const size_t n_;
  std::vector<double> products_;   // those of column k below the diagonal with the columns after it
  std::vector<double> left_sums_;  // as Run says
  std::vector<double> parts_[kParts];
};

// How many of the eigenvalues of ValuesOf's matrix lie below each of some numbers. Together these take the time of one:
// a division waits long for the one before.
constexpr size_t kLanes = 8;
void CountBelow(const std::vector<double>& squares, double tiny, const double (&x)[kLanes], size_t (&counts)[kLanes]) {
  double pivots[kLanes];
  double found[kLanes] = {};
  for (size_t lane = 0; lane < kLanes; ++lane) pivots[lane] = -x[lane];
  for (const double square : squares) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      found[lane] += pivots[lane] < 0 ? 1.0 : 0.0;
      const double least = pivots[lane] < 0 ? -tiny : tiny;
      const double pivot = std::abs(pivots[lane]) < tiny ? least : pivots[lane];
      pivots[lane] = -x[lane] - square / pivot;
    }
  }
  for (size_t lane = 0; lane < kLanes; ++lane) {
    counts[lane] = static_cast<size_t>(found[lane] + (pivots[lane] < 0 ? 1.0 : 0.0));
  }
}

// The eigenvalues of the symmetric tridiagonal matrix with a zero diagonal and these elements beside it are the
// singular values and their negatives (Golub and Kahan). Finds them by bisection with Sturm sequences: value k lies
// where the number of eigenvalues below passes 2n - 1 - k.
absl::StatusOr<std::vector<double>> ValuesOf(const std::vector<double>& d, const std::vector<double>& e,
                                             absl::FunctionRef<bool()> go_on) {
  const size_t n = d.size();
  std::vector<double> squares;  // those of the elements beside the diagonal: d0, e0, d1, ...
  double bound = 0;
  for (size_t i = 0; i < n; ++i) {
    squares.push_back(d[i] * d[i]);
    if (i + 1 < n) squares.push_back(e[i] * e[i]);
    bound = std::max(bound, std::abs(d[i]) + (i + 1 < n ? std::abs(e[i]) : 0) + (i > 0 ? std::abs(e[i - 1]) : 0));
  }
  const double tiny = std::numeric_limits<double>::min() * 16 + bound * bound * 1e-40;
  std::vector<double> values(n);
  for (size_t k = 0; k < n; k += kLanes) {
    if (!go_on()) return absl::CancelledError("cancelled");
    double low[kLanes] = {};
    double top[kLanes];
    double middle[kLanes];
    std::fill_n(top, kLanes, k > 0 ? values[k - 1] * (1 + 1e-12) : bound * (1 + 1e-15));
    for (int round = 0; round < 60 && *std::max_element(top, top + kLanes) > 0; ++round) {
      for (size_t lane = 0; lane < kLanes; ++lane) middle[lane] = low[lane] + (top[lane] - low[lane]) / 2;
      size_t counts[kLanes];
      CountBelow(squares, tiny, middle, counts);
      double widest = 0;
      for (size_t lane = 0; lane < kLanes; ++lane) {
        (counts[lane] + k + lane >= 2 * n ? top : low)[lane] = middle[lane];
        widest = std::max(widest, top[lane] - low[lane]);
      }
      if (widest <= bound * 1e-16) break;
    }
    for (size_t lane = 0; lane < kLanes && k + lane < n; ++lane) {
      values[k + lane] = low[lane] + (top[lane] - low[lane]) / 2;
    }
  }
  std::sort(values.rbegin(), values.rend());  // the last bit of equal values may differ
  return values;
}

}  // namespace

absl::StatusOr<std::vector<double>> SingularValues(const TensorView& matrix, absl::FunctionRef<bool()> go_on) {
  if (matrix.rank() != 2) {
    return absl::InvalidArgumentError(absl::StrCat("rank ", matrix.rank(), "; a matrix has rank 2"));
  }
  if (!archive::HasOrder(matrix.dtype())) {
    return absl::InvalidArgumentError(absl::StrCat("dtype ", DTypeName(matrix.dtype()), "; wanted real numbers"));
  }
  if (std::max(matrix.dim(0), matrix.dim(1)) > kMostSingularRows) {
    return absl::InvalidArgumentError(absl::StrCat("a matrix of ", matrix.dim(0), " x ", matrix.dim(1), "; at most ",
                                                   kMostSingularRows, " rows and columns"));
  }
  CASK_ASSIGN_OR_RETURN(const TensorView tall, matrix.dim(0) >= matrix.dim(1) ? matrix : matrix.Transpose(0, 1));
  const auto m = static_cast<size_t>(tall.dim(0));
  const auto n = static_cast<size_t>(tall.dim(1));
  if (n == 0) return std::vector<double>();
  Tensor wide;
  CASK_ASSIGN_OR_RETURN(wide, Tensor::Create(DType::kFloat64, TensorShape({tall.dim(0), tall.dim(1)})));
  CASK_RETURN_IF_ERROR(Convert(tall, &wide));
  double* const elements = wide.mutable_data<double>();
  const size_t size = m * n;
  double largest = 0;
  for (size_t i = 0; i < size; ++i) {
    if (!std::isfinite(elements[i])) return absl::InvalidArgumentError("some elements are NaN or infinite");
    largest = std::max(largest, std::abs(elements[i]));
  }
  if (largest == 0) return std::vector<double>(n, 0);
  for (size_t i = 0; i < size; ++i) elements[i] /= largest;  // squares neither overflow nor vanish
  std::vector<double> d(n, 0);
  std::vector<double> e(n, 0);
  CASK_RETURN_IF_ERROR(Bidiagonalizer(elements, m, n).Run(go_on, &d, &e));
  CASK_ASSIGN_OR_RETURN(std::vector<double> values, ValuesOf(d, e, go_on));
  for (double& value : values) value *= largest;
  return values;
}

}  // namespace tensorcask
