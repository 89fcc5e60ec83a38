// tensorcask convert SRC DST: copies tensors into another file. Reads one at a time, whole; a sliced tensor comes out
// in one piece. Several shards or a level above stored are written by threads, which hold up to 64 MiB of tensors each.

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tools/subcommand.h"

namespace tensorcask::tools {
namespace {

struct Flags {
  std::string source;
  std::string destination;
  InputOptions input;
  std::string to;
  OutputOptions output;
  std::vector<std::string> include;
  std::vector<std::string> exclude;
  std::vector<std::string> renames;  // FROM=TO
  bool allow_loss = false;
};

// {FROM, TO}.
absl::StatusOr<std::map<std::string, std::string>> Renames(const Input& input, const Flags& flags) {
  std::map<std::string, std::string> renames;
  for (const std::string& rename : flags.renames) {
    // Names may have '=' themselves: the first one that leaves a known name in front of it counts.
    size_t split = rename.find('=');
    const auto known = [&](const std::string& name) {
      return std::any_of(input.tensors().begin(), input.tensors().end(),
                         [&](const TensorInfo& info) { return info.name == name; });
    };
    while (split != std::string::npos && !known(rename.substr(0, split))) split = rename.find('=', split + 1);
    if (split == std::string::npos) {
      return Misuse(absl::StrCat("--rename ", rename, ": wanted FROM=TO, FROM the name of a tensor"));
    }
    renames[rename.substr(0, split)] = rename.substr(split + 1);
  }
  return renames;
}

// Enough to keep a disk busy; each may hold 64 MiB of tensors that wait.
int NumThreads() {
  constexpr unsigned kMaxThreads = 4;
  return static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1U, kMaxThreads));
}

absl::StatusOr<ExitCode> Convert(const Flags& flags, Console& console) {
  CASK_ASSIGN_OR_RETURN(const std::unique_ptr<Input> input, OpenInput(flags.source, flags.input));
  CASK_ASSIGN_OR_RETURN(const auto renames, Renames(*input, flags));
  const std::vector<TensorInfo> selected = Select(input->tensors(), flags.include, flags.exclude);

  const std::string to(flags.to.empty() ? FormatForName(flags.destination) : absl::string_view(flags.to));
  if (!HoldsManyTensors(to) && selected.size() != 1) {
    return Misuse(
        absl::StrCat(to, " holds exactly one tensor, ", selected.size(), " remain: choose one with --include NAME"));
  }
  CASK_RETURN_IF_ERROR(input->CheckFiles());
  OutputOptions options = flags.output;
  options.num_shards = input->num_shards();
  options.base = flags.input.base;
  if (options.num_shards > 1 || options.level > PayloadLevel::kStored) options.num_threads = NumThreads();
  CatchInterrupts();
  CASK_ASSIGN_OR_RETURN(const std::unique_ptr<Output> output, CreateOutput(flags.destination, to, options));

  uint64_t bytes = 0;
  ProgressLine progress(console);
  for (size_t i = 0; i < selected.size(); ++i) {
    if (Interrupted()) return InterruptedExitCode();  // the destructor removes what was written
    TensorInfo info = selected[i];
    CASK_ASSIGN_OR_RETURN(const DecodedTensor tensor, ReadToCopy(*input, info, flags.allow_loss));
    const auto rename = renames.find(info.name);
    if (rename != renames.end()) info.name = rename->second;
    CASK_RETURN_IF_ERROR(output->Add(info, tensor));
    bytes = CheckedAdd(bytes, ElementBytes(info)).value_or(UINT64_MAX);
    progress.Show(absl::StrCat(i + 1, "/", selected.size(), " ", HumanBytes(bytes)));
  }
  if (Interrupted()) return InterruptedExitCode();
  CASK_RETURN_IF_ERROR(output->Finish());
  console.out << Printable(flags.destination) << ": " << selected.size()
              << (selected.size() == 1 ? " tensor, " : " tensors, ") << HumanBytes(bytes) << ", " << to << '\n';
  return kDone;
}

}  // namespace

Action DeclareConvert(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  app.add_option("SRC", flags->source, "What to read")->required();
  app.add_option("DST", flags->destination,
                 "What to write: a checkpoint's prefix, or a .pb, .pbtxt, .textproto or .tfrecord")
      ->required();
  AddInputOptions(app, &flags->input);
  AddOutputOptions(app, &flags->to, &flags->output);
  AddIncludeOption(app, &flags->include);
  AddExcludeOption(app, &flags->exclude);
  app.add_option("--rename", flags->renames, "Call a tensor otherwise; may be repeated")
      ->type_name("FROM=TO")
      ->allow_extra_args(false);
  app.add_flag("--allow-loss", flags->allow_loss, "Leave out metadata (a device, attributes) that cannot be read");
  app.footer(
      "Checkpoint to checkpoint keeps the order and the data files; with --alignment 1 a checkpoint that TensorFlow\n"
      "wrote comes out byte for byte the same. Metadata and strides are kept; a sliced tensor comes out in one piece.\n"
      "Above --level stored, tensors that it makes smaller are encoded, and with --base are stored as differences "
      "from\n"
      "that checkpoint where this is smaller still; without --level encoded tensors of SRC come out plain.\n"
      "Equal encoded tensors share their bytes, and the order among the others is then lost: converted back, they\n"
      "follow each other by name.\n"
      "Differences in SRC are read with --base, too; to be rid of them convert without --level first.\n"
      "DST appears whole or not at all.\n\n"
      "Examples:\n"
      "  tensorcask convert --exclude '*/Adam*' model.ckpt slim.ckpt\n"
      "  tensorcask convert --include dense/bias model.ckpt bias.pbtxt\n"
      "  tensorcask convert --level high --base step-100 step-200 step-200-small\n"
      "  tensorcask convert --format tensorproto --rename bias=dense/bias bias.pb one.ckpt");
  return [flags](Console& console) { return Convert(*flags, console); };
}

}  // namespace tensorcask::tools
