// Encoded payloads beside other ways to make tensors smaller: ratio, and speed of encoding and decoding in GB of tensor
// a second; memcpy_ratio is the time to decode over that of memcpy. What comes back is compared with what went in.
//
//   tools/dev bench payload
//
// One table over the files of $TENSORCASK_TEST_DATA/weights and generated tensors. Figures are medians.

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "benchmark/benchmark.h"
#include "tensorcask/tests/benchmarks/measure.h"
#include "tensorcask/tests/benchmarks/payload_codecs.h"
#include "tensorcask/tests/benchmarks/payload_sets.h"

namespace tensorcask::benchmarks {
namespace {

using MakeCodec = std::function<std::unique_ptr<PayloadCodec>()>;

std::vector<MakeCodec> Codecs() {
  std::vector<MakeCodec> codecs = {MemcpyCodec};
  for (const int threads : {1, 2}) {
    for (const PayloadLevel level : {PayloadLevel::kDefault, PayloadLevel::kHigh}) {
      codecs.push_back([=] { return OurCodec(level, threads); });
    }
    codecs.push_back([=] { return BloscCodec("zstd", /*bitshuffle=*/false, 5, threads); });
    codecs.push_back([=] { return BloscCodec("lz4", /*bitshuffle=*/true, 5, threads); });
  }
  for (const int level : {1, 3, 9}) {
    codecs.push_back([=] { return ZstdCodec(level, 1); });
  }
  codecs.push_back(Hdf5Codec);
  return codecs;
}

// Enough calls for 30 ms, at least 3, at most 15.
int Rounds(double seconds) { return std::min(15, std::max(3, static_cast<int>(0.03 / seconds))); }

void Measure(benchmark::State& state, const PayloadSet& set, const MakeCodec& make) {
  const std::unique_ptr<PayloadCodec> codec = make();
  const std::unique_ptr<PayloadCodec> copy = MemcpyCodec();
  const auto bytes = static_cast<double>(set.tensor.bytes().size());
  Tensor back = *Tensor::Zeros(set.tensor.dtype(), set.tensor.shape());
  for (auto _ : state) {
    const double coded = static_cast<double>(codec->Encode(set.tensor).size());
    const double first = SecondsOf([&] { codec->Encode(set.tensor); });
    const double encode = MedianSeconds(Rounds(first), [&] { codec->Encode(set.tensor); }).median;
    const double decode = MedianSeconds(Rounds(first), [&] { codec->Decode(&back); }).median;
    copy->Encode(set.tensor);
    const double plain = MedianSeconds(15, [&] { copy->Decode(&back); }).median;
    codec->Decode(&back);
    if (back.bytes() != set.tensor.bytes()) state.SkipWithError("what came back is not what went in");
    state.SetIterationTime(decode);
    state.counters["ratio"] = bytes / coded;
    state.counters["encode_gb_s"] = bytes / encode / 1e9;
    state.counters["decode_gb_s"] = bytes / decode / 1e9;
    state.counters["memcpy_ratio"] = decode / plain;
  }
}

// A line a run.
class Table final : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override {
    std::printf("%-34s %-28s %8s %12s %12s %14s\n", "tensor", "codec", "ratio", "encode GB/s", "decode GB/s",
                "decode/memcpy");
    return true;
  }
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) {
      const std::string name = run.benchmark_name();
      const size_t cut = name.find('|');
      const std::string codec = name.substr(cut + 1, name.find('/', cut) - cut - 1);
      if (run.error_occurred) {
        std::printf("%-34s %-28s %s\n", name.substr(0, cut).c_str(), codec.c_str(), run.error_message.c_str());
        failed_ = true;
        continue;
      }
      const auto counter = [&run](const char* key) { return run.counters.at(key).value; };
      std::printf("%-34s %-28s %8.3f %12.2f %12.2f %14.2f\n", name.substr(0, cut).c_str(), codec.c_str(),
                  counter("ratio"), counter("encode_gb_s"), counter("decode_gb_s"), counter("memcpy_ratio"));
      std::fflush(stdout);
    }
  }
  bool failed() const { return failed_; }

 private:
  bool failed_ = false;
};

}  // namespace
}  // namespace tensorcask::benchmarks

int main(int argc, char** argv) {
  using tensorcask::benchmarks::PayloadSet;
  benchmark::Initialize(&argc, argv);
  std::vector<PayloadSet> sets = tensorcask::benchmarks::RealPayloadSets();
  for (PayloadSet& set : tensorcask::benchmarks::GeneratedPayloadSets()) sets.push_back(std::move(set));
  for (const PayloadSet& set : sets) {
    for (const auto& make : tensorcask::benchmarks::Codecs()) {
      benchmark::RegisterBenchmark(
          absl::StrCat(set.name, "|", make()->name()).c_str(),
          [&set, make](benchmark::State& state) { tensorcask::benchmarks::Measure(state, set, make); })
          ->Iterations(1)
          ->UseManualTime();
    }
  }
  tensorcask::benchmarks::Table table;
  benchmark::RunSpecifiedBenchmarks(&table);
  return table.failed() ? 1 : 0;
}
