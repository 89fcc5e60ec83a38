#include "tensorcask/serialize/exchange/internal/frame.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/protowire/field_sinks.h"
#include "tensorcask/serialize/protowire/message_rules.h"
#include "tensorcask/serialize/protowire/wire_reader.h"
#include "tensorcask/serialize/wire/message/send_shape.h"
#include "tensorcask/serialize/wire/message/tensor_fields.h"
#include "tensorcask/serialize/wire/message/tensor_rules.h"
#include "tensorcask/serialize/wire/message/wire_fields.h"
#include "tensorcask/tensor/base/check.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/base/endian.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tensor/base/status_util.h"

namespace tensorcask::exchange {
namespace {

using internal::FieldRule;
using internal::MessageRules;
using Kind = internal::FieldRule::Kind;

constexpr char kMagic[] = {'T', 'C', 'X', '\n'};

// Offsets of the fields of a header (FORMAT.md section 2).
constexpr size_t kVersionAt = 4;
constexpr size_t kTypeAt = 6;
constexpr size_t kFlagsAt = 7;
constexpr size_t kSequenceAt = 8;
constexpr size_t kBodyBytesAt = 16;
constexpr size_t kInlineBytesAt = 24;
constexpr size_t kDescriptorsAt = 32;
constexpr size_t kBodyChecksumAt = 36;
constexpr size_t kHeaderChecksumAt = 40;

// Field numbers of a hello, a body and a tensor in it (FORMAT.md sections 3 and 4).
constexpr uint32_t kMinVersion = 1;
constexpr uint32_t kMaxVersion = 2;
constexpr uint32_t kMaxMessageBytes = 3;

constexpr uint32_t kTopic = 1;
constexpr uint32_t kRequest = 2;
constexpr uint32_t kStatusCode = 3;
constexpr uint32_t kStatusMessage = 4;
constexpr uint32_t kTensors = 5;

// None of these is the field number of dtype or shape in TensorProto. So a reader that mistakes an entry for a
// TensorProto finds dtype 0 and refuses it; with those two numbers it would find a tensor of zeros.
constexpr uint32_t kPadding = 21;
constexpr uint32_t kMessageBytes = 22;
constexpr uint32_t kBlock = 23;
constexpr uint32_t kDType = 24;
constexpr uint32_t kShape = 25;
constexpr uint32_t kOffset = 26;
constexpr uint32_t kSize = 27;
constexpr uint32_t kExtension = 28;

constexpr FieldRule kHelloFields[] = {
    {kMinVersion, "min_version", Kind::kVarint},
    {kMaxVersion, "max_version", Kind::kVarint},
    {kMaxMessageBytes, "max_message_bytes", Kind::kVarint},
};
const MessageRules kHelloRules = {kHelloFields};

constexpr FieldRule kEntryFields[] = {
    {kPadding, "padding", Kind::kVarint},
    {kMessageBytes, "message_bytes", Kind::kVarint},
    {kBlock, "block", Kind::kVarint},
    {kDType, "dtype", Kind::kVarint},
    {kShape, "shape", Kind::kMessage, &internal::kShapeRules},
    {kOffset, "offset", Kind::kVarint},
    {kSize, "size", Kind::kVarint},
    {kExtension, "extension", Kind::kMessage, &internal::kExtensionRules},
};
const MessageRules kEntryRules = {kEntryFields};

constexpr FieldRule kBodyFields[] = {
    {kTopic, "topic", Kind::kBytes},
    {kRequest, "request", Kind::kVarint},
    {kStatusCode, "status_code", Kind::kVarint},
    {kStatusMessage, "status_message", Kind::kBytes},
    {kTensors, "tensors", Kind::kMessage, &kEntryRules},
};
const MessageRules kBodyRules = {kBodyFields};

// Messages in a body nest as deep as tensors / extension / attributes; only groups in unknown fields go deeper.
constexpr int kMaxDepth = 16;

// A checksum as headers store it.
uint32_t StoredChecksum(absl::string_view bytes) { return MaskCrc32c(Crc32c(bytes)); }

std::string Text(absl::string_view bytes) { return std::string(bytes.data(), bytes.size()); }

template <typename Sink>
void SendHello(const Hello& hello, Sink* sink) {
  sink->Number(kMinVersion, hello.min_version);
  sink->Number(kMaxVersion, hello.max_version);
  sink->Number(kMaxMessageBytes, hello.max_message_bytes);
}

template <typename Sink>
void SendEntry(const TensorEntry& entry, Sink* sink) {
  if (entry.is_inline()) {
    sink->Number(kPadding, entry.padding_bytes);
    sink->Number(kMessageBytes, entry.message_bytes);
    return;
  }
  sink->Number(kBlock, entry.block);
  sink->Number(kDType, static_cast<uint64_t>(DTypeNumber(entry.dtype)));
  internal::MeasuringSink shape;
  internal::SendShape(entry.shape.dims(), /*unknown_rank=*/false, &shape);
  sink->Length(kShape, shape.bytes);
  internal::SendShape(entry.shape.dims(), /*unknown_rank=*/false, sink);
  sink->Number(kOffset, entry.offset_bytes);
  sink->Number(kSize, entry.size_bytes);
  sink->Bytes(kExtension, entry.extension);
}

template <typename Sink>
void SendBody(const MessageBody& body, Sink* sink) {
  sink->Bytes(kTopic, body.topic);
  sink->Number(kRequest, body.request);
  sink->Number(kStatusCode, static_cast<uint64_t>(body.status.code()));
  sink->Bytes(kStatusMessage, body.status.message());
  for (const TensorEntry& entry : body.tensors) {
    internal::MeasuringSink measure;
    SendEntry(entry, &measure);
    sink->Length(kTensors, measure.bytes);
    SendEntry(entry, sink);
  }
}

// The bytes of `value`.
template <typename Value>
std::string Written(const Value& value, void (*measure)(const Value&, internal::MeasuringSink*),
                    void (*write)(const Value&, internal::WritingSink*)) {
  internal::MeasuringSink measured;
  measure(value, &measured);
  std::string bytes(static_cast<size_t>(measured.bytes), '\0');
  internal::WritingSink sink{&bytes[0]};
  write(value, &sink);
  CASK_CHECK(sink.out == bytes.data() + bytes.size(), "a body has another size than measured");
  return bytes;
}

absl::Status CheckLengths(const FrameHeader& header) {
  if (header.num_descriptors > kMaxDescriptors) {
    return absl::InvalidArgumentError(
        absl::StrCat("a frame says that it has ", header.num_descriptors, " descriptors; at most ", kMaxDescriptors));
  }
  const bool is_message = header.type == FrameType::kMessage || header.type == FrameType::kReply;
  if (!is_message && (header.inline_bytes != 0 || header.num_descriptors != 0)) {
    return absl::InvalidArgumentError("a hello or goodbye has data or descriptors");
  }
  if (header.type == FrameType::kGoodbye && header.body_bytes != 0) {
    return absl::InvalidArgumentError("a goodbye has a body");
  }
  constexpr uint64_t kMaxHelloBytes = 4096;  // room for fields of later versions
  if (header.type == FrameType::kHello && header.body_bytes > kMaxHelloBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a hello has ", header.body_bytes, " bytes; at most ", kMaxHelloBytes));
  }
  return absl::OkStatus();
}

absl::Status DecodeShape(absl::string_view bytes, TensorShape* out) {
  internal::ShapeFields fields;
  internal::MergeShape(bytes, &fields);
  CASK_ASSIGN_OR_RETURN(*out, internal::ShapeFromFields(fields, /*lenient=*/false));
  return absl::OkStatus();
}

absl::Status DecodeDType(uint64_t number, DType* out) {
  const std::optional<DType> dtype = DTypeFromNumber(static_cast<int64_t>(number));
  if (!dtype) return absl::UnimplementedError(absl::StrCat("dtype ", number, " is unknown to this build"));
  if (!IsFixedSize(*dtype)) {
    return absl::InvalidArgumentError(
        absl::StrCat("dtype ", DTypeName(*dtype), " cannot lie in shared memory: its elements have no fixed size"));
  }
  *out = *dtype;
  return absl::OkStatus();
}

// Errors: InvalidArgument for a mixture of the two kinds.
absl::Status CheckKind(uint64_t block, bool says_inline, bool says_shared) {
  if (block > kMaxDescriptors) {
    return absl::InvalidArgumentError(absl::StrCat("block is ", block, "; at most ", kMaxDescriptors));
  }
  if ((block == 0 && says_shared) || (block != 0 && (says_inline || !says_shared))) {
    return absl::InvalidArgumentError("its fields are neither those of an inline tensor nor those of a shared one");
  }
  return absl::OkStatus();
}

absl::StatusOr<TensorEntry> DecodeEntry(absl::string_view bytes) {
  TensorEntry entry;
  uint64_t block = 0;
  bool says_inline = false;
  bool has_dtype = false;
  bool has_place = false;
  WireReader reader(bytes, internal::kAnyDepth);
  WireReader::Field field;
  while (reader.Next(&field)) {
    switch (field.number) {
      case kPadding:
        entry.padding_bytes = field.value;
        says_inline = true;
        break;
      case kMessageBytes:
        entry.message_bytes = field.value;
        says_inline = true;
        break;
      case kBlock:
        block = field.value;
        break;
      case kDType:
        CASK_RETURN_IF_ERROR(DecodeDType(field.value, &entry.dtype));
        has_dtype = true;
        break;
      case kShape:
        CASK_RETURN_IF_ERROR(DecodeShape(field.bytes, &entry.shape));
        has_place = true;
        break;
      case kOffset:
        entry.offset_bytes = field.value;
        has_place = true;
        break;
      case kSize:
        entry.size_bytes = field.value;
        has_place = true;
        break;
      case kExtension:
        entry.extension = Text(field.bytes);
        has_place = true;
        break;
      default:
        break;
    }
  }
  CASK_RETURN_IF_ERROR(CheckKind(block, says_inline, has_dtype || has_place));
  if (block != 0 && !has_dtype) return absl::InvalidArgumentError("it has no dtype");
  entry.block = static_cast<uint32_t>(block);
  return entry;
}

}  // namespace

std::array<char, kFrameHeaderBytes> EncodeFrameHeader(const FrameHeader& header) {
  std::array<char, kFrameHeaderBytes> bytes = {};
  char* const out = bytes.data();
  for (size_t i = 0; i < sizeof(kMagic); ++i) out[i] = kMagic[i];
  StoreLittleEndian(kVersion, out + kVersionAt);
  out[kTypeAt] = static_cast<char>(header.type);
  StoreLittleEndian(header.sequence, out + kSequenceAt);
  StoreLittleEndian(header.body_bytes, out + kBodyBytesAt);
  StoreLittleEndian(header.inline_bytes, out + kInlineBytesAt);
  StoreLittleEndian(header.num_descriptors, out + kDescriptorsAt);
  StoreLittleEndian(MaskCrc32c(header.body_crc32c), out + kBodyChecksumAt);
  StoreLittleEndian(StoredChecksum({out, kHeaderChecksumAt}), out + kHeaderChecksumAt);
  return bytes;
}

absl::StatusOr<FrameHeader> DecodeFrameHeader(absl::string_view bytes) {
  CASK_CHECK(bytes.size() == kFrameHeaderBytes, "DecodeFrameHeader: a header has 44 bytes");
  const char* const in = bytes.data();
  if (bytes.substr(0, sizeof(kMagic)) != absl::string_view(kMagic, sizeof(kMagic))) {
    return absl::InvalidArgumentError("the peer sent bytes that are not a frame of a tensor channel");
  }
  // The version comes before the checksum, which a newer version may store elsewhere.
  const auto version = LoadLittleEndian<uint16_t>(in + kVersionAt);
  if (version == 0) return absl::InvalidArgumentError("a frame has version 0");
  if (version > kVersion) {
    return absl::UnimplementedError(absl::StrCat("a frame has version ", version, "; this build reads ", kVersion));
  }
  if (LoadLittleEndian<uint32_t>(in + kHeaderChecksumAt) != StoredChecksum(bytes.substr(0, kHeaderChecksumAt))) {
    return absl::DataLossError("the header of a frame has a wrong checksum");
  }
  const auto type = static_cast<uint8_t>(in[kTypeAt]);
  if (type < static_cast<uint8_t>(FrameType::kHello) || type > static_cast<uint8_t>(FrameType::kGoodbye)) {
    return absl::UnimplementedError(absl::StrCat("a frame has the unknown type ", type));
  }
  if (in[kFlagsAt] != 0) {
    return absl::UnimplementedError(
        absl::StrCat("a frame has the unknown flags ", static_cast<int>(static_cast<uint8_t>(in[kFlagsAt]))));
  }
  FrameHeader header;
  header.type = static_cast<FrameType>(type);
  header.sequence = LoadLittleEndian<uint64_t>(in + kSequenceAt);
  header.body_bytes = LoadLittleEndian<uint64_t>(in + kBodyBytesAt);
  header.inline_bytes = LoadLittleEndian<uint64_t>(in + kInlineBytesAt);
  header.num_descriptors = LoadLittleEndian<uint32_t>(in + kDescriptorsAt);
  header.body_crc32c = UnmaskCrc32c(LoadLittleEndian<uint32_t>(in + kBodyChecksumAt));
  CASK_RETURN_IF_ERROR(CheckLengths(header));
  return header;
}

std::string EncodeHello(const Hello& hello) {
  return Written(hello, &SendHello<internal::MeasuringSink>, &SendHello<internal::WritingSink>);
}

absl::StatusOr<Hello> DecodeHello(absl::string_view body) {
  CASK_RETURN_IF_ERROR(internal::CheckMessage(body, kHelloRules, kMaxDepth));
  uint64_t min_version = 0;
  uint64_t max_version = 0;
  Hello hello;
  WireReader reader(body, internal::kAnyDepth);
  WireReader::Field field;
  while (reader.Next(&field)) {
    if (field.number == kMinVersion) min_version = field.value;
    if (field.number == kMaxVersion) max_version = field.value;
    if (field.number == kMaxMessageBytes) hello.max_message_bytes = field.value;
  }
  if (min_version == 0 || max_version < min_version || max_version > UINT16_MAX) {
    return absl::InvalidArgumentError(
        absl::StrCat("a hello says that the other side reads versions ", min_version, " to ", max_version));
  }
  if (min_version > kVersion) {
    return absl::UnimplementedError(absl::StrCat("the other side reads versions ", min_version, " to ", max_version,
                                                 "; this build speaks ", kVersion));
  }
  hello.min_version = static_cast<uint32_t>(min_version);
  hello.max_version = static_cast<uint32_t>(max_version);
  return hello;
}

std::string EncodeBody(const MessageBody& body) {
  return Written(body, &SendBody<internal::MeasuringSink>, &SendBody<internal::WritingSink>);
}

absl::StatusOr<MessageBody> DecodeBody(absl::string_view bytes) {
  CASK_RETURN_IF_ERROR(internal::CheckMessage(bytes, kBodyRules, kMaxDepth));
  MessageBody body;
  uint64_t code = 0;
  absl::string_view status_message;
  WireReader reader(bytes, internal::kAnyDepth);
  WireReader::Field field;
  while (reader.Next(&field)) {
    switch (field.number) {
      case kTopic:
        body.topic = Text(field.bytes);
        break;
      case kRequest:
        body.request = field.value;
        break;
      case kStatusCode:
        code = field.value;
        break;
      case kStatusMessage:
        status_message = field.bytes;
        break;
      case kTensors: {
        if (body.tensors.size() == kMaxTensors) {
          return absl::ResourceExhaustedError(absl::StrCat("a message has more than ", kMaxTensors, " tensors"));
        }
        CASK_ASSIGN_OR_ANNOTATE(TensorEntry entry, DecodeEntry(field.bytes),
                                absl::StrCat("tensor ", body.tensors.size()));
        body.tensors.push_back(std::move(entry));
        break;
      }
      default:
        break;
    }
  }
  // A code that is newer than this build becomes "unknown", as in gRPC.
  constexpr uint64_t kLastCode = 16;
  const auto known = code <= kLastCode ? static_cast<absl::StatusCode>(code) : absl::StatusCode::kUnknown;
  body.status = absl::Status(known, status_message);
  return body;
}

}  // namespace tensorcask::exchange
