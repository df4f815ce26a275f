"""The editor's side: a language server that any LSP client can use.

One file for each feature. `app` puts them together and is the only entry point; `language_server`
holds what they share; `desk` owns the runs. Nothing here imports torch, and what a mere start does
not need is imported when it is first used, so that the server answers quickly and stays small.
"""
