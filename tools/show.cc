// tensorcask show PATH NAME: the values of one tensor, as NumPy prints them.

#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/summary.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tools/slice_text.h"
#include "tensorcask/tools/subcommand.h"

namespace tensorcask::tools {
namespace {

struct Flags {
  std::string path;
  std::string name;
  std::string slice;
  InputOptions input;
  int64_t max_entries = 3;
};

absl::StatusOr<ExitCode> Show(const Flags& flags, bool has_name, bool has_slice, Console& console) {
  if (has_slice) CASK_RETURN_IF_ERROR(CheckSliceText(flags.slice));
  CASK_ASSIGN_OR_RETURN(const std::unique_ptr<ArchiveReader> input, OpenInput(flags.path, flags.input));
  NoteOverlooked("show", *input, console);
  if (!has_name && input->entries().size() != 1) {
    return Misuse(absl::StrCat("NAME is required: ", flags.path, " has ", TensorCount(input->entries().size()),
                               "; see tensorcask ls"));
  }
  const std::string name = has_name ? ExactName(*input, flags.name) : input->entries()[0].name;
  TensorSlice slice;
  if (has_slice) {
    CASK_ASSIGN_OR_RETURN(const ArchiveEntry* const entry, input->Find(name));
    CASK_ASSIGN_OR_RETURN(slice, ParseSliceText(flags.slice, entry->shape));
  }
  CASK_ASSIGN_OR_RETURN(const Tensor tensor, has_slice ? input->ReadSlice(name, slice) : input->Read(name));
  SummaryOptions options;
  options.max_entries = flags.max_entries;
  options.multiline = true;
  console.out << DTypeName(tensor.dtype()) << ' ' << tensor.shape().ToString() << '\n'
              << SummarizeValue(tensor, options) << '\n';
  return kDone;
}

}  // namespace

Action DeclareShow(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  app.add_option("PATH", flags->path, "A checkpoint's prefix or .index, or another file")->required();
  const CLI::Option* const name =
      app.add_option("NAME", flags->name, "The name of the tensor; may be left out if PATH has only one");
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
      "Prints the dtype and shape, then the values. With --slice only the bytes of that part are read (of records, "
      "messages and compressed tensors: all). The "
      "checksum of the whole tensor is then not verified (`tensorcask verify` does that); those of chunks are.\n\n"
      "Examples (rows 0 to 9, all columns):\n"
      "  tensorcask show --slice 0:10,: model.ckpt dense/kernel\n"
      "  tensorcask show --slice 0,10:- model.ckpt dense/kernel");
  return
      [flags, name, slice](Console& console) { return Show(*flags, name->count() > 0, slice->count() > 0, console); };
}

}  // namespace tensorcask::tools
