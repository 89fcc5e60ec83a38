// Shapes, handles and fresh memory.
//
//   bazel run //tests/benchmarks:tensor_benchmark
//
// The memory benchmarks time a plain memcpy between warm buffers in turns with themselves; memcpy_ratio is the median
// time over that of memcpy.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "benchmark/benchmark.h"
#include "tensorcask/tensor/allocator.h"
#include "tensorcask/tensor/base/ref_counted.h"
#include "tensorcask/tensor/buffer.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/benchmarks/measure.h"

namespace tensorcask {
namespace {

void BM_ShapeCopy(benchmark::State& state) {
  const TensorShape shape = state.range(0) == 4 ? TensorShape({8, 3, 224, 224}) : TensorShape({1, 2, 3, 4, 5, 6, 7});
  for (auto _ : state) {
    TensorShape copy = shape;
    benchmark::DoNotOptimize(copy);
  }
}
BENCHMARK(BM_ShapeCopy)->ArgName("rank")->Arg(4)->Arg(7);

void BM_ShapeAddDim(benchmark::State& state) {
  for (auto _ : state) {
    TensorShape shape;
    for (int64_t axis = 0; axis < state.range(0); ++axis) benchmark::DoNotOptimize(shape.AddDim(3).ok());
    benchmark::DoNotOptimize(shape);
  }
}
BENCHMARK(BM_ShapeAddDim)->ArgName("rank")->Arg(4)->Arg(8);

// Makes a second handle and drops it: one count up, one down.
void BM_HandleCopy(benchmark::State& state) {
  const Tensor tensor = Tensor::FromValues<float>({{1, 2}, {3, 4}});
  for (auto _ : state) {
    Tensor copy = tensor;
    benchmark::DoNotOptimize(copy);
  }
}
BENCHMARK(BM_HandleCopy);

// What the two counts of BM_HandleCopy cost by themselves.
void BM_TwoAtomicAdds(benchmark::State& state) {
  std::atomic<int64_t> count{1};
  for (auto _ : state) {
    count.fetch_add(1, std::memory_order_relaxed);
    benchmark::DoNotOptimize(count.fetch_sub(1, std::memory_order_acq_rel));
  }
}
BENCHMARK(BM_TwoAtomicAdds);

void BM_HandleMove(benchmark::State& state) {
  Tensor tensor = Tensor::FromValues<float>({{1, 2}, {3, 4}});
  for (auto _ : state) {
    Tensor moved = std::move(tensor);
    benchmark::DoNotOptimize(moved);
    tensor = std::move(moved);
  }
}
BENCHMARK(BM_HandleMove);

void BM_SmallTensor(benchmark::State& state) {
  const TensorShape shape({2, 3});
  for (auto _ : state) benchmark::DoNotOptimize(Tensor::Create(DType::kFloat32, shape));
}
BENCHMARK(BM_SmallTensor);

void BM_Scalar(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(Tensor::Scalar(1.5f));
}
BENCHMARK(BM_Scalar);

void BM_SubSlice(benchmark::State& state) {
  const Tensor tensor = Tensor::FromValues<float>({{1, 2}, {3, 4}});
  for (auto _ : state) benchmark::DoNotOptimize(tensor.SubSlice(1));
}
BENCHMARK(BM_SubSlice);

void BM_MutableData(benchmark::State& state) {
  Tensor tensor = Tensor::FromValues<float>({{1, 2}, {3, 4}});
  for (auto _ : state) benchmark::DoNotOptimize(tensor.mutable_data<float>());
}
BENCHMARK(BM_MutableData);

// ---- Copying 64 MiB -------------------------------------------------------------------------------------------------

constexpr size_t kBytes = size_t{64} << 20;

RefPtr<TensorBuffer> WarmBuffer() {
  RefPtr<TensorBuffer> buffer = *TensorBuffer::Allocate(kBytes);
  std::memset(buffer->mutable_data(), 1, kBytes);
  return buffer;
}

// Runs `copy` and memcpy between warm buffers in turns.
template <typename Fn>
void CompareWithMemcpy(benchmark::State& state, const void* source, Fn&& copy) {
  const RefPtr<TensorBuffer> warm = WarmBuffer();
  benchmarks::Figure ratio;
  for (auto _ : state) {
    ratio = benchmarks::MedianRatio(
        15, [&] { copy(source); },
        [&] {
          std::memcpy(warm->mutable_data(), source, kBytes);
          benchmark::ClobberMemory();
        });
  }
  state.counters["memcpy_ratio"] = ratio.median;
}

void CopyIntoFresh(benchmark::State& state, const RefPtr<Allocator>& allocator) {
  const RefPtr<TensorBuffer> source = WarmBuffer();
  CompareWithMemcpy(state, source->data(), [&](const void* bytes) {
    const RefPtr<TensorBuffer> fresh = *TensorBuffer::Allocate(kBytes, allocator);
    std::memcpy(fresh->mutable_data(), bytes, kBytes);
    benchmark::ClobberMemory();
  });
}

void BM_Copy64MiBWarm(benchmark::State& state) {
  const RefPtr<TensorBuffer> source = WarmBuffer();
  const RefPtr<TensorBuffer> destination = WarmBuffer();
  CompareWithMemcpy(state, source->data(), [&](const void* bytes) {
    std::memcpy(destination->mutable_data(), bytes, kBytes);
    benchmark::ClobberMemory();
  });
}
BENCHMARK(BM_Copy64MiBWarm)->Iterations(1)->Unit(benchmark::kMillisecond);

// Allocating, copying and giving the memory back.
void BM_Copy64MiBFresh(benchmark::State& state) { CopyIntoFresh(state, CpuAllocator::Default()); }
BENCHMARK(BM_Copy64MiBFresh)->Iterations(1)->Unit(benchmark::kMillisecond);

void BM_Copy64MiBFreshWithoutHugePages(benchmark::State& state) {
  CpuAllocator::Options options;
  options.huge_pages = false;
  CopyIntoFresh(state, CpuAllocator::Make(options));
}
BENCHMARK(BM_Copy64MiBFreshWithoutHugePages)->Iterations(1)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tensorcask
