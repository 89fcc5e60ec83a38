#include "tensorcask/serialize/torch/internal/tensor_list.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/stored/name_order.h"
#include "tensorcask/serialize/torch/internal/stored_tensors.h"
#include "tensorcask/serialize/torch/internal/tensor_walk.h"
#include "tensorcask/serialize/torch/internal/torch_records.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/strided/layout.h"

namespace tensorcask::torch {
namespace {

// A tensor by one of its names.
struct ListedTensor {
  std::string name;
  TensorSource source;
};

absl::StatusOr<std::vector<ListedTensor>> FindInAllParts(const TorchFile& file, NameForm form,
                                                         const DecodeLimits& limits, ListingBudget* budget) {
  std::vector<ListedTensor> all;
  for (size_t part = 0; part < file.parts.size(); ++part) {
    CASK_ASSIGN_OR_ANNOTATE(std::vector<NamedTensor> found,
                            FindTensors(file.parts[part].pickle, file.parts[part].name, form, limits, budget),
                            file.source->name());
    all.reserve(all.size() + found.size());
    for (NamedTensor& tensor : found) all.push_back({std::move(tensor.name), {part, tensor.object}});
  }
  return all;
}

// The names that two tensors have, or more. `order`: of the tensors by name.
absl::flat_hash_set<std::string> NamesOfSeveral(const std::vector<ListedTensor>& tensors,
                                                absl::Span<const uint32_t> order) {
  absl::flat_hash_set<std::string> several;
  for (size_t i = 1; i < order.size(); ++i) {
    if (tensors[order[i]].name == tensors[order[i - 1]].name) several.insert(tensors[order[i]].name);
  }
  return several;
}

// Sets *order to the order of the result by name.
absl::StatusOr<std::vector<ListedTensor>> NameTensors(const TorchFile& file, const DecodeLimits& limits,
                                                      ListingBudget* budget, std::vector<uint32_t>* order) {
  CASK_ASSIGN_OR_RETURN(std::vector<ListedTensor> named, FindInAllParts(file, NameForm::kJoined, limits, budget));
  *order = stored::OrderByName(named);
  const absl::flat_hash_set<std::string> several = NamesOfSeveral(named, *order);
  if (several.empty()) return named;
  CASK_ASSIGN_OR_RETURN(std::vector<ListedTensor> exact, FindInAllParts(file, NameForm::kExact, limits, budget));
  for (size_t i = 0; i < named.size(); ++i) {
    if (several.contains(named[i].name)) named[i].name = exact[i].name;
  }
  *order = stored::OrderByName(named);
  if (NamesOfSeveral(named, *order).empty()) return named;
  *order = stored::OrderByName(exact);
  const absl::flat_hash_set<std::string> still = NamesOfSeveral(exact, *order);
  if (still.empty()) return exact;
  return absl::UnimplementedError(absl::StrCat(file.source->name(), ": two tensors have the name ",
                                               Quoted(*still.begin()), ", by keys of different kinds"));
}

// The parameters of a quantized tensor: numbers, and where those of channels are.
std::string QuantizerText(const Pickle& pickle, Ref parameters) {
  std::string text;
  if (parameters == kNoRef) return text;
  for (const Ref item : pickle.items(parameters)) {
    const Object& parameter = pickle.object(item);
    if (parameter.kind == Object::Kind::kTensor) {
      const TensorPlace place = PlaceOf(pickle, item);
      absl::StrAppend(&text, place.storage_number, "+", place.begin(), "+", place.layout.ToString(), " ");
    } else if (parameter.kind == Object::Kind::kGlobal) {
      absl::StrAppend(&text, pickle.globals[parameter.index].name, " ");
    } else {
      absl::StrAppend(&text, parameter.kind, "=", parameter.integer, " ");  // the bits of a float
    }
  }
  return text;
}

// Equal for tensors that have the same elements and properties.
std::string IdentityOf(const Pickle& pickle, const TensorSource& source, const TensorPlace& place) {
  return absl::StrCat(source.part, " ", place.storage_number, " ", place.begin(), " ", DTypeName(place.dtype),
                      place.dtype_name, " ", place.form, place.conj, place.neg, place.requires_grad, " ",
                      QuantizerText(pickle, place.quantizer), " ", absl::StrJoin(place.layout.dims(), ","), " ",
                      absl::StrJoin(place.layout.strides(), ","));
}

// The id of storage 0 of a part.
uint64_t FirstStorageId(const TorchFile& file, size_t part) {
  uint64_t first = 0;
  for (size_t before = 0; before < part; ++before) first += file.parts[before].records.size();
  return first;
}

// All but the name and alias_of.
TorchEntry Describe(const TorchFile& file, const TensorSource& source, const TensorPlace& place) {
  const Part& part = file.parts[source.part];
  const bool is_quantized = place.form == PickledTensor::Form::kQuantized;
  TorchEntry entry;
  entry.dtype = place.dtype;
  entry.shape = place.layout.shape();
  entry.read_status = WhyNotRead(place);
  entry.has_metadata = is_quantized || (place.requires_grad && (IsFloating(place.dtype) || IsComplex(place.dtype)));
  entry.device = "cpu";
  if (place.storage == nullptr) {
    entry.encoding = place.form == PickledTensor::Form::kSparse ? "sparse" : "meta";
    return entry;
  }
  const Record& record = part.records[place.storage_number];
  entry.storage_id = FirstStorageId(file, source.part) + place.storage_number;
  const bool is_deflated = record.member != Record::kNoMember && file.members[record.member].deflated;
  const bool is_dense = place.layout.IsNonOverlappingAndDense();
  const bool has_bits = place.conj || place.neg;
  if (entry.read_status.ok()) entry.read_status = record.status;
  entry.device = std::string(part.pickle.object(place.storage->device).text);
  entry.stored_bytes = place.size_bytes();
  entry.has_checksum = record.has_checksum;
  if (!is_deflated && !record.in_line) entry.offset = record.offset + place.begin();
  if (is_dense && !has_bits && !place.layout.IsContiguous()) {
    entry.strides.assign(place.layout.strides().begin(), place.layout.strides().end());
  }
  entry.encoding = !entry.read_status.ok() ? "unknown"
                   : is_quantized          ? "quantized"
                   : !is_dense || has_bits ? "strided"
                   : is_deflated           ? "deflated"
                                           : "plain";
  entry.reads_in_blocks = is_dense && !has_bits && !is_deflated && !record.in_line;
  return entry;
}

uint64_t MemoryOf(const TorchEntry& entry) {
  return sizeof(TorchEntry) + sizeof(TensorSource) + entry.name.size() + entry.alias_of.size() + entry.encoding.size() +
         entry.device.size() + entry.read_status.message().size() +
         sizeof(int64_t) * (static_cast<uint64_t>(entry.shape.rank()) + entry.strides.size());
}

// Adds the bytes of the storages of a part that tensors have a part of, and the bytes that tensors have.
void CountUsed(const TorchFile& file, size_t part, const TensorList& list, uint64_t* all, uint64_t* used) {
  struct Range {
    uint32_t storage;
    uint64_t begin;
    uint64_t end;
  };
  const std::vector<Storage>& storages = file.parts[part].pickle.storages;
  std::vector<Range> ranges;
  for (size_t i = 0; i < list.entries.size(); ++i) {
    const TorchEntry& entry = list.entries[i];
    const TensorSource& source = list.sources[i];
    if (source.part != part || !entry.storage_id.has_value()) continue;
    ranges.push_back({static_cast<uint32_t>(*entry.storage_id - FirstStorageId(file, part)), source.begin,
                      source.begin + entry.stored_bytes});
  }
  std::vector<uint32_t> begins(storages.size() + 1, 0);  // where the ranges of each storage begin
  for (const Range& range : ranges) ++begins[range.storage + 1];
  std::partial_sum(begins.begin(), begins.end(), begins.begin());
  std::vector<Range> sorted(ranges.size());
  for (const Range& range : ranges) sorted[begins[range.storage]++] = range;
  ranges = std::move(sorted);
  for (size_t i = 0; i < ranges.size();) {
    size_t next = i + 1;
    while (next < ranges.size() && ranges[next].storage == ranges[i].storage) ++next;
    std::sort(ranges.begin() + static_cast<std::ptrdiff_t>(i), ranges.begin() + static_cast<std::ptrdiff_t>(next),
              [](const Range& a, const Range& b) { return a.begin < b.begin; });
    i = next;
  }
  uint64_t end = 0;
  for (size_t i = 0; i < ranges.size(); ++i) {
    if (i == 0 || ranges[i].storage != ranges[i - 1].storage) {
      const Storage& storage = storages[ranges[i].storage];
      *all += storage.num_elements * storage.element_bytes;
      end = 0;
    }
    const uint64_t begin = std::max(end, ranges[i].begin);
    if (ranges[i].end > begin) *used += ranges[i].end - begin;
    end = std::max(end, ranges[i].end);
  }
}

constexpr size_t kMostNames = 8;

// The first names in quotes.
std::string QuotedNames(const std::vector<std::string>& names) {
  std::vector<std::string> quoted;
  for (size_t i = 0; i < std::min(names.size(), kMostNames); ++i) quoted.push_back(Quoted(names[i]));
  return absl::StrCat(absl::StrJoin(quoted, ", "), names.size() > kMostNames ? ", ..." : "");
}

struct Attributes {
  bool are_tensors = false;  // some of them
  bool are_others = false;
};

// Of the state of a tensor: a dict or a tuple of two.
Attributes AttributesOf(const Pickle& pickle, Ref state) {
  Attributes attributes;
  const bool is_pair = pickle.object(state).kind == Object::Kind::kTuple && pickle.items(state).size() == 2;
  for (const Ref dict : is_pair ? pickle.items(state) : absl::MakeConstSpan(&state, 1)) {
    if (pickle.object(dict).kind == Object::Kind::kNone) continue;
    if (pickle.object(dict).kind != Object::Kind::kDict) {
      attributes.are_others = true;
      continue;
    }
    const absl::Span<const Ref> items = pickle.items(dict);
    for (size_t i = 1; i < items.size(); i += 2) {
      const Object::Kind kind = pickle.object(items[i]).kind;
      const bool is_tensor = kind == Object::Kind::kTensor || kind == Object::Kind::kStorage;
      (is_tensor ? attributes.are_tensors : attributes.are_others) = true;
    }
  }
  return attributes;
}

// The names of tensors by what their attributes are; a name may be in both.
struct WithAttributes {
  std::vector<std::string> tensors;
  std::vector<std::string> others;
};

WithAttributes FindAttributes(const TorchFile& file, const TensorList& list) {
  WithAttributes found;
  for (size_t i = 0; i < list.entries.size(); ++i) {
    const Pickle& pickle = file.parts[list.sources[i].part].pickle;
    const Object& object = pickle.object(list.sources[i].object);
    if (object.kind != Object::Kind::kTensor) continue;
    const Ref state = pickle.tensors[object.index].state;
    if (state == kNoRef) continue;
    const Attributes attributes = AttributesOf(pickle, state);
    if (attributes.are_tensors) found.tensors.push_back(list.entries[i].name);
    if (attributes.are_others) found.others.push_back(list.entries[i].name);
  }
  return found;
}

std::string CountOf(const std::vector<std::string>& names) {
  return absl::StrCat(names.size(), names.size() == 1 ? " tensor" : " tensors");
}

// "the attributes of 1 tensor that are not tensors (of "w")".
std::string OtherAttributes(const std::vector<std::string>& names) {
  return absl::StrCat("the attributes of ", CountOf(names), " that are not tensors (of ", QuotedNames(names), ")");
}

// "the classes of some values (deque, frozenset)", which are read as values of simpler classes; "" if there are none.
// The classes of the tensors and dicts of each model are not among them.
std::string SimplerClasses(const TorchFile& file) {
  std::set<std::string> classes;
  for (const Part& part : file.parts) {
    const std::vector<Global>& globals = part.pickle.globals;
    const bool has_tensors_of_numpy = std::any_of(
        globals.begin(), globals.end(), [](const Global& global) { return global.use == GlobalUse::kFromNumpy; });
    for (const Global& global : globals) {
      switch (global.use) {
        case GlobalUse::kSet:
          if (global.name == "builtins.frozenset") classes.insert("frozenset");
          break;
        case GlobalUse::kBytes:
          if (global.name == "builtins.bytearray") classes.insert("bytearray");
          break;
        case GlobalUse::kCounter:
        case GlobalUse::kDefaultDict:
        case GlobalUse::kDeque:
        case GlobalUse::kPath:
          classes.emplace(global.name.substr(global.name.rfind('.') + 1));
          break;
        case GlobalUse::kNumpyReconstruct:
        case GlobalUse::kNumpyFromBuffer:
          if (!has_tensors_of_numpy) classes.insert("numpy.ndarray");
          break;
        case GlobalUse::kNumpyScalar:
          classes.insert("numpy scalar");
          break;
        default:
          break;
      }
    }
  }
  if (classes.empty()) return "";
  return absl::StrCat("the classes of some values (", absl::StrJoin(classes, ", "), ")");
}

// Finds tensors with the same elements and properties, among those of one storage.
class Twins {
 public:
  Twins(const TorchFile& file, const TensorList* list, ListingBudget* budget)
      : file_(file), list_(*list), budget_(budget) {}

  // The number of the first such tensor; nullopt: this is the first, and will be the next in the list.
  absl::StatusOr<std::optional<size_t>> Find(uint64_t storage, const TensorSource& source, const TensorPlace& place) {
    const size_t number = list_.sources.size();
    const auto [first, is_new] = first_.try_emplace(storage, number);
    if (is_new) return std::nullopt;
    if (first->second != kIsIdentified) {
      const TensorSource& other = list_.sources[first->second];
      const Pickle& pickle = file_.parts[other.part].pickle;
      CASK_RETURN_IF_ERROR(Identify(other, PlaceOf(pickle, other.object), first->second).status());
      first->second = kIsIdentified;
    }
    CASK_ASSIGN_OR_RETURN(const size_t twin, Identify(source, place, number));
    return twin == number ? std::nullopt : std::make_optional(twin);
  }

 private:
  static constexpr size_t kIsIdentified = SIZE_MAX;

  // The number of the first tensor of this identity, which is `number` if there was none.
  absl::StatusOr<size_t> Identify(const TensorSource& source, const TensorPlace& place, size_t number) {
    std::string identity = IdentityOf(file_.parts[source.part].pickle, source, place);
    CASK_RETURN_IF_ERROR(budget_->Charge(identity.size()));
    return identified_.try_emplace(std::move(identity), number).first->second;
  }

  const TorchFile& file_;
  const TensorList& list_;
  ListingBudget* const budget_;
  absl::flat_hash_map<uint64_t, size_t> first_;  // the first tensor of each storage, until another tensor has it
  absl::flat_hash_map<std::string, size_t> identified_;  // by IdentityOf
};

}  // namespace

absl::StatusOr<TensorList> ListTensors(const TorchFile& file, const DecodeLimits& limits, ListingBudget* budget) {
  TensorList list;
  std::vector<uint32_t> order;
  CASK_ASSIGN_OR_RETURN(std::vector<ListedTensor> named, NameTensors(file, limits, budget, &order));
  list.has_names = named.size() != 1 || !named[0].name.empty() || named[0].source.part != 0 ||
                   named[0].source.object != file.parts[0].pickle.root;
  list.entries.reserve(named.size());
  list.sources.reserve(named.size());
  Twins twins(file, &list, budget);
  for (const uint32_t number : order) {
    ListedTensor& tensor = named[number];
    const Pickle& pickle = file.parts[tensor.source.part].pickle;
    const TensorPlace place = PlaceOf(pickle, tensor.source.object);
    TorchEntry entry = Describe(file, tensor.source, place);
    entry.name = std::move(tensor.name);
    if (place.storage != nullptr && place.layout.num_elements() > 0) {
      CASK_ASSIGN_OR_ANNOTATE(const std::optional<size_t> twin, twins.Find(*entry.storage_id, tensor.source, place),
                              file.source->name());
      if (twin.has_value()) entry.alias_of = list.entries[*twin].name;
    }
    CASK_ANNOTATE_IF_ERROR(budget->Charge(MemoryOf(entry)), file.source->name());
    if (place.storage != nullptr) tensor.source.begin = place.begin();
    list.entries.push_back(std::move(entry));
    list.sources.push_back(tensor.source);
  }
  return list;
}

namespace {

// The names of the attributes of dicts but "_metadata", in all parts, each once.
std::vector<std::string> DictAttributes(const TorchFile& file) {
  std::vector<std::string> names;
  for (const Part& part : file.parts) {
    names.insert(names.end(), part.pickle.dict_attributes.begin(), part.pickle.dict_attributes.end());
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

}  // namespace

std::vector<std::string> NotesOf(const TorchFile& file, const TensorList& list) {
  std::vector<std::string> notes;
  std::vector<std::string> opaque;
  uint64_t all = 0;
  uint64_t used = 0;
  for (size_t part = 0; part < file.parts.size(); ++part) {
    const std::vector<std::string>& names = file.parts[part].pickle.opaque_names;
    opaque.insert(opaque.end(), names.begin(), names.end());
    CountUsed(file, part, list, &all, &used);
  }
  if (!opaque.empty()) {
    notes.push_back(absl::StrCat(
        opaque.size(), opaque.size() == 1 ? " name is not known and opaque: " : " names are not known and opaque: ",
        QuotedNames(opaque)));
  }
  if (const std::vector<std::string> attributes = DictAttributes(file); !attributes.empty()) {
    notes.push_back(absl::StrCat(attributes.size() == 1 ? "the attribute " : "the attributes ", QuotedNames(attributes),
                                 " of dicts ", attributes.size() == 1 ? "is" : "are", " not read"));
  }
  if (const WithAttributes with = FindAttributes(file, list); !with.others.empty()) {
    notes.push_back(absl::StrCat(OtherAttributes(with.others), " are not read"));
  }
  if (used < all) {
    notes.push_back(absl::StrCat(all - used, " of ", all,
                                 " bytes of storages belong to no tensor: parts were saved with their whole storage"));
  }
  return notes;
}

std::vector<std::string> NotWritten(const TorchFile& file, const TensorList& list) {
  std::vector<std::string> all;
  uint64_t num_dicts = 0;
  absl::flat_hash_set<size_t> read;  // members
  for (const Part& part : file.parts) {
    num_dicts += part.pickle.num_dict_states;
    for (const Record& record : part.records) read.insert(record.member);
  }
  if (num_dicts > 0) {
    const std::vector<std::string> attributes = DictAttributes(file);
    all.push_back(absl::StrCat("the attributes of ", num_dicts, num_dicts == 1 ? " dict (" : " dicts (",
                               attributes.empty() ? "_metadata" : QuotedNames(attributes), ")"));
  }
  const WithAttributes with = FindAttributes(file, list);
  if (!with.others.empty()) all.push_back(OtherAttributes(with.others));
  if (!with.tensors.empty()) {  // which become entries of the object
    all.push_back(absl::StrCat("the places of the tensors that are attributes of ", CountOf(with.tensors), " (of ",
                               QuotedNames(with.tensors), ")"));
  }
  if (std::string classes = SimplerClasses(file); !classes.empty()) all.push_back(std::move(classes));
  std::vector<std::string> others;
  for (size_t i = 0; i < file.members.size(); ++i) {
    const absl::string_view name = file.members[i].name;
    const bool is_written =
        std::any_of(std::begin(kRecordsOfAnyFile), std::end(kRecordsOfAnyFile),
                    [&](absl::string_view record) { return name == absl::StrCat(file.folder, record); });
    if (!is_written && !read.contains(i)) others.emplace_back(name);
  }
  if (!others.empty()) {
    all.push_back(absl::StrCat("the ", others.size() == 1 ? "record " : "records ", QuotedNames(others)));
  }
  return all;
}

}  // namespace tensorcask::torch
