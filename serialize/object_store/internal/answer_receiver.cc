#include "tensorcask/serialize/object_store/internal/answer_receiver.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/tensor/base/catch_exceptions.h"
#include "tensorcask/tensor/base/quote.h"

namespace tensorcask::internal {
namespace {

constexpr size_t kMaxErrorTextBytes = size_t{64} << 10;  // that are kept
constexpr uint64_t kMaxErrorBytes = uint64_t{1} << 20;   // that are received

uint64_t EndOfPart(const ReadRange& part) { return part.offset + part.out.size(); }

}  // namespace

bool AnswerReceiver::Refuse(IoResult result, std::string words) {
  refused_ = result;
  refused_words_ = std::move(words);
  return false;
}

bool AnswerReceiver::WithoutThrowing(absl::FunctionRef<bool()> fn) {
  bool goes_on = false;
  const absl::Status done = CatchExceptions([&] {
    goes_on = fn();
    return absl::OkStatus();
  });
  return done.ok() ? goes_on : Refuse(-ENOMEM, "no memory");  // so few bytes need none
}

bool AnswerReceiver::AddHeader(absl::string_view line) {
  return WithoutThrowing([&] {
    return headers_.AddLine(line) ||
           Refuse(-EBADMSG, "the headers of the answer are too long or contradict each other");
  });
}

bool AnswerReceiver::Begin(int status) {
  began_ = true;
  is_error_ = status < 200 || status > 299;
  if (is_error_) return true;
  if (!headers_.content_encoding.empty() && headers_.content_encoding != "identity") {
    return Refuse(-EBADMSG, absl::StrCat("the answer has the Content-Encoding ", Quoted(headers_.content_encoding),
                                         "; none is wanted"));
  }
  return OnStart(status);
}

bool AnswerReceiver::AddBody(absl::string_view bytes, int status) {
  return WithoutThrowing([&] {
    if (!began_ && !Begin(status)) return false;
    received_ += bytes.size();
    if (!is_error_) return OnBytes(bytes);
    text_.append(bytes.data(), std::min(bytes.size(), kMaxErrorTextBytes - text_.size()));
    if (received_ <= kMaxErrorBytes) return true;
    return Refuse(-EBADMSG, absl::StrCat("the answer is an error of the status ", status, " with a text of more than ",
                                         kMaxErrorBytes, " bytes"));
  });
}

bool AnswerReceiver::End(int status) {
  return WithoutThrowing([&] {
    if (!began_ && !Begin(status)) return false;
    return is_error_ || OnEnd();
  });
}

bool TextReceiver::TooLong() {
  return Refuse(-EBADMSG, absl::StrCat("the answer is longer than ", most_bytes_, " bytes"));
}

bool TextReceiver::OnStart(int /*status*/) {
  if (is_head_) return true;  // the length is that of the object
  return headers_.content_length.value_or(0) <= most_bytes_ || TooLong();
}

bool TextReceiver::OnBytes(absl::string_view bytes) {
  if (bytes.size() > most_bytes_ - text_.size()) return TooLong();
  text_.append(bytes.data(), bytes.size());
  return true;
}

void RangeReceiver::Prepare(std::vector<std::string>* headers) {
  // All bytes came, and then the end of the answer did not: the last byte is asked for again.
  if (*done_ == size_) --*done_;
  first_ = range_.offset() + *done_;
  last_ = range_.offset() + size_ - 1;
  headers->push_back(absl::StrCat("Range: bytes=", first_, "-", last_));
  if (IsStrongETag(range_.etag)) headers->push_back(absl::StrCat("If-Match: ", range_.etag));
}

bool RangeReceiver::OnStart(int status) {
  if (range_.when_answered && !range_.when_answered()) return Refuse(-ECANCELED, "the bytes are not wanted any more");
  const bool is_other_tag = !range_.etag.empty() && headers_.etag != range_.etag;
  const bool is_other_time = range_.etag.empty() && headers_.last_modified != range_.last_modified;
  if (is_other_tag || is_other_time) return Refuse(-ESTALE, "the file was replaced while it was read");
  if (status != 206) return Refuse(-EBADMSG, absl::StrCat("the answer to a range has the status ", status));
  const std::optional<ContentRange>& got = headers_.content_range;
  if (!got.has_value() || !got->is_satisfied) {
    return Refuse(-EBADMSG, "the answer to a range has no Content-Range that can be read");
  }
  if (got->first != first_ || got->last != last_ || got->total != range_.object_bytes) {
    return Refuse(-EBADMSG, absl::StrCat("the answer has bytes ", got->first, " to ", got->last, " of ", got->total,
                                         "; ", first_, " to ", last_, " of ", range_.object_bytes, " are wanted"));
  }
  const uint64_t wanted = last_ - first_ + 1;
  if (headers_.content_length.value_or(wanted) != wanted) {
    return Refuse(-EBADMSG,
                  absl::StrCat("the answer has ", *headers_.content_length, " bytes, its Content-Range ", wanted));
  }
  return true;
}

bool RangeReceiver::OnBytes(absl::string_view bytes) {
  if (bytes.size() > size_ - *done_) return Refuse(-EBADMSG, "the answer is longer than its Content-Range");
  while (!bytes.empty()) {
    const uint64_t offset = range_.offset() + *done_;
    while (EndOfPart(range_.parts[part_]) <= offset) ++part_;
    const ReadRange& part = range_.parts[part_];
    const bool is_wanted = offset >= part.offset;  // else it lies in front of the part
    const auto count =
        static_cast<size_t>(std::min<uint64_t>(bytes.size(), (is_wanted ? EndOfPart(part) : part.offset) - offset));
    if (is_wanted) std::memcpy(part.out.data() + (offset - part.offset), bytes.data(), count);
    bytes.remove_prefix(count);
    *done_ += count;
  }
  return true;
}

bool RangeReceiver::OnEnd() {
  if (*done_ == size_) return true;
  return Refuse(-EBADMSG,
                absl::StrCat("the answer ends ", size_ - *done_, " bytes before the end of its Content-Range"));
}

}  // namespace tensorcask::internal
