#include "tensorcask/serialize/object_store/internal/object_files.h"

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "tensorcask/serialize/io/decode_limits.h"
#include "tensorcask/serialize/io/stale_temporaries.h"
#include "tensorcask/serialize/object_store/internal/http_headers.h"
#include "tensorcask/serialize/object_store/internal/xml_answer.h"
#include "tensorcask/tensor/base/checked_math.h"
#include "tensorcask/tensor/base/quote.h"
#include "tensorcask/tensor/base/sha1.h"

namespace tensorcask::internal {
namespace {

constexpr uint64_t kTailBytes = uint64_t{64} << 10;
constexpr uint64_t kIndexTailBytes = uint64_t{1} << 20;
constexpr uint64_t kSmallBytes = uint64_t{64} << 10;  // a smaller read brings so many, for the next one
constexpr uint64_t kGapBytes = uint64_t{1} << 20;
constexpr uint64_t kLongestRanges = 4;  // a long request reads so many range_bytes

thread_local std::string last_detail;

IoResult FailWith(IoResult result, std::string detail) {
  last_detail = std::move(detail);
  return result;
}

IoResult FailWith(const HttpAnswer& answer) { return FailWith(answer.result, answer.detail); }

// The URL of a path, or minus an errno.
IoResult ParsePath(const std::string& path, ObjectUrl* url) {
  absl::StatusOr<ObjectUrl> parsed = ParseObjectUrl(path);
  if (!parsed.ok()) return FailWith(-EDESTADDRREQ, std::string(parsed.status().message()));
  *url = *std::move(parsed);
  return 0;
}

uint64_t EndOf(const ReadRange& range) { return range.offset + range.out.size(); }

// Whether a GET is worth a try after this answer to a HEAD. Some web servers, and addresses that are signed for GET,
// refuse HEAD; and a store says why it refuses a request only in the text of its answer, which HEAD does not have.
bool MayBeAboutHead(int status) {
  return status == 301 || status == 307 || status == 400 || status == 401 || status == 403 || status == 405 ||
         status == 501;
}

uint64_t TailBytesOf(const ObjectUrl& url) { return absl::EndsWith(url.name, ".index") ? kIndexTailBytes : kTailBytes; }

IoResult RefuseHttp(const ObjectUrl& url) {
  return FailWith(-EROFS, absl::StrCat(url.name, ": files of web servers are only read"));
}

// Equal for equal objects of one name: of the name and the ETag, or what else tells versions apart.
FileId IdOf(const ObjectUrl& url, const AnswerHeaders& headers, uint64_t size) {
  Sha1 hash;
  hash.Update(url.is_s3 ? absl::StrCat(url.bucket, "/", url.key) : url.http);
  const std::string& version = headers.etag.empty() ? headers.last_modified : headers.etag;
  hash.Update(absl::StrCat(" ", version, " ", size));
  const std::string hex = hash.Finish();
  const auto number = [&](size_t from) {
    uint64_t value = 0;
    for (size_t i = from; i < from + 16; ++i) {
      value = value << 4 | static_cast<uint64_t>(hex[i] <= '9' ? hex[i] - '0' : hex[i] - 'a' + 10);
    }
    return value;
  };
  return {number(0), number(16) | 1};
}

FileInfo InfoOf(const ObjectUrl& url, const AnswerHeaders& headers, uint64_t size) {
  FileInfo info;
  info.size_bytes = size;
  const std::optional<absl::Time> modified = ParseHttpDate(headers.last_modified);
  if (modified.has_value()) info.modified_unix_seconds = absl::ToUnixSeconds(*modified);
  info.id = IdOf(url, headers, size);
  return info;
}

}  // namespace

struct ObjectFiles::OpenObject {
  ObjectUrl url;
  uint64_t size = 0;
  std::string etag;
  std::string last_modified;
  FileInfo info;
  uint64_t tail_offset = 0;
  std::string tail;  // the bytes from there to the end

  std::mutex mutex;
  std::condition_variable changed;
  bool is_open = true;  // false: all above but the URL is not known yet, and neither is what follows
  IoResult opened = 0;  // minus an errno, with `opened_detail`
  std::string opened_detail;
  uint64_t block_offset = 0;
  std::shared_ptr<const std::string> block;  // of the last small read; null: none

  void Describe(ExpectedRange* range) const {  // requires: it is open
    range->object_bytes = size;
    range->etag = etag;
    range->last_modified = last_modified;
  }
  IoResult WaitUntilOpen() {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [&] { return is_open; });
    return opened < 0 ? FailWith(opened, opened_detail) : 0;
  }
};

ObjectFiles::ObjectFiles(const ObjectRequests* requests, const ObjectStoreOptions& options)
    : requests_(requests),
      range_bytes_(options.range_bytes),
      part_bytes_(options.part_bytes),
      connections_(options.connections),
      threads_(options.connections) {}

ObjectFiles::~ObjectFiles() = default;

void ObjectFiles::RemoveUploads() {
  std::map<std::string, std::shared_ptr<Upload>> uploads;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    uploads = std::exchange(uploads_, {});
  }
  for (const auto& [path, upload] : uploads) upload->Remove();
}

// In a child of fork(2), parts would wait for threads that it does not have, and locks may be those of such threads.
IoResult ObjectFiles::CheckProcess() const {
  if (requests_->engine()->is_in_owner_process()) return 0;
  return FailWith(-EOPNOTSUPP, kInChildOfFork);
}

IoResult ObjectFiles::AddHandle(Handle handle) {
  std::lock_guard<std::mutex> lock(mutex_);
  handles_[next_handle_] = std::move(handle);
  return next_handle_++;
}

std::shared_ptr<ObjectFiles::OpenObject> ObjectFiles::FindObject(IoResult handle) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = handles_.find(handle);
  return found == handles_.end() ? nullptr : found->second.object;
}

// Waits until the object is open, which in a child of fork(2) it might never be. Null for a handle of something else.
IoResult ObjectFiles::FindOpenObject(IoResult handle, std::shared_ptr<OpenObject>* object) {
  if (const IoResult bad = CheckProcess(); bad < 0) return bad;
  *object = FindObject(handle);
  return *object == nullptr ? 0 : (*object)->WaitUntilOpen();
}

std::shared_ptr<Upload> ObjectFiles::FindUpload(IoResult handle) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = handles_.find(handle);
  return found == handles_.end() ? nullptr : found->second.upload;
}

std::string ObjectFiles::LastDetail() const { return last_detail; }

ReadShape ObjectFiles::read_shape() const {
  ReadShape shape;
  shape.piece_bytes = range_bytes_;
  shape.in_flight = connections_;
  shape.gap_bytes = kGapBytes;
  shape.joins_ranges = true;
  shape.longest_bytes = kLongestRanges * range_bytes_;
  return shape;
}

// ---- Reading ------------------------------------------------------------------------------------------------------

// Fills *object, with up to `tail_bytes` of its end.
IoResult ObjectFiles::Open(OpenObject* object, uint64_t tail_bytes, std::string* detail) const {
  HttpAnswer answer = requests_->OpenTail(object->url, tail_bytes);
  const AnswerHeaders& headers = answer.headers;
  // No byte of an empty file can be asked for. Some servers refuse a range that is longer than the file as well.
  const auto is_empty = [&] {
    return answer.status == 416 && headers.content_range.has_value() && headers.content_range->total == 0;
  };
  if (answer.status == 416 && !is_empty()) answer = requests_->OpenWhole(object->url);
  const auto fail = [&](IoResult result, std::string words) {
    *detail = std::move(words);
    return result;
  };
  const auto refuse = [&](absl::string_view what) {
    return fail(-EBADMSG, absl::StrCat("GET ", object->url.name, ": ", what));
  };
  if (is_empty()) {
    answer.text.clear();  // of the error
  } else if (answer.result < 0) {
    const bool is_large = answer.status == 200 && answer.result == -EBADMSG && !headers.has_content_range &&
                          headers.content_length.value_or(kMaxWholeFileBytes + 1) > kMaxWholeFileBytes;
    if (!is_large) return fail(answer.result, std::move(answer.detail));
    return fail(-EOPNOTSUPP,
                absl::StrCat(answer.detail, "; the server does not answer ranges, which files of more than ",
                             kMaxWholeFileBytes >> 20, " MiB need"));
  } else if (answer.status == 200) {
    if (!headers.content_length.has_value() && !headers.is_chunked) {
      return refuse("the answer does not say how long the file is, so it may have been cut");
    }
    object->size = answer.text.size();
  } else if (answer.status == 206) {
    const std::optional<ContentRange>& range = headers.content_range;
    if (!range.has_value() || !range->is_satisfied) return refuse("the answer has no Content-Range that can be read");
    const uint64_t wanted = std::min(tail_bytes, range->total);
    const bool is_tail = range->last == range->total - 1 && range->last - range->first == wanted - 1;
    if (!is_tail || answer.text.size() != wanted) {
      return refuse(absl::StrCat("the answer has ", answer.text.size(), " bytes from ", range->first, " of ",
                                 range->total, "; the last ", wanted, " are wanted"));
    }
    object->size = range->total;
  } else {
    return refuse(absl::StrCat("the answer has the status ", answer.status));
  }
  object->etag = headers.etag;
  object->last_modified = headers.last_modified;
  object->info = InfoOf(object->url, headers, object->size);
  object->tail = std::move(answer.text);
  object->tail_offset = object->size - object->tail.size();
  return 0;
}

IoResult ObjectFiles::OpenToRead(const std::string& path) {
  auto object = std::make_shared<OpenObject>();
  if (const IoResult bad = ParsePath(path, &object->url); bad < 0) return bad;
  if (object->url.is_folder) return FailWith(-EISDIR, absl::StrCat(path, ": is a folder"));
  std::string detail;
  const IoResult opened = Open(object.get(), TailBytesOf(object->url), &detail);
  if (opened == -ENOENT) RememberMissing(path);
  return opened < 0 ? FailWith(opened, std::move(detail)) : AddHandle({std::move(object), nullptr});
}

IoResult ObjectFiles::OpenToReadSoon(const std::string& path) {
  auto object = std::make_shared<OpenObject>();
  if (const IoResult bad = ParsePath(path, &object->url); bad < 0) return bad;
  // A child of fork has none of the threads.
  if (object->url.is_folder || !requests_->engine()->is_in_owner_process()) return OpenToRead(path);
  object->is_open = false;
  threads_.Submit([this, object] {
    std::string detail;
    const IoResult opened =
        WithoutExceptions([&] { return Open(object.get(), TailBytesOf(object->url), &detail); }, &detail);
    const std::lock_guard<std::mutex> lock(object->mutex);
    object->is_open = true;
    object->opened = opened;
    object->opened_detail = std::move(detail);
    object->changed.notify_all();
  });
  return AddHandle({std::move(object), nullptr});
}

IoResult ObjectFiles::Request(OpenObject* object, absl::Span<const ReadRange> parts, std::string* detail) {
  ExpectedRange range;
  range.parts = parts;
  object->Describe(&range);
  return Request(object, range, detail);
}

IoResult ObjectFiles::Request(OpenObject* object, const ExpectedRange& range, std::string* detail) {
  HttpAnswer answer = requests_->ReadRange(object->url, range);
  if (answer.result < 0) *detail = std::move(answer.detail);
  return answer.result;
}

// Headers and directories are read in small pieces, one behind the other.
IoResult ObjectFiles::ReadSmall(OpenObject* object, uint64_t offset, absl::Span<char> out, std::string* detail) {
  std::shared_ptr<const std::string> block;
  uint64_t start = 0;
  {
    std::lock_guard<std::mutex> lock(object->mutex);
    block = object->block;
    start = object->block_offset;
  }
  const auto has = [&] {
    return block != nullptr && offset >= start && offset - start <= block->size() &&
           out.size() <= block->size() - (offset - start);
  };
  if (!has()) {
    const uint64_t bytes = std::min(kSmallBytes, object->tail_offset - offset);
    auto fresh = std::make_shared<std::string>(static_cast<size_t>(bytes), '\0');
    const ReadRange range = {offset, absl::MakeSpan(&(*fresh)[0], fresh->size())};
    const IoResult result = Request(object, absl::MakeConstSpan(&range, 1), detail);
    if (result < 0) return result;
    block = fresh;
    start = offset;
    std::lock_guard<std::mutex> lock(object->mutex);
    object->block = block;
    object->block_offset = start;
  }
  std::memcpy(out.data(), block->data() + (offset - start), out.size());
  return 0;
}

// One request for all parts, which lie in the object, by offset and apart; none for what opening brought.
IoResult ObjectFiles::ReadPiece(OpenObject* object, absl::Span<const ReadRange> parts, std::string* detail) {
  std::vector<ReadRange> missing;
  for (ReadRange part : parts) {
    if (part.offset < object->tail_offset) {
      const auto before = static_cast<size_t>(std::min<uint64_t>(part.out.size(), object->tail_offset - part.offset));
      missing.push_back({part.offset, part.out.first(before)});
      part.out.remove_prefix(before);
      part.offset += before;
    }
    if (part.out.empty()) continue;
    std::memcpy(part.out.data(), object->tail.data() + (part.offset - object->tail_offset), part.out.size());
  }
  if (missing.empty()) return 0;
  if (EndOf(missing.back()) - missing.front().offset >= kSmallBytes) return Request(object, missing, detail);
  for (const ReadRange& part : missing) {
    const IoResult result = ReadSmall(object, part.offset, part.out, detail);
    if (result < 0) return result;
  }
  return 0;
}

IoResult ObjectFiles::ReadAt(IoResult handle, uint64_t offset, absl::Span<char> out) {
  std::shared_ptr<OpenObject> object;
  if (const IoResult bad = FindOpenObject(handle, &object); bad < 0) return bad;
  if (object == nullptr) return FailWith(-EBADF, "");
  if (offset >= object->size || out.empty()) return 0;
  const auto bytes = static_cast<size_t>(std::min<uint64_t>(out.size(), object->size - offset));
  const ReadRange range = {offset, out.subspan(0, bytes)};
  const IoResult result = ReadManyAt(handle, absl::MakeConstSpan(&range, 1));
  return result < 0 ? result : static_cast<IoResult>(bytes);
}

IoResult ObjectFiles::ReadManyAt(IoResult handle, absl::Span<const ReadRange> ranges) {
  std::shared_ptr<OpenObject> object;
  if (const IoResult bad = FindOpenObject(handle, &object); bad < 0) return bad;
  if (object == nullptr) return FailWith(-EBADF, "");
  uint64_t total_bytes = 0;
  for (const ReadRange& range : ranges) total_bytes += std::min<uint64_t>(range.out.size(), object->size);
  const auto piece_bytes = static_cast<size_t>(read_shape().PieceBytesOf(total_bytes));
  std::vector<ReadRange> parts;
  uint64_t failed_at = UINT64_MAX;
  for (const ReadRange& range : ranges) {
    if (!RangeFits(range.offset, range.out.size(), object->size)) {
      failed_at = std::min(failed_at, range.offset);
      continue;
    }
    for (size_t done = 0; done < range.out.size(); done += parts.back().out.size()) {
      parts.push_back({range.offset + done, range.out.subspan(done, piece_bytes)});
    }
  }
  std::sort(parts.begin(), parts.end(), [](const ReadRange& a, const ReadRange& b) { return a.offset < b.offset; });

  struct Piece {
    absl::Span<const ReadRange> parts;
    IoResult result = 0;
    std::string detail;
  };
  std::vector<Piece> pieces;
  for (size_t first = 0; first < parts.size(); first += pieces.back().parts.size()) {
    size_t last = first + 1;  // one past
    for (; last < parts.size(); ++last) {
      const uint64_t end = EndOf(parts[last - 1]);
      const bool is_near = parts[last].offset >= end && parts[last].offset - end <= kGapBytes;
      if (!is_near || EndOf(parts[last]) - parts[first].offset > piece_bytes) break;
    }
    pieces.emplace_back();
    pieces.back().parts = absl::MakeConstSpan(parts).subspan(first, last - first);
  }
  const absl::Status ran = threads_.RunAll(
      pieces.size(), [&](size_t i) { pieces[i].result = ReadPiece(object.get(), pieces[i].parts, &pieces[i].detail); });
  if (!ran.ok()) return FailWith(-ENOMEM, std::string(ran.message()));
  for (const Piece& piece : pieces) {
    if (piece.result < 0 && piece.parts[0].offset < failed_at) return FailWith(piece.result, piece.detail);
  }
  return failed_at == UINT64_MAX ? 0 : FailWith(-ENODATA, "");
}

IoResult ObjectFiles::ReadPieceAt(IoResult handle, absl::Span<const ReadRange> ranges) {
  std::shared_ptr<OpenObject> object;
  if (const IoResult bad = FindOpenObject(handle, &object); bad < 0) return bad;
  if (object == nullptr) return FailWith(-EBADF, "");
  for (const ReadRange& range : ranges) {
    if (!RangeFits(range.offset, range.out.size(), object->size)) return FailWith(-ENODATA, "");
  }
  std::string detail;
  const IoResult result = ReadPiece(object.get(), ranges, &detail);
  return result < 0 ? FailWith(result, std::move(detail)) : 0;
}

// The request goes beside the one that opens the file. Its answer waits for that and for the memory, and is compared
// with what that has found: a file that is replaced meanwhile is noticed, though no condition is sent.
IoResult ObjectFiles::ReadPieceSoon(IoResult handle, absl::Span<ReadRange> ranges,
                                    absl::FunctionRef<bool()> find_memory) {
  const std::shared_ptr<OpenObject> object = FindObject(handle);
  if (object == nullptr) return FailWith(-EBADF, "");
  bool is_open = false;
  {
    const std::lock_guard<std::mutex> lock(object->mutex);
    is_open = object->is_open;
  }
  if (is_open) return FileSystem::ReadPieceSoon(handle, ranges, find_memory);
  ExpectedRange range;
  range.parts = ranges;
  bool has_memory = false;
  range.when_answered = [&] {
    if (has_memory) return true;  // an attempt before this one found it
    const RequestEngine::Waiting waiting(requests_->engine());
    if (object->WaitUntilOpen() < 0) return false;
    object->Describe(&range);
    for (const ReadRange& one : ranges) {
      if (!RangeFits(one.offset, one.out.size(), object->size)) return false;
    }
    return has_memory = find_memory();
  };
  std::string detail;
  const IoResult result = Request(object.get(), range, &detail);
  return result < 0 ? FailWith(result, std::move(detail)) : 0;
}

IoResult ObjectFiles::SizeOf(IoResult handle) {
  std::shared_ptr<OpenObject> object;
  if (const IoResult bad = FindOpenObject(handle, &object); bad < 0) return bad;
  if (object != nullptr) return static_cast<IoResult>(object->size);
  if (const std::shared_ptr<Upload> upload = FindUpload(handle)) return static_cast<IoResult>(upload->size_bytes());
  return FailWith(-EBADF, "");
}

IoResult ObjectFiles::DescribeOpen(IoResult handle, FileInfo* info) {
  std::shared_ptr<OpenObject> object;
  if (const IoResult bad = FindOpenObject(handle, &object); bad < 0) return bad;
  if (object == nullptr) return FailWith(FindUpload(handle) != nullptr ? -EOPNOTSUPP : -EBADF, "");
  *info = object->info;
  return 0;
}

IoResult ObjectFiles::Map(IoResult, uint64_t, size_t, const char**) { return FailWith(-ENODEV, ""); }
IoResult ObjectFiles::Unmap(const char*, size_t) { return FailWith(-EINVAL, ""); }

// ---- Writing ------------------------------------------------------------------------------------------------------

IoResult ObjectFiles::CreateNew(const std::string& path) {
  const std::optional<absl::string_view> final_name = FinalNameOfTemporary(path);
  if (final_name.has_value()) return CreateToPublish(path, std::string(*final_name));
  return FailWith(-EOPNOTSUPP,
                  absl::StrCat(path, ": a file of an object store is written as a whole and then published"));
}

IoResult ObjectFiles::CreateToPublish(const std::string& path, const std::string& final_path) {
  if (const IoResult bad = CheckProcess(); bad < 0) return bad;
  ObjectUrl url;
  if (const IoResult bad = ParsePath(final_path, &url); bad < 0) return bad;
  if (!url.is_s3) return RefuseHttp(url);
  if (url.is_folder) return FailWith(-EISDIR, absl::StrCat(final_path, ": names a folder"));
  Handle handle;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    std::shared_ptr<Upload>& upload = uploads_[path];
    if (upload != nullptr) return FailWith(-EEXIST, "");
    PartPlan plan;
    plan.fixed_bytes = part_bytes_;
    upload = std::make_shared<Upload>(requests_, &threads_, std::move(url), plan, connections_);
    handle.upload = upload;
  }
  return AddHandle(std::move(handle));
}

IoResult ObjectFiles::CheckNew(const std::string& path) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (std::exchange(missing_path_, "") == path) return 0;
  }
  FileInfo info;
  return Describe(path, &info) >= 0 ? FailWith(-EEXIST, "") : 0;
}

IoResult ObjectFiles::Append(IoResult handle, absl::string_view bytes) {
  if (const IoResult bad = CheckProcess(); bad < 0) return bad;
  const std::shared_ptr<Upload> upload = FindUpload(handle);
  if (upload == nullptr) return FailWith(-EBADF, "");
  const IoResult result = upload->Append(bytes);
  return result < 0 ? FailWith(result, upload->detail()) : result;
}

IoResult ObjectFiles::WriteAt(IoResult handle, uint64_t offset, absl::string_view bytes) {
  if (const IoResult bad = CheckProcess(); bad < 0) return bad;
  const std::shared_ptr<Upload> upload = FindUpload(handle);
  if (upload == nullptr) return FailWith(-EBADF, "");
  const IoResult result = upload->WriteAt(offset, bytes);
  return result < 0 ? FailWith(result, upload->detail()) : result;
}

IoResult ObjectFiles::Reserve(IoResult handle, uint64_t size_bytes) {
  const std::shared_ptr<Upload> upload = FindUpload(handle);
  if (upload == nullptr) return FailWith(-EBADF, "");
  upload->Announce(size_bytes);
  return 0;
}

// Nothing lasts before Rename, which waits for all parts.
IoResult ObjectFiles::Sync(IoResult handle) {
  if (const IoResult bad = CheckProcess(); bad < 0) return bad;
  if (FindObject(handle) != nullptr) return 0;
  const std::shared_ptr<Upload> upload = FindUpload(handle);
  if (upload == nullptr) return FailWith(-EBADF, "");
  const IoResult result = upload->Check();
  return result < 0 ? FailWith(result, upload->detail()) : 0;
}

IoResult ObjectFiles::SetPublic(IoResult) { return FailWith(-EOPNOTSUPP, ""); }

IoResult ObjectFiles::Close(IoResult handle) {
  if (const IoResult bad = CheckProcess(); bad < 0) return bad;
  Handle closed;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = handles_.find(handle);
    if (found == handles_.end()) return FailWith(-EBADF, "");
    closed = std::move(found->second);
    handles_.erase(found);
  }
  if (closed.upload == nullptr) return 0;
  const IoResult result = closed.upload->Close();
  return result < 0 ? FailWith(result, closed.upload->detail()) : 0;
}

IoResult ObjectFiles::Rename(const std::string& from, const std::string& to, OnExisting on_existing) {
  using Kind = PublishCondition::Kind;
  return Publish(from, to, {on_existing == OnExisting::kRefuse ? Kind::kNew : Kind::kNone, ""});
}

IoResult ObjectFiles::RenameOver(const std::string& from, const std::string& to, IoResult replaced) {
  std::shared_ptr<OpenObject> object;
  if (const IoResult bad = FindOpenObject(replaced, &object); bad < 0) return bad;
  if (object == nullptr) return FailWith(-EBADF, "");
  if (!IsStrongETag(object->etag)) {
    return FailWith(-EOPNOTSUPP, absl::StrCat(to, ": the server tells no ETag by which a change could be noticed"));
  }
  ObjectUrl url;
  if (const IoResult bad = ParsePath(to, &url); bad < 0) return bad;
  if (url.name != object->url.name) return FailWith(-EINVAL, absl::StrCat(to, ": is not what was opened"));
  return Publish(from, to, {PublishCondition::Kind::kSame, object->etag});
}

IoResult ObjectFiles::Publish(const std::string& from, const std::string& to, const PublishCondition& condition) {
  if (const IoResult bad = CheckProcess(); bad < 0) return bad;
  ObjectUrl url;
  if (const IoResult bad = ParsePath(to, &url); bad < 0) return bad;
  std::shared_ptr<Upload> upload;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = uploads_.find(from);
    if (found != uploads_.end()) upload = found->second;
  }
  if (upload == nullptr) {
    if (FinalNameOfTemporary(from).has_value()) return FailWith(-ENOENT, "");
    return FailWith(-EXDEV, absl::StrCat(from, ": an object cannot be renamed"));
  }
  if (url.is_folder || upload->url().bucket != url.bucket || upload->url().key != url.key) {
    return FailWith(-EXDEV, absl::StrCat(from, ": was made to become ", upload->url().name, ", not ", to));
  }
  const IoResult result = upload->Publish(condition);
  if (result < 0) return FailWith(result, upload->detail());
  std::lock_guard<std::mutex> lock(mutex_);
  uploads_.erase(from);
  return 0;
}

IoResult ObjectFiles::Remove(const std::string& path) {
  if (const IoResult bad = CheckProcess(); bad < 0) return bad;
  ObjectUrl url;
  if (const IoResult bad = ParsePath(path, &url); bad < 0) return bad;
  std::shared_ptr<Upload> upload;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = uploads_.find(path);
    if (found != uploads_.end()) {
      upload = std::move(found->second);
      uploads_.erase(found);
    }
  }
  if (upload != nullptr) {
    const IoResult result = upload->Remove();
    return result < 0 ? FailWith(result, upload->detail()) : 0;
  }
  if (FinalNameOfTemporary(path).has_value()) return FailWith(-ENOENT, "");
  if (!url.is_s3) return RefuseHttp(url);
  if (url.is_folder) return FailWith(-EISDIR, absl::StrCat(path, ": is a folder"));
  const HttpAnswer answer = requests_->Delete(url);
  return answer.result < 0 ? FailWith(answer) : 0;
}

IoResult ObjectFiles::RemoveUnlocked(const std::string& path) {
  std::lock_guard<std::mutex> lock(mutex_);
  return FailWith(uploads_.count(path) != 0 ? -EWOULDBLOCK : -EOPNOTSUPP, "");
}

IoResult ObjectFiles::Link(const std::string&, const std::string&) { return FailWith(-EOPNOTSUPP, ""); }

IoResult ObjectFiles::Lock(const std::string& path) {
  return FailWith(-EOPNOTSUPP, absl::StrCat(path, ": an object store has no locks"));
}

// ---- Names --------------------------------------------------------------------------------------------------------

IoResult ObjectFiles::MakeFolder(const std::string& path) {
  ObjectUrl url;
  if (const IoResult bad = ParsePath(path, &url); bad < 0) return bad;
  return url.is_s3 ? 0 : RefuseHttp(url);
}

IoResult ObjectFiles::SyncFolder(const std::string&) { return 0; }

// Whether objects lie below it. False with *result < 0: the request failed.
bool ObjectFiles::IsFolder(const ObjectUrl& url, IoResult* result) {
  const HttpAnswer answer = requests_->List(url, absl::StrCat(url.key, "/"), /*folders=*/false, /*max_keys=*/1, "");
  *result = answer.result < 0 ? FailWith(answer) : 0;
  if (answer.result < 0) return false;
  const absl::StatusOr<ObjectPage> page = ParseObjectPage(answer.text);
  if (!page.ok()) *result = FailWith(-EBADMSG, absl::StrCat("GET ", url.name, ": ", page.status().message()));
  return page.ok() && !page->objects.empty();
}

void ObjectFiles::RememberMissing(const std::string& path) {
  std::lock_guard<std::mutex> lock(mutex_);
  missing_path_ = path;
}

IoResult ObjectFiles::Describe(const std::string& path, FileInfo* info) {
  ObjectUrl url;
  if (const IoResult bad = ParsePath(path, &url); bad < 0) return bad;
  FileInfo folder;
  folder.type = FileInfo::Type::kFolder;
  if (url.is_folder) {
    *info = folder;
    return 0;
  }
  if (FinalNameOfTemporary(path).has_value()) {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = uploads_.find(path);
    if (found == uploads_.end()) return FailWith(-ENOENT, "");
    *info = FileInfo();
    return 0;
  }
  bool is_asked_as_folder = false;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    is_asked_as_folder = url.is_s3 && absl::StartsWith(missing_path_, absl::StrCat(path, "/"));
  }
  if (is_asked_as_folder) {
    IoResult listed = 0;
    if (IsFolder(url, &listed)) {
      *info = folder;
      return 0;
    }
    if (listed < 0) return listed;
  }
  const HttpAnswer answer = requests_->Head(url);
  const bool has_no_size = answer.result >= 0 && !answer.headers.content_length.has_value();
  OpenObject object;
  object.url = url;
  object.info = InfoOf(url, answer.headers, answer.headers.content_length.value_or(0));
  IoResult found = answer.result;
  std::string detail = answer.detail;
  if (MayBeAboutHead(answer.status) || has_no_size) found = Open(&object, /*tail_bytes=*/1, &detail);
  if (found == -ENOENT) RememberMissing(path);
  if (found < 0) return FailWith(found, std::move(detail));
  *info = object.info;
  return 0;
}

IoResult ObjectFiles::List(const std::string& path, std::vector<std::string>* names) {
  names->clear();
  ObjectUrl url;
  if (const IoResult bad = ParsePath(path, &url); bad < 0) return bad;
  if (!url.is_s3) return FailWith(-EOPNOTSUPP, absl::StrCat(url.name, ": the files of a web server cannot be listed"));
  const std::string prefix = url.key.empty() ? "" : absl::StrCat(url.key, "/");
  const auto most = static_cast<size_t>(DecodeLimits().max_entries);
  const auto refuse = [&](IoResult result, std::string detail) {
    names->clear();
    return FailWith(result, std::move(detail));
  };
  std::string next;
  uint64_t bytes = 0;
  do {
    const HttpAnswer answer = requests_->List(url, prefix, /*folders=*/true, static_cast<int>(kMaxKeysInPage), next);
    // An empty folder is no error of the store, and its first file makes it. A bucket is made by its owner.
    if (answer.code == "NoSuchBucket") return refuse(-ENXIO, answer.detail);
    if (answer.result < 0) return refuse(answer.result, answer.detail);
    const auto is_wrong = [&](absl::string_view what) {
      return refuse(-EBADMSG, absl::StrCat("GET ", path, ": ", what));
    };
    absl::StatusOr<ObjectPage> page = ParseObjectPage(answer.text);
    if (!page.ok()) return is_wrong(page.status().message());
    std::vector<absl::string_view> found(page->folders.begin(), page->folders.end());
    for (absl::string_view& folder : found) absl::ConsumeSuffix(&folder, "/");
    for (const ListedObject& object : page->objects) found.push_back(object.key);
    const size_t before = names->size();
    for (const absl::string_view key : found) {
      absl::string_view name = key;
      if (key == prefix) continue;  // a folder that a console made, or one without a name
      if (!absl::ConsumePrefix(&name, prefix) || absl::StrContains(name, '/')) {
        return is_wrong(absl::StrCat("the list has ", Quoted(key), ", which is not in this folder"));
      }
      names->emplace_back(name);
      bytes += sizeof(std::string) + name.size();
    }
    if (names->size() > most) {
      return refuse(-EFBIG, absl::StrCat(path, ": has more than ", most, " names, which is the limit"));
    }
    if (bytes > kMaxListBytes) {
      return refuse(-EFBIG,
                    absl::StrCat(path, ": its names take more than ", kMaxListBytes >> 20, " MiB, which is the limit"));
    }
    // The first page may have no more than the folder itself.
    const bool has_none = names->size() == before && (found.empty() || !next.empty());
    if (!page->next.empty() && (page->next == next || has_none)) return is_wrong("the pages of the list do not end");
    next = std::move(page->next);
  } while (!next.empty());
  std::sort(names->begin(), names->end());
  names->erase(std::unique(names->begin(), names->end()), names->end());
  return names->empty() && !url.key.empty() ? FailWith(-ENOENT, absl::StrCat(path, ": has no objects")) : 0;
}

}  // namespace tensorcask::internal
