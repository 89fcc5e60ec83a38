// Messages of ONNX, written field by field for tests. Knows nothing of the reader.

#ifndef TENSORCASK_TESTS_SERIALIZE_ONNX_ONNX_TESTING_H_
#define TENSORCASK_TESTS_SERIALIZE_ONNX_ONNX_TESTING_H_

#include <cstdint>
#include <string>
#include <vector>

namespace tensorcask::testing {

inline std::string Varint(uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
  return out;
}

// A field with a number, with bytes, and with four or eight bytes.
inline std::string Num(uint32_t field, uint64_t value) { return Varint(field << 3) + Varint(value); }
inline std::string Sub(uint32_t field, const std::string& bytes) {
  return Varint(field << 3 | 2) + Varint(bytes.size()) + bytes;
}
inline std::string LittleEndian(uint64_t value, size_t bytes) {
  std::string out;
  for (size_t i = 0; i < bytes; ++i) out.push_back(static_cast<char>(value >> (8 * i)));
  return out;
}
inline std::string Fix32(uint32_t field, uint32_t value) { return Varint(field << 3 | 5) + LittleEndian(value, 4); }
inline std::string Fix64(uint32_t field, uint64_t value) { return Varint(field << 3 | 1) + LittleEndian(value, 8); }

inline std::string Packed(uint32_t field, const std::vector<uint64_t>& values) {
  std::string bytes;
  for (const uint64_t value : values) bytes += Varint(value);
  return Sub(field, bytes);
}

// The start of a TensorProto: dims, data_type, name.
inline std::string Head(int data_type, const std::vector<int64_t>& dims, const std::string& name = "t") {
  std::string out;
  for (const int64_t dim : dims) out += Num(1, static_cast<uint64_t>(dim));
  out += Num(2, static_cast<uint64_t>(data_type));
  return name.empty() ? out : out + Sub(8, name);
}

inline std::string RawTensor(int data_type, const std::vector<int64_t>& dims, const std::string& raw,
                             const std::string& name = "t") {
  return Head(data_type, dims, name) + Sub(9, raw);
}

inline std::string Entry(const std::string& key, const std::string& value) {
  return Sub(13, Sub(1, key) + Sub(2, value));
}
inline std::string ExternalTensor(int data_type, const std::vector<int64_t>& dims, const std::string& entries,
                                  const std::string& name = "t") {
  return Head(data_type, dims, name) + entries + Num(14, 1);
}

// A model whose graph has these fields.
inline std::string Model(const std::string& graph, const std::string& more = "") {
  return Num(1, 13) + Sub(2, "tests") + Sub(7, graph) + Sub(8, Sub(1, "") + Num(2, 21)) + more;
}
inline std::string Initializer(const std::string& tensor) { return Sub(5, tensor); }

// A node with one attribute that is a graph.
inline std::string NodeWithGraph(const std::string& node, const std::string& attribute, const std::string& graph) {
  return Sub(1, Sub(1, "cond") + (node.empty() ? "" : Sub(3, node)) + Sub(4, "If") +
                    Sub(5, Sub(1, attribute) + Sub(6, graph) + Num(20, 5)));
}

}  // namespace tensorcask::testing

#endif  // TENSORCASK_TESTS_SERIALIZE_ONNX_ONNX_TESTING_H_
