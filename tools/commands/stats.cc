// tensorcask stats PATH [GLOB...]: range, mean, spread and odd elements of each tensor.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"
#include "tensorcask/serialize/archive/archive_reader.h"
#include "tensorcask/serialize/archive/convert_archives.h"
#include "tensorcask/serialize/archive/summarize.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tools/output/json_text.h"
#include "tensorcask/tools/output/table.h"
#include "tensorcask/tools/subcommand.h"

namespace tensorcask::tools {
namespace {

using Json = nlohmann::ordered_json;

struct StatsFlags {
  std::string path;
  std::vector<std::string> globs;
  InputOptions input;
  bool json = false;
};

std::string FiniteNumber(double value) { return std::isfinite(value) ? absl::StrFormat("%.6g", value) : "-"; }

// One character for each bin: from ' ' (none) to '#' (as many as the fullest bin).
std::string Drawing(const TensorStatistics& one) {
  constexpr char kLevels[] = " .:-=+*#";
  constexpr uint64_t kHighest = sizeof(kLevels) - 2;
  const uint64_t most = *std::max_element(one.histogram.begin(), one.histogram.end());
  if (most == 0) return "";
  std::string drawing = "|";
  for (const uint64_t count : one.histogram) drawing += kLevels[(count * kHighest + most - 1) / most];
  return drawing + "|";
}

// "3 zeros, 1 NaN".
std::string Oddities(const TensorStatistics& one) {
  std::string text;
  const auto add = [&](uint64_t count, absl::string_view what) {
    if (count > 0) absl::StrAppend(&text, text.empty() ? "" : ", ", count, " ", what);
  };
  add(one.nans, "NaN");
  add(one.infinities, "Inf");
  add(one.zeros, one.zeros == 1 ? "zero" : "zeros");
  add(one.subnormals, one.subnormals == 1 ? "subnormal" : "subnormals");
  return text;
}

Json Finite(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

// Of a 64-bit integer, with or without a sign.
Json Exact(absl::int128 value) {
  return value < 0 ? Json(static_cast<int64_t>(value)) : Json(static_cast<uint64_t>(value));
}

Json ToJson(const TensorStatistics& one) {
  Json json = JsonName(one.name);
  json["dtype"] = std::string(DTypeName(one.dtype));
  json["shape"] = Json::array();
  for (const int64_t dim : one.shape.dims()) json["shape"].push_back(dim);
  if (!one.status.ok()) {
    json["error"] = JsonText(InToolWords(one.status.message()));
    return json;
  }
  if (!one.is_numeric) return json;
  json["min"] = one.finite == 0 ? Json(nullptr) : one.exact_range ? Exact(one.exact_range->min) : Finite(one.min);
  json["max"] = one.finite == 0 ? Json(nullptr) : one.exact_range ? Exact(one.exact_range->max) : Finite(one.max);
  json["mean"] = one.finite > 0 ? Finite(one.mean) : Json(nullptr);
  json["std"] = one.finite > 0 ? Finite(one.standard_deviation) : Json(nullptr);
  json["zeros"] = one.zeros;
  json["nan"] = one.nans;
  json["inf"] = one.infinities;
  json["subnormals"] = one.subnormals;
  json["histogram"] = one.histogram;
  return json;
}

TableRow RowOf(const TensorStatistics& one) {
  TableRow row = {Printable(one.name), std::string(DTypeName(one.dtype)), one.shape.ToString()};
  if (one.status.ok() && one.is_numeric && one.finite > 0) {
    const auto exact = [](absl::int128 value) { return absl::StrFormat("%s", absl::FormatStreamed(value)); };
    row.insert(row.end(), {one.exact_range ? exact(one.exact_range->min) : FiniteNumber(one.min),
                           one.exact_range ? exact(one.exact_range->max) : FiniteNumber(one.max),
                           FiniteNumber(one.mean), FiniteNumber(one.standard_deviation), Drawing(one), Oddities(one)});
  } else {
    const std::string odd = one.status.ok() ? Oddities(one) : "error: " + EscapeControls(one.status.message());
    row.insert(row.end(), {"-", "-", "-", "-", "", odd});
  }
  return row;
}

void PrintText(const std::vector<TensorStatistics>& all, Console& console) {
  const TableRow head = {"name", "dtype", "shape", "min", "max", "mean", "std", "histogram", "odd"};
  Table table({3, 4, 5, 6}, OutputWidth());
  table.Measure(head);
  for (const TensorStatistics& one : all) table.Measure(RowOf(one));
  table.Print(head, console.out);
  for (const TensorStatistics& one : all) table.Print(RowOf(one), console.out);
}

absl::StatusOr<ExitCode> Stats(const StatsFlags& flags, Console& console) {
  CatchInterrupts();
  CASK_ASSIGN_OR_RETURN(const std::unique_ptr<ArchiveReader> input, OpenInput(flags.path, flags.input));
  NoteOverlooked("stats", *input, console);
  CASK_RETURN_IF_ERROR(CheckMatched(flags.globs, {input.get()}));
  absl::StatusOr<std::vector<TensorStatistics>> all = absl::UnknownError("");
  {
    ProgressLine progress(console, ElementBytes(SelectEntries(input->entries(), flags.globs, {})));
    SummarizeOptions options;
    options.include = flags.globs;
    options.progress = [&](uint64_t bytes) {
      progress.ShowBytes("reading", bytes);
      return !Interrupted();
    };
    all = Summarize(*input, options);
  }
  if (!all.ok() && Interrupted()) return InterruptedExitCode();
  CASK_RETURN_IF_ERROR(all.status());
  if (flags.json) {
    Json document;
    SetJsonText("path", flags.path, &document);
    document["format"] = std::string(input->format());
    document["tensors"] = Json::array();
    for (const TensorStatistics& one : *all) document["tensors"].push_back(ToJson(one));
    console.out << document.dump(/*indent=*/1, /*indent_char=*/' ', /*ensure_ascii=*/true,
                                 Json::error_handler_t::replace)
                << '\n';
  } else {
    PrintText(*all, console);
  }
  DamageNote note;
  for (const TensorStatistics& one : *all) note.Add(one.status);
  note.Print("stats", console);
  const bool all_read =
      std::all_of(all->begin(), all->end(), [](const TensorStatistics& one) { return one.status.ok(); });
  return all_read ? kDone : kFound;
}

}  // namespace

Action DeclareStats(CLI::App& app) {
  auto flags = std::make_shared<StatsFlags>();
  app.add_option("PATH", flags->path, "A checkpoint's prefix or .index, or another file")->required();
  app.add_option("GLOB", flags->globs, "Only tensors with names that match: dense/*");
  app.add_flag("--json", flags->json, "One JSON document");
  AddInputOptions(app, &flags->input);
  app.footer(
      "Minimum, maximum, mean and standard deviation are those of the finite elements. The histogram has 16 "
      "equal parts from the minimum to the maximum, of a sample of up to 65536 elements. NaN, infinities, zeros "
      "and subnormal numbers are counted. A \"-\" stands for what does not exist: of strings, complex numbers "
      "and empty tensors, or because the sum of the elements overflows. Exit 1 if a tensor cannot be read.\n\n"
      "Example:\n"
      "  tensorcask stats model.ckpt 'dense/*'");
  return [flags](Console& console) { return Stats(*flags, console); };
}

}  // namespace tensorcask::tools
