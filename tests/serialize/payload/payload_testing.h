// What the tests of this room share: random tensors, encoding to a string, and payloads forged byte by byte.

#ifndef TENSORCASK_TESTS_SERIALIZE_PAYLOAD_PAYLOAD_TESTING_H_
#define TENSORCASK_TESTS_SERIALIZE_PAYLOAD_PAYLOAD_TESTING_H_

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/payload/payload_encoder.h"
#include "tensorcask/serialize/payload/payload_header.h"
#include "tensorcask/serialize/payload/payload_reader.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask::testing {

std::vector<DType> FixedSizeDTypes();

enum class Values {
  kNoise,    // any bits; of bools 0 and 1
  kSmooth,   // numbers that repeat
  kZeros,    // zeros
  kMixed,    // stretches of each, so that chunks come out differently
  kWeights,  // floats as of a trained model; other dtypes as kSmooth
};
Tensor RandomTensor(DType dtype, const TensorShape& shape, Values values, uint32_t seed);
Tensor RandomStrings(const TensorShape& shape, size_t max_length, uint32_t seed);

// Any view of the same elements in some order: axes permuted, turned, cut or with steps.
TensorView RandomView(const TensorView& view, std::mt19937* random);

// The bytes of the elements in row-major order; of strings a text of lengths and characters.
std::string ElementBytes(const TensorView& view);

// The payload. If encoding fails, fails the test and returns no bytes.
std::string EncodeOrFail(const TensorView& view, const PayloadWriteOptions& options, PayloadSummary* summary = nullptr);
PayloadWriteOptions Always(PayloadLevel level = PayloadLevel::kDefault, size_t chunk_bytes = size_t{64} << 10);

// All elements, as a tensor of the given shape.
absl::StatusOr<Tensor> ReadWhole(absl::string_view payload, const TensorShape& shape, const TensorView* base = nullptr,
                                 const PayloadReadOptions& options = {});

// A payload of which anything can be changed; checksums come out right unless they are given.
struct Forge {
  PayloadHeader header;
  struct Chunk {
    uint64_t offset = 0;
    uint32_t size = 0;
    std::optional<uint32_t> checksum = std::nullopt;
  };
  std::string body;  // what stands after the header, from offset 64 on
  std::vector<Chunk> chunks;

  // Puts `bytes` at the next multiple of 64 and adds a chunk of them.
  void Add(absl::string_view bytes);
  std::string Bytes() const;

  static Forge Of(absl::string_view payload);  // what a payload is made of
};

// A coded chunk (FORMAT.md section 3).
struct ForgedPlane {
  int kind = 0;
  std::string bytes;
};
std::string CodedChunk(uint8_t flags, uint32_t values, const std::vector<ForgedPlane>& planes);

// `payload` with `bytes` at `offset`, and the checksum of the header right again.
std::string WithHeaderBytes(std::string payload, size_t offset, absl::string_view bytes);

}  // namespace tensorcask::testing

#endif  // TENSORCASK_TESTS_SERIALIZE_PAYLOAD_PAYLOAD_TESTING_H_
