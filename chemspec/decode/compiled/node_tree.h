// Prefix tree of one query with numbered nodes: a node is one token, its parent the prefix before it.
#pragma once

#include <cstdint>
#include <vector>

struct NodeRow {  // what Python reads of a node
  int32_t parent, token, depth;       // depth: tokens after bos
  int32_t draft = -1, position = 0;   // the draft that contains it, and the index of its token there; final once its parent has scores
  int32_t reused = 0;                 // computed before the current search
};

struct Node : NodeRow {
  int32_t first_child = -1, next_sibling = -1;
  int32_t slot = -1;                                 // in the KV cache
  int32_t scores = -1;                               // index of its scores
  int32_t draft_pass = -1;                           // pass of the draft that contains it
  int32_t drafts = 0, drafts_count = 0, drafts_pass = -1;  // first and number of the drafts proposed after it, and the pass
  int32_t copy_state = -1;                           // index of its copy state
  int32_t missing_pass = -1, added_pass = -1;        // pass in which it was requested without scores, and drafted
  bool requested = false;                            // by any search so far
  int32_t stamp = 0;
  int32_t probability_pass = -1;                     // pass in which `probability` was computed
  double probability = 0;                            // acceptance probability of its path
  int32_t kind = 0;                                  // its class for `AcceptanceRecord`, if it was drafted
  bool expected = false;                             // drafted before
  double log_prob = 0;                               // of its token, once a decoder has taken it
};

class NodeTree {
 public:
  NodeTree() { nodes_.push_back({{-1, BOS, 0}}); }
  Node& operator[](int node) { return nodes_[node]; }
  const Node& operator[](int node) const { return nodes_[node]; }
  const NodeRow* rows() const { return nodes_.data(); }

  // The node of one more token; a new one if there is none.
  int child(int parent, int32_t token) {
    for (int node = nodes_[parent].first_child; node >= 0; node = nodes_[node].next_sibling)
      if (nodes_[node].token == token) return node;
    const int node = int(nodes_.size());
    Node added{{parent, token, nodes_[parent].depth + 1}};
    added.next_sibling = nodes_[parent].first_child;
    nodes_.push_back(added);
    nodes_[parent].first_child = node;
    return node;
  }

  int ancestor(int node, int depth) const {
    while (nodes_[node].depth > depth) node = nodes_[node].parent;
    return node;
  }

  // The tokens from bos to a node.
  void text(int node, std::vector<int32_t>& tokens) const {
    tokens.resize(nodes_[node].depth + 1);
    for (int at = nodes_[node].depth; at >= 0; at--, node = nodes_[node].parent) tokens[at] = nodes_[node].token;
  }

  // Whether one prefix comes before another in the order of their token ids.
  bool precedes(int one, int other) const {
    const int shorter = nodes_[one].depth - nodes_[other].depth;
    int a = ancestor(one, nodes_[other].depth), b = ancestor(other, nodes_[one].depth);
    if (a == b) return shorter < 0;
    while (nodes_[a].parent != nodes_[b].parent) a = nodes_[a].parent, b = nodes_[b].parent;
    return nodes_[a].token < nodes_[b].token;
  }

  // A number that no node is stamped with.
  int32_t new_stamp() { return ++stamp_; }

 private:
  std::vector<Node> nodes_;
  int32_t stamp_ = 0;
};
