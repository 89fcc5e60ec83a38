#include "tensorcask/serialize/onnx/edit_model.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/byte_sink.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/io/publication.h"
#include "tensorcask/serialize/onnx/internal/model_walk.h"
#include "tensorcask/serialize/onnx/internal/name_walk.h"
#include "tensorcask/serialize/onnx/internal/new_message.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/base/utf8.h"

namespace tensorcask::onnx {
namespace {

class ModelEditor {
 public:
  ModelEditor(const FileEdits& edits, const FileEditOptions& options) : edits_(edits), options_(options) {}

  absl::StatusOr<FileEditResult> Run(const std::string& path) {
    ReadOptions read;
    read.file_system = options_.file_system;
    CASK_ASSIGN_OR_RETURN(file_, OpenFileSource(path, read));
    CASK_ANNOTATE_IF_ERROR(Plan(), path);
    FileEditResult result;
    result.notes = std::move(found_.notes);
    result.files.push_back(options_.output.empty() ? path : options_.output);
    for (const Splice& splice : changes_.splices) result.written_bytes += splice.text.size();
    result.written_bytes += added_.size();
    result.copied_bytes = changes_.size_bytes + added_.size() - result.written_bytes;
    if (!options_.dry_run) CASK_RETURN_IF_ERROR(Write(path, result.files[0]));
    return result;
  }

 private:
  using Scoped = std::pair<int, std::string>;  // a name in a scope

  absl::Status Plan() {
    // What has fields of no known message may be a model with new ones: the walk says what is wrong.
    const MessageKind kind = LookAtMessage(*file_);
    if (kind != MessageKind::kModel && kind != MessageKind::kUnknown) {
      return absl::UnimplementedError(
          "is not an ONNX model, but a tensor or a sequence in a file of its own, which is not edited; convert it");
    }
    WalkOptions walk;
    walk.limits = options_.limits;
    walk.other_side_files = true;
    CASK_ASSIGN_OR_RETURN(found_, FindTensors(*file_, MessageKind::kModel, walk));
    CASK_RETURN_IF_ERROR(CheckFolder());
    CASK_RETURN_IF_ERROR(CheckMetadata());
    CASK_RETURN_IF_ERROR(FindTargets());
    CASK_RETURN_IF_ERROR(FindScopes());
    return MakeChanges();
  }

  // A location is relative to the folder of the model.
  absl::Status CheckFolder() const {
    if (options_.output.empty() || FolderOf(options_.output) == FolderOf(file_->name())) return absl::OkStatus();
    for (const FoundTensor& tensor : found_.tensors) {
      if (!tensor.message.is_beside) continue;
      return absl::FailedPreconditionError(absl::StrCat("the elements of ", Quoted(tensor.name()),
                                                        " are in a file beside it: the result belongs in the same "
                                                        "folder; convert joins or moves such files"));
    }
    if (found_.other_side_files.empty()) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat("the elements of an attribute are in the file ",
                                                      Quoted(found_.other_side_files[0]),
                                                      " beside it: the result belongs in the same folder"));
  }

  absl::Status CheckMetadata() const {
    const auto check = [](absl::string_view key, absl::string_view value) -> absl::Status {
      const absl::string_view why = IsFieldKey(key) ? "is a field of the model, and none of its metadata_props"
                                    : internal::IsUtf8(key) && internal::IsUtf8(value) ? ""
                                                                                       : "is not UTF-8";
      return why.empty() ? absl::OkStatus()
                         : absl::InvalidArgumentError(absl::StrCat("metadata ", Quoted(key), " ", why));
    };
    for (const auto& [key, value] : edits_.set_metadata) CASK_RETURN_IF_ERROR(check(key, value));
    for (const std::string& key : edits_.unset_metadata) CASK_RETURN_IF_ERROR(check(key, ""));
    return absl::OkStatus();
  }

  // Finds the messages of the initializers that are renamed or removed.
  absl::Status FindTargets() {
    absl::flat_hash_map<absl::string_view, const FoundTensor*> tensors;
    for (const FoundTensor& tensor : found_.tensors) tensors.emplace(tensor.name(), &tensor);
    const auto locate = [&](const std::string& name) -> absl::StatusOr<const FoundTensor*> {
      const auto found = tensors.find(name);
      if (found == tensors.end()) return absl::NotFoundError("is not there");
      const FoundTensor& tensor = *found->second;
      if (!tensor.part_of.empty()) {
        return absl::FailedPreconditionError(
            absl::StrCat("is a part of the sparse tensor ", Quoted(tensor.part_of), ", whose name stays"));
      }
      if (tensor.message.name != name) {
        return absl::FailedPreconditionError(absl::StrCat("is called ", Quoted(tensor.message.name),
                                                          " in its graph, as a tensor of another graph is: it stays"));
      }
      return &tensor;
    };
    for (const auto& [from, to] : edits_.renames) {
      absl::StatusOr<const FoundTensor*> tensor = locate(from);
      if (tensor.ok() && to.empty()) tensor = absl::InvalidArgumentError("a new name is empty");
      if (tensor.ok() && !internal::IsUtf8(to)) tensor = absl::InvalidArgumentError("a new name is not UTF-8");
      if (!tensor.ok()) return Annotate(tensor.status(), absl::StrCat("tensor ", Quoted(from)));
      renamed_[(*tensor)->message.begin] = &to;
      names_.insert(from);
      new_names_.insert(to);
      names_.insert(to);
    }
    for (const std::string& name : edits_.removed) {
      CASK_ASSIGN_OR_ANNOTATE(const FoundTensor* const tensor, locate(name), absl::StrCat("tensor ", Quoted(name)));
      removed_.insert(tensor->message.begin);
      names_.insert(name);
    }
    return absl::OkStatus();
  }

  // Finds in which scopes names of interest are defined, and whose the targets are.
  absl::Status FindScopes() {
    const auto name = [&](const NameUse& use, const std::string& text) -> absl::StatusOr<std::optional<std::string>> {
      using Kind = NameUse::Kind;
      const bool defines =
          use.kind == Kind::kInitializer || use.kind == Kind::kNodeOutput || use.kind == Kind::kGraphInput;
      if (!defines || !names_.contains(text)) return std::nullopt;
      defined_.insert({use.scope, text});
      if (use.kind != Kind::kInitializer) return std::nullopt;
      if (const auto renamed = renamed_.find(use.message); renamed != renamed_.end()) {
        new_name_of_[{use.scope, text}] = renamed->second;
        ++num_placed_;
      }
      if (removed_.contains(use.message)) {
        removed_names_.insert({use.scope, text});
        ++num_placed_;
      }
      return std::nullopt;
    };
    const auto keep_all = [](uint64_t /*message*/) { return false; };
    const auto keep = [](const std::string& /*key*/) -> absl::StatusOr<std::optional<std::string>> {
      return std::nullopt;
    };
    CASK_ASSIGN_OR_RETURN(const NameEdits scopes, WalkNames(*file_, options_.limits, {name, keep_all, keep}));
    parents_ = scopes.parents;
    if (num_placed_ == renamed_.size() + removed_.size()) return absl::OkStatus();
    return absl::FailedPreconditionError("an initializer to rename or remove is in a function, which stays as it is");
  }

  // The scope whose value `name` means in `scope`; -1: none that defines it.
  int ScopeOf(int scope, const std::string& name) const {
    while (scope >= 0 && defined_.count({scope, name}) == 0) scope = parents_[static_cast<size_t>(scope)];
    return scope;
  }

  absl::Status MakeChanges() {
    const auto name = [&](const NameUse& use, const std::string& text) -> absl::StatusOr<std::optional<std::string>> {
      if (!names_.contains(text)) return std::nullopt;
      const Scoped value = {ScopeOf(use.scope, text), text};
      if (removed_names_.count(value) != 0 && use.kind != NameUse::Kind::kValueInfo) {
        return absl::FailedPreconditionError(absl::StrCat(
            "tensor ", Quoted(text), " is not removed: ", UserOf(use.kind), " at byte ", use.position, " uses it"));
      }
      if (const auto renamed = new_name_of_.find(value); renamed != new_name_of_.end()) return *renamed->second;
      if (!new_names_.contains(text) || removed_names_.count(value) != 0) return std::nullopt;
      return absl::AlreadyExistsError(absl::StrCat("another value of the model is called ", Quoted(text), ", at byte ",
                                                   use.position, "; choose another new name"));
    };
    const auto is_removed = [&](uint64_t message) { return removed_.contains(message); };
    std::set<std::string> seen;
    const auto metadata = [&](const std::string& key) -> absl::StatusOr<std::optional<std::string>> {
      const auto set = edits_.set_metadata.find(key);
      const bool is_set = set != edits_.set_metadata.end();
      if (!is_set && edits_.unset_metadata.count(key) == 0) return std::nullopt;
      if (!is_set || !seen.insert(key).second) return "";  // a second entry of one key goes, too
      return MetadataEntry(key, set->second);
    };
    CASK_ASSIGN_OR_RETURN(changes_, WalkNames(*file_, options_.limits, {name, is_removed, metadata}));
    for (const auto& [key, value] : edits_.set_metadata) {
      if (seen.count(key) == 0) AppendMetadata(key, value, &added_);
    }
    const uint64_t bytes = changes_.size_bytes + added_.size();
    if (bytes <= kMostModelBytes || file_->size_bytes() > kMostModelBytes) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("the file would have ", bytes, " bytes; programs of ONNX read less than ", kMostModelBytes + 1));
  }

  static absl::string_view UserOf(NameUse::Kind kind) {
    switch (kind) {
      case NameUse::Kind::kNodeInput:
      case NameUse::Kind::kNodeOutput:
        return "a node";
      case NameUse::Kind::kGraphInput:
        return "the list of inputs of its graph";
      case NameUse::Kind::kGraphOutput:
        return "the list of outputs of its graph";
      case NameUse::Kind::kInitializer:
      case NameUse::Kind::kValueInfo:
      case NameUse::Kind::kOther:
        break;
    }
    return "an annotation";
  }

  absl::Status Write(const std::string& path, const std::string& output) const {
    Publication publish({options_.file_system, options_.sync, /*overwrite=*/options_.output.empty()});
    publish.KeepPermissionsOf(path);
    publish.ReplaceOnly(file_);
    CASK_ASSIGN_OR_RETURN(FileSink* const sink, publish.Add(output));
    PacedSink paced(sink, &options_.progress);
    uint64_t done = 0;
    for (const Splice& splice : changes_.splices) {
      if (splice.begin > done) CASK_RETURN_IF_ERROR(paced.AppendFrom(*file_, done, splice.begin - done));
      CASK_RETURN_IF_ERROR(paced.Append(splice.text));
      done = splice.end;
    }
    if (file_->size_bytes() > done) CASK_RETURN_IF_ERROR(paced.AppendFrom(*file_, done, file_->size_bytes() - done));
    CASK_RETURN_IF_ERROR(paced.Append(added_));
    return publish.Commit();
  }

  const FileEdits& edits_;
  const FileEditOptions& options_;
  std::shared_ptr<const ByteSource> file_;
  FoundTensors found_;
  absl::flat_hash_map<uint64_t, const std::string*> renamed_;  // the beginning of a TensorProto, and the new name
  absl::flat_hash_set<uint64_t> removed_;                      // likewise
  absl::flat_hash_set<std::string> names_;                     // old and new ones: all others stay
  absl::flat_hash_set<std::string> new_names_;
  std::vector<int> parents_;  // the parents of the scopes
  std::set<Scoped> defined_;  // names of interest
  std::map<Scoped, const std::string*> new_name_of_;
  std::set<Scoped> removed_names_;
  size_t num_placed_ = 0;  // targets that are in a scope
  NameEdits changes_;
  std::string added_;  // fields of the model, after all others
};

}  // namespace

absl::StatusOr<FileEditResult> EditModel(const std::string& path, const FileEdits& edits,
                                         const FileEditOptions& options) {
  return ModelEditor(edits, options).Run(path);
}

}  // namespace tensorcask::onnx
