"""The runner: one process that loads one module, candidate or reference, and does as the judge says.

It never sees a reference output. Its answers are claims: outputs go to files that the judge compares.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...contract import imports
from ...contract.errors import Bad, cut, full_text
from ...contract.frames import Channel, ChannelClosed, take_private_pipes
from ...contract.prctl import die_with_parent
from ..building import proxy

if TYPE_CHECKING:
    from ..transport.exchange import Exchange


def main(device: str = "", fd: int = -1, *, spare: bool = False, compiles: bool = False) -> None:
    """Serve the judge until it closes the pipe.

    Parameters
    ----------
    device
        `cuda`, or nothing for a CPU.
    fd
        Socket by which GPU memory that is shared with the judge is handed over.
    spare
        Whether it waits for a candidate, and can use the time.
    compiles
        Whether it is going to compile the module.
    """
    serve(lambda channel: Runner(channel, device, fd, spare=spare, compiles=compiles).handle)


def serve(ready: Callable[[Channel], Callable[[dict[str, Any]], Any]]) -> None:
    """Answer the judge's requests until it closes the pipe.

    Parameters
    ----------
    ready
        Does what takes most of a child's start, before it is needed, and returns what carries out a request.
    """
    die_with_parent()
    # When memory runs out, this process is to go before the editor does.
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")
    channel = Channel(*take_private_pipes())
    with imports.uncollected():
        handle = ready(channel)
    channel.send({"ready": True})
    while True:
        try:
            request = channel.receive()
        except ChannelClosed:
            os._exit(0)
        channel.nonce = request.pop("nonce")
        try:
            answer = {"result": handle(request)}
        except BaseException as error:  # noqa: BLE001 - reported to the judge, which decides what it means
            answer = {"error": report(error)}
        channel.send(answer)


def report(error: BaseException) -> dict[str, Any]:
    """Return an exception as JSON values: its types, text, and the lines it came through."""
    chain: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in chain and len(chain) < 8:
        chain.append(current)
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)
    trace = traceback.extract_tb(error.__traceback__)[-50:]
    syntax = error if isinstance(error, SyntaxError) else None
    return {
        "types": [cls.__name__ for cls in type(error).__mro__],
        "text": cut(safe_text(error), 20000),
        "causes": [{"type": type(item).__name__, "text": cut(safe_text(item), 20000)} for item in chain[1:]],
        "frames": [{"path": frame.filename, "line": frame.lineno, "name": frame.name} for frame in trace],
        "syntax": {"path": syntax.filename or "", "line": syntax.lineno or 0} if syntax else None,
        "traceback": full_text(error),
    }


def safe_text(error: BaseException) -> str:
    """Return `str(error)` even if the class's own `__str__` raises."""
    try:
        return str(error)
    except Exception as inner:  # noqa: BLE001 - the text says so
        return f"(its text cannot be read: {type(inner).__name__})"


COMMANDS = (
    "warm_up", "load_candidate", "load_document", "load_reference", "rebuild", "compile",
    "warm_up_inductor", "written", "forward", "hold",
    "profile", "counters", "use_weights", "record", "forbid_tf32", "unrecorded",
)  # fmt: skip
"""Methods of a runner that the judge may ask for; more are those of `Timed.commands`."""


class Runner:
    """What one runner has loaded."""

    def __init__(
        self, channel: Channel, device: str = "", fd: int = -1, *, spare: bool = False, compiles: bool = False
    ) -> None:
        import torch

        from ..correctness import forward
        from ..reference import loading, modules
        from ..timing import timed
        from ..transport import tensorfile
        from . import ahead

        self._torch = torch
        self._channel = channel
        self._exchange: Exchange | None = None
        self._socket = fd
        self._ahead = ahead if spare else None
        if spare:
            ahead.load(device)
        if compiles:
            ahead.load_inductor()
        self._loading = loading
        self._modules = modules
        self._files = tensorfile
        self._module: Any = None
        self._device = "cpu"
        self._lookup: Callable[[str], Any] = lambda name: None
        self._mode = "eval"
        self._gradients = False
        """Whether calls are timed where gradients are recorded."""
        self._again: Callable[[], Any] = lambda: None
        """Constructs the class anew."""
        self._init = self._weights = ""
        self._forward = forward.Forward()
        self._step = forward.TimedStep()
        self._timed = timed.Timed()

    def warm_up(self, *, nbytes: int) -> dict[str, Any]:
        """Start using the GPU; returns whether memory of the judge's can be reached.

        Parameters
        ----------
        nbytes
            Size of that memory, whose descriptor has been sent; 0 for none.
        """
        from ..transport import handover
        from ..transport.exchange import Exchange, Unavailable

        if self._ahead is not None:
            self._ahead.use_gpu(self._timed)
        try:
            if nbytes:
                self._exchange = self._timed.exchange = Exchange.attach(handover.received(self._socket), nbytes)
                self._exchange.tell = self._pour
        except (Unavailable, RuntimeError) as error:
            print(f"Tensors travel by files: {error}", file=sys.stderr)
        # No candidate is to find a way to the judge.
        os.close(self._socket)
        return {"shares": self._exchange is not None}

    def _load(self, path: str, device: str = "cpu") -> Any:
        return self._files.load(path, device=device, exchange=self._exchange)

    def _arguments(self, inputs: str) -> Any:
        """Return the arguments of a call on the device."""
        return self._load(inputs, self._device).tree(self._device, self._lookup)

    def handle(self, request: dict[str, Any]) -> Any:
        """Carry out one request of the judge."""
        command = request.pop("command")
        if self._exchange is not None:
            self._exchange.reset()
        if command in COMMANDS:
            return getattr(self, command)(**request)
        return self._timed.commands()[command](**request)

    def _ask_to_build(self, request: dict[str, Any]) -> dict[str, Any]:
        """Have the judge build something in the midst of a command."""
        if threading.current_thread() is not threading.main_thread():
            return {"error": "Extensions are built on the main thread only."}
        self._channel.send({"build": request})
        return dict(self._channel.receive()["built"])

    def _pour(self, piece: dict[str, int]) -> bool:
        """Have the judge take a piece of a tensor in the midst of a command; returns whether it did."""
        self._channel.send({"pour": piece})
        return self._channel.receive().get("poured") is True

    def _start(self, *, init: str, weights: str, device: str, mode: str, gradients: bool, threads: int) -> None:
        """Get ready to load a module, before any of it runs.

        Parameters
        ----------
        init, weights
            Tensor files with the constructor's arguments and the state dict.
        """
        self._torch.set_num_threads(threads)
        self._init, self._weights = init, weights
        self._device, self._mode, self._gradients = device, mode, gradients
        if device == "cuda":
            self._torch.cuda.init()

    def load_candidate(self, *, path: str, context: str, class_name: str, **how: Any) -> dict[str, Any]:
        """Load a candidate file, construct its class and give it the reference's weights.

        Parameters
        ----------
        context
            The user's document, whose imports (also relative ones) work in the candidate.
        """
        self._start(**how)
        proxy.install(self._ask_to_build)
        self._loading.find_unlisted()
        self._loading.extend_sys_path(context)
        package = self._loading.module_place(context)[0].rpartition(".")[0]
        if package:
            __import__(package)
        with open(path, encoding="utf-8") as file:
            text = file.read()
        return self._take(self._loading.execute("stark_candidate", path, text, package), class_name)

    def load_document(self, *, path: str, document: str, qualname: str, **how: Any) -> dict[str, Any]:
        """Load a document with an accepted candidate in it as the module it is in its project, and take that class.

        Parameters
        ----------
        path
            The file with the document's text.
        document
            Where the document lies in the project.
        """
        self._start(**how)
        proxy.install(self._ask_to_build)
        with open(path, encoding="utf-8", newline="") as file:
            text = file.read()
        self._loading.find_unlisted()
        try:
            module = self._loading.load_document(document, text)
        except Bad as error:
            raise error.__cause__ or error from None  # what the text raised, which the judge puts into its own words
        return self._take(module, qualname)

    def load_reference(self, *, path: str, text: str, qualname: str, **how: Any) -> dict[str, Any]:
        """Load the user's own class, as the judge did."""
        self._start(**how)
        self._path = path
        built = self._construct(self._loading.load_document(path, text), qualname)
        built.load_state_dict(self._load(self._weights).tree(), strict=False)
        self._module = self._modules.place(built, self._device, self._mode)
        return {}

    def _construct(self, module: Any, qualname: str) -> Any:
        """Construct a class of a loaded module; `self._again` does so anew."""
        self._lookup = lambda name: self._loading.lookup(module, name)
        cls = self._lookup(qualname)
        if not isinstance(cls, type) or not issubclass(cls, self._torch.nn.Module):
            raise LookupError(f"the file defines no torch.nn.Module called {qualname}")

        def construct() -> Any:
            args, kwargs = self._files.load(self._init).tree("cpu", self._lookup)
            self._torch.manual_seed(self._modules.CONSTRUCTION_SEED)
            return cls(*args, **kwargs)

        self._again = construct
        return construct()

    def _take(self, module: Any, qualname: str) -> dict[str, Any]:
        """Construct a class of a loaded module and give it the reference's weights."""
        built = self._construct(module, qualname)
        message = ""
        try:
            built.load_state_dict(self._load(self._weights).tree(), strict=True)
        except Exception as error:  # noqa: BLE001 - reported: the judge marks the candidate
            message = cut(safe_text(error), 2000) or type(error).__name__
            # A load that failed half-way has already overwritten some weights.
            built = self._again()
        self._module = self._modules.place(built, self._device, self._mode)
        return {"weights_message": message}

    def rebuild(self, *, weights: str) -> dict[str, Any]:
        """Construct the candidate anew, as a user with a checkpoint does, and give it other weights."""
        self._module = None
        built = self._again()
        built.load_state_dict(self._load(weights).tree(), strict=True)
        self._module = self._modules.place(built, self._device, self._mode)
        return {}

    def use_weights(self, *, weights: str) -> dict[str, Any]:
        """Give the module other weights of the same shapes."""
        self._module.load_state_dict(self._load(weights).tree(), strict=False)
        return {}

    def compile(self, *, mode: str) -> dict[str, Any]:
        """Put `torch.compile` with this mode around the module; it compiles at its first call."""
        self._module = self._torch.compile(self._module, mode=mode)
        return {}

    def warm_up_inductor(self) -> dict[str, Any]:
        """Have Inductor come up before it is asked."""
        from ..analysis import inductor

        inductor.warm_up(self._device)
        return {}

    def written(self, *, inputs: str, recipe: dict[str, Any]) -> dict[str, Any]:
        """Return what torch.compile writes for the module, see `analysis.inductor.program`; `none` says why not."""
        from ..analysis import NotTraceable, inductor

        args, kwargs = self._arguments(inputs)
        try:
            return inductor.program(self._module, args, kwargs, self._path, recipe)
        except NotTraceable as error:
            return {"none": str(error)}
        finally:
            del args, kwargs
            if self._device == "cuda":
                self._torch.cuda.empty_cache()

    def record(self, *, gradients: bool) -> dict[str, Any]:
        """Have calls be timed where gradients are recorded, or where they are not."""
        self._gradients = gradients
        return {}

    def forbid_tf32(self) -> dict[str, Any]:
        """Forbid TF32 in all that is loaded from now on."""
        from ..correctness import ieee

        ieee.allow(False)
        return {}

    def unrecorded(self) -> dict[str, Any]:
        """Have CUDA graphs of all that is loaded from now on run at once, see `tools.unrecorded`."""
        from ..tools import unrecorded

        unrecorded.run_at_once()
        return {}

    def _call(self, arguments: Any) -> Any:
        """Make one call as it is timed: forward, for training with backward."""
        if self._mode == self._modules.TRAINING:
            return self._step(self._module, arguments)
        args, kwargs = arguments
        return self._module(*args, **kwargs)

    def _recording(self) -> bool:
        """Return whether gradients are recorded where calls are timed."""
        return self._gradients or self._mode == self._modules.TRAINING

    def forward(self, **request: Any) -> dict[str, Any]:
        """Run one forward pass (for training a whole step), see `forward.Forward.run`."""
        return self._forward.run(
            self._module, self._lookup, mode=self._mode, device=self._device, exchange=self._exchange, **request
        )

    def hold(self, *, inputs: list[str], **how: Any) -> dict[str, Any]:
        """Load the input sets that timed calls rotate through, warm up, and fix the calls of a round: `Timed.hold`."""
        if self._device == "cuda":
            # Blocks of the sizes of checked calls.
            self._torch.cuda.empty_cache()
        sets = [self._arguments(path) for path in inputs]
        calls: dict[str, Any] = {"gradients": self._recording, "lookup": self._lookup}
        return self._timed.hold(self._call, sets, self._device, **calls, **how)

    def profile(self, *, inputs: str) -> dict[str, Any]:
        """Tell what one forward pass launches, see `profile.launches.profile_call`."""
        from ..profile.launches import profile_call

        arguments = self._arguments(inputs)
        with self._modules.forward_context(self._mode, gradients=self._gradients):
            return profile_call(lambda: self._call(arguments), self._device)

    def counters(self, *, inputs: str) -> dict[str, Any]:
        """Run one forward pass for Nsight Compute, which this process was started under."""
        from ..profile.counters import forward

        arguments = self._arguments(inputs)
        with self._modules.forward_context(self._mode, gradients=self._gradients):
            forward(lambda: self._call(arguments))
        return {}
