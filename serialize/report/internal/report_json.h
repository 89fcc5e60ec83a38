// The data of a page, as JSON. The scripts of the page (page/model.js) read it; both change together.
//
//   {"version": 1, "kind": "file" | "diff" | "run", "live": false, "include": [pattern, ..], "rename": [rule, ..],
//    "archives": [{"path", "format", "files": [[path, bytes or null], ..], "metadata": {..}, "values": ..,
//                  "notes": [..], "tensors": [row, ..]}],
//    "pairs": [[index in archive 0 or -1, index in archive 1 or -1, kind, elements that differ, largest |a - b|,
//               largest |a - b| / |b|, norm of b - a, error, {"h": .., "o": ..} or 0], ..],
//    "run": {"steps": [[label, path, bytes, tensors], ..],
//            "tensors": [[name, norms, changes, largest |x|, bad, stored bytes], ..]}}
//
// A row is [name, dtype, dims, encoding, stored bytes, bytes of elements, shard or -1, offset or -1, alias, error,
// statistics or 0, detail or 0]. Statistics are [zeros, nans, infinities, subnormals, saturated, finite, min, max,
// mean, spread, dead rows, dead columns, number of the group of equal tensors or -1]. A detail has what of these there
// is:
//
//   n  how many indices of each axis the sample has      h  histogram from min to max
//   q  quantiles (kQuantiles)                            e  [first exponent, counts]: floor(log2 |x|) of x other than 0
//   v  the elements, if they are few                     a  for each axis [means, spreads]
//   t  picture: {"n": counts, "lo", "hi", "d": base64, where 0 is not finite}
//   s  singular values: {"n": how many, "rank": those above 1e-6 of the largest, "v": [some, evenly spaced, with the
//      first and the last]}, or why there are none
//
// Numbers have 7 digits; what is not finite is null. A list of a run whose numbers are all the same is that number.

#ifndef TENSORCASK_SERIALIZE_REPORT_INTERNAL_REPORT_JSON_H_
#define TENSORCASK_SERIALIZE_REPORT_INTERNAL_REPORT_JSON_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/archive/archive_entry.h"
#include "tensorcask/serialize/archive/archive_reader.h"
#include "tensorcask/serialize/archive/compare_archives.h"
#include "tensorcask/serialize/report/internal/page.h"
#include "tensorcask/serialize/report/internal/tensor_profile.h"

namespace tensorcask::report {

constexpr double kQuantiles[] = {0.001, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 0.999};

// What a report says of one tensor.
struct ReportRow {
  const ArchiveEntry* entry = nullptr;
  absl::Status status;
  TensorProfile profile;  // without the sample, once `detail` is made
  std::string detail = "0";
  std::string singular;  // "s" of the detail; empty: there is none
  int group = -1;        // the number of its group of equal tensors
};

std::string Number(double value);
// As JSON: ["a","b"].
std::string TextList(absl::Span<const std::string> texts);
std::string NumberList(absl::Span<const double> values);
std::string DetailJson(const TensorProfile& profile, int64_t num_elements, const ProfileDetail& detail);
std::string RowJson(const ReportRow& row);

// Sets ReportRow::group of rows whose elements are equal.
void GroupEqual(std::vector<ReportRow>* rows);

// The value of "s". Requires: `values` are as SingularValues gives them.
std::string SingularJson(const absl::StatusOr<std::vector<double>>& values);

// Appends one element of "archives".
void AppendArchive(const ArchiveReader& archive, const std::vector<ReportRow>& rows, PageData* out);

}  // namespace tensorcask::report

#endif  // TENSORCASK_SERIALIZE_REPORT_INTERNAL_REPORT_JSON_H_
