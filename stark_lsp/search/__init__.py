"""The paper's Algorithm 1: which attempt to expand next, what the agents see, what is remembered.

1. `systems` says who proposes, what is shown and which policy is its own: the paper's system, its baselines, its
   ablation.
2. A policy (`policies`) picks node i of the `tree`, unless the user pinned one (`helm`); `eligibility` holds
   throttling, pruning and virtual losses, `backup` the sums that Monte-Carlo tree search needs.
3. `attempts` gives the attempt its number before anybody is asked; `desk` is where its agents find what they need.
4. A proposer (`proposers`) asks the agents; `windows` gathers what each is shown, `leaderboard` supplies the leaders.
5. `engine` does all that for each attempt, has the candidate judged (`verdicts`), adds the child, records it, and
   goes on; `faults` counts what breaks.
6. `randomness` turns the engine's state into text, so that a run can go on after its process died.

This room knows no torch, no LSP, no network, no files and no clock.
"""
