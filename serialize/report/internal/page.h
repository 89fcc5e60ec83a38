// The page around the data of a report.
//
//   PageData data;
//   data.Append("{\"version\":1,");
//   data.Append("...}");
//   CASK_ASSIGN_OR_RETURN(const std::string page, data.Page(/*live=*/false));

#ifndef TENSORCASK_SERIALIZE_REPORT_INTERNAL_PAGE_H_
#define TENSORCASK_SERIALIZE_REPORT_INTERNAL_PAGE_H_

#include <zlib.h>

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tensorcask::report {

// Compresses JSON while it is made (zlib's format): the JSON of many tensors is never in memory as a whole.
class PageData {
 public:
  PageData();
  ~PageData();
  PageData(const PageData&) = delete;
  PageData& operator=(const PageData&) = delete;

  void Append(absl::string_view json);

  // The page of page_text.inc, which scripts/report_page.py writes, with all JSON so far in it, in base64. A page of a
  // server (`live`) may ask that server, and no other, for more. Requires: the first call; nothing is appended after
  // it. Errors: ResourceExhausted.
  absl::StatusOr<std::string> Page(bool live);

 private:
  void Deflate(absl::string_view json, int flush);

  z_stream stream_ = {};
  int result_;
  std::string packed_;
};

}  // namespace tensorcask::report

#endif  // TENSORCASK_SERIALIZE_REPORT_INTERNAL_PAGE_H_
