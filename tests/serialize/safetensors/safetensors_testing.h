// Files and tensors for the tests of safetensors.

#ifndef TENSORCASK_TESTS_SERIALIZE_SAFETENSORS_SAFETENSORS_TESTING_H_
#define TENSORCASK_TESTS_SERIALIZE_SAFETENSORS_SAFETENSORS_TESTING_H_

#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/safetensors/safetensors_reader.h"
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

// `size` bytes: 1, 2, 3 ...
inline std::string Bytes(size_t size) {
  std::string bytes(size, '\0');
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i + 1);
  return bytes;
}

// A file whose first 8 bytes say that the header has `length` bytes.
inline std::string LengthOnly(uint64_t length) {
  std::string file = MakeFile("{}");
  for (int i = 0; i < 8; ++i) file[static_cast<size_t>(i)] = static_cast<char>(length >> (8 * i));
  return file;
}

// A file of one tensor "a" of 8 data bytes.
inline std::string OneTensor(const std::string& fields) {
  return MakeFile(absl::StrCat("{\"a\":{", fields, "}}"), Bytes(8));
}
inline std::string WithShape(const std::string& shape) {
  return OneTensor(absl::StrCat(R"("dtype":"F32","shape":)", shape, R"(,"data_offsets":[0,8])"));
}
inline std::string WithOffsets(const std::string& offsets) {
  return OneTensor(absl::StrCat(R"("dtype":"F32","shape":[2],"data_offsets":)", offsets));
}
inline std::string WithDType(const std::string& dtype) {
  return OneTensor(absl::StrCat(R"("dtype":)", dtype, R"(,"shape":[2],"data_offsets":[0,8])"));
}
// Two tensors of F32 with these names and offsets, and so many bytes of data.
inline std::string TwoTensors(const std::string& a, const std::string& b, size_t bytes,
                              const std::string& names = "ab") {
  return MakeFile(absl::StrCat("{\"", names.substr(0, 1), R"(":{"dtype":"F32","shape":[2],"data_offsets":)", a, "},\"",
                               names.substr(1), R"(":{"dtype":"F32","shape":[2],"data_offsets":)", b, "}}"),
                  Bytes(bytes));
}

inline const std::string kGood = R"("dtype":"F32","shape":[2],"data_offsets":[0,8])";

}  // namespace tensorcask::testing

#endif  // TENSORCASK_TESTS_SERIALIZE_SAFETENSORS_SAFETENSORS_TESTING_H_
