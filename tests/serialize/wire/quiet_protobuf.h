// Keeps protobuf from printing about messages that it does not parse.
//
//   const QuietProtobuf quiet;   // until the end of the block

#ifndef TENSORCASK_TESTS_SERIALIZE_WIRE_QUIET_PROTOBUF_H_
#define TENSORCASK_TESTS_SERIALIZE_WIRE_QUIET_PROTOBUF_H_

#include "google/protobuf/stubs/common.h"  // GOOGLE_PROTOBUF_VERSION

#if GOOGLE_PROTOBUF_VERSION < 4022000  // before 22.0
#include "google/protobuf/stubs/logging.h"
#else  // prints through Abseil's log, which comes with it
#include "absl/base/log_severity.h"
#include "absl/log/globals.h"
#endif

namespace tensorcask::testing {

#if GOOGLE_PROTOBUF_VERSION < 4022000
using QuietProtobuf = google::protobuf::LogSilencer;
#else
class QuietProtobuf {
 private:
  const absl::ScopedStderrThreshold nothing_{absl::LogSeverityAtLeast::kInfinity};
};
#endif

}  // namespace tensorcask::testing

#endif  // TENSORCASK_TESTS_SERIALIZE_WIRE_QUIET_PROTOBUF_H_
