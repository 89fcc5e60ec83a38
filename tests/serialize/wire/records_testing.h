// Record files in memory.

#ifndef TENSORCASK_TESTS_SERIALIZE_WIRE_RECORDS_TESTING_H_
#define TENSORCASK_TESTS_SERIALIZE_WIRE_RECORDS_TESTING_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/io/byte_sink.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/byte_stream.h"
#include "tensorcask/serialize/wire/records.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask::testing {

inline std::string Written(const std::vector<std::string>& records) {
  std::string bytes;
  StringSink sink(&bytes);
  RecordWriter writer(&sink);
  for (const std::string& record : records) EXPECT_OK(writer.Write(record));
  return bytes;
}

// A stream of unknown length that gives at most `step` bytes at a time, as a pipe does.
class Trickle final : public ByteStream {
 public:
  Trickle(absl::string_view bytes, size_t step) : bytes_(bytes), step_(step) {}
  const std::string& name() const override { return name_; }
  absl::StatusOr<size_t> Read(absl::Span<char> out) override {
    const absl::string_view part = bytes_.substr(0, std::min(step_, out.size()));
    std::copy(part.begin(), part.end(), out.begin());
    bytes_.remove_prefix(part.size());
    return part.size();
  }

 private:
  const std::string name_ = "stream";
  absl::string_view bytes_;
  const size_t step_;
};

// The records that are left up to the end or the first error, which is returned.
inline absl::Status ReadAll(RecordReader& reader, std::vector<std::string>* records) {
  records->clear();
  while (true) {
    const uint64_t offset = reader.offset();
    const auto record = reader.Next();
    if (!record.ok()) {
      EXPECT_EQ(reader.offset(), offset);
      EXPECT_EQ(reader.Next().status(), record.status()) << "an error is final";
      return record.status();
    }
    if (!record->has_value()) {
      EXPECT_OK(reader.Next());
      return absl::OkStatus();
    }
    records->emplace_back(**record);
  }
}

inline absl::Status ReadAll(const std::string& bytes, std::vector<std::string>* records,
                            RecordReaderOptions options = {}) {
  RecordReader reader(MakeMemorySource("stream", bytes), std::move(options));
  return ReadAll(reader, records);
}

}  // namespace tensorcask::testing

#endif  // TENSORCASK_TESTS_SERIALIZE_WIRE_RECORDS_TESTING_H_
