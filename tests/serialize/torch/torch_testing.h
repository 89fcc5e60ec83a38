// Makes pickles and files of torch.save for tests, piece by piece.
//
//   const std::string file = TorchZip(Dict({{Text("w"), Tensor(Storage("FloatStorage", "0", 6), 0, {2, 3}, {3, 1})}}),
//                                     {{"0", bytes}});

#ifndef TENSORCASK_TESTS_SERIALIZE_TORCH_TORCH_TESTING_H_
#define TENSORCASK_TESTS_SERIALIZE_TORCH_TORCH_TESTING_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/io/byte_sink.h"
#include "tensorcask/serialize/zip/zip_writer.h"
#include "tensorcask/tensor/base/crc32.h"
#include "tensorcask/tensor/base/endian.h"

namespace tensorcask::torch::testing {

template <typename T>
std::string Bytes(T value) {
  std::string bytes(sizeof(T), '\0');
  StoreLittleEndian(value, bytes.data());
  return bytes;
}

// ---- Values: the instructions that push them
// --------------------------------------------------------------------------

inline std::string Int(int32_t value) { return absl::StrCat("J", Bytes(value)); }
inline std::string Text(absl::string_view text) {
  return absl::StrCat("X", Bytes(static_cast<uint32_t>(text.size())), text);
}
inline std::string BytesValue(absl::string_view bytes) {
  return absl::StrCat("B", Bytes(static_cast<uint32_t>(bytes.size())), bytes);
}
inline std::string Float(double value) {
  std::string bytes = Bytes(value);
  return absl::StrCat("G", std::string(bytes.rbegin(), bytes.rend()));
}
inline std::string Bool(bool value) { return value ? "\x88" : "\x89"; }
inline std::string Global(absl::string_view module, absl::string_view name) {
  return absl::StrCat("c", module, "\n", name, "\n");
}

using Items = std::vector<std::string>;

inline std::string Marked(const Items& items) {
  std::string text = "(";
  for (const std::string& item : items) text += item;
  return text;
}
inline std::string Tuple(const Items& items) { return Marked(items) + "t"; }
inline std::string List(const Items& items) { return "]" + Marked(items) + "e"; }
inline std::string Dict(const std::vector<std::pair<std::string, std::string>>& entries) {
  std::string text = "}(";
  for (const auto& [key, value] : entries) text += key + value;
  return text + "u";
}
inline std::string Call(const std::string& function, const Items& arguments) {
  return function + Tuple(arguments) + "R";
}
inline std::string Numbers(const std::vector<int32_t>& numbers) {
  Items items;
  for (const int32_t number : numbers) items.push_back(Int(number));
  return Tuple(items);
}

// ---- Tensors
// ----------------------------------------------------------------------------------------------------------

inline std::string Storage(absl::string_view type, absl::string_view key, int32_t count) {
  return Tuple({Text("storage"), Global("torch", type), Text(key), Text("cpu"), Int(count)}) + "Q";
}
inline std::string Hooks() { return Call(Global("collections", "OrderedDict"), {}); }
inline std::string Tensor(const std::string& storage, int32_t offset, const std::vector<int32_t>& size,
                          const std::vector<int32_t>& stride, const Items& more = {}) {
  Items arguments = {storage, Int(offset), Numbers(size), Numbers(stride), Bool(false), Hooks()};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return Call(Global("torch._utils", "_rebuild_tensor_v2"), arguments);
}

// ---- NumPy
// ----------------------------------------------------------------------------------------------------------------------

inline std::string NumpyDType(absl::string_view name, absl::string_view order) {
  return absl::StrCat(Call(Global("numpy", "dtype"), {Text(name), Bool(false), Bool(true)}),
                      Tuple({Int(3), Text(order), "N", "N", "N", Int(-1), Int(-1), Int(0)}), "b");
}
inline std::string NumpyArray(const std::vector<int32_t>& shape, const std::string& dtype, bool is_fortran,
                              absl::string_view bytes, absl::string_view module = "numpy.core.multiarray") {
  return absl::StrCat(Call(Global(module, "_reconstruct"), {Global("numpy", "ndarray"), Numbers({0}), BytesValue("b")}),
                      Tuple({Int(1), Numbers(shape), dtype, Bool(is_fortran), BytesValue(bytes)}), "b");
}

// ---- Files
// ------------------------------------------------------------------------------------------------------------

inline std::string Pickled(absl::string_view value) { return absl::StrCat("\x80\x02", value, "."); }

using Storages = std::vector<std::pair<std::string, std::string>>;  // keys and bytes

// Each record begins at a multiple of 64 bytes and has its checksum.
inline std::string TorchZip(absl::string_view value, const Storages& storages,
                            const std::vector<std::pair<std::string, std::string>>& more = {}, int deflate_level = 0) {
  std::string file;
  StringSink sink(&file);
  ZipWriter zip(&sink);
  const auto add = [&](const std::string& name, const std::string& bytes) {
    ZipMemberOptions options;
    options.size_bytes = bytes.size();
    options.crc32 = Crc32(bytes);
    options.alignment = 64;
    options.deflate_level = deflate_level;
    EXPECT_TRUE(zip.BeginMember("archive/" + name, options).ok());
    EXPECT_TRUE(zip.Append(bytes).ok());
    EXPECT_TRUE(zip.EndMember().ok());
  };
  add("data.pkl", Pickled(value));
  bool has_version = false;
  for (const auto& [name, bytes] : more) {
    has_version = has_version || name == "version";
    add(name, bytes);
  }
  for (const auto& [key, bytes] : storages) add("data/" + key, bytes);
  if (!has_version) add("version", "3\n");
  EXPECT_TRUE(zip.Finish().ok());
  return file;
}

// A stream as torch.save wrote it before version 1.6. `element_bytes`: of all storages.
inline std::string TorchStream(absl::string_view value, const Storages& storages, int64_t element_bytes) {
  std::string file =
      absl::StrCat(absl::string_view("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", 15),
                   Pickled("M\xe9\x03"), Pickled(Dict({{Text("protocol_version"), "M\xe9\x03"}})), Pickled(value));
  Items keys;
  for (const auto& [key, bytes] : storages) keys.push_back(Text(key));
  file += Pickled(List(keys));
  for (const auto& [key, bytes] : storages) {
    file += Bytes(static_cast<int64_t>(bytes.size()) / element_bytes);
    file += bytes;
  }
  return file;
}

}  // namespace tensorcask::torch::testing

#endif  // TENSORCASK_TESTS_SERIALIZE_TORCH_TORCH_TESTING_H_
