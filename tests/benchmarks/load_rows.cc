#include "tensorcask/tests/benchmarks/load_rows.h"

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/benchmarks/bars.h"
#include "tensorcask/tests/benchmarks/limits.h"
#include "tensorcask/tests/benchmarks/measure.h"

namespace tensorcask::benchmarks {
namespace {

constexpr int kRounds = 25;

void ReadOnce(const Loaded& loaded, size_t piece_bytes, ExtendSum extend, int num_threads) {
  std::vector<Tensor> made;
  if (loaded.fresh) {
    for (const Tensor& like : *loaded.warm) made.push_back(Require(Tensor::Create(like.dtype(), like.shape())));
  }
  std::vector<absl::Span<char>> spans;
  for (Tensor& tensor : loaded.fresh ? made : *loaded.warm) spans.push_back(tensor.mutable_bytes());
  ReadInPieces(loaded.path, loaded.offset, spans, piece_bytes, extend, num_threads);
}

}  // namespace

void LoadRows(const std::string& name, const Loaded& loaded, const std::function<void()>& load) {
  constexpr size_t kPlainBytes = size_t{1} << 20;
  const char* const memory = loaded.fresh ? "fresh" : "warm";
  Note(name, MedianRatio(9, load, [&] { ReadOnce(loaded, kPlainBytes, nullptr, 1); }), "x read",
       absl::StrCat("read() into ", memory, " memory, one thread"));
  std::vector<std::function<double()>> loops;
  for (const size_t piece_bytes : kPieceSizes) {
    loops.emplace_back([&, piece_bytes] {
      return SecondsOf([&] { ReadOnce(loaded, piece_bytes, loaded.extend, loaded.num_threads); });
    });
  }
  size_t fastest = 0;
  const Figure figure = RatioToFastest(
      kRounds, [&] { return SecondsOf(load); }, loops, &fastest);
  Row(absl::StrCat(name, ", its limit"), figure, kLimitBar, "x limit",
      absl::StrCat("pieces of ", kPieceSizes[fastest] >> 10, " KiB read", loaded.extend == nullptr ? "" : " and summed",
                   " into ", memory, " memory, threads: ", loaded.num_threads));
}

}  // namespace tensorcask::benchmarks
