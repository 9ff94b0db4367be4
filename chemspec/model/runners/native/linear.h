// Linear layers, y = x W' + b, in fp32, from weights in fp32 or bfloat16.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <new>
#include <type_traits>
#include <utility>

#include "vectors.h"

namespace {

template <class T>
class Block {  // array aligned to a cache line; grows, never shrinks
 public:
  Block() = default;
  Block(const Block&) = delete;
  Block& operator=(Block&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(capacity_, other.capacity_);
    return *this;
  }
  Block(Block&& other) noexcept { *this = std::move(other); }
  ~Block() { ::operator delete(data_, LINE); }
  T* data() const { return data_; }
  T* reserve(size_t count, size_t kept = 0) {
    if (count > capacity_) {
      size_t capacity = std::max(count, capacity_ * 3 / 2);
      T* fresh = static_cast<T*>(::operator new(capacity * sizeof(T), LINE));
      if (kept) std::memcpy(fresh, data_, kept * sizeof(T));
      ::operator delete(data_, LINE);
      data_ = fresh;
      capacity_ = capacity;
    }
    return data_;
  }

 private:
  static constexpr std::align_val_t LINE{64};
  T* data_ = nullptr;
  size_t capacity_ = 0;
};

// use of x W' + b: store it, store its activation, add it to the output, or multiply the output by it
enum Epilogue { KEEP, RELU, GELU, GELU_TANH, ADD, TIMES, SILU };

enum Kind { FLOAT32, BFLOAT16, AMX_TILES, INT8 };  // weight format; AMX_TILES: bfloat16 in tile order

struct Linear {
  int in = 0, out = 0, panels = 0;
  Kind kind = FLOAT32;
  Block<float> fp32, bias;  // fp32: (panels, in, PANEL)
  Block<BF16> bf16;         // the same in bfloat16, or in tiles, see `pack_tiles`
  Block<int8_t> int8;       // see `set_int8`
  Block<int32_t> starts;    // int8: initial value of each output's sum
  Block<float> scales;      // int8: scale of each output

  // weight (rows, columns); weight16: the same in bfloat16 if that is exact, else null.
  void set(int rows, int columns, const float* weight, const float* offset, const BF16* weight16) {
    out = rows, in = columns, panels = (rows + PANEL - 1) / PANEL;
    kind = !weight16 ? FLOAT32 : pack_tiles(weight16) ? AMX_TILES : BFLOAT16;
    if (kind == FLOAT32) pack(fp32, weight);
    if (kind == BFLOAT16) pack(bf16, weight16);
    set_bias(offset, panels * PANEL);
  }
  void set_int8(int rows, int columns, const int8_t* weight, const float* row_scales, const float* offset);

 private:
  void set_bias(const float* offset, int size) {
    float* to = bias.reserve(size);
    for (int i = 0; i < size; i++) to[i] = offset && i < out ? offset[i] : 0.0f;
  }
  bool pack_tiles(const BF16* from);
  static int column_offset(int column, const float*) { return column; }
  static int column_offset(int column, const BF16*) {
    return column / (2 * LANES) * 2 * LANES + column % LANES * 2 + column / LANES % 2;
  }
  template <class T>
  void pack(Block<T>& block, const T* from) {
    const size_t size = size_t(panels) * in * PANEL;
    T* to = block.reserve(size);
    std::memset(to, 0, size * sizeof(T));
    for (int row = 0; row < out; row++)
      for (int k = 0; k < in; k++)
        to[(size_t(row / PANEL) * in + k) * PANEL + column_offset(row % PANEL, from)] = from[size_t(row) * in + k];
  }
};

// Buffer for the converted inputs of a linear layer: bfloat16 parts for AMX, or int8 with a scale per row.
struct ConvertedInputs {
  Block<BF16> pieces;
  Block<uint8_t> int8;
  Block<float> scales;
};

// x / (1 + e^-x), from e^-|x|.
inline Lanes silu(Lanes x) {
  const Lanes small = exponential(x < 0.0f ? x : -x);
  return (x < 0.0f ? x * small : x) / (small + 1.0f);
}

// Tanh approximation of GELU: x / (1 + e^-u), u = 2 sqrt(2 / pi) (x + 0.044715 x^3), from e^-|u|.
inline Lanes gelu_tanh(Lanes x) {
  const Lanes u = x * (x * x * 0.044715f + 1.0f) * 1.5957691f;
  const Lanes small = exponential(u < 0.0f ? u : -u);
  return x * (u < 0.0f ? small : Lanes{} + 1.0f) / (small + 1.0f);
}

// Applies `mode` to a vector of outputs and stores the valid ones: the last panel may end in padding.
inline void finish(Lanes value, float* to, int valid, Epilogue mode) {
  if (valid <= 0) return;
  if (mode == RELU) value = value <= 0.0f ? Lanes{} : value;  // NaN stays NaN
  if (mode == GELU)
    for (int i = 0; i < LANES; i++) value[i] = 0.5f * value[i] * (1.0f + float(std::erf(double(value[i] * 0.70710678f))));
  if (mode == GELU_TANH) value = gelu_tanh(value);
  if (mode == SILU) value = silu(value);
  if (valid < LANES) {
    for (int i = 0; i < valid; i++) to[i] = mode == ADD ? to[i] + value[i] : mode == TIMES ? to[i] * value[i] : value[i];
    return;
  }
  if (mode == ADD) value = load<Lanes>(to) + value;
  if (mode == TIMES) value = load<Lanes>(to) * value;
  store(to, value);
}

// Adds the bias to the sums of one row of a panel, applies `mode`, and stores the first `columns`.
inline void epilogue(const Lanes* sums, const float* bias, float* to, int columns, Epilogue mode) {
  UNROLL for (int v = 0; v < VECTORS; v++) finish(sums[v] + load<Lanes>(bias + v * LANES), to + v * LANES, columns - v * LANES, mode);
}

// Register block: sums of R rows x P panels. Each sum adds its products in the order of the inputs, independent of R and P.
template <int R, int P, class W>
void register_block(const float* x, int stride, const W* w, int in, const float* bias, float* y, int width, int columns, Epilogue mode) {
  Lanes sums[P][R][VECTORS];
  for (auto& panel : sums)
    for (auto& row : panel)
      for (auto& sum : row) sum = Lanes{};
  const size_t next = size_t(in) * PANEL;
  for (int k = 0; k < in; k++, w += PANEL) {
    UNROLL for (int p = 0; p < P; p++) {
      Lanes column[VECTORS];
      read(w + p * next, column);
      UNROLL for (int r = 0; r < R; r++) {
        const float one = x[size_t(r) * stride + k];
        UNROLL for (int v = 0; v < VECTORS; v++) sums[p][r][v] = fused(sums[p][r][v], one - Lanes{}, column[v]);
      }
    }
  }
  for (int p = 0; p < P; p++)
    for (int r = 0; r < R; r++) epilogue(sums[p][r], bias + p * PANEL, y + size_t(r) * width + p * PANEL, columns - p * PANEL, mode);
}

// R rows of `panels` panels; with few rows several panels at a time, to hide the latency of dependent multiply-adds.
template <int R, class W>
void strip(const float* x, int stride, const W* w, int in, int panels, const float* bias, float* y, int width, int columns, Epilogue mode) {
  constexpr int P = std::max(1, 8 / (R * VECTORS));
  int p = 0;
  const auto at = [&](auto many) {
    register_block<R, decltype(many)::value>(x, stride, w + size_t(p) * in * PANEL, in, bias + p * PANEL, y + p * PANEL, width, columns - p * PANEL, mode);
    p += many;
  };
  while (p + P <= panels) at(std::integral_constant<int, P>());
  while (p < panels) at(std::integral_constant<int, 1>());
}

template <class W>
void strips(const float* x, int stride, int rows, const W* w, int in, int panels, const float* bias, float* y, int width, int columns, Epilogue mode) {
  for (int left = (rows + ROWS - 1) / ROWS; left > 0; left--) {  // blocks of similar heights, since low ones are slow
    const int some = (rows + left - 1) / left;
    switch (some) {
      case 6: strip<6>(x, stride, w, in, panels, bias, y, width, columns, mode); break;
      case 5: strip<5>(x, stride, w, in, panels, bias, y, width, columns, mode); break;
      case 4: strip<4>(x, stride, w, in, panels, bias, y, width, columns, mode); break;
      case 3: strip<3>(x, stride, w, in, panels, bias, y, width, columns, mode); break;
      case 2: strip<2>(x, stride, w, in, panels, bias, y, width, columns, mode); break;
      default: strip<1>(x, stride, w, in, panels, bias, y, width, columns, mode);
    }
    rows -= some, x += size_t(some) * stride, y += size_t(some) * width;
  }
}

// Like `strips`, for bfloat16 weights: for many rows, a panel is converted to fp32 once for all of them.
void strips_upcast(const float* x, int stride, int rows, const BF16* w, int in, int panels, const float* bias, float* y, int width, int columns, Epilogue mode) {
  if (rows <= UPCAST_ROW_LIMIT) return strips(x, stride, rows, w, in, panels, bias, y, width, columns, mode);
  thread_local Block<float> upcast;
  const size_t count = size_t(in) * PANEL;
  float* floats = upcast.reserve(count);
  for (int p = 0; p < panels; p++, w += count) {
    for (size_t i = 0; i < count; i += PANEL) {
      Lanes column[VECTORS];
      read(w + i, column);
      for (int v = 0; v < VECTORS; v++) store(floats + i + v * LANES, column[v]);
    }
    strips(x, stride, rows, floats, in, 1, bias + p * PANEL, y + p * PANEL, width, columns - p * PANEL, mode);
  }
}

}  // namespace
