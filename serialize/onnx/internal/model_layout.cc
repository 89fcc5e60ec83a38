#include "tensorcask/serialize/onnx/internal/model_layout.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "tensorcask/serialize/protowire/wire_reader.h"
#include "tensorcask/serialize/protowire/wire_writer.h"
#include "tensorcask/tensor/base/varint.h"

namespace tensorcask::onnx {
namespace {

// A message of the old file that gets another length.
struct Changed {
  EnclosingMessage old;
  size_t message = ModelPiece::kNoElements;  // the number of the NewMessage; else it holds such
  size_t around = ModelPiece::kNoElements;   // the number of the Changed that holds it
  uint64_t new_bytes = 0;
};

void AppendHeader(const Changed& changed, std::string* out) {
  AppendVarint(internal::WireTag(changed.old.field, WireType::kBytes), out);
  AppendVarint(changed.new_bytes, out);
}

}  // namespace

ModelLayout LayOutModel(const FoundTensors& found, uint64_t file_bytes, const std::vector<NewMessage>& messages) {
  std::vector<Changed> changed;
  for (const EnclosingMessage& message : found.enclosing) {
    changed.push_back({message, ModelPiece::kNoElements, ModelPiece::kNoElements, message.end - message.begin});
  }
  for (size_t i = 0; i < messages.size(); ++i) {
    const FoundTensor& tensor = found.tensors[messages[i].tensor];
    Changed leaf;
    leaf.old = {tensor.message.field, tensor.message.position, tensor.message.begin, tensor.message.end};
    leaf.message = i;
    leaf.new_bytes = messages[i].size_bytes();
    changed.push_back(leaf);
  }
  // A message comes after the one that holds it: it begins later.
  std::sort(changed.begin(), changed.end(),
            [](const Changed& a, const Changed& b) { return a.old.begin < b.old.begin; });
  std::vector<size_t> open;
  for (size_t i = 0; i < changed.size(); ++i) {
    while (!open.empty() && changed[open.back()].old.end <= changed[i].old.position) open.pop_back();
    if (!open.empty()) changed[i].around = open.back();
    open.push_back(i);
  }
  for (size_t i = changed.size(); i-- > 0;) {
    if (changed[i].around == ModelPiece::kNoElements) continue;
    std::string header;
    AppendHeader(changed[i], &header);
    const bool stays = changed[i].message == ModelPiece::kNoElements &&
                       changed[i].new_bytes == changed[i].old.end - changed[i].old.begin;
    if (stays) continue;
    // May wrap in between; the sum is right.
    changed[changed[i].around].new_bytes +=
        header.size() + changed[i].new_bytes - (changed[i].old.end - changed[i].old.position);
  }
  ModelLayout layout;
  const auto add = [&](ModelPiece piece, uint64_t bytes) {
    if (bytes == 0) return;
    piece.offset = layout.size_bytes;
    layout.size_bytes += bytes;
    layout.pieces.push_back(std::move(piece));
  };
  const auto add_text = [&](std::string text) {
    ModelPiece piece;
    piece.text = std::move(text);
    const uint64_t bytes = piece.text.size();
    add(std::move(piece), bytes);
  };
  uint64_t copied = 0;
  const auto copy_until = [&](uint64_t position) {
    ModelPiece piece;
    piece.copy_from = copied;
    piece.copy_bytes = position - copied;
    add(std::move(piece), position - copied);
    copied = position;
  };
  for (const Changed& one : changed) {
    const bool is_leaf = one.message != ModelPiece::kNoElements;
    if (!is_leaf && one.new_bytes == one.old.end - one.old.begin) continue;
    copy_until(one.old.position);
    std::string header;
    // A file that is one tensor has no field around it.
    if (one.old.field != 0) AppendHeader(one, &header);
    copied = one.old.begin;
    if (!is_leaf) {
      add_text(std::move(header));
      continue;
    }
    const NewMessage& message = messages[one.message];
    add_text(header + message.before);
    ModelPiece elements;
    elements.elements = one.message;
    add(std::move(elements), message.element_bytes);
    add_text(message.after);
    copied = one.old.end;
  }
  copy_until(file_bytes);
  return layout;
}

}  // namespace tensorcask::onnx
