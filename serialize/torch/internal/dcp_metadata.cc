#include "tensorcask/serialize/torch/internal/dcp_metadata.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/serialize/torch/internal/globals.h"
#include "tensorcask/serialize/torch/internal/pickle.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"

namespace tensorcask::torch {
namespace {

using Kind = Object::Kind;

constexpr absl::string_view kMetadataModule = "torch.distributed.checkpoint.metadata.";
constexpr absl::string_view kStorageInfo = "torch.distributed.checkpoint.filesystem._StorageInfo";

absl::Status BadMetadata(absl::string_view what) { return absl::DataLossError(what); }

class MetadataReader {
 public:
  MetadataReader(const Pickle& pickle, const DecodeLimits& limits, ListingBudget* budget)
      : pickle_(pickle), limits_(limits), budget_(budget), tiling_(pickle.size_bytes) {}

  absl::StatusOr<DcpMetadata> Read() {
    if (!IsOf(pickle_.root, absl::StrCat(kMetadataModule, "Metadata"))) {
      return BadMetadata("the pickle is not the metadata of a distributed checkpoint");
    }
    const Ref entries = Attribute(pickle_.root, "state_dict_metadata");
    const Ref places = Attribute(pickle_.root, "storage_data");
    if (!Is(entries, Kind::kDict)) return BadMetadata("the metadata has no dict \"state_dict_metadata\"");
    if (!Is(places, Kind::kDict))
      return BadMetadata("the metadata has no dict \"storage_data\", which says where elements are");
    if (const Ref version = Attribute(pickle_.root, "version"); Is(version, Kind::kText)) {
      metadata_.version = std::string(pickle_.object(version).text);
    }
    CASK_RETURN_IF_ERROR(ListPlaces(pickle_.items(places)));
    CASK_RETURN_IF_ERROR(ListEntries(pickle_.items(entries)));
    CASK_RETURN_IF_ERROR(ListPaths());
    return std::move(metadata_);
  }

 private:
  // ---- Objects ------------------------------------------------------------------------------------------------------

  bool Is(Ref ref, Kind kind) const { return ref != kNoRef && pickle_.object(ref).kind == kind; }
  bool IsNone(Ref ref) const { return ref == kNoRef || pickle_.object(ref).kind == Kind::kNone; }

  absl::string_view ClassOf(Ref ref) const {
    if (!Is(ref, Kind::kObject)) return "";
    return pickle_.globals[pickle_.object(pickle_.instances[pickle_.object(ref).index].of).index].name;
  }
  bool IsOf(Ref ref, absl::string_view class_name) const { return ClassOf(ref) == class_name; }

  // kNoRef if the object has no such attribute.
  Ref Attribute(Ref ref, absl::string_view name) const {
    const Ref state = pickle_.instances[pickle_.object(ref).index].state;
    if (!Is(state, Kind::kDict)) return kNoRef;
    const absl::Span<const Ref> items = pickle_.items(state);
    for (size_t i = 0; i + 1 < items.size(); i += 2) {
      if (Is(items[i], Kind::kText) && pickle_.object(items[i]).text == name) return items[i + 1];
    }
    return kNoRef;
  }

  std::optional<std::vector<int64_t>> Integers(Ref ref) const {
    if (!Is(ref, Kind::kSize) && !Is(ref, Kind::kTuple) && !Is(ref, Kind::kList)) return std::nullopt;
    std::vector<int64_t> numbers;
    for (const Ref item : pickle_.items(ref)) {
      if (!Is(item, Kind::kInt)) return std::nullopt;
      numbers.push_back(pickle_.object(item).integer);
    }
    return numbers;
  }

  absl::Status CheckName(absl::string_view name) const {
    if (name.size() <= LimitOf(limits_.max_name_bytes)) return absl::OkStatus();
    return PastLimit(absl::StrCat("a tensor's name has ", name.size(), " bytes"), "max_name_bytes",
                     limits_.max_name_bytes);
  }

  // ---- Places -------------------------------------------------------------------------------------------------------

  // Numbers have no "]", and "-" is no "[": different places have different keys.
  static std::string KeyOf(absl::string_view name, const std::optional<std::vector<int64_t>>& offsets) {
    if (!offsets.has_value()) return absl::StrCat("-", name);
    return absl::StrCat("[", absl::StrJoin(*offsets, ","), "]", name);
  }

  absl::Status ListPlaces(absl::Span<const Ref> entries) {
    for (size_t i = 0; i + 1 < entries.size(); i += 2) {
      if (!IsOf(entries[i], absl::StrCat(kMetadataModule, "MetadataIndex"))) {
        return BadMetadata("a key of \"storage_data\" is not a MetadataIndex");
      }
      const Ref name = Attribute(entries[i], "fqn");
      const Ref offset = Attribute(entries[i], "offset");
      const std::optional<std::vector<int64_t>> offsets = Integers(offset);
      if (!Is(name, Kind::kText) || (!IsNone(offset) && !offsets.has_value())) {
        return BadMetadata("a MetadataIndex has no name, or an offset that is not integers");
      }
      std::string key = KeyOf(pickle_.object(name).text, offsets);
      CASK_RETURN_IF_ERROR(budget_->Charge(2 * (sizeof(std::string) + sizeof(Ref)) + key.size()));
      if (!places_.emplace(std::move(key), entries[i + 1]).second) {
        return BadMetadata(
            absl::StrCat("\"storage_data\" has two places for ", Quoted(pickle_.object(name).text),
                         offsets.has_value() ? absl::StrCat(" at [", absl::StrJoin(*offsets, ","), "]") : ""));
      }
    }
    return absl::OkStatus();
  }

  // `offsets`: of the box; nullopt for a value that is not a tensor.
  absl::StatusOr<DcpItem> FindItem(absl::string_view name, const std::optional<std::vector<int64_t>>& offsets) const {
    const auto found = places_.find(KeyOf(name, offsets));
    const auto of_box = [&] {
      return offsets.has_value() ? absl::StrCat("the box at [", absl::StrJoin(*offsets, ","), "]") : "the value";
    };
    if (found == places_.end()) return BadMetadata(absl::StrCat("the metadata does not say where ", of_box(), " is"));
    if (!IsOf(found->second, kStorageInfo))
      return BadMetadata(absl::StrCat("the place of ", of_box(), " is not a _StorageInfo"));
    const Ref file = Attribute(found->second, "relative_path");
    const Ref offset = Attribute(found->second, "offset");
    const Ref length = Attribute(found->second, "length");
    const auto is_count = [&](Ref ref) { return Is(ref, Kind::kInt) && pickle_.object(ref).integer >= 0; };
    if (!Is(file, Kind::kText) || !is_count(offset) || !is_count(length)) {
      return BadMetadata(absl::StrCat("the place of ", of_box(), " is not a file, an offset and a length"));
    }
    DcpItem item;
    item.file = std::string(pickle_.object(file).text);
    item.offset = static_cast<uint64_t>(pickle_.object(offset).integer);
    item.size_bytes = static_cast<uint64_t>(pickle_.object(length).integer);
    const Ref transforms = Attribute(found->second, "transform_descriptors");
    if (IsNone(transforms)) return item;
    if (!Is(transforms, Kind::kList) && !Is(transforms, Kind::kTuple)) {
      return BadMetadata(absl::StrCat("the transforms of ", of_box(), " are not a list"));
    }
    for (const Ref transform : pickle_.items(transforms)) {
      if (!Is(transform, Kind::kText)) return BadMetadata(absl::StrCat("a transform of ", of_box(), " is not text"));
      item.transforms.emplace_back(pickle_.object(transform).text);
    }
    return item;
  }

  static uint64_t MemoryOf(const DcpItem& item) {
    return sizeof(DcpItem) + item.file.size() + item.transforms.size() * (sizeof(std::string) + 32);
  }

  // ---- Entries ------------------------------------------------------------------------------------------------------

  absl::Status ListEntries(absl::Span<const Ref> entries) {
    if (entries.size() / 2 > LimitOf(limits_.max_entries)) {
      return PastLimit(absl::StrCat("has ", entries.size() / 2, " tensors"), "max_entries", limits_.max_entries);
    }
    for (size_t i = 0; i + 1 < entries.size(); i += 2) {
      if (!Is(entries[i], Kind::kText)) return BadMetadata("a key of \"state_dict_metadata\" is not text");
      const absl::string_view name = pickle_.object(entries[i]).text;
      CASK_RETURN_IF_ERROR(CheckName(name));
      if (IsOf(entries[i + 1], absl::StrCat(kMetadataModule, "BytesStorageMetadata"))) {
        DcpObject object;
        object.name = std::string(name);
        absl::StatusOr<DcpItem> item = FindItem(name, std::nullopt);
        object.status = item.status();
        if (item.ok()) object.item = *std::move(item);
        CASK_RETURN_IF_ERROR(budget_->Charge(sizeof(DcpObject) + name.size() + MemoryOf(object.item)));
        metadata_.objects.push_back(std::move(object));
        continue;
      }
      if (!IsOf(entries[i + 1], absl::StrCat(kMetadataModule, "TensorStorageMetadata"))) {
        return BadMetadata(absl::StrCat("the entry ", Quoted(name), " is neither a tensor nor bytes"));
      }
      DcpTensor tensor;
      tensor.name = std::string(name);
      CASK_RETURN_IF_ERROR(budget_->Charge(sizeof(DcpTensor) + name.size()));
      const absl::Status status = ReadTensor(entries[i + 1], &tensor);
      if (absl::IsResourceExhausted(status)) return Annotate(status, absl::StrCat("tensor ", Quoted(name)));
      if (!status.ok()) tensor.status = status;
      metadata_.tensors.push_back(std::move(tensor));
    }
    return absl::OkStatus();
  }

  // An error of its boxes, past a limit or not, is its status. Other limits are those of the checkpoint.
  absl::Status ReadTensor(Ref entry, DcpTensor* tensor) {
    const std::optional<std::vector<int64_t>> size = Integers(Attribute(entry, "size"));
    if (!size.has_value()) return BadMetadata("the metadata has no size of it");
    CASK_ASSIGN_OR_RETURN(tensor->shape, TensorShape::Create(*size));
    CASK_RETURN_IF_ERROR(ReadProperties(Attribute(entry, "properties"), tensor));
    const Ref chunks = Attribute(entry, "chunks");
    if (!Is(chunks, Kind::kList)) return BadMetadata("the metadata has no list of its boxes");
    for (const Ref chunk : pickle_.items(chunks)) {
      if (!IsOf(chunk, absl::StrCat(kMetadataModule, "ChunkStorageMetadata")))
        return BadMetadata("a box is of another class");
      std::optional<std::vector<int64_t>> offsets = Integers(Attribute(chunk, "offsets"));
      std::optional<std::vector<int64_t>> sizes = Integers(Attribute(chunk, "sizes"));
      if (!offsets.has_value() || !sizes.has_value()) return BadMetadata("a box has no offsets or sizes");
      CASK_RETURN_IF_ERROR(budget_->Charge(sizeof(stored::Box) + sizeof(int64_t) * (offsets->size() + sizes->size())));
      tensor->boxes.push_back({*std::move(offsets), *std::move(sizes)});
    }
    tensor->status = stored::CheckTiling(tensor->shape, tensor->boxes, &tiling_);
    if (!tensor->status.ok()) return absl::OkStatus();
    for (const stored::Box& box : tensor->boxes) {
      CASK_ASSIGN_OR_RETURN(DcpItem item, FindItem(tensor->name, box.offsets));
      CASK_RETURN_IF_ERROR(budget_->Charge(MemoryOf(item)));
      tensor->items.push_back(std::move(item));
    }
    return absl::OkStatus();
  }

  // A tuple (dtype, layout, requires_grad, memory format, pin_memory[, strides]).
  absl::Status ReadProperties(Ref properties, DcpTensor* tensor) {
    constexpr size_t kFewest = 5;
    if (!IsOf(properties, absl::StrCat(kMetadataModule, "TensorProperties")))
      return BadMetadata("the metadata has no properties");
    const Ref state = pickle_.instances[pickle_.object(properties).index].state;
    if (!Is(state, Kind::kTuple) || pickle_.items(state).size() < kFewest) {
      return BadMetadata(absl::StrCat("its properties are not a tuple of ", kFewest, " or more"));
    }
    const absl::Span<const Ref> items = pickle_.items(state);
    if (!Is(items[0], Kind::kGlobal)) return BadMetadata("its properties do not begin with a dtype");
    const Global& dtype = pickle_.globals[pickle_.object(items[0]).index];
    if (dtype.use != GlobalUse::kDType) return BadMetadata("its properties do not begin with a dtype");
    tensor->dtype = dtype.dtype;
    tensor->requires_grad = Is(items[2], Kind::kBool) && pickle_.object(items[2]).integer != 0;
    if (!Is(items[1], Kind::kText)) return BadMetadata("its properties have no layout");
    if (const absl::string_view layout = pickle_.object(items[1]).text; layout != "torch.strided") {
      return absl::UnimplementedError(absl::StrCat("has the layout ", Quoted(layout)));
    }
    if (dtype.dtype == DType::kInvalid) {
      return absl::UnimplementedError(absl::StrCat("has the dtype ", dtype.name, ", which this library does not have"));
    }
    if (!CheckedMul(static_cast<uint64_t>(tensor->shape.num_elements()), uint64_t{dtype.element_bytes}).has_value()) {
      return BadMetadata(absl::StrCat("a shape of ", tensor->shape.ToString(), " has more bytes than 64 bits count"));
    }
    return absl::OkStatus();
  }

  // ---- Paths --------------------------------------------------------------------------------------------------------

  // "planner_data" is a dict from names to tuples of texts and positions; other planners have other things there.
  absl::Status ListPaths() {
    constexpr size_t kMostSteps = 1000;
    const Ref data = Attribute(pickle_.root, "planner_data");
    if (!Is(data, Kind::kDict)) return absl::OkStatus();
    const absl::Span<const Ref> entries = pickle_.items(data);
    for (size_t i = 0; i + 1 < entries.size(); i += 2) {
      if (!Is(entries[i], Kind::kText) || !Is(entries[i + 1], Kind::kTuple)) continue;
      const absl::Span<const Ref> items = pickle_.items(entries[i + 1]);
      if (items.empty()) continue;
      if (items.size() > kMostSteps) {
        return absl::UnimplementedError(absl::StrCat("the entry ", Quoted(pickle_.object(entries[i]).text), " lies in ",
                                                     items.size(), " dicts and lists; at most ", kMostSteps,
                                                     " are read"));
      }
      std::vector<PathStep> path;
      uint64_t memory = pickle_.object(entries[i]).text.size();
      for (const Ref item : items) {
        const Object& step = pickle_.object(item);
        if (step.kind != Kind::kText && step.kind != Kind::kInt) {
          return BadMetadata(absl::StrCat("the path of ", Quoted(pickle_.object(entries[i]).text),
                                          " has a step that is neither text nor a position"));
        }
        memory += sizeof(PathStep) + step.text.size();
        if (step.kind == Kind::kText) {
          path.push_back({PathStep::Kind::kKey, std::string(step.text), 0});
        } else {
          path.push_back({PathStep::Kind::kPosition, "", step.integer});
        }
      }
      CASK_RETURN_IF_ERROR(budget_->Charge(memory));
      metadata_.paths[pickle_.object(entries[i]).text] = std::move(path);
    }
    return absl::OkStatus();
  }

  const Pickle& pickle_;
  const DecodeLimits& limits_;
  ListingBudget* const budget_;
  stored::TilingBudget tiling_;
  DcpMetadata metadata_;
  absl::flat_hash_map<std::string, Ref> places_;
};

}  // namespace

absl::StatusOr<DcpMetadata> ReadDcpMetadata(absl::string_view bytes, const DecodeLimits& limits,
                                            ListingBudget* budget) {
  budget->AddIndex(bytes.size());
  DecodeQuota quota = DecodeQuota::ForUnbacked(limits, ListingBudget::kBytesPerIndexByte * bytes.size());
  PickleOptions options;
  options.dcp_metadata = true;
  absl::StatusOr<Pickle> pickle = ReadPickle(bytes, options, &quota);
  if (absl::IsOutOfRange(pickle.status())) return BadMetadata(pickle.status().message());
  CASK_RETURN_IF_ERROR(pickle.status());
  if (pickle->size_bytes != bytes.size()) {
    return BadMetadata(absl::StrCat(bytes.size() - pickle->size_bytes, " bytes behind the end of the pickle"));
  }
  return MetadataReader(*pickle, limits, budget).Read();
}

}  // namespace tensorcask::torch
