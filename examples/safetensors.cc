// Saves two tensors as a safetensors file and maps one of them. docs/guide/safetensors.md shows this file.

#include <iostream>

#include "tensorcask/serialize/safetensors/safetensors_reader.h"
#include "tensorcask/serialize/safetensors/safetensors_writer.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/tensor.h"

namespace cask = tensorcask;

absl::Status SaveAndLoad(const std::string& path) {
  CASK_ASSIGN_OR_RETURN(cask::SafetensorsWriter writer, cask::SafetensorsWriter::Create(path));
  CASK_RETURN_IF_ERROR(writer.Add("dense/kernel", cask::Tensor::FromValues<float>({{1, 2, 3}, {4, 5, 6}})));
  CASK_RETURN_IF_ERROR(writer.Add("dense/bias", cask::Tensor::FromValues<float>({0.5, 0.25})));
  CASK_RETURN_IF_ERROR(writer.Finish());  // now the file exists, whole and durable

  CASK_ASSIGN_OR_RETURN(const cask::SafetensorsReader reader, cask::SafetensorsReader::Open(path));
  for (const cask::SafetensorsEntry& entry : reader.entries()) {
    std::cout << entry.name << ' ' << entry.shape.ToString() << '\n';
  }
  CASK_ASSIGN_OR_RETURN(const cask::Tensor kernel, reader.Map("dense/kernel"));  // verified, not copied
  std::cout << kernel << '\n';
  return absl::OkStatus();
}

int main(int argc, char** argv) {
  const absl::Status status = SaveAndLoad(argc > 1 ? argv[1] : "model.safetensors");
  if (!status.ok()) std::cerr << status << '\n';
  return status.ok() ? 0 : 1;
}
