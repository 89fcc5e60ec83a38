// tensorcask cat PATH [GLOB...]: tensors as a record stream on stdout.

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/archive/convert_archives.h"
#include "tensorcask/serialize/archive/record_stream.h"
#include "tensorcask/serialize/io/byte_stream.h"
#include "tensorcask/serialize/payload/payload_options.h"
#include "tensorcask/serialize/wire/records.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tools/subcommand.h"

namespace tensorcask::tools {
namespace {

struct CatFlags {
  std::string path;
  std::vector<std::string> include;
  std::vector<std::string> exclude;
  InputOptions input;
  bool allow_loss = false;
};

absl::StatusOr<ExitCode> Cat(const CatFlags& flags, Console& console) {
  if (isatty(STDOUT_FILENO) == 1) return Misuse("stdout is a terminal; records are binary: use a pipe or a file");
  CASK_ASSIGN_OR_RETURN(const std::unique_ptr<ArchiveReader> input, OpenInput(flags.path, flags.input));
  NoteOverlooked("cat", *input, console);
  CASK_RETURN_IF_ERROR(CheckMatched(flags.include, {input.get()}));
  NoteAllUnmatched("cat", "--exclude ", flags.exclude, input->entries(), console);
  CASK_ASSIGN_OR_RETURN(const std::vector<const ArchiveEntry*> selected,
                        SelectReadable("cat", *input, flags.include, flags.exclude, flags.allow_loss, console));
  NoteLeftOut("cat", *input, console);
  CatchInterrupts();
  DescriptorSink sink(STDOUT_FILENO, "stdout", [] { return !Interrupted(); });
  RecordWriter writer(&sink);
  ProgressLine progress(console, ElementBytes(selected));
  uint64_t bytes = 0;
  for (size_t i = 0; i < selected.size(); ++i) {
    const ArchiveEntry& info = *selected[i];
    if (Interrupted()) return InterruptedExitCode();  // without Finish the stream ends inside a record
    CASK_ASSIGN_OR_RETURN(std::optional<DecodedTensor> tensor,
                          ReadUnlessLost("cat", *input, info, flags.allow_loss, console));
    if (!tensor.has_value()) continue;
    if (flags.allow_loss) tensor->metadata.name.clear();
    const absl::Status status = WriteNamedRecord(info.name, *tensor, PayloadOptions(), &writer);
    if (Interrupted()) return InterruptedExitCode();
    if (!status.ok() && ReaderIsGone()) return kReaderGone;
    CASK_RETURN_IF_ERROR(status);
    bytes = CheckedAdd(bytes, ElementBytes(info)).value_or(UINT64_MAX);
    progress.ShowBytes(absl::StrCat("writing ", i + 1, "/", selected.size()), bytes);
  }
  const absl::Status status = sink.Finish();
  if (Interrupted()) return InterruptedExitCode();
  if (!status.ok() && ReaderIsGone()) return kReaderGone;
  CASK_RETURN_IF_ERROR(status);
  return kDone;
}

}  // namespace

Action DeclareCat(CLI::App& app) {
  auto flags = std::make_shared<CatFlags>();
  app.add_option("PATH", flags->path, "A checkpoint's prefix or .index, or another file")->required();
  app.add_option("GLOB", flags->include, "Only tensors with names that match: dense/*");
  AddExcludeOption(app, &flags->exclude);
  app.add_flag("--allow-loss", flags->allow_loss,
               "Leave out tensors and metadata that cannot be read, and the name in the metadata if it differs");
  AddInputOptions(app, &flags->input);
  app.footer(
      "Writes records in TensorFlow's framing (TFRecord). Each record is a TensorProto with name, strides and "
      "metadata in the field `extension`. One tensor at a time is in memory. If writing fails or is interrupted, "
      "the stream ends inside a record, so that a reader reports it as incomplete.\n\n"
      "Examples:\n"
      "  tensorcask cat model.ckpt | ssh host tensorcask save model.ckpt\n"
      "  tensorcask cat model.ckpt 'dense/*' > dense.tfrecord");
  return [flags](Console& console) { return Cat(*flags, console); };
}

}  // namespace tensorcask::tools
