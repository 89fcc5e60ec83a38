// Helpers that the tests of serialize/sharded share: a thread for each rank, and made-up models.

#ifndef TENSORCASK_TESTS_SERIALIZE_SHARDED_SHARDED_TESTING_H_
#define TENSORCASK_TESTS_SERIALIZE_SHARDED_SHARDED_TESTING_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/sharded/communicator.h"
#include "tensorcask/serialize/sharded/mesh.h"
#include "tensorcask/serialize/sharded/sharded_save.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/copy.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask::testing {

// Calls run(communicator) in a thread for each of `size` ranks, and gives what each returned. A thread that ends takes
// its communicator along, so that the others do not wait for it.
inline std::vector<absl::Status> OnRanks(int size, const std::function<absl::Status(Communicator*)>& run) {
  std::vector<std::unique_ptr<Communicator>> ranks = MakeThreadCommunicators(size);
  std::vector<absl::Status> statuses(ranks.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < ranks.size(); ++i) {
    threads.emplace_back([&, i, comm = std::move(ranks[i])]() mutable {
      statuses[i] = run(comm.get());
      comm.reset();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return statuses;
}

// The status of all ranks, which must be the same.
inline absl::Status Same(const std::vector<absl::Status>& statuses) {
  for (const absl::Status& status : statuses) EXPECT_EQ(status, statuses[0]);
  return statuses[0];
}

// A tensor whose elements tell where they are.
inline Tensor Numbered(DType dtype, const TensorShape& shape, int seed) {
  Tensor tensor = *Tensor::Create(dtype, shape);
  std::mt19937 random(static_cast<uint32_t>(seed));
  if (shape.num_elements() == 0) return tensor;
  if (dtype == DType::kString) {
    std::string* const values = tensor.mutable_data<std::string>();
    for (int64_t i = 0; i < shape.num_elements(); ++i)
      values[i] = absl::StrCat(seed, ":", std::string(random() % 20, 'x'));
  } else if (dtype == DType::kBool) {
    bool* const values = tensor.mutable_data<bool>();
    for (int64_t i = 0; i < shape.num_elements(); ++i) values[i] = random() % 2 == 0;
  } else {
    char* const bytes = static_cast<char*>(tensor.buffer()->mutable_data());
    const size_t size = static_cast<size_t>(shape.num_elements()) * ElementSize(dtype);
    for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(random());
  }
  return tensor;
}

struct ModelTensor {
  std::string name;
  Tensor tensor;
};
using Model = std::vector<ModelTensor>;

// Which pieces each rank has: a mesh, and a spec for each tensor of the model.
struct Layout {
  Mesh mesh;
  std::vector<PartitionSpec> specs;
};

inline Model RandomModel(std::mt19937* random) {
  static constexpr DType kDTypes[] = {DType::kFloat32, DType::kInt8,     DType::kString,
                                      DType::kBool,    DType::kBfloat16, DType::kComplex128};
  Model model;
  const int count = 1 + static_cast<int>((*random)() % 6);
  for (int i = 0; i < count; ++i) {
    std::vector<int64_t> dims((*random)() % 4);
    for (int64_t& dim : dims) dim = static_cast<int64_t>((*random)() % 8);
    const DType dtype = kDTypes[(*random)() % std::size(kDTypes)];
    model.push_back({absl::StrCat("layer/", i), Numbered(dtype, *TensorShape::Create(dims), i)});
  }
  return model;
}

inline Layout RandomLayout(const Model& model, int num_ranks, std::mt19937* random) {
  std::vector<Mesh::Axis> axes;
  int left = num_ranks;
  while (left % 2 == 0 && (*random)() % 2 == 0) {
    axes.push_back({absl::StrCat("axis", axes.size()), 2});
    left /= 2;
  }
  axes.push_back({"last", left});
  Layout layout{*Mesh::Create(axes), {}};
  for (const ModelTensor& tensor : model) {
    PartitionSpec spec(static_cast<size_t>(tensor.tensor.shape().rank()));
    if (!spec.empty()) {
      for (const Mesh::Axis& axis : axes) {
        if ((*random)() % 3 == 0) continue;  // replicated over this axis
        std::string& element = spec[(*random)() % spec.size()];
        absl::StrAppend(&element, element.empty() ? "" : "+", axis.name);
      }
    }
    layout.specs.push_back(std::move(spec));
  }
  return layout;
}

// What `rank` has of the model.
inline std::vector<LocalPiece> PiecesOf(const Model& model, const Layout& layout, int rank) {
  std::vector<LocalPiece> pieces;
  for (size_t i = 0; i < model.size(); ++i) {
    const TensorView whole = model[i].tensor;
    const HeldPiece held = *PieceOf(whole.shape(), layout.mesh, layout.specs[i], rank);
    if (!held.slice.has_value()) continue;
    pieces.push_back({model[i].name, whole.shape(), *held.slice, *whole.Slice(*held.slice), {}});
  }
  return pieces;
}

}  // namespace tensorcask::testing

#endif  // TENSORCASK_TESTS_SERIALIZE_SHARDED_SHARDED_TESTING_H_
