#include "tensorcask/serialize/object_store/internal/upload.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <iterator>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "tensorcask/serialize/object_store/internal/xml_answer.h"
#include "tensorcask/tensor/base/memory_pages.h"
#include "tensorcask/tensor/base/random_bytes.h"

namespace tensorcask::internal {
namespace {

constexpr int kDigestAttempts = 3;  // of a body whose checksum the store refuses
constexpr size_t kMaxSpare = 2;
constexpr uint64_t kWantedParts = 200;
constexpr uint64_t kMostPartBytes = uint64_t{4} << 30;

// "" if the system has no random bytes.
std::string MakeSaveId() {
  char bits[16];
  if (!FillWithRandomBytes(bits, sizeof(bits))) return "";
  return absl::BytesToHexString(absl::string_view(bits, sizeof(bits)));
}

// New memory of small pages takes longer to fill than to send.
void AskForHugePages(std::string* bytes) {
  const size_t page = PageBytes();
  const size_t before = (page - reinterpret_cast<uintptr_t>(bytes->data()) % page) % page;
  if (bytes->capacity() > before) AdviseHugePages(&(*bytes)[0] + before, (bytes->capacity() - before) / page * page);
}

uint64_t RoundedUpToMebibyte(uint64_t bytes) { return (bytes + (1 << 20) - 1) >> 20 << 20; }

}  // namespace

uint64_t PartPlan::PartBytes(uint64_t announced_bytes) const {
  const uint64_t wanted = std::clamp(announced_bytes / kWantedParts, least_bytes, usual_most_bytes);
  const uint64_t needed = std::min(announced_bytes / equal_parts, kMostPartBytes);
  return RoundedUpToMebibyte(std::max(wanted, needed));
}

uint64_t PartPlan::NextPartBytes(uint64_t part_bytes, size_t index) const {
  const bool is_time = index >= equal_parts && (index - equal_parts) % parts_until_twice == 0;
  return is_time ? std::min(2 * part_bytes, kMostPartBytes) : part_bytes;
}

Upload::Upload(const ObjectRequests* requests, TaskThreads* threads, ObjectUrl url, const PartPlan& plan,
               int connections)
    : requests_(requests),
      threads_(threads),
      url_(std::move(url)),
      connections_(connections),
      save_id_(MakeSaveId()),
      plan_(plan),
      part_bytes_(plan.fixed_bytes) {
  spare_.reserve(kMaxSpare);
}

Upload::~Upload() {
  std::unique_lock<std::mutex> lock(mutex_);
  sent_.wait(lock, [&] { return sending_ == 0; });
}

IoResult Upload::Fail(IoResult result, std::string detail) {
  detail_ = std::move(detail);
  return result;
}

// The bytes of a part are lost, so nothing is published.
IoResult Upload::FailForGood(IoResult result, std::string detail) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (error_ == 0) {
      error_ = result;
      error_detail_ = detail;
    }
  }
  return Fail(result, std::move(detail));
}

void Upload::Announce(uint64_t size_bytes) { announced_ = std::max(announced_, size_bytes); }

// Requires: last_, which will be the part num_parts_, is empty.
void Upload::GrowParts() {
  if (plan_.fixed_bytes != 0) return;
  const uint64_t next = plan_.NextPartBytes(part_bytes_, num_parts_);
  if (next == part_bytes_) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  part_bytes_ = next;
  spare_.clear();
}

// Moves bytes from the front of *bytes to the end of *part, until the part is full.
IoResult Upload::AppendTo(std::string* part, absl::string_view* bytes) {
  const uint64_t full = part_bytes_ != 0 ? part_bytes_ : plan_.gathered_bytes;
  const auto taken = static_cast<size_t>(std::min<uint64_t>(full - part->size(), bytes->size()));
  // A string that grows by itself copies its bytes many times.
  if (part_bytes_ != 0 && part->size() + taken > part->capacity()) {
    part->reserve(static_cast<size_t>(full));
    AskForHugePages(part);
  }
  part->append(bytes->data(), taken);
  bytes->remove_prefix(taken);
  size_ += taken;
  return 0;
}

uint64_t Upload::size_bytes() const {
  return ahead_.empty() ? size_ : ahead_.rbegin()->first + ahead_.rbegin()->second.size();
}

IoResult Upload::Append(absl::string_view bytes) {
  if (is_closed_) return Fail(-EBADF, "");
  const IoResult written = appended_ == size_ ? AppendNow(bytes) : WriteAt(appended_, bytes);
  if (written < 0) return written;
  appended_ += static_cast<uint64_t>(written);
  const IoResult ahead = AppendAhead();
  return ahead < 0 ? ahead : written;
}

// Appends what waited for the bytes before it.
IoResult Upload::AppendAhead() {
  while (!ahead_.empty() && ahead_.begin()->first == size_) {
    const std::string bytes = std::move(ahead_.begin()->second);
    ahead_.erase(ahead_.begin());
    ahead_bytes_ -= bytes.size();
    const IoResult written = AppendNow(bytes);
    if (written < 0) return written;
  }
  return 0;
}

// Requires: offset > size_.
IoResult Upload::KeepAhead(uint64_t offset, absl::string_view bytes) {
  const auto next = ahead_.lower_bound(offset);
  const auto before = next == ahead_.begin() ? ahead_.end() : std::prev(next);
  const uint64_t end_before = before == ahead_.end() ? 0 : before->first + before->second.size();
  const bool overlaps = end_before > offset || (next != ahead_.end() && next->first - offset < bytes.size());
  if (overlaps || bytes.size() > kMaxAheadBytes - ahead_bytes_) {
    return Fail(-EOPNOTSUPP, absl::StrCat(url_.name, ": ", bytes.size(), " bytes at ", offset,
                                          " cannot wait for those before them: ", ahead_bytes_, " bytes wait already"));
  }
  if (before != ahead_.end() && end_before == offset) {
    before->second.append(bytes.data(), bytes.size());
  } else {
    ahead_.emplace(offset, std::string(bytes));
  }
  ahead_bytes_ += bytes.size();
  return static_cast<IoResult>(bytes.size());
}

IoResult Upload::AppendNow(absl::string_view bytes) {
  const auto count = static_cast<IoResult>(bytes.size());
  while (!bytes.empty()) {
    if (part_bytes_ == 0 && first_.size() >= plan_.gathered_bytes) part_bytes_ = plan_.PartBytes(announced_);
    if (part_bytes_ == 0 || (num_parts_ == 1 && first_.size() < part_bytes_)) {
      AppendTo(&first_, &bytes);
      continue;
    }
    if (last_.size() == part_bytes_) {
      std::string next;
      {
        std::lock_guard<std::mutex> lock(mutex_);
        if (!spare_.empty()) {
          next = std::move(spare_.back());
          spare_.pop_back();
        }
      }
      next.clear();
      const IoResult sent = SendLast(std::move(next));
      if (sent < 0) return sent;
      GrowParts();
    }
    AppendTo(&last_, &bytes);
  }
  return count;
}

IoResult Upload::WriteAt(uint64_t offset, absl::string_view bytes) {
  if (is_closed_) return Fail(-EBADF, "");
  if (bytes.empty()) return 0;
  if (offset > size_) return KeepAhead(offset, bytes);
  if (offset == size_) {
    const IoResult written = AppendNow(bytes);
    const IoResult ahead = AppendAhead();
    return written >= 0 && ahead < 0 ? ahead : written;
  }
  const uint64_t last_offset = size_ - last_.size();
  const auto fits = [&](uint64_t start, uint64_t size) {
    return offset >= start && offset - start <= size && bytes.size() <= size - (offset - start);
  };
  if (fits(0, first_.size())) {
    std::copy(bytes.begin(), bytes.end(), first_.begin() + static_cast<ptrdiff_t>(offset));
  } else if (fits(last_offset, last_.size())) {
    std::copy(bytes.begin(), bytes.end(), last_.begin() + static_cast<ptrdiff_t>(offset - last_offset));
  } else {
    return Fail(-EOPNOTSUPP,
                absl::StrCat(url_.name, ": ", bytes.size(), " bytes at ", offset, " cannot be written: only the first ",
                             first_.size(), " bytes of an upload can still be changed"));
  }
  return static_cast<IoResult>(bytes.size());
}

IoResult Upload::Start() {
  if (!upload_id_.empty()) return 0;
  if (save_id_.empty()) return Fail(-EIO, "the system gives no random bytes");
  const HttpAnswer answer = requests_->CreateUpload(url_, save_id_);
  if (answer.result < 0) return Fail(answer.result, answer.detail);
  absl::StatusOr<std::string> id = ParseUploadId(answer.text);
  if (!id.ok()) return Fail(-EBADMSG, absl::StrCat("POST ", url_.name, ": ", id.status().message()));
  upload_id_ = *std::move(id);
  return 0;
}

IoResult Upload::SendPart(size_t index, uint64_t offset, std::string bytes) {
  bool is_counted = false;
  std::string words;
  const IoResult sent =
      WithoutExceptions([&] { return QueuePart(index, offset, std::move(bytes), &is_counted); }, &words);
  if (words.empty()) return sent;
  if (is_counted) {
    const std::lock_guard<std::mutex> lock(mutex_);
    --sending_;
  }
  return FailForGood(sent, std::move(words));
}

// *is_counted: sending_ counts the part.
IoResult Upload::QueuePart(size_t index, uint64_t offset, std::string bytes, bool* is_counted) {
  if (index >= kMaxParts) {
    return FailForGood(-EFBIG, absl::StrCat(url_.name, ": more than ", kMaxParts, " parts, the last of ", part_bytes_,
                                            " bytes; set ObjectStoreOptions::part_bytes, or write more files"));
  }
  const IoResult started = Start();
  if (started < 0) return FailForGood(started, detail_);
  const uint64_t most =
      std::clamp<uint64_t>(kMaxWaitingBytes / part_bytes_, 2, static_cast<uint64_t>(connections_) + 1);
  // A std::function is copied.
  const auto shared = std::make_shared<std::string>(std::move(bytes));
  const std::function<void()> send = [this, index, offset, shared] {
    std::string words;
    const IoResult sent = WithoutExceptions([&] { return SendNow(index, offset, *shared, &words); }, &words);
    const std::lock_guard<std::mutex> lock(mutex_);
    if (sent < 0 && error_ == 0) {
      error_ = sent;
      error_detail_ = std::move(words);
    }
    if (spare_.size() < kMaxSpare && shared->size() == part_bytes_) spare_.push_back(std::move(*shared));
    --sending_;
    sent_.notify_all();
  };
  {
    std::unique_lock<std::mutex> lock(mutex_);
    sent_.wait(lock, [&] { return sending_ < most || error_ < 0; });
    if (error_ < 0) return Fail(error_, error_detail_);
    parts_.resize(std::max(parts_.size(), index + 1));
    ++sending_;
    *is_counted = true;
  }
  threads_->Submit(send);
  return 0;
}

// Sends the part that was gathered behind the first. `next`: memory for the one after it.
IoResult Upload::SendLast(std::string next) {
  const uint64_t offset = size_ - last_.size();
  const IoResult sent = SendPart(num_parts_, offset, std::exchange(last_, std::move(next)));
  if (sent >= 0) ++num_parts_;
  return sent;
}

IoResult Upload::SendNow(size_t index, uint64_t offset, const std::string& bytes, std::string* words) {
  UploadedPart part;
  part.crc32c = Crc32cHeader(bytes);
  HttpAnswer answer;
  for (int attempt = 0; attempt < kDigestAttempts; ++attempt) {
    answer = requests_->PutPart(url_, upload_id_, static_cast<int>(index) + 1, offset, bytes, part.crc32c);
    if (answer.code != "BadDigest") break;
  }
  part.etag = answer.headers.etag;
  if (answer.result >= 0 && part.etag.empty()) {
    answer.result = -EBADMSG;
    answer.detail = absl::StrCat("PUT ", url_.name, ": the answer to part ", index + 1, " has no ETag");
  }
  *words = std::move(answer.detail);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (answer.result >= 0) parts_[index] = std::move(part);
  return std::min<IoResult>(answer.result, 0);
}

IoResult Upload::Check() {
  std::lock_guard<std::mutex> lock(mutex_);
  return error_ < 0 ? Fail(error_, error_detail_) : 0;
}

IoResult Upload::Wait() {
  std::unique_lock<std::mutex> lock(mutex_);
  sent_.wait(lock, [&] { return sending_ == 0; });
  return error_ < 0 ? Fail(error_, error_detail_) : 0;
}

IoResult Upload::Close() {
  constexpr size_t kZeroBytes = 64 << 10;
  while (!is_closed_ && !ahead_.empty()) {
    const uint64_t gap = ahead_.begin()->first - size_;
    const IoResult filled = AppendNow(std::string(static_cast<size_t>(std::min<uint64_t>(gap, kZeroBytes)), '\0'));
    const IoResult ahead = AppendAhead();
    if (filled < 0 || ahead < 0) {
      is_closed_ = true;
      return std::min(filled, ahead);
    }
  }
  if (std::exchange(is_closed_, true)) return 0;
  // A file of which a part has failed will not be published.
  const IoResult failed = Check();
  return failed < 0 ? failed : SendRest();
}

// All but what is one request.
IoResult Upload::SendRest() {
  if (is_sent_) return 0;
  const bool has_parts = num_parts_ > 1 || !last_.empty();
  if (has_parts) {
    if (!last_.empty()) {
      const IoResult sent = SendLast("");
      if (sent < 0) return sent;
    }
    const IoResult sent = SendPart(0, 0, std::move(first_));
    if (sent < 0) return sent;
  }
  is_sent_ = true;
  return 0;
}

HttpAnswer Upload::AskToPublish(const PublishCondition& condition) {
  if (upload_id_.empty()) {
    HttpAnswer put = requests_->Put(url_, first_, save_id_, condition);
    if (put.result < 0 || !put.headers.etag.empty()) return put;
    put.result = -EBADMSG;
    put.is_open = true;
    put.detail = absl::StrCat("PUT ", url_.name, ": the answer has no ETag");
    return put;
  }
  HttpAnswer answer = requests_->CompleteUpload(url_, upload_id_, parts_, condition);
  if (answer.result < 0) return answer;
  const absl::StatusOr<std::string> root = RootElementOf(answer.text);
  if (root.ok() && *root == "CompleteMultipartUploadResult") return answer;
  answer.result = -EBADMSG;
  answer.is_open = true;
  answer.detail = absl::StrCat("POST ", url_.name, ": the answer does not say that the upload is complete");
  return answer;
}

Upload::Winner Upload::FindWinner(IoResult* result, std::string* etag) {
  const HttpAnswer answer = requests_->Head(url_);
  *result = answer.result;
  *etag = answer.headers.etag;
  if (answer.result == -ENOENT) return Winner::kNone;
  if (answer.result < 0) {
    detail_ = answer.detail;
    return Winner::kUnknown;
  }
  return answer.headers.save_id == save_id_ ? Winner::kUs : Winner::kAnother;
}

IoResult Upload::Publish(const PublishCondition& condition) {
  using Kind = PublishCondition::Kind;
  if (save_id_.empty()) return Fail(-EIO, "the system gives no random bytes");
  const IoResult sent = SendRest();
  if (sent < 0) return sent;
  const IoResult waited = Wait();
  if (waited < 0) return waited;
  int refused_digests = 0;
  for (int attempt = 0;; ++attempt) {
    HttpAnswer answer = AskToPublish(condition);
    if (answer.result >= 0) return 0;
    const bool is_last = attempt + 1 >= requests_->engine()->max_attempts();
    const bool is_gone = answer.code == "NoSuchUpload" || (answer.status == 404 && !upload_id_.empty());
    const bool is_conflict = answer.status == 409;
    if (answer.code == "BadDigest" && ++refused_digests < kDigestAttempts) continue;
    // 429, or a server that was not reached: nothing happened.
    const bool is_refused_for_now = !answer.is_open && (answer.status == 429 || answer.status == 0);
    const bool is_refused = !is_refused_for_now && answer.status != 412 && !is_gone && !is_conflict && !answer.is_open;
    if (!is_refused_for_now) {
      // Only the object that is found there tells what became of a request before this one.
      is_uncertain_ |= answer.is_open;
      IoResult found = 0;
      std::string etag;
      const Winner winner = FindWinner(&found, &etag);
      if (winner == Winner::kUs) return 0;
      if (winner == Winner::kAnother && condition.kind == Kind::kNew) {
        is_uncertain_ = false;
        return Fail(-EEXIST, absl::StrCat(url_.name, ": another writer published it first"));
      }
      const bool is_replaced = winner == Winner::kNone || (winner == Winner::kAnother && etag != condition.etag);
      if (is_replaced && condition.kind == Kind::kSame) {
        is_uncertain_ = false;
        return Fail(-ESTALE, absl::StrCat(url_.name, ": another writer replaced or removed it first"));
      }
      // Even a clear refusal does not prove that nothing was published, so the winner must be known.
      if (is_refused && winner != Winner::kUnknown) return Fail(answer.result, answer.detail);
      if (winner == Winner::kUnknown) {
        is_uncertain_ = true;
        return Fail(answer.result, absl::StrCat(answer.detail, "; whether it was published is unknown: ", detail_));
      }
      if (is_gone && winner == Winner::kAnother) {
        return Fail(-ESTALE, absl::StrCat(answer.detail, "; the upload is gone, and the object is another one"));
      }
      if (is_conflict && !upload_id_.empty()) {
        return Fail(-ESTALE, absl::StrCat(answer.detail, "; another writer was publishing it at the same time"));
      }
    }
    if (is_last) return Fail(answer.result, absl::StrCat(answer.detail, ", after ", attempt + 1, " attempts"));
    requests_->engine()->Pause(attempt, answer.headers);
  }
}

IoResult Upload::Remove() {
  Wait();  // a part that arrives later would stay
  if (!upload_id_.empty()) {
    const HttpAnswer aborted = requests_->AbortUpload(url_, upload_id_);
    if (aborted.result < 0 && aborted.result != -ENOENT) return Fail(aborted.result, aborted.detail);
  }
  if (!is_uncertain_) return 0;
  // A store may answer the abort of a completed upload as if it had removed something.
  IoResult result = 0;
  std::string etag;
  const Winner winner = FindWinner(&result, &etag);
  if (winner == Winner::kUs) return Fail(-ENOENT, "");
  if (winner == Winner::kUnknown) return result;
  // A single PUT without an answer may still arrive: nothing can take it back.
  if (upload_id_.empty()) {
    return Fail(-EAGAIN, absl::StrCat(url_.name, ": its last request had no answer, and may take effect later"));
  }
  return 0;
}

}  // namespace tensorcask::internal
