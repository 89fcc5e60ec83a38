#include "tensorcask/tests/serialize/payload/payload_testing.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "gtest/gtest.h"
#include "tensorcask/serialize/io/byte_sink.h"
#include "tensorcask/tensor/base/crc32c.h"
#include "tensorcask/tensor/base/endian.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask::testing {
namespace {

std::string Number(uint64_t value, size_t bytes) {
  char out[8];
  StoreLittleEndian(value, out);
  return std::string(out, bytes);
}

uint32_t StoredChecksum(absl::string_view bytes) { return MaskCrc32c(Crc32c(bytes)); }

void FillSmooth(absl::Span<char> bytes, size_t element_bytes, std::mt19937* random) {
  for (size_t at = 0; at < bytes.size(); at += element_bytes) {
    std::memset(&bytes[at], 0, element_bytes);
    bytes[at] = static_cast<char>((*random)() % 5);
    if (element_bytes > 1) bytes[at + element_bytes - 1] = static_cast<char>(0x3f + (*random)() % 2);
  }
}

}  // namespace

std::vector<DType> FixedSizeDTypes() {
  return {
#define CASK_ENTRY(id, number, T, name) DType::id,
      CASK_FIXED_SIZE_DTYPES(CASK_ENTRY)
#undef CASK_ENTRY
  };
}

Tensor RandomTensor(DType dtype, const TensorShape& shape, Values values, uint32_t seed) {
  Tensor tensor = *Tensor::Zeros(dtype, shape);
  if (values == Values::kZeros || tensor.num_elements() == 0) return tensor;
  std::mt19937 random(seed);
  const absl::Span<char> bytes = tensor.mutable_bytes();
  const auto noise = [&](absl::Span<char> out) {
    for (size_t at = 0; at < out.size(); at += sizeof(uint32_t)) {
      const auto word = static_cast<uint32_t>(random());
      std::memcpy(&out[at], &word, std::min(sizeof(word), out.size() - at));
    }
  };
  if (values == Values::kNoise) {
    noise(bytes);
  } else if (values == Values::kWeights && (dtype == DType::kFloat32 || dtype == DType::kBfloat16)) {
    std::normal_distribution<float> draw(0, 0.02f);
    const size_t step = tensor.element_size();
    for (size_t at = 0; at < bytes.size(); at += step) {
      const float value = draw(random);
      std::memcpy(&bytes[at], reinterpret_cast<const char*>(&value) + sizeof(value) - step, step);
    }
  } else if (values == Values::kMixed) {
    for (size_t at = 0; at < bytes.size();) {
      const size_t count = std::min(bytes.size() - at, tensor.element_size() * (1 + random() % 50'000));
      const absl::Span<char> part = bytes.subspan(at, count);
      if (const auto kind = random() % 3; kind == 0) {
        noise(part);
      } else if (kind == 1) {
        FillSmooth(part, tensor.element_size(), &random);
      }
      at += count;
    }
  } else {
    FillSmooth(bytes, tensor.element_size(), &random);
  }
  if (dtype == DType::kBool) {
    for (char& byte : bytes) byte &= 1;
  }
  return tensor;
}

Tensor RandomStrings(const TensorShape& shape, size_t max_length, uint32_t seed) {
  std::mt19937 random(seed);
  Tensor tensor = *Tensor::Create(DType::kString, shape);
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    std::string& text = tensor.mutable_data<std::string>()[i];
    text.resize(random() % 4 == 0 ? 0 : random() % (max_length + 1));
    for (char& c : text) c = static_cast<char>(random() % 9 == 0 ? 0 : 'a' + random() % 20);
  }
  return tensor;
}

TensorView RandomView(const TensorView& view, std::mt19937* random) {
  TensorView result = view;
  std::vector<int64_t> axes(static_cast<size_t>(result.rank()));
  for (size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<int64_t>(i);
  std::shuffle(axes.begin(), axes.end(), *random);
  result = *result.Permute(axes);
  for (int axis = 0; axis < result.rank(); ++axis) {
    const auto kind = (*random)() % 6;
    const int64_t dim = result.dim(axis);
    if (kind == 0) result = *result.Flip({axis});
    if (kind == 1 && dim > 1) result = *result.Slice(axis, static_cast<int64_t>((*random)() % dim), dim);
    if (kind == 2 && dim > 1) result = *result.Slice(axis, 0, dim, 2);
    if (kind == 3 && dim > 1) result = *result.Slice(axis, std::nullopt, std::nullopt, -3);
  }
  return result;
}

std::string ElementBytes(const TensorView& view) {
  const TensorView dense = *view.Contiguous();
  if (dense.num_elements() == 0) return "";
  if (dense.dtype() != DType::kString) return std::string(dense.bytes());
  std::string text;
  for (int64_t i = 0; i < dense.num_elements(); ++i) {
    const std::string& element = dense.data<std::string>()[i];
    text += Number(element.size(), 8) + element;
  }
  return text;
}

PayloadWriteOptions Always(PayloadLevel level, size_t chunk_bytes) {
  PayloadWriteOptions options;
  options.payload.level = level;
  options.payload.chunk_bytes = chunk_bytes;
  options.always = true;
  return options;
}

std::string EncodeOrFail(const TensorView& view, const PayloadWriteOptions& options, PayloadSummary* summary) {
  std::string bytes;
  StringSink sink(&bytes);
  const absl::StatusOr<std::optional<PayloadSummary>> written = EncodePayload(view, options, &sink);
  EXPECT_OK(written);
  if (!written.ok()) return "";
  EXPECT_TRUE(written->has_value()) << "not worth it";
  if (!written->has_value()) return "";
  EXPECT_EQ((*written)->stored_bytes, bytes.size());
  if (summary != nullptr) *summary = **written;
  return bytes;
}

absl::StatusOr<Tensor> ReadWhole(absl::string_view payload, const TensorShape& shape, const TensorView* base,
                                 const PayloadReadOptions& options) {
  CASK_ASSIGN_OR_RETURN(PayloadReader reader, PayloadReader::Open(payload, options));
  if (reader.header().num_elements != static_cast<uint64_t>(shape.num_elements())) {
    return absl::InvalidArgumentError("another number of elements");
  }
  if (base != nullptr) CASK_RETURN_IF_ERROR(reader.SetBase(*base));
  CASK_ASSIGN_OR_RETURN(const Tensor tensor, Tensor::Create(reader.header().dtype, shape));
  TensorView view = tensor;
  CASK_RETURN_IF_ERROR(reader.ReadInto(&view));
  return tensor;
}

void Forge::Add(absl::string_view bytes) {
  body.resize((body.size() + 63) / 64 * 64);
  chunks.push_back({kPayloadHeaderBytes + body.size(), static_cast<uint32_t>(bytes.size())});
  body.append(bytes.data(), bytes.size());
}

std::string Forge::Bytes() const {
  std::string bytes = header.Encode() + body;
  std::string index;
  for (const Chunk& chunk : chunks) {
    uint32_t checksum = 0;
    if (chunk.checksum) {
      checksum = *chunk.checksum;
    } else if (chunk.offset <= bytes.size()) {
      checksum = StoredChecksum(absl::string_view(bytes).substr(chunk.offset, chunk.size));
    }
    index += Number(chunk.offset, 8) + Number(chunk.size, 4) + Number(checksum, 4);
  }
  return bytes + index + Number(StoredChecksum(index), 4);
}

Forge Forge::Of(absl::string_view payload) {
  Forge forge;
  forge.header = *PayloadHeader::Parse(payload.substr(0, kPayloadHeaderBytes));
  const size_t count = forge.header.num_chunks();
  const size_t index = payload.size() - 4 - 16 * count;
  forge.body = std::string(payload.substr(kPayloadHeaderBytes, index - kPayloadHeaderBytes));
  for (size_t i = 0; i < count; ++i) {
    const char* const entry = payload.data() + index + 16 * i;
    forge.chunks.push_back({LoadLittleEndian<uint64_t>(entry), LoadLittleEndian<uint32_t>(entry + 8)});
  }
  return forge;
}

std::string CodedChunk(uint8_t flags, uint32_t values, const std::vector<ForgedPlane>& planes) {
  std::string bytes = Number(flags, 4) + Number(values, 4);
  for (const ForgedPlane& plane : planes) {
    bytes += Number(plane.bytes.size() | static_cast<uint64_t>(plane.kind) << 24, 4);
  }
  for (const ForgedPlane& plane : planes) bytes += plane.bytes;
  return bytes;
}

std::string WithHeaderBytes(std::string payload, size_t offset, absl::string_view bytes) {
  payload.replace(offset, bytes.size(), bytes.data(), bytes.size());
  return payload.replace(60, 4, Number(StoredChecksum(absl::string_view(payload).substr(0, 60)), 4));
}

}  // namespace tensorcask::testing
