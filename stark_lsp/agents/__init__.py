"""What an agent says and where it says it: roles, anchors and their way through edits.

`roles`     the Protocols of plan, code and debug agents (defined in `core`, seen from here)
`anchors`   from a plan's marker comments to lines of the document: the entry point
`markers`   the marker comments of the paper's grounded instructions, read and written
`alignment` what to do when a plan changed more than comments: which lines, and where its spans belong
`tracking`  anchors that stay with their lines while a person edits the document
`prompts`   every word that is sent to a model, as templates

Invariants: no torch, no LSP, no files except the prompt templates; nothing here runs a candidate.
"""
