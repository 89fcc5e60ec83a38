#include "tensorcask/serialize/gguf/internal/open_parts.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tensorcask/serialize/gguf/internal/value_types.h"
#include "tensorcask/serialize/io/content_hint.h"
#include "tensorcask/serialize/io/piece_buffer.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"

namespace tensorcask::gguf {
namespace {

// What the keys of a part say of the whole model.
struct Split {
  uint64_t number = 0;              // the number of this part, from 0
  uint64_t count = 1;               // the number of parts
  std::optional<uint64_t> tensors;  // the number of tensors in all parts
};

struct SplitKey {
  absl::string_view name;
  ValueKind kind;
  int bits;
};
constexpr SplitKey kNumberKey = {"split.no", ValueKind::kUint, 16};
constexpr SplitKey kCountKey = {"split.count", ValueKind::kUint, 16};
constexpr SplitKey kTensorsKey = {kTensorCountKey, ValueKind::kInt, 32};

bool IsOfOnePart(const HeaderKey& key) {
  return key.is_padding || key.name == kNumberKey.name || key.name == kAlignmentKey;
}

absl::StatusOr<std::optional<uint64_t>> NumberOf(const Header& header, const ValueTree& tree, const SplitKey& wanted) {
  for (const HeaderKey& key : header.keys) {
    if (key.name != wanted.name) continue;
    const Value value = tree.value(key.value);
    const bool is_signed = wanted.kind == ValueKind::kInt;
    if (value.kind() != wanted.kind || value.bits() != wanted.bits) {
      return absl::DataLossError(
          absl::StrCat(wanted.name, " is not of the type ", is_signed ? "int" : "uint", wanted.bits));
    }
    if (is_signed && value.int_value() < 0) {
      return absl::DataLossError(absl::StrCat(wanted.name, " is ", value.int_value()));
    }
    return std::optional<uint64_t>(is_signed ? static_cast<uint64_t>(value.int_value()) : value.uint_value());
  }
  return std::optional<uint64_t>();
}

absl::StatusOr<Split> SplitOf(const Header& header, const ValueTree& tree) {
  Split split;
  CASK_ASSIGN_OR_RETURN(const std::optional<uint64_t> number, NumberOf(header, tree, kNumberKey));
  CASK_ASSIGN_OR_RETURN(const std::optional<uint64_t> count, NumberOf(header, tree, kCountKey));
  CASK_ASSIGN_OR_RETURN(split.tensors, NumberOf(header, tree, kTensorsKey));
  split.count = count.value_or(1);
  split.number = number.value_or(0);
  if (split.number >= split.count) {
    return absl::DataLossError(absl::StrCat("is part ", split.number + 1, " of a model of ", split.count, " parts"));
  }
  return split;
}

absl::StatusOr<Part> OpenPart(std::shared_ptr<const ByteSource> file, const OpenOptions& options,
                              const HeaderMemory& memory) {
  HeaderMemory of_part = memory;
  of_part.counted_bytes = 0;
  absl::StatusOr<Header> header = ParseHeader(*file, options.limits, &of_part);
  if (!header.ok()) return ExplainContent(Annotate(header.status(), file->name()), *file, "gguf");
  return Part{std::move(file), *std::move(header)};
}

// Whether two keys have the same type and value.
absl::StatusOr<bool> AreEqual(const ByteSource& file_a, const HeaderKey& a, const ByteSource& file_b,
                              const HeaderKey& b) {
  constexpr size_t kPieceBytes = size_t{64} << 10;
  if (a.stored_bytes != b.stored_bytes) return false;
  PieceBuffer piece_a(a.stored_bytes, kPieceBytes);
  PieceBuffer piece_b(a.stored_bytes, kPieceBytes);
  for (uint64_t done = 0; done < a.stored_bytes;) {
    const auto size = static_cast<size_t>(std::min<uint64_t>(piece_a.size(), a.stored_bytes - done));
    CASK_RETURN_IF_ERROR(file_a.ReadAt(a.offset + done, absl::MakeSpan(piece_a.data(), size)));
    CASK_RETURN_IF_ERROR(file_b.ReadAt(b.offset + done, absl::MakeSpan(piece_b.data(), size)));
    if (!std::equal(piece_a.data(), piece_a.data() + size, piece_b.data())) return false;
    done += size;
  }
  return true;
}

// The keys of the model.
class ModelKeys {
 public:
  explicit ModelKeys(const Part& first) : first_(first) {
    for (const HeaderKey& key : first.header.keys) keys_.emplace(key.name, &key);
  }

  // Errors: DataLoss for a key that the first part lacks, or has with another value.
  absl::Status Compare(const Part& part) const {
    if (part.header.big_endian != first_.header.big_endian || part.header.version != first_.header.version) {
      return absl::DataLossError(
          absl::StrCat("has another version or byte order than the first part, ", first_.file->name()));
    }
    for (const HeaderKey& key : part.header.keys) {
      if (IsOfOnePart(key)) continue;
      const auto found = keys_.find(key.name);
      bool is_equal = found != keys_.end();
      if (is_equal) {
        CASK_ASSIGN_OR_RETURN(is_equal, AreEqual(*first_.file, *found->second, *part.file, key));
      }
      if (!is_equal) {
        return absl::DataLossError(absl::StrCat("key ", Quoted(key.name), " is not as in the first part, ",
                                                first_.file->name(), ", which has the keys of the model"));
      }
    }
    return absl::OkStatus();
  }

 private:
  const Part& first_;
  absl::flat_hash_map<absl::string_view, const HeaderKey*> keys_;
};

// Errors: DataLoss for a tensor that two parts have, or a sum that differs from the one that is stored.
absl::Status CompareTensors(const std::vector<Part>& parts, const Split& split) {
  absl::flat_hash_map<absl::string_view, const Part*> names;
  uint64_t count = 0;
  for (const Part& part : parts) {
    count += part.header.tensors.size();
    if (parts.size() == 1) continue;  // ParseHeader has compared them
    for (const HeaderTensor& tensor : part.header.tensors) {
      const auto [at, is_new] = names.emplace(tensor.name, &part);
      if (!is_new) {
        return absl::DataLossError(absl::StrCat(part.file->name(), ": tensor ", Quoted(tensor.name), " is in the part ",
                                                at->second->file->name(), ", too"));
      }
    }
  }
  if (split.tensors && *split.tensors != count) {
    return absl::DataLossError(absl::StrCat(parts[0].file->name(), ": ", kTensorsKey.name, " is ", *split.tensors,
                                            "; the ", parts.size(), " parts have ", count, " tensors"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Model> Finish(Model model, const Split& split) {
  CASK_RETURN_IF_ERROR(CompareTensors(model.parts, split));
  std::vector<std::pair<ValueTree::Id, ValueTree::Id>> entries;
  for (const HeaderKey& key : model.parts[0].header.keys) {
    entries.emplace_back(model.values.AddText(key.name), key.value);
  }
  model.values.AddMap(entries);
  for (const Part& part : model.parts) {
    for (const std::string& note : part.header.notes) {
      model.notes.push_back(absl::StrCat(part.file->name(), ": ", note));
    }
  }
  return model;
}

// The parts of the model of which `file` is one. The parts but the first have no values of their own, so the values of
// the model are those of the first; what is read of the others is dropped.
absl::StatusOr<Model> OpenAll(std::shared_ptr<const ByteSource> file, const std::string* path,
                              const OpenOptions& options) {
  ValueTree values;
  CASK_ASSIGN_OR_RETURN(Part named, OpenPart(std::move(file), options, {&values, options.budget}));
  const std::string name = named.file->name();
  CASK_ASSIGN_OR_ANNOTATE(const Split split, SplitOf(named.header, values), name);
  Model model;
  if (split.count == 1) {
    model.values = std::move(values);
    model.parts.push_back(std::move(named));
    return Finish(std::move(model), split);
  }
  const std::string end = EndOfName(split.number, split.count);
  if (path == nullptr || !absl::EndsWith(*path, end)) {
    return absl::FailedPreconditionError(absl::StrCat(name, ": is part ", split.number + 1, " of ", split.count,
                                                      " of a model; the others are found only if its name ends in ",
                                                      end));
  }
  const std::string prefix = path->substr(0, path->size() - end.size());
  for (uint64_t number = 0; number < split.count; ++number) {
    const std::string part_path = absl::StrCat(prefix, EndOfName(number, split.count));
    absl::StatusOr<std::shared_ptr<const ByteSource>> opened = OpenFileSource(part_path, options.read);
    if (!opened.ok()) {
      return AppendToMessage(
          opened.status(), absl::StrCat("; it is part ", number + 1, " of ", split.count, " of the model of ", *path));
    }
    ValueTree of_part;
    ValueTree* const tree = number == 0 ? &model.values : &of_part;
    CASK_ASSIGN_OR_RETURN(Part part, OpenPart(*std::move(opened), options, {tree, options.budget}));
    CASK_ASSIGN_OR_ANNOTATE(const Split says, SplitOf(part.header, *tree), part_path);
    if (says.number != number || says.count != split.count || says.tensors != split.tensors) {
      return absl::DataLossError(absl::StrCat(part_path, ": is part ", says.number + 1, " of ", says.count, " with ",
                                              says.tensors.value_or(0), " tensors in all; wanted part ", number + 1,
                                              " of ", split.count, " with ", split.tensors.value_or(0)));
    }
    model.parts.push_back(std::move(part));
  }
  const ModelKeys keys(model.parts[0]);
  for (size_t i = 1; i < model.parts.size(); ++i) {
    CASK_RETURN_IF_ERROR(Annotate(keys.Compare(model.parts[i]), model.parts[i].file->name()));
  }
  return Finish(std::move(model), split);
}

}  // namespace

std::string EndOfName(uint64_t number, uint64_t count) {
  return absl::StrFormat("-%05d-of-%05d.gguf", number + 1, count);
}

absl::StatusOr<Model> OpenModel(const std::string& path, const OpenOptions& options) {
  CASK_ASSIGN_OR_RETURN(std::shared_ptr<const ByteSource> file, OpenFileSource(path, options.read));
  return OpenAll(std::move(file), &path, options);
}

absl::StatusOr<Model> OpenModel(std::shared_ptr<const ByteSource> file, const OpenOptions& options) {
  return OpenAll(std::move(file), nullptr, options);
}

}  // namespace tensorcask::gguf
