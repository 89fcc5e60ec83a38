// Saves two tensors as a checkpoint and reads one back. docs/guide/save_and_load.md shows this file.

#include <iostream>

#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/checkpoint/checkpoint_writer.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/tensor.h"

namespace cask = tensorcask;

absl::Status SaveAndLoad(const std::string& prefix) {
  CASK_ASSIGN_OR_RETURN(cask::CheckpointWriter writer, cask::CheckpointWriter::Create(prefix));
  CASK_RETURN_IF_ERROR(writer.Add("dense/kernel", cask::Tensor::FromValues<float>({{1, 2, 3}, {4, 5, 6}})));
  CASK_RETURN_IF_ERROR(writer.Add("labels", cask::Tensor::FromValues<std::string>({"cat", "dog"})));
  CASK_RETURN_IF_ERROR(writer.Finish());  // now the checkpoint exists, whole and durable

  CASK_ASSIGN_OR_RETURN(const cask::CheckpointReader reader, cask::CheckpointReader::Open(prefix));
  CASK_ASSIGN_OR_RETURN(const cask::Tensor kernel, reader.Read("dense/kernel"));  // verified
  std::cout << kernel << '\n' << "last element: " << kernel.matrix<float>()(1, 2) << '\n';
  return absl::OkStatus();
}

int main(int argc, char** argv) {
  const absl::Status status = SaveAndLoad(argc > 1 ? argv[1] : "model.ckpt");
  if (!status.ok()) std::cerr << status << '\n';
  return status.ok() ? 0 : 1;
}
