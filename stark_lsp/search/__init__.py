"""The paper's Algorithm 1: which attempt to expand next, what the agents see, what is remembered.

1. `policies` picks node i of the `tree` (adapted epsilon-greedy; `eligibility` holds throttling and pruning).
2. `windows` gathers what the role's agent is shown; `leaderboard` supplies the leaders.
3. `engine` asks the agents, has the candidate judged, adds the child, records it, and goes on.
4. `randomness` turns the engine's state into text, so that a run can go on after its process died.

This room knows no torch, no LSP, no network, no files and no clock.
"""
