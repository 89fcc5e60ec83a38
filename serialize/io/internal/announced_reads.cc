#include "tensorcask/serialize/io/internal/announced_reads.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "tensorcask/tensor/base/catch_exceptions.h"

namespace tensorcask::internal {

namespace {

// What is read for the ranges that have memory, with the gaps between them that are read over.
uint64_t DirectBytes(absl::Span<const FileRange> ranges, uint64_t gap_bytes) {
  uint64_t bytes = 0;
  uint64_t end = 0;
  for (const FileRange& range : ranges) {
    if (range.into == nullptr && !range.is_later) continue;
    if (range.offset >= end && range.offset - end <= gap_bytes && bytes > 0) bytes += range.offset - end;
    bytes += range.size_bytes;
    end = range.offset + range.size_bytes;
  }
  return bytes;
}

}  // namespace

AnnouncedReads::AnnouncedReads(absl::Span<const FileRange> ranges, const ReadShape& shape,
                               const AnnounceOptions& options, ReadPiece read, ReadPieceSoon read_soon)
    : piece_bytes_(shape.piece_bytes),
      gap_bytes_(std::min(shape.gap_bytes, options.max_gap_bytes)),
      most_bytes_(shape.piece_bytes * static_cast<uint64_t>(shape.in_flight)),
      large_bytes_(most_bytes_ / 2),
      is_read_once_(options.is_read_once),
      joins_ranges_(shape.joins_ranges),
      most_fetches_(static_cast<size_t>(shape.in_flight)),
      read_(std::move(read)),
      read_soon_(std::move(read_soon)),
      tell_fetched_(options.fetched),
      direct_bytes_(shape.PieceBytesOf(DirectBytes(ranges, gap_bytes_))),
      after_this_(options.next) {
  spare_.reserve(most_fetches_);
  CutIntoPieces(ranges);
  // Bytes that are announced twice are held: memory that a caller has is filled once.
  if (HoldOverlapping() && direct_bytes_ > piece_bytes_) {
    direct_bytes_ = piece_bytes_;  // what is held is short
    CutIntoPieces(ranges);
    HoldOverlapping();
  }
  has_memory_ = std::none_of(ranges.begin(), ranges.end(), [](const FileRange& range) { return range.is_later; });
  if (!options.starts_now) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  StartThreads();
}

void AnnouncedReads::Delete::operator()(AnnouncedReads* reads) const {
  if (reads->owner_.IsThisProcess()) delete reads;
}

void AnnouncedReads::End() {
  if (!owner_.IsThisProcess()) return;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ends_ = true;  // from here on no thread is started
  }
  memory_told_.notify_all();
  room_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  std::shared_ptr<Announcement> after_this;  // may end with this function
  std::unique_lock<std::mutex> lock(mutex_);
  fetched_.wait(lock, [&] { return fetches_of_others_ == 0; });
  after_this = std::move(after_this_);
  lock.unlock();
}

void AnnouncedReads::CutIntoPieces(absl::Span<const FileRange> ranges) {
  pieces_.clear();
  for (size_t i = 0; i < ranges.size(); ++i) AddToPieces(ranges[i], i);
  by_offset_.resize(pieces_.size());
  for (size_t i = 0; i < by_offset_.size(); ++i) by_offset_[i] = i;
  std::sort(by_offset_.begin(), by_offset_.end(),
            [&](size_t a, size_t b) { return pieces_[a].begin < pieces_[b].begin; });
}

// Pieces that overlap are not direct from now on. Returns whether there are some.
bool AnnouncedReads::HoldOverlapping() {
  bool found = false;
  Piece* farthest = nullptr;
  for (const size_t i : by_offset_) {
    Piece& piece = pieces_[i];
    if (farthest != nullptr && piece.begin < farthest->end) {
      piece.is_direct = farthest->is_direct = false;
      found = true;
    }
    if (farthest == nullptr || piece.end > farthest->end) farthest = &piece;
  }
  return found;
}

// Joins the range to the last piece if it lies in it or not far behind it, and begins new pieces where that is full.
void AnnouncedReads::AddToPieces(const FileRange& range, size_t number) {
  const uint64_t end = range.offset + range.size_bytes;
  const bool has_memory = range.into != nullptr || range.is_later;
  const bool is_large = !has_memory && range.size_bytes >= large_bytes_;
  for (uint64_t offset = range.offset; offset < end;) {
    if (!JoinsLast(range, offset, is_large)) {
      pieces_.emplace_back();
      pieces_.back().begin = offset;
      pieces_.back().is_large = is_large;
      pieces_.back().is_direct = has_memory;
    } else if (!StaysDirect(range, offset)) {
      pieces_.back().is_direct = false;
      pieces_.back().parts = {};
      pieces_.back().ranges = {};
    }
    Piece& piece = pieces_.back();
    const uint64_t now = std::min(end, piece.begin + (piece.is_direct ? direct_bytes_ : piece_bytes_)) - offset;
    if (piece.is_direct) {
      char* const into = range.is_later ? nullptr : range.into + (offset - range.offset);
      piece.parts.push_back({offset, absl::Span<char>(into, static_cast<size_t>(now))});
      if (range.is_later) piece.ranges.emplace_back(number, offset - range.offset);
    }
    piece.left += now;
    piece.end = std::max(piece.end, offset + now);
    offset += now;
  }
}

// Else bytes had two places, or the last piece took several reads.
bool AnnouncedReads::StaysDirect(const FileRange& range, uint64_t offset) const {
  const Piece& last = pieces_.back();
  return last.is_direct && (range.into != nullptr || range.is_later) && range.is_later == !last.ranges.empty() &&
         offset >= last.end && joins_ranges_;
}

bool AnnouncedReads::JoinsLast(const FileRange& range, uint64_t offset, bool is_large) const {
  if (is_large || pieces_.empty() || pieces_.back().is_large) return false;
  const Piece& last = pieces_.back();
  const uint64_t most = StaysDirect(range, offset) ? direct_bytes_ : piece_bytes_;
  return offset >= last.begin && offset < last.begin + most && last.end <= last.begin + most &&
         (offset <= last.end || offset - last.end <= gap_bytes_);
}

size_t AnnouncedReads::Read(uint64_t offset, absl::Span<char> out) {
  if (!owner_.IsThisProcess()) return 0;
  std::unique_lock<std::mutex> lock(mutex_);
  if (ends_) return 0;
  Piece* const piece = Find(offset);
  if (piece == nullptr) return 0;
  const uint64_t end = piece->is_direct ? EndOfPlace(*piece, offset, out.data()) : piece->end;
  if (end <= offset) return 0;
  if (piece->state == State::kWaiting && piece->is_large && out.size() >= large_bytes_) {
    PassOver(*piece, offset + out.size());
    return 0;
  }
  if (piece->state == State::kWaiting) FetchFrom(piece, &lock);
  fetched_.wait(lock, [&] { return piece->state != State::kFetching; });
  if (piece->state != State::kHeld) return 0;
  const auto count = static_cast<size_t>(std::min<uint64_t>(out.size(), end - offset));
  if (!piece->is_direct) std::memcpy(out.data(), piece->bytes.get() + (offset - piece->begin), count);
  if (is_read_once_) piece->left -= std::min<uint64_t>(count, piece->left);
  if (piece->left == 0) Release(piece);
  return count;
}

// The end of the part of a direct piece whose byte at `offset` goes to `out`; 0 if there is none.
uint64_t AnnouncedReads::EndOfPlace(const Piece& piece, uint64_t offset, const char* out) {
  auto after = std::upper_bound(piece.parts.begin(), piece.parts.end(), offset,
                                [](uint64_t value, const ReadRange& part) { return value < part.offset; });
  if (after == piece.parts.begin()) return 0;
  const ReadRange& part = *--after;
  const uint64_t end = part.offset + part.out.size();
  return offset < end && out == part.out.data() + (offset - part.offset) ? end : 0;
}

AnnouncedReads::Piece* AnnouncedReads::Find(uint64_t offset) {
  auto after = std::upper_bound(by_offset_.begin(), by_offset_.end(), offset,
                                [&](uint64_t value, size_t i) { return value < pieces_[i].begin; });
  if (after == by_offset_.begin()) return nullptr;
  Piece& piece = pieces_[*--after];
  return offset < piece.end ? &piece : nullptr;
}

// The caller reads from `first` to `end` itself, straight to where the bytes go.
void AnnouncedReads::PassOver(const Piece& first, uint64_t end) {
  for (auto i = static_cast<size_t>(&first - pieces_.data()); i < pieces_.size(); ++i) {
    Piece& piece = pieces_[i];
    if (!piece.is_large || piece.state != State::kWaiting || piece.begin < first.begin || piece.end > end) return;
    piece.state = State::kDone;
  }
}

void AnnouncedReads::Release(Piece* piece) {
  if (piece->state != State::kWaiting) held_bytes_ -= MemoryOf(*piece);
  piece->state = State::kDone;
  const bool is_spare = piece->bytes != nullptr && piece->end - piece->begin > piece_bytes_ / 2;
  if (is_spare && spare_.size() < most_fetches_) spare_.push_back(std::move(piece->bytes));
  piece->bytes.reset();
  fetched_.notify_all();
  room_.notify_one();
}

// The caller fetches that piece, and the threads those after it.
void AnnouncedReads::FetchFrom(Piece* first, std::unique_lock<std::mutex>* lock) {
  const uint64_t size = MemoryOf(*first);
  first->state = State::kFetching;
  next_ = static_cast<size_t>(first - pieces_.data()) + 1;
  fetches_large_ = first->is_large;
  const auto has_room = [&] { return size <= most_bytes_ - held_bytes_; };
  while (!has_room()) {
    // Pieces of which only parts were read.
    for (size_t i = 0; i < pieces_.size() && !has_room(); ++i) {
      if (pieces_[i].state == State::kHeld) Release(&pieces_[i]);
    }
    if (!has_room()) fetched_.wait(*lock);
  }
  held_bytes_ += size;
  StartThreads();
  Fetch(first, lock);
}

// If the piece cannot be fetched, the caller of Read reads its bytes itself: then each error is that of the range that
// has it. So does an exception, which must not end a thread of this object, nor leave others waiting for the piece.
// Requires: the piece is counted in held_bytes_.
void AnnouncedReads::Fetch(Piece* piece, std::unique_lock<std::mutex>* lock) {
  ++fetches_;
  bool is_fetched = false;
  CatchExceptions([&] {
    is_fetched = FetchNow(piece, lock);
    return absl::OkStatus();
  }).IgnoreError();
  if (!lock->owns_lock()) lock->lock();
  --fetches_;
  piece->state = State::kHeld;
  fetched_.notify_all();
  room_.notify_one();
  if (!is_fetched) Release(piece);
  if (!is_fetched || !piece->is_direct || !tell_fetched_ || ends_) return;
  lock->unlock();
  tell_fetched_(piece->begin, piece->end);
  lock->lock();
}

// Asks for a piece whose memory is not known yet.
bool AnnouncedReads::FetchSoon(Piece* piece, std::unique_lock<std::mutex>* lock) {
  std::vector<ReadRange> parts = piece->parts;
  lock->unlock();
  const bool is_fetched = read_soon_(absl::MakeSpan(parts), [&] {
    std::unique_lock<std::mutex> waiting(mutex_);
    memory_told_.wait(waiting, [&] { return has_memory_ || ends_; });
    if (!has_memory_ || !HasMemory(*piece)) return false;
    std::copy(piece->parts.begin(), piece->parts.end(), parts.begin());
    return true;
  });
  lock->lock();
  return is_fetched;
}

bool AnnouncedReads::HasMemory(const Piece& piece) {
  return std::none_of(piece.parts.begin(), piece.parts.end(),
                      [](const ReadRange& part) { return part.out.data() == nullptr; });
}

void AnnouncedReads::SetMemory(absl::Span<char* const> memory) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (has_memory_) return;
  for (Piece& piece : pieces_) {
    for (size_t i = 0; i < piece.ranges.size(); ++i) {
      const auto& [number, place] = piece.ranges[i];
      absl::Span<char>& out = piece.parts[i].out;
      if (memory[number] != nullptr) out = absl::Span<char>(memory[number] + place, out.size());
    }
    if (piece.state == State::kWaiting && piece.is_direct && !HasMemory(piece)) piece.state = State::kDone;
  }
  has_memory_ = true;
  memory_told_.notify_all();
  fetched_.notify_all();
}

bool AnnouncedReads::FetchNow(Piece* piece, std::unique_lock<std::mutex>* lock) {
  if (piece->is_direct && !has_memory_ && !piece->ranges.empty()) return FetchSoon(piece, lock);
  if (piece->is_direct) {
    lock->unlock();
    const bool is_fetched = read_(piece->parts).ok();
    lock->lock();
    return is_fetched;
  }
  const auto size = static_cast<size_t>(piece->end - piece->begin);
  std::unique_ptr<char[]> bytes;
  if (size > piece_bytes_ / 2 && !spare_.empty()) {
    bytes = std::move(spare_.back());
    spare_.pop_back();
  }
  lock->unlock();
  const auto room = size > piece_bytes_ / 2 ? static_cast<size_t>(piece_bytes_) : size;
  if (bytes == nullptr) bytes.reset(new (std::nothrow) char[room]);
  const ReadRange whole = {piece->begin, absl::MakeSpan(bytes.get(), size)};
  const bool is_fetched = bytes != nullptr && read_(absl::MakeConstSpan(&whole, 1)).ok();
  lock->lock();
  piece->bytes = std::move(bytes);
  return is_fetched;
}

// Null if there is none, or no room for it. The caller fetches pieces, too, and a thread waits meanwhile: with one
// thread less, the last piece would often wait for a whole round of the others.
AnnouncedReads::Piece* AnnouncedReads::NextToFetch() {
  if (fetches_ >= most_fetches_) return nullptr;
  const auto is_wanted = [&](const Piece& piece) {
    return piece.state == State::kWaiting && (!piece.is_large || fetches_large_);
  };
  while (next_ < pieces_.size() && !is_wanted(pieces_[next_])) ++next_;
  if (next_ == pieces_.size()) return nullptr;
  Piece& piece = pieces_[next_];
  if (MemoryOf(piece) > most_bytes_ - held_bytes_) return nullptr;
  ++next_;
  return &piece;
}

bool AnnouncedReads::FetchOne() {
  std::shared_ptr<Announcement> after_this;
  {
    std::unique_lock<std::mutex> lock(mutex_);
    while (next_direct_ < pieces_.size() && !ends_ && owner_.IsThisProcess()) {
      Piece& piece = pieces_[next_direct_++];
      if (piece.state != State::kWaiting || !piece.is_direct) continue;
      piece.state = State::kFetching;
      ++fetches_of_others_;
      Fetch(&piece, &lock);
      --fetches_of_others_;
      fetched_.notify_all();
      return true;
    }
    after_this = after_this_;
  }
  return after_this != nullptr && after_this->FetchOne();
}

void AnnouncedReads::StartThreads() {
  if (ends_) return;
  const size_t wanted = after_this_ != nullptr ? most_fetches_ : std::min(most_fetches_, pieces_.size() - next_);
  // Where the system has no more threads, those that there are, and the caller, do the work.
  CatchExceptions([&] {
    while (threads_.size() < wanted) threads_.emplace_back([this] { Work(); });
    return absl::OkStatus();
  }).IgnoreError();
  room_.notify_all();
}

void AnnouncedReads::Work() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!ends_) {
    Piece* const piece = NextToFetch();
    if (piece == nullptr && next_ == pieces_.size() && after_this_ != nullptr && !is_all_taken_) {
      lock.unlock();
      const bool has_fetched = after_this_->FetchOne();
      lock.lock();
      is_all_taken_ = !has_fetched;
      continue;
    }
    if (piece == nullptr) {
      room_.wait(lock);
      continue;
    }
    piece->state = State::kFetching;
    held_bytes_ += MemoryOf(*piece);
    room_.notify_one();  // there may be room for another small piece
    Fetch(piece, &lock);
  }
}

}  // namespace tensorcask::internal
