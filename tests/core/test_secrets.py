"""What looks like a secret, and what only sounds like one."""

from __future__ import annotations

import pytest

from stark_lsp.contract.secrets import KEY, names_secret


@pytest.mark.parametrize(
    "name",
    [
        "token",
        "hf_token",
        "hfToken",
        "HFToken",
        "use-auth-token",
        "api_key",
        "apiKey",
        "openai_api_key",
        "secret",
        "client_secret",
        "secret_name",
        "password",
        "db_password",
        "passwd",
        "credential",
        "credentials",
        "aws_access_key",
        "wandb-key",
    ],
)
def test_names_of_secrets(name: str) -> None:
    assert names_secret(name)


@pytest.mark.parametrize(
    "name",
    [
        "key",
        "key_dim",
        "n_tokens",
        "num_key_value_heads",
        "pad_token_id",
        "pad_token",
        "tokenizer",
        "token_type",
        "secretary",
        "sort_key",
        "author",
    ],
)
def test_names_of_no_secrets(name: str) -> None:
    assert not names_secret(name)


@pytest.mark.parametrize(
    "value",
    [
        f"sk-{'aB3' * 16}",
        f"sk-ant-api03-{'aB3_' * 8}",
        f"hf_{'aB3' * 10}",
        f"ghp_{'aB3' * 12}",
        f"github_pat_{'aB3_' * 8}",
        "AKIA" + "AB34" * 4,
        "xoxb-" + "1234-aB" * 4,
        f"AIza{'aB3_-' * 7}",
    ],
)
def test_keys_by_their_form(value: str) -> None:
    assert KEY.sub("", f"key={value} ") == "key= "


@pytest.mark.parametrize("value", ["task-abcdefghijklmnopqrstuvwxyz", "hf_model_of_a_long_name_with_words", "sk-learn"])
def test_texts_that_are_no_keys(value: str) -> None:
    assert not KEY.search(value)
