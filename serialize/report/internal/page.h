// The page around the data of a report.

#ifndef TENSORCASK_SERIALIZE_REPORT_INTERNAL_PAGE_H_
#define TENSORCASK_SERIALIZE_REPORT_INTERNAL_PAGE_H_

#include <string>

#include "absl/status/statusor.h"

namespace tensorcask::report {

// The page of page_text.inc, which scripts/report_page.py writes, with `json` in it: compressed (zlib's format, in
// base64). A page of a server (`live`) may ask that server, and no other, for more. Errors: ResourceExhausted.
absl::StatusOr<std::string> PageWith(const std::string& json, bool live);

}  // namespace tensorcask::report

#endif  // TENSORCASK_SERIALIZE_REPORT_INTERNAL_PAGE_H_
