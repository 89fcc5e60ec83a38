// tensorcask report PATH... -o page.html: a page that shows a file, what differs between two, or the steps of a run.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/archive/archive_reader.h"
#include "tensorcask/serialize/archive/convert_archives.h"
#include "tensorcask/serialize/io/files.h"
#include "tensorcask/serialize/io/publication.h"
#include "tensorcask/serialize/report/report.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tools/rename.h"
#include "tensorcask/tools/report_request.h"
#include "tensorcask/tools/subcommand.h"

namespace tensorcask::tools {
namespace {

struct ReportFlags {
  ReportRequest request;
  std::string output;
  bool overwrite = false;
};

uint64_t BytesOf(const ArchiveReader& archive, const std::vector<std::string>& include) {
  return ElementBytes(SelectEntries(archive.entries(), include, {}));
}

absl::StatusOr<std::string> PageOf(absl::string_view command, const ReportRequest& request, ReportOptions options,
                                   Console& console, ProgressLine* progress, std::unique_ptr<ArchiveReader>* archive) {
  const std::vector<std::string>& paths = request.paths;
  std::vector<ReportStep> steps;
  if (paths.size() == 1) {
    CASK_ASSIGN_OR_RETURN(steps, FindReportSteps(paths[0], Formats()));
  } else if (request.run || paths.size() > 2) {
    steps = ReportStepsOf(paths);
  }
  if (!steps.empty()) {
    if (!request.renames.empty()) return Misuse("--rename compares two files; wanted two PATHs without --run");
    const auto open = [&](const std::string& path) { return OpenInput(path, request.input); };
    return MakeRunReport(steps, open, options);
  }
  CASK_ASSIGN_OR_RETURN(std::unique_ptr<ArchiveReader> first, OpenInput(paths[0], request.input));
  NoteOverlooked(command, *first, console);
  const uint64_t bytes = BytesOf(*first, options.include);
  if (paths.size() == 1) {
    if (!request.renames.empty()) return Misuse("--rename compares two files; found one PATH");
    CASK_RETURN_IF_ERROR(CheckMatched(request.include, {first.get()}));
    CASK_RETURN_IF_ERROR(CheckMatched(request.singular_values, {first.get()}));
    progress->SetTotal(bytes);
    *archive = std::move(first);
    return MakeReport(**archive, options);
  }
  CASK_ASSIGN_OR_RETURN(const std::unique_ptr<ArchiveReader> second, OpenInput(paths[1], request.input));
  NoteOverlooked(command, *second, console);
  CASK_ASSIGN_OR_RETURN(options.rename, ParseRenames(request.renames, {first.get()}));
  if (!options.rename) CASK_RETURN_IF_ERROR(CheckMatched(request.include, {first.get(), second.get()}));
  CASK_RETURN_IF_ERROR(CheckMatched(request.singular_values, {second.get()}));
  const uint64_t both = CheckedAdd(bytes, BytesOf(*second, options.include)).value_or(UINT64_MAX);
  progress->SetTotal(CheckedAdd(both, both).value_or(UINT64_MAX));  // each is read twice
  return MakeDiffReport(*first, *second, options);
}

absl::Status WritePage(const std::string& path, bool overwrite, const std::string& page) {
  PublishOptions options;
  options.overwrite = overwrite;
  options.sync = false;
  Publication publication(options);
  CASK_ASSIGN_OR_RETURN(FileSink* const sink, publication.Add(path));
  CASK_RETURN_IF_ERROR(sink->Append(page));
  return publication.Commit();
}

absl::StatusOr<ExitCode> Report(const ReportFlags& flags, Console& console) {
  CatchInterrupts();
  if (flags.output != "-") CASK_RETURN_IF_ERROR(CheckDestination(flags.output));
  if (flags.output != "-" && !flags.overwrite && DescribeFile(flags.output, FileSystem::Posix()).ok()) {
    return absl::AlreadyExistsError(absl::StrCat(flags.output, ": exists already; --overwrite replaces it"));
  }
  std::unique_ptr<ArchiveReader> archive;
  const absl::StatusOr<std::string> page = MakePage("report", flags.request, console, &archive);
  if (!page.ok() && Interrupted()) return InterruptedExitCode();
  CASK_RETURN_IF_ERROR(page.status());
  if (flags.output == "-") {
    console.out << *page;
    return kDone;
  }
  CASK_RETURN_IF_ERROR(NameOverwrite(WritePage(flags.output, flags.overwrite, *page)));
  console.out << Printable(flags.output) << ": " << HumanBytes(page->size()) << "; open it with a browser\n";
  return kDone;
}

}  // namespace

void AddReportOptions(CLI::App& app, ReportRequest* request) {
  app.add_option("PATH", request->paths, "One file; two to compare; or the steps of a run, or their folder")
      ->required();
  app.add_flag("--run", request->run, "Two PATHs are the steps of a run, which are not compared");
  AddIncludeOption(app, &request->include);
  AddRenameOption(app, " of the first PATH before it is compared", &request->renames);
  app.add_option("--singular-values", request->singular_values,
                 "Also the singular values of matrices whose names match, of at most 4096 rows and columns; may be "
                 "repeated")
      ->type_name("GLOB")
      ->allow_extra_args(false);
  AddInputOptions(app, &request->input);
}

absl::StatusOr<std::string> MakePage(absl::string_view command, const ReportRequest& request, Console& console,
                                     std::unique_ptr<ArchiveReader>* archive) {
  ProgressLine progress(console);
  ReportOptions options;
  options.include = request.include;
  options.rename_rules = request.renames;
  options.singular_values = request.singular_values;
  options.live = request.live;
  options.progress = [&](uint64_t bytes) {
    progress.ShowBytes("reading", bytes);
    return !Interrupted();
  };
  return PageOf(command, request, options, console, &progress, archive);
}

Action DeclareReport(CLI::App& app) {
  auto flags = std::make_shared<ReportFlags>();
  AddReportOptions(app, &flags->request);
  app.add_option("-o,--output", flags->output, "The page to write, such as page.html; - for standard output")
      ->required()
      ->type_name("FILE");
  app.add_flag("--overwrite", flags->overwrite, "Replace the page");
  app.footer(
      "Writes one HTML file, which needs no network and no other file: totals and a map of the file, what looks wrong "
      "(NaN, dead rows, saturated numbers, equal tensors, norms far from their family), a table to search and sort, "
      "and "
      "for each tensor its histogram, percentiles, heat map and place in the file. Of two files it shows what differs "
      "and what moved most; of a run, how norms, changes and sizes develop. Tensors are compared by value, whatever "
      "their dtypes.\n\n"
      "Counts, range, mean and norm are those of all elements. Histograms, percentiles and pictures are those of "
      "evenly spaced elements, up to 65536 of each tensor, and 2 million in all. A report of more than 300 tensors has "
      "smaller pictures, and one of more than 12000 has neither histograms nor pictures: --include chooses tensors. "
      "Singular values take time: up to a minute for a matrix of 4096 rows and columns.\n\n"
      "Examples:\n"
      "  tensorcask report model.ckpt -o page.html\n"
      "  tensorcask report step-100 step-200 -o changes.html\n"
      "  tensorcask report run-7/ -o run.html\n"
      "  tensorcask report model.safetensors --singular-values '*.weight' -o page.html");
  return [flags](Console& console) { return Report(*flags, console); };
}

}  // namespace tensorcask::tools
