"""A run from click to proposal: wires problem, judge, agents, search and store together.

1. `options` says what the user asked for.
2. `models` builds the agents that answer (`playbook`, …).
3. `session` drives one run and tells its watchers (`core.events`) what happens.

Both front ends, `server` and `cli`, use this room and nothing below it to optimize. It knows no
editor and no terminal.
"""
