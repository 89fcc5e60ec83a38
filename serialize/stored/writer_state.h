// What a writer of a file answers: it goes on, it has failed, or it is finished.
//
//   CASK_RETURN_IF_ERROR(state_.status());                             // each call begins with this
//   CASK_RETURN_IF_ERROR(state_.About(name, CheckTensor(tensor)));     // refused: nothing has changed
//   return state_.Keep(Write(tensor));                                 // an error stays: later calls return it, too
//   return state_.Finish(publish_.Commit());                           // later calls get FailedPrecondition
//
// The writers of all formats of one file, or of one model, have such a state. What they must know before they write,
// and in which order they take tensors, differs from format to format.

#ifndef TENSORCASK_SERIALIZE_STORED_WRITER_STATE_H_
#define TENSORCASK_SERIALIZE_STORED_WRITER_STATE_H_

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_util.h"

namespace tensorcask::stored {

class WriterState {
 public:
  explicit WriterState(std::string path) : path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  const absl::Status& status() const { return status_; }  // OK: the writer goes on

  // `status` with path and tensor before its message. OK stays OK.
  absl::Status About(absl::string_view tensor, const absl::Status& status) const {
    if (status.ok()) return status;
    return Annotate(status, absl::StrCat(path_, ": tensor ", Quoted(tensor)));
  }

  // Returns `status`. An error is what every later call returns.
  absl::Status Keep(absl::Status status) {
    if (!status.ok()) status_ = status;
    return status;
  }

  // As Keep, for the last step of the writer.
  absl::Status Finish(absl::Status status) {
    status_ = status.ok() ? absl::FailedPreconditionError(absl::StrCat(path_, ": is finished")) : status;
    return status;
  }

 private:
  std::string path_;
  absl::Status status_;
};

}  // namespace tensorcask::stored

#endif  // TENSORCASK_SERIALIZE_STORED_WRITER_STATE_H_
