// Files and tensors for the tests of safetensors.

#ifndef TENSORCASK_TESTS_SERIALIZE_SAFETENSORS_SAFETENSORS_TESTING_H_
#define TENSORCASK_TESTS_SERIALIZE_SAFETENSORS_SAFETENSORS_TESTING_H_

#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/safetensors/reader.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask::testing {

// The bytes of a file with this header and data.
inline std::string MakeFile(absl::string_view header, absl::string_view data = "") {
  std::string file(8, '\0');
  const uint64_t size = header.size();
  std::memcpy(&file[0], &size, sizeof(size));
  file.append(header.data(), header.size());
  file.append(data.data(), data.size());
  return file;
}

// A copy of `bytes`, as a file in memory.
inline absl::StatusOr<SafetensorsReader> OpenBytes(absl::string_view bytes,
                                                   const SafetensorsReaderOptions& options = {}) {
  const auto copy = std::make_shared<const std::string>(bytes);
  const std::shared_ptr<const ByteSource> source = MakeMemorySource("m.safetensors", *copy);
  return SafetensorsReader::OpenSource({source.get(), [source, copy](const ByteSource*) {}}, options);
}

// Bits of `dtype` that are used: bools are 0 and 1, elements below a byte have zeros above.
inline Tensor RandomTensor(DType dtype, const TensorShape& shape, uint64_t seed) {
  Tensor tensor = *Tensor::Create(dtype, shape);
  std::mt19937_64 random(seed);
  const unsigned mask = dtype == DType::kBool                                        ? 1
                        : dtype == DType::kFloat4E2m1                                ? 15
                        : dtype == DType::kFloat6E2m3 || dtype == DType::kFloat6E3m2 ? 63
                                                                                     : 255;
  for (char& c : tensor.mutable_bytes()) c = static_cast<char>(random() & mask);
  return tensor;
}

}  // namespace tensorcask::testing

#endif  // TENSORCASK_TESTS_SERIALIZE_SAFETENSORS_SAFETENSORS_TESTING_H_
