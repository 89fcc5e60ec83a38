// tensorcask diff A B: what differs between two files, of any formats.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"
#include "tensorcask/serialize/archive/archive_reader.h"
#include "tensorcask/serialize/archive/compare_archives.h"
#include "tensorcask/serialize/archive/similar_names.h"
#include "tensorcask/serialize/io/listing_budget.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/glob.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tools/output/json_text.h"
#include "tensorcask/tools/rename.h"
#include "tensorcask/tools/subcommand.h"

namespace tensorcask::tools {
namespace {

using Json = nlohmann::ordered_json;
using Kind = TensorDifference::Kind;

struct DiffFlags {
  std::string a;
  std::string b;
  std::vector<std::string> globs;
  InputOptions input;
  CompareOptions compare;
  std::vector<std::string> renames;
  bool json = false;
};

std::string Type(const ArchiveEntry& entry) {
  return absl::StrCat(DTypeName(entry.dtype), " ", entry.shape.ToString());
}

std::string Number(double value) { return absl::StrFormat("%.6g", value); }

// "root mean square 0.00123, 7.31% of A's".
std::string RootMeanSquare(double rms, double relative) {
  std::string text = absl::StrCat("root mean square ", absl::StrFormat("%.3g", rms));
  if (std::isfinite(relative)) absl::StrAppend(&text, ", ", absl::StrFormat("%.3g", 100 * relative), "% of A's");
  return text;
}

bool HaveOtherTypes(const TensorDifference& one) { return one.type_a != one.type_b; }

std::string Sentence(const TensorDifference& one) {
  switch (one.kind) {
    case Kind::kOnlyInA:
      return absl::StrCat("only in A: ", Type(one.a));
    case Kind::kOnlyInB:
      return absl::StrCat("only in B: ", Type(one.b));
    case Kind::kDType:
    case Kind::kShape:
      return absl::StrCat(one.kind == Kind::kDType ? "dtype" : "shape", " differs: ", Type(one.a), ", ", Type(one.b));
    case Kind::kUnreadable:
      return absl::StrCat("error: ", EscapeControls(one.status.message()));
    case Kind::kValues:
      break;
  }
  const std::string types = HaveOtherTypes(one) ? absl::StrCat(one.type_a, " and ", one.type_b, ": ") : "";
  std::string text = absl::StrCat(types, one.num_different, " of ", one.a.shape.num_elements(), " elements differ");
  const std::string where = absl::StrCat("[", absl::StrJoin(one.where, ","), "]");
  if (one.a.dtype == DType::kString) return absl::StrCat(text, ", the first at ", where);
  absl::StrAppend(&text, ", at most by ", Number(one.max_absolute));
  const bool is_same_place = one.where == one.where_relative;
  // Blocks make zeros of small numbers, which are infinitely far from them.
  const bool says_relative = !HaveOtherTypes(one) || std::isfinite(one.max_relative);
  if (says_relative && is_same_place) absl::StrAppend(&text, " (relative ", Number(one.max_relative), ")");
  absl::StrAppend(&text, " at ", where, ": ", one.text_a, ", ", one.text_b);
  if (says_relative && !is_same_place) {
    absl::StrAppend(&text, "; relatively by ", Number(one.max_relative), " at [",
                    absl::StrJoin(one.where_relative, ","), "]");
  }
  if (one.num_different == 1) return text;  // which is the whole difference
  return absl::StrCat(text, "; ", RootMeanSquare(one.rms, one.relative_rms()));
}

// "12 tensors of float32 and q4_k: root mean square 0.00123, 7.31% of A's, at most 0.125".
std::string Sentence(const TypeDifference& total) {
  return absl::StrCat(TensorCount(total.tensors), " of ", total.type_a, " and ", total.type_b, ": ",
                      RootMeanSquare(total.rms, total.relative_rms()), "; at most by ", Number(total.max_absolute));
}

Json OrNull(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json ToJson(const ArchiveEntry& entry) {
  if (entry.dtype == DType::kInvalid && entry.name.empty()) return nullptr;
  Json json = {{"dtype", std::string(DTypeName(entry.dtype))}, {"shape", Json::array()}};
  for (const int64_t dim : entry.shape.dims()) json["shape"].push_back(dim);
  json["encoding"] = JsonText(entry.encoding);
  return json;
}

Json ToJson(const TensorDifference& one) {
  static constexpr const char* kKinds[] = {"only in A", "only in B", "dtype", "shape", "values", "error"};
  Json json = JsonName(one.name);
  json["kind"] = kKinds[static_cast<int>(one.kind)];
  json["a"] = ToJson(one.a);
  json["b"] = ToJson(one.b);
  if (one.kind == Kind::kUnreadable) json["error"] = JsonText(InToolWords(one.status.message()));
  if (one.kind != Kind::kValues) return json;
  json["different"] = one.num_different;
  json["max_absolute"] = OrNull(one.max_absolute);
  json["max_relative"] = OrNull(one.max_relative);
  json["where"] = one.where;
  json["where_relative"] = one.where_relative;
  json["rms"] = OrNull(one.rms);
  json["relative_rms"] = OrNull(one.relative_rms());
  return json;
}

Json ToJson(const TypeDifference& total) {
  return {{"a", total.type_a},
          {"b", total.type_b},
          {"tensors", total.tensors},
          {"elements", total.elements},
          {"max_absolute", OrNull(total.max_absolute)},
          {"rms", OrNull(total.rms)},
          {"relative_rms", OrNull(total.relative_rms())}};
}

void PrintJson(const DiffFlags& flags, const CompareReport& report, Console& console) {
  Json document;
  SetJsonText("a", flags.a, &document);
  SetJsonText("b", flags.b, &document);
  document["equal"] = report.equal;
  document["within_tolerance"] = report.within_tolerance;
  document["other_dtypes"] = report.other_dtypes;
  document["other_scales"] = report.other_scales;
  document["differences"] = Json::array();
  for (const TensorDifference& one : report.differences) document["differences"].push_back(ToJson(one));
  document["by_type"] = Json::array();
  for (const TypeDifference& total : report.by_type) document["by_type"].push_back(ToJson(total));
  console.out << document.dump(/*indent=*/1, /*indent_char=*/' ', /*ensure_ascii=*/true, Json::error_handler_t::replace)
              << '\n';
}

// As CheckMatched, with the new names of `a`.
absl::Status CheckMatchedNew(const std::vector<std::string>& globs, const ArchiveReader& a,
                             const std::function<absl::StatusOr<std::string>(absl::string_view)>& rename,
                             const ArchiveReader& b) {
  std::vector<std::string> names;
  for (const ArchiveEntry& entry : a.entries()) {
    CASK_ASSIGN_OR_RETURN(std::string name, rename(entry.name));
    names.push_back(std::move(name));
  }
  for (const std::string& glob : globs) {
    const auto matches = [&](const std::string& name) { return MatchesGlob(glob, name); };
    if (std::any_of(names.begin(), names.end(), matches) || MatchesSome(b.entries(), glob)) continue;
    std::vector<absl::string_view> all(names.begin(), names.end());
    for (const ArchiveEntry& entry : b.entries()) all.push_back(entry.name);
    return Misuse(absl::StrCat(glob, " matches no tensor", archive::HintForPattern(glob, all)));
  }
  return absl::OkStatus();
}

absl::StatusOr<ExitCode> Diff(const DiffFlags& flags, Console& console) {
  CatchInterrupts();
  InputOptions options = flags.input;
  options.listing = std::make_shared<ListingBudget>(options.limits);
  CASK_ASSIGN_OR_RETURN(const std::unique_ptr<ArchiveReader> a, OpenInput(flags.a, options));
  CASK_ASSIGN_OR_RETURN(const std::unique_ptr<ArchiveReader> b, OpenInput(flags.b, options));
  NoteOverlooked("diff", *a, console);
  NoteOverlooked("diff", *b, console);
  uint64_t total = 0;
  for (const ArchiveReader* const side : {a.get(), b.get()}) {
    for (const ArchiveEntry& entry : side->entries()) {
      total = CheckedAdd(total, ElementBytes(entry)).value_or(UINT64_MAX);
    }
  }
  CASK_ASSIGN_OR_RETURN(const auto rename, ParseRenames(flags.renames, {a.get()}));
  CASK_RETURN_IF_ERROR(rename ? CheckMatchedNew(flags.globs, *a, rename, *b)
                              : CheckMatched(flags.globs, {a.get(), b.get()}));
  absl::StatusOr<CompareReport> report = absl::UnknownError("");
  {
    ProgressLine progress(console, total);
    CompareOptions options = flags.compare;
    options.include = flags.globs;
    options.rename = rename;
    options.progress = [&](uint64_t bytes) {
      progress.ShowBytes("comparing", bytes);
      return !Interrupted();
    };
    report = Compare(*a, *b, options);
  }
  if (!report.ok() && Interrupted()) return InterruptedExitCode();
  CASK_RETURN_IF_ERROR(report.status());
  if (flags.json) {
    PrintJson(flags, *report, console);
  } else {
    for (const TensorDifference& one : report->differences) {
      console.out << Printable(one.name) << ": " << Sentence(one) << '\n';
    }
    const bool has_other_types = std::any_of(report->differences.begin(), report->differences.end(), HaveOtherTypes);
    for (const TypeDifference& total : report->by_type) {
      if (has_other_types) console.out << Sentence(total) << '\n';
    }
    console.out << TensorCount(report->equal) << " equal";
    if (report->within_tolerance > 0) console.out << ", " << report->within_tolerance << " within the tolerance";
    if (report->other_dtypes > 0) console.out << " (" << report->other_dtypes << " of other dtypes)";
    console.out << ", " << report->differences.size() << " different\n";
    const auto other_dtypes = std::count_if(report->differences.begin(), report->differences.end(),
                                            [](const TensorDifference& one) { return one.kind == Kind::kDType; });
    if (other_dtypes > 0) {
      console.err << "tensorcask diff: note: the values of " << TensorCount(static_cast<uint64_t>(other_dtypes))
                  << " with other dtypes were not compared; --cast compares numbers by their values\n";
    }
    if (report->other_scales > 0) {
      console.err << "tensorcask diff: note: " << TensorCount(static_cast<uint64_t>(report->other_scales))
                  << " with equal quantized elements "
                  << (report->other_scales == 1 ? "has another scale or zero point in B\n"
                                                : "have other scales or zero points in B\n");
    }
  }
  DamageNote note;
  for (const TensorDifference& one : report->differences) note.Add(one.status);
  note.Print("diff", console);
  return report->differences.empty() ? kDone : kFound;
}

void AddTolerance(CLI::App& app, const std::string& name, double* value, const std::string& what) {
  const auto check = [](const std::string& text) {
    double number;
    const bool is_good = absl::SimpleAtod(text, &number) && std::isfinite(number) && number >= 0;
    return is_good ? std::string() : absl::StrCat("wanted a number of 0 or more, as in 1e-5; found ", Quoted(text));
  };
  app.add_option(name, *value, what)->check(CLI::Validator(check, ""))->type_name("NUMBER");
}

}  // namespace

Action DeclareDiff(CLI::App& app) {
  auto flags = std::make_shared<DiffFlags>();
  app.add_option("A", flags->a, "A checkpoint's prefix or .index, or another file")->required();
  app.add_option("B", flags->b, "What to compare it with; the formats may differ")->required();
  app.add_option("GLOB", flags->globs, "Only tensors with names that match: dense/*");
  AddTolerance(app, "--rtol", &flags->compare.relative_tolerance, "Relative tolerance (default 0)");
  AddTolerance(app, "--atol", &flags->compare.absolute_tolerance, "Absolute tolerance (default 0)");
  app.add_flag("--cast", flags->compare.cast,
               "Compare tensors of different dtypes by their values; --rtol and --atol do so, too");
  AddRenameOption(app, " of A before it is compared", &flags->renames);
  app.add_flag("--json", flags->json, "One JSON document");
  AddInputOptions(app, &flags->input);
  app.footer(
      "Compares tensors by name. Prints a line for each tensor that differs, of those with other values the "
      "largest relative change first, then the totals. Metadata is not compared; a note counts the tensors with equal "
      "quantized elements and another scale or zero point. Exit 0 if nothing differs, 1 "
      "otherwise.\n\n"
      "Two elements are equal if |a - b| <= ATOL + RTOL * |b|, or if both are NaN. Tensors of different dtypes "
      "differ unless --cast or a tolerance is given; then their values are compared, and the totals say how "
      "many there are. The root mean square of a - b is over all elements; the percentage is its share of that of a. "
      "Tensors of GGUF's blocks are compared with floats by value: 'diff model-f16.gguf model-q4_k.gguf' tells what "
      "the quantiser changed, with the totals of each pair of types. Values are exact, also those of a 64-bit integer "
      "beside a float: 2^53 + 1 is not 2^53.\n\n"
      "The tensor of an npy file or a message is compared with the only tensor of the other file, or the only "
      "one that GLOB chooses. With --rename, GLOB is matched with the new names.\n\n"
      "Examples:\n"
      "  tensorcask diff --rtol 1e-5 step-100 step-100.safetensors\n"
      "  tensorcask diff --rtol 4e-3 --rename 's/^model\\.//' model.safetensors model-bfloat16.safetensors");
  return [flags](Console& console) { return Diff(*flags, console); };
}

}  // namespace tensorcask::tools
