#include "tensorcask/serialize/archive/convert.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tensorcask/serialize/archive/chosen_names.h"
#include "tensorcask/serialize/archive/internal/dry_file_system.h"
#include "tensorcask/serialize/archive/internal/graph_items.h"
#include "tensorcask/serialize/archive/internal/metadata_keys.h"
#include "tensorcask/serialize/archive/internal/planned_values.h"
#include "tensorcask/serialize/archive/internal/read_ahead.h"
#include "tensorcask/serialize/archive/internal/target_values.h"
#include "tensorcask/serialize/io/damage_mark.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/io/read_plan.h"
#include "tensorcask/serialize/payload/payload_options.h"
#include "tensorcask/serialize/values/value_json.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/glob.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/strided/convert.h"
#include "tensorcask/tensor/strided/metadata.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask {
namespace {

constexpr char kAllowLossHint[] = "; ConvertOptions::allow_loss ";

bool Holds(const ArchiveFormat& target, DType dtype) {
  if (dtype == DType::kString) return target.traits().strings;
  return target.HoldsDType(dtype);
}

class Planner {
 public:
  Planner(const ArchiveFormat& target, const ConvertOptions& options)
      : target_(target), traits_(target.traits()), options_(options) {}

  absl::Status AddSource(const ArchiveReader& source, bool keep_shards) {
    sources_.push_back(&source);
    const std::vector<std::string> include = archive::IncludeGraph(source, target_, options_.include);
    CASK_ASSIGN_OR_RETURN(const std::vector<const ArchiveEntry*> entries,
                          SelectEntries(source, include, options_.exclude, options_.exclude_slots));
    plan_.items.reserve(plan_.items.size() + entries.size());
    for (const ArchiveEntry* const entry : entries) CASK_RETURN_IF_ERROR(AddEntry(source, *entry, keep_shards));
    CASK_RETURN_IF_ERROR(AddFileMetadata(source));
    return AddValues(source);
  }

  absl::StatusOr<ConversionPlan> Finish(const NewFile& file) {
    CASK_RETURN_IF_ERROR(CheckAllHeld());
    CASK_RETURN_IF_ERROR(CheckNamesDiffer());
    CASK_RETURN_IF_ERROR(CheckUnset());
    ResolveAliases();
    CASK_RETURN_IF_ERROR(archive::UpdateGraphs(target_, &plan_.items));
    CASK_RETURN_IF_ERROR(CheckNewContents());
    CASK_RETURN_IF_ERROR(ChooseValues());
    for (const FileValue& value : plan_.values) plan_.file_metadata.erase(value.name);
    CASK_RETURN_IF_ERROR(CheckMetadata(file));
    for (const auto& [key, value] : options_.set_metadata) plan_.file_metadata[key] = value;
    plan_.target = &target_;
    plan_.file_system = file.file_system;
    return std::move(plan_);
  }

 private:
  absl::Status AddEntry(const ArchiveReader& source, const ArchiveEntry& entry, bool keep_shards) {
    ConversionItem item;
    item.source = &source;
    item.from = &entry;
    item.alias_of = entry.alias_of;
    item.dtype = entry.dtype;
    item.keep_shard = keep_shards;
    // Elsewhere strides would be metadata, which TensorFlow cannot read; row-major elements are the same tensor.
    item.keep_strides = !source.strides_only_permute() || traits_.strides_only_permute;
    CASK_RETURN_IF_ERROR(SetName(&item));
    CASK_RETURN_IF_ERROR(ApplyDTypeRule(&item));
    KeepEncoding(&item);
    std::vector<ConvertLoss> losses = Losses(&item);
    if (!losses.empty() && !options_.allow_loss) {
      const absl::Status readable = source.CheckReadable(entry);
      if (!readable.ok()) return MarkDamageOf(readable, Refuse(losses));
      not_held_.push_back(std::move(losses));
      return absl::OkStatus();
    }
    plan_.losses.insert(plan_.losses.end(), losses.begin(), losses.end());
    if (IsWholeTensor(losses)) return absl::OkStatus();
    NoteAcrossKinds(item);
    if (item.name().empty() && !traits_.empty_names) {
      return absl::InvalidArgumentError(absl::StrCat(source.path(), ": tensor ", Quoted(item.from->name),
                                                     ": its name is empty, which ", target_.name_with_article(),
                                                     " file cannot hold; rename it"));
    }
    plan_.store_opaquely = plan_.store_opaquely || !IsHeld(item);
    plan_.bytes = CheckedAdd(plan_.bytes, ElementBytes(*item.from)).value_or(UINT64_MAX);
    plan_.items.push_back(std::move(item));
    return absl::OkStatus();
  }

  absl::Status SetName(ConversionItem* item) const {
    const auto name = item->source->has_names() ? options_.names.end() : options_.names.find(item->source);
    const auto prefix = options_.prefixes.find(item->source);
    if (name != options_.names.end()) {
      item->new_name = name->second;
    } else if (options_.rename) {
      CASK_ASSIGN_OR_RETURN(item->new_name, options_.rename(item->from->name));
    }
    if (prefix != options_.prefixes.end()) item->new_name = absl::StrCat(prefix->second, item->name());
    if (item->new_name == item->from->name) item->new_name.reset();
    return absl::OkStatus();
  }

  // A tensor that the target can store as it is encoded is not decoded for it, unless a rule gives it another dtype.
  void KeepEncoding(ConversionItem* item) {
    if (item->dtype != item->from->dtype || !target_.HoldsEncoding(item->from->encoding)) return;
    const ArchiveReader* const stored = item->source->AsStored();
    if (stored == nullptr) {
      plan_.losses.push_back(
          {ConvertLoss::Kind::kAcrossKinds, item->from->name,
           absl::StrCat(item->source->path(), ": tensor ", Quoted(item->from->name), " is ", item->from->encoding,
                        " and becomes ", DTypeName(item->dtype), ": its bytes are not those of the new file")});
      return;
    }
    const absl::StatusOr<const ArchiveEntry*> entry = stored->Find(item->from->name);
    if (!entry.ok()) return;
    item->source = stored;
    item->from = *entry;
    item->dtype = (*entry)->dtype;
    item->keep_encoding = true;
  }

  // Errors: InvalidArgument, naming all tensors of which the target cannot hold something.
  absl::Status CheckAllHeld() const {
    constexpr size_t kMaxListed = 32;
    if (not_held_.empty()) return absl::OkStatus();
    std::vector<ConvertLoss> listed;
    for (size_t i = 0; i < std::min(not_held_.size(), kMaxListed); ++i) {
      listed.insert(listed.end(), not_held_[i].begin(), not_held_[i].end());
    }
    const bool is_whole = std::all_of(not_held_.begin(), not_held_.end(), IsWholeTensor);
    absl::string_view hint = not_held_.size() == 1 ? "leaves the tensor out" : "leaves these tensors out";
    if (!is_whole) hint = "converts without that";
    const absl::Status refused = Refuse(listed, hint);
    if (not_held_.size() <= kMaxListed) return refused;
    return AppendToMessage(refused, absl::StrCat("; and ", not_held_.size() - kMaxListed, " more tensors"));
  }

  // Errors: NotFound for a key of unset_metadata that no source has; InvalidArgument for one that is set, too.
  absl::Status CheckUnset() const {
    if (options_.unset_metadata.empty()) return absl::OkStatus();
    std::vector<std::string> paths;
    std::set<std::string> keys;
    for (const ArchiveReader* const source : sources_) {
      paths.push_back(source->path());
      CASK_ASSIGN_OR_RETURN(std::set<std::string> names, archive::ValueNames(*source));
      keys.merge(names);
    }
    for (const std::string& key : options_.unset_metadata) {
      if (options_.set_metadata.count(key) != 0) return archive::SetAndUnset(key);
      if (keys.count(key) != 0) continue;
      return archive::NoSuchMetadata(absl::StrJoin(paths, ", "), key, {keys.begin(), keys.end()});
    }
    return absl::OkStatus();
  }

  // Leaves out the metadata that the target does not hold.
  absl::Status CheckMetadata(const NewFile& file) {
    if (!traits_.file_metadata) return absl::OkStatus();
    MetadataForFile metadata;
    metadata.of_sources = plan_.file_metadata;
    metadata.set = options_.set_metadata;
    metadata.unset = options_.unset_metadata;
    metadata.values = plan_.values;
    metadata.file = file;
    // A file of the same format is the one that the new file is made of.
    const bool has_base = sources_.size() == 1 && sources_[0]->format() == target_.name();
    if (has_base) metadata.source = sources_[0];
    CASK_ASSIGN_OR_RETURN(const std::vector<MetadataNotHeld> not_held, target_.CheckMetadata(metadata));
    std::vector<ConvertLoss> losses;
    for (const MetadataNotHeld& one : not_held) {
      const bool is_set = options_.set_metadata.count(one.key) != 0;
      if (is_set || options_.unset_metadata.count(one.key) != 0) {
        return absl::InvalidArgumentError(absl::StrCat("cannot ", is_set ? "set" : "unset", " the metadata ",
                                                       Quoted(one.key), ": ", one.why.message()));
      }
      plan_.file_metadata.erase(one.key);
      if (one.why.ok()) continue;
      losses.push_back({ConvertLoss::Kind::kFileMetadata, "",
                        absl::StrCat(PathWith(one.key), ": the metadata ", Quoted(one.key), ": ", one.why.message(),
                                     "; ", target_.name_with_article(), " file cannot hold that")});
    }
    if (!losses.empty() && !options_.allow_loss) return Refuse(losses);
    plan_.losses.insert(plan_.losses.end(), losses.begin(), losses.end());
    return absl::OkStatus();
  }

  // Of the first source that has this metadata.
  absl::string_view PathWith(const std::string& key) const {
    for (const ArchiveReader* const source : sources_) {
      if (source->file_metadata().count(key) != 0) return source->path();
    }
    return "";
  }

  // Errors: AlreadyExists, naming the first tensor whose name another one has.
  absl::Status CheckNamesDiffer() const {
    absl::flat_hash_map<absl::string_view, const ArchiveReader*> names;
    names.reserve(plan_.items.size());
    for (const ConversionItem& item : plan_.items) {
      const auto [other, is_new] = names.emplace(item.name(), item.source);
      if (is_new) continue;
      return absl::AlreadyExistsError(absl::StrCat("tensor ", Quoted(item.name()),
                                                   ": two tensors would have this name, of ", other->second->path(),
                                                   " and ", item.source->path(), "; rename one"));
    }
    return absl::OkStatus();
  }

  absl::Status ApplyDTypeRule(ConversionItem* item) {
    for (const DTypeRule& rule : options_.dtypes) {
      DTypeRule named = rule;
      named.glob = archive::NamesFirst({rule.glob}, item->source->entries())[0];
      if (!named.Takes(item->from->name, item->from->dtype)) continue;
      if (rule.dtype == item->from->dtype || !item->from->read_status.ok()) return absl::OkStatus();
      if (ElementSize(rule.dtype) == 0 || ElementSize(item->from->dtype) == 0) {
        return absl::InvalidArgumentError(absl::StrCat("tensor ", Quoted(item->from->name), ": ",
                                                       DTypeName(item->from->dtype), " cannot be converted to ",
                                                       DTypeName(rule.dtype)));
      }
      item->dtype = rule.dtype;
      return absl::OkStatus();
    }
    return absl::OkStatus();
  }

  bool IsHeld(const ConversionItem& item) const { return item.keep_encoding || Holds(target_, item.dtype); }

  // What the target cannot hold of one tensor. A tensor that is lost as a whole has one loss (IsWholeTensor).
  std::vector<ConvertLoss> Losses(ConversionItem* item) const {
    using Kind = ConvertLoss::Kind;
    std::vector<ConvertLoss> losses;
    const std::string tensor = absl::StrCat(item->source->path(), ": tensor ", Quoted(item->from->name));
    if (const absl::Status status = item->source->CheckReadable(*item->from); !status.ok()) {
      losses.push_back({Kind::kNotReadable, item->from->name, std::string(status.message())});
      return losses;
    }
    if (!IsHeld(*item) && !target_.StoresAsRawBytes(item->dtype)) {
      losses.push_back({Kind::kDType, item->from->name,
                        absl::StrCat(tensor, " is ", DTypeName(item->dtype), ", which ", target_.name_with_article(),
                                     " file cannot hold")});
      return losses;
    }
    item->keep_metadata = item->from->has_metadata && KeepsMetadata(*item);
    if (absl::Status held = CheckTensor(*item); !held.ok()) {
      losses.push_back(NotHeld(*item, held));
      return losses;
    }
    if (IsComplex(item->from->dtype) && !IsComplex(item->dtype)) {
      losses.push_back({Kind::kImaginary, item->from->name,
                        absl::StrCat(tensor, " is ", DTypeName(item->from->dtype), "; as ", DTypeName(item->dtype),
                                     " it has no imaginary parts")});
    }
    if (!IsHeld(*item)) {
      losses.push_back({Kind::kDTypeName, item->from->name,
                        absl::StrCat(tensor, " is ", DTypeName(item->dtype), "; ", target_.name_with_article(),
                                     " file can hold its elements, but not the name of this dtype")});
    }
    if (item->has_strides() && !traits_.strides) {
      losses.push_back({Kind::kStrides, item->from->name,
                        absl::StrCat(tensor, " has the strides [", absl::StrJoin(item->from->strides, ","), "]; ",
                                     target_.name_with_article(), " file holds only row-major tensors")});
      item->keep_strides = false;
    }
    if (item->from->has_metadata && !item->keep_metadata) {
      losses.push_back(
          {Kind::kMetadata, item->from->name,
           absl::StrCat(tensor, " has metadata, which ", target_.name_with_article(), " file cannot hold")});
    }
    if (const std::string name = SecondName(*item); !name.empty()) {
      losses.push_back({Kind::kMetadata, item->from->name,
                        absl::StrCat(tensor, " has another name in its metadata, ", Quoted(name), "; ",
                                     target_.name_with_article(), " file holds one name")});
      item->drop_name = true;
    }
    return losses;
  }

  ConvertLoss NotHeld(const ConversionItem& item, const absl::Status& reason) const {
    return {ConvertLoss::Kind::kTensor, item.from->name,
            absl::StrCat(item.source->path(), ": tensor ", Quoted(item.from->name), ": ", reason.message(), "; ",
                         target_.name_with_article(), " file cannot hold that")};
  }

  // As Losses, for graphs, whose elements are new.
  absl::Status CheckNewContents() {
    if (!traits_.padded_strings) return absl::OkStatus();
    std::vector<ConversionItem>& items = plan_.items;
    for (size_t i = 0; i < items.size();) {
      const absl::Status held =
          items[i].content.has_value() ? target_.CheckStrings(*items[i].content) : absl::OkStatus();
      if (held.ok()) {
        ++i;
        continue;
      }
      if (!options_.allow_loss) return Refuse({NotHeld(items[i], held)});
      plan_.losses.push_back(NotHeld(items[i], held));
      items.erase(items.begin() + static_cast<std::ptrdiff_t>(i));
    }
    return absl::OkStatus();
  }

  absl::Status ChooseValues() {
    if (!traits_.nested || sources_.size() != 1) return absl::OkStatus();
    const ArchiveReader& source = *sources_[0];
    CASK_ASSIGN_OR_RETURN(archive::TargetValues chosen,
                          archive::ValuesForTarget(source, target_, plan_.items, options_));
    std::vector<ConvertLoss> losses;
    for (const auto& [name, reason] : chosen.refused) {
      losses.push_back({ConvertLoss::Kind::kValue, "",
                        absl::StrCat(source.path(), ": value ", Quoted(name), ": ", reason.message())});
    }
    if (!losses.empty() && !options_.allow_loss) return Refuse(losses, "leaves these values out");
    plan_.losses.insert(plan_.losses.end(), losses.begin(), losses.end());
    plan_.nested = std::move(chosen.values);
    return absl::OkStatus();
  }

  bool KeepsMetadata(const ConversionItem& item) const {
    if (traits_.metadata) return true;
    // The scale is that of the integers.
    if (IsQuantized(item.from->dtype) && item.dtype != item.from->dtype) return false;
    const absl::StatusOr<TensorMetadata> metadata = item.source->Metadata(item.from->name);
    return metadata.ok() && target_.HoldsMetadata(*metadata);
  }

  // The name in the metadata that the target cannot hold beside that of the tensor; else "".
  std::string SecondName(const ConversionItem& item) const {
    if (!traits_.one_name || !item.keep_metadata) return "";
    const absl::StatusOr<TensorMetadata> metadata = item.source->Metadata(item.from->name);
    return metadata.ok() && metadata->name != item.name() ? metadata->name : "";
  }

  // The rules of the target besides those for dtypes.
  absl::Status CheckTensor(const ConversionItem& item) const {
    CASK_RETURN_IF_ERROR(target_.CheckEntry(item.to()));
    if (item.dtype != DType::kString || !traits_.padded_strings) return absl::OkStatus();
    const absl::StatusOr<Tensor> strings = item.source->Read(item.from->name);
    return strings.ok() ? target_.CheckStrings(*strings) : absl::OkStatus();  // RunConversion reports damage
  }

  void NoteAcrossKinds(const ConversionItem& item) {
    const DType from = item.from->dtype;
    const DType to = item.dtype;
    if (from == to || !MayChangeValues(from, to) || IsComplex(from)) return;
    plan_.losses.push_back({ConvertLoss::Kind::kAcrossKinds, item.from->name,
                            absl::StrCat(item.source->path(), ": tensor ", Quoted(item.from->name), " is ",
                                         DTypeName(from), " and becomes ", DTypeName(to), ": its values may change")});
  }

  void NoteUntied(const ConversionItem& item, const ConversionItem& other) {
    const std::string why = traits_.aliases
                                ? absl::StrCat("one is ", DTypeName(item.dtype), ", the other ", DTypeName(other.dtype))
                                : absl::StrCat(target_.name_with_article(), " file has no second names");
    plan_.losses.push_back(
        {ConvertLoss::Kind::kUntied, item.from->name,
         absl::StrCat(item.source->path(), ": tensor ", Quoted(item.from->name), " shares the elements of ",
                      Quoted(other.from->name), " and becomes a copy: ", why)});
  }

  static bool IsWholeTensor(const std::vector<ConvertLoss>& losses) {
    using Kind = ConvertLoss::Kind;
    return !losses.empty() &&
           (losses[0].kind == Kind::kNotReadable || losses[0].kind == Kind::kDType || losses[0].kind == Kind::kTensor);
  }

  static absl::Status Refuse(const std::vector<ConvertLoss>& losses) {
    return Refuse(losses, IsWholeTensor(losses) ? "leaves the tensor out" : "converts without that");
  }
  static absl::Status Refuse(const std::vector<ConvertLoss>& losses, absl::string_view hint) {
    return absl::InvalidArgumentError(absl::StrCat(
        absl::StrJoin(losses, "; ",
                      [](std::string* out, const ConvertLoss& loss) { absl::StrAppend(out, loss.message); }),
        kAllowLossHint, hint));
  }

  absl::Status AddFileMetadata(const ArchiveReader& source) {
    if (traits_.file_metadata) return MergeFileMetadata(source);
    if (!options_.set_metadata.empty()) {
      return absl::InvalidArgumentError(absl::StrCat("the metadata ", Quoted(options_.set_metadata.begin()->first),
                                                     " is to be set, which ", target_.name_with_article(),
                                                     " file cannot hold"));
    }
    std::vector<absl::string_view> keys;
    for (const auto& [key, value] : source.file_metadata()) {
      if (key != "format" && options_.unset_metadata.count(key) == 0) keys.push_back(key);
    }
    if (keys.empty()) return absl::OkStatus();
    const std::vector<ConvertLoss> losses = {
        {ConvertLoss::Kind::kFileMetadata, "",
         absl::StrCat(source.path(), ": the file has metadata (", archive::ListedKeys(keys), "), which ",
                      target_.name_with_article(), " file cannot hold")}};
    if (!options_.allow_loss) return Refuse(losses);
    plan_.losses.push_back(losses[0]);
    return absl::OkStatus();
  }

  // Errors: as MergeFileMetadata, of values that are no metadata.
  absl::Status AddValues(const ArchiveReader& source) {
    if (!traits_.values) return absl::OkStatus();
    CASK_ASSIGN_OR_RETURN(std::vector<FileValue> values, archive::HeldValues(source, target_, options_.unset_metadata));
    for (FileValue& value : values) {
      const auto [first, is_new] = value_numbers_.emplace(value.name, plan_.values.size());
      if (is_new) {
        plan_.values.push_back(std::move(value));
        continue;
      }
      if (source.file_metadata().count(value.name) != 0) continue;  // compared as text
      CASK_ASSIGN_OR_RETURN(const std::string json, ValueToJson(value.value()));
      CASK_ASSIGN_OR_RETURN(const std::string first_json, ValueToJson(plan_.values[first->second].value()));
      if (json == first_json) continue;
      const std::vector<ConvertLoss> losses = {
          {ConvertLoss::Kind::kFileMetadata, "",
           absl::StrCat(source.path(), ": the value ", Quoted(value.name), " differs from that of an earlier file")}};
      if (!options_.allow_loss) return Refuse(losses, "keeps the first");
      plan_.losses.push_back(losses[0]);
    }
    return absl::OkStatus();
  }

  // Errors: InvalidArgument for a key that another source has with another value, unless the options decide.
  absl::Status MergeFileMetadata(const ArchiveReader& source) {
    for (const auto& [key, value] : source.file_metadata()) {
      if (options_.unset_metadata.count(key) != 0 || options_.set_metadata.count(key) != 0) continue;
      const auto [first, is_new] = plan_.file_metadata.emplace(key, value);
      if (is_new || first->second == value) continue;
      const auto other = std::find_if(sources_.begin(), sources_.end(), [k = &key](const ArchiveReader* earlier) {
        return earlier->file_metadata().count(*k) != 0;
      });
      const std::vector<ConvertLoss> losses = {
          {ConvertLoss::Kind::kFileMetadata, "",
           absl::StrCat(source.path(), ": the metadata ", Quoted(key), " is ", Quoted(value), "; that of ",
                        (*other)->path(), ", ", Quoted(first->second), ", comes first")}};
      if (!options_.allow_loss) return Refuse(losses, "keeps the first, ConvertOptions::set_metadata sets the value");
      plan_.losses.push_back(losses[0]);
    }
    return absl::OkStatus();
  }

  // An alias stays one if the target has aliases and its tensor comes along, in the same dtype. The first alias of a
  // tensor that does not come along takes its place.
  void ResolveAliases() {
    const auto is_alias = [](const ConversionItem& item) { return !item.alias_of.empty(); };
    if (std::none_of(plan_.items.begin(), plan_.items.end(), is_alias)) return;
    absl::flat_hash_map<std::pair<const ArchiveReader*, absl::string_view>, const ConversionItem*> stored;
    for (const ConversionItem& item : plan_.items) {
      if (item.alias_of.empty()) stored[{item.source, item.from->name}] = &item;
    }
    for (ConversionItem& item : plan_.items) {
      if (item.alias_of.empty()) continue;
      const auto [tied, is_first] = stored.emplace(std::make_pair(item.source, item.from->alias_of), &item);
      const ConversionItem& other = *tied->second;
      const bool stays = traits_.aliases && other.dtype == item.dtype;
      item.alias_of = is_first || !stays ? "" : other.name();
      if (!is_first && !stays) NoteUntied(item, other);
    }
  }

  const ArchiveFormat& target_;
  const ArchiveTraits traits_;
  const ConvertOptions& options_;
  ConversionPlan plan_;
  std::vector<const ArchiveReader*> sources_;
  std::vector<std::vector<ConvertLoss>> not_held_;          // of each tensor of which the target lacks something
  absl::flat_hash_map<std::string, size_t> value_numbers_;  // of plan_.values
};

absl::Status MetadataLost(const absl::Status& status) {
  return AppendToMessage(status, absl::StrCat(kAllowLossHint, "leaves out metadata that cannot be read"));
}

absl::StatusOr<DecodedTensor> ReadAsStored(const ArchiveReader& reader, const ArchiveEntry& entry, bool allow_loss) {
  absl::StatusOr<DecodedTensor> tensor = reader.ReadWithMetadata(entry.name);
  if (tensor.ok() || !entry.has_metadata) return tensor;
  absl::StatusOr<DecodedTensor> readable = reader.ReadIgnoringBadMetadata(entry.name);
  if (!readable.ok()) return tensor;  // the elements cannot be read either
  if (allow_loss) return readable;
  return MetadataLost(tensor.status());
}

class Runner {
 public:
  Runner(const ConversionPlan& plan, const ConvertOptions& options, ArchiveWriter* writer)
      : plan_(plan), options_(options), writer_(writer) {}

  absl::StatusOr<ConvertReport> Run() {
    for (const ConversionItem& item : plan_.items) CASK_RETURN_IF_ERROR(writer_->Declare(item.to()));
    CASK_ASSIGN_OR_RETURN(const ReplacedFiles replaced, writer_->Start());
    std::vector<std::vector<std::string>> read;
    for (const ArchiveReader* const source : plan_.sources) read.push_back(source->files());
    CASK_RETURN_IF_ERROR(CheckSourcesStay(replaced, read, plan_.file_system));
    if (options_.planned) options_.planned(plan_, replaced);
    report_.losses = plan_.losses;
    report_.notes = replaced.notes;
    for (const ArchiveReader* const source : plan_.sources) {
      if (plan_.nested != nullptr) continue;
      CASK_ASSIGN_OR_RETURN(std::string note, archive::NoteNotCopied(*source, *plan_.target));
      if (!note.empty()) report_.notes.push_back(std::move(note));
    }
    if (options_.dry_run) {
      report_.removed = replaced.removed;
      return report_;
    }
    ReadPlan reads;
    for (const ConversionItem& item : plan_.items) {
      if (item.alias_of.empty() && !item.content.has_value()) item.source->PlanRead(*item.from, &reads);
    }
    reads.Start();
    // The order of declarations is the order of the file: see SelectEntries.
    archive::ReadAhead ahead(
        plan_.items.size(), kReadAheadBytes,
        [this](size_t i, archive::ReadAhead::Emit emit) { return Read(plan_.items[i], emit); },
        [this](size_t i) { return copies_in_blocks(plan_.items[i]); });
    CASK_RETURN_IF_ERROR(ahead.Run(options_.num_threads, [this](size_t i, archive::ReadPiece piece) {
      return Write(plan_.items[i], std::move(piece));
    }));
    CASK_RETURN_IF_ERROR(Progress());
    CASK_RETURN_IF_ERROR(writer_->Finish());
    report_.tensors = static_cast<int64_t>(plan_.items.size());
    report_.file_bytes = writer_->file_bytes();
    report_.removed = writer_->removed_files();
    return report_;
  }

 private:
  bool copies_in_blocks(const ConversionItem& item) const {
    return item.alias_of.empty() && ElementBytes(*item.from) > options_.block_bytes && !item.has_strides() &&
           item.from->reads_in_blocks && writer_->writes_in_blocks(item.to());
  }

  absl::Status Read(const ConversionItem& item, archive::ReadAhead::Emit emit) const {
    if (!item.alias_of.empty()) return absl::OkStatus();
    if (copies_in_blocks(item)) return ReadInBlocks(item, emit);
    archive::ReadPiece piece;
    piece.bytes = ElementBytes(*item.from);
    if (item.content.has_value()) {
      piece.tensor.view = *item.content;
    } else if (item.has_strides()) {
      CASK_ASSIGN_OR_RETURN(piece.tensor, ReadAsStored(*item.source, *item.from, options_.allow_loss));
    } else if (item.keep_metadata) {
      CASK_ASSIGN_OR_RETURN(piece.tensor, ReadForCopy(*item.source, *item.from, options_.allow_loss));
    } else {
      CASK_ASSIGN_OR_RETURN(piece.tensor.view, item.source->Read(item.from->name));
    }
    if (item.dtype != item.from->dtype) {
      CASK_ASSIGN_OR_RETURN(piece.tensor.view, ConvertTo(piece.tensor.view, item.dtype));
    }
    if (item.drop_name) piece.tensor.metadata.name.clear();
    return emit(std::move(piece));
  }

  absl::Status ReadInBlocks(const ConversionItem& item, archive::ReadAhead::Emit emit) const {
    TensorMetadata metadata;
    if (item.keep_metadata) {
      absl::StatusOr<TensorMetadata> read = item.source->Metadata(item.from->name);
      if (!read.ok() && !options_.allow_loss) return MetadataLost(read.status());
      if (read.ok()) metadata = *std::move(read);
      if (item.drop_name) metadata.name.clear();
    }
    CASK_ASSIGN_OR_RETURN(const std::unique_ptr<TensorBlocks> blocks,
                          item.source->ReadBlocks(*item.from, options_.block_bytes));
    while (true) {
      CASK_ASSIGN_OR_RETURN(std::optional<TensorBlock> block, blocks->Next());
      if (!block.has_value()) return absl::OkStatus();
      archive::ReadPiece piece;
      piece.is_block = true;
      piece.slice = block->slice;
      piece.tensor.metadata = metadata;
      piece.bytes = static_cast<uint64_t>(block->elements.num_elements()) * block->elements.element_size();
      piece.tensor.view = std::move(block->elements);
      if (item.dtype != item.from->dtype) {
        CASK_ASSIGN_OR_RETURN(piece.tensor.view, ConvertTo(piece.tensor.view, item.dtype));
      }
      CASK_RETURN_IF_ERROR(emit(std::move(piece)));
    }
  }

  absl::Status Write(const ConversionItem& item, archive::ReadPiece piece) {
    CASK_RETURN_IF_ERROR(Progress());
    if (piece.is_block) {
      CASK_RETURN_IF_ERROR(writer_->AddSlice(item.to(), piece.tensor.metadata, piece.slice, piece.tensor.view));
    } else {
      CASK_RETURN_IF_ERROR(writer_->Add(item.to(), piece.tensor));
    }
    read_bytes_ = CheckedAdd(read_bytes_, piece.bytes).value_or(UINT64_MAX);
    const TensorView& written = piece.tensor.view;
    const bool is_converted = item.dtype != item.from->dtype;
    const uint64_t bytes =
        is_converted ? static_cast<uint64_t>(written.num_elements()) * written.element_size() : piece.bytes;
    report_.bytes = CheckedAdd(report_.bytes, bytes).value_or(UINT64_MAX);
    if (last_ != &item) ++report_.tensors;
    last_ = &item;
    return absl::OkStatus();
  }

  absl::Status Progress() const {
    if (!options_.progress || options_.progress(report_.tensors, read_bytes_)) return absl::OkStatus();
    return absl::CancelledError("the conversion was cancelled");
  }

  const ConversionPlan& plan_;
  const ConvertOptions& options_;
  ArchiveWriter* const writer_;
  ConvertReport report_;
  uint64_t read_bytes_ = 0;
  const ConversionItem* last_ = nullptr;  // that was added, or a block of it
};

// Data files up to the last that is used. An overwriting save may add an empty one, and then must not add one to that.
int NumUsedShards(const ConversionPlan& plan) {
  int num_shards = 1;
  for (const ConversionItem& item : plan.items)
    num_shards = std::max(num_shards, (item.keep_shard ? item.from->shard.value_or(0) : 0) + 1);
  return num_shards;
}

}  // namespace

ArchiveEntry ConversionItem::to() const {
  ArchiveEntry entry = *from;
  entry.name = name();
  entry.alias_of = alias_of;
  entry.dtype = dtype;
  entry.has_metadata = keep_metadata;
  if (!keep_encoding) entry.encoding = "plain";
  if (!keep_strides) entry.strides.clear();
  if (!keep_shard) entry.shard.reset();
  return entry;
}

absl::StatusOr<ConversionPlan> PlanConversion(absl::Span<const ArchiveReader* const> sources,
                                              const ArchiveFormat& target, const ConvertOptions& options,
                                              const NewFile& file) {
  Planner planner(target, options);
  const bool keep_shards = sources.size() == 1;
  for (const ArchiveReader* const source : sources) CASK_RETURN_IF_ERROR(planner.AddSource(*source, keep_shards));
  CASK_ASSIGN_OR_RETURN(ConversionPlan plan, planner.Finish(file));
  plan.sources.assign(sources.begin(), sources.end());
  if (keep_shards) plan.num_shards = sources[0]->num_shards();
  return plan;
}

absl::StatusOr<ConvertReport> RunConversion(const ConversionPlan& plan, const ConvertOptions& options,
                                            ArchiveWriter* writer) {
  return Runner(plan, options, writer).Run();
}

absl::StatusOr<ConvertReport> ConvertArchives(absl::Span<const ArchiveReader* const> sources, const std::string& path,
                                              const ArchiveFormat& target, const ConvertOptions& options,
                                              const ArchiveWriterOptions& write) {
  if (!target.traits().is_written) return target.Create(path, write).status();
  CASK_ASSIGN_OR_RETURN(ConversionPlan plan, PlanConversion(sources, target, options, {path, write.file_system}));
  const bool had_tensors = std::any_of(sources.begin(), sources.end(),
                                       [](const ArchiveReader* source) { return !source->entries().empty(); });
  if (plan.items.empty() && had_tensors) {
    if (options.planned) options.planned(plan, ReplacedFiles());
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": ", target.name_with_article(), " file can hold none of the tensors; nothing is written"));
  }
  if (!target.traits().many_tensors && plan.items.size() != 1) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", target.name_with_article(),
                                                   " file holds exactly one tensor, ", plan.items.size(), " remain"));
  }
  ArchiveWriterOptions planned = write;
  planned.file_metadata = std::move(plan.file_metadata);
  planned.values = std::move(plan.values);
  planned.nested = plan.nested;
  // A file of the same format is the one that the new file is made of.
  const bool has_base = sources.size() == 1 && sources[0]->format() == target.name();
  if (has_base) planned.source_path = sources[0]->base_path();
  planned.store_opaquely = plan.store_opaquely;
  planned.num_shards = write.overwrite ? NumUsedShards(plan) : plan.num_shards;
  if (planned.num_shards > 1 || write.level > PayloadLevel::kStored) {
    planned.num_threads = std::max(write.num_threads, options.num_threads);
  }
  DryFileSystem dry(write.file_system);
  if (options.dry_run) planned.file_system = &dry;
  CASK_ASSIGN_OR_RETURN(const std::unique_ptr<ArchiveWriter> writer, target.Create(path, planned));
  planned.file_metadata.clear();
  planned.values.clear();
  return RunConversion(plan, options, writer.get());
}

absl::StatusOr<DecodedTensor> ReadForCopy(const ArchiveReader& reader, const ArchiveEntry& entry, bool allow_loss) {
  CASK_ASSIGN_OR_RETURN(DecodedTensor tensor, ReadAsStored(reader, entry, allow_loss));
  if (reader.strides_only_permute()) {
    CASK_ASSIGN_OR_RETURN(tensor.view, tensor.view.Contiguous());
  }
  return tensor;
}

bool MatchesAny(const std::vector<std::string>& globs, const std::string& name) {
  return std::any_of(globs.begin(), globs.end(), [&](const std::string& glob) { return MatchesGlob(glob, name); });
}

std::vector<const ArchiveEntry*> SelectEntries(const std::vector<ArchiveEntry>& entries,
                                               const std::vector<std::string>& include,
                                               const std::vector<std::string>& exclude) {
  const std::vector<std::string> included = archive::NamesFirst(include, entries);
  const std::vector<std::string> excluded = archive::NamesFirst(exclude, entries);
  std::vector<const ArchiveEntry*> selected;
  for (const ArchiveEntry& entry : entries) {
    if (!included.empty() && !MatchesAny(included, entry.name)) continue;
    if (!MatchesAny(excluded, entry.name)) selected.push_back(&entry);
  }
  std::stable_sort(selected.begin(), selected.end(), [](const ArchiveEntry* a, const ArchiveEntry* b) {
    // A tensor without bytes is at the offset of the next one: it was stored first.
    const bool a_has_bytes = a->stored_bytes > 0;
    const bool b_has_bytes = b->stored_bytes > 0;
    return std::tie(a->shard, a->offset, a_has_bytes) < std::tie(b->shard, b->offset, b_has_bytes);
  });
  return selected;
}

absl::StatusOr<std::vector<const ArchiveEntry*>> SelectEntries(const ArchiveReader& source,
                                                               const std::vector<std::string>& include,
                                                               const std::vector<std::string>& exclude,
                                                               bool exclude_slots) {
  std::vector<const ArchiveEntry*> selected = SelectEntries(source.entries(), include, exclude);
  if (!exclude_slots) return selected;
  CASK_ASSIGN_OR_RETURN(const std::vector<std::string> slots, source.OptimizerSlots());
  const auto is_slot = [&](const ArchiveEntry* entry) {
    return std::binary_search(slots.begin(), slots.end(), entry->name);
  };
  selected.erase(std::remove_if(selected.begin(), selected.end(), is_slot), selected.end());
  return selected;
}

}  // namespace tensorcask
