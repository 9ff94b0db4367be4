// `draft/merging.py`: text of a vocabulary with merges. Without merges every token is one symbol.
#pragma once

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

struct MergingArgs {
  int32_t count;           // of merges
  const int32_t* merges;   // left, right and joined token of each, in order of preference
  const int32_t* parts;    // symbols of all tokens
  const int32_t* starts;   // of every token's, and at the end the number of symbols
};

namespace {

class Merging {
 public:
  explicit Merging(const MergingArgs& given) : args_(given) {
    for (int rank = 0; rank < args_.count; rank++) {
      const int32_t* merge = args_.merges + 3 * rank;
      joined_.push_back(merge[2]);
      ranks_[key(merge[0], merge[1])] = rank;
    }
  }

  bool is_empty() const { return !args_.count; }

  // Appends the symbols of a token.
  void split(int32_t token, std::vector<int32_t>& symbols) const {
    if (is_empty()) symbols.push_back(token);
    else symbols.insert(symbols.end(), args_.parts + args_.starts[token], args_.parts + args_.starts[token + 1]);
  }
  int symbol_count(int32_t token) const { return is_empty() ? 1 : args_.starts[token + 1] - args_.starts[token]; }

  // `Merging.join`.
  std::vector<int32_t> join(std::vector<int32_t> tokens) const {
    if (is_empty()) return tokens;
    std::vector<int> ranks;  // of every token with the next one
    for (size_t at = 0; at + 1 < tokens.size(); at++) ranks.push_back(rank(tokens[at], tokens[at + 1]));
    while (!ranks.empty()) {
      const int best = *std::min_element(ranks.begin(), ranks.end());
      if (best == args_.count) break;
      const int32_t left = args_.merges[3 * best], right = args_.merges[3 * best + 1];
      size_t end = 0;
      for (size_t at = 0; at < tokens.size(); at++) {
        const bool pair = at + 1 < tokens.size() && tokens[at] == left && tokens[at + 1] == right;
        tokens[end++] = pair ? joined_[best] : tokens[at];
        at += pair;
      }
      tokens.resize(end);
      ranks.resize(end - 1);
      for (size_t at = 0; at + 1 < end; at++) ranks[at] = rank(tokens[at], tokens[at + 1]);
    }
    return tokens;
  }

 private:
  static uint64_t key(int32_t left, int32_t right) { return uint64_t(uint32_t(left)) << 32 | uint32_t(right); }
  int rank(int32_t left, int32_t right) const {
    const auto found = ranks_.find(key(left, right));
    return found == ranks_.end() ? args_.count : found->second;
  }

  const MergingArgs args_;
  std::vector<int32_t> joined_;
  std::unordered_map<uint64_t, int> ranks_;
};

}  // namespace
