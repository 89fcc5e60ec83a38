// An ObjectStore for the lying server of a test.
//
//   LyingServer server;
//   const std::unique_ptr<ObjectStore> store = StoreFor(server);

#ifndef TENSORCASK_TESTS_SERIALIZE_OBJECT_STORE_STORE_TESTING_H_
#define TENSORCASK_TESTS_SERIALIZE_OBJECT_STORE_STORE_TESTING_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/checkpoint/checkpoint_writer.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/object_store/object_store.h"
#include "tensorcask/tensor/tensor.h"
#include "tensorcask/tests/support/lying_server.h"

namespace tensorcask::testing {

inline constexpr char kTestKeyId[] = "AKIATESTKEYID";
inline constexpr char kTestSecret[] = "secretsecretsecret/+=";
inline constexpr char kTestToken[] = "tokentokentoken";

// Of small requests and few attempts, so that tests do not wait.
inline ObjectStoreOptions OptionsFor(const LyingServer& server) {
  ObjectStoreOptions options;
  options.region = "eu-test-1";
  options.endpoint = server.url();
  options.credentials = MakeStaticCredentials({kTestKeyId, kTestSecret, kTestToken, absl::InfiniteFuture()});
  options.part_bytes = uint64_t{5} << 20;
  options.connections = 4;
  options.stall = absl::Seconds(1);
  options.max_attempts = 3;
  return options;
}

inline std::unique_ptr<ObjectStore> StoreFor(const ObjectStoreOptions& options) {
  absl::StatusOr<std::unique_ptr<ObjectStore>> store = ObjectStore::Create(options);
  EXPECT_TRUE(store.ok()) << store.status();
  return *std::move(store);
}
inline std::unique_ptr<ObjectStore> StoreFor(const LyingServer& server) { return StoreFor(OptionsFor(server)); }

// Bytes that differ everywhere.
inline std::string PatternBytes(size_t size, uint32_t seed = 1) {
  std::string bytes(size, '\0');
  uint32_t state = seed * 2654435761u + 1;
  for (char& byte : bytes) {
    state = state * 1664525u + 1013904223u;
    byte = static_cast<char>(state >> 24);
  }
  return bytes;
}

inline Tensor PatternTensor(int64_t bytes, uint32_t seed = 1) {
  absl::StatusOr<Tensor> tensor = Tensor::Create(DType::kUint8, TensorShape({bytes}));
  EXPECT_TRUE(tensor.ok()) << tensor.status();
  const std::string pattern = PatternBytes(static_cast<size_t>(bytes), seed);
  std::copy(pattern.begin(), pattern.end(), reinterpret_cast<char*>(tensor->mutable_data<uint8_t>()));
  return *std::move(tensor);
}

// Saves a checkpoint of these tensors, named "0", "1", ...
inline absl::Status SaveCheckpoint(FileSystem* files, const std::string& prefix, const std::vector<Tensor>& tensors,
                                   bool overwrite = false) {
  CheckpointWriterOptions options;
  options.file_system = files;
  options.overwrite = overwrite;
  absl::StatusOr<CheckpointWriter> writer = CheckpointWriter::Create(prefix, options);
  if (!writer.ok()) return writer.status();
  for (size_t i = 0; i < tensors.size(); ++i) {
    const absl::Status added = writer->Add(std::to_string(i), tensors[i]);
    if (!added.ok()) return added;
  }
  return writer->Finish();
}

// All bytes of the file at `path`, read in one call.
inline IoResult ReadFile(FileSystem* files, const std::string& path, std::string* bytes) {
  bytes->clear();
  const IoResult handle = files->OpenToRead(path);
  if (handle < 0) return handle;
  const IoResult size = files->SizeOf(handle);
  bytes->resize(static_cast<size_t>(size));
  const ReadRange range = {0, absl::MakeSpan(&(*bytes)[0], bytes->size())};
  const IoResult read = files->ReadManyAt(handle, absl::MakeConstSpan(&range, 1));
  EXPECT_EQ(files->Close(handle), 0);
  return read;
}

}  // namespace tensorcask::testing

#endif  // TENSORCASK_TESTS_SERIALIZE_OBJECT_STORE_STORE_TESTING_H_
