// The matrix unit's instructions (AMX) in plain C++, for tests on processors without one: `-include` it before a source.
// They do what Intel's manual says, but that denormals are not taken for zero in bfloat16; they abort where a tile is used that has
// no shape, and are slow.

#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace tiles_emulated {

struct Shape {
  uint8_t palette, start, unused[14];
  uint16_t bytes[16];
  uint8_t rows[16];
};
inline thread_local Shape shape = {};
inline thread_local uint8_t data[8][16][64];

inline void check(int tile) {
  if (shape.palette != 1 || !shape.rows[tile] || shape.rows[tile] > 16 || !shape.bytes[tile] || shape.bytes[tile] > 64) std::abort();
}
inline void configure(const void* from) {
  std::memcpy(&shape, from, sizeof shape);
  std::memset(data, 0, sizeof data);
}
inline void release() { shape = {}; }
inline void zero(int tile) {
  check(tile);
  std::memset(data[tile], 0, sizeof data[tile]);
}
inline void load(int tile, const void* from, long stride) {
  zero(tile);
  for (int row = 0; row < shape.rows[tile]; row++)
    std::memcpy(data[tile][row], static_cast<const char*>(from) + row * stride, shape.bytes[tile]);
}
inline void store(int tile, void* to, long stride) {
  check(tile);
  for (int row = 0; row < shape.rows[tile]; row++)
    std::memcpy(static_cast<char*>(to) + row * stride, data[tile][row], shape.bytes[tile]);
}
inline void fits(int to, int a, int b) {
  check(to), check(a), check(b);
  if (shape.rows[to] != shape.rows[a] || shape.bytes[to] != shape.bytes[b] || shape.bytes[a] != 4 * shape.rows[b]) std::abort();
}
inline float bfloat16(const uint8_t* from) {
  uint16_t half;
  std::memcpy(&half, from, 2);
  const uint32_t bits = uint32_t(half) << 16;
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}
inline void bfloat16_product(int to, int a, int b) {
  fits(to, a, b);
  for (int row = 0; row < shape.rows[to]; row++)
    for (int column = 0; column < shape.bytes[to] / 4; column++) {
      float sums[2] = {}, sum;  // of even and of odd inputs
      for (int k = 0; k < shape.bytes[a] / 2; k++)
        sums[k % 2] = __builtin_fmaf(bfloat16(data[a][row] + 2 * k), bfloat16(data[b][k / 2] + 4 * column + k % 2 * 2), sums[k % 2]);
      std::memcpy(&sum, data[to][row] + 4 * column, 4);
      sum += sums[0] + sums[1];
      std::memcpy(data[to][row] + 4 * column, &sum, 4);
    }
}

}  // namespace tiles_emulated

#undef _tile_loadconfig
#undef _tile_release
#undef _tile_zero
#undef _tile_loadd
#undef _tile_stored
#undef _tile_dpbf16ps
#define _tile_loadconfig(from) tiles_emulated::configure(from)
#define _tile_release() tiles_emulated::release()
#define _tile_zero(tile) tiles_emulated::zero(tile)
#define _tile_loadd(tile, from, stride) tiles_emulated::load(tile, from, stride)
#define _tile_stored(tile, to, stride) tiles_emulated::store(tile, to, stride)
#define _tile_dpbf16ps(to, a, b) tiles_emulated::bfloat16_product(to, a, b)
#define syscall(...) 0L  // the system allows it

#define __AMX_TILE__ 1
#define __AMX_BF16__ 1
