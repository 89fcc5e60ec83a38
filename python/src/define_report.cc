#include "tensorcask/python/src/bindings.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/python/src/arguments.h"
#include "tensorcask/python/src/base/errors.h"
#include "tensorcask/python/src/base/interrupts.h"
#include "tensorcask/python/src/base/text.h"
#include "tensorcask/serialize/archive/archive.h"
#include "tensorcask/serialize/archive/archive_reader.h"
#include "tensorcask/serialize/report/report.h"

namespace nb = nanobind;

namespace tensorcask::python {
namespace {

// The page of one file, of two, or of the steps of a run: several files, or those of a folder.
nb::object PageOf(const nb::list& paths, bool is_run, nb::handle names, nb::handle rename, nb::handle singular_values,
                  nb::handle threads, const nb::kwargs& reading) {
  ReportOptions options;
  options.include = FromNames(names, "a pattern of names").value_or(std::vector<std::string>());
  options.singular_values = FromNames(singular_values, "a pattern of names").value_or(std::vector<std::string>());
  options.num_threads = FromThreads(threads);
  options.progress = [](uint64_t) { return KeepGoing(); };
  std::vector<OpenArguments> inputs;
  for (const nb::handle path : paths) inputs.push_back(FromOpenArguments(path, reading));
  std::vector<ReportStep> steps;
  if (inputs.size() == 1 && inputs[0].source == nullptr) {
    steps = Take(FindReportSteps(inputs[0].path, Formats()));
    const OpenArguments folder = inputs[0];
    if (!steps.empty()) inputs.assign(steps.size(), folder);
    for (size_t i = 0; i < steps.size(); ++i) inputs[i].path = steps[i].path;
  } else if (is_run || inputs.size() > 2) {
    std::vector<std::string> names;
    for (const OpenArguments& input : inputs) names.push_back(input.path);
    steps = ReportStepsOf(names);
  }
  if (!steps.empty()) {
    for (OpenArguments& input : inputs) input.options.base = OpenBase(input.base);
    size_t next = 0;
    const auto open = [&](const std::string&) -> absl::StatusOr<std::unique_ptr<ArchiveReader>> {
      const OpenArguments& input = inputs[next++];
      if (input.source != nullptr) return OpenArchive(input.source, Formats(), input.options);
      return OpenArchive(input.path, Formats(), input.options);
    };
    return ToText(Take(WithoutGil([&] { return MakeRunReport(steps, open, options); })));
  }
  const std::shared_ptr<const ArchiveReader> first = Open(inputs[0]);
  if (inputs.size() == 1) return ToText(Take(WithoutGil([&] { return MakeReport(*first, options); })));
  const std::shared_ptr<const ArchiveReader> second = Open(inputs[1]);
  options.rename = FromRename(*first, rename);
  return ToText(Take(WithoutGil([&] { return MakeDiffReport(*first, *second, options); })));
}

}  // namespace

void DefineReport(nb::module_& m) {
  m.def("report_page", &PageOf, nb::arg("paths"), nb::arg("run"), nb::arg("names").none(), nb::arg("rename").none(),
        nb::arg("singular_values").none(), nb::arg("threads").none(), nb::arg("reading"),
        nb::sig("def report_page(paths: list[" TENSORCASK_READABLE "], run: bool, names: object, rename: object, "
                "singular_values: object, threads: int | None, " TENSORCASK_READ_ARGUMENTS ") -> str"),
        "The text of the page that ``tensorcask.report`` shows.");
}

}  // namespace tensorcask::python
