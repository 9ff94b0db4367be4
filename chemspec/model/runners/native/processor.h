// Whether the processor at hand has the instructions that the kernel is compiled for, and a matrix unit (AMX).
//
// A prebuilt kernel is asked this before anything else of it runs, so there must be no vectors here.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

namespace {

enum Processor { SUITABLE = 1, MATRIX_UNIT = 2 };

#if defined(__x86_64__)
struct Registers {
  uint32_t a = 0, b = 0, c = 0, d = 0;
};

inline Registers cpuid(uint32_t leaf, uint32_t part) {
  Registers r;
  if (__get_cpuid_max(leaf & 0x80000000u, nullptr) >= leaf) __cpuid_count(leaf, part, r.a, r.b, r.c, r.d);
  return r;
}

inline uint32_t saved_registers() {  // which the operating system saves: bits of XCR0
  uint32_t low = 0, high = 0;
  if (cpuid(1, 0).c >> 27 & 1) asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

inline bool all(uint32_t bits, uint32_t wanted) { return (bits & wanted) == wanted; }

inline int processor() {
  const uint32_t saved = saved_registers();
  const Registers first = cpuid(1, 0), seventh = cpuid(7, 0), more = cpuid(7, 1);
  bool suitable = true;
#if defined(__AVX2__)  // x86-64-v3: FMA, MOVBE, F16C; BMI1, AVX2, BMI2; LZCNT
  suitable = suitable && all(saved, 0x6) && all(first.c, 1u << 12 | 1u << 22 | 1u << 29) && all(seventh.b, 1u << 3 | 1u << 5 | 1u << 8) &&
             all(cpuid(0x80000001u, 0).c, 1u << 5);
#endif
#if defined(__AVX512F__)  // x86-64-v4: AVX512 F, DQ, CD, BW, VL
  suitable = suitable && all(saved, 0xe6) && all(seventh.b, 1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31);
#endif
#if defined(__AVX512VNNI__)
  suitable = suitable && all(seventh.c, 1u << 11);
#endif
  // AMX: tiles and bfloat16, and AVX512-BF16 to convert to it.
  const bool tiles = all(saved, 0x60000) && all(seventh.d, 1u << 22 | 1u << 24) && all(more.a, 1u << 5);
  return (suitable ? SUITABLE : 0) | (tiles ? MATRIX_UNIT : 0);
}
#elif defined(__aarch64__) && defined(__linux__) && defined(__ARM_FEATURE_DOTPROD)
inline int processor() { return getauxval(AT_HWCAP) >> 20 & 1 ? SUITABLE : 0; }
#else
inline int processor() { return SUITABLE; }
#endif

}  // namespace
