// Compares linear layers in int8 with plain C++, bit for bit, over many shapes. Prints how many, and returns 1 if anything differs.

#include "kernel.cpp"

#include <cstdio>
#include <random>

int main() {
  std::mt19937 random(1);
  ThreadPool pool(2);
  ConvertedInputs inputs;
  int differ = 0, compared = 0;
  for (int in : {1, 3, 16, 37, 64, 100, 256, 1024})
    for (int out : {1, 60, 64, 200, 260})
      for (int rows : {1, 2, 3, 4, 5, 6, 7, 15, 16, 17, 33, 65}) {
        std::vector<int8_t> weight(in * out);
        std::vector<uint8_t> bytes(quads(in) * QUAD);
        std::vector<float> scales(out), bias(out), x(rows * in), expected(rows * out), found(rows * out);
        for (auto& value : weight) value = int8_t(int(random() % 255) - 127);
        for (auto& value : scales) value = float(random() % 1000) / 999;
        for (auto& value : bias) value = float(random() % 1000) / 99 - 5;
        for (auto& value : x) value = float(int(random() % 20001) - 10000) / 777;
        for (int row = 0; row < rows; row++) {
          const float scale = quantise(x.data() + row * in, in, bytes.data());
          for (int o = 0; o < out; o++) {
            double sum = 0;  // GCC 12 vectorises a sum of such integers wrongly
            for (int i = 0; i < in; i++) sum += double(int8_t(bytes[i] - Product::SHIFT)) * weight[o * in + i];
            expected[row * out + o] = std::max(0.0f, float(sum) * scale * scales[o] + bias[o]);
          }
        }
        Linear layer;
        layer.set_int8(out, in, weight.data(), scales.data(), bias.data());
        int8_linear(pool, layer, x.data(), in, rows, found.data(), out, RELU, inputs);
        differ += std::memcmp(expected.data(), found.data(), expected.size() * sizeof(float)) != 0;
        compared++;
      }
  std::printf("%d\n", compared);
  return differ != 0;
}
