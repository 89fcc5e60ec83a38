#include "tensorcask/tests/benchmarks/model_bars.h"

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/archive/archive.h"
#include "tensorcask/serialize/archive/convert_archives.h"
#include "tensorcask/serialize/archive/formats/gguf_format.h"
#include "tensorcask/serialize/archive/formats/safetensors_format.h"
#include "tensorcask/serialize/archive/formats/torch_format.h"
#include "tensorcask/serialize/gguf/block_types.h"
#include "tensorcask/serialize/gguf/gguf_reader.h"
#include "tensorcask/serialize/gguf/gguf_writer.h"
#include "tensorcask/serialize/onnx/onnx_reader.h"
#include "tensorcask/serialize/torch/torch_reader.h"
#include "tensorcask/serialize/torch/torch_writer.h"
#include "tensorcask/serialize/values/value.h"
#include "tensorcask/tensor/base/crc32.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/benchmarks/bar_data.h"
#include "tensorcask/tests/benchmarks/bars.h"
#include "tensorcask/tests/benchmarks/load_rows.h"
#include "tensorcask/tests/benchmarks/measure.h"
#include "tensorcask/tests/benchmarks/units.h"

namespace tensorcask::benchmarks {
namespace {

constexpr size_t kTensors = 200;
constexpr size_t kTensorBytes = 5 * kMiB;  // 1000 MiB in all
constexpr size_t kManyTensors = 10'000;
constexpr int kRounds = 7;

std::string NameOfLayer(size_t i) { return absl::StrCat("model.layers.", i, ".weight"); }

Tensor SmallTensor() { return Filled(TensorShape({16}), 1); }

// ---- PyTorch --------------------------------------------------------------------------------------------------------

void SaveTorch(const std::string& path, const std::vector<Tensor>& tensors) {
  TorchWriterOptions options;
  options.sync = false;
  options.overwrite = true;
  TorchWriter writer = Require(TorchWriter::Create(path, options));
  for (size_t i = 0; i < tensors.size(); ++i) Require(writer.Add(NameOfLayer(i), tensors[i]));
  Require(writer.Finish());
}

void SaveManyTorch(const std::string& path) { SaveTorch(path, std::vector<Tensor>(kManyTensors, SmallTensor())); }

TorchReader OpenTorch(const std::string& path, bool verify) {
  TorchReaderOptions options;
  options.verify = verify;
  return Require(TorchReader::Open(path, options));
}

void ReadAllOfTorch(const std::string& path) {
  const TorchReader reader = OpenTorch(path, /*verify=*/true);
  for (const TorchEntry& entry : reader.entries()) Keep(Require(reader.Read(entry.name)).bytes().data());
}

void MapAllOfTorch(const TorchReader& reader) {
  for (const TorchEntry& entry : reader.entries()) Keep(Require(reader.Map(entry.name)).bytes().data());
}

void TorchRows(const Folder& folder) {
  const std::string path = folder.Path("model.pt");
  std::vector<Tensor> warm;
  for (size_t i = 0; i < kTensors; ++i) {
    warm.push_back(Filled(TensorShape({static_cast<int64_t>(kTensorBytes / sizeof(float))}), static_cast<uint32_t>(i)));
  }
  SaveTorch(path, warm);
  for (const bool verify : {false, true}) {
    Loaded loaded;
    loaded.path = path;
    loaded.offset = *OpenTorch(path, verify).FindEntry(NameOfLayer(0))->offset;
    loaded.warm = &warm;
    loaded.extend = verify ? ExtendCrc32 : nullptr;
    LoadRows(absl::StrCat("torch: load 1000 MiB in 200 tensors, ", verify ? "verified" : "not verified"), loaded, [&] {
      const TorchReader reader = OpenTorch(path, verify);
      for (size_t i = 0; i < kTensors; ++i) {
        TensorView into = warm[i];
        Require(reader.ReadInto(NameOfLayer(i), &into));
      }
    });
  }
  const TorchReader reader = OpenTorch(path, /*verify=*/false);
  Row("torch: map 1000 MiB in 200 tensors after open, each",
      InUnits(
          21, kTensors, [&] { MapAllOfTorch(reader); }, Allocations),
      200, "x malloc", absl::StrCat(kOfAllocations, "; not verified"));
  const std::string many = folder.Path("many.pt");
  SaveManyTorch(many);
  Row("torch: open 10,000 tensors, each",
      InUnits(
          21, kManyTensors, [&] { Keep(OpenTorch(many, /*verify=*/true).entries().size()); }, Allocations),
      200, "x malloc", kOfAllocations);
  Note("torch: open 10,000 tensors of 64 bytes and read all",
       MedianSeconds(21, [&] { ReadAllOfTorch(many); }).Times(1e3), "ms", "-");
  Note("torch: write 10,000 tensors of 64 bytes", MedianSeconds(21, [&] { SaveManyTorch(many); }).Times(1e3), "ms",
       "-");
}

// ---- ONNX -----------------------------------------------------------------------------------------------------------

// Fields of protobuf messages.
std::string Varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes.push_back(static_cast<char>((value & 0x7f) | 0x80));
  bytes.push_back(static_cast<char>(value));
  return bytes;
}
std::string NumberField(uint64_t field, uint64_t value) { return Varint(field << 3) + Varint(value); }
std::string BytesField(uint64_t field, absl::string_view bytes) {
  return absl::StrCat(Varint(field << 3 | 2), Varint(bytes.size()), bytes);
}

// A float32 initializer: `content` is its raw_data, or its external_data.
std::string Initializer(size_t i, size_t elements, const std::string& content) {
  return BytesField(5, NumberField(1, elements) + NumberField(2, 1) + BytesField(8, NameOfLayer(i)) + content);
}
std::string External(uint64_t offset, uint64_t length) {
  const auto entry = [](absl::string_view key, absl::string_view value) {
    return BytesField(13, BytesField(1, key) + BytesField(2, value));
  };
  return absl::StrCat(entry("location", "model.data"), entry("offset", absl::StrCat(offset)),
                      entry("length", absl::StrCat(length)), NumberField(14, 1));
}

void WriteFile(const std::string& path, absl::string_view bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!file.flush()) std::exit(1);
}

void OnnxRows(const Folder& folder) {
  const std::string many = folder.Path("many.onnx");
  std::string graph;
  const Tensor small = SmallTensor();
  for (size_t i = 0; i < kManyTensors; ++i) graph += Initializer(i, 16, BytesField(9, small.bytes()));
  WriteFile(many, NumberField(1, 10) + BytesField(7, graph));
  Row("onnx: open 10,000 initializers, each",
      InUnits(
          21, kManyTensors, [&] { Keep(Require(OnnxReader::Open(many)).entries().size()); }, Allocations),
      60, "x malloc", kOfAllocations);

  std::vector<Tensor> warm;
  std::string content;
  graph.clear();
  for (size_t i = 0; i < kTensors; ++i) {
    warm.push_back(Filled(TensorShape({static_cast<int64_t>(kTensorBytes / sizeof(float))}), static_cast<uint32_t>(i)));
    graph += Initializer(i, kTensorBytes / sizeof(float), External(i * kTensorBytes, kTensorBytes));
    absl::StrAppend(&content, warm.back().bytes());
  }
  const std::string model = folder.Path("model.onnx");
  WriteFile(model, NumberField(1, 10) + BytesField(7, graph));
  WriteFile(folder.Path("model.data"), content);
  content.clear();
  content.shrink_to_fit();
  Loaded loaded;
  loaded.path = folder.Path("model.data");
  loaded.warm = &warm;
  LoadRows("onnx: load 1000 MiB of external data in 200 tensors", loaded, [&] {
    const OnnxReader reader = Require(OnnxReader::Open(model));
    for (size_t i = 0; i < kTensors; ++i) {
      TensorView into = warm[i];
      Require(reader.ReadInto(NameOfLayer(i), &into));
    }
  });
}

// ---- GGUF -----------------------------------------------------------------------------------------------------------

void SaveGguf(const std::string& path, size_t tensors, size_t tokens, size_t merges) {
  GgufWriterOptions options;
  options.sync = false;
  options.overwrite = true;
  GgufWriter writer = Require(GgufWriter::Create(path, options));
  const auto set_texts = [&](absl::string_view key, absl::string_view text, size_t count) {
    ValueTree tree;
    std::vector<ValueTree::Id> items;
    for (size_t i = 0; i < count; ++i) items.push_back(tree.AddText(absl::StrCat(text, i)));
    tree.AddItems(ValueKind::kList, items);
    Require(writer.SetValue(key, tree.root()));
  };
  if (tokens > 0) set_texts("tokenizer.ggml.tokens", "token ", tokens);
  if (merges > 0) set_texts("tokenizer.ggml.merges", "left right ", merges);
  const Tensor small = SmallTensor();
  for (size_t i = 0; i < tensors; ++i) Require(writer.Declare(NameOfLayer(i), small.dtype(), small.shape()));
  for (size_t i = 0; i < tensors; ++i) Require(writer.Add(NameOfLayer(i), small));
  Require(writer.Finish());
}

void GgufRows(const Folder& folder) {
  const std::string path = folder.Path("m.gguf");
  const auto row = [&](const std::string& what, size_t tensors, size_t tokens, size_t merges, double bar) {
    SaveGguf(path, tensors, tokens, merges);
    Row(absl::StrCat("gguf: open ", what, ", each"),
        InUnits(
            21, static_cast<int>(tensors + tokens + merges),
            [&] { Keep(Require(GgufReader::Open(path)).entries().size()); }, Allocations),
        bar, "x malloc", kOfAllocations);
  };
  row("128,256 tokens and 200,000 merges", 1, 128'256, 200'000, 3);
  row("10,000 tensors", kManyTensors, 0, 0, 35);
  row("30,000 tensors", 3 * kManyTensors, 0, 0, 35);
  // In the caches: what decoding alone takes.
  constexpr size_t kNumbers = size_t{1} << 16;
  std::vector<float> numbers(kNumbers);
  for (const gguf::ElementType& type : gguf::AllElementTypes()) {
    if (!type.is_block()) continue;
    const size_t count = kNumbers / type.elements;
    const Tensor source = Filled(TensorShape({static_cast<int64_t>((count * type.bytes + 3) / 4)}), type.id);
    const auto* const blocks = reinterpret_cast<const uint8_t*>(source.bytes().data());
    const Figure seconds = MedianSeconds(51, [&] {
      type.decode(blocks, count, numbers.data());
      Keep(numbers.data());
    });
    Note(absl::StrCat("gguf: decode ", type.name), seconds.Inverse().Times(kNumbers * 1e-6), "M/s", "one thread");
  }
}

// ---- Conversions ----------------------------------------------------------------------------------------------------

void Convert(const std::string& from, const std::string& to, const ArchiveFormat& from_format,
             const ArchiveFormat& to_format) {
  std::filesystem::remove(to);
  const std::unique_ptr<ArchiveReader> source = Require(OpenArchive(from, {&from_format}));
  const ArchiveReader* const sources[] = {source.get()};
  const ConversionPlan plan = Require(PlanConversion(sources, to_format));
  ArchiveWriterOptions options;
  options.sync = false;
  options.file_metadata = plan.file_metadata;
  const std::unique_ptr<ArchiveWriter> writer = Require(CreateArchive(to, to_format, options));
  Keep(Require(RunConversion(plan, {}, writer.get())).bytes);
}

// model.pt is there. Each step removes what it made: memory holds three files at most.
void ConvertRows(const Folder& folder) {
  const SafetensorsArchiveFormat safetensors;
  const TorchArchiveFormat torch;
  const GgufArchiveFormat gguf;
  const std::string middle = folder.Path("model.safetensors");
  Convert(folder.Path("model.pt"), middle, torch, safetensors);
  Convert(middle, folder.Path("model.gguf"), safetensors, gguf);
  std::filesystem::remove(middle);
  const std::string copy = folder.Path("cp");
  const std::pair<const char*, const ArchiveFormat*> sources[] = {{"model.pt", &torch}, {"model.gguf", &gguf}};
  for (const auto& [name, format] : sources) {
    const std::string source = folder.Path(name);
    const std::string command = absl::StrCat("cp '", source, "' '", copy, "'");
    const auto plain_copy = [&] {
      std::filesystem::remove(copy);
      if (std::system(command.c_str()) != 0) std::exit(1);
    };
    const auto ours = [&, format = format] { Convert(source, middle, *format, safetensors); };
    RowAtLeast(absl::StrCat("convert 1000 MiB, ", format->name(), " to safetensors"),
               MedianRatio(kRounds, ours, plain_copy).Inverse(), 0.6, "x cp", "cp");
    std::filesystem::remove(source);
  }
}

void Print(const std::vector<double>& seconds) {
  for (const double one : seconds) std::printf("%.9f\n", one);
}

std::vector<double> Times(int rounds, const std::function<void()>& fn) {
  fn();
  std::vector<double> seconds;
  for (int i = 0; i < rounds; ++i) seconds.push_back(SecondsOf(fn));
  return seconds;
}

}  // namespace

void ModelRows() {
  const Folder folder = Folder::InMemory();
  {
    const Folder of_onnx = Folder::InMemory();
    OnnxRows(of_onnx);
  }
  GgufRows(folder);
  TorchRows(folder);
  ConvertRows(folder);
}

bool PrintModelSeconds(const std::string& what, const std::string& path, int rounds) {
  if (what == "open-torch") {
    Print(Times(rounds, [&] { Keep(OpenTorch(path, /*verify=*/true).entries().size()); }));
  } else if (what == "load-torch") {
    Print(Times(rounds, [&] { ReadAllOfTorch(path); }));
  } else if (what == "map-torch") {
    Print(Times(rounds, [&] { MapAllOfTorch(OpenTorch(path, /*verify=*/false)); }));
  } else if (what == "save-torch") {
    Print(Times(rounds, [&] { SaveManyTorch(path); }));
  } else if (what == "open-onnx") {
    Print(Times(rounds, [&] { Keep(Require(OnnxReader::Open(path)).entries().size()); }));
  } else if (what == "load-onnx") {
    Print(Times(rounds, [&] {
      const OnnxReader reader = Require(OnnxReader::Open(path));
      for (const OnnxEntry& entry : reader.entries()) Keep(Require(reader.Read(entry.name)).bytes().data());
    }));
  } else if (what == "open-gguf") {
    Print(Times(rounds, [&] { Keep(Require(GgufReader::Open(path)).entries().size()); }));
  } else if (what == "read-gguf") {
    const GgufReader reader = Require(GgufReader::Open(path));
    Tensor tensor = Require(reader.Read(reader.entries()[0].name));
    TensorView into = tensor;
    Print(Times(rounds, [&] { Require(reader.ReadInto(reader.entries()[0].name, &into)); }));
  } else {
    return false;
  }
  return true;
}

}  // namespace tensorcask::benchmarks
