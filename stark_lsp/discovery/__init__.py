"""Finding out what can be optimized, from the text alone.

Invariants: nothing here executes user code, imports torch or knows of LSP. Text comes in as the editor
holds it (any line ending, saved or not) and positions go out as 0-based lines of that text. The only
files read are the `pyproject.toml` and `stark.toml` that may describe inputs, and those of the project that base
classes are imported from.

`syntax`    parsing that fails in one way only, and lines as editors and Python both count them
`pieces`    a text cut at its top-level statements, so that an edit is read and nothing else
`outline`   a cheaper text with the same classes
`names`     what a name in the file stands for (`nn` is `torch.nn`, through aliases)
`bases`     the project's file that an imported base class stands in
`classes`   every `nn.Module` class of a file: the entry point for lenses
`inputs`    which inputs belong to which class; `tables` reads them from TOML
`index`     the classes of one open document, from keystroke to keystroke
`slicing`   the part of a document that one class needs
`imports`   import statements put where they belong; `place` finds the line, `layout` has edits of whole lines
`problems`  all of that as a `Problem`: the entry point for a run
`stubs`     a first guess at `get_inputs` for a class that has none; `guesses` is its knowledge
"""
