// tensorcask convert SRC... DST: copies tensors into another file, in bounded memory
// (serialize/archive/convert_archives.h).

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/archive/convert_archives.h"
#include "tensorcask/serialize/archive/similar_names.h"
#include "tensorcask/serialize/io/listing_budget.h"
#include "tensorcask/serialize/io/replaced_files.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tools/metadata_options.h"
#include "tensorcask/tools/output/loss_lines.h"
#include "tensorcask/tools/output/table.h"
#include "tensorcask/tools/rename.h"
#include "tensorcask/tools/subcommand.h"

namespace tensorcask::tools {
namespace {

struct ConvertFlags {
  std::vector<std::string> paths;  // sources, and last the destination

  absl::Span<const std::string> sources() const { return absl::MakeConstSpan(paths).first(paths.size() - 1); }
  const std::string& destination() const { return paths.back(); }
  InputOptions input;
  std::string to;
  OutputOptions output;
  std::vector<std::string> include;
  std::vector<std::string> exclude;
  bool exclude_slots = false;
  std::vector<std::string> renames;
  std::vector<std::string> dtypes;  // GLOB=DTYPE, or DTYPE
  std::vector<std::string> sets;    // KEY=VALUE
  std::vector<std::string> unsets;  // keys
  bool allow_loss = false;
  bool dry_run = false;
};

// Enough to keep a disk busy.
int NumThreads() {
  constexpr unsigned kMaxThreads = 4;
  return static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1U, kMaxThreads));
}

absl::StatusOr<std::vector<DTypeRule>> ParseDTypeRules(const std::vector<std::string>& texts) {
  std::vector<DTypeRule> rules;
  for (const std::string& text : texts) {
    const size_t split = text.rfind('=');
    const bool has_glob = split != std::string::npos;
    const std::string name = has_glob ? text.substr(split + 1) : text;
    const absl::StatusOr<DType> dtype = ParseDType(name);
    if (!dtype.ok() || split == 0) {
      return Misuse(absl::StrCat("--dtype ", text, ": wanted GLOB=DTYPE, as in '*kernel=bfloat16', or a dtype for all",
                                 split == 0 ? "" : absl::StrCat("; ", NoSuchDType(name))));
    }
    rules.push_back(MakeDTypeRule(has_glob ? absl::string_view(text).substr(0, split) : "*", *dtype));
  }
  return rules;
}

bool TakesSome(const DTypeRule& rule, const std::vector<const ArchiveReader*>& sources) {
  return std::any_of(sources.begin(), sources.end(), [&](const ArchiveReader* source) {
    const std::vector<ArchiveEntry>& entries = source->entries();
    return std::any_of(entries.begin(), entries.end(),
                       [&](const ArchiveEntry& entry) { return rule.Takes(entry.name, entry.dtype); });
  });
}

// Patterns must match something: a misspelled one would silently copy nothing, or everything.
absl::Status CheckPatterns(const ConvertFlags& flags, const std::vector<DTypeRule>& rules,
                           const std::vector<const ArchiveReader*>& sources, Console& console) {
  // The hint for a pattern that matches nothing.
  const auto unmatched = [&](const std::string& glob) -> std::optional<std::string> {
    std::vector<absl::string_view> names;
    for (const ArchiveReader* const source : sources) {
      if (MatchesSome(source->entries(), glob)) return std::nullopt;
      for (const ArchiveEntry& entry : source->entries()) names.push_back(entry.name);
    }
    return archive::HintForPattern(glob, names);
  };
  for (const std::string& glob : flags.include) {
    const absl::Status matched = CheckMatched({glob}, sources);
    if (!matched.ok()) return Misuse(absl::StrCat("--include ", matched.message()));
  }
  for (const std::string& glob : flags.exclude) {
    const std::optional<std::string> hint = unmatched(glob);
    if (hint.has_value()) NoteUnmatched("convert", absl::StrCat("--exclude ", glob), console, *hint);
  }
  for (size_t i = 0; i < rules.size(); ++i) {
    const std::string option = absl::StrCat("--dtype ", flags.dtypes[i]);
    const std::optional<std::string> hint = unmatched(rules[i].glob);
    if (hint.has_value()) {
      NoteUnmatched("convert", option, console, *hint);
    } else if (!TakesSome(rules[i], sources)) {
      console.err << "tensorcask convert: " << EscapeControls(option)
                  << " takes no tensor: none that it matches has numbers of that kind; 'any:GLOB=DTYPE' takes all\n";
    }
  }
  return absl::OkStatus();
}

TableRow RowOf(const ConversionItem& item) {
  TableRow row = {Printable(item.from->name), std::string(DTypeName(item.from->dtype)), item.from->shape.ToString()};
  if (item.new_name.has_value() || item.dtype != item.from->dtype) {
    row.insert(row.end(), {"->", Printable(item.name()), std::string(DTypeName(item.dtype))});
  }
  row.resize(6);
  return row;
}

void PrintPlan(const ConversionPlan& plan, Console& console) {
  Table table({}, OutputWidth());
  for (const ConversionItem& item : plan.items) table.Measure(RowOf(item));
  for (const ConversionItem& item : plan.items) table.Print(RowOf(item), console.out);
}

// "base/", "base.": to be put in front of names.
bool IsPrefix(const std::string& name) { return absl::EndsWith(name, "/") || absl::EndsWith(name, "."); }

bool HasTensors(const std::vector<const ArchiveReader*>& sources) {
  return std::any_of(sources.begin(), sources.end(),
                     [](const ArchiveReader* source) { return !source->entries().empty(); });
}

absl::Status SetOptions(const ConvertFlags& flags, const std::vector<const ArchiveReader*>& sources,
                        const ArchiveFormat& target, ConvertOptions* options, Console& console) {
  options->include = flags.include;
  options->exclude = flags.exclude;
  options->exclude_slots = flags.exclude_slots;
  options->allow_loss = flags.allow_loss;
  CASK_ASSIGN_OR_RETURN(options->set_metadata, ParseSets(flags.sets));
  options->unset_metadata = {flags.unsets.begin(), flags.unsets.end()};
  CASK_ASSIGN_OR_RETURN(options->dtypes, ParseDTypeRules(flags.dtypes));
  std::vector<const ArchiveReader*> renamed;  // NAME=SRC has its name
  for (const ArchiveReader* const source : sources) {
    if (options->names.count(source) == 0) renamed.push_back(source);
  }
  CASK_ASSIGN_OR_RETURN(options->rename, ParseRenames(flags.renames, renamed));
  size_t selected = 0;
  for (const ArchiveReader* const source : sources) {
    CASK_ASSIGN_OR_RETURN(const std::vector<const ArchiveEntry*> entries,
                          SelectEntries(*source, flags.include, flags.exclude, flags.exclude_slots));
    selected += entries.size();
  }
  CASK_RETURN_IF_ERROR(CheckPatterns(flags, options->dtypes, sources, console));
  if (!target.traits().many_tensors && selected != 1) {
    return Misuse(absl::StrCat(target.name(), " holds exactly one tensor, ", selected,
                               " remain: choose one with --include NAME"));
  }
  if (selected == 0 && HasTensors(sources)) {
    return Misuse(absl::StrCat(
        "no tensor is left to write: ", flags.exclude.empty() ? "--exclude-slots leaves out" : "--exclude matches",
        " all tensors", flags.include.empty() ? "" : " that --include chooses"));
  }
  return absl::OkStatus();
}

void PrintDryRun(const ConversionPlan& plan, const ReplacedFiles& replaced, const std::string& destination,
                 const ArchiveFormat& target, Console& console) {
  PrintPlan(plan, console);
  PrintRemoved(replaced.removed, console, /*is_dry_run=*/true);
  console.out << Printable(destination) << ": would have " << TensorCount(plan.items.size()) << ", "
              << HumanBytes(plan.bytes) << " to read, " << target.name() << '\n';
}

absl::StatusOr<ExitCode> Convert(const ConvertFlags& flags, Console& console) {
  if (flags.paths.size() < 2) return Misuse("DST is required: tensorcask convert SRC... DST");
  CatchInterrupts();
  std::vector<std::unique_ptr<ArchiveReader>> inputs;
  std::vector<const ArchiveReader*> sources;
  ConvertOptions options;
  InputOptions open = flags.input;
  open.listing = std::make_shared<ListingBudget>(open.limits);
  for (const std::string& operand : flags.sources()) {
    const NamedPath named = SplitOperand(operand);
    CASK_ASSIGN_OR_RETURN(std::unique_ptr<ArchiveReader> input, OpenInput(named.path, open));
    if (!named.name.empty() && !IsPrefix(named.name) && input->has_names()) {
      return Misuse(absl::StrCat(operand,
                                 ": NAME=PATH gives a name to the tensor of a file that has none; the tensors of ",
                                 input->path(), " have names, which --rename changes; ", named.name,
                                 "/=", input->path(), " puts ", named.name, "/ in front of them"));
    }
    if (!named.name.empty()) (IsPrefix(named.name) ? options.prefixes : options.names)[input.get()] = named.name;
    NoteOverlooked("convert", *input, console);
    sources.push_back(input.get());
    inputs.push_back(std::move(input));
  }
  const AllFormats formats = FormatsWith(ForCopies(flags.input.of_formats, flags.output.of_formats));
  CASK_ASSIGN_OR_RETURN(const ArchiveFormat* const target, TargetFormat(flags.destination(), flags.to, formats.list()));
  CASK_RETURN_IF_ERROR(SetOptions(flags, sources, *target, &options, console));
  OutputOptions output = flags.output;
  output.base = flags.input.base;
  CASK_ASSIGN_OR_RETURN(const ArchiveWriterOptions write, WriterOptions(flags.destination(), *target, output));
  options.num_threads = NumThreads();
  options.dry_run = flags.dry_run;
  std::optional<ProgressLine> progress;
  size_t num_tensors = 0;
  options.planned = [&](const ConversionPlan& plan, const ReplacedFiles& replaced) {
    PrintLosses(plan, console);
    num_tensors = plan.items.size();
    if (!flags.dry_run) {
      progress.emplace(console, plan.bytes);
    } else if (!plan.items.empty() || !HasTensors(sources)) {
      PrintDryRun(plan, replaced, flags.destination(), *target, console);
    }
  };
  options.progress = [&](int64_t tensors, uint64_t bytes) {
    progress->ShowBytes(absl::StrCat("converting ", tensors, "/", num_tensors), bytes);
    return !Interrupted();
  };
  const absl::StatusOr<ConvertReport> report = ConvertArchives(sources, flags.destination(), *target, options, write);
  progress.reset();
  if (!report.ok() && Interrupted()) return InterruptedExitCode();  // the destructor removes what was written
  if (!report.ok()) return NameOverwrite(report.status());
  PrintNotes("convert", report->notes, console);
  if (flags.dry_run) return kDone;
  PrintRemoved(report->removed, console);
  console.out << Printable(flags.destination()) << ": " << TensorCount(num_tensors) << ", "
              << HumanBytes(report->bytes);
  if (report->file_bytes > 0) console.out << " (" << HumanBytes(report->file_bytes) << " on disk)";
  console.out << ", " << target->name() << '\n';
  return kDone;
}

}  // namespace

Action DeclareConvert(CLI::App& app) {
  auto flags = std::make_shared<ConvertFlags>();
  // CLI11 cannot tell where a list of operands ends: the last one is DST.
  app.add_option(
         "SRC", flags->paths,
         "What to read (several files become one), and last DST, what to write: its extension names the format; "
         "without one it is a checkpoint")
      ->required()
      ->expected(1, CLI::detail::expected_max_vector_size)
      ->option_text("SRC... DST");
  AddInputOptions(app, &flags->input);
  AddOutputOptions(app, &flags->to, &flags->output);
  AddIncludeOption(app, &flags->include);
  AddExcludeOption(app, &flags->exclude);
  app.add_flag("--exclude-slots", flags->exclude_slots,
               "No tensors that an optimizer keeps beside the variables, such as momentum, of checkpoints of "
               "TensorFlow");
  AddRenameOption(app, "", &flags->renames);
  app.add_option("--dtype", flags->dtypes,
                 "Convert the elements: '*kernel=bfloat16', or bfloat16 for all tensors; may be repeated")
      ->type_name("[GLOB=]DTYPE")
      ->allow_extra_args(false);
  AddMetadataOptions(app, &flags->sets, &flags->unsets);
  app.add_flag(
      "--allow-loss", flags->allow_loss,
      "Leave out what DST cannot hold: metadata, strides, imaginary parts, tensors of a dtype, and tensors "
      "that cannot be read; each is listed. Damage that only the elements show, such as a wrong checksum, still ends "
      "the command: `tensorcask salvage` leaves such tensors out. npy and npz get float8 and other dtypes that NumPy "
      "lacks as opaque "
      "elements (V1)");
  app.add_flag("--dry-run", flags->dry_run, "Only check, and print what would be written and removed");
  app.footer(
      "DST appears whole or not at all. Large tensors are copied in blocks, so memory does not depend on their "
      "size. A tensor must fit in memory if it holds strings, has strides, is stored in slices, deflated or as "
      "a delta, comes from a record or message that does not hold plain bytes, goes to text, or goes to a "
      "--level above stored (except npz).\n\n"
      "--overwrite replaces DST, and removes the files that only its old index lists; a line names each. The "
      "command fails if that would take a file of a SRC, unless DST is this SRC, in the same form. "
      "NAME.safetensors.index.json as "
      "DST means files NAME-00001-of-00003.safetensors and this index; NAME.safetensors replaces a model in "
      "either form. A checkpoint may get an empty data file, so that DST is the old or the new checkpoint at "
      "any moment.\n\n"
      "A checkpoint that becomes a checkpoint keeps its order and its data files; with --alignment 1, one that "
      "TensorFlow wrote comes out byte for byte the same. A tensor in slices comes out in one piece. The object "
      "graph of TensorFlow 2 follows --rename, --include and --exclude; the new name of a variable must end in "
      "/.ATTRIBUTES/VARIABLE_VALUE.\n\n"
      "--exclude-slots asks the object graph what the slots are. In checkpoints of TensorFlow 1 a slot is NAME/Adam, "
      "NAME/Momentum or the like, of the dtype and shape of NAME. What optimizers of Keras since 2.11 keep are "
      "variables, no slots: --exclude 'optimizer/*'.\n\n"
      "With a --level above stored, tensors that it makes smaller are encoded, and with --base stored as deltas "
      "to that checkpoint where this is smaller still. Deltas of SRC are read with --base, too. Without "
      "--level, all tensors come out plain.\n\n"
      "NAME=SRC names the tensor of an npy file or a message. A NAME that ends in / or . is a prefix: base/=SRC "
      "puts base/ in front of all names of SRC, after --rename.\n\n"
      "--rename works as sed -E does. In TEXT, & is the match and \\1 to \\9 are its groups. Refused are \\U "
      "\\L \\u \\l \\E, \\< and \\>, \\1 in REGEX, and a name that can be divided among the groups in several "
      "ways.\n\n"
      "--dtype rounds to the nearest number of the new dtype, ties to even. Integers: the fraction is dropped, "
      "a value beyond the range becomes the largest or smallest integer, and NaN becomes 0. Floats: a value "
      "beyond the range becomes infinite, or the largest number of dtypes without infinity; NaN becomes -0 in "
      "float4 and float6; zero and negative numbers become NaN in float8_e8m0fnu. bool: all but 0 becomes true. "
      "A floating or complex dtype goes to floating and complex tensors only, unless the pattern names a kind: "
      "'int:*=float32'; the kinds are bool, int, float, complex, quantized and any. The first rule that takes a "
      "tensor counts. Tensors that become numbers of another kind, or integers of a smaller range, are listed.\n\n"
      "Tied tensors (several names for the same elements) stay tied in safetensors if they have one dtype. Those "
      "that become copies are listed.\n\n"
      "GGUF to GGUF: blocks and metadata stay as they are; --dtype decodes the tensors that it takes, and "
      "--set KEY=uint32:7 sets a number of that type. Blocks become float32 in other formats.\n\n"
      "ONNX: DST.onnx is made of the model that --replace-in names, or of SRC if that is one model. Initializers get "
      "the "
      "tensors of their names, which have the same dtypes and shapes; everything else stays as it is, byte by byte. "
      "Elements lie in the model, or with --external in a side file beside it, except those of less than 1 KiB. "
      "DST.pb with --to onnx holds one tensor.\n\n"
      "If two SRC have different values of one key of their metadata, --set or --unset decides. --unset KEY is an "
      "error if no SRC has the KEY.\n\n"
      "Examples:\n"
      "  tensorcask convert --exclude-slots model.ckpt slim.ckpt\n"
      "  tensorcask convert --include dense/bias model.ckpt bias.pbtxt\n"
      "  tensorcask convert --rename 's/^model\\.//' --dtype '*weight=bfloat16' a.tfrecord b.tfrecord all.ckpt\n"
      "  tensorcask convert --level high --base step-100 step-200 step-200-small\n"
      "  tensorcask convert --rename bias=dense/bias bias.pb one.ckpt\n"
      "  tensorcask convert --shard-size 2GB model.safetensors shards/model.safetensors.index.json\n"
      "  tensorcask convert --dtype '*=bfloat16' model.gguf plain.safetensors\n"
      "  tensorcask convert --replace-in base.onnx tuned.safetensors tuned.onnx\n"
      "  tensorcask convert --external model.onnx split/model.onnx\n"
      "  tensorcask convert dense/weight=a/x.npy dense/bias=b/x.npy both.npz\n"
      "  tensorcask convert base/=a.safetensors tuned/=b.safetensors all.safetensors\n"
      "  tensorcask convert --opaque-dtype float8_e4m3fn scales.npz scales.safetensors");
  return [flags](Console& console) { return Convert(*flags, console); };
}

}  // namespace tensorcask::tools
