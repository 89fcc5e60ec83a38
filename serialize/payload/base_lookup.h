// Finds the base of a delta: the tensor whose elements the delta is stored relative to.
//
//   std::shared_ptr<const BaseLookup> base = MakeBaseLookup(weights_of_step_100);   // one tensor, under every name
//   base = std::make_shared<const CheckpointReader>(std::move(step_100));           // the tensors of a checkpoint
//   writer_options.payload.base = base;
//   reader_options.base = base;
//
// A writer stores deltas to the tensors that it finds here; a reader of those deltas must find the same tensors again.
// The elements of a base must not change while the lookup is in use. Const methods are safe from several threads.

#ifndef TENSORCASK_SERIALIZE_PAYLOAD_BASE_LOOKUP_H_
#define TENSORCASK_SERIALIZE_PAYLOAD_BASE_LOOKUP_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/payload/content_hash.h"
#include "tensorcask/tensor/dtype.h"
#include "tensorcask/tensor/shape.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask {

// The elements of a base in row-major order, and their hash, which is computed when it is first needed.
class BaseTensor {
 public:
  // Copies the elements if `view` is not contiguous.
  // Errors: FailedPrecondition for a buffer without data; ResourceExhausted.
  static absl::StatusOr<std::shared_ptr<const BaseTensor>> Create(const TensorView& view);

  const TensorView& elements() const { return elements_; }  // contiguous
  // Errors: those of HashElements.
  absl::StatusOr<ContentHash> Hash() const;

 private:
  explicit BaseTensor(TensorView elements) : elements_(std::move(elements)) {}

  const TensorView elements_;
  mutable std::mutex mutex_;
  mutable std::optional<ContentHash> hash_;
};

class BaseLookup {
 public:
  // What is known of a base before its elements are read.
  struct Info {
    DType dtype = DType::kInvalid;
    TensorShape shape;
    bool is_delta = false;  // stored as a delta itself; cannot be a base
  };
  struct Location {
    FileSystem* file_system;
    std::string prefix;  // that of the checkpoint
  };

  virtual ~BaseLookup() = default;

  // Errors: NotFound if there is no base of this name; errors of the file that holds it.
  virtual absl::StatusOr<Info> FindBase(absl::string_view name) const = 0;
  // Errors: those of FindBase; errors of reading.
  virtual absl::StatusOr<std::shared_ptr<const BaseTensor>> ReadBase(absl::string_view name) const = 0;

  // The name of the base in messages, such as the prefix of a checkpoint.
  virtual std::string base_description() const = 0;
  // Where the base is stored, so that a writer can refuse to overwrite it; empty for tensors in memory.
  virtual std::optional<Location> base_location() const { return std::nullopt; }
  // True if the caller chose the base for one certain tensor: for a writer, a base of another dtype or number of
  // elements, or one that cannot be read, is then an error. False: the writer does not use such a base.
  virtual bool base_must_match() const { return false; }

 protected:
  BaseLookup() = default;
  BaseLookup(const BaseLookup&) = default;
  BaseLookup& operator=(const BaseLookup&) = default;
};

// Finds `tensor` under every name. Elements that are not contiguous are copied once, and hashed once, when they are
// first needed.
std::shared_ptr<const BaseLookup> MakeBaseLookup(TensorView tensor);

// The base for a delta of a tensor called `name`; null if `lookup` has none that a writer can use. Errors, only if
// lookup.base_must_match(): InvalidArgument for a base of another dtype or number of elements; errors of reading it.
absl::StatusOr<std::shared_ptr<const BaseTensor>> FindUsableBase(const BaseLookup& lookup, absl::string_view name,
                                                                 const TensorView& tensor);

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_PAYLOAD_BASE_LOOKUP_H_
