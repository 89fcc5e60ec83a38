// Keeps the first error of protobuf's parser of text. Without a collector the parser prints all errors.
//
//   FirstTextError error;
//   parser.RecordErrorsTo(&error);
//   if (!parser.Parse(&input, &message)) return absl::InvalidArgumentError(error.text());

#ifndef TENSORCASK_SERIALIZE_WIRE_MESSAGE_FIRST_TEXT_ERROR_H_
#define TENSORCASK_SERIALIZE_WIRE_MESSAGE_FIRST_TEXT_ERROR_H_

#include <cstddef>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/stubs/common.h"  // GOOGLE_PROTOBUF_VERSION

namespace tensorcask {

class FirstTextError final : public google::protobuf::io::ErrorCollector {
 public:
  // "line 3, column 1: ..."; empty without an error.
  const std::string& text() const { return text_; }

#if GOOGLE_PROTOBUF_VERSION < 4022000  // before 22.0
  void AddError(int line, int column, const std::string& message) override { Keep(line, column, message); }
#else
  void RecordError(int line, int column, absl::string_view message) override { Keep(line, column, message); }
#endif

 private:
  void Keep(int line, int column, absl::string_view message) {
    constexpr size_t kMaxMessageBytes = 200;  // protobuf quotes words of any length
    if (!text_.empty()) return;
    text_ = absl::StrCat("line ", line + 1, ", column ", column + 1, ": ", message.substr(0, kMaxMessageBytes));
  }

  std::string text_;
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_WIRE_MESSAGE_FIRST_TEXT_ERROR_H_
