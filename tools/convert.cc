// tensorcask convert SRC DST: copies tensors into another file, one at a time.

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tools/subcommand.h"

namespace tensorcask::tools {
namespace {

struct Flags {
  std::string source;
  std::string destination;
  std::string from;
  std::string to;
  uint64_t alignment = 64;
  std::vector<std::string> include;
  std::vector<std::string> exclude;
  std::vector<std::string> renames;  // FROM=TO
  bool allow_loss = false;
  bool overwrite = false;
};

struct Selected {
  TensorInfo source;
  std::string name;  // in the destination
};

// The tensors to copy, in the order in which the source stores them.
absl::StatusOr<std::vector<Selected>> Select(const Input& input, const Flags& flags) {
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

  std::vector<Selected> selected;
  for (const TensorInfo& info : input.tensors()) {
    if (!flags.include.empty() && !MatchesAny(info.name, flags.include)) continue;
    if (MatchesAny(info.name, flags.exclude)) continue;
    const auto rename = renames.find(info.name);
    selected.push_back({info, rename == renames.end() ? info.name : rename->second});
  }
  std::stable_sort(selected.begin(), selected.end(), [](const Selected& a, const Selected& b) {
    return std::tie(a.source.shard, a.source.offset) < std::tie(b.source.shard, b.source.offset);
  });
  return selected;
}

absl::StatusOr<DecodedTensor> WithoutMetadata(const Input& input, const std::string& name) {
  DecodedTensor tensor;
  CASK_ASSIGN_OR_RETURN(tensor.view, input.Read(name));
  return tensor;
}

absl::StatusOr<ExitCode> Convert(const Flags& flags, Console& console) {
  CASK_ASSIGN_OR_RETURN(const std::unique_ptr<Input> input, OpenInput(flags.source, flags.from));
  CASK_ASSIGN_OR_RETURN(const std::vector<Selected> selected, Select(*input, flags));

  const std::string to(flags.to.empty() ? FormatForName(flags.destination) : absl::string_view(flags.to));
  if (to != kCheckpoint && selected.size() != 1) {
    return Misuse(
        absl::StrCat(to, " holds exactly one tensor, ", selected.size(), " remain: choose one with --include NAME"));
  }
  CASK_RETURN_IF_ERROR(input->CheckFiles());
  OutputOptions options;
  options.num_shards = input->num_shards();
  options.alignment = flags.alignment;
  options.overwrite = flags.overwrite;
  CatchInterrupts();
  CASK_ASSIGN_OR_RETURN(const std::unique_ptr<Output> output, CreateOutput(flags.destination, to, options));

  uint64_t bytes = 0;
  for (size_t i = 0; i < selected.size(); ++i) {
    if (Interrupted()) return InterruptedExitCode();  // the destructor removes what was written
    const Selected& item = selected[i];
    absl::StatusOr<DecodedTensor> tensor = input->ReadWithMetadata(item.source.name);
    if (!tensor.ok() && item.source.has_metadata && flags.allow_loss)
      tensor = WithoutMetadata(*input, item.source.name);
    CASK_RETURN_IF_ERROR(tensor.status());
    TensorInfo info = item.source;
    info.name = item.name;
    CASK_RETURN_IF_ERROR(output->Add(info, *tensor));
    bytes += info.stored_bytes;
    if (console.progress)
      console.err << '\r' << i + 1 << '/' << selected.size() << ' ' << HumanBytes(bytes) << "\x1b[K";
  }
  if (console.progress && !selected.empty()) console.err << "\r\x1b[K";
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
  app.add_option("DST", flags->destination, "What to write: a checkpoint's prefix, or a .pb, .pbtxt or .textproto")
      ->required();
  AddFormatOption(app, &flags->from);
  app.add_option("--to", flags->to, "The format of DST, where its name does not tell")
      ->check(CLI::IsMember({kCheckpoint, kTensorProto, kTensorProtoText}))
      ->type_name("FORMAT");
  app.add_option("--alignment", flags->alignment,
                 "Each tensor starts at a multiple of N bytes (default 64); 1 is TensorFlow's own layout")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 30))
      ->type_name("N");
  app.add_option("--include", flags->include, "Only names that match; may be repeated")
      ->type_name("GLOB")
      ->allow_extra_args(false);
  app.add_option("--exclude", flags->exclude, "No names that match; may be repeated")
      ->type_name("GLOB")
      ->allow_extra_args(false);
  app.add_option("--rename", flags->renames, "Call a tensor otherwise; may be repeated")
      ->type_name("FROM=TO")
      ->allow_extra_args(false);
  app.add_flag("--allow-loss", flags->allow_loss, "Leave out metadata (a device, attributes) that cannot be read");
  app.add_flag("--overwrite", flags->overwrite, "Replace DST");
  app.footer(
      "Checkpoint to checkpoint keeps the order and the data files; with --alignment 1 a checkpoint that TensorFlow\n"
      "wrote comes out byte for byte the same. Metadata and strides are kept; a sliced tensor comes out in one piece.\n"
      "DST appears whole or not at all.\n\n"
      "Examples:\n"
      "  tensorcask convert --exclude '*/Adam*' model.ckpt slim.ckpt\n"
      "  tensorcask convert --include dense/bias model.ckpt bias.pbtxt\n"
      "  tensorcask convert --format tensorproto --rename bias=dense/bias bias.pb one.ckpt");
  return [flags](Console& console) { return Convert(*flags, console); };
}

}  // namespace tensorcask::tools
