// A buffer that is kept from one use to the next and grows when needed.
//
//   CASK_RETURN_IF_ERROR(planes_.Reserve(bytes));
//   planes_.data();      // room for `bytes`, with unspecified content

#ifndef TENSORCASK_SERIALIZE_PAYLOAD_CODEC_SCRATCH_H_
#define TENSORCASK_SERIALIZE_PAYLOAD_CODEC_SCRATCH_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/tensor/base/status_util.h"

namespace tensorcask::payload {

class Scratch {
 public:
  // The content may be lost. Errors: ResourceExhausted.
  absl::Status Reserve(size_t bytes) {
    if (bytes <= size_bytes_) return absl::OkStatus();
    memory_.reset();
    size_bytes_ = 0;
    memory_.reset(::operator new(bytes, std::nothrow));
    if (memory_ == nullptr) {
      return MarkResourceFailure(absl::ResourceExhaustedError(absl::StrCat("no memory for ", bytes, " bytes")));
    }
    size_bytes_ = bytes;
    return absl::OkStatus();
  }

  size_t size_bytes() const { return size_bytes_; }

  char* data() { return static_cast<char*>(memory_.get()); }
  uint8_t* bytes() { return static_cast<uint8_t*>(memory_.get()); }

 private:
  struct Delete {
    void operator()(void* memory) const { ::operator delete(memory); }
  };
  std::unique_ptr<void, Delete> memory_;
  size_t size_bytes_ = 0;
};

}  // namespace tensorcask::payload

#endif  // TENSORCASK_SERIALIZE_PAYLOAD_CODEC_SCRATCH_H_
