// Linear layers in int8: x and W are integers from -127 to 127 times a scale, dynamic per row of x and fixed per output. Four
// inputs are packed into 32 bits, as the instructions require. Each output is a 32-bit sum.
//
// `tests/programs/int8_reference.py` is the reference.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "linear.h"
#include "threads.h"

namespace {

constexpr int WIDE = 64, QUAD = 4;  // outputs of an int8 panel, inputs per 32-bit operand

inline int32_t quad(const uint8_t* x) {
  int32_t four;
  std::memcpy(&four, x, QUAD);
  return four;
}

// Adds the products of four inputs of a row, as prepared by `input`, with the weights of `OUTPUTS` outputs to the sums, by the
// fastest instructions of this processor. A register block is ROWS x VECTORS of these. SHIFT is added to the inputs if the
// instructions take unsigned ones; the initial values of the sums compensate for it. Inline assembly because GCC 12 copies the sums
// of the intrinsics between registers and spills them.
#if defined(__AVX512VNNI__)
struct Product {
  static constexpr int OUTPUTS = 16, VECTORS = 4, ROWS = 6, SHIFT = 128;
  typedef __m512i Sums, Weights, Input;
  static Input input(const uint8_t* x) { return _mm512_set1_epi32(quad(x)); }
  static void add(Sums& sums, Weights w, Input x) { asm("vpdpbusd %2, %1, %0" : "+v"(sums) : "v"(x), "v"(w)); }
};
#elif defined(__AVX2__)
struct Product {
  static constexpr int OUTPUTS = 8, VECTORS = 2;
  typedef __m256i Sums, Weights, Input;
  static Input input(const uint8_t* x) { return _mm256_set1_epi32(quad(x)); }
#if defined(__AVXVNNI__)
  static constexpr int ROWS = 6, SHIFT = 128;
  static void add(Sums& sums, Weights w, Input x) { asm("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sums) : "x"(x), "x"(w)); }
#else
  static constexpr int ROWS = 4, SHIFT = 0;
  // Adds pairs of byte products in 16 bits, where two of 127 x 127 just fit: |x| times w with the sign of x.
  static void add(Sums& sums, Weights w, Input x) {
    const __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(x), _mm256_sign_epi8(w, x));
    sums = _mm256_add_epi32(sums, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
  }
#endif
};
#elif defined(__ARM_FEATURE_DOTPROD)
struct Product {
  static constexpr int OUTPUTS = 4, VECTORS = 4, ROWS = 6, SHIFT = 0;
  typedef int32x4_t Sums;
  typedef int8x16_t Weights, Input;
  static Input input(const uint8_t* x) { return vreinterpretq_s8_s32(vdupq_n_s32(quad(x))); }
  static void add(Sums& sums, Weights w, Input x) { sums = vdotq_s32(sums, w, x); }
};
#else
struct Product {
  static constexpr int OUTPUTS = 16, VECTORS = 1, ROWS = 2, SHIFT = 0;
  typedef int32_t Sums __attribute__((vector_size(OUTPUTS * 4), may_alias));
  typedef int8_t Weights __attribute__((vector_size(OUTPUTS * 4), may_alias));
  typedef const uint8_t* Input;
  static Input input(const uint8_t* x) { return x; }
  static void add(Sums& sums, const Weights& w, Input x) {
    for (int o = 0; o < OUTPUTS; o++) {
      int32_t sum = 0;
      for (int i = 0; i < QUAD; i++) sum += int(int8_t(x[i])) * int(w[o * QUAD + i]);
      sums[o] += sum;
    }
  }
};
#endif

inline int quads(int in) { return (in + QUAD - 1) / QUAD; }

// Packs weights as (panels, quads of inputs, WIDE, QUAD).
void Linear::set_int8(int rows, int columns, const int8_t* weight, const float* row_scales, const float* offset) {
  out = rows, in = columns, panels = (rows + WIDE - 1) / WIDE, kind = INT8;
  const int padded = panels * WIDE;
  const size_t size = size_t(padded) * quads(in) * QUAD;
  std::memset(int8.reserve(size), 0, size);
  std::memset(starts.reserve(padded), 0, padded * sizeof(int32_t));
  std::memset(scales.reserve(padded), 0, padded * sizeof(float));
  std::memcpy(scales.data(), row_scales, out * sizeof(float));
  for (int row = 0; row < out; row++)
    for (int k = 0; k < in; k++) {
      const int8_t value = weight[size_t(row) * in + k];
      int8.data()[((size_t(row / WIDE) * quads(in) + k / QUAD) * WIDE + row % WIDE) * QUAD + k % QUAD] = value;
      starts.data()[row] -= Product::SHIFT * value;
    }
  set_bias(offset, padded);
}

inline void lowest_bytes(Lanes32 from, uint8_t* to) {
#if defined(__AVX512F__)
  _mm_storeu_si128((__m128i*)to, _mm512_cvtepi32_epi8((__m512i)from));
#else
  typedef uint8_t Bytes __attribute__((vector_size(LANES)));
  const Bytes bytes = __builtin_convertvector(from, Bytes);
  std::memcpy(to, &bytes, sizeof bytes);
#endif
}

// Quantises a row, adds `SHIFT` and returns its scale, which is NaN if the row contains NaN.
float quantise(const float* x, int in, uint8_t* to) {
  const int whole = in / LANES * LANES;
  Lanes even = {}, odd = {};
  // Absolute values are ordered like their bits, with NaN as the largest.
  const auto larger = [](Lanes x, Lanes y) { return (Lanes)((Lanes32)x > (Lanes32)y ? (Lanes32)x : (Lanes32)y); };
  const auto size = [](const float* from) { return (Lanes)((Lanes32)load<Lanes>(from) & 0x7fffffff); };
  int at = 0;
  for (; at + 2 * LANES <= whole; at += 2 * LANES) even = larger(size(x + at), even), odd = larger(size(x + at + LANES), odd);
  if (at < whole) even = larger(size(x + at), even);
  even = larger(even, odd);
  if (LANES > 8) even = larger(even, rotate<LANES / 2>(even));
  if (LANES > 4) even = larger(even, rotate<4>(even));
  even = larger(even, rotate<2>(even));
  float largest = larger(even, rotate<1>(even))[0];
  for (int i = whole; i < in; i++) largest = largest >= std::fabs(x[i]) || std::isnan(largest) ? largest : std::fabs(x[i]);
  const float factor = largest > 1e-30f ? 127.0f / largest : 0.0f;
  const float magic = 12582912.0f;  // adding it rounds to an integer, ties to even, in the lowest bits
  for (int i = 0; i < whole; i += LANES) {
    const Lanes32 bits = (Lanes32)(load<Lanes>(x + i) * factor + magic) + Product::SHIFT;
    lowest_bytes(bits, to + i);
  }
  for (int i = whole; i < quads(in) * QUAD; i++) {
    const float sum = (i < in ? x[i] * factor : 0.0f) + magic;
    int32_t bits;
    std::memcpy(&bits, &sum, sizeof bits);
    to[i] = uint8_t(bits + Product::SHIFT);
  }
  return largest / 127.0f;
}

// Computes the sums of R rows of P panels.
template <int R, int P>
inline void int8_sums(const uint8_t* x, int stride, const int8_t* w, int groups, const int32_t* starts, int32_t (*sums)[R][WIDE]) {
  constexpr int V = Product::VECTORS, O = Product::OUTPUTS;
  typedef Product::Sums Sums;
  typedef Product::Weights Weights;
  const size_t next = size_t(groups) * WIDE * QUAD;
  for (int part = 0; part < WIDE; part += V * O) {
    Sums sum[P][R][V];
    UNROLL for (int p = 0; p < P; p++)
      UNROLL for (int r = 0; r < R; r++)
        UNROLL for (int v = 0; v < V; v++) sum[p][r][v] = *reinterpret_cast<const Sums*>(starts + p * WIDE + part + v * O);
    const int8_t* at = w + part * QUAD;
    for (int g = 0; g < groups; g++, at += WIDE * QUAD) {
      Weights weights[P][V];
      UNROLL for (int p = 0; p < P; p++)
        UNROLL for (int v = 0; v < V; v++) weights[p][v] = *reinterpret_cast<const Weights*>(at + p * next + v * O * QUAD);
      UNROLL for (int r = 0; r < R; r++) {
        const Product::Input input = Product::input(x + size_t(r) * stride + g * QUAD);
        UNROLL for (int p = 0; p < P; p++)
          UNROLL for (int v = 0; v < V; v++) Product::add(sum[p][r][v], weights[p][v], input);
      }
    }
    UNROLL for (int p = 0; p < P; p++)
      UNROLL for (int r = 0; r < R; r++)
        UNROLL for (int v = 0; v < V; v++) *reinterpret_cast<Sums*>(sums[p][r] + part + v * O) = sum[p][r][v];
  }
}

// Quantised rows with their scales.
struct Int8Rows {
  const uint8_t* x;
  const float* scales;
  int count, stride;
};

// Stores the outputs of `some` rows of a panel: sum x scale of the row x scale of the output + bias.
inline void int8_outputs(const Linear& layer, const Int8Rows& rows, int first, int some, int panel, const int32_t (*sums)[WIDE], float* y,
                         int width, Epilogue mode) {
  for (int r = 0; r < some; r++)
    UNROLL for (int i = 0; i < WIDE; i += LANES) {
      const int output = panel * WIDE + i;
      Lanes32 whole;
      std::memcpy(&whole, sums[r] + i, sizeof whole);
      const Lanes value = __builtin_convertvector(whole, Lanes) * rows.scales[first + r] * load<Lanes>(layer.scales.data() + output);
      finish(value + load<Lanes>(layer.bias.data() + output), y + size_t(first + r) * width + output, layer.out - output, mode);
    }
}

// Computes `some` rows, at most R, of P panels, starting at `panel`.
template <int R, int P>
void int8_rows(int some, const Linear& layer, const Int8Rows& rows, int first, int panel, float* y, int width, Epilogue mode) {
  if constexpr (R > 1)
    if (some < R) return int8_rows<R - 1, P>(some, layer, rows, first, panel, y, width, mode);
  alignas(64) int32_t sums[P][R][WIDE];
  const int groups = quads(layer.in), start = panel * WIDE;
  int8_sums<R, P>(rows.x + size_t(first) * rows.stride, rows.stride, layer.int8.data() + size_t(start) * groups * QUAD, groups,
                           layer.starts.data() + start, sums);
  for (int p = 0; p < P; p++) int8_outputs(layer, rows, first, R, panel + p, sums[p], y, width, mode);
}

void int8_panels(const Linear& layer, const Int8Rows& rows, int from, int to, float* y, int width, Epilogue mode) {
  int panel = from;
  for (; rows.count == 1 && panel + 2 <= to; panel += 2)  // with one row two panels at a time, to hide the latency of dependent multiply-adds
    int8_rows<1, 2>(1, layer, rows, 0, panel, y, width, mode);
  for (; panel < to; panel++)
    for (int first = 0, left = (rows.count + Product::ROWS - 1) / Product::ROWS; left > 0; left--) {  // blocks of similar heights
      const int some = (rows.count - first + left - 1) / left;
      int8_rows<Product::ROWS, 1>(some, layer, rows, first, panel, y, width, mode);
      first += some;
    }
}

void int8_linear(ThreadPool& pool, const Linear& layer, const float* x, int stride, int count, float* y, int width, Epilogue mode, ConvertedInputs& inputs) {
  // Minimum work per task: rows to quantise, and products, where reading the weights costs as much as several rows.
  constexpr int ROUNDED = 16, PRODUCTS = 1 << 19, READING = 8;
  const int padded = quads(layer.in) * QUAD;
  uint8_t* to = inputs.int8.reserve(size_t(count) * padded);
  float* scales = inputs.scales.reserve(count);
  pool.parallel_for((count + ROUNDED - 1) / ROUNDED, [&](uint32_t part) {
    for (int row = int(part) * ROUNDED; row < std::min(count, (int(part) + 1) * ROUNDED); row++)
      scales[row] = quantise(x + size_t(row) * stride, layer.in, to + size_t(row) * padded);
  });
  const Int8Rows rows{to, scales, count, padded};
  const int some = std::max(1, std::min(layer.panels, int(PRODUCTS / (size_t(layer.in) * WIDE * (count + READING)))));
  pool.parallel_for((layer.panels + some - 1) / some, [&](uint32_t part) {
    int8_panels(layer, rows, int(part) * some, std::min(layer.panels, (int(part) + 1) * some), y, width, mode);
  });
}

}  // namespace
