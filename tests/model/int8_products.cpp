// Compares linear layers in int8 by all instructions that are here with plain C++, bit for bit, over many shapes. Prints what was
// compared, and returns 1 if anything differs.

#include "kernel.cpp"

#include <cstdio>
#include <random>

int main() {
  const char* names[] = {"plain", "avx2", "avx-vnni", "avx512-vnni", "neon-dot"};
  std::mt19937 random(1);
  ThreadPool pool(2);
  ConvertedInputs inputs;
  int differ = 0;
  for (int which = PLAIN; which <= NEON_DOT; which++) {
    if (!chemspec_supports(which)) continue;
    int compared = 0;
    for (int in : {1, 3, 16, 37, 64, 100, 256, 1024})
      for (int out : {1, 60, 64, 200, 260})
        for (int rows : {1, 2, 3, 4, 5, 6, 7, 15, 16, 17, 33, 65}) {
          std::vector<int8_t> weight(in * out);
          std::vector<float> scales(out), bias(out), x(rows * in), expected(rows * out), found(rows * out);
          for (auto& value : weight) value = int8_t(int(random() % 255) - 127);
          for (auto& value : scales) value = float(random() % 1000) / 999;
          for (auto& value : bias) value = float(random() % 1000) / 99 - 5;
          for (auto& value : x) value = float(int(random() % 20001) - 10000) / 777;
          Linear plain, other;
          plain.set_int8(out, in, weight.data(), scales.data(), bias.data(), PLAIN);
          other.set_int8(out, in, weight.data(), scales.data(), bias.data(), Instructions(which));
          int8_linear(pool, PLAIN, plain, x.data(), in, rows, expected.data(), out, RELU, inputs);
          int8_linear(pool, Instructions(which), other, x.data(), in, rows, found.data(), out, RELU, inputs);
          differ += std::memcmp(expected.data(), found.data(), expected.size() * sizeof(float)) != 0;
          compared++;
        }
    std::printf("%s %d\n", names[which], compared);
  }
  return differ != 0;
}
