// Makes a page that shows a checkpoint, the difference of two, or the steps of a run: one HTML file, which needs no
// network and no other file.
//
//   CASK_ASSIGN_OR_RETURN(const std::string page, MakeReport(*archive));
//   ... write it to "page.html" ...
//
// Each tensor is read once, in blocks where the format allows that; two threads share the work. Counts, range, mean and
// norm are those of all elements. Histograms, percentiles and pictures are those of an evenly spaced sample: all
// elements of a tensor of 65,536 elements or fewer, and fewer elements of each where there are many tensors:
//
//   tensors        sample       histogram   picture         means along axes
//   up to 32       65,536       64 bins     4,096 elements  64
//   up to 300      2 million/n  64          4,096           64
//   up to 1,000    2 million/n  48          1,024           24
//   up to 5,000    1,024 or     32          256             8
//                  2 million/n
//   up to 12,000   1,024        16          none            none
//   more           128 to 1,024 none        none            none
//
// Singular values are those of whole matrices (singular_values.h), and cost much more time than all else.
//
// So a page of 10,000 tensors is below 3 MB. What the page shows of a file is data, never markup: names, metadata and
// errors of a stranger's file are compressed text that a script of the page puts into text nodes. The page's policy
// (Content-Security-Policy) allows this script, by its hash, and nothing else.

#ifndef TENSORCASK_SERIALIZE_REPORT_REPORT_H_
#define TENSORCASK_SERIALIZE_REPORT_REPORT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/archive/archive_format.h"
#include "tensorcask/serialize/archive/archive_reader.h"
#include "tensorcask/serialize/io/file_system.h"

namespace tensorcask {

struct ReportOptions {
  std::vector<std::string> include;  // shell patterns for names (of a comparison: those in b); empty: all tensors
  // For a comparison: as CompareOptions::rename (archive/compare_archives.h).
  std::function<absl::StatusOr<std::string>(absl::string_view)> rename;
  std::vector<std::string> rename_rules;       // `rename` as text, for the commands of the page
  std::vector<std::string> singular_values;    // patterns for names of matrices (of b, of the last step) that get them
  int num_threads = 2;                         // each takes one tensor at a time
  uint64_t block_bytes = uint64_t{256} << 10;  // small enough for the second-level cache
  // Called after each block with the bytes of all so far; false ends with Cancelled. Never on two threads at once.
  std::function<bool(uint64_t bytes)> progress;
  bool live = false;  // the page asks its server for elements (tensorcask browse)
};

// The page of one archive. A tensor that cannot be read is shown with its error. Errors: Cancelled; ResourceExhausted.
absl::StatusOr<std::string> MakeReport(const ArchiveReader& archive, const ReportOptions& options = {});

// The page of what differs in b. Tensors are compared by value, whatever their dtypes. Errors: also those of `rename`.
absl::StatusOr<std::string> MakeDiffReport(const ArchiveReader& a, const ArchiveReader& b,
                                           const ReportOptions& options = {});

// One step of a run.
struct ReportStep {
  std::string path;
  std::string label;  // "step 100"
};
// Steps with labels: "run/ckpt-100" -> "step 100". Where no file has a number in its name and their folders differ, the
// folders name the steps: "run/checkpoint-100/model.safetensors" is "step 100", too.
std::vector<ReportStep> ReportStepsOf(const std::vector<std::string>& paths);

// The archives of a folder as steps, in the order of the last numbers in their names; empty if `path` is not a folder
// with several archives. Of a folder without archives: those in its folders that have a number in their names, each
// with one archive, or with one that is called model or pytorch_model. Errors: from errno, naming the folder.
absl::StatusOr<std::vector<ReportStep>> FindReportSteps(const std::string& path, ArchiveFormats formats,
                                                        FileSystem* file_system = FileSystem::Posix());

// Called for each step in order.
using OpenReportStep = std::function<absl::StatusOr<std::unique_ptr<ArchiveReader>>(const std::string& path)>;

// The page of a run. Opens one step at a time. How much a tensor changes from one step to the next is estimated from a
// sample of at most 65,536 of its elements. Errors: also those of `open`; InvalidArgument without a step.
absl::StatusOr<std::string> MakeRunReport(const std::vector<ReportStep>& steps, const OpenReportStep& open,
                                          const ReportOptions& options = {});

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_REPORT_REPORT_H_
