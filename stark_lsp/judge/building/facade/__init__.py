"""Headers that stand in for torch's when a kernel's binding is compiled, and the library behind them."""
