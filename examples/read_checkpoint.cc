// Lists a TensorFlow checkpoint and prints one of its tensors. README.md shows this file.

#include <iostream>
#include <string>
#include <vector>

#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/tensor.h"

namespace cask = tensorcask;

absl::Status ShowTensor(const std::string& checkpoint, const std::string& name) {
  CASK_ASSIGN_OR_RETURN(const cask::CheckpointReader reader, cask::CheckpointReader::Open(checkpoint));
  CASK_ASSIGN_OR_RETURN(const std::vector<cask::CheckpointEntry> entries, reader.entries());
  for (const cask::CheckpointEntry& entry : entries) std::cout << entry.name << ' ' << entry.shape.ToString() << '\n';
  CASK_ASSIGN_OR_RETURN(const cask::Tensor tensor, reader.Read(name));  // its checksum is verified
  std::cout << tensor << '\n';
  return absl::OkStatus();
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;  // read_checkpoint CHECKPOINT TENSOR
  const absl::Status status = ShowTensor(argv[1], argv[2]);
  if (!status.ok()) std::cerr << status << '\n';
  return status.ok() ? 0 : 1;
}
