// Compare judges numbers of two dtypes by their exact values.

#include "tensorcask/serialize/archive/compare_archives.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/numeric/int128.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/archive/archive_reader.h"
#include "tensorcask/serialize/archive/decoded_archive.h"
#include "tensorcask/serialize/archive/internal/exact_difference.h"
#include "tensorcask/serialize/archive/record_stream.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
constexpr uint64_t kMostUnsigned = std::numeric_limits<uint64_t>::max();
constexpr int64_t kTwoTo53 = int64_t{1} << 53;
constexpr double kTwoTo63 = 9223372036854775808.0;

template <typename T>
TensorView One(T value) {
  return Tensor::FromValues<T>({value});
}

std::unique_ptr<ArchiveReader> Holding(const TensorView& view) {
  NamedRecord record;
  record.entry.name = "x";
  record.entry.dtype = view.dtype();
  record.entry.shape = view.shape();
  record.tensor.view = view;
  KeptTensors tensors;
  tensors.Add(std::move(record));
  return MakeDecodedArchive("records", "memory", std::move(tensors), /*has_names=*/true);
}

struct Row {
  const char* name;
  TensorView a;
  TensorView b;
  double distance;  // |a - b| as the nearest double
};

std::vector<Row> Rows() {
  const auto complex128 = [](double real, double imaginary) { return One(std::complex<double>(real, imaginary)); };
  return {
      {"int64 above a float64", One(kTwoTo53 + 1), One(9007199254740992.0), 1},
      {"int64 below a float64", One(-kTwoTo53 - 1), One(-9007199254740992.0), 1},
      {"int64 equal to a float64", One(kTwoTo53 + 2), One(9007199254740994.0), 0},
      {"the largest int64", One(kMost), One(kTwoTo63), 1},
      {"the least int64", One(kLeast), One(-kTwoTo63), 0},
      {"the least int64 and its negative", One(kLeast), One(kTwoTo63), 2 * kTwoTo63},
      {"the largest uint64", One(kMostUnsigned), One(2 * kTwoTo63), 1},
      {"int64 and a smaller uint64", One(kMost), One(uint64_t{1}), kTwoTo63},
      {"int64 and a larger uint64", One(kMost), One(uint64_t{1} << 63), 1},
      {"a negative int64 with the bits of a uint64", One(int64_t{-1}), One(kMostUnsigned), 2 * kTwoTo63},
      {"the ends of both", One(kLeast), One(kMostUnsigned), 3 * kTwoTo63},
      {"int64 equal to a uint64", One(kMost), One(static_cast<uint64_t>(kMost)), 0},
      {"a fraction", One(int64_t{3}), One(2.5), 0.5},
      {"a tiny fraction", One(int64_t{0}), One(1e-300), 1e-300},
      {"a huge float", One(kMostUnsigned), One(1e300), 1e300},
      {"zero and -0.0", One(int64_t{0}), One(-0.0), 0},
      {"NaN", One(int64_t{0}), One(kNan), kInfinity},
      {"infinity", One(kMost), One(kInfinity), kInfinity},
      {"float32", One(int64_t{(1 << 24) + 1}), One(16777216.0F), 1},
      {"complex", One(kTwoTo53 + 1), complex128(9007199254740992.0, 0), 1},
      {"complex equal", One(kMostUnsigned - 2047), complex128(2 * kTwoTo63 - 2048, -0.0), 0},
      {"an imaginary part", One(int64_t{3}), complex128(0, 4), 5},
      {"an imaginary NaN", One(int64_t{3}), complex128(3, kNan), kInfinity},
      {"infinity and complex infinity", One(kInfinity), complex128(kInfinity, 0), 0},
      {"NaN and complex NaN", One(kNan), complex128(0, kNan), 0},
      {"complex64 and int64", One(std::complex<float>(3, 0)), One(int64_t{3}), 0},
      {"bool", One(true), One(int64_t{2}), 1},
      {"int8 and uint64", One(int8_t{-1}), One(kMostUnsigned), 2 * kTwoTo63},
      {"two int64", One(kMost), One(kMost - 1), 1},
      {"two uint64", One(uint64_t{0}), One(kMostUnsigned), 2 * kTwoTo63},
  };
}

TEST(Compare, NumbersOfTwoDTypesAreComparedExactly) {
  CompareOptions options;
  options.cast = true;
  for (const Row& row : Rows()) {
    for (const bool is_swapped : {false, true}) {
      SCOPED_TRACE(::testing::Message() << row.name << (is_swapped ? ", swapped" : ""));
      const TensorView& a = is_swapped ? row.b : row.a;
      const TensorView& b = is_swapped ? row.a : row.b;
      ASSERT_OK_AND_ASSIGN(const CompareReport report, Compare(*Holding(a), *Holding(b), options));
      ASSERT_EQ(report.differences.size(), row.distance == 0 ? 0U : 1U);
      const double largest = report.differences.empty() ? 0 : report.differences[0].max_absolute;
      EXPECT_EQ(largest, row.distance);
    }
  }
}

TEST(Compare, AToleranceIsHeldAgainstTheTrueDifference) {
  CompareOptions options;
  const auto differs = [&](double tolerance) {
    options.absolute_tolerance = tolerance;
    const absl::StatusOr<CompareReport> report = Compare(*Holding(One(kTwoTo53 + 1)), *Holding(One(0.0)), options);
    return report.ok() && !report->differences.empty();
  };
  EXPECT_TRUE(differs(9007199254740992.0));
  EXPECT_FALSE(differs(9007199254740994.0));
}

struct RootMeanRow {
  const char* name;
  TensorView a;
  TensorView b;
  double rms;
  double rms_a;
  double relative;
};

TEST(Compare, RootMeanSquaresAreOfAllElements) {
  using Complex = std::complex<double>;
  const double large = 1e200;
  const RootMeanRow rows[] = {
      {"float32", Tensor::FromValues<float>({3, -4, 0, 0}), Tensor::FromValues<float>({3, -4, 0, 2}), 1, 2.5, 0.4},
      {"two dtypes", Tensor::FromValues<float>({4, 4}), Tensor::FromValues<double>({5, 3}), 1, 4, 0.25},
      {"int64", Tensor::FromValues<int64_t>({kMost, kMost}), Tensor::FromValues<int64_t>({kMost - 2, kMost - 2}), 2,
       kTwoTo63, 2 / kTwoTo63},
      {"complex", One(Complex(3, 4)), One(Complex(0, 0)), 5, 5, 1},
      {"equal NaN and infinity", Tensor::FromValues<double>({kNan, -kInfinity, 4, 0}),
       Tensor::FromValues<double>({kNan, -kInfinity, 4, 2}), 1, 2, 0.5},
      {"NaN in b", Tensor::FromValues<double>({1, 1}), Tensor::FromValues<double>({1, kNan}), kInfinity, 1, kInfinity},
      {"a of zeros", One(0.0), One(2.0), 2, 0, kInfinity},
      {"squares that overflow", One(large), One(0.0), kInfinity, kInfinity, kInfinity},
  };
  for (const RootMeanRow& row : rows) {
    SCOPED_TRACE(row.name);
    CompareOptions options;
    options.cast = true;
    ASSERT_OK_AND_ASSIGN(const CompareReport report, Compare(*Holding(row.a), *Holding(row.b), options));
    ASSERT_EQ(report.differences.size(), 1U);
    EXPECT_EQ(report.differences[0].rms, row.rms);
    EXPECT_EQ(report.differences[0].rms_a, row.rms_a);
    EXPECT_EQ(report.differences[0].relative_rms(), row.relative);
    ASSERT_EQ(report.by_type.size(), 1U);
    EXPECT_EQ(report.by_type[0].rms, row.rms);
    EXPECT_EQ(report.by_type[0].relative_rms(), row.relative);
  }
}

TEST(Compare, RootMeanSquaresCountEqualBlocksAndWhatIsWithinTheTolerance) {
  constexpr int64_t kElements = 100;
  Tensor a = *Tensor::Create(DType::kFloat64, TensorShape({kElements}));
  Tensor b = *Tensor::Create(DType::kFloat64, TensorShape({kElements}));
  std::fill_n(a.mutable_data<double>(), kElements, 2);
  std::fill_n(b.mutable_data<double>(), kElements, 2);
  b.mutable_data<double>()[50] = 12;
  b.mutable_data<double>()[99] = 2.5;
  CompareOptions options;
  options.block_bytes = 10 * sizeof(double);
  options.absolute_tolerance = 1;
  ASSERT_OK_AND_ASSIGN(const CompareReport report, Compare(*Holding(a), *Holding(b), options));
  ASSERT_EQ(report.differences.size(), 1U);
  EXPECT_EQ(report.differences[0].num_different, 1U);
  EXPECT_DOUBLE_EQ(report.differences[0].rms, std::sqrt((10 * 10 + 0.5 * 0.5) / kElements));
  EXPECT_EQ(report.differences[0].rms_a, 2);
}

TEST(Compare, TensorsOfOnePairOfTypesAreCountedTogether) {
  const auto holding = [](const std::vector<std::pair<const char*, TensorView>>& tensors) {
    KeptTensors kept;
    for (const auto& [name, view] : tensors) {
      NamedRecord record;
      record.entry.name = name;
      record.entry.dtype = view.dtype();
      record.entry.shape = view.shape();
      record.tensor.view = view;
      kept.Add(std::move(record));
    }
    return MakeDecodedArchive("records", "memory", std::move(kept), /*has_names=*/true);
  };
  const auto a = holding({{"equal", One(1.0F)}, {"v", One(4.0F)}, {"w", One(3.0F)}, {"x", One(2.0)}});
  const auto b = holding({{"equal", One(1.0F)}, {"v", One(1.0F)}, {"w", One(7.0F)}, {"x", One(1.0F)}});
  CompareOptions options;
  options.cast = true;
  ASSERT_OK_AND_ASSIGN(const CompareReport report, Compare(*a, *b, options));
  EXPECT_EQ(report.equal, 1);
  ASSERT_EQ(report.by_type.size(), 2U);
  const TypeDifference& same = report.by_type[0];
  EXPECT_EQ(std::make_pair(same.type_a, same.type_b), std::make_pair(std::string("float32"), std::string("float32")));
  EXPECT_EQ(same.tensors, 2);
  EXPECT_EQ(same.elements, 2U);
  EXPECT_EQ(same.max_absolute, 4);
  EXPECT_DOUBLE_EQ(same.rms, std::sqrt(25 / 2.0));
  EXPECT_DOUBLE_EQ(same.relative_rms(), 1);
  EXPECT_EQ(report.by_type[1].type_a, "float64");
  EXPECT_EQ(report.by_type[1].tensors, 1);
}

TEST(Compare, SaysWhereTheDifferencesAreLargest) {
  ASSERT_OK_AND_ASSIGN(const CompareReport report,
                       Compare(*Holding(Tensor::FromValues<float>({{1, 2, 300}, {4, 5, 6}})),
                               *Holding(Tensor::FromValues<float>({{1, 2, 290}, {4, 1, 6}}))));
  ASSERT_EQ(report.differences.size(), 1u);
  const TensorDifference& difference = report.differences[0];
  EXPECT_EQ(difference.num_different, 2u);
  EXPECT_EQ(difference.max_absolute, 10);
  EXPECT_EQ(difference.where, (std::vector<int64_t>{0, 2}));
  EXPECT_EQ(difference.text_a, "300");
  EXPECT_EQ(difference.text_b, "290");
  EXPECT_EQ(difference.max_relative, 4);
  EXPECT_EQ(difference.where_relative, (std::vector<int64_t>{1, 1}));
}

TEST(KeptTensors, OfOneNameStayInTheirOrder) {
  KeptTensors kept;
  for (const auto& [name, number] :
       std::vector<std::pair<const char*, int32_t>>{{"b", 0}, {"a", 1}, {"b", 2}, {"a", 3}}) {
    NamedRecord record;
    record.entry.name = name;
    record.tensor.view = Tensor::Scalar(number);
    kept.Add(std::move(record));
  }
  kept.SortByName();
  std::vector<int32_t> order;
  for (const KeptTensor& tensor : kept.tensors) order.push_back(*tensor.Get().view.data<int32_t>());
  EXPECT_EQ(order, (std::vector<int32_t>{1, 3, 0, 2}));
  EXPECT_EQ(kept.entries[1].name, "a");
}

TEST(DecodedArchive, MetadataThatCannotBeReadIsAnErrorOfMetadataAlone) {
  NamedRecord record;
  record.entry.name = "x";
  record.entry.has_metadata = true;
  record.tensor.view = Tensor::Scalar(1.5F);
  record.tensor.metadata_status = absl::DataLossError("no metadata");
  KeptTensors kept;
  kept.Add(std::move(record));
  const std::unique_ptr<ArchiveReader> archive = MakeDecodedArchive("records", "memory", std::move(kept), true);
  EXPECT_OK(archive->Read("x"));
  EXPECT_OK(archive->ReadIgnoringBadMetadata("x"));
  EXPECT_EQ(archive->ReadWithMetadata("x").status(), absl::DataLossError("no metadata"));
  EXPECT_EQ(archive->Metadata("x").status(), absl::DataLossError("no metadata"));
}

TEST(ExactDifference, HasTheNearestDoubleAndTheSignOfTheRest) {
  const int64_t edges[] = {0,         1,         3,     kTwoTo53 - 1, kTwoTo53,   kTwoTo53 + 1,  kTwoTo53 + 3,
                           kMost / 2, kMost - 1, kMost, kLeast,       kLeast + 1, -kTwoTo53 - 1, -1};
  for (const int64_t a : edges) {
    for (const int64_t b : edges) {
      SCOPED_TRACE(::testing::Message() << a << " - " << b);
      const archive::ExactSum sum = archive::ExactDifference(a, b);
      const absl::int128 exact = absl::int128(a) - b;
      EXPECT_EQ(sum.high, static_cast<double>(exact));
      EXPECT_EQ(sum.low, static_cast<double>(exact - static_cast<absl::int128>(sum.high)));
    }
  }
}

}  // namespace
}  // namespace tensorcask
