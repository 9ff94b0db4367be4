// Matrix unit (AMX): common parts of the bfloat16 (`linear_amx.h`) and int8 (`linear_int8.h`) products.
#pragma once

#if defined(__AMX_TILE__) && defined(__linux__)
#define TILES 1  // matrix unit with tiles of 16 rows of 64 bytes
#include <sys/syscall.h>
#endif
#if defined(TILES) && defined(__AMX_BF16__) && defined(__AVX512BF16__)
#define TILES_BF16 1
#endif
#if defined(TILES) && defined(__AMX_INT8__) && defined(__AVX512VNNI__)
#define TILES_INT8 1
#endif

#ifdef TILES

#include <cstdint>

#include <immintrin.h>

namespace {

constexpr int TALL = 16;  // maximum rows of a tile

[[maybe_unused]] bool tiles_allowed() {  // the operating system saves tile registers on request only
  static const bool yes = syscall(SYS_arch_prctl, 0x1023 /* ARCH_REQ_XCOMP_PERM */, 18 /* XTILEDATA */) == 0;
  return yes;
}

// Compiler barrier: the compiler does not know which memory tile instructions read.
inline void written(const void* at) { asm volatile("" ::"r"(at) : "memory"); }

[[maybe_unused]] void shape_tiles(int rows) {  // tiles 0 to 3: sums, 4 and 5: weights, 6: x
  struct alignas(64) {
    uint8_t palette = 1, start = 0, unused[14] = {};
    uint16_t bytes[16] = {};
    uint8_t rows[16] = {};
  } shape;
  for (int t = 0; t < 7; t++) shape.bytes[t] = 64, shape.rows[t] = uint8_t(t == 4 || t == 5 ? TALL : rows);
  written(&shape);
  _tile_loadconfig(&shape);
}

}  // namespace

#endif
