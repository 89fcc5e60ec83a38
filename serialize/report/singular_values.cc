#include "tensorcask/serialize/report/singular_values.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/archive/element_totals.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/strided/convert.h"

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

// Reduces a matrix of m >= n to the diagonal d and the elements above it, e[0] to e[n - 2].
absl::Status Bidiagonalize(std::vector<double>* matrix, size_t m, size_t n, absl::FunctionRef<bool()> go_on,
                           std::vector<double>* d, std::vector<double>* e) {
  double* const a = matrix->data();
  std::vector<double> sums(n);
  for (size_t k = 0; k < n; ++k) {
    if (!go_on()) return absl::CancelledError("cancelled");
    // From the left: column k below the diagonal becomes 0. Both loops go along rows, which are contiguous.
    const auto [left, diagonal] = Reflect(a + k * n + k, m - k, n);
    (*d)[k] = diagonal;
    if (left != 0) {
      std::fill(sums.begin(), sums.end(), 0);
      for (size_t i = k; i < m; ++i) {
        const double v = a[i * n + k];
        const double* const row = a + i * n;
        for (size_t j = k + 1; j < n; ++j) sums[j] += v * row[j];
      }
      for (size_t i = k; i < m; ++i) {
        const double v = left * a[i * n + k];
        double* const row = a + i * n;
        for (size_t j = k + 1; j < n; ++j) row[j] -= v * sums[j];
      }
    }
    if (k + 2 > n) break;
    // From the right: row k beyond the element above the diagonal becomes 0.
    double* const v = a + k * n + k + 1;
    const size_t size = n - k - 1;
    const auto [right, above] = Reflect(v, size, 1);
    (*e)[k] = above;
    if (right == 0) continue;
    for (size_t i = k + 1; i < m; ++i) {
      double* const row = a + i * n + k + 1;
      double sum = 0;
      for (size_t j = 0; j < size; ++j) sum += row[j] * v[j];
      sum *= right;
      for (size_t j = 0; j < size; ++j) row[j] -= sum * v[j];
    }
  }
  return absl::OkStatus();
}

// The eigenvalues of the symmetric tridiagonal matrix with a zero diagonal and these elements beside it are the
// singular values and their negatives (Golub and Kahan). Finds them by bisection with Sturm sequences: value k lies
// where the number of eigenvalues below passes k.
std::vector<double> ValuesOf(const std::vector<double>& d, const std::vector<double>& e) {
  const size_t n = d.size();
  std::vector<double> squares;  // of the elements beside the diagonal: d0, e0, d1, ...
  double bound = 0;
  for (size_t i = 0; i < n; ++i) {
    squares.push_back(d[i] * d[i]);
    if (i + 1 < n) squares.push_back(e[i] * e[i]);
    bound = std::max(bound, std::abs(d[i]) + (i + 1 < n ? std::abs(e[i]) : 0) + (i > 0 ? std::abs(e[i - 1]) : 0));
  }
  const double tiny = std::numeric_limits<double>::min() * 16 + bound * bound * 1e-40;
  const auto below = [&](double x) {  // how many eigenvalues are less than x
    size_t count = 0;
    double pivot = -x;
    for (size_t i = 0;; ++i) {
      if (pivot < 0) ++count;
      if (i == squares.size()) return count;
      if (std::abs(pivot) < tiny) pivot = pivot < 0 ? -tiny : tiny;
      pivot = -x - squares[i] / pivot;
    }
  };
  std::vector<double> values(n);
  double high = bound * (1 + 1e-15);
  for (size_t k = 0; k < n; ++k) {  // the largest first: value k has 2n - 1 - k eigenvalues below it
    double low = 0;
    double top = k > 0 ? std::max(values[k - 1] * (1 + 1e-12), 0.0) : high;
    for (int round = 0; round < 60 && top - low > bound * 1e-16; ++round) {
      const double middle = low + (top - low) / 2;
      (below(middle) >= 2 * n - k ? top : low) = middle;
    }
    values[k] = low + (top - low) / 2;
  }
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
  CASK_ASSIGN_OR_RETURN(const TensorView wide, ConvertTo(tall, DType::kFloat64, MemoryFormat::kContiguous));
  std::vector<double> elements(wide.data<double>(), wide.data<double>() + wide.num_elements());
  double largest = 0;
  for (const double x : elements) {
    if (!std::isfinite(x)) return absl::InvalidArgumentError("some elements are NaN or infinite");
    largest = std::max(largest, std::abs(x));
  }
  if (largest == 0) return std::vector<double>(n, 0);
  for (double& x : elements) x /= largest;  // squares neither overflow nor vanish
  std::vector<double> d(n, 0);
  std::vector<double> e(n, 0);
  CASK_RETURN_IF_ERROR(Bidiagonalize(&elements, m, n, go_on, &d, &e));
  std::vector<double> values = ValuesOf(d, e);
  for (double& value : values) value *= largest;
  return values;
}

}  // namespace tensorcask
