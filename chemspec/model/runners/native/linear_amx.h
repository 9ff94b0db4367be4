// Linear layers with bfloat16 weights on the matrix unit (AMX), as exact as in fp32.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "linear.h"
#include "threads.h"

#if defined(__AMX_TILE__) && defined(__AMX_BF16__) && defined(__AVX512BF16__) && defined(__linux__)

#include <immintrin.h>
#include <sys/syscall.h>

namespace {

constexpr int TALL = 16;  // maximum rows of a tile, which has 64 bytes a row

bool tiles_allowed() {  // the operating system saves tile registers on request only
  static const bool yes = syscall(SYS_arch_prctl, 0x1023 /* ARCH_REQ_XCOMP_PERM */, 18 /* XTILEDATA */) == 0;
  return yes;
}

// Compiler barrier: the compiler does not know which memory tile instructions read.
inline void written(const void* at) { asm volatile("" ::"r"(at) : "memory"); }

void shape_tiles(int rows) {  // tiles 0 to 3: sums, 4 and 5: weights, 6: x
  struct alignas(64) {
    uint8_t palette = 1, start = 0, unused[14] = {};
    uint16_t bytes[16] = {};
    uint8_t rows[16] = {};
  } shape;
  for (int t = 0; t < 7; t++) shape.bytes[t] = 64, shape.rows[t] = uint8_t(t == 4 || t == 5 ? TALL : rows);
  written(&shape);
  _tile_loadconfig(&shape);
}

// A product takes rows of x (16 x 32), weights (32 x 16, as 16 pairs of inputs x 16 outputs x 2) and adds to sums (16 x 16 in
// fp32). Each row of the sums depends on its row of x only, not on the number of rows.
constexpr int DEEP = 32, TILE = TALL * DEEP, PIECES = 3;

// Packed as (panels, blocks of inputs, VECTORS, TILE).
bool Linear::pack_tiles(const BF16* from) {
  if (!tiles_allowed()) return false;
  const int blocks = (in + DEEP - 1) / DEEP;
  const size_t size = size_t(panels) * blocks * VECTORS * TILE;
  BF16* to = bf16.reserve(size);
  std::memset(to, 0, size * sizeof(BF16));
  for (int row = 0; row < out; row++)
    for (int k = 0; k < in; k++) {
      const size_t which = (size_t(row / PANEL) * blocks + k / DEEP) * VECTORS + row % PANEL / LANES;
      to[which * TILE + k % DEEP / 2 * DEEP + row % LANES * 2 + k % 2] = from[size_t(row) * in + k];
    }
  return true;
}

// Splits a row of fp32 into three rows of bfloat16 that sum to it; `to` is (blocks of inputs, PIECES, TILE), one row of each tile.
void split_bf16(const float* x, int in, BF16* to) {
  for (int k = 0; k < in; k += DEEP, to += PIECES * TILE) {
    const int left = in - k;
    __m512 low = _mm512_maskz_loadu_ps(left >= 16 ? 0xffff : (1u << left) - 1, x + k);
    __m512 high = left > 16 ? _mm512_maskz_loadu_ps(left >= 32 ? 0xffff : (1u << (left - 16)) - 1, x + k + 16) : _mm512_setzero_ps();
    for (int piece = 0; piece < PIECES; piece++) {
      const __m512i both = (__m512i)_mm512_cvtne2ps_pbh(high, low);
      _mm512_store_si512(to + piece * TILE, both);
      low = _mm512_sub_ps(low, (__m512)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm512_castsi512_si256(both)), 16));
      high = _mm512_sub_ps(high, (__m512)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(both, 1)), 16));
    }
  }
}

// A macro because tile numbers are immediate operands.
#define TWO_SUMS(left, right, weight, pieces)   \
  _tile_loadd(4, weight, 64);                   \
  _tile_loadd(5, weight + TILE, 64);            \
  for (int piece = 0; piece < PIECES; piece++) { \
    _tile_loadd(6, pieces + piece * TILE, 64);  \
    _tile_dpbf16ps(left, 6, 4);                 \
    _tile_dpbf16ps(right, 6, 5);                \
  }

// One panel of outputs, from the result of `split_bf16`: (blocks of rows, blocks of inputs, PIECES, TILE).
void amx_panel(const BF16* pieces, int rows, const BF16* w, int in, const float* bias, float* y, int width, int columns, Epilogue mode) {
  static_assert(VECTORS == 4 && LANES == TALL, "four sums a panel");
  alignas(64) float sums[TALL][PANEL];
  const int blocks = (in + DEEP - 1) / DEEP;
  written(pieces);
  for (int row = 0; row < rows; row += TALL, y += size_t(TALL) * width) {
    const int some = std::min(TALL, rows - row);
    if (row == 0 || some < TALL) shape_tiles(some);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    const BF16* weight = w;
    for (int block = 0; block < blocks; block++, weight += VECTORS * TILE, pieces += PIECES * TILE) {
      TWO_SUMS(0, 1, weight, pieces)
      TWO_SUMS(2, 3, weight + 2 * TILE, pieces)
    }
    _tile_stored(0, sums[0], sizeof sums[0]);
    _tile_stored(1, sums[0] + 16, sizeof sums[0]);
    _tile_stored(2, sums[0] + 32, sizeof sums[0]);
    _tile_stored(3, sums[0] + 48, sizeof sums[0]);
    for (int r = 0; r < some; r++) epilogue(reinterpret_cast<const Lanes*>(sums[r]), bias, y + size_t(r) * width, columns, mode);
  }
  _tile_release();
}

void amx_linear(ThreadPool& pool, const Linear& layer, const float* x, int stride, int rows, float* y, int width, Epilogue mode, Block<BF16>& room) {
  const size_t blocks = (layer.in + DEEP - 1) / DEEP, tall = (rows + TALL - 1) / TALL;
  BF16* pieces = room.reserve(tall * blocks * PIECES * TILE);
  const auto apart = [&](uint32_t part) {
    for (int row = int(part) * TALL; row < std::min(rows, int(part + 1) * TALL); row++)
      split_bf16(x + size_t(row) * stride, layer.in, pieces + size_t(part) * blocks * PIECES * TILE + row % TALL * DEEP);
  };
  pool.parallel_for(uint32_t(tall), apart);
  pool.parallel_for(layer.panels, [&](uint32_t p) {
    amx_panel(pieces, rows, layer.bf16.data() + p * blocks * VECTORS * TILE, layer.in, layer.bias.data() + size_t(p) * PANEL,
                y + size_t(p) * PANEL, width, std::min(PANEL, layer.out - int(p) * PANEL), mode);
  });
}

}  // namespace

#else

namespace {

bool Linear::pack_tiles(const BF16*) { return false; }
void amx_linear(ThreadPool&, const Linear&, const float*, int, int, float*, int, Epilogue, Block<BF16>&) {}

}  // namespace

#endif
