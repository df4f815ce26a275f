"""How property tests draw their examples: the same ones each time, so that a test says the same of the same code.

`pytest --hypothesis-profile search` draws other examples each time, and many more: to be run after a change, and what
it finds becomes a test of its own.
"""

from hypothesis import settings

# No deadline: how long an example takes depends on the machine, and belongs into benchmarks.
settings.register_profile("same", derandomize=True, database=None, deadline=None, print_blob=True)
settings.register_profile("search", max_examples=2000, database=None, deadline=None, print_blob=True)
settings.load_profile("same")
