// A program of another project: saves a tensor into the folder that it is given, and reads it back.

#include <iostream>
#include <string>

#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/checkpoint/checkpoint_writer.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/tensor.h"

namespace cask = tensorcask;

absl::Status SaveAndLoad(const std::string& prefix) {
  CASK_ASSIGN_OR_RETURN(cask::CheckpointWriter writer, cask::CheckpointWriter::Create(prefix));
  CASK_RETURN_IF_ERROR(writer.Add("weights", cask::Tensor::FromValues<float>({{1, 2}, {3, 4}})));
  CASK_RETURN_IF_ERROR(writer.Finish());
  CASK_ASSIGN_OR_RETURN(const cask::CheckpointReader reader, cask::CheckpointReader::Open(prefix));
  CASK_ASSIGN_OR_RETURN(const cask::Tensor weights, reader.Read("weights"));
  std::cout << weights << '\n';
  const bool same = weights.shape() == cask::TensorShape({2, 2}) && weights.matrix<float>()(1, 0) == 3;
  return same ? absl::OkStatus() : absl::InternalError("another tensor came back");
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;  // main FOLDER
  const absl::Status status = SaveAndLoad(std::string(argv[1]) + "/model");
  if (!status.ok()) std::cerr << status << '\n';
  return status.ok() ? 0 : 1;
}
