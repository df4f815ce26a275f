"""The edit that is offered: from a verified candidate to a change of the user's file.

`edit`        the entry point: `build_edit`, and what it returns
`stale`       whether the class is still what the candidate was verified against
`dependence`  what of a file the behaviour of a class can depend on
`pieces`      what of a candidate file is needed, as statements with their text
`bindings`    what the names of a document stand for
`insertion`   which pieces a document lacks, and under which names they go in
`scopes`      which names of the module level a piece of Python reads, binds or changes, at once or later
`renaming`    giving names in a piece of Python other names, by scope
`annotations` quoting annotations, where the file does not import them from the future
`accepted`    finding what earlier proposals put into the file, and whether it was edited since
`module_file` a proposal as a file of its own
`provenance`  the comment that says where a class comes from and how fast it was measured to be
`shared`      which statements all kernels of a file share
`package_kernels`  these in one file of the package
`call_sites`  where a class is constructed, so that an accepted one can take its place
`kernel_test` a pytest file for an accepted class
`diff`        a unified diff for people

Invariants: nothing is executed, nothing is written; whatever of the document an edit is not about stays as it
is, byte for byte; what was edited by hand stays; what comes out compiles.
"""
