"""What templates compile to, kept for all libraries of a process: compiling takes ten times as long as reading."""

from types import CodeType

from jinja2 import BytecodeCache
from jinja2.bccache import Bucket


class CompiledTemplates(BytecodeCache):
    """By file, as long as its text is the same."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[str, CodeType | None]] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        """Give what the same text compiled to."""
        text, code = self._kept.get(bucket.key, ("", None))
        if text == bucket.checksum:
            bucket.code = code

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep what a text compiled to, in the place of what an earlier one did."""
        self._kept[bucket.key] = bucket.checksum, bucket.code


COMPILED = CompiledTemplates()
