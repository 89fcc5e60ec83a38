// Writes two arrays to an npz file, and reads one in part and the other without a copy. docs/guide/numpy.md shows this
// file.

#include <iostream>
#include <string>

#include "tensorcask/serialize/npy/npz_reader.h"
#include "tensorcask/serialize/npy/npz_writer.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"

namespace cask = tensorcask;

absl::Status WriteAndRead(const std::string& path) {
  const cask::Tensor kernel = cask::Tensor::FromValues<float>({{1, 2, 3}, {4, 5, 6}});
  cask::NpzWriterOptions options;
  options.overwrite = true;
  CASK_ASSIGN_OR_RETURN(cask::NpzWriter writer, cask::NpzWriter::Create(path, options));
  CASK_RETURN_IF_ERROR(writer.Add("dense/kernel", kernel));
  CASK_RETURN_IF_ERROR(writer.Add("steps", cask::Tensor::FromValues<int64_t>({100, 200})));
  CASK_RETURN_IF_ERROR(writer.Finish());

  CASK_ASSIGN_OR_RETURN(const cask::NpzReader reader, cask::NpzReader::Open(path));
  for (const cask::NpyEntry& entry : reader.entries()) {
    std::cout << entry.name << ' ' << entry.descr << ' ' << entry.shape << '\n';
  }
  CASK_ASSIGN_OR_RETURN(const cask::TensorSlice row, cask::TensorSlice::Parse("1,1:-"));
  CASK_ASSIGN_OR_RETURN(const cask::Tensor part, reader.ReadSlice("dense/kernel", row));
  CASK_ASSIGN_OR_RETURN(const cask::TensorView mapped, reader.Map("steps"));  // no copy
  std::cout << part << '\n' << mapped << '\n';
  return absl::OkStatus();
}

int main(int argc, char** argv) {
  const absl::Status status = WriteAndRead(argc > 1 ? argv[1] : "model.npz");
  if (!status.ok()) std::cerr << status << '\n';
  return status.ok() ? 0 : 1;
}
