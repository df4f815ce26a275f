"""Building: a candidate's own call of `load_inline` or `load`, carried out in a process that can only compile.

`proxy` stands in for torch's functions in a candidate's runner and asks; `service` in the judge answers, from the
cache or by a `builder`, which runs torch's own function with `quicker` in the place of ninja.
"""
