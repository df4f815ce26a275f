"""Settings of search and evaluation: every hyper-parameter of the paper has its name here."""

from __future__ import annotations

from dataclasses import dataclass, fields

from stark_lsp.core.setting import setting
from stark_lsp.core.status import Isolation, Objective

DAY_S = 86400


@dataclass(frozen=True)
class SearchSettings:
    """Hyper-parameters of Algorithm 1; defaults are the paper's (Appendix B)."""

    system: str = "stark"
    """Name in the registry of systems: who proposes, what is shown, which policy is its own."""
    policy: str = setting("auto", "How the search selects the candidate to go on from; auto is the system's own way.")
    epsilon: float = setting(0.3, "Probability of exploring a random leaf instead of the best node.", 0, 1)
    root_children: int = setting(5, "The original class is not expanded beyond this many candidates.", 1)
    """n_root."""
    dead_branch_children: int = setting(3, "A candidate with more than this many children, all failed, is given up.", 1)
    """n_child."""
    leaderboard_size: int = setting(2, "How many of the best candidates the plan agent sees.", 1)
    """r."""
    window_size: int = setting(5, "How many candidates an agent sees at most.", 1)
    """More are sampled down."""
    attempts: int = setting(30, "How many candidates a run may try.", 1)
    """B."""
    in_flight: int = setting(1, "Attempts under way at the same time. Only 1 replays exactly.", 1)
    fault_limit: int = setting(3, "So many faults in a row, of the machine or of an agent, stop the search.", 1)
    """Those that come together count once."""
    empty_limit: int = setting(8, "More attempts in a row without anything to judge stop the search.", 1)
    repairs: int = setting(1, "With best-of-k: repairs of a failed sample before the next one is taken.", 0)
    """Where there is a debug agent."""
    repair_help: int = setting(1, "Show debug what changed since it worked; repair no plan twice. 0: as the paper.", 0)
    """The second concerns leaves that are drawn: none whose plan a sibling has repaired."""
    corrections: int = setting(2, "How often an attempt that fails early is corrected before it ends. 0: as paper.", 0)
    """By the agent that wrote the candidate; what is early, `VerdictStatus.early` says."""
    tune: int = setting(30, "How many values of constants that a candidate leaves open are timed. 0: as paper.", 0, 30)
    """Combinations of values, beside those it came with."""
    tune_s: int = setting(90, "After so many seconds of an attempt no further values of constants are timed.", 1)
    any_length: bool = False
    """Whether the playbook's kernels are to serve other lengths, of texts say, than those of the inputs as well."""
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0.0 <= self.epsilon <= 1.0:
            raise ValueError(f"epsilon must lie in 0..1, not {self.epsilon}")
        for f in fields(self):
            value, least = getattr(self, f.name), f.metadata.get("low")
            if f.name != "epsilon" and least is not None and (not isinstance(value, int) or value < least):
                raise ValueError(f"{f.name} must be a whole number of at least {least}, not {value!r}")
            if (most := f.metadata.get("high")) is not None and value > most:
                raise ValueError(f"{f.name} must be at most {most}, not {value!r}")


@dataclass(frozen=True)
class EvaluationSettings:
    """How candidates are built, checked and timed."""

    isolation: Isolation = Isolation.AUTO
    """How strictly candidates must be kept apart from the rest of the machine."""
    load_timeout_s: float = setting(
        120.0, "Seconds for loading the file and preparing the reference's outputs.", 1, DAY_S
    )
    build_timeout_s: float = setting(300.0, "Seconds for building and loading one candidate.", 1, DAY_S)
    run_timeout_s: float = setting(60.0, "Seconds for one forward pass, and for one round of timing.", 1, DAY_S)
    compile_timeout_s: float = setting(300.0, "Seconds for the first call of torch.compile.", 1, DAY_S)
    seeds: int = setting(5, "Different inputs that a candidate must match on.", 1, 100)
    objective: Objective = setting(  # noqa: RUF009 - declares a field, as those beside it
        Objective.LATENCY, "What the search ranks by: the latency of a call, or its kernels' device time."
    )
    gradients: bool = setting(True, "Call forward where gradients are recorded; off: under torch.no_grad().")
    special_inputs: bool = setting(
        True, "Check other batch sizes and lengths, strided, large and non-finite inputs as well."
    )
    warmup: int = setting(5, "Untimed calls before timing.", 0, 1000)
    rounds: int = setting(20, "Most rounds of timing behind a verdict.", 3, 1000)
    final_rounds: int = setting(40, "The same for a finalist; at least half of them are made.", 3, 1000)
    timing_s: float = setting(4.0, "After so many seconds no further round is begun, once six are made.", 0.1, 3600)
    final_timing_s: float = setting(15.0, "The same for a finalist.", 0.1, 3600)
    round_ms: float = setting(10.0, "Aimed length of a round in milliseconds.", 0.1, 10000)
    timed_calls: int = setting(0, "Timed calls of each side, fewer if they take long; 0 for rounds.", 0, 100000)
    target_error: float = setting(0.01, "Timing ends once the speed-up is known within this fraction; 0 never.", 0, 1)
    compile_baseline: bool = setting(True, "Time torch.compile as well; on a CPU try the kernels that it writes.")
    max_autotune: bool = setting(False, "Time torch.compile with mode max-autotune too (slow to compile).")
    profile: bool = setting(True, "Profile verified candidates.")
    counters: bool = setting(True, "Tell agents what hardware counters say of an attempt, where permitted.")
    sanitizer: bool = setting(True, "Run finalists on a GPU under compute-sanitizer, where it is installed.")
    parallel: int = setting(0, "Candidates judged at the same time; 0 chooses by the machine.", 0, 64)
    memory_share: float = setting(0.8, "Share of the machine's memory that a candidate may take.", 0.05, 0.95)
    log_limit: int = setting(65536, "Characters of a candidate's output that are kept.", 1000, 500000)


PRESETS = {
    "default": EvaluationSettings(),
    "kernelbench": EvaluationSettings(seeds=5, warmup=3, timed_calls=100, special_inputs=False),
}
"""Named settings of `stark-lsp judge`.

`kernelbench` has the numbers of that suite's own evaluator: five checks with the reference's inputs alone, three
untimed and a hundred timed calls, the cache flushed before each of these. What makes a result right stays ours:
tolerance, moved weights in some of the checks, layout rules, inputs of its own for every timed call.
"""
