"""The paper's experiments on suites of problems: runs, tables, plots, on one machine or several.

1. `suite` finds the problems of a folder and picks those that were asked for.
2. `cells` says what is to be run: one cell for each problem, system, policy and seed; `prompts` holds a user's own
   templates, which travel with them; `outlook` estimates what all of it will take.
3. `measure` runs one cell by `runs.session` and makes its row (`rows`).
4. A `crew` runs cells: in processes of this machine, one or several at a time (`child`), or on several machines through
   Dask.distributed (`cluster`, `remote`).
5. `ledger` keeps every row for good; `campaign` drives all of this and goes on after a kill.
6. `statistics` works rows out, `tables` and `figures` show them, `report` writes both.

Whatever is in a report follows from the rows alone.
"""
