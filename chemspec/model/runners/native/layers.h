// Building blocks of transformer layers on the rows of a pass: linear layers, norms and attention.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "linear_amx.h"
#include "linear_int8.h"

namespace {

// y (rows, width) = x (rows, in) W' + b; panels are distributed over threads.
void linear(ThreadPool& pool, const Linear& layer, const float* x, int stride, int rows, float* y, int width, Epilogue mode, ConvertedInputs& inputs) {
  if (layer.kind == INT8) return int8_linear(pool, layer, x, stride, rows, y, width, mode, inputs);
  if (layer.kind == AMX_TILES) return amx_linear(pool, layer, x, stride, rows, y, width, mode, inputs.pieces);
  pool.parallel_for((layer.panels + PANELS_PER_TASK - 1) / PANELS_PER_TASK, [&](uint32_t part) {
    const int p = int(part) * PANELS_PER_TASK, some = std::min(PANELS_PER_TASK, layer.panels - p);
    const float* bias = layer.bias.data() + size_t(p) * PANEL;
    const size_t start = size_t(p) * layer.in * PANEL;
    float* to = y + size_t(p) * PANEL;
    const int columns = layer.out - p * PANEL;  // remaining columns; a panel may be wider
    if (layer.kind == FLOAT32) strips(x, stride, rows, layer.fp32.data() + start, layer.in, some, bias, to, width, columns, mode);
    if (layer.kind == BFLOAT16) strips_upcast(x, stride, rows, layer.bf16.data() + start, layer.in, some, bias, to, width, columns, mode);
  });
}

struct Norm {
  Block<float> scale, shift;
};

void normalise(const Norm& norm, const float* x, float* y, int width, float eps, bool centred) {
  Sixteen sum = {}, squares = {};
  for (int i = 0; centred && i < width; i += 16) sum = sum + load<Sixteen>(x + i);
  const float mean = total(sum) / width;
  for (int i = 0; i < width; i += 16) {
    Sixteen off = load<Sixteen>(x + i) - mean;
    squares = plus(squares, off, off);
  }
  const float shrink = 1.0f / std::sqrt(total(squares) / width + eps);
  for (int i = 0; i < width; i += 16) {
    Sixteen off = (load<Sixteen>(x + i) - mean) * shrink;
    store(y + i, plus(load<Sixteen>(norm.shift.data() + i), off, load<Sixteen>(norm.scale.data() + i)));
  }
}

// Attention of R rows (q, q + stride, ...) to the same `count` positions, with keys at `keys(i)` and values at `keys(i) + gap`;
// out: (R, width). Features are ordered so that lane l belongs to head l modulo heads. Results do not depend on R: rows are
// grouped only to read the keys once. bias: null, or relative position biases of the first row, 16 numbers per key; the rows
// have consecutive positions. shift: for one row alone, vectors `shift(i)` that are added to key and value.
struct Unshifted {};

template <int R, class Keys, class Shift = Unshifted>
void attend(const float* q, int stride, int count, const Keys& keys, int gap, float* out, int width, int heads, const float* bias, const Shift& shift = {}) {
  constexpr bool SHIFTED = !std::is_same_v<Shift, Unshifted>;
  static_assert(R == 1 || !SHIFTED);
  const auto shifted = [&](const float* from, int i, int at) {
    if constexpr (SHIFTED)
      return load<Sixteen>(from) + load<Sixteen>(shift(i) + at);
    else
      return load<Sixteen>(from);
  };
  constexpr int CHUNKS = std::max(1, (R == 1 ? 8 : 4) / PARTS);  // vectors of values at a time, limited by registers
  thread_local Block<float> buffer;
  float* scores = buffer.reserve(size_t(count) * R * 16);
  const float scale = 1.0f / std::sqrt(float(width / heads));
  Sixteen max_score[R], sum[R], inv_sum[R];
  for (int r = 0; r < R; r++) max_score[r] = splat(-INFINITY), sum[r] = Sixteen{};
  for (int i = 0; i < count; i++) {
    const float* key = keys(i);
    Sixteen even[R], odd[R];
    for (int r = 0; r < R; r++) even[r] = odd[r] = Sixteen{};
    int at = 0;
    for (; at + 32 <= width; at += 32) {
      const Sixteen left = shifted(key + at, i, at), right = shifted(key + at + 16, i, at + 16);
      UNROLL for (int r = 0; r < R; r++) {
        even[r] = plus(even[r], load<Sixteen>(q + r * stride + at), left);
        odd[r] = plus(odd[r], load<Sixteen>(q + r * stride + at + 16), right);
      }
    }
    UNROLL for (int r = 0; r < R; r++) {
      if (at < width) even[r] = plus(even[r], load<Sixteen>(q + r * stride + at), shifted(key + at, i, at));
      Sixteen score = fold(even[r] + odd[r], heads) * scale;
      if (bias) score = score + load<Sixteen>(bias + (ptrdiff_t(i) - r) * 16);
      max_score[r] = larger(score, max_score[r]);
      store(scores + (size_t(i) * R + r) * 16, score);
    }
  }
  for (int i = 0; i < count; i++) {
    UNROLL for (int r = 0; r < R; r++) {
      float* head_scores = scores + (size_t(i) * R + r) * 16;
      const Sixteen prob = exponential(load<Sixteen>(head_scores) - max_score[r]);
      sum[r] = sum[r] + prob;
      store(head_scores, prob);
    }
  }
  for (int r = 0; r < R; r++) inv_sum[r] = 1.0f / sum[r];
  for (int from = 0; from < width; from += CHUNKS * 16) {
    const int chunks = std::min(CHUNKS, (width - from) / 16);
    Sixteen mixed[R][CHUNKS] = {};
    for (int i = 0; i < count; i++) {
      const float *value = keys(i) + gap + from, *probs = scores + size_t(i) * R * 16;
      if (chunks == CHUNKS) {
        UNROLL for (int c = 0; c < CHUNKS; c++) {
          const Sixteen vector = shifted(value + c * 16, i, from + c * 16);
          UNROLL for (int r = 0; r < R; r++) mixed[r][c] = plus(mixed[r][c], load<Sixteen>(probs + r * 16), vector);
        }
      } else {
        for (int c = 0; c < chunks; c++)
          for (int r = 0; r < R; r++) mixed[r][c] = plus(mixed[r][c], load<Sixteen>(probs + r * 16), shifted(value + c * 16, i, from + c * 16));
      }
    }
    for (int r = 0; r < R; r++)
      for (int c = 0; c < chunks; c++) store(out + size_t(r) * width + from + c * 16, mixed[r][c] * inv_sum[r]);
  }
}

constexpr int TOGETHER = PARTS == 1 ? 4 : 2;  // rows of a query grouped to read its keys once, limited by registers

template <class Keys>
void attend(int rows, const float* q, int stride, int count, const Keys& keys, int gap, float* out, int width, int heads, const float* bias) {
  switch (rows) {
    case 1: return attend<1>(q, stride, count, keys, gap, out, width, heads, bias);
    case 2: return attend<2>(q, stride, count, keys, gap, out, width, heads, bias);
    case 3: return attend<std::min(3, TOGETHER)>(q, stride, count, keys, gap, out, width, heads, bias);
    default: return attend<TOGETHER>(q, stride, count, keys, gap, out, width, heads, bias);
  }
}

}  // namespace
