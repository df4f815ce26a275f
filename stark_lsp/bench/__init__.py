"""The paper's experiments on suites of problems: runs, tables, plots, on one host or several."""
