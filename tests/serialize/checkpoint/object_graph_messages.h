// Object graphs of TensorFlow's checkpoints, as messages made by hand, wrong ones too.
//
//   const std::string graph = Node(Child(1, "w")) + Node(Attribute("w/.ATTRIBUTES/VARIABLE_VALUE"));

#ifndef TENSORCASK_TESTS_SERIALIZE_CHECKPOINT_OBJECT_GRAPH_MESSAGES_H_
#define TENSORCASK_TESTS_SERIALIZE_CHECKPOINT_OBJECT_GRAPH_MESSAGES_H_

#include <cstdint>
#include <string>

#include "tensorcask/tests/serialize/wire/wire_test_util.h"

namespace tensorcask::testing {

inline std::string Node(const std::string& content) { return BytesField(1, content); }
inline std::string Child(uint64_t node, const std::string& name) {
  return BytesField(1, VarintField(1, node) + BytesField(2, name));
}
inline std::string Attribute(const std::string& key, const std::string& name = "VARIABLE_VALUE") {
  return BytesField(2, BytesField(1, name) + BytesField(2, "full/name") + BytesField(3, key));
}
inline std::string Slot(uint64_t original, const std::string& name, uint64_t slot) {
  return BytesField(3, VarintField(1, original) + BytesField(2, name) + VarintField(3, slot));
}

}  // namespace tensorcask::testing

#endif  // TENSORCASK_TESTS_SERIALIZE_CHECKPOINT_OBJECT_GRAPH_MESSAGES_H_
