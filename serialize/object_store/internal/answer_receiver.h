// Takes the answer to a request as it arrives. Checks that it is what was asked for before any byte of it is used, and
// puts it where it belongs. Internal.
//
//   uint64_t done = 0;                          // over all attempts
//   RangeReceiver receiver(range, &done);       // or TextReceiver
//   receiver.Prepare(&headers);                 // of the request
//   ... receiver.AddHeader(line), then receiver.AddBody(bytes, status), then receiver.End(status) ...
//
// Once one of them returned false the answer is refused: refused() and refused_words() say why. A status that is not
// 2xx brings a text. They throw nothing, since curl calls them, which is C: an exception refuses the answer with
// ENOMEM.

#ifndef TENSORCASK_SERIALIZE_OBJECT_STORE_INTERNAL_ANSWER_RECEIVER_H_
#define TENSORCASK_SERIALIZE_OBJECT_STORE_INTERNAL_ANSWER_RECEIVER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/object_store/internal/http_headers.h"

namespace tensorcask::internal {

// A range of an object that was opened before: from the first byte of the first part to the last one of the last.
struct ExpectedRange {
  absl::Span<const ReadRange> parts;  // not empty, by offset, and apart; what lies between them is thrown away
  uint64_t object_bytes = 0;
  std::string etag;           // "": unknown
  std::string last_modified;  // "": unknown; compared where there is no ETag
  // Called when the answer has come and before a byte of it is used; null: is not called. It may set all of the above
  // but the places and sizes of the parts. False: the answer is not wanted.
  std::function<bool()> when_answered;

  uint64_t offset() const { return parts.front().offset; }
  uint64_t size_bytes() const { return parts.back().offset + parts.back().out.size() - offset(); }
};

class AnswerReceiver {
 public:
  virtual ~AnswerReceiver() = default;
  virtual void Prepare(std::vector<std::string>* /*headers*/) {}  // adds headers to the request

  bool AddHeader(absl::string_view line);
  bool AddBody(absl::string_view bytes, int status);
  bool End(int status);  // after the last byte

  AnswerHeaders& headers() { return headers_; }
  std::string& text() { return text_; }  // the whole body, if nothing else was asked for, or that of an error
  uint64_t received() const { return received_; }
  IoResult refused() const { return refused_; }  // minus an errno; 0: it is not
  std::string& refused_words() { return refused_words_; }

 protected:
  virtual bool OnStart(int status) = 0;
  virtual bool OnBytes(absl::string_view bytes) = 0;
  virtual bool OnEnd() { return true; }
  bool Refuse(IoResult result, std::string words);

  AnswerHeaders headers_;
  std::string text_;

 private:
  bool Begin(int status);
  bool WithoutThrowing(absl::FunctionRef<bool()> fn);

  uint64_t received_ = 0;
  IoResult refused_ = 0;
  std::string refused_words_;
  bool began_ = false;
  bool is_error_ = false;
};

// The body as text, up to `most_bytes`. The answer to a HEAD has the length of the object, and no body.
class TextReceiver final : public AnswerReceiver {
 public:
  TextReceiver(bool is_head, uint64_t most_bytes) : is_head_(is_head), most_bytes_(most_bytes) {}

 private:
  bool TooLong();
  bool OnStart(int status) override;
  bool OnBytes(absl::string_view bytes) override;

  const bool is_head_;
  const uint64_t most_bytes_;
};

// The bytes of a range, into its parts.
class RangeReceiver final : public AnswerReceiver {
 public:
  // *done are bytes of the range that came with earlier attempts. Requires: both outlive this.
  RangeReceiver(const ExpectedRange& range, uint64_t* done) : range_(range), size_(range.size_bytes()), done_(done) {}
  void Prepare(std::vector<std::string>* headers) override;

 private:
  bool OnStart(int status) override;
  bool OnBytes(absl::string_view bytes) override;
  bool OnEnd() override;

  const ExpectedRange& range_;
  const uint64_t size_;
  uint64_t* const done_;  // bytes of the range, over all attempts
  size_t part_ = 0;       // the first one that may lack bytes
  uint64_t first_ = 0;
  uint64_t last_ = 0;
};

}  // namespace tensorcask::internal

#endif  // TENSORCASK_SERIALIZE_OBJECT_STORE_INTERNAL_ANSWER_RECEIVER_H_
