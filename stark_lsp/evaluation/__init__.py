"""The server's side of judging: start and watch the worker, talk to it, end it.

No torch here. `judge.open_judge` is the way in; `interpreters` finds and probes the interpreter that
the worker runs under.
"""
