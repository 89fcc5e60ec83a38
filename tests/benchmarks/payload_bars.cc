#include "tensorcask/tests/benchmarks/payload_bars.h"

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tests/benchmarks/bars.h"
#include "tensorcask/tests/benchmarks/measure.h"
#include "tensorcask/tests/benchmarks/payload_codecs.h"
#include "tensorcask/tests/benchmarks/payload_sets.h"

namespace tensorcask::benchmarks {
namespace {

constexpr int kRounds = 9;

// Geometric means over several tensors.
struct Means {
  double ratio = 0;       // ours
  double zstd_ratio = 0;  // zstd -3's
  double encode = 0;      // its time over ours
  double decode = 0;
};

Means MeansOver(const std::vector<PayloadSet>& sets, DType dtype) {
  Means logs;
  int count = 0;
  for (const PayloadSet& set : sets) {
    if (!set.is_dense_weights || set.tensor.dtype() != dtype) continue;
    const std::unique_ptr<PayloadCodec> ours = OurCodec(PayloadLevel::kDefault, 1);
    const std::unique_ptr<PayloadCodec> zstd = ZstdCodec(3, 1);
    const auto bytes = static_cast<double>(set.tensor.bytes().size());
    Tensor back = Require(set.tensor.Clone());
    logs.ratio += std::log(bytes / static_cast<double>(ours->Encode(set.tensor).size()));
    logs.zstd_ratio += std::log(bytes / static_cast<double>(zstd->Encode(set.tensor).size()));
    logs.encode += std::log(MedianRatio(
                                kRounds, [&] { zstd->Encode(set.tensor); }, [&] { ours->Encode(set.tensor); })
                                .median);
    logs.decode += std::log(MedianRatio(
                                kRounds, [&] { zstd->Decode(&back); }, [&] { ours->Decode(&back); })
                                .median);
    ++count;
  }
  const auto mean = [count](double sum) { return std::exp(sum / count); };
  return {mean(logs.ratio), mean(logs.zstd_ratio), mean(logs.encode), mean(logs.decode)};
}

// To find out that nothing is to be gained, and to copy.
void NoiseRow() {
  const std::vector<PayloadSet> sets = GeneratedPayloadSets();
  for (const PayloadSet& set : sets) {
    if (set.name != "noise float32") continue;
    const std::unique_ptr<PayloadCodec> copy = MemcpyCodec();
    const std::unique_ptr<PayloadCodec> ours = OurCodec(PayloadLevel::kDefault, 1);
    const Figure speed = MedianRatio(
        kRounds, [&] { copy->Encode(set.tensor); }, [&] { ours->Encode(set.tensor); });
    RowAtLeast("payload: encode noise", speed, 0.5, "x memcpy", "the speed of memcpy of the same bytes");
  }
}

// Decoding from memory: so many bytes that no cache holds them.
void DecodeFromMemoryRows() {
  constexpr size_t kBytes = size_t{64} << 20;
  const Tensor weights = GeneratedWeights(kBytes);
  Tensor back = Require(weights.Clone());
  const std::unique_ptr<PayloadCodec> copy = MemcpyCodec();
  copy->Encode(weights);
  for (const int threads : {1, 2}) {
    const std::unique_ptr<PayloadCodec> ours = OurCodec(PayloadLevel::kDefault, threads);
    ours->Encode(weights);
    const Figure speed = MedianRatio(
        kRounds, [&] { copy->Decode(&back); }, [&] { ours->Decode(&back); });
    RowAtLeast(absl::StrCat("payload: decode 64 MiB of float32, ", threads, threads == 1 ? " thread" : " threads"),
               speed, threads == 1 ? 0.37 : 0.55, "x memcpy", "the speed of memcpy of the same bytes, one thread");
  }
}

}  // namespace

void PayloadRows() {
  std::vector<PayloadSet> sets = RealPayloadSets();
  const std::string where = sets.empty() ? "generated weights" : "weights of real models";
  if (sets.empty()) sets = GeneratedPayloadSets();
  struct Promise {
    const char* name;
    DType dtype;
    double ratio, encode, decode;
  };
  for (const Promise& promise :
       {Promise{"float32", DType::kFloat32, 1.185, 2.7, 5}, Promise{"bfloat16", DType::kBfloat16, 1.459, 1.7, 2.7}}) {
    const Means means = MeansOver(sets, promise.dtype);
    const std::string name = absl::StrCat("payload: ", promise.name, " weights, ");
    RowAtLeast(name + "ratio", Exactly(means.ratio), promise.ratio, "x",
               absl::StrCat(where, "; zstd -3: ", std::round(means.zstd_ratio * 1000) / 1000));
    RowAtLeast(name + "speed of encoding", Exactly(means.encode), promise.encode, "x zstd", "zstd -3, one thread");
    RowAtLeast(name + "speed of decoding", Exactly(means.decode), promise.decode, "x zstd", "zstd -3, one thread");
  }
  NoiseRow();
  DecodeFromMemoryRows();
}

}  // namespace tensorcask::benchmarks
