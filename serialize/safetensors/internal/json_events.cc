#include "tensorcask/serialize/safetensors/internal/json_events.h"

#include <cstddef>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "tensorcask/serialize/io/decode_quota.h"
#include "tensorcask/tensor/base/quote.h"

namespace tensorcask::safetensors {
namespace {

// The handler of nlohmann's parser: false ends the parsing.
class Bridge {
 public:
  Bridge(absl::string_view text, int max_depth, JsonHandler* handler)
      : text_(text), max_depth_(max_depth), handler_(handler) {}

  absl::Status status() && { return std::move(status_); }

  bool null() { return Pass(handler_->Null()); }
  bool boolean(bool value) { return Pass(handler_->Bool(value)); }
  // Comes for numbers with a minus sign alone; "-0" is one of them.
  bool number_integer(int64_t value) {
    return Pass(handler_->OtherNumber(value == 0 ? std::string("-0") : absl::StrCat(value)));
  }
  bool number_unsigned(uint64_t value) { return Pass(handler_->Unsigned(value)); }
  bool number_float(double, const std::string& text) { return Pass(handler_->OtherNumber(text)); }
  bool string(std::string& value) { return Pass(handler_->String(&value)); }
  bool binary(nlohmann::json::binary_t&) { return false; }  // never comes from text
  bool key(std::string& name) { return Pass(handler_->Key(&name)); }
  bool start_object(size_t) { return Deeper() && Pass(handler_->StartObject()); }
  bool end_object() {
    --depth_;
    return Pass(handler_->EndObject());
  }
  bool start_array(size_t) { return Deeper() && Pass(handler_->StartArray()); }
  bool end_array() {
    --depth_;
    return Pass(handler_->EndArray());
  }
  // `position` counts the bytes that were read, the wrong one included.
  bool parse_error(size_t position, const std::string& last_token, const nlohmann::detail::exception&) {
    const size_t at = position > 0 ? position - 1 : 0;
    if (at >= text_.size()) return Pass(absl::InvalidArgumentError("the JSON ends too early"));
    return Pass(absl::InvalidArgumentError(absl::StrCat("not JSON at byte ", at, ", after ", Quoted(last_token, 32))));
  }

 private:
  bool Pass(absl::Status status) {
    if (status.ok()) return true;
    if (status_.ok()) status_ = std::move(status);
    return false;
  }
  bool Deeper() {
    if (++depth_ <= max_depth_) return true;
    return Pass(PastLimit("the JSON has arrays or objects in too many others", "max_depth", max_depth_));
  }

  const absl::string_view text_;
  const int max_depth_;
  JsonHandler* const handler_;
  int depth_ = 0;
  absl::Status status_;
};

}  // namespace

absl::Status ParseJson(absl::string_view text, int max_depth, JsonHandler* handler) {
  if (text.empty()) return absl::InvalidArgumentError("the JSON ends too early");
  // The parser takes a NUL byte for the end of the text, and skips a byte order mark.
  if (const void* nul = std::memchr(text.data(), '\0', text.size()); nul != nullptr) {
    const auto at = static_cast<size_t>(static_cast<const char*>(nul) - text.data());
    return absl::InvalidArgumentError(absl::StrCat("not JSON at byte ", at, ": a NUL byte"));
  }
  if (static_cast<unsigned char>(text.front()) >= 0x80) return absl::InvalidArgumentError("not JSON at byte 0");
  Bridge bridge(text, max_depth, handler);
  const bool parsed = nlohmann::json::sax_parse(text.begin(), text.end(), &bridge);
  absl::Status status = std::move(bridge).status();
  if (status.ok() && !parsed) return absl::InvalidArgumentError("not JSON");
  return status;
}

}  // namespace tensorcask::safetensors
