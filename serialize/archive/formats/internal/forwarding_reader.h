// The reads of an archive that another reader does: that of the format, or one of several files.
//
//   class GgufArchiveReader final : public ListedReader<GgufReader> {
//     absl::string_view format() const override { return "gguf"; }
//     ...
//   };
//
// Reader has Read, ReadInto, ReadSlice, ReadSliceInto and Map, which take the name of a tensor; Map may give a view.
// That of a ListedReader has path and notes, too.

#ifndef TENSORCASK_SERIALIZE_ARCHIVE_FORMATS_INTERNAL_FORWARDING_READER_H_
#define TENSORCASK_SERIALIZE_ARCHIVE_FORMATS_INTERNAL_FORWARDING_READER_H_

#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/archive/archive_entry.h"
#include "tensorcask/serialize/archive/archive_reader.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tensor/strided/view.h"
#include "tensorcask/tensor/tensor.h"

namespace tensorcask::archive {

template <typename Reader>
class ForwardingReader : public ArchiveReader {
 public:
  absl::StatusOr<Tensor> Read(absl::string_view name) const override {
    CASK_ASSIGN_OR_RETURN(const Target target, TargetOf(name));
    return target.reader->Read(target.name);
  }
  absl::Status ReadInto(absl::string_view name, TensorView* out) const override {
    CASK_ASSIGN_OR_RETURN(const Target target, TargetOf(name));
    return target.reader->ReadInto(target.name, out);
  }
  absl::StatusOr<Tensor> ReadSlice(absl::string_view name, const TensorSlice& slice) const override {
    CASK_ASSIGN_OR_RETURN(const Target target, TargetOf(name));
    return target.reader->ReadSlice(target.name, slice);
  }
  absl::Status ReadSliceInto(absl::string_view name, const TensorSlice& slice, TensorView* out) const override {
    CASK_ASSIGN_OR_RETURN(const Target target, TargetOf(name));
    return target.reader->ReadSliceInto(target.name, slice, out);
  }
  absl::StatusOr<Tensor> Map(absl::string_view name) const override {
    CASK_ASSIGN_OR_RETURN(const Target target, TargetOf(name));
    if constexpr (std::is_same_v<decltype(target.reader->Map(target.name)), absl::StatusOr<TensorView>>) {
      CASK_ASSIGN_OR_RETURN(const TensorView view, target.reader->Map(target.name));
      return view.ToTensor();
    } else {
      return target.reader->Map(target.name);
    }
  }

 protected:
  struct Target {
    const Reader* reader;
    absl::string_view name;  // in the file of `reader`; lives as long as this, or as the name that was looked up
  };

  // Which reader has the tensor `name`, and what it calls it. Errors: NotFound, as Find has it; why the tensor cannot
  // be read.
  virtual absl::StatusOr<Target> TargetOf(absl::string_view name) const = 0;
};

// The archive of one reader, whose list is made when it is opened. By default the tensors have the names that they have
// in the file.
template <typename Reader>
class ListedReader : public ForwardingReader<Reader> {
 public:
  const std::string& path() const override { return reader_.path(); }
  const std::vector<ArchiveEntry>& entries() const override { return entries_; }
  std::vector<std::string> notes() const override { return reader_.notes(); }

 protected:
  using typename ForwardingReader<Reader>::Target;

  ListedReader(Reader reader, std::vector<ArchiveEntry> entries)
      : reader_(std::move(reader)), entries_(std::move(entries)) {}

  absl::StatusOr<Target> TargetOf(absl::string_view name) const override {
    CASK_RETURN_IF_ERROR(this->Find(name).status());
    return Target{&reader_, name};
  }

  const Reader reader_;
  const std::vector<ArchiveEntry> entries_;
};

}  // namespace tensorcask::archive

#endif  // TENSORCASK_SERIALIZE_ARCHIVE_FORMATS_INTERNAL_FORWARDING_READER_H_
