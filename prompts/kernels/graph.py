import _thread
import weakref

import torch


class _StarkGraph:
    """A program, captured for weights where they are now: inputs are copied in, results are copied out."""

    def __init__(self, run, tensors, inputs, before, changes=False, count=None, saved=()):
        self.count, self.saved, self.behind = count, saved, None
        self.calls, self.moves = 0, 0
        # How many captures in a row served few calls.
        self.short = before.short + 1 if before is not None and before.calls < 100 else 0
        # What is made in inference mode could not be written to outside of it.
        with torch.inference_mode(False), torch.no_grad():
            self.given = [torch.empty_like(x).copy_(x) for x in tensors[:inputs]]
        self.held = [*self.given, *(x.detach() for x in tensors[inputs:])]
        self.where = self.places(tensors)
        self.lock, self.done = _thread.allocate_lock(), torch.cuda.Event()
        changed = [x for x in tensors[inputs:] if changes and not isinstance(x, torch.nn.Parameter)]
        kept = [(x, x.clone()) for x in changed]
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream), torch.no_grad():
            run(*self.held)
            for x, value in kept:
                x.copy_(value)
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        # PyTorch's own stream for captures is one of the GPU of its first capture.
        with torch.cuda.graph(self.graph, stream=stream, capture_error_mode="thread_local"), torch.no_grad():
            self.results = run(*self.held)

    def places(self, tensors):
        return [tensors[0].device, *(x.data_ptr() for x in tensors[len(self.given) :])]

    def waits(self):
        """Whether weights have moved so often that this call is better not captured."""
        self.moves += 1
        return self.calls < 100 and self.moves < 2**self.short

    def __call__(self, tensors):
        stream = torch.cuda.current_stream()
        with self.lock:
            self.calls += 1
            stream.wait_event(self.done)
            for place, held in enumerate(self.given):
                held.copy_(tensors[place])
            self.graph.replay()
            results = tuple(x if x is None else x.clone() for x in self.results[: self.count])
            self.done.record(stream)
            return results, self.calls

    def back(self, run, turn, gradients):
        """Gradients, by a graph of their own; None where a later call has taken the memory of what was kept."""
        with self.lock:
            if turn != self.calls:
                return None
            given, count = [*gradients, *(self.results[place] for place in self.saved)], len(gradients)
            if self.behind is None:
                self.behind = _StarkGraph(lambda *x: run(*x[count:], *x[:count]), given, count, None)
            found, _ = self.behind(given)
            self.done.record(torch.cuda.current_stream())
            return found


_stark_graphs = weakref.WeakKeyDictionary()
