// Writes an input that costs its reader much: make_bomb KIND N DIR. `make_bomb list` prints the kinds.

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/checkpoint/checkpoint_writer.h"
#include "tensorcask/serialize/checkpoint/format/entry_encoder.h"
#include "tensorcask/serialize/checkpoint/format/slice_key.h"
#include "tensorcask/serialize/io/byte_sink.h"
#include "tensorcask/serialize/wire/records.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/base/endian.h"
#include "tensorcask/tensor/base/varint.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/bombs/index_forge.h"

namespace tensorcask::testing {
namespace {

constexpr int kInt8 = 6;  // numbers of dtypes
constexpr int kFloat = 1;

std::string Varint(uint32_t field, uint64_t value) {
  std::string out;
  AppendVarint(field << 3, &out);
  AppendVarint(value, &out);
  return out;
}

std::string Bytes(uint32_t field, const std::string& value) {
  std::string out;
  AppendVarint(field << 3 | 2, &out);
  AppendVarint(value.size(), &out);
  return out + value;
}

std::string Fixed32(uint32_t field, uint32_t value) {
  char bytes[sizeof(value)];
  StoreLittleEndian(value, bytes);
  std::string out;
  AppendVarint(field << 3 | 5, &out);
  return out + std::string(bytes, sizeof(bytes));
}

// TensorShapeProto.
std::string Shape(const std::vector<int64_t>& dims) {
  std::string shape;
  for (const int64_t dim : dims) shape += Bytes(2, Varint(1, static_cast<uint64_t>(dim)));
  return shape;
}

// BundleEntryProto of `size` zero bytes at `offset`.
std::string Entry(int dtype, const std::string& shape, uint64_t offset, uint64_t size) {
  std::string entry = Varint(1, static_cast<uint64_t>(dtype)) + Bytes(2, shape);
  if (offset > 0) entry += Varint(4, offset);
  if (size > 0) entry += Varint(5, size);
  return entry + Fixed32(6, MaskCrc32c(Crc32c(std::string(size, '\0'))));
}

// Names that are in order for all numbers below 36^5.
std::string Name(int64_t number) {
  std::string name(5, '0');
  for (int i = 4; i >= 0; --i, number /= 36)
    name[static_cast<size_t>(i)] = "0123456789abcdefghijklmnopqrstuvwxyz"[number % 36];
  return name;
}

class Folder {
 public:
  explicit Folder(std::string path) : path_(std::move(path)) {}
  std::string Path(const std::string& name) const { return path_ + "/" + name; }
  void Put(const std::string& name, const std::string& bytes) const {
    std::ofstream(Path(name), std::ios::binary) << bytes;
  }
  // A bundle: index, and a data file of zeros.
  void PutBundle(IndexForge* index, uint64_t data_bytes) const {
    Put("m.index", index->Finish());
    Put("m.data-00000-of-00001", "");
    std::error_code unused;
    if (data_bytes > 0) {
      std::ofstream data(Path("m.data-00000-of-00001"), std::ios::binary);
      data.seekp(static_cast<std::streamoff>(data_bytes - 1));
      data.put('\0');
    }
  }

 private:
  const std::string path_;
};

void AddHeader(IndexForge* index) { index->Add("", checkpoint::EncodeHeader(1, false)); }

// ---- Indexes --------------------------------------------------------------------------------------------------------

void Names(const Folder& folder, int64_t n, bool snappy) {
  IndexForge index(snappy);
  AddHeader(&index);
  for (int64_t i = 0; i < n; ++i) index.Add(Name(i), Entry(kInt8, "", static_cast<uint64_t>(i), 1));
  folder.PutBundle(&index, static_cast<uint64_t>(n));
}

// Entries that store nothing: 12 bytes each, before compression.
void EmptyTensors(const Folder& folder, int64_t n) {
  IndexForge index(/*snappy=*/true);
  AddHeader(&index);
  for (int64_t i = 0; i < n; ++i) index.Add(Name(i), Entry(kFloat, Shape({0}), 0, 0));
  folder.PutBundle(&index, 0);
}

void LongNames(const Folder& folder, int64_t n) {
  IndexForge index(/*snappy=*/true);
  AddHeader(&index);
  const std::string prefix(2000, 'n');
  for (int64_t i = 0; i < n; ++i) index.Add(prefix + Name(i), Entry(kFloat, Shape({0}), 0, 0));
  folder.PutBundle(&index, 0);
}

void Ranks(const Folder& folder, int64_t n) {
  IndexForge index(/*snappy=*/true);
  AddHeader(&index);
  const std::string shape = Shape(std::vector<int64_t>(254, 0));
  for (int64_t i = 0; i < n; ++i) index.Add(Name(i), Entry(kFloat, shape, 0, 0));
  folder.PutBundle(&index, 0);
}

// One entry with an unknown field of n bytes.
void LargeEntry(const Folder& folder, int64_t n) {
  IndexForge index(/*snappy=*/true, /*block_bytes=*/size_t{1} << 31);  // one block
  AddHeader(&index);
  index.Add("large", Entry(kFloat, Shape({0}), 0, 0) + Bytes(1000, std::string(static_cast<size_t>(n), 'x')));
  index.Add("w", Entry(kInt8, "", 0, 1));
  folder.PutBundle(&index, 1);
}

// A tensor in slices, and their pieces.
void PutSliced(const Folder& folder, const std::vector<int64_t>& dims, const std::vector<TensorSlice>& slices) {
  IndexForge index(/*snappy=*/false);
  AddHeader(&index);
  std::map<std::string, std::string> pieces;  // sorted
  std::string messages;
  uint64_t offset = 0;
  for (const TensorSlice& slice : slices) {
    std::string message;
    std::vector<int64_t> piece_dims;
    uint64_t size = 1;
    for (int axis = 0; axis < slice.rank(); ++axis) {
      const TensorSlice::Extent& extent = slice.extent(axis);
      message += Bytes(1, extent.full() ? "" : Varint(1, static_cast<uint64_t>(extent.start)) + Varint(2, 1));
      piece_dims.push_back(extent.full() ? dims[static_cast<size_t>(axis)] : extent.length);
      size *= static_cast<uint64_t>(piece_dims.back());
    }
    messages += Bytes(7, message);
    pieces[checkpoint::EncodeSliceKey("sliced", slice)] = Entry(kInt8, Shape(piece_dims), offset, size);
    offset += size;
  }
  for (const auto& [key, value] : pieces) index.Add(key, value);
  index.Add("sliced", Entry(kInt8, Shape(dims), 0, 0) + messages);
  folder.PutBundle(&index, offset);
}

// A vector in n slices.
void Slices(const Folder& folder, int64_t n) {
  std::vector<TensorSlice> slices;
  for (int64_t i = 0; i < n; ++i) slices.push_back(*TensorSlice::Create({{i, 1}}));
  PutSliced(folder, {n}, slices);
}

// n long parts that cross on three axes, which cost a search for overlaps the most. The fourth axis has size 0.
void Scattered(const Folder& folder, int64_t n) {
  std::vector<TensorSlice> slices;
  for (int64_t i = 0; i < n; ++i) {
    std::vector<TensorSlice::Extent> extents(4);
    const int64_t at = i * 7919 % n * 2;
    extents[static_cast<size_t>((i + 1) % 3)] = {at + 1, 1};
    extents[static_cast<size_t>((i + 2) % 3)] = {at, 1};
    slices.push_back(*TensorSlice::Create(extents));
  }
  PutSliced(folder, {2 * n, 2 * n, 2 * n, 0}, slices);
}

// n deltas whose entries name a base by a hash that no base has.
void ForgedBases(const Folder& folder, int64_t n) {
  CheckpointWriterOptions options;
  options.overwrite = true;
  options.payload.level = PayloadLevel::kDefault;
  for (const bool is_delta : {false, true}) {
    const std::string prefix = folder.Path(is_delta ? "m" : "base");
    if (is_delta) {
      absl::StatusOr<CheckpointReader> base = CheckpointReader::Open(folder.Path("base"));
      options.payload.base = std::make_shared<const CheckpointReader>(*std::move(base));
    }
    absl::StatusOr<CheckpointWriter> writer = CheckpointWriter::Create(prefix, options);
    for (int64_t i = 0; i < n && writer.ok(); ++i) {
      Tensor tensor = *Tensor::Zeros(DType::kInt32, TensorShape({4096}));
      for (int j = 0; j < 4096; ++j) tensor.mutable_flat<int32_t>()[j] = static_cast<int32_t>(i * 7919 + j * 31 * j);
      if (is_delta) tensor.mutable_flat<int32_t>()[i % 4096] += 1;
      if (!writer->Add(Name(i), tensor).ok()) std::abort();
    }
    if (!writer.ok() || !writer->Finish().ok()) std::abort();
  }
  // Another base of the same names, whose hashes differ.
  options = CheckpointWriterOptions();
  options.overwrite = true;
  absl::StatusOr<CheckpointWriter> writer = CheckpointWriter::Create(folder.Path("base"), options);
  for (int64_t i = 0; i < n; ++i) {
    if (!writer->Add(Name(i), *Tensor::Zeros(DType::kInt32, TensorShape({4096}))).ok()) std::abort();
  }
  if (!writer->Finish().ok()) std::abort();
}

// One tensor of n zeros, compressed. `high` adds Huffman codes and zstd.
void Zeros(const Folder& folder, int64_t n, PayloadLevel level) {
  CheckpointWriterOptions options;
  options.overwrite = true;
  options.payload.level = level;
  absl::StatusOr<CheckpointWriter> writer = CheckpointWriter::Create(folder.Path("m"), options);
  Tensor tensor = *Tensor::Zeros(DType::kFloat32, TensorShape({n}));
  float* const values = tensor.mutable_flat<float>().data();
  for (int64_t i = 0; i < n; i += 50'000) values[i] = static_cast<float>(i);
  if (!writer.ok() || !writer->Add("zeros", tensor).ok() || !writer->Finish().ok()) std::abort();
}

// ---- V1 checkpoints -------------------------------------------------------------------------------------------------

void V1(const Folder& folder, int64_t n, bool snappy) {
  std::string tensors;
  for (int64_t i = 0; i < n; ++i) {
    tensors += Bytes(1, Bytes(1, Name(i)) + Bytes(2, Shape({1})) + Varint(3, kFloat) + Bytes(4, Bytes(1, "")));
  }
  IndexForge file(snappy);
  file.Add("", Bytes(1, tensors + Bytes(2, Varint(1, 1))));
  for (int64_t i = 0; i < n; ++i) {
    const std::string data = Bytes(5, std::string(4, '\0'));  // float_val
    file.Add(checkpoint::EncodeSliceKey(Name(i), TensorSlice::Full(1)),
             Bytes(2, Bytes(1, Name(i)) + Bytes(2, Bytes(1, "")) + Bytes(3, data)));
  }
  folder.Put("v1", file.Finish());
}

// ---- Messages, text and records -------------------------------------------------------------------------------------

void UnknownFields(const Folder& folder, int64_t n) {
  std::string message = Varint(1, kInt8) + Bytes(2, Shape({1})) + Bytes(4, "x");
  const std::string field = Varint(3000, 1);
  message.reserve(message.size() + static_cast<size_t>(n));
  while (message.size() < static_cast<size_t>(n)) message += field;
  folder.Put("m.pb", message);
}

void Text(const Folder& folder, int64_t n) {
  std::string text = "dtype: DT_VARIANT tensor_shape { }\n";
  for (int64_t i = 0; i < n; ++i) text += "string_val:'' ";
  folder.Put("m.pbtxt", text);
}

void NestedText(const Folder& folder, int64_t n) {
  std::string text = "dtype: DT_FLOAT tensor_shape {";
  for (int64_t i = 0; i < n; ++i) text += "dim {} ";
  folder.Put("m.pbtxt", text + "}\n");
}

void Records(const Folder& folder, int64_t n) {
  std::string bytes;
  StringSink sink(&bytes);
  RecordWriter writer(&sink);
  for (int64_t i = 0; i < n; ++i) {
    const std::string message = Varint(1, kInt8) + Bytes(2, "") + Bytes(4, "x") + Bytes(4096, Bytes(1, Name(i)));
    if (!writer.Write(absl::string_view(message)).ok()) std::abort();
  }
  folder.Put("m.tfrecord", bytes);
}

// A safetensors file without tensors whose metadata have n keys.
void FileMetadata(const Folder& folder, int64_t n) {
  std::string header = "{\"__metadata__\":{";
  for (int64_t i = 0; i < n; ++i) absl::StrAppend(&header, i == 0 ? "" : ",", "\"", Name(i), "\":\"\"");
  header += "}}";
  char size[sizeof(uint64_t)];
  StoreLittleEndian(static_cast<uint64_t>(header.size()), size);
  folder.Put("m.safetensors", std::string(size, sizeof(size)) + header);
}

// A bundle with an object graph of n nodes, each a child of the one before.
void Graph(const Folder& folder, int64_t n) {
  std::string graph;
  for (int64_t i = 0; i < n; ++i) {
    const std::string child =
        i + 1 < n ? Bytes(1, Varint(1, static_cast<uint64_t>(i + 1)) + Bytes(2, "next")) : std::string();
    graph += Bytes(1, child);
  }
  Tensor tensor = *Tensor::Create(DType::kString, TensorShape());
  tensor.mutable_flat<std::string>()[0] = graph;
  CheckpointWriterOptions options;
  options.overwrite = true;
  absl::StatusOr<CheckpointWriter> writer = CheckpointWriter::Create(folder.Path("m"), options);
  if (!writer.ok() || !writer->Add("_CHECKPOINTABLE_OBJECT_GRAPH", tensor).ok() || !writer->Finish().ok()) std::abort();
}

using Make = std::function<void(const Folder&, int64_t)>;

const std::map<std::string, Make>& Kinds() {
  static const auto& kinds = *new std::map<std::string, Make>{
      {"names", [](const Folder& folder, int64_t n) { Names(folder, n, false); }},
      {"snappy_names", [](const Folder& folder, int64_t n) { Names(folder, n, true); }},
      {"empty_tensors", EmptyTensors},
      {"long_names", LongNames},
      {"ranks", Ranks},
      {"large_entry", LargeEntry},
      {"slices", Slices},
      {"scattered", Scattered},
      {"forged_bases", ForgedBases},
      {"zeros_default", [](const Folder& folder, int64_t n) { Zeros(folder, n, PayloadLevel::kDefault); }},
      {"zeros_high", [](const Folder& folder, int64_t n) { Zeros(folder, n, PayloadLevel::kHigh); }},
      {"v1", [](const Folder& folder, int64_t n) { V1(folder, n, false); }},
      {"v1_snappy", [](const Folder& folder, int64_t n) { V1(folder, n, true); }},
      {"unknown_fields", UnknownFields},
      {"text", Text},
      {"nested_text", NestedText},
      {"records", Records},
      {"graph", Graph},
      {"file_metadata", FileMetadata},
  };
  return kinds;
}

}  // namespace
}  // namespace tensorcask::testing

int main(int argc, char** argv) {
  const auto& kinds = tensorcask::testing::Kinds();
  if (argc == 2 && std::string(argv[1]) == "list") {
    for (const auto& [name, make] : kinds) std::cout << name << '\n';
    return 0;
  }
  int64_t n = 0;
  if (argc != 4 || kinds.count(argv[1]) == 0 || !absl::SimpleAtoi(argv[2], &n) || n < 1) {
    std::cerr << "usage: make_bomb KIND N DIR\n";
    return 2;
  }
  kinds.at(argv[1])(tensorcask::testing::Folder(argv[3]), n);
  return 0;
}
