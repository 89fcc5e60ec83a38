#include "tensorcask/serialize/archive/convert_archives.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tensorcask/serialize/archive/chosen_names.h"
#include "tensorcask/serialize/archive/internal/conversion_losses.h"
#include "tensorcask/serialize/archive/internal/graph_items.h"
#include "tensorcask/serialize/archive/internal/metadata_keys.h"
#include "tensorcask/serialize/archive/internal/planned_values.h"
#include "tensorcask/serialize/archive/internal/target_values.h"
#include "tensorcask/serialize/archive/internal/value_table.h"
#include "tensorcask/serialize/io/damage_mark.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/serialize/values/value.h"
#include "tensorcask/serialize/values/value_json.h"
#include "tensorcask/serialize/values/value_text.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/glob.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/dtype.h"

namespace tensorcask {
namespace {

absl::StatusOr<bool> AreEqual(const FileValue& a, const FileValue& b) {
  if (a.array_bytes != nullptr && b.array_bytes != nullptr) {
    const FileArray& in_a = a.value().file_array();
    const FileArray& in_b = b.value().file_array();
    return in_a.kind == in_b.kind && in_a.bits == in_b.bits && *a.array_bytes == *b.array_bytes;
  }
  CASK_ASSIGN_OR_RETURN(const std::string json_of_a, ValueToJson(a.value()));
  CASK_ASSIGN_OR_RETURN(const std::string json_of_b, ValueToJson(b.value()));
  return json_of_a == json_of_b;
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
    return traits_.file_metadata ? AddValues(source) : absl::OkStatus();
  }

  absl::StatusOr<ConversionPlan> Finish(const NewFile& file) {
    CASK_RETURN_IF_ERROR(CheckAllHeld());
    CASK_RETURN_IF_ERROR(CheckNamesDiffer());
    CASK_RETURN_IF_ERROR(CheckUnset());
    CASK_RETURN_IF_ERROR(ResolveAliases());
    CASK_RETURN_IF_ERROR(archive::UpdateGraphs(target_, &plan_.items));
    CASK_RETURN_IF_ERROR(CheckNewContents());
    CASK_RETURN_IF_ERROR(CheckOpaque());
    CASK_RETURN_IF_ERROR(ChooseValues());
    for (const FileValue& value : plan_.values) plan_.file_metadata.erase(value.name);
    CASK_RETURN_IF_ERROR(CheckMetadata(file));
    for (const auto& [key, value] : options_.set_metadata) plan_.file_metadata[key] = value;
    if (!traits_.values) archive::AddValueTable(table_, &plan_.file_metadata);
    NoteNotCopied();
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
    std::vector<ConvertLoss> losses = archive::TensorLosses(target_, &item);
    if (!losses.empty() && !options_.allow_loss) {
      const absl::Status readable = source.CheckReadable(entry);
      if (!readable.ok()) return MarkDamageOf(readable, archive::RefuseLosses(losses));
      not_held_.push_back(std::move(losses));
      return absl::OkStatus();
    }
    plan_.losses.insert(plan_.losses.end(), losses.begin(), losses.end());
    if (archive::IsWholeTensor(losses)) return absl::OkStatus();
    if (std::optional<ConvertLoss> change = archive::ValuesMayChange(item)) plan_.losses.push_back(*std::move(change));
    if (item.name().empty() && !traits_.empty_names) {
      return absl::InvalidArgumentError(absl::StrCat(source.path(), ": tensor ", Quoted(item.from->name),
                                                     ": its name is empty, which ", target_.name_with_article(),
                                                     " file cannot hold; rename it"));
    }
    plan_.store_opaquely = plan_.store_opaquely || !archive::IsHeld(target_, item);
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
    const bool is_whole = std::all_of(not_held_.begin(), not_held_.end(), archive::IsWholeTensor);
    absl::string_view hint = not_held_.size() == 1 ? "leaves the tensor out" : "leaves these tensors out";
    if (!is_whole) hint = "converts without that";
    const absl::Status refused = archive::RefuseLosses(listed, hint);
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
      CASK_ASSIGN_OR_RETURN(const archive::SourceValues found, archive::ValuesOf(*source, target_));
      for (const archive::SourceValue& value : found.values) keys.insert(value.name);
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
    CASK_ASSIGN_OR_RETURN(std::vector<MetadataNotHeld> not_held, target_.CheckMetadata(metadata));
    if (!traits_.values && plan_.file_metadata.count(archive::kValueTableKey) != 0) {
      not_held.push_back(
          {archive::kValueTableKey, absl::InvalidArgumentError("this name is reserved for the types of the metadata")});
    }
    std::vector<ConvertLoss> losses;
    for (const MetadataNotHeld& one : not_held) {
      const bool is_set = options_.set_metadata.count(one.key) != 0;
      if (is_set || options_.unset_metadata.count(one.key) != 0) {
        return absl::InvalidArgumentError(absl::StrCat("cannot ", is_set ? "set" : "unset", " the metadata ",
                                                       Quoted(one.key), ": ", one.why.message()));
      }
      plan_.file_metadata.erase(one.key);
      if (one.why.ok() || IsTextOfValue(one.key)) continue;
      losses.push_back({ConvertLoss::Kind::kFileMetadata, "",
                        absl::StrCat(PathWith(one.key), ": the metadata ", Quoted(one.key), ": ", one.why.message(),
                                     "; ", target_.name_with_article(), " file cannot hold that")});
    }
    if (!losses.empty() && !options_.allow_loss) return archive::RefuseLosses(losses);
    plan_.losses.insert(plan_.losses.end(), losses.begin(), losses.end());
    return absl::OkStatus();
  }

  // Notes a text that was not metadata before. That the target does not hold it is not a loss.
  bool IsTextOfValue(const std::string& key) {
    const auto line = table_.find(key);
    if (line == table_.end() || !line->second.is_value) return false;
    NotCopied left_out{first_with_.at(key), 1, false, {key}};
    for (NotCopied& other : not_copied_) {
      if (other.source != left_out.source) continue;
      ++other.count;
      if (other.names.size() < kMaxNamed) other.names.push_back(key);
      return true;
    }
    not_copied_.push_back(std::move(left_out));
    return true;
  }

  // The path of the first source that has this metadata.
  absl::string_view PathWith(const std::string& key) const {
    const auto first = first_with_.find(key);
    return first == first_with_.end() ? "" : absl::string_view(first->second->path());
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

  // As TensorLosses, for graphs, whose elements are new.
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
      if (!options_.allow_loss) return archive::RefuseLosses({archive::TensorNotHeld(target_, items[i], held)});
      plan_.losses.push_back(archive::TensorNotHeld(target_, items[i], held));
      items.erase(items.begin() + static_cast<std::ptrdiff_t>(i));
    }
    return absl::OkStatus();
  }

  absl::Status ChooseValues() {
    if (!traits_.nested || sources_.size() != 1) return absl::OkStatus();
    const ArchiveReader& source = *sources_[0];
    if (!among_tensors_ && PlaceTypedValues()) return absl::OkStatus();
    CASK_ASSIGN_OR_RETURN(archive::TargetValues chosen,
                          archive::ValuesForTarget(source, target_, plan_.items, options_));
    std::vector<ConvertLoss> losses;
    for (const auto& [name, reason] : chosen.refused) {
      losses.push_back({ConvertLoss::Kind::kValue, "",
                        absl::StrCat(source.path(), ": value ", Quoted(name), ": ", reason.message())});
    }
    if (!losses.empty() && !options_.allow_loss) return archive::RefuseLosses(losses, "leaves these values out");
    plan_.losses.insert(plan_.losses.end(), losses.begin(), losses.end());
    plan_.nested = std::move(chosen.values);
    return absl::OkStatus();
  }

  // Values whose texts are metadata of the source, such as safetensors, become entries of the object again, unless a
  // tensor has the name. False: there are none.
  bool PlaceTypedValues() {
    absl::flat_hash_set<absl::string_view> tensors;
    for (const ConversionItem& item : plan_.items) tensors.insert(item.name());
    auto values = std::make_shared<ArchiveValues>();
    std::vector<std::pair<ValueTree::Id, ValueTree::Id>> entries;
    for (const auto& [name, typed] : table_) {
      const auto text = plan_.file_metadata.find(name);
      if (!typed.is_value || text == plan_.file_metadata.end() || tensors.contains(name)) continue;
      const std::optional<ValueTree::Id> value = AddValueOfText(text->second, typed.type, &values->tree);
      if (!value.has_value()) continue;
      entries.emplace_back(values->tree.AddText(name), *value);
      plan_.file_metadata.erase(text);
    }
    if (entries.empty()) return false;
    values->tree.AddMap(entries);
    plan_.nested = std::move(values);
    return true;
  }

  absl::Status AddFileMetadata(const ArchiveReader& source) {
    if (traits_.file_metadata) return MergeFileMetadata(source);
    if (!options_.set_metadata.empty()) {
      return absl::InvalidArgumentError(absl::StrCat("the metadata ", Quoted(options_.set_metadata.begin()->first),
                                                     " is to be set, which ", target_.name_with_article(),
                                                     " file cannot hold"));
    }
    std::vector<absl::string_view> keys;
    const archive::ValueTable values = archive::ReadValueTable(source);
    for (const auto& [key, value] : source.file_metadata()) {
      const auto line = values.find(key);
      if (line != values.end() && line->second.is_value) continue;  // no metadata before, and noted
      if (archive::IsFrameworkNote(key, value) || archive::IsValueTable(source, key)) continue;
      if (options_.unset_metadata.count(key) == 0) keys.push_back(key);
    }
    if (keys.empty()) return absl::OkStatus();
    const std::vector<ConvertLoss> losses = {
        {ConvertLoss::Kind::kFileMetadata, "",
         absl::StrCat(source.path(), ": the file has metadata (", archive::ListedKeys(keys), "), which ",
                      target_.name_with_article(), " file cannot hold")}};
    if (!options_.allow_loss) return archive::RefuseLosses(losses);
    plan_.losses.push_back(losses[0]);
    return absl::OkStatus();
  }

  // What the target gets of the values: values (ArchiveTraits::values), or texts with a line in table_. Errors: those
  // of MergeFileMetadata.
  absl::Status AddValues(const ArchiveReader& source) {
    CASK_ASSIGN_OR_RETURN(const archive::SourceValues found, archive::ValuesOf(source, target_));
    const std::vector<std::string> include = archive::NamesFirst(options_.include, source.entries());
    const std::vector<std::string> exclude = archive::NamesFirst(options_.exclude, source.entries());
    const archive::ValueTable of_source = archive::ReadValueTable(source);
    const auto prefix = options_.prefixes.find(&source);
    NotCopied left_out{&source, found.num_more, found.are_many, {}};
    among_tensors_ = among_tensors_ || found.among_tensors;
    for (const archive::SourceValue& value : found.values) {
      // The tree with the tensors in it goes along as one, if at all (ChooseValues).
      if (traits_.nested && !value.is_metadata) continue;
      if (options_.unset_metadata.count(value.name) != 0) continue;
      if (value.is_metadata && IsNoteOfOther(source, value)) continue;
      const bool is_chosen = value.is_metadata ||
                             ((include.empty() || MatchesAny(include, value.name)) && !MatchesAny(exclude, value.name));
      if (!is_chosen) continue;
      const auto line = of_source.find(value.name);
      const bool is_value = value.is_metadata ? line != of_source.end() && line->second.is_value : found.among_tensors;
      const std::string name = value.is_metadata || prefix == options_.prefixes.end()
                                   ? value.name
                                   : absl::StrCat(prefix->second, value.name);
      if (value.value().kind() == ValueKind::kObject) {
        opaque_.push_back({ConvertLoss::Kind::kValue, "",
                           absl::StrCat(source.path(), ": value ", Quoted(value.name), " is an object of the class ",
                                        Quoted(value.value().class_name()), ", which ", target_.name_with_article(),
                                        " file cannot hold")});
        continue;
      }
      CASK_ASSIGN_OR_RETURN(const bool is_held,
                            traits_.values ? KeepValue(source, value, name) : KeepText(source, value, name, is_value));
      if (is_held || value.is_metadata) continue;
      ++left_out.count;
      if (left_out.names.size() < kMaxNamed) left_out.names.push_back(value.name);
    }
    if (!traits_.nested && (left_out.count > 0 || left_out.are_many)) not_copied_.push_back(std::move(left_out));
    return absl::OkStatus();
  }

  // The note of a framework stays a text, which the target then leaves out (CheckMetadata).
  bool IsNoteOfOther(const ArchiveReader& source, const archive::SourceValue& from) const {
    return traits_.values && source.format() != target_.name() && from.value().kind() == ValueKind::kText &&
           archive::IsFrameworkNote(from.name, from.value().text());
  }

  // False: the target has no type for the value.
  absl::StatusOr<bool> KeepValue(const ArchiveReader& source, const archive::SourceValue& from,
                                 const std::string& name) {
    if (!target_.HoldsValue(name, from.value())) return false;
    FileValue value{name, from.tree, from.id};
    if (from.value().kind() == ValueKind::kFileArray) {
      CASK_ASSIGN_OR_RETURN(std::string bytes, source.ReadFileArrayBytes(from.value().file_array()));
      value.array_bytes = std::make_shared<const std::string>(std::move(bytes));
    }
    const auto [first, is_new] = value_numbers_.emplace(name, plan_.values.size());
    if (is_new) {
      plan_.values.push_back(std::move(value));
      return true;
    }
    if (from.is_metadata) return true;  // compared as text
    CASK_ASSIGN_OR_RETURN(const bool are_equal, AreEqual(value, plan_.values[first->second]));
    if (are_equal) return true;
    const std::vector<ConvertLoss> losses = {
        {ConvertLoss::Kind::kFileMetadata, "",
         absl::StrCat(source.path(), ": the value ", Quoted(name), " differs from that of an earlier file")}};
    if (!options_.allow_loss) return archive::RefuseLosses(losses, "keeps the first");
    plan_.losses.push_back(losses[0]);
    return true;
  }

  // False: the value has no text.
  absl::StatusOr<bool> KeepText(const ArchiveReader& source, const archive::SourceValue& from, const std::string& name,
                                bool is_value) {
    const std::optional<std::string> text = ValueText(from.value());
    if (!text.has_value()) return false;
    if (from.is_metadata && !is_value && from.value().kind() == ValueKind::kText) return true;  // as it is
    if (!from.is_metadata) CASK_RETURN_IF_ERROR(MergeEntry(source, name, *text));
    table_.emplace(name, archive::TypedText{is_value, ValueTextType(from.value())});
    return true;
  }

  // Errors: InvalidArgument, naming objects of classes that no format can hold.
  absl::Status CheckOpaque() {
    if (opaque_.empty()) return absl::OkStatus();
    if (!options_.allow_loss) return archive::RefuseLosses(opaque_, "leaves these values out");
    plan_.losses.insert(plan_.losses.end(), opaque_.begin(), opaque_.end());
    return absl::OkStatus();
  }

  void NoteNotCopied() {
    for (const NotCopied& of : not_copied_) {
      plan_.notes.push_back(archive::ValuesNotCopied(of.source->path(), of.count, of.are_many, of.names));
    }
  }

  // Errors: InvalidArgument for a key that another source has with another value, unless the options decide.
  absl::Status MergeFileMetadata(const ArchiveReader& source) {
    for (const auto& [key, value] : source.file_metadata()) {
      if (archive::IsValueTable(source, key) || options_.unset_metadata.count(key) != 0) continue;
      CASK_RETURN_IF_ERROR(MergeEntry(source, key, value));
    }
    return absl::OkStatus();
  }

  absl::Status MergeEntry(const ArchiveReader& source, const std::string& key, const std::string& value) {
    if (options_.set_metadata.count(key) != 0) return absl::OkStatus();
    const auto [first, is_new] = plan_.file_metadata.emplace(key, value);
    if (is_new) first_with_.emplace(key, &source);
    if (is_new || first->second == value) return absl::OkStatus();
    const std::vector<ConvertLoss> losses = {
        {ConvertLoss::Kind::kFileMetadata, "",
         absl::StrCat(source.path(), ": the metadata ", Quoted(key), " is ", Quoted(value), "; that of ",
                      first_with_.at(key)->path(), ", ", Quoted(first->second), ", comes first")}};
    if (!options_.allow_loss)
      return archive::RefuseLosses(losses, "keeps the first, ConvertOptions::set_metadata sets the value");
    plan_.losses.push_back(losses[0]);
    return absl::OkStatus();
  }

  // An alias stays one if the target has aliases and its tensor comes along, in the same dtype. The first alias of a
  // tensor that does not come along takes its place.
  // A tied tensor that becomes a copy takes its whole size again, for a name of a few bytes.
  absl::Status ResolveAliases() {
    const auto is_alias = [](const ConversionItem& item) { return !item.alias_of.empty(); };
    if (std::none_of(plan_.items.begin(), plan_.items.end(), is_alias)) return absl::OkStatus();
    uint64_t stored_bytes = 0;
    uint64_t copied_bytes = 0;
    absl::flat_hash_map<std::pair<const ArchiveReader*, absl::string_view>, const ConversionItem*> stored;
    for (const ConversionItem& item : plan_.items) {
      if (!item.alias_of.empty()) continue;
      stored[{item.source, item.from->name}] = &item;
      stored_bytes = CheckedAdd(stored_bytes, ElementBytes(*item.from)).value_or(UINT64_MAX);
    }
    for (ConversionItem& item : plan_.items) {
      if (item.alias_of.empty()) continue;
      const auto [tied, is_first] = stored.emplace(std::make_pair(item.source, item.from->alias_of), &item);
      const ConversionItem& other = *tied->second;
      const bool stays = traits_.aliases && other.dtype == item.dtype;
      item.alias_of = is_first || !stays ? "" : other.name();
      uint64_t& bytes = is_first ? stored_bytes : copied_bytes;
      if (item.alias_of.empty()) bytes = CheckedAdd(bytes, ElementBytes(*item.from)).value_or(UINT64_MAX);
      if (!is_first && !stays) plan_.losses.push_back(archive::Untied(target_, item, other));
    }
    const auto most = static_cast<uint64_t>(DecodeLimits().max_expansion);
    if (copied_bytes <= CheckedMul(stored_bytes, most).value_or(UINT64_MAX)) return absl::OkStatus();
    return absl::ResourceExhaustedError(absl::StrCat(
        "tied tensors would become copies of ", copied_bytes, " bytes, more than ", most, " for each of the ",
        stored_bytes, " bytes that they share; leave names out, or write a format ", "that keeps ties"));
  }

  // Values of a source for which the target has neither a type nor text.
  struct NotCopied {
    const ArchiveReader* source;
    uint64_t count;
    bool are_many;                   // and more
    std::vector<std::string> names;  // the names of the first values
  };
  static constexpr size_t kMaxNamed = 5;  // one more than a sentence has

  const ArchiveFormat& target_;
  const ArchiveTraits traits_;
  const ConvertOptions& options_;
  ConversionPlan plan_;
  std::vector<const ArchiveReader*> sources_;
  std::vector<std::vector<ConvertLoss>> not_held_;  // the losses of each tensor of which the target lacks something
  absl::flat_hash_map<std::string, size_t> value_numbers_;  // positions in plan_.values
  absl::flat_hash_map<std::string, const ArchiveReader*>
      first_with_;                   // the first source that has each of plan_.file_metadata
  archive::ValueTable table_;        // the values among plan_.file_metadata
  std::vector<ConvertLoss> opaque_;  // values that are objects of classes
  std::vector<NotCopied> not_copied_;
  bool among_tensors_ = false;  // tensors of a source are in its values
};

}  // namespace

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

}  // namespace tensorcask
