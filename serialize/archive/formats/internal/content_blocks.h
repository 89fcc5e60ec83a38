// Messages in files whose elements are read and written in blocks: what record files and files of one message share.
//
//   CASK_ASSIGN_OR_RETURN(auto stream, OpenContent(file, content, entry.name, content.offset, /*check=*/{}));

#ifndef TENSORCASK_SERIALIZE_ARCHIVE_FORMATS_INTERNAL_CONTENT_BLOCKS_H_
#define TENSORCASK_SERIALIZE_ARCHIVE_FORMATS_INTERNAL_CONTENT_BLOCKS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/archive/archive_entry.h"
#include "tensorcask/serialize/archive/formats/internal/slice_order.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/io/element_stream.h"
#include "tensorcask/serialize/wire/message/message_frame.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/metadata.h"
#include "tensorcask/tensor/strided/view.h"

namespace tensorcask::archive {

// A message of fewer bytes is always read as a whole.
inline constexpr uint64_t kLargeMessageBytes = uint64_t{4} << 20;

// The entry of a tensor in a file, as DescribeTensor makes it of one in memory. stored_bytes is 0.
ArchiveEntry DescribeContent(std::string name, const internal::StoredContent& content);

// The elements of a message in `file`. `check`, which may be empty, is called by Finish, after all elements were read,
// with the crc32c of the file's bytes from `checked_from` to the end of the content; then checked_from <=
// content.offset. Errors: those of the file, here and in Read; there also DataLoss for bools of other values than 0 and
// 1, which calls the tensor `name`.
absl::StatusOr<std::unique_ptr<ElementStream>> OpenContent(std::shared_ptr<const ByteSource> file,
                                                           const internal::StoredContent& content, std::string name,
                                                           uint64_t checked_from,
                                                           std::function<absl::Status(uint32_t crc)> check);

// Writes a message whose elements arrive in slices.
class MessageSlices {
 public:
  using Append = absl::FunctionRef<absl::Status(absl::string_view bytes)>;

  // Calls append(bytes) for the bytes of the message that this slice brings. Before those of the first slice it calls
  // begin(size of the message). Errors: those of SliceOrder::Next, MakeMessageFrame, begin and append.
  absl::Status Add(const ArchiveEntry& entry, const TensorMetadata& metadata, const TensorSlice& slice,
                   const TensorView& elements, absl::FunctionRef<absl::Status(uint64_t message_bytes)> begin,
                   Append append);
  // FailedPrecondition if the message is incomplete.
  absl::Status CheckComplete() const { return order_.CheckComplete(); }

 private:
  SliceOrder order_;
  std::string tail_;  // the end of the message
};

}  // namespace tensorcask::archive

#endif  // TENSORCASK_SERIALIZE_ARCHIVE_FORMATS_INTERNAL_CONTENT_BLOCKS_H_
