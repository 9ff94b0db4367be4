// Aligned, growable array.
#pragma once

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

namespace {

template <class T>
class Block {  // aligned to a cache line; grows, never shrinks
 public:
  Block() = default;
  Block(const Block&) = delete;
  Block& operator=(Block&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(room_, other.room_);
    return *this;
  }
  Block(Block&& other) noexcept { *this = std::move(other); }
  ~Block() { ::operator delete(data_, LINE); }
  T* data() const { return data_; }
  T* reserve(size_t count, size_t kept = 0) {
    if (count > room_) {
      size_t room = std::max(count, room_ * 3 / 2);
      T* fresh = static_cast<T*>(::operator new(room * sizeof(T), LINE));
      if (kept) std::memcpy(fresh, data_, kept * sizeof(T));
      ::operator delete(data_, LINE);
      data_ = fresh;
      room_ = room;
    }
    return data_;
  }

 private:
  static constexpr std::align_val_t LINE{64};
  T* data_ = nullptr;
  size_t room_ = 0;
};

}  // namespace
