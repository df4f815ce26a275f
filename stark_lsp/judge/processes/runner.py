"""The runner: one process that loads one module, candidate or reference, and does as the judge says.

It never sees a reference output. Its answers are claims: outputs go to files that the judge compares.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

import torch

from ...contract.errors import Bad, cut
from ...contract.frames import Channel
from ..building import proxy
from ..correctness import forward, state, stepping
from ..device import vectors
from ..reference import loading, modules
from ..timing import timed
from ..transport import handover, tensorfile
from ..transport.exchange import Exchange, Unavailable
from . import ahead
from .serving import safe_text

COMMANDS = (
    "warm_up", "load_candidate", "load_document", "load_reference", "rebuild", "compile",
    "warm_up_inductor", "written", "forward", "buffers", "hold",
    "profile", "counters", "use_weights", "record", "forbid_tf32", "unrecorded",
)  # fmt: skip
"""Methods of a runner that the judge may ask for; more are those of `Timed.commands`."""


def _serving(context: str, served: str) -> contextlib.AbstractContextManager[None]:
    """Have the user's document be imported with the text in the file `served`, if there is one."""
    if not served:
        return contextlib.nullcontext()
    with open(served, encoding="utf-8", newline="") as file:
        return loading.serving(context, file.read())


class Runner:
    """What one runner has loaded.

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

    def __init__(self, channel: Channel, device: str, fd: int = -1, *, spare: bool, compiles: bool) -> None:
        self._channel = channel
        self._exchange: Exchange | None = None
        self._socket = fd
        self._spare = spare
        vectors.look_up()
        if compiles:
            ahead.load_inductor()
        else:
            ahead.load(device, missing=not spare)
        self._module: Any = None
        self._device = "cpu"
        self._lookup: Callable[[str], Any] = lambda name: None
        self._mode = "eval"
        self._gradients = False
        """Whether calls are timed where gradients are recorded, and"""
        self._backward = False
        """with backward after them."""
        self._again: Callable[[], Any] = lambda: None
        """Constructs the class anew."""
        self._init = self._weights = self._weights_dtype = self._autocast = ""
        self._buffers: dict[str, dict[str, torch.Tensor | None]] = {}
        """By name, what each call finds `before` it, and what the first one leaves `after` it;"""
        self._states: dict[str, state.State] = {}
        """the same for the module's own."""
        self._forward = forward.Forward()
        self._step = stepping.TimedStep()
        self._timed = timed.Timed()

    def warm_up(self, *, nbytes: int) -> dict[str, Any]:
        """Start using the GPU; returns whether memory of the judge's can be reached.

        Parameters
        ----------
        nbytes
            Size of that memory, whose descriptor has been sent; 0 for none.
        """
        if self._spare:
            ahead.use_gpu(self._timed)
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
        return tensorfile.load(path, device=device, exchange=self._exchange)

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

    def _start(
        self,
        *,
        init: str,
        weights: str,
        weights_dtype: str,
        autocast: str,
        device: str,
        mode: str,
        gradients: bool,
        threads: int,
        buffers: str = "",
        folder: str = "",
    ) -> None:
        """Get ready to load a module, before any of it runs.

        Parameters
        ----------
        init, weights
            Tensor files with the constructor's arguments and the state dict.
        weights_dtype
            What a module is converted to once it is constructed, and
        autocast
            what its calls are cast to; empty for nothing.
        buffers
            A tensor file with what buffers hold `before` each call, and `after` the first one; empty where calls change
            none.
        folder
            Where the user's code reads files by relative paths from; empty where it reads none.
        """
        torch.set_num_threads(threads)
        if folder:
            with contextlib.suppress(OSError):  # a sandbox may hold nothing of it
                os.chdir(folder)
        self._init, self._weights = init, weights
        self._weights_dtype, self._autocast = weights_dtype, autocast
        self._device, self._mode, self._gradients = device, mode, gradients
        modules.layers_as_called(gradients=gradients)
        if device == "cuda":
            torch.cuda.init()
        self._buffers = self._load(buffers, device).tree(device) if buffers else {}

    def load_candidate(
        self, *, path: str, context: str, class_name: str, served: str = "", **how: Any
    ) -> dict[str, Any]:
        """Load a candidate file, construct its class and give it the reference's weights.

        Parameters
        ----------
        context
            The user's document, whose imports (also relative ones) work in the candidate.
        served
            A file with its text, where its package imports it; else a candidate sees nothing of it.
        """
        self._start(**how)
        proxy.install(self._ask_to_build)
        loading.find_unlisted()
        loading.extend_sys_path(context)
        package = loading.module_place(context)[0].rpartition(".")[0]
        with _serving(context, served):
            if package:
                __import__(package)
        with open(path, encoding="utf-8") as file:
            text = file.read()
        # What stands in the document reads files beside it.
        return self._take(loading.execute_candidate(path, text, package, context), class_name)

    def load_document(
        self, *, path: str, document: str, qualname: str, context: str, served: str = "", **how: Any
    ) -> dict[str, Any]:
        """Load a document with an accepted candidate in it as the module it is in its project, and take that class.

        Parameters
        ----------
        path
            The file with the document's text.
        document
            Where the document lies in the project; perhaps a new file beside the user's.
        context, served
            As for `load_candidate`.
        """
        self._start(**how)
        proxy.install(self._ask_to_build)
        with open(path, encoding="utf-8", newline="") as file:
            text = file.read()
        loading.find_unlisted()
        try:
            with _serving(context, served):
                module = loading.load_document(document, text)
        except Bad as error:
            raise error.__cause__ or error from None  # what the text raised, which the judge puts into its own words
        return self._take(module, qualname)

    def load_reference(self, *, path: str, text: str, qualname: str, **how: Any) -> dict[str, Any]:
        """Load the user's own class, as the judge did."""
        self._start(**how)
        self._path = path
        built = self._construct(loading.load_document(path, text), qualname)
        built.load_state_dict(self._load(self._weights).tree(), strict=False)
        self._hold(built)
        return {}

    def _hold(self, built: Any) -> None:
        """Use a module that has its weights."""
        self._module = modules.place(built, self._device, self._mode)
        self._states = {}
        if self._buffers:
            before = state.State(self._module, self._buffers["before"])
            self._states = {"before": before, "after": before.narrowed(self._buffers["after"])}

    def _construct(self, module: Any, qualname: str) -> Any:
        """Construct a class of a loaded module; `self._again` does so anew."""
        self._lookup = lambda name: loading.lookup(module, name)
        cls = self._lookup(qualname)
        if not isinstance(cls, type) or not issubclass(cls, torch.nn.Module):
            raise LookupError(f"the file defines no torch.nn.Module called {qualname}")

        def construct() -> Any:
            args, kwargs = tensorfile.load(self._init).tree("cpu", self._lookup)
            torch.manual_seed(modules.CONSTRUCTION_SEED)
            return modules.used(cls(*args, **kwargs), self._weights_dtype, self._autocast, self._device)

        self._again = construct
        return construct()

    def _take(self, module: Any, qualname: str) -> dict[str, Any]:
        """Construct a class of a loaded module and give it the reference's weights."""
        built = self._construct(module, qualname)
        message, begun = "", modules.sizes_of_weights(built)
        try:
            built.load_state_dict(self._load(self._weights).tree(), strict=True)
        except Exception as error:  # noqa: BLE001 - reported: the judge marks the candidate
            message = cut(safe_text(error), 2000) or type(error).__name__
            # A load that failed half-way has already overwritten some weights.
            built = self._again()
        self._hold(built)
        return {"weights_message": message, "begun": begun}

    def rebuild(self, *, weights: str) -> dict[str, Any]:
        """Construct the candidate anew, as a user with a checkpoint does, and give it other weights."""
        self._module, self._states = None, {}
        built = self._again()
        built.load_state_dict(self._load(weights).tree(), strict=True)
        self._hold(built)
        return {}

    def use_weights(self, *, weights: str, in_place: bool = False) -> dict[str, Any]:
        """Give the module other weights of the same shapes; for `in_place` see `modules.change_weights`."""
        self._begin()
        module = getattr(self._module, "_orig_mod", self._module)  # torch.compile calls its weights otherwise
        given = self._load(weights).tree()
        modules.change_weights(module, given) if in_place else module.load_state_dict(given, strict=False)
        return {}

    def compile(self, *, mode: str) -> dict[str, Any]:
        """Put `torch.compile` with this mode around the module; it compiles at its first call."""
        self._module = torch.compile(self._module, mode=mode)
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
            return inductor.program(self._module, args, kwargs, self._path, recipe) | {"autocast": self._autocast}
        except NotTraceable as error:
            return {"none": str(error)}
        finally:
            del args, kwargs
            if self._device == "cuda":
                torch.cuda.empty_cache()

    def buffers(self, *, inputs: str, outputs: str, further: bool, gradients: bool) -> dict[str, Any]:
        """Write the buffers as a call leaves them; for `further` see `forward`."""
        self._begin(further=further)
        found = stepping.buffers_after(self._module, self._arguments(inputs), self._mode, gradients=gradients)
        tensorfile.save(outputs, found, self._exchange)
        return {}

    def record(self, *, gradients: bool, backward: bool = False) -> dict[str, Any]:
        """Have calls be timed where gradients are recorded, or where they are not; perhaps with backward after them."""
        self._gradients, self._backward = gradients, backward
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
        if self._mode == modules.TRAINING:
            return self._step(self._module, arguments)
        if self._backward:
            # Its gradients were compared before; what is kept of timed calls has room for the output alone.
            return self._step(self._module, arguments)["output"]
        args, kwargs = arguments
        return self._module(*args, **kwargs)

    def _begin(self, *, further: bool = False) -> None:
        """Have the next call begin with the buffers that the reference's calls begin with."""
        if not self._states:
            return
        begun = self._states["after" if further else "before"]
        begun.put_back()
        if begun.missing:
            # What calls them otherwise may load them under the original's names.
            self._module.load_state_dict(begun.missing, strict=False)

    def forward(self, *, further: bool = False, **request: Any) -> dict[str, Any]:
        """Run one forward pass (for training a whole step), see `forward.Forward.run`; `further` as in `Case`."""
        self._begin(further=further)
        return self._forward.run(
            self._module, self._lookup, mode=self._mode, device=self._device, exchange=self._exchange, **request
        )

    def hold(self, *, inputs: list[str], **how: Any) -> dict[str, Any]:
        """Load the input sets that timed calls rotate through, warm up, and fix the calls of a round: `Timed.hold`."""
        if self._device == "cuda":
            # Blocks of the sizes of checked calls.
            torch.cuda.empty_cache()
        sets = [self._arguments(path) for path in inputs]
        calls: dict[str, Any] = {
            "begin": self._begin,
            "gradients": lambda: self._gradients or self._mode == modules.TRAINING,
            "draws": lambda: self._mode == modules.TRAINING,
            "weights": lambda: self._module.parameters(),
            "lookup": self._lookup,
        }
        return self._timed.hold(self._call, sets, self._device, **calls, **how)

    def profile(self, *, inputs: str) -> dict[str, Any]:
        """Tell what one forward pass launches, see `profile.launches.profile_call`."""
        from ..profile.launches import profile_call

        arguments = self._arguments(inputs)
        with modules.forward_context(self._mode, gradients=self._gradients):
            return profile_call(lambda: self._call(arguments), self._device)

    def counters(self, *, inputs: str) -> dict[str, Any]:
        """Run one forward pass for Nsight Compute, which this process was started under."""
        from ..profile.counters import forward

        arguments = self._arguments(inputs)
        with modules.forward_context(self._mode, gradients=self._gradients):
            forward(lambda: self._call(arguments))
        return {}
