"""The edit that is offered: from a verified candidate to a change of the user's file.

`edit`        the entry point: `build_edit`, and what it returns
`stale`       whether the class is still what the candidate was verified against
`pieces`      what of a candidate file is needed, as statements with their text
`bindings`    what the names of a document stand for
`insertion`   which pieces a document lacks, and under which names they go in
`renaming`    giving names in a piece of Python other names, by scope
`immediate`   what a statement refers to at the moment it is executed
`place`       where a class stands in its file, and so where what comes with it goes
`earlier`     finding and removing what an earlier proposal put into the file
`layout`      whole-line edits, indentation, line ends
`module_file` a proposal as a file of its own
`provenance`  the comment that says where a class comes from and how fast it was measured to be
`diff`        a unified diff for people

Invariants: nothing is executed, nothing is written; whatever of the document an edit is not about stays as it
is, byte for byte; what comes out parses.
"""
