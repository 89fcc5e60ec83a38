// Reads the fields of a serialized protobuf message in a source, however large the message: contents of fields stay in
// the source until the caller asks for them.
//
//   WireCursor cursor(&file);
//   WireCursor::Field field;
//   while (cursor.position() < file.size_bytes()) {
//     CASK_RETURN_IF_ERROR(cursor.ReadField(file.size_bytes(), &field));
//     if (field.number == 7 && field.type == WireType::kBytes) ...   // its fields come next: ReadField(field.end(),
//     ...) else cursor.Seek(field.end());                                 // skip its content
//   }
//
// A field whose content is to be read is entered by going on, and left by Seek, so a caller keeps a stack of ends of
// messages instead of calling itself. Reads blocks of 4 KiB after a Seek and of 64 KiB after another block.
//
// Errors are those of WireReader (wire_reader.h), except that groups, which are out of use, are refused:
// InvalidArgument with the position in the source; from the source, naming it.

#ifndef TENSORCASK_SERIALIZE_PROTOWIRE_WIRE_CURSOR_H_
#define TENSORCASK_SERIALIZE_PROTOWIRE_WIRE_CURSOR_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/protowire/wire_reader.h"

namespace tensorcask {

class WireCursor {
 public:
  struct Field {
    uint32_t number = 0;
    WireType type = WireType::kVarint;
    uint64_t value = 0;     // kVarint, kFixed64, kFixed32
    uint64_t position = 0;  // the position of the tag
    uint64_t begin = 0;     // kBytes: of the content; of other types: the end of the field
    uint64_t size = 0;      // kBytes: of the content

    uint64_t end() const { return begin + size; }
  };

  explicit WireCursor(const ByteSource* source) : source_(source) {}  // Requires: `source` outlives this

  uint64_t position() const { return position_; }
  void Seek(uint64_t position) { position_ = position; }

  // Reads the next field of the message that ends at `end`; position() is then field->begin. Requires of all functions
  // with an end: position() < end <= the size of the source.
  absl::Status ReadField(uint64_t end, Field* field);
  absl::Status ReadVarint(uint64_t end, uint64_t* value);
  // The next `width` (4 or 8) bytes, little-endian.
  absl::Status ReadFixed(uint64_t end, int width, uint64_t* value);
  // Requires: so many bytes are left in the source.
  absl::Status ReadBytes(absl::Span<char> out);

 private:
  // The bytes from the position on that are in memory: all up to `end`, or at least `wanted`.
  absl::StatusOr<absl::string_view> Look(uint64_t end, size_t wanted);
  absl::Status Fail(absl::string_view what) const;

  const ByteSource* source_;
  uint64_t position_ = 0;
  std::vector<char> block_;
  uint64_t block_begin_ = 0;
  size_t block_bytes_ = 0;
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_PROTOWIRE_WIRE_CURSOR_H_
