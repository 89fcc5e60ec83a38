// Prints a tensor of a checkpoint: a program whose size tests/benchmarks/lightness.py measures.
//
//   read_one PREFIX NAME

#include <iostream>

#include "absl/status/statusor.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/tensor/tensor.h"

namespace cask = tensorcask;

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: read_one PREFIX NAME\n";
    return 2;
  }
  const absl::StatusOr<cask::CheckpointReader> reader = cask::CheckpointReader::Open(argv[1]);
  const absl::StatusOr<cask::Tensor> tensor = reader.ok() ? reader->Read(argv[2]) : reader.status();
  if (!tensor.ok()) {
    std::cerr << tensor.status() << '\n';
    return 1;
  }
  std::cout << *tensor << '\n';
  return 0;
}
