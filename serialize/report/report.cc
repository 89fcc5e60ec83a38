#include "tensorcask/serialize/report/report.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "tensorcask/serialize/archive/archive.h"
#include "tensorcask/serialize/archive/archive_entry.h"
#include "tensorcask/serialize/archive/compare_archives.h"
#include "tensorcask/serialize/archive/convert_archives.h"
#include "tensorcask/serialize/archive/tensor_blocks.h"
#include "tensorcask/serialize/io/files.h"
#include "tensorcask/serialize/report/internal/page.h"
#include "tensorcask/serialize/report/internal/report_json.h"
#include "tensorcask/serialize/report/internal/tensor_profile.h"
#include "tensorcask/serialize/report/singular_values.h"
#include "tensorcask/serialize/values/value_json.h"
#include "tensorcask/tensor/base/glob.h"
#include "tensorcask/tensor/base/parallel_for.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/strided/convert.h"

namespace tensorcask {
namespace {

using archive::ByteProgress;
using report::ProfileDetail;
using report::ReportRow;
using report::TensorProfile;
using report::TensorProfiler;

absl::Status Cancelled() { return absl::CancelledError("the report was cancelled"); }

absl::StatusOr<TensorProfile> Profile(const ArchiveReader& archive, const ArchiveEntry& entry, uint64_t block_bytes,
                                      const ProfileDetail& detail, ByteProgress* progress) {
  CASK_RETURN_IF_ERROR(archive.CheckReadable(entry));
  TensorProfiler profiler(entry.dtype, entry.shape, detail);
  CASK_ASSIGN_OR_RETURN(const std::unique_ptr<TensorBlocks> blocks, archive.ReadBlocks(entry, block_bytes));
  while (true) {
    CASK_ASSIGN_OR_RETURN(const std::optional<TensorBlock> block, blocks->Next());
    if (!block.has_value()) return profiler.Finish();
    CASK_RETURN_IF_ERROR(profiler.Add(block->elements));
    const TensorView& elements = block->elements;
    if (!progress->Add(static_cast<uint64_t>(elements.num_elements()) * elements.element_size())) return Cancelled();
  }
}

// Keeps of a profile what the page shows.
void Keep(TensorProfile profile, const ProfileDetail& detail, ReportRow* row) {
  if (profile.is_numeric && row->entry->shape.num_elements() > 0) {
    row->detail = report::DetailJson(profile, row->entry->shape.num_elements(), detail);
  }
  profile.sample = {};
  profile.counts = {};
  row->profile = std::move(profile);
}

std::vector<ReportRow> RowsOf(const ArchiveReader& archive, const std::vector<std::string>& include) {
  std::vector<ReportRow> rows;
  for (const ArchiveEntry* const entry : SelectEntries(archive.entries(), include, {})) {
    rows.emplace_back();
    rows.back().entry = entry;
  }
  return rows;
}

absl::Status MeasureAll(const ArchiveReader& archive, const ReportOptions& options, const ProfileDetail& detail,
                        ByteProgress* progress, std::vector<ReportRow>* rows) {
  CASK_RETURN_IF_ERROR(ParallelFor(options.num_threads, rows->size(), [&](size_t i) {
    if (progress->cancelled()) return;
    ReportRow& row = (*rows)[i];
    absl::StatusOr<TensorProfile> profile = Profile(archive, *row.entry, options.block_bytes, detail, progress);
    row.status = profile.status();
    if (profile.ok()) Keep(*std::move(profile), detail, &row);
  }));
  return progress->cancelled() ? Cancelled() : absl::OkStatus();
}

absl::StatusOr<std::vector<double>> SingularValuesOf(const ArchiveReader& archive, const ArchiveEntry& entry,
                                                     ByteProgress* progress) {
  if (std::max(entry.shape.dim(0), entry.shape.dim(1)) > kMostSingularRows) {
    return absl::InvalidArgumentError(absl::StrCat("at most ", kMostSingularRows, " rows and columns"));
  }
  CASK_ASSIGN_OR_RETURN(const Tensor matrix, archive.Read(entry.name));
  return SingularValues(matrix, [&] { return progress->Add(0); });
}

// Adds the singular values of the chosen matrices, one after another: the elements of one may take 192 MiB.
absl::Status AddSingularValues(const ArchiveReader& archive, const ReportOptions& options, ByteProgress* progress,
                               std::vector<ReportRow>* rows) {
  for (ReportRow& row : *rows) {
    const ArchiveEntry& entry = *row.entry;
    const auto matches = [&](const std::string& glob) { return MatchesGlob(glob, entry.name); };
    if (!std::any_of(options.singular_values.begin(), options.singular_values.end(), matches)) continue;
    if (!row.status.ok() || entry.shape.rank() != 2 || entry.shape.num_elements() == 0) continue;
    const absl::StatusOr<std::vector<double>> values = SingularValuesOf(archive, entry, progress);
    if (progress->cancelled()) return Cancelled();
    row.singular = report::SingularJson(values);
  }
  return absl::OkStatus();
}

// What the page says of two tensors, by number; -1: there is none.
struct PairRow {
  int a = -1;
  int b = -1;
  const TensorDifference* difference = nullptr;  // null: equal
  double norm = NAN;                             // that of b - a
  absl::Status status;
  std::string detail = "0";
};

// JSON for two samples of one shape: the histogram of b - a, and those of a and b in the same parts.
std::string PairDetail(const TensorProfile& a, const TensorProfile& b, int bins) {
  if (bins == 0 || a.sample.size() != b.sample.size() || a.totals.finite() == 0 || b.totals.finite() == 0) return "0";
  std::vector<double> moved;
  for (size_t i = 0; i < a.sample.size(); ++i) {
    const double difference = b.sample[i] - a.sample[i];
    if (std::isfinite(difference)) moved.push_back(difference);
  }
  if (moved.empty()) return "0";
  const auto [least, most] = std::minmax_element(moved.begin(), moved.end());
  const double low = std::min(a.totals.min, b.totals.min);
  const double high = std::max(a.totals.max, b.totals.max);
  return absl::StrCat("{\"h\":[", report::Number(*least), ",", report::Number(*most), ",[",
                      absl::StrJoin(report::Histogram(moved, *least, *most, bins), ","), "]],\"o\":[",
                      report::Number(low), ",", report::Number(high), ",[",
                      absl::StrJoin(report::Histogram(a.sample, low, high, bins), ","), "],[",
                      absl::StrJoin(report::Histogram(b.sample, low, high, bins), ","), "]]}");
}

// Reads two tensors of one shape side by side.
absl::Status MeasurePair(const ArchiveReader& a, const ArchiveReader& b, const ReportOptions& options,
                         const ProfileDetail& detail, ByteProgress* progress, ReportRow* row_a, ReportRow* row_b,
                         PairRow* pair) {
  const uint64_t size_a = ElementSize(row_a->entry->dtype);
  const uint64_t size_b = ElementSize(row_b->entry->dtype);
  const uint64_t each = std::max<uint64_t>(options.block_bytes / std::max(size_a, size_b), 1);
  TensorProfiler profiler_a(row_a->entry->dtype, row_a->entry->shape, detail);
  TensorProfiler profiler_b(row_b->entry->dtype, row_b->entry->shape, detail);
  CASK_ASSIGN_OR_RETURN(const std::unique_ptr<TensorBlocks> blocks_a, a.ReadBlocks(*row_a->entry, each * size_a));
  CASK_ASSIGN_OR_RETURN(const std::unique_ptr<TensorBlocks> blocks_b, b.ReadBlocks(*row_b->entry, each * size_b));
  double squares = 0;
  while (true) {
    CASK_ASSIGN_OR_RETURN(const std::optional<TensorBlock> block_a, blocks_a->Next());
    CASK_ASSIGN_OR_RETURN(const std::optional<TensorBlock> block_b, blocks_b->Next());
    if (!block_a.has_value() || !block_b.has_value()) break;
    const int64_t size = block_a->elements.num_elements();
    if (size != block_b->elements.num_elements()) return absl::InternalError("blocks of different sizes");
    CASK_RETURN_IF_ERROR(profiler_a.Add(block_a->elements));
    CASK_RETURN_IF_ERROR(profiler_b.Add(block_b->elements));
    CASK_ASSIGN_OR_RETURN(const TensorView wide_a, ConvertTo(block_a->elements, DType::kFloat64));
    CASK_ASSIGN_OR_RETURN(const TensorView wide_b, ConvertTo(block_b->elements, DType::kFloat64));
    for (int64_t i = 0; i < size; ++i) {
      const double difference = wide_b.data<double>()[i] - wide_a.data<double>()[i];
      if (std::isfinite(difference)) squares += difference * difference;
    }
    if (!progress->Add(static_cast<uint64_t>(size) * (size_a + size_b))) return Cancelled();
  }
  TensorProfile profile_a = profiler_a.Finish();
  TensorProfile profile_b = profiler_b.Finish();
  pair->norm = std::sqrt(squares);
  pair->detail = PairDetail(profile_a, profile_b, detail.bins);
  Keep(std::move(profile_a), detail, row_a);
  Keep(std::move(profile_b), detail, row_b);
  return absl::OkStatus();
}

bool CanSubtract(const ReportRow& a, const ReportRow& b) {
  return a.entry->read_status.ok() && b.entry->read_status.ok() && a.entry->shape == b.entry->shape &&
         archive::HasOrder(a.entry->dtype) && archive::HasOrder(b.entry->dtype);
}

std::string PairJson(const PairRow& pair) {
  static constexpr const char* kKinds[] = {"removed", "added", "dtype", "shape", "values", "error"};
  const TensorDifference* const difference = pair.difference;
  std::string json = absl::StrCat("[", pair.a, ",", pair.b, ",\"",
                                  difference == nullptr ? "equal" : kKinds[static_cast<int>(difference->kind)], "\",");
  if (difference != nullptr && difference->kind == TensorDifference::Kind::kValues) {
    absl::StrAppend(&json, difference->num_different, ",", report::Number(difference->max_absolute), ",",
                    report::Number(difference->max_relative), ",");
  } else {
    json += difference == nullptr ? "0,0,0," : "null,null,null,";
  }
  const std::string error = difference == nullptr ? "" : std::string(difference->status.message());
  return absl::StrCat(json, report::Number(pair.norm), ",", JsonQuoted(error), ",", pair.detail, "]");
}

// The data of a page up to its archives.
std::string Beginning(absl::string_view kind, const ReportOptions& options) {
  return absl::StrCat("{\"version\":1,\"kind\":\"", kind, "\",\"live\":", options.live ? "true" : "false",
                      ",\"include\":", report::TextList(options.include),
                      ",\"rename\":", report::TextList(options.rename_rules), ",\"archives\":[");
}

// The name of each row of a in b.
absl::StatusOr<std::vector<std::string>> NewNames(const std::vector<ReportRow>& rows, const ReportOptions& options) {
  std::vector<std::string> names;
  for (const ReportRow& row : rows) {
    if (options.rename) {
      CASK_ASSIGN_OR_RETURN(std::string name, options.rename(row.entry->name));
      names.push_back(std::move(name));
    } else {
      names.push_back(row.entry->name);
    }
  }
  return names;
}

// Keeps the rows of which the new name matches one of `include`; all if that is empty.
void KeepMatching(const std::vector<std::string>& include, std::vector<ReportRow>* rows,
                  std::vector<std::string>* names) {
  if (include.empty()) return;
  size_t kept = 0;
  for (size_t i = 0; i < rows->size(); ++i) {
    const auto matches = [&](const std::string& glob) { return MatchesGlob(glob, (*names)[i]); };
    if (!std::any_of(include.begin(), include.end(), matches)) continue;
    std::swap((*rows)[kept], (*rows)[i]);
    std::swap((*names)[kept++], (*names)[i]);
  }
  rows->resize(kept);
  names->resize(kept);
}

// Pairs of a and b by name, those of a first; `names` are those of a in b.
std::vector<PairRow> PairUp(const std::vector<ReportRow>& a, const std::vector<std::string>& names,
                            const std::vector<ReportRow>& b, bool only_ones) {
  std::vector<PairRow> pairs;
  std::unordered_map<std::string, int> places;
  for (size_t i = 0; i < b.size(); ++i) places[b[i].entry->name] = static_cast<int>(i);
  std::vector<bool> is_paired(b.size(), false);
  for (size_t i = 0; i < a.size(); ++i) {
    const auto found = places.find(names[i]);
    pairs.emplace_back();
    pairs.back().a = static_cast<int>(i);
    pairs.back().b = only_ones ? 0 : found == places.end() ? -1 : found->second;
    if (pairs.back().b >= 0) is_paired[static_cast<size_t>(pairs.back().b)] = true;
  }
  for (size_t i = 0; i < b.size(); ++i) {
    if (is_paired[i]) continue;
    pairs.emplace_back();
    pairs.back().b = static_cast<int>(i);
  }
  return pairs;
}

// One tensor of a step of a run.
struct StepTensor {
  double norm = NAN;
  double change = NAN;  // the norm of the change since the step before, by that of the step before
  double largest = NAN;
  uint64_t bad = 0;     // NaN and infinite elements
  uint64_t stored = 0;  // bytes in the file
};

// A list of one number over all steps, or that number if it is the same in all of them.
template <typename Text>
std::string ListOrOne(const std::vector<StepTensor>& series, Text text) {
  std::vector<std::string> texts;
  for (const StepTensor& one : series) texts.push_back(text(one));
  const auto is_first = [&](const std::string& other) { return other == texts.front(); };
  if (!texts.empty() && std::all_of(texts.begin(), texts.end(), is_first)) return texts.front();
  return absl::StrCat("[", absl::StrJoin(texts, ","), "]");
}

// The norm of now - before, relative to that of `before`, for samples of one lattice.
double RelativeChange(const std::vector<float>& before, const std::vector<double>& now) {
  if (before.size() != now.size() || now.empty()) return NAN;
  double moved = 0;
  double was = 0;
  for (size_t i = 0; i < now.size(); ++i) {
    const double old = before[i];
    if (!std::isfinite(old) || !std::isfinite(now[i])) continue;
    moved += (now[i] - old) * (now[i] - old);
    was += old * old;
  }
  return was > 0 ? std::sqrt(moved / was) : moved > 0 ? NAN : 0;
}

class Run {
 public:
  Run(const ReportOptions& options, size_t num_steps) : options_(options), num_steps_(num_steps) {}

  absl::Status AddStep(const ArchiveReader& archive, const ReportStep& step, bool is_last, ByteProgress* progress) {
    rows_ = RowsOf(archive, options_.include);
    if (steps_.empty()) detail_ = ProfileDetail::For(rows_.size());  // one lattice for all steps
    std::vector<std::vector<double>> samples(rows_.size());
    CASK_RETURN_IF_ERROR(ParallelFor(options_.num_threads, rows_.size(), [&](size_t i) {
      if (progress->cancelled()) return;
      ReportRow& row = rows_[i];
      absl::StatusOr<TensorProfile> profile = Profile(archive, *row.entry, options_.block_bytes, detail_, progress);
      row.status = profile.status();
      if (!profile.ok()) return;
      const std::vector<double>& sample = profile->sample;
      const size_t kept = std::min(sample.size(), Kept());
      for (size_t k = 0; k < kept; ++k) samples[i].push_back(sample[k * sample.size() / kept]);
      if (is_last) {
        Keep(*std::move(profile), detail_, &row);
      } else {
        profile->sample = {};
        row.profile = *std::move(profile);
      }
    }));
    if (progress->cancelled()) return Cancelled();
    std::unordered_map<std::string, std::vector<float>> now;
    uint64_t bytes = 0;
    for (size_t i = 0; i < rows_.size(); ++i) {
      const ReportRow& row = rows_[i];
      bytes += row.entry->stored_bytes;
      if (!row.status.ok() || !row.profile.is_numeric) continue;
      std::vector<StepTensor>& series = tensors_[row.entry->name];
      series.resize(num_steps_);
      StepTensor& one = series[steps_.size()];
      const archive::ElementTotals& totals = row.profile.totals;
      one.norm = row.profile.norm();
      one.largest = std::max(std::abs(totals.min), std::abs(totals.max));
      one.bad = totals.nans + totals.infinities;
      one.stored = row.entry->stored_bytes;
      const auto before = samples_.find(row.entry->name);
      if (before != samples_.end()) one.change = RelativeChange(before->second, samples[i]);
      now[row.entry->name].assign(samples[i].begin(), samples[i].end());
    }
    samples_ = std::move(now);
    steps_.push_back(
        absl::StrCat("[", JsonQuoted(step.label), ",", JsonQuoted(step.path), ",", bytes, ",", rows_.size(), "]"));
    return absl::OkStatus();
  }

  std::vector<ReportRow>* rows() { return &rows_; }  // the rows of the last step

  void Append(report::PageData* out) const {
    out->Append(absl::StrCat(",\"run\":{\"steps\":[", absl::StrJoin(steps_, ","), "],\"tensors\":["));
    bool is_first = true;
    for (const auto& [name, series] : tensors_) {
      const auto list = [&, &of = series](double StepTensor::*field) {
        return ListOrOne(of, [&](const StepTensor& one) { return StepNumber(one.*field); });
      };
      const auto whole = [&of = series](uint64_t StepTensor::*field) {
        return ListOrOne(of, [&](const StepTensor& one) { return absl::StrCat(one.*field); });
      };
      out->Append(absl::StrCat(is_first ? "" : ",\n", "[", JsonQuoted(name), ",", list(&StepTensor::norm), ",",
                               list(&StepTensor::change), ",", list(&StepTensor::largest), ",", whole(&StepTensor::bad),
                               ",", whole(&StepTensor::stored), "]"));
      is_first = false;
    }
    out->Append("]}");
  }

 private:
  // A curve needs fewer digits than a table.
  static std::string StepNumber(double value) { return std::isfinite(value) ? absl::StrFormat("%.5g", value) : "null"; }
  // Elements of each tensor that are kept for the next step: 16 MiB of all.
  size_t Kept() const { return std::max<size_t>((size_t{1} << 22) / std::max<size_t>(rows_.size(), 1), 16); }

  const ReportOptions& options_;
  const size_t num_steps_;
  ProfileDetail detail_;
  std::vector<ReportRow> rows_;
  std::vector<std::string> steps_;
  std::map<std::string, std::vector<StepTensor>> tensors_;
  std::unordered_map<std::string, std::vector<float>> samples_;  // the samples of the step before
};

// The last number in a name, or -1.
int64_t LastNumberIn(absl::string_view name) {
  size_t end = name.size();
  while (end > 0 && !absl::ascii_isdigit(static_cast<unsigned char>(name[end - 1]))) --end;
  size_t start = end;
  while (start > 0 && absl::ascii_isdigit(static_cast<unsigned char>(name[start - 1]))) --start;
  int64_t number = -1;
  return absl::SimpleAtoi(name.substr(start, end - start), &number) ? number : -1;
}

// "run/checkpoint-500/model.safetensors" -> {"checkpoint-500", "model.safetensors"}
std::pair<absl::string_view, absl::string_view> FolderAndName(absl::string_view path) {
  path = absl::StripSuffix(path, "/");
  const size_t slash = path.rfind('/');
  if (slash == absl::string_view::npos) return {"", path};
  const absl::string_view folder = path.substr(0, slash);
  const size_t before = folder.rfind('/');
  return {before == absl::string_view::npos ? folder : folder.substr(before + 1), path.substr(slash + 1)};
}

// The part of each path that names its step: the name of the file; that of its folder if no name has a number and the
// folders differ.
std::vector<absl::string_view> StepNames(const std::vector<std::string>& paths) {
  std::vector<absl::string_view> names;
  std::vector<absl::string_view> folders;
  for (const std::string& path : paths) {
    const auto [folder, name] = FolderAndName(path);
    names.push_back(name);
    folders.push_back(folder);
  }
  const auto has_number = [](absl::string_view name) { return LastNumberIn(name) >= 0; };
  const auto differs = [&](absl::string_view folder) { return folder != folders[0]; };
  const bool by_folder =
      std::none_of(names.begin(), names.end(), has_number) && std::any_of(folders.begin(), folders.end(), differs);
  return by_folder ? folders : names;
}

// The weights among the archives in the folder of one step, beside which the state of an optimizer may lie; "" if that
// cannot be told.
std::string WeightsAmong(const std::vector<std::string>& archives) {
  if (archives.size() == 1) return archives[0];
  for (const absl::string_view wanted :
       {"model.safetensors.index.json", "model.safetensors", "pytorch_model.bin.index.json", "pytorch_model.bin"}) {
    for (const std::string& path : archives) {
      if (FolderAndName(path).second == wanted) return path;
    }
  }
  return "";
}

// The archives in a folder whose folders are steps: run/checkpoint-500/model.safetensors.
absl::StatusOr<std::vector<std::string>> FindInFolders(const std::string& path, ArchiveFormats formats,
                                                       FileSystem* file_system) {
  std::vector<std::string> found;
  CASK_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListFolder(path, file_system, "list"));
  for (const std::string& name : names) {
    const std::string folder = absl::StrCat(absl::StripSuffix(path, "/"), "/", name);
    if (LastNumberIn(name) < 0) continue;
    if (DescribeFile(folder, file_system).value_or(FileInfo()).type != FileInfo::Type::kFolder) continue;
    CASK_ASSIGN_OR_RETURN(const std::vector<std::string> archives, FindArchives(folder, formats, file_system));
    std::string weights = WeightsAmong(archives);
    if (!weights.empty()) found.push_back(std::move(weights));
  }
  return found;
}

}  // namespace

absl::StatusOr<std::string> MakeReport(const ArchiveReader& archive, const ReportOptions& options) {
  std::vector<ReportRow> rows = RowsOf(archive, options.include);
  ByteProgress progress(options.progress);
  CASK_RETURN_IF_ERROR(MeasureAll(archive, options, ProfileDetail::For(rows.size()), &progress, &rows));
  CASK_RETURN_IF_ERROR(AddSingularValues(archive, options, &progress, &rows));
  report::GroupEqual(&rows);
  report::PageData data;
  data.Append(Beginning("file", options));
  report::AppendArchive(archive, rows, &data);
  data.Append("]}");
  return data.Page(options.live);
}

absl::StatusOr<std::string> MakeDiffReport(const ArchiveReader& a, const ArchiveReader& b,
                                           const ReportOptions& options) {
  CompareOptions compare;
  compare.include = options.include;
  compare.rename = options.rename;
  compare.cast = true;
  compare.num_threads = options.num_threads;
  compare.block_bytes = options.block_bytes;
  uint64_t compared = 0;
  compare.progress = [&](uint64_t bytes) {
    compared = bytes;
    return !options.progress || options.progress(bytes);
  };
  CASK_ASSIGN_OR_RETURN(const CompareReport found, Compare(a, b, compare));
  std::unordered_map<std::string, const TensorDifference*> differences;
  for (const TensorDifference& one : found.differences) differences[one.name] = &one;

  // Tensors of a are chosen by the names that they have in b.
  std::vector<ReportRow> rows_a =
      RowsOf(a, options.rename || !a.has_names() ? std::vector<std::string>() : options.include);
  std::vector<ReportRow> rows_b = RowsOf(b, b.has_names() ? options.include : std::vector<std::string>());
  CASK_ASSIGN_OR_RETURN(std::vector<std::string> names, NewNames(rows_a, options));
  if (options.rename && a.has_names()) KeepMatching(options.include, &rows_a, &names);
  const bool only_ones = (!a.has_names() || !b.has_names()) && rows_a.size() == 1 && rows_b.size() == 1;
  std::vector<PairRow> pairs = PairUp(rows_a, names, rows_b, only_ones);
  const ProfileDetail detail = ProfileDetail::For(rows_a.size() + rows_b.size());
  const std::function<bool(uint64_t)> go_on = [&](uint64_t bytes) {
    return !options.progress || options.progress(compared + bytes);
  };
  ByteProgress progress(go_on);
  CASK_RETURN_IF_ERROR(ParallelFor(options.num_threads, pairs.size(), [&](size_t i) {
    if (progress.cancelled()) return;
    PairRow& pair = pairs[i];
    ReportRow* const row_a = pair.a < 0 ? nullptr : &rows_a[static_cast<size_t>(pair.a)];
    ReportRow* const row_b = pair.b < 0 ? nullptr : &rows_b[static_cast<size_t>(pair.b)];
    const std::string& name = row_a == nullptr ? row_b->entry->name : names[static_cast<size_t>(pair.a)];
    const auto difference = differences.find(name);
    if (difference != differences.end()) pair.difference = difference->second;
    if (only_ones && !found.differences.empty()) pair.difference = &found.differences[0];
    if (row_a != nullptr && row_b != nullptr && CanSubtract(*row_a, *row_b)) {
      row_a->status = row_b->status = MeasurePair(a, b, options, detail, &progress, row_a, row_b, &pair);
      return;
    }
    const auto measure = [&](const ArchiveReader& archive, ReportRow* row) {
      if (row == nullptr) return;
      absl::StatusOr<TensorProfile> profile = Profile(archive, *row->entry, options.block_bytes, detail, &progress);
      row->status = profile.status();
      if (profile.ok()) Keep(*std::move(profile), detail, row);
    };
    measure(a, row_a);
    measure(b, row_b);
  }));
  if (progress.cancelled()) return Cancelled();
  CASK_RETURN_IF_ERROR(AddSingularValues(b, options, &progress, &rows_b));
  report::GroupEqual(&rows_a);
  report::GroupEqual(&rows_b);
  report::PageData data;
  data.Append(Beginning("diff", options));
  report::AppendArchive(a, rows_a, &data);
  data.Append(",\n");
  report::AppendArchive(b, rows_b, &data);
  data.Append("],\"pairs\":[");
  for (size_t i = 0; i < pairs.size(); ++i) data.Append(absl::StrCat(i > 0 ? ",\n" : "", PairJson(pairs[i])));
  data.Append("]}");
  return data.Page(options.live);
}

std::vector<ReportStep> ReportStepsOf(const std::vector<std::string>& paths) {
  const std::vector<absl::string_view> names = StepNames(paths);
  std::vector<ReportStep> steps;
  for (size_t i = 0; i < paths.size(); ++i) {
    const int64_t number = LastNumberIn(names[i]);
    steps.push_back({paths[i], number >= 0 ? absl::StrCat("step ", number) : std::string(names[i])});
  }
  return steps;
}

absl::StatusOr<std::vector<ReportStep>> FindReportSteps(const std::string& path, ArchiveFormats formats,
                                                        FileSystem* file_system) {
  std::vector<ReportStep> steps;
  if (DescribeFile(path, file_system).value_or(FileInfo()).type != FileInfo::Type::kFolder) return steps;
  CASK_ASSIGN_OR_RETURN(std::vector<std::string> found, FindArchives(path, formats, file_system));
  if (found.empty()) {
    CASK_ASSIGN_OR_RETURN(found, FindInFolders(path, formats, file_system));
  }
  if (found.size() < 2) return steps;
  const std::vector<absl::string_view> names = StepNames(found);
  std::vector<std::pair<int64_t, std::string>> numbered;
  for (size_t i = 0; i < found.size(); ++i) numbered.emplace_back(LastNumberIn(names[i]), found[i]);
  std::stable_sort(numbered.begin(), numbered.end(), [](const auto& x, const auto& y) { return x.first < y.first; });
  for (size_t i = 0; i < found.size(); ++i) found[i] = std::move(numbered[i].second);
  return ReportStepsOf(found);
}

absl::StatusOr<std::string> MakeRunReport(const std::vector<ReportStep>& steps, const OpenReportStep& open,
                                          const ReportOptions& options) {
  if (steps.empty()) return absl::InvalidArgumentError("a run without a step");
  Run run(options, steps.size());
  ByteProgress progress(options.progress);
  std::unique_ptr<ArchiveReader> archive;
  for (size_t i = 0; i < steps.size(); ++i) {
    CASK_ASSIGN_OR_RETURN(std::unique_ptr<ArchiveReader> next, open(steps[i].path));
    CASK_RETURN_IF_ERROR(run.AddStep(*next, steps[i], i + 1 == steps.size(), &progress));
    archive = std::move(next);
  }
  CASK_RETURN_IF_ERROR(AddSingularValues(*archive, options, &progress, run.rows()));
  report::GroupEqual(run.rows());
  report::PageData data;
  data.Append(Beginning("run", options));
  report::AppendArchive(*archive, *run.rows(), &data);
  data.Append("]");
  run.Append(&data);
  data.Append("}");
  return data.Page(options.live);
}

}  // namespace tensorcask
