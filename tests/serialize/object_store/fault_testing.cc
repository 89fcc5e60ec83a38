#include "tensorcask/tests/serialize/object_store/fault_testing.h"

#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tensorcask/serialize/checkpoint/checkpoint_reader.h"
#include "tensorcask/serialize/object_store/object_store.h"
#include "tensorcask/tensor/base/status_macros.h"
#include "tensorcask/tests/serialize/object_store/store_testing.h"
#include "tensorcask/tests/support/status_matchers.h"

namespace tensorcask::testing {
namespace {

absl::Status Compare(const Tensor& tensor, const Tensor& wanted) {
  const bool is_equal = tensor.shape() == wanted.shape() &&
                        std::memcmp(tensor.data<uint8_t>(), wanted.data<uint8_t>(), wanted.TotalBytes()) == 0;
  return is_equal ? absl::OkStatus() : absl::InternalError("a tensor has other elements than were saved");
}

}  // namespace

using Lie = LyingServer::Lie;

const std::vector<Tensor>& SavedTensors() {
  static const std::vector<Tensor>& tensors =
      *new std::vector<Tensor>{PatternTensor(7 << 20, 1), PatternTensor(1000, 2), PatternTensor(5 << 20, 3)};
  return tensors;
}

absl::StatusOr<CheckpointReader> OpenSaved(FileSystem* files) {
  CheckpointReaderOptions options;
  options.read.file_system = files;
  return CheckpointReader::Open(kFaultyPrefix, options);
}

absl::Status LoadAndCompare(FileSystem* files, const std::vector<Tensor>& wanted) {
  CASK_ASSIGN_OR_RETURN(const CheckpointReader reader, OpenSaved(files));
  for (size_t i = 0; i < wanted.size(); ++i) {
    CASK_ASSIGN_OR_RETURN(const Tensor tensor, reader.Read(std::to_string(i)));
    CASK_RETURN_IF_ERROR(Compare(tensor, wanted[i]));
  }
  return absl::OkStatus();
}

Lie Answers(int status, const std::string& code, bool works) {
  return [=](Exchange* exchange) {
    if (works) exchange->Work();
    exchange->Fail(status, code);
  };
}

Lie Ends(Exchange::End end, bool works) {
  return [=](Exchange* exchange) {
    if (works) exchange->Work();
    exchange->is_silent = true;
    exchange->end = end;
  };
}

Lie CutsTheBody(Exchange::End end) {
  return [=](Exchange* exchange) {
    exchange->Work();
    exchange->sent_bytes = exchange->body.size() / 2;
    if (exchange->body.empty()) exchange->is_silent = true;
    exchange->end = end;
  };
}

std::vector<Fault> PassingFaults() {
  std::vector<Fault> faults = {
      {"closed before", Ends(Exchange::End::kClose, false)},
      {"closed after", Ends(Exchange::End::kClose, true)},
      {"reset before", Ends(Exchange::End::kReset, false)},
      {"reset after", Ends(Exchange::End::kReset, true)},
      {"body cut", CutsTheBody(Exchange::End::kClose)},
      {"body cut and reset", CutsTheBody(Exchange::End::kReset)},
      {"slow down", Answers(503, "SlowDown", false)},
      {"retry after",
       [](Exchange* exchange) {
         exchange->Fail(429, "TooManyRequests");
         exchange->SetHeader("Retry-After", "0");
       }},
  };
  for (const int status : {408, 500, 502, 503, 504}) {
    faults.push_back({"an error before", Answers(status, "InternalError", false)});
    faults.push_back({"an error after", Answers(status, "InternalError", true)});
  }
  return faults;
}

std::vector<Fault> LastingFaults() {
  const auto with_header = [](const char* name, const char* value) {
    return [=](Exchange* exchange) {
      exchange->Work();
      exchange->SetHeader(name, value);
    };
  };
  return {
      {"forbidden", Answers(403, "AccessDenied", false)},
      {"forbidden after", Answers(403, "AccessDenied", true)},
      {"not found", Answers(404, "NoSuchKey", false)},
      {"no such upload", Answers(404, "NoSuchUpload", false)},
      {"no such upload after", Answers(404, "NoSuchUpload", true)},
      {"precondition failed", Answers(412, "PreconditionFailed", false)},
      {"precondition failed after", Answers(412, "PreconditionFailed", true)},
      {"conflict", Answers(409, "ConditionalRequestConflict", false)},
      {"conflict after", Answers(409, "ConditionalRequestConflict", true)},
      {"bad digest", Answers(400, "BadDigest", false)},
      {"moved", Answers(301, "PermanentRedirect", false)},
      {"not implemented", Answers(501, "NotImplemented", false)},
      {"an error with 200", [](Exchange* exchange) { exchange->Fail(200, "InternalError"); }},
      {"an error with 200 after",
       [](Exchange* exchange) {
         exchange->Work();
         exchange->Fail(200, "InternalError");
       }},
      {"empty", [](Exchange* exchange) { exchange->Answer(200, ""); }},
      {"garbage", [](Exchange* exchange) { exchange->Answer(200, std::string(1000, '\xfe')); }},
      {"garbage for a range", [](Exchange* exchange) { exchange->Answer(206, std::string(1000, 'x')); }},
      {"no status", [](Exchange* exchange) { exchange->Answer(0, ""); }},
      {"another range", with_header("Content-Range", "bytes 0-9/100")},
      {"a huge size", with_header("Content-Range", "bytes 0-9223372036854775806/9223372036854775807")},
      {"a huge length", with_header("Content-Length", "9223372036854775807")},
      {"a negative length", with_header("Content-Length", "-1")},
      {"two lengths",
       [](Exchange* exchange) {
         exchange->Work();
         exchange->headers.emplace_back("Content-Length", absl::StrCat(exchange->body.size()));
         exchange->headers.emplace_back("content-length", absl::StrCat(exchange->body.size() + 1));
       }},
      {"encoded", with_header("Content-Encoding", "gzip")},
      {"another ETag", with_header("ETag", "\"another\"")},
      {"no ETag", with_header("ETag", "")},
      {"endless headers",
       [](Exchange* exchange) {
         exchange->Work();
         for (int i = 0; i < 5000; ++i) exchange->headers.emplace_back(absl::StrCat("X-", i), std::string(1000, 'x'));
       }},
      {"an XML bomb",
       [](Exchange* exchange) {
         std::string bomb = "<?xml version=\"1.0\"?><!DOCTYPE a [<!ENTITY a \"aaaaaaaaaa\">";
         for (char c = 'b'; c < 'k'; ++c) {
           absl::StrAppend(&bomb, "<!ENTITY ", std::string(1, c), " \"");
           for (int i = 0; i < 10; ++i) absl::StrAppend(&bomb, "&", std::string(1, static_cast<char>(c - 1)), ";");
           absl::StrAppend(&bomb, "\">");
         }
         exchange->Answer(200, bomb + "]><ListBucketResult><Contents><Key>&j;</Key></Contents></ListBucketResult>");
       }},
      {"deep XML",
       [](Exchange* exchange) {
         std::string deep;
         for (int i = 0; i < 100000; ++i) deep += "<a>";
         exchange->Answer(200, deep);
       }},
  };
}

size_t RequestsOf(const std::function<absl::Status(FileSystem*)>& work, LyingServer* server) {
  server->ForgetRequests();
  const std::unique_ptr<ObjectStore> store = StoreFor(*server);
  EXPECT_OK(work(store->files()));
  return server->num_requests();
}

absl::Status SaveAll(FileSystem* files) { return SaveCheckpoint(files, kFaultyPrefix, SavedTensors()); }
absl::Status LoadAll(FileSystem* files) { return LoadAndCompare(files, SavedTensors()); }

absl::Status LoadAllAtOnce(FileSystem* files) {
  CASK_ASSIGN_OR_RETURN(const CheckpointReader reader, OpenSaved(files));
  CASK_ASSIGN_OR_RETURN(const auto tensors, reader.ReadAll());
  if (tensors.size() != SavedTensors().size()) return absl::InternalError("other tensors than were saved");
  for (const auto& [name, tensor] : tensors) CASK_RETURN_IF_ERROR(Compare(tensor, SavedTensors()[std::stoul(name)]));
  return absl::OkStatus();
}

void ExpectNothingOrAll(LyingServer* server, const absl::Status& saved) {
  server->TellTheTruth();
  EXPECT_TRUE(!saved.ok() || server->Has(kFaultyIndex)) << "the save said OK and published nothing";
  if (!server->Has(kFaultyIndex)) return;
  const std::unique_ptr<ObjectStore> store = StoreFor(*server);
  EXPECT_OK(LoadAndCompare(store->files(), SavedTensors())) << "after a save that said " << saved;
}

}  // namespace tensorcask::testing
