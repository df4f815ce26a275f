"""The editor's side: a language server that any LSP client can use.

`features/` has one file for each thing that an editor asks for or offers, `runs/` what it is shown of searches,
`proposals/` the way into the document; `text/`, `client/` and `connection/` are what these stand on. `app` puts them
together and is the only entry point; `language_server` holds what they share; `commands` is what a click calls.

Nothing here imports torch, and what a mere start does not need is imported when it is first used, so that the server
answers quickly and stays small.
"""
