// Where the bytes of a new model come from: those of an old one, but for the tensors that are replaced and for the
// lengths of the messages around them.
//
//   CASK_ASSIGN_OR_RETURN(const ModelLayout layout, LayOutModel(found, file_bytes, replaced));
//   for (const ModelPiece& piece : layout.pieces) ...
//
// Arithmetic alone: reads nothing.

#ifndef TENSORCASK_SERIALIZE_ONNX_INTERNAL_MODEL_LAYOUT_H_
#define TENSORCASK_SERIALIZE_ONNX_INTERNAL_MODEL_LAYOUT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tensorcask/serialize/onnx/internal/model_walk.h"

namespace tensorcask::onnx {

// The new message of a tensor: text, elements, text.
struct NewMessage {
  size_t tensor = 0;  // its number in FoundTensors
  std::string before;
  uint64_t element_bytes = 0;
  std::string after;

  uint64_t size_bytes() const { return before.size() + element_bytes + after.size(); }
};

struct ModelPiece {
  static constexpr size_t kNoElements = SIZE_MAX;

  uint64_t offset = 0;      // in the new file
  uint64_t copy_from = 0;   // in the old one
  uint64_t copy_bytes = 0;  // 0: a text or elements
  std::string text;
  size_t elements = kNoElements;  // the number of the NewMessage whose elements these are
};

struct ModelLayout {
  std::vector<ModelPiece> pieces;  // in the order of the new file, without gaps
  uint64_t size_bytes = 0;
};

// `messages` are in the order of the file. Requires: WalkOptions::enclosing was set for `found`, whose file has
// `file_bytes` bytes.
ModelLayout LayOutModel(const FoundTensors& found, uint64_t file_bytes, const std::vector<NewMessage>& messages);

}  // namespace tensorcask::onnx

#endif  // TENSORCASK_SERIALIZE_ONNX_INTERNAL_MODEL_LAYOUT_H_
