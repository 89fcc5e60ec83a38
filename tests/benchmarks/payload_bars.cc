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

const PayloadSet* FindSet(const std::vector<PayloadSet>& sets, const std::string& name) {
  for (const PayloadSet& set : sets) {
    if (set.name == name) return &set;
  }
  return nullptr;
}

// To find out that nothing is to be gained, and to copy. The level high also finds out that nothing repeats.
void NoiseRows(const std::vector<PayloadSet>& generated) {
  const Tensor& noise = FindSet(generated, "noise float32")->tensor;
  const std::unique_ptr<PayloadCodec> copy = MemcpyCodec();
  const std::unique_ptr<PayloadCodec> ours = OurCodec(PayloadLevel::kDefault, 1);
  const std::unique_ptr<PayloadCodec> high = OurCodec(PayloadLevel::kHigh, 1);
  const Figure speed = MedianRatio(
      kRounds, [&] { copy->Encode(noise); }, [&] { ours->Encode(noise); });
  RowAtLeast("payload: encode noise", speed, 0.5, "x memcpy", "the speed of memcpy of the same bytes");
  const Figure high_speed = MedianRatio(
      kRounds, [&] { ours->Encode(noise); }, [&] { high->Encode(noise); });
  RowAtLeast("payload: encode noise, level high", high_speed, 0.5, "x default", "the speed of the level default");
}

// What the level high costs where it gains nothing, and what it gains where numbers repeat.
void HighRows(const std::vector<PayloadSet>& real, const std::vector<PayloadSet>& generated) {
  const std::unique_ptr<PayloadCodec> ours = OurCodec(PayloadLevel::kDefault, 1);
  const std::unique_ptr<PayloadCodec> high = OurCodec(PayloadLevel::kHigh, 1);
  for (const char* const name : {"weights float32", "weights bfloat16"}) {
    const Tensor& weights = FindSet(generated, name)->tensor;
    const Figure speed = MedianRatio(
        kRounds, [&] { ours->Encode(weights); }, [&] { high->Encode(weights); });
    RowAtLeast(absl::StrCat("payload: encode ", name, ", level high"), speed, 0.5, "x default",
               "the speed of the level default");
  }
  struct Promise {
    const char* name;
    double gain;  // in percent
  };
  for (const Promise& promise : {Promise{"silero_vad_16k.f4", 8}, Promise{"rl_mlp_policies.f4 as bf16", 15},
                                 Promise{"adam_exp_avg_sq.f4", 5}, Promise{"act_relu_rfb.f4", 1.5}}) {
    const PayloadSet* const set = FindSet(real, promise.name);
    if (set == nullptr) continue;
    const auto bytes = static_cast<double>(set->tensor.bytes().size());
    const auto default_bytes = static_cast<double>(ours->Encode(set->tensor).size());
    const auto high_bytes = static_cast<double>(high->Encode(set->tensor).size());
    const std::string name = absl::StrCat("payload: ", promise.name, ", level high");
    RowAtLeast(name, Exactly(100 * (1 - high_bytes / default_bytes)), promise.gain, "% smaller", "the level default");
    const Figure seconds = MedianSeconds(kRounds, [&] { high->Encode(set->tensor); });
    RowAtLeast(name + ", encode", seconds.Inverse().Times(bytes / 1e6), 60, "MB/s", "one thread");
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
               speed, threads == 1 ? 0.5 : 0.55, "x memcpy", "the speed of memcpy of the same bytes, one thread");
  }
}

}  // namespace

void PayloadRows() {
  const std::vector<PayloadSet> real = RealPayloadSets();
  const std::vector<PayloadSet> generated = GeneratedPayloadSets();
  const std::vector<PayloadSet>& sets = real.empty() ? generated : real;
  const std::string where = real.empty() ? "generated weights" : "weights of real models";
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
  NoiseRows(generated);
  HighRows(real, generated);
  DecodeFromMemoryRows();
}

}  // namespace tensorcask::benchmarks
