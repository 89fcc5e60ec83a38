// JSON as a series of events, strictly read: nothing is built, and memory does not depend on the text.
//
//   class NameCollector : public JsonHandler { absl::Status Key(std::string* name) override { ... } ... };
//   CASK_RETURN_IF_ERROR(ParseJson(text, /*max_depth=*/64, &collector));
//
// The parser is nlohmann's SAX parser. It takes the JSON of RFC 8259 in UTF-8 alone: no comments, no byte order mark,
// no NUL bytes, no lone surrogates, no characters after the document but white space. It does not recurse. What an
// application may get wrong reaches the handler: duplicate keys come as they are, and numbers that are not plain
// natural numbers come as OtherNumber.

#ifndef TENSORCASK_SERIALIZE_SAFETENSORS_INTERNAL_JSON_EVENTS_H_
#define TENSORCASK_SERIALIZE_SAFETENSORS_INTERNAL_JSON_EVENTS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace tensorcask::safetensors {

// An error of a handler ends the parsing, which returns it.
class JsonHandler {
 public:
  virtual ~JsonHandler() = default;
  virtual absl::Status Null() = 0;
  virtual absl::Status Bool(bool value) = 0;
  virtual absl::Status Unsigned(uint64_t value) = 0;             // digits alone, below 2^64
  virtual absl::Status OtherNumber(absl::string_view text) = 0;  // with a sign, point or exponent, or too large
  virtual absl::Status String(std::string* value) = 0;           // may be moved from
  virtual absl::Status Key(std::string* name) = 0;               // may be moved from
  virtual absl::Status StartObject() = 0;
  virtual absl::Status EndObject() = 0;
  virtual absl::Status StartArray() = 0;
  virtual absl::Status EndArray() = 0;
};

// Errors: InvalidArgument, with the position in the text, if it is not JSON; ResourceExhausted, naming max_depth, for
// arrays and objects in more than max_depth others; those of the handler.
absl::Status ParseJson(absl::string_view text, int max_depth, JsonHandler* handler);

}  // namespace tensorcask::safetensors

#endif  // TENSORCASK_SERIALIZE_SAFETENSORS_INTERNAL_JSON_EVENTS_H_
