// The data of a page, as JSON. The script of the page (page/report.js) reads it; both change together.
//
//   {"version": 1, "kind": "file" | "diff" | "run", "live": false, "tool": "0.1.0",
//    "archives": [{"path", "format", "files": [[path, bytes or null], ..], "metadata": {..}, "values": .., "notes":
//    [..],
//                  "tensors": [row, ..]}],
//    "pairs": [[index in archive 0 or -1, index in archive 1 or -1, kind, elements that differ, largest |a - b|,
//               largest |a - b| / |b|, norm of b - a, error, {"h": .., "o": ..} or 0], ..],
//    "run": {"steps": [[label, path, bytes, tensors], ..], "tensors": [[name, norms, changes, largest |x|, bad], ..]}}
//
// A row is [name, dtype, dims, encoding, stored bytes, bytes of elements, shard or -1, offset or -1, alias, error,
// statistics or 0, detail or 0]. Statistics are [zeros, nans, infinities, subnormals, saturated, finite, min, max,
// mean, spread, dead rows, dead columns, number of the group of equal tensors or -1]. A detail has what of these there
// is:
//
//   n  how many indices of each axis the sample has      h  histogram from min to max
//   q  quantiles (kQuantiles)                            e  [first exponent, counts]: floor(log2 |x|) of x other than 0
//   v  the elements, if they are few                     t  picture: {"n": counts, "lo", "hi", "d": base64; 0: not
//   finite} a  for each axis [means, spreads], or 0
//
// Numbers have 7 digits; what is not finite is null.

#ifndef TENSORCASK_SERIALIZE_REPORT_INTERNAL_REPORT_JSON_H_
#define TENSORCASK_SERIALIZE_REPORT_INTERNAL_REPORT_JSON_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/archive/archive_entry.h"
#include "tensorcask/serialize/archive/archive_reader.h"
#include "tensorcask/serialize/archive/compare_archives.h"
#include "tensorcask/serialize/report/internal/tensor_profile.h"

namespace tensorcask::report {

constexpr double kQuantiles[] = {0.001, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 0.999};

// What a report says of one tensor.
struct ReportRow {
  const ArchiveEntry* entry = nullptr;
  absl::Status status;
  TensorProfile profile;  // without the sample, once `detail` is made
  std::string detail = "0";
  int group = -1;  // of equal tensors
};

std::string Number(double value);
std::string NumberList(absl::Span<const double> values);
std::string DetailJson(const TensorProfile& profile, int64_t num_elements, const ProfileDetail& detail);
std::string RowJson(const ReportRow& row);

// Sets ReportRow::group of rows whose elements are equal.
void GroupEqual(std::vector<ReportRow>* rows);

// One element of "archives".
std::string ArchiveJson(const ArchiveReader& archive, const std::vector<ReportRow>& rows);

}  // namespace tensorcask::report

#endif  // TENSORCASK_SERIALIZE_REPORT_INTERNAL_REPORT_JSON_H_
