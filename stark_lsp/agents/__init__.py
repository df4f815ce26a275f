"""What an agent says and where it says it: anchors and their way through edits, and agents that ask a model.

`team`         the agents that a language model answers for: where an attempt of theirs can be followed
`frame`        writes their questions
`observations` past attempts as templates see them
`inputs`       how the inputs of a problem are made, as text
`dialects`     how kernels are asked for, and how a candidate's turn out to be embedded
`lenses`       the side that a plan is asked from
`prompts`      every word that is sent, as templates
`texts`        texts from elsewhere, made fit to be sent or kept
`answers`      reads what comes back
`blocks`       code blocks and JSON in a text
`grounding`    the anchors of a plan, checked
`edits`        what a candidate changed, held against them
`models`       who answers: services, the editor, a transcript

`markers`      the marker comments of the paper's grounded instructions, read and written
`alignment`    what to do when a plan changed more than comments: which lines, and where its spans belong
`tracking`     anchors that stay with their lines while a person edits the document

Invariants: no torch, no LSP, no files except the prompt templates; nothing here runs a candidate.
"""
