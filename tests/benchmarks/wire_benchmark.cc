// Encoding and decoding 256 MiB of float32 [8192,8192], beside protobuf's own classes.
//
//   bazel run //tests/benchmarks:wire_benchmark
//
// The counter memcpy_ratio is the median time over that of memcpy of the same bytes between warm buffers, measured in
// turns.

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "benchmark/benchmark.h"
#include "tensorcask/proto/tensor.pb.h"
#include "tensorcask/serialize/wire/codec_options.h"
#include "tensorcask/serialize/wire/serialized_tensor.h"
#include "tensorcask/serialize/wire/tensor_codec.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/benchmarks/measure.h"

namespace tensorcask {
namespace {

constexpr int64_t kSide = 8192;
constexpr size_t kBytes = sizeof(float) * kSide * kSide;

// Warm, in huge pages like the tensors themselves.
Tensor Warm(size_t bytes) { return *Tensor::Zeros(DType::kUint8, TensorShape({static_cast<int64_t>(bytes)})); }

const Tensor& Source() {
  static const Tensor* const tensor = [] {
    auto* made = new Tensor(*Tensor::Create(DType::kFloat32, TensorShape({kSide, kSide})));
    float value = 0;
    for (float& x : made->mutable_flat<float>()) x = value += 0.5f;
    return made;
  }();
  return *tensor;
}

// Runs `work` in turns with memcpy between warm buffers.
template <typename Work>
void Measure(benchmark::State& state, Work&& work) {
  Tensor copy = Warm(kBytes);
  const auto memcpy_once = [&copy] {
    std::memcpy(copy.mutable_bytes().data(), Source().bytes().data(), kBytes);
    benchmarks::Keep(copy.bytes().data());
  };
  work();  // pages are there
  memcpy_once();
  std::vector<double> ratios;
  for (auto _ : state) {
    const double ours = benchmarks::SecondsOf(work);
    state.SetIterationTime(ours);
    ratios.push_back(ours / benchmarks::SecondsOf(memcpy_once));
  }
  state.counters["memcpy_ratio"] = benchmarks::Median(ratios);
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) * static_cast<int64_t>(kBytes));
  state.SetLabel("float32 [8192,8192]");
}

std::string Message(const EncodeOptions& options) {
  std::string message(*EncodedSize(Source(), options), '\0');
  EncodeTensorTo(Source(), options, absl::MakeSpan(&message[0], message.size())).IgnoreError();
  return message;
}

void CheckOk(benchmark::State& state, const absl::Status& status) {
  if (!status.ok()) state.SkipWithError(status.ToString().c_str());
}

void EncodeTo(benchmark::State& state, const EncodeOptions& options) {
  Tensor out = Warm(*EncodedSize(Source(), options));
  Measure(state, [&] { CheckOk(state, EncodeTensorTo(Source(), options, out.mutable_bytes())); });
}

void DecodeInto(benchmark::State& state, const EncodeOptions& options) {
  const std::string message = Message(options);
  Tensor out = *Tensor::Zeros(DType::kFloat32, TensorShape({kSide, kSide}));
  Measure(state, [&] { CheckOk(state, DecodeTensorInto(message, {}, &out)); });
}

void BM_EncodeContentTo(benchmark::State& state) { EncodeTo(state, {Representation::kContent, false}); }
void BM_EncodeContentToChecksummed(benchmark::State& state) { EncodeTo(state, {Representation::kContent, true}); }
void BM_EncodeValuesTo(benchmark::State& state) { EncodeTo(state, {Representation::kValues, false}); }
void BM_DecodeContentInto(benchmark::State& state) { DecodeInto(state, {Representation::kContent, false}); }
void BM_DecodeContentIntoVerified(benchmark::State& state) { DecodeInto(state, {Representation::kContent, true}); }
void BM_DecodeValuesInto(benchmark::State& state) { DecodeInto(state, {Representation::kValues, false}); }

void BM_DecodeContentToNewTensor(benchmark::State& state) {
  const std::string message = Message({});
  Measure(state, [&] { CheckOk(state, DecodeSerializedTensor(message).status()); });
}

void BM_ProtobufSerializeToString(benchmark::State& state) {
  Measure(state, [&] {
    TensorProto proto;
    CheckOk(state, EncodeTensor(Source(), {}, &proto));
    std::string message;
    if (!proto.SerializeToString(&message)) state.SkipWithError("not serialized");
    benchmark::DoNotOptimize(message.data());
  });
}

void BM_ProtobufParseFromString(benchmark::State& state) {
  const std::string message = Message({});
  Measure(state, [&] {
    TensorProto proto;
    if (!proto.ParseFromString(message)) state.SkipWithError("not parsed");
    CheckOk(state, DecodeTensor(proto).status());
  });
}

#define CASK_WIRE_BENCHMARK(name) BENCHMARK(name)->Unit(benchmark::kMillisecond)->UseManualTime()->Iterations(15)
CASK_WIRE_BENCHMARK(BM_EncodeContentTo);
CASK_WIRE_BENCHMARK(BM_EncodeContentToChecksummed);
CASK_WIRE_BENCHMARK(BM_EncodeValuesTo);
CASK_WIRE_BENCHMARK(BM_DecodeContentInto);
CASK_WIRE_BENCHMARK(BM_DecodeContentIntoVerified);
CASK_WIRE_BENCHMARK(BM_DecodeValuesInto);
CASK_WIRE_BENCHMARK(BM_DecodeContentToNewTensor);
CASK_WIRE_BENCHMARK(BM_ProtobufSerializeToString);
CASK_WIRE_BENCHMARK(BM_ProtobufParseFromString);

}  // namespace
}  // namespace tensorcask
