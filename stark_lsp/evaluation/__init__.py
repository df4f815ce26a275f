"""The server's side of judging: start and watch the worker, talk to it, end it.

No torch here. `judge.open_judge` is the way in; `lookup` finds the interpreter that the worker runs
under, `interpreters` asks it what it has.
"""
