// A stream of records: what is read is written again alike, as far as it was read.
//
// Is to reach what input can reach of these files:
//   serialize/wire/records*
//   serialize/wire/tensor_records*

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorcask/serialize/io/byte_sink.h"
#include "tensorcask/serialize/io/byte_source.h"
#include "tensorcask/serialize/wire/codec_options.h"
#include "tensorcask/serialize/wire/records.h"
#include "tensorcask/serialize/wire/tensor_records.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/base/endian.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/fuzz/fuzz_input.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace tensorcask::testing {
namespace {

constexpr size_t kHeaderBytes = 12;
constexpr size_t kTailBytes = 4;

void StoreChecksum(const char* begin, size_t size, char* out) {
  StoreLittleEndian(MaskCrc32c(Crc32c({begin, size})), out);
}

// Gives each record correct checksums, and a length that fits.
void Mend(char* bytes, size_t size) {
  while (size >= kHeaderBytes + kTailBytes) {
    const uint64_t most = size - kHeaderBytes - kTailBytes;
    uint64_t length = LoadLittleEndian<uint64_t>(bytes);
    if (length > most) length %= most + 1;
    StoreLittleEndian(length, bytes);
    StoreChecksum(bytes, sizeof(length), bytes + sizeof(length));
    StoreChecksum(bytes + kHeaderBytes, length, bytes + kHeaderBytes + length);
    bytes += kHeaderBytes + length + kTailBytes;
    size -= kHeaderBytes + length + kTailBytes;
  }
}

void ReadRecords(absl::string_view stream) {
  RecordReader reader(MakeMemorySource("stream", stream));
  std::string again;
  StringSink sink(&again);
  RecordWriter writer(&sink);
  while (true) {
    const absl::StatusOr<std::optional<absl::string_view>> record = reader.Next();
    if (!record.ok()) break;
    if (!record->has_value()) {
      FUZZ_CHECK(reader.offset() == stream.size(), "the end is not the end");
      break;
    }
    FUZZ_CHECK(writer.Write(**record).ok(), "write");
  }
  FUZZ_CHECK(again == stream.substr(0, static_cast<size_t>(reader.offset())), "written otherwise");
}

void ReadTensors(absl::string_view stream) {
  RecordReaderOptions options;
  options.limits.max_message_bytes = 1000;
  RecordReader reader(MakeMemorySource("stream", stream), options);
  DecodeOptions decode;
  decode.limits.max_message_bytes = 1 << 20;
  decode.limits.max_memory_beyond_input = 1 << 20;
  while (true) {
    const uint64_t offset = reader.offset();
    const absl::StatusOr<std::optional<Tensor>> tensor = ReadTensorRecord(&reader, decode);
    if (tensor.ok() ? !tensor->has_value() : reader.offset() == offset) break;  // the end, or the stream is broken
  }
}

}  // namespace
}  // namespace tensorcask::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view stream(reinterpret_cast<const char*>(data), size);
  tensorcask::testing::ReadRecords(stream);
  tensorcask::testing::ReadTensors(stream);
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned int seed) {
  size = LLVMFuzzerMutate(data, size, max_size);
  if (seed % 8 != 0) tensorcask::testing::Mend(reinterpret_cast<char*>(data), size);
  return size;
}
