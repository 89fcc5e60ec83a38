// A compressed checkpoint, and a later one that holds only deltas to it. docs/guide/smaller_checkpoints.md shows this
// file.

#include <cmath>
#include <iostream>
#include <memory>
#include <string>
#include <utility>

#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/checkpoint/checkpoint_writer.h"
#include "tensorcask/serialize/payload/payload_header.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/tensor.h"

namespace cask = tensorcask;

absl::Status Save(const std::string& prefix, const cask::Tensor& kernel, const cask::CheckpointWriterOptions& options) {
  CASK_ASSIGN_OR_RETURN(cask::CheckpointWriter writer, cask::CheckpointWriter::Create(prefix, options));
  CASK_RETURN_IF_ERROR(writer.Add("dense/kernel", kernel));
  return writer.Finish();
}

absl::Status TwoSteps(const std::string& prefix) {
  cask::Tensor kernel = *cask::Tensor::Zeros(cask::DType::kFloat32, cask::TensorShape({1000, 1000}));
  float x = 0;
  for (float& weight : kernel.mutable_flat<float>()) weight = std::sin(x += 1);
  cask::CheckpointWriterOptions options;
  options.payload.level = cask::PayloadLevel::kDefault;
  options.level_rules = {{"*/embedding", cask::PayloadLevel::kHigh}};  // the first rule that matches counts
  CASK_RETURN_IF_ERROR(Save(prefix + "-1", kernel, options));

  for (float& weight : kernel.mutable_flat<float>()) weight *= 1.0001F;
  CASK_ASSIGN_OR_RETURN(cask::CheckpointReader opened, cask::CheckpointReader::Open(prefix + "-1"));
  const auto first = std::make_shared<const cask::CheckpointReader>(std::move(opened));
  options.payload.base = first;
  CASK_RETURN_IF_ERROR(Save(prefix + "-2", kernel, options));

  cask::CheckpointReaderOptions with_base;
  with_base.base = first;  // needed if the base lies in another folder
  CASK_ASSIGN_OR_RETURN(const cask::CheckpointReader second, cask::CheckpointReader::Open(prefix + "-2", with_base));
  CASK_ASSIGN_OR_RETURN(const cask::Tensor same, second.Read("dense/kernel"));
  CASK_ASSIGN_OR_RETURN(const cask::CheckpointEntry whole, first->Find("dense/kernel"));
  CASK_ASSIGN_OR_RETURN(const cask::CheckpointEntry delta, second.Find("dense/kernel"));
  std::cout << same.bytes().size() << " bytes, stored as " << whole.stored_bytes << " and " << delta.stored_bytes
            << '\n';
  return absl::OkStatus();
}

int main(int argc, char** argv) {
  const absl::Status status = TwoSteps(argc > 1 ? argv[1] : "model.ckpt");
  if (!status.ok()) std::cerr << status << '\n';
  return status.ok() ? 0 : 1;
}
