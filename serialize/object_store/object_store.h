// Files in an object store (s3://bucket/key) and on web servers (https://host/path), for all that takes a FileSystem.
//
//   CASK_ASSIGN_OR_RETURN(const std::unique_ptr<ObjectStore> store, ObjectStore::Create({}));
//   CheckpointReaderOptions options;
//   options.read.file_system = store->files();
//   CASK_ASSIGN_OR_RETURN(const CheckpointReader reader, CheckpointReader::Open("s3://models/run/step-100", options));
//
// Reading. Opening a file is one request, for its last 64 KiB (1 MiB if the name ends in ".index"): it brings the size,
// the ETag and often all that a reader wants. Every later request is for a range, and holds only for the same ETag: a
// file that is replaced meanwhile gives Aborted, never a mixture. Large ranges are read in pieces, several at a time.
//
// Writing, for s3:// alone. A file of CreateToPublish is an upload in parts, or one request for a small file; nothing
// is visible before Rename, which completes the upload. With kRefuse it does so on condition that there is no such
// object (If-None-Match: *), so of several writers one wins. Each upload carries 128 random bits, by which Rename finds
// out whether an upload took effect whose answer was lost. The store must support conditional writes:
// docs/guide/object_store.md.
//
// Errors are those of FileSystem: minus an errno, with a sentence in LastDetail. Requests that failed for reasons that
// may pass are repeated. The files are safe from several threads, and so are stats(). Nothing of an ObjectStore is used
// in the child of a fork but its destructor, which does nothing there; files that the parent opened or writes give an
// error there.

#ifndef TENSORCASK_SERIALIZE_OBJECT_STORE_OBJECT_STORE_H_
#define TENSORCASK_SERIALIZE_OBJECT_STORE_OBJECT_STORE_H_

#include "tensorcask/tensor/base/cxx17.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/object_store/credentials.h"

namespace tensorcask {

// One request, when it ended. It holds no header and no query, so no secret.
struct RequestRecord {
  std::string method;   // "GET"
  std::string name;     // "s3://bucket/key"
  std::string purpose;  // "open", "read", "part", "complete", ...
  uint64_t offset = 0;  // of a range, or of a part in its file
  uint64_t bytes = 0;   // of the body, sent or received
  int http_status = 0;  // 0: there was no answer
  int attempt = 0;      // 0: the first
  int64_t microseconds = 0;
};

struct ObjectStoreStats {
  uint64_t requests = 0;  // repeated ones included
  uint64_t retries = 0;
  uint64_t bytes_received = 0;  // of bodies
  uint64_t bytes_sent = 0;
};

struct ObjectStoreOptions {
  ObjectStoreOptions() {}  // by hand: GCC 12 takes a defaulted one for uninitialized where it is a default argument
  std::string region;      // "": AWS_REGION, AWS_DEFAULT_REGION, the profile, us-east-1
  std::string endpoint;    // "": AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, the profile, that of Amazon for the region
  std::shared_ptr<CredentialSource> credentials;  // null: MakeDefaultCredentials()
  // A file (PEM) of the authorities that sign servers' certificates, in place of the system's file. A folder of them
  // that curl was built with stays. "": AWS_CA_BUNDLE, CURL_CA_BUNDLE, SSL_CERT_FILE, the system's.
  std::string ca_file;
  // Of one request that reads. Where a read keeps all connections busy with longer requests, they have up to four
  // times as many: a store that is far away answers few long ones faster.
  uint64_t range_bytes = uint64_t{8} << 20;
  // Of one part that is written. A file has at most 10,000 parts. 0: 1/200 of the size that the writer announces, 16 to
  // 64 MiB, or 1/5,000 if that is more. After 5,000 parts, those that follow become longer, so that a file of which
  // nothing was announced may have 7 TiB.
  uint64_t part_bytes = 0;
  int connections = 16;  // that move data at a time, at most, and as many threads; one more asks for headers
  absl::Duration connect_timeout = absl::Seconds(5);
  absl::Duration stall = absl::Seconds(30);      // a transfer under 1 KiB/s for so long is broken off, and repeated
  int max_attempts = 8;                          // of one request, with pauses of up to 50 ms * 2^n, at most 20 s
  absl::Time deadline = absl::InfiniteFuture();  // as of SetDeadline
  std::function<void(const RequestRecord&)> observer;  // called from several threads; null: none
};

// A file that is being written, or whose writer was killed.
struct UnfinishedUpload {
  std::string path;  // the name that the file would get
  std::string upload_id;
  absl::Time started;
};

class ObjectStore {
 public:
  // Makes no request. Errors: InvalidArgument for an option or a setting of the environment that cannot be used.
  static absl::StatusOr<std::unique_ptr<ObjectStore>> Create(ObjectStoreOptions options);
  // Abandons what was not published.
  ~ObjectStore();
  ObjectStore(const ObjectStore&) = delete;
  ObjectStore& operator=(const ObjectStore&) = delete;

  FileSystem* files();  // lives as long as this object
  ObjectStoreStats stats() const;

  // From now on: a request that has no whole answer at this time is broken off, and no other begins after it, except
  // one that removes an upload. Such operations give DeadlineExceeded. For calls that must end in time.
  void SetDeadline(absl::Time deadline);

  // The uploads of all writers whose names begin with the path `prefix` ("s3://bucket/run/"), by name.
  absl::StatusOr<std::vector<UnfinishedUpload>> ListUploads(const std::string& prefix);
  // Removes the parts of an upload. Its writer, if it lives, fails. Errors: NotFound if the store has no such upload.
  absl::Status RemoveUpload(const UnfinishedUpload& upload);

 private:
  class Impl;
  struct Delete {
    void operator()(Impl* impl) const;
  };
  explicit ObjectStore(std::unique_ptr<Impl, Delete> impl);

  std::unique_ptr<Impl, Delete> impl_;
};

}  // namespace tensorcask

#endif  // TENSORCASK_SERIALIZE_OBJECT_STORE_OBJECT_STORE_H_
