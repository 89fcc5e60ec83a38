#include "tensorcask/serialize/object_store/object_store.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/serialize/io/file_system.h"
#include "tensorcask/serialize/object_store/internal/environment.h"
#include "tensorcask/serialize/object_store/internal/object_files.h"
#include "tensorcask/serialize/object_store/internal/object_requests.h"
#include "tensorcask/serialize/object_store/internal/object_url.h"
#include "tensorcask/serialize/object_store/internal/request_engine.h"
#include "tensorcask/serialize/object_store/internal/xml_answer.h"
#include "tensorcask/tensor/base/owner_process.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/status_macros.h"

namespace tensorcask {
namespace {

constexpr char kDefaultRegion[] = "us-east-1";
constexpr uint64_t kLeastS3PartBytes = uint64_t{5} << 20;  // of all parts but the last
constexpr uint64_t kMostS3PartBytes = uint64_t{5} << 30;

std::string FirstSet(std::initializer_list<std::string> values) {
  for (const std::string& value : values) {
    if (!value.empty()) return value;
  }
  return "";
}

absl::Status CheckOptions(const ObjectStoreOptions& options) {
  const auto refuse = [](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("ObjectStoreOptions::", what));
  };
  if (options.range_bytes < (64 << 10) || options.range_bytes > (uint64_t{1} << 30)) {
    return refuse(absl::StrCat("range_bytes is ", options.range_bytes, "; 64 KiB to 1 GiB are wanted"));
  }
  if (options.part_bytes != 0 && (options.part_bytes < kLeastS3PartBytes || options.part_bytes > kMostS3PartBytes)) {
    return refuse(absl::StrCat("part_bytes is ", options.part_bytes, "; 0, or 5 MiB to 5 GiB are wanted"));
  }
  if (options.connections < 1 || options.connections > 1024) {
    return refuse(absl::StrCat("connections is ", options.connections, "; 1 to 1024 are wanted"));
  }
  if (options.max_attempts < 1 || options.max_attempts > 100) {
    return refuse(absl::StrCat("max_attempts is ", options.max_attempts, "; 1 to 100 are wanted"));
  }
  if (options.connect_timeout <= absl::ZeroDuration() || options.stall <= absl::ZeroDuration() ||
      options.connect_timeout > absl::Hours(24) || options.stall > absl::Hours(24)) {
    return refuse("connect_timeout and stall must be positive, and a day at most");
  }
  return absl::OkStatus();
}

absl::Status CheckRegion(absl::string_view region) {
  for (const char c : region) {
    if (!absl::ascii_isalnum(c) && c != '-' && c != '_') {
      return absl::InvalidArgumentError(
          absl::StrCat("the region ", Quoted(region), " is not a name of letters, digits and -"));
    }
  }
  return absl::OkStatus();
}

// Without a slash at the end.
absl::StatusOr<std::string> CheckEndpoint(absl::string_view endpoint) {
  while (absl::ConsumeSuffix(&endpoint, "/")) {
  }
  if (endpoint.empty()) return "";
  const absl::StatusOr<internal::ObjectUrl> url = internal::ParseObjectUrl(endpoint);
  const bool is_usable = url.ok() && !url->is_s3 && !absl::StrContains(endpoint, '?');
  if (!is_usable) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the endpoint is not a URL of https:// or http:// with a host and without a query or a user name"));
  }
  return std::string(endpoint);
}

}  // namespace

class ObjectStore::Impl {
 public:
  Impl(const ObjectStoreOptions& options, std::string region, std::string endpoint,
       std::shared_ptr<CredentialSource> credentials)
      : engine(options, std::move(region), std::move(credentials)),
        requests(&engine, std::move(endpoint)),
        files(&requests, options) {}
  ~Impl() { files.RemoveUploads(); }

  const OwnerProcess owner;
  internal::RequestEngine engine;
  internal::ObjectRequests requests;
  internal::ObjectFiles files;
};

// A child of fork(2) has none of the threads that send and fetch. It cannot wait for them, and a condition variable on
// which one of them waits can never be destroyed there. The connections are the parent's, too: closing them would say
// goodbye to the server in its name. So the copy of a child stays as it is.
void ObjectStore::Delete::operator()(Impl* impl) const {
  if (impl->owner.IsThisProcess()) delete impl;
}

ObjectStore::ObjectStore(std::unique_ptr<Impl, Delete> impl) : impl_(std::move(impl)) {}
ObjectStore::~ObjectStore() = default;

absl::StatusOr<std::unique_ptr<ObjectStore>> ObjectStore::Create(ObjectStoreOptions options) {
  CASK_RETURN_IF_ERROR(CheckOptions(options));
  const internal::StoreEnvironment environment = internal::StoreEnvironment::Read();
  std::string region = FirstSet({options.region, environment.Get("AWS_REGION"), environment.Get("AWS_DEFAULT_REGION"),
                                 environment.Profile("region"), kDefaultRegion});
  CASK_RETURN_IF_ERROR(CheckRegion(region));
  CASK_ASSIGN_OR_RETURN(
      std::string endpoint,
      CheckEndpoint(FirstSet({options.endpoint, environment.Get("AWS_ENDPOINT_URL_S3"),
                              environment.Get("AWS_ENDPOINT_URL"), environment.Profile("endpoint_url")})));
  options.ca_file = FirstSet({options.ca_file, environment.Get("AWS_CA_BUNDLE"), environment.Get("CURL_CA_BUNDLE"),
                              environment.Get("SSL_CERT_FILE")});
  std::shared_ptr<CredentialSource> credentials = options.credentials;
  if (credentials == nullptr) credentials = MakeDefaultCredentials();
  return std::unique_ptr<ObjectStore>(new ObjectStore(std::unique_ptr<Impl, Delete>(
      new Impl(options, std::move(region), std::move(endpoint), std::move(credentials)))));
}

FileSystem* ObjectStore::files() { return &impl_->files; }

ObjectStoreStats ObjectStore::stats() const { return impl_->engine.stats(); }

void ObjectStore::SetDeadline(absl::Time deadline) { impl_->engine.SetDeadline(deadline); }

absl::StatusOr<std::vector<UnfinishedUpload>> ObjectStore::ListUploads(const std::string& prefix) {
  CASK_ASSIGN_OR_RETURN(const internal::ObjectUrl url, internal::ParseObjectUrl(prefix));
  if (!url.is_s3) return absl::UnimplementedError(absl::StrCat(url.name, ": a web server has no uploads"));
  const bool has_slash = url.is_folder && !url.key.empty();
  const std::string key_prefix = has_slash ? absl::StrCat(url.key, "/") : url.key;
  const auto most = static_cast<size_t>(DecodeLimits().max_entries);
  std::vector<UnfinishedUpload> found;
  uint64_t bytes = 0;
  internal::UploadPage page;
  do {
    const internal::HttpAnswer answer =
        impl_->requests.ListUploads(url, key_prefix, page.next_key, page.next_upload_id);
    if (answer.result < 0) {
      return WithErrorNumber(absl::Status(IoError(answer.result, prefix, "list the uploads", nullptr).code(),
                                          absl::StrCat(prefix, ": cannot list the uploads: ", answer.detail)),
                             static_cast<int>(-answer.result));
    }
    absl::StatusOr<internal::UploadPage> next = internal::ParseUploadPage(answer.text);
    if (!next.ok()) return absl::DataLossError(absl::StrCat(prefix, ": ", next.status().message()));
    const bool is_same = next->next_key == page.next_key && next->next_upload_id == page.next_upload_id;
    const bool stands_still = !next->next_key.empty() && (is_same || next->uploads.empty());
    page = *std::move(next);
    for (internal::ListedUpload& upload : page.uploads) {
      bytes += sizeof(UnfinishedUpload) + upload.key.size() + upload.upload_id.size();
      if (!absl::StartsWith(upload.key, key_prefix)) continue;  // of a store that does not know prefixes
      found.push_back({absl::StrCat("s3://", url.bucket, "/", upload.key), std::move(upload.upload_id),
                       absl::FromUnixSeconds(upload.started_unix_seconds)});
    }
    if (found.size() > most) {
      return absl::ResourceExhaustedError(absl::StrCat(prefix, ": has more than ", most, " uploads"));
    }
    if (bytes > internal::kMaxListBytes) {
      return absl::ResourceExhaustedError(
          absl::StrCat(prefix, ": the list of uploads takes more than ", internal::kMaxListBytes >> 20, " MiB"));
    }
    if (stands_still) return absl::DataLossError(absl::StrCat(prefix, ": the pages of uploads do not end"));
  } while (!page.next_key.empty());
  return found;
}

absl::Status ObjectStore::RemoveUpload(const UnfinishedUpload& upload) {
  CASK_ASSIGN_OR_RETURN(const internal::ObjectUrl url, internal::ParseObjectUrl(upload.path));
  const internal::HttpAnswer answer = impl_->requests.AbortUpload(url, upload.upload_id);
  if (answer.result >= 0) return absl::OkStatus();
  const absl::StatusCode code = IoError(answer.result, upload.path, "remove the upload", nullptr).code();
  return WithErrorNumber(absl::Status(code, absl::StrCat(upload.path, ": cannot remove the upload: ", answer.detail)),
                         static_cast<int>(-answer.result));
}

}  // namespace tensorcask
