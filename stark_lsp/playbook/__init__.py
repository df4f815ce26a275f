"""The offline expert: answers as plan, code and debug agent without any model or network.

analysis (taken in the worker) → graph → regions that one kernel can do → strategies, ranked by
expected saving → kernel specs → generated kernels → a whole candidate.
"""
