// How many drafted nodes to add to a pass: `draft_planner.AddedCost` and `draft_planner.NodeChoice`.
#pragma once

#include <algorithm>
#include <vector>

// What nodes cost that are added to one pass, per query.
struct AddedCost {
  std::vector<double> seconds;  // of 0, 1, ... added nodes
  std::vector<int> corners;     // of the lower convex hull of these points; the first is 0
  double negligible;            // seconds that are too few to be measured

  AddedCost(std::vector<double> all, double smallest) : seconds(std::move(all)), negligible(smallest) {
    for (int added = 0; added < int(seconds.size()); added++) {
      while (corners.size() > 1 && slope(corners[corners.size() - 2], corners.back()) >= slope(corners.back(), added)) corners.pop_back();
      corners.push_back(added);
    }
  }

  // Seconds of the cheapest node; 0 if even the largest number of nodes costs next to nothing.
  double cheapest_node() const { return corners.size() > 1 && seconds.back() > FREE_COST * negligible ? slope(0, corners[1]) : 0.0; }

  bool has_room(int nodes) const { return nodes < int(seconds.size()); }

 private:
  double slope(int from, int to) const { return (seconds[to] - seconds[from]) / (to - from); }
};

// Finds the number of nodes, `best`, with the largest gain. Of sizes whose gains differ negligibly it is the largest: the probabilities
// of unlikely nodes are too small, because a node that is requested later saves time, too.
class NodeChoice {
 public:
  int best = 0;

  NodeChoice(const AddedCost& cost, double value) : cost_(cost), value_(value), gain_(MIN_GAIN * value) {}

  // Adds the next node; returns whether there is room for another one.
  bool add(double probability) {
    saved_ += value_ * probability;
    const double now = saved_ - cost_.seconds[++count_];
    if (now > gain_) gain_ = now, best = count_;
    else if (best && now > gain_ - cost_.negligible) best = count_;
    return cost_.has_room(count_ + 1);
  }

  // Whether further nodes may raise the gain if none is more probable than this.
  bool may_gain(double probability) const {
    if (saved_ - cost_.seconds[count_] >= gain_ - cost_.negligible) return true;
    return std::any_of(cost_.corners.begin(), cost_.corners.end(), [&](int corner) {
      return corner > count_ && saved_ + (corner - count_) * value_ * probability - cost_.seconds[corner] > gain_;
    });
  }

 private:
  const AddedCost& cost_;
  const double value_;
  int count_ = 0;
  double gain_, saved_ = 0;
};
