// Records of forward passes, as in `types.Pass`, and the settings of a run.
#pragma once

#include <cstdint>
#include <vector>

struct PassRecord {  // record of one forward pass for one query; lists are in `Record`
  int32_t requested, computed, emitted, width;
  int32_t before, leading, written;  // depth of the best hypothesis before the pass; node of the best, length of the longest after it
  int32_t drafts, drafts_count;      // after the best hypothesis
  int32_t beam, nodes;
};

struct LoopOptions {  // settings of a run
  int32_t max_len, budget, record, threads;
  int32_t fixed, per_root;  // `session.CompactionThreshold`
  int32_t vocab_size;
  double factor;
};

struct Record {
  std::vector<PassRecord> passes;
  std::vector<double> margins;
  std::vector<int32_t> beam, nodes;  // requested and computed, if they are recorded
};
