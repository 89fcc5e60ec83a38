#include "tensorcask/serialize/report/internal/report_json.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/io/files.h"
#include "tensorcask/serialize/values/value_json.h"
#include "tensorcask/tensor/dtype.h"

namespace tensorcask::report {
namespace {

constexpr double kPictureLow = 0.005;  // quantiles between which a picture has its colours
constexpr double kPictureHigh = 0.995;
constexpr uint64_t kMostValueBytes = uint64_t{256} << 10;  // for the JSON of the values beside the tensors

// The finite ones, of which those for the quantiles of the page are where sorting would move them.
std::vector<double> FiniteSelected(const std::vector<double>& values) {
  std::vector<double> finite;
  finite.reserve(values.size());
  std::copy_if(values.begin(), values.end(), std::back_inserter(finite), [](double x) { return std::isfinite(x); });
  std::vector<double> qs(std::begin(kQuantiles), std::end(kQuantiles));
  qs.insert(qs.end(), {kPictureLow, kPictureHigh});
  std::sort(qs.begin(), qs.end());
  SelectForQuantiles(qs, absl::MakeSpan(finite));
  return finite;
}

// [first exponent, how many elements have it, and so on], of elements other than 0.
std::string ExponentsJson(const std::vector<double>& finite) {
  constexpr int kLowest = -1100;  // below the exponent of every double
  std::vector<uint32_t> counts(2200, 0);
  for (const double value : finite) {
    if (value != 0) ++counts[static_cast<size_t>(std::ilogb(value) - kLowest)];
  }
  const auto is_used = [](uint32_t count) { return count != 0; };
  const auto first = std::find_if(counts.begin(), counts.end(), is_used);
  if (first == counts.end()) return "0";
  const auto last = std::find_if(counts.rbegin(), counts.rend(), is_used).base();
  return absl::StrCat("[", first - counts.begin() + kLowest, ",[", absl::StrJoin(first, last, ","), "]]");
}

// A picture of the sample, from `low` (1) to `high` (255).
std::string PictureJson(const TensorProfile& profile, int64_t most, double low, double high) {
  const std::vector<int64_t> counts = LatticeCounts(profile.counts, most);
  const int rank = static_cast<int>(counts.size());
  std::vector<int64_t> place(counts.size(), 0);
  std::string bytes;
  bool is_done = profile.sample.empty();
  while (!is_done) {
    int64_t index = 0;
    for (int axis = 0; axis < rank; ++axis) {
      index = index * profile.counts[axis] + LatticeIndex(place[axis], counts[axis], profile.counts[axis]);
    }
    const double value = profile.sample[static_cast<size_t>(index)];
    const double part = high > low && std::isfinite(high - low) ? (value - low) / (high - low) : 0.5;
    bytes += std::isfinite(value) ? static_cast<char>(1 + std::lround(std::clamp(part, 0.0, 1.0) * 254)) : '\0';
    int axis = rank - 1;
    while (axis >= 0 && ++place[axis] == counts[axis]) place[axis--] = 0;
    is_done = axis < 0;
  }
  return absl::StrCat("{\"n\":[", absl::StrJoin(counts, ","), "],\"lo\":", Number(low), ",\"hi\":", Number(high),
                      ",\"d\":\"", absl::Base64Escape(bytes), "\"}");
}

std::string ShortNumbers(absl::Span<const double> values) {
  return absl::StrCat("[",
                      absl::StrJoin(values, ",",
                                    [](std::string* out, double value) {
                                      std::isfinite(value) ? absl::StrAppendFormat(out, "%.3g", value)
                                                           : out->append("null");
                                    }),
                      "]");
}

std::string MetadataJson(const FileMetadata& metadata) {
  return absl::StrCat("{",
                      absl::StrJoin(metadata, ",",
                                    [](std::string* out, const auto& item) {
                                      absl::StrAppend(out, JsonQuoted(item.first), ":", JsonQuoted(item.second));
                                    }),
                      "}");
}

std::string ValuesJson(const ArchiveReader& archive) {
  const absl::StatusOr<ValueTree> tree = archive.Values();
  if (!tree.ok()) return JsonQuoted(tree.status().message());
  if (tree->empty()) return "null";
  ValueJsonOptions options;
  options.max_bytes = kMostValueBytes;
  const std::vector<ArchiveEntry>& entries = archive.entries();
  options.tensor_name = [&](uint64_t number) { return number < entries.size() ? entries[number].name : ""; };
  const absl::StatusOr<std::string> json = ValueToJson(tree->root(), options);
  return json.ok() ? *json : JsonQuoted("more than 256 KiB: tensorcask ls --values lists it");
}

std::string FilesJson(const ArchiveReader& archive) {
  std::vector<std::string> files;
  for (const std::string& path : archive.files()) {
    const absl::StatusOr<FileInfo> info = DescribeFile(path, FileSystem::Posix());
    files.push_back(absl::StrCat("[", JsonQuoted(path), ",", info.ok() ? absl::StrCat(info->size_bytes) : "null", "]"));
  }
  return absl::StrCat("[", absl::StrJoin(files, ","), "]");
}

}  // namespace

std::string Number(double value) { return std::isfinite(value) ? absl::StrFormat("%.7g", value) : "null"; }

std::string NumberList(absl::Span<const double> values) {
  return absl::StrCat(
      "[", absl::StrJoin(values, ",", [](std::string* out, double value) { out->append(Number(value)); }), "]");
}

std::string TextList(absl::Span<const std::string> texts) {
  return absl::StrCat(
      "[", absl::StrJoin(texts, ",", [](std::string* out, const std::string& text) { out->append(JsonQuoted(text)); }),
      "]");
}

std::string DetailJson(const TensorProfile& profile, int64_t num_elements, const ProfileDetail& detail) {
  const std::vector<double> finite = FiniteSelected(profile.sample);
  std::string json = absl::StrCat("{\"n\":[", absl::StrJoin(profile.counts, ","), "]");
  if (num_elements <= detail.few) absl::StrAppend(&json, ",\"v\":", NumberList(profile.sample));
  if (!finite.empty() && detail.bins > 0) {
    std::vector<double> quantiles;
    for (const double q : kQuantiles) quantiles.push_back(Quantile(finite, q));
    const archive::ElementTotals& totals = profile.totals;
    absl::StrAppend(&json, ",\"q\":", NumberList(quantiles), ",\"h\":[",
                    absl::StrJoin(Histogram(finite, totals.min, totals.max, detail.bins), ","),
                    "],\"e\":", ExponentsJson(finite));
    if (detail.picture > 0 && num_elements > 1) {
      const double low = Quantile(finite, kPictureLow);
      const double high = Quantile(finite, kPictureHigh);
      absl::StrAppend(&json, ",\"t\":", PictureJson(profile, detail.picture, low, high));
    }
    if (detail.groups > 0 && profile.counts.size() > 1) {
      std::vector<std::string> axes;
      for (size_t axis = 0; axis < profile.counts.size(); ++axis) {
        const AxisProfile one = ProfileAxis(profile, axis, detail.groups);
        axes.push_back(absl::StrCat("[", ShortNumbers(one.means), ",", ShortNumbers(one.spreads), "]"));
      }
      absl::StrAppend(&json, ",\"a\":[", absl::StrJoin(axes, ","), "]");
    }
  }
  return json + "}";
}

std::string RowJson(const ReportRow& row) {
  const ArchiveEntry& entry = *row.entry;
  std::string json =
      absl::StrCat("[", JsonQuoted(entry.name), ",\"", entry.dtype == DType::kInvalid ? "" : DTypeName(entry.dtype),
                   "\",[", absl::StrJoin(entry.shape.dims(), ","), "],", JsonQuoted(entry.encoding), ",",
                   entry.stored_bytes, ",", ElementBytes(entry), ",", entry.shard.value_or(-1), ",",
                   entry.offset.has_value() ? absl::StrCat(*entry.offset) : "-1", ",", JsonQuoted(entry.alias_of), ",",
                   JsonQuoted(row.status.message()), ",");
  const TensorProfile& profile = row.profile;
  if (row.status.ok() && profile.is_numeric) {
    const archive::ElementTotals& totals = profile.totals;
    const bool has_finite = totals.finite() > 0;
    const auto of_finite = [&](double value) { return has_finite ? Number(value) : std::string("null"); };
    absl::StrAppend(&json, "[", totals.zeros, ",", totals.nans, ",", totals.infinities, ",", totals.subnormals, ",",
                    profile.saturated, ",", totals.finite(), ",", of_finite(totals.min), ",", of_finite(totals.max),
                    ",");
    absl::StrAppend(&json, of_finite(totals.mean()), ",", of_finite(totals.standard_deviation()), ",",
                    profile.dead_rows, ",", profile.dead_columns, ",", row.group, "]");
  } else {
    absl::StrAppend(&json, "0");
  }
  if (row.singular.empty() || row.detail == "0") return absl::StrCat(json, ",", row.detail, "]");
  return absl::StrCat(json, ",", absl::string_view(row.detail).substr(0, row.detail.size() - 1),
                      ",\"s\":", row.singular, "}]");
}

void GroupEqual(std::vector<ReportRow>* rows) {
  std::map<std::tuple<DType, std::vector<int64_t>, std::array<uint64_t, 2>>, std::vector<ReportRow*>> groups;
  for (ReportRow& row : *rows) {
    const ArchiveEntry& entry = *row.entry;
    if (!row.status.ok() || !row.profile.is_numeric || entry.shape.num_elements() < 2) continue;
    const auto dims = entry.shape.dims();
    groups[{entry.dtype, {dims.begin(), dims.end()}, row.profile.hash}].push_back(&row);
  }
  int next = 0;
  for (const auto& [key, members] : groups) {
    if (members.size() < 2) continue;
    for (ReportRow* const row : members) row->group = next;
    ++next;
  }
}

std::string SingularJson(const absl::StatusOr<std::vector<double>>& values) {
  constexpr size_t kMost = 128;
  if (!values.ok()) return JsonQuoted(values.status().message());
  const size_t size = values->size();
  const size_t kept = std::min(size, kMost);
  std::vector<double> some;
  for (size_t k = 0; k < kept; ++k) some.push_back((*values)[kept > 1 ? k * (size - 1) / (kept - 1) : 0]);
  const auto counts = [&](double value) { return value > values->front() * 1e-6; };
  return absl::StrCat("{\"n\":", size, ",\"rank\":", std::count_if(values->begin(), values->end(), counts),
                      ",\"v\":", NumberList(some), "}");
}

void AppendArchive(const ArchiveReader& archive, const std::vector<ReportRow>& rows, PageData* out) {
  out->Append(absl::StrCat("{\"path\":", JsonQuoted(archive.path()), ",\"format\":", JsonQuoted(archive.format()),
                           ",\"files\":", FilesJson(archive), ",\"metadata\":", MetadataJson(archive.file_metadata()),
                           ",\"values\":", ValuesJson(archive), ",\"notes\":", TextList(archive.notes()),
                           ",\"tensors\":["));
  for (size_t i = 0; i < rows.size(); ++i) out->Append(absl::StrCat(i > 0 ? ",\n" : "\n", RowJson(rows[i])));
  out->Append("]}");
}

}  // namespace tensorcask::report
