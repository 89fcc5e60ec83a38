// tensorcask show PATH NAME: the values of one tensor, as NumPy prints them.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/archive/tensor_blocks.h"
#include "tensorcask/serialize/values/value.h"
#include "tensorcask/serialize/values/value_json.h"
#include "tensorcask/serialize/values/value_path.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/summary.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tools/slice_text.h"
#include "tensorcask/tools/subcommand.h"

namespace tensorcask::tools {
namespace {

struct ShowFlags {
  std::string path;
  std::string name;
  std::string slice;
  InputOptions input;
  int64_t max_entries = 3;
};

// The elements that are printed, as a smaller tensor that prints as the whole one does: along each axis the first and
// the last `max` ones, and one between them, for which "..." stands. Reads the tensor in blocks, so that a large one
// need not fit in memory. Requires: elements of a fixed size; max >= 0.
absl::StatusOr<Tensor> ReadShown(const ArchiveReader& input, const ArchiveEntry& entry, int64_t max) {
  constexpr uint64_t kBlockBytes = uint64_t{1} << 20;
  const int rank = entry.shape.rank();
  DimVector dims;
  for (const int64_t dim : entry.shape.dims()) dims.push_back(dim - 1 > 2 * max ? 2 * max + 1 : dim);
  CASK_ASSIGN_OR_RETURN(const TensorShape shape, TensorShape::Create(dims));
  CASK_ASSIGN_OR_RETURN(Tensor shown, Tensor::Create(entry.dtype, shape));
  CASK_RETURN_IF_ERROR(shown.EnsureMutable());
  const size_t size = ElementSize(entry.dtype);
  char* to = shown.mutable_bytes().data();
  DimVector index(rank);
  // Where the element of `index` is in the whole tensor, row-major.
  const auto place = [&] {
    int64_t flat = 0;
    for (int axis = 0; axis < rank; ++axis) {
      const int64_t behind = index[axis] > max ? entry.shape.dim(axis) - dims[axis] : 0;
      flat = flat * entry.shape.dim(axis) + index[axis] + behind;
    }
    return flat;
  };
  CASK_ASSIGN_OR_RETURN(const std::unique_ptr<TensorBlocks> blocks, input.ReadBlocks(entry, kBlockBytes));
  int64_t left = shape.num_elements();
  for (int64_t begin = 0;;) {
    CASK_ASSIGN_OR_RETURN(const std::optional<TensorBlock> block, blocks->Next());
    if (!block.has_value()) return shown;
    const int64_t end = begin + block->elements.num_elements();
    for (; left > 0 && place() < end; --left, to += size) {
      std::memcpy(to, block->elements.bytes().data() + (place() - begin) * size, size);
      for (int axis = rank; axis-- > 0 && ++index[axis] == dims[axis];) index[axis] = 0;
    }
    begin = end;
  }
}

// Prints the value that the path `name` leads to, as JSON, or else the metadata of this name beside the values. False:
// there is none.
absl::StatusOr<bool> ShowValue(const ArchiveReader& input, const std::string& name, Console& console) {
  CASK_ASSIGN_OR_RETURN(const ValueTree values, input.Values());
  const ValueTree metadata = input.MetadataBesideValues();
  std::string in_array;
  absl::StatusOr<Value> value = FindValue(values.root(), name, &in_array);
  if (!value.ok() && !metadata.empty()) value = FindValue(metadata.root(), name);
  if (!value.ok()) return false;
  ValueTree array;
  if (value->kind() == ValueKind::kFileArray) {
    CASK_ASSIGN_OR_RETURN(array, input.ReadFileArray(value->file_array()));
    value = FindValue(array.root(), in_array);
    if (!value.ok()) return Annotate(value.status(), Printable(name));
  }
  ValueJsonOptions options;
  options.tensor_name = [&](uint64_t number) { return input.entries()[number].name; };
  CASK_ASSIGN_OR_RETURN(const std::string json, ValueToJson(*value, options));
  console.out << json << '\n';
  return true;
}

absl::StatusOr<ExitCode> Show(const ShowFlags& flags, bool has_name, bool has_slice, Console& console) {
  if (has_slice) CASK_RETURN_IF_ERROR(CheckSliceText(flags.slice));
  CASK_ASSIGN_OR_RETURN(const std::unique_ptr<ArchiveReader> input, OpenInput(flags.path, flags.input));
  NoteOverlooked("show", *input, console);
  if (!has_name && input->entries().size() != 1) {
    return Misuse(absl::StrCat("NAME is required: ", flags.path, " has ", TensorCount(input->entries().size()),
                               "; see tensorcask ls"));
  }
  const std::string name = has_name ? ExactName(*input, flags.name) : input->entries()[0].name;
  constexpr uint64_t kLargeBytes = uint64_t{8} << 20;
  if (has_name && !has_slice && !flags.name.empty() && !input->Find(name).ok()) {
    CASK_ASSIGN_OR_RETURN(const bool is_value, ShowValue(*input, flags.name, console));
    if (is_value) return kDone;
  }
  CASK_ASSIGN_OR_RETURN(const ArchiveEntry* const entry, input->Find(name));
  constexpr int64_t kMostShown = 1000;
  const bool in_blocks = flags.max_entries >= 0 && flags.max_entries <= kMostShown &&
                         ElementBytes(*entry) > kLargeBytes && entry->reads_in_blocks;
  TensorSlice slice;
  if (has_slice) {
    const bool has_parts = absl::IsFailedPrecondition(entry->read_status);
    if (!has_parts) CASK_RETURN_IF_ERROR(input->CheckReadable(*entry));
    CASK_ASSIGN_OR_RETURN(slice, ParseSliceText(flags.slice, entry->shape));
  }
  CASK_ASSIGN_OR_RETURN(const Tensor tensor, has_slice   ? input->ReadSlice(name, slice)
                                             : in_blocks ? ReadShown(*input, *entry, flags.max_entries)
                                                         : input->Read(name));
  SummaryOptions options;
  options.max_entries = flags.max_entries;
  options.multiline = true;
  const TensorShape& shape = has_slice ? tensor.shape() : entry->shape;
  console.out << DTypeName(tensor.dtype()) << ' ' << shape.ToString() << '\n'
              << SummarizeValue(tensor, options) << '\n';
  return kDone;
}

}  // namespace

Action DeclareShow(CLI::App& app) {
  auto flags = std::make_shared<ShowFlags>();
  app.add_option("PATH", flags->path, "A checkpoint's prefix or .index, or another file")->required();
  const CLI::Option* const name =
      app.add_option("NAME", flags->name,
                     "The name of the tensor, or of another value of the file; may be left out if PATH has only one");
  const CLI::Option* const slice =
      app.add_option("--slice", flags->slice,
                     "Only this part: 0:2,: as in Python, or for each axis '-' or START,LENGTH, separated by ':'")
          ->type_name("SPEC");
  app.add_option_function<std::string>(
         "--max",
         [flags](const std::string& text) {
           if (!absl::SimpleAtoi(text, &flags->max_entries)) flags->max_entries = -1;  // all
         },
         "Entries shown at each end of an axis, or all (default 3)")
      ->check([](const std::string& text) { return text == "all" ? "" : CheckNumber(text, 0, INT64_MAX); })
      ->type_name("N");
  AddInputOptions(app, &flags->input);
  app.footer(
      "Prints the dtype and shape, then the values. With --slice only the bytes of that part are read; of "
      "compressed tensors the chunks that have it; of records, messages and deflated arrays all bytes. The "
      "checksum of the whole tensor is then not verified (`tensorcask verify` does that); those of chunks are. "
      "If NAME is no tensor but another value, such as optimizer.param_groups[0].lr of a PyTorch file or a key of "
      "the metadata, prints that as JSON; '.' is all values.\n\n"
      "Examples (rows 0 to 9, all columns):\n"
      "  tensorcask show --slice 0:10,: model.ckpt dense/kernel\n"
      "  tensorcask show --slice 0,10:- model.ckpt dense/kernel");
  return
      [flags, name, slice](Console& console) { return Show(*flags, name->count() > 0, slice->count() > 0, console); };
}

}  // namespace tensorcask::tools
