// Makes distributed checkpoints for tests: the files of a folder, piece by piece.
//
//   DcpBuilder builder;
//   builder.AddTensor("w", "float32", {4, 2}, {{{0, 0}, {3, 2}, "__0_0.distcp"}, {{3, 0}, {1, 2}, "__1_0.distcp"}},
//   bytes); builder.AddValue("epoch", Int(3)); builder.WriteTo(folder);                     // __0_0.distcp,
//   __1_0.distcp, .metadata
//
// What is to be wrong is changed in between: builder.boxes("w")[1].length += 1.

#ifndef TENSORCASK_TESTS_SERIALIZE_TORCH_DCP_TESTING_H_
#define TENSORCASK_TESTS_SERIALIZE_TORCH_DCP_TESTING_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tensorcask/tests/serialize/torch/torch_testing.h"
#include "tensorcask/tests/support/temp_folder.h"

namespace tensorcask::torch::testing {

// One file of torch.save inside a file, as the metadata has it.
struct DcpPlace {
  std::string file = "__0_0.distcp";
  int32_t offset = 0;
  int32_t length = 0;
  std::vector<std::string> transforms = {};
  bool is_listed = true;  // false: the metadata does not say where it is
};

struct DcpBox {
  std::vector<int32_t> offsets;
  std::vector<int32_t> sizes;
  std::string file = "__0_0.distcp";
  DcpPlace place = {};
};

class DcpBuilder {
 public:
  using Path = std::vector<std::string>;  // instructions: Text("a"), Int(0)

  struct Entry {
    std::string name;
    std::string dtype;  // "": a value
    std::string layout = "torch.strided";
    std::vector<int32_t> size;
    std::vector<DcpBox> boxes;
    DcpPlace place;  // that of a value
    Path path = {};
    bool requires_grad = false;
    std::string memory_format = Call(Global("torch.distributed.checkpoint.metadata", "_MEM_FORMAT_ENCODING"), {Int(0)});
  };

  // `bytes`: the elements of all boxes, one box after the other; each of `element_bytes`.
  Entry& AddTensor(const std::string& name, const std::string& dtype, const std::vector<int32_t>& size,
                   std::vector<DcpBox> boxes, absl::string_view bytes, const std::string& storage = "FloatStorage",
                   size_t element_bytes = 4) {
    for (DcpBox& box : boxes) {
      int32_t count = 1;
      std::vector<int32_t> strides(box.sizes.size());
      for (size_t i = box.sizes.size(); i > 0; --i) {
        strides[i - 1] = count;
        count *= box.sizes[i - 1];
      }
      const size_t box_bytes = static_cast<size_t>(count) * element_bytes;
      box.place = AddItem(box.file, TorchZip(Tensor(Storage(storage, "0", count), 0, box.sizes, strides),
                                             {{"0", std::string(bytes.substr(0, box_bytes))}}));
      bytes.remove_prefix(box_bytes);
    }
    Entry entry;
    entry.name = name;
    entry.dtype = dtype;
    entry.size = size;
    entry.boxes = std::move(boxes);
    entries_.push_back(std::move(entry));
    return entries_.back();
  }

  Entry& AddValue(const std::string& name, const std::string& value, const Path& path = {},
                  const std::string& file = "__0_0.distcp", const Storages& storages = {}) {
    Entry entry;
    entry.name = name;
    entry.place = AddItem(file, TorchZip(value, storages));
    entry.path = path;
    entries_.push_back(std::move(entry));
    return entries_.back();
  }

  // Puts an item at the end of a file.
  DcpPlace AddItem(const std::string& file, const std::string& item) {
    DcpPlace place;
    place.file = file;
    place.offset = static_cast<int32_t>(files[file].size());
    place.length = static_cast<int32_t>(item.size());
    files[file] += item;
    return place;
  }

  Entry& entry(const std::string& name) {
    for (Entry& entry : entries_) {
      if (entry.name == name) return entry;
    }
    ADD_FAILURE() << "no entry " << name;
    return entries_.front();
  }
  std::vector<DcpBox>& boxes(const std::string& name) { return entry(name).boxes; }

  static std::string Object(absl::string_view name, const std::string& state) {
    return absl::StrCat(Global(absl::string_view(name) == "_StorageInfo" ? "torch.distributed.checkpoint.filesystem"
                                                                         : "torch.distributed.checkpoint.metadata",
                               name),
                        ")\x81", state, "b");
  }
  static std::string Size(const std::vector<int32_t>& numbers) {
    return Call(Global("torch", "Size"), {Numbers(numbers)});
  }

  std::string Metadata() const {
    std::vector<std::pair<std::string, std::string>> entries;
    std::vector<std::pair<std::string, std::string>> places;
    std::vector<std::pair<std::string, std::string>> paths;
    for (const Entry& entry : entries_) {
      if (!entry.path.empty()) paths.emplace_back(Text(entry.name), Tuple(entry.path));
      if (entry.dtype.empty()) {
        entries.emplace_back(Text(entry.name),
                             Global("torch.distributed.checkpoint.metadata", "BytesStorageMetadata") + ")\x81");
        AddPlace(entry.name, std::nullopt, entry.place, &places);
        continue;
      }
      Items boxes;
      for (const DcpBox& box : entry.boxes) {
        boxes.push_back(Object("ChunkStorageMetadata",
                               Dict({{Text("offsets"), Size(box.offsets)}, {Text("sizes"), Size(box.sizes)}})));
        AddPlace(entry.name, box.offsets, box.place, &places);
      }
      const std::string properties = Object(
          "TensorProperties",
          Tuple({Global("torch", entry.dtype), Call(Global("torch.serialization", "_get_layout"), {Text(entry.layout)}),
                 Bool(entry.requires_grad), entry.memory_format, Bool(false)}));
      entries.emplace_back(Text(entry.name), Object("TensorStorageMetadata", Dict({{Text("properties"), properties},
                                                                                   {Text("size"), Size(entry.size)},
                                                                                   {Text("chunks"), List(boxes)}})));
    }
    const std::string storage_meta = Object(
        "StorageMeta", Dict({{Text("checkpoint_id"), Call(Global("pathlib", "PosixPath"), {Text("/"), Text("run")})},
                             {Text("save_id"), Text("5")},
                             {Text("load_id"), "N"},
                             {Text("modules"), List({})}}));
    return Pickled(Object("Metadata", Dict({{Text("state_dict_metadata"), Dict(entries)},
                                            {Text("planner_data"), Dict(paths)},
                                            {Text("storage_data"), Dict(places)},
                                            {Text("storage_meta"), storage_meta},
                                            {Text("version"), Text("1.0.0")}})));
  }

  void WriteTo(const tensorcask::testing::TempFolder& folder) const {
    for (const auto& [name, bytes] : files) folder.Write(name, bytes);
    folder.Write(".metadata", Metadata());
  }

  std::map<std::string, std::string> files;

 private:
  static void AddPlace(const std::string& name, const std::optional<std::vector<int32_t>>& offsets,
                       const DcpPlace& place, std::vector<std::pair<std::string, std::string>>* places) {
    if (!place.is_listed) return;
    const std::string index =
        Object("MetadataIndex", Dict({{Text("fqn"), Text(name)},
                                      {Text("offset"), offsets.has_value() ? Size(*offsets) : "N"},
                                      {Text("index"), "N"}}));
    Items transforms;
    for (const std::string& transform : place.transforms) transforms.push_back(Text(transform));
    places->emplace_back(
        index,
        Object("_StorageInfo", Dict({{Text("relative_path"), Text(place.file)},
                                     {Text("offset"), Int(place.offset)},
                                     {Text("length"), Int(place.length)},
                                     {Text("transform_descriptors"), transforms.empty() ? "N" : List(transforms)}})));
  }

  std::vector<Entry> entries_;
};

}  // namespace tensorcask::torch::testing

#endif  // TENSORCASK_TESTS_SERIALIZE_TORCH_DCP_TESTING_H_
