"""Settings of search and evaluation: every hyper-parameter of the paper has its name here."""

from __future__ import annotations

from dataclasses import dataclass, fields

from stark_lsp.core.status import Isolation, Objective


@dataclass(frozen=True)
class SearchSettings:
    """Hyper-parameters of Algorithm 1; defaults are the paper's (Appendix B)."""

    system: str = "stark"
    """Name in the registry of systems: who proposes, what is shown, which policy is its own."""
    policy: str = "auto"
    """Name in the policy registry; `auto` is the system's own."""
    epsilon: float = 0.3
    """Probability of exploring: a uniformly drawn expandable leaf instead of the best node."""
    root_children: int = 5
    """n_root: the root is not expanded beyond this many children."""
    dead_branch_children: int = 3
    """n_child: a node with more than this many children, all failed, is given up."""
    leaderboard_size: int = 2
    """r: how many leaders enter the plan agent's window."""
    window_size: int = 5
    """At most this many nodes in a context window; more are sampled down."""
    attempts: int = 30
    """B: budget of attempts."""
    in_flight: int = 1
    """Attempts under way at the same time; 1 replays exactly."""
    fault_limit: int = 3
    """So many faults in a row, of the machine or of an agent, stop the search; those that come together count once."""
    empty_limit: int = 8
    """More attempts in a row without anything to judge stop the search with a diagnosis."""
    repairs: int = 1
    """With `best-of-k`: so often a failed sample is repaired before the next one, where there is a debug agent."""
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0.0 <= self.epsilon <= 1.0:
            raise ValueError(f"epsilon must lie in 0..1, not {self.epsilon}")
        for f in fields(self):
            value, least = getattr(self, f.name), 0 if f.name == "repairs" else 1
            if f.name in ("system", "policy", "epsilon", "seed"):
                continue
            if not isinstance(value, int) or value < least:
                raise ValueError(f"{f.name} must be a whole number of at least {least}, not {value!r}")


@dataclass(frozen=True)
class EvaluationSettings:
    """How candidates are built, checked and timed."""

    seeds: int = 5
    """Number of different inputs a candidate must match on."""
    warmup: int = 5
    """Untimed calls before timing."""
    rounds: int = 20
    """Most interleaved timing rounds (reference, candidate) behind one verdict."""
    final_rounds: int = 40
    """The same for the proposal, which is timed against torch.compile as well; at least half of them are made."""
    timing_s: float = 4.0
    """After this time no further round is begun for a verdict, once six are made."""
    final_timing_s: float = 15.0
    """The same for the proposal."""
    round_ms: float = 10.0
    """Aimed length of one round."""
    load_timeout_s: float = 120.0
    """For loading the user's file and preparing the problem's reference outputs."""
    build_timeout_s: float = 300.0
    """For building and loading one candidate."""
    run_timeout_s: float = 60.0
    """For one forward pass, and for one timing round."""
    compile_baseline: bool = True
    """Whether to time torch.compile as well."""
    max_autotune: bool = False
    """Whether to time torch.compile with mode max-autotune too; compiling that takes minutes."""
    compile_timeout_s: float = 300.0
    """For the first call of a torch.compile baseline."""
    log_limit: int = 65536
    """Characters of captured output that are kept."""
    isolation: Isolation = Isolation.AUTO
    """How strictly candidates must be kept apart from the rest of the machine."""
    objective: Objective = Objective.LATENCY
    """What candidates are ranked by: the latency of a call, or the device time of its kernels."""
    gradients: bool = True
    """Call forward where gradients are recorded, as most scripts do; off: under `torch.no_grad()`."""
    special_inputs: bool = True
    """Check other batch sizes, strided, large and non-finite inputs as well."""
    timed_calls: int = 0
    """Exactly so many timed calls of each side; 0 times in rounds until `target_error` is reached."""
    target_error: float = 0.01
    """Timing ends early once the speed-up is known within this fraction (half of the 95 % interval)."""
    profile: bool = True
    """Profile verified candidates: launched kernels, roofline, compiler figures."""
    counters: bool = False
    """Read hardware counters with Nsight Compute as well (slow; for finalists)."""
    sanitizer: bool = True
    """Run finalists on a GPU under compute-sanitizer where it is present."""
    parallel: int = 0
    """Candidates judged at the same time; 0 chooses by the machine. Timing is always one at a time."""
    memory_share: float = 0.8
    """Share of the machine's memory a candidate may take before it is stopped."""


PRESETS = {
    "default": EvaluationSettings(),
    "kernelbench": EvaluationSettings(seeds=5, warmup=3, timed_calls=100, special_inputs=False),
}
"""Named settings of `stark-lsp judge`.

`kernelbench` has the numbers of that suite's own evaluator: five checks with the reference's inputs alone, three
untimed and a hundred timed calls, the cache flushed before each of these. What makes a result right stays ours:
tolerance, moved weights in some of the checks, layout rules, inputs of its own for every timed call.
"""
