"""The server over real stdio, without a run: what any editor asks it all day."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from e2e_editor import MODULE, Editor, connect, environment, everything, gone, neovim, published, session
from lsprotocol import types

pytestmark = pytest.mark.filterwarnings("error::pytest_lsp.LspSpecificationWarning")

NO_INPUTS = "import torch.nn as nn\n\n\nclass Bare(nn.Module):\n    def forward(self, x):\n        return x\n"
CLASS_LINE = 6


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "model.py"
    path.write_text(MODULE)
    return path


@pytest.mark.parametrize("capabilities", [everything, published, neovim])
async def test_each_class_has_its_lens_and_action(capabilities, tmp_path: Path, file: Path) -> None:
    async with session(capabilities(), tmp_path / "state") as editor:
        uri = editor.open(file)
        (lens,) = await editor.lenses(uri)
        assert lens.range == types.Range(types.Position(CLASS_LINE, 6), types.Position(CLASS_LINE, 11))
        assert lens.command is not None
        assert lens.command.title == "Optimize with STARK"
        assert lens.command.command == "stark.optimize"
        assert list(lens.command.arguments or ()) == [uri, "Model"]
        (action,) = await editor.actions(uri, CLASS_LINE + 2)
        assert (action.title, action.kind) == ("Optimize with STARK: Model", "refactor.rewrite")
        assert await editor.actions(uri, CLASS_LINE, only=["quickfix"]) == []
        assert len(await editor.actions(uri, CLASS_LINE, only=["refactor"])) == 1
        assert await editor.actions(uri, 0) == []
        assert await editor.hover(uri, CLASS_LINE) is None


async def test_a_class_without_inputs_gets_them_written(tmp_path: Path) -> None:
    file = tmp_path / "bare.py"
    file.write_text(NO_INPUTS)
    async with session(published(), tmp_path / "state") as editor:
        uri = editor.open(file)
        (lens,) = await editor.lenses(uri)
        assert lens.command is not None
        assert lens.command.title == "Add get_inputs for STARK"
        await editor.run(lens.command)
        await editor.until(lambda: "def get_inputs" in editor.texts[uri], "the stub")
        compile(editor.texts[uri], "bare.py", "exec")
        assert await editor.titles(uri) == ["Optimize with STARK"]
        answer = await editor.execute("stark.optimize", uri, "Nothing")
        assert answer["status"] == "error"
        assert "no module class Nothing" in editor.messages[-1]


async def test_lenses_follow_edits_and_survive_a_syntax_error(tmp_path: Path, file: Path) -> None:
    async with session(published(), tmp_path / "state") as editor:
        uri = editor.open(file)
        editor.type(uri, 0, 0, "# a line\n")
        (lens,) = await editor.lenses(uri)
        assert lens.range.start.line == CLASS_LINE + 1
        editor.type(uri, CLASS_LINE + 3, 0, "    def\n")
        assert len(await editor.lenses(uri)) == 1
        editor.close(uri)
        assert await editor.lenses(uri) == []


ODD = ["untitled:Untitled-1", "", "file:", "http://[::1", "vscode-notebook-cell:/a.ipynb#W0", "file:///none/such.py"]


async def test_odd_uris_get_a_clear_answer_and_no_crash(tmp_path: Path) -> None:
    async with session(published(), tmp_path / "state") as editor:
        for uri in ODD:
            item = types.TextDocumentItem(uri, "python", 1, MODULE)
            editor.client.text_document_did_open(types.DidOpenTextDocumentParams(item))
            titles = await editor.titles(uri)
            assert await editor.hover(uri, 3) is None, uri
            await editor.actions(uri, CLASS_LINE)
            editor.client.text_document_did_close(types.DidCloseTextDocumentParams(types.TextDocumentIdentifier(uri)))
            said = len(editor.messages)
            answer = await editor.execute("stark.optimize", uri, "Model")
            assert answer["status"] == "error", uri
            assert titles == ([] if "none" not in uri else ["Optimize with STARK"]), uri
            expected = (
                "cannot be read" if "none" in uri else "needs a document" if not uri else "Only files on this machine"
            )
            assert len(editor.messages) == said + 1, uri
            assert expected in editor.messages[-1], uri


async def test_commands_with_odd_arguments_answer_in_words(tmp_path: Path) -> None:
    commands = ("review", "accept", "reject", "dismiss", "cancel", "optimize", "addInputs")
    async with session(published(), tmp_path / "state") as editor:
        for arguments in ([], ["nothing"], [{"run": "nothing"}], [None, 3], [[1]], [{"run": 5, "uri": []}]):
            for command in commands:
                said = len(editor.messages)
                answer = await editor.execute(f"stark.{command}", *arguments)
                assert answer["status"] in ("error", "idle", "dismissed")
                assert answer["status"] == "dismissed" or len(editor.messages) == said + 1


async def test_bad_settings_are_named_and_the_server_goes_on(tmp_path: Path, file: Path) -> None:
    async with session(neovim(), tmp_path / "state", {"device": "tpu"}) as editor:
        message = await editor.until_message("stark.device")
        assert "one of auto, cpu, cuda" in message
        editor.client.set_configuration({"attempts": -1}, section="stark")
        params = types.DidChangeConfigurationParams(settings=None)
        editor.client.workspace_did_change_configuration(params)
        assert "whole number" in await editor.until_message("stark.attempts")
        assert await editor.titles(editor.open(file)) == ["Optimize with STARK"]


async def test_settings_are_read_by_a_client_that_cannot_be_asked(tmp_path: Path) -> None:
    async with session(types.ClientCapabilities(), tmp_path / "state") as editor:
        params = types.DidChangeConfigurationParams(settings={"stark": {"search": {"epsilon": 7}}})
        editor.client.workspace_did_change_configuration(params)
        assert "from 0 to 1" in await editor.until_message("stark.search.epsilon")


async def test_an_orderly_exit_has_code_0(tmp_path: Path) -> None:
    editor = await connect(published(), tmp_path / "state", {})
    process = editor.client._server
    assert process is not None
    await editor.client.shutdown_session()
    assert await asyncio.wait_for(process.wait(), 60) == 0
    await editor.client.stop()


def _start(tmp_path: Path, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "stark_lsp", "serve", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(tmp_path / "state"),
    )


def _send(stream, message: dict) -> None:
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    stream.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
    stream.flush()


def _receive(stream) -> dict:
    size = 0
    while (header := stream.readline()).strip():
        if header.lower().startswith(b"content-length:"):
            size = int(header.split(b":")[1])
    return json.loads(stream.read(size))


def _initialize(process_id: int | None) -> dict:
    params = {"processId": process_id, "rootUri": None, "capabilities": {}}
    return {"id": 1, "method": "initialize", "params": params}


def test_the_end_of_input_ends_the_server(tmp_path: Path) -> None:
    server = _start(tmp_path)
    assert server.stdin is not None
    _send(server.stdin, _initialize(None))
    assert _receive(server.stdout)["id"] == 1
    server.stdin.close()
    assert server.wait(60) == 1


def test_exit_without_waiting_for_the_answer_to_shutdown_has_code_0(tmp_path: Path) -> None:
    server = _start(tmp_path)
    _send(server.stdin, _initialize(None))
    _receive(server.stdout)
    _send(server.stdin, {"id": 2, "method": "shutdown"})
    _send(server.stdin, {"method": "exit"})
    assert server.wait(60) == 0


@pytest.mark.parametrize("unread", [0, 3000])
def test_a_signal_ends_the_server_although_the_pipe_stays_open(unread: int, tmp_path: Path) -> None:
    server = _start(tmp_path)
    _send(server.stdin, _initialize(None))
    _receive(server.stdout)
    for number in range(unread):  # more answers than the pipe holds
        asked = {"textDocument": {"uri": "file:///not/open.py"}}
        _send(server.stdin, {"id": 2 + number, "method": "textDocument/codeLens", "params": asked})
    server.send_signal(signal.SIGTERM)
    assert server.wait(60) == 128 + signal.SIGTERM


def test_the_server_ends_with_the_editors_process_although_the_pipe_stays_open(tmp_path: Path) -> None:
    stand_in = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    server = _start(tmp_path)
    _send(server.stdin, _initialize(stand_in.pid))
    _receive(server.stdout)
    stand_in.kill()
    stand_in.wait()
    assert server.wait(60) == 1


def test_garbage_ends_the_connection_and_not_with_a_crash(tmp_path: Path) -> None:
    server = _start(tmp_path)
    out, err = server.communicate(b"Content-Length: 50\r\n\r\n{}", timeout=60)
    assert server.returncode == 1
    assert out == b""
    assert b"Traceback" not in err


def test_tcp_serves_on_the_loopback_interface_only(tmp_path: Path) -> None:
    server = _start(tmp_path, "--tcp", "0")
    assert server.stderr is not None
    line = server.stderr.readline().decode()
    assert line.startswith("stark-lsp listens on 127.0.0.1:")
    listening = [c.laddr for c in psutil.Process(server.pid).net_connections() if c.status == psutil.CONN_LISTEN]
    assert [address.ip for address in listening] == ["127.0.0.1"]
    with socket.create_connection(("127.0.0.1", int(line.rpartition(":")[2])), timeout=60) as connection:
        stream = connection.makefile("rwb")
        _send(stream, _initialize(os.getpid()))
        assert "codeLensProvider" in _receive(stream)["result"]["capabilities"]
        _send(stream, {"id": 2, "method": "shutdown"})
        assert _receive(stream)["id"] == 2
        _send(stream, {"method": "exit"})
    assert server.wait(60) == 0
    assert gone([])


async def test_what_the_server_prints_cannot_corrupt_the_protocol(tmp_path: Path, file: Path) -> None:
    async with session(published(), tmp_path / "state") as editor:
        assert isinstance(editor, Editor)
        descriptors = {os.readlink(f"/proc/{editor.server.pid}/fd/{number}") for number in (1, 2)}
        assert len(descriptors) == 1
        assert await editor.titles(editor.open(file)) == ["Optimize with STARK"]
