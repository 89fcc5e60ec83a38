// Views, strided copies and conversions.
//
//   tools/dev bench strided
//
// The counter memcpy_ratio is the median time over that of a memcpy between warm buffers, measured in turns: of the
// bytes of the result for copies, of half the bytes read and written for conversions.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "benchmark/benchmark.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/convert.h"
#include "tensorcask/tensor/strided/copy.h"
#include "tensorcask/tensor/strided/memory_format.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/benchmarks/measure.h"
#include "tensorcask/tests/benchmarks/strided_cases.h"
#include "tensorcask/tests/benchmarks/strided_views.h"

namespace tensorcask::benchmarks {
namespace {

// ---- Views ----------------------------------------------------------------------------------------------------------

template <typename Make>
void MakeViews(benchmark::State& state, Make make) {
  const TensorView view = OrdinaryTensor(DType::kFloat32, TensorShape({8, 3, 32, 32}));
  for (auto _ : state) {
    auto made = make(view);
    benchmark::DoNotOptimize(made);
  }
}
BENCHMARK_CAPTURE(MakeViews, alias, [](const TensorView& view) { return view; });
BENCHMARK_CAPTURE(MakeViews, slice, [](const TensorView& view) { return view.Slice(1, 1, 3, 2); });
BENCHMARK_CAPTURE(MakeViews, select, [](const TensorView& view) { return view.Select(0, 3); });
BENCHMARK_CAPTURE(MakeViews, transpose, [](const TensorView& view) { return view.Transpose(1, 2); });
BENCHMARK_CAPTURE(MakeViews, permute, [](const TensorView& view) { return view.Permute({0, 2, 3, 1}); });
BENCHMARK_CAPTURE(MakeViews, reshape, [](const TensorView& view) { return view.Reshape({24, -1}); });
BENCHMARK_CAPTURE(MakeViews, unsqueeze, [](const TensorView& view) { return view.Unsqueeze(1); });
BENCHMARK_CAPTURE(MakeViews, expand, [](const TensorView& view) { return view.Expand({4, 8, 3, 32, 32}); });

// ---- Copies ---------------------------------------------------------------------------------------------------------

void CopyCase(benchmark::State& state, const StridedCase& copied) {
  CaseViews views(copied);
  const TensorView plain = OrdinaryTensor(copied.dtype, views.to.shape());
  Figure ratio;
  for (auto _ : state) {
    ratio = MedianRatio(
        11,
        [&] {
          if (copied.fresh) {
            Keep(views.from.Clone(MemoryFormat::kContiguous)->buffer()->data());
          } else {
            Keep(Copy(views.from, &views.to).ok());
          }
        },
        [&] {
          std::memcpy(views.to.buffer()->mutable_data(), plain.buffer()->data(), views.to_bytes());
          benchmark::ClobberMemory();
        });
  }
  state.counters["memcpy_ratio"] = ratio.median;
}

void SmallCopy(benchmark::State& state, const StridedCase& copied) {
  CaseViews views(copied);
  for (auto _ : state) benchmark::DoNotOptimize(Copy(views.from, &views.to));
}

// ---- Conversions ----------------------------------------------------------------------------------------------------

void ConvertPair(benchmark::State& state, const StridedCase& converted, DType to) {
  CaseViews views(converted, to);
  const size_t bytes =
      (views.to_bytes() + static_cast<size_t>(views.to.num_elements()) * views.from.element_size()) / 2;
  const Tensor from = OrdinaryTensor(DType::kUint8, TensorShape({static_cast<int64_t>(bytes)}));
  Tensor warm = *from.Clone();
  Figure ratio;
  for (auto _ : state) {
    ratio = MedianRatio(
        11, [&] { Keep(Convert(views.from, &views.to).ok()); },
        [&] {
          std::memcpy(warm.mutable_bytes().data(), from.bytes().data(), bytes);
          benchmark::ClobberMemory();
        });
  }
  state.counters["memcpy_ratio"] = ratio.median;
}

bool RegisterCases() {
  for (const StridedCase& copied : PromisedCopies()) {
    benchmark::RegisterBenchmark(absl::StrCat("Copy/", copied.name).c_str(), CopyCase, copied)
        ->Iterations(1)
        ->Unit(benchmark::kMillisecond);
  }
  for (const int64_t size : {4, 16, 64}) {
    const StridedCase small = {absl::StrCat("transpose_float32_", size), DType::kFloat32, {size, size}, {1, 0}};
    benchmark::RegisterBenchmark(absl::StrCat("SmallCopy/", small.name).c_str(), SmallCopy, small);
  }
  constexpr DType kPairs[][2] = {{DType::kFloat32, DType::kBfloat16},     {DType::kBfloat16, DType::kFloat32},
                                 {DType::kFloat32, DType::kFloat16},      {DType::kFloat16, DType::kFloat32},
                                 {DType::kFloat32, DType::kFloat8E4m3fn}, {DType::kFloat8E4m3fn, DType::kFloat32},
                                 {DType::kFloat32, DType::kFloat8E5m2},   {DType::kFloat8E5m2, DType::kFloat32},
                                 {DType::kFloat32, DType::kFloat64},      {DType::kFloat64, DType::kFloat32},
                                 {DType::kFloat32, DType::kInt8},         {DType::kInt8, DType::kFloat32},
                                 {DType::kFloat32, DType::kUint8},        {DType::kUint8, DType::kFloat32},
                                 {DType::kFloat32, DType::kInt32},        {DType::kInt32, DType::kFloat32},
                                 {DType::kFloat64, DType::kInt64},        {DType::kInt64, DType::kFloat64},
                                 {DType::kFloat64, DType::kBfloat16},     {DType::kInt64, DType::kInt32},
                                 {DType::kBfloat16, DType::kFloat16},     {DType::kInt64, DType::kBool}};
  for (const auto& pair : kPairs) {
    for (const bool transposed : {false, true}) {
      if (transposed && pair[1] != DType::kBfloat16) continue;
      // 64 MiB on average of the two sides.
      const auto rows =
          static_cast<int64_t>((size_t{128} << 20) / 4096 / (ElementSize(pair[0]) + ElementSize(pair[1])));
      const StridedCase dense = {"", pair[0], {4096, rows}, {transposed ? 1 : 0, transposed ? 0 : 1}};
      benchmark::RegisterBenchmark(absl::StrCat("Convert/", std::string(DTypeName(pair[0])), "_to_",
                                                std::string(DTypeName(pair[1])), transposed ? "_transposed" : "")
                                       .c_str(),
                                   ConvertPair, dense, pair[1])
          ->Iterations(1)
          ->Unit(benchmark::kMillisecond);
    }
  }
  return true;
}
[[maybe_unused]] const bool registered = RegisterCases();

}  // namespace
}  // namespace tensorcask::benchmarks
