// What the commands report and browse share: which files a page shows, and how it is made (commands/report.cc).

#ifndef TENSORCASK_TOOLS_REPORT_REQUEST_H_
#define TENSORCASK_TOOLS_REPORT_REQUEST_H_

#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/archive/archive_reader.h"
#include "tensorcask/tools/formats.h"
#include "tensorcask/tools/output/console.h"

namespace tensorcask::tools {

struct ReportRequest {
  std::vector<std::string> paths;
  std::vector<std::string> include;
  std::vector<std::string> renames;
  std::vector<std::string> singular_values;
  InputOptions input;
  bool run = false;   // two paths are steps of a run
  bool live = false;  // as ReportOptions::live
};

// PATH..., --run, --include, --rename, --singular-values and those of AddInputOptions.
void AddReportOptions(CLI::App& app, ReportRequest* request);

// The page, with progress on a terminal. *archive is the archive of a page of one file, else null.
// Errors: Misuse; as MakeReport and its kin (serialize/report/report.h); Cancelled after a signal.
absl::StatusOr<std::string> MakePage(absl::string_view command, const ReportRequest& request, Console& console,
                                     std::unique_ptr<ArchiveReader>* archive);

}  // namespace tensorcask::tools

#endif  // TENSORCASK_TOOLS_REPORT_REQUEST_H_
