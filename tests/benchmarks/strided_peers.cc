// Strided copies beside those of LibTorch, oneDNN and Eigen, in one run and on one thread.
//
//   tools/dev bench peers
//
// First the promised copies, as multiples of a memcpy of the result's bytes. Then small and odd ones, in nanoseconds:
// each is to be no slower than the best of the others by more than 5 % or 10 ns, whichever is more. What is slower is
// listed.

#include "tensorcask/tests/benchmarks/strided_peers.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/strided/convert.h"
#include "tensorcask/tensor/strided/copy.h"
#include "tensorcask/tensor/strided/memory_format.h"
#include "tensorcask/tests/benchmarks/bars.h"
#include "tensorcask/tests/benchmarks/measure.h"
#include "tensorcask/tests/benchmarks/strided_cases.h"
#include "tensorcask/tests/benchmarks/strided_views.h"

namespace tensorcask::benchmarks {
namespace {

constexpr const char* kNames[] = {"ours", "LibTorch", "oneDNN", "Eigen"};
constexpr size_t kContenders = 4;
using Figures = std::array<double, kContenders>;  // negative: has no such copy

// A case prepared for all contenders. Neither copied nor moved: they point into it.
class Contest {
 public:
  Contest(const StridedCase& copied, bool to_bfloat16)
      : views_(copied, to_bfloat16 ? DType::kBfloat16 : copied.dtype), fresh_(copied.fresh), converts_(to_bfloat16) {
    PeerCase peer_case;
    peer_case.copied = copied;
    peer_case.element_size = ElementSize(copied.dtype);
    peer_case.to_bfloat16 = to_bfloat16;
    peer_case.dims.assign(views_.from.dims().begin(), views_.from.dims().end());
    peer_case.strides.assign(views_.from.strides().begin(), views_.from.strides().end());
    peer_case.from = views_.from.buffer()->data();
    peer_case.to = views_.to.buffer()->mutable_data();
    copies_ = {[this] { Ours(); }, TorchCopy(peer_case), DnnlCopy(peer_case), EigenCopy(peer_case)};
    CheckThatAllAgree();
  }
  Contest(const Contest&) = delete;
  Contest& operator=(const Contest&) = delete;

  size_t to_bytes() const { return views_.to_bytes(); }
  TensorView& to() { return views_.to; }
  const PeerCopy& copy(size_t contender) const { return copies_[contender]; }

 private:
  void Ours() {
    if (fresh_) {
      Keep(Require(views_.from.Clone(MemoryFormat::kContiguous)).buffer()->data());
    } else if (converts_) {
      Require(Convert(views_.from, &views_.to));
    } else {
      Require(Copy(views_.from, &views_.to));
    }
  }

  // A figure counts only for a copy that is right.
  void CheckThatAllAgree() {
    if (fresh_ || views_.to_bytes() > (size_t{1} << 20)) return;
    Number();
    std::string wanted;
    for (size_t i = 0; i < kContenders; ++i) {
      const PeerCopy& copy = copies_[i];
      if (!copy) continue;
      auto* const to = static_cast<char*>(views_.to.buffer()->mutable_data());
      std::memset(to, 0x55, to_bytes());
      copy();
      if (wanted.empty()) wanted.assign(to, to_bytes());
      if (std::memcmp(to, wanted.data(), to_bytes()) == 0) continue;
      std::fprintf(stderr, "strided_peers: %s has other results for %s\n", kNames[i], views_.from.ToString().c_str());
      std::exit(1);
    }
  }
  // Elements that differ from their neighbours, and are ordinary floats: oneDNN copies by way of them.
  void Number() {
    auto* const from = static_cast<char*>(const_cast<void*>(views_.from.buffer()->data()));
    const size_t size = views_.from.element_size();
    for (size_t i = 0; i < views_.from.buffer()->size_bytes() / size; ++i) {
      const auto value = static_cast<float>(i + 1);
      for (size_t part = 0; part < size; part += sizeof(value)) {
        const auto whole = static_cast<uint32_t>(128 + i * 40503 % 65521 % 32000);  // 2 bytes: an ordinary bfloat16
        std::memcpy(from + i * size + part, size < sizeof(value) ? static_cast<const void*>(&whole) : &value,
                    std::min(size, sizeof(value)));
      }
    }
  }

  CaseViews views_;
  const bool fresh_;
  const bool converts_;
  std::array<PeerCopy, kContenders> copies_;
};

// Times memcpy of the result's bytes.
Figures Ratios(Contest* contest) {
  const Tensor plain = OrdinaryTensor(contest->to().dtype(), contest->to().shape());
  Figures ratios;
  for (size_t i = 0; i < kContenders; ++i) {
    const auto copy_bytes = [&] {
      std::memcpy(contest->to().buffer()->mutable_data(), plain.bytes().data(), contest->to_bytes());
    };
    ratios[i] = !contest->copy(i) ? -1 : MedianRatio(9, contest->copy(i), copy_bytes).median;
  }
  return ratios;
}

// Nanoseconds of a call, in batches of some microseconds, all contenders in turns.
Figures Nanoseconds(const Contest& contest, int rounds) {
  constexpr double kBatchSeconds = 2e-5;
  std::array<int, kContenders> batch;
  std::array<std::vector<double>, kContenders> seconds;
  for (size_t i = 0; i < kContenders; ++i) {
    if (!contest.copy(i)) continue;
    batch[i] = static_cast<int>(1 + kBatchSeconds / MedianSeconds(5, contest.copy(i)).median);
  }
  for (int round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < kContenders; ++i) {
      if (!contest.copy(i)) continue;
      seconds[i].push_back(SecondsOf([&] {
                             for (int n = 0; n < batch[i]; ++n) contest.copy(i)();
                           }) /
                           batch[i]);
    }
  }
  Figures figures;
  for (size_t i = 0; i < kContenders; ++i) figures[i] = contest.copy(i) ? Median(seconds[i]) * 1e9 : -1;
  return figures;
}

// The best of the first `contenders`; infinity if none of them has such a copy.
double BestPeer(const Figures& figures, size_t contenders = kContenders) {
  double best = std::numeric_limits<double>::infinity();
  for (size_t i = 1; i < contenders; ++i) best = figures[i] < 0 ? best : std::min(best, figures[i]);
  return best;
}
bool IsSlow(const Figures& figures, size_t contenders = kContenders) {
  const double best = BestPeer(figures, contenders);
  return figures[0] > best + std::max(best * 0.05, 10.0);
}

void Print(const std::string& name, const Figures& figures, const char* format, const char* note) {
  std::printf("%-58s", name.c_str());
  for (const double figure : figures) {
    figure < 0 ? std::printf("%12s", "-") : std::printf(format, figure);
  }
  std::printf("  %s\n", note);
  std::fflush(stdout);
}

void PrintHead(const char* what) {
  std::printf("%-58s", what);
  for (const char* name : kNames) std::printf("%12s", name);
  std::printf("\n");
}

void PromisedRows() {
  PrintHead("64 MiB, times memcpy");
  for (const StridedCase& copied : PromisedCopies()) {
    Contest contest(copied, /*to_bfloat16=*/false);
    Print(copied.name, Ratios(&contest), "%12.2f", "");
  }
  Contest convert({"float32 to bfloat16", DType::kFloat32, {4096, 4096}, {0, 1}}, /*to_bfloat16=*/true);
  Print("float32 to bfloat16", Ratios(&convert), "%12.2f", "");
}

std::vector<StridedCase> SmallCases(DType dtype) {
  std::vector<StridedCase> cases;
  const auto add = [&](const char* what, const std::vector<int64_t>& dims, const std::vector<int64_t>& order,
                       int64_t step = 1, int64_t repeat = 0) {
    cases.push_back({absl::StrCat(what, " ", absl::StrJoin(dims, "x")), dtype, dims, order, step, repeat});
  };
  for (const int64_t size : {1, 2, 3, 5, 8, 16, 31, 64, 100, 256, 1000, 1024, 4096}) {
    add("dense", {size}, {0});
    if (size > 1) add("every 2nd of", {size}, {0}, 2);
    if (size > 3) add("every 3rd of", {size}, {0}, 3);
    add("7 times", {size}, {0}, 1, 7);
  }
  const int64_t matrices[][2] = {{2, 2},    {3, 5},    {8, 8},   {17, 31},   {1, 1000}, {1000, 1},
                                 {4, 1000}, {1000, 3}, {64, 64}, {127, 129}, {33, 65},  {16, 256}};
  for (const auto& size : matrices) {
    add("transpose", {size[0], size[1]}, {1, 0});
    add("every 2nd of rows", {size[0], size[1]}, {0, 1}, 2);
    add("5 times", {size[0], size[1]}, {0, 1}, 1, 5);
  }
  const int64_t cubes[][3] = {{2, 3, 4}, {3, 5, 7}, {8, 8, 8}, {16, 16, 16}, {5, 1, 99}, {7, 64, 9}, {31, 2, 33}};
  for (const auto& size : cubes) {
    for (const std::vector<int64_t>& order :
         {std::vector<int64_t>{2, 1, 0}, {1, 2, 0}, {2, 0, 1}, {1, 0, 2}, {0, 2, 1}}) {
      add(absl::StrCat("permute ", absl::StrJoin(order, "")).c_str(), {size[0], size[1], size[2]}, order);
    }
    add("every 2nd of rows", {size[0], size[1], size[2]}, {0, 1, 2}, 2);
  }
  const int64_t images[][4] = {{1, 3, 7, 7}, {2, 3, 8, 8}, {2, 16, 5, 5}, {4, 4, 16, 16}};
  for (const auto& size : images) {
    add("to channels last", {size[0], size[1], size[2], size[3]}, {0, 2, 3, 1});
    add("from channels last", {size[0], size[2], size[3], size[1]}, {0, 3, 1, 2});
    add("permute 3210", {size[0], size[1], size[2], size[3]}, {3, 2, 1, 0});
  }
  return cases;
}

struct Slow {
  std::string name;
  Figures figures;
};

void SmallRows() {
  std::vector<Slow> slow;
  int cases = 0;
  const auto measure = [&](const StridedCase& copied, bool to_bfloat16) {
    Contest contest(copied, to_bfloat16);
    Figures figures = Nanoseconds(contest, 9);
    if (IsSlow(figures)) figures = Nanoseconds(contest, 31);  // once more: machines are shared
    ++cases;
    const std::string type = to_bfloat16 ? "float32 to bfloat16" : std::string(DTypeName(copied.dtype));
    if (IsSlow(figures)) slow.push_back({absl::StrCat(type, " ", copied.name), figures});
  };
  for (const DType dtype : {DType::kUint8, DType::kInt16, DType::kFloat32, DType::kFloat64, DType::kComplex128}) {
    for (const StridedCase& copied : SmallCases(dtype)) measure(copied, /*to_bfloat16=*/false);
  }
  for (const StridedCase& copied : SmallCases(DType::kFloat32)) measure(copied, /*to_bfloat16=*/true);

  const auto excess = [](const Slow& a) { return a.figures[0] / BestPeer(a.figures); };
  std::sort(slow.begin(), slow.end(), [&](const Slow& a, const Slow& b) { return excess(a) > excess(b); });
  std::printf("\n");
  PrintHead("small and odd copies that are slower than the best, ns");
  for (const Slow& row : slow) Print(row.name, row.figures, "%12.1f", absl::StrCat(excess(row), " x").c_str());
  const auto verdict = [&](const char* others, size_t contenders) {
    const auto slower =
        std::count_if(slow.begin(), slow.end(), [&](const Slow& row) { return IsSlow(row.figures, contenders); });
    std::printf("%d of %d small and odd copies are not slower than the best of %s by more than 5 %% or 10 ns\n",
                cases - static_cast<int>(slower), cases, others);
  };
  verdict("LibTorch and oneDNN", kContenders - 1);
  verdict("LibTorch, oneDNN and Eigen (whose types, ranks and operations are known to its compiler)", kContenders);
}

}  // namespace
}  // namespace tensorcask::benchmarks

extern "C" void omp_set_num_threads(int);  // oneDNN asks OpenMP

int main() {
  omp_set_num_threads(1);
  tensorcask::benchmarks::PromisedRows();
  tensorcask::benchmarks::SmallRows();
  return 0;
}
