// GGUF files for tests, built piece by piece.
//
//   GgufFile file;
//   file.AddKey("general.name", kGgufText, file.Text("tiny"));
//   file.AddTensor("w", {3, 2}, /*type=*/0, Bytes(24));   // sizes innermost first, as in the file
//   const std::string bytes = file.Build();

#ifndef TENSORCASK_TESTS_SERIALIZE_GGUF_GGUF_TESTING_H_
#define TENSORCASK_TESTS_SERIALIZE_GGUF_GGUF_TESTING_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/gguf/gguf_reader.h"
#include "tensorcask/serialize/io/byte_source.h"

namespace tensorcask::testing {

enum GgufValueType : uint32_t {
  kGgufUint8,
  kGgufInt8,
  kGgufUint16,
  kGgufInt16,
  kGgufUint32,
  kGgufInt32,
  kGgufFloat32,
  kGgufBool,
  kGgufText,
  kGgufArray,
  kGgufUint64,
  kGgufInt64,
  kGgufFloat64,
};

// Fields are public: a test of a broken rule changes one.
struct GgufFile {
  uint32_t version = 3;
  bool big_endian = false;
  uint64_t alignment = 32;  // that of the data; a key says it only if the test adds one
  uint64_t num_keys = 0;
  uint64_t num_tensors = 0;
  std::string keys;
  std::string tensors;
  std::string data;
  bool last_padding = true;

  template <typename T>
  std::string Number(T value) const {
    std::string bytes(sizeof(T), '\0');
    std::memcpy(bytes.data(), &value, sizeof(T));
    if (big_endian) std::reverse(bytes.begin(), bytes.end());
    return bytes;
  }
  std::string Text(absl::string_view text) const {
    return Number<uint64_t>(text.size()) + std::string(text.data(), text.size());
  }
  std::string Array(GgufValueType type, uint64_t count, absl::string_view items) const {
    return Number<uint32_t>(type) + Number(count) + std::string(items.data(), items.size());
  }

  void AddKey(absl::string_view name, uint32_t type, absl::string_view value) {
    keys += Text(name) + Number(type);
    keys.append(value.data(), value.size());
    ++num_keys;
  }
  void AddTensor(absl::string_view name, const std::vector<uint64_t>& sizes, uint32_t type, absl::string_view bytes) {
    AddTensorAt(data.size(), name, sizes, type, bytes);
  }
  void AddTensorAt(uint64_t offset, absl::string_view name, const std::vector<uint64_t>& sizes, uint32_t type,
                   absl::string_view bytes) {
    tensors += Text(name) + Number(static_cast<uint32_t>(sizes.size()));
    for (const uint64_t size : sizes) tensors += Number(size);
    tensors += Number(type) + Number(offset);
    data.append(bytes.data(), bytes.size());
    unpadded_bytes_ = data.size();
    Pad(&data);
    ++num_tensors;
  }

  std::string Build() const {
    std::string file = "GGUF" + Number(version) + Number(num_tensors) + Number(num_keys) + keys + tensors;
    if (num_tensors > 0) Pad(&file);
    return file + data.substr(0, last_padding ? data.size() : unpadded_bytes_);
  }

 private:
  void Pad(std::string* bytes) const { bytes->resize((bytes->size() + alignment - 1) / alignment * alignment, '\0'); }

  size_t unpadded_bytes_ = 0;
};

// `size` bytes: 1, 2, 3 ...
inline std::string CountingBytes(size_t size) {
  std::string bytes(size, '\0');
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i + 1);
  return bytes;
}

// A copy of `bytes`, as a file in memory.
inline absl::StatusOr<GgufReader> OpenGguf(absl::string_view bytes, const GgufReaderOptions& options = {}) {
  const auto copy = std::make_shared<const std::string>(bytes);
  const std::shared_ptr<const ByteSource> source = MakeMemorySource("m.gguf", *copy);
  return GgufReader::OpenSource({source.get(), [source, copy](const ByteSource*) {}}, options);
}

// A small file with each kind of value, a plain tensor and one in blocks.
inline GgufFile SmallGguf(bool big_endian = false) {
  GgufFile file;
  file.big_endian = big_endian;
  file.AddKey("general.architecture", kGgufText, file.Text("test"));
  file.AddKey("k.u8", kGgufUint8, file.Number<uint8_t>(255));
  file.AddKey("k.i8", kGgufInt8, file.Number<int8_t>(-1));
  file.AddKey("k.u16", kGgufUint16, file.Number<uint16_t>(65535));
  file.AddKey("k.i16", kGgufInt16, file.Number<int16_t>(-2));
  file.AddKey("k.u32", kGgufUint32, file.Number<uint32_t>(4294967295));
  file.AddKey("k.i32", kGgufInt32, file.Number<int32_t>(-3));
  file.AddKey("k.f32", kGgufFloat32, file.Number(0.5f));
  file.AddKey("k.bool", kGgufBool, file.Number<uint8_t>(1));
  file.AddKey("k.u64", kGgufUint64, file.Number(UINT64_MAX));
  file.AddKey("k.i64", kGgufInt64, file.Number(INT64_MIN));
  file.AddKey("k.f64", kGgufFloat64, file.Number(0.25));
  file.AddKey("k.numbers", kGgufArray, file.Array(kGgufInt16, 2, file.Number<int16_t>(7) + file.Number<int16_t>(-8)));
  file.AddKey("k.texts", kGgufArray, file.Array(kGgufText, 2, file.Text("x") + file.Text("yz")));
  std::string floats;
  for (int i = 0; i < 6; ++i) floats += file.Number(static_cast<float>(i));
  file.AddTensor("plain", {3, 2}, 0, floats);
  // q8_0: the scale 0.5, and 1, 2, 3 ... 32; then the scale 2 and the same.
  const std::string blocks =
      std::string("\x00\x38", 2) + CountingBytes(32) + std::string("\x00\x40", 2) + CountingBytes(32);
  if (!big_endian) file.AddTensor("blocks", {32, 2}, 8, blocks);
  return file;
}

}  // namespace tensorcask::testing

#endif  // TENSORCASK_TESTS_SERIALIZE_GGUF_GGUF_TESTING_H_
