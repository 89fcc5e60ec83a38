// Compiles the examples in the comments of public headers, which are never run. What they take for granted is declared
// here, without a definition. tests/docs/header_examples.py writes the examples, and the includes of their headers.

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorcask/proto/tensor.pb.h"
#include "tensorcask/proto/tensor_slice.pb.h"
#include "tensorcask/serialize/values/value_json.h"
#include "tensorcask/serialize/values/value_path.h"
#include "tensorcask/tensor/base/endian.h"
#include "tensorcask/tensor/slice.h"
#include "tensorcask/tests/docs/header_includes.inc"

namespace tensorcask::examples {

// "..." where a condition, or a value of any type, is wanted.
bool more();
struct Anything {
  template <typename T>
  operator T() const;  // NOLINT(google-explicit-constructor)
};

extern const std::string path;
extern const int64_t n, i, j, bytes, offset;
extern const bool interrupted;
extern float sum;
extern Tensor tensor, weights, w, kernel, rows, image;
extern TensorView view, part, result, a, b, weight, embedding;
extern std::vector<int64_t> dims, strides;
extern const TensorShape shape;
extern const TensorSlice slice;
extern const TensorMetadata metadata;
extern const DType dtype;
extern const DecodeLimits limits;
extern std::string header, body, buffer;
extern std::unique_ptr<ArchiveReader> archive;
extern const ArchiveFormats formats;
extern const SafetensorsArchiveFormat safetensors;
extern const NpzArchiveFormat npz;
extern CheckpointReader reader;
extern CheckpointWriter writer;
extern ByteSink* sink;
extern RefPtr<DeviceBackend> backend;
extern const StreamId stream, other;
extern void *block, *host, *device_block;

namespace serialize_archive_archive {
extern const std::string bytes;
}
namespace serialize_archive_formats_archive_service {
extern absl::StatusOr<std::unique_ptr<ArchiveReader>> archive;
}
namespace serialize_archive_compare_archives {
extern std::unique_ptr<ArchiveReader> before, after;
}
namespace serialize_archive_decoded_archive {
extern const DecodedTensor decoded;
}
namespace serialize_archive_tensor_blocks {
extern const ArchiveEntry entry;
}
namespace serialize_exchange_channel {
Message Answer(const Message& request);
}
namespace serialize_exchange_deadline {
extern UnixSocket socket;
}
namespace serialize_exchange_server {
extern Message request;
}
namespace serialize_exchange_shared_memory {
extern ScopedDescriptor descriptor;
extern const uint64_t offset_bytes, size_bytes;
}  // namespace serialize_exchange_shared_memory
namespace serialize_exchange_transport {
extern UnixSocket socket;
}
namespace serialize_exchange_unix_socket {
extern ScopedDescriptor memory;
}
namespace serialize_gguf_block_types {
extern const int64_t count;
extern const uint8_t* bytes;
}  // namespace serialize_gguf_block_types
namespace serialize_io_byte_sink {
struct Options {
  std::function<bool(uint64_t)> progress;
};
extern ByteSink* sink;
extern Options options;
extern std::shared_ptr<const ByteSource> file;
}  // namespace serialize_io_byte_sink
namespace serialize_io_byte_source {
extern std::string footer;
}
namespace serialize_io_element_stream {
extern absl::Span<char> block;
}
namespace serialize_io_file_system_router {
extern FileSystem* store;
}
namespace serialize_io_listing_budget {
extern const uint64_t header_bytes;
extern const std::string name;
struct Entry {};
}  // namespace serialize_io_listing_budget
namespace serialize_onnx_entry {
extern const OnnxReader reader;
}
namespace serialize_payload_base_lookup {
extern Tensor weights_of_step_100;
extern CheckpointReader step_100;
extern CheckpointWriterOptions writer_options;
extern CheckpointReaderOptions reader_options;
}  // namespace serialize_payload_base_lookup
namespace serialize_payload_payload_header {
extern const std::string bytes;
}
namespace serialize_payload_payload_options {
extern std::shared_ptr<const BaseLookup> previous_step;
}
namespace serialize_payload_payload_reader {
extern const std::string bytes;
extern const TensorSlice rows;
}  // namespace serialize_payload_payload_reader
namespace serialize_safetensors_safetensors_entry {
extern const SafetensorsReader reader;
}
namespace serialize_safetensors_safetensors_writer {
extern SafetensorsWriter writer;
}
namespace serialize_serve_serve_service {
extern std::vector<ServedTensor> list;
extern ServedTensors& model;
extern const std::string topic;
extern std::vector<DecodedTensor> tensors;
}  // namespace serialize_serve_serve_service
namespace serialize_sharded_communicator {
extern const size_t r;
}
namespace serialize_sharded_sharded_load {
extern Communicator* comm;
extern TensorView half;
}  // namespace serialize_sharded_sharded_load
namespace serialize_sharded_sharded_save {
extern Communicator* comm;
}
namespace serialize_wire_codec_options {
extern TensorProto proto;
}
namespace serialize_wire_decoded_tensor {
extern const TensorProto proto;
}
namespace serialize_wire_records {
extern ByteSink& sink;
extern std::shared_ptr<const ByteSource> file;
}  // namespace serialize_wire_records
namespace serialize_wire_serialized_tensor {
extern Tensor existing;
}
namespace serialize_wire_shape_codec {
extern TensorProto proto, signature;
}
namespace serialize_wire_slice_codec {
struct Request {
  TensorSliceProto* mutable_slice();
  const TensorSliceProto& slice();
};
extern Request request;
}  // namespace serialize_wire_slice_codec
namespace serialize_wire_tensor_message {
namespace tensorflow {
using TensorProto = ::tensorcask::TensorProto;
}
}  // namespace serialize_wire_tensor_message
namespace serialize_wire_tensor_records {
extern RecordWriter writer;
extern RecordReader reader;
}  // namespace serialize_wire_tensor_records
namespace serialize_wire_variant_codec {
extern const Variant variant;
}
namespace tensor_base_crc32c {
extern char* trailer;
}
namespace tensor_base_ref_counted {
class Node : public RefCounted {};
extern RefPtr<Node> node;
extern void* context;
}  // namespace tensor_base_ref_counted
namespace tensor_compat_chunk_filler {
extern const std::string chunk;
}
namespace tensor_compat_handle {
extern const Tensor plus_one;
}
namespace tensor_dtype_visit {
template <typename View>
absl::Status Sum(const View& elements, float* sum);
}
namespace tensor_interop_dlpack {
extern dlpack::DLManagedTensorVersioned* managed;
extern dlpack::DLManagedTensor* legacy;
void PyCapsule_New(void* pointer, const char* name, Anything destructor);
}  // namespace tensor_interop_dlpack
namespace tensor_interop_dlpack_abi {
extern void* theirs;
}
namespace tensor_interop_eigen {
extern TensorView transposed;
extern Tensor images;
}  // namespace tensor_interop_eigen
namespace tensor_memory_copy_across {
extern TensorView host_weights, next_batch, batch;
}
namespace tensor_memory_memory_observer {
extern MemoryObserver& printer;
}
namespace tensor_memory_memory_snapshot {
extern RefPtr<CachingAllocator> allocator, cache;
}
namespace tensor_concat {
extern Tensor a, b;
}
namespace tensor_reference {
extern std::vector<::tensorcask::TensorReference> queue;
}
namespace tensor_shape {
extern std::vector<int64_t> dims_from_a_file;
}
namespace tensor_strided_convert {
extern TensorView floats, halves;
}
namespace tensor_strided_copy {
extern TensorView images, nhwc, row, matrix;
}
namespace tensor_strided_maybe_owned {
void Use(const float* elements);
}
namespace tensor_strided_view {
extern RefPtr<TensorBuffer> buffer;
extern const int64_t offset;
}  // namespace tensor_strided_view
namespace tensor_summary {
extern const SummaryOptions one_entry_each_end;
}
namespace tests_fixture_load_fixture {
using ::tensorcask::testing::HasShape;
using ::tensorcask::testing::LoadFixture;
using ::tensorcask::testing::MatchesFixture;
Tensor Softmax(const Tensor& logits);
extern Tensor logits;
}  // namespace tests_fixture_load_fixture
namespace tests_fixture_matchers {
using namespace ::tensorcask::testing;  // NOLINT(google-build-using-namespace)
using ::testing::_;
using ::testing::AllOf;
using ::testing::ElementsAre;
Tensor Softmax(const Tensor& logits);
extern Tensor logits, batch;
}  // namespace tests_fixture_matchers
namespace tests_fixture_parse_text_proto {
using ::tensorcask::testing::ParseTextProto;
}
namespace tests_fixture_text_tensor {
using ::tensorcask::testing::ParseTextTensor;
using ::tensorcask::testing::TensorToText;
}  // namespace tests_fixture_text_tensor

}  // namespace tensorcask::examples

#include "tensorcask/tests/docs/header_examples.inc"
