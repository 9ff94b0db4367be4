// SIMD vectors of one register, and vectors of sixteen numbers in one or more registers.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#define UNROLL _Pragma("GCC unroll 8")  // before a loop over the registers of a block

namespace {

#if defined(__AVX512F__)
constexpr int LANES = 16, VECTORS = 4;  // numbers per vector, vectors per panel: 6 rows x 4 vectors of sums in 32 registers
#elif defined(__AVX2__)
constexpr int LANES = 8, VECTORS = 2;  // 6 x 2 in 16 registers
#else
constexpr int LANES = 4, VECTORS = 4;
#endif
constexpr int PANEL = LANES * VECTORS;  // outputs of a linear layer that a register block computes, packed together
constexpr int ROWS = 6;  // maximum rows of a register block
constexpr int UPCAST_ROW_LIMIT = 6 * ROWS;  // up to this many rows, 16-bit weights are converted to fp32 in registers at each use
constexpr int PANELS_PER_TASK = 64 / PANEL;  // less work is not worth distributing over threads

typedef float Lanes __attribute__((vector_size(LANES * 4)));
typedef int32_t Lanes32 __attribute__((vector_size(LANES * 4)));

template <class V>
inline V load(const float* from) {
  V value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <class V>
inline void store(float* to, V value) {
  std::memcpy(to, &value, sizeof value);
}

struct BF16 {  // bfloat16, the upper half of an fp32 number
  uint16_t bits;
};

// sum + x y, fused if the processor supports it
inline Lanes fused(Lanes sum, Lanes x, Lanes y) {
#if defined(__AVX512F__)
  return (Lanes)_mm512_fmadd_ps((__m512)x, (__m512)y, (__m512)sum);
#elif defined(__AVX2__) && defined(__FMA__)
  return (Lanes)_mm256_fmadd_ps((__m256)x, (__m256)y, (__m256)sum);
#elif defined(__aarch64__)
  return (Lanes)vfmaq_f32((float32x4_t)sum, (float32x4_t)x, (float32x4_t)y);
#else
  return sum + x * y;
#endif
}

// Weights of one input for a panel.
inline void read(const float* from, Lanes* columns) {
  UNROLL for (int v = 0; v < VECTORS; v++) columns[v] = load<Lanes>(from + v * LANES);
}
// Two vectors are interleaved, see `Linear::column_offset`: lower 16 bits for the first, upper 16 bits for the second.
inline void read(const BF16* from, Lanes* columns) {
  UNROLL for (int v = 0; v < VECTORS; v += 2, from += 2 * LANES) {
    Lanes32 both;
    std::memcpy(&both, from, sizeof both);
    columns[v] = (Lanes)(both << 16);
    columns[v + 1] = (Lanes)(both & int32_t(0xffff0000));
  }
}

// e^x for x <= 0, relative error below 2e-7: x = n ln 2 + r, and a polynomial for e^r.
inline Lanes exponential(Lanes x) {
  x = x < -87.0f ? Lanes{} - 87.0f : x;
  const Lanes magic = Lanes{} + 12582912.0f;  // adding it rounds to an integer
  Lanes n = (x * 1.44269504f + magic) - magic;
  Lanes r = x - n * 0.693359375f;
  r = r + n * 2.12194440e-4f;
  Lanes p = Lanes{} + 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  return p * (Lanes)((__builtin_convertvector(n, Lanes32) + 127) << 23);
}

template <int BY>
inline Lanes rotate(Lanes x) {  // lane i of the result is lane i + BY of x
  Lanes32 source_lanes;
  for (int i = 0; i < LANES; i++) source_lanes[i] = (i + BY) % LANES;
#if defined(__clang__)
  Lanes y;
  for (int i = 0; i < LANES; i++) y[i] = x[source_lanes[i]];
  return y;
#else
  return __builtin_shuffle(x, source_lanes);
#endif
}

// Sixteen numbers, used everywhere except in linear layers, in one or more registers: compilers split vectors wider than a
// register into scalars for anything but plain arithmetic.
constexpr int PARTS = 16 / LANES;

struct Sixteen {
  Lanes parts[PARTS];

  float operator[](int lane) const { return parts[lane / LANES][lane % LANES]; }
};

template <class Work>
inline Sixteen each_part(const Work& work) {
  Sixteen all;
  UNROLL for (int i = 0; i < PARTS; i++) all.parts[i] = work(i);
  return all;
}

// Copied by registers: compilers copy the whole struct in smaller pieces, which stalls the next load.
template <>
inline Sixteen load<Sixteen>(const float* from) {
  return each_part([=](int i) { return load<Lanes>(from + i * LANES); });
}
inline void store(float* to, const Sixteen& value) {
  UNROLL for (int i = 0; i < PARTS; i++) store(to + i * LANES, value.parts[i]);
}
inline Sixteen splat(float value) {
  return each_part([=](int) { return value - Lanes{}; });  // minus, because x + 0 is not removed by compilers: -0 + 0 is 0
}
inline Sixteen operator+(const Sixteen& x, const Sixteen& y) { return each_part([&](int i) { return x.parts[i] + y.parts[i]; }); }
inline Sixteen operator-(const Sixteen& x, const Sixteen& y) { return each_part([&](int i) { return x.parts[i] - y.parts[i]; }); }
inline Sixteen operator*(const Sixteen& x, const Sixteen& y) { return each_part([&](int i) { return x.parts[i] * y.parts[i]; }); }
inline Sixteen operator-(const Sixteen& x, float y) { return each_part([&](int i) { return x.parts[i] - y; }); }
inline Sixteen operator*(const Sixteen& x, float y) { return each_part([&](int i) { return x.parts[i] * y; }); }
inline Sixteen operator/(float x, const Sixteen& y) { return each_part([&](int i) { return x / y.parts[i]; }); }
inline Sixteen larger(const Sixteen& x, const Sixteen& y) { return each_part([&](int i) { return x.parts[i] > y.parts[i] ? x.parts[i] : y.parts[i]; }); }
inline Sixteen exponential(const Sixteen& x) { return each_part([&](int i) { return exponential(x.parts[i]); }); }
// x + y z
inline Sixteen plus(const Sixteen& x, const Sixteen& y, const Sixteen& z) { return each_part([&](int i) { return x.parts[i] + y.parts[i] * z.parts[i]; }); }

template <int BY>
inline Sixteen fold_by(const Sixteen& x) {
  if constexpr (BY >= LANES)
    return each_part([&](int i) { return x.parts[i] + x.parts[(i + BY / LANES) % PARTS]; });
  else
    return each_part([&](int i) { return x.parts[i] + rotate<BY>(x.parts[i]); });
}

// In every lane, the sum of all lanes with the same index modulo `heads`.
inline Sixteen fold(Sixteen x, int heads) {
  if (heads <= 8) x = fold_by<8>(x);
  if (heads <= 4) x = fold_by<4>(x);
  if (heads <= 2) x = fold_by<2>(x);
  if (heads <= 1) x = fold_by<1>(x);
  return x;
}

inline float total(const Sixteen& x) { return fold(x, 1)[0]; }

}  // namespace
