#include "tensorcask/serialize/io/internal/announced_reads.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

namespace tensorcask::internal {

AnnouncedReads::AnnouncedReads(absl::Span<const FileRange> ranges, const ReadShape& shape,
                               const AnnounceOptions& options, ReadMany read)
    : piece_bytes_(shape.piece_bytes),
      gap_bytes_(std::min(shape.gap_bytes, options.max_gap_bytes)),
      most_bytes_(shape.piece_bytes * static_cast<uint64_t>(shape.in_flight)),
      large_bytes_(most_bytes_ / 2),
      is_read_once_(options.is_read_once),
      read_(std::move(read)) {
  for (const FileRange& range : ranges) AddToPieces(range.offset, range.size_bytes);
  by_offset_.resize(pieces_.size());
  for (size_t i = 0; i < by_offset_.size(); ++i) by_offset_[i] = i;
  std::sort(by_offset_.begin(), by_offset_.end(),
            [&](size_t a, size_t b) { return pieces_[a].begin < pieces_[b].begin; });
}

// Joins the range to the last piece if it lies in it or not far behind it, and begins new pieces where that is full.
void AnnouncedReads::AddToPieces(uint64_t offset, uint64_t size_bytes) {
  const uint64_t end = offset + size_bytes;
  const bool is_large = size_bytes >= large_bytes_;
  while (offset < end) {
    const bool joins = !is_large && !pieces_.empty() && !pieces_.back().is_large && offset >= pieces_.back().begin &&
                       offset < pieces_.back().begin + piece_bytes_ &&
                       (offset <= pieces_.back().end || offset - pieces_.back().end <= gap_bytes_);
    if (!joins) {
      pieces_.emplace_back();
      pieces_.back().begin = offset;
      pieces_.back().is_large = is_large;
    }
    Piece& piece = pieces_.back();
    const uint64_t now = std::min(end, piece.begin + piece_bytes_) - offset;
    piece.left += now;
    piece.end = std::max(piece.end, offset + now);
    offset += now;
  }
}

size_t AnnouncedReads::Read(uint64_t offset, absl::Span<char> out) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Piece* const piece = Find(offset);
  if (piece == nullptr) return 0;
  if (piece->state == State::kWaiting && piece->is_large && out.size() >= large_bytes_) {
    PassOver(*piece, offset + out.size());
    return 0;
  }
  if (piece->state == State::kWaiting) FetchFrom(static_cast<size_t>(piece - pieces_.data()));
  if (piece->state != State::kHeld) return 0;
  const auto count = static_cast<size_t>(std::min<uint64_t>(out.size(), piece->end - offset));
  std::memcpy(out.data(), piece->bytes.get() + (offset - piece->begin), count);
  if (is_read_once_) piece->left -= std::min<uint64_t>(count, piece->left);
  if (piece->left == 0) Release(piece);
  return count;
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
  if (piece->state == State::kHeld) held_bytes_ -= piece->end - piece->begin;
  piece->state = State::kDone;
  piece->bytes.reset();
}

// Fetches that piece and those after it. If one of them cannot be fetched, the caller reads all of them itself: then
// each error is that of the range that has it.
void AnnouncedReads::FetchFrom(size_t first) {
  // Pieces of which only parts were read.
  for (size_t i = 0; i < pieces_.size() && held_bytes_ > most_bytes_ / 2; ++i) {
    if (i != first && pieces_[i].state == State::kHeld) Release(&pieces_[i]);
  }
  std::vector<Piece*> pieces;
  std::vector<ReadRange> ranges;
  uint64_t fetched_bytes = 0;
  for (size_t i = first; i < pieces_.size(); ++i) {
    Piece& piece = pieces_[i];
    if (piece.state != State::kWaiting || (piece.is_large && !pieces_[first].is_large)) continue;
    const auto size = static_cast<size_t>(piece.end - piece.begin);
    if (size > most_bytes_ - held_bytes_ - fetched_bytes) break;
    piece.bytes.reset(new (std::nothrow) char[size]);
    if (piece.bytes == nullptr) break;
    fetched_bytes += size;
    pieces.push_back(&piece);
    ranges.push_back({piece.begin, absl::MakeSpan(piece.bytes.get(), size)});
  }
  const bool is_fetched = !ranges.empty() && read_(ranges).ok();
  for (Piece* const piece : pieces) {
    piece->state = State::kHeld;
    held_bytes_ += piece->end - piece->begin;
    if (!is_fetched) Release(piece);
  }
}

}  // namespace tensorcask::internal
