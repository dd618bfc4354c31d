#include "serve/answer_cache.h"

namespace openwork::serve {

std::optional<Answer> AnswerCache::find(const std::string& key) {
  const std::lock_guard lock(mutex_);
  const auto place = places_.find(key);
  if (place == places_.end()) return std::nullopt;
  entries_.splice(entries_.begin(), entries_, place->second);
  return entries_.front().answer;
}

void AnswerCache::add(const std::string& key, const Answer& answer) {
  const std::lock_guard lock(mutex_);
  Entry entry{key, answer};
  if (places_.contains(key) || entry.bytes() > most_bytes_ / 4) return;
  bytes_ += entry.bytes();
  entries_.push_front(std::move(entry));
  places_[key] = entries_.begin();
  while (bytes_ > most_bytes_) drop_last();
}

void AnswerCache::drop_last() {
  bytes_ -= entries_.back().bytes();
  places_.erase(entries_.back().key);
  entries_.pop_back();
}

size_t AnswerCache::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace openwork::serve
