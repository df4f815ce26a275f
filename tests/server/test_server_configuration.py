"""Settings: what is accepted, what is reported, what a run is given."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stark_lsp.core.agent_settings import AgentSettings
from stark_lsp.core.errors import BadInput
from stark_lsp.core.run import Budget
from stark_lsp.core.settings import EvaluationSettings, SearchSettings
from stark_lsp.core.status import DeviceChoice, Grounding, Isolation, Mode, WriteMode
from stark_lsp.server.client.configuration import SETTINGS, merged, read, schema
from stark_lsp.server.client.settings import section_of
from stark_lsp.server.text.folders import folder_of

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def test_defaults_are_those_of_search_and_evaluation() -> None:
    configuration, problems = read({})
    options = configuration.run_options()
    assert not problems
    assert options.search == SearchSettings()
    assert options.evaluation == EvaluationSettings()
    assert options.budget == Budget(30)
    assert options.agents == AgentSettings()
    assert options.model == "auto"
    assert options.interpreter is None
    assert options.resume
    assert (configuration.device, configuration.mode, configuration.write_mode) == (
        DeviceChoice.AUTO,
        Mode.EVAL,
        WriteMode.BESIDE,
    )


def test_nested_and_dotted_names_are_the_same() -> None:
    nested, _ = read({"search": {"epsilon": 0.1, "inFlight": 2}, "attempts": 3, "timeLimit": 5})
    dotted, _ = read({"search.epsilon": 0.1, "search.inFlight": 2, "attempts": 3, "timeLimit": 5})
    assert nested == dotted
    options = nested.run_options()
    assert (options.search.epsilon, options.search.in_flight) == (0.1, 2)
    assert (options.budget.attempts, options.search.attempts, options.budget.seconds) == (3, 3, 5.0)


def test_isolation_reaches_a_run_and_a_typing_mistake_does_not_switch_it_off() -> None:
    assert read({"isolation": "strict"})[0].run_options().evaluation.isolation is Isolation.STRICT
    assert read({"isolation": "off"})[0].run_options().evaluation.isolation is Isolation.OFF
    for value in ("none", False, 0, ""):
        configuration, problems = read({"isolation": value})
        assert configuration.run_options().evaluation.isolation is Isolation.AUTO
        assert "stark.isolation must be one of auto, strict, off" in problems[0]


def test_details_of_judging_reach_a_run_and_win() -> None:
    configuration, problems = read({"timingRounds": 30, "evaluation": {"rounds": 12, "load_timeout_s": 300}})
    assert not problems
    evaluation = configuration.run_options().evaluation
    assert (evaluation.rounds, evaluation.load_timeout_s) == (12, 300.0)
    assert isinstance(evaluation.load_timeout_s, float)
    assert read({"evaluation.rounds": 12, "evaluation": {"seeds": 3}})[0]["evaluation"] == {"rounds": 12, "seeds": 3}


def test_a_detail_that_cannot_be_used_is_named_and_the_others_are_used() -> None:
    configuration, problems = read({"evaluation": {"load_timout_s": 9, "seeds": 0, "warmup": 7, "isolation": "off"}})
    assert configuration["evaluation"] == {"warmup": 7}
    assert configuration.run_options().evaluation.isolation is Isolation.AUTO
    assert problems == (
        "The setting stark.evaluation.load_timout_s is not known. Did you mean load_timeout_s?",
        "The setting stark.evaluation.seeds must be a whole number from 1 to 100, not 0.",
        "The setting stark.evaluation.isolation cannot be set here: isolation is a setting of its own.",
    )
    assert "stark.evaluation must be an object of names and values, not 3" in read({"evaluation": 3})[1][0]


def test_limits_of_spending_reach_a_run() -> None:
    options = read({"attempts": 5, "timeLimit": 60, "tokenLimit": 100000, "costLimit": 2.5})[0].run_options()
    assert options.budget == Budget(5, 60.0, 100000, 2.5)
    configuration, problems = read({"tokenLimit": 0, "costLimit": 0})
    assert configuration.run_options().budget == Budget(30)
    assert [problem.partition(" must be ")[0] for problem in problems] == [
        "The setting stark.tokenLimit",
        "The setting stark.costLimit",
    ]


def test_system_policy_and_how_agents_are_asked_reach_a_run() -> None:
    section = {
        "model": "anthropic:claude-sonnet-5",
        "system": "search-agent",
        "search": {"policy": "mcts", "corrections": 1, "tune": 9, "tuneSeconds": 20},
        "dialect": "triton",
        "grounding": "refuse",
        "profileInPrompts": False,
        "playbookFirst": False,
        "agents": {"plan.temperature": 1, "debug": {"effort": "high"}, "plan.max_tokens": 20000},
        "agents.code.model": "claude-opus-5",
    }
    configuration, problems = read(section)
    assert not problems
    options = configuration.run_options()
    assert options.model == "anthropic:claude-sonnet-5"
    assert (options.search.system, options.search.policy, options.search.corrections) == ("search-agent", "mcts", 1)
    assert (options.search.tune, options.search.tune_s) == (9, 20)
    agents = options.agents
    assert (agents.dialect, agents.grounding) == ("triton", Grounding.REFUSE)
    assert (agents.profile, agents.playbook) == (False, False)
    assert (agents.plan.temperature, agents.plan.max_tokens) == (1.0, 20000)
    assert (agents.debug.effort, agents.code.model) == ("high", "claude-opus-5")
    assert read({"system": "best"})[0].run_options().search.system == "stark"


def test_one_setting_switches_off_all_that_goes_beyond_the_paper() -> None:
    options = read({"paper": True, "search": {"inFlight": 4}, "profileInPrompts": True})[0].run_options()
    assert (options.search.in_flight, options.search.repair_help, options.search.corrections) == (1, 0, 0)
    assert options.search.tune == 0
    agents = options.agents
    assert (agents.playbook, agents.profile, agents.edits, agents.dialect) == (False, False, False, "inline")


def test_null_leaves_a_temperature_to_the_model_and_is_no_limit_of_tokens() -> None:
    configuration, problems = read({"agents": {"plan.temperature": None, "plan.max_tokens": None}})
    assert not problems
    plan = configuration.run_options().agents.plan
    assert (plan.temperature, plan.max_tokens) == (None, AgentSettings().plan.max_tokens)
    over = read(merged({}, {"agents": {"plan.temperature": None}}))[0]
    assert over.run_options().agents.plan.temperature is None


def test_how_an_agent_cannot_be_asked_is_named_and_the_rest_is_used() -> None:
    agents = {"plan.temperatur": 1, "code.temperature": 3, "debug.effort": "low", "grounding": "off", "plan": 7}
    configuration, problems = read({"agents": agents})
    assert configuration["agents"] == {"debug.effort": "low"}
    assert len(problems) == 4
    assert problems[0].startswith("The setting stark.agents.plan.temperatur is not known. Did you mean plan.temp")
    assert problems[1] == "The setting stark.agents.code.temperature must be a number from 0 to 1, not 3."
    assert "grounding is a setting of its own" in problems[2]


def test_what_a_client_provides_is_no_setting() -> None:
    assert read({"provides": ["key"], "diffView": True}) == read({})


def test_an_unusable_value_is_named_with_what_is_allowed_and_the_default_is_used() -> None:
    configuration, problems = read({"device": "tpu", "attempts": 0, "search": {"epsilon": 2}, "compileBaseline": "no"})
    assert configuration["device"] == "auto"
    assert configuration["attempts"] == 30
    text = "\n".join(problems)
    assert "stark.device must be one of auto, cpu, cuda, not tpu; auto is used" in text
    assert "stark.attempts must be a whole number from 1 to 10000, not 0; 30 is used" in text
    assert "stark.search.epsilon must be a number from 0 to 1, not 2; 0.3 is used" in text
    assert "stark.compileBaseline must be true or false, not no; true is used" in text


def test_unknown_names_are_reported_and_those_of_the_extension_are_not() -> None:
    _, problems = read({"atempts": 3, "trace": {"server": "off"}, "diffView": True, "server": {"path": "x"}})
    assert problems == ("There is no setting stark.atempts.",)


def test_null_and_empty_texts_mean_not_set() -> None:
    configuration, problems = read({"interpreter": "", "timeLimit": None, "promptsDirectory": None})
    assert not problems
    assert configuration["interpreter"] is None


def test_the_folder_with_prompts_reaches_a_run_and_must_be_there(tmp_path: Path) -> None:
    configuration, _ = read({"promptsDirectory": str(tmp_path)})
    assert configuration.run_options().prompt_dirs == (str(tmp_path),)
    missing, _ = read({"promptsDirectory": str(tmp_path / "none")})
    with pytest.raises(BadInput, match=r"stark\.promptsDirectory names .*none"):
        missing.run_options()
    assert read({})[0].run_options().prompt_dirs == ()


def test_paths_in_settings_go_from_the_workspace_folder(tmp_path: Path) -> None:
    section = {"promptsDirectory": "own/prompts", "interpreter": ".venv/bin/python", "model": "replay:runs/one.json"}
    configuration, _ = read(section)
    (tmp_path / "own" / "prompts").mkdir(parents=True)
    folder = str(tmp_path)
    options = configuration.run_options(folder)
    assert options.prompt_dirs == (str(tmp_path / "own" / "prompts"),)
    assert options.interpreter == str(tmp_path / ".venv" / "bin" / "python")
    assert options.model == f"replay:{tmp_path / 'runs' / 'one.json'}"
    with pytest.raises(BadInput, match=re.escape(str(tmp_path / "elsewhere" / "own" / "prompts"))):
        configuration.run_options(str(tmp_path / "elsewhere"))


def test_absolute_paths_home_and_what_is_no_path_stay_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    options = read({"promptsDirectory": str(tmp_path), "interpreter": "~/py"})[0].run_options("/else")
    assert options.prompt_dirs == (str(tmp_path),)
    assert options.interpreter == str(tmp_path / "py")
    for model in ("auto", "anthropic:claude-x", "replay:", "replay:~/t.json"):
        assert read({"model": model})[0].run_options("/else").model == model.replace("~", str(tmp_path))


@pytest.mark.parametrize(
    ("path", "folder"),
    [
        ("/projects/net/deep/model.py", "/projects/net/deep"),
        ("/projects/net/other/model.py", "/projects/net"),
        ("/projects/network/model.py", "/projects/first"),
        ("/away/model.py", "/projects/first"),
    ],
)
def test_a_document_belongs_to_the_deepest_folder_above_it_else_to_the_first(path: str, folder: str) -> None:
    assert folder_of(path, ("/projects/first", "/projects/net", "/projects/net/deep")) == folder


def test_without_a_workspace_paths_go_from_the_document() -> None:
    assert folder_of("/projects/net/model.py", ()) == "/projects/net"


def test_later_settings_lie_over_the_initial_ones() -> None:
    initial = {"attempts": 3, "search": {"epsilon": 0.1}}
    assert merged(initial, None) == initial
    assert merged(initial, {"search": {"inFlight": 2}, "attempts": None}) == {
        "attempts": 3,
        "search": {"epsilon": 0.1, "inFlight": 2},
    }


@given(JSON)
def test_no_json_breaks_the_reader(value: object) -> None:
    configuration, _ = read(section_of({"stark": value}))
    configuration.run_options()
    read(value)


def test_every_setting_is_described_and_its_default_is_allowed() -> None:
    for setting in SETTINGS:
        assert setting.description.endswith(".")
        assert setting.default is None or setting.accepts(setting.default)
    entries = schema()
    assert entries["stark.device"]["enum"] == ["auto", "cpu", "cuda"]
    assert entries["stark.timeLimit"]["type"] == ["number", "null"]
