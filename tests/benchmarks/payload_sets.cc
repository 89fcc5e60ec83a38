#include "tensorcask/tests/benchmarks/payload_sets.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/float_types.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tests/benchmarks/bars.h"

namespace tensorcask::benchmarks {
namespace {

constexpr size_t kGeneratedBytes = size_t{8} << 20;

struct File {
  const char* name;
  DType dtype;
  bool is_dense_weights;
};
constexpr File kFiles[] = {
    {"cnn_dicenet_s175_city.f4", DType::kFloat32, true},
    {"lstm_dtln_norm_500h.f4", DType::kFloat32, true},
    {"charrnn_textgenrnn_weights.f4", DType::kFloat32, true},
    {"charrnn_hacker_news.f4", DType::kFloat32, true},
    {"silero_vad_16k.f4", DType::kFloat32, true},
    {"rl_mlp_policies.f4", DType::kFloat32, true},
    {"adam_exp_avg.f4", DType::kFloat32, false},
    {"adam_exp_avg_sq.f4", DType::kFloat32, false},
    {"act_conv_rfb.f4", DType::kFloat32, false},
    {"act_relu_rfb.f4", DType::kFloat32, false},
    {"fp16_waifu2x_cunet_a.f2", DType::kFloat16, false},
    {"r16_lstm_dtln_norm_500h.bf16", DType::kBfloat16, false},
    {"tokens_csm_voices.i8", DType::kInt64, false},
    {"tokens_docs.i4", DType::kInt32, false},
    {"mask_csm_voices.u1", DType::kBool, false},
    {"strings_words_docs.u1", DType::kUint8, false},
};

Tensor NewTensor(DType dtype, size_t bytes) {
  const auto count = static_cast<int64_t>(bytes / ElementSize(dtype));
  return Require(Tensor::Create(dtype, TensorShape({count})));
}

// Rounded from float32 as `To` rounds.
template <typename To>
Tensor Rounded(const Tensor& floats) {
  Tensor out = NewTensor(kDTypeOf<To>, static_cast<size_t>(floats.num_elements()) * sizeof(To));
  const auto from = floats.flat<float>();
  auto to = out.mutable_flat<To>();
  for (int64_t i = 0; i < floats.num_elements(); ++i) to(i) = static_cast<To>(from(i));
  return out;
}

}  // namespace

std::vector<PayloadSet> RealPayloadSets() {
  std::vector<PayloadSet> sets;
  const char* folder = std::getenv("TENSORCASK_TEST_DATA");
  if (folder == nullptr) return sets;
  for (const File& file : kFiles) {
    std::ifstream stream(absl::StrCat(folder, "/weights/", file.name, ".bin"), std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
    if (bytes.empty()) continue;
    PayloadSet set;
    set.name = file.name;
    set.tensor = NewTensor(file.dtype, bytes.size());
    set.is_dense_weights = file.is_dense_weights;
    std::memcpy(set.tensor.mutable_bytes().data(), bytes.data(), bytes.size());
    sets.push_back(std::move(set));
  }
  for (size_t i = 0, files = sets.size(); i < files; ++i) {
    if (!sets[i].is_dense_weights) continue;
    sets.push_back({absl::StrCat(sets[i].name, " as bf16"), Rounded<bfloat16>(sets[i].tensor), true});
  }
  return sets;
}

Tensor GeneratedWeights(size_t bytes) {
  constexpr int64_t kLayer = 100'000;
  std::mt19937_64 random(1);
  std::normal_distribution<float> normal;
  Tensor tensor = NewTensor(DType::kFloat32, bytes);
  auto values = tensor.mutable_flat<float>();
  float scale = 0;
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    if (i % kLayer == 0) scale = 0.01f * static_cast<float>(1 + random() % 10);
    values(i) = scale * normal(random);
  }
  return tensor;
}

std::vector<PayloadSet> GeneratedPayloadSets() {
  std::vector<PayloadSet> sets;
  const Tensor weights = GeneratedWeights(kGeneratedBytes);
  sets.push_back({"weights float32", weights, true});
  sets.push_back({"weights bfloat16", Rounded<bfloat16>(weights), true});
  sets.push_back({"weights float16", Rounded<float16>(weights), false});
  sets.push_back({"weights float64", Rounded<double>(weights), false});

  std::mt19937_64 random(2);
  Tensor sparse = Require(weights.Clone());
  for (float& x : sparse.mutable_flat<float>()) {
    if (random() % 10 != 0) x = 0;
  }
  sets.push_back({"90 % zeros float32", sparse, false});
  Tensor tokens = NewTensor(DType::kInt32, kGeneratedBytes);
  std::geometric_distribution<int32_t> ranks(0.002);
  for (int32_t& x : tokens.mutable_flat<int32_t>()) x = ranks(random);
  sets.push_back({"tokens int32", tokens, false});
  Tensor mask = NewTensor(DType::kBool, kGeneratedBytes);
  for (bool& x : mask.mutable_flat<bool>()) x = random() % 10 == 0;
  sets.push_back({"mask bool", mask, false});
  Tensor noise = NewTensor(DType::kFloat32, kGeneratedBytes);
  for (char& x : noise.mutable_bytes()) x = static_cast<char>(random());
  sets.push_back({"noise float32", noise, false});
  sets.push_back({"zeros float32", Require(Tensor::Zeros(DType::kFloat32, TensorShape({kGeneratedBytes / 4}))), false});
  return sets;
}

}  // namespace tensorcask::benchmarks
