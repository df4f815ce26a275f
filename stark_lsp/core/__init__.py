"""The words of the domain as plain data.

Everything here is a frozen dataclass, an enum or a Protocol. This room knows no torch, no LSP, no
network, no files and no clock. `wire` turns each word into JSON and back.
"""
