// Shared by the tests of npy and npz: random tensors, files in memory.

#ifndef TENSORCASK_TESTS_SERIALIZE_NPY_NPY_TESTING_H_
#define TENSORCASK_TESTS_SERIALIZE_NPY_NPY_TESTING_H_

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/io/byte_sink.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/memory_file_system.h"
#include "tensorcask/serialize/npy/array_format.h"
#include "tensorcask/serialize/npy/npy_reader.h"
#include "tensorcask/serialize/npy/npy_types.h"
#include "tensorcask/serialize/npy/npy_writer.h"
#include "tensorcask/serialize/npy/npz_writer.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask::testing {

inline constexpr DType kDTypes[] = {DType::kBool,      DType::kInt8,       DType::kInt16,   DType::kInt32,
                                    DType::kInt64,     DType::kUint8,      DType::kUint16,  DType::kUint32,
                                    DType::kUint64,    DType::kFloat16,    DType::kFloat32, DType::kFloat64,
                                    DType::kComplex64, DType::kComplex128, DType::kBfloat16};

inline Tensor RandomTensor(DType dtype, const TensorShape& shape, std::mt19937* random) {
  Tensor tensor = *Tensor::Create(dtype, shape);
  for (char& byte : tensor.mutable_bytes())
    byte = static_cast<char>(dtype == DType::kBool ? (*random)() & 1 : (*random)());
  return tensor;
}

inline TensorShape RandomShape(int rank, std::mt19937* random) {
  DimVector dims;
  for (int axis = 0; axis < rank; ++axis) dims.push_back((*random)() % 16 == 0 ? 0 : 1 + (*random)() % 5);
  return *TensorShape::Create(dims);
}

inline std::string Npy(const TensorView& tensor, const NpyFormat& format = {}, const TensorMetadata& metadata = {}) {
  std::string bytes;
  StringSink sink(&bytes);
  EXPECT_OK(EncodeNpy(tensor, format, metadata, &sink));
  return bytes;
}

// `bytes` must outlive the reader.
inline absl::StatusOr<NpyReader> OpenBytes(const std::string& bytes, const NpyReaderOptions& options = {}) {
  return NpyReader::Open(MakeMemorySource("a.npy", bytes), options);
}

// A part of a tensor of this shape, at random.
inline TensorSlice RandomSlice(const TensorShape& shape, std::mt19937* random) {
  std::vector<TensorSlice::Extent> extents;
  for (const int64_t dim : shape) {
    TensorSlice::Extent extent;
    if (dim > 0 && (*random)() % 3 != 0) {
      extent.start = (*random)() % dim;
      extent.length = 1 + (*random)() % (dim - extent.start);
    }
    extents.push_back(extent);
  }
  return *TensorSlice::Create(extents);
}

struct Named {
  std::string name;
  Tensor tensor;
};

inline absl::Status WriteNpz(MemoryFileSystem* files, const std::vector<Named>& tensors, NpzWriterOptions options) {
  options.file_system = files;
  absl::StatusOr<NpzWriter> writer = NpzWriter::Create("a.npz", options);
  if (!writer.ok()) return writer.status();
  for (const Named& named : tensors) {
    if (absl::Status status = writer->Add(named.name, named.tensor); !status.ok()) return status;
  }
  return writer->Finish();
}

inline NpyReaderOptions In(MemoryFileSystem* files) {
  NpyReaderOptions options;
  options.read.file_system = files;
  return options;
}

}  // namespace tensorcask::testing

#endif  // TENSORCASK_TESTS_SERIALIZE_NPY_NPY_TESTING_H_
